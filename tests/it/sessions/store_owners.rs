//! Owners that open, close, restart, checkpoint and vacuum their database while it is watched: the next look says what the
//! owner says, and the owner loses nothing.

use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Instant;

use rstest::rstest;
use sandkeeper::domain::snapshot::StoreFacts;
use sandkeeper::environment::Environment;
use sandkeeper::profiles::{BUILT_IN, parse};
use sandkeeper::sessions::{Answer, Limits, NamedStore, SqliteReader, StoreFault, StoreSet};
use sandkeeper::state::State;
use serde_json::{Value, json};

use super::store_replaced::native_queries;
use crate::support::gateway::Gateway;
use crate::support::native::{Host, container, native_row};
use crate::support::program::Home;
use crate::support::proxy::Proxy;
use crate::support::simulated::SimHost;
use crate::support::{hang_limit, wait_until};

/// A reader that waits for whoever else reads or writes, however busy the machine is.
fn reader(path: &Path) -> SqliteReader {
    SqliteReader::new(path.to_owned(), native_queries(), Limits { time: hang_limit(), ..Limits::default() })
}

fn live(answer: &Answer) -> BTreeSet<String> {
    let live = answer.sessions.iter().filter(|session| session.declared_live == Some(true));
    live.map(|session| session.id.clone()).collect()
}

/// What a reader says, which must be what the owner says.
#[track_caller]
fn expect_agreement(reader: &mut SqliteReader, gateway: &Gateway, after: &str) {
    let said: BTreeSet<String> = gateway.live().into_iter().collect();
    let read = reader.read().unwrap_or_else(|fault| panic!("after {after}: {fault}"));
    assert_eq!(live(&read), said, "after {after}");
}

/// The files under this path that this process has open.
fn open_files(path: &Path) -> Vec<PathBuf> {
    let descriptors = fs::read_dir("/proc/self/fd").unwrap();
    let files = descriptors.filter_map(|descriptor| fs::read_link(descriptor.unwrap().path()).ok());
    files.filter(|file| file.to_string_lossy().starts_with(&*path.to_string_lossy())).collect()
}

/// What an owner may do between two looks.
const ACTS: [&str; 9] = [
    "nothing",
    "a restart",
    "a crash",
    "a checkpoint",
    "a vacuum",
    "another journal",
    "the log again",
    "another file",
    "a backup put back",
];

fn act(gateway: &Gateway, what: &str) {
    match what {
        "a restart" => gateway.restart(),
        "a crash" => gateway.crash_and_come_back(),
        "a checkpoint" => drop(gateway.ask("checkpoint", &[])),
        "a vacuum" => drop(gateway.ask("vacuum", &[])),
        "another journal" => drop(gateway.ask("mode", &["delete"])),
        "the log again" => drop(gateway.ask("mode", &["wal"])),
        "another file" => drop(gateway.ask("move", &[])),
        "a backup put back" => {
            let backup = gateway.path().with_extension("backup");
            gateway.ask("copy", &[backup.to_str().unwrap()]);
            while gateway.close() > 0 {
                gateway.open();
            }
            gateway.ask("restore", &[backup.to_str().unwrap()]);
            gateway.open();
        }
        _ => {}
    }
}

#[rstest]
fn a_session_that_begins_after_anything_its_owner_did_is_seen_by_the_very_next_look(
    #[values(0, 1, 2, 3, 4, 5, 6, 7, 8)] which: usize,
) {
    let home = Home::new();
    let gateway = Gateway::start(home.path().join("sessions.db"));
    gateway.begin("old", "alpha");
    gateway.end("old");
    let mut reader = reader(gateway.path());
    expect_agreement(&mut reader, &gateway, "the first look");
    for round in 0..3 {
        act(&gateway, ACTS[which]);
        expect_agreement(&mut reader, &gateway, ACTS[which]);
        gateway.begin(&format!("new{round}"), "alpha");
        expect_agreement(&mut reader, &gateway, ACTS[which]);
        act(&gateway, ACTS[which]);
        gateway.end(&format!("new{round}"));
        expect_agreement(&mut reader, &gateway, ACTS[which]);
    }
}

#[test]
fn whatever_an_owner_does_in_whatever_order_the_next_look_says_what_it_says() {
    let home = Home::new();
    let gateway = Gateway::start(home.path().join("sessions.db"));
    // Others of the same process look at the same file all the while.
    let done = Arc::new(AtomicBool::new(false));
    let looks = Arc::new(AtomicUsize::new(0));
    let others: Vec<_> = (0..2)
        .map(|_| {
            let (done, looks, mut reader) = (Arc::clone(&done), Arc::clone(&looks), reader(gateway.path()));
            std::thread::spawn(move || {
                while !done.load(Ordering::SeqCst) {
                    reader.distrust();
                    let _ = reader.read();
                    looks.fetch_add(1, Ordering::SeqCst);
                }
            })
        })
        .collect();
    let mut reader = reader(gateway.path());
    let mut seed = 0x5eed_u64;
    let mut dice = |sides: usize| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        usize::try_from(seed % sides as u64).unwrap()
    };
    for step in 0..120 {
        let what = ACTS[dice(ACTS.len() - 1)];
        act(&gateway, what);
        let session = format!("s{}", dice(5));
        match dice(2) {
            0 => gateway.begin(&session, "alpha"),
            _ => gateway.end(&session),
        }
        expect_agreement(&mut reader, &gateway, &format!("step {step}, {what}"));
    }
    done.store(true, Ordering::SeqCst);
    for other in others {
        other.join().unwrap();
    }
    assert!(looks.load(Ordering::SeqCst) > 0);
}

#[test]
fn nothing_is_open_between_two_looks() {
    let home = Home::new();
    let gateway = Gateway::start(home.path().join("sessions.db"));
    gateway.begin("s1", "alpha");
    let mut reader = reader(gateway.path());
    for _ in 0..3 {
        reader.distrust();
        assert_eq!(live(&reader.read().unwrap()).len(), 1);
        assert_eq!(open_files(gateway.path()), [""; 0].map(PathBuf::from));
    }
    // What went wrong leaves nothing open either.
    gateway.ask("sql", &["ALTER TABLE sessions RENAME TO others"]);
    assert!(matches!(reader.read(), Err(StoreFault::SchemaUnknown(_))));
    assert_eq!(open_files(gateway.path()), [""; 0].map(PathBuf::from));
    assert_eq!(gateway.close(), 0, "a clean close");
}

#[test]
fn an_unchanged_database_is_not_opened_again_unless_somebody_is_about_to_act() {
    let home = Home::new();
    let gateway = Gateway::start(home.path().join("sessions.db"));
    gateway.begin("s1", "alpha");
    gateway.ask("mode", &["delete"]);
    let (name, text) = BUILT_IN.iter().find(|(name, _)| *name == "native").unwrap();
    let named = NamedStore { path: gateway.path().to_owned(), others: Vec::new() };
    let environment = Environment { home: home.path().to_owned(), variables: HashMap::new() };
    let limits = Limits { time: crate::support::seconds(1), ..Limits::default() };
    let mut stores = StoreSet::new(&parse(name, text).unwrap(), vec![named], None, &environment, limits);
    let fault = |facts: Vec<StoreFacts>| facts[0].sessions.fault.clone().unwrap_or_default();
    // As soon as its times are old enough to be trusted.
    wait_until("an answer is given out without a look", || {
        let first = fault(stores.read());
        // Whoever looks now finds it locked.
        gateway.ask("sql", &["BEGIN EXCLUSIVE"]);
        let (second, anew) = (fault(stores.read()), fault(stores.read_anew()));
        gateway.ask("sql", &["ROLLBACK"]);
        assert!(anew.contains("locked by another program"), "{anew}");
        first.is_empty() && second.is_empty()
    });
}

/// Whether the line shows the sandbox with this status.
fn shows(line: &str, status: &str) -> bool {
    let report: Value = serde_json::from_str(line).unwrap();
    container(&report, "sandbox")["status"] == status
}

#[test]
fn a_watch_sees_sessions_over_every_restart_and_lets_the_owner_close_cleanly() {
    let host = Host::with(&[native_row("sandbox", "alpha")]);
    let gateway = Gateway::start(host.home.native_store());
    gateway.begin("s0", "alpha");
    let watch = host.sandkeeper(["status", "--watch", "--json"]).spawn();
    watch.line_where("an active sandbox", |line| shows(line, "active"));
    for round in 1..4 {
        gateway.end(&format!("s{}", round - 1));
        watch.line_where("a sandbox that nobody is in", |line| !shows(line, "active"));
        // A look may be under way just then, but not always.
        let clean = (0..50).any(|_| {
            let left = gateway.close();
            gateway.open();
            left == 0
        });
        assert!(clean, "whoever only looks keeps the owner's log alive");
        gateway.begin(&format!("s{round}"), "alpha");
        watch.line_where("an active sandbox", |line| shows(line, "active"));
    }
    watch.signal("TERM");
    watch.wait();
    host.expect_only_looks();
}

#[test]
fn a_backup_put_in_place_under_a_watch_has_all_its_rows() {
    let host = Host::with(&[native_row("sandbox", "alpha")]);
    let gateway = Gateway::start(host.home.native_store());
    for number in 0..50 {
        gateway.begin(&format!("s{number}"), "alpha");
    }
    let backup = host.home.path().join("backup.db").display().to_string();
    gateway.ask("copy", &[&backup]);
    let watch = host.sandkeeper(["status", "--watch", "--json"]).spawn();
    watch.line_where("an active sandbox", |line| shows(line, "active"));
    gateway.ask("sql", &["UPDATE sessions SET status = 'ended', ended_at = last_activity_at"]);
    watch.line_where("a sandbox that nobody is in", |line| !shows(line, "active"));
    gateway.ask("sql", &["DELETE FROM sessions"]);
    let clean = (0..50).any(|_| {
        let left = gateway.close();
        if left > 0 {
            gateway.open();
        }
        left == 0
    });
    assert!(clean, "whoever only looks keeps the owner's log alive");
    gateway.ask("restore", &[&backup]);
    gateway.open();
    assert_eq!(gateway.live().len(), 50, "the backup was undone");
    watch.line_where("an active sandbox", |line| shows(line, "active"));
    watch.signal("TERM");
    watch.wait();
}

#[test]
fn our_own_connections_leave_each_others_locks_alone() {
    let folder = tempfile::tempdir().unwrap();
    let mut pen = State::open(folder.path()).unwrap();
    let other = Gateway::idle(folder.path().join("state.db"));
    for _ in 0..3 {
        pen.set_last_look("here", jiff::Timestamp::now()).unwrap();
        // As the recorder, the marks and the memory do while a journal is written.
        drop(State::open(folder.path()).unwrap());
        drop(State::open_to_read(folder.path()).unwrap());
        assert_eq!(other.ask("try", &["PRAGMA user_version"]), json!(true));
        // The close of another program deletes the log unless it sees our lock.
        assert!(folder.path().join("state.db-wal").exists(), "a lock was lost");
        assert!(State::open_to_read(folder.path()).unwrap().unwrap().last_look("here").unwrap().is_some());
    }
}

/// The requests before which the owner acts, and which of their kind: the check before anything is done, the stop, and the
/// check after it.
const STEPS: [(&str, &str, usize); 3] = [("GET", "json", 2), ("POST", "stop", 1), ("GET", "json", 3)];

#[rstest]
fn a_gateway_that_comes_back_with_a_session_during_a_removal_keeps_its_container(
    #[values(0, 1, 2)] step: usize,
    #[values("a restart", "a crash", "a checkpoint", "a vacuum", "another journal", "another file")]
    what: &'static str,
) {
    let host = SimHost::new();
    let path = host.home.path().join("gateway.db");
    let gateway = Arc::new(Gateway::start(&path));
    gateway.begin("s1", "atlas");
    gateway.end("s1");
    let id = host.sandbox("atlas", "atlas").label("sandkeeper.config-hash", "0ld").placed();
    let proxy = Proxy::before(host.engine.socket());
    let owner = Arc::clone(&gateway);
    let (method, request, nth) = STEPS[step];
    proxy.when(method, &format!("/containers/{}/{request}", id.as_str())).nth(nth).before(move |_| {
        act(&owner, what);
        owner.begin("s2", "atlas");
    });
    let named = format!("native={}", path.display());
    let arguments = ["reconcile", "--yes", "--json", "--expect-hash", "c0ffee", "--db", &named];
    let finished = host.home.sandkeeper(arguments).env("DOCKER_HOST", proxy.endpoint()).run();
    let report = finished.json();
    let expected = if step == 0 { "skipped" } else { "rescued" };
    assert_eq!(report["outcomes"][0]["result"], expected, "{finished}");
    let reason = report["outcomes"][0]["reason"].as_str().unwrap();
    assert!(reason.contains("s2") || what == "another file", "{finished}");
    assert_eq!(gateway.live(), ["s2"], "the session began before the decision");
    assert_eq!(host.state(&id).as_deref(), Some("running"));
    assert_eq!(proxy.count("DELETE", "/*"), 0);
}

#[test]
fn every_change_is_seen_however_soon_it_comes_after_a_look() {
    let home = Home::new();
    let path = home.path().join("sessions.db");
    let store = crate::support::stores::NativeStore::create(&path);
    store.session("s1", "alpha").status("idle").insert();
    // So quick that two writes may bear the same time, and nothing grows.
    store.execute("PRAGMA journal_mode = MEMORY; PRAGMA synchronous = OFF");
    let mut reader = reader(&path);
    for round in 0..300 {
        let status = if round % 2 == 0 { "active" } else { "idle" };
        store.set_status("s1", status);
        let answer = reader.read().unwrap();
        assert_eq!(live(&answer).len(), usize::from(status == "active"), "round {round}");
    }
}

#[test]
fn an_answer_that_was_read_right_after_a_write_is_not_given_out_again() {
    let home = Home::new();
    let gateway = Gateway::start(home.path().join("sessions.db"));
    gateway.ask("mode", &["delete"]);
    let limits = Limits { time: crate::support::seconds(1), ..Limits::default() };
    let mut reader = SqliteReader::new(gateway.path().to_owned(), native_queries(), limits);
    // Another write could bear the same time for two seconds; a busy machine may need longer for one round.
    wait_until("a look comes right after a write", || {
        let began = Instant::now();
        gateway.begin("s1", "alpha");
        let first = reader.read();
        let right_after = first.is_ok() && began.elapsed() < crate::support::seconds(2);
        gateway.ask("sql", &["BEGIN EXCLUSIVE"]);
        let second = reader.read();
        gateway.ask("sql", &["ROLLBACK"]);
        assert!(!right_after || second.is_err(), "what cannot be told from outside must be read");
        right_after
    });
}
