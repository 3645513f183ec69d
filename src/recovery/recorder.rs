//! Records how lasting containers are made, while they are here: when they are gone it is too late to ask.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use jiff::Timestamp;

use crate::domain::container::{Container, ContainerId, Row};
use crate::domain::profile::{Match, Profile};
use crate::domain::recovery::{Departure, put_aside};
use crate::domain::{Policy, Snapshot, SystemName, owned};
use crate::engine::EngineView;
use crate::state::{Kept, SpecRecord, State, StateFault};

/// How many containers are asked for at once.
const AT_ONCE: usize = 8;
/// More than these are recorded with the next look.
const MOST_AT_A_TIME: usize = 200;
/// What could not be recorded is tried again after this long.
const TRIED_AGAIN: Duration = Duration::from_secs(10);
/// That a container is still seen is written down this often.
const SEEN_AGAIN: Duration = Duration::from_mins(5);

/// Records what it has not recorded yet.
#[derive(Debug)]
pub struct Recorder {
    folder: PathBuf,
    policy: Policy,
    /// What is recorded, under which name.
    recorded: Option<HashMap<ContainerId, String>>,
    told: HashMap<ContainerId, Departure>,
    /// The list that was looked through last, and when to do so again although it is the same: what could not be
    /// recorded, or was too much at a time, is tried again.
    rows: Option<(Arc<Vec<Row>>, Option<Instant>)>,
    seen: Option<Instant>,
}

/// A container that may be recorded.
struct Recordable {
    container: Arc<Container>,
    system: SystemName,
    workspace: Option<String>,
    persistent: bool,
}

impl Recorder {
    /// A recorder that writes to the state in `folder`, and forgets what was last seen longer ago than the policy says.
    pub fn new(folder: PathBuf, policy: Policy) -> Self {
        Self { folder, policy, recorded: None, told: HashMap::new(), rows: None, seen: None }
    }

    /// Records what this snapshot shows for the first time, and what has gone.
    pub async fn look(&mut self, engine: &EngineView, snapshot: &Snapshot) -> Result<(), StateFault> {
        let usable = snapshot.engine.fault.is_none() && snapshot.engine.at.is_some();
        if !usable {
            return Ok(());
        }
        let rows = &snapshot.engine.value;
        let known = self.rows.as_ref().is_some_and(|(known, until)| {
            Arc::ptr_eq(known, rows) && until.is_none_or(|until| Instant::now() < until)
        });
        let again = self.seen.is_none_or(|seen| seen.elapsed() > SEEN_AGAIN);
        let mut news = News { departures: self.departures(snapshot), ..News::default() };
        if !known || again {
            let host = &snapshot.host.identity;
            if self.recorded.is_none() {
                let state = State::open_to_read(&self.folder)?;
                self.recorded = state.map(|state| state.recorded(host)).transpose()?;
            }
            let recorded = self.recorded.get_or_insert_default();
            let (old, new): (Vec<_>, Vec<_>) = recordable(snapshot, &self.policy, None)
                .into_iter()
                .partition(|it| recorded.get(&it.container.id) == Some(&it.container.name));
            let wanted = new.len();
            news.records = ask(engine, new.into_iter().take(MOST_AT_A_TIME)).await;
            for record in &news.records {
                recorded.insert(record.container.id.clone(), record.container.name.clone());
            }
            let until = (news.records.len() < wanted).then(|| Instant::now() + TRIED_AGAIN);
            self.rows = Some((Arc::clone(rows), until));
            if again {
                self.seen = Some(Instant::now());
                news.seen = old.into_iter().map(|it| it.container.id.clone()).collect();
            }
        }
        if news.is_empty() {
            return Ok(());
        }
        self.told.extend(news.departures.iter().cloned());
        write(&self.folder, snapshot, &self.policy, news).await
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
    wanted.retain(|it| recorded.get(&it.container.id) != Some(&it.container.name));
    let records = ask(engine, wanted).await;
    if records.is_empty() {
        return Ok(());
    }
    write(folder, snapshot, policy, News { records, ..News::default() }).await
}

async fn write(folder: &Path, snapshot: &Snapshot, policy: &Policy, news: News) -> Result<(), StateFault> {
    let (folder, host, keep) = (folder.to_owned(), snapshot.host.identity.clone(), policy.recovery.keep);
    let seen_at = snapshot.engine.at.unwrap_or_else(Timestamp::now);
    let place = folder.display().to_string();
    let written = tokio::task::spawn_blocking(move || {
        let mut state = State::open(&folder)?;
        state.record_specs(&host, seen_at, keep, &news.records, &news.seen)?;
        state.set_departures(&host, &news.departures)
    });
    written.await.unwrap_or_else(|_| {
        Err(StateFault::Database { path: place, why: "a bug in sandkeeper ended the write".to_owned() })
    })
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
