//! The gate in front of real engines: the docker command line looks through it and cannot change anything.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Output, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;

use crate::support::engine::{Exclusive, IMAGE, Kind};
use crate::support::gate::{GateProcess, docker_command};
use crate::support::program::Home;
use crate::support::stores::NativeStore;
use crate::support::{on_both_engines, wait_for};

on_both_engines!(
    the_command_line_looks_and_changes_nothing,
    logs_and_events_are_followed,
    a_user_without_rights_to_the_engine_sees_everything,
    a_canary_stays_behind,
    with_only_profiles_other_containers_do_not_exist,
);

const CANARY: &str = "hunter2-canary";

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[track_caller]
fn expect_refused(command: &[&str], output: &Output) {
    let said = format!("{}{}", text(&output.stdout), text(&output.stderr));
    assert!(!output.status.success(), "`docker {}` was not refused: {said}", command.join(" "));
    // A `HEAD` has no room for a sentence, and `attach` reads none: the command line tells the status in its own words.
    let told = ["read-only", "refused", "does not pass", "Forbidden", "403"];
    assert!(told.iter().any(|word| said.contains(word)), "`docker {}`: {said}", command.join(" "));
}

fn the_command_line_looks_and_changes_nothing(engine: &Exclusive) {
    let scene = engine.scene();
    let id = scene.container(scene.name("sandbox")).label("sandkeeper.managed", "true").running();
    let home = Home::new();
    let gate = GateProcess::start(&home, engine.endpoint(), &[]);
    let said = |arguments: &[&str]| {
        let output = gate.docker(arguments);
        assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
        text(&output.stdout)
    };
    assert_eq!(said(&["ps", "--all", "--quiet", "--no-trunc"]).trim(), id);
    assert!(said(&["inspect", &id]).contains("sandkeeper.managed"));
    assert!(said(&["image", "inspect", IMAGE]).contains("Id"));
    said(&["logs", &id]);
    said(&["version"]);

    home.write("build/Dockerfile", format!("FROM {IMAGE}\n"));
    let context = home.path().join("build").display().to_string();
    let file = home.write("file", "text").display().to_string();
    let into = format!("{id}:/tmp/file");
    let from = format!("{id}:/etc/passwd");
    let before = engine.inspect(&id);
    let refused: [&[&str]; 14] = [
        &["create", IMAGE, "true"],
        &["run", "--rm", IMAGE, "true"],
        &["start", &id],
        &["stop", &id],
        &["kill", &id],
        &["rm", "--force", &id],
        &["exec", &id, "true"],
        &["cp", &file, &into],
        &["cp", &from, "-"],
        &["build", &context],
        &["pull", "localhost:1/nothing"],
        &["attach", &id],
        &["commit", &id],
        &["rename", &id, "another"],
    ];
    for command in refused {
        expect_refused(command, &gate.docker(command));
    }
    let target = format!("/containers/{id}/stop");
    for (method, target) in [("POST", target.as_str()), ("DELETE", &format!("/containers/{id}"))] {
        let answer = gate.ask(method, target);
        assert_eq!(answer.status, 403);
        assert!(answer.json()["message"].as_str().unwrap().contains("read-only"), "{answer:?}");
    }
    let after = engine.inspect(&id);
    for key in ["Name", "State", "Created", "RestartCount"] {
        assert_eq!(before[key], after[key], "{key} has changed");
    }
    assert_eq!(engine.containers(), [id]);
    gate.end();
}

/// A command that goes on, and what it says.
struct Follower {
    child: Child,
    lines: Receiver<String>,
}

impl Follower {
    fn start(gate: &GateProcess, arguments: &[&str]) -> Self {
        let mut command = docker_command(&gate.endpoint(), arguments);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let (sender, lines) = mpsc::channel();
        let output = BufReader::new(child.stdout.take().unwrap());
        thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Self { child, lines }
    }

    #[track_caller]
    fn wait_for(&self, what: &str) -> String {
        wait_for(what, || self.lines.try_iter().find(|line| line.contains(what)))
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn logs_and_events_are_followed(engine: &Exclusive) {
    let scene = engine.scene();
    let script = "echo first; while [ ! -e /tmp/go ]; do sleep 0.1; done; echo second; sleep 1000";
    let id = scene.container(scene.name("talker")).script(script).running();
    let home = Home::new();
    let gate = GateProcess::start(&home, engine.endpoint(), &[]);
    let logs = Follower::start(&gate, &["logs", "--follow", &id]);
    logs.wait_for("first");
    engine.cli(&["exec", &id, "touch", "/tmp/go"]);
    logs.wait_for("second");

    let events = Follower::start(&gate, &["events", "--since", "1", "--format", "{{.Action}} {{.Actor.ID}}"]);
    events.wait_for(&format!("start {id}"));
    engine.pause(&id);
    events.wait_for(&format!("pause {id}"));
    engine.cli(&["unpause", &id]);
    let open = gate.handles();
    drop((logs, events));
    crate::support::wait_until("both are forgotten", || gate.handles() < open);
    gate.end();
}

fn a_user_without_rights_to_the_engine_sees_everything(engine: &Exclusive) {
    const VIEWER: u32 = 64_998;
    let scene = engine.scene();
    let labels = [("sandkeeper.managed", "true"), ("sandkeeper.workspace", "atlas")];
    let sandbox =
        labels.iter().fold(scene.container(scene.name("atlas")), |it, (key, value)| it.label(key, value));
    let id = sandbox.running();
    let _exec = scene.exec(&id);
    let operator = Home::new();
    // Others pass through the operator's home here, and read nothing but the socket.
    fs::set_permissions(operator.path(), fs::Permissions::from_mode(0o711)).unwrap();
    let group = VIEWER.to_string();
    let place = operator.path().join("gate.sock");
    let arguments = ["--mode", "0660"];
    let gate = GateProcess::start(&operator, engine.endpoint(), &arguments);
    std::os::unix::fs::chown(&place, None, Some(group.parse().unwrap())).unwrap();

    let viewer = Home::new();
    let store = NativeStore::create(viewer.native_store());
    store.session("s1", "atlas").insert();
    let status = |endpoint: &str| {
        let arguments = ["status", "--json", "--read-only", "--host", endpoint];
        viewer.sandkeeper(arguments).user(VIEWER, VIEWER).run()
    };
    if engine.kind == Kind::Docker {
        fs::set_permissions(engine.socket(), fs::Permissions::from_mode(0o660)).unwrap();
        let barred = status(engine.endpoint());
        assert_ne!(barred.status, Some(0), "the engine's own socket is closed to them: {barred}");
    }
    let seen = status(&gate.endpoint()).expect_exit(0).json();
    let found = &seen["containers"][0];
    assert_eq!(found["id"], id.as_str(), "{seen:#}");
    assert_eq!(found["status"], "active", "the running command is seen: {found:#}");
    gate.end();
}

fn a_canary_stays_behind(engine: &Exclusive) {
    let scene = engine.scene();
    let id = scene
        .container(scene.name("canary"))
        .option(format!("--env=SOMETHING={CANARY}"))
        .label("sandkeeper.managed", "true")
        .label("com.example.api-key", CANARY)
        .script(&format!("sleep 1000; : --password {CANARY}"))
        .running();
    let home = Home::new();
    let gate = GateProcess::start(&home, engine.endpoint(), &[]);
    let events = past_events(&id);
    for target in [
        format!("/containers/{id}/json"),
        "/containers/json?all=1".to_owned(),
        format!("/containers/{id}/top"),
        events,
        "/info".to_owned(),
        format!("/containers/{id}/stats?stream=0"),
    ] {
        let answer = gate.get(&target);
        assert_eq!(answer.status, 200, "{target}: {answer:?}");
        assert!(!answer.text().contains(CANARY), "{target}: {}", answer.text());
    }
    assert!(gate.get(&format!("/containers/{id}/json")).text().contains("SOMETHING=<redacted>"));
    gate.end();
}

/// Everything that has happened to a container until now.
fn past_events(id: &str) -> String {
    let now = jiff::Timestamp::now().as_second() + 1;
    format!("/events?since=1&until={now}&filters=%7B%22container%22%3A%5B%22{id}%22%5D%7D")
}

fn with_only_profiles_other_containers_do_not_exist(engine: &Exclusive) {
    let scene = engine.scene();
    let ours = scene.container(scene.name("ours")).label("sandkeeper.managed", "true").running();
    let other = scene.container(scene.name("other")).running();
    let exec = scene.exec(&other);
    let home = Home::new();
    let gate = GateProcess::start(&home, engine.endpoint(), &["--only-profiles", "--profile", "native"]);
    let list = gate.get("/containers/json?all=1").json();
    assert_eq!(list.as_array().unwrap().len(), 1, "{list:#}");
    assert_eq!(list[0]["Id"], ours.as_str());
    for reference in [other.as_str(), &other[..12], &scene.name("other")] {
        for question in ["json", "logs?stdout=1", "stats?stream=0", "top"] {
            assert_eq!(gate.get(&format!("/containers/{reference}/{question}")).status, 404, "{question}");
        }
    }
    let command = engine.inspect(&other)["ExecIDs"][0].as_str().unwrap().to_owned();
    assert_eq!(gate.get(&format!("/exec/{command}/json")).status, 404, "nor do commands in them");
    exec.end();
    assert_eq!(gate.get(&format!("/containers/{}/json", scene.name("ours"))).json()["Id"], ours.as_str());
    let heard = |id: &str| gate.get(&past_events(id)).text();
    // Podman's log of events may lag behind.
    crate::support::wait_until("what happened to ours is told", || heard(&ours).contains(&ours));
    assert_eq!(heard(&other), "", "nothing has happened to what does not exist");
    gate.end();
}
