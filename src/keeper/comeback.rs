//! Bringing one container back: started again, taken out of quarantine, or made anew. Nothing that was here before is
//! stopped or removed on the way, and whatever fails leaves things as they were: only what this very attempt has made, and
//! what does not run, is taken away again, by the id that the engine gave it.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;

use super::journal::Journal;
use super::outcome::{Ending, Progress};
use super::protocol::Ended;
use super::secrets::Secrets;
use crate::domain::container::{Container, ContainerId, ContainerState, Row};
use crate::domain::plan::{Action, Item, Reason};
use crate::domain::recovery::{Quarantine, Remembered, put_aside, temporary_name};
use crate::domain::snapshot::{Reading, Snapshot};
use crate::domain::span::elapsed;
use crate::domain::{Policy, classify};
use crate::engine::{EngineControl, EngineFault, EngineView, Permit};
use crate::recovery::{Remake, lacks};
use crate::state::{Kept, SpecRecord, State, StateFault, Step};

/// How long a container may take to run once it was started.
const STARTING: Duration = Duration::from_secs(20);
/// How long after an end it can be told whether somebody asked for it.
const SETTLING: Duration = Duration::from_secs(1);
/// How often it is looked at meanwhile.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// Everything one comeback needs.
pub(super) struct Comeback<'a> {
    pub(super) control: &'a EngineControl,
    pub(super) engine: &'a EngineView,
    pub(super) journal: &'a Journal,
    pub(super) folder: &'a Path,
    pub(super) host: &'a str,
    pub(super) policy: &'a Policy,
    /// What the plan was made from.
    pub(super) snapshot: &'a Snapshot,
    pub(super) item: &'a Item,
    /// Its number in the journal.
    pub(super) number: i64,
    /// Its place in the plan.
    pub(super) index: usize,
    pub(super) progress: &'a tokio::sync::mpsc::Sender<Progress>,
}

pub(super) fn failed(reason: impl Into<String>) -> Ended {
    Ended::new(Ending::Failed, reason)
}

impl Comeback<'_> {
    /// Does what was planned, and says how it ended.
    pub(super) async fn carry_out(&self) -> Ended {
        let Some(id) = &self.item.id else { return failed("its id is not known") };
        self.tell("checking");
        let done = match self.item.action {
            Action::Start => self.start(id).await,
            Action::Restore => self.restore(id).await,
            _ => self.recreate(id).await,
        };
        done.unwrap_or_else(|ended| ended)
    }

    /// Starts a container that is here.
    async fn start(&self, id: &ContainerId) -> Result<Ended, Ended> {
        let Some(container) = self.inspect(id).await? else {
            return Err(failed("it is gone by now; look again"));
        };
        match &container.state {
            ContainerState::Running | ContainerState::Restarting => {
                return Ok(Ended::new(Ending::Adopted, "somebody else has started it"));
            }
            state @ (ContainerState::Paused | ContainerState::Removing | ContainerState::Unrecognised(_)) => {
                return Err(failed(format!("it is {state}, which a start does not change")));
            }
            ContainerState::Created | ContainerState::Exited | ContainerState::Dead => {}
        }
        if matches!(self.item.reason, Reason::Missed(_)) {
            self.must_not_be_stopped(&container).await?;
        }
        self.start_and_wait(id).await?;
        Ok(Ended::new(Ending::Started, self.item.reason.to_string()))
    }

    /// Nobody asked for it, so what somebody has just stopped stays so. An engine tells of an end first, and then that
    /// it was asked for.
    async fn must_not_be_stopped(&self, container: &Container) -> Result<(), Ended> {
        let Some(ended_at) = container.inspection().and_then(|inspection| inspection.finished_at) else {
            return Ok(());
        };
        let ago = elapsed(ended_at, Timestamp::now()).unwrap_or_default();
        tokio::time::sleep(SETTLING.saturating_sub(ago)).await;
        match self.engine.departure(&container.id, ended_at).await {
            Ok(Some(departure)) if departure.is_ordinary() => {
                Err(Ended::new(Ending::Skipped, format!("{departure}, so it is no loss")))
            }
            Ok(_) => Ok(()),
            Err(fault) => Err(doubt(&fault)),
        }
    }

    /// Takes a container out of quarantine.
    async fn restore(&self, id: &ContainerId) -> Result<Ended, Ended> {
        let Some(aside) = self.quarantine(id)? else {
            return Err(Ended::new(Ending::Skipped, "it is not in quarantine any more"));
        };
        let Some(container) = self.inspect(id).await? else {
            self.end_quarantine(id).await?;
            return Err(failed("it was removed meanwhile"));
        };
        let stopped = matches!(container.state, ContainerState::Exited | ContainerState::Created);
        let starts = aside.was_running && stopped;
        if starts {
            // What would not run again is not touched, either.
            drop(self.may_start(id).await?);
        }
        if container.name != aside.name {
            if container.name != aside.named {
                let reason = format!("somebody renamed it to {}", container.name);
                return Err(Ended::new(Ending::Skipped, reason));
            }
            self.must_be_free(&aside.name, &self.list().await?)?;
            self.journal.step(self.number, Step::Renaming, aside.name.clone()).await?;
            self.rename(id, &aside.name).await.map_err(failed)?;
        }
        self.end_quarantine(id).await?;
        if starts && let Err(ended) = self.start_and_wait(id).await {
            let reason = format!("it has its name again, but does not run: {}", ended.reason);
            return Err(Ended { reason, ..ended });
        }
        Ok(Ended::new(Ending::Restored, format!("out of quarantine as {}", aside.name)))
    }

    /// Makes a container again, unless another has taken its place.
    async fn recreate(&self, id: &ContainerId) -> Result<Ended, Ended> {
        let gone = self.snapshot.recalled.gone.iter().find(|gone| gone.container.id == *id);
        let Some(gone) = gone.map(Arc::clone) else { return Err(failed("nothing is remembered of it")) };
        if self.inspect(id).await?.is_some() {
            return self.start(id).await;
        }
        if let Some(there) = self.in_its_place(&gone, &self.list().await?)? {
            return self.adopt(&gone, &there).await;
        }
        self.make(&gone, &self.remake(id)?).await
    }

    /// Makes it, once nobody has taken its place and its image and its name are there to be had.
    async fn make(&self, gone: &Remembered, remake: &Remake) -> Result<Ended, Ended> {
        let image = self.image(remake).await?;
        // Whoever is asked about images takes his time.
        let rows = self.list().await?;
        self.must_be_free(&remake.name, &rows)?;
        let lacks = lacks(self.engine, remake).await.join("; ");
        let made = self.create(remake, &image).await?;
        if let Err(ended) = self.note_comeback(gone, &made).await {
            let left = self.take_away(&made).await;
            return Err(Ended { reason: format!("{}{left}", ended.reason), ..ended });
        }
        // Nothing runs in ours yet. Unless it is certain that nobody was faster, it goes again.
        let others = self.list().await.map(|rows| without(&rows, &made));
        match others.and_then(|rows| self.in_its_place(gone, &rows)) {
            Ok(None) => {}
            Ok(Some(there)) => {
                let left = self.take_away(&made).await;
                let ended = self.adopt(gone, &there).await?;
                return Ok(Ended { reason: format!("{}{left}", ended.reason), ..ended });
            }
            Err(ended) => {
                let left = self.take_away(&made).await;
                return Err(Ended { reason: format!("{}{left}", ended.reason), ..ended });
            }
        }
        self.run(&made, &remake.name).await?;
        let note = self.remember(gone, &made, &remake.name).await;
        Ok(Ended::new(Ending::Recreated, format!("made again as {}; {lacks}{note}", made.short())))
    }

    /// Another container that serves those who miss this one: made by us in an attempt that was cut short, made by somebody
    /// under the same name, or, with the same labels, made since in the same folders or in use by the same sessions. Where
    /// none of these is here and yet nobody misses it any more, none is made.
    fn in_its_place(&self, gone: &Remembered, rows: &[Row]) -> Result<Option<Arc<Container>>, Ended> {
        let now = Timestamp::now();
        let engine = Reading::good(rows.to_vec(), now);
        let verdicts = classify(&Snapshot { engine, ..self.snapshot.clone() }, self.policy, now);
        let still_missed = verdicts.lost.iter().any(|lost| lost.id.as_ref() == Some(&gone.container.id));
        let was_missed = matches!(self.item.reason, Reason::Missed(_));
        let binds = |container: &Container| {
            let binds = container.mounts.iter().filter(|mount| mount.kind == "bind");
            let mut binds: Vec<_> = binds.map(|mount| (mount.source.clone(), mount.target.clone())).collect();
            binds.sort();
            binds
        };
        let wanted = binds(&gone.container);
        // Engines count in whole seconds.
        let since = gone.last_known().as_second();
        let temporary = temporary_name(&gone.container.id);
        let serves = |container: &&Arc<Container>| {
            let claimed = verdicts.containers.iter().find(|v| v.subject.id() == Some(&container.id));
            let live = claimed.is_some_and(|verdict| verdict.claims.live > 0);
            container.name == gone.container.name
                || container.name.starts_with(&temporary)
                || (!still_missed && was_missed && live)
                || (!still_missed
                    && container.created_at.as_second() >= since
                    && !wanted.is_empty()
                    && binds(container) == wanted)
        };
        let same_labels = rows.iter().filter_map(|row| match row {
            Row::Container(container) if container.labels == gone.container.labels => Some(container),
            _ => None,
        });
        let mut found: Vec<&Arc<Container>> =
            same_labels.filter(|container| put_aside(container).is_none()).filter(serves).collect();
        found.sort_by_key(|container| {
            (!container.state.holds_processes(), std::cmp::Reverse(container.created_at))
        });
        match found.first() {
            None if was_missed && !still_missed => {
                Err(Ended::new(Ending::Skipped, "nobody misses it any more; look again"))
            }
            found => Ok(found.map(|container| Arc::clone(container))),
        }
    }

    /// Takes what is here for the one that is gone, and starts it if it does not run.
    async fn adopt(&self, gone: &Remembered, there: &Container) -> Result<Ended, Ended> {
        if !there.state.holds_processes()
            && let Err(ended) = self.start_and_wait(&there.id).await
        {
            let secrets = Secrets::of(self.folder, self.host, self.engine, &there.id).await;
            return Err(Ended { reason: secrets.hidden_in(&ended.reason), ..ended });
        }
        let mut name = there.name.clone();
        let ours = there.name.starts_with(&temporary_name(&gone.container.id));
        if ours && self.must_be_free(&gone.container.name, &self.list().await?).is_ok() {
            self.journal.step(self.number, Step::Renaming, gone.container.name.clone()).await?;
            self.rename(&there.id, &gone.container.name).await.map_err(failed)?;
            name.clone_from(&gone.container.name);
        }
        self.forget(&gone.container.id).await?;
        let reason = format!("{name} ({}) has taken its place, so no other was made", there.id.short());
        Ok(Ended::new(Ending::Adopted, reason))
    }

    fn remake(&self, id: &ContainerId) -> Result<Remake, Ended> {
        let state = State::open_to_read(self.folder)?;
        let spec = state.map(|state| state.spec(self.host, id)).transpose()?.flatten();
        let Some(spec) = spec else { return Err(failed("it was not recorded how it was made")) };
        Remake::read(spec.reveal()).map_err(|fault| failed(fault.to_string()))
    }

    /// What to make it from: the very image it was made from, by its reference if that still names it.
    async fn image(&self, remake: &Remake) -> Result<String, Ended> {
        let asked = |fault: EngineFault| {
            Ended::for_lack_of_evidence(Ending::Failed, format!("its image cannot be asked for: {fault}"))
        };
        let named = self.engine.image(&remake.image).await.ok().flatten();
        if named.is_some_and(|(id, _)| {
            id.trim_start_matches("sha256:") == remake.image_id.trim_start_matches("sha256:")
        }) {
            return Ok(remake.image.clone());
        }
        match self.engine.image(&remake.image_id).await.map_err(asked)? {
            Some(_) => Ok(remake.image_id.clone()),
            None => Err(failed(format!(
                "its image {} is gone; pull or build it again, then try once more",
                remake.image
            ))),
        }
    }

    /// Starts it on the folders it had, and waits until it runs.
    pub(super) async fn start_and_wait(&self, id: &ContainerId) -> Result<(), Ended> {
        self.journal.step(self.number, Step::Starting, id.short()).await?;
        self.tell("starting");
        let permit = self.may_start(id).await?;
        let started = self.control.start(permit).await;
        self.until_it_runs(id, started).await.map_err(failed)
    }

    async fn until_it_runs(&self, id: &ContainerId, started: Result<(), EngineFault>) -> Result<(), String> {
        let until = tokio::time::Instant::now() + STARTING;
        loop {
            let state = match self.engine.inspect(id).await {
                Ok(Some(container)) => container,
                Ok(None) => return Err("it went as soon as it was started".to_owned()),
                Err(fault) => return Err(format!("whether it runs cannot be told: {fault}")),
            };
            match (&state.state, &started) {
                (ContainerState::Running, _) => return Ok(()),
                (_, Err(fault)) => return Err(format!("it could not be started: {fault}")),
                (ContainerState::Exited | ContainerState::Dead, Ok(())) => {
                    let code = state.inspection().and_then(|inspection| inspection.exit_code);
                    let code = code.map(|code| format!(" with exit code {code}")).unwrap_or_default();
                    return Err(format!("it ended as soon as it was started{code}"));
                }
                _ if tokio::time::Instant::now() > until => {
                    return Err(format!("it is {} instead of running", state.state));
                }
                _ => tokio::time::sleep(LOOK_AGAIN).await,
            }
        }
    }

    pub(super) async fn rename(&self, id: &ContainerId, name: &str) -> Result<(), String> {
        self.tell("renaming");
        match self.control.rename(Permit::after_look(id, Instant::now()), name).await {
            Ok(()) => Ok(()),
            Err(fault) => match self.engine.inspect(id).await {
                Ok(Some(container)) if container.name == name => Ok(()),
                _ => Err(format!("it could not be named {name}: {fault}")),
            },
        }
    }

    async fn inspect(&self, id: &ContainerId) -> Result<Option<Arc<Container>>, Ended> {
        self.engine.inspect(id).await.map_err(|fault| doubt(&fault))
    }

    pub(super) async fn list(&self) -> Result<Vec<Row>, Ended> {
        self.engine.list().await.map_err(|fault| doubt(&fault))
    }

    /// A name that somebody has, or that cannot be told from one that could not be read, is not free.
    #[expect(clippy::unused_self, reason = "it reads as a step of this")]
    fn must_be_free(&self, name: &str, rows: &[Row]) -> Result<(), Ended> {
        for row in rows {
            match row {
                Row::Container(container) if container.name == name => {
                    let whose = container.id.short();
                    return Err(failed(format!("its name {name} is taken by another container ({whose})")));
                }
                Row::Unreadable(row) if row.name.is_none() => {
                    let why = "the name of a container cannot be read, so none can be called free";
                    return Err(Ended::for_lack_of_evidence(Ending::Failed, why));
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn quarantine(&self, id: &ContainerId) -> Result<Option<Quarantine>, StateFault> {
        let Some(state) = State::open_to_read(self.folder)? else { return Ok(None) };
        Ok(state.recalled(self.host, &[id].into())?.quarantined.remove(id))
    }

    async fn end_quarantine(&self, id: &ContainerId) -> Result<(), StateFault> {
        let (host, id) = (self.host.to_owned(), id.clone());
        self.journal.perform(move |state| state.end_quarantine(&host, &id).map(|_| ())).await
    }

    async fn forget(&self, id: &ContainerId) -> Result<(), StateFault> {
        let (host, id) = (self.host.to_owned(), id.clone());
        self.journal.perform(move |state| state.forget_spec(&host, &id)).await
    }

    /// What was made takes the place of what is gone in the records, too.
    /// Before it runs: a configuration that came back must not count as the newest.
    async fn note_comeback(&self, gone: &Remembered, made: &ContainerId) -> Result<(), Ended> {
        let known = self.snapshot.recalled.made_again.get(&gone.container.id).copied();
        let first_made_at = known.unwrap_or(gone.container.created_at);
        let (host, made) = (self.host.to_owned(), made.clone());
        let noted = self.journal.perform(move |state| state.note_comeback(&host, &made, first_made_at));
        Ok(noted.await?)
    }

    async fn remember(&self, gone: &Remembered, made: &ContainerId, name: &str) -> String {
        let spec = self.engine.inspection_to_keep(made).await;
        let spec = spec.ok().map(|inspection| Kept::new(inspection.to_string()));
        let container = Container { id: made.clone(), name: name.to_owned(), ..(*gone.container).clone() };
        let record = SpecRecord {
            container: Arc::new(container),
            system: gone.system.clone(),
            workspace: gone.workspace.clone(),
            persistent: gone.persistent,
            spec,
        };
        let (host, old, keep) = (self.host.to_owned(), gone.container.id.clone(), self.policy.recovery.keep);
        let written = self.journal.perform(move |state| {
            state.record_specs(&host, Timestamp::now(), keep, std::slice::from_ref(&record), &[])?;
            state.forget_spec(&host, &old)
        });
        written.await.err().map(|fault| format!(" (it could not be recorded: {fault})")).unwrap_or_default()
    }

    pub(super) fn tell(&self, word: &'static str) {
        let _ = self.progress.try_send(Progress::Recovering { index: self.index, word });
    }
}

fn doubt(fault: &EngineFault) -> Ended {
    Ended::for_lack_of_evidence(Ending::Failed, format!("the engine cannot be asked: {fault}"))
}

fn without(rows: &[Row], id: &ContainerId) -> Vec<Row> {
    let other = |row: &&Row| !matches!(row, Row::Container(container) if container.id == *id);
    rows.iter().filter(other).cloned().collect()
}
