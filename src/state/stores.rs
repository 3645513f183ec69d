//! What is remembered of session stores: whether each has shown that it is the right one, and the open sessions that claimed
//! containers when it was last read.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::specs::moment;
use super::{State, StateFault};
use crate::domain::continuity::{BESIDE, RememberedClaim, StoreMemory, Trust, Vanished};
use crate::domain::session::{Moment, Session};

pub(super) const TABLES: &str = "
CREATE TABLE stores (
    host TEXT NOT NULL, system TEXT NOT NULL, path TEXT NOT NULL, seen_at INTEGER, proven INTEGER NOT NULL,
    silent_since INTEGER, instances TEXT NOT NULL, accepted_at INTEGER, PRIMARY KEY (host, system, path));
CREATE TABLE claims (
    host TEXT NOT NULL, system TEXT NOT NULL, path TEXT NOT NULL, session TEXT NOT NULL, workspace TEXT,
    container TEXT, started_at INTEGER, live INTEGER NOT NULL, last_seen INTEGER, found_at INTEGER,
    casts_doubt INTEGER NOT NULL, PRIMARY KEY (host, system, path, session));
";

/// Which store, on which host.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct StoreKey {
    /// What our own state knows the host by.
    pub host: String,
    /// Whose store it is.
    pub system: String,
    /// Where it is.
    pub path: String,
}

impl StoreKey {
    /// A store, however its path is spelled.
    pub fn new(host: &str, system: &str, path: &str) -> Self {
        let path = match std::path::absolute(path) {
            Ok(absolute) if !path.contains("://") => absolute.display().to_string(),
            _ => path.to_owned(),
        };
        Self { host: host.to_owned(), system: system.to_owned(), path }
    }

    /// The same store under the name that links lead to, if that is another one. What is known under either name is known of
    /// both: a link may be turned round, and a store may be named past it.
    fn behind_links(&self) -> Option<Self> {
        let path = std::fs::canonicalize(&self.path).ok()?.display().to_string();
        (path != self.path).then(|| Self { path, ..self.clone() })
    }
}

/// What our own state says about a store.
#[derive(Clone, Debug, Default)]
pub struct KeptStore {
    /// What is remembered of it.
    pub memory: StoreMemory,
    /// When the operator last said that it is the right one.
    pub accepted_at: Option<Timestamp>,
}

impl State {
    /// What is remembered of a store; `None` when nothing is.
    pub fn store_memory(&self, key: &StoreKey) -> Result<Option<KeptStore>, StateFault> {
        let named = self.reading(|connection| read(connection, key))?;
        let Some(behind) = key.behind_links() else { return Ok(named) };
        let behind = self.reading(|connection| read(connection, &behind))?;
        Ok(match (named, behind) {
            (Some(mut named), Some(behind)) => {
                named.memory.learn(&behind.memory, &StoreMemory::default());
                Some(named)
            }
            (named, behind) => named.or(behind),
        })
    }

    /// Remembers a store. Only what differs from `before`, as it was read or written last, is written.
    pub fn remember_store(
        &mut self,
        key: &StoreKey,
        before: &StoreMemory,
        now: &StoreMemory,
    ) -> Result<(), StateFault> {
        let mut write_all = || -> rusqlite::Result<()> {
            write(&mut self.connection, key, before, now)?;
            let Some(behind) = key.behind_links() else { return Ok(()) };
            // What is not known there yet is written in full.
            let known = read(&self.connection, &behind)?.is_some();
            let before = if known { before } else { &StoreMemory::default() };
            write(&mut self.connection, &behind, before, now)
        };
        let written = write_all();
        written.map_err(|error| self.fault(&error))
    }

    /// The operator says that a store is the right one, as it was seen at that time. Says whether anything was remembered of it.
    pub fn accept_store(&mut self, key: &StoreKey, at: Timestamp) -> Result<bool, StateFault> {
        let accept = |connection: &mut Connection, key: &StoreKey| -> rusqlite::Result<bool> {
            let transaction = connection.transaction()?;
            let known = transaction.execute(
                "UPDATE stores SET proven = 1, instances = '', accepted_at = ?4 WHERE host = ?1 AND system = ?2 AND path = ?3",
                params![key.host, key.system, key.path, at.as_microsecond()],
            )?;
            if known == 0 {
                transaction.execute(
                    "INSERT INTO stores (host, system, path, proven, instances, accepted_at) VALUES (?1, ?2, ?3, 1, '', ?4)",
                    params![key.host, key.system, key.path, at.as_microsecond()],
                )?;
            }
            transaction.execute(
                "DELETE FROM claims WHERE host = ?1 AND system = ?2 AND path = ?3 AND found_at <= ?4",
                params![key.host, key.system, key.path, at.as_microsecond()],
            )?;
            transaction.commit()?;
            Ok(known > 0)
        };
        let accepted = accept(&mut self.connection, key);
        let accepted = accepted.and_then(|known| match key.behind_links() {
            Some(behind) => Ok(known | accept(&mut self.connection, &behind)?),
            None => Ok(known),
        });
        accepted.map_err(|error| self.fault(&error))
    }
}

fn read(connection: &Connection, key: &StoreKey) -> rusqlite::Result<Option<KeptStore>> {
    if !connection.prepare("SELECT 1 FROM sqlite_schema WHERE name = 'stores'")?.exists([])? {
        return Ok(None);
    }
    let store = connection
        .prepare(
            "SELECT seen_at, proven, silent_since, instances, accepted_at FROM stores \
             WHERE host = ?1 AND system = ?2 AND path = ?3",
        )?
        .query_row(params![key.host, key.system, key.path], |row| {
            let trust = match (row.get::<_, bool>(1)?, when(row, 2)?) {
                (true, _) => Trust::Proven,
                (false, Some(since)) => Trust::Silent { since },
                (false, None) => Trust::Unread,
            };
            let instances: String = row.get(3)?;
            let instances: BTreeSet<String> =
                instances.lines().filter(|name| !name.is_empty()).map(ToOwned::to_owned).collect();
            let memory = StoreMemory { seen_at: when(row, 0)?, trust, instances, claims: BTreeMap::new() };
            Ok(KeptStore { memory, accepted_at: when(row, 4)? })
        })
        .optional()?;
    let Some(mut store) = store else { return Ok(None) };
    let mut statement = connection.prepare(
        "SELECT session, workspace, container, started_at, live, last_seen, found_at, casts_doubt FROM claims \
         WHERE host = ?1 AND system = ?2 AND path = ?3",
    )?;
    let claims = statement.query_map(params![key.host, key.system, key.path], claim)?;
    for claim in claims {
        let (key, claim) = claim?;
        store.memory.claims.insert(key, claim);
    }
    Ok(Some(store))
}

fn claim(row: &Row<'_>) -> rusqlite::Result<(String, RememberedClaim)> {
    let vanished = match (when(row, 5)?, when(row, 6)?) {
        (Some(last_seen), Some(found_at)) => Some(Vanished { last_seen, found_at, casts_doubt: row.get(7)? }),
        _ => None,
    };
    let key: String = row.get(0)?;
    let session = Session {
        id: key.split(BESIDE).next().unwrap_or_default().to_owned(),
        workspace: row.get(1)?,
        container: row.get(2)?,
        started_at: when(row, 3)?.map_or(Moment::Absent, Moment::At),
        ..Session::default()
    };
    Ok((key, RememberedClaim { session: Arc::new(session), live: row.get(4)?, vanished }))
}

fn when(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<Timestamp>> {
    Ok(row.get::<_, Option<i64>>(column)?.and_then(moment))
}

fn write(
    connection: &mut Connection,
    key: &StoreKey,
    before: &StoreMemory,
    now: &StoreMemory,
) -> rusqlite::Result<()> {
    let micros = |at: Option<Timestamp>| at.map(Timestamp::as_microsecond);
    let silent_since = match now.trust {
        Trust::Silent { since } => Some(since),
        Trust::Unread | Trust::Proven => None,
    };
    let instances: Vec<&str> = now.instances.iter().map(String::as_str).collect();
    let instances = instances.join("\n");
    let transaction = connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
    transaction.execute(
        "INSERT INTO stores (host, system, path, seen_at, proven, silent_since, instances) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7) ON CONFLICT DO UPDATE SET seen_at = max(coalesce(seen_at, 0), excluded.seen_at), \
         proven = max(proven, excluded.proven), silent_since = min(coalesce(silent_since, excluded.silent_since), excluded.silent_since), instances = excluded.instances",
        params![
            key.host,
            key.system,
            key.path,
            micros(now.seen_at),
            now.trust == Trust::Proven,
            micros(silent_since),
            instances
        ],
    )?;
    {
        let mut forget = transaction.prepare_cached(
            "DELETE FROM claims WHERE host = ?1 AND system = ?2 AND path = ?3 AND session = ?4",
        )?;
        for id in before.claims.keys().filter(|id| !now.claims.contains_key(*id)) {
            forget.execute(params![key.host, key.system, key.path, id])?;
        }
        let mut keep = transaction.prepare_cached(
            "INSERT OR REPLACE INTO claims (host, system, path, session, workspace, container, started_at, live, \
             last_seen, found_at, casts_doubt) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
        )?;
        for (id, claim) in &now.claims {
            if before.claims.get(id).is_some_and(|known| is_written_alike(known, claim)) {
                continue;
            }
            let RememberedClaim { session, live, vanished } = claim;
            keep.execute(params![
                key.host,
                key.system,
                key.path,
                id,
                session.workspace,
                session.container,
                micros(session.started_at.known()),
                live,
                micros(vanished.map(|vanished| vanished.last_seen)),
                micros(vanished.map(|vanished| vanished.found_at)),
                vanished.is_some_and(|vanished| vanished.casts_doubt)
            ])?;
        }
    }
    transaction.commit()
}

/// Whether both leave the same row behind: what a session did last is not kept.
pub(crate) fn is_written_alike(a: &RememberedClaim, b: &RememberedClaim) -> bool {
    let row = |claim: &RememberedClaim| (claim.live, claim.vanished, claim.session.started_at.known());
    row(a) == row(b)
        && a.session.workspace == b.session.workspace
        && a.session.container == b.session.container
}
