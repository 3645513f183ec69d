//! Watching: assembles snapshots from the engine and the session stores, each kind of fact with its own age.
//!
//! Two loops run side by side, so that an engine that hangs never delays the news from the sessions. Each keeps its
//! last good answer: a failure makes facts old, never empty.

mod cadence;
mod clock;
mod engine;
mod images;
mod sessions;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::domain::Snapshot;
use crate::engine::{Attempt, Endpoint};
use crate::profiles::Entry;
use crate::sessions::StoreSet;
use cadence::Backoff;
use clock::ClockWatch;
pub use engine::EngineFacts;
use engine::EngineWatcher;
use sessions::SessionWatcher;

/// How often to look.
#[derive(Clone, Copy, Debug)]
pub struct Cadence {
    /// Between two lists while the engine sends events.
    pub with_events: Duration,
    /// Between two lists while it does not.
    pub without_events: Duration,
    /// Between two looks at the session stores; an unchanged store costs next to nothing.
    pub sessions: Duration,
}

impl Default for Cadence {
    fn default() -> Self {
        Self {
            with_events: Duration::from_secs(10),
            without_events: Duration::from_secs(2),
            sessions: Duration::from_millis(500),
        }
    }
}

/// One system to watch: its profile and its stores.
#[derive(Debug)]
pub struct WatchedSystem {
    /// The profile.
    pub entry: Entry,
    /// Its stores.
    pub stores: StoreSet,
    /// Whether the operator asked for it by name. Others count only where a trace of them is found.
    pub asked_for: bool,
}

/// Observes one host.
#[derive(Debug)]
pub struct Observer {
    engine: EngineWatcher,
    sessions: SessionWatcher,
    clock: ClockWatch,
}

impl Observer {
    /// An observer of the first endpoint that answers. One look takes at most about `timeout`.
    pub fn new(endpoints: Vec<Endpoint>, systems: Vec<WatchedSystem>, timeout: Duration) -> Self {
        // A tenth is kept for everything around the questions.
        let budget = timeout.mul_f32(0.9);
        let profiles = systems.iter().map(|system| Arc::clone(&system.entry.profile)).collect();
        Self {
            engine: EngineWatcher::new(endpoints, profiles, budget),
            sessions: SessionWatcher::new(systems, budget),
            clock: ClockWatch::default(),
        }
    }

    /// Looks once at everything, side by side.
    pub async fn observe(&mut self) -> Snapshot {
        let (engine, systems) = tokio::join!(self.engine.observe(), self.sessions.observe());
        assemble(&engine, &systems, &mut self.clock)
    }

    /// Where the engine was looked for without success, in the last look.
    pub fn failed_attempts(&self) -> &[Attempt] {
        self.engine.failed_attempts()
    }

    /// Watches until cancelled. Whoever is slow sees the newest snapshot, not all of them.
    pub fn spawn(self, cadence: Cadence, tasks: &TaskTracker, cancel: CancellationToken) -> Watch {
        let (refresh, refreshes) = mpsc::channel(1);
        let (engine_out, mut engine_in) = watch::channel(EngineFacts::default());
        let (sessions_out, mut sessions_in) = watch::channel(Vec::new());
        let (snapshot_out, snapshots) = watch::channel(Arc::new(Snapshot::default()));
        let Self { engine, sessions, mut clock } = self;

        let stop = cancel.clone();
        tasks.spawn(async move {
            tokio::select! {
                () = stop.cancelled() => {}
                () = engine.run(cadence, refreshes, engine_out) => {}
            }
        });
        let stop = cancel.clone();
        tasks.spawn(async move {
            tokio::select! {
                () = stop.cancelled() => {}
                () = sessions.run(cadence.sessions, sessions_out) => {}
            }
        });
        tasks.spawn(async move {
            // The first snapshot waits for both; half a picture would look like a finding.
            let both = async {
                let _ = tokio::join!(engine_in.changed(), sessions_in.changed());
            };
            tokio::select! {
                () = cancel.cancelled() => return,
                () = both => {}
            }
            loop {
                let snapshot =
                    assemble(&engine_in.borrow_and_update(), &sessions_in.borrow_and_update(), &mut clock);
                if snapshot_out.send(Arc::new(snapshot)).is_err() {
                    return;
                }
                let next = async {
                    tokio::select! {
                        changed = engine_in.changed() => changed,
                        changed = sessions_in.changed() => changed,
                    }
                };
                tokio::select! {
                    () = cancel.cancelled() => return,
                    changed = next => if changed.is_err() { return },
                }
            }
        });
        Watch { snapshots, refresh }
    }
}

/// A running watch.
#[derive(Clone, Debug)]
pub struct Watch {
    /// The newest snapshot.
    pub snapshots: watch::Receiver<Arc<Snapshot>>,
    refresh: mpsc::Sender<()>,
}

impl Watch {
    /// Asks for a look at the engine now. A look that is already asked for is enough.
    pub fn refresh(&self) {
        let _ = self.refresh.try_send(());
    }
}

/// Puts the parts together and leaves out systems of which there is no trace.
fn assemble(engine: &EngineFacts, systems: &[sessions::SystemReading], clock: &mut ClockWatch) -> Snapshot {
    let kept = systems.iter().filter(|system| system.has_trace || engine.shows(&system.facts.profile));
    Snapshot {
        host: engine.host.clone(),
        engine: engine.rows.clone(),
        images: engine.images.clone(),
        systems: kept.map(|system| system.facts.clone()).collect(),
        drains: std::collections::HashMap::new(),
        clock_step: clock.look(),
    }
}
