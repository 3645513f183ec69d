//! What came of each item, and what is told while it happens.

use std::time::Duration;

use serde::Serialize;

use crate::domain::plan::Item;

/// What came of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// Nothing was done: a dry run.
    Planned,
    /// It was removed.
    Removed,
    /// It was stopped.
    Stopped,
    /// Somebody else had removed it.
    AlreadyGone,
    /// It was to be kept.
    Kept,
    /// It was to be changed, but something had changed since, so it was left alone.
    Skipped,
    /// It was marked for eviction.
    Drained,
    /// It was stopped, then needed, and started again.
    Rescued,
    /// It was put aside.
    Quarantined,
    /// It was taken out of quarantine.
    Restored,
    /// It was started again.
    Started,
    /// It was made again.
    Recreated,
    /// Another had taken its place.
    Adopted,
    /// It did not work.
    Failed,
}

impl Ending {
    /// The word in JSON, in the journal and on screen.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Planned => "planned",
            Self::Removed => "removed",
            Self::Stopped => "stopped",
            Self::AlreadyGone => "already_gone",
            Self::Kept => "kept",
            Self::Skipped => "skipped",
            Self::Drained => "drained",
            Self::Rescued => "rescued",
            Self::Quarantined => "quarantined",
            Self::Restored => "restored",
            Self::Started => "started",
            Self::Recreated => "recreated",
            Self::Adopted => "adopted",
            Self::Failed => "failed",
        }
    }
}

/// An item and what came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ItemOutcome {
    /// The item as it was planned.
    pub item: Item,
    /// What came of it.
    pub ending: Ending,
    /// Why, as a sentence.
    pub reason: String,
    /// Whether it ended so because evidence was unavailable.
    pub evidence_missing: bool,
    /// Why what was done is not in the journal, if it is not.
    pub unjournalled: Option<String>,
    /// How long it took.
    pub duration: Duration,
}

impl ItemOutcome {
    /// The folders of the host that a removed container leaves behind.
    pub fn left_behind(&self) -> &[String] {
        if self.ending == Ending::Removed { &self.item.binds } else { &[] }
    }
}

/// What happens while a plan is carried out. `index` is the item's place in the plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Work on it has begun.
    Begun {
        /// Which item.
        index: usize,
    },
    /// It has been asked to stop and has this long.
    Stopping {
        /// Which item.
        index: usize,
        /// How long.
        grace: Duration,
    },
    /// It is being removed.
    Removing {
        /// Which item.
        index: usize,
    },
    /// It is being put aside or brought back.
    Recovering {
        /// Which item.
        index: usize,
        /// What is done to it.
        word: &'static str,
    },
    /// It is over.
    Finished {
        /// Which item.
        index: usize,
        /// How.
        outcome: Box<ItemOutcome>,
    },
}
