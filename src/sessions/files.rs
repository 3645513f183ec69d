//! The database files of one system: found by the profile's patterns or named by the operator, read one after the other.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use jiff::Timestamp;

use super::fault::StoreFault;
use super::locate::{Located, captures_of, expand, locate, may_exist};
use super::set::{NamedStore, faulty, sentence};
use super::setting::length_in;
use super::sqlite::{Limits, SqliteReader, fits};
use crate::domain::profile::{LifetimeFile, Query, StorePath, fill_from_store};
use crate::domain::snapshot::{Reading, StoreFacts};
use crate::environment::Environment;

/// The files of one system. One that was seen once is never forgotten: if it vanishes, that is a fault and not the end
/// of its sessions.
#[derive(Debug)]
pub(super) struct FileStores {
    /// Which of the profile's rules this is.
    rule: usize,
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

impl FileStores {
    pub(super) fn new(
        rule: usize,
        (patterns, queries): (Vec<StorePath>, Vec<Query>),
        lifetime: Option<LifetimeFile>,
        named: Vec<NamedStore>,
        environment: Environment,
        limits: Limits,
    ) -> Self {
        Self { rule, patterns, queries, lifetime, named, environment, limits, stores: BTreeMap::new() }
    }

    /// Whether the operator named a store for this system and no other, which must then be there.
    pub(super) fn is_named(&self) -> bool {
        self.named.iter().any(|named| named.others.is_empty())
    }

    /// Whether all it has are stores that the operator named without saying whose they are.
    pub(super) fn is_guess(&self) -> bool {
        !self.named.is_empty() && !self.is_named()
    }

    /// Looks for the stores and reads each. Never empty for a system that has a store: if none is found, that is a
    /// fault of its own.
    pub(super) fn read(&mut self) -> Vec<StoreFacts> {
        let deadline = Instant::now() + self.limits.time;
        let mut facts = Vec::new();
        self.named.retain(|named| !belongs_elsewhere(named, &self.queries, part_of(deadline, 4)));
        for path in self.named.iter().map(|named| named.path.clone()).collect::<Vec<_>>() {
            let captures = captures_of(&path, &self.patterns, &self.environment);
            self.meet(Located { path, captures });
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
                    Err(fault) => facts.push(faulty(self.rule, &pattern, &fault)),
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
            let places = self.places();
            facts.extend(places.iter().map(|(rule, place)| faulty(*rule, place, &StoreFault::NoneFound)));
        }
        facts
    }

    /// Gives the connections up, but not the memory of which files they led to.
    pub(super) fn reconnect(&mut self) {
        for store in self.stores.values_mut() {
            store.reader.reconnect();
        }
    }

    /// Where they are looked for, for messages.
    pub(super) fn places(&self) -> Vec<(usize, String)> {
        let named = self.named.iter().map(|named| named.path.display().to_string());
        let patterns = self.patterns.iter().map(|StorePath { pattern, .. }| {
            expand(pattern, &self.environment).unwrap_or_else(|| pattern.clone())
        });
        let places: Vec<String> = if self.named.is_empty() { patterns.collect() } else { named.collect() };
        places.into_iter().map(|place| (self.rule, place)).collect()
    }

    /// Takes a store up, unless another path has led to it already: its sessions would claim everything twice.
    fn meet(&mut self, mut located: Located) {
        let named = !self.named.is_empty();
        let (rule, queries, limits) = (self.rule, &self.queries, self.limits);
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
                memory: std::sync::Arc::default(),
                rule,
                path: located.path.display().to_string(),
                exists: true,
                named,
                file: None,
                captures: located.captures,
                lifetime: None,
                variant: None,
                sessions: Reading::default(),
            },
        });
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
