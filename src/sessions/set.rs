//! All stores of one system: its database files, and the application itself where it must be asked.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Instant;

use jiff::Timestamp;

use super::fault::StoreFault;
use super::files::FileStores;
use super::http::HttpReader;
use super::sqlite::Limits;
use crate::domain::Profile;
use crate::domain::profile::{Query, StoreKind};
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

impl NamedStore {
    /// The address of an application, if that is what was named.
    fn url(&self) -> Option<String> {
        is_url(&self.path).then(|| self.path.to_string_lossy().into_owned())
    }
}

/// Whether what was named as a store is the address of an application.
pub fn is_url(store: &Path) -> bool {
    let text = store.to_string_lossy();
    text.starts_with("http://") || text.starts_with("https://")
}

/// The stores of one system.
#[derive(Debug)]
pub struct StoreSet {
    files: Vec<FileStores>,
    applications: Vec<Application>,
    limits: Limits,
}

/// An application that is asked for its sessions, once there is reason to: a stranger may listen at its address.
#[derive(Debug)]
struct Application {
    reader: HttpReader,
    facts: StoreFacts,
    wanted: bool,
}

impl StoreSet {
    /// The stores a profile describes, or those the operator named instead. `key` is what an application wants to see.
    pub fn new(
        profile: &Profile,
        named: Vec<NamedStore>,
        key: Option<&str>,
        environment: &Environment,
        limits: Limits,
    ) -> Self {
        let (urls, named): (Vec<NamedStore>, Vec<NamedStore>) =
            named.into_iter().partition(|named| named.url().is_some());
        let mut set = Self { files: Vec::new(), applications: Vec::new(), limits };
        for (rule, store) in profile.stores.iter().enumerate() {
            match &store.kind {
                StoreKind::Sqlite { paths, queries } => set.files.push(FileStores::new(
                    rule,
                    (paths.clone(), queries.clone()),
                    profile.lifetime.file.clone(),
                    named.clone(),
                    environment.clone(),
                    limits,
                )),
                StoreKind::Http(http) => {
                    let of_variable =
                        || http.key.as_ref().and_then(|key| environment.variable(&key.variable));
                    let key = key.map(ToOwned::to_owned).or_else(of_variable);
                    let mut places: Vec<Option<String>> = urls.iter().map(NamedStore::url).collect();
                    if places.is_empty() {
                        places.push(None);
                    }
                    set.applications.extend(places.into_iter().map(|place| {
                        let reader = HttpReader::new(http.clone(), place, key.clone(), limits);
                        let facts = faulty(rule, reader.url(), &StoreFault::NoneFound);
                        let facts =
                            StoreFacts { sessions: Reading::default(), named: reader.is_named(), ..facts };
                        Application { wanted: reader.is_named(), reader, facts }
                    }));
                }
            }
        }
        set
    }

    /// Whether the operator named a store for this system and no other, which must then be there.
    pub fn is_named(&self) -> bool {
        self.files.iter().any(FileStores::is_named)
            || self.applications.iter().any(|application| application.reader.is_named())
    }

    /// Whether all it has are stores that the operator named without saying whose they are.
    pub fn is_guess(&self) -> bool {
        !self.files.is_empty() && self.files.iter().all(FileStores::is_guess)
    }

    /// From now on the application is asked: there is a container that only it can speak of.
    pub fn want_application(&mut self, rule: usize) {
        for application in self.applications.iter_mut().filter(|each| each.facts.rule == rule) {
            application.wanted = true;
        }
    }

    /// Whether the application behind a rule is asked already.
    pub fn asks_application(&self, rule: usize) -> bool {
        self.applications.iter().any(|application| application.facts.rule == rule && application.wanted)
    }

    /// Looks for the stores and reads each. A database that is nowhere is a fault of its own; an application for which
    /// there is no reason yet is left out.
    pub fn read(&mut self) -> Vec<StoreFacts> {
        let began = Instant::now();
        let mut facts: Vec<StoreFacts> = self.files.iter_mut().flat_map(FileStores::read).collect();
        for application in self.applications.iter_mut().filter(|each| each.wanted) {
            // Files are quick, or stuck.
            let left = self.limits.time.saturating_sub(began.elapsed()).max(self.limits.time / 2);
            application.read(left);
            facts.push(application.facts.clone());
        }
        facts
    }

    /// The same over new connections, for whoever is about to act on the answer. The files must still be the ones that
    /// were read before.
    pub fn read_anew(&mut self) -> Vec<StoreFacts> {
        self.files.iter_mut().for_each(FileStores::reconnect);
        self.applications.iter_mut().for_each(|application| application.reader.forget());
        self.read()
    }

    /// Where the stores are looked for, for messages: which rule leads there, and the place.
    pub fn places(&self) -> Vec<(usize, String)> {
        let files = self.files.iter().flat_map(FileStores::places);
        let applications = self.applications.iter().filter(|each| each.wanted);
        files.chain(applications.map(|each| (each.facts.rule, each.facts.path.clone()))).collect()
    }

    /// The facts when not even the first read came back.
    pub fn never_read(places: &[(usize, String)]) -> Vec<StoreFacts> {
        places.iter().map(|(rule, place)| faulty(*rule, place, &StoreFault::TimedOut)).collect()
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

impl Application {
    fn read(&mut self, time: std::time::Duration) {
        let began = Instant::now();
        match self.reader.read_within(time) {
            Ok(answer) => {
                let at = if self.reader.answered_since(began) { None } else { self.facts.sessions.at };
                self.facts.exists = true;
                self.facts.variant = Some(answer.variant);
                self.facts.sessions = Reading {
                    value: answer.sessions,
                    at: at.or_else(|| Some(Timestamp::now())),
                    fault: None,
                };
            }
            Err(fault) => self.facts.sessions = self.facts.sessions.with_fault(sentence(&fault)),
        }
    }
}

pub(super) fn sentence(fault: &StoreFault) -> String {
    format!("{fault}; {}", fault.hint())
}

pub(super) fn faulty(rule: usize, path: &str, fault: &StoreFault) -> StoreFacts {
    StoreFacts {
        memory: std::sync::Arc::default(),
        rule,
        path: path.to_owned(),
        exists: !matches!(fault, StoreFault::NoneFound),
        named: false,
        file: None,
        captures: BTreeMap::new(),
        lifetime: None,
        variant: None,
        sessions: Reading::failed(sentence(fault)),
    }
}
