//! One look into a database: open, one short read transaction, close. A connection that stayed open would keep the owner's log
//! alive after a clean close, and a backup that is then put in place would be undone by it.

use std::path::Path;
use std::time::{Duration, Instant};

use rusqlite::{Connection, ErrorCode, OpenFlags};
use rustix::fs::{Access, AtFlags, CWD, accessat};

use super::glance::Glance;
use super::linked::{Linked, second_name};
use super::turn::Turn;
use crate::database::uri;
use crate::sessions::fault::StoreFault;

/// A look in which files came and went is repeated so often: an owner may close or restart just then.
const TRIES: u32 = 5;
const PAUSE: Duration = Duration::from_millis(10);

/// What was read, and what the database looked like from outside before it was opened.
#[derive(Debug)]
pub(super) struct Seen<T> {
    pub(super) glance: Glance,
    pub(super) value: T,
}

/// Looks into the database at a path. Whatever `read` finds is believed only if the files it was read from are the ones that
/// lie there, from the beginning of the transaction to its end.
pub(super) fn look<T>(
    path: &Path,
    time: Duration,
    mut read: impl FnMut(&Connection) -> Result<T, StoreFault>,
) -> Result<Seen<T>, StoreFault> {
    let deadline = Instant::now() + time;
    for _ in 1..TRIES {
        let seen = look_once(path, time, deadline, &mut read);
        let repeat = matches!(&seen, Err(fault) if fault.is_fleeting());
        if !repeat || Instant::now() + PAUSE >= deadline {
            return seen;
        }
        std::thread::sleep(PAUSE);
    }
    look_once(path, time, deadline, &mut read)
}

fn look_once<T>(
    path: &Path,
    time: Duration,
    deadline: Instant,
    read: &mut impl FnMut(&Connection) -> Result<T, StoreFault>,
) -> Result<Seen<T>, StoreFault> {
    let turn = Turn::take(Glance::at(path)?.identity(), deadline)?;
    let glance = at_turn(path, &turn)?;
    let mut connection = connect(&glance)?;
    // Half of the time for waiting, half for reading; SQLite counts milliseconds in 32 bits.
    connection
        .busy_timeout((time / 2).min(Duration::from_hours(24)))
        .and_then(|()| connection.progress_handler(1000, Some(move || Instant::now() > deadline)))
        .map_err(|error| explain(&error))?;
    let transaction = connection.transaction().map_err(|error| explain(&error))?;
    // The first read of the transaction takes the lock, and fixes what the whole of it sees.
    let begun = transaction
        .query_row("PRAGMA schema_version", [], |_| Ok(()))
        .and_then(|()| transaction.query_row("PRAGMA journal_mode", [], |row| row.get::<_, String>(0)));
    let linked = Linked::new(&glance, begun.map_err(|error| explain(&error))? == "wal")?;
    linked.check()?;
    let before = Glance::at(path)?;
    let value = read(&transaction);
    // What went wrong on a file that went away says nothing about the one that is there.
    linked.check()?;
    let after = Glance::at(path)?;
    if before.path != glance.path || after.path != glance.path {
        return Err(StoreFault::Replaced("database"));
    }
    // While this connection holds its lock, nobody who keeps SQLite's rules writes to the file but from a log.
    let quiet = before.is_without_log() && after.is_without_log();
    if quiet && before.database != after.database {
        return Err(StoreFault::Overwritten);
    }
    let value = value?;
    transaction.commit().map_err(|error| explain(&error))?;
    connection.close().map_err(|(_, error)| explain(&error))?;
    drop(turn);
    Ok(Seen { glance, value })
}

/// The database as it is now that nobody else here has it open.
fn at_turn(path: &Path, turn: &Turn) -> Result<Glance, StoreFault> {
    let glance = Glance::at(path)?;
    if turn.is_for(glance.identity()) { Ok(glance) } else { Err(StoreFault::Replaced("database")) }
}

fn connect(glance: &Glance) -> Result<Connection, StoreFault> {
    let path = &glance.path;
    accessat(CWD, path, Access::READ_OK, AtFlags::EACCESS).map_err(|error| match error {
        rustix::io::Errno::ACCESS | rustix::io::Errno::PERM => StoreFault::PermissionDenied,
        other => StoreFault::Failed(format!("it cannot be opened: {other}")),
    })?;
    if let Some(why) = second_name(glance)?
        && keeps_a_log(glance)
    {
        // To open it would make a log here that is not its own.
        return Err(StoreFault::TwoNames(why));
    }
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    // Opening a database that keeps a log makes its -wal and -shm files where they are missing, even for reading. Made by its
    // owner or by root they belong to the owner; made by anyone else they could lock the application out of its database.
    let us = rustix::process::geteuid();
    let connection = if us.is_root() || us.as_raw() == glance.owner {
        Connection::open_with_flags(path, flags)
    } else if glance.log.is_none() && refuses_without_memory(path) {
        return Err(StoreFault::WalUnreadable);
    } else {
        let flags = flags | OpenFlags::SQLITE_OPEN_URI;
        Connection::open_with_flags(uri(path, "readonly_shm=1"), flags)
    };
    let connection = connection.map_err(|error| explain(&error))?;
    connection.pragma_update(None, "query_only", true).map_err(|error| explain(&error))?;
    Ok(connection)
}

/// Whether the database at a path keeps a write-ahead log; nothing is made beside it to find out.
pub(crate) fn keeps_log(path: &Path, time: Duration) -> Result<bool, StoreFault> {
    let turn = Turn::take(Glance::at(path)?.identity(), Instant::now() + time)?;
    let glance = at_turn(path, &turn)?;
    Ok(keeps_a_log(&glance))
}

fn keeps_a_log(glance: &Glance) -> bool {
    !glance.is_without_log() || refuses_without_memory(&glance.path)
}

/// SQLite's way of opening a file without locks knows no shared memory, and refuses just those databases that need it. It
/// must have the file for itself, for closing it gives up the locks of all.
fn refuses_without_memory(path: &Path) -> bool {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let answer = Connection::open_with_flags_and_vfs(path, flags, c"unix-none")
        .and_then(|connection| connection.query_row("PRAGMA schema_version", [], |_| Ok(())));
    matches!(answer, Err(error) if error.sqlite_error_code() == Some(ErrorCode::CannotOpen))
}

pub(super) fn explain(error: &rusqlite::Error) -> StoreFault {
    let message = error.to_string();
    let Some(code) = error.sqlite_error() else { return StoreFault::Failed(message) };
    match (code.code, code.extended_code) {
        (_, rusqlite::ffi::SQLITE_READONLY_ROLLBACK) => StoreFault::HotJournal,
        (ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked, _) => StoreFault::Locked,
        (ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt, _) => StoreFault::NotADatabase(message),
        (ErrorCode::OperationInterrupted, _) => StoreFault::TimedOut,
        (ErrorCode::PermissionDenied, _) => StoreFault::PermissionDenied,
        (ErrorCode::CannotOpen | ErrorCode::ReadOnly, _) => StoreFault::WalUnreadable,
        _ => StoreFault::Failed(message),
    }
}
