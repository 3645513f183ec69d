//! Containers: facts from the engine, never from a name alone.

mod process;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Serialize, Serializer};

use super::labels::Labels;
pub use process::{HealthCheck, Process, ProcessList, Processes, program_of};

/// The identity of a container: the full 64-hex id. Names and short ids are never identity.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ContainerId(Arc<str>);

impl ContainerId {
    /// Accepts exactly 64 lower-case hex digits.
    pub fn parse(text: &str) -> Option<Self> {
        let full = text.len() == 64 && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
        full.then(|| Self(text.into()))
    }

    /// The whole id.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The first twelve digits, as the engines' own tools print it; for showing, never for addressing.
    pub fn short(&self) -> &str {
        &self.0[..12]
    }
}

impl Serialize for ContainerId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl fmt::Display for ContainerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// The engine's word for what a container is doing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ContainerState {
    /// Made, never started.
    Created,
    /// Its main process runs.
    Running,
    /// Frozen; its processes exist and wait.
    Paused,
    /// Between two runs, by its restart policy.
    Restarting,
    /// Being removed by somebody.
    Removing,
    /// Its main process has ended.
    Exited,
    /// Removal failed half-way.
    Dead,
    /// A word this program does not know; such a container is never touched.
    Unrecognised(String),
}

impl ContainerState {
    /// Reads the engine's word.
    pub fn parse(word: &str) -> Self {
        match word {
            "created" => Self::Created,
            "running" => Self::Running,
            "paused" => Self::Paused,
            "restarting" => Self::Restarting,
            "removing" => Self::Removing,
            "exited" => Self::Exited,
            "dead" => Self::Dead,
            other => Self::Unrecognised(other.to_owned()),
        }
    }

    /// The engine's word again.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Created => "created",
            Self::Running => "running",
            Self::Paused => "paused",
            Self::Restarting => "restarting",
            Self::Removing => "removing",
            Self::Exited => "exited",
            Self::Dead => "dead",
            Self::Unrecognised(word) => word,
        }
    }

    /// Whether processes live in it: bulk clean-up leaves such orphans alone unless told otherwise.
    pub fn holds_processes(&self) -> bool {
        matches!(self, Self::Running | Self::Paused | Self::Restarting)
    }

    /// Whether an engine can list its processes. Between two runs there are none.
    pub fn shows_processes(&self) -> bool {
        matches!(self, Self::Running | Self::Paused)
    }
}

impl fmt::Display for ContainerState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl Serialize for ContainerState {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

/// Something of the host (or of memory) that is mounted into a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// `bind`, `volume`, `tmpfs`, …
    pub kind: String,
    /// The host path of a bind, the name of a volume.
    pub source: String,
    /// The path inside the container.
    pub target: String,
}

/// What only an inspect tells.
#[expect(clippy::struct_excessive_bools, reason = "each is an answer of the engine to a question of its own")]
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Inspection {
    /// The image reference the container was made from; the list shows an id once the tag has moved on.
    pub image_reference: String,
    /// When it last started; `None` if never.
    pub started_at: Option<Timestamp>,
    /// When it last ended; `None` if never.
    pub finished_at: Option<Timestamp>,
    /// The exit code of its last run.
    pub exit_code: Option<i64>,
    /// How many commands run in it through exec right now.
    pub running_execs: usize,
    /// The programs of those commands, as far as the engine tells.
    pub commands: Vec<String>,
    /// Whether the engine removes it by itself as soon as it stops.
    pub auto_remove: bool,
    /// Whether its restart policy has started it again since somebody last did.
    pub restarts_by_itself: bool,
    /// Memory-backed mounts, which a stop loses.
    pub tmpfs: Vec<String>,
    /// Whether its last run ended for want of memory.
    pub out_of_memory: bool,
    /// Its first process, as the engine's host counts.
    pub first_pid: Option<u32>,
    /// How long it was made to be given when it is stopped.
    pub stop_timeout: Option<Duration>,
    /// Whether it has a terminal, and an input on which somebody may type.
    pub terminal: bool,
    /// Whether it was made to be attached to by whoever started it, as with `docker run -i`.
    pub attached: bool,
    /// How the engine looks whether it is well.
    pub health_check: Option<HealthCheck>,
    /// The processes of health checks that run right now, for whoever lists them all; counted like the first.
    pub checking: Vec<u32>,
    /// What runs in it.
    pub processes: Processes,
}

/// A namespace that containers can have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Namespace {
    /// Interfaces and ports.
    Network,
    /// Processes.
    Pid,
    /// Shared memory.
    Ipc,
}

impl fmt::Display for Namespace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Network => "network",
            Self::Pid => "pid",
            Self::Ipc => "ipc",
        })
    }
}

/// In whose namespaces a container lives. That is settled when it is made.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub enum Joins {
    /// Nobody asked.
    #[default]
    NotAsked,
    /// Each with the id or name of the container it belongs to; nearly always there is none.
    Known(Vec<(Namespace, String)>),
    /// The engine did not say.
    Failed,
}

/// Whether and how the inspect of a container went.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub enum Inspected {
    /// Nothing about this container depends on what only an inspect tells.
    #[default]
    NotNeeded,
    /// The engine answered.
    Facts(Box<Inspection>),
    /// The engine did not answer, or not intelligibly.
    Failed(String),
}

/// One container as the engine lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Container {
    /// Identity.
    pub id: ContainerId,
    /// The name without its leading slash; empty when the engine gave none.
    pub name: String,
    /// The image as the list shows it: a reference, or an id once the reference names another image.
    pub image: Arc<str>,
    /// The id of the image it was made from.
    pub image_id: Arc<str>,
    /// Labels, the image's own included.
    pub labels: Labels,
    /// What it is doing.
    pub state: ContainerState,
    /// When it was made.
    pub created_at: Timestamp,
    /// What is mounted into it.
    pub mounts: Arc<[Mount]>,
    /// In whose namespaces it lives.
    pub joins: Joins,
    /// What the inspect added.
    pub inspected: Inspected,
}

impl Container {
    /// Keeps what `known` says in the same words only once. On a host with ten thousand containers a look would otherwise
    /// hold all of it twice.
    pub fn share(&mut self, known: &Self) {
        for (ours, known) in [(&mut self.image, &known.image), (&mut self.image_id, &known.image_id)] {
            if ours == known {
                *ours = Arc::clone(known);
            }
        }
        if self.id == known.id {
            self.id = known.id.clone();
        }
        if self.labels == known.labels {
            self.labels = known.labels.clone();
        }
        if self.mounts == known.mounts {
            self.mounts = Arc::clone(&known.mounts);
        }
    }

    /// The inspection, if there is one.
    pub fn inspection(&self) -> Option<&Inspection> {
        match &self.inspected {
            Inspected::Facts(inspection) => Some(inspection),
            Inspected::NotNeeded | Inspected::Failed(_) => None,
        }
    }

    /// The image reference it was made from, as far as it is known.
    pub fn image_reference(&self) -> &str {
        match self.inspection() {
            Some(inspection) if !inspection.image_reference.is_empty() => &inspection.image_reference,
            _ => &self.image,
        }
    }

    /// When it last started, if an inspect told.
    pub fn started_at(&self) -> Option<Timestamp> {
        self.inspection().and_then(|inspection| inspection.started_at)
    }

    /// When somebody last started it, if an inspect told. What its restart policy starts is nobody's doing.
    pub fn started_by_somebody_at(&self) -> Option<Timestamp> {
        let inspection = self.inspection().filter(|inspection| !inspection.restarts_by_itself);
        inspection.and_then(|inspection| inspection.started_at)
    }
}

/// A row of the engine's list that could not be read whole; it costs itself, never its neighbours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnreadableRow {
    /// The id, if at least that was readable.
    pub id: Option<ContainerId>,
    /// The name, if readable.
    pub name: Option<String>,
    /// The labels, if readable; without them nobody can tell whose container it is.
    pub labels: Option<Labels>,
    /// What was wrong with it.
    pub problem: String,
}

/// One row of the engine's list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Row {
    /// A container.
    Container(Arc<Container>),
    /// A row that could not be read.
    Unreadable(Box<UnreadableRow>),
}
