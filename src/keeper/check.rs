//! The check that comes before every step: the container as it is now, the sessions as they are now, and the same
//! judgement that made the plan. Anything but a clear yes is a no.

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use tokio::sync::{Mutex, Notify};

use crate::domain::container::{Container, ContainerState, Row};
use crate::domain::evidence::Evidence;
use crate::domain::plan::{Action, Intent, Item, Reason, plan};
use crate::domain::snapshot::{DrainMark, Neighbours, PathFact, Snapshot, StoreFacts, SystemFacts};
use crate::domain::span::Precise;
use crate::domain::verdict::Brake;
use crate::domain::{ContainerId, Policy, Status, Surroundings};
use crate::engine::{EngineFault, EngineView, FRESH, Permit};
use crate::sessions::StoreSet;
use crate::watch::place::Place;
use crate::watch::{self, WatchedSystem, paths};

/// What a check found.
#[derive(Debug)]
pub(super) enum Finding {
    /// It may be done, once and now.
    Go(Arc<Container>, Permit),
    /// The container is gone.
    Gone,
    /// Somebody is removing it right now.
    Going,
    /// The engine uses a word for its state that stands between two that are known.
    Unsettled(String),
    /// Something is not as it was; the sentence says what.
    Changed(String),
    /// A session or a command lives in it.
    InUse(String),
    /// It cannot be told.
    Doubt(String),
}

/// Fresh facts and the judgement on them.
#[derive(Debug)]
pub(super) struct Checker {
    engine: EngineView,
    /// What the plan was made from: the images, the marks, and which systems there are.
    planned: Arc<Surroundings>,
    policy: Policy,
    intent: Intent,
    stores: Mutex<FreshStores>,
    neighbours: Mutex<Option<(Instant, Neighbours)>>,
    waiting: Waiting,
    patience: Duration,
    /// The same moment by both clocks, to see the wall clock jump.
    clocks: (Instant, Timestamp),
}

/// How often a look that took too long is repeated before it is doubt.
const ROUNDS: usize = 3;

/// Two reads of the stores begin this far apart, unless enough items wait for one.
const PACE: Duration = Duration::from_millis(15);

/// How far the wall clock may run from the steady one before silence proves nothing any more.
const CLOCK_STEP: Duration = Duration::from_secs(5);

/// One set per system of the snapshot; `None` where there is none to read.
type Sets = Vec<Option<StoreSet>>;

/// Those who wait for the stores to be read.
#[derive(Debug, Default)]
struct Waiting {
    count: AtomicUsize,
    /// How many are worth a read.
    enough: usize,
    reached: Notify,
}

impl Waiting {
    fn join(&self) {
        if self.count.fetch_add(1, Ordering::Relaxed) + 1 >= self.enough {
            self.reached.notify_one();
        }
    }

    /// Waits for enough others, but not for long.
    async fn gather(&self, since: Option<Instant>) {
        let left = since.map_or(Duration::ZERO, |since| PACE.saturating_sub(since.elapsed()));
        if !left.is_zero() && self.count.load(Ordering::Relaxed) < self.enough {
            let _ = tokio::time::timeout(left, self.reached.notified()).await;
        }
        self.count.store(0, Ordering::Relaxed);
    }
}

#[derive(Debug)]
struct FreshStores {
    /// `None` while a read that never came back holds them.
    sets: Option<Sets>,
    began: Option<Instant>,
    facts: Vec<Vec<StoreFacts>>,
    /// What they say, ready to judge by.
    around: Arc<Surroundings>,
}

impl Checker {
    pub(super) fn new(
        engine: EngineView,
        (base, brakes): (Snapshot, Vec<Brake>),
        systems: Vec<WatchedSystem>,
        policy: Policy,
        intent: Intent,
        at_once: usize,
        patience: Duration,
    ) -> Self {
        let base = only_put_aside(base);
        // The stores of the systems the plan speaks of, in the snapshot's order.
        let mut systems = systems;
        let sets = base.systems.iter().map(|known| {
            let place = systems.iter().position(|system| system.entry.profile.name == known.profile.name)?;
            let mut stores = systems.swap_remove(place).stores;
            known.stores.iter().for_each(|store| stores.want_application(store.rule));
            Some(stores)
        });
        let sets = sets.collect();
        let facts = base.systems.iter().map(|system| system.stores.clone()).collect();
        let planned = Arc::new(Surroundings::new(base, brakes, &policy, Timestamp::now()));
        let around = Arc::clone(&planned);
        let stores = Mutex::new(FreshStores { sets: Some(sets), began: None, facts, around });
        let clocks = (Instant::now(), Timestamp::now());
        // While one half reads, the other half acts.
        let waiting = Waiting { enough: at_once / 2, ..Waiting::default() };
        let neighbours = Mutex::new(None);
        Self { engine, planned, policy, intent, stores, neighbours, waiting, patience, clocks }
    }

    /// Whether the planned action may be taken on the container as it is now. `same_run` is the run it must still be in.
    /// What comes out is as new as it can be: a look that took so long that somebody could have come meanwhile is repeated.
    pub(super) async fn check(&self, item: &Item, planned: Action, same_run: Option<Timestamp>) -> Finding {
        for _ in 0..ROUNDS {
            match self.look(item, planned, same_run).await {
                Finding::Go(_, permit) if !permit.is_fresh() => {}
                finding => return finding,
            }
        }
        let limit = Precise(FRESH);
        Finding::Doubt(format!(
            "{ROUNDS} looks at it and its sessions took longer than {limit} each, in which somebody could have come; \
             try again when the machine is less busy"
        ))
    }

    /// One look: at the container and what is around it first, at the sessions last, so that nothing but the request comes
    /// after them.
    async fn look(&self, item: &Item, planned: Action, same_run: Option<Timestamp>) -> Finding {
        let Some(id) = &item.id else { return Finding::Doubt("its id is not known".to_owned()) };
        let mut container = match self.inspect(id).await {
            Ok(Some(container)) => container,
            Ok(None) => return Finding::Gone,
            Err(fault) => return Finding::Doubt(format!("it could not be inspected: {fault}")),
        };
        let mut answered = Instant::now();
        let paths = self.fresh_paths(&container).await;
        let neighbours = match self.fresh_neighbours().await {
            Ok(neighbours) => neighbours,
            Err(fault) => {
                return Finding::Doubt(format!("the other containers could not be listed: {fault}"));
            }
        };
        if answered.elapsed() > FRESH / 4 {
            // A long list leaves time to a command to begin in it.
            container = match self.inspect(id).await {
                Ok(Some(container)) => container,
                Ok(None) => return Finding::Gone,
                Err(fault) => return Finding::Doubt(format!("it could not be inspected: {fault}")),
            };
            answered = Instant::now();
        }
        let (around, asked) = self.fresh().await;
        match &container.state {
            ContainerState::Removing => return Finding::Going,
            ContainerState::Unrecognised(word) => {
                return Finding::Unsettled(Evidence::StateNotRecognised(word.clone()).to_string());
            }
            _ => {}
        }
        let aside = self.planned.snapshot().recalled.quarantined.get(id);
        if container.name != *aside.map_or(&item.name, |aside| &aside.named) {
            // Its sessions may know it by the other name.
            return Finding::Changed(format!("it was renamed to {} since", container.name));
        }
        if self.is_another_run(&container, same_run) {
            return Finding::Changed("it was started again since".to_owned());
        }
        let permit = Permit::after_look(id, answered.min(asked));
        self.judge(item, planned, container, &around.with_host(paths, Some(neighbours)), permit)
    }

    /// The other containers: one of them may watch over this one, or live in its namespaces. A list that began after the
    /// question serves it, whoever asked for it.
    async fn fresh_neighbours(&self) -> Result<Neighbours, EngineFault> {
        let asked = Instant::now();
        let mut listed = self.neighbours.lock().await;
        if let Some((began, neighbours)) = &*listed
            && *began >= asked
        {
            return Ok(neighbours.clone());
        }
        let began = Instant::now();
        let mut rows = self.engine.list_again(&self.planned.snapshot().engine.value).await?;
        watch::ask_joins(&self.engine, &mut rows, began + self.patience).await;
        let neighbours = Neighbours::of(&rows);
        *listed = Some((began, neighbours.clone()));
        Ok(neighbours)
    }

    /// What is at the host paths that the verdict on this container depends on.
    async fn fresh_paths(&self, container: &Container) -> HashMap<String, PathFact> {
        let profiles = self.planned.snapshot().systems.iter().map(|system| &system.profile);
        let place = Place::of(&self.engine.endpoint().address).await;
        paths::look_up(&place, profiles, std::iter::once(container), self.patience).await
    }

    async fn inspect(&self, id: &ContainerId) -> Result<Option<Arc<Container>>, EngineFault> {
        let profiles = || self.planned.snapshot().systems.iter().map(|system| &system.profile);
        match watch::inspect(&self.engine, profiles(), id).await {
            // Podman fails on a container that goes while it is looked at; a second look finds it gone.
            Err(EngineFault::Status { .. }) => watch::inspect(&self.engine, profiles(), id).await,
            answer => answer,
        }
    }

    /// The mark for eviction that was on it when the plan was made.
    pub(super) fn mark_on(&self, id: &ContainerId) -> Option<&DrainMark> {
        self.planned.snapshot().drains.get(id)
    }

    /// Whether somebody started it since. What its restart policy starts over and over is nobody's doing.
    fn is_another_run(&self, container: &Container, same_run: Option<Timestamp>) -> bool {
        if container.inspection().is_some_and(|inspection| inspection.restarts_by_itself) {
            return false;
        }
        match (same_run, self.planned.snapshot().engine.at) {
            (Some(_), _) => container.started_at() != same_run,
            // The list does not tell the run of what is not running; but a run that began later is another.
            (None, Some(looked)) => container.started_at().is_some_and(|started| started > looked),
            (None, None) => true,
        }
    }

    fn judge(
        &self,
        item: &Item,
        planned: Action,
        container: Arc<Container>,
        around: &Surroundings,
        permit: Permit,
    ) -> Finding {
        let now = Timestamp::now();
        if let Some(step) = self.clock_step(now) {
            return Finding::Doubt(Evidence::ClockStepped(step).to_string());
        }
        let verdicts = around.classify_again(&container, &self.policy, now);
        let intent = match item.shown.allows(verdicts.containers.first(), &self.intent) {
            Ok(intent) => intent,
            Err(newcomer) => return Finding::InUse(newcomer),
        };
        let plan = plan(&verdicts, &intent, &self.policy, now);
        let (Some(verdict), Some(again)) = (verdicts.containers.first(), plan.items().first()) else {
            return Finding::Changed("no profile recognises it any more".to_owned());
        };
        let reason = again.reason.to_string();
        // What restarts over and over is now running, now not; asked to stop, it stays so.
        let between_runs = container.inspection().is_some_and(|inspection| inspection.restarts_by_itself)
            && (planned, again.action) == (Action::StopAndRemove, Action::Remove);
        if again.action == planned || between_runs {
            return Finding::Go(container, permit);
        }
        if again.action != Action::Keep {
            return Finding::Changed(format!("it is {}, {} now: {reason}", container.state, verdict.status));
        }
        if verdict.is_in_use() {
            Finding::InUse(reason)
        } else if let Reason::MayBeAtWork(doubt) = &again.reason {
            if doubt.is_unavailability() { Finding::Doubt(reason) } else { Finding::Changed(reason) }
        } else if verdict.status == Status::Unknown {
            let unavailable = verdict.evidence.iter().any(Evidence::is_unavailability);
            if unavailable { Finding::Doubt(reason) } else { Finding::Changed(reason) }
        } else {
            Finding::Changed(format!("it is {} now: {reason}", verdict.status))
        }
    }

    /// The stores as they are now, and when that read began. One that began after the question serves it, whoever asked for
    /// it.
    async fn fresh(&self) -> (Arc<Surroundings>, Instant) {
        let asked = Instant::now();
        self.waiting.join();
        let mut stores = self.stores.lock().await;
        if stores.began.is_none_or(|began| began < asked) {
            self.waiting.gather(stores.began).await;
            let place = Place::of(&self.engine.endpoint().address).await;
            stores.read(&self.planned, place, &self.policy, self.patience).await;
        }
        (Arc::clone(&stores.around), stores.began.unwrap_or(asked))
    }

    /// By how much the wall clock has jumped since the plan was taken up, if it has.
    fn clock_step(&self, now: Timestamp) -> Option<Duration> {
        let (steady, wall) = self.clocks;
        let apart = now.duration_since(wall) - jiff::SignedDuration::try_from(steady.elapsed()).ok()?;
        (apart.unsigned_abs() > CLOCK_STEP).then(|| apart.unsigned_abs())
    }
}

/// The fresh facts, held against those the plan was made on: a store that has gone or is another file by now cannot say
/// that nobody is live.
fn same_files(planned: &[StoreFacts], fresh: &[StoreFacts]) -> Vec<StoreFacts> {
    let in_doubt = |store: &StoreFacts, why: &str| StoreFacts {
        sessions: store.sessions.with_fault(format!("it {why} since the plan was made; look again")),
        ..store.clone()
    };
    let known = |store: &StoreFacts| planned.iter().find(|planned| planned.path == store.path);
    let mut facts: Vec<StoreFacts> = fresh
        .iter()
        .map(|store| match known(store) {
            Some(planned) if planned.file.is_some() && store.file.is_some() && planned.file != store.file => {
                in_doubt(store, "was replaced")
            }
            _ => store.clone(),
        })
        .collect();
    let gone = planned.iter().filter(|planned| !fresh.iter().any(|store| store.path == planned.path));
    facts.extend(gone.map(|store| in_doubt(store, "has gone")));
    facts
}

impl FreshStores {
    async fn read(&mut self, planned: &Arc<Surroundings>, place: Place, policy: &Policy, patience: Duration) {
        self.began = Some(Instant::now());
        if let Some(mut sets) = self.sets.take() {
            let (known, planned, policy) = (self.facts.clone(), Arc::clone(planned), policy.clone());
            let read = tokio::task::spawn_blocking(move || {
                let read = |(set, known): (&mut Option<StoreSet>, &Vec<StoreFacts>)| match set {
                    Some(set) => set.read_anew(),
                    None => StoreSet::stuck(known),
                };
                let mut facts: Vec<Vec<StoreFacts>> = sets.iter_mut().zip(&known).map(read).collect();
                place.cast_doubt(facts.iter_mut().flatten());
                let around = around(&planned, &facts, &policy);
                (sets, facts, around)
            });
            if let Ok(Ok((sets, facts, around))) = tokio::time::timeout(patience, read).await {
                *self = Self { sets: Some(sets), facts, around: Arc::new(around), began: self.began };
                return;
            }
        }
        self.facts = self.facts.iter().map(|facts| StoreSet::stuck(facts)).collect();
        self.around = Arc::new(around(planned, &self.facts, policy));
    }
}

/// The systems as the plan knew them, with what their stores say now.
fn around(planned: &Surroundings, facts: &[Vec<StoreFacts>], policy: &Policy) -> Surroundings {
    let with_facts = |(system, facts): (&SystemFacts, &Vec<StoreFacts>)| SystemFacts {
        stores: same_files(&system.stores, facts),
        ..system.clone()
    };
    let systems = planned.snapshot().systems.iter().zip(facts).map(with_facts).collect();
    planned.with_systems(systems, policy, Timestamp::now())
}

/// The snapshot with only those in quarantine that do not bear their own name: a line that is left over from an attempt which
/// came to nothing says nothing about a container that has it.
fn only_put_aside(mut base: Snapshot) -> Snapshot {
    if base.recalled.quarantined.is_empty() {
        return base;
    }
    let names: HashMap<&ContainerId, &str> = base
        .engine
        .value
        .iter()
        .filter_map(|row| match row {
            Row::Container(container) => Some((&container.id, container.name.as_str())),
            Row::Unreadable(_) => None,
        })
        .collect();
    base.recalled.quarantined.retain(|id, aside| names.get(id) != Some(&aside.name.as_str()));
    base
}
