//! One simulated container: what it was made with, what it is doing, and what it has printed.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Value};

use crate::engine::sim::program::{Output, Program};

/// What a container is doing.
#[derive(Clone, Debug, PartialEq)]
pub enum Phase {
    /// Made, never started.
    Created,
    /// Its program runs.
    Running(Run),
    /// Its program is frozen; since when.
    Paused(Run, Timestamp),
    /// Between two runs; when the next begins.
    Restarting(Timestamp),
    /// Its program has ended.
    Exited,
    /// A removal failed half-way.
    Dead,
    /// A word that only this engine knows.
    Strange(String),
}

/// One run of a container's program.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    /// When it would have begun had it never been paused.
    pub(super) began: Timestamp,
    pub(super) pid: u32,
    /// When and with which code it ends because of a signal.
    pub(super) dies: Option<(Timestamp, i32)>,
}

impl Phase {
    /// The engine's word.
    pub fn word(&self) -> &str {
        match self {
            Self::Created => "created",
            Self::Running(_) => "running",
            Self::Paused(..) => "paused",
            Self::Restarting(_) => "restarting",
            Self::Exited => "exited",
            Self::Dead => "dead",
            Self::Strange(word) => word,
        }
    }

    /// Whether the engine counts it as running.
    pub fn is_up(&self) -> bool {
        matches!(self, Self::Running(_) | Self::Paused(..) | Self::Restarting(_))
    }

    pub(super) fn run(&self) -> Option<&Run> {
        match self {
            Self::Running(run) | Self::Paused(run, _) => Some(run),
            _ => None,
        }
    }

    pub(in crate::engine::sim) fn pid(&self) -> u32 {
        self.run().map_or(0, |run| run.pid)
    }
}

/// A stop that waits for the program to end.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Stopping {
    /// When patience ends; `None` never.
    pub(super) kill_at: Option<Timestamp>,
    /// How many ask for it.
    pub(super) askers: usize,
}

/// When a container is started again by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Restart {
    Never,
    Always,
    UnlessStopped,
    OnFailure { most: u64 },
}

impl Restart {
    fn of(host_config: &Map<String, Value>) -> Self {
        let policy = host_config.get("RestartPolicy");
        let field = |name| policy.and_then(|policy| policy.get(name));
        match field("Name").and_then(Value::as_str) {
            Some("always") => Self::Always,
            Some("unless-stopped") => Self::UnlessStopped,
            Some("on-failure") => {
                let most = field("MaximumRetryCount").and_then(Value::as_u64).unwrap_or_default();
                Self::OnFailure { most }
            }
            _ => Self::Never,
        }
    }
}

/// A line that a program has printed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::engine::sim) struct LogLine {
    pub(in crate::engine::sim) at: Timestamp,
    pub(in crate::engine::sim) output: Output,
    pub(in crate::engine::sim) line: String,
}

/// A container as a scene wants to find it, whatever led there.
#[derive(Clone, Debug, Default)]
pub struct Placed {
    /// Its name.
    pub name: String,
    /// The image reference it was made from.
    pub image: String,
    /// The id of the image it was made from; the one the reference names now when empty.
    pub image_id: String,
    /// Its labels, without those of the image.
    pub labels: BTreeMap<String, String>,
    /// Its command line.
    pub command: Vec<String>,
    /// What that does.
    pub program: Program,
    /// `Config`, as far as it differs from the defaults.
    pub config: Map<String, Value>,
    /// `HostConfig`, likewise.
    pub host_config: Map<String, Value>,
    /// The engine's word for what it is doing.
    pub state: String,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it was started, if it was.
    pub started_at: Option<Timestamp>,
    /// When it ended, if it did.
    pub finished_at: Option<Timestamp>,
    /// The exit code of its last run.
    pub exit_code: i32,
    /// What it has printed in earlier runs, line by line.
    pub printed: Vec<String>,
    /// The paths it has changed in its file system.
    pub changes: Vec<String>,
    /// How many bytes it has written there.
    pub written_bytes: u64,
}

/// A container.
#[derive(Clone, Debug)]
pub struct SimContainer {
    /// Its full id.
    pub id: String,
    /// Its name, without a slash.
    pub name: String,
    /// The image reference it was made from.
    pub image: String,
    /// The id of that image.
    pub image_id: String,
    /// Its labels, those of the image included.
    pub labels: BTreeMap<String, String>,
    /// What it is doing.
    pub phase: Phase,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it last started.
    pub started_at: Option<Timestamp>,
    /// When it last ended.
    pub finished_at: Option<Timestamp>,
    /// The exit code of its last run.
    pub exit_code: i32,
    /// How often it was started again by itself.
    pub restart_count: u64,
    pub(in crate::engine::sim) command: Vec<String>,
    pub(in crate::engine::sim) config: Map<String, Value>,
    /// `HostConfig`, as it was asked for.
    pub host_config: Map<String, Value>,
    pub(in crate::engine::sim) error: String,
    pub(in crate::engine::sim) exec_ids: BTreeSet<String>,
    pub(in crate::engine::sim) left_behind: Vec<LeftBehind>,
    pub(in crate::engine::sim) changes: Vec<String>,
    pub(in crate::engine::sim) written_bytes: u64,
    /// `None` when the image has no such command.
    pub(super) program: Option<Program>,
    pub(super) stopping: Option<Stopping>,
    pub(super) removal_waits: bool,
    pub(super) manually_stopped: bool,
    pub(super) back_off: Duration,
    earlier_log: Vec<LogLine>,
    processor: Processor,
}

/// A process of which the engine knows nothing.
#[derive(Clone, Debug)]
pub(in crate::engine::sim) struct LeftBehind {
    pub(in crate::engine::sim) pid: u32,
    pub(in crate::engine::sim) began: Timestamp,
    pub(in crate::engine::sim) command: Vec<String>,
    /// Whether it is a command that the engine has forgotten, or what one has put into the background.
    pub(in crate::engine::sim) is_command: bool,
}

/// How much of a processor it uses, and has used.
#[derive(Clone, Debug)]
struct Processor {
    percent: u32,
    since: Timestamp,
    used: Duration,
}

impl SimContainer {
    pub(super) fn new(id: String, placed: Placed, phase: Phase, program: Option<Program>) -> Self {
        let at = placed.started_at.unwrap_or(placed.created_at);
        let printed = placed.printed.into_iter();
        Self {
            id,
            name: placed.name,
            image: placed.image,
            image_id: placed.image_id,
            labels: placed.labels,
            phase,
            created_at: placed.created_at,
            started_at: placed.started_at,
            finished_at: placed.finished_at,
            exit_code: placed.exit_code,
            restart_count: 0,
            command: placed.command,
            config: placed.config,
            host_config: placed.host_config,
            error: String::new(),
            exec_ids: BTreeSet::new(),
            left_behind: Vec::new(),
            changes: placed.changes,
            written_bytes: placed.written_bytes,
            program,
            stopping: None,
            removal_waits: false,
            manually_stopped: false,
            back_off: Duration::ZERO,
            earlier_log: printed.map(|line| LogLine { at, output: Output::Out, line }).collect(),
            processor: Processor { percent: 0, since: at, used: Duration::ZERO },
        }
    }

    pub(super) fn restart_rule(&self) -> Restart {
        Restart::of(&self.host_config)
    }

    pub(super) fn auto_remove(&self) -> bool {
        self.host_config.get("AutoRemove").and_then(Value::as_bool).unwrap_or(false)
    }

    /// When its program ends, if nobody interferes any more.
    pub(super) fn ends(&self) -> Option<(Timestamp, i32)> {
        let Phase::Running(run) = &self.phase else { return None };
        let program = self.program.as_ref()?;
        let by_itself =
            program.runs_for().and_then(|time| Some((run.began.checked_add(time).ok()?, program.exit_code)));
        by_itself.into_iter().chain(run.dies).min_by_key(|(at, _)| *at)
    }

    /// Everything it has printed so far, the oldest first.
    pub(in crate::engine::sim) fn log(&self, now: Timestamp) -> Vec<LogLine> {
        let mut log = self.earlier_log.clone();
        log.extend(self.log_of_run(now));
        log
    }

    fn log_of_run(&self, now: Timestamp) -> Vec<LogLine> {
        let (Some(program), Some((began, ran))) = (&self.program, self.ran(now)) else { return Vec::new() };
        let said = program.said(ran).into_iter();
        said.filter_map(|said| {
            let at = began.checked_add(said.after).ok()?;
            Some(LogLine { at, output: said.output, line: said.line })
        })
        .collect()
    }

    /// When it next prints something, if it does.
    pub(in crate::engine::sim) fn next_word(&self, now: Timestamp) -> Option<Timestamp> {
        let Phase::Running(_) = &self.phase else { return None };
        let (began, ran) = self.ran(now)?;
        began.checked_add(self.program.as_ref()?.next_word(ran)?).ok()
    }

    fn ran(&self, now: Timestamp) -> Option<(Timestamp, Duration)> {
        let (run, until) = match &self.phase {
            Phase::Running(run) => (run, now),
            Phase::Paused(run, since) => (run, *since),
            _ => return None,
        };
        Some((run.began, Duration::try_from(until.duration_since(run.began)).unwrap_or_default()))
    }

    /// Keeps what the ending run has printed.
    pub(super) fn keep_log(&mut self, now: Timestamp) {
        const KEPT: usize = 2000;
        let mut lines = self.log_of_run(now);
        self.earlier_log.append(&mut lines);
        let surplus = self.earlier_log.len().saturating_sub(KEPT);
        self.earlier_log.drain(..surplus);
    }

    /// From now on it uses this much of one processor.
    pub(super) fn use_processor(&mut self, now: Timestamp, percent: u32) {
        let used = self.processor_time(now);
        self.processor = Processor { percent, since: now, used };
    }

    /// How busy it is, in percent of one processor.
    pub(in crate::engine::sim) fn load(&self) -> u32 {
        if matches!(self.phase, Phase::Running(_)) { self.processor.percent } else { 0 }
    }

    /// How much processor time it has used.
    pub(in crate::engine::sim) fn processor_time(&self, now: Timestamp) -> Duration {
        let since = now.duration_since(self.processor.since).max(SignedDuration::ZERO).unsigned_abs();
        self.processor.used + since.saturating_mul(self.load()) / 100
    }
}
