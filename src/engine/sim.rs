//! A simulated engine: a host that exists only here, behind a unix socket that speaks the real Engine API, so that the
//! whole program runs on it unchanged. The demo lives on it, and tests make it misbehave on command.
//!
//! [`World`] is the state machine; everything around it is transport. It runs on a thread of its own until dropped.

mod clock;
mod dice;
mod event;
mod fault;
mod filters;
mod json;
mod processes;
mod program;
mod request;
mod routes;
mod server;
mod shell;
mod streams;
mod world;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;

use jiff::Timestamp;
use tokio::net::UnixListener;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::endpoint::{Address, Endpoint};
pub use clock::SimClock;
pub use dice::Dice;
pub use event::Event;
pub use fault::{Fault, FaultRule};
pub use program::{Deed, Output, Program, Signal};
use server::{Serving, Shared, hold};
pub use world::{Phase, Placed, Quirks, Refusal, SimContainer, SimExec, SimImage, World};

/// The name of a process that is a simulated engine and nothing else.
pub const PROCESS: &str = "demo-engine";

/// A simulated engine that listens.
#[derive(Debug)]
pub struct SimEngine {
    socket: PathBuf,
    shared: Arc<Shared>,
    orders: Option<UnboundedSender<(Order, mpsc::Sender<io::Result<()>>)>>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Clone, Copy, Debug)]
enum Order {
    Down,
    Up,
}

impl SimEngine {
    /// Serves a host at a socket that nobody else uses. The seed decides about faults that happen by chance.
    pub fn start(socket: &Path, world: World, clock: SimClock, seed: u64) -> io::Result<Self> {
        let shared = Arc::new(Shared::new(world, clock, seed));
        let (orders, received) = unbounded_channel();
        let (thread_shared, thread_socket) = (Arc::clone(&shared), socket.to_owned());
        let thread = std::thread::Builder::new().name("simulated engine".to_owned()).spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            if let Ok(runtime) = runtime {
                runtime.block_on(run(thread_shared, thread_socket, received));
            }
        })?;
        let engine = Self { socket: socket.to_owned(), shared, orders: Some(orders), thread: Some(thread) };
        engine.up()?;
        Ok(engine)
    }

    /// Where it listens.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// Where it listens, for an [`EngineView`](super::EngineView).
    pub fn endpoint(&self) -> Endpoint {
        Endpoint { address: Address::Unix(self.socket.clone()), origin: "simulated".to_owned() }
    }

    /// Its clock.
    pub fn clock(&self) -> &SimClock {
        &self.shared.clock
    }

    /// Looks at the host.
    pub fn look<T>(&self, look: impl FnOnce(&World, Timestamp) -> T) -> T {
        self.shared.look(look)
    }

    /// Does something to the host, as the application would, past the API.
    pub fn act<T>(&self, act: impl FnOnce(&mut World, Timestamp) -> T) -> T {
        self.shared.act(act)
    }

    /// Switches a fault on.
    pub fn fault(&self, rule: FaultRule) -> &Self {
        hold(&self.shared.faults).add(rule);
        self
    }

    /// Switches every fault and every bad habit off.
    pub fn recover(&self) {
        hold(&self.shared.faults).clear();
        self.shared.act(|world, _| world.quirks = Quirks::default());
    }

    /// The requests it has got, as `METHOD target`, the oldest first; of very many only the newest.
    pub fn requests(&self) -> Vec<String> {
        hold(&self.shared.requests).iter().cloned().collect()
    }

    /// How often the containers were listed.
    pub fn lists(&self) -> usize {
        self.shared.lists.load(Ordering::Relaxed)
    }

    /// The requests that could change something.
    pub fn mutations(&self) -> Vec<String> {
        let looks = |request: &String| request.starts_with("GET ") || request.starts_with("HEAD ");
        self.requests().into_iter().filter(|request| !looks(request)).collect()
    }

    /// The engine goes down: every connection is cut, and nobody listens.
    pub fn down(&self) -> io::Result<()> {
        self.order(Order::Down)
    }

    /// The engine comes up again, on a host that went on without it.
    pub fn up(&self) -> io::Result<()> {
        self.order(Order::Up)
    }

    /// The engine restarts: what ran is ended, what restarts by itself is started, no event is remembered.
    pub fn restart(&self) -> io::Result<()> {
        self.down()?;
        self.act(World::restart_daemon);
        self.up()
    }

    fn order(&self, order: Order) -> io::Result<()> {
        let gone = || io::Error::other("the simulated engine has ended");
        let (done, answer) = mpsc::channel();
        self.orders.as_ref().ok_or_else(gone)?.send((order, done)).map_err(|_| gone())?;
        answer.recv().map_err(|_| gone())?
    }
}

impl Drop for SimEngine {
    fn drop(&mut self) {
        self.orders = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        let _ = std::fs::remove_file(&self.socket);
    }
}

async fn run(
    shared: Arc<Shared>,
    socket: PathBuf,
    mut orders: UnboundedReceiver<(Order, mpsc::Sender<io::Result<()>>)>,
) {
    let living = tokio::spawn({
        let shared = Arc::clone(&shared);
        async move { shared.live().await }
    });
    let mut serving: Option<Serving> = None;
    while let Some((order, done)) = orders.recv().await {
        if let Some(serving) = serving.take() {
            serving.stop().await;
        }
        let _ = std::fs::remove_file(&socket);
        let result = match order {
            Order::Down => Ok(()),
            Order::Up => UnixListener::bind(&socket).map(|listener| {
                serving = Some(Serving::start(listener, Arc::clone(&shared)));
            }),
        };
        // Whoever gave the order may have gone.
        let _ = done.send(result);
    }
    if let Some(serving) = serving.take() {
        serving.stop().await;
    }
    living.abort();
}
