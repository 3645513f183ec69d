//! Specs: how containers were made, so that they can be made again. A spec holds the container's environment, and with it
//! secrets: it is read by the keeper right before a container is made from it, and by nobody else.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension, params};
use serde::{Deserialize, Serialize};

use super::{State, StateFault};
use crate::domain::container::{Container, ContainerId, ContainerState, Inspected, Joins, Mount};
use crate::domain::recovery::{Departure, Lineage, Remembered, Tries};
use crate::domain::{Labels, Recalled, SystemName};

/// The intent of whoever brings something back without being asked.
const HEAL: &str = "heal";

/// The tables of what can be brought back.
pub(super) const TABLES: &str = "
CREATE TABLE specs (
    host TEXT NOT NULL, container TEXT NOT NULL, name TEXT NOT NULL, system TEXT NOT NULL, workspace TEXT,
    persistent INTEGER NOT NULL, facts TEXT NOT NULL, spec TEXT, seen_at INTEGER NOT NULL, departure TEXT,
    removed_at INTEGER, removed_by TEXT, PRIMARY KEY (host, container));
CREATE TABLE quarantines (
    host TEXT NOT NULL, container TEXT NOT NULL, name TEXT NOT NULL, named TEXT NOT NULL, since INTEGER NOT NULL,
    by TEXT NOT NULL, until INTEGER NOT NULL, was_running INTEGER NOT NULL, PRIMARY KEY (host, container));
";

/// A container as it is to be remembered.
#[derive(Clone, Debug)]
pub struct SpecRecord {
    /// As it was seen.
    pub container: Arc<Container>,
    /// Whose it is.
    pub system: SystemName,
    /// Its workspace.
    pub workspace: Option<String>,
    /// Whether it outlives its sessions.
    pub persistent: bool,
    /// How it was made; `None` leaves what is recorded as it is.
    pub spec: Option<Kept>,
}

impl SpecRecord {
    /// What is known of it once it is written down.
    pub fn recorded(&self) -> Recorded {
        Recorded { name: self.container.name.clone(), persistent: self.persistent }
    }
}

/// What a container was recorded as.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recorded {
    /// The name it had.
    pub name: String,
    /// Whether it outlives its sessions; then it is recorded how it was made.
    pub persistent: bool,
}

/// The engine's whole word on how a container was made. It shows itself to nobody.
#[derive(Clone, PartialEq, Eq)]
pub struct Kept(String);

impl Kept {
    /// Wraps an inspection.
    pub fn new(inspection: String) -> Self {
        Self(inspection)
    }

    /// The inspection, for whoever makes a container from it.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Debug for Kept {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Kept(…)")
    }
}

/// What of a container is remembered in the clear: nothing of its environment.
#[derive(Serialize, Deserialize)]
struct Facts {
    image: String,
    image_id: String,
    labels: Labels,
    mounts: Vec<(String, String, String)>,
    created_at: Timestamp,
}

impl Facts {
    fn of(container: &Container) -> Self {
        let mounts = container.mounts.iter();
        Self {
            image: container.image_reference().to_owned(),
            image_id: container.image_id.to_string(),
            labels: container.labels.clone(),
            mounts: mounts
                .map(|mount| (mount.kind.clone(), mount.source.clone(), mount.target.clone()))
                .collect(),
            created_at: container.created_at,
        }
    }

    fn container(self, id: ContainerId, name: String) -> Container {
        let mounts = self.mounts.into_iter();
        Container {
            id,
            name,
            image: self.image.into(),
            image_id: self.image_id.into(),
            labels: self.labels,
            state: ContainerState::Exited,
            created_at: self.created_at,
            mounts: mounts.map(|(kind, source, target)| Mount { kind, source, target }).collect(),
            joins: Joins::NotAsked,
            inspected: Inspected::NotNeeded,
        }
    }
}

impl State {
    /// Writes down how containers looked and were made when they were seen, and that others are still here; forgets what was
    /// last seen too long before that. What was removed stays removed: no engine gives an id twice. Returns which of those
    /// that are still here are not recorded any more.
    pub fn record_specs(
        &mut self,
        host: &str,
        at: Timestamp,
        keep: Duration,
        records: &[SpecRecord],
        still_here: &[ContainerId],
    ) -> Result<Vec<ContainerId>, StateFault> {
        let mut write = || -> rusqlite::Result<Vec<ContainerId>> {
            let transaction =
                self.connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
            for record in records {
                write_spec(&transaction, host, at, record)?;
            }
            let mut forgotten = Vec::new();
            for id in still_here {
                if !see_again(&transaction, host, at, id)? {
                    forgotten.push(id.clone());
                }
            }
            let oldest = at.saturating_sub(keep).map_or(i64::MIN, Timestamp::as_microsecond);
            transaction.execute("DELETE FROM specs WHERE seen_at < ?1", [oldest])?;
            transaction.commit()?;
            Ok(forgotten)
        };
        let written = write();
        written.map_err(|error| self.fault(&error))
    }

    /// Forgets how every container was made, on every host.
    pub fn forget_specs(&self) -> Result<usize, StateFault> {
        let forgotten = self.connection.execute("UPDATE specs SET spec = NULL WHERE spec IS NOT NULL", []);
        forgotten.map_err(|error| self.fault(&error))
    }

    /// How containers went, as events told.
    pub fn set_departures(
        &self,
        host: &str,
        departures: &[(ContainerId, Departure)],
    ) -> Result<(), StateFault> {
        let write = || -> rusqlite::Result<()> {
            for (id, departure) in departures {
                let text = serde_json::to_string(departure).unwrap_or_default();
                self.connection
                    .prepare_cached("UPDATE specs SET departure = ?3 WHERE host = ?1 AND container = ?2")?
                    .execute(params![host, id.as_str(), text])?;
            }
            Ok(())
        };
        write().map_err(|error| self.fault(&error))
    }

    /// The keeper removed a container that is remembered. All that one plan removes bears the same time.
    pub fn set_removed(
        &self,
        host: &str,
        id: &ContainerId,
        at: Timestamp,
        by: &str,
    ) -> Result<(), StateFault> {
        let written = self.connection.execute(
            "UPDATE specs SET removed_at = ?3, removed_by = ?4, seen_at = max(seen_at, ?3) \
             WHERE host = ?1 AND container = ?2",
            params![host, id.as_str(), at.as_microsecond(), by],
        );
        written.map(|_| ()).map_err(|error| self.fault(&error))
    }

    /// How a container was made, for making it again.
    pub fn spec(&self, host: &str, id: &ContainerId) -> Result<Option<Kept>, StateFault> {
        self.reading(|connection| {
            if !has_specs(connection)? {
                return Ok(None);
            }
            let spec = connection.query_row(
                "SELECT spec FROM specs WHERE host = ?1 AND container = ?2",
                params![host, id.as_str()],
                |row| row.get::<_, Option<String>>(0),
            );
            Ok(spec.optional()?.flatten().map(Kept))
        })
    }

    /// The containers of which everything is recorded that is to be.
    pub fn recorded(&self, host: &str) -> Result<HashMap<ContainerId, Recorded>, StateFault> {
        self.reading(|connection| {
            if !has_specs(connection)? {
                return Ok(HashMap::new());
            }
            let mut statement = connection.prepare(
                "SELECT container, name, persistent FROM specs \
                 WHERE host = ?1 AND (spec IS NOT NULL OR NOT persistent)",
            )?;
            let rows = statement.query_map([host], |row| {
                let recorded = Recorded { name: row.get(1)?, persistent: row.get(2)? };
                Ok((row.get::<_, String>(0)?, recorded))
            })?;
            let rows = rows.collect::<rusqlite::Result<Vec<_>>>()?;
            let parsed = rows.into_iter().filter_map(|(id, it)| Some((ContainerId::parse(&id)?, it)));
            Ok(parsed.collect())
        })
    }

    /// Forgets a container that another has taken the place of.
    pub fn forget_spec(&self, host: &str, id: &ContainerId) -> Result<(), StateFault> {
        let forgotten = self
            .connection
            .execute("DELETE FROM specs WHERE host = ?1 AND container = ?2", params![host, id.as_str()]);
        forgotten.map(|_| ()).map_err(|error| self.fault(&error))
    }

    /// Everything that is remembered beside the containers that are here.
    pub fn recalled(&self, host: &str, present: &HashSet<&ContainerId>) -> Result<Recalled, StateFault> {
        self.reading(|connection| {
            if !has_specs(connection)? {
                return Ok(Recalled::default());
            }
            let tries = tries(connection, host)?;
            let mut gone = read_gone(connection, host, present)?;
            for remembered in &mut gone {
                let lineage = (remembered.system.clone(), remembered.container.name.clone());
                if let Some(known) = tries.get(&lineage) {
                    remembered.tries = known.unless_it_lasted(remembered.last_known());
                }
            }
            Ok(Recalled {
                gone: gone.into_iter().map(Arc::new).collect(),
                departures: HashMap::new(),
                quarantined: super::quarantines::read(connection, host)?,
                tries,
                made_again: super::comebacks::read(connection, host)?,
                fault: None,
            })
        })
    }
}

fn write_spec(
    connection: &Connection,
    host: &str,
    at: Timestamp,
    record: &SpecRecord,
) -> rusqlite::Result<()> {
    let facts = serde_json::to_string(&Facts::of(&record.container))
        .map_err(|error| rusqlite::Error::ToSqlConversionFailure(error.into()))?;
    connection
        .prepare_cached(
            "INSERT INTO specs (host, container, name, system, workspace, persistent, facts, spec, seen_at) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9) ON CONFLICT (host, container) DO UPDATE SET \
             name = ?3, system = ?4, workspace = ?5, persistent = ?6, facts = ?7, spec = coalesce(?8, spec), \
             seen_at = max(seen_at, ?9), departure = NULL",
        )?
        .execute(params![
            host,
            record.container.id.as_str(),
            record.container.name,
            record.system.as_str(),
            record.workspace,
            record.persistent,
            facts,
            record.spec.as_ref().map(Kept::reveal),
            at.as_microsecond(),
        ])?;
    Ok(())
}

/// Whether it was recorded at all.
fn see_again(connection: &Connection, host: &str, at: Timestamp, id: &ContainerId) -> rusqlite::Result<bool> {
    let changed = connection
        .prepare_cached(
            "UPDATE specs SET seen_at = max(seen_at, ?3), departure = NULL WHERE host = ?1 AND container = ?2",
        )?
        .execute(params![host, id.as_str(), at.as_microsecond()])?;
    Ok(changed > 0)
}

fn read_gone(
    connection: &Connection,
    host: &str,
    present: &HashSet<&ContainerId>,
) -> rusqlite::Result<Vec<Remembered>> {
    // Most of what is recorded is here; only of the rest more than the id is read.
    let mut ids = connection.prepare("SELECT container FROM specs WHERE host = ?1 ORDER BY container")?;
    let ids = ids.query_map([host], |row| row.get::<_, String>(0))?.collect::<rusqlite::Result<Vec<_>>>()?;
    let absent = ids.iter().filter_map(|id| ContainerId::parse(id)).filter(|id| !present.contains(id));
    let mut statement = connection.prepare(
        "SELECT name, system, workspace, persistent, facts, spec IS NOT NULL, seen_at, departure, removed_at, \
                removed_by FROM specs WHERE host = ?1 AND container = ?2",
    )?;
    let mut gone = Vec::new();
    for id in absent {
        let mut rows = statement.query([host, id.as_str()])?;
        // What cannot be read cannot be brought back, and keeps nothing else from it.
        let Some(row) = rows.next()? else { continue };
        let facts: String = row.get(4)?;
        let Ok(facts) = serde_json::from_str::<Facts>(&facts) else { continue };
        let Some(seen_at) = moment(row.get(6)?) else { continue };
        let departure: Option<String> = row.get(7)?;
        let removed_at = row.get::<_, Option<i64>>(8)?.and_then(moment);
        let removed_by: Option<String> = row.get(9)?;
        gone.push(Remembered {
            container: Arc::new(facts.container(id, row.get(0)?)),
            system: SystemName::new(&row.get::<_, String>(1)?),
            workspace: row.get(2)?,
            persistent: row.get(3)?,
            seen_at,
            has_spec: row.get(5)?,
            departure: departure.and_then(|text| serde_json::from_str(&text).ok()),
            removed: removed_at.map(|at| (at, removed_by.unwrap_or_default())),
            tries: Tries::default(),
        });
    }
    Ok(gone)
}

/// How often containers were brought back without anybody asking, and failed or did not last, since somebody asked.
fn tries(connection: &Connection, host: &str) -> rusqlite::Result<HashMap<Lineage, Tries>> {
    let mut statement = connection.prepare(
        "SELECT i.system, i.name, s.at, s.detail, p.intent FROM items AS i JOIN plans AS p ON p.id = i.plan \
         JOIN steps AS s ON s.item = i.id AND s.step = 'outcome' \
         WHERE p.host = ?1 AND i.action IN ('recreate', 'start', 'restore') ORDER BY i.id",
    )?;
    let mut rows = statement.query([host])?;
    let mut tries: HashMap<Lineage, Tries> = HashMap::new();
    while let Some(row) = rows.next()? {
        let Some(system) = row.get::<_, Option<String>>(0)? else { continue };
        let lineage = (SystemName::new(&system), row.get(1)?);
        let (at, detail): (String, String) = (row.get(2)?, row.get(3)?);
        let (ending, reason) = detail.split_once(": ").unwrap_or((&detail, ""));
        let asked = row.get::<_, String>(4)? != HEAL;
        match ending {
            "failed" if asked => {}
            "recreated" | "started" | "restored" | "adopted" if asked => {
                tries.remove(&lineage);
            }
            "failed" | "recreated" | "started" | "restored" | "adopted" => {
                let failure = (ending == "failed").then_some(reason);
                let before = tries.remove(&lineage).unwrap_or_default();
                tries.insert(lineage, before.and(at.parse().ok(), failure));
            }
            // What was skipped or interrupted shows nothing.
            _ => {}
        }
    }
    Ok(tries)
}

/// A state that an older version wrote, and that is only read, knows of none.
fn has_specs(connection: &Connection) -> rusqlite::Result<bool> {
    connection.prepare("SELECT 1 FROM sqlite_schema WHERE name = 'specs'")?.exists([])
}

pub(super) fn moment(microseconds: i64) -> Option<Timestamp> {
    Timestamp::from_microsecond(microseconds).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::recovery::Happening;

    const HOST: &str = "unix:///engine";

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn record(id: &ContainerId) -> SpecRecord {
        let facts = Facts {
            image: "sandbox".to_owned(),
            image_id: "sha256:1".to_owned(),
            labels: Labels::from([("a", "1")]),
            mounts: Vec::new(),
            created_at: at(0),
        };
        SpecRecord {
            container: Arc::new(facts.container(id.clone(), "box".to_owned())),
            system: SystemName::new("native"),
            workspace: None,
            persistent: true,
            spec: Some(Kept::new("{}".to_owned())),
        }
    }

    fn remembered(state: &State) -> Arc<Remembered> {
        let recalled = state.recalled(HOST, &HashSet::new()).unwrap();
        assert_eq!(recalled.gone.len(), 1);
        Arc::clone(&recalled.gone[0])
    }

    #[test]
    fn what_is_still_here_was_seen_now_and_nothing_else_of_it_changes() {
        let folder = tempfile::tempdir().unwrap();
        let mut state = State::open(folder.path()).unwrap();
        let id = ContainerId::parse(&"a".repeat(64)).unwrap();
        let keep = Duration::from_secs(1000);
        state.record_specs(HOST, at(1), keep, &[record(&id)], &[]).unwrap();
        let before = remembered(&state);
        let departure = Departure::after(None, Happening::Destroyed, at(2)).unwrap();
        state.set_departures(HOST, &[(id.clone(), departure)]).unwrap();
        state.record_specs(HOST, at(3), keep, &[], std::slice::from_ref(&id)).unwrap();
        assert_eq!(*remembered(&state), Remembered { seen_at: at(3), ..(*before).clone() });
        // It was seen before it was removed.
        state.set_removed(HOST, &id, at(5), "ada").unwrap();
        state.record_specs(HOST, at(4), keep, &[], std::slice::from_ref(&id)).unwrap();
        assert_eq!(remembered(&state).removed, Some((at(5), "ada".to_owned())));
        // And what nobody has seen for long is forgotten.
        state.record_specs(HOST, at(2000), keep, &[], &[]).unwrap();
        assert!(state.recalled(HOST, &HashSet::new()).unwrap().gone.is_empty());
        let forgotten = state.record_specs(HOST, at(2001), keep, &[], std::slice::from_ref(&id)).unwrap();
        assert_eq!(forgotten, [id], "whoever takes it to be recorded hears that it is not");
    }
}
