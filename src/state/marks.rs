//! Eviction marks: containers that are to go when their sessions have ended. They are kept here because labels cannot
//! be changed, and keyed by host, id and run, so that a container that was started anew is not evicted by an old mark.

use std::collections::HashMap;

use jiff::Timestamp;
use rusqlite::{Connection, params};

use super::{State, StateFault};
use crate::domain::ContainerId;
use crate::domain::snapshot::DrainMark;

/// A mark and what it was set on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    /// The container.
    pub container: ContainerId,
    /// Its name when it was marked.
    pub name: String,
    /// Its system.
    pub system: Option<String>,
    /// Its workspace.
    pub workspace: Option<String>,
    /// The mark itself.
    pub mark: DrainMark,
}

impl State {
    /// All marks on one host.
    pub fn marks(&self, host: &str) -> Result<Vec<Mark>, StateFault> {
        self.reading(|connection| read_marks(connection, host))
    }

    /// The marks on one host, by container, as a snapshot wants them.
    pub fn drains(&self, host: &str) -> Result<HashMap<ContainerId, DrainMark>, StateFault> {
        Ok(self.marks(host)?.into_iter().map(|mark| (mark.container, mark.mark)).collect())
    }

    /// Sets a mark, or sets it anew.
    pub fn set_mark(&self, host: &str, mark: &Mark) -> Result<(), StateFault> {
        let written = self.connection.execute(
            "INSERT OR REPLACE INTO marks (host, container, started_at, name, system, workspace, marked_at, marked_by) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
            params![
                host,
                mark.container.as_str(),
                mark.mark.started_at.map(|at| at.to_string()),
                mark.name,
                mark.system,
                mark.workspace,
                mark.mark.marked_at.to_string(),
                mark.mark.marked_by,
            ],
        );
        written.map(|_| ()).map_err(|error| self.fault(&error))
    }

    /// Takes a mark away; says whether there was one.
    pub fn clear_mark(&self, host: &str, container: &ContainerId) -> Result<bool, StateFault> {
        let cleared = self
            .connection
            .execute("DELETE FROM marks WHERE host = ?1 AND container = ?2", [host, container.as_str()]);
        cleared.map(|count| count > 0).map_err(|error| self.fault(&error))
    }
}

fn read_marks(connection: &Connection, host: &str) -> rusqlite::Result<Vec<Mark>> {
    let mut statement = connection.prepare(
        "SELECT container, started_at, name, system, workspace, marked_at, marked_by FROM marks \
         WHERE host = ?1 ORDER BY container",
    )?;
    let mut rows = statement.query([host])?;
    let mut marks = Vec::new();
    while let Some(row) = rows.next()? {
        let container: String = row.get(0)?;
        let started_at: Option<String> = row.get(1)?;
        let marked_at: String = row.get(5)?;
        let unreadable = |column, what: &str| {
            rusqlite::Error::FromSqlConversionFailure(column, rusqlite::types::Type::Text, what.into())
        };
        let container =
            ContainerId::parse(&container).ok_or_else(|| unreadable(0, "a mark names no container"))?;
        let marked_at = marked_at.parse().map_err(|_| unreadable(5, "a mark has no time"))?;
        let started_at = started_at.map(|at| at.parse::<Timestamp>()).transpose();
        let started_at = started_at.map_err(|_| unreadable(1, "a mark names no run"))?;
        marks.push(Mark {
            container,
            name: row.get(2)?,
            system: row.get(3)?,
            workspace: row.get(4)?,
            mark: DrainMark { started_at, marked_at, marked_by: row.get(6)? },
        });
    }
    Ok(marks)
}
