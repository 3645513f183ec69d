//! Eviction marks: containers that are to go when their sessions have ended. They are kept here because labels cannot
//! be changed, and keyed by host, id and run, so that a container that was started anew is not evicted by an old mark.

use std::collections::HashMap;
use std::path::Path;

use jiff::Timestamp;
use rusqlite::{Connection, Transaction, TransactionBehavior, params};

use super::board::{Board, state_name};
use super::{State, StateFault};
use crate::domain::ContainerId;
use crate::domain::snapshot::DrainMark;

/// The marks that let a container on this host go: those in our own state, and those that root has published. What anybody else
/// wants to see gone is asked by `may-start` and by nobody who removes.
pub fn obeyed_marks(folder: &Path, host: &str) -> Result<HashMap<ContainerId, DrainMark>, StateFault> {
    let mut marks = match State::open_to_read(folder)? {
        Some(state) => state.drains(host)?,
        None => HashMap::new(),
    };
    for (container, mark) in marks_of_root(folder, host)? {
        marks.entry(container).or_insert(mark);
    }
    Ok(marks)
}

/// What root has published, but not from this very state, which speaks for itself.
pub fn marks_of_root(folder: &Path, host: &str) -> Result<Vec<(ContainerId, DrainMark)>, StateFault> {
    let Some(board) = Board::here() else { return Ok(Vec::new()) };
    let unread = |fault: super::BoardFault| StateFault::Folder {
        folder: board.folder().display().to_string(),
        why: fault.to_string(),
    };
    let notices = board.read_of_root().map_err(unread)?;
    let own = if super::place::effective_user() == 0 { state_name(folder) } else { String::new() };
    let others = notices.into_iter().filter(|notice| notice.host == host && notice.state != own);
    Ok(others.map(|notice| (notice.mark.container, notice.mark.mark)).collect())
}

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
        let all = self.reading(all_marks)?;
        Ok(all.into_iter().filter(|(at, _)| at == host).map(|(_, mark)| mark).collect())
    }

    /// The marks on every host, by the address at which they were set.
    pub fn marks_of_all_hosts(&self) -> Result<Vec<(String, Mark)>, StateFault> {
        self.reading(all_marks)
    }

    /// The marks on one host, by container, as a snapshot wants them.
    pub fn drains(&self, host: &str) -> Result<HashMap<ContainerId, DrainMark>, StateFault> {
        Ok(self.marks(host)?.into_iter().map(|mark| (mark.container, mark.mark)).collect())
    }

    /// Sets a mark, or sets it anew.
    pub fn set_mark(&self, host: &str, mark: &Mark) -> Result<(), StateFault> {
        let sql = "INSERT OR REPLACE INTO marks (host, container, started_at, name, system, workspace, marked_at, marked_by) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
        self.changing_marks(|connection| {
            let values = params![
                host,
                mark.container.as_str(),
                mark.mark.started_at.map(|at| at.to_string()),
                mark.name,
                mark.system,
                mark.workspace,
                mark.mark.marked_at.to_string(),
                mark.mark.marked_by,
            ];
            connection.execute(sql, values).map(|_| ())
        })
    }

    /// Takes a mark away; says whether there was one.
    pub fn clear_mark(&self, host: &str, container: &ContainerId) -> Result<bool, StateFault> {
        let sql = "DELETE FROM marks WHERE host = ?1 AND container = ?2";
        self.changing_marks(|connection| {
            connection.execute(sql, [host, container.as_str()]).map(|count| count > 0)
        })
    }

    /// Changes marks and publishes them. Whoever else does so at the same time comes before or after, so that the last paper
    /// on the board has all of them. What cannot be published is set all the same.
    fn changing_marks<T>(
        &self,
        change: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, StateFault> {
        let changed = (|| {
            let transaction = Transaction::new_unchecked(&self.connection, TransactionBehavior::Immediate)?;
            let changed = change(&transaction)?;
            if let Ok(marks) = all_marks(&transaction) {
                self.publish(&marks);
            }
            transaction.commit()?;
            Ok(changed)
        })();
        if changed.is_err() {
            self.republish();
        }
        changed.map_err(|error| self.fault(&error))
    }

    /// Publishes the marks as they are, unless that is done: the board may be newer than they are, or may have been lost.
    pub(super) fn republish(&self) {
        let Some(board) = Board::here() else { return };
        // What root cannot make, others will say is missing.
        let _ = board.prepare();
        let up_to_date = all_marks(&self.connection).is_ok_and(|marks| board.shows(&self.name(), &marks));
        if !up_to_date {
            let again = Transaction::new_unchecked(&self.connection, TransactionBehavior::Immediate);
            if let Ok(transaction) = again
                && let Ok(marks) = all_marks(&transaction)
            {
                self.publish(&marks);
            }
        }
    }

    fn publish(&self, marks: &[(String, Mark)]) {
        if let Some(board) = Board::here() {
            // `drain` and `doctor` say where others cannot see it.
            let _ = board.publish(&self.name(), marks);
        }
    }

    /// What the board knows this state by.
    fn name(&self) -> String {
        state_name(self.path.parent().unwrap_or(&self.path))
    }
}

/// All marks, each with its host.
fn all_marks(connection: &Connection) -> rusqlite::Result<Vec<(String, Mark)>> {
    let mut statement = connection.prepare(
        "SELECT container, started_at, name, system, workspace, marked_at, marked_by, host FROM marks \
         ORDER BY host, container",
    )?;
    let mut rows = statement.query([])?;
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
        let mark = Mark {
            container,
            name: row.get(2)?,
            system: row.get(3)?,
            workspace: row.get(4)?,
            mark: DrainMark { started_at, marked_at, marked_by: row.get(6)? },
        };
        marks.push((row.get(7)?, mark));
    }
    Ok(marks)
}
