//! Sessions: facts from the application's session database.

use std::time::Duration;

use jiff::Timestamp;

use super::awake::Clock;

/// A moment as a store recorded it. A value that cannot be read is kept apart from one that is not there:
/// "I could not read it" must never count as "it never happened".
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub enum Moment {
    /// The store holds no value.
    #[default]
    Absent,
    /// The store holds this moment.
    At(Timestamp),
    /// The store holds something that is no moment in the declared unit; the text says what.
    Unreadable(String),
}

impl Moment {
    /// The moment, if it is known.
    pub fn known(&self) -> Option<Timestamp> {
        match self {
            Self::At(at) => Some(*at),
            Self::Absent | Self::Unreadable(_) => None,
        }
    }
}

/// One session as its store describes it.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Session {
    /// The store's own id for it.
    pub id: String,
    /// The workspace it belongs to, if the store says.
    pub workspace: Option<String>,
    /// The container it names, if it names one.
    pub container: Option<String>,
    /// What a person would call it.
    pub title: Option<String>,
    /// When it began.
    pub started_at: Moment,
    /// When it last did something.
    pub last_activity_at: Moment,
    /// When it ended. An end that cannot be read, or lies ahead, is none yet.
    pub ended_at: Moment,
    /// The store's own word on whether it is live, if it has one.
    pub declared_live: Option<bool>,
    /// Its store no longer has it, and never said that it ended: it counts as open and quiet since it was last seen.
    pub vanished: bool,
}

/// How a profile tells live sessions from others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LiveRule {
    /// The store says it, in the query's `live` column.
    Declared,
    /// Not ended, and active within this long (or declared live).
    ActiveWithin(Duration),
    /// The same, with the lifetime of the system's containers.
    WithinLifetime,
}

/// Whether a session is live, and how that is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Liveness {
    /// A person or an agent is using it; `quiet` is the time since its last activity, if known.
    Live {
        /// Time since the last activity; `None` when unknown or in the future.
        quiet: Option<Duration>,
    },
    /// It has ended.
    Ended,
    /// Neither live nor ended.
    Quiet,
    /// The store does not allow a finding.
    Unclear(String),
}

impl Session {
    /// The newest moment at which this session is known to have done anything.
    pub fn newest_moment(&self) -> Option<Timestamp> {
        [&self.started_at, &self.last_activity_at, &self.ended_at].into_iter().filter_map(Moment::known).max()
    }

    /// Whether its store records an end.
    pub fn has_ended(&self) -> bool {
        self.ended_at.known().is_some() && self.declared_live != Some(true)
    }

    /// When it last did anything, short of ending; the error says why that cannot be told.
    pub fn last_trace(&self) -> Result<Timestamp, &str> {
        match (&self.last_activity_at, &self.started_at) {
            (Moment::Unreadable(why), _) | (Moment::Absent, Moment::Unreadable(why)) => Err(why),
            (activity, started) => {
                activity.known().max(started.known()).ok_or("the store has no time of activity for it")
            }
        }
    }

    /// Decides whether the session is live. A declared life wins over everything, however old its traces are;
    /// activity in the future (a clock that went back) counts as life, never as silence; and an end counts only
    /// if it is known to have come.
    pub fn liveness(&self, rule: LiveRule, clock: Clock<'_>) -> Liveness {
        if self.vanished {
            return Liveness::Quiet;
        }
        let last = self.last_trace();
        let quiet = last.ok().and_then(|at| clock.quiet_since(at));
        if self.declared_live == Some(true) {
            return Liveness::Live { quiet };
        }
        if self.ended_at.known().is_some_and(|at| at <= clock.now) {
            return Liveness::Ended;
        }
        match (rule, last) {
            (LiveRule::WithinLifetime, _) => {
                Liveness::Unclear("the lifetime of its container is not known".to_owned())
            }
            (LiveRule::Declared, _) if self.declared_live.is_none() => {
                Liveness::Unclear("the store does not say whether it is live".to_owned())
            }
            (LiveRule::ActiveWithin(_), Err(why)) => Liveness::Unclear(why.to_owned()),
            (LiveRule::ActiveWithin(window), Ok(_)) if quiet.is_none_or(|quiet| quiet <= window) => {
                Liveness::Live { quiet }
            }
            _ => match &self.ended_at {
                Moment::Unreadable(why) => Liveness::Unclear(why.clone()),
                Moment::Absent | Moment::At(_) => Liveness::Quiet,
            },
        }
    }
}
