//! What reaches the dashboard, and what it asks for in return. `update` turns one into the other and touches nothing.

use std::sync::Arc;

use crossterm::event::KeyEvent;
use jiff::Timestamp;

use super::preview::Confirmed;
use crate::domain::{Container, ContainerId, Snapshot, Status, Verdict, Verdicts};
use crate::engine::{LogLine, Usage};
use crate::keeper::{ItemOutcome, Progress};
use crate::state::{PastAction, StatusChange};

/// The host as it was seen and judged at one moment.
#[derive(Clone, Debug)]
pub struct Observation {
    /// The facts.
    pub snapshot: Arc<Snapshot>,
    /// What they mean.
    pub verdicts: Arc<Verdicts>,
    /// When they were judged.
    pub at: Timestamp,
}

/// Something that happened.
#[derive(Debug)]
pub enum Message {
    /// A key was pressed.
    Key(KeyEvent),
    /// Text was pasted.
    Paste(String),
    /// The left mouse button was pressed there.
    Click {
        /// Cells from the left.
        column: u16,
        /// Cells from the top.
        row: u16,
    },
    /// The wheel was turned by so many rows, down or up.
    Wheel(isize),
    /// The terminal has this size now.
    Resize {
        /// Cells.
        width: u16,
        /// Cells.
        height: u16,
    },
    /// So late is it now.
    Tick(Timestamp),
    /// The screen shows everything that was taken in so far.
    Drawn,
    /// The selection has rested for a moment.
    Settled(u64),
    /// The host was looked at.
    Observed(Observation),
    /// What the operator saw when he last looked.
    LastLook(LastLook),
    /// A plan that is carried out made progress.
    Progress(Progress),
    /// A plan was carried out, or refused as a whole.
    WorkEnded(Result<Vec<ItemOutcome>, String>),
    /// An earlier program left something unfinished.
    Unfinished(String),
    /// Marks for eviction were taken away, or not.
    Undrained(Result<usize, String>),
    /// Lines of a container's log.
    Logged(ContainerId, Vec<LogLine>),
    /// A container's log has come to its end, or cannot be read.
    LogEnded(ContainerId, Option<String>),
    /// A container's inspection.
    Inspected(ContainerId, Result<Vec<String>, String>),
    /// What happened to a container, and what was done to it.
    Recalled(ContainerId, Result<Past, String>),
    /// What the removal of a container would lose, in sentences.
    Weighed(ContainerId, Vec<String>),
    /// What a container uses; `None` when it cannot be told.
    Sampled(ContainerId, Option<Usage>),
    /// Somebody asked the program to end.
    AskedToEnd,
    /// The terminal is gone.
    HungUp,
}

/// What is remembered of a container.
#[derive(Clone, Debug, Default)]
pub struct Past {
    /// How its status changed.
    pub changes: Vec<StatusChange>,
    /// What was done to it.
    pub actions: Vec<PastAction>,
}

/// What the operator saw when he last looked.
#[derive(Clone, Debug, Default)]
pub struct LastLook {
    /// When that was.
    pub at: Option<Timestamp>,
    /// The statuses then.
    pub statuses: Vec<(ContainerId, Status)>,
}

/// Something to be done by whoever runs the dashboard.
#[derive(Debug)]
pub enum Effect {
    /// End the program.
    Quit,
    /// Back to the shell until `fg`.
    Suspend,
    /// Look at the host now.
    Refresh,
    /// Tell when the selection has rested for a moment.
    Settle(u64),
    /// Carry out a plan that was confirmed.
    CarryOut(Confirmed),
    /// Begin no new item of the plan that is being carried out.
    CancelWork,
    /// Take marks for eviction away.
    Undrain(Vec<Verdict>),
    /// Put text on the clipboard.
    Copy(String),
    /// Read the log of this container, or of none any more.
    Logs(Option<ContainerId>),
    /// Inspect a container.
    Inspect(ContainerId),
    /// Look up what is remembered of a container.
    Recall(ContainerId),
    /// Ask what a container uses.
    Sample(ContainerId),
    /// Find out what the removal of these would lose.
    Weigh(Vec<Arc<Container>>),
    /// Write down the statuses that changed.
    Remember(Vec<Remembered>),
    /// Listen to the mouse, or do not.
    Mouse(bool),
}

/// A status to be written down.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remembered {
    /// Of which container.
    pub id: ContainerId,
    /// Its name.
    pub name: String,
    /// Its status; `None` when it is gone.
    pub status: Option<Status>,
    /// The deciding reason.
    pub reason: String,
}
