//! Our own state: the journal of what was intended and what happened, the eviction marks, and what was seen. SQLite in the
//! state folder, readable by its owner only; never the application's database, and never written in read-only mode.

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod board;
mod clock;
mod comebacks;
mod fault;
mod journal;
mod looks;
mod marks;
mod place;
mod quarantines;
mod specs;
mod stores;

use std::fs::{DirBuilder, Permissions};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, OpenFlags};

use crate::database::{SETTLES, Stamp, beside, uri};
pub use board::{Board, BoardFault, Notice};
pub use fault::{StateFault, Trouble};
pub use journal::{ItemRecord, LogEntry, PlanRecord, Step, Unfinished};
pub use looks::{PastAction, Seen, StatusChange};
pub use marks::{Mark, marks_of_root, obeyed_marks};
pub use specs::{Kept, Recorded, SpecRecord};
pub(crate) use stores::is_written_alike;
pub use stores::{KeptStore, StoreKey};

/// The version of the tables; a newer program's are refused.
const VERSION: i64 = 6;

/// What every version after the first added, in order.
const ADDED: [&str; 5] = [looks::TABLES, specs::TABLES, comebacks::TABLES, stores::TABLES, clock::TABLES];

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
    /// What the file looked like when it was opened as one that nobody is writing to.
    settled: Option<Stamp>,
}

/// What our own state looks like from outside: as long as it looks the same, it says the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Glance {
    file: Option<Stamp>,
    log: Option<Stamp>,
}

impl State {
    /// Looks at the state from outside; `None` when that tells nothing, because it is being written to.
    pub fn glance(folder: &Path) -> Option<Glance> {
        let path = folder.join("state.db");
        let file = Stamp::at(&path).ok()?;
        let log = Stamp::at(&beside(&path, "-wal")).ok()?;
        let settled = |stamp: &Stamp| stamp.is_older_than(SETTLES);
        [file, log].iter().flatten().all(settled).then_some(Glance { file, log })
    }

    /// Refuses a folder in which another user has a say. Whoever is about to make something there asks first.
    pub fn refuse_strangers(folder: &Path) -> Result<(), StateFault> {
        place::refuse_to_write(folder)
    }

    /// Opens the state for writing, and makes it if it is not there.
    pub fn open(folder: &Path) -> Result<Self, StateFault> {
        let unusable = |why: String| StateFault::Folder { folder: folder.display().to_string(), why };
        place::refuse_to_write(folder)?;
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder)
            .map_err(|error| unusable(error.to_string()))?;
        let mode =
            std::fs::metadata(folder).map_err(|error| unusable(error.to_string()))?.permissions().mode();
        if mode & 0o022 != 0 {
            let place = folder.display();
            let why = format!("others may write in it (mode {:04o}; `chmod 700 {place}`)", mode & 0o7777);
            return Err(unusable(why));
        }
        if mode & 0o077 != 0 {
            let private = Permissions::from_mode(0o700);
            std::fs::set_permissions(folder, private).map_err(|error| unusable(error.to_string()))?;
        }
        let path = folder.join("state.db");
        if let Some(empty) = std::fs::metadata(&path).ok().filter(|metadata| metadata.len() == 0) {
            place::refuse_emptied(&path, &empty)?;
        }
        let state = Self::connect(path, Access::Write)?;
        state.republish();
        Ok(state)
    }

    /// Opens the state for reading; `None` when there is none yet. As long as nobody has it open for writing, nothing is
    /// written: the usual way to read a database with a write-ahead log leaves files beside it.
    pub fn open_to_read(folder: &Path) -> Result<Option<Self>, StateFault> {
        let path = folder.join("state.db");
        match std::fs::metadata(&path) {
            Ok(metadata) if metadata.len() == 0 => {
                return place::refuse_emptied(&path, &metadata).map(|()| None);
            }
            Ok(_) => place::refuse_to_read(folder, &path)?,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return place::refuse_dangling(folder, &path).map(|()| None);
            }
            Err(error) => return Err(Trouble::from(&error).of(&path)),
        }
        if let Some(stamp) = settled(&path) {
            let opened = Self::connect(path.clone(), Access::ReadSettled(stamp));
            // What went wrong, or well, while somebody began to write says nothing.
            if at_rest(&path) == Some(stamp) {
                return opened.map(Some);
            }
        }
        Self::connect(path, Access::Read).map(Some)
    }

    fn connect(path: PathBuf, access: Access) -> Result<Self, StateFault> {
        match Self::opened(&path, access) {
            Ok(connection) => {
                let settled = match access {
                    Access::ReadSettled(stamp) => Some(stamp),
                    Access::Read | Access::Write => None,
                };
                Ok(Self { connection, path, settled })
            }
            Err(trouble) => Err(trouble.of(&path)),
        }
    }

    fn opened(path: &Path, access: Access) -> Result<Connection, Trouble> {
        let write = matches!(access, Access::Write);
        let flags = OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let mut connection = match access {
            Access::Write => {
                let flags = flags | OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE;
                Connection::open_with_flags(path, flags)?
            }
            Access::Read => Connection::open_with_flags(path, flags | OpenFlags::SQLITE_OPEN_READ_ONLY)?,
            Access::ReadSettled(_) => {
                let flags = flags | OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI;
                Connection::open_with_flags(uri(path, "immutable=1"), flags)?
            }
        };
        connection.busy_timeout(Duration::from_secs(5))?;
        if write {
            // Before there is a log, which gets the same rights. Nobody else reaches into the folder meanwhile.
            make_private(path)?;
            connection.pragma_update(None, "journal_mode", "wal")?;
            connection.pragma_update(None, "synchronous", "full")?;
            connection.pragma_update(None, "foreign_keys", true)?;
            // A spec that is forgotten leaves no secret behind.
            connection.pragma_update(None, "secure_delete", true)?;
        }
        let version = connection.query_row("PRAGMA user_version", [], |row| row.get::<_, i64>(0))?;
        match version {
            VERSION => {}
            0..VERSION if write => update_tables(&mut connection)?,
            // What an older version does not have is empty.
            1..VERSION => {}
            0 => return Err(Trouble::NoTables),
            newer => return Err(Trouble::Format(newer)),
        }
        Ok(connection)
    }

    /// Reads. What was read while somebody began to write is read again, the usual way.
    fn reading<T>(&self, read: impl Fn(&Connection) -> rusqlite::Result<T>) -> Result<T, StateFault> {
        let answer = read(&self.connection);
        if self.settled.is_some() && at_rest(&self.path) != self.settled {
            let again = Self::connect(self.path.clone(), Access::Read)?;
            return read(&again.connection).map_err(|error| self.fault(&error));
        }
        answer.map_err(|error| self.fault(&error))
    }

    fn fault(&self, error: &rusqlite::Error) -> StateFault {
        Trouble::from(error).of(&self.path)
    }
}

/// How the database is opened.
#[derive(Clone, Copy, Debug)]
enum Access {
    Write,
    Read,
    /// Without locks and without a trace, while the file looks like this.
    ReadSettled(Stamp),
}

/// What the file looks like, if all of the database is in it: nobody has written to its log since it was last tidied up.
fn at_rest(path: &Path) -> Option<Stamp> {
    let log = Stamp::at(&beside(path, "-wal")).ok()?;
    let unwritten = log.is_none_or(|log| log.is_empty());
    Stamp::at(path).ok().flatten().filter(|_| unwritten)
}

/// The same, once every write from now on would show.
fn settled(path: &Path) -> Option<Stamp> {
    const SHORT: Duration = Duration::from_millis(50);
    let stamp = at_rest(path)?;
    let step = stamp.step();
    if stamp.is_older_than(step) {
        return Some(stamp);
    }
    if step > SHORT {
        return None;
    }
    std::thread::sleep(SHORT);
    at_rest(path).filter(|stamp| stamp.is_older_than(step))
}

/// Takes the rights of others on the file away.
fn make_private(path: &Path) -> Result<(), Trouble> {
    let mode = std::fs::metadata(path).map_err(|error| Trouble::from(&error))?.permissions().mode();
    if mode & 0o077 != 0 {
        let private = Permissions::from_mode(0o600);
        std::fs::set_permissions(path, private).map_err(|error| Trouble::from(&error))?;
    }
    Ok(())
}

/// Makes the tables, or adds what an older version had not. Two programs may come here at once; only one does it.
fn update_tables(connection: &mut Connection) -> rusqlite::Result<()> {
    let transaction = connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
    let version: i64 = transaction.query_row("PRAGMA user_version", [], |row| row.get(0))?;
    if version == 0 {
        transaction.execute_batch(TABLES)?;
    }
    for (added, tables) in (2..).zip(ADDED) {
        if version < added {
            transaction.execute_batch(tables)?;
        }
    }
    if version < VERSION {
        transaction.pragma_update(None, "user_version", VERSION)?;
    }
    transaction.commit()
}
