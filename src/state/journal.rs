//! The journal: who intended what, when, on which evidence, and what came of each step. Written before and after.

use jiff::Timestamp;
use rusqlite::{Connection, params};
use serde::Serialize;

use super::{State, StateFault};

/// A plan that is about to be carried out.
#[derive(Clone, Debug)]
pub struct PlanRecord {
    /// The engine it is carried out on.
    pub host: String,
    /// Who asked for it.
    pub who: String,
    /// What was asked for.
    pub intent: String,
}

/// One item of it.
#[derive(Clone, Debug)]
pub struct ItemRecord {
    /// The container's full id.
    pub container: String,
    /// Its name.
    pub name: String,
    /// Its system.
    pub system: Option<String>,
    /// Its workspace.
    pub workspace: Option<String>,
    /// The status it had.
    pub status: String,
    /// What is to be done.
    pub action: String,
    /// Why.
    pub reason: String,
    /// The run it was decided on.
    pub started_at: Option<Timestamp>,
}

/// A step of an item, written down before its last check: whether it was taken, the next step or the engine tells. The
/// last one is its outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// A stop is next.
    Stopping,
    /// The engine says that it stopped.
    Stopped,
    /// A removal is next.
    Removing,
    /// A start is next, to undo a stop.
    Rescuing,
    /// What it has written was saved; the detail says where.
    Saved,
    /// A new name is next.
    Renaming,
    /// A container is about to be made; the detail is its name.
    Creating,
    /// It was made; the detail is its id.
    Created,
    /// A start is next.
    Starting,
    /// It is over; the detail says how.
    Outcome,
}

impl Step {
    /// The word in the journal.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Stopping => "stopping",
            Self::Stopped => "stopped",
            Self::Removing => "removing",
            Self::Rescuing => "rescuing",
            Self::Saved => "saved",
            Self::Renaming => "renaming",
            Self::Creating => "creating",
            Self::Created => "created",
            Self::Starting => "starting",
            Self::Outcome => "outcome",
        }
    }
}

/// How many bytes are set aside for the steps of a plan: a few pages, and more for each item.
const ROOM: usize = 64 * 1024;
const ROOM_PER_ITEM: usize = 2 * 1024;

/// An item that was begun and never came to an outcome: the program was killed in between.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unfinished {
    /// The item.
    pub item: i64,
    /// The container's full id.
    pub container: String,
    /// Its name.
    pub name: String,
    /// What was to be done.
    pub action: String,
    /// The last step that was journalled; `None` when only the intent was.
    pub last_step: Option<String>,
    /// When.
    pub at: String,
    /// By whom.
    pub who: String,
}

/// One line of the log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LogEntry {
    /// When it was planned.
    pub at: String,
    /// On which engine.
    pub host: String,
    /// By whom.
    pub who: String,
    /// What was asked for.
    pub intent: String,
    /// The container's full id.
    pub container: String,
    /// Its name.
    pub name: String,
    /// Its system.
    pub system: Option<String>,
    /// Its workspace.
    pub workspace: Option<String>,
    /// The status it had.
    pub status: String,
    /// What was to be done.
    pub action: String,
    /// Why.
    pub reason: String,
    /// What came of it; `None` when nothing is known.
    pub outcome: Option<String>,
    /// Every step with its time.
    pub steps: Vec<LogStep>,
}

/// One step in the log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LogStep {
    /// When.
    pub at: String,
    /// Which.
    pub step: String,
    /// What it says.
    pub detail: String,
}

impl State {
    /// Writes down what is about to be done, all items in one transaction that is on disk when this returns. Gives
    /// the number of each item.
    ///
    /// Room for what is still to be written is set aside with it: a disk that fills up meanwhile must not keep anybody from
    /// saying what was done. What was filled and cleared again is written to before the file grows, and once the log is
    /// checked in, it is written from its beginning.
    pub fn begin(&mut self, plan: &PlanRecord, items: &[ItemRecord]) -> Result<Vec<i64>, StateFault> {
        let begun = self.write_plan(plan, items).map_err(|error| self.fault(&error))?;
        // Whoever reads meanwhile only puts that off.
        let _ = self.connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()));
        Ok(begun)
    }

    fn write_plan(&mut self, plan: &PlanRecord, items: &[ItemRecord]) -> rusqlite::Result<Vec<i64>> {
        let transaction = self.connection.transaction()?;
        transaction.execute(
            "INSERT INTO plans (at, host, who, intent) VALUES (?1, ?2, ?3, ?4)",
            params![Timestamp::now().to_string(), plan.host, plan.who, plan.intent],
        )?;
        let plan_id = transaction.last_insert_rowid();
        let mut numbers = Vec::with_capacity(items.len());
        for item in items {
            transaction.execute(
                "INSERT INTO items (plan, container, name, system, workspace, status, action, reason, started_at) \
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
                params![
                    plan_id,
                    item.container,
                    item.name,
                    item.system,
                    item.workspace,
                    item.status,
                    item.action,
                    item.reason,
                    item.started_at.map(|at| at.to_string()),
                ],
            )?;
            numbers.push(transaction.last_insert_rowid());
        }
        if let Some(first) = numbers.first() {
            let room = i64::try_from(ROOM + items.len() * ROOM_PER_ITEM).unwrap_or(i64::MAX);
            transaction.execute(
                "INSERT INTO steps (item, at, step, detail) VALUES (?1, '', '', printf('%*s', ?2, ''))",
                params![first, room],
            )?;
            let filler = transaction.last_insert_rowid();
            transaction.execute("DELETE FROM steps WHERE id = ?1", [filler])?;
        }
        transaction.commit()?;
        Ok(numbers)
    }

    /// Writes down steps, all in one transaction that is on disk when this returns.
    pub fn write_steps(&mut self, steps: &[(i64, Step, String)]) -> Result<(), StateFault> {
        let mut write = || -> rusqlite::Result<()> {
            let transaction = self.connection.transaction()?;
            let mut insert = transaction
                .prepare_cached("INSERT INTO steps (item, at, step, detail) VALUES (?1, ?2, ?3, ?4)")?;
            for (item, step, detail) in steps {
                insert.execute(params![item, Timestamp::now().to_string(), step.as_str(), detail])?;
            }
            drop(insert);
            transaction.commit()
        };
        let written = write();
        written.map_err(|error| self.fault(&error))
    }

    /// Items on this host that were begun and never came to an outcome.
    pub fn unfinished(&self, host: &str) -> Result<Vec<Unfinished>, StateFault> {
        self.reading(|connection| {
            let mut statement = connection.prepare(
                "SELECT i.id, i.container, i.name, i.action, p.at, p.who, \
                        (SELECT step FROM steps WHERE item = i.id ORDER BY id DESC LIMIT 1) \
                 FROM items AS i JOIN plans AS p ON p.id = i.plan \
                 WHERE p.host = ?1 AND NOT EXISTS (SELECT 1 FROM steps WHERE item = i.id AND step = 'outcome') \
                 ORDER BY i.id",
            )?;
            let rows = statement.query_map([host], |row| {
                Ok(Unfinished {
                    item: row.get(0)?,
                    container: row.get(1)?,
                    name: row.get(2)?,
                    action: row.get(3)?,
                    at: row.get(4)?,
                    who: row.get(5)?,
                    last_step: row.get(6)?,
                })
            })?;
            rows.collect()
        })
    }

    /// What was done, oldest first, from `since` on.
    pub fn log(&self, since: Option<Timestamp>) -> Result<Vec<LogEntry>, StateFault> {
        self.reading(|connection| read_log(connection, since))
    }
}

fn read_log(connection: &Connection, since: Option<Timestamp>) -> rusqlite::Result<Vec<LogEntry>> {
    let mut statement = connection.prepare(
        "SELECT p.at, p.host, p.who, p.intent, i.container, i.name, i.system, i.workspace, i.status, i.action, \
                i.reason, i.id FROM items AS i JOIN plans AS p ON p.id = i.plan ORDER BY i.id",
    )?;
    let mut steps = connection.prepare("SELECT at, step, detail FROM steps WHERE item = ?1 ORDER BY id")?;
    let mut rows = statement.query([])?;
    let mut entries = Vec::new();
    while let Some(row) = rows.next()? {
        let at: String = row.get(0)?;
        let too_old = since.is_some_and(|since| at.parse::<Timestamp>().is_ok_and(|at| at < since));
        if too_old {
            continue;
        }
        let of_item = steps.query_map([row.get::<_, i64>(11)?], |row| {
            Ok(LogStep { at: row.get(0)?, step: row.get(1)?, detail: row.get(2)? })
        })?;
        let of_item: Vec<LogStep> = of_item.collect::<rusqlite::Result<_>>()?;
        let outcome = of_item.iter().find(|step| step.step == Step::Outcome.as_str());
        entries.push(LogEntry {
            at,
            host: row.get(1)?,
            who: row.get(2)?,
            intent: row.get(3)?,
            container: row.get(4)?,
            name: row.get(5)?,
            system: row.get(6)?,
            workspace: row.get(7)?,
            status: row.get(8)?,
            action: row.get(9)?,
            reason: row.get(10)?,
            outcome: outcome.map(|step| step.detail.clone()),
            steps: of_item,
        });
    }
    Ok(entries)
}
