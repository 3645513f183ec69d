//! Verdicts: the status of every container and lost session, with the evidence behind it.

use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;
use serde::Serialize;

use super::container::{Container, ContainerId, UnreadableRow};
use super::evidence::Evidence;
use super::profile::SystemName;
use super::recovery::{Quarantine, Remembered, Tries};
use super::session::{Liveness, Session};
use super::unread::Unread;

/// What a container is to the sessions around it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// A live session uses it, or a command runs in it.
    Active,
    /// Sessions claim it, none is live, and it may still be wanted.
    Idle,
    /// No live session, and outdated, quiet for too long, or its sessions are over.
    Stale,
    /// No session claims it.
    Orphaned,
    /// It goes when every session that claims it has ended.
    Draining,
    /// A session needs a container that is gone.
    Lost,
    /// The evidence does not allow a finding; never touched.
    Unknown,
}

impl Status {
    /// All of them, in the order in which they are counted.
    pub const ALL: [Self; 7] =
        [Self::Active, Self::Idle, Self::Stale, Self::Orphaned, Self::Draining, Self::Lost, Self::Unknown];

    /// The word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Idle => "idle",
            Self::Stale => "stale",
            Self::Orphaned => "orphaned",
            Self::Draining => "draining",
            Self::Lost => "lost",
            Self::Unknown => "unknown",
        }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// What was judged: a container, or a row of the list that could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// A container.
    Container(Arc<Container>),
    /// A row that could not be read.
    Row(Box<UnreadableRow>),
}

impl Subject {
    /// The full id, if readable.
    pub fn id(&self) -> Option<&ContainerId> {
        match self {
            Self::Container(container) => Some(&container.id),
            Self::Row(row) => row.id.as_ref(),
        }
    }

    /// The name, if readable.
    pub fn name(&self) -> &str {
        match self {
            Self::Container(container) => &container.name,
            Self::Row(row) => row.name.as_deref().unwrap_or_default(),
        }
    }

    /// The container, if it was readable.
    pub fn container(&self) -> Option<&Container> {
        match self {
            Self::Container(container) => Some(container),
            Self::Row(_) => None,
        }
    }
}

/// A session that claims a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The session.
    pub session: Arc<Session>,
    /// Whether it is live, ended, or neither, and how that is known.
    pub liveness: Liveness,
}

impl Claim {
    /// Whether it is live.
    pub fn is_live(&self) -> bool {
        matches!(self.liveness, Liveness::Live { .. })
    }
}

/// The sessions that claim a container: exact counts, and the most telling ones by name.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Claims {
    /// How many claim it.
    pub total: usize,
    /// How many of them are live.
    pub live: usize,
    /// How many have ended.
    pub ended: usize,
    /// How many of the others are no longer in their store, without having ended there.
    pub vanished: usize,
    /// The newest sign of life of any of them.
    pub newest_moment: Option<Timestamp>,
    /// Live ones first, then the newest; at most [`Claims::LISTED`].
    pub listed: Vec<Claim>,
}

impl Claims {
    /// How many sessions are listed by name.
    pub const LISTED: usize = 50;
}

/// The verdict on one container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// What was judged.
    pub subject: Subject,
    /// Whose it is; `None` when that cannot be told.
    pub system: Option<SystemName>,
    /// Which workspace it belongs to, if that can be told.
    pub workspace: Option<String>,
    /// The status.
    pub status: Status,
    /// Whether its configuration or image is not the current one, whatever the status.
    pub outdated: bool,
    /// Whether it outlives its sessions.
    pub persistent: bool,
    /// Who claims it.
    pub claims: Arc<Claims>,
    /// A session of its workspace that may be live and does not find its container under the name it knows: it may be
    /// in this one, so bulk leaves it alone.
    pub sought_by: Option<String>,
    /// Everything that lives in it: sessions, commands, processes, and whoever shares it or watches over it. This is the one
    /// place where that is decided.
    pub life: Vec<Evidence>,
    /// Why it cannot be told whether somebody is at work in it, if it cannot. Nothing that runs is ended then, whatever was asked.
    pub work_doubt: Option<Box<Evidence>>,
    /// What a container that is to go waits for, though nothing lives in it.
    pub waits_for: Option<Box<Evidence>>,
    /// Why it is too new to be judged by the silence about it, if it is.
    pub too_new: Option<Box<Evidence>>,
    /// Since when there has been no sign of use, if anything is known.
    pub quiet_since: Option<Timestamp>,
    /// Since when and how it is in quarantine, if it is.
    pub quarantine: Option<Box<Quarantine>>,
    /// What could not be read of it; see there how to show it.
    pub unread: Unread,
    /// The reasons, the deciding one first; never empty.
    pub evidence: Vec<Evidence>,
}

impl Verdict {
    /// Whether anything lives in it.
    pub fn is_in_use(&self) -> bool {
        !self.life.is_empty()
    }

    /// How many commands run in it through exec.
    pub fn running_execs(&self) -> usize {
        let inspection = self.subject.container().and_then(Container::inspection);
        inspection.map_or(0, |inspection| inspection.running_execs)
    }
}

/// A session whose container is gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lost {
    /// The session.
    pub session: String,
    /// What a person would call it.
    pub title: Option<String>,
    /// Whose it is.
    pub system: SystemName,
    /// Which workspace it belongs to, if the store says.
    pub workspace: Option<String>,
    /// The container it needs.
    pub container: String,
    /// Which container that was, or is, if it is known.
    pub id: Option<ContainerId>,
    /// Whether it can be brought back.
    pub way_back: WayBack,
    /// Whether that is done without anybody asking.
    pub heals: bool,
    /// Attempts to do so that came to nothing.
    pub tries: Tries,
    /// The reasons.
    pub evidence: Vec<Evidence>,
}

/// How a lost container can be brought back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum WayBack {
    /// It is here and only has to be started.
    Start,
    /// It is in quarantine.
    Restore,
    /// It can be made again, as recorded.
    Recreate,
    /// It goes with its sessions, so it is not brought back.
    NotPersistent,
    /// Nothing is recorded of it.
    None,
}

/// A remembered container that is not here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gone {
    /// What is remembered.
    pub remembered: Arc<Remembered>,
    /// How many live sessions need it and have no other.
    pub live: usize,
    /// Whether it is brought back without anybody asking.
    pub heals: bool,
}

/// All verdicts on one snapshot.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Verdicts {
    /// One per container that is some system's, ordered by workspace and name.
    pub containers: Vec<Verdict>,
    /// Sessions whose container is gone.
    pub lost: Vec<Lost>,
    /// Containers that are remembered and not here.
    pub gone: Vec<Gone>,
    /// Systems of which so much would go at once that a wrong database is more likely than a mess.
    pub brakes: Vec<Brake>,
}

impl Verdicts {
    /// How many there are of a status.
    pub fn count(&self, status: Status) -> usize {
        match status {
            Status::Lost => self.lost.len(),
            other => self.containers.iter().filter(|verdict| verdict.status == other).count(),
        }
    }
}

/// The brake on bulk removal, for one system.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Brake {
    /// The system.
    pub system: SystemName,
    /// How many of its containers bulk could take, for whatever reason.
    pub leaving: usize,
    /// How many it has.
    pub total: usize,
}

impl fmt::Display for Brake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { system, leaving, total } = self;
        write!(
            f,
            "{leaving} of {total} {system} containers would go at once; that looks like a wrong database, mount or clock, \
             so bulk removal is blocked"
        )
    }
}
