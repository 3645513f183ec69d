//! A read-only way to the engine: a socket that lets questions pass and nothing else, so that whoever only looks needs no
//! right to the engine's own socket.
//!
//! A request is taken apart, compared with a list, and put together anew ([`Asked`]); no header, body or odd path of a
//! client's ever reaches the engine. Secrets are taken out of the answers here, before they leave.

mod answer;
mod diary;
mod document;
mod parameters;
mod patience;
mod request;
mod serve;
mod socket;
mod upstream;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub use request::{Asked, Question, Reference, Refusal};

use crate::domain::Profile;
use crate::engine::Address;
use crate::engine::redact::Redactor;
use diary::Diary;
use socket::Socket;

/// Every answer of a gate carries this header: whoever sees it knows that the socket itself refuses to change anything.
pub const HEADER: &str = "sandkeeper-gate";
/// What that header says to a ping where the engine itself listens on the gate's machine.
pub const BESIDE: &str = "beside the engine";
/// How many may be connected at once. Two handles each, below the usual limit of 1024.
const MOST_CONNECTIONS: usize = 400;
/// How many of them may be one user's.
const MOST_OF_ONE_USER: usize = MOST_CONNECTIONS * 3 / 4;
/// How many KiB of whole answers are held at once.
const MOST_HELD: usize = 128 * 1024;
/// How long answers in flight may take to end when the gate does.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// What a gate is told.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where the engine is.
    pub engine: Address,
    /// Where to listen.
    pub listen: PathBuf,
    /// The rights on that socket.
    pub mode: u32,
    /// Its group; ours without one.
    pub group: Option<u32>,
    /// The profiles whose labels are left as they are.
    pub profiles: Vec<Arc<Profile>>,
    /// Whether only the containers of those profiles exist for clients.
    pub only_profiles: bool,
    /// Whether logs pass.
    pub logs: bool,
}

/// Why a gate cannot begin.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum GateFault {
    /// The socket cannot be made.
    #[error("the gate cannot listen at {path}: {why}")]
    Socket {
        /// Where.
        path: String,
        /// Why, and what to try.
        why: String,
    },
    /// The gate would ask itself.
    #[error("the gate's socket {0} is the engine's own; name another with `--listen`")]
    Itself(String),
}

/// What all connections share.
struct Gate {
    engine: Address,
    redactor: Redactor,
    /// Whose containers exist for clients; everybody's without it.
    only: Option<Vec<Arc<Profile>>>,
    logs: bool,
    diary: Diary,
    /// KiB of whole answers that may be held.
    room: Arc<Semaphore>,
    /// Connections that may still come.
    seats: Arc<Semaphore>,
    users: serve::Users,
}

/// Lets questions pass until `stop`. `ready` is called when clients can connect.
pub async fn run(options: Options, stop: CancellationToken, ready: impl FnOnce()) -> Result<(), GateFault> {
    let Options { engine, listen, mode, group, profiles, only_profiles, logs } = options;
    if let Address::Unix(path) = &engine
        && same_place(path, &listen)
    {
        return Err(GateFault::Itself(listen.display().to_string()));
    }
    let socket = Socket::listen(&listen, mode, group)?;
    let kept: BTreeSet<String> =
        profiles.iter().flat_map(|profile| profile.label_keys()).map(str::to_owned).collect();
    let gate = Arc::new(Gate {
        engine,
        redactor: Redactor::for_programs(kept),
        only: only_profiles.then_some(profiles),
        logs,
        diary: Diary::begin(),
        room: Arc::new(Semaphore::new(MOST_HELD)),
        seats: Arc::new(Semaphore::new(MOST_CONNECTIONS)),
        users: serve::Users::default(),
    });
    let connections = TaskTracker::new();
    ready();
    serve::accept(&gate, &socket.listener, &connections, &stop).await;
    connections.close();
    let _ = tokio::time::timeout(LAST_WORDS, connections.wait()).await;
    Ok(())
}

fn same_place(one: &std::path::Path, other: &std::path::Path) -> bool {
    let real = |path: &std::path::Path| std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    real(one) == real(other)
}
