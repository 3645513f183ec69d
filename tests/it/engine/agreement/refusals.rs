//! What the engine does not do, and with which words it says so.

use serde_json::{Value, json};

use super::arena::{Arena, LISTENS};
use crate::support::engine::{IMAGE, NETWORK};

#[track_caller]
fn expect_refused(arena: &Arena, status: u16, id: &str, what: &str, words: &str) {
    let message = arena.expect(status, id, what).message();
    assert!(message.contains(words), "{what}: {message:?} lacks {words:?}");
}

#[track_caller]
fn expect_not_made(arena: &Arena, status: u16, name: &str, body: &Value, words: &str) {
    let answer = arena.send(&format!("/containers/create?name={name}"), body);
    assert_eq!(answer.status, status, "{}", answer.text());
    assert!(answer.message().contains(words), "{:?} lacks {words:?}", answer.message());
}

pub(crate) fn what_cannot_be_made_is_refused(arena: &Arena) {
    let body = Arena::body("sleep 100");
    expect_not_made(
        arena,
        404,
        "a1",
        &json!({ "Image": "nowhere:1", "Cmd": ["true"] }),
        "No such image: nowhere:1",
    );
    expect_not_made(
        arena,
        404,
        "a1",
        &json!({ "Image": "nowhere", "Cmd": ["true"] }),
        "No such image: nowhere:latest",
    );
    expect_not_made(arena, 400, "a1", &json!({ "Image": IMAGE }), "No command specified");
    expect_not_made(arena, 400, "b%24d", &body, "Invalid container name (b$d)");
    expect_not_made(arena, 400, "-dash", &body, "Invalid container name");
    expect_not_made(arena, 400, "x", &body, "Invalid container name");
    let answer = arena.post("/containers/create?name=a1");
    assert_ne!(answer.status, 201, "without a body");
    assert_eq!(arena.names("all=1", &json!({})), [""; 0]);
}

pub(crate) fn a_name_belongs_to_one_container(arena: &Arena) {
    let id = arena.create("taken", "sleep 100");
    expect_not_made(arena, 409, "taken", &Arena::body("sleep 100"), &id);
    let other = arena.create("other", "sleep 100");
    expect_refused(arena, 409, &other, "rename?name=taken", "already in use");
    expect_refused(arena, 400, &other, "rename?name=other", "same name");
    expect_refused(arena, 400, &other, "rename?name=", "may be empty");
    expect_refused(arena, 400, &other, "rename", "may be empty");
    expect_refused(arena, 400, &other, "rename?name=b%24d", "Invalid container name (/b$d)");
    expect_refused(arena, 404, "nobody", "rename?name=free", "No such container: nobody");
}

pub(crate) fn without_a_name_the_engine_invents_one(arena: &Arena) {
    let answer = arena.send("/containers/create", &Arena::body("sleep 100"));
    assert_eq!(answer.status, 201);
    let name = arena.inspect(answer.json()["Id"].as_str().unwrap())["Name"].as_str().unwrap().to_owned();
    assert!(name.len() > 2 && name.starts_with('/'), "{name}");
}

pub(crate) fn what_is_not_there_is_not_found(arena: &Arena) {
    let nobody = "0".repeat(64);
    for what in ["start", "stop", "kill", "pause", "unpause", "wait"] {
        expect_refused(arena, 404, &nobody, what, "No such container");
    }
    for what in ["json", "logs?stdout=1", "stats?stream=false", "top", "changes"] {
        let answer = arena.get(&format!("/containers/{nobody}/{what}"));
        assert_eq!(
            (answer.status, answer.message()),
            (404, format!("No such container: {nobody}")),
            "{what}"
        );
    }
    assert_eq!(arena.delete(&format!("/containers/{nobody}")).status, 404);
    assert_eq!(arena.delete(&format!("/containers/{nobody}?force=1")).status, 404);
}

pub(crate) fn what_does_not_run_takes_no_signal_and_no_pause(arena: &Arena) {
    let made = arena.create("made", "sleep 100");
    let ended = arena.exited("ended", 0);
    for id in [made, ended] {
        expect_refused(arena, 409, &id, "kill", "is not running");
        expect_refused(arena, 409, &id, "pause", "is not running");
        expect_refused(arena, 500, &id, "unpause", "is not paused");
        let top = arena.get(&format!("/containers/{id}/top"));
        assert_eq!(top.status, 409, "{}", top.text());
    }
}

pub(crate) fn an_unknown_signal_is_refused(arena: &Arena) {
    let id = arena.running("listens", LISTENS);
    expect_refused(arena, 400, &id, "kill?signal=USR9", "Invalid signal: USR9");
    assert_eq!(arena.state(&id), "running");
}

pub(crate) fn what_is_paused_is_not_started_paused_or_removed(arena: &Arena) {
    let id = arena.running("paused", "sleep 100");
    expect_refused(arena, 500, &id, "unpause", "is not paused");
    arena.pause(&id);
    expect_refused(arena, 409, &id, "pause", "is already paused");
    expect_refused(arena, 409, &id, "start", "cannot start a paused container");
    let answer = arena.delete(&format!("/containers/{id}"));
    assert_eq!(answer.status, 409);
    assert!(answer.message().contains("You cannot remove a paused container"), "{}", answer.message());
    assert_eq!(arena.state(&id), "paused");
}

pub(crate) fn what_runs_is_not_removed(arena: &Arena) {
    let id = arena.running("runs", "sleep 100");
    let answer = arena.delete(&format!("/containers/{id}"));
    assert_eq!(answer.status, 409);
    assert!(answer.message().contains("You cannot remove a running container"), "{}", answer.message());
    assert_eq!(arena.delete(&format!("/containers/{id}?force=false&v=false")).status, 409);
    assert_eq!(arena.state(&id), "running");
    arena.expect_events(&id, &["create", "start"]);
}

pub(crate) fn a_command_the_image_lacks_fails_the_start(arena: &Arena) {
    let body =
        json!({ "Image": IMAGE, "Cmd": ["no-such-command"], "HostConfig": { "NetworkMode": NETWORK } });
    let answer = arena.send("/containers/create?name=lacks", &body);
    assert_eq!(answer.status, 201);
    let id = answer.json()["Id"].as_str().unwrap().to_owned();
    expect_refused(arena, 400, &id, "start", "executable file not found");
    assert_eq!((arena.state(&id).as_str(), arena.exit_code(&id)), ("created", 127));
    arena.expect_events(&id, &["create"]);
}

pub(crate) fn a_container_is_found_by_id_name_and_beginning(arena: &Arena) {
    let id = arena.create("found", "sleep 100");
    for reference in [id.as_str(), "found", &id[..12], &id[..5]] {
        assert_eq!(arena.inspect(reference)["Id"], json!(id), "{reference}");
    }
    let answer = arena.get(&format!("/containers/{}/json", &id[1..13]));
    assert_eq!(answer.status, 404, "only the beginning counts");
}

pub(crate) fn a_beginning_that_fits_several_is_refused(arena: &Arena) {
    let mut first = [const { None::<String> }; 16];
    for number in 0..17 {
        let id = arena.create(&format!("many-{number}"), "sleep 100");
        let digit = usize::from_str_radix(&id[..1], 16).unwrap();
        if first[digit].replace(id.clone()).is_none() {
            continue;
        }
        let answer = arena.get(&format!("/containers/{}/json", &id[..1]));
        assert_eq!(answer.status, 500, "{}", answer.text());
        assert!(answer.message().contains("Multiple IDs found with provided prefix"), "{}", answer.message());
        return;
    }
    panic!("seventeen ids begin with seventeen digits");
}

pub(crate) fn a_name_goes_before_the_beginning_of_an_id(arena: &Arena) {
    let id = arena.create("victim", "sleep 100");
    let impostor = arena.create(&id[..12], "sleep 100");
    assert_eq!(arena.inspect(&id[..12])["Id"], json!(impostor));
    assert_eq!(arena.inspect(&id)["Id"], json!(id), "the full id goes first");
}

pub(crate) fn the_id_of_one_that_is_gone_may_be_anothers_name(arena: &Arena) {
    let id = arena.create("gone", "sleep 100");
    assert_eq!(arena.delete(&format!("/containers/{id}")).status, 204);
    let heir = arena.create(&id, "sleep 100");
    assert_eq!(arena.inspect(&id)["Id"], json!(heir));
}

pub(crate) fn only_versions_the_engine_speaks_are_answered(arena: &Arena) {
    for version in ["", "/v1.41", "/v1.24"] {
        assert_eq!(arena.get(&format!("{version}/containers/json")).status, 200, "{version:?}");
    }
    let answer = arena.get("/v1.99/containers/json");
    assert_eq!(answer.status, 400);
    assert!(answer.message().contains("client version 1.99 is too new"), "{}", answer.message());
    let answer = arena.get("/v1.11/containers/json");
    assert_eq!(answer.status, 400);
    assert!(answer.text().contains("client version 1.11 is too old"), "{}", answer.text());
}

pub(crate) fn an_unknown_page_is_not_found(arena: &Arena) {
    for (method, target) in [("GET", "/no/such/page"), ("PUT", "/containers/json"), ("GET", "/")] {
        let answer = arena.client().ask(method, target, None);
        assert_eq!(
            (answer.status, answer.message()),
            (404, "page not found".to_owned()),
            "{method} {target}"
        );
    }
}

pub(crate) fn a_ping_names_the_api(arena: &Arena) {
    for method in ["GET", "HEAD"] {
        let answer = arena.client().ask(method, "/_ping", None);
        assert_eq!((answer.status, answer.header("api-version")), (200, Some("1.41")), "{method}");
        assert_eq!(answer.header("ostype"), Some("linux"));
    }
    assert_eq!(arena.get("/_ping").text(), "OK");
    let version = arena.get("/version").json();
    assert_eq!((&version["ApiVersion"], &version["MinAPIVersion"]), (&json!("1.41"), &json!("1.12")));
    assert!(version["Version"].as_str().unwrap().starts_with("20.10."), "{version}");
}
