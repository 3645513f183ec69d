//! The keeper's pen: one thread that writes the journal and syncs it to disk. Whatever waits to be written while a sync
//! is under way shares the next one, so that a hundred items cost a few syncs and not hundreds.

use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use crate::domain::ContainerId;
use crate::state::{ItemRecord, Mark, PlanRecord, State, StateFault, Step, Trouble};

type Reply<T> = oneshot::Sender<Result<T, StateFault>>;

enum Request {
    Begin(PlanRecord, Vec<ItemRecord>, Reply<Vec<i64>>),
    Step(i64, Step, String, Reply<()>),
    SetMark(String, Box<Mark>, Reply<()>),
    ClearMark(String, ContainerId, Reply<bool>),
    Perform(Write, Reply<()>),
}

/// Anything else that is to be written.
type Write = Box<dyn FnOnce(&mut State) -> Result<(), StateFault> + Send>;

/// A handle to the writing thread. Every method returns once its words are on disk.
#[derive(Debug)]
pub(super) struct Journal {
    requests: Option<mpsc::Sender<Request>>,
    thread: Option<JoinHandle<()>>,
}

impl Journal {
    pub(super) fn new(state: State) -> Self {
        let (requests, queue) = mpsc::channel();
        let thread = std::thread::spawn(move || write_all(state, &queue));
        Self { requests: Some(requests), thread: Some(thread) }
    }

    pub(super) async fn begin(
        &self,
        plan: PlanRecord,
        items: Vec<ItemRecord>,
    ) -> Result<Vec<i64>, StateFault> {
        self.ask(|reply| Request::Begin(plan, items, reply)).await
    }

    pub(super) async fn step(
        &self,
        item: i64,
        step: Step,
        detail: impl Into<String>,
    ) -> Result<(), StateFault> {
        let detail = detail.into();
        self.ask(|reply| Request::Step(item, step, detail, reply)).await
    }

    pub(super) async fn set_mark(&self, host: &str, mark: Mark) -> Result<(), StateFault> {
        self.ask(|reply| Request::SetMark(host.to_owned(), Box::new(mark), reply)).await
    }

    pub(super) async fn clear_mark(&self, host: &str, container: &ContainerId) -> Result<bool, StateFault> {
        self.ask(|reply| Request::ClearMark(host.to_owned(), container.clone(), reply)).await
    }

    pub(super) async fn perform(
        &self,
        write: impl FnOnce(&mut State) -> Result<(), StateFault> + Send + 'static,
    ) -> Result<(), StateFault> {
        self.ask(|reply| Request::Perform(Box::new(write), reply)).await
    }

    async fn ask<T>(&self, request: impl FnOnce(Reply<T>) -> Request) -> Result<T, StateFault> {
        let gone = || StateFault::Database {
            path: "state.db".to_owned(),
            why: Trouble::Ended("the journal's thread ended"),
        };
        let (reply, answer) = oneshot::channel();
        let requests = self.requests.as_ref().ok_or_else(gone)?;
        requests.send(request(reply)).map_err(|_| gone())?;
        answer.await.map_err(|_| gone())?
    }
}

impl Drop for Journal {
    /// Lets the thread finish what it was given.
    fn drop(&mut self) {
        self.requests = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Two syncs begin at least this far apart, so that those who ask in between share one.
const PACE: Duration = Duration::from_millis(15);
/// Many who ask at once come one after the other.
const GATHER: Duration = Duration::from_millis(1);

fn write_all(mut state: State, queue: &mpsc::Receiver<Request>) {
    let mut last_sync = None;
    while let Ok(first) = queue.recv() {
        let gathered = Instant::now() + GATHER;
        let until = last_sync.map_or(gathered, |last| gathered.max(last + PACE));
        let mut steps = Vec::new();
        let mut replies = Vec::new();
        let mut next = Some(first);
        // Whoever asked and left needs no answer.
        while let Some(request) = next {
            match request {
                Request::Begin(plan, items, reply) => {
                    let _ = reply.send(state.begin(&plan, &items));
                }
                Request::Step(item, step, detail, reply) => {
                    steps.push((item, step, detail));
                    replies.push(reply);
                }
                Request::SetMark(host, mark, reply) => {
                    let _ = reply.send(state.set_mark(&host, &mark));
                }
                Request::ClearMark(host, container, reply) => {
                    let _ = reply.send(state.clear_mark(&host, &container));
                }
                Request::Perform(write, reply) => {
                    let _ = reply.send(write(&mut state));
                }
            }
            let wait = if steps.is_empty() {
                Duration::ZERO
            } else {
                until.saturating_duration_since(Instant::now())
            };
            next = queue.recv_timeout(wait).ok();
        }
        if !steps.is_empty() {
            last_sync = Some(Instant::now());
            let written = state.write_steps(&steps);
            for reply in replies {
                let _ = reply.send(written.clone());
            }
        }
    }
}
