//! The check that comes before every step: the container as it is now, the sessions as they are now, and the same
//! judgement that made the plan. Anything but a clear yes is a no.

use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use tokio::sync::Mutex;

use crate::domain::container::Container;
use crate::domain::evidence::Evidence;
use crate::domain::plan::{Action, Intent, Item, plan};
use crate::domain::snapshot::{Snapshot, StoreFacts, SystemFacts};
use crate::domain::{Policy, Status, classify_again};
use crate::engine::EngineView;
use crate::sessions::StoreSet;
use crate::watch::WatchedSystem;

/// What a check found.
#[derive(Debug)]
pub(super) enum Finding {
    /// It may be done.
    Go(Arc<Container>),
    /// The container is gone.
    Gone,
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
    base: Snapshot,
    policy: Policy,
    intent: Intent,
    stores: Mutex<FreshStores>,
    patience: Duration,
}

#[derive(Debug)]
struct FreshStores {
    /// `None` while a read that never came back holds them.
    sets: Option<Vec<StoreSet>>,
    began: Option<Instant>,
    facts: Vec<Vec<StoreFacts>>,
}

impl Checker {
    pub(super) fn new(
        engine: EngineView,
        base: Snapshot,
        systems: Vec<WatchedSystem>,
        policy: Policy,
        intent: Intent,
        patience: Duration,
    ) -> Self {
        // The stores of the systems the plan speaks of, in the snapshot's order.
        let mut systems = systems;
        let sets = base.systems.iter().filter_map(|known| {
            let place = systems.iter().position(|system| system.entry.profile.name == known.profile.name)?;
            Some(systems.swap_remove(place).stores)
        });
        let sets = sets.collect::<Vec<_>>();
        let facts = base.systems.iter().map(|system| system.stores.clone()).collect();
        let stores = Mutex::new(FreshStores { sets: Some(sets), began: None, facts });
        Self { engine, base, policy, intent, stores, patience }
    }

    /// Whether the planned action may be taken on the container as it is now. `same_run` is the run it must still be in.
    pub(super) async fn check(&self, item: &Item, planned: Action, same_run: Option<Timestamp>) -> Finding {
        let Some(id) = &item.id else { return Finding::Doubt("its id is not known".to_owned()) };
        let container = match self.engine.inspect(id).await {
            Ok(Some(container)) => container,
            Ok(None) => return Finding::Gone,
            Err(fault) => return Finding::Doubt(format!("it could not be inspected: {fault}")),
        };
        if same_run.is_some() && container.started_at() != same_run {
            return Finding::Changed("it was started again since".to_owned());
        }
        let systems = self.fresh_systems().await;
        self.judge(item, planned, container, systems)
    }

    fn judge(
        &self,
        item: &Item,
        planned: Action,
        container: Arc<Container>,
        systems: Vec<SystemFacts>,
    ) -> Finding {
        let now = Timestamp::now();
        let mut policy = self.policy.clone();
        if let (Some(system), Some(hash)) = (&item.system, &item.expected_hash) {
            // Alone it would be the newest of its system, and current by that.
            policy.expected_hash_of.insert(system.clone(), hash.clone());
        }
        let context = Snapshot { systems, ..self.base.clone() };
        let verdicts = classify_again(&container, &context, &policy, now);
        let plan = plan(&verdicts, &self.intent, &policy, now);
        let (Some(verdict), Some(again)) = (verdicts.containers.first(), plan.items().first()) else {
            return Finding::Changed("no profile recognises it any more".to_owned());
        };
        let reason = again.reason.to_string();
        if again.action == planned {
            return Finding::Go(container);
        }
        if again.action != Action::Keep {
            return Finding::Changed(format!("it is {} now", container.state));
        }
        if verdict.is_in_use() {
            Finding::InUse(reason)
        } else if verdict.status == Status::Unknown {
            let unavailable = verdict.evidence.iter().any(Evidence::is_unavailability);
            if unavailable { Finding::Doubt(reason) } else { Finding::Changed(reason) }
        } else {
            Finding::Changed(format!("it is {} now: {reason}", verdict.status))
        }
    }

    /// The stores as they are now. A read that began after the question serves it, whoever asked for it.
    async fn fresh_systems(&self) -> Vec<SystemFacts> {
        let asked = Instant::now();
        let mut stores = self.stores.lock().await;
        if stores.began.is_none_or(|began| began < asked) {
            stores.read(self.patience).await;
        }
        let with_facts = |(system, facts): (&SystemFacts, &Vec<StoreFacts>)| SystemFacts {
            stores: facts.clone(),
            ..system.clone()
        };
        self.base.systems.iter().zip(&stores.facts).map(with_facts).collect()
    }
}

impl FreshStores {
    async fn read(&mut self, patience: Duration) {
        self.began = Some(Instant::now());
        let Some(mut sets) = self.sets.take() else {
            self.facts = self.facts.iter().map(|facts| StoreSet::stuck(facts)).collect();
            return;
        };
        let read = tokio::task::spawn_blocking(move || {
            let facts: Vec<Vec<StoreFacts>> = sets.iter_mut().map(StoreSet::read_anew).collect();
            (sets, facts)
        });
        match tokio::time::timeout(patience, read).await {
            Ok(Ok((sets, facts))) => {
                self.sets = Some(sets);
                self.facts = facts;
            }
            _ => self.facts = self.facts.iter().map(|facts| StoreSet::stuck(facts)).collect(),
        }
    }
}
