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

#[cfg(test)]
mod tests {
    use std::fs;
    use std::process::Command;

    use super::*;
    use crate::database::beside;

    const TIME: Duration = Duration::from_mins(3);

    /// A database with one row, closed.
    fn database(path: &Path, mode: &str, row: &str) {
        let connection = Connection::open(path).unwrap();
        connection.pragma_update(None, "journal_mode", mode).unwrap();
        connection.execute_batch(&format!("CREATE TABLE t (a); INSERT INTO t VALUES ('{row}')")).unwrap();
    }

    fn row(connection: &Connection) -> Result<String, StoreFault> {
        connection.query_row("SELECT a FROM t", [], |row| row.get(0)).map_err(|error| explain(&error))
    }

    /// What a look says if `meddle` happens in the midst of its first try.
    fn look_while(path: &Path, meddle: impl Fn()) -> (Result<String, StoreFault>, u32) {
        let mut tries = 0;
        let seen = look(path, TIME, |connection| {
            let row = row(connection);
            tries += 1;
            if tries == 1 {
                meddle();
            }
            row
        });
        (seen.map(|seen| seen.value), tries)
    }

    #[test]
    fn a_file_that_is_replaced_in_the_midst_of_a_look_is_looked_at_again() {
        for mode in ["wal", "delete"] {
            let folder = tempfile::tempdir().unwrap();
            let (path, new) = (folder.path().join("a.db"), folder.path().join("b.db"));
            database(&path, mode, "old");
            database(&new, mode, "new");
            let (row, tries) = look_while(&path, || fs::rename(&new, &path).unwrap());
            assert_eq!((row, tries), (Ok("new".to_owned()), 2), "{mode}");
        }
    }

    #[test]
    fn a_log_or_index_that_goes_away_in_the_midst_of_a_look_spoils_it() {
        for ending in ["-wal", "-shm"] {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("a.db");
            database(&path, "wal", "row");
            let (row, tries) = look_while(&path, || fs::remove_file(beside(&path, ending)).unwrap());
            assert_eq!((row, tries), (Ok("row".to_owned()), 2), "{ending}");
        }
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.db");
        database(&path, "delete", "row");
        let log = beside(&path, "-wal");
        let (fault, tries) = look_while(&path, || fs::write(&log, "a log out of nowhere").unwrap());
        assert!(tries > 1, "it is looked at again, and whatever that says is not what was read: {fault:?}");
    }

    #[test]
    fn what_is_never_the_same_is_a_fault_and_not_an_answer() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.db");
        database(&path, "delete", "row");
        let mut tries = 0;
        let seen = look(&path, TIME, |connection| {
            tries += 1;
            let new = folder.path().join("new.db");
            fs::copy(&path, &new).unwrap();
            fs::rename(&new, &path).unwrap();
            row(connection)
        });
        assert_eq!(seen.err(), Some(StoreFault::Replaced("database")));
        assert_eq!(tries, TRIES);
    }

    #[test]
    fn a_file_that_is_written_over_without_a_lock_is_looked_at_again() {
        let folder = tempfile::tempdir().unwrap();
        let (path, new) = (folder.path().join("a.db"), folder.path().join("b.db"));
        database(&path, "delete", "old");
        database(&new, "delete", "new");
        // So old that the write shows.
        let hour_ago = std::time::SystemTime::now() - Duration::from_hours(1);
        fs::File::options().write(true).open(&path).unwrap().set_modified(hour_ago).unwrap();
        let (row, tries) = look_while(&path, || assert!(fs::copy(&new, &path).is_ok()));
        assert_eq!((row, tries), (Ok("new".to_owned()), 2));
    }

    #[test]
    fn a_look_holds_its_lock_to_the_end_and_nothing_afterwards() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.db");
        database(&path, "delete", "row");
        let may_write = || {
            let script = "import sqlite3, sys\n\
                c = sqlite3.connect(sys.argv[1], timeout=0, isolation_level=None)\n\
                try: c.execute('BEGIN EXCLUSIVE')\n\
                except sqlite3.OperationalError: sys.exit(7)";
            Command::new("python3").args(["-c", script]).arg(&path).status().unwrap().code()
        };
        assert_eq!(may_write(), Some(0));
        let seen = look(&path, TIME, |connection| {
            row(connection)?;
            // Another of us who comes meanwhile waits, and leaves the lock alone.
            let in_vain = look(&path, Duration::from_millis(1), row).err();
            assert_eq!(in_vain, Some(StoreFault::Stuck));
            Ok(may_write())
        });
        assert_eq!(seen.unwrap().value, Some(7), "the lock was lost");
        assert_eq!(may_write(), Some(0));
    }

    #[test]
    fn whether_a_log_is_kept_is_told_without_making_one() {
        let folder = tempfile::tempdir().unwrap();
        for (mode, kept) in [("wal", true), ("delete", false)] {
            let path = folder.path().join(mode);
            database(&path, mode, "row");
            assert_eq!(keeps_log(&path, TIME), Ok(kept));
            assert!(!beside(&path, "-wal").exists() && !beside(&path, "-shm").exists());
        }
    }
}
