//! The removal of one container, step by step. Every step is written down before its check, so that nothing but the
//! request itself comes after it; nothing is retried with force, and a stop that was asked for is always waited for.

use std::fmt;
use std::path::Path;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio_util::sync::CancellationToken;

use super::check::{Checker, Finding};
use super::journal::Journal;
use super::outcome::{Ending, Progress};
use crate::domain::ContainerId;
use crate::domain::container::{Container, ContainerState};
use crate::domain::plan::{Action, Item};
use crate::domain::recovery::quarantine_name;
use crate::domain::snapshot::DrainMark;
use crate::domain::span::Precise;
use crate::engine::{EngineControl, EngineFault, EngineView, Permit, RemoveOutcome, StopOutcome};
use crate::recovery::export;
use crate::state::{Mark, StateFault, Step};

/// How something ended, and why.
pub(super) struct Ended {
    pub(super) ending: Ending,
    pub(super) reason: String,
    pub(super) evidence_missing: bool,
    /// What of it could not be written down, and why.
    pub(super) unwritten: Option<StateFault>,
}

impl Ended {
    pub(super) fn new(ending: Ending, reason: impl Into<String>) -> Self {
        Self { ending, reason: reason.into(), evidence_missing: false, unwritten: None }
    }

    pub(super) fn for_lack_of_evidence(ending: Ending, reason: impl Into<String>) -> Self {
        Self { evidence_missing: true, ..Self::new(ending, reason) }
    }
}

impl From<StateFault> for Ended {
    fn from(fault: StateFault) -> Self {
        Self::new(Ending::Failed, fault.to_string())
    }
}

/// Everything one removal needs.
pub(super) struct Removal<'a> {
    pub(super) control: &'a EngineControl,
    pub(super) engine: &'a EngineView,
    pub(super) checker: &'a Checker,
    pub(super) journal: &'a Journal,
    /// How many may ask the engine at once.
    pub(super) work: &'a Semaphore,
    pub(super) host: &'a str,
    pub(super) who: &'a str,
    pub(super) grace: Duration,
    /// Whether the operator named it: then it holds even where the container was made with a longer one.
    pub(super) grace_named: bool,
    pub(super) quarantine_for: Duration,
    /// Where what it has written is saved before it is removed.
    pub(super) export: Option<&'a Path>,
    pub(super) item: &'a Item,
    /// Its number in the journal.
    pub(super) number: i64,
    /// Its place in the plan.
    pub(super) index: usize,
    pub(super) progress: &'a tokio::sync::mpsc::Sender<Progress>,
    /// Once set, nothing new begins.
    pub(super) cancel: &'a CancellationToken,
}

/// How long a container may be between two states (being removed, not quite stopped) before that is its state.
const SETTLING: Duration = Duration::from_secs(10);
/// The longest that a container is given to stop because it was made so.
const LONGEST_GRACE: Duration = Duration::from_mins(10);
/// How often it is looked at meanwhile.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

impl Removal<'_> {
    /// Does what was planned, and says how it ended.
    pub(super) async fn carry_out(&self) -> Ended {
        self.steps().await.unwrap_or_else(|ended| ended)
    }

    async fn steps(&self) -> Result<Ended, Ended> {
        let Some(id) = &self.item.id else { return Err(Ended::new(Ending::Kept, "its id is not known")) };
        self.go_on()?;
        self.write_down_first_step(id).await?;
        let work = self.turn().await?;
        self.go_on()?;
        self.tell(Progress::Begun { index: self.index });
        let (container, permit) = self.check(self.item.action, self.item.started_at).await?;
        let run = container.started_at();
        match self.item.action {
            Action::Keep | Action::Restore | Action::Start | Action::Recreate => {
                Ok(Ended::new(Ending::Kept, self.item.reason.to_string()))
            }
            Action::Drain => self.drain(id, &container).await,
            Action::Remove | Action::ForceRemove => {
                let mut permit = permit;
                if self.export.is_some() {
                    self.save(&container).await?;
                    // Saving takes its time, in which somebody may have come.
                    permit = self.check(self.item.action, self.item.started_at).await?.1;
                }
                self.remove(permit, self.item.action == Action::ForceRemove, work).await
            }
            Action::Stop => {
                drop(work);
                // A journal that cannot be written is told with the outcome.
                let _ = self.stop(permit, &container).await?;
                let _work = self.turn().await?;
                // What came of it is all that is asked here; nothing more is done.
                let _ = self.check_after_stop(id, run).await?;
                Ok(Ended::new(Ending::Stopped, self.item.reason.to_string()))
            }
            Action::Quarantine => self.quarantine(id, &container, permit, work).await,
            Action::StopAndRemove if goes_with_its_stop(&container) => {
                self.remove_by_stop(id, &container, work).await
            }
            Action::StopAndRemove => {
                drop(work);
                let mut journalled = self.stop(permit, &container).await?;
                if journalled.is_ok() {
                    journalled = self.journal.step(self.number, Step::Removing, "").await;
                }
                let saved = self.save(&container).await;
                let work = self.turn().await?;
                let permit = self.check_after_stop(id, run).await?;
                if let Err(failed) = saved {
                    return Err(Ended {
                        reason: format!("{}; it was stopped for that", failed.reason),
                        ..failed
                    });
                }
                if let Err(fault) = journalled {
                    let reason = format!("it was stopped, and is not removed without a journal: {fault}");
                    return Err(Ended::new(Ending::Failed, reason));
                }
                self.remove_what_stopped(permit, run, work).await
            }
        }
    }

    async fn remove_what_stopped(
        &self,
        permit: Permit,
        run: Option<Timestamp>,
        work: SemaphorePermit<'_>,
    ) -> Result<Ended, Ended> {
        let id = permit.id().clone();
        match self.remove(permit, false, work).await {
            Err(failed) if failed.ending == Ending::Failed => {
                // It stays, stopped; whoever came meanwhile must not find it so.
                let _ = self.check_after_stop(&id, run).await?;
                Err(failed)
            }
            ended => ended,
        }
    }

    /// The engine removes it as soon as it stops. So the stop is the removal: written down and checked as one, with what is to
    /// be saved saved before it, and with nobody who could get it back afterwards.
    async fn remove_by_stop(
        &self,
        id: &ContainerId,
        container: &Container,
        work: SemaphorePermit<'_>,
    ) -> Result<Ended, Ended> {
        self.save(container).await?;
        self.journal.step(self.number, Step::Removing, "its stop removes it").await?;
        let (container, permit) = self.check(self.item.action, container.started_at()).await?;
        drop(work);
        let stopped = self.stop(permit, &container).await;
        if self.is_gone_soon(id).await {
            let reason = format!("{}; it went with its stop", self.item.reason);
            return Ok(Ended::new(Ending::Removed, reason));
        }
        // It is still here, whatever the engine was told when it was made.
        stopped??;
        let work = self.turn().await?;
        let permit = self.check_after_stop(id, container.started_at()).await?;
        self.remove_what_stopped(permit, container.started_at(), work).await
    }

    /// Whether it goes within the time that an engine takes to remove what has stopped.
    async fn is_gone_soon(&self, id: &ContainerId) -> bool {
        let until = tokio::time::Instant::now() + SETTLING;
        loop {
            match self.engine.inspect(id).await {
                Ok(None) => return true,
                Ok(Some(container)) if container.state.holds_processes() => return false,
                _ if tokio::time::Instant::now() > until => return false,
                _ => tokio::time::sleep(LOOK_AGAIN).await,
            }
        }
    }

    /// Saves what it has written inside itself, if that was asked for. What cannot be saved is not removed.
    async fn save(&self, container: &Container) -> Result<(), Ended> {
        let Some(folder) = self.export else { return Ok(()) };
        self.tell(Progress::Recovering { index: self.index, word: "saving" });
        match export(self.engine, container, folder).await {
            Ok((place, entries)) => {
                let detail = format!("{entries} entries in {}", place.display());
                Ok(self.journal.step(self.number, Step::Saved, detail).await?)
            }
            Err(fault) => Err(Ended::new(Ending::Failed, format!("it is not removed: {fault}"))),
        }
    }

    /// Nothing new begins once the keeper was interrupted.
    fn go_on(&self) -> Result<(), Ended> {
        if self.cancel.is_cancelled() {
            return Err(Ended::new(Ending::Skipped, "interrupted before it began"));
        }
        Ok(())
    }

    async fn write_down_first_step(&self, id: &ContainerId) -> Result<(), StateFault> {
        let (step, detail) = match self.item.action {
            Action::Keep | Action::Drain | Action::Restore | Action::Start | Action::Recreate => {
                return Ok(());
            }
            // Whether it runs shows with the check; a stop is written down then.
            Action::Quarantine => (Step::Renaming, quarantine_name(id, &self.item.name)),
            Action::Remove => (Step::Removing, String::new()),
            Action::ForceRemove => (Step::Removing, "with force".to_owned()),
            Action::Stop | Action::StopAndRemove => {
                (Step::Stopping, format!("grace {}s", self.grace.as_secs()))
            }
        };
        self.journal.step(self.number, step, detail).await
    }

    /// Waits until the engine may be asked.
    pub(super) async fn turn(&self) -> Result<SemaphorePermit<'_>, Ended> {
        self.work.acquire().await.map_err(|_| Ended::new(Ending::Skipped, "the keeper is closing"))
    }

    /// Steps 1 to 3, before anything was done.
    pub(super) async fn check(
        &self,
        planned: Action,
        same_run: Option<Timestamp>,
    ) -> Result<(std::sync::Arc<Container>, Permit), Ended> {
        match self.settled(planned, same_run).await {
            Finding::Go(container, permit) => Ok((container, permit)),
            Finding::Gone | Finding::Going => {
                Err(Ended::new(Ending::AlreadyGone, "somebody else removed it"))
            }
            Finding::Changed(what) | Finding::InUse(what) | Finding::Unsettled(what) => {
                Err(Ended::new(Ending::Skipped, what))
            }
            Finding::Doubt(why) => Err(Ended::for_lack_of_evidence(Ending::Skipped, why)),
        }
    }

    /// How long it may take to stop: as long as it was made to be given, if that is longer. Nobody waits for hours unasked, and
    /// nobody ends it earlier unasked either.
    fn grace_of(&self, container: &Container) -> Result<Duration, Ended> {
        let own = container.inspection().and_then(|inspection| inspection.stop_timeout);
        match own.filter(|_| !self.grace_named) {
            Some(own) if own > LONGEST_GRACE => {
                let own = if own == Duration::MAX { "any time".to_owned() } else { Precise(own).to_string() };
                let reason = format!(
                    "it was made to be given {own} to stop, and {} is waited for at most; say how long with --grace",
                    Precise(LONGEST_GRACE)
                );
                Err(Ended::new(Ending::Skipped, reason))
            }
            own => Ok(own.unwrap_or_default().max(self.grace)),
        }
    }

    /// Step 7. Waits for the answer however long it takes within grace and margin; when none comes, the outcome is
    /// unknown and nothing more is done. Says whether the journal knows that it stopped.
    pub(super) async fn stop(
        &self,
        permit: Permit,
        container: &Container,
    ) -> Result<Result<(), StateFault>, Ended> {
        let (id, run) = (&container.id, container.started_at());
        let grace = self.grace_of(container)?;
        self.tell(Progress::Stopping { index: self.index, grace });
        let mut stopped = self.control.stop(permit, grace).await;
        if container.state == ContainerState::Paused && matches!(stopped, Err(EngineFault::Status { .. })) {
            // Podman does not stop what is paused. Docker does, and there it never runs on.
            self.journal.step(self.number, Step::Stopping, "unpaused first").await?;
            let (_, permit) = self.check(self.item.action, run).await?;
            stopped = match self.control.unpause(permit).await {
                Ok(()) => match self.check(self.item.action, run).await {
                    Ok((_, permit)) => self.control.stop(permit, grace).await,
                    Err(ended) => return Err(self.paused_again(id, ended).await),
                },
                Err(fault) => Err(fault),
            };
        }
        match stopped {
            Ok(StopOutcome::Stopped | StopOutcome::AlreadyStopped) => {
                // Not before: nothing but the request comes between check and act.
                let given =
                    if grace == self.grace { String::new() } else { format!("it had {}", Precise(grace)) };
                Ok(self.journal.step(self.number, Step::Stopped, given).await)
            }
            Ok(StopOutcome::Gone) => Err(Ended::new(Ending::AlreadyGone, "somebody else removed it")),
            Err(fault @ EngineFault::Outdated(_)) => {
                Err(Ended::for_lack_of_evidence(Ending::Skipped, fault.to_string()))
            }
            Err(fault) => {
                let now = self.fate(id).await;
                if matches!(&now, Fate::There(state) if !state.holds_processes()) {
                    // It stopped all the same.
                    let _ = self.check_after_stop(id, run).await?;
                }
                Err(Ended::new(Ending::Failed, format!("the stop failed: {fault}; {now}")))
            }
        }
    }

    /// Leaves a container that stays as it was found.
    async fn paused_again(&self, id: &ContainerId, ended: Ended) -> Ended {
        let Err(fault) = self.control.pause(Permit::after_look(id, Instant::now())).await else {
            return ended;
        };
        let reason = format!("{}; it was paused, and runs now: {fault}", ended.reason);
        Ended { reason, ..ended }
    }

    /// Step 8. Whoever came while it stopped gets it back. Where nobody did, the next step may be taken.
    pub(super) async fn check_after_stop(
        &self,
        id: &ContainerId,
        run: Option<Timestamp>,
    ) -> Result<Permit, Ended> {
        let only_stopped = self.item.action == Action::Stop;
        let planned = match self.item.action {
            action @ (Action::Stop | Action::Quarantine) => action,
            _ => Action::Remove,
        };
        let gone = || Ended::new(Ending::AlreadyGone, "it was gone after its stop");
        let (why, evidence_missing) = match self.settled(planned, run).await {
            Finding::Go(_, permit) => return Ok(permit),
            Finding::Gone | Finding::Going => return Err(gone()),
            Finding::Changed(why) if only_stopped => match self.fate(id).await {
                Fate::There(state) if !state.holds_processes() => {
                    return Err(Ended::new(Ending::Stopped, self.item.reason.to_string()));
                }
                Fate::Gone => return Err(gone()),
                _ => return Err(Ended::new(Ending::Skipped, format!("after its stop: {why}"))),
            },
            Finding::InUse(why) | Finding::Changed(why) => (why, false),
            Finding::Doubt(why) | Finding::Unsettled(why) => (why, true),
        };
        // A start destroys nothing, and somebody waits for it: it is not kept back for want of a journal.
        let unwritten = self.journal.step(self.number, Step::Rescuing, why.clone()).await.err();
        let mut ended = match self.control.start(Permit::after_look(id, Instant::now())).await {
            Ok(()) => {
                self.renew_mark(id, run).await;
                Ended::new(Ending::Rescued, format!("started again after the stop: {why}"))
            }
            Err(fault) => {
                let now = self.fate(id).await;
                if matches!(now, Fate::Gone) && evidence_missing {
                    return Err(gone());
                }
                let reason =
                    format!("it is needed after all ({why}), but could not be started again: {fault}; {now}");
                Ended::new(Ending::Failed, reason)
            }
        };
        ended.unwritten = unwritten;
        Err(Ended { evidence_missing, ..ended })
    }

    /// The check, once the engine has made up its mind about the state: Podman calls a container `stopped` until it has
    /// cleaned up after it.
    async fn settled(&self, planned: Action, run: Option<Timestamp>) -> Finding {
        let until = tokio::time::Instant::now() + SETTLING;
        loop {
            let finding = self.checker.check(self.item, planned, run).await;
            let between_states = matches!(finding, Finding::Going | Finding::Unsettled(_));
            if !between_states || tokio::time::Instant::now() > until {
                return finding;
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }

    /// The mark for eviction was set on the run that was stopped; the run that was started instead keeps it.
    async fn renew_mark(&self, id: &ContainerId, run: Option<Timestamp>) {
        let Some(mark) = self.checker.mark_on(id).filter(|mark| mark.started_at == run) else { return };
        if let Ok(Some(container)) = self.engine.inspect(id).await {
            let mark = DrainMark { started_at: container.started_at(), ..mark.clone() };
            // Without it the container stays, and the next `reconcile --drain` marks it again.
            let _ = self.journal.set_mark(self.host, self.mark(id, &container, mark)).await;
        }
    }

    /// Steps 9 and 10. The next one may begin while this one is confirmed.
    async fn remove(&self, permit: Permit, force: bool, work: SemaphorePermit<'_>) -> Result<Ended, Ended> {
        let id = &permit.id().clone();
        self.tell(Progress::Removing { index: self.index });
        let removed =
            if force { self.control.force_remove(permit).await } else { self.control.remove(permit).await };
        drop(work);
        let complaint = match removed {
            Ok(RemoveOutcome::Removed) => None,
            Ok(RemoveOutcome::AlreadyGone) => {
                return Ok(Ended::new(Ending::AlreadyGone, "somebody else removed it"));
            }
            Ok(RemoveOutcome::Refused(message)) => Some(format!("the engine refused: {message}")),
            Err(fault @ EngineFault::Outdated(_)) => {
                return Err(Ended::for_lack_of_evidence(Ending::Failed, fault.to_string()));
            }
            Err(fault) => Some(format!("the removal failed: {fault}")),
        };
        match (self.fate(id).await, complaint) {
            (Fate::Gone, None) => Ok(Ended::new(Ending::Removed, self.item.reason.to_string())),
            (Fate::Gone, Some(complaint)) => {
                Ok(Ended::new(Ending::Removed, format!("it is gone, although {complaint}")))
            }
            (Fate::There(state), Some(complaint)) if state.holds_processes() && !force => {
                Err(Ended::new(Ending::Skipped, format!("somebody started it: {complaint}")))
            }
            (now, Some(complaint)) => Err(Ended::new(Ending::Failed, format!("{complaint}; {now}"))),
            (now, None) => Err(Ended::new(Ending::Failed, format!("the engine said removed, but {now}"))),
        }
    }

    async fn drain(&self, id: &ContainerId, container: &Container) -> Result<Ended, Ended> {
        let mark = DrainMark {
            started_at: container.started_at(),
            marked_at: Timestamp::now(),
            marked_by: self.who.to_owned(),
        };
        self.journal.set_mark(self.host, self.mark(id, container, mark)).await?;
        Ok(Ended::new(Ending::Drained, "it goes when its sessions have ended"))
    }

    fn mark(&self, id: &ContainerId, container: &Container, mark: DrainMark) -> Mark {
        Mark {
            container: id.clone(),
            name: container.name.clone(),
            system: self.item.system.as_ref().map(ToString::to_string),
            workspace: self.item.workspace.clone(),
            mark,
        }
    }

    /// What the engine says of it now. A removal that is under way, ours or another's, is waited for.
    async fn fate(&self, id: &ContainerId) -> Fate {
        let until = tokio::time::Instant::now() + SETTLING;
        loop {
            match self.engine.inspect(id).await {
                Ok(Some(container))
                    if container.state == ContainerState::Removing && tokio::time::Instant::now() < until => {
                }
                Ok(Some(container)) => return Fate::There(container.state.clone()),
                Ok(None) => return Fate::Gone,
                Err(fault) => return Fate::Unknown(fault),
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }

    /// Nobody needs to listen, and whoever is slow must not stand between a check and its step.
    pub(super) fn tell(&self, progress: Progress) {
        let _ = self.progress.try_send(progress);
    }
}

/// Whether the engine removes it as soon as it stops.
fn goes_with_its_stop(container: &Container) -> bool {
    container.inspection().is_some_and(|inspection| inspection.auto_remove)
}

/// What became of a container, for a sentence about something that went wrong.
enum Fate {
    There(ContainerState),
    Gone,
    Unknown(EngineFault),
}

impl fmt::Display for Fate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::There(state) => write!(f, "it is {state} now"),
            Self::Gone => f.write_str("it is gone now"),
            Self::Unknown(fault) => write!(f, "its state is unknown ({fault})"),
        }
    }
}
