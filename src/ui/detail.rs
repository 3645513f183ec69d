//! The detail pane: what is shown of the row under the cursor, and what had to be fetched for it.

use std::collections::VecDeque;

use super::message::Past;
use crate::domain::ContainerId;
use crate::engine::LogLine;

/// Log lines that are kept; older ones go.
pub(super) const MOST_LINES: usize = 5_000;

/// The tabs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tab {
    /// The evidence behind the verdict.
    #[default]
    Why,
    /// The sessions that claim it.
    Sessions,
    /// What it writes.
    Logs,
    /// The engine's inspection, secrets taken out.
    Inspect,
    /// What changed, what was done, by whom.
    History,
}

impl Tab {
    /// All of them, in order.
    pub const ALL: [Self; 5] = [Self::Why, Self::Sessions, Self::Logs, Self::Inspect, Self::History];

    /// Its title.
    pub fn title(self) -> &'static str {
        match self {
            Self::Why => "Why",
            Self::Sessions => "Sessions",
            Self::Logs => "Logs",
            Self::Inspect => "Inspect",
            Self::History => "History",
        }
    }

    /// The one so many further on.
    pub fn step(self, by: usize) -> Self {
        let place = Self::ALL.iter().position(|tab| *tab == self).unwrap_or_default();
        Self::ALL[(place + by) % Self::ALL.len()]
    }
}

/// Something that was asked for.
#[derive(Clone, Debug, Default)]
pub enum Fetched<T> {
    /// Not asked for, or not here yet.
    #[default]
    Waiting,
    /// Here it is.
    Here(T),
    /// It cannot be had.
    Failed(String),
}

/// The log of one container.
#[derive(Clone, Debug, Default)]
pub struct Log {
    /// Its lines, the newest last.
    pub lines: VecDeque<LogLine>,
    /// How many lines had to go.
    pub dropped: usize,
    /// Whether anything has been heard at all.
    pub heard: bool,
    /// Why there is no more, if there is not.
    pub ended: Option<String>,
}

/// The detail pane.
#[derive(Clone, Debug)]
pub struct Detail {
    /// Which tab.
    pub tab: Tab,
    /// Whether keys go to it.
    pub focused: bool,
    /// The first line on screen; in a log, how far it is scrolled back from its end.
    pub scroll: usize,
    /// Whether a log shows its end.
    pub follow: bool,
    /// Only log lines with this text.
    pub search: String,
    /// The container whose facts these are.
    pub of: Option<ContainerId>,
    /// Its log.
    pub log: Log,
    /// Its inspection.
    pub document: Fetched<Vec<String>>,
    /// What is remembered of it.
    pub past: Fetched<Past>,
    pub(super) generation: u64,
    pub(super) shown: Option<(Tab, Option<ContainerId>)>,
    pub(super) logs_of: Option<ContainerId>,
}

impl Default for Detail {
    fn default() -> Self {
        Self {
            tab: Tab::Why,
            focused: false,
            scroll: 0,
            follow: true,
            search: String::new(),
            of: None,
            log: Log::default(),
            document: Fetched::Waiting,
            past: Fetched::Waiting,
            generation: 0,
            shown: None,
            logs_of: None,
        }
    }
}

impl Detail {
    /// Turns to another container: nothing of the last one stays.
    pub fn turn_to(&mut self, id: Option<ContainerId>) {
        self.of = id;
        self.scroll = 0;
        self.log = Log::default();
        self.document = Fetched::Waiting;
        self.past = Fetched::Waiting;
    }
}

impl Log {
    /// Takes lines in; the oldest go when there are too many.
    pub fn add(&mut self, lines: Vec<LogLine>) {
        self.heard = true;
        self.lines.extend(lines);
        while self.lines.len() > MOST_LINES {
            self.lines.pop_front();
            self.dropped += 1;
        }
    }
}
