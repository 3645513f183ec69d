//! From made to gone: states, exit codes, and what is told of it in which order.

use std::thread;

use serde_json::json;

use super::arena::{Arena, LISTENS};
use crate::support::wait_until;

pub(crate) fn a_container_is_made_and_not_started(arena: &Arena) {
    let id = arena.create("made", "sleep 100");
    let state = &arena.inspect(&id)["State"];
    assert_eq!(id.len(), 64);
    assert_eq!(
        (&state["Status"], &state["Running"], &state["Pid"]),
        (&json!("created"), &json!(false), &json!(0))
    );
    assert_eq!((&state["StartedAt"], &state["ExitCode"]), (&json!("0001-01-01T00:00:00Z"), &json!(0)));
    arena.expect_events(&id, &["create"]);
}

pub(crate) fn a_start_runs_it_and_a_second_one_changes_nothing(arena: &Arena) {
    let id = arena.create("run", "sleep 100");
    arena.expect(204, &id, "start");
    arena.expect(304, &id, "start");
    let state = &arena.inspect(&id)["State"];
    assert_eq!((&state["Status"], &state["Running"]), (&json!("running"), &json!(true)));
    assert!(state["Pid"].as_i64().unwrap() > 0);
    assert_ne!(state["StartedAt"], json!("0001-01-01T00:00:00Z"));
    arena.expect_events(&id, &["create", "start"]);
}

pub(crate) fn a_stop_lets_what_listens_end_by_itself(arena: &Arena) {
    let id = arena.running("listens", LISTENS);
    arena.expect(204, &id, "stop?t=60");
    assert_eq!((arena.state(&id).as_str(), arena.exit_code(&id)), ("exited", 3));
    arena.expect_events(&id, &["create", "start", "kill:15", "die:3", "stop"]);
}

pub(crate) fn a_stop_ends_what_does_not_listen_after_its_grace(arena: &Arena) {
    let id = arena.running("deaf", "sleep 100");
    arena.expect(204, &id, "stop?t=1");
    assert_eq!((arena.state(&id).as_str(), arena.exit_code(&id)), ("exited", 137));
    arena.expect_events(&id, &["create", "start", "kill:15", "kill:9", "die:137", "stop"]);
}

pub(crate) fn a_stop_without_grace_ends_it_at_once(arena: &Arena) {
    let id = arena.running("no-grace", "sleep 100");
    arena.expect(204, &id, "stop?t=0");
    assert_eq!((arena.state(&id).as_str(), arena.exit_code(&id)), ("exited", 137));
}

pub(crate) fn a_stop_uses_the_signal_the_container_asks_for(arena: &Arena) {
    let script = "trap 'exit 4' USR1; while :; do sleep 0.1; done";
    let id = arena.running_with("own-signal", script, &json!({ "StopSignal": "SIGUSR1" }));
    arena.expect(204, &id, "stop?t=60");
    assert_eq!(arena.exit_code(&id), 4);
    arena.expect_events(&id, &["create", "start", "kill:10", "die:4", "stop"]);
}

pub(crate) fn a_stop_of_what_does_not_run_changes_nothing(arena: &Arena) {
    let made = arena.create("never-ran", "sleep 100");
    arena.expect(304, &made, "stop?t=1");
    let ended = arena.exited("has-run", 0);
    arena.expect(304, &ended, "stop?t=1");
    arena.expect_events(&ended, &["create", "start", "die:0"]);
}

pub(crate) fn a_stop_wakes_what_is_paused(arena: &Arena) {
    let id = arena.running("paused", "sleep 100");
    arena.pause(&id);
    arena.expect(204, &id, "stop?t=1");
    assert_eq!((arena.state(&id).as_str(), arena.exit_code(&id)), ("exited", 137));
    // The engine tells of the signal and of the waking from two places at once, and may tell of the pause again.
    let events = arena.events_of(&id);
    assert_eq!(events[..3], ["create", "start", "pause"]);
    assert!(events[3..].iter().any(|event| event == "unpause"), "{events:?}");
    let others: Vec<&String> = events[3..].iter().filter(|event| !event.ends_with("pause")).collect();
    assert_eq!(others, ["kill:15", "kill:9", "die:137", "stop"]);
}

pub(crate) fn two_stops_at_once_both_succeed(arena: &Arena) {
    let id = arena.running("twice", LISTENS);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let status = arena.post(&format!("/containers/{id}/stop?t=60")).status;
                assert!([204, 304].contains(&status), "{status}");
            });
        }
    });
    assert_eq!((arena.state(&id).as_str(), arena.exit_code(&id)), ("exited", 3));
}

pub(crate) fn a_kill_ends_it_without_asking(arena: &Arena) {
    let id = arena.running("killed", LISTENS);
    arena.expect(204, &id, "kill");
    arena.wait_for_state(&id, "exited");
    assert_eq!(arena.exit_code(&id), 137);
    arena.expect_events(&id, &["create", "start", "kill:9", "die:137"]);
}

pub(crate) fn a_signal_nobody_listens_to_changes_nothing(arena: &Arena) {
    let id = arena.running("signalled", "sleep 100");
    arena.expect(204, &id, "kill?signal=SIGUSR1");
    arena.expect(204, &id, "kill?signal=15");
    assert_eq!(arena.state(&id), "running");
    arena.expect_events(&id, &["create", "start", "kill:10", "kill:15"]);
}

pub(crate) fn a_signal_somebody_listens_to_ends_it(arena: &Arena) {
    let id = arena.running("obedient", "trap 'exit 5' USR2; while :; do sleep 0.1; done");
    arena.expect(204, &id, "kill?signal=USR2");
    arena.wait_for_state(&id, "exited");
    assert_eq!(arena.exit_code(&id), 5);
    arena.expect_events(&id, &["create", "start", "kill:12", "die:5"]);
}

pub(crate) fn a_signal_wakes_what_is_paused(arena: &Arena) {
    let id = arena.running("frozen", "sleep 100");
    arena.pause(&id);
    arena.expect(204, &id, "kill?signal=TERM");
    arena.wait_for_state(&id, "running");
}

pub(crate) fn a_pause_freezes_it_until_it_is_woken(arena: &Arena) {
    let id = arena.running("pause", "sleep 100");
    arena.pause(&id);
    let state = &arena.inspect(&id)["State"];
    assert_eq!(
        (&state["Status"], &state["Running"], &state["Paused"]),
        (&json!("paused"), &json!(true), &json!(true))
    );
    arena.expect(204, &id, "unpause");
    assert_eq!(arena.state(&id), "running");
    arena.expect_events(&id, &["create", "start", "pause", "unpause"]);
}

pub(crate) fn what_ends_by_itself_keeps_its_code(arena: &Arena) {
    let id = arena.exited("ends", 7);
    let state = &arena.inspect(&id)["State"];
    assert_eq!((&state["ExitCode"], &state["Running"], &state["Pid"]), (&json!(7), &json!(false), &json!(0)));
    assert_ne!(state["FinishedAt"], json!("0001-01-01T00:00:00Z"));
    arena.expect_events(&id, &["create", "start", "die:7"]);
}

pub(crate) fn what_has_ended_can_be_started_again(arena: &Arena) {
    let id = arena.running("again", LISTENS);
    let first = arena.inspect(&id)["State"]["StartedAt"].clone();
    arena.expect(204, &id, "stop?t=60");
    arena.expect(204, &id, "start");
    let second = arena.inspect(&id);
    assert_eq!((&second["State"]["Status"], &second["RestartCount"]), (&json!("running"), &json!(0)));
    assert_ne!(second["State"]["StartedAt"], first);
    assert_eq!(second["State"]["ExitCode"], json!(0));
}

pub(crate) fn a_restart_policy_starts_it_again(arena: &Arena) {
    let wishes = json!({ "HostConfig": { "RestartPolicy": { "Name": "always" } } });
    let id = arena.create_with("always", "sleep 0.2; exit 4", &wishes);
    arena.expect(204, &id, "start");
    wait_until("it is started again", || arena.inspect(&id)["RestartCount"].as_i64() >= Some(2));
    assert_eq!(arena.events_of(&id)[..5], ["create", "start", "die:4", "start", "die:4"]);
    assert!(["running", "restarting"].contains(&arena.state(&id).as_str()));
    arena.expect(204, &id, "stop?t=1");
    assert_eq!(arena.state(&id), "exited");
    assert_eq!(arena.events_of(&id).last().unwrap(), "stop");
}

pub(crate) fn a_restart_policy_for_failures_gives_up(arena: &Arena) {
    let policy = json!({ "Name": "on-failure", "MaximumRetryCount": 2 });
    let id = arena.create_with("fails", "exit 1", &json!({ "HostConfig": { "RestartPolicy": policy } }));
    arena.expect(204, &id, "start");
    wait_until("it gives up", || {
        let inspected = arena.inspect(&id);
        inspected["State"]["Status"] == "exited" && inspected["RestartCount"] == 2
    });
    let expected = ["create", "start", "die:1", "start", "die:1", "start", "die:1"];
    arena.expect_events(&id, &expected);
}

pub(crate) fn a_restart_policy_for_failures_lets_success_be(arena: &Arena) {
    let policy = json!({ "Name": "on-failure", "MaximumRetryCount": 2 });
    let id = arena.create_with("succeeds", "exit 0", &json!({ "HostConfig": { "RestartPolicy": policy } }));
    arena.expect(204, &id, "start");
    arena.wait_for_state(&id, "exited");
    assert_eq!(arena.inspect(&id)["RestartCount"], 0);
    arena.expect_events(&id, &["create", "start", "die:0"]);
}

pub(crate) fn a_killed_container_is_not_started_again(arena: &Arena) {
    let wishes = json!({ "HostConfig": { "RestartPolicy": { "Name": "always" } } });
    let id = arena.running_with("kill-always", "sleep 100", &wishes);
    arena.expect(204, &id, "kill");
    arena.wait_for_state(&id, "exited");
    arena.expect_events(&id, &["create", "start", "kill:9", "die:137"]);
}

pub(crate) fn one_that_removes_itself_is_gone_after_its_end(arena: &Arena) {
    let wishes = json!({ "HostConfig": { "AutoRemove": true } });
    let id = arena.running_with("temporary", LISTENS, &wishes);
    arena.expect(204, &id, "stop?t=60");
    arena.wait_until_gone(&id);
    wait_until("its end is told", || arena.events_of(&id).len() == 6);
    let told = arena.events_of(&id);
    assert_eq!(told[..4], ["create", "start", "kill:15", "die:3"]);
    assert!(told.contains(&"destroy".to_owned()), "{told:?}");
}

pub(crate) fn a_removal_takes_what_does_not_run(arena: &Arena) {
    let id = arena.exited("old", 0);
    assert_eq!(arena.delete(&format!("/containers/{id}")).status, 204);
    assert!(arena.is_gone(&id));
    assert_eq!(arena.delete(&format!("/containers/{id}")).status, 404);
    arena.expect_events(&id, &["create", "start", "die:0", "destroy"]);
    let made = arena.create("old", "sleep 100");
    assert_ne!(made, id, "the name is free again");
}

pub(crate) fn a_removal_by_force_takes_what_runs(arena: &Arena) {
    let id = arena.running("forced", LISTENS);
    assert_eq!(arena.delete(&format!("/containers/{id}?force=true")).status, 204);
    assert!(arena.is_gone(&id));
    arena.expect_events(&id, &["create", "start", "kill:9", "die:137", "destroy"]);
}

pub(crate) fn a_rename_frees_the_old_name(arena: &Arena) {
    let id = arena.create("before", "sleep 100");
    arena.expect(204, &id, "rename?name=after");
    assert_eq!(arena.inspect(&id)["Name"], "/after");
    assert_eq!(arena.inspect("after")["Id"], json!(id));
    assert!(arena.is_gone("before"));
    arena.create("before", "sleep 100");
    arena.expect_events(&id, &["create", "rename"]);
}

pub(crate) fn whoever_waits_hears_the_exit_code(arena: &Arena) {
    let id = arena.create("awaited", "sleep 0.5; exit 6");
    arena.expect(204, &id, "start");
    assert_eq!(arena.expect(200, &id, "wait").json()["StatusCode"], 6);
}

pub(crate) fn an_inspection_shows_what_was_asked_for(arena: &Arena) {
    let wishes = json!({
        "Labels": { "app": "atlas", "empty": "" },
        "Env": ["TOKEN=secret"],
        "WorkingDir": "/tmp",
        "HostConfig": {
            "Binds": ["/tmp:/host"], "Tmpfs": { "/scratch": "" }, "AutoRemove": false, "Memory": 67_108_864,
            "RestartPolicy": { "Name": "on-failure", "MaximumRetryCount": 3 },
        },
    });
    let id = arena.create_with("wishes", "sleep 100", &wishes);
    let shown = arena.inspect(&id);
    assert_eq!(shown["Config"]["Labels"], wishes["Labels"]);
    assert_eq!(shown["Config"]["WorkingDir"], "/tmp");
    assert_eq!(shown["Config"]["Image"], crate::support::engine::IMAGE);
    assert!(shown["Config"]["Env"].as_array().unwrap().contains(&json!("TOKEN=secret")));
    for key in ["Binds", "Tmpfs", "AutoRemove", "Memory", "RestartPolicy"] {
        assert_eq!(shown["HostConfig"][key], wishes["HostConfig"][key], "{key}");
    }
    let mounts = shown["Mounts"].as_array().unwrap();
    assert_eq!(mounts.len(), 1, "{mounts:?}");
    let mount = &mounts[0];
    assert_eq!(
        (&mount["Type"], &mount["Source"], &mount["Destination"]),
        (&json!("bind"), &json!("/tmp"), &json!("/host"))
    );
    assert_eq!((&shown["Path"], &shown["Args"]), (&json!("sh"), &json!(["-c", "sleep 100"])));
    assert!(shown["SizeRw"].is_null());
    let sized = arena.get(&format!("/containers/{id}/json?size=1")).json();
    assert!(sized["SizeRw"].is_i64() || sized["SizeRw"].is_u64(), "{}", sized["SizeRw"]);
}
