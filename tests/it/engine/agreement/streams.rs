//! What goes on while somebody reads: logs, statistics, events; and the processes and changes of a container.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::arena::{Arena, LISTENS, encoded, nanoseconds, pauses_once, told};
use crate::support::wait_until;

const TALKS: &str = "echo one; echo two";

/// The frames of a log: 1 or 2 for the output, and the text.
fn frames(mut bytes: &[u8]) -> Vec<(u8, String)> {
    let mut frames = Vec::new();
    while let Some((head, rest)) = bytes.split_at_checked(8) {
        let length = u32::from_be_bytes([head[4], head[5], head[6], head[7]]) as usize;
        assert_eq!(head[1..4], [0, 0, 0]);
        frames.push((head[0], String::from_utf8(rest[..length].to_vec()).unwrap()));
        bytes = &rest[length..];
    }
    frames
}

fn logs(arena: &Arena, id: &str, query: &str) -> Vec<(u8, String)> {
    let answer = arena.get(&format!("/containers/{id}/logs?{query}"));
    assert_eq!(answer.status, 200, "{}", answer.text());
    frames(&answer.body)
}

#[track_caller]
fn has_said(arena: &Arena, name: &str, script: &str, lines: usize) -> String {
    let id = arena.create(name, script);
    arena.expect(204, &id, "start");
    arena.wait_for_state(&id, "exited");
    wait_until("the log is written", || logs(arena, &id, "stdout=1&stderr=1").len() == lines);
    id
}

fn texts(of: u8, frames: &[(u8, String)]) -> Vec<&str> {
    frames.iter().filter(|(output, _)| *output == of).map(|(_, text)| text.as_str()).collect()
}

pub(crate) fn a_log_is_framed_by_its_outputs(arena: &Arena) {
    // Between two outputs the engine promises no order.
    let id = has_said(arena, "talks", "echo one; echo two >&2; echo three", 3);
    let both = logs(arena, &id, "stdout=1&stderr=1");
    assert_eq!(texts(1, &both), ["one\n", "three\n"]);
    assert_eq!(texts(2, &both), ["two\n"]);
    assert_eq!(logs(arena, &id, "stdout=1").len(), 2);
    assert_eq!(logs(arena, &id, "stderr=1"), [(2, "two\n".to_owned())]);
}

pub(crate) fn a_log_can_be_cut_to_its_end(arena: &Arena) {
    let id = has_said(arena, "tail", TALKS, 2);
    assert_eq!(logs(arena, &id, "stdout=1&tail=1"), [(1, "two\n".to_owned())]);
    assert_eq!(logs(arena, &id, "stdout=1&tail=0"), []);
    assert_eq!(logs(arena, &id, "stdout=1&tail=all").len(), 2);
    let id = has_said(arena, "mixed", "echo one; sleep 0.5; echo two >&2", 2);
    assert_eq!(logs(arena, &id, "stdout=1&tail=1"), [], "the last line is on the other output");
}

pub(crate) fn a_log_tells_when(arena: &Arena) {
    let id = has_said(arena, "stamped", TALKS, 2);
    let stamped = logs(arena, &id, "stdout=1&timestamps=1&tail=1");
    let (stamp, text) = stamped[0].1.split_once(' ').unwrap();
    assert!(stamp.parse::<Timestamp>().is_ok(), "{stamp}");
    assert_eq!(text, "two\n");
    let later = Timestamp::now().as_second() + 100;
    assert_eq!(logs(arena, &id, &format!("stdout=1&since={later}")), []);
    assert_eq!(logs(arena, &id, "stdout=1&since=1").len(), 2);
    assert_eq!(logs(arena, &id, "stdout=1&until=1"), []);
}

pub(crate) fn a_log_that_nobody_wrote_is_empty(arena: &Arena) {
    let id = arena.create("silent", "sleep 100");
    assert_eq!(logs(arena, &id, "stdout=1&stderr=1&follow=0"), []);
    let answer = arena.get(&format!("/containers/{id}/logs"));
    assert_eq!(answer.status, 400);
    assert!(answer.message().contains("you must choose at least one stream"), "{}", answer.message());
}

pub(crate) fn a_followed_log_goes_on_until_the_end(arena: &Arena) {
    let id = arena.create("followed", "echo begin; sleep 1; echo end");
    arena.expect(204, &id, "start");
    // The answer comes when the container has ended.
    assert_eq!(texts(1, &logs(arena, &id, "stdout=1&follow=1")), ["begin\n", "end\n"]);
    assert_eq!(arena.inspect(&id)["State"]["Running"], false);
}

pub(crate) fn a_log_outlives_a_restart(arena: &Arena) {
    let id = has_said(arena, "twice", TALKS, 2);
    arena.expect(204, &id, "start");
    wait_until("it has talked twice", || logs(arena, &id, "stdout=1").len() == 4);
    assert_eq!(texts(1, &logs(arena, &id, "stdout=1&tail=2")), ["one\n", "two\n"]);
}

pub(crate) fn statistics_of_what_runs(arena: &Arena) {
    let id = arena.running("busy", "sleep 100");
    let mut stream = arena.client().open("GET", &format!("/containers/{id}/stats"), None);
    assert_eq!(stream.status, 200);
    // What is in them depends on what the host lets its engine measure.
    for sample in stream.json_lines(2) {
        assert_eq!((&sample["id"], &sample["name"]), (&json!(id), &json!("/busy")));
        assert!(sample["cpu_stats"]["cpu_usage"]["total_usage"].is_u64(), "{sample}");
        assert!(sample["precpu_stats"].is_object() && sample["memory_stats"].is_object(), "{sample}");
        assert!(sample["read"].as_str().unwrap().parse::<Timestamp>().is_ok(), "{sample}");
    }
    let once = arena.get(&format!("/containers/{id}/stats?stream=false&one-shot=true"));
    assert_eq!(once.json_lines().len(), 1);
}

pub(crate) fn statistics_of_what_does_not_run_are_empty(arena: &Arena) {
    let id = arena.exited("done", 0);
    let sample = arena.get(&format!("/containers/{id}/stats?stream=false")).json();
    assert_eq!(sample["read"], "0001-01-01T00:00:00Z");
    assert_eq!(sample["cpu_stats"]["cpu_usage"]["total_usage"], 0);
    assert_eq!(sample["memory_stats"], json!({}));
}

pub(crate) fn the_processes_of_what_runs(arena: &Arena) {
    let id = arena.running("top", "sleep 100");
    // Right after a start the runtime's own process may still stand in its place.
    wait_until("the command is listed", || {
        let top = arena.get(&format!("/containers/{id}/top"));
        assert_eq!(top.status, 200);
        let top = top.json();
        let titles = top["Titles"].as_array().unwrap();
        let column = titles.iter().position(|title| title == "CMD").unwrap();
        assert!(titles.contains(&json!("PID")));
        let mut rows = top["Processes"].as_array().unwrap().iter();
        rows.any(|row| row[column].as_str().unwrap().contains("sleep 100"))
    });
    let told: Vec<String> =
        arena.events("1", &json!({ "container": [id], "event": ["top"] })).iter().map(told).collect();
    assert!(told.iter().any(|told| told == "top"), "everybody hears of it: {told:?}");
}

pub(crate) fn processes_tell_whose_they_are(arena: &Arena) {
    let id = arena.running("host", "sleep 100");
    let exec = arena.send(&format!("/containers/{id}/exec"), &json!({ "Cmd": ["sleep", "200"] })).json();
    let exec = exec["Id"].as_str().unwrap();
    assert_eq!(arena.send(&format!("/exec/{exec}/start"), &json!({ "Detach": true })).status, 200);
    let mut rows = Vec::new();
    wait_until("both are listed", || {
        let top =
            arena.get(&format!("/containers/{id}/top?ps_args=-eo%20pid,ppid,sid,stat,etime,args")).json();
        assert_eq!(top["Titles"], json!(["PID", "PPID", "SID", "STAT", "ELAPSED", "COMMAND"]));
        rows.clone_from(top["Processes"].as_array().unwrap());
        let is_there = |command: &str| rows.iter().any(|row| row[5].as_str().unwrap().contains(command));
        is_there("sleep 100") && is_there("sleep 200")
    });
    // The script's shell may have become its only command.
    let pid = arena.inspect(&id)["State"]["Pid"].to_string();
    let first = rows.iter().find(|row| row[0] == pid.as_str()).unwrap();
    let command = rows.iter().find(|row| row[5] == "sleep 200").unwrap();
    assert_eq!(first[1], command[1], "both are the runtime's: {rows:?}");
    assert!(rows.iter().all(|row| row[0] != first[1]), "and the runtime is not in it: {rows:?}");
    assert_eq!((&first[0], &command[0]), (&first[2], &command[2]), "each leads a session: {rows:?}");
    let refused = arena.get(&format!("/containers/{id}/top?ps_args=-eo%20nonsense"));
    assert_eq!(refused.status, 500, "{}", refused.text());
}

pub(crate) fn what_touched_nothing_has_no_changes(arena: &Arena) {
    let id = arena.create("clean", "sleep 100");
    let answer = arena.get(&format!("/containers/{id}/changes"));
    assert_eq!((answer.status, answer.json()), (200, Value::Null));
}

pub(crate) fn events_are_told_as_they_happen(arena: &Arena) {
    let filters = encoded(&json!({ "type": ["container"] }).to_string());
    // A time from which on is asked for, so that nothing is missed before the stream begins.
    let since = nanoseconds(Timestamp::now());
    let id = arena.create("live", LISTENS);
    let mut stream = arena.client().open("GET", &format!("/events?since={since}&filters={filters}"), None);
    assert_eq!(stream.json_lines(1).iter().map(told).collect::<Vec<_>>(), ["create"]);
    arena.expect(204, &id, "start");
    arena.pause(&id);
    arena.expect(204, &id, "unpause");
    let mut events = stream.json_lines(3);
    assert_eq!(events.iter().map(told).collect::<Vec<_>>(), ["start", "pause", "unpause"]);
    assert_eq!(arena.delete(&format!("/containers/{id}?force=1")).status, 204);
    while events.last().is_none_or(|event| told(event) != "destroy") {
        events.extend(stream.json_lines(1));
    }
    assert!(events.iter().all(|event| event["Actor"]["ID"] == json!(id) && event["id"] == json!(id)));
    let events = pauses_once(events.iter().map(told));
    assert_eq!(events, ["start", "pause", "unpause", "kill:9", "die:137", "destroy"]);
}

pub(crate) fn an_event_says_to_whom_it_happened(arena: &Arena) {
    let id = arena.create_with("whom", "sleep 100", &json!({ "Labels": { "app": "atlas" } }));
    let events = arena.events("1", &json!({ "container": [id] }));
    let event = &events[0];
    assert_eq!(
        (&event["Type"], &event["Action"], &event["status"]),
        (&json!("container"), &json!("create"), &json!("create"))
    );
    assert_eq!((&event["Actor"]["ID"], &event["scope"]), (&json!(id), &json!("local")));
    let attributes = &event["Actor"]["Attributes"];
    assert_eq!((&attributes["name"], &attributes["app"]), (&json!("whom"), &json!("atlas")));
    assert_eq!(attributes["image"], crate::support::engine::IMAGE);
    assert!(event["time"].is_i64() && event["timeNano"].is_i64(), "{event}");
}

pub(crate) fn events_can_be_chosen(arena: &Arena) {
    let labelled = arena.create_with("labelled", "sleep 100", &json!({ "Labels": { "app": "atlas" } }));
    let other = arena.create("other", "sleep 100");
    arena.expect(204, &other, "start");
    let chosen = |filters: Value| -> Vec<String> {
        let events = arena.events("1", &filters);
        let ours = events.iter().filter(|event| {
            [&labelled, &other].contains(&&event["id"].as_str().unwrap_or_default().to_owned())
        });
        ours.map(|event| {
            format!("{} {}", event["Actor"]["Attributes"]["name"].as_str().unwrap(), told(event))
        })
        .collect()
    };
    assert_eq!(chosen(json!({ "label": ["app=atlas"] })), ["labelled create"]);
    assert_eq!(chosen(json!({ "container": ["other"] })), ["other create", "other start"]);
    assert_eq!(chosen(json!({ "event": ["start"] })), ["other start"]);
    assert_eq!(chosen(json!({ "type": ["image"] })), [""; 0]);
    assert_eq!(chosen(json!({ "container": ["other"], "event": ["create"] })), ["other create"]);
}

pub(crate) fn events_of_a_time_that_is_over(arena: &Arena) {
    let id = arena.create("early", "sleep 100");
    let between = nanoseconds(Timestamp::now());
    arena.expect(204, &id, "start");
    let after: Vec<String> = arena.events(&between, &json!({ "container": [id] })).iter().map(told).collect();
    assert_eq!(after, ["start"]);
    assert_eq!(arena.get("/events?since=5&until=6").json_lines().len(), 0, "the answer ends by itself");
    assert_ne!(arena.get("/events?since=soon&until=1").status, 200);
    assert_eq!(
        arena.get(&format!("/events?until=1&filters={}", encoded(r#"{"colour":["red"]}"#))).status,
        200
    );
}
