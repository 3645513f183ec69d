//! What runs in a container, on the simulated engine: the same facts at every step of the way to a removal.

use std::sync::Arc;

use jiff::Timestamp;
use sandkeeper::engine::sim::World;
use serde_json::json;

use crate::support::proxy::Proxy;
use crate::support::simulated::SimHost;

/// What only sleeps does not listen to a stop.
const RECONCILE: [&str; 6] =
    ["reconcile", "--yes", "--json", "--include-running-orphans", "--min-age=0s", "--grace=1s"];

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

/// A sandbox that is to go, in which something changes between the plan and the check. It stays, for this reason.
fn stays_when(change: impl Fn(&mut World, Timestamp, &str) + Send + Sync + 'static, reason: &str) {
    let host = SimHost::new();
    let id = host.sandbox("box", "atlas").sleeping().placed();
    let engine = Arc::new(host.engine);
    let proxy = Proxy::before(engine.socket());
    let (changing, target) = (Arc::clone(&engine), id.clone());
    // The first list is the plan's, the second the check's.
    proxy.when("GET", "/containers/*/top").nth(2).before(move |_| {
        changing.act(|world, now| change(world, now, target.as_str()));
    });
    let finished = host.home.sandkeeper(RECONCILE).env("DOCKER_HOST", proxy.endpoint()).run().expect_exit(3);
    finished.expect_stdout(reason);
    assert!(proxy.mutations().is_empty());
    assert!(engine.look(|world, _| world.find(id.as_str()).is_ok()));
}

#[test]
fn work_that_begins_before_the_stop_keeps_its_container() {
    stays_when(
        |world, now, id| world.leave_behind(now, id, words("make all")).unwrap(),
        "make runs in it in the background",
    );
}

#[test]
fn a_container_that_another_joins_before_the_stop_is_kept() {
    let joins = |world: &mut World, now, id: &str| {
        let host = json!({ "NetworkMode": format!("container:{id}") });
        let body = json!({ "Image": "sandbox:latest", "Cmd": ["sleep", "5000"], "HostConfig": host });
        let sidecar = world.create(now, Some("sidecar"), &body).unwrap();
        world.start(now, &sidecar).unwrap();
    };
    stays_when(joins, "sidecar runs in its network namespace");
}

#[test]
fn a_list_that_makes_no_sense_is_asked_for_again() {
    let host = SimHost::new();
    let id = host.sandbox("box", "atlas").sleeping().placed();
    let proxy = Proxy::before(host.engine.socket());
    proxy.when("GET", "/containers/*/top").nth(1).answer(200, "no columns");
    proxy.when("GET", "/containers/*/top").nth(3).answer(200, "no columns");
    host.home.sandkeeper(RECONCILE).env("DOCKER_HOST", proxy.endpoint()).run().expect_exit(0);
    assert_eq!(host.state(&id), None);
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
