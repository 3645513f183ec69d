//! What was seen: how each container's status changed, and when somebody last looked. It feeds the history of the
//! dashboard and decides nothing.

use std::collections::HashMap;

use jiff::{SignedDuration, Timestamp};
use rusqlite::{Connection, OptionalExtension, params};

use super::{State, StateFault};
use crate::domain::{ContainerId, Status};

/// The tables of what was seen.
pub(super) const TABLES: &str = "
CREATE TABLE changes (
    id INTEGER PRIMARY KEY, host TEXT NOT NULL, container TEXT NOT NULL, name TEXT NOT NULL, at INTEGER NOT NULL,
    status TEXT, reason TEXT NOT NULL);
CREATE INDEX changes_by_container ON changes (host, container);
CREATE TABLE looks (host TEXT PRIMARY KEY, at INTEGER NOT NULL);
";

/// How long a change is remembered.
const KEPT_FOR: SignedDuration = SignedDuration::from_hours(30 * 24);
/// How long the last change of a container is, against which the next one is compared.
const LAST_KEPT_FOR: SignedDuration = SignedDuration::from_hours(365 * 24);
/// How many changes of one container are.
const MOST: u32 = 200;

/// A container as it was seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Which.
    pub id: ContainerId,
    /// Its name.
    pub name: String,
    /// Its status; `None` when it is gone.
    pub status: Option<Status>,
    /// The deciding reason.
    pub reason: String,
}

/// A status that differed from the one before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatusChange {
    /// When it was noticed.
    pub at: Timestamp,
    /// The new status; `None` when the container was gone.
    pub status: Option<Status>,
    /// The deciding reason.
    pub reason: String,
}

/// Something that was done to a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PastAction {
    /// When it was planned.
    pub at: Timestamp,
    /// By whom.
    pub who: String,
    /// What was to be done.
    pub action: String,
    /// What came of it.
    pub outcome: String,
}

impl State {
    /// Writes down every status that differs from the last one that was written down, and forgets what is too old.
    pub fn record_changes(&mut self, host: &str, at: Timestamp, seen: &[Seen]) -> Result<(), StateFault> {
        let written = self.write_changes(host, at, seen);
        written.map_err(|error| self.fault(&error))
    }

    fn write_changes(&mut self, host: &str, at: Timestamp, seen: &[Seen]) -> rusqlite::Result<()> {
        // Two dashboards may have seen the same; what the first one wrote must be seen by the second.
        let transaction =
            self.connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
        for Seen { id, name, status, reason } in seen {
            let last: Option<Option<String>> = transaction
                .prepare_cached(
                    "SELECT status FROM changes WHERE host = ?1 AND container = ?2 ORDER BY id DESC LIMIT 1",
                )?
                .query_row(params![host, id.as_str()], |row| row.get(0))
                .optional()?;
            let status = status.map(Status::as_str);
            // Of a container that nobody has seen there is no end to tell.
            let known = last.as_ref().map_or(status.is_none(), |last| last.as_deref() == status);
            if known {
                continue;
            }
            transaction
                .prepare_cached(
                    "INSERT INTO changes (host, container, name, at, status, reason) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
                )?
                .execute(params![host, id.as_str(), name, at.as_microsecond(), status, reason])?;
            transaction
                .prepare_cached(
                    "DELETE FROM changes WHERE host = ?1 AND container = ?2 AND id NOT IN \
                     (SELECT id FROM changes WHERE host = ?1 AND container = ?2 ORDER BY id DESC LIMIT ?3)",
                )?
                .execute(params![host, id.as_str(), MOST])?;
        }
        forget_before(&transaction, at)?;
        transaction.commit()
    }

    /// How a container's status changed, oldest first.
    pub fn history_of(&self, host: &str, id: &ContainerId) -> Result<Vec<StatusChange>, StateFault> {
        self.reading(|connection| {
            if !has_looks(connection)? {
                return Ok(Vec::new());
            }
            let mut statement = connection.prepare(
                "SELECT at, status, reason FROM changes WHERE host = ?1 AND container = ?2 ORDER BY id",
            )?;
            let mut rows = statement.query(params![host, id.as_str()])?;
            let mut changes = Vec::new();
            while let Some(row) = rows.next()? {
                let status: Option<String> = row.get(1)?;
                let known = status.as_deref().map(parse);
                // A status of another version's is not shown as if the container had gone.
                if let (Some(at), None | Some(Some(_))) = (moment(row.get(0)?), known) {
                    changes.push(StatusChange { at, status: known.flatten(), reason: row.get(2)? });
                }
            }
            Ok(changes)
        })
    }

    /// The last status of every container that was there when it was last seen.
    pub fn last_statuses(&self, host: &str) -> Result<Vec<(ContainerId, Status)>, StateFault> {
        self.reading(|connection| {
            if !has_looks(connection)? {
                return Ok(Vec::new());
            }
            let mut statement =
                connection.prepare("SELECT container, status FROM changes WHERE host = ?1 ORDER BY id")?;
            let rows = statement
                .query_map([host], |row| Ok((row.get::<_, String>(0)?, row.get::<_, Option<String>>(1)?)))?;
            let last = rows.collect::<rusqlite::Result<HashMap<_, _>>>()?;
            let mut last: Vec<_> = last
                .into_iter()
                .filter_map(|(id, status)| Some((ContainerId::parse(&id)?, parse(&status?)?)))
                .collect();
            last.sort();
            Ok(last)
        })
    }

    /// When somebody last looked at this host.
    pub fn last_look(&self, host: &str) -> Result<Option<Timestamp>, StateFault> {
        self.reading(|connection| {
            if !has_looks(connection)? {
                return Ok(None);
            }
            let at = connection.query_row("SELECT at FROM looks WHERE host = ?1", [host], |row| row.get(0));
            Ok(at.optional()?.and_then(moment))
        })
    }

    /// Somebody looks at this host now.
    pub fn set_last_look(&mut self, host: &str, at: Timestamp) -> Result<(), StateFault> {
        let written = self.connection.execute(
            "INSERT OR REPLACE INTO looks (host, at) VALUES (?1, ?2)",
            params![host, at.as_microsecond()],
        );
        written.map(|_| ()).map_err(|error| self.fault(&error))
    }

    /// What was done to a container, oldest first, from the journal.
    pub fn actions_on(&self, host: &str, id: &ContainerId) -> Result<Vec<PastAction>, StateFault> {
        self.reading(|connection| {
            let mut statement = connection.prepare(
                "SELECT p.at, p.who, i.action, \
                        (SELECT detail FROM steps WHERE item = i.id AND step = 'outcome' ORDER BY id DESC LIMIT 1), \
                        (SELECT step FROM steps WHERE item = i.id ORDER BY id DESC LIMIT 1) \
                 FROM items AS i JOIN plans AS p ON p.id = i.plan \
                 WHERE p.host = ?1 AND i.container = ?2 ORDER BY i.id",
            )?;
            let mut rows = statement.query(params![host, id.as_str()])?;
            let mut actions = Vec::new();
            while let Some(row) = rows.next()? {
                let (outcome, step): (Option<String>, Option<String>) = (row.get(3)?, row.get(4)?);
                let outcome = outcome.unwrap_or_else(|| match step {
                    Some(step) => format!("{step}, and no more is known"),
                    None => "nothing more is known".to_owned(),
                });
                if let Ok(at) = row.get::<_, String>(0)?.parse() {
                    actions.push(PastAction { at, who: row.get(1)?, action: row.get(2)?, outcome });
                }
            }
            Ok(actions)
        })
    }
}

fn forget_before(connection: &Connection, now: Timestamp) -> rusqlite::Result<()> {
    let before = |age: SignedDuration| now.saturating_sub(age).map_or(i64::MIN, Timestamp::as_microsecond);
    connection
        .prepare_cached(
            "DELETE FROM changes WHERE at < ?1 AND \
             (at < ?2 OR status IS NULL OR id NOT IN (SELECT MAX(id) FROM changes GROUP BY host, container))",
        )?
        .execute(params![before(KEPT_FOR), before(LAST_KEPT_FOR)])?;
    Ok(())
}

/// A state that an older version wrote, and that is only read, knows of no looks.
fn has_looks(connection: &Connection) -> rusqlite::Result<bool> {
    connection.prepare("SELECT 1 FROM sqlite_schema WHERE name = 'looks'")?.exists([])
}

fn moment(microseconds: i64) -> Option<Timestamp> {
    Timestamp::from_microsecond(microseconds).ok()
}

fn parse(word: &str) -> Option<Status> {
    Status::ALL.into_iter().find(|status| status.as_str() == word)
}
