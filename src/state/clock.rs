//! The clocks as they were last read, and when the host slept: the next program sees by them that the wall clock was set, or
//! that the host slept, while nobody watched.

use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension, params};

use super::specs::moment;
use super::{State, StateFault};
use crate::clock::{History, Reading};
use crate::domain::awake::Sleep;

pub(super) const TABLES: &str = "
CREATE TABLE clock (
    id INTEGER PRIMARY KEY CHECK (id = 1), boot TEXT NOT NULL, wall INTEGER NOT NULL, up_ms INTEGER NOT NULL,
    awake_ms INTEGER NOT NULL, stepped_at INTEGER, step_ms INTEGER);
CREATE TABLE sleeps (until INTEGER PRIMARY KEY, length_ms INTEGER NOT NULL);
";

impl State {
    /// What is known of the clocks and of the host's sleeps; `None` when nothing is.
    pub fn clock_history(&self) -> Result<Option<History>, StateFault> {
        self.reading(read)
    }

    /// Remembers the clocks.
    pub fn remember_clock(&mut self, history: &History) -> Result<(), StateFault> {
        let written = write(&mut self.connection, history);
        written.map_err(|error| self.fault(&error))
    }
}

fn read(connection: &Connection) -> rusqlite::Result<Option<History>> {
    if !connection.prepare("SELECT 1 FROM sqlite_schema WHERE name = 'clock'")?.exists([])? {
        return Ok(None);
    }
    let millis = |value: i64| std::time::Duration::from_millis(u64::try_from(value).unwrap_or_default());
    let last = connection
        .prepare("SELECT boot, wall, up_ms, awake_ms, stepped_at, step_ms FROM clock")?
        .query_row([], |row| {
            let wall = moment(row.get(1)?).unwrap_or(Timestamp::UNIX_EPOCH);
            let step = match (row.get::<_, Option<i64>>(4)?, row.get::<_, Option<i64>>(5)?) {
                (Some(at), Some(step)) => moment(at).map(|at| (at, millis(step))),
                _ => None,
            };
            let reading =
                Reading { boot: row.get(0)?, wall, up: millis(row.get(2)?), awake: millis(row.get(3)?) };
            Ok((reading, step))
        })
        .optional()?;
    let Some((last, step)) = last else { return Ok(None) };
    let mut statement = connection.prepare("SELECT until, length_ms FROM sleeps ORDER BY until")?;
    let sleeps = statement.query_map([], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?)))?;
    let mut slept = Vec::new();
    for sleep in sleeps {
        let (until, length) = sleep?;
        slept.extend(moment(until).map(|until| Sleep { until, length: millis(length) }));
    }
    Ok(Some(History { last, step, slept }))
}

fn write(connection: &mut Connection, history: &History) -> rusqlite::Result<()> {
    let millis = |span: std::time::Duration| i64::try_from(span.as_millis()).unwrap_or(i64::MAX);
    let transaction = connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
    let History { last, step, slept } = history;
    transaction.execute(
        "INSERT OR REPLACE INTO clock (id, boot, wall, up_ms, awake_ms, stepped_at, step_ms) \
         VALUES (1, ?1, ?2, ?3, ?4, ?5, ?6)",
        params![
            last.boot,
            last.wall.as_microsecond(),
            millis(last.up),
            millis(last.awake),
            step.map(|(at, _)| at.as_microsecond()),
            step.map(|(_, step)| millis(step))
        ],
    )?;
    transaction.execute("DELETE FROM sleeps", [])?;
    for Sleep { until, length } in slept {
        transaction.execute(
            "INSERT OR REPLACE INTO sleeps (until, length_ms) VALUES (?1, ?2)",
            params![until.as_microsecond(), millis(*length)],
        )?;
    }
    transaction.commit()
}
