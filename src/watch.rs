//! Watching: assembles snapshots from the engine and the session stores, each kind of fact with its own age.
//!
//! Two loops run side by side, so that an engine that hangs never delays the news from the sessions. Each keeps its
//! last good answer: a failure makes facts old, never empty.

mod cadence;
mod engine;
mod images;
mod marks;
mod memory;
pub(crate) mod paths;
pub(crate) mod place;
mod recall;
mod sessions;
mod traces;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::domain::snapshot::SystemFacts;
use crate::domain::{Awake, Policy, Profile, Recalled, Snapshot};
use crate::engine::{Attempt, Endpoint};
use crate::profiles::Entry;
use crate::sessions::StoreSet;
use cadence::Backoff;
pub use engine::EngineFacts;
use engine::EngineWatcher;
pub(crate) use engine::{ask_joins, inspect};
use marks::MarkReader;
use memory::Memory;
use recall::Recall;
use sessions::{SessionWatcher, SystemReading, Wanted};
use traces::Traces;

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
    desk: Desk,
}

/// What the assembly of a snapshot needs besides the two kinds of facts.
#[derive(Debug)]
struct Desk {
    marks: MarkReader,
    /// What outlives a look.
    memory: Memory,
    /// Which applications there is reason to ask.
    wanted: Vec<Arc<Wanted>>,
    /// What the engine's containers show of each system.
    traces: Traces,
    /// What was here before.
    recall: Recall,
    /// How long a disk may take to answer.
    patience: Duration,
    /// The profiles of systems that are not looked for.
    others: Arc<Vec<Arc<Profile>>>,
}

impl Observer {
    /// An observer of the first endpoint that answers. One look takes at most about `timeout`.
    pub fn new(
        endpoints: Vec<Endpoint>,
        systems: Vec<WatchedSystem>,
        timeout: Duration,
        state_folder: PathBuf,
        policy: Policy,
    ) -> Self {
        // A tenth is kept for everything around the questions.
        let budget = timeout.mul_f32(0.9);
        let profiles = systems.iter().map(|system| Arc::clone(&system.entry.profile)).collect();
        let sessions = SessionWatcher::new(systems, budget);
        Self {
            engine: EngineWatcher::new(endpoints, profiles, budget),
            desk: Desk {
                traces: Traces::default(),
                recall: Recall::new(state_folder.clone()),
                memory: Memory::new(state_folder.clone(), policy),
                marks: MarkReader::new(state_folder),
                wanted: sessions.wanted(),
                patience: budget,
                others: Arc::default(),
            },
            sessions,
        }
    }

    /// The same, with an eye on containers that may be these systems' as well.
    #[must_use]
    pub fn beside(mut self, others: Vec<Arc<Profile>>) -> Self {
        self.desk.others = Arc::new(others);
        self
    }

    /// The same, writing down what it remembers for the next program.
    #[must_use]
    pub fn keeping_memory(mut self) -> Self {
        self.desk.memory.keep();
        self
    }

    /// The engine that answers, if one does.
    pub async fn connect(&mut self) -> Result<Endpoint, String> {
        self.engine.reach().await
    }

    /// Looks once at everything, side by side.
    pub async fn observe(&mut self) -> Snapshot {
        let (engine, mut systems) = tokio::join!(self.engine.observe(), self.sessions.observe());
        if self.desk.finds_applications(&engine) {
            systems = self.sessions.observe().await;
        }
        self.desk.assemble(&engine, systems).await
    }

    /// Where the engine was looked for without success, in the last look.
    pub fn failed_attempts(&self) -> &[Attempt] {
        self.engine.failed_attempts()
    }

    /// Watches until cancelled. Whoever is slow sees the newest snapshot, not all of them.
    pub fn spawn(self, cadence: Cadence, tasks: &TaskTracker, cancel: CancellationToken) -> Watch {
        let (refresh, refreshes) = mpsc::channel(1);
        let (engine_out, mut engine_in) = watch::channel(EngineFacts::default());
        let engine_seen = engine_in.clone();
        let (sessions_out, mut sessions_in) = watch::channel(Vec::new());
        let (snapshot_out, snapshots) = watch::channel(Arc::new(Snapshot::default()));
        let Self { engine, sessions, mut desk } = self;

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
                desk.finds_applications(&engine_in.borrow());
                let (engine, systems) =
                    (engine_in.borrow_and_update().clone(), sessions_in.borrow_and_update().clone());
                let snapshot = desk.assemble(&engine, systems).await;
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
        Watch { snapshots, engine: engine_seen, refresh }
    }
}

/// A running watch.
#[derive(Clone, Debug)]
pub struct Watch {
    /// The newest snapshot.
    pub snapshots: watch::Receiver<Arc<Snapshot>>,
    engine: watch::Receiver<EngineFacts>,
    refresh: mpsc::Sender<()>,
}

impl Watch {
    /// The engine that answers, once one has.
    pub fn endpoint(&self) -> Option<Endpoint> {
        self.engine.borrow().endpoint.clone()
    }

    /// Asks for a look at the engine now. A look that is already asked for is enough.
    pub fn refresh(&self) {
        let _ = self.refresh.try_send(());
    }
}

impl Desk {
    /// Whether the engine shows, for the first time, containers of which only an application can speak.
    fn finds_applications(&mut self, engine: &EngineFacts) -> bool {
        let traces = self.traces.within(&engine.rows.value);
        let news = self
            .wanted
            .iter()
            .filter(|wanted| wanted.take_up(|profile, rule| traces.show_name_for(profile, rule)));
        news.count() > 0
    }

    /// Puts the parts together and leaves out systems of which there is no trace.
    async fn assemble(&mut self, engine: &EngineFacts, mut systems: Vec<SystemReading>) -> Snapshot {
        // A mark that cannot be read lets nothing go that would otherwise stay.
        let marks = self.marks.read(&engine.host.identity);
        let marks_fault = marks.as_ref().err().map(ToString::to_string);
        let traces = self.traces.within(&engine.rows.value);
        systems.retain(|system| system.has_trace || traces.show(&system.facts.profile));
        // Without an engine there is nothing that a store could be wrong about.
        if engine.endpoint.is_some() {
            for SystemReading { facts, .. } in &mut systems {
                facts.stores = engine.place.doubt(std::mem::take(&mut facts.stores), self.patience).await;
            }
        }
        let kept = systems.iter();
        let mut snapshot = Snapshot {
            host: engine.host.clone(),
            engine: engine.rows.clone(),
            images: engine.images.clone(),
            paths: engine.paths.clone(),
            others: Arc::clone(&self.others),
            neighbours: traces.neighbours(),
            systems: kept.map(|system| without_idle_rules(&system.facts, traces)).collect(),
            drains: marks.unwrap_or_default(),
            marks_fault,
            recalled: Recalled::default(),
            awake: Awake::default(),
            clock_step: None,
        };
        snapshot.recalled = self.recall.look(&snapshot, &engine.departures);
        self.memory.look(snapshot).await
    }
}

/// Leaves out places where nothing is, and where nothing need be: no container's sessions would be there.
fn without_idle_rules(system: &SystemFacts, traces: &mut Traces) -> SystemFacts {
    let mut system = system.clone();
    let profile = Arc::clone(&system.profile);
    system.stores.retain(|store| {
        let Some(rule) = profile.stores.get(store.rule) else { return true };
        store.exists
            || store.sessions.at.is_some()
            || rule.serves.is_empty()
            || traces.show_name_for(&profile, store.rule)
    });
    system
}
