//! Our own state: the journal of what was intended and what happened, and the eviction marks. SQLite in the state
//! folder, readable by its owner only; never the application's database, and never written in read-only mode.

mod journal;
mod marks;

use std::fs::DirBuilder;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, OpenFlags};
use thiserror::Error;

pub use journal::{ItemRecord, LogEntry, PlanRecord, Step, Unfinished};
pub use marks::Mark;

/// Why our own state cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum StateFault {
    /// The folder cannot be used.
    #[error(
        "the state folder {folder} cannot be used: {why}; give this user a folder of its own there (mode 0700)"
    )]
    Folder {
        /// Which folder.
        folder: String,
        /// Why.
        why: String,
    },
    /// The database cannot be used.
    #[error(
        "the state database {path} cannot be used: {why}; nothing is done without a journal: move the file away to begin anew"
    )]
    Database {
        /// Which file.
        path: String,
        /// Why.
        why: String,
    },
}

/// The version of the tables; a newer program's are refused.
const VERSION: i64 = 1;

const TABLES: &str = "
CREATE TABLE plans (
    id INTEGER PRIMARY KEY, at TEXT NOT NULL, host TEXT NOT NULL, who TEXT NOT NULL, intent TEXT NOT NULL);
CREATE TABLE items (
    id INTEGER PRIMARY KEY, plan INTEGER NOT NULL REFERENCES plans (id), container TEXT NOT NULL,
    name TEXT NOT NULL, system TEXT, workspace TEXT, status TEXT NOT NULL, action TEXT NOT NULL,
    reason TEXT NOT NULL, started_at TEXT);
CREATE TABLE steps (
    id INTEGER PRIMARY KEY, item INTEGER NOT NULL REFERENCES items (id), at TEXT NOT NULL,
    step TEXT NOT NULL, detail TEXT NOT NULL);
CREATE INDEX steps_by_item ON steps (item);
CREATE TABLE marks (
    host TEXT NOT NULL, container TEXT NOT NULL, started_at TEXT, name TEXT NOT NULL, system TEXT,
    workspace TEXT, marked_at TEXT NOT NULL, marked_by TEXT NOT NULL, PRIMARY KEY (host, container));
";

/// The state database.
#[derive(Debug)]
pub struct State {
    connection: Connection,
    path: PathBuf,
}

impl State {
    /// Opens the state for writing, and makes it if it is not there.
    pub fn open(folder: &Path) -> Result<Self, StateFault> {
        let unusable = |why: String| StateFault::Folder { folder: folder.display().to_string(), why };
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder)
            .map_err(|error| unusable(error.to_string()))?;
        let mode =
            std::fs::metadata(folder).map_err(|error| unusable(error.to_string()))?.permissions().mode();
        if mode & 0o022 != 0 {
            return Err(unusable(format!("others may write in it (mode {:04o})", mode & 0o7777)));
        }
        if mode & 0o077 != 0 {
            let private = std::fs::Permissions::from_mode(0o700);
            std::fs::set_permissions(folder, private).map_err(|error| unusable(error.to_string()))?;
        }
        let path = folder.join("state.db");
        let mut options = std::fs::OpenOptions::new();
        options.create(true).append(true).mode(0o600);
        options.open(&path).map_err(|error| unusable(error.to_string()))?;
        Self::connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE, true)
    }

    /// Opens the state for reading; `None` when there is none yet.
    pub fn open_to_read(folder: &Path) -> Result<Option<Self>, StateFault> {
        let path = folder.join("state.db");
        match std::fs::metadata(&path) {
            Ok(metadata) if metadata.len() == 0 => return Ok(None),
            Ok(_) => {}
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => {
                return Err(StateFault::Database {
                    path: path.display().to_string(),
                    why: error.to_string(),
                });
            }
        }
        Self::connect(path, OpenFlags::SQLITE_OPEN_READ_ONLY, false).map(Some)
    }

    fn connect(path: PathBuf, flags: OpenFlags, write: bool) -> Result<Self, StateFault> {
        let fault = |why: String| StateFault::Database { path: path.display().to_string(), why };
        let open = || -> rusqlite::Result<Connection> {
            let connection = Connection::open_with_flags(&path, flags | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
            connection.busy_timeout(Duration::from_secs(5))?;
            if write {
                connection.pragma_update(None, "journal_mode", "wal")?;
                connection.pragma_update(None, "synchronous", "full")?;
                connection.pragma_update(None, "foreign_keys", true)?;
            }
            Ok(connection)
        };
        let mut connection = open().map_err(|error| fault(error.to_string()))?;
        let version = connection
            .query_row("PRAGMA user_version", [], |row| row.get::<_, i64>(0))
            .map_err(|error| fault(error.to_string()))?;
        match version {
            VERSION => {}
            0 if write => create_tables(&mut connection).map_err(|error| fault(error.to_string()))?,
            0 => return Err(fault("it has no tables".to_owned())),
            newer => {
                return Err(fault(format!(
                    "it was written by another version of sandkeeper (format {newer})"
                )));
            }
        }
        Ok(Self { connection, path })
    }

    fn fault(&self, error: &rusqlite::Error) -> StateFault {
        StateFault::Database { path: self.path.display().to_string(), why: error.to_string() }
    }
}

/// Two programs may come here at once; only one makes the tables.
fn create_tables(connection: &mut Connection) -> rusqlite::Result<()> {
    let transaction = connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
    let version: i64 = transaction.query_row("PRAGMA user_version", [], |row| row.get(0))?;
    if version == 0 {
        transaction.execute_batch(TABLES)?;
        transaction.pragma_update(None, "user_version", VERSION)?;
    }
    transaction.commit()
}
