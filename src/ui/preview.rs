//! The preview of a plan: what would happen to each container and why. It is the only way to a [`Confirmed`] plan, and
//! it gives one out only for exactly the plan that was shown, on evidence that still holds.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tui_input::Input;

use super::message::Observation;
use crate::domain::evidence::plural;
use crate::domain::plan::{Action, Intent, Item, Plan, Reason, Reconcile};
use crate::domain::snapshot::Snapshot;
use crate::domain::verdict::Subject;
use crate::domain::{Container, ContainerId, Policy, Verdict, Verdicts, plan};

/// How many containers are looked into at once for what their removal would lose.
const WEIGHED_AT_ONCE: usize = 20;
/// From more changes than this on, the number must be typed.
const MANY: usize = 10;
/// A plan that changed under the operator's eyes cannot be confirmed for this long: the key may have been on its way.
const TIME_TO_READ: Duration = Duration::from_millis(1500);

/// A plan the operator has seen and said yes to.
#[derive(Debug)]
pub struct Confirmed {
    plan: Plan,
    snapshot: Arc<Snapshot>,
}

impl Confirmed {
    /// What the keeper needs.
    pub fn into_parts(self) -> (Plan, Arc<Snapshot>) {
        (self.plan, self.snapshot)
    }

    /// The plan, for showing.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// The removal of containers that are marked for eviction, or the comeback of lost ones whose system allows it: the mark
    /// and the setting are the confirmation, given beforehand.
    pub(super) fn by_mark(plan: Plan, snapshot: Arc<Snapshot>) -> Option<Self> {
        let marked = matches!(plan.intent(), Intent::Evict(_) | Intent::Heal(_)) && plan.changes() > 0;
        marked.then_some(Self { plan, snapshot })
    }
}

/// Why a plan was not confirmed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The phrase is not typed, or not right.
    NotTyped,
    /// The plan has just changed.
    JustChanged,
    /// The plan changes nothing.
    NothingToDo,
    /// Evidence does not support acting.
    NoEvidence(String),
}

/// A plan under review.
#[derive(Debug)]
pub struct Preview {
    /// What was asked for.
    pub intent: Intent,
    /// What is typed so far.
    pub typed: Input,
    /// The first item on screen.
    pub scroll: usize,
    /// What the operator should know about this preview right now.
    pub notice: Option<String>,
    plan: Plan,
    snapshot: Arc<Snapshot>,
    verdicts: Arc<Verdicts>,
    readable_from: Option<Timestamp>,
    drawn: bool,
    /// What the removal of each would lose, as far as it was found out.
    weighed: BTreeMap<ContainerId, Vec<String>>,
    /// Those that are being looked into.
    asked: BTreeSet<ContainerId>,
}

impl Preview {
    /// Plans what was asked for.
    pub fn new(intent: Intent, observation: &Observation, policy: &Policy, now: Timestamp) -> Self {
        let plan = plan(&observation.verdicts, &intent, policy, now);
        Self {
            intent,
            typed: Input::default(),
            scroll: 0,
            notice: None,
            plan,
            snapshot: Arc::clone(&observation.snapshot),
            verdicts: Arc::clone(&observation.verdicts),
            readable_from: None,
            drawn: false,
            weighed: BTreeMap::new(),
            asked: BTreeSet::new(),
        }
    }

    /// Takes note that the operator can see it.
    pub(super) fn was_drawn(&mut self) {
        self.drawn = true;
    }

    /// Whether the operator can see it as it is.
    pub fn is_drawn(&self) -> bool {
        self.drawn
    }

    /// Plans again on newer facts. If that is another plan, the operator has to read it before he can confirm it.
    pub fn renew(&mut self, observation: &Observation, policy: &Policy, now: Timestamp) {
        let newer = plan(&observation.verdicts, &self.intent, policy, now);
        if gist(&newer) != gist(&self.plan) {
            self.typed = Input::default();
            self.notice = Some("The host has changed, and so has this plan: read it again.".to_owned());
            self.readable_from = Some(now + TIME_TO_READ);
            self.drawn = false;
        }
        self.plan = newer;
        self.snapshot = Arc::clone(&observation.snapshot);
        self.verdicts = Arc::clone(&observation.verdicts);
    }

    /// Asks for something else than before.
    pub fn change_intent(
        &mut self,
        intent: Intent,
        observation: &Observation,
        policy: &Policy,
        now: Timestamp,
    ) {
        let readable_from = self.readable_from;
        let (weighed, asked) = (std::mem::take(&mut self.weighed), std::mem::take(&mut self.asked));
        // Seen from its top: a plan must not be confirmed while what it changes is out of sight.
        *self = Self { readable_from, weighed, asked, ..Self::new(intent, observation, policy, now) };
    }

    /// The plan, for showing.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// What must be typed to confirm it; `None` when one key is enough.
    pub fn phrase(&self) -> Option<String> {
        let changes = self.plan.changes();
        let ended: usize = self
            .plan
            .items()
            .iter()
            .map(|item| match item.reason {
                Reason::AskedOverLiveSessions(count) if item.action != Action::Keep => count,
                _ => 0,
            })
            .sum();
        if changes == 0 {
            None
        } else if ended > 0 {
            Some(format!("end {ended} live"))
        } else if let Intent::Reconcile(Reconcile { override_brake: Some(behind), .. }) = self.intent {
            Some(format!("past the brake {behind}"))
        } else if matches!(self.intent, Intent::ForceRemove(_)) {
            Some(format!("force {changes}"))
        } else if changes > MANY {
            Some(format!("{} {changes}", self.verb()))
        } else {
            None
        }
    }

    /// What the plan does, in one word.
    pub fn verb(&self) -> &'static str {
        match self.intent {
            Intent::Reconcile(_) => "reconcile",
            Intent::Stop(_) => "stop",
            Intent::Remove(_) | Intent::Evict(_) => "remove",
            Intent::ForceRemove(_) => "force",
            Intent::Drain(_) => "drain",
            Intent::Quarantine(_) => "quarantine",
            Intent::Recreate(_) => "recreate",
            Intent::Undo(_) => "undo",
            Intent::Heal(_) => "heal",
        }
    }

    /// Why it cannot be confirmed right now.
    pub fn refusal(&self, policy: &Policy, now: Timestamp) -> Option<Refusal> {
        if self.plan.changes() == 0 {
            return Some(Refusal::NothingToDo);
        }
        if let Some(why) = self.snapshot.engine.unusable(now, policy.max_evidence_age) {
            return Some(Refusal::NoEvidence(why.to_string()));
        }
        if self.plan.has_expired(now) {
            return Some(Refusal::NoEvidence("the facts behind this plan are too old".to_owned()));
        }
        // A key that was on its way before the plan was on screen says nothing about it.
        if !self.drawn || self.readable_from.is_some_and(|from| now < from) {
            return Some(Refusal::JustChanged);
        }
        match self.phrase() {
            Some(phrase) if self.typed.value().trim() != phrase => Some(Refusal::NotTyped),
            _ => None,
        }
    }

    /// Confirms exactly this plan, or gives it back unconfirmed with the reason.
    pub fn confirm(self, policy: &Policy, now: Timestamp) -> Result<Confirmed, (Box<Self>, Refusal)> {
        match self.refusal(policy, now) {
            Some(refusal) => Err((Box::new(self), refusal)),
            None => Ok(Confirmed { plan: self.plan, snapshot: self.snapshot }),
        }
    }

    /// How many live sessions are in the only container this is about, if that is all that keeps it.
    pub fn live_sessions_in_the_way(&self) -> Option<usize> {
        match (self.plan.items(), &self.intent) {
            (
                [Item { reason: Reason::LiveSessions { count, .. }, .. }],
                Intent::Stop(_) | Intent::ForceRemove(_),
            ) => Some(*count),
            _ => None,
        }
    }

    /// The next of the containers that would be removed to look into; of very many only some at once.
    pub fn next_to_weigh(&mut self) -> Vec<Arc<Container>> {
        let room = WEIGHED_AT_ONCE.saturating_sub(self.asked.len());
        let removed = self.plan.items().iter().filter(|item| item.action.removes());
        let new = removed.filter(|item| {
            item.id.as_ref().is_some_and(|id| !self.weighed.contains_key(id) && !self.asked.contains(id))
        });
        let containers = new.filter_map(|item| {
            let verdict = self.verdicts.containers.iter().find(|v| v.subject.id() == item.id.as_ref())?;
            match &verdict.subject {
                Subject::Container(container) => Some(Arc::clone(container)),
                Subject::Row(_) => None,
            }
        });
        let containers: Vec<Arc<Container>> = containers.take(room).collect();
        self.asked.extend(containers.iter().map(|container| container.id.clone()));
        containers
    }

    /// How many of those that would be removed are not looked into yet.
    fn unweighed(&self) -> usize {
        let removed = self.plan.items().iter().filter(|item| item.action.removes());
        removed.filter(|item| item.id.as_ref().is_some_and(|id| !self.weighed.contains_key(id))).count()
    }

    /// Takes note of what the removal of one would lose.
    pub fn weigh(&mut self, id: &ContainerId, sentences: &[String]) {
        self.asked.remove(id);
        self.weighed.insert(id.clone(), sentences.to_vec());
    }

    /// How many containers the brakes that hold are about.
    pub fn behind_the_brake(&self) -> usize {
        self.plan.brakes().iter().map(|brake| brake.leaving).sum()
    }

    /// What a removal loses and what it leaves, in sentences.
    pub fn losses(&self) -> Vec<String> {
        let removed = |item: &&Item| item.action.removes();
        let mut containers = 0;
        let mut memory = Vec::new();
        let mut volumes = 0;
        for item in self.plan.items().iter().filter(removed) {
            containers += 1;
            let verdict = self.verdicts.containers.iter().find(|v| v.subject.id() == item.id.as_ref());
            let Some(container) = verdict.and_then(|verdict| verdict.subject.container()) else { continue };
            volumes += container.mounts.iter().filter(|mount| mount.kind == "volume").count();
            if let Some(inspection) = container.inspection() {
                memory.extend(inspection.tmpfs.iter().map(|target| format!("{target} in {}", item.name)));
            }
        }
        let mut sentences = Vec::new();
        let free = |item: &&Item| {
            let verdict = self.verdicts.containers.iter().find(|v| v.subject.id() == item.id.as_ref());
            let is_free =
                |verdict: &Verdict| !verdict.is_in_use() && verdict.claims.total == verdict.claims.ended;
            item.action == Action::Drain && verdict.is_some_and(is_free)
        };
        let at_once = self.plan.items().iter().filter(free).count();
        if at_once > 0 {
            sentences.push(format!(
                "removed as soon as it is drained, because no open session claims it: {at_once} {}",
                plural(at_once, "container")
            ));
        }
        if containers > 0 {
            let whose = if containers == 1 { "the container" } else { "the containers" };
            sentences.push(format!("lost: everything written inside {whose}, outside of mounts"));
        }
        for item in self.plan.items().iter().filter(removed) {
            let found = item.id.as_ref().and_then(|id| self.weighed.get(id));
            if let Some(found) = found.filter(|found| !found.is_empty()) {
                sentences.push(format!("in {}: {}", item.name, found.join("; ")));
            }
        }
        let unweighed = self.unweighed();
        if unweighed > 0 && !self.weighed.is_empty() {
            sentences.push(format!("{unweighed} more {} not looked into yet", plural_of_be(unweighed)));
        }
        for item in self.plan.items() {
            if matches!(item.action, Action::Stop | Action::Quarantine) {
                let lost = item.shown.lost_by_a_stop();
                if !lost.is_empty() {
                    sentences.push(format!("in {}: {}", item.name, lost.join("; ")));
                }
            }
        }
        if self.plan.items().iter().any(|item| item.action == Action::Recreate) {
            let what =
                "does not come back: what was written inside, outside of mounts; what is in memory; what ran";
            sentences.push(what.to_owned());
        }
        if !memory.is_empty() {
            sentences.push(format!("lost: memory-backed {}", memory.join(", ")));
        }
        if volumes > 0 {
            sentences.push(format!("kept: {volumes} {}", plural(volumes, "volume")));
        }
        sentences
    }
}

fn plural_of_be(count: usize) -> &'static str {
    if count == 1 { "is" } else { "are" }
}

/// What makes a plan the same plan for whoever confirms it: what it changes, and the facts behind that. What is kept may
/// come and go meanwhile, as it does on a busy host.
fn gist(plan: &Plan) -> Vec<(Option<&str>, &str, Action, String, usize)> {
    plan.items()
        .iter()
        .filter(|item| item.action != Action::Keep || matches!(item.reason, Reason::LiveSessions { .. }))
        .map(|item| {
            let live = match &item.reason {
                Reason::LiveSessions { count, .. } | Reason::AskedOverLiveSessions(count) => *count,
                _ => 0,
            };
            let facts = format!("{} {:?} {:?}", item.status, item.state, item.started_at);
            (
                item.id.as_ref().map(crate::domain::ContainerId::as_str),
                item.name.as_str(),
                item.action,
                facts,
                live,
            )
        })
        .collect()
}
