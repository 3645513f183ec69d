//! What runs in a container, on the simulated engine: the same facts at every step of the way to a removal.

use serde_json::json;

use crate::support::proxy::Proxy;
use crate::support::simulated::SimHost;

const RECONCILE: [&str; 5] = ["reconcile", "--yes", "--json", "--include-running-orphans", "--min-age=0s"];

fn words(text: &str) -> Vec<String> {
    text.split(' ').map(str::to_owned).collect()
}

#[test]
fn a_command_that_the_engine_has_forgotten_keeps_its_container() {
    let host = SimHost::new();
    let id = host.sandbox("box", "atlas").sleeping().placed();
    let idle = host.sandbox("idle", "atlas").sleeping().placed();
    host.engine.act(|world, now| {
        let command = words("sleep 5000");
        let exec = world.create_exec(now, id.as_str(), command).unwrap();
        world.start_exec(now, &exec).unwrap();
        world.forget_commands();
    });
    host.sandkeeper(&["status"]).run().expect_exit(0).expect_stdout("sleep runs in it in the background");
    host.sandkeeper(&RECONCILE).run().expect_exit(0);
    assert_eq!((host.state(&id).as_deref(), host.state(&idle)), (Some("running"), None));
    host.engine.act(|world, _| world.end_what_was_left(id.as_str()).unwrap());
    host.sandkeeper(&RECONCILE).run().expect_exit(0);
    assert_eq!(host.state(&id), None);
}

#[test]
fn work_that_begins_before_the_stop_keeps_its_container() {
    let host = SimHost::new();
    let id = host.sandbox("box", "atlas").sleeping().placed();
    let engine = std::sync::Arc::new(host.engine);
    let proxy = Proxy::before(engine.socket());
    let (worker, target) = (std::sync::Arc::clone(&engine), id.clone());
    // The first list is the plan's, the second the check's.
    proxy.when("GET", "/containers/*/top").nth(2).before(move |_| {
        worker.act(|world, now| world.leave_behind(now, target.as_str(), words("make all")).unwrap());
    });
    let finished = host.home.sandkeeper(RECONCILE).env("DOCKER_HOST", proxy.endpoint()).run().expect_exit(3);
    finished.expect_stdout("make runs in it in the background");
    assert!(proxy.mutations().is_empty());
    assert!(engine.look(|world, _| world.find(id.as_str()).is_ok()));
}

#[test]
fn a_container_that_another_joins_before_the_stop_is_kept() {
    let host = SimHost::new();
    let id = host.sandbox("box", "atlas").sleeping().placed();
    let engine = std::sync::Arc::new(host.engine);
    let proxy = Proxy::before(engine.socket());
    let (worker, target) = (std::sync::Arc::clone(&engine), id.clone());
    proxy.when("GET", "/containers/*/top").nth(2).before(move |_| {
        worker.act(|world, now| {
            let mode = format!("container:{target}");
            let body = json!({ "Image": "sandbox:latest", "Cmd": ["sleep", "5000"], "HostConfig": { "NetworkMode": mode } });
            let sidecar = world.create(now, Some("sidecar"), &body).unwrap();
            world.start(now, &sidecar).unwrap();
        });
    });
    let finished = host.home.sandkeeper(RECONCILE).env("DOCKER_HOST", proxy.endpoint()).run().expect_exit(3);
    finished.expect_stdout("sidecar runs in its network namespace");
    assert!(proxy.mutations().is_empty());
    assert!(engine.look(|world, _| world.find(id.as_str()).is_ok()));
}

#[test]
fn an_engine_that_does_not_list_processes_lets_nothing_that_runs_go() {
    let host = SimHost::new();
    let runs = host.sandbox("runs", "atlas").sleeping().placed();
    let ended = host.orphan("ended", "atlas");
    let proxy = Proxy::before(host.engine.socket());
    proxy.when("GET", "/containers/*/top").answer(500, "ps: not found");
    let finished = host.home.sandkeeper(RECONCILE).env("DOCKER_HOST", proxy.endpoint()).run();
    finished.expect_stdout("whether something runs in it in the background cannot be told");
    assert_eq!((host.state(&runs).as_deref(), host.state(&ended)), (Some("running"), None));
}
