//! Commands that run in a container beside its own.

use serde_json::{Value, json};

use super::arena::{Arena, LISTENS};
use crate::support::wait_until;

#[track_caller]
fn exec(arena: &Arena, id: &str, command: &[&str]) -> String {
    let answer = arena.send(&format!("/containers/{id}/exec"), &json!({ "Cmd": command }));
    assert_eq!(answer.status, 201, "{}", answer.text());
    answer.json()["Id"].as_str().unwrap().to_owned()
}

#[track_caller]
fn start(arena: &Arena, exec: &str) -> u16 {
    arena.send(&format!("/exec/{exec}/start"), &json!({ "Detach": true })).status
}

fn shown(arena: &Arena, exec: &str) -> Value {
    arena.get(&format!("/exec/{exec}/json")).json()
}

pub(crate) fn a_command_is_known_from_its_making_to_its_end(arena: &Arena) {
    let id = arena.running("host", "sleep 100");
    assert_eq!(arena.inspect(&id)["ExecIDs"], Value::Null);
    let exec = exec(arena, &id, &["sleep", "1"]);
    assert_eq!(arena.inspect(&id)["ExecIDs"], json!([exec]));
    let waiting = shown(arena, &exec);
    assert_eq!((&waiting["Running"], &waiting["ExitCode"]), (&json!(false), &Value::Null));
    assert_eq!((&waiting["ID"], &waiting["ContainerID"]), (&json!(exec), &json!(id)));
    assert_eq!(waiting["ProcessConfig"]["entrypoint"], "sleep");
    assert_eq!(waiting["ProcessConfig"]["arguments"], json!(["1"]));

    assert_eq!(start(arena, &exec), 200);
    assert_eq!(shown(arena, &exec)["Running"], true);
    assert_eq!(start(arena, &exec), 409, "it runs already");
    wait_until("the command ends", || shown(arena, &exec)["Running"] == false);
    wait_until("nobody lists it", || arena.inspect(&id)["ExecIDs"].is_null());
    assert_eq!(shown(arena, &exec)["ExitCode"], 0);
    assert_eq!(start(arena, &exec), 409, "it has run already");
    let expected = ["create", "start", "exec_create: sleep 1", "exec_start: sleep 1", "exec_die:0"];
    arena.expect_events(&id, &expected);
    assert_eq!(arena.state(&id), "running");
}

pub(crate) fn a_command_says_how_it_ended(arena: &Arena) {
    let id = arena.running("host", "sleep 100");
    let exec = exec(arena, &id, &["sh", "-c", "exit 9"]);
    assert_eq!(start(arena, &exec), 200);
    wait_until("the command ends", || shown(arena, &exec)["ExitCode"] == 9);
}

pub(crate) fn a_command_needs_a_container_that_runs(arena: &Arena) {
    let refused = |id: &str, words: &str| {
        let answer = arena.send(&format!("/containers/{id}/exec"), &json!({ "Cmd": ["true"] }));
        assert_eq!(answer.status, 409, "{}", answer.text());
        assert!(answer.message().contains(words), "{}", answer.message());
    };
    refused(&arena.create("made", "sleep 100"), "is not running");
    refused(&arena.exited("ended", 0), "is not running");
    let paused = arena.running("paused", "sleep 100");
    arena.pause(&paused);
    refused(&paused, "is paused, unpause the container before exec");
}

pub(crate) fn a_command_must_be_one(arena: &Arena) {
    let id = arena.running("host", "sleep 100");
    let answer = arena.send(&format!("/containers/{id}/exec"), &json!({ "Cmd": [] }));
    assert_eq!((answer.status, answer.message()), (400, "No exec command specified".to_owned()));
    assert_eq!(arena.send("/containers/nobody/exec", &json!({ "Cmd": ["true"] })).status, 404);
    let nobody = "0".repeat(64);
    let answer = arena.get(&format!("/exec/{nobody}/json"));
    assert_eq!((answer.status, answer.message()), (404, format!("No such exec instance: {nobody}")));
    assert_eq!(start(arena, &nobody), 404);
}

pub(crate) fn a_stop_ends_the_commands_as_well(arena: &Arena) {
    let id = arena.running("host", LISTENS);
    let exec = exec(arena, &id, &["sleep", "100"]);
    assert_eq!(start(arena, &exec), 200);
    assert_eq!(shown(arena, &exec)["Running"], true);
    arena.expect(204, &id, "stop?t=60");
    assert_eq!(arena.state(&id), "exited");
    wait_until("nobody lists it", || arena.inspect(&id)["ExecIDs"].is_null());
}
