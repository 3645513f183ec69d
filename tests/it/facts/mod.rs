//! Facts written down in two or three lines: a host, its containers, its sessions, and what went wrong with them.
//!
//! Everything starts out unsuspicious: sources read just now, containers running for two hours from an image
//! without labels, sessions that are quiet. A test says only what is different in its story.

#![allow(dead_code, reason = "each test file uses a part of the builders")]
#![expect(clippy::unwrap_used, reason = "a builder that is given nonsense should say so at once")]

pub(crate) mod profiles;
mod rows;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use sandkeeper::domain::awake::Sleep;
use sandkeeper::domain::container::{Row, UnreadableRow};
use sandkeeper::domain::continuity::StoreMemory;
use sandkeeper::domain::plan::Item;
use sandkeeper::domain::snapshot::{
    DrainMark, ImageFact, Neighbours, Reading, StoreFacts, SystemFacts, TagFact,
};
use sandkeeper::domain::span::parse_span;
use sandkeeper::domain::{
    Container, ContainerId, Intent, Labels, Plan, Policy, Profile, Snapshot, Status, Verdict, Verdicts,
    classify, plan, remember,
};

use profiles::{native, parachute_like};
pub(crate) use rows::*;

/// The moment at which every story is judged: noon on the first of March 2026, UTC.
pub(crate) const NOW: Timestamp = Timestamp::constant(1_772_366_400, 0);

/// The image that containers are made from unless they say otherwise.
const IMAGE: (&str, &str) = ("sandbox:latest", "sha256:5a4d");

/// `15m`, `2h`, `3d`.
#[track_caller]
pub(crate) fn span(text: &str) -> Duration {
    parse_span(text).unwrap()
}

/// The moment so long before [`NOW`].
#[track_caller]
pub(crate) fn ago(text: &str) -> Timestamp {
    NOW - span(text)
}

/// The moment so long after [`NOW`].
#[track_caller]
pub(crate) fn ahead(text: &str) -> Timestamp {
    NOW + span(text)
}

/// The id that the container of this name has.
pub(crate) fn id_of(name: &str) -> ContainerId {
    let fnv = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325, fnv);
    let [a, b, c] = [1, 17, 33].map(|bits| hash.rotate_left(bits));
    ContainerId::parse(&format!("{hash:016x}{a:016x}{b:016x}{c:016x}")).unwrap()
}

/// A snapshot in the making, with the policy and the moment it is judged by.
#[derive(Clone)]
pub(crate) struct Facts {
    pub(crate) snapshot: Snapshot,
    pub(crate) policy: Policy,
    pub(crate) now: Timestamp,
}

impl Facts {
    /// A host that answers, with nothing on it and no system looked for.
    pub(crate) fn new() -> Self {
        let mut snapshot = Snapshot { engine: Reading::good(Vec::new(), NOW), ..Snapshot::default() };
        snapshot.images.by_id.insert(IMAGE.1.to_owned(), ImageFact::Labels(Labels::default()));
        snapshot.images.by_reference.insert(IMAGE.0.to_owned(), TagFact::Names(IMAGE.1.to_owned()));
        Self { snapshot, policy: Policy::default(), now: NOW }
    }

    /// A host with the built-in system on it.
    pub(crate) fn native() -> Self {
        Self::new().system(native())
    }

    /// A host with Parachute on it.
    pub(crate) fn parachute() -> Self {
        Self::new().system(parachute_like())
    }

    /// Looks for one more system. If it keeps sessions, it has one store, readable and empty.
    pub(crate) fn system(mut self, profile: Profile) -> Self {
        let path = profile.has_store().then(|| format!("/data/{}.db", profile.name));
        self.snapshot.systems.push(SystemFacts {
            profile: Arc::new(profile),
            stores: Vec::new(),
            broken: None,
        });
        match path {
            Some(path) => self.store(&path),
            None => self,
        }
    }

    /// The user's own version of the last system's profile cannot be used.
    pub(crate) fn broken(mut self, why: &str) -> Self {
        self.last_system().broken = Some(why.to_owned());
        self
    }

    /// One more store of the last system; sessions that follow are in it.
    pub(crate) fn store(mut self, path: &str) -> Self {
        self.last_system().stores.push(StoreFacts {
            rule: 0,
            path: path.to_owned(),
            exists: true,
            named: false,
            file: None,
            captures: BTreeMap::new(),
            lifetime: None,
            variant: None,
            sessions: Reading::good(Vec::new(), NOW),
            memory: Arc::new(StoreMemory::proven()),
        });
        self
    }

    /// No store of the last system was found anywhere.
    pub(crate) fn without_stores(mut self) -> Self {
        self.last_system().stores.clear();
        self
    }

    /// The newest attempt to read the last store failed; what was read before is kept.
    pub(crate) fn store_fault(mut self, fault: &str) -> Self {
        let sessions = &mut self.last_store().sessions;
        *sessions = sessions.with_fault(fault);
        self
    }

    /// The last store was never read.
    pub(crate) fn store_never_read(mut self) -> Self {
        self.last_store().sessions = Reading::default();
        self
    }

    /// The last store was read at this moment.
    pub(crate) fn store_read_at(mut self, at: Timestamp) -> Self {
        self.last_store().sessions.at = Some(at);
        self
    }

    /// The newest attempt to list the containers failed; what was listed before is kept.
    pub(crate) fn engine_fault(mut self, fault: &str) -> Self {
        self.snapshot.engine = self.snapshot.engine.with_fault(fault);
        self
    }

    /// The containers were listed at this moment.
    pub(crate) fn engine_read_at(mut self, at: Timestamp) -> Self {
        self.snapshot.engine.at = Some(at);
        self
    }

    /// One more container, with what is known of its image.
    pub(crate) fn container(mut self, sandbox: Sandbox) -> Self {
        let Sandbox { container, image, tag } = sandbox;
        self.snapshot.images.by_id.extend(image.map(|fact| (container.image_id.to_string(), fact)));
        self.snapshot.images.by_reference.extend(tag.map(|fact| (container.image.to_string(), fact)));
        self.row(Row::Container(Arc::new(container)))
    }

    /// One more row that could not be read whole.
    pub(crate) fn unreadable_row(self, row: UnreadableRow) -> Self {
        self.row(Row::Unreadable(Box::new(row)))
    }

    fn row(mut self, row: Row) -> Self {
        Arc::make_mut(&mut self.snapshot.engine.value).push(row);
        self.snapshot.neighbours = Arc::new(Neighbours::of(&self.snapshot.engine.value));
        self
    }

    /// One more session in the last store.
    pub(crate) fn session(mut self, row: SessionRow) -> Self {
        Arc::make_mut(&mut self.last_store().sessions.value).push(Arc::new(row.0));
        self
    }

    /// Marks a container for eviction, in the run it is in.
    pub(crate) fn drain(self, name: &str) -> Self {
        let started_at = self.containers().find(|c| c.name == name).unwrap().started_at();
        self.drain_of_run(name, started_at)
    }

    /// Marks a container for eviction, in the run that began at this moment.
    pub(crate) fn drain_of_run(mut self, name: &str, started_at: Option<Timestamp>) -> Self {
        let mark = DrainMark { started_at, marked_at: ago("5m"), marked_by: "olga".to_owned() };
        self.snapshot.drains.insert(id_of(name), mark);
        self
    }

    /// The host was switched on so long ago.
    pub(crate) fn booted_ago(mut self, text: &str) -> Self {
        self.snapshot.awake.booted_at = Some(ago(text));
        self
    }

    /// The host slept for this long, until so long ago.
    pub(crate) fn slept(mut self, length: &str, until: &str) -> Self {
        self.snapshot.awake.slept.push(Sleep { until: ago(until), length: span(length) });
        self
    }

    /// What the next look finds, so much later: everything is read anew, and every store is held against what it said.
    pub(crate) fn looked_at_again(mut self, later: &str) -> Self {
        self.now += span(later);
        self.snapshot.engine.at = Some(self.now);
        for store in self.snapshot.systems.iter_mut().flat_map(|system| &mut system.stores) {
            store.sessions.at = Some(self.now);
        }
        self.remembered()
    }

    /// The same, with what every store says held against what it said before.
    pub(crate) fn remembered(mut self) -> Self {
        remember(&mut self.snapshot, &self.policy, self.now);
        self
    }

    /// The last store says something else now.
    pub(crate) fn sessions(mut self, rows: Vec<SessionRow>) -> Self {
        self.last_store().sessions.value = Arc::new(rows.into_iter().map(|row| Arc::new(row.0)).collect());
        self
    }

    /// Nothing is known of the last store from before.
    pub(crate) fn unknown_store(mut self) -> Self {
        self.last_store().memory = Arc::default();
        self
    }

    /// The clock was seen to jump.
    pub(crate) fn clock_step(mut self, by: &str) -> Self {
        self.snapshot.clock_step = Some(span(by));
        self
    }

    /// Changes the operator's rules.
    pub(crate) fn policy(mut self, change: impl FnOnce(&mut Policy)) -> Self {
        change(&mut self.policy);
        self
    }

    pub(crate) fn containers(&self) -> impl Iterator<Item = &Arc<Container>> {
        self.snapshot.engine.value.iter().filter_map(|row| match row {
            Row::Container(container) => Some(container),
            Row::Unreadable(_) => None,
        })
    }

    pub(crate) fn verdicts(&self) -> Verdicts {
        classify(&self.snapshot, &self.policy, self.now)
    }

    /// The only verdict on the container of this name.
    #[track_caller]
    pub(crate) fn verdict(&self, name: &str) -> Verdict {
        let mut named = self.verdicts().containers.into_iter().filter(|v| v.subject.name() == name);
        let verdict = named.next().unwrap_or_else(|| panic!("no verdict on `{name}`"));
        assert_eq!(named.next(), None, "two verdicts on `{name}`");
        verdict
    }

    /// Asserts the status of a container; what comes back can be asked for its reasons.
    #[track_caller]
    pub(crate) fn finds(&self, name: &str, status: Status) -> Finding {
        let finding = Finding(self.verdict(name));
        assert_eq!(finding.0.status, status, "`{name}`, because {:#?}", finding.sentences());
        finding
    }

    pub(crate) fn plan(&self, intent: &Intent) -> Plan {
        plan(&self.verdicts(), intent, &self.policy, self.now)
    }

    /// What a plan holds for the container of this name.
    #[track_caller]
    pub(crate) fn planned(&self, intent: &Intent, name: &str) -> Item {
        let found = self.plan(intent).into_items().into_iter().find(|item| item.name == name);
        found.unwrap_or_else(|| panic!("the plan does not speak of `{name}`"))
    }

    pub(crate) fn last_system(&mut self) -> &mut SystemFacts {
        self.snapshot.systems.last_mut().unwrap()
    }

    pub(crate) fn last_store(&mut self) -> &mut StoreFacts {
        self.last_system().stores.last_mut().unwrap()
    }
}

/// One line per fact: this is what a failing property prints.
impl fmt::Debug for Facts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Snapshot { engine, systems, drains, clock_step, .. } = &self.snapshot;
        writeln!(
            f,
            "at {}, clock step {clock_step:?}, engine read {:?} {:?}",
            self.now, engine.at, engine.fault
        )?;
        for row in engine.value.iter() {
            writeln!(f, "  {row:?}")?;
        }
        for SystemFacts { profile, stores, broken } in systems {
            writeln!(f, "{}, live {:?}, broken {broken:?}", profile.name, profile.live)?;
            for store in stores {
                let StoreFacts { path, sessions, .. } = store;
                writeln!(f, "  {path} read {:?} {:?}", sessions.at, sessions.fault)?;
                for session in sessions.value.iter() {
                    writeln!(f, "    {session:?}")?;
                }
            }
        }
        writeln!(f, "marks {drains:?}")
    }
}

/// A verdict whose status is as expected.
pub(crate) struct Finding(pub(crate) Verdict);

impl Finding {
    /// Asserts that one of its reasons says this.
    #[track_caller]
    pub(crate) fn because(self, words: &str) -> Self {
        let sentences = self.sentences();
        assert!(sentences.iter().any(|s| s.contains(words)), "`{words}` is none of {sentences:#?}");
        self
    }

    /// Asserts whether it is outdated.
    #[track_caller]
    pub(crate) fn outdated(self, expected: bool) -> Self {
        assert_eq!(self.0.outdated, expected, "outdated, with {:#?}", self.sentences());
        self
    }

    pub(crate) fn sentences(&self) -> Vec<String> {
        self.0.evidence.iter().map(ToString::to_string).collect()
    }
}
