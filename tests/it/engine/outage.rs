//! While an engine is down its containers stay on the list as `unknown`, and recover with it; a list that is suddenly
//! empty is looked at twice.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::support::native::{evidence, native_row, plain_image, reasons, statuses};
use crate::support::program::{Home, Running};
use crate::support::rows::{Row, row};
use crate::support::scripted::{Behaviour, ScriptedEngine};
use crate::support::stores::NativeStore;

/// A home whose engine can be exchanged behind one address.
struct Place {
    home: Home,
    socket: PathBuf,
    _store: NativeStore,
}

impl Place {
    fn new() -> Self {
        let home = Home::new();
        let store = NativeStore::create(home.native_store());
        store.session("s1", "alpha").insert();
        store.session("s2", "beta").status("active").insert();
        let socket = home.path().join("engine.sock");
        Self { home, socket, _store: store }
    }

    fn engine(&self, rows: &[Row]) -> ScriptedEngine {
        let engine = ScriptedEngine::start();
        engine.containers(rows);
        engine.on("GET", "/images/*/json", Behaviour::json(&plain_image(&row("any"))));
        let _ = fs::remove_file(&self.socket);
        symlink(engine.socket(), &self.socket).unwrap();
        engine
    }

    fn watch(&self) -> Running {
        let host = format!("unix://{}", self.socket.display());
        self.home
            .sandkeeper(["status", "--watch", "--json", "--timeout", crate::support::HASTE, "--host", &host])
            .spawn()
    }
}

fn rows() -> [Row; 2] {
    [native_row("one", "alpha"), native_row("two", "beta")]
}

/// The next report that shows exactly this.
#[track_caller]
fn wait_for(watch: &Running, expected: &[&str]) -> Value {
    let fits = |line: &str| statuses(&serde_json::from_str(line).unwrap()) == expected;
    serde_json::from_str(&watch.line_where(&format!("{expected:?}"), fits)).unwrap()
}

#[track_caller]
fn expect_outage(report: &Value, cause: &str) {
    assert_eq!(report["host"]["reachable"], false, "{report:#}");
    assert_eq!(report["summary"]["unknown"], 2, "{report:#}");
    assert_eq!(report["lost"], json!(null), "what is lost cannot be told: {report:#}");
    let engine = evidence(report, "engine");
    assert_eq!(engine["ok"], false);
    assert!(engine["error"].as_str().unwrap().contains(cause), "lacks {cause:?}: {engine}");
    assert!(engine["age_ms"].is_u64(), "the age of the last good answer: {engine}");
    for container in report["containers"].as_array().unwrap() {
        assert!(reasons(container).contains("the engine did not answer"), "{container:#}");
    }
    assert_eq!(evidence(report, "sessions")["ok"], true, "{report:#}");
}

#[test]
fn containers_stay_unknown_while_the_engine_is_down_and_recover_with_it() {
    let place = Place::new();
    let engine = place.engine(&rows());
    let watch = place.watch();
    let first = wait_for(&watch, &["one: idle", "two: active"]);
    assert_eq!(first["host"]["reachable"], true);
    engine.events().wait_for_reader();

    drop(engine);
    expect_outage(&wait_for(&watch, &["one: unknown", "two: unknown"]), "");

    let engine = place.engine(&rows());
    let back = wait_for(&watch, &["one: idle", "two: active"]);
    assert_eq!(back["host"]["reachable"], true);
    watch.signal("TERM");
    watch.wait().expect_exit(0);
    assert_eq!(engine.mutations(), [""; 0]);
}

#[test]
fn an_engine_that_begins_to_hang_makes_its_containers_unknown() {
    let place = Place::new();
    let engine = place.engine(&rows());
    let watch = place.watch();
    wait_for(&watch, &["one: idle", "two: active"]);
    engine.events().wait_for_reader();

    engine.on("GET", "/containers/json", Behaviour::HangAfterHeaders);
    engine.events().container("die", &rows()[0].id);
    expect_outage(&wait_for(&watch, &["one: unknown", "two: unknown"]), "no complete answer");
    watch.signal("INT");
    watch.wait().expect_exit(4);
    assert_eq!(engine.mutations(), [""; 0]);
}

#[test]
fn a_list_that_is_suddenly_empty_is_believed_at_the_second_look() {
    let place = Place::new();
    let engine = place.engine(&rows());
    let watch = place.watch();
    wait_for(&watch, &["one: idle", "two: active"]);
    engine.events().wait_for_reader();

    engine.containers(&[]);
    engine.events().container("destroy", &rows()[0].id);
    expect_outage(
        &wait_for(&watch, &["one: unknown", "two: unknown"]),
        "lists nothing where 2 containers were",
    );
    let second = wait_for(&watch, &[]);
    assert_eq!(second["host"]["reachable"], true);
    assert_eq!(engine.mutations(), [""; 0]);
}

#[test]
fn a_list_that_was_empty_only_once_changes_nothing() {
    let place = Place::new();
    let engine = place.engine(&rows());
    let watch = place.watch();
    wait_for(&watch, &["one: idle", "two: active"]);
    engine.events().wait_for_reader();

    let full = Value::Array(rows().iter().map(Row::listed).collect());
    let each = vec![Behaviour::json(&json!([])), Behaviour::json(&full)];
    engine.on("GET", "/containers/json", Behaviour::Sequence(each));
    engine.events().container("die", &rows()[0].id);
    wait_for(&watch, &["one: unknown", "two: unknown"]);
    wait_for(&watch, &["one: idle", "two: active"]);
    assert_eq!(engine.mutations(), [""; 0]);
}

#[test]
fn a_watch_that_starts_before_its_engine_waits_for_it() {
    let place = Place::new();
    let watch = place.watch();
    let nothing = watch.next_json();
    assert_eq!((&nothing["host"]["reachable"], &nothing["containers"]), (&json!(false), &json!(null)));
    let _engine = place.engine(&rows());
    wait_for(&watch, &["one: idle", "two: active"]);
}

#[test]
fn without_events_the_engine_is_asked_again_and_again() {
    let place = Place::new();
    let engine = place.engine(&rows());
    engine.on("GET", "/events", Behaviour::error(403, "events are filtered out"));
    let watch = place.watch();
    wait_for(&watch, &["one: idle", "two: active"]);
    engine.containers(&rows()[..1]);
    wait_for(&watch, &["one: idle"]);
    assert_eq!(engine.mutations(), [""; 0]);
}

#[test]
fn one_event_is_one_look_and_a_burst_is_one_too() {
    let place = Place::new();
    let engine = place.engine(&rows());
    let watch = place.watch();
    wait_for(&watch, &["one: idle", "two: active"]);
    engine.events().wait_for_reader();
    let settled = engine.count("GET", "/containers/json");
    engine.containers(&rows()[1..]);
    for _ in 0..50 {
        engine.events().container("die", &rows()[0].id);
    }
    wait_for(&watch, &["two: active"]);
    let looks = engine.count("GET", "/containers/json") - settled;
    assert!(looks <= 3, "{looks} looks for one burst of events");
}

#[test]
fn a_watch_ends_when_nobody_reads_it() {
    let place = Place::new();
    let engine = place.engine(&rows());
    let host = format!("unix://{}", place.socket.display());
    let program = env!("CARGO_BIN_EXE_sandkeeper");
    let mut child = std::process::Command::new(program)
        .args(["status", "--watch", "--json", "--host", &host])
        .env("XDG_DATA_HOME", place.home.data())
        .env("HOME", place.home.path())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    engine.events().wait_for_reader();
    drop(child.stdout.take());
    engine.containers(&[]);
    engine.events().container("destroy", &rows()[0].id);
    crate::support::wait_until("the watch ends", || child.try_wait().unwrap().is_some());
}
