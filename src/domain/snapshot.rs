//! Facts as they were observed, each kind with its time. Nothing here is judged yet.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use super::awake::{Awake, Clock};
use super::container::{Container, ContainerId, Joins, Namespace, Row};
use super::continuity::StoreMemory;
use super::labels::Labels;
use super::policy::Policy;
use super::profile::Profile;
use super::recovery::Recalled;
use super::session::Session;
use super::span::{Span, elapsed};

/// Everything known about one host at one moment.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// Which host.
    pub host: Host,
    /// What the engine said.
    pub engine: Reading<Vec<Row>>,
    /// What it said about images.
    pub images: Images,
    /// What is known of the host paths that a verdict depends on.
    pub paths: HashMap<String, PathFact>,
    /// Which containers there are, whoever they belong to.
    pub neighbours: Arc<Neighbours>,
    /// The profiles of systems that are not looked for. Whoever else may own a container is still to be known.
    pub others: Arc<Vec<Arc<Profile>>>,
    /// The systems looked for, and what their stores said.
    pub systems: Vec<SystemFacts>,
    /// Containers marked for eviction, from our own state.
    pub drains: HashMap<ContainerId, DrainMark>,
    /// What is remembered of containers that were here, or were put aside.
    pub recalled: Recalled,
    /// Why our own state cannot say which are marked.
    pub marks_fault: Option<String>,
    /// When the host was off or asleep.
    pub awake: Awake,
    /// By how much the wall clock was seen to jump lately. While this is set, silence proves nothing.
    pub clock_step: Option<Duration>,
}

impl Snapshot {
    /// The clock that silence is measured with.
    pub fn clock(&self, policy: &Policy, now: Timestamp) -> Clock<'_> {
        if policy.count_downtime { Clock::wall(now) } else { Clock::new(now, &self.awake) }
    }

    /// The session stores of all systems.
    pub fn stores(&self) -> impl Iterator<Item = &StoreFacts> {
        self.systems.iter().flat_map(|system| &system.stores)
    }
}

/// Which containers there are on the engine, and whether they run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Neighbours {
    /// Sorted by name.
    containers: Vec<Arc<Container>>,
    /// The namespaces that those that run have from others, by whose they are, each with the name of who has it.
    shared: Vec<(String, Namespace, String)>,
    /// Those that run and could not be asked in whose namespaces they do.
    unread: Vec<Arc<Container>>,
    /// Whether there is one of which that cannot be told.
    pub incomplete: bool,
}

impl Neighbours {
    /// Those in a list of the engine.
    pub fn of(rows: &[Row]) -> Self {
        let mut neighbours = Self::default();
        for row in rows {
            match row {
                Row::Container(container) => neighbours.containers.push(Arc::clone(container)),
                Row::Unreadable(_) => neighbours.incomplete = true,
            }
        }
        neighbours.sorted()
    }

    /// Whether the one of this name runs; `None` when there is none.
    pub fn runs(&self, name: &str) -> Option<bool> {
        let start = self.containers.partition_point(|container| container.name.as_str() < name);
        let named = self.containers[start..].iter().take_while(|container| container.name == name);
        named.map(|container| container.state.holds_processes()).reduce(|a, b| a || b)
    }

    /// These, and those that did not run and have gone since: they do not run either.
    #[must_use]
    pub fn after(mut self, earlier: &Self) -> Self {
        let ended = earlier.containers.iter().filter(|container| !container.state.holds_processes());
        let gone: Vec<_> = ended.filter(|container| self.runs(&container.name).is_none()).cloned().collect();
        self.containers.extend(gone);
        self.sorted()
    }

    /// Who runs in a namespace of this container.
    pub fn lives_in(&self, container: &Container) -> Option<(Namespace, &str)> {
        let keys = [container.id.as_str(), container.id.short(), &container.name];
        keys.into_iter().find_map(|key| {
            let start = self.shared.partition_point(|(of, ..)| of.as_str() < key);
            let (_, namespace, by) = self.shared.get(start).filter(|(of, ..)| of == key)?;
            Some((*namespace, by.as_str()))
        })
    }

    /// One that runs, other than this, of which nobody knows in whose namespaces it does.
    pub fn unread_besides(&self, container: &Container) -> Option<&str> {
        self.unread.iter().find(|other| other.id != container.id).map(|other| other.name.as_str())
    }

    fn sorted(mut self) -> Self {
        self.containers.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        let running = self.containers.iter().filter(|container| container.state.holds_processes());
        self.unread = running.clone().filter(|container| container.joins == Joins::Failed).cloned().collect();
        self.shared = running
            .filter_map(|container| match &container.joins {
                Joins::Known(joins) => {
                    Some(joins.iter().map(|(namespace, of)| (of.clone(), *namespace, container.name.clone())))
                }
                Joins::NotAsked | Joins::Failed => None,
            })
            .flatten()
            .collect();
        self.shared.sort_unstable();
        self
    }
}

/// One container engine.
#[derive(Clone, Debug, Default)]
pub struct Host {
    /// Where it is reached, as a URL.
    pub endpoint: String,
    /// What our own state knows it by.
    pub identity: String,
    /// What it calls itself, such as `Docker 20.10.24`.
    pub engine: Option<String>,
    /// Whether its socket itself refuses to change anything.
    pub guarded: bool,
    /// Where an engine was looked for without success, as long as none has answered.
    pub tried: Vec<Tried>,
}

/// A place where no engine could be reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tried {
    /// The socket's path, or the address.
    pub place: String,
    /// The whole sentence: what is wrong where, and who named the place.
    pub sentence: String,
    /// What is in the way.
    pub obstacle: Obstacle,
}

/// What is in the way of an engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// Nothing listens there.
    NobodyThere,
    /// This user may not.
    Forbidden,
    /// Something is there, and fails.
    Failing,
}

/// The last good answer of a source, its time, and what went wrong since. A failure never replaces the answer:
/// it makes it old.
#[derive(Clone, Debug)]
pub struct Reading<T> {
    /// The last good answer; the default value when there never was one.
    pub value: Arc<T>,
    /// When that answer was given; `None` when there never was one.
    pub at: Option<Timestamp>,
    /// Why the newest attempt failed, if it did.
    pub fault: Option<String>,
}

impl<T: Default> Default for Reading<T> {
    fn default() -> Self {
        Self { value: Arc::default(), at: None, fault: None }
    }
}

impl<T: Default> Reading<T> {
    /// A good answer.
    pub fn good(value: T, at: Timestamp) -> Self {
        Self { value: Arc::new(value), at: Some(at), fault: None }
    }

    /// No answer, ever.
    pub fn failed(fault: impl Into<String>) -> Self {
        Self { fault: Some(fault.into()), ..Self::default() }
    }

    /// The same answer, after an attempt that failed.
    #[must_use]
    pub fn with_fault(&self, fault: impl Into<String>) -> Self {
        Self { value: Arc::clone(&self.value), at: self.at, fault: Some(fault.into()) }
    }

    /// How old the answer is; `None` when there is none. An answer from the future is new.
    pub fn age(&self, now: Timestamp) -> Option<Duration> {
        self.at.map(|at| elapsed(at, now).unwrap_or_default())
    }

    /// Why this reading supports no verdict, if it does not: it failed, or it is too old. An answer from well
    /// before or after `now` means that the clock moved in between.
    pub fn unusable(&self, now: Timestamp, max_age: Duration) -> Option<Unusable> {
        if let Some(fault) = &self.fault {
            return Some(Unusable::Fault(fault.clone()));
        }
        let Some(at) = self.at else { return Some(Unusable::Fault("not read yet".to_owned())) };
        let apart = now.duration_since(at).unsigned_abs();
        (apart > max_age).then_some(Unusable::Old(apart))
    }
}

/// Why a reading supports no verdict.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unusable {
    /// The newest attempt failed.
    Fault(String),
    /// The answer is this far from now.
    Old(Duration),
}

impl fmt::Display for Unusable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fault(fault) => f.write_str(fault),
            Self::Old(age) => write!(f, "the last good answer is {} old", Span(*age)),
        }
    }
}

/// What the engine said about images.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Images {
    /// By image id.
    pub by_id: HashMap<String, ImageFact>,
    /// By reference, such as `parachute-sandbox:latest`: the id it names now.
    pub by_reference: HashMap<String, TagFact>,
}

/// What is known of one image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ImageFact {
    /// Its labels, which every container made from it inherits.
    Labels(Labels),
    /// The engine no longer has it.
    Gone,
    /// The engine did not say.
    Failed(String),
}

/// What a reference names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TagFact {
    /// This image.
    Names(String),
    /// Nothing any more.
    Gone,
    /// The engine did not say.
    Failed(String),
}

/// What is known of a path on the engine's host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PathFact {
    /// Something is there.
    There,
    /// Nothing is there, although everything around it can be seen.
    Gone,
    /// It cannot be told; the text says why.
    Unsure(String),
}

/// A system looked for on the host.
#[derive(Clone, Debug)]
pub struct SystemFacts {
    /// Its profile.
    pub profile: Arc<Profile>,
    /// Its stores.
    pub stores: Vec<StoreFacts>,
    /// Why the user's own version of the profile could not be used. The built-in one then still recognises
    /// the containers, and judges none.
    pub broken: Option<String>,
}

/// One session store and what was read from it.
#[derive(Clone, Debug)]
pub struct StoreFacts {
    /// Which of the profile's rules led to it.
    pub rule: usize,
    /// Where it is, or where it was looked for.
    pub path: String,
    /// Whether anything was found there at all.
    pub exists: bool,
    /// Whether the operator named it. One that was found may be another machine's.
    pub named: bool,
    /// Which file it was read from, as device and inode. A plan holds only for the file it was made on.
    pub file: Option<(u64, u64)>,
    /// What the wildcards of the path pattern stood for, and `folder`, where it is.
    pub captures: BTreeMap<String, String>,
    /// How long containers may be quiet, as the configuration beside it says.
    pub lifetime: Option<Duration>,
    /// Which query variant answered.
    pub variant: Option<String>,
    /// What it said.
    pub sessions: Reading<Vec<Arc<Session>>>,
    /// What is remembered of it.
    pub memory: Arc<StoreMemory>,
}

impl StoreFacts {
    /// How many sessions it has itself, without those that it has no longer.
    pub fn read_count(&self) -> usize {
        self.sessions.value.iter().filter(|session| !session.vanished).count()
    }

    /// Adds the sessions that it no longer has, and never said to have ended.
    pub fn add_vanished(&mut self) {
        let mut vanished = self.memory.vanished().peekable();
        if vanished.peek().is_some() {
            let value = self.sessions.value.iter().cloned().chain(vanished).collect();
            let Reading { at, fault, .. } = &self.sessions;
            self.sessions = Reading { value: Arc::new(value), at: *at, fault: fault.clone() };
        }
    }
}

/// A container that is to go when every session that claims it has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DrainMark {
    /// The run the mark was set on; a container that was started anew is no longer marked.
    pub started_at: Option<Timestamp>,
    /// When it was marked.
    pub marked_at: Timestamp,
    /// By whom.
    pub marked_by: String,
}

impl DrainMark {
    /// Whether the container is in the run that was marked. One that its restart policy started is: nobody asked for that.
    pub fn is_on_this_run(&self, container: &Container) -> bool {
        container.started_at() == self.started_at
            || container.inspection().is_some_and(|inspection| inspection.restarts_by_itself)
    }
}
