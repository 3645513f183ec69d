//! The gate: a socket through which people look at an engine and cannot change anything.

use std::io::{BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::Path;

use crate::support::gate::{GateProcess, connect, read_chunk, read_head};
use crate::support::program::Home;
use crate::support::simulated::SimHost;
use crate::support::wait_until;
use jiff::Timestamp;
use sandkeeper::engine::sim::{Placed, Program as Inside};
use serde_json::{Value, json};

const CANARY: &str = "hunter2-canary";

/// A container that is nobody's sandbox, with a secret everywhere one can be.
fn stranger(host: &SimHost) -> String {
    let config = json!({ "Env": [format!("DATABASE={CANARY}"), "PATH=/bin"] });
    let placed = Placed {
        name: "stranger".to_owned(),
        image: "sandbox:latest".to_owned(),
        labels: [("api-key".to_owned(), CANARY.to_owned())].into(),
        command: vec!["serve".to_owned(), "--password".to_owned(), CANARY.to_owned()],
        config: config.as_object().unwrap().clone(),
        program: Inside::service(),
        state: "running".to_owned(),
        created_at: Timestamp::now(),
        started_at: Some(Timestamp::now()),
        ..Placed::default()
    };
    host.engine.act(|world, _| world.place(placed))
}

#[test]
fn questions_pass_and_everything_else_is_refused_with_a_sentence_and_a_line_in_the_log() {
    let host = SimHost::new();
    let id = host.idle("atlas-1", "atlas");
    let gate = GateProcess::start(&host.home, &host.endpoint(), &[]);
    for target in
        ["/_ping", "/version", "/info", "/v1.41/containers/json?all=1", "/images/sandbox:latest/json"]
    {
        let answer = gate.get(target);
        assert_eq!(answer.status, 200, "{target}: {answer:?}");
        assert!(answer.header("sandkeeper-gate").is_some(), "{target}");
    }
    assert_eq!(gate.get(&format!("/containers/{id}/json")).json()["Id"], id.as_str());
    assert_eq!(gate.get("/containers/nobody/json").status, 404);
    let before = host.engine.requests().len();
    let refused = [
        ("POST", format!("/containers/{id}/stop")),
        ("DELETE", format!("/containers/{id}")),
        ("PUT", format!("/containers/{id}/archive?path=/")),
        ("GET", format!("/containers/{id}/archive?path=/etc/passwd")),
        ("GET", format!("/containers/{id}/export")),
        ("GET", "/containers//json".to_owned()),
        ("GET", format!("/containers/../containers/{id}/json")),
        ("GET", "/containers/json?size=1".to_owned()),
        ("GET", "/v9.9/info".to_owned()),
        ("GET", "http://engine/containers/json".to_owned()),
        ("OPTIONS", "*".to_owned()),
        ("HEAD", "/containers/json".to_owned()),
    ];
    for (method, target) in &refused {
        let answer = gate.ask(method, target);
        assert_eq!(answer.status, 403, "{method} {target}: {answer:?}");
        if *method != "HEAD" {
            assert!(!answer.json()["message"].as_str().unwrap().is_empty());
        }
    }
    assert_eq!(host.engine.requests().len(), before, "the engine hears of none of it");
    let lines = || gate.log().lines().filter(|line| line.starts_with("refused uid")).count();
    wait_until("one line for each", || lines() == refused.len());
    gate.end();
}

#[test]
fn bodies_upgrades_and_other_protocols_are_refused() {
    let host = SimHost::new();
    let gate = GateProcess::start(&host.home, &host.endpoint(), &[]);
    let before = host.engine.requests().len();
    let heads = [
        "GET /containers/json HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}",
        "GET /containers/json HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "GET /containers/json HTTP/1.1\r\nHost: x\r\nConnection: keep-alive, Upgrade\r\nUpgrade: tcp\r\n\r\n",
        "GET /containers/json HTTP/1.1\r\nHost: x\r\nConnection: upgrade\r\n\r\n",
        "GET /containers/json HTTP/1.0\r\n\r\n",
    ];
    for head in heads {
        let mut stream = connect(gate.socket());
        stream.write_all(head.as_bytes()).unwrap();
        let (status, _) = read_head(&mut BufReader::new(stream)).unwrap();
        assert_eq!(status, 403, "{head}");
    }
    let mut stream = connect(gate.socket());
    stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    assert!(!String::from_utf8_lossy(&answer).contains(" 200 "));
    assert_eq!(host.engine.requests().len(), before);
    gate.end();
}

#[test]
fn secrets_stay_behind_and_facts_pass() {
    let host = SimHost::new();
    let id = stranger(&host);
    host.sandbox("odd", "a\u{202e}b").label("sandkeeper.session", "token=kept").placed();
    let gate = GateProcess::start(&host.home, &host.endpoint(), &[]);
    let inspection = gate.get(&format!("/containers/{id}/json"));
    let list = gate.get("/containers/json?all=1");
    for text in [inspection.text(), list.text()] {
        assert!(!text.contains(CANARY), "{text}");
    }
    assert_eq!(inspection.json()["Config"]["Env"], json!(["DATABASE=<redacted>", "PATH=/bin"]));
    let rows = list.json();
    let odd = rows.as_array().unwrap().iter().find(|row| row["Names"][0] == "/odd").unwrap();
    assert_eq!(odd["Labels"]["sandkeeper.workspace"], "a\u{202e}b", "labels of profiles pass as they are");
    assert_eq!(odd["Labels"]["sandkeeper.session"], "token=kept");
}

#[test]
fn with_only_profiles_other_containers_do_not_exist() {
    let host = SimHost::new();
    let ours = host.idle("atlas-1", "atlas");
    let other = stranger(&host);
    let gate = GateProcess::start(&host.home, &host.endpoint(), &["--only-profiles", "--profile", "native"]);
    let names = |list: &Value| -> Vec<String> {
        let names = list.as_array().unwrap().iter().map(|row| row["Names"][0].as_str().unwrap().to_owned());
        names.collect()
    };
    assert_eq!(names(&gate.get("/containers/json?all=1").json()), ["/atlas-1"]);
    for reference in [other.as_str(), &other[..12], "stranger"] {
        for question in ["json", "logs?stdout=1", "stats?stream=0", "top"] {
            let answer = gate.get(&format!("/containers/{reference}/{question}"));
            assert_eq!(answer.status, 404, "{question}: {answer:?}");
            assert!(answer.text().contains("No such container"), "{answer:?}");
        }
    }
    assert_eq!(gate.get("/containers/atlas-1/json").json()["Id"], ours.as_str());
    assert_eq!(gate.get("/containers/atlas-1/logs?stdout=1").status, 200);

    let mut events = gate.open("/events");
    host.engine.act(|world, now| {
        world.pause(now, &other).unwrap();
        world.pause(now, ours.as_str()).unwrap();
    });
    let heard = String::from_utf8(read_chunk(&mut events).unwrap()).unwrap();
    assert!(heard.contains(ours.as_str()) && !heard.contains(&other), "{heard}");
    gate.end();
}

#[test]
fn logs_are_kept_back_if_asked() {
    let host = SimHost::new();
    host.idle("atlas-1", "atlas");
    let gate = GateProcess::start(&host.home, &host.endpoint(), &["--no-logs"]);
    assert_eq!(gate.get("/containers/atlas-1/logs?stdout=1").status, 403);
    assert_eq!(gate.get("/containers/atlas-1/json").status, 200);
}

#[test]
fn hundreds_listen_at_once_and_slow_clients_hold_nobody_up() {
    let host = SimHost::new();
    let id = host.idle("atlas-1", "atlas");
    let gate = GateProcess::start(&host.home, &host.endpoint(), &[]);
    // Some say half a sentence, some ask and never read.
    let half: Vec<UnixStream> = (0..50)
        .map(|_| {
            let mut stream = connect(gate.socket());
            stream.write_all(b"GET /containers/json HTTP/1.1\r\nHo").unwrap();
            stream
        })
        .collect();
    let deaf: Vec<UnixStream> = (0..20)
        .map(|_| {
            let mut stream = connect(gate.socket());
            let request = "GET /info HTTP/1.1\r\nHost: x\r\n\r\n".repeat(500);
            stream.set_write_timeout(Some(std::time::Duration::from_millis(50))).unwrap();
            let _ = stream.write_all(request.as_bytes());
            stream
        })
        .collect();
    let mut listeners: Vec<_> = (0..210).map(|_| gate.open("/events")).collect();
    assert_eq!(gate.get("/_ping").text(), "OK");
    host.engine.act(|world, now| world.pause(now, id.as_str())).unwrap();
    for listener in &mut listeners {
        let event = String::from_utf8(read_chunk(listener).unwrap()).unwrap();
        assert!(event.contains(id.as_str()), "{event}");
    }
    let open = gate.handles();
    drop((half, deaf, listeners));
    wait_until("those who left are forgotten", || gate.handles() + 200 < open);
    gate.end();
}

#[test]
fn more_than_fit_are_told_so() {
    let host = SimHost::new();
    let gate = GateProcess::start(&host.home, &host.endpoint(), &[]);
    let mut idle: Vec<UnixStream> = (0..401).map(|_| connect(gate.socket())).collect();
    let last = idle.pop().unwrap();
    let (status, _) = read_head(&mut BufReader::new(last)).unwrap();
    assert_eq!(status, 503);
    idle.clear();
    wait_until("there is room again", || {
        let stream = UnixStream::connect(gate.socket()).unwrap();
        let _ = (&stream).write_all(b"GET /_ping HTTP/1.1\r\nHost: x\r\n\r\n");
        read_head(&mut BufReader::new(stream)).is_some_and(|(status, _)| status == 200)
    });
    gate.end();
}

#[test]
fn the_socket_gets_the_rights_and_the_group_it_is_told() {
    let host = SimHost::new();
    let gate = GateProcess::start(&host.home, &host.endpoint(), &["--mode", "0660"]);
    let mode = gate.socket().metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!(mode, 0o660);
    let place = gate.socket().display().to_string();
    let again = ["gate", "--listen", &place, "--host", "unix:///nowhere.sock"];
    host.home.sandkeeper(again).run().expect_exit(1).expect_stderr("listens there already");
    let odd = ["gate", "--listen", "x", "--mode", "4777"];
    host.home.sandkeeper(odd).run().expect_exit(2).expect_stderr("octal");
    let nobody = ["gate", "--listen", "x", "--group", "no-such-group"];
    host.home.sandkeeper(nobody).run().expect_exit(2).expect_stderr("groupadd");
    let itself = ["gate", "--listen", &place, "--host", &gate.endpoint()];
    host.home.sandkeeper(itself).run().expect_exit(1).expect_stderr("engine's own");
    gate.end();
}

#[test]
fn an_engine_that_is_away_is_told_and_found_again() {
    let host = SimHost::new();
    let gate = GateProcess::start(&host.home, &host.endpoint(), &[]);
    host.engine.down().unwrap();
    let answer = gate.get("/_ping");
    assert_eq!(answer.status, 502, "{answer:?}");
    assert_eq!(answer.header("sandkeeper-gate"), Some("1"));
    host.engine.up().unwrap();
    assert_eq!(gate.get("/_ping").status, 200);
    gate.end();
}

#[test]
fn what_is_refused_is_logged_harmlessly() {
    let host = SimHost::new();
    let gate = GateProcess::start(&host.home, &host.endpoint(), &[]);
    gate.ask("POST", &format!("/containers/{}", "x".repeat(5_000)));
    let mut stream = connect(gate.socket());
    stream.write_all("POST /\u{202e}evil\u{9b}2J HTTP/1.1\r\nHost: x\r\n\r\n".as_bytes()).unwrap();
    let _ = read_head(&mut BufReader::new(stream));
    wait_until("two lines", || gate.log().lines().count() >= 2);
    let log = gate.log();
    assert!(log.lines().all(|line| line.chars().count() <= 401), "{log}");
    assert!(!log.contains(['\u{202e}', '\u{9b}', '\u{1b}']), "{log}");
    gate.end();
}

#[test]
fn the_whole_program_works_through_the_gate() {
    let host = SimHost::new();
    host.active("atlas-1", "atlas");
    host.orphan("left-1", "left");
    stranger(&host);
    let gate = GateProcess::start(&host.home, &host.endpoint(), &["--only-profiles"]);
    let statuses = |endpoint: &str| -> Vec<(String, String)> {
        let finished = host.home.sandkeeper(["status", "--json", "--host", endpoint]).run().expect_exit(0);
        let report = finished.json();
        let mut found: Vec<_> = report["containers"]
            .as_array()
            .unwrap()
            .iter()
            .map(|each| {
                let text = |key: &str| each[key].as_str().unwrap().to_owned();
                (text("name"), text("status"))
            })
            .collect();
        found.sort();
        found
    };
    assert_eq!(statuses(&gate.endpoint()), statuses(&host.endpoint()));
    assert_eq!(statuses(&gate.endpoint()).len(), 2);
    let home: &Home = &host.home;
    assert!(Path::new(&home.path().join("gate.sock")).exists());
    gate.end();
}
