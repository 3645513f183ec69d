//! What was put aside is restored, or goes after its time, unless somebody needs it by then.

use rusqlite::Connection;
use sandkeeper::domain::ContainerId;
use sandkeeper::engine::sim::{Fault, FaultRule};
use serde_json::{Value, json};

use super::ground::{bind, in_state, log, recreate, result, see, status};
use crate::support::simulated::SimHost;
use crate::support::terminal::Key;
use crate::support::wait_until;

/// Puts a container aside, and says under which name.
fn quarantine(host: &SimHost, id: &ContainerId, name: &str) -> String {
    let finished = host.sandkeeper(&["rm", "--quarantine", "--yes", "--json", "--grace", "1s", name]).run();
    assert_eq!(result(&finished.json()).0, "quarantined", "{finished}");
    format!("sandkeeper-quarantine-{}-{name}", id.short())
}

#[test]
fn a_quarantined_container_is_restored_with_what_is_in_it() {
    let host = SimHost::new();
    let id = host.sandbox("quiet", "atlas").sleeping().placed();
    host.store.session("s1", "atlas").insert();
    let finished =
        host.sandkeeper(&["rm", "--quarantine", "--yes", "--json", "--grace", "1s", "quiet"]).run();
    assert_eq!(result(&finished.json()).0, "quarantined", "{finished}");
    let named = format!("sandkeeper-quarantine-{}-quiet", id.short());
    assert_eq!(host.names(), std::slice::from_ref(&named));
    assert_eq!(host.state(&id).as_deref(), Some("exited"));

    let report = status(&host);
    let shown = &report["containers"][0];
    assert_eq!((&shown["name"], &shown["status"]), (&json!("quiet"), &json!("stale")), "{report:#}");
    assert_eq!(shown["quarantined_as"], json!(named));
    assert!(shown["reasons"][0].as_str().unwrap().contains("in quarantine since"), "{shown:#}");
    // A clean-up leaves it alone until its time has come.
    let kept = host.sandkeeper(&["reconcile", "--yes", "--json"]).run().expect_exit(0).json();
    assert!(result(&kept).1.contains("in quarantine for"), "{kept:#}");

    let finished = host.sandkeeper(&["undo", "--yes", "--json"]).run().expect_exit(0);
    assert_eq!(result(&finished.json()).0, "restored", "{finished}");
    assert_eq!((host.names(), host.state(&id).as_deref()), (vec!["quiet".to_owned()], Some("running")));
    let actions: Vec<Value> = log(&host).into_iter().map(|entry| entry["action"].clone()).collect();
    assert_eq!(actions, ["quarantine", "restore"]);
}

#[test]
fn what_is_in_quarantine_goes_after_its_time_unless_somebody_needs_it_by_then() {
    let host = SimHost::new();
    host.home
        .write(".config/sandkeeper/config.toml", "[reconcile]\nquarantine = true\nquarantine_for = \"0s\"\n");
    let needed = host.orphan("needed", "atlas");
    let gone = host.orphan("gone", "borealis");
    let finished = host.sandkeeper(&["reconcile", "--yes", "--json"]).run().expect_exit(0);
    assert_eq!(finished.json()["summary"]["quarantined"], 2, "{finished}");

    host.store.session("s1", "atlas").status("active").insert();
    let report = status(&host);
    let lost = &report["lost"][0];
    assert_eq!((&lost["container"], &lost["way_back"]), (&json!("needed"), &json!("restore")), "{report:#}");
    let finished = host.sandkeeper(&["reconcile", "--yes", "--json"]).run().expect_exit(0);
    assert_eq!(finished.json()["summary"]["removed"], 1, "{finished}");
    assert_eq!(host.state(&gone), None);
    assert_eq!(host.state(&needed).as_deref(), Some("exited"), "a live session needs it");
    assert_eq!(result(&recreate(&host, "needed").expect_exit(0).json()).0, "restored");
    assert!(host.names().contains(&"needed".to_owned()), "{:?}", host.names());
}

#[test]
fn what_somebody_has_started_in_quarantine_is_left_alone_after_its_time() {
    let host = SimHost::new();
    host.home.write(".config/sandkeeper/config.toml", "[reconcile]\nquarantine_for = \"0s\"\n");
    host.store.session("s1", "elsewhere").insert();
    let id = host.orphan("box", "atlas");
    let named = quarantine(&host, &id, "box");
    let client = crate::support::client::Client::new(host.engine.socket());
    client.ask("POST", &format!("/containers/{id}/start"), None);
    host.store.session("s2", "other").container(&named).status("active").insert();
    let kept = host.sandkeeper(&["reconcile", "--yes", "--json", "--min-age", "0s"]).run();
    let (ended, reason) = result(&kept.json());
    assert!(ended == "kept" && reason.contains("somebody has started it since"), "{kept}");
    assert_eq!(host.state(&id).as_deref(), Some("running"));
    assert_eq!(status(&host)["lost"], json!([]), "what it names is there");
}

#[test]
fn a_session_that_comes_while_it_is_stopped_keeps_it_out_of_quarantine() {
    let host = SimHost::frozen();
    let id = host.sandbox("slow", "atlas").slow().placed();
    let running = host.sandkeeper(&["rm", "--quarantine", "--yes", "--json", "slow"]).spawn();
    wait_until("it was asked to stop", || {
        host.engine.requests().iter().any(|request| request.contains("/stop"))
    });
    host.store.session("s1", "atlas").status("active").insert();
    host.let_them_end();
    let finished = running.wait();
    let (ending, reason) = result(&finished.json());
    assert_eq!(ending, "rescued", "{finished}");
    assert!(reason.contains("s1"), "{reason}");
    assert_eq!((host.names(), host.state(&id).as_deref()), (vec!["slow".to_owned()], Some("running")));
    let state = Connection::open(host.state_folder().join("state.db")).unwrap();
    let left: i64 = state.query_row("SELECT count(*) FROM quarantines", [], |row| row.get(0)).unwrap();
    assert_eq!(left, 0, "nothing says that it was put aside");
}

#[test]
fn a_rename_that_fails_leaves_it_running_under_its_name() {
    let host = SimHost::new();
    let id = host.sandbox("quiet", "atlas").placed();
    host.engine.fault(FaultRule::on("POST", "/containers/*/rename", Fault::Status(500, "no".to_owned())));
    let finished = host.sandkeeper(&["rm", "--quarantine", "--yes", "--json", "quiet"]).run();
    assert_eq!(result(&finished.json()).0, "failed", "{finished}");
    assert_eq!((host.names(), host.state(&id).as_deref()), (vec!["quiet".to_owned()], Some("running")));
    assert_eq!(status(&host)["containers"][0]["quarantined_as"], Value::Null);
}

#[test]
fn a_removal_is_undone_from_what_was_recorded() {
    let host = SimHost::new();
    let id = host.sandbox("old", "atlas").sleeping().with(true, "Memory", json!(1 << 20)).placed();
    host.sandkeeper(&["rm", "--yes", "--json", "--grace", "1s", "old"]).run().expect_exit(0);
    assert_eq!(host.state(&id), None);
    assert_eq!(status(&host)["lost"], json!([]), "what was removed on purpose is nobody's loss");
    let finished = host.sandkeeper(&["undo", "--yes", "--json"]).run().expect_exit(0);
    let (ending, reason) = result(&finished.json());
    assert_eq!(ending, "recreated", "{finished}");
    assert!(reason.contains("what was written inside the old one"), "{reason}");
    assert_eq!(host.names(), ["old"]);
    let plain = host.sandkeeper(&["undo", "--dry-run"]).run().expect_exit(0);
    plain.expect_stdout("nothing to do");
}

#[test]
fn a_sibling_that_was_there_before_has_not_taken_the_place_of_what_was_removed() {
    let host = SimHost::new();
    for name in ["old", "sibling"] {
        host.sandbox(name, "atlas").sleeping().with(true, "Binds", json!([bind(&host)])).placed();
    }
    host.sandkeeper(&["rm", "--yes", "--json", "--grace", "1s", "old"]).run().expect_exit(0);
    let finished = host.sandkeeper(&["undo", "--yes", "--json"]).run().expect_exit(0);
    assert_eq!(result(&finished.json()).0, "recreated", "{finished}");
    assert_eq!(host.names(), ["old", "sibling"]);
}

#[test]
fn a_removal_by_key_is_put_aside_or_undone_by_key() {
    let host = SimHost::new();
    host.sandbox("old", "atlas").sleeping().placed();
    let terminal = host.dashboard(&[]);
    terminal.wait_for("1 orphaned").type_keys("jX").wait_for("Remove: 1 to change").send(b"\x1b[18~");
    terminal.wait_for("Quarantine: 1 to change").type_keys("y").wait_for("quarantine is over: 1 quarantined");
    terminal.press(Key::Enter).wait_gone("[ Close ]").wait_for("in quarantine since").wait_for("1 stale");
    terminal.type_keys("U").wait_for("Undo: 1 to change").type_keys("y").wait_for("undo is over: 1 restored");
    terminal.press(Key::Enter).wait_gone("[ Close ]").wait_for("1 idle");
    assert_eq!(host.names(), ["old"]);
    terminal.quit();
    host.sandkeeper(&["--min-age", "0s", "rm", "--yes", "--json", "--grace", "1s", "old"])
        .run()
        .expect_exit(0);
    let terminal = host.dashboard(&[]);
    terminal
        .wait_for("No container of a known system")
        .type_keys("U")
        .wait_for("Undo: 1 to change")
        .wait_for("comes back");
    terminal.type_keys("y").wait_for("undo is over: 1 recreated").press(Key::Enter).wait_gone("[ Close ]");
    assert_eq!(host.names(), ["old"]);
    terminal.quit();
}

#[test]
fn a_quarantine_that_is_not_recorded_any_more_is_unknown_and_stays() {
    let host = SimHost::new();
    let id = host.sandbox("quiet", "atlas").sleeping().placed();
    let named = quarantine(&host, &id, "quiet");
    in_state(&host, "DELETE FROM quarantines");
    let report = status(&host);
    assert_eq!(report["containers"][0]["status"], "unknown", "{report:#}");
    assert!(report["containers"][0]["reasons"].to_string().contains("in quarantine"), "{report:#}");
    host.sandkeeper(&["reconcile", "--yes", "--json"]).run();
    host.sandkeeper(&["rm", "--yes", "--json", "--grace", "1s", &named]).run();
    assert_eq!(host.names(), [named]);
}

#[test]
fn a_quarantine_that_cannot_be_read_is_said_and_lets_nothing_go() {
    let host = SimHost::new();
    let id = host.sandbox("quiet", "atlas").sleeping().placed();
    quarantine(&host, &id, "quiet");
    in_state(&host, "ALTER TABLE quarantines RENAME COLUMN until TO later");
    let report = status(&host);
    assert_eq!(report["containers"][0]["status"], "unknown", "{report:#}");
    let terminal = host.dashboard(&[]);
    terminal.wait_for("what was lost or put aside").quit();
}

#[test]
fn a_line_that_is_left_over_says_nothing_about_a_container_with_its_own_name() {
    let host = SimHost::new();
    let id = host.idle("quiet", "atlas");
    see(&host);
    let named = format!("sandkeeper-quarantine-{}-quiet", id.short());
    let endpoint = host.endpoint();
    in_state(
        &host,
        &format!("INSERT INTO quarantines VALUES ('{endpoint}', '{id}', 'quiet', '{named}', 0, 'me', 0, 1)"),
    );
    let finished = host.sandkeeper(&["rm", "--yes", "--json", "--grace", "1s", "quiet"]).run();
    assert_eq!(result(&finished.json()).0, "removed", "{finished}");
}
