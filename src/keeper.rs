//! The keeper: the only part that acts, and the only holder of an [`EngineControl`].
//!
//! A plan that was confirmed is consumed here, once. Its intents are in the journal, on disk, before the first request
//! goes out; each item then passes the protocol by itself, side by side with others, and one that fails stops none.

mod aside;
mod check;
mod comeback;
mod folders;
mod journal;
mod lock;
mod made;
mod outcome;
mod protocol;
mod secrets;
mod sources;

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use jiff::Timestamp;
use thiserror::Error;
use tokio::sync::{Semaphore, mpsc};
use tokio_util::sync::CancellationToken;

use crate::domain::container::{Container, Row};
use crate::domain::plan::{Action, Intent, Item, Plan, Reason};
use crate::domain::snapshot::Snapshot;
use crate::domain::{ContainerId, Policy, Verdict};
use crate::engine::{Endpoint, EngineControl, EngineFault, EngineView};
use crate::environment::Environment;
use crate::recovery::record as record_specs;
use crate::state::{ItemRecord, PlanRecord, State, StateFault, Step};
use crate::watch::WatchedSystem;
use check::Checker;
use comeback::Comeback;
pub use folders::FolderOutcome;
use journal::Journal;
pub use lock::{KeeperLock, LockFault, Seat};

/// How often it is looked whether the pause after a failed comeback is over.
pub const HEAL_PACE: Duration = Duration::from_millis(250);
pub use outcome::{Ending, ItemOutcome, Progress};
use protocol::{Ended, Removal};
use secrets::Secrets;

/// How many items are worked on at once when the operator sets no limit.
const AT_ONCE: usize = 8;
/// How many items wait for their stop at once when the operator sets no limit: a stop costs the engine nothing but time.
const STOPS_AT_ONCE: usize = 64;

/// How long an engine may take to do a thing, however impatient the operator is with its answers.
const ACT_PATIENCE: Duration = Duration::from_secs(30);

/// Why nothing was done.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum KeeperFault {
    /// The plan waited too long.
    #[error("the plan is older than 30 s and was not carried out; make a new one")]
    Expired,
    /// Facts are not good enough.
    #[error("nothing was done, because evidence is unavailable: {0}")]
    NoEvidence(String),
    /// The state cannot be written.
    #[error(transparent)]
    State(#[from] StateFault),
    /// Somebody else is at work.
    #[error(transparent)]
    Lock(#[from] LockFault),
    /// The engine cannot be reached.
    #[error(transparent)]
    Engine(#[from] EngineFault),
}

/// How a plan is carried out.
#[derive(Clone, Debug, Default)]
pub struct Manner {
    /// How long a graceful stop waits; the profile's or policy's word holds without it.
    pub grace: Option<Duration>,
    /// How many items at once; without it eight are worked on while any number waits for its stop.
    pub concurrency: Option<usize>,
    /// Where what a container has written inside itself is saved before it is removed.
    pub export: Option<PathBuf>,
}

/// The keeper of one host. It exists only while it holds the lock.
#[derive(Debug)]
pub struct Keeper {
    control: EngineControl,
    engine: EngineView,
    journal: Journal,
    folder: PathBuf,
    host: String,
    who: String,
    policy: Policy,
    patience: Duration,
    _lock: KeeperLock,
}

/// A begun item of an earlier, killed program, and what the engine says of it now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leftover {
    /// The sentence for the operator.
    pub sentence: String,
    item: i64,
    detail: String,
}

impl Keeper {
    /// Makes a keeper out of the lock, the state and the engine.
    pub fn new(
        lock: KeeperLock,
        folder: &Path,
        endpoint: &Endpoint,
        who: String,
        policy: Policy,
        patience: Duration,
    ) -> Result<Self, KeeperFault> {
        Ok(Self {
            control: EngineControl::new(endpoint, patience.max(ACT_PATIENCE))?,
            engine: EngineView::new(endpoint.clone(), patience),
            journal: Journal::new(State::open(folder)?),
            folder: folder.to_owned(),
            host: endpoint.address.identity(),
            who,
            policy,
            patience,
            _lock: lock,
        })
    }

    /// What an earlier program began and did not finish, with the engine's word on it. Nothing is repeated. Each is to
    /// be told, then closed with [`Keeper::close`], so that it is told once and never lost.
    pub async fn leftovers(&self, folder: &Path) -> Result<Vec<Leftover>, KeeperFault> {
        let Some(state) = State::open_to_read(folder)? else { return Ok(Vec::new()) };
        let mut leftovers = Vec::new();
        for unfinished in state.unfinished(&self.host)? {
            let now = match ContainerId::parse(&unfinished.container) {
                None => "its id is not readable".to_owned(),
                Some(id) => match self.engine.inspect(&id).await {
                    Ok(Some(container)) => format!("the engine says it is {} now", container.state),
                    Ok(None) => "the engine says it is gone".to_owned(),
                    Err(fault) => return Err(fault.into()),
                },
            };
            let reached = match unfinished.last_step.as_deref() {
                None => "before anything was done",
                Some("stopping") => "before its stop was confirmed",
                Some("stopped") => "after it was stopped",
                Some("removing") => "before its removal was confirmed",
                Some("rescuing") => "before the start that undoes its stop was confirmed",
                Some("renaming") => "before its new name was confirmed",
                Some("creating") => "before the making of another one was confirmed",
                Some("created" | "starting") => "after another one was made, before that had taken its place",
                Some(_) => "in the middle",
            };
            let short: String = unfinished.container.chars().take(12).collect();
            let sentence = format!(
                "{} ({short}): {} by {} at {} was interrupted {reached}; {now}",
                unfinished.name, unfinished.action, unfinished.who, unfinished.at
            );
            let detail = format!("interrupted {reached}; {now}");
            leftovers.push(Leftover { sentence, item: unfinished.item, detail });
        }
        Ok(leftovers)
    }

    /// Writes down what became of a leftover that was told.
    pub async fn close(&self, leftover: Leftover) -> Result<(), KeeperFault> {
        Ok(self.journal.step(leftover.item, Step::Outcome, leftover.detail).await?)
    }

    /// Takes away the marks of containers that are gone. A list that lacks one is a hint; the engine is asked for each.
    pub async fn tidy_marks(&self, snapshot: &Snapshot) -> Result<usize, KeeperFault> {
        if snapshot.engine.unusable(Timestamp::now(), self.policy.max_evidence_age).is_some() {
            return Ok(0);
        }
        let present: HashSet<&ContainerId> = snapshot
            .engine
            .value
            .iter()
            .filter_map(|row| match row {
                Row::Container(container) => Some(&container.id),
                Row::Unreadable(row) => row.id.as_ref(),
            })
            .collect();
        let mut cleared = 0;
        for id in snapshot.drains.keys().filter(|id| !present.contains(id)) {
            if matches!(self.engine.inspect(id).await, Ok(None)) {
                cleared += usize::from(self.journal.clear_mark(&self.host, id).await?);
            }
        }
        Ok(cleared)
    }

    /// Takes the mark from a container, and writes down who did; says whether there was one.
    pub async fn undrain(&self, verdict: &Verdict) -> Result<bool, KeeperFault> {
        let Some(id) = verdict.subject.id() else { return Ok(false) };
        let plan =
            PlanRecord { host: self.host.clone(), who: self.who.clone(), intent: "undrain".to_owned() };
        let item = ItemRecord {
            container: id.to_string(),
            name: verdict.subject.name().to_owned(),
            system: verdict.system.as_ref().map(ToString::to_string),
            workspace: verdict.workspace.clone(),
            status: verdict.status.to_string(),
            action: "undrain".to_owned(),
            reason: Reason::Asked.to_string(),
            started_at: verdict.subject.container().and_then(Container::started_at),
        };
        let numbers = self.journal.begin(plan, vec![item]).await?;
        let cleared = self.journal.clear_mark(&self.host, id).await?;
        for number in numbers {
            let outcome = if cleared { "no longer draining" } else { "it was not draining" };
            self.journal.step(number, Step::Outcome, outcome).await?;
        }
        Ok(cleared)
    }

    /// Carries out a plan that was shown and confirmed. `cancel` lets no new item begin; what has begun is finished.
    pub async fn carry_out(
        &self,
        plan: Plan,
        snapshot: &Snapshot,
        systems: Vec<WatchedSystem>,
        manner: Manner,
        progress: mpsc::Sender<Progress>,
        cancel: &CancellationToken,
    ) -> Result<Vec<ItemOutcome>, KeeperFault> {
        let now = Timestamp::now();
        if plan.has_expired(now) {
            return Err(KeeperFault::Expired);
        }
        if let Some(why) = snapshot.engine.unusable(now, self.policy.max_evidence_age) {
            return Err(KeeperFault::NoEvidence(why.to_string()));
        }
        if snapshot.host.identity != self.host {
            return Err(KeeperFault::NoEvidence("the plan was made for another engine".to_owned()));
        }
        let (intent, brakes) = (plan.intent().clone(), plan.brakes().to_vec());
        let items = plan.into_items();
        self.record(&items, snapshot).await;
        let numbers = self.begin(&intent, &items).await?;
        let grace_of: std::collections::HashMap<_, _> = snapshot
            .systems
            .iter()
            .map(|system| {
                (system.profile.name.clone(), system.profile.stop_grace.unwrap_or(self.policy.stop_grace))
            })
            .collect();
        let concurrency = manner.concurrency.unwrap_or(AT_ONCE).max(1);
        // The stores are read one after the other.
        let patience = self.patience * u32::try_from(snapshot.systems.len().max(1)).unwrap_or(1);
        let (engine, policy) = (self.engine.clone(), self.policy.clone());
        let base = (snapshot.clone(), brakes);
        let checker = Checker::new(engine, base, systems, policy, intent, concurrency, patience);
        let work = Semaphore::new(concurrency);
        // Comebacks go one after the other: what one brings back, another need not make.
        let brings_back = items.iter().any(|item| item.action.is_recovery());
        let at_once = if brings_back { 1 } else { manner.concurrency.unwrap_or(STOPS_AT_ONCE).max(1) };
        let (checker, work, progress) = (&checker, &work, &progress);
        let (grace_of, export) = (&grace_of, manner.export.as_deref());
        let runs = items.into_iter().zip(numbers).enumerate().map(|(index, (item, number))| async move {
            let began = Instant::now();
            let Some(number) = number else {
                let reason = item.reason.to_string();
                let outcome = ItemOutcome {
                    item,
                    ending: Ending::Kept,
                    reason,
                    evidence_missing: false,
                    unjournalled: None,
                    duration: Duration::ZERO,
                };
                return (index, outcome);
            };
            if item.action.is_recovery() {
                let outcome = self.bring_back(item, number, index, snapshot, progress, cancel).await;
                return (index, outcome);
            }
            let of_system = item.system.as_ref().and_then(|system| grace_of.get(system)).copied();
            let removal = Removal {
                control: &self.control,
                engine: &self.engine,
                checker,
                journal: &self.journal,
                work,
                host: &self.host,
                who: &self.who,
                grace: manner.grace.or(of_system).unwrap_or(self.policy.stop_grace),
                grace_named: manner.grace.is_some(),
                quarantine_for: self.policy.recovery.quarantine_for,
                export,
                item: &item,
                number,
                index,
                progress,
                cancel,
            };
            let mut ended = removal.carry_out().await;
            let left_behind = if ended.ending == Ending::Removed && !item.binds.is_empty() {
                format!("; left behind: {}", item.binds.join(", "))
            } else {
                String::new()
            };
            if let (Ending::Removed, Some(id)) = (ended.ending, &item.id)
                && let Err(fault) = self.note_removed(id, now).await
            {
                ended.unwritten.get_or_insert(fault);
            }
            if let (Ending::Removed | Ending::AlreadyGone, Some(id)) = (ended.ending, &item.id)
                && checker.mark_on(id).is_some()
            {
                // A mark on what is gone is tidied up again by the next run if this fails.
                let _ = self.journal.clear_mark(&self.host, id).await;
            }
            (index, self.finish((index, number, began), item, ended, &left_behind, progress).await)
        });
        let mut outcomes: Vec<(usize, ItemOutcome)> =
            futures_util::stream::iter(runs).buffer_unordered(at_once).collect().await;
        outcomes.sort_by_key(|(index, _)| *index);
        Ok(outcomes.into_iter().map(|(_, outcome)| outcome).collect())
    }

    /// Records how everything that goes was made, so that it can be undone. What cannot be recorded goes all the same.
    async fn record(&self, items: &[Item], snapshot: &Snapshot) {
        let going = |item: &&Item| item.action.removes() || item.action == Action::Quarantine;
        let going: HashSet<ContainerId> =
            items.iter().filter(going).filter_map(|item| item.id.clone()).collect();
        let _ = record_specs(&self.engine, snapshot, &self.folder, &self.policy, &going).await;
    }

    /// What the keeper removed is nobody's loss, and can be undone if it is recorded.
    async fn note_removed(&self, id: &ContainerId, at: Timestamp) -> Result<(), StateFault> {
        let (host, who, id) = (self.host.clone(), self.who.clone(), id.clone());
        // Without it the removal can only be undone as long as somebody misses it.
        let written = self.journal.perform(move |state| {
            state.set_removed(&host, &id, at, &who)?;
            state.end_quarantine(&host, &id).map(|_| ())
        });
        written.await
    }

    /// Brings one container back.
    async fn bring_back(
        &self,
        item: Item,
        number: i64,
        index: usize,
        snapshot: &Snapshot,
        progress: &mpsc::Sender<Progress>,
        cancel: &CancellationToken,
    ) -> ItemOutcome {
        let began = Instant::now();
        // Known before it begins: what is brought back under another id is forgotten under this one.
        let secrets = match &item.id {
            Some(id) => Secrets::of(&self.folder, &self.host, &self.engine, id).await,
            None => Secrets::default(),
        };
        let comeback = Comeback {
            control: &self.control,
            engine: &self.engine,
            journal: &self.journal,
            folder: &self.folder,
            host: &self.host,
            policy: &self.policy,
            snapshot,
            item: &item,
            number,
            index,
            progress,
        };
        let ended = if cancel.is_cancelled() {
            Ended::new(Ending::Skipped, "interrupted before it began")
        } else {
            comeback.carry_out().await
        };
        let ended = Ended { reason: secrets.hidden_in(&ended.reason), ..ended };
        self.finish((index, number, began), item, ended, "", progress).await
    }

    /// Writes down how an item ended, and tells everybody. `index` is its place in the plan, `number` the one in the
    /// journal.
    async fn finish(
        &self,
        (index, number, began): (usize, i64, Instant),
        item: Item,
        ended: Ended,
        addition: &str,
        progress: &mpsc::Sender<Progress>,
    ) -> ItemOutcome {
        let mut reason = ended.reason;
        let line = format!("{}: {reason}{addition}", ended.ending.as_str());
        let written = self.journal.step(number, Step::Outcome, line).await;
        let unjournalled = written.err().or(ended.unwritten).map(|fault| fault.to_string());
        if let Some(fault) = &unjournalled {
            reason = format!("{reason} (and it is not journalled: {fault})");
        }
        let outcome = ItemOutcome {
            ending: ended.ending,
            reason,
            evidence_missing: ended.evidence_missing,
            unjournalled,
            duration: began.elapsed(),
            item,
        };
        let _ = progress.send(Progress::Finished { index, outcome: Box::new(outcome.clone()) }).await;
        outcome
    }

    /// Step 5: every intent that changes something is on disk before the first request goes out.
    async fn begin(&self, intent: &Intent, items: &[Item]) -> Result<Vec<Option<i64>>, KeeperFault> {
        let changing = |item: &Item| item.action != Action::Keep && item.id.is_some();
        let records: Vec<ItemRecord> = items.iter().filter(|item| changing(item)).map(record).collect();
        let plan =
            PlanRecord { host: self.host.clone(), who: self.who.clone(), intent: name_of(intent).to_owned() };
        let mut numbers =
            if records.is_empty() { Vec::new() } else { self.journal.begin(plan, records).await? }
                .into_iter();
        Ok(items.iter().map(|item| if changing(item) { numbers.next() } else { None }).collect())
    }
}

fn record(item: &Item) -> ItemRecord {
    ItemRecord {
        container: item.id.as_ref().map(ToString::to_string).unwrap_or_default(),
        name: item.name.clone(),
        system: item.system.as_ref().map(ToString::to_string),
        workspace: item.workspace.clone(),
        status: item.status.to_string(),
        action: item.action.as_str().to_owned(),
        reason: item.reason.to_string(),
        started_at: item.started_at,
    }
}

fn name_of(intent: &Intent) -> &'static str {
    match intent {
        Intent::Reconcile(_) => "reconcile",
        Intent::Stop(_) => "stop",
        Intent::Remove(_) => "remove",
        Intent::ForceRemove(_) => "force remove",
        Intent::Drain(_) => "drain",
        Intent::Evict(_) => "evict",
        Intent::Quarantine(_) => "quarantine",
        Intent::Recreate(_) => "recreate",
        Intent::Undo(_) => "undo",
        Intent::Heal(_) => "heal",
    }
}

/// Who is at the keyboard: the user, and the SSH client he came from.
pub fn who(environment: &Environment) -> String {
    let variable = |name: &str| environment.variables.get(name).filter(|value| !value.is_empty());
    let uid = std::fs::metadata("/proc/self").map(|process| {
        use std::os::unix::fs::MetadataExt;
        process.uid()
    });
    let user = match (variable("USER").or_else(|| variable("LOGNAME")), uid) {
        (Some(user), _) => user.clone(),
        (None, Ok(uid)) => format!("uid {uid}"),
        (None, Err(_)) => "unknown user".to_owned(),
    };
    let client = variable("SSH_CONNECTION").or_else(|| variable("SSH_CLIENT"));
    match client.and_then(|client| client.split_whitespace().next()) {
        Some(client) => format!("{user} from {client}"),
        None => user,
    }
}
