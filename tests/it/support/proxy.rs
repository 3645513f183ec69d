//! A way to a real engine on which every request is recorded, and any can be answered with a fault, held back, or
//! preceded by something the test does.

use std::io::{self, BufReader, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

use tempfile::TempDir;

use super::scripted::{Gate, Request, fits};
use super::wait_until;
use super::wire::{error_body, gone, head, read_request};

/// What happens to a request instead of simply passing.
#[derive(Clone)]
enum Act {
    /// The engine is not asked; this is the answer.
    Answer(u16, String),
    /// The engine is not asked, and the connection ends.
    Cut,
    /// The engine is asked, and the connection ends instead of the answer.
    CutAnswer,
    /// The engine is not asked before the gate opens.
    Hold(Gate),
    /// The engine is asked, and its answer waits for the gate.
    HoldAnswer(Gate),
    /// Something happens before the engine is asked.
    Before(Arc<dyn Fn(&Request) + Send + Sync>),
    /// Something happens after the engine has answered, before the answer goes on.
    After(Arc<dyn Fn(&Request) + Send + Sync>),
}

struct Rule {
    method: String,
    pattern: String,
    /// Which of the fitting requests; `None` means all.
    nth: Option<usize>,
    seen: AtomicUsize,
    act: Act,
}

#[derive(Default)]
struct Shared {
    rules: Mutex<Vec<Arc<Rule>>>,
    requests: Mutex<Vec<Request>>,
    abandoned: Mutex<Vec<String>>,
    closing: AtomicBool,
}

/// The proxy. It listens until it is dropped.
pub(crate) struct Proxy {
    shared: Arc<Shared>,
    listener: Option<JoinHandle<()>>,
    socket: PathBuf,
    _directory: TempDir,
}

/// A request about to get a rule.
#[must_use = "a rule says what happens"]
pub(crate) struct When<'proxy> {
    proxy: &'proxy Proxy,
    method: String,
    pattern: String,
    nth: Option<usize>,
}

impl When<'_> {
    /// Only the `nth` request from now on, counted from one.
    pub(crate) fn nth(mut self, nth: usize) -> Self {
        self.nth = Some(nth);
        self
    }

    pub(crate) fn answer(self, status: u16, message: &str) {
        self.add(Act::Answer(status, message.to_owned()));
    }

    pub(crate) fn cut(self) {
        self.add(Act::Cut);
    }

    pub(crate) fn cut_answer(self) {
        self.add(Act::CutAnswer);
    }

    /// Holds the request back; it never reaches the engine unless the gate opens.
    pub(crate) fn hold(self) -> Gate {
        let gate = Gate::default();
        self.add(Act::Hold(gate.clone()));
        gate
    }

    /// Lets the engine do it and holds its answer back.
    pub(crate) fn hold_answer(self) -> Gate {
        let gate = Gate::default();
        self.add(Act::HoldAnswer(gate.clone()));
        gate
    }

    pub(crate) fn before(self, hook: impl Fn(&Request) + Send + Sync + 'static) {
        self.add(Act::Before(Arc::new(hook)));
    }

    pub(crate) fn after(self, hook: impl Fn(&Request) + Send + Sync + 'static) {
        self.add(Act::After(Arc::new(hook)));
    }

    fn add(self, act: Act) {
        let Self { proxy, method, pattern, nth } = self;
        let rule = Rule { method, pattern, nth, seen: AtomicUsize::new(0), act };
        proxy.shared.rules.lock().unwrap().push(Arc::new(rule));
    }
}

impl Proxy {
    pub(crate) fn before(engine: &Path) -> Self {
        let directory = tempfile::Builder::new().prefix("sandkeeper-proxy.").tempdir().unwrap();
        let socket = directory.path().join("proxy.sock");
        super::go_by("dockerd");
        let listener = UnixListener::bind(&socket).unwrap();
        let shared = Arc::new(Shared::default());
        let serving = Arc::clone(&shared);
        let engine = engine.to_owned();
        let listener = thread::spawn(move || {
            for stream in listener.incoming() {
                if serving.closing.load(Ordering::SeqCst) {
                    return;
                }
                let Ok(stream) = stream else { return };
                let (serving, engine) = (Arc::clone(&serving), engine.clone());
                thread::spawn(move || {
                    // A client that goes away in mid-answer is remembered where it matters.
                    let _ = serve(&serving, &engine, &stream);
                    let _ = stream.shutdown(Shutdown::Both);
                });
            }
        });
        Self { shared, listener: Some(listener), socket, _directory: directory }
    }

    /// `unix://...`, for `DOCKER_HOST` or `--host`.
    pub(crate) fn endpoint(&self) -> String {
        format!("unix://{}", self.socket.display())
    }

    /// A rule for `method pattern`, in the words of the scripted engine. The first rule that fits holds.
    pub(crate) fn when(&self, method: &str, pattern: &str) -> When<'_> {
        When { proxy: self, method: method.to_owned(), pattern: pattern.to_owned(), nth: None }
    }

    /// Everything passes from now on.
    pub(crate) fn forget_rules(&self) {
        self.shared.rules.lock().unwrap().clear();
    }

    pub(crate) fn requests(&self) -> Vec<Request> {
        self.shared.requests.lock().unwrap().clone()
    }

    pub(crate) fn mutations(&self) -> Vec<Request> {
        self.requests().into_iter().filter(Request::mutates).collect()
    }

    /// `METHOD target` of the requests whose client went away before it had its answer.
    pub(crate) fn abandoned(&self) -> Vec<String> {
        self.shared.abandoned.lock().unwrap().clone()
    }

    pub(crate) fn count(&self, method: &str, pattern: &str) -> usize {
        self.requests().iter().filter(|each| fits(method, pattern, each)).count()
    }

    #[track_caller]
    pub(crate) fn wait_for(&self, method: &str, pattern: &str, times: usize) {
        let what = format!("{method} {pattern} is asked {times} times");
        wait_until(&what, || self.count(method, pattern) >= times);
    }

    /// Every request that changes something names a container by its full id, none removes volumes, and none forces.
    #[track_caller]
    pub(crate) fn expect_careful_mutations(&self) {
        for request in self.mutations() {
            let mut segments = request.path.split('/');
            let id = segments.nth(2).unwrap_or_default();
            let full = id.len() == 64 && id.bytes().all(|each| each.is_ascii_hexdigit());
            assert!(request.path.starts_with("/containers/") && full, "not addressed by full id: {request}");
            for parameter in ["v", "force", "link"] {
                let value = request.query(parameter).unwrap_or("false");
                assert!(matches!(value, "false" | "0"), "{parameter}={value}: {request}");
            }
        }
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.closing.store(true, Ordering::SeqCst);
        // One more connection wakes the listener, which then sees that it is over.
        let _ = UnixStream::connect(&self.socket);
        if let Some(listener) = self.listener.take() {
            let _ = listener.join();
        }
    }
}

/// Answers one request; the connection ends with it, so that no answer has to be understood.
fn serve(shared: &Shared, engine: &Path, stream: &UnixStream) -> io::Result<()> {
    let mut reader = BufReader::new(stream);
    let Some(request) = read_request(&mut reader)? else { return Ok(()) };
    shared.requests.lock().unwrap().push(request.clone());
    let act = chosen(shared, &request);
    if let Some(Act::Hold(gate)) = &act {
        wait_at(shared, gate, &request, stream)?;
    }
    match &act {
        Some(Act::Answer(status, message)) => {
            let body = error_body(message);
            let framing = format!("Connection: close\r\nContent-Length: {}", body.len());
            let answer = head(*status, "application/json", &framing) + &body;
            return (&*stream).write_all(answer.as_bytes());
        }
        Some(Act::Cut) => return Ok(()),
        Some(Act::Before(hook)) => hook(&request),
        _ => {}
    }
    let answer = if request.path == "/events" { Vec::new() } else { ask(engine, &request)? };
    match &act {
        Some(Act::CutAnswer) => return Ok(()),
        Some(Act::HoldAnswer(gate)) => wait_at(shared, gate, &request, stream)?,
        Some(Act::After(hook)) => hook(&request),
        _ => {}
    }
    if request.mutates() && gone(stream)? {
        abandon(shared, &request);
        return Ok(());
    }
    (&*stream).write_all(&answer).inspect_err(|_| abandon(shared, &request))
}

fn chosen(shared: &Shared, request: &Request) -> Option<Act> {
    let rules = shared.rules.lock().unwrap();
    let mut chosen = None;
    for rule in rules.iter().filter(|rule| fits(&rule.method, &rule.pattern, request)) {
        let seen = rule.seen.fetch_add(1, Ordering::SeqCst) + 1;
        if chosen.is_none() && rule.nth.is_none_or(|nth| nth == seen) {
            chosen = Some(rule.act.clone());
        }
    }
    chosen
}

fn wait_at(shared: &Shared, gate: &Gate, request: &Request, stream: &UnixStream) -> io::Result<()> {
    while !gate.is_open() && !shared.closing.load(Ordering::SeqCst) {
        if gone(stream)? {
            abandon(shared, request);
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
    }
    Ok(())
}

fn abandon(shared: &Shared, request: &Request) {
    if !shared.closing.load(Ordering::SeqCst) {
        shared.abandoned.lock().unwrap().push(request.to_string());
    }
}

/// The engine's whole answer, as it came.
fn ask(engine: &Path, request: &Request) -> io::Result<Vec<u8>> {
    let mut upstream = UnixStream::connect(engine)?;
    let Request { method, target, body, .. } = request;
    let length = body.len();
    let asked = format!(
        "{method} {target} HTTP/1.1\r\nHost: engine\r\nConnection: close\r\nContent-Type: application/json\r\n\
         Content-Length: {length}\r\n\r\n"
    );
    upstream.write_all(asked.as_bytes())?;
    upstream.write_all(body)?;
    let mut answer = Vec::new();
    upstream.read_to_end(&mut answer)?;
    Ok(answer)
}
