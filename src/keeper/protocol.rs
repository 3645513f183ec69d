//! The removal of one container, step by step. Every step is preceded by a fresh check and followed by a line in the
//! journal; nothing is retried with force, and a stop that was asked for is always waited for.

use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::Semaphore;

use super::check::{Checker, Finding};
use super::journal::Journal;
use super::outcome::{Ending, Progress};
use crate::domain::ContainerId;
use crate::domain::container::{Container, ContainerState};
use crate::domain::plan::{Action, Item};
use crate::domain::snapshot::DrainMark;
use crate::engine::{EngineControl, EngineFault, EngineView, RemoveOutcome, StopOutcome};
use crate::state::{Mark, StateFault, Step};

/// How something ended, and why.
pub(super) struct Ended {
    pub(super) ending: Ending,
    pub(super) reason: String,
    pub(super) evidence_missing: bool,
}

impl Ended {
    fn new(ending: Ending, reason: impl Into<String>) -> Self {
        Self { ending, reason: reason.into(), evidence_missing: false }
    }

    fn for_lack_of_evidence(ending: Ending, reason: impl Into<String>) -> Self {
        Self { ending, reason: reason.into(), evidence_missing: true }
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
    /// How many may wait for a stop at once.
    pub(super) stops: &'a Semaphore,
    pub(super) host: &'a str,
    pub(super) who: &'a str,
    pub(super) grace: Duration,
    pub(super) item: &'a Item,
    /// Its number in the journal.
    pub(super) number: i64,
    /// Its place in the plan.
    pub(super) index: usize,
    pub(super) progress: &'a tokio::sync::mpsc::Sender<Progress>,
}

impl Removal<'_> {
    /// Does what was planned, and says how it ended.
    pub(super) async fn carry_out(&self) -> Ended {
        self.steps().await.unwrap_or_else(|ended| ended)
    }

    async fn steps(&self) -> Result<Ended, Ended> {
        let Some(id) = &self.item.id else { return Err(Ended::new(Ending::Kept, "its id is not known")) };
        let work =
            self.work.acquire().await.map_err(|_| Ended::new(Ending::Skipped, "the keeper is closing"))?;
        let container = self.check(self.item.action, self.item.started_at).await?;
        match self.item.action {
            Action::Keep => Ok(Ended::new(Ending::Kept, self.item.reason.to_string())),
            Action::Drain => self.drain(id, &container).await,
            Action::Remove => self.remove(id, false).await,
            Action::ForceRemove => self.remove(id, true).await,
            Action::Stop => {
                drop(work);
                self.stop(id, &container).await?;
                Ok(Ended::new(Ending::Stopped, self.item.reason.to_string()))
            }
            Action::StopAndRemove => {
                drop(work);
                self.stop(id, &container).await?;
                let _work = self
                    .work
                    .acquire()
                    .await
                    .map_err(|_| Ended::new(Ending::Skipped, "the keeper is closing"))?;
                self.check_after_stop(id, container.started_at()).await?;
                self.remove(id, false).await
            }
        }
    }

    /// Steps 1 to 3, before anything was done.
    async fn check(
        &self,
        planned: Action,
        same_run: Option<Timestamp>,
    ) -> Result<std::sync::Arc<Container>, Ended> {
        match self.checker.check(self.item, planned, same_run).await {
            Finding::Go(container) => Ok(container),
            Finding::Gone => Err(Ended::new(Ending::AlreadyGone, "somebody else removed it")),
            Finding::Changed(what) | Finding::InUse(what) => Err(Ended::new(Ending::Skipped, what)),
            Finding::Doubt(why) => Err(Ended::for_lack_of_evidence(Ending::Skipped, why)),
        }
    }

    /// Step 7. Waits for the answer however long it takes within grace and margin; when none comes, the outcome is
    /// unknown and nothing more is done.
    async fn stop(&self, id: &ContainerId, container: &Container) -> Result<(), Ended> {
        let _place =
            self.stops.acquire().await.map_err(|_| Ended::new(Ending::Skipped, "the keeper is closing"))?;
        self.journal.step(self.number, Step::Stopping, format!("grace {}s", self.grace.as_secs())).await?;
        self.tell(Progress::Stopping { index: self.index, grace: self.grace }).await;
        let mut stopped = self.control.stop(id, self.grace).await;
        if container.state == ContainerState::Paused && matches!(stopped, Err(EngineFault::Status { .. })) {
            // Podman does not stop what is paused. Docker does, and there it never runs on.
            stopped = match self.control.unpause(id).await {
                Ok(()) => self.control.stop(id, self.grace).await,
                Err(fault) => Err(fault),
            };
        }
        match stopped {
            Ok(StopOutcome::Stopped | StopOutcome::AlreadyStopped) => {
                self.journal.step(self.number, Step::Stopped, "").await?;
                Ok(())
            }
            Ok(StopOutcome::Gone) => Err(Ended::new(Ending::AlreadyGone, "somebody else removed it")),
            Err(fault) => {
                let now = self.state_now(id).await;
                Err(Ended::new(Ending::Failed, format!("the stop failed: {fault}; {now}")))
            }
        }
    }

    /// Step 8. Whoever came while it stopped gets it back.
    async fn check_after_stop(&self, id: &ContainerId, same_run: Option<Timestamp>) -> Result<(), Ended> {
        let (why, evidence_missing) = match self.checker.check(self.item, Action::Remove, same_run).await {
            Finding::Go(_) => return Ok(()),
            Finding::Gone => return Err(Ended::new(Ending::AlreadyGone, "somebody else removed it")),
            Finding::InUse(why) | Finding::Changed(why) => (why, false),
            Finding::Doubt(why) => (why, true),
        };
        self.journal.step(self.number, Step::Rescuing, why.clone()).await?;
        let ended = match self.control.start(id).await {
            Ok(()) => Ended::new(Ending::Rescued, format!("started again after the stop: {why}")),
            Err(fault) => {
                let now = self.state_now(id).await;
                let reason =
                    format!("it is needed after all ({why}), but could not be started again: {fault}; {now}");
                Ended::new(Ending::Failed, reason)
            }
        };
        Err(Ended { evidence_missing, ..ended })
    }

    /// Steps 9 and 10.
    async fn remove(&self, id: &ContainerId, force: bool) -> Result<Ended, Ended> {
        self.journal.step(self.number, Step::Removing, if force { "with force" } else { "" }).await?;
        self.tell(Progress::Removing { index: self.index }).await;
        let removed = if force { self.control.force_remove(id).await } else { self.control.remove(id).await };
        let refused = match removed {
            Ok(RemoveOutcome::Removed) => match self.engine.inspect(id).await {
                Ok(None) => return Ok(Ended::new(Ending::Removed, self.item.reason.to_string())),
                Ok(Some(container)) => {
                    format!("the engine said removed, but it is still there ({})", container.state)
                }
                Err(fault) => format!("the engine said removed, but this could not be confirmed: {fault}"),
            },
            Ok(RemoveOutcome::AlreadyGone) => {
                return Ok(Ended::new(Ending::AlreadyGone, "somebody else removed it"));
            }
            Ok(RemoveOutcome::Refused(message)) => {
                format!("the engine refused: {message}; {}", self.state_now(id).await)
            }
            Err(fault) => match self.engine.inspect(id).await {
                Ok(None) => return Ok(Ended::new(Ending::Removed, format!("it is gone, although: {fault}"))),
                _ => format!("the removal failed: {fault}; {}", self.state_now(id).await),
            },
        };
        Err(Ended::new(Ending::Failed, refused))
    }

    async fn drain(&self, id: &ContainerId, container: &Container) -> Result<Ended, Ended> {
        let mark = Mark {
            container: id.clone(),
            name: container.name.clone(),
            system: self.item.system.as_ref().map(ToString::to_string),
            workspace: self.item.workspace.clone(),
            mark: DrainMark {
                started_at: container.started_at(),
                marked_at: Timestamp::now(),
                marked_by: self.who.to_owned(),
            },
        };
        self.journal.set_mark(self.host, mark).await?;
        Ok(Ended::new(Ending::Drained, "it goes when its last session ends"))
    }

    /// What the engine says of it now, for a sentence about something that went wrong.
    async fn state_now(&self, id: &ContainerId) -> String {
        match self.engine.inspect(id).await {
            Ok(Some(container)) => format!("it is {} now", container.state),
            Ok(None) => "it is gone now".to_owned(),
            Err(fault) => format!("its state is unknown ({fault})"),
        }
    }

    async fn tell(&self, progress: Progress) {
        // Nobody needs to listen.
        let _ = self.progress.send(progress).await;
    }
}
