//! What runs in a container, on real engines: what somebody has left there keeps it, what is its own does not.

use std::fs;
use std::process::Command;

use serde_json::Value;

use crate::support::engine::{Kind, RealEngine};
use crate::support::kept::KeptHost;
use crate::support::{on_both_engines, wait_until};

on_both_engines![
    work_that_a_command_has_left_behind_keeps_its_container,
    work_that_a_command_has_left_beside_a_server_makes_nobody_sure,
    a_health_check_that_runs_keeps_nothing,
    a_shell_on_a_terminal_keeps_its_container,
    a_paused_container_in_which_somebody_works_stays_paused,
    a_container_in_whose_namespaces_another_runs_is_kept,
    what_only_waits_still_goes,
];

/// Takes a while and ends only when it is told to.
const WORK: &str = "(while true; do sleep 1; done) >/dev/null 2>&1 &";

fn status_of(host: &KeptHost<'_>, name: &str) -> (String, String) {
    let report = host.sandkeeper(["status", "--json"]).run().json();
    let name = host.scene.name(name);
    let containers = report["containers"].as_array().unwrap();
    let found = containers.iter().find(|each| each["name"] == name.as_str());
    let found = found.unwrap_or_else(|| panic!("no verdict on {name}: {report:#}"));
    (found["status"].as_str().unwrap().to_owned(), found.to_string())
}

#[track_caller]
fn expect_status(host: &KeptHost<'_>, name: &str, status: &str, reason: &str) {
    let (found, whole) = status_of(host, name);
    assert!(found == status && whole.contains(reason), "{name} is not {status} because {reason:?}: {whole}");
}

/// Bulk clean-up leaves this one alone, whatever it is asked to take.
#[track_caller]
fn expect_kept(host: &KeptHost<'_>, name: &str, id: &str, reason: &str) {
    let run = host.started_at(id);
    let finished = host.reconcile(&["--include-running-orphans"]).expect_exit(0);
    host.expect_result(&finished, name, "kept", reason);
    assert_eq!(host.scene.state(id).as_deref(), Some("running"), "{finished}");
    assert_eq!(host.started_at(id), run, "it was started anew");
}

/// And so it does after it was marked: it goes when nobody is in it any more.
#[track_caller]
fn expect_waited_for(host: &KeptHost<'_>, name: &str, id: &str) {
    let marked = host.reconcile(&["--drain"]).expect_exit(0);
    host.expect_result(&marked, name, "drained", "");
    let finished = host.reconcile(&[]).expect_exit(0);
    host.expect_result(&finished, name, "kept", "");
    assert_eq!(host.scene.state(id).as_deref(), Some("running"), "{finished}");
}

fn work_that_a_command_has_left_behind_keeps_its_container(engine: &RealEngine) {
    let host = KeptHost::on(engine);
    let id = host.outdated("atlas").running();
    engine.cli(&["exec", &id, "sh", "-c", WORK]);
    // The shell alone, or the shell and its `sleep`, depending on the moment.
    let work = "in it in the background";
    wait_until("its command has returned", || status_of(&host, "atlas").1.contains(work));
    expect_status(&host, "atlas", "active", work);
    expect_kept(&host, "atlas", &id, work);
    expect_waited_for(&host, "atlas", &id);

    engine.cli(&["exec", &id, "sh", "-c", "kill -9 -1; true"]);
    wait_until("it goes when nothing is left in it", || {
        host.reconcile(&[]);
        !host.exists(&id)
    });
}

fn work_that_a_command_has_left_beside_a_server_makes_nobody_sure(engine: &RealEngine) {
    let host = KeptHost::on(engine);
    let server = "while true; do date >/tmp/served; sleep 0.2; done";
    let busy = host.outdated("busy").script(server).running();
    let calm = host.outdated("calm").script(server).running();
    engine.cli(&["exec", &busy, "sh", "-c", WORK]);
    let reason = "as what a command leaves behind does";
    wait_until("its command has returned", || status_of(&host, "busy").1.contains(reason));
    expect_status(&host, "busy", "unknown", reason);
    let finished = host.reconcile(&["--include-running-orphans"]).expect_exit(0);
    host.expect_result(&finished, "busy", "kept", reason);
    host.expect_result(&finished, "calm", "removed", "");
    assert!(host.exists(&busy) && !host.exists(&calm));
}

fn a_health_check_that_runs_keeps_nothing(engine: &RealEngine) {
    let host = KeptHost::on(engine);
    let check = "sleep 1000 || exit 1";
    let id = host
        .outdated("checked")
        .option(format!("--health-cmd={check}"))
        .option("--health-interval=1s")
        .option("--health-timeout=1h")
        .running();
    if engine.kind == Kind::Podman {
        // Podman leaves its checks to a timer of systemd, of which there is none here.
        engine.cli(&["exec", "--detach", &id, "sh", "-c", check]);
    }
    wait_until("the check runs", || {
        let shown = engine.inspect(&id);
        shown["ExecIDs"].as_array().is_some_and(|execs| !execs.is_empty())
    });
    let finished = host.reconcile(&[]).expect_exit(0);
    host.expect_result(&finished, "checked", "removed", "config");
    assert!(!host.exists(&id));
}

fn a_shell_on_a_terminal_keeps_its_container(engine: &RealEngine) {
    let host = KeptHost::on(engine);
    let id = host.outdated("typing").option("--interactive").option("--tty").command("sh").running();
    let reason = "its first process is sh on a terminal";
    expect_status(&host, "typing", "unknown", reason);
    expect_kept(&host, "typing", &id, reason);
    engine.stop(&id);
    let finished = host.reconcile(&[]).expect_exit(0);
    host.expect_result(&finished, "typing", "removed", "");
}

fn a_container_in_whose_namespaces_another_runs_is_kept(engine: &RealEngine) {
    for namespace in ["network", "pid", "ipc"] {
        let host = KeptHost::on(engine);
        let id = host.outdated("shared").network("none").option("--ipc=shareable").running();
        let of = format!("container:{}", host.scene.name("shared"));
        let sidecar = host.scene.container(host.scene.name("sidecar"));
        let sidecar = match namespace {
            "network" => sidecar.network(&of),
            _ => sidecar.option(format!("--{namespace}={of}")),
        };
        let sidecar = sidecar.running();
        let reason = format!("{} runs in its {namespace} namespace", host.scene.name("sidecar"));
        expect_status(&host, "shared", "active", &reason);
        expect_kept(&host, "shared", &id, &reason);
        expect_waited_for(&host, "shared", &id);
        engine.cli(&["rm", "--force", &sidecar]);
        let finished = host.reconcile(&[]).expect_exit(0);
        host.expect_result(&finished, "shared", "removed", "");
        assert!(!host.exists(&id));
    }
}

fn what_only_waits_still_goes(engine: &RealEngine) {
    let host = KeptHost::on(engine);
    // On a busy machine a process that is just ending may look like somebody's work, or spoil the list, for a moment; it keeps its container then,
    // and the next run takes it.
    let expect_gone = |ids: &[String]| {
        wait_until("what only waits is gone", || {
            let finished = host.reconcile(&[]);
            assert!(matches!(finished.status, Some(0 | 3 | 4)), "{finished}");
            let left = ids.iter().filter(|id| host.exists(id)).count();
            if left > 0 {
                eprintln!("{left} left: {finished}");
            }
            left == 0
        });
    };
    // A few at a time: many that go at once look like a mistake.
    expect_gone(&[
        host.outdated("sleep").running(),
        host.outdated("tail").command("tail -f /dev/null").running(),
        host.outdated("cat").option("--interactive").command("cat").running(),
        host.outdated("paused").paused(),
    ]);
    // Podman has no init here that it could put before a program.
    let init = if engine.kind == Kind::Docker { "--init" } else { "--tmpfs=/run" };
    expect_gone(&[
        host.outdated("init").option(init).running(),
        host.outdated("loop").script("while true; do sleep 0.1; done").running(),
        host.outdated("server").script("while true; do date >/tmp/served; sleep 0.1; done").running(),
    ]);
}

fn a_paused_container_in_which_somebody_works_stays_paused(engine: &RealEngine) {
    let host = KeptHost::on(engine);
    let id = host.outdated("atlas").running();
    engine.cli(&["exec", &id, "sh", "-c", WORK]);
    wait_until("its command has returned", || {
        status_of(&host, "atlas").1.contains("in it in the background")
    });
    engine.pause(&id);
    for command in ["reconcile", "rm", "stop"] {
        let target = host.scene.name("atlas");
        let named: &[&str] = if command == "reconcile" { &[] } else { &[&target] };
        let told = host.acting(command, named).run();
        assert_eq!(host.scene.state(&id).as_deref(), Some("paused"), "{command}: {told}");
    }
}

#[test]
#[ignore = "needs a Docker engine: run tests/run"]
fn a_command_that_a_restarted_engine_has_forgotten_keeps_its_container() {
    let engine = RealEngine::docker().exclusive();
    let host = KeptHost::on(&engine);
    let id = host.outdated("atlas").running();
    let idle = host.outdated("idle").running();
    engine.cli(&["exec", "--detach", &id, "sh", "-c", "while true; do sleep 1; done"]);
    wait_until("the engine knows the command", || engine.inspect(&id)["ExecIDs"].is_array());
    restart(&engine);
    wait_until("both are running again", || {
        [&id, &idle].iter().all(|id| engine.state(id).as_deref() == Some("running"))
    });
    assert_eq!(engine.inspect(&id)["ExecIDs"], Value::Null, "the engine has not forgotten it");

    let work = "in it in the background";
    expect_status(&host, "atlas", "active", work);
    let finished = host.reconcile(&["--include-running-orphans"]).expect_exit(0);
    host.expect_result(&finished, "atlas", "kept", work);
    host.expect_result(&finished, "idle", "removed", "");
    assert!(host.exists(&id) && !host.exists(&idle));
}

/// Ends the engine, and waits for the one that `tests/run` starts in its place. What runs on it runs on.
fn restart(engine: &RealEngine) {
    let before = server_of(engine).unwrap_or_else(|| panic!("the engine is no process of this host"));
    let ended = Command::new("kill").args(["-TERM", &before]).status().unwrap();
    assert!(ended.success());
    wait_until("another engine answers in its place", || {
        server_of(engine).is_some_and(|now| now != before) && engine.try_cli(&["version"]).is_ok()
    });
}

/// The process that was started to answer at this engine's socket.
fn server_of(engine: &RealEngine) -> Option<String> {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let mut named = processes.map(|process| process.file_name().to_string_lossy().into_owned());
    named.find(|pid| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let words: Vec<_> = line.split(|byte| *byte == 0).map(String::from_utf8_lossy).collect();
        words[0].ends_with("dockerd") && words.iter().any(|word| *word == engine.endpoint())
    })
}
