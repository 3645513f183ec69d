//! The harness itself: what would make other tests lie if it were broken.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::process::Command;
use std::time::Duration;

use rstest::rstest;
use serde_json::{Value, json};

use crate::support::engine::{Kind, RealEngine};
use crate::support::program::Home;
use crate::support::rows::{self, inspect_of, row};
use crate::support::scripted::{Behaviour, Gate, ScriptedEngine};
use crate::support::stores::{NativeStore, ParachuteStore, Writer, fingerprint};
use crate::support::terminal::Terminal;
use crate::support::{hang_limit, wait_until};

/// How long nothing comes where nothing should come.
const SILENCE: Duration = Duration::from_millis(300);

/// A client that sees every byte.
struct Client(BufReader<UnixStream>);

impl Client {
    fn of(engine: &ScriptedEngine) -> Self {
        let stream = UnixStream::connect(engine.socket()).unwrap();
        stream.set_read_timeout(Some(hang_limit())).unwrap();
        Self(BufReader::new(stream))
    }

    fn ask(&mut self, request: &str) {
        write!(self.0.get_mut(), "{request} HTTP/1.1\r\nHost: engine\r\n\r\n").unwrap();
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.0.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    /// The status and the body of an answer that is complete.
    fn answer(&mut self) -> (u16, String) {
        let status = self.line().split(' ').nth(1).unwrap().parse().unwrap();
        let (mut length, mut chunked) = (0, false);
        loop {
            let header = self.line();
            match header.split_once(": ") {
                None => break,
                Some(("Content-Length", value)) => length = value.parse().unwrap(),
                Some(("Transfer-Encoding", value)) => chunked = value == "chunked",
                Some(_) => {}
            }
        }
        let mut body = Vec::new();
        if chunked {
            while let Some(chunk) = self.chunk() {
                body.extend(chunk);
            }
        } else {
            body.resize(length, 0);
            self.0.read_exact(&mut body).unwrap();
        }
        (status, String::from_utf8(body).unwrap())
    }

    fn chunk(&mut self) -> Option<Vec<u8>> {
        let length = usize::from_str_radix(&self.line(), 16).unwrap();
        let mut chunk = vec![0; length];
        self.0.read_exact(&mut chunk).unwrap();
        self.line();
        (length > 0).then_some(chunk)
    }

    /// What arrives up to these words, and how it goes on for so long: silent (`WouldBlock`), or closed (`None`).
    fn hear_out(&mut self, words: &str, time: Duration) -> (String, Option<ErrorKind>) {
        let mut bytes = Vec::new();
        while !bytes.ends_with(words.as_bytes()) {
            let mut byte = [0];
            self.0.read_exact(&mut byte).unwrap();
            bytes.push(byte[0]);
        }
        self.0.get_ref().set_read_timeout(Some(time)).unwrap();
        let end = self.0.read_to_end(&mut bytes).err().map(|error| error.kind());
        self.0.get_ref().set_read_timeout(Some(hang_limit())).unwrap();
        (String::from_utf8(bytes).unwrap(), end)
    }
}

#[test]
fn a_scripted_engine_answers_on_one_connection_and_remembers_the_questions() {
    let engine = ScriptedEngine::start();
    let alpha = row("alpha").label("team", "blue").state("paused");
    engine.containers(std::slice::from_ref(&alpha));
    let mut client = Client::of(&engine);

    client.ask("GET /_ping");
    assert_eq!(client.answer(), (200, "OK".to_owned()));
    client.ask("GET /v1.41/containers/json?all=true");
    let list: Value = serde_json::from_str(&client.answer().1).unwrap();
    assert_eq!(list[0]["Labels"], json!({ "team": "blue" }));
    client.ask(&format!("GET /v1.24/containers/{}/json", alpha.id));
    assert_eq!(client.answer().1, inspect_of(&alpha).to_string());
    client.ask("GET /containers/other/json");
    assert_eq!(client.answer().0, 404);
    client.ask("GET /images/team/tool:latest/json");
    assert_eq!(client.answer().0, 404);
    client.ask("DELETE /containers/other?v=true");
    assert_eq!(client.answer().0, 404);

    assert_eq!(engine.requests()[1].query("all"), Some("true"));
    assert_eq!(engine.count("GET", "/containers/*/json"), 2);
    assert_eq!(engine.mutations(), ["DELETE /containers/other?v=true"]);
}

#[test]
fn an_answer_without_a_body_does_not_disturb_the_next_one() {
    let engine = ScriptedEngine::start();
    engine.on("POST", "/containers/*/stop", Behaviour::empty(304));
    let mut client = Client::of(&engine);
    client.ask("POST /containers/x/stop?t=10");
    assert_eq!(client.answer(), (304, String::new()));
    client.ask("HEAD /_ping");
    assert!(client.line().contains("200"));
}

#[rstest]
#[case::before_headers(Behaviour::HangBeforeHeaders, "", Some(ErrorKind::WouldBlock))]
#[case::after_headers(Behaviour::HangAfterHeaders, "\r\n\r\n", Some(ErrorKind::WouldBlock))]
#[case::in_the_body(Behaviour::StallBody { announced: 99, sent: b"[{".to_vec() }, "\r\n\r\n[{", Some(ErrorKind::WouldBlock))]
#[case::after_a_chunk(Behaviour::ChunkedThenStall { sent: b"[{".to_vec() }, "\r\n\r\n2\r\n[{\r\n", Some(ErrorKind::WouldBlock))]
#[case::cut(Behaviour::Cut { announced: 99, sent: b"[{".to_vec() }, "\r\n\r\n[{", None)]
fn a_fault_stops_where_it_should(
    #[case] fault: Behaviour,
    #[case] last_words: &str,
    #[case] end: Option<ErrorKind>,
) {
    let engine = ScriptedEngine::start();
    engine.on("GET", "/containers/json", fault);
    let mut client = Client::of(&engine);
    client.ask("GET /containers/json");
    let time = if end.is_some() { SILENCE } else { hang_limit() };
    let (heard, ended) = client.hear_out(last_words, time);
    assert!(heard.ends_with(last_words) && (!heard.is_empty() || last_words.is_empty()), "{heard:?}");
    assert_eq!(ended, end);
    drop(client);
    if end.is_some() {
        wait_until("the engine notices that the client gave up", || {
            engine.abandoned() == ["GET /containers/json"]
        });
    }
}

#[test]
fn a_sequence_goes_on_by_one_and_stays_at_its_last() {
    let engine = ScriptedEngine::start();
    let each = [500, 409, 204].map(Behaviour::empty).to_vec();
    engine.on("DELETE", "/containers/*", Behaviour::Sequence(each));
    let mut client = Client::of(&engine);
    let statuses = [(); 4].map(|()| {
        client.ask("DELETE /containers/x");
        client.answer().0
    });
    assert_eq!(statuses, [500, 409, 204, 204]);
}

#[test]
fn a_callback_sees_the_request_and_a_gate_holds_its_answer() {
    let engine = ScriptedEngine::start();
    let gate = Gate::default();
    let held = gate.clone();
    engine.on(
        "GET",
        "/containers/json",
        Behaviour::call(move |request| {
            Behaviour::Held(held.clone(), Box::new(Behaviour::json(&json!([request.query("all")]))))
        }),
    );
    let mut client = Client::of(&engine);
    client.ask("GET /containers/json?all=1");
    assert_eq!(client.hear_out("", SILENCE), (String::new(), Some(ErrorKind::WouldBlock)));
    gate.open();
    assert_eq!(client.answer(), (200, r#"["1"]"#.to_owned()));
}

#[test]
fn a_huge_list_is_as_large_as_asked_and_well_formed() {
    let engine = ScriptedEngine::start();
    engine.on("GET", "/containers/json", Behaviour::Huge { total: 3_000_000 });
    let mut client = Client::of(&engine);
    client.ask("GET /containers/json");
    let (_, body) = client.answer();
    assert!(body.len() >= 3_000_000);
    let list: Vec<Value> = serde_json::from_str(&body).unwrap();
    assert_eq!(list[1]["Id"], json!(rows::id_of("huge-1")));
}

#[test]
fn events_reach_every_reader_until_the_stream_ends() {
    let engine = ScriptedEngine::start();
    let mut clients = [Client::of(&engine), Client::of(&engine)];
    for client in &mut clients {
        client.ask("GET /events");
    }
    wait_until("both read", || engine.events().readers() == 2);
    engine.events().container("die", "abc");
    engine.events().end();
    for client in &mut clients {
        let event: Value = serde_json::from_str(&client.answer().1).unwrap();
        assert_eq!((&event["Action"], &event["Actor"]["ID"]), (&json!("die"), &json!("abc")));
    }
}

#[test]
fn dropping_a_scripted_engine_ends_its_connections_at_once() {
    let engine = ScriptedEngine::start();
    engine.on("GET", "/info", Behaviour::HangBeforeHeaders);
    let mut client = Client::of(&engine);
    client.ask("GET /info");
    engine.wait_for("GET", "/info", 1);
    drop(engine);
    assert_eq!(client.hear_out("", hang_limit()), (String::new(), None));
}

#[test]
fn the_program_runs_in_a_home_of_its_own() {
    let home = Home::new();
    let version = home.sandkeeper(["--version"]).env("DOCKER_HOST", "unix:///nowhere").run();
    version.expect_exit(0).expect_stdout("sandkeeper");
    home.sandkeeper(["--no-such-flag"]).run().expect_exit(2).expect_stderr("--no-such-flag");

    let running = home.sandkeeper(["--version"]).spawn();
    assert!(running.next_line().unwrap().starts_with("sandkeeper "));
    assert_eq!(running.next_line(), None);
}

#[test]
#[ignore = "needs root, as tests/run does"]
fn the_program_runs_as_another_user() {
    let home = Home::new();
    home.write(".config/sandkeeper/private.toml", "");
    home.sandkeeper(["--version"]).user(65534, 65534).run().expect_exit(0);
    assert_eq!(home.config().join("sandkeeper/private.toml").metadata().unwrap().uid(), 65534);
}

#[test]
#[should_panic(expected = "the exit code of `sandkeeper --no-such-flag`")]
fn an_unexpected_exit_code_is_shown_with_the_command() {
    Home::new().sandkeeper(["--no-such-flag"]).run().expect_exit(0);
}

#[test]
fn session_stores_have_the_shape_their_owners_give_them() {
    let home = Home::new();
    let native = NativeStore::create(home.native_store());
    native.session("s1", "alpha").container("c1").status("active").active_ago(30).insert();
    native.end("s1");
    assert_eq!(sqlite3(native.path(), "SELECT status, ended_at > last_activity_at FROM sessions"), "ended|1");

    let parachute = ParachuteStore::create(home.path().join("Parachute/Chat/sessions.db"));
    parachute.session("p1").workspace("alpha").accessed_ago(90).insert();
    let shape = "SELECT last_accessed GLOB '????-??-??T??:??:??.??????+00:00', \
                 round(unixepoch() - unixepoch(last_accessed)) BETWEEN 89 AND 99, trust_level FROM sessions";
    assert_eq!(sqlite3(parachute.path(), shape), "1|1|sandboxed");
}

#[test]
fn a_writer_writes_from_another_process_until_it_is_dropped() {
    let home = Home::new();
    let store = NativeStore::create(home.native_store());
    store.session("s1", "alpha").insert();
    let writer = Writer::start(store.path());
    let before = fingerprint(store.path());
    writer.wait_for_writes(3);
    drop(writer);
    let after = fingerprint(store.path());
    assert_ne!(before, after);
    assert_eq!(after, fingerprint(store.path()));
}

#[rstest]
#[case::docker(RealEngine::docker)]
#[case::podman(RealEngine::podman)]
#[ignore = "needs the engines of tests/run"]
fn a_scene_puts_containers_on_a_real_engine_and_takes_them_away(#[case] start: fn() -> RealEngine) {
    let engine = start().exclusive();
    assert_eq!(engine.containers(), [""; 0]);
    let scene = engine.scene();
    let image = scene.image("scene-image:latest", &[("inherited", "yes")]);
    let running = scene.container("alpha").label("team", "blue").image("scene-image:latest").running();
    let states = [
        (scene.container(scene.name("created")).created(), "created"),
        (scene.container(scene.name("paused")).paused(), "paused"),
        (scene.container(scene.name("exited")).exited(), "exited"),
        (running.clone(), "running"),
    ];
    for (id, state) in &states {
        assert_eq!(scene.state(id).as_deref(), Some(*state));
    }
    let inspected = scene.inspect(&running);
    assert_eq!(inspected["Config"]["Labels"]["team"], "blue");
    assert_eq!(inspected["Config"]["Labels"]["inherited"], "yes");
    assert!(image.contains(inspected["Image"].as_str().unwrap().trim_start_matches("sha256:")));
    scene.exec(&running).end();
    drop(scene);
    assert_eq!(engine.containers(), [""; 0]);
    assert_eq!(engine.kind == Kind::Podman, engine.endpoint().contains("podman"));
}

fn sqlite3(path: &std::path::Path, sql: &str) -> String {
    let output = Command::new("sqlite3").arg(path).arg(sql).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
}

#[test]
fn a_terminal_that_was_not_restored_is_noticed() {
    let run = |script: &str| {
        let mut shell = Command::new("sh");
        shell.args(["-c", script]).env("PATH", std::env::var_os("PATH").unwrap()).current_dir("/");
        let terminal = Terminal::run(&shell, 5, 20);
        terminal.wait_for("done");
        terminal.wait_exit();
        terminal
    };
    let left = run(
        r"stty raw -echo; printf '\033[?1049h\033[?25l\033[?1003h\033[?2004h\033[?1004h\033[?7l\033[>1udone\033[?2026h'",
    );
    let expected = [
        "the line discipline",
        "the alternate screen",
        "a hidden cursor",
        "the mouse",
        "bracketed paste",
        "reports of the focus",
        "lines that do not wrap",
        "a frame that is never shown",
        "pushed keyboard flags",
    ];
    left.wait_until("all of it was read", |_| left.unrestored().len() >= expected.len());
    assert_eq!(left.unrestored(), expected, "{left}");
    let restored =
        run(r"printf '\033[?1049h\033[?25l\033[?7l\033[>1u\033[<1u\033[?7h\033[?25h\033[?1049ldone'");
    assert_eq!(restored.unrestored(), [""; 0], "{restored}");
}

#[test]
fn a_terminal_shows_colours_takes_keys_and_changes_its_size() {
    let mut shell = Command::new("sh");
    let script = r#"printf '\033[1;31mred\033[m '; read line; stty size; echo "got $line"; read line; printf 'whole\033[?2026h half'; read line; printf '\033[?2026l'; read line"#;
    shell.args(["-c", script]).env("PATH", std::env::var_os("PATH").unwrap()).current_dir("/");
    let terminal = Terminal::run(&shell, 5, 20);
    terminal.wait_for("red");
    let red = terminal.style_of("red");
    assert!(red.bold() && red.fgcolor() == vt100::Color::Idx(1), "{red:?}");
    terminal.resize(6, 30).type_keys("hello\r").wait_for("6 30").wait_for("got hello");
    assert_eq!(terminal.find("hello"), Some((0, 4)), "{terminal}");
    assert!(terminal.raw_bytes().starts_with(b"\x1b[1;31mred"));
    terminal.type_keys("x\r").wait_for("whole");
    assert!(!terminal.screen().contains("half"), "{terminal}");
    terminal.type_keys("x\r").wait_for("half");
    terminal.hang_up();
    // By the signal, or, where whoever runs the tests has it ignored, by the end of its input: the shell does not wait on.
    terminal.wait_exit();
}
