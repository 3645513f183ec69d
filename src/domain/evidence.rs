//! Evidence: what a verdict rests on. Its `Display` is the sentence people read on screen, in JSON and in the
//! journal; there is no other place for these words.

mod recovery;
mod words;

use std::time::Duration;

pub use words::plural;

use super::container::{ContainerState, Namespace};
use super::profile::SystemName;
use super::verdict::WayBack;

/// One reason behind a verdict.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Evidence {
    /// A live session uses it.
    LiveSession {
        /// The session's id.
        session: String,
        /// What a person would call it.
        title: Option<String>,
        /// Time since its last activity, if known.
        quiet: Option<Duration>,
        /// Whether the store says that it is live, or its activity does.
        declared: bool,
    },
    /// More live sessions than are named.
    MoreLiveSessions(usize),
    /// Commands run in it.
    RunningExec(usize),
    /// Something runs in it that nobody is connected to any more.
    AtWork {
        /// How many processes.
        count: usize,
        /// The name of one of them; its arguments may be secret.
        program: String,
    },
    /// Something runs in it that may be somebody's work, or the container's own.
    MayBeWork {
        /// How many processes.
        count: usize,
        /// The name of one of them.
        program: String,
        /// Whether it looks like what a command has left behind; else it began long after the container.
        stray: bool,
    },
    /// Its first process is a shell on a terminal.
    ShellOnTerminal(String),
    /// Its first process reads from whoever started it.
    MayBeAttached(String),
    /// What runs in it cannot be told.
    ProcessesUnreadable(String),
    /// A container that runs lives in one of its namespaces.
    NamespaceShared {
        /// Which.
        namespace: Namespace,
        /// The container's name.
        by: String,
    },
    /// A container that runs could not be asked whether it lives in one of its namespaces.
    NeighbourUnreadable(String),
    /// Another container runs, as it does only while what this one belongs to is at work.
    CompanionRuns(String),
    /// Sessions claim it, none of them live.
    QuietSessions {
        /// How many.
        count: usize,
        /// How many of them have ended.
        ended: usize,
    },
    /// How long it has been quiet, and how long it may be.
    WithinLifetime {
        /// Time since the newest sign of use.
        quiet: Duration,
        /// How long it may be quiet.
        lifetime: Duration,
    },
    /// Quiet for too long.
    QuietPastLifetime {
        /// Time since the newest sign of use.
        quiet: Duration,
        /// How long it may be quiet.
        lifetime: Duration,
    },
    /// Not persistent, and every session has ended.
    AllSessionsEnded {
        /// How many.
        count: usize,
        /// Time since the last one ended, if known.
        ago: Option<Duration>,
    },
    /// Its configuration is not the current one.
    ConfigOutdated {
        /// Its hash.
        hash: String,
        /// The current hash.
        expected: String,
        /// Where the current hash comes from.
        source: HashSource,
    },
    /// The current hash cannot be told, so nothing is outdated by it.
    ConfigUndecided,
    /// Its image tag names another image now.
    ImageMoved {
        /// The tag.
        reference: String,
        /// The image it was made from.
        image_id: String,
        /// The image the tag names now.
        now: String,
    },
    /// No session claims it.
    NoSession {
        /// How old it is.
        age: Duration,
        /// What it is doing.
        state: ContainerState,
        /// Whether the system has a session store that could claim it.
        has_store: bool,
    },
    /// What it was given is gone, so whatever it was made for is over.
    PathGone(String),
    /// Whether what it was given is still there cannot be told.
    PathUnsure {
        /// Which path.
        path: String,
        /// Why.
        why: String,
    },
    /// Older than anything in it may take.
    TooOld {
        /// How old it is.
        age: Duration,
        /// How old it may get.
        limit: Duration,
    },
    /// Nothing claims it, and nothing shows that it is over.
    MayBeInUse {
        /// How old it is.
        age: Duration,
        /// What it is doing.
        state: ContainerState,
        /// How old it may get, if that is known.
        limit: Option<Duration>,
    },
    /// Made, or started by somebody, less than the grace ago.
    TooNew {
        /// How long ago.
        age: Duration,
        /// Whether it was made earlier and started then.
        started: bool,
        /// The grace.
        grace: Duration,
    },
    /// Open sessions claim it, so it stays although it is to go.
    OpenSessions {
        /// How many.
        count: usize,
        /// Time since the newest sign of use.
        quiet: Duration,
        /// How long it may be quiet.
        limit: Duration,
    },
    /// Its session's store no longer has it, and never said that it ended.
    VanishedSessions(usize),
    /// Marked for eviction.
    DrainMarked {
        /// Time since then.
        ago: Duration,
        /// By whom.
        by: String,
    },
    /// A session store could not be read, so a session may need it.
    StoreUnreadable {
        /// Where.
        path: String,
        /// Why.
        fault: String,
    },
    /// A session store no longer has sessions that it had, so it may be the wrong one.
    StoreSuspect {
        /// Where.
        path: String,
        /// How many open sessions it no longer has.
        vanished: usize,
        /// Whether one of them was live.
        live: bool,
        /// For how much longer it is doubted.
        left: Duration,
    },
    /// A session store that is new here claims none of its system's containers, so it may be the wrong one.
    StoreUnproven {
        /// Where.
        path: String,
        /// For how much longer it is doubted.
        left: Duration,
    },
    /// Facts are too old to judge by.
    FactsTooOld {
        /// Which.
        source: String,
        /// How old.
        age: Duration,
    },
    /// The engine did not answer the newest question.
    EngineFailed(String),
    /// The wall clock jumped, so silence proves nothing.
    ClockStepped(Duration),
    /// An unknown word for its state.
    StateNotRecognised(String),
    /// Being removed by somebody.
    BeingRemoved,
    /// Its row in the engine's list could not be read.
    RowUnreadable(String),
    /// Its inspect failed.
    InspectFailed(String),
    /// The labels that make it the system's come from its image.
    LabelsFromImage {
        /// The labels, as `key=value`.
        labels: String,
        /// The image.
        image: String,
    },
    /// The image cannot be asked for its labels.
    ImageUnverifiable {
        /// The image.
        image: String,
        /// Why.
        why: String,
    },
    /// Several profiles claim it.
    Disputed(Vec<SystemName>),
    /// Sessions of several stores claim it.
    SeveralStores(Vec<String>),
    /// It belongs to an installation whose store is not read here.
    HomeNotRead(String),
    /// Nothing shows to which installation it belongs.
    HomeUnclear,
    /// Several installations share the engine, and none was named as ours.
    SeveralInstances(Vec<String>),
    /// It belongs to another installation.
    OtherInstance {
        /// Whose it is.
        instance: String,
        /// Which is ours.
        ours: String,
    },
    /// It belongs to an installation that nobody named, and of which our store claims nothing.
    InstanceUnproven(String),
    /// It does not say to which installation it belongs, on an engine where others do.
    NoInstance {
        /// Which is ours.
        ours: String,
    },
    /// Whether a session is live cannot be told.
    LivenessUnclear {
        /// The session.
        session: String,
        /// Why.
        why: String,
    },
    /// A session's time of activity cannot be read.
    ActivityUnreadable {
        /// The session.
        session: String,
        /// Why.
        why: String,
    },
    /// Its lifetime label cannot be read.
    LifetimeUnreadable(String),
    /// Its persistence label cannot be read.
    PersistenceUnreadable(String),
    /// The profile recognises this form of container but cannot read its sessions.
    Undecidable(String),
    /// The user's profile is broken.
    ProfileBroken(String),
    /// The container a session needs is not there.
    ContainerGone {
        /// What the session calls it.
        container: String,
    },
    /// The container a session is in has ended.
    ContainerEnded {
        /// Which.
        container: String,
    },
    /// How it ended or went.
    Departed {
        /// In words.
        how: String,
        /// Time since then.
        ago: Duration,
    },
    /// When it was last here.
    LastSeen {
        /// Time since then.
        ago: Duration,
    },
    /// The keeper removed it.
    RemovedByUs {
        /// Time since then.
        ago: Duration,
        /// At whose wish.
        by: String,
    },
    /// It was stopped and renamed instead of being removed.
    Quarantined {
        /// Time since then.
        ago: Duration,
        /// By whom.
        by: String,
        /// How long it stays.
        left: Duration,
    },
    /// It bears the name of one in quarantine, but nothing that can be read says so.
    QuarantineUnrecorded,
    /// It is not brought back any more unless somebody asks.
    GivenUp {
        /// How often that was tried.
        tries: usize,
        /// What came of the last time.
        reason: String,
    },
    /// How it can be brought back.
    Comeback(WayBack),
    /// The session is still open, though not live.
    SessionOpen {
        /// Time since its last activity, if known.
        quiet: Option<Duration>,
    },
}

/// Where the current config hash comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HashSource {
    /// The newest container of the system.
    Newest,
    /// The profile.
    Profile,
    /// The operator.
    Operator,
}

impl Evidence {
    /// Whether it says that something could not be read, as opposed to what was read.
    pub fn is_unavailability(&self) -> bool {
        matches!(
            self,
            Self::StoreUnreadable { .. }
                | Self::StoreSuspect { .. }
                | Self::StoreUnproven { .. }
                | Self::FactsTooOld { .. }
                | Self::EngineFailed(_)
                | Self::RowUnreadable(_)
                | Self::InspectFailed(_)
                | Self::ProcessesUnreadable(_)
                | Self::NeighbourUnreadable(_)
                | Self::ImageUnverifiable { .. }
                | Self::LivenessUnclear { .. }
                | Self::ActivityUnreadable { .. }
                | Self::ProfileBroken(_)
                | Self::QuarantineUnrecorded
                | Self::ClockStepped(_)
        )
    }
}

impl Evidence {
    /// Where it was learnt: `engine`, `sessions`, or in a few words elsewhere.
    pub fn origin(&self) -> &'static str {
        match self {
            Self::LiveSession { .. }
            | Self::MoreLiveSessions(_)
            | Self::QuietSessions { .. }
            | Self::WithinLifetime { .. }
            | Self::QuietPastLifetime { .. }
            | Self::AllSessionsEnded { .. }
            | Self::NoSession { .. }
            | Self::OpenSessions { .. }
            | Self::VanishedSessions(_)
            | Self::StoreUnreadable { .. }
            | Self::StoreSuspect { .. }
            | Self::StoreUnproven { .. }
            | Self::LivenessUnclear { .. }
            | Self::ActivityUnreadable { .. }
            | Self::SessionOpen { .. } => "sessions",
            Self::DrainMarked { .. }
            | Self::LastSeen { .. }
            | Self::RemovedByUs { .. }
            | Self::Quarantined { .. }
            | Self::QuarantineUnrecorded
            | Self::GivenUp { .. }
            | Self::Comeback(_) => "our own state",
            Self::ClockStepped(_) | Self::FactsTooOld { .. } => "the clock",
            Self::Undecidable(_) | Self::ProfileBroken(_) | Self::Disputed(_) => "profile",
            _ => "engine",
        }
    }
}
