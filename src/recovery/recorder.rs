//! Records how lasting containers are made, while they are here: when they are gone it is too late to ask.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use jiff::Timestamp;
use tokio_util::sync::CancellationToken;

use crate::domain::container::{Container, ContainerId, Row};
use crate::domain::profile::{Match, Profile};
use crate::domain::recovery::{Departure, put_aside};
use crate::domain::snapshot::ImageFact;
use crate::domain::{Policy, Snapshot, SystemName, owned};
use crate::engine::EngineView;
use crate::state::{Kept, Recorded, SpecRecord, State, StateFault, Trouble};
use crate::watch::Watch;

/// How many containers are asked for at once.
const AT_ONCE: usize = 8;
/// So many are recorded at a time, and more of them a moment later.
const MOST_AT_A_TIME: usize = 50;
const MOMENT: Duration = Duration::from_secs(2);
/// What could not be recorded is tried again after this long.
const TRIED_AGAIN: Duration = Duration::from_secs(10);
/// That a container is still seen is written down this often.
const SEEN_AGAIN: Duration = Duration::from_mins(1);

/// Records what it has not recorded yet.
#[derive(Debug)]
pub struct Recorder {
    folder: PathBuf,
    policy: Policy,
    recorded: Option<HashMap<ContainerId, Recorded>>,
    told: HashMap<ContainerId, Departure>,
    looked: Option<Looked>,
    seen: Option<Instant>,
    /// Until when nothing is tried, after a failure.
    pause: Option<Instant>,
}

/// What was looked through last, and need not be as long as it is the same.
#[derive(Debug)]
struct Looked {
    rows: Arc<Vec<Row>>,
    /// Whose a container is depends on its image.
    images: HashMap<String, ImageFact>,
    /// Until when; what could not be recorded, or was too much at a time, is tried again.
    until: Option<Instant>,
}

impl Looked {
    fn holds(&self, snapshot: &Snapshot) -> bool {
        Arc::ptr_eq(&self.rows, &snapshot.engine.value)
            && self.images == snapshot.images.by_id
            && self.until.is_none_or(|until| Instant::now() < until)
    }
}

/// A container that may be recorded.
struct Recordable {
    container: Arc<Container>,
    system: SystemName,
    workspace: Option<String>,
    persistent: bool,
}

impl Recordable {
    fn recorded(&self) -> Recorded {
        Recorded { name: self.container.name.clone(), persistent: self.persistent }
    }
}

impl Recorder {
    /// A recorder that writes to the state in `folder`, and forgets what was last seen longer ago than the policy says.
    pub fn new(folder: PathBuf, policy: Policy) -> Self {
        Self { folder, policy, recorded: None, told: HashMap::new(), looked: None, seen: None, pause: None }
    }

    /// Records what this snapshot shows for the first time, and what has gone.
    pub async fn look(&mut self, engine: &EngineView, snapshot: &Snapshot) -> Result<(), StateFault> {
        let usable = snapshot.engine.fault.is_none() && snapshot.engine.at.is_some();
        if !usable || self.pause.is_some_and(|until| Instant::now() < until) {
            return Ok(());
        }
        let done = self.record(engine, snapshot).await;
        self.pause = done.is_err().then(|| Instant::now() + TRIED_AGAIN);
        if done.is_err() {
            // What was not written is not recorded, whatever we took it for.
            (self.recorded, self.looked, self.seen) = (None, None, None);
        }
        done
    }

    /// Records everything that this snapshot shows and that is not recorded yet, as far as the time allows; what is left is with
    /// the next run.
    pub async fn catch_up(
        &mut self,
        engine: &EngineView,
        snapshot: &Snapshot,
        within: Duration,
    ) -> Result<(), StateFault> {
        let all = async {
            loop {
                let before = self.recorded.as_ref().map_or(0, HashMap::len);
                self.look(engine, snapshot).await?;
                let unfinished = self.looked.as_ref().is_some_and(|looked| looked.until.is_some());
                if !unfinished || self.recorded.as_ref().map_or(0, HashMap::len) <= before {
                    return Ok(());
                }
                self.looked = None;
            }
        };
        tokio::time::timeout(within, all).await.unwrap_or(Ok(()))
    }

    /// Records along with a watch, until told to stop.
    pub async fn follow(mut self, watch: Watch, timeout: Duration, stop: CancellationToken) {
        let mut snapshots = watch.snapshots.clone();
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                changed = snapshots.changed() => if changed.is_err() { return },
            }
            let snapshot = snapshots.borrow_and_update().clone();
            if let Some(endpoint) = watch.endpoint() {
                let engine = EngineView::new(endpoint, timeout);
                // What cannot be recorded now is with the next look.
                let _ = self.look(&engine, &snapshot).await;
            }
        }
    }

    /// How many lasting containers are here of which it is not known to be recorded how they were made.
    pub fn unrecorded(&self, snapshot: &Snapshot) -> usize {
        let recorded = |it: &Recordable| {
            let known = self.recorded.as_ref().and_then(|recorded| recorded.get(&it.container.id));
            known == Some(&it.recorded())
        };
        let all = recordable(snapshot, &self.policy, None);
        all.iter().filter(|it| it.persistent && !recorded(it)).count()
    }

    async fn record(&mut self, engine: &EngineView, snapshot: &Snapshot) -> Result<(), StateFault> {
        let again = self.seen.is_none_or(|seen| seen.elapsed() > SEEN_AGAIN);
        let mut news = News { departures: self.departures(snapshot), ..News::default() };
        if again || !self.looked.as_ref().is_some_and(|looked| looked.holds(snapshot)) {
            if self.recorded.is_none() {
                let state = State::open_to_read(&self.folder)?;
                let recorded = state.map(|state| state.recorded(&snapshot.host.identity)).transpose()?;
                self.recorded = Some(recorded.unwrap_or_default());
            }
            let recorded = self.recorded.get_or_insert_default();
            let (old, new): (Vec<_>, Vec<_>) = recordable(snapshot, &self.policy, None)
                .into_iter()
                .partition(|it| recorded.get(&it.container.id) == Some(&it.recorded()));
            let wanted = new.len();
            news.records = ask(engine, new.into_iter().take(MOST_AT_A_TIME)).await;
            recorded
                .extend(news.records.iter().map(|record| (record.container.id.clone(), record.recorded())));
            let pause = if wanted > MOST_AT_A_TIME { MOMENT } else { TRIED_AGAIN };
            let until = (news.records.len() < wanted).then(|| Instant::now() + pause);
            let (rows, images) = (Arc::clone(&snapshot.engine.value), snapshot.images.by_id.clone());
            self.looked = Some(Looked { rows, images, until });
            match self.seen {
                // The profiles may be others than when it was recorded.
                None => news.records.extend(old.iter().map(seen)),
                Some(_) if again => news.seen = old.into_iter().map(|it| it.container.id.clone()).collect(),
                Some(_) => {}
            }
            if again {
                self.seen = Some(Instant::now());
            }
        }
        if news.is_empty() {
            return Ok(());
        }
        let told = news.departures.clone();
        let forgotten = write(&self.folder, snapshot, &self.policy, news).await?;
        self.told.extend(told);
        if let (false, Some(recorded)) = (forgotten.is_empty(), &mut self.recorded) {
            recorded.retain(|id, _| !forgotten.contains(id));
            self.looked = None;
        }
        Ok(())
    }

    /// How something went, where that is not written down yet.
    fn departures(&self, snapshot: &Snapshot) -> Vec<(ContainerId, Departure)> {
        let gone = snapshot.recalled.gone.iter().filter_map(|gone| {
            let (id, departure) = (&gone.container.id, gone.departure.as_ref()?);
            (self.told.get(id) != Some(departure)).then(|| (id.clone(), departure.clone()))
        });
        gone.collect()
    }
}

/// What is to be written down.
#[derive(Debug, Default)]
struct News {
    records: Vec<SpecRecord>,
    /// What is recorded and still here.
    seen: Vec<ContainerId>,
    departures: Vec<(ContainerId, Departure)>,
}

impl News {
    fn is_empty(&self) -> bool {
        self.records.is_empty() && self.seen.is_empty() && self.departures.is_empty()
    }
}

/// Records these containers now, unless they are.
pub(crate) async fn record(
    engine: &EngineView,
    snapshot: &Snapshot,
    folder: &Path,
    policy: &Policy,
    wanted: &HashSet<ContainerId>,
) -> Result<(), StateFault> {
    let host = &snapshot.host.identity;
    let recorded = State::open_to_read(folder)?.map(|state| state.recorded(host)).transpose()?;
    let recorded = recorded.unwrap_or_default();
    let mut wanted = recordable(snapshot, policy, Some(wanted));
    wanted.retain(|it| recorded.get(&it.container.id) != Some(&it.recorded()));
    let records = ask(engine, wanted).await;
    if records.is_empty() {
        return Ok(());
    }
    write(folder, snapshot, policy, News { records, ..News::default() }).await.map(|_| ())
}

/// Writes it down; returns what was taken to be recorded and is not.
async fn write(
    folder: &Path,
    snapshot: &Snapshot,
    policy: &Policy,
    news: News,
) -> Result<Vec<ContainerId>, StateFault> {
    let (folder, host, keep) = (folder.to_owned(), snapshot.host.identity.clone(), policy.recovery.keep);
    let seen_at = snapshot.engine.at.unwrap_or_else(Timestamp::now);
    let place = folder.display().to_string();
    let written = tokio::task::spawn_blocking(move || {
        let mut state = State::open(&folder)?;
        let forgotten = state.record_specs(&host, seen_at, keep, &news.records, &news.seen)?;
        state.set_departures(&host, &news.departures)?;
        Ok(forgotten)
    });
    let why = Trouble::Ended("a bug in sandkeeper ended the write");
    written.await.unwrap_or(Err(StateFault::Database { path: place, why }))
}

/// Containers that are one system's without any doubt, whose profile allows it and could be read.
fn recordable(
    snapshot: &Snapshot,
    policy: &Policy,
    wanted: Option<&HashSet<ContainerId>>,
) -> Vec<Recordable> {
    let owned = owned(snapshot, Some(policy));
    let rows = snapshot.engine.value.iter().filter_map(|row| match row {
        Row::Container(container) if wanted.is_none_or(|wanted| wanted.contains(&container.id)) => {
            Some(container)
        }
        _ => None,
    });
    // What was put aside is recorded under the name it had.
    rows.filter(|container| put_aside(container).is_none() && owned.contains(&container.id))
        .filter_map(|container| {
            let mut owners = snapshot.systems.iter().filter_map(|system| {
                let profile: &Profile = &system.profile;
                match profile.recognise(container) {
                    Match::Ours(recognised) => Some((system, profile.workspace_of(&recognised))),
                    Match::Foreign | Match::Nameless => None,
                }
            });
            let (system, workspace) = owners.next()?;
            let allowed = system.profile.recovery.record && system.broken.is_none();
            (owners.next().is_none() && allowed).then(|| Recordable {
                container: Arc::clone(container),
                system: system.profile.name.clone(),
                workspace,
                persistent: system.profile.persistence_of(container) == Ok(true),
            })
        })
        .collect()
}

/// Asks the engine how they are made. What goes meanwhile, or cannot be asked, is left out.
async fn ask(engine: &EngineView, wanted: impl IntoIterator<Item = Recordable>) -> Vec<SpecRecord> {
    let answers = wanted.into_iter().map(|it| {
        let engine = engine.clone();
        async move {
            if !it.persistent {
                return Some(seen(&it));
            }
            let inspection = engine.inspection_to_keep(&it.container.id).await.ok()?;
            Some(SpecRecord { spec: Some(Kept::new(inspection.to_string())), ..seen(&it) })
        }
    });
    let answers: Vec<Option<SpecRecord>> =
        futures_util::stream::iter(answers).buffer_unordered(AT_ONCE).collect().await;
    answers.into_iter().flatten().collect()
}

fn seen(it: &Recordable) -> SpecRecord {
    SpecRecord {
        container: Arc::clone(&it.container),
        system: it.system.clone(),
        workspace: it.workspace.clone(),
        persistent: it.persistent,
        spec: None,
    }
}
