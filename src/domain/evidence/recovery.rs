//! The words for how a container went, and whether it can come back.

use std::fmt;

use super::Evidence;
use crate::domain::span::{Precise, Span};
use crate::domain::verdict::WayBack;

impl Evidence {
    /// How a container went, and whether it can come back.
    pub(super) fn write_recovery(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ContainerGone { container } => {
                write!(f, "it needs container {container}, which is not there")
            }
            Self::ContainerEnded { container } => {
                write!(f, "its container {container} has ended, although the session is live")
            }
            Self::Departed { how, ago } => write!(f, "{how}, {} ago", Span(*ago)),
            Self::LastSeen { ago } => write!(f, "last seen {} ago", Span(*ago)),
            Self::RemovedByUs { ago, by } => write!(f, "removed by sandkeeper {} ago ({by})", Span(*ago)),
            Self::Quarantined { ago, by, left } => {
                write!(f, "in quarantine since {} ago ({by}); ", Span(*ago))?;
                if left.is_zero() {
                    f.write_str("its time is over")
                } else {
                    write!(f, "removed for good in {}; `undo` restores it", Precise(*left))
                }
            }
            Self::QuarantineUnrecorded => f.write_str(
                "it is named as one in quarantine, but our own state does not say until when, or cannot be read",
            ),
            Self::GivenUp { tries, reason } => {
                write!(f, "not brought back any more after {tries} failures: {reason}")
            }
            Self::Comeback(way_back) => f.write_str(match way_back {
                WayBack::Start => "`recreate` starts it again",
                WayBack::Restore => "`recreate` takes it out of quarantine",
                WayBack::Recreate => "`recreate` makes it again as it was recorded",
                WayBack::NotPersistent => "it goes with its sessions, so it is not brought back",
                WayBack::None => "it was not recorded how it was made, so it cannot be made again",
            }),
            _ => Ok(()),
        }
    }
}
