//! kojuto's scans on a real engine: what is left over goes, a neighbour's scan is never touched.

use std::fs;
use std::path::PathBuf;

use crate::support::engine::{ContainerBuilder, RealEngine, Scene};
use crate::support::native::{Host, container, reasons, statuses};
use crate::support::proxy::Proxy;
use crate::support::rows::{ago, row};
use crate::support::scripted::Behaviour;
use crate::support::simulated::SimHost;
use crate::support::systems::{SystemsHost, expect, expect_result};

/// The folder kojuto makes for one scan.
struct ScanFolder(PathBuf);

impl ScanFolder {
    fn new(scene: &Scene<'_>, name: &str) -> Self {
        let folder = PathBuf::from(format!("/tmp/kojuto-seccomp-{}", scene.name(name)));
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("dockerenv-mask"), "").unwrap();
        Self(folder)
    }
}

impl Drop for ScanFolder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A scan's container as kojuto starts it.
fn scan<'scene>(scene: &'scene Scene<'_>, name: &str, folder: &ScanFolder) -> ContainerBuilder<'scene> {
    let mask = folder.0.join("dockerenv-mask").display().to_string();
    scene
        .container(name)
        .label("kojuto.scan", "true")
        .option("--env=KOJUTO_SCAN_PKGS=left-pad")
        .option("--env=AWS_SECRET_ACCESS_KEY=planted")
        .option(format!("--mount=type=bind,src={mask},dst=/masked,readonly"))
        .command("sleep 3600")
}

#[test]
#[ignore = "needs a Docker engine: run tests/run"]
fn what_no_longer_runs_is_swept_and_what_holds_processes_is_kept() {
    let engine = RealEngine::docker().exclusive();
    let host = SystemsHost::on(&engine);
    let folder = ScanFolder::new(&host.scene, "a");
    let exited = scan(&host.scene, "scan-exited", &folder).exited();
    let created = scan(&host.scene, "scan-created", &folder).created();
    let running = scan(&host.scene, "scan-running", &folder).running();
    let paused = scan(&host.scene, "scan-paused", &folder).paused();
    let restarting =
        scan(&host.scene, "scan-restarting", &folder).option("--restart=always").script("exit 1").created();
    host.scene.start(&restarting);
    host.scene.wait_for_state(&restarting, "restarting");

    let report = host.status(&[]);
    expect(&report, "scan-exited", "orphaned", "nothing claims it; exited");
    expect(&report, "scan-created", "orphaned", "nothing claims it; created");
    expect(&report, "scan-running", "idle", "nothing shows that it is over; running");
    expect(&report, "scan-paused", "idle", "nothing shows that it is over; paused");
    // Between two of its runs it may be seen in either state.
    expect(&report, "scan-restarting", "idle", "nothing shows that it is over; r");
    assert_eq!(container(&report, "scan-running")["system"], "kojuto");
    assert!(!report.to_string().contains("planted"), "what is in the environment stays there: {report:#}");

    // Not even the running orphans are asked for, because none of them is one.
    let finished = host.reconcile(&["--include-running-orphans"]).expect_exit(0);
    expect_result(&finished, "scan-exited", "removed", "exited");
    expect_result(&finished, "scan-created", "removed", "created");
    for name in ["scan-running", "scan-paused", "scan-restarting"] {
        expect_result(&finished, name, "kept", "nothing shows that it is over");
    }
    assert!(!host.exists(&exited) && !host.exists(&created));
    for id in [&running, &paused, &restarting] {
        assert!(host.exists(id), "{id} is gone");
    }
}

#[test]
#[ignore = "needs a Docker engine: run tests/run"]
fn the_running_leftover_of_a_killed_scan_is_offered_with_its_evidence() {
    let engine = RealEngine::docker().exclusive();
    let host = SystemsHost::on(&engine);
    let (killed, alive) = (ScanFolder::new(&host.scene, "killed"), ScanFolder::new(&host.scene, "alive"));
    let running = scan(&host.scene, "killed-running", &killed).running();
    let paused = scan(&host.scene, "killed-paused", &killed).paused();
    let neighbour = scan(&host.scene, "neighbour", &alive).running();
    let folder = killed.0.display().to_string();
    drop(killed);

    let report = host.status(&[]);
    for name in ["killed-running", "killed-paused"] {
        expect(&report, name, "orphaned", &format!("{folder} is gone, so what it was made for is over"));
    }
    expect(&report, "neighbour", "idle", "nothing shows that it is over");

    let finished = host.reconcile(&[]).expect_exit(0);
    expect_result(&finished, "killed-running", "kept", "--include-running-orphans takes it too");
    assert!(host.exists(&running) && host.exists(&paused));

    // A command that runs in it is a sign of life, whatever else is known.
    let exec = host.scene.exec(&running);
    expect(&host.status(&[]), "killed-running", "active", "1 command running in it (exec)");
    let finished = host.reconcile(&["--include-running-orphans"]);
    expect_result(&finished, "killed-running", "kept", "1 command running in it");
    expect_result(&finished, "killed-paused", "removed", "is gone");
    expect_result(&finished, "neighbour", "kept", "nothing shows that it is over");
    exec.end();

    let finished = host.reconcile(&["--include-running-orphans"]).expect_exit(0);
    expect_result(&finished, "killed-running", "removed", &folder);
    assert!(!host.exists(&running) && !host.exists(&paused) && host.exists(&neighbour));
}

#[test]
#[ignore = "needs a Docker engine: run tests/run"]
fn a_scan_whose_folder_comes_back_before_the_removal_is_left_alone() {
    let engine = RealEngine::docker().exclusive();
    let proxy = Proxy::before(engine.socket());
    let host = SystemsHost::through(&engine, &proxy.endpoint());
    let folder = ScanFolder::new(&host.scene, "back");
    let id = scan(&host.scene, "comes-back", &folder).running();
    let path = folder.0.clone();
    drop(folder);
    expect(&host.status(&[]), "comes-back", "orphaned", "is gone");
    // The plan is made on the first inspection; the second one belongs to the check before the stop.
    let again = path.clone();
    proxy.when("GET", "/containers/*/json").nth(2).before(move |_| fs::create_dir_all(&again).unwrap());
    let finished = host.reconcile(&["--include-running-orphans"]).expect_exit(3);
    let _again = ScanFolder(path);
    expect_result(&finished, "comes-back", "skipped", "nothing shows that it is over");
    assert!(host.exists(&id) && proxy.mutations().is_empty());
}

#[test]
fn a_scan_older_than_any_scan_can_be_is_over() {
    let scan = |name: &str| row(name).label("kojuto.scan", "true");
    let host = Host::with(&[
        scan("old").created(ago(70 * 60)),
        scan("old-paused").created(ago(3 * 86_400)).state("paused"),
        scan("young").created(ago(60 * 60)),
        scan("dead").created(ago(300)).state("dead"),
        scan("busy").created(ago(3 * 86_400)).exec("e1"),
        row("unlabelled").created(ago(3 * 86_400)),
    ]);
    host.engine.on("GET", "/exec/*/json", Behaviour::json(&serde_json::json!({ "Running": true })));
    let report = host.status([""; 0]).expect_exit(0).json();
    expect(&report, "old", "orphaned", " old, more than the 1h5m that anything in it may take");
    expect(&report, "old-paused", "orphaned", " old, more than the 1h5m");
    expect(&report, "young", "idle", " old of at most 1h5m");
    expect(&report, "dead", "orphaned", "nothing claims it; dead");
    expect(&report, "busy", "active", "1 command running in it (exec)");
    assert_eq!(statuses(&report).len(), 5, "containers without the label are nobody's: {report:#}");
    host.expect_only_looks();
}

#[test]
fn what_is_dead_and_what_is_older_than_any_scan_is_removed() {
    let host = SimHost::new();
    let scan = |name: &str, state: &str, age: i64| host.place(name, &[("kojuto.scan", "true")], state, age);
    scan("dead", "dead", 10);
    scan("old", "running", 70);
    scan("young", "running", 60);
    host.place("unlabelled", &[], "running", 70);
    let reconcile = |arguments: &[&str]| {
        let arguments = [&["reconcile", "--yes", "--json", "--grace", "1s"], arguments].concat();
        host.sandkeeper(&arguments).run().expect_exit(0)
    };
    let finished = reconcile(&[]);
    expect_result(&finished, "dead", "removed", "nothing claims it; dead");
    expect_result(&finished, "old", "kept", "--include-running-orphans takes it too");
    assert_eq!(host.names(), ["old", "unlabelled", "young"]);
    let finished = reconcile(&["--include-running-orphans"]);
    expect_result(&finished, "old", "removed", "more than the 1h5m");
    expect_result(&finished, "young", "kept", "nothing shows that it is over");
    assert_eq!(host.names(), ["unlabelled", "young"]);
}

#[test]
fn folders_of_an_engine_on_the_network_are_not_looked_for_here() {
    let scan = row("far").label("kojuto.scan", "true").mount("/tmp/kojuto-nowhere/mask", "/masked");
    let host = Host::with(&[scan.created(ago(600))]);
    let report = host.status([""; 0]).expect_exit(0).json();
    expect(&report, "far", "orphaned", "/tmp/kojuto-nowhere is gone");
    // The same engine, reached through a port.
    let port = crate::support::port::to_socket(host.engine.socket());
    let report = host.home.sandkeeper(["status", "--json", "--host", &port]).run().json();
    expect(&report, "far", "idle", "whether /tmp/kojuto-nowhere is still there cannot be told");
    assert!(reasons(container(&report, "far")).contains("reached over the network"), "{report:#}");
}
