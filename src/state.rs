//! Our own state: the journal of what was intended and what happened, the eviction marks, and what was seen. SQLite in the
//! state folder, readable by its owner only; never the application's database, and never written in read-only mode.

mod board;
mod comebacks;
mod journal;
mod looks;
mod marks;
mod place;
mod quarantines;
mod specs;

use std::fmt::Write as _;
use std::fs::DirBuilder;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, OpenFlags};
use thiserror::Error;

pub use board::{Board, BoardFault, Notice};
pub use journal::{ItemRecord, LogEntry, PlanRecord, Step, Unfinished};
pub use looks::{PastAction, Seen, StatusChange};
pub use marks::{Mark, marks_of_root, obeyed_marks};
pub use specs::{Kept, Recorded, SpecRecord};

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
const VERSION: i64 = 4;

/// What every version after the first added, in order.
const ADDED: [&str; 3] = [looks::TABLES, specs::TABLES, comebacks::TABLES];

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
    settled: Option<Look>,
}

/// Enough of a file to tell that somebody wrote to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Look {
    length: u64,
    modified: (i64, i64),
    inode: u64,
}

/// What our own state looks like from outside: as long as it looks the same, it says the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Glance {
    file: Option<Look>,
    log: Option<Look>,
}

/// A file that was written to more recently than this may be written to again without looking any different: file systems
/// count time in steps.
const SETTLES: Duration = Duration::from_secs(2);

impl State {
    /// Looks at the state from outside; `None` when that tells nothing, because it is being written to.
    pub fn glance(folder: &Path) -> Option<Glance> {
        let file = look(&folder.join("state.db")).ok()?;
        let log = look(&folder.join("state.db-wal")).ok()?;
        let settled = |look: &Look| {
            let (seconds, _) = look.modified;
            let age = jiff::Timestamp::now().as_second().checked_sub(seconds);
            age.is_some_and(|age| age > SETTLES.as_secs().cast_signed())
        };
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
            let private = std::fs::Permissions::from_mode(0o700);
            std::fs::set_permissions(folder, private).map_err(|error| unusable(error.to_string()))?;
        }
        let path = folder.join("state.db");
        let mut options = std::fs::OpenOptions::new();
        options.create(true).append(true).mode(0o600);
        let file = options.open(&path).map_err(|error| unusable(error.to_string()))?;
        let mode = file.metadata().map_err(|error| unusable(error.to_string()))?.permissions().mode();
        if mode & 0o077 != 0 {
            file.set_permissions(std::fs::Permissions::from_mode(0o600))
                .map_err(|error| unusable(error.to_string()))?;
        }
        drop(file);
        let state = Self::connect(path, Access::Write)?;
        state.republish();
        Ok(state)
    }

    /// Opens the state for reading; `None` when there is none yet. As long as nobody has it open for writing, nothing is
    /// written: the usual way to read a database with a write-ahead log leaves files beside it.
    pub fn open_to_read(folder: &Path) -> Result<Option<Self>, StateFault> {
        let path = folder.join("state.db");
        match std::fs::metadata(&path) {
            Ok(metadata) if metadata.len() == 0 => return Ok(None),
            Ok(_) => place::refuse_to_read(folder, &path)?,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return place::refuse_dangling(folder, &path).map(|()| None);
            }
            Err(error) => {
                return Err(StateFault::Database {
                    path: path.display().to_string(),
                    why: error.to_string(),
                });
            }
        }
        let access = settled_look(&path).map_or(Access::Read, Access::ReadSettled);
        Self::connect(path, access).map(Some)
    }

    fn connect(path: PathBuf, access: Access) -> Result<Self, StateFault> {
        let fault = |why: String| StateFault::Database { path: path.display().to_string(), why };
        let write = matches!(access, Access::Write);
        let open = || -> rusqlite::Result<Connection> {
            let flags = OpenFlags::SQLITE_OPEN_NO_MUTEX;
            let connection = match access {
                Access::Write => {
                    Connection::open_with_flags(&path, flags | OpenFlags::SQLITE_OPEN_READ_WRITE)?
                }
                Access::Read => Connection::open_with_flags(&path, flags | OpenFlags::SQLITE_OPEN_READ_ONLY)?,
                Access::ReadSettled(_) => {
                    let flags = flags | OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI;
                    Connection::open_with_flags(immutable_uri(&path), flags)?
                }
            };
            connection.busy_timeout(Duration::from_secs(5))?;
            if write {
                connection.pragma_update(None, "journal_mode", "wal")?;
                connection.pragma_update(None, "synchronous", "full")?;
                connection.pragma_update(None, "foreign_keys", true)?;
                // A spec that is forgotten leaves no secret behind.
                connection.pragma_update(None, "secure_delete", true)?;
            }
            Ok(connection)
        };
        let mut connection = open().map_err(|error| fault(error.to_string()))?;
        let version = connection
            .query_row("PRAGMA user_version", [], |row| row.get::<_, i64>(0))
            .map_err(|error| fault(error.to_string()))?;
        match version {
            VERSION => {}
            0..VERSION if write => {
                update_tables(&mut connection).map_err(|error| fault(error.to_string()))?;
            }
            // What an older version does not have is empty.
            1..VERSION => {}
            0 => return Err(fault("it has no tables".to_owned())),
            newer => {
                return Err(fault(format!(
                    "it was written by another version of sandkeeper (format {newer})"
                )));
            }
        }
        let settled = match access {
            Access::ReadSettled(look) => Some(look),
            Access::Read | Access::Write => None,
        };
        Ok(Self { connection, path, settled })
    }

    /// Reads. What was read while somebody began to write is read again, the usual way.
    fn reading<T>(&self, read: impl Fn(&Connection) -> rusqlite::Result<T>) -> Result<T, StateFault> {
        let answer = read(&self.connection);
        if self.settled.is_some() && settled_look(&self.path) != self.settled {
            let again = Self::connect(self.path.clone(), Access::Read)?;
            return read(&again.connection).map_err(|error| self.fault(&error));
        }
        answer.map_err(|error| self.fault(&error))
    }

    fn fault(&self, error: &rusqlite::Error) -> StateFault {
        StateFault::Database { path: self.path.display().to_string(), why: error.to_string() }
    }
}

/// How the database is opened.
#[derive(Clone, Copy, Debug)]
enum Access {
    Write,
    Read,
    /// Without locks and without a trace, while the file looks like this.
    ReadSettled(Look),
}

/// The file's look, if all of the database is in it: nobody has written to its log since it was last tidied up.
fn settled_look(path: &Path) -> Option<Look> {
    let log = look(&PathBuf::from(format!("{}-wal", path.display()))).ok()?;
    let unwritten = log.is_none_or(|log| log.length == 0);
    look(path).ok().flatten().filter(|_| unwritten)
}

/// A file's look; `None` where there is none.
fn look(path: &Path) -> std::io::Result<Option<Look>> {
    match std::fs::metadata(path) {
        Ok(file) => Ok(Some(Look {
            length: file.len(),
            modified: (file.mtime(), file.mtime_nsec()),
            inode: file.ino(),
        })),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// The path as SQLite wants it in a URI, every unusual byte escaped.
fn immutable_uri(path: &Path) -> String {
    use std::os::unix::ffi::OsStrExt;
    let mut uri = "file:".to_owned();
    for byte in path.as_os_str().as_bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'.' | b'-' | b'_' => {
                uri.push(char::from(*byte));
            }
            other => {
                // Writing to a string cannot fail.
                let _ = write!(uri, "%{other:02x}");
            }
        }
    }
    uri + "?immutable=1"
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
