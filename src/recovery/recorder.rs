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
/// That a container was seen is written down this often.
const SEEN_AGAIN: Duration = Duration::from_mins(1);

/// Records what it has not recorded yet.
#[derive(Debug)]
pub struct Recorder {
    folder: PathBuf,
    policy: Policy,
    /// What is recorded, under which name.
    recorded: Option<HashMap<ContainerId, String>>,
    told: HashMap<ContainerId, Departure>,
    seen: Option<Instant>,
}

/// A container that may be recorded.
#[derive(Clone)]
struct Recordable {
    container: Arc<Container>,
    system: SystemName,
    workspace: Option<String>,
    persistent: bool,
}

impl Recorder {
    /// A recorder that writes to the state in `folder`, and forgets what was last seen longer ago than the policy says.
    pub fn new(folder: PathBuf, policy: Policy) -> Self {
        Self { folder, policy, recorded: None, told: HashMap::new(), seen: None }
    }

    /// Records what this snapshot shows for the first time, and what has gone.
    pub async fn look(&mut self, engine: &EngineView, snapshot: &Snapshot) -> Result<(), StateFault> {
        let usable = snapshot.engine.fault.is_none() && snapshot.engine.at.is_some();
        if !usable {
            return Ok(());
        }
        let host = snapshot.host.identity.clone();
        if self.recorded.is_none() {
            let known = State::open_to_read(&self.folder)?.map(|state| state.recorded(&host)).transpose()?;
            self.recorded = Some(known.unwrap_or_default());
        }
        let recorded = self.recorded.get_or_insert_default();
        let all = recordable(snapshot, &self.policy, None);
        let is_new = |it: &&Recordable| recorded.get(&it.container.id) != Some(&it.container.name);
        let new: Vec<Recordable> = all.iter().filter(is_new).take(MOST_AT_A_TIME).cloned().collect();
        let mut records = ask(engine, new).await;
        for record in &records {
            recorded.insert(record.container.id.clone(), record.container.name.clone());
        }
        if self.seen.is_none_or(|seen| seen.elapsed() > SEEN_AGAIN) {
            self.seen = Some(Instant::now());
            let new: HashSet<ContainerId> =
                records.iter().map(|record| record.container.id.clone()).collect();
            let again = all.iter().filter(|it| recorded.contains_key(&it.container.id));
            records.extend(again.filter(|it| !new.contains(&it.container.id)).map(seen));
        }
        let went = snapshot.recalled.gone.iter().filter_map(|gone| {
            let (id, departure) = (&gone.container.id, gone.departure.as_ref()?);
            (self.told.get(id) != Some(departure)).then(|| (id.clone(), departure.clone()))
        });
        let went: Vec<_> = went.collect();
        if records.is_empty() && went.is_empty() {
            return Ok(());
        }
        self.told.extend(went.iter().cloned());
        let seen_at = snapshot.engine.at.unwrap_or_else(Timestamp::now);
        write(self.folder.clone(), host, seen_at, self.policy.recovery.keep, records, went).await
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
    let seen_at = snapshot.engine.at.unwrap_or_else(Timestamp::now);
    write(folder.to_owned(), host.clone(), seen_at, policy.recovery.keep, records, Vec::new()).await
}

async fn write(
    folder: PathBuf,
    host: String,
    seen_at: Timestamp,
    keep: Duration,
    records: Vec<SpecRecord>,
    went: Vec<(ContainerId, Departure)>,
) -> Result<(), StateFault> {
    let place = folder.display().to_string();
    let written = tokio::task::spawn_blocking(move || {
        let mut state = State::open(&folder)?;
        state.record_specs(&host, seen_at, keep, &records)?;
        state.set_departures(&host, &went)
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
async fn ask(engine: &EngineView, wanted: Vec<Recordable>) -> Vec<SpecRecord> {
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
