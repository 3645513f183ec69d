//! Judging containers again, one at a time, shortly before something is done to them. Each is judged by the rules that
//! judged them all, on a snapshot that holds only what can concern it: so one of many costs no more than one of few.

use std::collections::HashMap;
use std::hash::BuildHasher;
use std::sync::Arc;

use jiff::Timestamp;

use super::aside;
use super::attribute::sorted;
use super::claims::names_present;
use super::hash::{QuickSet, Seeded};
use super::remember::{habits, take_up};
use super::{Fleet, judge_all};
use crate::domain::container::{Container, Row};
use crate::domain::policy::Policy;
use crate::domain::profile::{Match, Profile, fill_from_session};
use crate::domain::recovery::{Quarantine, Recalled};
use crate::domain::snapshot::{Images, Neighbours, PathFact, Reading, Snapshot, StoreFacts, SystemFacts};
use crate::domain::verdict::{Brake, Verdicts};

/// Everything but the containers that are judged again.
#[derive(Debug)]
pub struct Surroundings {
    snapshot: Arc<Snapshot>,
    /// Every name and id on the engine, if they are known.
    names: Arc<Option<QuickSet<String>>>,
    systems: Arc<Vec<IndexedSystem>>,
    /// What the other containers told about each system when the plan was made. The check must not decide on less.
    fleets: Arc<Vec<Fleet>>,
    /// The brakes that held then.
    brakes: Arc<Vec<Brake>>,
    /// What is at the host paths that a verdict depends on.
    paths: HashMap<String, PathFact>,
    /// Which other containers there are.
    neighbours: Arc<Neighbours>,
}

#[derive(Debug)]
struct IndexedSystem {
    facts: SystemFacts,
    /// One per store.
    sessions: Vec<SessionIndex>,
}

/// Where the sessions are that some key could link to a container, by the hash of link and key. Keys that share a hash
/// only make more sessions be looked at.
#[derive(Debug, Default)]
struct SessionIndex {
    hasher: Seeded,
    /// Sorted by hash.
    places: Vec<(u64, usize)>,
}

impl Surroundings {
    /// The names, images and marks of `snapshot`, its sessions, and the brakes of the plan that was made on it.
    pub fn new(snapshot: Snapshot, brakes: Vec<Brake>, policy: &Policy, now: Timestamp) -> Self {
        let snapshot = aside::with_old_names(&snapshot).unwrap_or(snapshot);
        let mut attributed = sorted(&snapshot);
        let candidates = snapshot.systems.iter().zip(&mut attributed.candidates);
        let fleets =
            candidates.map(|(system, candidates)| Fleet::of(&snapshot, system, candidates, policy, now));
        let fleets = Arc::new(fleets.collect());
        let names = names_present(&snapshot.engine.value);
        let names = names.map(|names| names.into_iter().map(ToOwned::to_owned).collect());
        let systems = Arc::new(snapshot.systems.iter().cloned().map(IndexedSystem::new).collect());
        let (paths, neighbours) = (snapshot.paths.clone(), Arc::clone(&snapshot.neighbours));
        let (names, brakes) = (Arc::new(names), Arc::new(brakes));
        Self { snapshot: Arc::new(snapshot), names, systems, fleets, brakes, paths, neighbours }
    }

    /// What they were made of.
    pub fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    /// The same with what the stores say now, held against what they said when the plan was made.
    #[must_use]
    pub fn with_systems(&self, mut systems: Vec<SystemFacts>, policy: &Policy, now: Timestamp) -> Self {
        let clock = self.snapshot.clock(policy, now);
        for (system, planned) in systems.iter_mut().zip(&self.snapshot.systems) {
            for store in &mut system.stores {
                let known = planned.stores.iter().find(|known| known.path == store.path);
                let Some(known) = known.filter(|_| store.sessions.fault.is_none()) else { continue };
                let habits = habits(&system.profile, store, policy);
                let memory = known.memory.held_against(&store.sessions.value, habits, clock);
                store.memory = Arc::clone(&known.memory);
                take_up(store, memory);
            }
        }
        Self {
            snapshot: Arc::clone(&self.snapshot),
            names: Arc::clone(&self.names),
            systems: Arc::new(systems.into_iter().map(IndexedSystem::new).collect()),
            fleets: Arc::clone(&self.fleets),
            brakes: Arc::clone(&self.brakes),
            paths: self.paths.clone(),
            neighbours: Arc::clone(&self.neighbours),
        }
    }

    /// The same with what is at host paths now, and with the other containers as they are now if they were listed.
    #[must_use]
    pub fn with_host(&self, paths: HashMap<String, PathFact>, neighbours: Option<Neighbours>) -> Self {
        let neighbours = neighbours.map(|now| Arc::new(now.after(&self.neighbours)));
        Self {
            snapshot: Arc::clone(&self.snapshot),
            names: Arc::clone(&self.names),
            systems: Arc::clone(&self.systems),
            fleets: Arc::clone(&self.fleets),
            brakes: Arc::clone(&self.brakes),
            paths,
            neighbours: neighbours.unwrap_or_else(|| Arc::clone(&self.neighbours)),
        }
    }

    /// Judges a container as it was just inspected. The other containers are not there, so nothing is found lost; what
    /// depends on them is as it was when the plan was made.
    pub fn classify_again(&self, container: &Arc<Container>, policy: &Policy, now: Timestamp) -> Verdicts {
        let (container, aside) = aside::with_old_name(container, &self.snapshot.recalled.quarantined);
        let around = self.around(&container, aside, now);
        let names = self.names.as_ref().as_ref();
        let verdicts = judge_all(&around, names, Some(&self.fleets), policy, now);
        Verdicts { lost: Vec::new(), brakes: self.brakes.to_vec(), ..verdicts }
    }

    /// The container, and of everything else what can concern it.
    fn around(&self, container: &Arc<Container>, aside: Option<&Quarantine>, now: Timestamp) -> Snapshot {
        let all = &self.snapshot;
        let reference = container.image_reference();
        let by_id = all.images.by_id.get_key_value(&*container.image_id);
        let by_reference = all.images.by_reference.get_key_value(reference);
        Snapshot {
            host: all.host.clone(),
            engine: Reading::good(vec![Row::Container(Arc::clone(container))], now),
            images: Images {
                by_id: by_id.map(|(id, fact)| (id.clone(), fact.clone())).into_iter().collect(),
                by_reference: by_reference
                    .map(|(tag, fact)| (tag.clone(), fact.clone()))
                    .into_iter()
                    .collect(),
            },
            paths: self.paths.clone(),
            neighbours: Arc::clone(&self.neighbours),
            others: Arc::clone(&all.others),
            systems: self.systems.iter().map(|system| system.around(container)).collect(),
            marks_fault: all.marks_fault.clone(),
            drains: all
                .drains
                .get(&container.id)
                .map(|mark| (container.id.clone(), mark.clone()))
                .into_iter()
                .collect(),
            recalled: Recalled {
                quarantined: aside.map(|aside| (container.id.clone(), aside.clone())).into_iter().collect(),
                made_again: all.recalled.made_again.clone(),
                ..Recalled::default()
            },
            awake: all.awake.clone(),
            clock_step: all.clock_step,
        }
    }
}

impl IndexedSystem {
    fn new(facts: SystemFacts) -> Self {
        let sessions = facts.stores.iter().map(|store| SessionIndex::of(&facts.profile, store)).collect();
        Self { facts, sessions }
    }

    /// The system with only those sessions that a key of the container leads to.
    fn around(&self, container: &Container) -> SystemFacts {
        let profile = &self.facts.profile;
        let keys = match profile.recognise(container) {
            Match::Ours(recognised) => {
                let links = profile.links.iter().enumerate();
                let templates = links
                    .flat_map(|(link, rule)| rule.container.iter().map(move |template| (link, template)));
                let keys = templates.filter_map(|(link, template)| Some((link, recognised.fill(template)?)));
                keys.collect()
            }
            Match::Foreign | Match::Nameless => Vec::new(),
        };
        let stores = self.facts.stores.iter().zip(&self.sessions);
        let stores = stores.map(|(store, index)| {
            let mut places: Vec<usize> = keys.iter().flat_map(|(link, key)| index.get(*link, key)).collect();
            places.sort_unstable();
            places.dedup();
            let sessions = places.into_iter().map(|place| Arc::clone(&store.sessions.value[place])).collect();
            let Reading { at, fault, .. } = &store.sessions;
            let sessions = Reading { value: Arc::new(sessions), at: *at, fault: fault.clone() };
            StoreFacts { sessions, ..store.clone() }
        });
        SystemFacts { stores: stores.collect(), ..self.facts.clone() }
    }
}

impl SessionIndex {
    fn of(profile: &Profile, store: &StoreFacts) -> Self {
        let sessions = &store.sessions.value;
        let mut index = Self::default();
        index.places.reserve(sessions.len());
        for (place, session) in sessions.iter().enumerate() {
            for (link, rule) in profile.links.iter().enumerate() {
                if let Some(key) = fill_from_session(&rule.session, session, &store.captures) {
                    let hash = index.hasher.hash_one((link, key.as_ref()));
                    index.places.push((hash, place));
                }
            }
        }
        index.places.sort_unstable();
        index
    }

    fn get(&self, link: usize, key: &str) -> impl Iterator<Item = usize> {
        let wanted = self.hasher.hash_one((link, key));
        let start = self.places.partition_point(|(hash, _)| *hash < wanted);
        self.places[start..].iter().take_while(move |(hash, _)| *hash == wanted).map(|(_, place)| *place)
    }
}
