//! `sandkeeper accept STORE`: the operator says that a session store is the right one, although it no longer has what it had,
//! or has claimed nothing yet.

use std::path::Path;

use clap::Args;
use jiff::Timestamp;
use serde::Serialize;

use super::output::{write, write_json};
use super::{House, Outcome, Trouble};
use crate::domain::Snapshot;
use crate::keeper::{KeeperFault, who};
use crate::state::{ItemRecord, PlanRecord, State, StateFault, Step, StoreKey};
use crate::text::clean;

#[derive(Debug, Args)]
pub(super) struct AcceptArguments {
    /// The session store, as `status` names it, or the system whose only store it is
    store: String,
    /// Answer in JSON
    #[arg(long)]
    json: bool,
}

/// Which stores there are to accept.
#[derive(Debug, thiserror::Error)]
pub(super) enum AcceptFault {
    /// None of that name.
    #[error("no session store is called `{0}`; there {1}")]
    NotFound(String, String),
    /// It cannot be read, so there is nothing to accept.
    #[error("the session store {0} cannot be read, so it cannot be accepted: {1}")]
    Unreadable(String, String),
}

#[derive(Serialize)]
struct Answer<'a> {
    system: &'a str,
    store: &'a str,
    sessions: usize,
    forgotten: usize,
}

pub(super) async fn run(arguments: &AcceptArguments, house: &House) -> Result<Outcome, Trouble> {
    if house.settings.read_only {
        return Err(Trouble::ReadOnly("accept"));
    }
    let snapshot = house.observer()?.observe().await;
    if snapshot.engine.at.is_none() {
        let why = snapshot.engine.fault.clone().unwrap_or_default();
        return Err(Trouble::NoEngine(why));
    }
    let (system, store) = find(&arguments.store, &snapshot)?;
    if let Some(fault) = &store.sessions.fault {
        return Err(AcceptFault::Unreadable(store.path.clone(), fault.clone()).into());
    }
    let forgotten = store.memory.vanished().count();
    let sessions = store.sessions.value.len() - forgotten;
    let key = StoreKey::new(&snapshot.host.identity, &system, &store.path);
    // What this look has found missing, it found after it had read the store.
    let found =
        store.memory.claims.values().filter_map(|claim| claim.vanished).map(|vanished| vanished.found_at);
    let seen_at = found.chain(store.sessions.at).max().unwrap_or_else(Timestamp::now);
    write_down(house, &key, seen_at, (sessions, forgotten)).map_err(KeeperFault::from)?;
    if arguments.json {
        write_json(&Answer { system: &system, store: &store.path, sessions, forgotten }, true);
    } else {
        let lost = if forgotten == 0 {
            String::new()
        } else {
            format!("; {forgotten} that it no longer has count as ended")
        };
        let line = format!(
            "{} is accepted as the session store of {system}, with {sessions} sessions{lost}",
            store.path
        );
        write(&format!("{}\n", clean(&line)));
    }
    Ok(Outcome::Done)
}

fn find<'a>(
    name: &str,
    snapshot: &'a Snapshot,
) -> Result<(String, &'a crate::domain::snapshot::StoreFacts), AcceptFault> {
    let all = || {
        let systems = snapshot.systems.iter();
        systems.flat_map(|system| system.stores.iter().map(|store| (system.profile.name.to_string(), store)))
    };
    let same_file = |path: &str| match (Path::new(path).canonicalize(), Path::new(name).canonicalize()) {
        (Ok(one), Ok(other)) => one == other,
        _ => false,
    };
    let by_path =
        all().find(|(_, store)| store.path == name).or_else(|| all().find(|(_, s)| same_file(&s.path)));
    let mut of_system = all().filter(|(system, _)| system == name);
    let by_system = of_system.next().filter(|_| of_system.next().is_none());
    by_path.or(by_system).ok_or_else(|| {
        let known: Vec<String> = all().map(|(system, store)| format!("{system}: {}", store.path)).collect();
        let there = if known.is_empty() { "is none".to_owned() } else { format!("are {}", known.join(", ")) };
        AcceptFault::NotFound(name.to_owned(), there)
    })
}

fn write_down(
    house: &House,
    key: &StoreKey,
    seen_at: Timestamp,
    (sessions, forgotten): (usize, usize),
) -> Result<(), StateFault> {
    let mut state = State::open(&house.settings.state_folder)?;
    let plan =
        PlanRecord { host: key.host.clone(), who: who(&house.environment), intent: "accept".to_owned() };
    let item = ItemRecord {
        container: String::new(),
        name: key.path.clone(),
        system: Some(key.system.clone()),
        workspace: None,
        status: "in doubt".to_owned(),
        action: "accept".to_owned(),
        reason: "asked for".to_owned(),
        started_at: None,
    };
    let numbers = state.begin(&plan, &[item])?;
    state.accept_store(key, seen_at)?;
    let outcome =
        format!("accepted with {sessions} sessions; {forgotten} that it no longer has count as ended");
    let steps: Vec<_> = numbers.into_iter().map(|number| (number, Step::Outcome, outcome.clone())).collect();
    state.write_steps(&steps)
}
