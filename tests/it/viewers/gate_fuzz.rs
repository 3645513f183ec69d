//! Ten thousand requests that nobody in his right mind would send: none but the allowed ones reach the engine, and the gate
//! neither falls nor grows.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use crate::support::gate::{GateProcess, connect};
use crate::support::program::Home;
use regex_lite::Regex;
use sandkeeper::engine::sim::Dice;

const REQUESTS: usize = 10_000;
const SENDERS: usize = 8;

/// An engine that writes down every byte it is sent, and answers something.
struct Recorder {
    socket: PathBuf,
    heard: Arc<Mutex<Vec<Vec<u8>>>>,
}

impl Recorder {
    fn start(home: &Home) -> Self {
        let socket = home.path().join("engine.sock");
        let listener = UnixListener::bind(&socket).unwrap();
        let heard: Arc<Mutex<Vec<Vec<u8>>>> = Arc::default();
        let log = Arc::clone(&heard);
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let log = Arc::clone(&log);
                thread::spawn(move || listen(stream, &log));
            }
        });
        Self { socket, heard }
    }
}

fn listen(mut stream: UnixStream, log: &Mutex<Vec<Vec<u8>>>) {
    let mut heard = Vec::new();
    let mut buffer = [0; 4096];
    while !heard.windows(4).any(|window| window == b"\r\n\r\n") {
        match stream.read(&mut buffer) {
            Ok(count @ 1..) => heard.extend_from_slice(&buffer[..count]),
            _ => return,
        }
    }
    let list =
        heard.starts_with(b"GET /containers/json") || heard.windows(16).any(|w| w == b"/containers/json");
    let body = if list { "[]" } else { "{}" };
    let _ = write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{body}");
    // Whatever comes after the question was smuggled in.
    while let Ok(count @ 1..) = stream.read(&mut buffer) {
        heard.extend_from_slice(&buffer[..count]);
    }
    log.lock().unwrap().push(heard);
}

const ID: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

const LINES: [&str; 22] = [
    "GET /_ping HTTP/1.1",
    "HEAD /_ping HTTP/1.1",
    "GET /v1.41/version HTTP/1.1",
    "GET /info HTTP/1.1",
    "GET /containers/json?all=1 HTTP/1.1",
    "GET /v1.24/containers/json?filters=%7B%22label%22%3A%5B%22a%22%5D%7D HTTP/1.1",
    "GET /containers/atlas/json HTTP/1.1",
    "GET /containers/atlas/logs?follow=1&stdout=1 HTTP/1.1",
    "GET /containers/atlas/stats?stream=0 HTTP/1.1",
    "GET /containers/atlas/top HTTP/1.1",
    "GET /images/a/b:c/json HTTP/1.1",
    "GET /events HTTP/1.1",
    "POST /containers/create HTTP/1.1",
    "POST /containers/atlas/stop HTTP/1.1",
    "DELETE /containers/atlas?force=1 HTTP/1.1",
    "POST /containers/atlas/exec HTTP/1.1",
    "POST /exec/0123/start HTTP/1.1",
    "PUT /containers/atlas/archive?path=/ HTTP/1.1",
    "GET /containers/atlas/archive?path=/etc HTTP/1.1",
    "GET /containers/atlas/export HTTP/1.1",
    "POST /build HTTP/1.1",
    "GET /containers/atlas/attach/ws HTTP/1.1",
];

const PIECES: [&str; 40] = [
    "..",
    "%2f",
    "%2e%2e",
    "//",
    "/./",
    "\\",
    "%00",
    "\0",
    "\r\n",
    "\n",
    "\r",
    " ",
    "\t",
    "#",
    "?",
    "&",
    "=",
    ";",
    ":",
    "%",
    "%zz",
    "@",
    "*",
    "http://engine",
    "/v1.41",
    "/v99.9",
    "/libpod",
    "/containers",
    "/json",
    "/exec/0123/start",
    "POST ",
    "GET ",
    "X-HTTP-Method-Override: DELETE\r\n",
    "Upgrade: tcp\r\n",
    "Connection: Upgrade\r\n",
    "Content-Length: 7\r\n",
    "Transfer-Encoding: chunked\r\n",
    "HTTP/1.0",
    "HTTP/2.0",
    "\r\n\r\nDELETE /containers/atlas?force=1 HTTP/1.1\r\nHost: x\r\n\r\n",
];

const HEADERS: [&str; 12] = [
    "Host: x",
    "Host: x\r\nHost: y",
    "Connection: keep-alive",
    "Connection: upgrade",
    "Upgrade: h2c",
    "Content-Length: 0",
    "Content-Length: 40",
    "Content-Length: 4\r\nContent-Length: 5",
    "Transfer-Encoding: chunked",
    "Transfer-Encoding: gzip, chunked\r\nContent-Length: 3",
    "Expect: 100-continue",
    "X-Long: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
];

fn fuzzed(dice: &mut Dice) -> Vec<u8> {
    let mut request = (*dice.pick(&LINES).unwrap()).to_owned();
    if dice.happens(20) {
        request = request.replace("atlas", ID);
    }
    for _ in 0..dice.below(4) {
        let at = dice.below(request.len() + 1);
        request.insert_str(at, dice.pick(&PIECES).unwrap());
    }
    request.push_str("\r\n");
    for _ in 0..dice.below(5) {
        request.push_str(dice.pick(&HEADERS).unwrap());
        request.push_str("\r\n");
    }
    if dice.happens(3) {
        request.push_str("X-Many: ");
        request.push_str(&"y".repeat(20_000));
        request.push_str("\r\n");
    }
    request.push_str("\r\n");
    if dice.happens(25) {
        request.push_str(
            dice.pick(&[
                "{}",
                "0\r\n\r\n",
                "5\r\nhello\r\n0\r\n\r\n",
                "DELETE /containers/x HTTP/1.1\r\n\r\n",
            ])
            .unwrap(),
        );
    }
    let mut bytes = request.into_bytes();
    if dice.happens(30) {
        for _ in 0..=dice.below(3) {
            let at = dice.below(bytes.len());
            bytes[at] = u8::try_from(dice.below(256)).unwrap();
        }
    }
    if dice.happens(5) {
        bytes.truncate(dice.below(bytes.len()));
    }
    bytes
}

/// Sends it and hears the gate out. Whether the gate said no.
fn send(socket: &Path, bytes: &[u8]) -> bool {
    let mut stream = connect(socket);
    let _ = stream.write_all(bytes);
    // Half a request is never answered: after a moment it is told that there is no more.
    stream.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    let mut answer = vec![0; 64 * 1024];
    let count = stream.read(&mut answer).unwrap_or(0);
    answer.truncate(count);
    stream.set_read_timeout(Some(Duration::from_mins(1))).unwrap();
    let _ = stream.shutdown(Shutdown::Write);
    let _ = stream.read_to_end(&mut answer);
    let answer = String::from_utf8_lossy(&answer).into_owned();
    assert!(!answer.contains("panicked"), "{answer}");
    ["HTTP/1.1 403", "HTTP/1.1 400", "HTTP/1.1 431", "HTTP/1.1 414"].iter().any(|no| answer.starts_with(no))
}

fn send_all(socket: &Path, count: usize, seed: u64) -> usize {
    let senders = (0..SENDERS).map(|sender| {
        let socket = socket.to_owned();
        let mut dice = Dice::new(seed + u64::try_from(sender).unwrap());
        thread::spawn(move || (0..count / SENDERS).filter(|_| send(&socket, &fuzzed(&mut dice))).count())
    });
    let senders: Vec<_> = senders.collect();
    senders.into_iter().map(|sender| sender.join().unwrap()).sum()
}

#[test]
#[ignore = "takes long: run tests/run"]
fn ten_thousand_odd_requests_reach_the_engine_only_as_questions() {
    let home = Home::new();
    let recorder = Recorder::start(&home);
    let gate = GateProcess::start(&home, &format!("unix://{}", recorder.socket.display()), &[]);
    send_all(gate.socket(), REQUESTS / 5, 1);
    let (memory, handles) = (gate.memory(), gate.handles());
    let refused = send_all(gate.socket(), REQUESTS, 1_000);
    assert!(refused > REQUESTS / 3, "the requests are odd: only {refused} were refused");
    let grown = gate.memory().saturating_sub(memory);
    assert!(grown < 24 * 1024 * 1024, "grown by {grown} bytes, from {memory}");
    crate::support::wait_until("no handles leak", || gate.handles() <= handles + 20);
    assert_eq!(gate.get("/_ping").status, 200, "it still serves");

    let name = "[A-Za-z0-9][A-Za-z0-9_.-]*";
    let path = format!(
        "(/v1\\.[0-9]{{1,2}})?(/_ping|/version|/info|/events|/containers/json|/containers/{name}/(json|logs|stats|top)|\
         /exec/{name}/json|/images/[A-Za-z0-9_.:@+/-]+/json)"
    );
    let question = format!(
        "^(GET {path}(\\?[A-Za-z0-9=&%._~-]*)?|HEAD (/v1\\.[0-9]{{1,2}})?/_ping) HTTP/1\\.1\r\nhost: engine\r\n\
         user-agent: sandkeeper-gate\r\n\r\n$"
    );
    let question = Regex::new(&question).unwrap();
    let heard = recorder.heard.lock().unwrap().clone();
    assert!(heard.len() > 200, "some do reach it: {}", heard.len());
    for request in &heard {
        let request = String::from_utf8(request.clone()).unwrap();
        let tricks = ["//", "..", "%2F", "%2f", "%00"];
        let path = request.split(['?', ' ']).nth(1).unwrap_or_default();
        assert!(
            question.is_match(&request) && !tricks.iter().any(|trick| path.contains(trick)),
            "{request:?}"
        );
    }
    gate.end();
}
