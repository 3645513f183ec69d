//! What a plan says of each decision.

use std::fmt;

use super::Reason;
use crate::domain::evidence::{Evidence, plural};
use crate::domain::span::{Precise, Span};

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Verdict(evidence) | Self::TooNew(evidence) => evidence.fmt(f),
            Self::RunningOrphan(state) => {
                write!(f, "no session claims it, but it is {state}; --include-running-orphans takes it too")
            }
            Self::Braked(brake) => brake.fmt(f),
            Self::InUseUntilDrained(evidence) | Self::WaitsFor(evidence) => {
                let until = match evidence {
                    Evidence::RunningExec(_) | Evidence::AtWork { .. } => "nothing is at work in it",
                    Evidence::NamespaceShared { .. } | Evidence::CompanionRuns(_) => "nothing depends on it",
                    _ => "its sessions have ended",
                };
                write!(f, "goes when {until}: {evidence}")
            }
            Self::Asked => f.write_str("asked for"),
            Self::AskedOverLiveSessions(count) => {
                write!(f, "asked for, although it ends {count} live {}", plural(*count, "session"))
            }
            Self::LiveSessions { count, evidence } => {
                write!(f, "{count} live {} in it: {evidence}", plural(*count, "session"))
            }
            Self::Sought(session) => write!(
                f,
                "session {session} of its workspace has not ended and misses its container, which may be this one \
                 under another name"
            ),
            Self::MayBeAtWork(doubt) => {
                write!(f, "somebody may be at work in it, and it is left alone: {doubt}")
            }
            Self::NotCounted(life) => write!(f, "{life}, which no number of sessions covers"),
            Self::PausedUnlisted => f.write_str(
                "it is paused, and its engine does not list what runs in a paused container; \
                 `rm` without --force looks before it removes it, or unpause it first",
            ),
            Self::AutoRemove => f.write_str(
                "it was made with --rm: a stop would remove it at once, with no way back; \
                 `rm` takes it if you name it",
            ),
            Self::StopRemoves => f.write_str(
                "it was made with --rm: a stop would remove it, with no way back; \
                 say `rm` if that is what you want",
            ),
            Self::AskedWithItsStop => f.write_str(
                "asked for; it was made with --rm, so its stop removes it at once and nobody who comes meanwhile \
                 can get it back",
            ),
            Self::CommandsRun { sessions, commands } => {
                let runs = if commands.count == 1 { "runs" } else { "run" };
                write!(
                    f,
                    "{sessions} live {} in it, and {commands} {runs} in it, which no number of sessions covers; \
                     wait for the end of that, or end it yourself first",
                    plural(*sessions, "session")
                )
            }
            Self::StartedAside => f.write_str(
                "it was put in quarantine, and somebody has started it since; `undo` restores it, `rm` removes it",
            ),
            Self::InQuarantine(left) => {
                write!(f, "in quarantine for {} more; `undo` restores it, `rm` removes it now", Precise(*left))
            }
            Self::Missed(count) => {
                let verb = if *count == 1 { "misses" } else { "miss" };
                write!(f, "{count} live {} {verb} it", plural(*count, "session"))
            }
            Self::Undone => {
                f.write_str("what was removed comes back; what was written inside it and what ran in it do not")
            }
            Self::NotLost => f.write_str("nobody misses it"),
            Self::NotPersistent => f.write_str("it goes with its sessions, so it is not brought back"),
            Self::NotRecorded => {
                f.write_str("it was not recorded how it was made, so it cannot be made again")
            }
            Self::NothingToUndo => f.write_str("sandkeeper did nothing to it that could be taken back"),
            Self::TriedJustNow(left) => write!(f, "tried in vain a moment ago; again in {}", Span(*left)),
            Self::GivenUp { tries, reason } => {
                write!(f, "given up after {tries} failures: {reason}; `recreate` tries again")
            }
            Self::NotRunning(state) => write!(f, "it is {state}: there is nothing to stop"),
        }
    }
}
