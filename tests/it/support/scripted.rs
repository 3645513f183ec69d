//! An engine that answers what the test tells it to, faults included, and remembers what it was asked.

use std::collections::HashMap;
use std::fmt;
use std::io::{self, BufReader, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{self, Sender, TryRecvError};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

use serde_json::{Value, json};
use tempfile::TempDir;

use super::rows::{Row, top_of};
use super::wait_until;
use super::wire::{error_body, gone, head, read_request, write_chunk, write_huge};

/// What the engine was asked.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) method: String,
    /// Path and query as sent.
    pub(crate) target: String,
    /// The path without version prefix and query.
    pub(crate) path: String,
    pub(crate) body: Vec<u8>,
}

impl Request {
    /// The undecoded value of a query parameter.
    pub(crate) fn query(&self, name: &str) -> Option<&str> {
        let (_, query) = self.target.split_once('?')?;
        query.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='))
    }

    pub(crate) fn mutates(&self) -> bool {
        !matches!(self.method.as_str(), "GET" | "HEAD")
    }
}

impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.method, self.target)
    }
}

type Callback = dyn Fn(&Request) -> Behaviour + Send + Sync;

/// What happens when a route is asked.
#[derive(Clone)]
pub(crate) enum Behaviour {
    Reply {
        status: u16,
        content_type: String,
        body: Vec<u8>,
    },
    HangBeforeHeaders,
    HangAfterHeaders,
    /// Announces a length, sends less, and stays silent.
    StallBody {
        announced: usize,
        sent: Vec<u8>,
    },
    /// Sends one chunk and stays silent.
    ChunkedThenStall {
        sent: Vec<u8>,
    },
    /// Announces a length, sends less, and closes the connection.
    Cut {
        announced: usize,
        sent: Vec<u8>,
    },
    /// A list of at least so many bytes, made while it is sent.
    Huge {
        total: usize,
    },
    /// A stream that stays open; the test pushes into the feed.
    Events(Feed),
    /// One after the other, one per request; the last one repeats.
    Sequence(Vec<Behaviour>),
    /// Waits for the gate, then behaves.
    Held(Gate, Box<Behaviour>),
    Call(Arc<Callback>),
}

impl Behaviour {
    pub(crate) fn json(body: &Value) -> Self {
        Self::reply(200, "application/json", body.to_string())
    }

    /// An error as the engine words it.
    pub(crate) fn error(status: u16, message: &str) -> Self {
        Self::reply(status, "application/json", error_body(message))
    }

    pub(crate) fn empty(status: u16) -> Self {
        Self::reply(status, "text/plain", "")
    }

    pub(crate) fn reply(status: u16, content_type: &str, body: impl Into<Vec<u8>>) -> Self {
        Self::Reply { status, content_type: content_type.to_owned(), body: body.into() }
    }

    pub(crate) fn call(callback: impl Fn(&Request) -> Behaviour + Send + Sync + 'static) -> Self {
        Self::Call(Arc::new(callback))
    }
}

/// Holds answers back until the test opens it.
#[derive(Clone, Default)]
pub(crate) struct Gate(Arc<AtomicBool>);

impl Gate {
    pub(crate) fn open(&self) {
        self.0.store(true, Ordering::SeqCst);
    }

    pub(crate) fn is_open(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}

/// The writing end of an event stream; every connection that reads the stream gets every event.
#[derive(Clone, Default)]
pub(crate) struct Feed(Arc<Mutex<Vec<Sender<Vec<u8>>>>>);

impl Feed {
    pub(crate) fn push(&self, event: &Value) {
        self.push_raw(format!("{event}\n"));
    }

    pub(crate) fn push_raw(&self, bytes: impl Into<Vec<u8>>) {
        let bytes = bytes.into();
        self.0.lock().unwrap().retain(|reader| reader.send(bytes.clone()).is_ok());
    }

    /// A container event such as `die` or `start`.
    pub(crate) fn container(&self, action: &str, id: &str) {
        self.push(&json!({
            "Type": "container", "Action": action, "status": action, "id": id, "scope": "local",
            "Actor": { "ID": id, "Attributes": {} }, "time": super::rows::ago(0),
        }));
    }

    /// How many connections read the stream now.
    pub(crate) fn readers(&self) -> usize {
        self.push_raw("");
        self.0.lock().unwrap().len()
    }

    pub(crate) fn wait_for_reader(&self) {
        wait_until("somebody reads the events", || self.readers() > 0);
    }

    /// Ends the stream for everyone who reads it.
    pub(crate) fn end(&self) {
        self.0.lock().unwrap().clear();
    }
}

struct Route {
    method: String,
    pattern: String,
    behaviour: Behaviour,
    used: AtomicUsize,
}

#[derive(Default)]
struct Shared {
    routes: Mutex<Vec<Arc<Route>>>,
    requests: Mutex<Vec<Request>>,
    abandoned: Mutex<Vec<Request>>,
    /// Those that are open: what looks through the descriptors of this process meets every one of them.
    connections: Mutex<HashMap<usize, UnixStream>>,
    closing: AtomicBool,
}

impl Shared {
    /// Remembers that the client, not the engine, went away.
    fn abandon(&self, request: &Request) {
        if !self.closing.load(Ordering::SeqCst) {
            self.abandoned.lock().unwrap().push(request.clone());
        }
    }
}

/// The engine. It listens until it is dropped.
pub(crate) struct ScriptedEngine {
    shared: Arc<Shared>,
    feed: Feed,
    listener: Option<JoinHandle<()>>,
    socket: PathBuf,
    _directory: TempDir,
}

impl ScriptedEngine {
    /// An engine that answers like a Docker 20.10 without containers.
    pub(crate) fn start() -> Self {
        let directory = tempfile::Builder::new().prefix("sandkeeper-engine.").tempdir().unwrap();
        let socket = directory.path().join("engine.sock");
        super::go_by("dockerd");
        let listener = UnixListener::bind(&socket).unwrap();
        let shared = Arc::new(Shared::default());
        let serving = Arc::clone(&shared);
        let listener = thread::spawn(move || {
            for (number, stream) in listener.incoming().enumerate() {
                if serving.closing.load(Ordering::SeqCst) {
                    return;
                }
                let Ok(stream) = stream else { return };
                let mut connections = serving.connections.lock().unwrap();
                connections.insert(number, stream.try_clone().unwrap());
                let serving = Arc::clone(&serving);
                thread::spawn(move || {
                    // A client that goes away in mid-answer is the client's business.
                    let _ = serve(&serving, &stream);
                    let _ = stream.shutdown(Shutdown::Both);
                    serving.connections.lock().unwrap().remove(&number);
                });
            }
        });
        let feed = Feed::default();
        let engine = Self { shared, feed, listener: Some(listener), socket, _directory: directory };
        engine.answer_by_default();
        engine
    }

    fn answer_by_default(&self) {
        let version = json!({
            "Version": "20.10.24", "ApiVersion": "1.41", "MinAPIVersion": "1.12", "Os": "linux", "Arch": "amd64",
            "KernelVersion": "6.1.0", "GitCommit": "5d6db84", "GoVersion": "go1.19.8",
            "Platform": { "Name": "" }, "Components": [{ "Name": "Engine", "Version": "20.10.24" }],
        });
        // Whoever acts on an engine locks it by its id, for everybody on this machine.
        let info = json!({
            "ID": self.socket, "Name": "scripted", "ServerVersion": "20.10.24", "Containers": 0, "NCPU": 2,
            "MemTotal": 8_000_000_000_u64, "OperatingSystem": "Debian GNU/Linux 12", "OSType": "linux",
        });
        self.on("*", "/*", Behaviour::error(404, "page not found"));
        for method in ["GET", "HEAD"] {
            self.on(method, "/_ping", Behaviour::reply(200, "text/plain", "OK"));
        }
        self.on("GET", "/version", Behaviour::json(&version));
        self.on("GET", "/info", Behaviour::json(&info));
        self.on("GET", "/containers/*/json", Behaviour::error(404, "No such container"));
        self.on("GET", "/containers/*/top", Behaviour::json(&top_of("sleep 1000")));
        self.on("GET", "/containers/json", Behaviour::json(&json!([])));
        self.on("GET", "/images/*/json", Behaviour::error(404, "No such image"));
        self.on("GET", "/events", Behaviour::Events(self.feed.clone()));
    }

    /// `unix://...`, for `DOCKER_HOST` or `--host`.
    pub(crate) fn endpoint(&self) -> String {
        format!("unix://{}", self.socket.display())
    }

    pub(crate) fn socket(&self) -> &Path {
        &self.socket
    }

    /// The feed behind the default `/events`.
    pub(crate) fn events(&self) -> &Feed {
        &self.feed
    }

    /// Says what happens from now on when `method pattern` is asked. `*` is any method, or one or more
    /// segments of a path; the version prefix does not count. What was said last goes first.
    pub(crate) fn on(&self, method: &str, pattern: &str, behaviour: Behaviour) -> &Self {
        let route =
            Route { method: method.into(), pattern: pattern.into(), behaviour, used: AtomicUsize::new(0) };
        self.shared.routes.lock().unwrap().push(Arc::new(route));
        self
    }

    /// Lists exactly these containers from now on, and answers their inspections.
    pub(crate) fn containers(&self, rows: &[Row]) -> &Self {
        self.on("GET", "/containers/*/json", Behaviour::error(404, "No such container"));
        for row in rows {
            self.on("GET", &format!("/containers/{}/json", row.id), Behaviour::json(&row.inspect()));
        }
        let list = rows.iter().map(Row::listed).collect();
        self.on("GET", "/containers/json", Behaviour::json(&Value::Array(list)))
    }

    /// Every request so far, in order.
    pub(crate) fn requests(&self) -> Vec<Request> {
        self.shared.requests.lock().unwrap().clone()
    }

    /// Every request so far as `METHOD target`.
    pub(crate) fn request_lines(&self) -> Vec<String> {
        self.requests().iter().map(ToString::to_string).collect()
    }

    /// The requests that could change something, as `METHOD target`.
    pub(crate) fn mutations(&self) -> Vec<String> {
        self.requests().iter().filter(|each| each.mutates()).map(ToString::to_string).collect()
    }

    /// The requests whose client went away while the answer was held back or stalled.
    pub(crate) fn abandoned(&self) -> Vec<String> {
        self.shared.abandoned.lock().unwrap().iter().map(ToString::to_string).collect()
    }

    /// How often a route was asked.
    pub(crate) fn count(&self, method: &str, pattern: &str) -> usize {
        self.requests().iter().filter(|each| fits(method, pattern, each)).count()
    }

    /// Waits until a route has been asked so often.
    #[track_caller]
    pub(crate) fn wait_for(&self, method: &str, pattern: &str, times: usize) {
        let what = format!("{method} {pattern} is asked {times} times");
        wait_until(&what, || self.count(method, pattern) >= times);
    }
}

impl Drop for ScriptedEngine {
    fn drop(&mut self) {
        self.shared.closing.store(true, Ordering::SeqCst);
        // One more connection wakes the listener, which then sees that it is over.
        let _ = UnixStream::connect(&self.socket);
        if let Some(listener) = self.listener.take() {
            let _ = listener.join();
        }
        for connection in self.shared.connections.lock().unwrap().values() {
            let _ = connection.shutdown(Shutdown::Both);
        }
    }
}

pub(crate) fn fits(method: &str, pattern: &str, request: &Request) -> bool {
    let pattern: Vec<_> = pattern.split('/').collect();
    let path: Vec<_> = request.path.split('/').collect();
    (method == "*" || method == request.method) && path_fits(&pattern, &path)
}

fn path_fits(pattern: &[&str], path: &[&str]) -> bool {
    match (pattern, path) {
        ([], []) => true,
        (["*", pattern @ ..], [_, path @ ..]) => {
            (0..=path.len()).any(|skipped| path_fits(pattern, &path[skipped..]))
        }
        ([expected, pattern @ ..], [segment, path @ ..]) => expected == segment && path_fits(pattern, path),
        _ => false,
    }
}

/// Answers one connection until either side ends it.
fn serve(shared: &Shared, stream: &UnixStream) -> io::Result<()> {
    let mut reader = BufReader::new(stream);
    while let Some(request) = read_request(&mut reader)? {
        let route = {
            let routes = shared.routes.lock().unwrap();
            routes.iter().rev().find(|route| fits(&route.method, &route.pattern, &request)).cloned().unwrap()
        };
        shared.requests.lock().unwrap().push(request.clone());
        let used = route.used.fetch_add(1, Ordering::SeqCst);
        if !behave(shared, stream, &request, &route.behaviour, used)? {
            return Ok(());
        }
    }
    Ok(())
}

/// Does what the test asked for; `false` ends the connection.
fn behave(
    shared: &Shared,
    mut stream: &UnixStream,
    request: &Request,
    behaviour: &Behaviour,
    used: usize,
) -> io::Result<bool> {
    match behaviour {
        Behaviour::Reply { status, content_type, body } => {
            let length = body.len();
            let mut answer = head(*status, content_type, &format!("Content-Length: {length}")).into_bytes();
            if request.method != "HEAD" {
                answer.extend_from_slice(body);
            }
            stream.write_all(&answer)?;
            return Ok(true);
        }
        Behaviour::HangBeforeHeaders => {}
        Behaviour::HangAfterHeaders => {
            stream.write_all(head(200, "application/json", "Transfer-Encoding: chunked").as_bytes())?;
        }
        Behaviour::StallBody { announced, sent } | Behaviour::Cut { announced, sent } => {
            let length = format!("Content-Length: {announced}");
            stream.write_all(head(200, "application/json", &length).as_bytes())?;
            stream.write_all(sent)?;
            if matches!(behaviour, Behaviour::Cut { .. }) {
                return Ok(false);
            }
        }
        Behaviour::ChunkedThenStall { sent } => {
            stream.write_all(head(200, "application/json", "Transfer-Encoding: chunked").as_bytes())?;
            write_chunk(stream, sent)?;
        }
        Behaviour::Huge { total } => {
            write_huge(stream, *total)?;
            return Ok(true);
        }
        Behaviour::Events(feed) => return stream_events(stream, feed),
        Behaviour::Sequence(each) => {
            let next = &each[used.min(each.len() - 1)];
            return behave(shared, stream, request, next, used);
        }
        Behaviour::Held(gate, then) => {
            while !gate.0.load(Ordering::SeqCst) {
                if gone(stream)? {
                    shared.abandon(request);
                    return Ok(false);
                }
            }
            stream.set_read_timeout(None)?;
            return behave(shared, stream, request, then, used);
        }
        Behaviour::Call(callback) => return behave(shared, stream, request, &callback(request), used),
    }
    // Silent from here on, until the client gives up or the engine is dropped.
    while !gone(stream)? {}
    shared.abandon(request);
    Ok(false)
}

fn stream_events(mut stream: &UnixStream, feed: &Feed) -> io::Result<bool> {
    let (sender, events) = mpsc::channel();
    stream.write_all(head(200, "application/json", "Transfer-Encoding: chunked").as_bytes())?;
    feed.0.lock().unwrap().push(sender);
    while !gone(stream)? {
        loop {
            match events.try_recv() {
                // An empty chunk would end the stream.
                Ok(bytes) if bytes.is_empty() => {}
                Ok(bytes) => write_chunk(stream, &bytes)?,
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) => {
                    write_chunk(stream, b"")?;
                    stream.set_read_timeout(None)?;
                    return Ok(true);
                }
            }
        }
    }
    Ok(false)
}
