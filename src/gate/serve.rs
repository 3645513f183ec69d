//! Connections: each a task of its own, so that nobody waits for anybody else. Every request is checked here, and one that
//! is refused never leaves the process.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Body as _, Incoming};
use hyper::header::{CONNECTION, CONTENT_TYPE, HeaderValue, UPGRADE};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{HeaderMap, Request, Response, StatusCode, Version};
use hyper_util::rt::{TokioIo, TokioTimer};
use serde_json::json;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::patience::Patient;
use super::request::{Asked, LONGEST_TARGET, Question, Refusal};
use super::upstream::NoAnswer;
use super::{Gate, HEADER, MOST_OF_ONE_USER, answer};

pub(super) type Body = UnsyncBoxBody<Bytes, std::io::Error>;

/// How long a client may take to send a request, or to send the next one.
const HEAD_PATIENCE: Duration = Duration::from_secs(30);
/// The longest head of a request.
const LONGEST_HEAD: usize = 16 * 1024;
const MOST_HEADERS: usize = 64;
/// What is read of a body before it is refused, so that its sender hears of the refusal.
const POLITENESS: usize = 1024 * 1024;
const POLITE_FOR: Duration = Duration::from_secs(2);
/// Between two attempts while there are no file handles, say.
const PAUSE: Duration = Duration::from_millis(50);

const FULL: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nContent-Type: application/json\r\n\
    Content-Length: 58\r\nSandkeeper-Gate: 1\r\n\r\n{\"message\":\"too many are connected here; try again later\"}";

/// Takes connections until `stop`.
pub(super) async fn accept(
    gate: &Arc<Gate>,
    listener: &UnixListener,
    connections: &TaskTracker,
    stop: &CancellationToken,
) {
    loop {
        let accepted = tokio::select! {
            () = stop.cancelled() => return,
            accepted = listener.accept() => accepted,
        };
        let Ok((stream, _)) = accepted else {
            tokio::time::sleep(PAUSE).await;
            continue;
        };
        let seat = Arc::clone(&gate.seats).try_acquire_owned().ok();
        let (Some(seat), Some(own_seat)) = (seat, gate.users.take_seat(&stream)) else {
            gate.diary.note(&format!("refused {}: too many are connected", Peer::of(&stream)));
            let _ = stream.try_write(FULL);
            continue;
        };
        let (gate, stop) = (Arc::clone(gate), stop.clone());
        connections.spawn(async move {
            tokio::select! {
                () = stop.cancelled() => {}
                () = serve(&gate, stream) => {}
            }
            drop((seat, own_seat));
        });
    }
}

/// How many connections each user has. One user alone cannot take all seats.
#[derive(Debug, Default)]
pub(super) struct Users(Mutex<HashMap<u32, Arc<Semaphore>>>);

impl Users {
    fn take_seat(&self, stream: &UnixStream) -> Option<OwnedSemaphorePermit> {
        let user = stream.peer_cred().ok()?.uid();
        let mut users = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        users.retain(|_, seats| seats.available_permits() < MOST_OF_ONE_USER);
        let seats = users.entry(user).or_insert_with(|| Arc::new(Semaphore::new(MOST_OF_ONE_USER)));
        Arc::clone(seats).try_acquire_owned().ok()
    }
}

/// Who is at the other end.
#[derive(Clone, Debug)]
struct Peer(String);

impl Peer {
    fn of(stream: &UnixStream) -> Self {
        Self(match stream.peer_cred() {
            Ok(peer) => match peer.pid() {
                Some(pid) => format!("uid {} (pid {pid})", peer.uid()),
                None => format!("uid {}", peer.uid()),
            },
            Err(_) => "somebody".to_owned(),
        })
    }
}

impl std::fmt::Display for Peer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

async fn serve(gate: &Arc<Gate>, stream: UnixStream) {
    let peer = Peer::of(&stream);
    let service = service_fn(|request| {
        let (gate, peer) = (Arc::clone(gate), peer.clone());
        async move { Ok::<_, Infallible>(handle(&gate, &peer, request).await) }
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_PATIENCE)
        .max_buf_size(LONGEST_HEAD)
        .max_headers(MOST_HEADERS)
        .serve_connection(TokioIo::new(Patient::new(stream)), service)
        .await;
    // What is no HTTP was answered with 400 or 431 and never became a request.
    if let Err(error) = served
        && error.is_parse()
    {
        gate.diary.note(&format!("refused {peer}: {error}"));
    }
}

async fn handle(gate: &Arc<Gate>, peer: &Peer, request: Request<Incoming>) -> Response<Body> {
    let (head, body) = request.into_parts();
    let shown = || {
        let target: String = head.uri.to_string().chars().take(LONGEST_TARGET).collect();
        format!("{} {target}", head.method)
    };
    let plain = head.uri.scheme().is_none() && head.uri.authority().is_none();
    let target = head.uri.path_and_query().map_or("", |target| target.as_str());
    let asked = match Asked::parse(head.method.as_str(), target) {
        _ if head.version != Version::HTTP_11 => Err(Refusal::HttpVersion),
        Ok(_) if !plain => Err(Refusal::Target("it must begin with a slash")),
        Ok(_) if upgrades(&head.headers) => Err(Refusal::Upgrade),
        Ok(_) if !body.is_end_stream() => Err(Refusal::Body),
        Ok(asked) if !gate.logs && matches!(asked.question, Question::Logs(_)) => Err(Refusal::NoLogs),
        asked => asked,
    };
    let asked = match asked {
        Ok(asked) => asked,
        Err(refusal) => {
            gate.diary.note(&format!("refused {peer}: {}: {refusal}", shown()));
            // Whoever is still sending would take the end of the connection for an accident.
            let rest = Limited::new(body, POLITENESS).collect();
            let _ = tokio::time::timeout(POLITE_FOR, rest).await;
            return sentence(403, &refusal.to_string());
        }
    };
    match answer::answer(gate, &asked).await {
        Ok(response) => response,
        Err(NoAnswer { status, sentence: words }) => sentence(status, &words),
    }
}

fn upgrades(headers: &HeaderMap) -> bool {
    let names_upgrade = |value: &HeaderValue| {
        let value = String::from_utf8_lossy(value.as_bytes()).to_ascii_lowercase();
        value.split(',').any(|word| word.trim() == "upgrade")
    };
    headers.contains_key(UPGRADE) || headers.get_all(CONNECTION).iter().any(names_upgrade)
}

/// An answer of the gate's own.
pub(super) fn sentence(status: u16, words: &str) -> Response<Body> {
    let text = format!("{}\n", json!({ "message": words }));
    let mut response =
        Response::new(Full::new(Bytes::from(text)).map_err(|never| match never {}).boxed_unsync());
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(HEADER, HeaderValue::from_static("1"));
    response
}
