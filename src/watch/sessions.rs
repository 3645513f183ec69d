//! The sessions' side of a snapshot: reads every system's stores off the event loop, with a limit on its patience.

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::watch;

use super::WatchedSystem;
use crate::domain::Profile;
use crate::domain::profile::StoreKind;
use crate::domain::snapshot::{StoreFacts, SystemFacts};
use crate::profiles::Entry;
use crate::sessions::StoreSet;

/// What was read of one system.
#[derive(Clone, Debug)]
pub(super) struct SystemReading {
    pub(super) facts: SystemFacts,
    /// Whether it was asked for, or a store of it exists.
    pub(super) has_trace: bool,
}

#[derive(Debug)]
pub(super) struct SessionWatcher {
    systems: Vec<System>,
    patience: Duration,
}

/// Which applications of one system there is reason to ask.
#[derive(Debug)]
pub(super) struct Wanted {
    profile: Arc<Profile>,
    /// One per rule of the profile.
    rules: Vec<AtomicBool>,
}

impl Wanted {
    /// Takes up every rule for which `shows` holds; says whether one of them is new.
    pub(super) fn take_up(&self, mut shows: impl FnMut(&Profile, usize) -> bool) -> bool {
        let rules = self.profile.stores.iter().zip(&self.rules).enumerate();
        let news = rules.filter(|(number, (rule, wanted))| {
            let is_application = matches!(rule.kind, StoreKind::Http(_));
            is_application && !wanted.load(Ordering::Relaxed) && shows(&self.profile, *number)
        });
        news.map(|(_, (_, wanted))| wanted.store(true, Ordering::Relaxed)).count() > 0
    }

    fn rules(&self) -> Vec<usize> {
        (0..self.rules.len()).filter(|rule| self.rules[*rule].load(Ordering::Relaxed)).collect()
    }
}

#[derive(Debug)]
struct System {
    entry: Entry,
    stores: Arc<Mutex<StoreSet>>,
    /// Where the stores are looked for; the set itself may be held by a read that hangs.
    places: Vec<(usize, String)>,
    /// The rules whose application is to be asked, as the engine's containers show.
    wanted: Arc<Wanted>,
    asked_for: bool,
    /// Whether its stores may be another system's: then only an answer is a trace of it.
    guess: bool,
    last: Vec<StoreFacts>,
}

impl SessionWatcher {
    pub(super) fn new(systems: Vec<WatchedSystem>, patience: Duration) -> Self {
        let systems = systems
            .into_iter()
            .map(|WatchedSystem { entry, stores, asked_for }| System {
                asked_for: asked_for || stores.is_named(),
                guess: stores.is_guess(),
                places: stores.places(),
                wanted: Arc::new(Wanted {
                    rules: (0..entry.profile.stores.len())
                        .map(|rule| AtomicBool::new(stores.asks_application(rule)))
                        .collect(),
                    profile: Arc::clone(&entry.profile),
                }),
                stores: Arc::new(Mutex::new(stores)),
                entry,
                last: Vec::new(),
            })
            .collect();
        Self { systems, patience }
    }

    /// Which applications there is reason to ask, for whoever sees the engine's containers.
    pub(super) fn wanted(&self) -> Vec<Arc<Wanted>> {
        self.systems.iter().map(|system| Arc::clone(&system.wanted)).collect()
    }

    /// Reads all stores, all systems side by side.
    pub(super) async fn observe(&mut self) -> Vec<SystemReading> {
        let patience = self.patience;
        let reads = self.systems.iter_mut().map(|system| system.read(patience));
        futures_util::future::join_all(reads).await
    }

    pub(super) async fn run(mut self, pause: Duration, out: watch::Sender<Vec<SystemReading>>) {
        loop {
            let systems = self.observe().await;
            if out.send(systems).is_err() {
                return;
            }
            tokio::time::sleep(pause).await;
        }
    }
}

impl System {
    async fn read(&mut self, patience: Duration) -> SystemReading {
        let stores = Arc::clone(&self.stores);
        // A read that hangs (a dead network disk) keeps its thread and its lock; later looks see the lock and go on.
        let wanted = self.wanted.rules();
        let read = tokio::task::spawn_blocking(move || {
            let mut stores = stores.try_lock().ok()?;
            for rule in wanted {
                stores.want_application(rule);
            }
            Some(stores.read())
        });
        self.last = match tokio::time::timeout(patience, read).await {
            Ok(Ok(Some(facts))) => facts,
            _ => self.stuck(),
        };
        let found =
            self.last.iter().any(|store| store.sessions.at.is_some() || (store.exists && !self.guess));
        SystemReading {
            facts: SystemFacts {
                profile: Arc::clone(&self.entry.profile),
                stores: self.last.clone(),
                broken: self.entry.broken.clone(),
            },
            has_trace: self.asked_for || found,
        }
    }

    fn stuck(&self) -> Vec<StoreFacts> {
        if self.last.is_empty() { StoreSet::never_read(&self.places) } else { StoreSet::stuck(&self.last) }
    }
}
