//! Coming back, on the simulated engine: what is lost is made again, what fails leaves things as they were, what was put
//! aside is restored or goes after its time, and no secret is told on the way.

#![allow(clippy::unwrap_used, reason = "the helpers below are part of the tests")]

mod support;

use std::os::unix::fs::PermissionsExt;

use rusqlite::Connection;
use sandkeeper::domain::ContainerId;
use sandkeeper::engine::sim::{Fault, FaultRule, Placed};
use serde_json::{Value, json};
use support::simulated::SimHost;
use support::terminal::Key;
use support::{seconds, wait_until};

/// A value that nobody may ever be shown.
const CANARY: &str = "canary-5up3r-53cr3t";

/// A lasting container with a live session that does not name it, and with every kind of option.
fn lasting(host: &SimHost, name: &str) -> ContainerId {
    host.store.session(&format!("{name}-session"), name).status("active").insert();
    host.sandbox(name, name)
        .sleeping()
        .with(false, "Env", json!(["PATH=/bin", format!("API_TOKEN={CANARY}")]))
        .with(false, "User", json!("1000:1000"))
        .with(true, "Memory", json!(268_435_456))
        .with(true, "CapAdd", json!(["NET_ADMIN"]))
        .with(true, "Binds", json!(["/srv/atlas:/work"]))
        .with(true, "Tmpfs", json!({ "/scratch": "" }))
        .placed()
}

/// Lets sandkeeper see the host once, as every acting command does.
fn see(host: &SimHost) {
    host.sandkeeper(&["reconcile", "--yes", "--json"]).run().expect_exit(0);
}

fn remove_behind_our_back(host: &SimHost, id: &ContainerId) {
    host.engine.act(|world, now| world.remove(now, id.as_str(), true)).unwrap();
}

fn status(host: &SimHost) -> Value {
    host.sandkeeper(&["status", "--json"]).run().json()
}

fn recreate(host: &SimHost, target: &str) -> support::program::Finished {
    host.sandkeeper(&["recreate", "--yes", "--json", target]).deadline(seconds(120)).run()
}

fn result(report: &Value) -> (String, String) {
    let outcome = &report["outcomes"][0];
    (outcome["result"].as_str().unwrap().to_owned(), outcome["reason"].as_str().unwrap().to_owned())
}

fn log(host: &SimHost) -> Vec<Value> {
    host.sandkeeper(&["log", "--json"]).run().expect_exit(0).json().as_array().unwrap().clone()
}

#[test]
fn a_container_that_is_removed_from_outside_is_lost_and_made_again() {
    let host = SimHost::new();
    let id = lasting(&host, "atlas");
    see(&host);
    let before = host.engine.look(|world, _| {
        let container = world.find(id.as_str()).unwrap();
        (container.labels.clone(), container.image_id.clone())
    });
    remove_behind_our_back(&host, &id);

    let report = status(&host);
    let lost = &report["lost"][0];
    assert_eq!((&lost["container"], &lost["way_back"]), (&json!("atlas"), &json!("recreate")), "{report:#}");
    let reasons = lost["reasons"].to_string();
    assert!(reasons.contains("is live") && reasons.contains("last seen"), "{reasons}");

    let finished = recreate(&host, "atlas").expect_exit(0);
    let (ending, reason) = result(&finished.json());
    assert_eq!(ending, "recreated", "{finished}");
    assert!(reason.contains("what was written inside") && reason.contains("/scratch"), "{reason}");
    let after = host.engine.look(|world, _| {
        let container = world.find("atlas").unwrap();
        assert_ne!(container.id, id.as_str());
        assert_eq!(container.phase.word(), "running");
        (container.labels.clone(), container.image_id.clone())
    });
    assert_eq!(after, before);
    let inspected = host.sandkeeper(&["status", "--json"]).run().expect_exit(0).json();
    assert_eq!(inspected["lost"], json!([]), "{inspected:#}");
    assert_eq!(host.names(), ["atlas"]);
    assert!(log(&host).iter().any(|entry| entry["action"] == "recreate"), "it is in the journal");

    // And once more: what was made is recorded as well.
    remove_behind_our_back(
        &host,
        &ContainerId::parse(&host.engine.look(|w, _| w.find("atlas").unwrap().id.clone())).unwrap(),
    );
    assert_eq!(result(&recreate(&host, "atlas-session").expect_exit(0).json()).0, "recreated");
}

#[test]
fn what_is_made_again_is_no_newer_configuration() {
    let host = SimHost::new();
    host.store.session("s-1", "atlas").status("active").insert();
    let old = host.sandbox("atlas", "atlas").label("sandkeeper.config-hash", "old").sleeping().placed();
    let labels = [
        ("sandkeeper.managed", "true"),
        ("sandkeeper.workspace", "borealis"),
        ("sandkeeper.config-hash", "new"),
    ];
    host.place("current", &labels, "running", 120);
    host.store.session("s-2", "borealis").status("idle").insert();
    let outdated = || {
        let report = status(&host);
        let containers = report["containers"].as_array().unwrap();
        let outdated = containers.iter().filter(|container| container["outdated"] == true);
        outdated.map(|container| container["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(outdated(), ["atlas"]);
    see(&host);
    remove_behind_our_back(&host, &old);
    assert_eq!(result(&recreate(&host, "atlas").expect_exit(0).json()).0, "recreated");
    assert_eq!(outdated(), ["atlas"], "it is still the old one, although it was made last");
    // Nor when what was made again is made once more.
    let again = ContainerId::parse(&host.engine.look(|w, _| w.find("atlas").unwrap().id.clone())).unwrap();
    remove_behind_our_back(&host, &again);
    assert_eq!(result(&recreate(&host, "atlas").expect_exit(0).json()).0, "recreated");
    assert_eq!(outdated(), ["atlas"]);
}

#[test]
fn when_somebody_was_faster_his_container_is_adopted_and_started() {
    let host = SimHost::new();
    let id = lasting(&host, "atlas");
    see(&host);
    let labels = host.engine.look(|world, _| world.find(id.as_str()).unwrap().labels.clone());
    let image = host.engine.look(|world, _| world.find(id.as_str()).unwrap().image.clone());
    remove_behind_our_back(&host, &id);
    let other = host.engine.act(|world, now| {
        world.place(Placed {
            name: "atlas-again".to_owned(),
            image,
            labels,
            command: vec!["sleep".to_owned(), "1000".to_owned()],
            program: sandkeeper::engine::sim::Program::service(),
            host_config: json!({ "Binds": ["/srv/atlas:/work"] }).as_object().unwrap().clone(),
            state: "exited".to_owned(),
            created_at: now,
            ..Placed::default()
        })
    });
    let finished = recreate(&host, "atlas").expect_exit(0);
    let (ending, reason) = result(&finished.json());
    assert_eq!(ending, "adopted", "{finished}");
    assert!(reason.contains("atlas-again"), "{reason}");
    assert_eq!(host.names(), ["atlas-again"]);
    let state = host.engine.look(|world, _| world.find(&other).unwrap().phase.word().to_owned());
    assert_eq!(state, "running");
}

#[test]
fn what_an_interrupted_attempt_has_made_is_taken_up_and_gets_the_name() {
    let host = SimHost::new();
    let id = lasting(&host, "atlas");
    see(&host);
    let labels = host.engine.look(|world, _| world.find(id.as_str()).unwrap().labels.clone());
    remove_behind_our_back(&host, &id);
    host.engine.act(|world, now| {
        world.place(Placed {
            name: format!("sandkeeper-recreate-{}-0badcafe", id.short()),
            image: "sandbox:latest".to_owned(),
            labels,
            command: vec!["sleep".to_owned(), "1000".to_owned()],
            program: sandkeeper::engine::sim::Program::service(),
            state: "created".to_owned(),
            created_at: now,
            ..Placed::default()
        })
    });
    let finished = recreate(&host, "atlas").expect_exit(0);
    assert_eq!(result(&finished.json()).0, "adopted", "{finished}");
    assert_eq!(host.names(), ["atlas"]);
    assert_eq!(host.engine.look(|world, _| world.find("atlas").unwrap().phase.word().to_owned()), "running");
}

#[test]
fn whatever_fails_leaves_things_as_they_were() {
    let refuse = |status: u16, words: &str| Fault::Status(status, format!("{words} with {CANARY}"));
    let cases: Vec<(&str, Vec<FaultRule>, &str)> = vec![
        (
            "the image is gone",
            vec![FaultRule::on("GET", "/images/*/json", refuse(404, "no such image"))],
            "its image sandbox:latest is gone",
        ),
        (
            "the create fails",
            vec![FaultRule::on("POST", "/containers/create", refuse(500, "no space"))],
            "could not be made",
        ),
        (
            "the create is done and its answer lost",
            vec![FaultRule::on("POST", "/containers/create", Fault::CutConnection(0))],
            "could not be made",
        ),
        (
            "the start fails",
            vec![FaultRule::on("POST", "/containers/*/start", refuse(500, "no cgroup"))],
            "could not be started",
        ),
        (
            "the list fails",
            vec![FaultRule::on("GET", "/containers/json", Fault::Status(500, "no list".to_owned())).nth(2)],
            "cannot be asked",
        ),
        (
            "whether somebody was faster cannot be told once it is made",
            vec![FaultRule::on("GET", "/containers/json", Fault::Status(500, "no list".to_owned())).nth(4)],
            "cannot be asked",
        ),
    ];
    for (case, faults, expected) in cases {
        let host = SimHost::new();
        let id = lasting(&host, "atlas");
        let bystander = host.active("bystander", "elsewhere-too");
        see(&host);
        remove_behind_our_back(&host, &id);
        let before = host.names();
        for fault in faults {
            host.engine.fault(fault);
        }
        let finished = recreate(&host, "atlas");
        host.engine.recover();
        let (ending, reason) = result(&finished.json());
        assert_eq!(ending, "failed", "{case}: {finished}");
        assert!(reason.contains(expected), "{case}: {reason}");
        assert!(!finished.to_string().contains(CANARY), "{case}: {finished}");
        assert_eq!(host.names(), before, "{case}: something is left behind, or gone");
        assert_eq!(host.state(&bystander).as_deref(), Some("running"), "{case}");
        // Nothing of it stands in the way of the next attempt.
        assert_eq!(result(&recreate(&host, "atlas").expect_exit(0).json()).0, "recreated", "{case}");
    }
}

#[test]
fn a_name_that_somebody_else_has_taken_is_his() {
    let host = SimHost::new();
    let id = lasting(&host, "atlas");
    see(&host);
    remove_behind_our_back(&host, &id);
    let stranger = host.sandbox("atlas", "somewhere-else").sleeping().placed();
    let finished = host.sandkeeper(&["recreate", "--yes", "--json", id.as_str()]).run();
    let (ending, reason) = result(&finished.json());
    assert_eq!(ending, "failed", "{finished}");
    assert!(reason.contains("its name atlas is taken by another container"), "{reason}");
    assert_eq!(host.names(), ["atlas"]);
    assert_eq!(host.state(&stranger).as_deref(), Some("running"));
}

#[test]
fn what_goes_with_its_sessions_is_reported_and_not_brought_back() {
    let host = SimHost::new();
    let id = host.sandbox("passing", "atlas").sleeping().label("sandkeeper.persistent", "false").placed();
    host.store.session("s1", "atlas").container("passing").status("active").insert();
    see(&host);
    remove_behind_our_back(&host, &id);
    let report = status(&host);
    assert_eq!(report["lost"][0]["way_back"], "not_persistent", "{report:#}");
    let finished = recreate(&host, "passing").expect_exit(3);
    let (ending, reason) = result(&finished.json());
    assert_eq!(ending, "kept", "{finished}");
    assert!(reason.contains("goes with its sessions"), "{reason}");
    assert_eq!(host.names(), [""; 0]);
}

#[test]
fn an_ordinary_end_is_no_loss() {
    let host = SimHost::new();
    // Its command failed, and its session is over.
    host.store.session("over", "atlas").ended_ago(60).insert();
    host.sandbox("failed", "atlas").exited().placed();
    // Somebody stopped it while its session is live: whoever uses it next starts it.
    let stopped = host.active("stopped", "borealis");
    let terminal = host.dashboard(&[]);
    terminal.wait_for("stopped").wait_for("1 active");
    host.sandkeeper(&["stop", "--yes", "--json", "--even-if-live", "1", "stopped"]).run().expect_exit(0);
    terminal.wait_until("it is seen to have ended", |screen| {
        screen.lines().any(|line| line.contains("stopped ") && line.contains("exited"))
    });
    assert!(!terminal.screen().contains("1 lost"), "{}", terminal.screen());
    assert_eq!(host.state(&stopped).as_deref(), Some("exited"));
    // One that dies under its session is one.
    let killed = lasting(&host, "killed");
    terminal.wait_for("killed");
    host.engine
        .act(|world, now| world.signal(now, killed.as_str(), sandkeeper::engine::sim::Signal::KILL))
        .unwrap();
    terminal.wait_for("1 lost");
    terminal.quit();
    assert_eq!(status(&host)["lost"], json!([]), "without the events nobody can tell it from a stop");
    // The operator may start it all the same.
    assert_eq!(result(&recreate(&host, "killed").expect_exit(0).json()).0, "started");
    assert_eq!(host.state(&killed).as_deref(), Some("running"));
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
fn a_session_that_comes_while_it_is_stopped_keeps_it_out_of_quarantine() {
    let host = SimHost::frozen();
    let id = host.sandbox("slow", "atlas").slow().placed();
    let running = host.sandkeeper(&["rm", "--quarantine", "--yes", "--json", "slow"]).spawn();
    wait_until(seconds(60), "it was asked to stop", || {
        host.engine.requests().iter().any(|request| request.contains("/stop"))
    });
    host.store.session("s1", "atlas").status("active").insert();
    host.let_them_end();
    let finished = running.wait(seconds(60));
    let (ending, reason) = result(&finished.json());
    assert_eq!(ending, "rescued", "{finished}");
    assert!(reason.contains("s1"), "{reason}");
    assert_eq!((host.names(), host.state(&id).as_deref()), (vec!["slow".to_owned()], Some("running")));
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
fn healing_brings_back_once_and_gives_up_after_three_failures() {
    let host = SimHost::new();
    host.home.write(".config/sandkeeper/config.toml", "[recovery]\nheal = [\"native\"]\n");
    let id = lasting(&host, "atlas");
    see(&host);
    remove_behind_our_back(&host, &id);
    host.sandkeeper(&["--read-only", "heal", "--once"]).run().expect_exit(1).expect_stderr("read-only");
    assert_eq!(host.names(), [""; 0]);
    let finished = host.sandkeeper(&["heal", "--once", "--json"]).run().expect_exit(0);
    assert_eq!(result(&finished.json()).0, "recreated", "{finished}");
    let again = host.sandkeeper(&["heal", "--once", "--json"]).run().expect_exit(0).json();
    assert_eq!(again["outcomes"], json!([]), "once is enough");

    let made = host.engine.look(|world, _| ContainerId::parse(&world.find("atlas").unwrap().id).unwrap());
    remove_behind_our_back(&host, &made);
    host.engine.fault(FaultRule::on(
        "POST",
        "/containers/create",
        Fault::Status(500, "no space left".to_owned()),
    ));
    let given_up = host.sandkeeper(&["heal", "--once", "--json"]).deadline(seconds(120)).run().expect_exit(3);
    let (_, reason) = result(&given_up.json());
    assert!(reason.contains("given up after 3 failures") && reason.contains("no space left"), "{given_up}");
    let creates = || host.engine.mutations().iter().filter(|r| r.contains("/containers/create")).count();
    assert_eq!(creates(), 3, "one that worked and did not last, and two that failed");
    let last = host.sandkeeper(&["heal", "--once", "--json"]).run().expect_exit(3);
    assert_eq!(creates(), 3, "{last}");
    // The operator may try again.
    host.engine.recover();
    assert_eq!(result(&recreate(&host, "atlas").expect_exit(0).json()).0, "recreated");
}

#[test]
fn a_running_dashboard_shows_a_loss_brings_it_back_by_key_and_heals_only_if_allowed() {
    let host = SimHost::new();
    let id = lasting(&host, "atlas");
    let terminal = host.dashboard(&[]);
    terminal.wait_for("1 active");
    wait_until(seconds(60), "it is recorded", || recorded(&host) == 1);
    remove_behind_our_back(&host, &id);
    terminal.wait_for("1 lost").type_keys("jC").wait_for("Recreate: 1 to change").type_keys("y");
    terminal.wait_for("recreate is over: 1 recreated").press(Key::Enter).wait_gone("[ Close ]");
    terminal.wait_gone("1 lost").wait_for("1 active");
    // Remove it by key, and take that back.
    host.store.set_status("atlas-session", "idle");
    terminal.wait_gone("1 active").type_keys("jX");
    terminal.wait_for("within the grace").press(Key::Esc).wait_gone("[ Cancel ]");
    terminal.quit();

    host.store.set_status("atlas-session", "active");
    host.home.write(".config/sandkeeper/config.toml", "[recovery]\nheal = [\"native\"]\n");
    let terminal = host.dashboard(&[]);
    terminal.wait_for("1 active");
    let made = host.engine.look(|world, _| ContainerId::parse(&world.find("atlas").unwrap().id).unwrap());
    remove_behind_our_back(&host, &made);
    terminal.wait_for("recreated atlas");
    assert_eq!(host.names(), ["atlas"]);
    terminal.quit();
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
fn a_preview_tells_what_a_removal_would_lose() {
    let host = SimHost::new();
    let folder = host.home.path().join("project");
    std::fs::create_dir_all(&folder).unwrap();
    let git = |arguments: &[&str]| {
        let done = std::process::Command::new("git").args(arguments).current_dir(&folder).output().unwrap();
        assert!(done.status.success(), "{done:?}");
    };
    git(&["init"]);
    std::fs::write(folder.join("draft.txt"), "not committed").unwrap();
    host.sandbox("old", "atlas")
        .exited()
        .changed(&["/etc/motd", "/root/notes"], 12_345)
        .with(true, "Binds", json!([format!("{}:/work", folder.display())]))
        .with(true, "Tmpfs", json!({ "/scratch": "" }))
        .placed();
    let plain = host.sandkeeper(&["rm", "--dry-run", "old"]).run().expect_exit(0);
    let plain = plain.expect_stdout("in old: 2 paths changed inside it, 12 kB; memory-backed /scratch");
    plain.expect_stdout("1 uncommitted file in ").expect_stdout("project (it stays on the disk)");
    let terminal = host.dashboard(&[]);
    terminal.wait_for("1 orphaned").type_keys("jX").wait_for("Remove: 1 to change");
    terminal.wait_for("2 paths changed inside it, 12 kB").wait_for("1 uncommitted file in");
    terminal.press(Key::Esc).wait_gone("[ Cancel ]").quit();
    assert_eq!(host.engine.mutations(), [""; 0]);
}

/// How many specs there are.
fn recorded(host: &SimHost) -> i64 {
    let path = host.state_folder().join("state.db");
    if !path.exists() {
        return 0;
    }
    let state = Connection::open(path).unwrap();
    state.query_row("SELECT count(*) FROM specs WHERE spec IS NOT NULL", [], |row| row.get(0)).unwrap_or(0)
}

#[test]
fn specs_are_recorded_only_where_that_is_allowed_and_forgotten_in_time() {
    let host = SimHost::new();
    let id = lasting(&host, "atlas");
    host.sandkeeper(&["--read-only", "status", "--json"]).run().expect_exit(0);
    host.sandkeeper(&["status", "--json"]).run().expect_exit(0);
    assert_eq!(recorded(&host), 0, "looking records nothing");
    host.home.write(".config/sandkeeper/config.toml", "[recovery]\nrecord = false\n");
    see(&host);
    assert_eq!(recorded(&host), 0);
    host.home.write(".config/sandkeeper/config.toml", "");
    see(&host);
    assert_eq!(recorded(&host), 1);
    host.home.write(".config/sandkeeper/config.toml", "[recovery]\nrecord = false\n");
    see(&host);
    assert_eq!(recorded(&host), 0, "what was recorded before is forgotten");
    host.home.write(".config/sandkeeper/config.toml", "");
    see(&host);
    remove_behind_our_back(&host, &id);
    host.home.write(".config/sandkeeper/config.toml", "[recovery]\nkeep = \"0s\"\n");
    host.orphan("another", "borealis");
    see(&host);
    let state = Connection::open(host.state_folder().join("state.db")).unwrap();
    let left: Vec<String> = state
        .prepare("SELECT name FROM specs")
        .unwrap()
        .query_map([], |row| row.get(0))
        .unwrap()
        .map(Result::unwrap)
        .collect();
    assert!(!left.contains(&"atlas".to_owned()), "{left:?}");
}

#[test]
fn a_secret_is_in_the_spec_and_nowhere_else() {
    let host = SimHost::new();
    let id = lasting(&host, "atlas");
    let terminal = host.dashboard(&[]);
    terminal.wait_for("1 active");
    wait_until(seconds(60), "it is recorded", || recorded(&host) == 1);
    remove_behind_our_back(&host, &id);
    terminal.wait_for("1 lost");
    host.engine.fault(
        FaultRule::on("POST", "/containers/create", Fault::Status(400, format!("bad variable {CANARY}")))
            .first(1),
    );
    terminal.type_keys("jC").wait_for("Recreate: 1 to change").type_keys("y").wait_for("1 failed");
    terminal.press(Key::Enter).wait_gone("[ Close ]");
    let mut told = vec![String::from_utf8_lossy(&terminal.raw_bytes()).into_owned()];
    terminal.quit();
    for arguments in [
        &["recreate", "--dry-run", "atlas"][..],
        &["recreate", "--yes", "--json", "atlas"],
        &["status", "--json"],
        &["status"],
        &["log", "--json"],
        &["log"],
        &["doctor"],
    ] {
        told.push(host.sandkeeper(arguments).run().to_string());
    }
    for text in &told {
        assert!(!text.contains(CANARY), "{text}");
    }
    let state = Connection::open(host.state_folder().join("state.db")).unwrap();
    let columns = state
        .prepare(
            "SELECT m.name, c.name FROM sqlite_schema m, pragma_table_info(m.name) c WHERE m.type = 'table'",
        )
        .unwrap()
        .query_map([], |row| Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?)))
        .unwrap()
        .map(Result::unwrap)
        .collect::<Vec<_>>();
    let mut found = Vec::new();
    for (table, column) in columns {
        let sql = format!("SELECT count(*) FROM {table} WHERE CAST({column} AS TEXT) LIKE '%{CANARY}%'");
        let count: i64 = state.query_row(&sql, [], |row| row.get(0)).unwrap();
        if count > 0 {
            found.push(format!("{table}.{column}"));
        }
    }
    assert_eq!(found, ["specs.spec"]);
    let mode = std::fs::metadata(host.state_folder().join("state.db")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

/// The one container that an attempt has made and not named yet.
fn unnamed(host: &SimHost) -> (String, String) {
    host.engine.look(|world, _| {
        let mut made = world.containers().filter(|it| it.name.starts_with("sandkeeper-recreate-"));
        let found = made.next().map(|it| (it.id.clone(), it.phase.word().to_owned()));
        assert!(made.next().is_none(), "more than one was made");
        found.unwrap_or_else(|| panic!("what was made is gone"))
    })
}

#[test]
fn what_runs_once_it_was_made_is_never_taken_away_again() {
    let refuse = || Fault::Status(500, format!("no, said {CANARY}"));
    let rename = || FaultRule::on("POST", "/containers/*/rename", refuse());
    let inspect = || FaultRule::on("GET", "/containers/*/json", refuse());
    // The look at what is lost and the one for its secrets come before anything is made.
    let cases = [
        ("the rename fails", vec![rename()], "could not be named atlas"),
        ("nothing can be inspected any more", vec![rename(), inspect()], "cannot be"),
    ];
    for (case, faults, expected) in cases {
        let host = SimHost::new();
        let id = lasting(&host, "atlas");
        see(&host);
        remove_behind_our_back(&host, &id);
        let blind = faults.len() > 1;
        let running = if blind {
            // It is made and started, and from then on the engine does not say how it is.
            host.engine.fault(FaultRule::on(
                "POST",
                "/containers/*/start",
                Fault::Latency(std::time::Duration::from_secs(8)),
            ));
            let running = host.sandkeeper(&["recreate", "--yes", "--json", "atlas"]).spawn();
            wait_until(seconds(60), "it is being started", || {
                host.engine.requests().iter().any(|request| request.contains("/start"))
            });
            Some(running)
        } else {
            None
        };
        for fault in faults {
            host.engine.fault(fault);
        }
        let finished = match running {
            Some(running) => running.wait(seconds(120)),
            None => recreate(&host, "atlas"),
        };
        let (ending, reason) = result(&finished.json());
        assert_eq!(ending, "failed", "{case}: {finished}");
        assert!(reason.contains(expected) && reason.contains("stays"), "{case}: {reason}");
        assert!(!finished.to_string().contains(CANARY), "{case}: {finished}");
        let deleted = host.engine.mutations().into_iter().any(|request| request.contains("DELETE"));
        assert!(!deleted, "{case}: {:?}", host.engine.mutations());
        let (made, state) = unnamed(&host);
        assert_eq!(state, "running", "{case}");
        // The next attempt takes it up.
        host.engine.recover();
        assert_eq!(result(&recreate(&host, "atlas").expect_exit(0).json()).0, "adopted", "{case}");
        assert_eq!(host.names(), ["atlas"], "{case}");
        assert_eq!(host.engine.look(|world, _| world.find("atlas").unwrap().id.clone()), made, "{case}");
    }
}

#[test]
fn a_create_that_fails_and_cannot_be_looked_for_is_said_to_be_left_behind() {
    let host = SimHost::new();
    let id = lasting(&host, "atlas");
    see(&host);
    remove_behind_our_back(&host, &id);
    let no = || Fault::Status(500, "no".to_owned());
    host.engine.fault(FaultRule::on("POST", "/containers/create", no()));
    host.engine.fault(FaultRule::on("GET", "/containers/json", no()).nth(4));
    let finished = recreate(&host, "atlas");
    let (ending, reason) = result(&finished.json());
    assert_eq!(ending, "failed", "{finished}");
    assert!(reason.contains("could not be made") && reason.contains("may be left behind"), "{reason}");
}

/// Puts a container aside, and says under which name.
fn quarantine(host: &SimHost, id: &ContainerId, name: &str) -> String {
    let finished = host.sandkeeper(&["rm", "--quarantine", "--yes", "--json", "--grace", "1s", name]).run();
    assert_eq!(result(&finished.json()).0, "quarantined", "{finished}");
    format!("sandkeeper-quarantine-{}-{name}", id.short())
}

fn in_state(host: &SimHost, sql: &str) {
    let state = Connection::open(host.state_folder().join("state.db")).unwrap();
    state.execute_batch(sql).unwrap();
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
fn a_rescued_container_is_an_ordinary_one_again() {
    let host = SimHost::frozen();
    let id = host.sandbox("slow", "atlas").slow().placed();
    let running = host.sandkeeper(&["rm", "--quarantine", "--yes", "--json", "slow"]).spawn();
    wait_until(seconds(60), "it was asked to stop", || {
        host.engine.requests().iter().any(|request| request.contains("/stop"))
    });
    host.store.session("s1", "atlas").status("active").insert();
    host.let_them_end();
    assert_eq!(result(&running.wait(seconds(60)).json()).0, "rescued");
    let state = Connection::open(host.state_folder().join("state.db")).unwrap();
    let left: i64 = state.query_row("SELECT count(*) FROM quarantines", [], |row| row.get(0)).unwrap();
    assert_eq!(left, 0, "nothing says that it was put aside");
    drop(state);
    assert_eq!(host.state(&id).as_deref(), Some("running"));
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

#[test]
fn what_somebody_removed_on_purpose_is_not_healed() {
    let host = SimHost::new();
    host.home.write(".config/sandkeeper/config.toml", "[recovery]\nheal = [\"native\"]\n");
    let id = host.sandbox("atlas", "atlas").sleeping().placed();
    host.store.session("s1", "atlas").container("atlas").status("active").insert();
    see(&host);
    let finished =
        host.sandkeeper(&["rm", "--force", "--even-if-live", "1", "--yes", "--json", "atlas"]).run();
    assert_eq!(result(&finished.json()).0, "removed", "{finished}");
    let healed = host.sandkeeper(&["heal", "--once", "--json"]).run().expect_exit(0).json();
    assert_eq!((&healed["outcomes"], host.names().len()), (&json!([]), 0), "{healed:#}");
    assert_eq!(host.state(&id), None);
    // Whoever wants it back says so.
    assert_eq!(result(&recreate(&host, "atlas").expect_exit(0).json()).0, "recreated");
}

#[test]
fn no_part_of_a_secret_is_told_in_whatever_form_an_engine_quotes_it() {
    let host = SimHost::new();
    host.store.session("s1", "atlas").status("active").insert();
    let short = "abcd";
    let (long, quoted) = (format!("abcd{CANARY}"), format!("line\n\"{CANARY}<ta1l>"));
    let id = host
        .sandbox("atlas", "atlas")
        .sleeping()
        .with(false, "Env", json!([format!("A={short}"), format!("B={long}"), format!("C={quoted}")]))
        .placed();
    see(&host);
    let written = json!(quoted).to_string();
    let written = written.trim_matches('"');
    let numbered = written.replace('<', "\\u003c").replace('>', "\\u003e");
    let words = format!("bad {long} and {written} and {numbered}");
    let told = |finished: support::program::Finished| {
        let text = finished.to_string();
        assert_eq!(result(&finished.json()).0, "failed", "{text}");
        assert!(!text.contains(CANARY) && !text.contains("ta1l"), "{text}");
    };
    // Made again, and started again.
    remove_behind_our_back(&host, &id);
    host.engine.fault(FaultRule::on("POST", "/containers/create", Fault::Status(400, words.clone())));
    told(recreate(&host, "atlas"));
    host.engine.recover();
    assert_eq!(result(&recreate(&host, "atlas").expect_exit(0).json()).0, "recreated");
    host.sandkeeper(&["stop", "--yes", "--min-age", "0s", "--json", "--even-if-live", "1", "atlas"])
        .run()
        .expect_exit(0);
    host.engine.fault(FaultRule::on("POST", "/containers/*/start", Fault::Status(500, words)));
    told(recreate(&host, "atlas"));
    let journal = host.sandkeeper(&["log", "--json"]).run().to_string();
    assert!(!journal.contains(CANARY) && !journal.contains("ta1l"), "{journal}");
}

#[test]
fn what_nobody_misses_any_more_is_not_made_again() {
    let host = SimHost::new();
    let id = lasting(&host, "atlas");
    let terminal = host.dashboard(&[]);
    terminal.wait_for("1 active");
    wait_until(seconds(60), "it is recorded", || recorded(&host) == 1);
    remove_behind_our_back(&host, &id);
    terminal.wait_for("1 lost").type_keys("jC").wait_for("Recreate: 1 to change");
    // While the question waits for its answer, the session gets another container, made in another way.
    host.sandbox("other", "atlas").label("made", "otherwise").sleeping().placed();
    terminal.type_keys("y").wait_for("1 skipped").press(Key::Enter).wait_gone("[ Close ]");
    assert_eq!(host.names(), ["other"]);
    terminal.quit();
}

#[test]
fn an_archive_is_never_written_through_a_link_that_lies_in_wait() {
    let host = SimHost::new();
    let id = host.orphan("old", "atlas");
    let folder = host.home.path().join("saved");
    std::fs::create_dir_all(&folder).unwrap();
    let precious = host.home.path().join("precious");
    std::fs::write(&precious, "untouched").unwrap();
    let waiting = folder.join(format!("old-{}.tar.part", id.short()));
    std::os::unix::fs::symlink(&precious, &waiting).unwrap();
    let folder = folder.to_str().unwrap();
    let both = host.sandkeeper(&["rm", "--quarantine", "--export", folder, "--yes", "old"]).run();
    both.expect_exit(2).expect_stderr("cannot be used with");
    let finished = host.sandkeeper(&["rm", "--export", folder, "--yes", "--json", "old"]).run();
    assert_eq!(result(&finished.json()).0, "removed", "{finished}");
    assert_eq!(std::fs::read_to_string(&precious).unwrap(), "untouched");
    let saved = std::path::Path::new(folder).join(format!("old-{}.tar", id.short()));
    let saved = saved.symlink_metadata().unwrap();
    assert!(saved.is_file(), "{saved:?}");
    assert_eq!(saved.permissions().mode() & 0o777, 0o600);
}

#[test]
fn healing_gives_up_what_starts_and_does_not_last() {
    let host = SimHost::new();
    host.home.write(".config/sandkeeper/config.toml", "[recovery]\nheal = [\"native\"]\n");
    let mut id = lasting(&host, "atlas");
    see(&host);
    for round in 1..=3 {
        remove_behind_our_back(&host, &id);
        let healed = host.sandkeeper(&["heal", "--once", "--json"]).deadline(seconds(120)).run();
        assert_eq!(result(&healed.json()).0, "recreated", "round {round}: {healed}");
        id = host.engine.look(|world, _| ContainerId::parse(&world.find("atlas").unwrap().id).unwrap());
    }
    remove_behind_our_back(&host, &id);
    let healed = host.sandkeeper(&["heal", "--once", "--json"]).deadline(seconds(120)).run().expect_exit(3);
    let (ending, reason) = result(&healed.json());
    assert_eq!(ending, "kept", "{healed}");
    assert!(reason.contains("given up") && reason.contains("did not last"), "{reason}");
    assert_eq!(host.names(), [""; 0]);
}

#[test]
fn of_several_that_a_session_had_one_after_the_other_only_the_last_is_lost() {
    let host = SimHost::new();
    host.home.write(".config/sandkeeper/config.toml", "[recovery]\nheal = [\"native\"]\n");
    host.store.session("s1", "atlas").status("active").insert();
    for name in ["first", "second"] {
        let id = host.sandbox(name, "atlas").sleeping().placed();
        see(&host);
        remove_behind_our_back(&host, &id);
    }
    let lost = status(&host)["lost"].clone();
    assert_eq!(
        (lost.as_array().map(Vec::len), &lost[0]["container"]),
        (Some(1), &json!("second")),
        "{lost:#}"
    );
    host.sandkeeper(&["heal", "--once", "--json"]).run().expect_exit(0);
    assert_eq!(host.names(), ["second"]);
}

#[test]
fn a_session_with_a_container_that_runs_misses_no_older_one() {
    let host = SimHost::new();
    host.store.session("s1", "atlas").status("active").insert();
    let id = host.sandbox("old", "atlas").sleeping().placed();
    host.sandbox("new", "atlas").sleeping().placed();
    let terminal = host.dashboard(&[]);
    terminal.wait_for("2 active");
    host.engine
        .act(|world, now| world.signal(now, id.as_str(), sandkeeper::engine::sim::Signal::KILL))
        .unwrap();
    terminal.wait_until("it is seen to have ended", |screen| {
        screen.lines().any(|line| line.contains("old ") && line.contains("exited"))
    });
    assert!(!terminal.screen().contains("1 lost"), "{}", terminal.screen());
    terminal.quit();
}

#[test]
fn what_may_be_a_strangers_is_neither_recorded_nor_healed() {
    let host = SimHost::new();
    host.home.write(".config/sandkeeper/config.toml", "[recovery]\nheal = [\"native\"]\n");
    host.store.session("s1", "atlas").status("active").insert();
    // Its labels come from its image: anybody may have made it.
    let labels = [("sandkeeper.managed", "true"), ("sandkeeper.workspace", "atlas")];
    let labels: std::collections::BTreeMap<String, String> =
        labels.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
    let stranger = host.engine.act(|world, now| {
        world.build(now, "stranger:latest", labels.clone());
        let command = vec!["sleep".to_owned(), "1000".to_owned()];
        world.place(Placed {
            name: "stranger".to_owned(),
            image: "stranger:latest".to_owned(),
            labels,
            program: sandkeeper::engine::sim::Program::of_command(&command).unwrap(),
            command,
            state: "running".to_owned(),
            created_at: now,
            ..Placed::default()
        })
    });
    let stranger = ContainerId::parse(&stranger).unwrap();
    // What is ours is recorded beside it.
    lasting(&host, "ours");
    let terminal = host.dashboard(&[]);
    terminal.wait_for("1 unknown").wait_for("1 active");
    wait_until(seconds(60), "ours is recorded", || recorded(&host) > 0);
    remove_behind_our_back(&host, &stranger);
    terminal.wait_gone("1 unknown");
    assert!(!terminal.screen().contains("1 lost"), "{}", terminal.screen());
    terminal.quit();
    assert_eq!(recorded(&host), 1);
    host.sandkeeper(&["heal", "--once", "--json"]).run().expect_exit(0);
    assert_eq!(host.names(), ["ours"]);
}

#[test]
fn healing_tells_a_kill_from_a_stop_by_what_the_engine_remembers() {
    let host = SimHost::new();
    host.home.write(".config/sandkeeper/config.toml", "[recovery]\nheal = [\"native\"]\n");
    let (killed, stopped) = (lasting(&host, "killed"), lasting(&host, "stopped"));
    see(&host);
    host.engine
        .act(|world, now| world.signal(now, killed.as_str(), sandkeeper::engine::sim::Signal::KILL))
        .unwrap();
    // It does not listen, and is killed after its grace: an ordinary stop all the same.
    host.sandkeeper(&["stop", "--yes", "--json", "--grace", "1s", "--even-if-live", "1", "stopped"])
        .run()
        .expect_exit(0);
    let healed = host.sandkeeper(&["heal", "--once", "--json"]).run().expect_exit(0);
    assert_eq!(result(&healed.json()).0, "started", "{healed}");
    assert_eq!(host.state(&killed).as_deref(), Some("running"));
    assert_eq!(host.state(&stopped).as_deref(), Some("exited"), "somebody wanted it so");
}
