//! What is remembered of containers: those that were here and are gone, how they went, and those that were put aside.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::container::{Container, ContainerId};
use super::profile::SystemName;
use super::span::elapsed;

/// How many times a container is brought back without being asked, before it is left to a person.
pub const MOST_TRIES: usize = 3;
/// The pause after the first failure; each further one is three times as long.
const FIRST_PAUSE: Duration = Duration::from_secs(2);

/// What has run for so long after it was brought back was brought back for good.
const STEADY: Duration = Duration::from_mins(5);

/// Everything our own state, and this look and those before it, remember.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recalled {
    /// Containers that were here and are not any more.
    pub gone: Vec<Arc<Remembered>>,
    /// How containers that are still here came to stop, as the engine's events told.
    pub departures: HashMap<ContainerId, Departure>,
    /// Containers that were put aside instead of being removed.
    pub quarantined: HashMap<ContainerId, Quarantine>,
    /// Attempts to bring back containers without being asked, by system and name: what is made again has another id.
    pub tries: HashMap<Lineage, Tries>,
    /// Containers that were made again, and when the first of their line was made.
    pub made_again: HashMap<ContainerId, Timestamp>,
    /// Why our own state cannot say what else there is.
    pub fault: Option<String>,
}

impl Recalled {
    /// Whether the same is remembered, but for the times at which things were last seen.
    pub fn same_as(&self, other: &Self) -> bool {
        let same = |a: &Remembered, b: &Remembered| {
            a.container.id == b.container.id
                && a.has_spec == b.has_spec
                && a.departure == b.departure
                && a.removed == b.removed
                && a.tries == b.tries
        };
        self.departures == other.departures
            && self.quarantined == other.quarantined
            && self.tries == other.tries
            && self.fault == other.fault
            && self.made_again == other.made_again
            && self.gone.len() == other.gone.len()
            && self.gone.iter().zip(&other.gone).all(|(a, b)| Arc::ptr_eq(a, b) || same(a, b))
    }
}

/// A container that was here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remembered {
    /// As it was last seen.
    pub container: Arc<Container>,
    /// Whose it was.
    pub system: SystemName,
    /// Which workspace it belonged to.
    pub workspace: Option<String>,
    /// Whether it outlived its sessions; only then is it worth bringing back.
    pub persistent: bool,
    /// When it was last seen.
    pub seen_at: Timestamp,
    /// Whether enough is recorded to make it again.
    pub has_spec: bool,
    /// How it went, if an event told.
    pub departure: Option<Departure>,
    /// When the keeper removed it, and by whom he was asked, if it was him.
    pub removed: Option<(Timestamp, String)>,
    /// Attempts to bring it back that came to nothing.
    pub tries: Tries,
}

impl Remembered {
    /// The last moment at which it is known to have been here.
    pub fn last_known(&self) -> Timestamp {
        self.departure.as_ref().map_or(self.seen_at, |departure| self.seen_at.max(departure.at))
    }
}

/// How a container stopped or went.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Departure {
    /// When.
    pub at: Timestamp,
    /// With which exit code its program ended, if that is known.
    pub exit_code: Option<i64>,
    /// Whether the kernel ran out of memory for it.
    pub out_of_memory: bool,
    /// Whether somebody asked the engine to stop it.
    pub stopped: bool,
    /// Whether it was removed.
    pub destroyed: bool,
}

/// What an event says about the end of a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Happening {
    /// It runs.
    Started,
    /// Something in it was killed for want of memory.
    OutOfMemory,
    /// Its program ended.
    Died(Option<i64>),
    /// It ended because somebody asked for it.
    Stopped,
    /// It was removed.
    Destroyed,
}

impl Departure {
    /// What is known after one more event.
    pub fn after(known: Option<Self>, happening: Happening, at: Timestamp) -> Option<Self> {
        let known = known.unwrap_or(Self {
            at,
            exit_code: None,
            out_of_memory: false,
            stopped: false,
            destroyed: false,
        });
        Some(match happening {
            Happening::Started => return None,
            Happening::OutOfMemory => Self { at, out_of_memory: true, ..known },
            Happening::Died(exit_code) => Self { at, exit_code, ..known },
            Happening::Stopped => Self { at, stopped: true, ..known },
            Happening::Destroyed => Self { at, destroyed: true, ..known },
        })
    }

    /// Whether a container that is still here ended as containers do: asked to, or done with its work.
    pub fn is_ordinary(&self) -> bool {
        /// What a program that obeys a `TERM` ends with.
        const TERMINATED: i64 = 143;
        // A child that starved does not end its container; a stop that somebody asked for does.
        self.stopped || (!self.out_of_memory && matches!(self.exit_code, None | Some(0 | TERMINATED)))
    }
}

impl fmt::Display for Departure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self { out_of_memory: true, destroyed: true, .. } => "it ran out of memory and was removed",
            Self { out_of_memory: true, .. } => "it ran out of memory",
            Self { destroyed: true, .. } => "somebody removed it",
            Self { stopped: true, .. } => "somebody stopped it",
            _ => "its program ended",
        })?;
        self.exit_code.map_or(Ok(()), |code| write!(f, " (exit code {code})"))
    }
}

/// A container and all that were made again in its place: its system and its name.
pub type Lineage = (SystemName, String);

/// Attempts to bring a container back, without anybody asking for it, that came to nothing or did not last.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tries {
    /// How many.
    pub failed: usize,
    /// When the last one was.
    pub last_at: Option<Timestamp>,
    /// Whether it ran after the last one.
    pub worked: bool,
    /// What came of it.
    pub reason: String,
}

impl Tries {
    /// These and one more.
    #[must_use]
    pub fn and(self, at: Option<Timestamp>, failure: Option<&str>) -> Self {
        let before = at.map_or(self.clone(), |at| self.unless_it_lasted(at));
        Self {
            failed: before.failed + 1,
            last_at: at,
            worked: failure.is_none(),
            reason: failure.unwrap_or("it was brought back, and did not last").to_owned(),
        }
    }

    /// None any more if the last one worked, and it then ran for some time: until this moment, as far as is known.
    #[must_use]
    pub fn unless_it_lasted(&self, until: Timestamp) -> Self {
        let lasted = |at| elapsed(at, until).is_some_and(|ran| ran >= STEADY);
        if self.worked && self.last_at.is_some_and(lasted) { Self::default() } else { self.clone() }
    }

    /// Whether it is left to a person now.
    pub fn given_up(&self) -> bool {
        self.failed >= MOST_TRIES
    }

    /// How long to wait before the next one.
    pub fn pause(&self, now: Timestamp) -> Option<Duration> {
        let last = self.last_at.filter(|_| self.failed > 0)?;
        let whole = FIRST_PAUSE * 3_u32.pow(u32::try_from(self.failed.min(6)).unwrap_or(6) - 1);
        let waited = elapsed(last, now).unwrap_or_default();
        whole.checked_sub(waited).filter(|left| !left.is_zero())
    }
}

/// A container that was stopped and renamed instead of being removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quarantine {
    /// The name it had.
    pub name: String,
    /// The name it has.
    pub named: String,
    /// Since when.
    pub since: Timestamp,
    /// By whom.
    pub by: String,
    /// From when on it may be removed.
    pub until: Timestamp,
    /// Whether it ran.
    pub was_running: bool,
}

/// The longest name that every engine takes without complaint.
const LONGEST_NAME: usize = 200;

/// The name of a container in quarantine.
pub fn quarantine_name(id: &ContainerId, name: &str) -> String {
    let name: String = name.chars().take(LONGEST_NAME).collect();
    format!("sandkeeper-quarantine-{}-{name}", id.short())
}

/// The name that a container had before it was put aside, told by the one it bears. The name alone does not put it in
/// quarantine, but as long as it bears it, nobody can call it an ordinary one.
pub fn put_aside(container: &Container) -> Option<&str> {
    let rest = container.name.strip_prefix("sandkeeper-quarantine-")?;
    rest.strip_prefix(container.id.short())?.strip_prefix('-')
}

/// How the name of a container begins that is being made in place of a lost one.
pub fn temporary_name(lost: &ContainerId) -> String {
    format!("sandkeeper-recreate-{}-", lost.short())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn departed(happenings: &[Happening]) -> Option<Departure> {
        let at = Timestamp::UNIX_EPOCH;
        happenings.iter().fold(None, |known, happening| Departure::after(known, *happening, at))
    }

    #[test]
    fn a_stop_that_was_asked_for_is_ordinary_and_a_kill_is_not() {
        let stopped = departed(&[Happening::Died(Some(137)), Happening::Stopped]).unwrap();
        let killed = departed(&[Happening::Died(Some(137))]).unwrap();
        let starved = departed(&[Happening::OutOfMemory, Happening::Died(Some(137))]).unwrap();
        assert!(stopped.is_ordinary() && !killed.is_ordinary() && !starved.is_ordinary());
        assert!(departed(&[Happening::Died(Some(0))]).unwrap().is_ordinary());
        let child = [Happening::OutOfMemory, Happening::Died(Some(137)), Happening::Stopped];
        assert!(departed(&child).unwrap().is_ordinary(), "something in it starved, and later it was stopped");
        assert_eq!(starved.to_string(), "it ran out of memory (exit code 137)");
        assert_eq!(departed(&[Happening::Died(Some(1)), Happening::Started]), None);
    }

    #[test]
    fn pauses_grow_and_end_with_a_third_failure() {
        let now = Timestamp::UNIX_EPOCH;
        let tries = |failed| Tries { failed, last_at: Some(now), ..Tries::default() };
        let pauses: Vec<_> = (0..4).map(|failed| tries(failed).pause(now)).collect();
        assert_eq!(pauses, [None, Some(2), Some(6), Some(18)].map(|pause| pause.map(Duration::from_secs)));
        assert!(!tries(2).given_up() && tries(3).given_up());
    }

    #[test]
    fn what_works_and_does_not_last_is_a_try_and_what_lasts_is_none() {
        let at = |minutes: i64| Timestamp::UNIX_EPOCH + jiff::SignedDuration::from_mins(minutes);
        let tries = |moments: &[i64]| {
            moments.iter().fold(Tries::default(), |tries, minutes| tries.and(Some(at(*minutes)), None))
        };
        assert!(tries(&[0, 1, 2]).given_up(), "three in a row that did not last");
        assert!(!tries(&[0, 1, 9]).given_up(), "the second one lasted");
        assert!(!tries(&[0, 1, 2]).unless_it_lasted(at(9)).given_up(), "the last one lasted");
        let failed = Tries::default().and(Some(at(0)), Some("no"));
        assert_eq!(failed.unless_it_lasted(at(99)).failed, 1, "what failed did not run");
    }
}
