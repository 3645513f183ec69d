//! The demo host: every status, a living first minute, every action, and nothing left behind.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use jiff::Timestamp;
use serde_json::Value;

use crate::support::gate::ask;
use crate::support::native::{container, reasons};
use crate::support::program::{Home, Program};
use crate::support::terminal::{Key, Terminal};
use crate::support::{wait_for, wait_until};
use sandkeeper::demo::{DemoOptions, Scene};
use sandkeeper::domain::{Policy, Snapshot, Status, classify};

/// A home, and a folder for temporary files in it.
struct Desk {
    home: Home,
}

impl Desk {
    fn new() -> Self {
        let home = Home::new();
        fs::create_dir(home.path().join("tmp")).unwrap();
        Self { home }
    }

    fn demo(&self, arguments: &[&str]) -> Program<'_> {
        let program = self.home.sandkeeper(["demo"]).args(arguments);
        program.env("TMPDIR", self.home.path().join("tmp"))
    }

    /// Everything in the home, folders included.
    fn contents(&self) -> BTreeSet<String> {
        let mut found = BTreeSet::new();
        let mut left = vec![self.home.path().to_owned()];
        while let Some(folder) = left.pop() {
            // What is just being removed may be gone by the time it is looked into.
            for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
                let path = entry.path();
                found.insert(path.display().to_string());
                if path.is_dir() {
                    left.push(path);
                }
            }
        }
        found
    }

    fn wait_until_clean(&self, before: &BTreeSet<String>) {
        wait_until("nothing is left behind", || &self.contents() == before);
    }
}

fn noon() -> Timestamp {
    "2026-02-22T12:00:00Z".parse().unwrap()
}

fn picture(scene: &Scene) -> Snapshot {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let snapshot = runtime.block_on(scene.snapshot(noon())).unwrap();
    runtime.shutdown_background();
    snapshot
}

fn statuses(snapshot: &Snapshot) -> Vec<String> {
    let verdicts = classify(snapshot, &Policy::default(), noon());
    let containers = verdicts.containers.iter().map(|verdict| {
        let why: Vec<String> = verdict.evidence.iter().map(ToString::to_string).collect();
        let id = verdict.subject.id().map(ToString::to_string).unwrap_or_default();
        format!("{id} {} {} {}", verdict.subject.name(), verdict.status, why.join("; "))
    });
    let lost = verdicts.lost.iter().map(|lost| format!("{} lost", lost.session));
    containers.chain(lost).collect()
}

#[test]
fn a_still_scene_shows_every_status() {
    let scene = Scene::still(7, noon()).unwrap();
    let verdicts = classify(&picture(&scene), &scene.policy().unwrap(), noon());
    for status in [
        Status::Active,
        Status::Idle,
        Status::Stale,
        Status::Orphaned,
        Status::Draining,
        Status::Lost,
        Status::Unknown,
    ] {
        assert!(verdicts.count(status) > 0, "nothing is {status}");
    }
    assert!((30..=36).contains(&verdicts.containers.len()), "{}", verdicts.containers.len());
    let systems: BTreeSet<String> = verdicts
        .containers
        .iter()
        .filter_map(|verdict| verdict.system.as_ref())
        .map(ToString::to_string)
        .collect();
    assert_eq!(systems.into_iter().collect::<Vec<_>>(), ["hermes", "kojuto", "native", "parachute"]);
    assert!(verdicts.brakes.is_empty(), "{:?}", verdicts.brakes);
    assert!(verdicts.containers.iter().any(|verdict| verdict.status == Status::Active && verdict.outdated));
}

#[test]
fn two_still_scenes_are_alike() {
    let shown = |seed| statuses(&picture(&Scene::still(seed, noon()).unwrap()));
    let (once, again, other) = (shown(7), shown(7), shown(8));
    assert_eq!(once, again);
    assert_ne!(once, other, "another seed makes other ids");
}

#[test]
fn a_scene_takes_its_folder_with_it() {
    let scene = Scene::start(&DemoOptions::default()).unwrap();
    let folder = scene.folder().to_owned();
    assert!(folder.join("engine.sock").exists());
    drop(scene);
    assert!(!folder.exists());

    let still = Scene::still(7, noon()).unwrap();
    let stores = still.stores();
    assert!(stores.len() >= 3 && stores.iter().all(|store| store.starts_with(still.folder())), "{stores:?}");
    drop(still);
    assert!(!stores.iter().any(|store| store.exists()));
}

#[test]
fn a_scene_takes_its_folder_with_it_when_somebody_panics() {
    let (sender, folder) = std::sync::mpsc::channel();
    let panicked = std::thread::spawn(move || {
        let scene = Scene::start(&DemoOptions::default()).unwrap();
        sender.send(scene.folder().to_owned()).unwrap();
        panic!("as the test wants it");
    })
    .join();
    assert!(panicked.is_err());
    assert!(!folder.recv().unwrap().exists());
}

/// The status of a container by its name, or of a session that has lost its own.
fn status_of<'report>(report: &'report Value, name: &str) -> Option<&'report str> {
    let containers = report["containers"].as_array().unwrap().iter();
    let container =
        containers.filter(|each| each["name"] == name).map(|each| each["status"].as_str().unwrap());
    let lost =
        report["lost"].as_array().unwrap().iter().filter(|each| each["session"] == name).map(|_| "lost");
    container.chain(lost).next()
}

#[test]
fn the_first_minute_has_everything() {
    let desk = Desk::new();
    let before = desk.contents();
    let demo = desk.demo(&["--speed", "5", "status", "--watch", "--json"]).spawn();
    let first = demo.next_json();
    for status in ["active", "idle", "stale", "orphaned", "draining", "lost", "unknown"] {
        assert!(first["summary"][status].as_u64() > Some(0), "nothing is {status}: {}", first["summary"]);
    }
    assert_eq!(container(&first, "atelier-pipeline-1")["status"], "draining");
    assert_eq!(container(&first, "atelier-importer-1")["status"], "active");
    // Each of these happens, in whichever picture it is first seen.
    let mut awaited = vec![
        ("a container is gone under its session", "atelier-importer-1", None),
        ("and the session is lost", "at-7f05", Some("lost")),
        ("a drain completes", "atelier-pipeline-1", None),
        ("a new one becomes an orphan", "atelier-onboarding-1", Some("orphaned")),
        ("a scan is left behind", "vigilant_lovelace", Some("orphaned")),
        ("a session ends", "hermes-0c77b3e1", Some("stale")),
    ];
    let mut report = first;
    while !awaited.is_empty() {
        eprintln!("waiting for {awaited:?}");
        report = demo.next_json();
        awaited.retain(|(_, name, status)| status_of(&report, name) != *status);
    }
    let forgotten = container(&report, "atelier-search-1");
    assert_eq!(forgotten["status"], "idle", "a row that is lost does not end its session");
    assert!(forgotten["reasons"].to_string().contains("no longer in the store"), "{forgotten:#}");
    demo.signal("INT");
    demo.wait();
    desk.wait_until_clean(&before);
}

#[test]
fn nothing_is_left_behind_however_it_ends() {
    let desk = Desk::new();
    let before = desk.contents();
    for apart in [false, true] {
        for signal in ["INT", "TERM", "HUP"] {
            let program = desk.demo(&["status", "--watch", "--json"]);
            let program = if apart { program.env("SANDKEEPER_DEMO_APART", "1") } else { program };
            let demo = program.spawn();
            demo.next_json();
            assert_ne!(desk.contents(), before, "there is a folder while it runs");
            demo.signal(signal);
            let finished = demo.wait();
            assert_eq!(finished.signal, None, "{signal} apart={apart}: {finished}");
            desk.wait_until_clean(&before);
        }
    }
    // Even a killed console takes its host with it where that is a process of its own.
    let demo = desk.demo(&["status", "--watch", "--json"]).env("SANDKEEPER_DEMO_APART", "1").spawn();
    demo.next_json();
    demo.signal("KILL");
    demo.wait();
    desk.wait_until_clean(&before);
}

#[test]
fn a_folder_that_was_not_made_for_a_demo_is_not_taken_away() {
    let desk = Desk::new();
    let folder = desk.home.path().join("precious");
    fs::create_dir(&folder).unwrap();
    desk.home.write("precious/work.txt", "years of it");
    let before = desk.contents();
    let finished = desk.demo(&[]).env("SANDKEEPER_DEMO_BACKSTAGE", &folder).run();
    finished.expect_exit(1).expect_stderr("was not made for a demo");
    assert_eq!(desk.contents(), before);
}

#[test]
fn every_action_works_there() {
    let desk = Desk::new();
    let before = desk.contents();
    let run = |arguments: &[&str]| desk.demo(arguments).run();
    let reconciled = run(&["reconcile", "--yes", "--json"]).expect_exit(0).json();
    assert!(reconciled["summary"]["removed"].as_u64() >= Some(10), "{}", reconciled["summary"]);
    run(&["reconcile", "--dry-run"]).expect_exit(0).expect_stdout("stop, then remove  atelier-docs-1");
    run(&["stop", "--yes", "atelier-mobile-1"]).expect_exit(0).expect_stdout("stopped");
    run(&["rm", "--yes", "parachute-ws-tax-2024"]).expect_exit(0).expect_stdout("removed");
    run(&["drain", "--yes", "garden"]).expect_exit(0).expect_stdout("drained");
    run(&["may-start", "data-pipeline"]).expect_exit(5);
    run(&["may-start", "search"]).expect_exit(0);
    run(&["undrain", "--yes", "data-pipeline"]).expect_exit(0);
    run(&["doctor"]).expect_exit(0).expect_stdout("profile parachute");
    run(&["log"]).expect_exit(0);
    desk.wait_until_clean(&before);
}

#[test]
fn what_is_lost_or_removed_there_comes_back_by_key() {
    let desk = Desk::new();
    let before = desk.contents();
    // So slow that nothing happens but what happens here.
    let terminal = Terminal::start(desk.demo(&["--speed", "0.05"]), 50, 200);
    terminal.wait_for("atelier-importer-1").type_keys("/importer").press(Key::Enter);
    let is_lost = |screen: &str| {
        screen.lines().any(|line| line.contains("atelier-importer-1") && line.contains("lost"))
    };
    terminal.wait_gone("atelier-mobile-old");
    let found = |name: &str| desk.contents().into_iter().find(|path| path.ends_with(name));
    let socket = wait_for("its engine", || found(".sock"));
    let state = wait_for("its state", || found("sandkeeper/state.db"));
    let id = ask(Path::new(&socket), "GET", "/containers/atelier-importer-1/json").json()["Id"].clone();
    wait_until("it is recorded how it was made", || {
        let Ok(state) = rusqlite::Connection::open(&state) else { return false };
        let count = "SELECT count(*) FROM specs WHERE container = ?1";
        state.query_row(count, [id.as_str().unwrap()], |row| row.get::<_, i64>(0)) == Ok(1)
    });
    let removed = ask(Path::new(&socket), "DELETE", "/containers/atelier-importer-1?force=true");
    assert_eq!(removed.status, 204, "{}", removed.text());
    terminal.wait_until("somebody has removed it", is_lost).type_keys("jC");
    terminal.wait_for("Recreate: 1 to change").type_keys("y").wait_for("recreate is over: 1 recreated");
    terminal.press(Key::Enter).wait_gone("[ Close ]");
    terminal.wait_until("its session has it again", |screen| !is_lost(screen));
    terminal.press(Key::Esc).wait_for("atelier-mobile-old").type_keys("/mobile-old").press(Key::Enter);
    terminal.wait_gone("atelier-importer-1").type_keys("jX").wait_for("Remove: 1 to change").type_keys("y");
    terminal.wait_for("remove is over: 1 removed").press(Key::Enter).wait_gone("[ Close ]");
    terminal.wait_for("Nothing fits the filter").type_keys("U").wait_for("Undo: 1 to change").type_keys("y");
    terminal.wait_for("undo is over: 1 recreated").press(Key::Enter).wait_gone("[ Close ]");
    terminal.wait_for("atelier-mobile-old").quit();
    desk.wait_until_clean(&before);
}

#[test]
fn a_live_session_is_never_killed_there_either() {
    let desk = Desk::new();
    let finished = desk.demo(&["rm", "--yes", "atelier-checkout-1"]).run();
    assert_ne!(finished.status, Some(0), "{finished}");
    assert!(format!("{}{}", finished.stdout, finished.stderr).contains("is live"), "{finished}");
}

#[test]
fn it_does_not_look_at_the_real_host() {
    let desk = Desk::new();
    desk.home.write(".config/sandkeeper/config.toml", "this is no config");
    desk.home.write(".docker/config.json", r#"{"currentContext":"nowhere"}"#);
    let report = desk
        .demo(&["status", "--json"])
        .env("DOCKER_HOST", "unix:///no/such.sock")
        .env("SANDKEEPER_HOST", "unix:///no/such.sock")
        .run()
        .expect_exit(0)
        .json();
    let inside = |text: &Value| text.as_str().unwrap().contains("sandkeeper-demo-");
    assert!(inside(&report["host"]["endpoint"]), "{}", report["host"]);
    assert!(report["evidence"].as_array().unwrap().iter().all(|source| inside(&source["path"])));
}

#[test]
fn as_many_containers_as_are_asked_for() {
    let desk = Desk::new();
    for (scale, expected) in [("5", 5), ("300", 300)] {
        let report = desk.demo(&["--scale", scale, "status", "--json"]).run().json();
        assert_eq!(report["containers"].as_array().unwrap().len(), expected);
    }
    let report = desk.demo(&["--scale", "300", "status", "--json"]).run().json();
    assert_eq!(report["brakes"].as_array().unwrap().len(), 0, "{}", report["brakes"]);
}

#[test]
fn a_host_in_a_process_of_its_own_is_judged_like_any_other() {
    let desk = Desk::new();
    let report =
        desk.demo(&["status", "--json"]).env("SANDKEEPER_DEMO_APART", "1").run().expect_exit(0).json();
    assert!(
        report["evidence"].as_array().unwrap().iter().all(|source| source["fault"].is_null()),
        "{report}"
    );
}

#[test]
fn what_makes_no_sense_is_refused() {
    let desk = Desk::new();
    let refused = |arguments: &[&str], words: &str| {
        desk.demo(arguments).run().expect_exit(2).expect_stderr(words);
    };
    refused(&["demo"], "does not contain another demo");
    refused(&["--host", "unix:///x", "status"], "brings its own engine");
    refused(&["--speed", "0", "status"], "between 0.05 and 100");
    refused(&["--scale", "0", "status"], "0 is not in 1..");
    refused(&["stutus"], "unrecognized subcommand 'stutus'");
}

#[test]
fn read_only_holds_there_as_well() {
    let desk = Desk::new();
    let program = desk.home.sandkeeper(["--read-only", "demo", "reconcile", "--yes"]);
    program.env("TMPDIR", desk.home.path().join("tmp")).run().expect_exit(1).expect_stderr("read-only");
}

#[test]
fn the_reasons_are_those_of_a_real_host() {
    let desk = Desk::new();
    let report = desk.demo(&["status", "--json"]).run().expect_exit(0).json();
    for (name, why) in [
        ("atelier-checkout-1", "Fix the flaky refund test"),
        ("atelier-infra-1", "1 command running in it (exec)"),
        ("atelier-infra-3", "longer than its lifetime of 2h"),
        ("atelier-pipeline-2", "not persistent, and its session has ended"),
        ("parachute-ws-borealis", "config 6820ef11c09d is not 5de99f03aa41"),
        ("parachute-ws-thesis", "parachute-sandbox:latest now names image"),
        ("parachute-ws-tax-2024", "no session claims it"),
        ("atelier-onboarding-1", "within the grace of 1m"),
        ("atelier-pipeline-1", "marked for eviction 18m ago by ada"),
    ] {
        let reasons = reasons(container(&report, name));
        assert!(reasons.contains(why), "{name}: {reasons}");
    }
}

#[test]
fn a_long_path_for_temporary_files_is_no_obstacle() {
    let desk = Desk::new();
    let long = desk.home.path().join("tmp").join("a".repeat(80));
    fs::create_dir(&long).unwrap();
    desk.demo(&["status", "--json"]).env("TMPDIR", &long).run().expect_exit(0);
    assert!(fs::read_dir(Path::new(&long)).unwrap().next().is_none());
}
