//! What outlives a look, and a program: what every store claimed, and what the clocks showed. Kept in memory, and in our own
//! state unless nothing may be written.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::clock::{History, Reading};
use crate::domain::continuity::StoreMemory;
use crate::domain::snapshot::StoreFacts;
use crate::domain::{Policy, Snapshot, remember};
use crate::state::{Glance, State, StateFault, StoreKey, is_written_alike};

/// What did not change is compared again after this long, for time passes.
const COMPARE_AGAIN: Duration = Duration::from_secs(5);
/// Two writes begin at least this far apart.
const WRITE_PACE: Duration = Duration::from_secs(5);
/// What did not change is written again after this long: when a store was last read matters.
const WRITE_AGAIN: Duration = Duration::from_mins(1);

/// The memory of one watch.
#[derive(Debug)]
pub(super) struct Memory {
    folder: PathBuf,
    policy: Policy,
    /// Whether it may be written down.
    keeps: bool,
    clock: Option<History>,
    stores: HashMap<StoreKey, Known>,
    /// What our state looked like when it was last read.
    glance: Option<Glance>,
    compared: Option<(Look, Instant)>,
    written: Option<Instant>,
}

#[derive(Debug, Default)]
struct Known {
    now: Arc<StoreMemory>,
    /// What is in our state.
    written: Arc<StoreMemory>,
    accepted_at: Option<jiff::Timestamp>,
}

/// Enough of a snapshot to tell that nothing in it has changed: its parts are shared as long as they stay the same.
#[derive(Debug, PartialEq, Eq)]
struct Look {
    engine: (usize, bool),
    stores: Vec<(String, usize, bool)>,
}

impl Look {
    fn at(snapshot: &Snapshot) -> Self {
        let store = |store: &StoreFacts| {
            let sessions = &store.sessions;
            (store.path.clone(), Arc::as_ptr(&sessions.value).addr(), sessions.fault.is_none())
        };
        let engine = &snapshot.engine;
        Self {
            engine: (Arc::as_ptr(&engine.value).addr(), engine.fault.is_none() && engine.at.is_some()),
            stores: snapshot.stores().map(store).collect(),
        }
    }
}

impl Memory {
    pub(super) fn new(folder: PathBuf, policy: Policy) -> Self {
        Self {
            folder,
            policy,
            keeps: false,
            clock: None,
            stores: HashMap::new(),
            glance: None,
            compared: None,
            written: None,
        }
    }

    /// From now on it is written down.
    pub(super) fn keep(&mut self) {
        self.keeps = true;
    }

    /// The snapshot with what the clocks show, and with every store held against what it said before.
    pub(super) async fn look(&mut self, mut snapshot: Snapshot) -> Snapshot {
        self.read_clocks(&mut snapshot);
        let host = snapshot.host.identity.clone();
        let unread = self.read(&snapshot, &host).err();
        for (key, store) in stores_of(&mut snapshot, &host) {
            match (self.stores.get(&key), &unread) {
                (Some(known), _) => store.memory = Arc::clone(&known.now),
                // Whether it still has what it had cannot be told.
                (None, Some(fault)) => {
                    let why = format!("what it said before cannot be read: {fault}");
                    store.sessions = store.sessions.with_fault(why);
                }
                (None, None) => {}
            }
        }
        let look = Look::at(&snapshot);
        let is_same = |(compared, at): &(Look, Instant)| *compared == look && at.elapsed() < COMPARE_AGAIN;
        if self.compared.as_ref().is_some_and(is_same) {
            stores_of(&mut snapshot, &host).for_each(|(_, store)| store.add_vanished());
        } else {
            snapshot = self.compare(snapshot).await;
            self.compared = Some((look, Instant::now()));
            for (key, store) in stores_of(&mut snapshot, &host) {
                if let Some(known) = self.stores.get_mut(&key) {
                    known.now = Arc::clone(&store.memory);
                }
            }
        }
        self.write().await;
        snapshot
    }

    /// With many sessions this takes longer than a key may wait.
    async fn compare(&self, snapshot: Snapshot) -> Snapshot {
        let policy = self.policy.clone();
        let unchanged = snapshot.clone();
        let compared = tokio::task::spawn_blocking(move || {
            let mut snapshot = snapshot;
            remember(&mut snapshot, &policy, jiff::Timestamp::now());
            snapshot
        });
        match compared.await {
            Ok(snapshot) => snapshot,
            // Its stores are then as good as never read.
            Err(_) => unchanged,
        }
    }

    /// Takes up what the clocks show now, after what they showed to an earlier program.
    fn read_clocks(&mut self, snapshot: &mut Snapshot) {
        if self.clock.is_none() {
            let kept = State::open_to_read(&self.folder)
                .and_then(|state| state.map_or(Ok(None), |state| state.clock_history()));
            // What cannot be read is asked for again at the next look. Until then this program's own start has to do.
            self.clock = kept.map(History::since).ok();
        }
        let mut clock = self.clock.clone().unwrap_or_else(|| History::since(None));
        clock.add(Reading::now());
        snapshot.clock_step = clock.recent_step();
        snapshot.awake = clock.awake();
        self.clock = self.clock.is_some().then_some(clock);
    }

    /// Learns what our own state says of stores that are new here, and whether the operator accepted one.
    fn read(&mut self, snapshot: &Snapshot, host: &str) -> Result<(), StateFault> {
        let glance = State::glance(&self.folder);
        let keys = snapshot.systems.iter().flat_map(|system| {
            let key = |store: &StoreFacts| key(host, system.profile.name.as_str(), store);
            system.stores.iter().map(key)
        });
        let keys: Vec<StoreKey> = keys.collect();
        let all_known = keys.iter().all(|key| self.stores.contains_key(key));
        if all_known && glance.is_some() && glance == self.glance {
            return Ok(());
        }
        let kept = match State::open_to_read(&self.folder)? {
            Some(state) => keys.iter().map(|key| state.store_memory(key)).collect::<Result<Vec<_>, _>>()?,
            None => vec![None; keys.len()],
        };
        self.glance = glance;
        for (key, kept) in keys.into_iter().zip(kept) {
            let kept = kept.unwrap_or_default();
            let known = self.stores.entry(key).or_insert_with(|| Known {
                now: Arc::new(kept.memory.clone()),
                written: Arc::new(kept.memory.clone()),
                accepted_at: kept.accepted_at,
            });
            // Another program may have seen sessions that were gone again before this one looked.
            if kept.memory.claims.keys().any(|id| !known.written.claims.contains_key(id)) {
                let before = Arc::clone(&known.written);
                Arc::make_mut(&mut known.now).learn(&kept.memory, &before);
                Arc::make_mut(&mut known.written).learn(&kept.memory, &before);
                self.compared = None;
            }
            if let Some(seen_at) = kept.accepted_at.filter(|_| kept.accepted_at > known.accepted_at) {
                known.accepted_at = kept.accepted_at;
                Arc::make_mut(&mut known.now).accept(seen_at);
                Arc::make_mut(&mut known.written).accept(seen_at);
                self.compared = None;
            }
        }
        Ok(())
    }

    async fn write(&mut self) {
        let changed = self.stores.values().any(|known| !says_the_same(&known.written, &known.now));
        let new = |known: &Known| known.now.claims.keys().any(|id| !known.written.claims.contains_key(id));
        let pace = match changed {
            // Whoever is seen once is not forgotten because this program ends.
            true if self.stores.values().any(new) => Duration::ZERO,
            true => WRITE_PACE,
            false => WRITE_AGAIN,
        };
        if !self.keeps || self.written.is_some_and(|at| at.elapsed() < pace) {
            return;
        }
        self.written = Some(Instant::now());
        let stores: Vec<_> = self
            .stores
            .iter()
            .map(|(key, known)| (key.clone(), Arc::clone(&known.written), Arc::clone(&known.now)))
            .collect();
        let (folder, clock) = (self.folder.clone(), self.clock.clone());
        let written = tokio::task::spawn_blocking(move || -> Result<(), StateFault> {
            let mut state = State::open(&folder)?;
            clock.map_or(Ok(()), |clock| state.remember_clock(&clock))?;
            stores.iter().try_for_each(|(key, before, now)| state.remember_store(key, before, now))
        });
        // What cannot be written is remembered by this program all the same.
        if let Ok(Ok(())) = written.await {
            self.stores.values_mut().for_each(|known| known.written = Arc::clone(&known.now));
        }
    }
}

fn key(host: &str, system: &str, store: &StoreFacts) -> StoreKey {
    StoreKey::new(host, system, &store.path)
}

fn stores_of<'a>(
    snapshot: &'a mut Snapshot,
    host: &'a str,
) -> impl Iterator<Item = (StoreKey, &'a mut StoreFacts)> {
    snapshot.systems.iter_mut().flat_map(move |system| {
        let name = system.profile.name.clone();
        system.stores.iter_mut().map(move |store| (key(host, name.as_str(), store), store))
    })
}

/// Whether both leave the same behind, but for the time of the last look.
fn says_the_same(written: &Arc<StoreMemory>, now: &Arc<StoreMemory>) -> bool {
    if Arc::ptr_eq(written, now) {
        return true;
    }
    written.trust == now.trust
        && written.instances == now.instances
        && written.claims.len() == now.claims.len()
        && written
            .claims
            .iter()
            .zip(&now.claims)
            .all(|((a, one), (b, other))| a == b && is_written_alike(one, other))
}
