//! The thin layer between HTTP and the simulated host: accepts connections, passes requests on, and does to the
//! answers what the faults want.

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Limited, StreamBody};
use hyper::body::{Body, Frame, Incoming};
use hyper::header::{CONTENT_LENGTH, HeaderValue};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use jiff::Timestamp;
use serde_json::Value;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::clock::SimClock;
use super::fault::{Fault, Faults};
use super::request::Asked;
use super::routes;
use super::world::{Refusal, World};

pub(super) type Answer = UnsyncBoxBody<Bytes, io::Error>;

/// Nobody sends a larger request to a simulated engine.
const LARGEST_REQUEST: usize = 4 * 1024 * 1024;
/// How many requests are remembered.
const REMEMBERED: usize = 20_000;

/// What all connections share.
#[derive(Debug)]
pub(super) struct Shared {
    world: Mutex<World>,
    changed: watch::Sender<()>,
    pub(super) clock: SimClock,
    pub(super) faults: Mutex<Faults>,
    pub(super) requests: Mutex<VecDeque<String>>,
    /// How often the containers were listed.
    pub(super) lists: AtomicUsize,
}

/// A poisoned lock still guards a simulated host; a test that panicked has said why by itself.
pub(super) fn hold<T>(lock: &Mutex<T>) -> MutexGuard<'_, T> {
    lock.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    pub(super) fn new(world: World, clock: SimClock, seed: u64) -> Self {
        let (changed, _) = watch::channel(());
        let faults = Mutex::new(Faults::new(seed));
        Self {
            world: Mutex::new(world),
            changed,
            clock,
            faults,
            requests: Mutex::default(),
            lists: AtomicUsize::new(0),
        }
    }

    /// Looks at the host as it is now.
    pub(super) fn look<T>(&self, look: impl FnOnce(&World, Timestamp) -> T) -> T {
        let now = self.clock.now();
        let mut world = hold(&self.world);
        let before = world.events.next_number();
        world.tick(now);
        let seen = look(&world, now);
        let moved = world.events.next_number() != before;
        drop(world);
        if moved {
            self.changed.send_replace(());
        }
        seen
    }

    /// Does something to the host, and tells everybody who waits.
    pub(super) fn act<T>(&self, act: impl FnOnce(&mut World, Timestamp) -> T) -> T {
        let now = self.clock.now();
        let mut world = hold(&self.world);
        world.tick(now);
        let done = act(&mut world, now);
        world.stir();
        drop(world);
        self.changed.send_replace(());
        done
    }

    /// Hears of every change from now on.
    pub(super) fn changes(&self) -> watch::Receiver<()> {
        self.changed.subscribe()
    }

    /// Lets things happen when they are due, for ever.
    pub(super) async fn live(&self) {
        let mut changes = self.changes();
        loop {
            let due = self.look(|world, _| world.next_due());
            let happens = async {
                match due {
                    Some(due) => self.clock.sleep_until(due).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = happens => {}
                told = changes.changed() => if told.is_err() { return },
            }
        }
    }
}

/// Connections that are served until this is stopped.
pub(super) struct Serving {
    cancel: CancellationToken,
    connections: TaskTracker,
}

impl Serving {
    pub(super) fn start(listener: UnixListener, shared: Arc<Shared>) -> Self {
        let serving = Self { cancel: CancellationToken::new(), connections: TaskTracker::new() };
        let (cancel, connections) = (serving.cancel.clone(), serving.connections.clone());
        serving.connections.spawn(async move {
            loop {
                let accepted = tokio::select! {
                    () = cancel.cancelled() => return,
                    accepted = listener.accept() => accepted,
                };
                match accepted {
                    Ok((stream, _)) => {
                        let (shared, cancel) = (Arc::clone(&shared), cancel.clone());
                        connections.spawn(async move {
                            tokio::select! {
                                () = cancel.cancelled() => {}
                                () = serve(stream, shared) => {}
                            }
                        });
                    }
                    // Out of file handles, say; the next attempt may do better.
                    Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
                }
            }
        });
        serving
    }

    /// Cuts every connection and listens no more.
    pub(super) async fn stop(self) {
        self.cancel.cancel();
        self.connections.close();
        self.connections.wait().await;
    }
}

async fn serve(stream: UnixStream, shared: Arc<Shared>) {
    let service = service_fn(move |request| {
        let shared = Arc::clone(&shared);
        async move { handle(&shared, request).await }
    });
    // A client that goes away is the client's business.
    let _ = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
}

async fn handle(shared: &Arc<Shared>, request: Request<Incoming>) -> io::Result<Response<Answer>> {
    let (head, body) = request.into_parts();
    let body = Limited::new(body, LARGEST_REQUEST).collect().await.map_err(io::Error::other)?.to_bytes();
    remember(shared, &format!("{} {}", head.method, head.uri));
    let query = head.uri.query().unwrap_or_default();
    let asked = match Asked::new(head.method.as_str(), head.uri.path(), query, body) {
        Ok(asked) => asked,
        Err(refusal) => return Ok(routes::refusal(&refusal)),
    };
    let faults = hold(&shared.faults).of(&asked.method, &asked.path.join("/"));
    for fault in &faults {
        match fault {
            Fault::Latency(time) => tokio::time::sleep(*time).await,
            Fault::HangBeforeHeaders => std::future::pending().await,
            Fault::Status(status, words) => {
                return Ok(routes::refusal(&Refusal { status: *status, message: words.clone() }));
            }
            Fault::Instead(words) => return Ok(routes::instead(words.clone())),
            _ => {}
        }
    }
    let mut response = match routes::answer(shared, &asked).await {
        Ok(response) => response,
        Err(refusal) => routes::refusal(&refusal),
    };
    let headers = [
        ("api-version", "1.41"),
        ("docker-experimental", "false"),
        ("ostype", "linux"),
        ("server", "Docker/20.10.24 (simulated)"),
    ];
    for (name, value) in headers {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    for fault in faults {
        response = match fault {
            Fault::HangAfterHeaders => broken(response, 0, End::Silence),
            Fault::StalledBody(after) => broken(response, after, End::Silence),
            Fault::CutConnection(0) => return Err(io::ErrorKind::ConnectionReset.into()),
            Fault::CutConnection(after) => broken(response, after, End::Cut),
            Fault::MalformedRows(percent) => malformed(shared, response, percent).await?,
            _ => response,
        };
    }
    Ok(response)
}

fn remember(shared: &Shared, request: &str) {
    if request.contains("/containers/json") {
        shared.lists.fetch_add(1, Ordering::Relaxed);
    }
    let mut requests = hold(&shared.requests);
    if requests.len() == REMEMBERED {
        requests.pop_front();
    }
    requests.push_back(request.to_owned());
}

/// How an answer goes wrong in the middle.
#[derive(Clone, Copy)]
enum End {
    Silence,
    Cut,
}

/// The same answer, with its length announced as before and only so many bytes of it.
fn broken(response: Response<Answer>, bytes: usize, end: End) -> Response<Answer> {
    let (mut head, body) = response.into_parts();
    if let Some(length) = body.size_hint().exact() {
        head.headers.insert(CONTENT_LENGTH, HeaderValue::from(length));
    }
    let pieces = stream::unfold((body, bytes), move |(mut body, left)| async move {
        if left > 0
            && let Some(Ok(frame)) = body.frame().await
            && let Ok(mut data) = frame.into_data()
        {
            data.truncate(left);
            let left = left - data.len();
            return Some((Ok(Frame::data(data)), (body, left)));
        }
        match end {
            End::Silence => std::future::pending().await,
            End::Cut => Some((Err(io::ErrorKind::ConnectionReset.into()), (body, 0))),
        }
    });
    Response::from_parts(head, StreamBody::new(pieces).boxed_unsync())
}

async fn malformed(shared: &Shared, response: Response<Answer>, percent: u8) -> io::Result<Response<Answer>> {
    let (head, body) = response.into_parts();
    let body = body.collect().await?.to_bytes();
    let Ok(mut list) = serde_json::from_slice::<Value>(&body) else {
        return Ok(routes::instead(String::from_utf8_lossy(&body).into_owned()));
    };
    hold(&shared.faults).damage(&mut list, percent);
    Ok(routes::document(head.status.as_u16(), &list))
}
