//! An engine that is reached through somebody who passes everything on (`ssh -L`, a proxy) may be on another machine: neither
//! our folders nor our session stores say anything about its containers.
//!
//! A program of its own, because these tests change the name of their process.

#[path = "../it/support/mod.rs"]
mod support;

use std::sync::{Mutex, MutexGuard, PoisonError};

use support::gate::GateProcess;
use support::hermes::HermesHome;
use support::native::{Host, container, native_row, reasons};
use support::rows::{Row, ago, row};
use support::stores::NativeStore;
use support::systems::expect;

/// A host whose engine's socket is served by a process of this name. A process has only one name, so one at a time.
fn served_by(name: &str, rows: &[Row]) -> (MutexGuard<'static, ()>, Host) {
    static NAME: Mutex<()> = Mutex::new(());
    let guard = NAME.lock().unwrap_or_else(PoisonError::into_inner);
    let host = Host::with(rows);
    crate::support::go_by(name);
    (guard, host)
}

#[test]
fn folders_of_an_engine_behind_a_relay_are_not_looked_for_here() {
    let scan = |name: &str| {
        row(name).label("kojuto.scan", "true").mount("/tmp/kojuto-nowhere/mask", "/masked").created(ago(600))
    };
    let dev = row("dev").label("devcontainer.local_folder", "/tmp/no-such-project").state("exited");
    let (_guard, host) = served_by("ssh", &[scan("far"), dev]);
    let report = host.status([""; 0]).expect_exit(0).json();
    for name in ["far", "dev"] {
        expect(&report, name, "idle", "`ssh` answers in the engine's place");
    }
    let plan = host.sandkeeper(["reconcile", "--include-running-orphans", "--dry-run", "--json"]);
    let plan = plan.run().expect_exit(0).json();
    let kept = plan["outcomes"].as_array().unwrap().iter().all(|each| each["action"] == "keep");
    assert!(kept, "{plan:#}");
    // The same engine, with its own process at the socket.
    crate::support::go_by("dockerd");
    let report = host.status([""; 0]).expect_exit(0).json();
    expect(&report, "far", "orphaned", "/tmp/kojuto-nowhere is gone");
}

#[test]
fn sessions_found_here_do_not_judge_the_containers_of_an_engine_elsewhere() {
    let (_guard, host) = served_by("ssh", &[native_row("box", "atlas").state("exited")]);
    let store = NativeStore::create(host.home.native_store());
    store.session("other", "elsewhere").ended_ago(5).insert();
    let report = host.status([""; 0]).expect_exit(4).json();
    expect(&report, "box", "unknown", "need not be those of this engine's containers");
    let why = reasons(container(&report, "box"));
    assert!(why.contains("`ssh` answers") && why.contains("`--db SYSTEM=PATH`"), "{why}");
    let finished = host.sandkeeper(["reconcile", "--yes", "--json"]).run().expect_exit(4);
    assert_eq!(host.engine.mutations(), [""; 0], "{finished}");
    // The same over the network.
    let port = crate::support::port::to_socket(host.engine.socket());
    let report = host.home.sandkeeper(["status", "--json", "--host", &port]).run().expect_exit(4).json();
    expect(&report, "box", "unknown", "reached over the network");
    // Whoever names the store knows that it is the right one.
    let named = format!("native={}", host.home.native_store().display());
    let report = host.status(["--db", &named]).expect_exit(0).json();
    expect(&report, "box", "orphaned", "no session claims it");
    crate::support::go_by("dockerd");
    let report = host.status([""; 0]).expect_exit(0).json();
    expect(&report, "box", "orphaned", "no session claims it");
}

#[test]
fn folders_are_not_left_behind_by_the_containers_of_an_engine_elsewhere() {
    let (_guard, host) = served_by("ssh", &[]);
    let home = HermesHome::create(host.home.path().join(".hermes"));
    let folder = home.folder().join("sandboxes/docker/old");
    std::fs::create_dir_all(folder.join("home")).unwrap();
    let finished =
        host.sandkeeper(["dirs", "trash", "--yes", &folder.display().to_string()]).run().expect_exit(4);
    finished.expect_stderr("`ssh` answers in the engine's place");
    assert!(folder.join("home").is_dir());
}

#[test]
fn a_gate_is_no_relay_but_what_it_asks_may_be() {
    let (_guard, host) = served_by("ssh", &[native_row("box", "atlas").state("exited")]);
    let store = NativeStore::create(host.home.native_store());
    store.session("other", "elsewhere").ended_ago(5).insert();
    let gate = GateProcess::start(&host.home, &host.engine.endpoint(), &[]);
    let status = || host.home.sandkeeper(["status", "--json", "--host", &gate.endpoint()]).run();
    expect(&status().expect_exit(4).json(), "box", "unknown", "answers in the engine's place");
    crate::support::go_by("dockerd");
    expect(&status().expect_exit(0).json(), "box", "orphaned", "no session claims it");
    gate.end();
}
