//! A plan being carried out, as the dashboard shows it: a stage per item, and afterwards what came of each.

use std::time::Duration;

use jiff::Timestamp;

use crate::domain::ContainerId;
use crate::domain::plan::{Action, Intent, Plan};
use crate::keeper::{Ending, ItemOutcome, Progress};

/// Where an item stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// It has not begun.
    Waiting,
    /// Facts about it are read again.
    Checking,
    /// It was asked to stop and has until then.
    Stopping(Timestamp),
    /// It is being removed.
    Removing,
    /// It is being put aside or brought back.
    Recovering(&'static str),
    /// It is over.
    Over(Ending),
}

/// One item that is to be changed.
#[derive(Clone, Debug)]
pub struct Task {
    /// Which container.
    pub id: Option<ContainerId>,
    /// Its name.
    pub name: String,
    /// What is to be done.
    pub action: Action,
    /// Where it stands.
    pub stage: Stage,
}

/// A plan being carried out.
#[derive(Clone, Debug)]
pub struct Work {
    /// What it is, in one word.
    pub verb: &'static str,
    /// The items; those that are kept have `None`.
    pub tasks: Vec<Option<Task>>,
    /// Whether nothing new is begun any more.
    pub cancelled: bool,
    /// Whether nobody asked for it right now: marked containers that go by themselves.
    pub by_itself: bool,
}

impl Work {
    /// The work a plan makes.
    pub fn new(plan: &Plan) -> Self {
        let tasks = plan.items().iter().map(|item| {
            (item.action != Action::Keep).then(|| Task {
                id: item.id.clone(),
                name: item.name.clone(),
                action: item.action,
                stage: Stage::Waiting,
            })
        });
        Self {
            verb: verb(plan.intent()),
            tasks: tasks.collect(),
            cancelled: false,
            by_itself: matches!(plan.intent(), Intent::Evict(_) | Intent::Heal(_)),
        }
    }

    /// Takes note of progress.
    pub fn hear(&mut self, progress: &Progress, now: Timestamp) {
        let (index, stage) = match progress {
            Progress::Begun { index } => (*index, Stage::Checking),
            Progress::Stopping { index, grace } => (*index, Stage::Stopping(now + *grace)),
            Progress::Removing { index } => (*index, Stage::Removing),
            Progress::Recovering { index, word } => (*index, Stage::Recovering(word)),
            Progress::Finished { index, outcome } => (*index, Stage::Over(outcome.ending)),
        };
        if let Some(Some(task)) = self.tasks.get_mut(index) {
            task.stage = stage;
        }
    }

    /// How many there are, and how many are over.
    pub fn counts(&self) -> (usize, usize) {
        let tasks = self.tasks.iter().flatten();
        let over = tasks.clone().filter(|task| matches!(task.stage, Stage::Over(_))).count();
        (tasks.count(), over)
    }

    /// Those in flight.
    pub fn in_flight(&self) -> impl Iterator<Item = &Task> {
        self.tasks.iter().flatten().filter(|task| !matches!(task.stage, Stage::Waiting | Stage::Over(_)))
    }

    /// Where a container stands in it, if it is part of it.
    pub fn stage_of(&self, id: &ContainerId) -> Option<Stage> {
        self.tasks.iter().flatten().find(|task| task.id.as_ref() == Some(id)).map(|task| task.stage)
    }
}

impl Task {
    /// What is going on, in a few words.
    pub fn line(&self, now: Timestamp) -> String {
        match self.stage {
            Stage::Waiting => "waiting".to_owned(),
            Stage::Checking => "checking".to_owned(),
            Stage::Stopping(until) => match Duration::try_from(until.duration_since(now)) {
                Ok(left) if left >= Duration::from_secs(1) => format!("stopping, {}s left", left.as_secs()),
                _ => "stopping, the grace is over".to_owned(),
            },
            Stage::Removing => "removing".to_owned(),
            Stage::Recovering(word) => word.to_owned(),
            Stage::Over(ending) => ending.as_str().replace('_', " "),
        }
    }
}

fn verb(intent: &Intent) -> &'static str {
    match intent {
        Intent::Reconcile(_) => "reconcile",
        Intent::Stop(_) => "stop",
        Intent::Remove(_) => "remove",
        Intent::ForceRemove(_) => "force removal",
        Intent::Drain(_) => "drain",
        Intent::Evict(_) => "eviction",
        Intent::Quarantine(_) => "quarantine",
        Intent::Recreate(_) => "recreate",
        Intent::Undo(_) => "undo",
        Intent::Heal(_) => "healing",
    }
}

/// What came of a plan; it stays until it is dismissed.
#[derive(Clone, Debug)]
pub struct Summary {
    /// What it was, in one word.
    pub verb: &'static str,
    /// Why nothing at all was done, if so.
    pub refused: Option<String>,
    /// What came of each item that was to be changed, failures first.
    pub outcomes: Vec<ItemOutcome>,
    /// How many were kept as planned.
    pub kept: usize,
    /// Whether it was broken off.
    pub cancelled: bool,
    /// The first line on screen.
    pub scroll: usize,
}

impl Summary {
    /// Sums work up.
    pub fn new(work: &Work, result: Result<Vec<ItemOutcome>, String>) -> Self {
        let (refused, mut outcomes) = match result {
            Ok(outcomes) => (None, outcomes),
            Err(why) => (Some(why), Vec::new()),
        };
        let all = outcomes.len();
        outcomes.retain(|outcome| outcome.item.action != Action::Keep);
        let kept = all - outcomes.len();
        outcomes.sort_by_key(|outcome| weight(outcome.ending));
        Self { verb: work.verb, refused, outcomes, kept, cancelled: work.cancelled, scroll: 0 }
    }

    /// How many ended so.
    pub fn count(&self, ending: Ending) -> usize {
        self.outcomes.iter().filter(|outcome| outcome.ending == ending).count()
    }

    /// Whether anything did not come out as planned.
    pub fn has_trouble(&self) -> bool {
        self.refused.is_some() || self.outcomes.iter().any(|outcome| weight(outcome.ending) < 3)
    }
}

/// Failures first.
fn weight(ending: Ending) -> u8 {
    match ending {
        Ending::Failed => 0,
        Ending::Rescued => 1,
        Ending::Skipped => 2,
        Ending::Planned | Ending::Kept => 3,
        Ending::AlreadyGone
        | Ending::Drained
        | Ending::Stopped
        | Ending::Removed
        | Ending::Quarantined
        | Ending::Restored
        | Ending::Started
        | Ending::Recreated
        | Ending::Adopted => 4,
    }
}

/// What the operator can do about an outcome, if anything.
pub(super) fn next_step(ending: Ending, evidence_missing: bool) -> Option<&'static str> {
    match ending {
        Ending::Failed if evidence_missing => Some("see the header for what cannot be read, then try again"),
        Ending::Failed => Some("try again; `F` removes what does not react"),
        Ending::Skipped => Some("look at it again and plan anew"),
        Ending::Rescued => Some("it is in use again: leave it, or drain it with `D`"),
        _ => None,
    }
}
