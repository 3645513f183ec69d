//! All stores of one system: found by the profile's patterns or named by the operator, read one after the other.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use jiff::Timestamp;

use super::fault::StoreFault;
use super::locate::{Located, expand, locate, may_exist};
use super::setting::length_in;
use super::sqlite::{Limits, SqliteReader, fits};
use crate::domain::Profile;
use crate::domain::profile::{LifetimeFile, Query, StorePath, StoreRule, fill_from_store};
use crate::domain::snapshot::{Reading, StoreFacts};
use crate::environment::Environment;

/// A store the operator named.
#[derive(Clone, Debug)]
pub struct NamedStore {
    /// Where it is.
    pub path: PathBuf,
    /// For a store named without its system: the query variants of the other systems. If one of those fits and none
    /// of this system's does, the store is not this system's.
    pub others: Vec<Query>,
}

/// The stores of one system. A store that was seen once is never forgotten: if it vanishes, that is a fault and
/// not the end of its sessions.
#[derive(Debug)]
pub struct StoreSet {
    patterns: Vec<StorePath>,
    queries: Vec<Query>,
    lifetime: Option<LifetimeFile>,
    named: Vec<NamedStore>,
    environment: Environment,
    limits: Limits,
    stores: BTreeMap<PathBuf, Store>,
}

#[derive(Debug)]
struct Store {
    reader: SqliteReader,
    facts: StoreFacts,
}

impl StoreSet {
    /// The stores a profile describes, or those the operator named instead.
    pub fn new(profile: &Profile, named: Vec<NamedStore>, environment: Environment, limits: Limits) -> Self {
        let (patterns, queries, named) = match &profile.store {
            StoreRule::None => (Vec::new(), Vec::new(), Vec::new()),
            StoreRule::Sqlite { paths, queries } => (paths.clone(), queries.clone(), named),
        };
        let lifetime = profile.lifetime.file.clone();
        Self { patterns, queries, lifetime, named, environment, limits, stores: BTreeMap::new() }
    }

    /// Whether the operator named a store for this system and no other, which must then be there.
    pub fn is_named(&self) -> bool {
        self.named.iter().any(|named| named.others.is_empty())
    }

    /// Whether all it has are stores that the operator named without saying whose they are.
    pub fn is_guess(&self) -> bool {
        !self.named.is_empty() && !self.is_named()
    }

    /// Looks for the stores and reads each. Never empty for a system that has a store: if none is found, that is a
    /// fault of its own.
    pub fn read(&mut self) -> Vec<StoreFacts> {
        if self.queries.is_empty() {
            return Vec::new();
        }
        let deadline = Instant::now() + self.limits.time;
        let mut facts = Vec::new();
        self.named.retain(|named| !belongs_elsewhere(named, &self.queries, part_of(deadline, 4)));
        for path in self.named.iter().map(|named| named.path.clone()).collect::<Vec<_>>() {
            self.meet(Located { path, captures: BTreeMap::new() });
        }
        if self.named.is_empty() {
            for StorePath { pattern, captures } in self.patterns.clone() {
                match locate(&pattern, &self.environment) {
                    // A place where nothing ever was is one of several the profile offers.
                    Ok(found) => {
                        for mut located in found.into_iter().filter(|located| may_exist(&located.path)) {
                            located.captures.extend(captures.clone());
                            self.meet(located);
                        }
                    }
                    Err(fault) => facts.push(faulty(&pattern, &fault)),
                }
            }
        }
        let mut left = self.stores.len();
        for store in self.stores.values_mut() {
            // One store that hangs leaves half of the time to those after it.
            store.read(part_of(deadline, if left > 1 { 2 } else { 1 }), self.lifetime.as_ref());
            left -= 1;
            facts.push(store.facts.clone());
        }
        if facts.is_empty() {
            facts.extend(self.places().iter().map(|place| faulty(place, &StoreFault::NoneFound)));
        }
        facts
    }

    /// The same over new connections, for whoever is about to act on the answer. The files must still be the ones that
    /// were read before.
    pub fn read_anew(&mut self) -> Vec<StoreFacts> {
        for store in self.stores.values_mut() {
            store.reader.reconnect();
        }
        self.read()
    }

    /// Where the stores are looked for, for messages.
    pub fn places(&self) -> Vec<String> {
        let named = self.named.iter().map(|named| named.path.display().to_string());
        if !self.named.is_empty() {
            return named.collect();
        }
        let patterns = self.patterns.iter();
        patterns
            .map(|StorePath { pattern, .. }| {
                expand(pattern, &self.environment).unwrap_or_else(|| pattern.clone())
            })
            .collect()
    }

    /// Takes a store up, unless another path has led to it already: its sessions would claim everything twice.
    fn meet(&mut self, mut located: Located) {
        let (queries, limits) = (&self.queries, self.limits);
        let real = |path: &Path| path.canonicalize().ok();
        let same = |known: &PathBuf| {
            *known == located.path || (real(known).is_some() && real(known) == real(&located.path))
        };
        if self.stores.keys().any(same) {
            return;
        }
        if let Some(folder) = located.path.parent() {
            located.captures.insert("folder".to_owned(), folder.display().to_string());
        }
        self.stores.entry(located.path.clone()).or_insert_with(|| Store {
            reader: SqliteReader::new(located.path.clone(), queries.clone(), limits),
            facts: StoreFacts {
                path: located.path.display().to_string(),
                exists: true,
                file: None,
                captures: located.captures,
                lifetime: None,
                variant: None,
                sessions: Reading::default(),
            },
        });
    }

    /// The facts when not even the first read came back.
    pub fn never_read(places: &[String]) -> Vec<StoreFacts> {
        places.iter().map(|place| faulty(place, &StoreFault::TimedOut)).collect()
    }

    /// The facts as they were, after a read that did not come back.
    pub fn stuck(facts: &[StoreFacts]) -> Vec<StoreFacts> {
        let stuck = |facts: &StoreFacts| StoreFacts {
            sessions: facts.sessions.with_fault(sentence(&StoreFault::Stuck)),
            ..facts.clone()
        };
        facts.iter().map(stuck).collect()
    }
}

impl Store {
    fn read(&mut self, time: Duration, lifetime: Option<&LifetimeFile>) {
        let answer = self.setting(lifetime).and_then(|lifetime| {
            self.facts.lifetime = lifetime;
            self.reader.read_within(time)
        });
        match answer {
            Ok(answer) => {
                self.facts.variant = Some(answer.variant);
                self.facts.file = self.reader.file();
                self.facts.sessions =
                    Reading { value: answer.sessions, at: Some(Timestamp::now()), fault: None };
            }
            Err(fault) => self.facts.sessions = self.facts.sessions.with_fault(sentence(&fault)),
        }
    }
}

impl Store {
    /// What the configuration beside the store says about the lifetime of containers.
    fn setting(&self, lifetime: Option<&LifetimeFile>) -> Result<Option<Duration>, StoreFault> {
        let Some(LifetimeFile { path, key }) = lifetime else { return Ok(None) };
        let Some(path) = fill_from_store(path, &self.facts.captures) else { return Ok(None) };
        length_in(Path::new(path.as_ref()), key).map_err(|why| StoreFault::Setting(path.into_owned(), why))
    }
}

/// Whether a store named without its system is surely another system's: a store in doubt stays everybody's.
fn belongs_elsewhere(named: &NamedStore, ours: &[Query], time: Duration) -> bool {
    let fits = |queries: &[Query]| fits(&named.path, queries, time);
    !named.others.is_empty() && fits(ours) == Ok(false) && fits(&named.others) == Ok(true)
}

/// A share of the time that is left.
fn part_of(deadline: Instant, shares: u32) -> Duration {
    deadline.saturating_duration_since(Instant::now()) / shares
}

fn sentence(fault: &StoreFault) -> String {
    format!("{fault}; {}", fault.hint())
}

fn faulty(path: &str, fault: &StoreFault) -> StoreFacts {
    StoreFacts {
        path: path.to_owned(),
        exists: !matches!(fault, StoreFault::NoneFound),
        file: None,
        captures: BTreeMap::new(),
        lifetime: None,
        variant: None,
        sessions: Reading::failed(sentence(fault)),
    }
}
