//! Nothing comes back on a folder that is not there: an engine would put an empty one in its place, and nobody would notice.

use std::fs;
use std::path::PathBuf;

use serde_json::json;

use super::ground::{bind, lasting, recreate, remove_behind_our_back, result, see, shared};
use crate::support::engine::{Kind, RealEngine};
use crate::support::kept::KeptHost;
use crate::support::on_both_engines;
use crate::support::simulated::SimHost;

on_both_engines![
    nothing_is_made_again_on_a_folder_that_has_moved_away,
    nothing_is_started_again_on_a_folder_that_has_moved_away,
];

/// Moves the shared folder away.
fn away(host: &SimHost) -> PathBuf {
    let away = host.home.path().join("moved");
    fs::rename(shared(host), &away).unwrap();
    away
}

#[test]
fn a_missing_folder_is_named_and_nothing_is_made() {
    let host = SimHost::new();
    let id = lasting(&host, "atlas");
    see(&host);
    remove_behind_our_back(&host, &id);
    let away = away(&host);
    let before = host.engine.mutations();
    let (ending, reason) = result(&recreate(&host, "atlas").expect_exit(3).json());
    assert_eq!(ending, "failed");
    assert!(
        reason.contains(&shared(&host).display().to_string()) && reason.contains("not there"),
        "{reason}"
    );
    assert_eq!(host.engine.mutations(), before, "the engine was asked for nothing");
    assert!(!shared(&host).exists());
    fs::rename(away, shared(&host)).unwrap();
    assert_eq!(result(&recreate(&host, "atlas").expect_exit(0).json()).0, "recreated");
}

#[test]
fn what_we_removed_is_not_undone_on_a_missing_folder() {
    let host = SimHost::new();
    host.sandbox("old", "atlas").sleeping().with(true, "Binds", json!([bind(&host)])).placed();
    host.sandkeeper(&["rm", "--yes", "--json", "--grace", "1s", "old"]).run().expect_exit(0);
    away(&host);
    let before = host.engine.mutations();
    let (ending, reason) = result(&host.sandkeeper(&["undo", "--yes", "--json"]).run().expect_exit(3).json());
    assert!(ending == "failed" && reason.contains("not there"), "{reason}");
    assert_eq!(host.engine.mutations(), before);
}

#[test]
fn what_was_put_aside_stays_there_while_its_folder_is_missing() {
    let host = SimHost::new();
    let id = host.sandbox("quiet", "atlas").sleeping().with(true, "Binds", json!([bind(&host)])).placed();
    host.sandkeeper(&["rm", "--quarantine", "--yes", "--json", "--grace", "1s", "quiet"])
        .run()
        .expect_exit(0);
    let away = away(&host);
    let before = host.engine.mutations();
    let (ending, reason) = result(&host.sandkeeper(&["undo", "--yes", "--json"]).run().expect_exit(3).json());
    assert!(ending == "failed" && reason.contains("not there"), "{reason}");
    assert_eq!(host.engine.mutations(), before, "it kept its name, and was not started");
    assert_eq!(host.state(&id).as_deref(), Some("exited"));
    fs::rename(away, shared(&host)).unwrap();
    assert_eq!(
        result(&host.sandkeeper(&["undo", "--yes", "--json"]).run().expect_exit(0).json()).0,
        "restored"
    );
}

#[test]
fn what_has_ended_is_not_started_while_its_folder_is_missing() {
    let host = SimHost::new();
    let sandbox = host.sandbox("ended", "atlas").sleeping().with(true, "Binds", json!([bind(&host)]));
    let id = sandbox.exited().placed();
    away(&host);
    let (ending, reason) = result(&recreate(&host, "ended").expect_exit(3).json());
    assert!(ending == "failed" && reason.contains("not there"), "{reason}");
    assert_eq!(host.engine.mutations(), [""; 0]);
    assert_eq!(host.state(&id).as_deref(), Some("exited"));
}

#[test]
fn an_engine_whose_folders_cannot_be_seen_must_insist_on_them() {
    let host = SimHost::new();
    let id = lasting(&host, "atlas");
    see(&host);
    remove_behind_our_back(&host, &id);
    // Whoever passes everything on need not be on the engine's machine.
    let port = crate::support::port::to_socket(host.engine.socket());
    let store = format!("native={}", host.store.path().display());
    let state = host.state_folder().join("state.db");
    let known = rusqlite::Connection::open(state).unwrap();
    known.execute("UPDATE specs SET host = ?1", [&port]).unwrap();
    drop(known);
    let finished =
        host.home.sandkeeper(["--host", &port, "--db", &store, "recreate", "--yes", "--json", "atlas"]).run();
    assert_eq!(result(&finished.json()).0, "recreated", "{finished}");
    let (binds, mounts) = host.engine.look(|world, _| {
        let made = &world.find("atlas").unwrap().host_config;
        (made.get("Binds").cloned(), made.get("Mounts").cloned())
    });
    assert_eq!(binds, None, "in this form the engine would make it");
    assert_eq!(mounts.unwrap()[0]["Type"], "bind");
}

fn nothing_is_made_again_on_a_folder_that_has_moved_away(engine: &RealEngine) {
    let host = KeptHost::on(engine);
    let folder = host.shared_folder("work");
    let id = host.current("atlas").mount(&folder.display().to_string(), "/work").running();
    let name = host.scene.name("atlas");
    host.acting("rm", &[&name]).run().expect_exit(0);
    assert!(!host.exists(&id));
    let away = folder.with_file_name("moved");
    fs::rename(&folder, &away).unwrap();
    let finished = host.sandkeeper(["undo", "--yes", "--json"]).run().expect_exit(3);
    host.expect_result(&finished, "atlas", "failed", &folder.display().to_string());
    assert!(!folder.exists(), "an empty folder was made: {finished}");
    assert!(engine.containers().is_empty(), "nothing is left over");
    fs::rename(&away, &folder).unwrap();
    let finished = host.sandkeeper(["undo", "--yes", "--json"]).run().expect_exit(0);
    host.expect_result(&finished, "atlas", "recreated", "");
    engine.cli(&["rm", "--force", &name]);
}

fn nothing_is_started_again_on_a_folder_that_has_moved_away(engine: &RealEngine) {
    let host = KeptHost::on(engine);
    let folder = host.shared_folder("work");
    let id = host.current("atlas").mount(&folder.display().to_string(), "/work").running();
    let name = host.scene.name("atlas");
    host.acting("stop", &[&name]).run().expect_exit(0);
    let away = folder.with_file_name("moved");
    fs::rename(&folder, &away).unwrap();
    let finished = host.sandkeeper(["recreate", "--yes", "--json", &name]).run().expect_exit(3);
    host.expect_result(&finished, "atlas", "failed", &folder.display().to_string());
    assert!(!folder.exists(), "an empty folder was made: {finished}");
    assert_eq!(engine.state(&id).as_deref(), Some("exited"));
    // This is why: left to itself, Docker starts it on an empty folder.
    let _ = engine.try_cli(&["start", &id]);
    assert_eq!(folder.exists(), engine.kind == Kind::Docker);
}
