//! The simulated host: containers, images and commands as a state machine. Facts and a time go in, transitions and
//! events come out; nothing here waits, and nothing knows about HTTP.
//!
//! What it does, and how it refuses, is what Docker 20.10 does; `tests/it/engine/agreement.rs` holds both to it.

mod acts;
mod container;
mod exec;
mod images;
mod life;

use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasher, Hasher};
use std::time::Duration;

use jiff::Timestamp;

use super::dice::Dice;
use super::event::{Event, Events};
use super::filters::Filters;
use super::program::Program;
pub(super) use acts::Stop;
pub(super) use container::LogLine;
pub use container::{Phase, Placed, SimContainer};
pub(super) use exec::Progress;
pub use exec::SimExec;
pub use images::SimImage;

fn unique_id() -> String {
    let chance = std::hash::RandomState::new().build_hasher().finish();
    format!("SIMULATED-{}-{chance:016x}", std::process::id())
}

/// Why the engine does not do what it is asked, in its own words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The HTTP status.
    pub status: u16,
    /// The words.
    pub message: String,
}

impl Refusal {
    pub(super) fn new(status: u16, message: impl Into<String>) -> Self {
        Self { status, message: message.into() }
    }

    pub(super) fn no_such_container(name: &str) -> Self {
        Self::new(404, format!("No such container: {name}"))
    }

    /// The engine sees that there is nothing to do.
    pub(super) fn not_modified() -> Self {
        Self::new(304, "")
    }
}

/// Bad habits of the whole host, switched on by faults.
#[derive(Clone, Debug, Default)]
pub struct Quirks {
    /// Nothing that runs listens to any signal but the last.
    pub ignore_signals: bool,
    /// How much longer everything takes to end once it was asked to.
    pub dying: Duration,
    /// Of a hundred events this many reach nobody.
    pub lost_events_percent: u8,
}

/// The host.
#[derive(Debug)]
pub struct World {
    containers: BTreeMap<String, SimContainer>,
    names: HashMap<String, String>,
    images: BTreeMap<String, SimImage>,
    tags: BTreeMap<String, String>,
    execs: BTreeMap<String, SimExec>,
    /// What commands do that only the images here have, as containers that were placed have shown.
    commands: HashMap<Vec<String>, Program>,
    id: String,
    pub(super) events: Events,
    /// Bad habits of the host.
    pub quirks: Quirks,
    dice: Dice,
    next_pid: u32,
    /// Until then nothing happens by itself, unless somebody changes something.
    quiet_until: Option<Timestamp>,
}

impl World {
    /// An empty host. The seed decides about everything that chance decides about, ids included.
    pub fn new(seed: u64) -> Self {
        Self {
            containers: BTreeMap::new(),
            names: HashMap::new(),
            images: BTreeMap::new(),
            tags: BTreeMap::new(),
            execs: BTreeMap::new(),
            commands: HashMap::new(),
            id: unique_id(),
            events: Events::default(),
            quirks: Quirks::default(),
            dice: Dice::new(seed),
            next_pid: 4000,
            quiet_until: None,
        }
    }

    /// What the engine calls itself. Two of them never have the same id, whatever their seeds.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// How many containers there are.
    pub fn len(&self) -> usize {
        self.containers.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.containers.is_empty()
    }

    /// Every container, by id.
    pub fn containers(&self) -> impl Iterator<Item = &SimContainer> {
        self.containers.values()
    }

    /// The container that a full id, a name, or an unambiguous beginning of an id stands for, in this order.
    pub fn find(&self, reference: &str) -> Result<&SimContainer, Refusal> {
        let id = self.resolve(reference)?;
        self.containers.get(&id).ok_or_else(|| Refusal::no_such_container(reference))
    }

    fn resolve(&self, reference: &str) -> Result<String, Refusal> {
        if self.containers.contains_key(reference) {
            return Ok(reference.to_owned());
        }
        let name = reference.strip_prefix('/').unwrap_or(reference);
        if let Some(id) = self.names.get(name) {
            return Ok(id.clone());
        }
        let from = self.containers.range(reference.to_owned()..);
        let mut fitting = from.map(|(id, _)| id).take_while(|id| id.starts_with(reference));
        match (reference.is_empty(), fitting.next(), fitting.next()) {
            (false, Some(id), None) => Ok(id.clone()),
            (false, Some(_), Some(_)) => {
                Err(Refusal::new(500, format!("Multiple IDs found with provided prefix: {reference}")))
            }
            _ => Err(Refusal::no_such_container(reference)),
        }
    }

    fn find_mut(&mut self, reference: &str) -> Result<&mut SimContainer, Refusal> {
        let id = self.resolve(reference)?;
        self.containers.get_mut(&id).ok_or_else(|| Refusal::no_such_container(reference))
    }

    /// The containers that a list shows, the newest first.
    pub(super) fn list(
        &self,
        all: bool,
        limit: Option<usize>,
        filters: &Filters,
    ) -> Result<Vec<&SimContainer>, Refusal> {
        let shown = filters.for_containers(self)?;
        // Whoever asks for a state or for the newest few means those that do not run as well.
        let all = all || limit.is_some() || filters.has("status");
        let mut found: Vec<&SimContainer> = self
            .containers
            .values()
            .filter(|container| (all || container.phase.is_up()) && shown(container))
            .collect();
        found.sort_by(|a, b| (b.created_at, &b.id).cmp(&(a.created_at, &a.id)));
        found.truncate(limit.unwrap_or(usize::MAX));
        Ok(found)
    }

    /// Reads or sets how busy a container is, in percent of one processor.
    pub fn set_load(&mut self, now: Timestamp, reference: &str, percent: u32) -> Result<(), Refusal> {
        self.find_mut(reference)?.use_processor(now, percent);
        Ok(())
    }

    fn emit(&mut self, now: Timestamp, id: &str, action: &str, attributes: &[(&str, String)]) {
        let lost = self.quirks.lost_events_percent;
        if lost > 0 && self.dice.happens(lost) {
            return;
        }
        let Some(container) = self.containers.get(id) else { return };
        let mut all = container.labels.clone();
        all.insert("image".to_owned(), container.image.clone());
        all.insert("name".to_owned(), container.name.clone());
        all.extend(attributes.iter().map(|(key, value)| ((*key).to_owned(), value.clone())));
        self.events.push(Event {
            kind: "container",
            action: action.to_owned(),
            id: id.to_owned(),
            image: Some(container.image.clone()),
            attributes: all,
            at: now,
        });
    }
}
