//! Why our own state cannot be used, and what to do about it. Marks and what can be brought back are in it: only what is no
//! longer readable at all may be moved away.

use std::io;
use std::path::Path;

use rusqlite::ErrorCode;
use thiserror::Error;

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
        "the state database {path} cannot be used: {why}; nothing is done without a journal: {}",
        why.advice()
    )]
    Database {
        /// Which file.
        path: String,
        /// Why.
        why: Trouble,
    },
}

/// What is wrong with the state database.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Trouble {
    /// Not SQLite, or damaged.
    #[error("it is damaged, or no database at all ({0})")]
    Damaged(String),
    /// Written by a program that knows more.
    #[error("it was written by another version of sandkeeper (format {0})")]
    Format(i64),
    /// A database with nothing in it.
    #[error("it has no tables")]
    NoTables,
    /// Somebody holds its lock.
    #[error("another program holds its lock ({0})")]
    Locked(String),
    /// It may be read and not be written to.
    #[error("it cannot be written to ({0})")]
    ReadOnly(String),
    /// It may not be opened.
    #[error("it cannot be opened ({0})")]
    Denied(String),
    /// No space is left.
    #[error("its disk is full ({0})")]
    Full(String),
    /// The disk failed.
    #[error("its disk failed ({0})")]
    Disk(String),
    /// Whoever was to use it has ended.
    #[error("{0}")]
    Ended(&'static str),
    /// Anything else that SQLite said.
    #[error("{0}")]
    Failed(String),
}

impl Trouble {
    /// The same as a fault of the database at this path.
    pub(super) fn of(self, path: &Path) -> StateFault {
        StateFault::Database { path: path.display().to_string(), why: self }
    }

    /// What to do about it.
    pub fn advice(&self) -> &'static str {
        match self {
            Self::Damaged(_) | Self::NoTables => {
                "move the file away to begin anew, without the marks and records that were in it"
            }
            Self::Format(_) => "use that version, or move the file away to begin anew",
            Self::Locked(_) => "try again once that program has let go",
            Self::ReadOnly(_) => "let this user write to it, to its -wal and -shm, and in its folder",
            Self::Denied(_) => "let this user open it, its -wal and -shm, and write in its folder",
            Self::Full(_) => "free some space and try again",
            Self::Disk(_) => "see whether its disk is full, read-only or broken, and try again",
            Self::Ended(_) => "try again",
            Self::Failed(_) => {
                "try again, and keep the file; `sandkeeper doctor` shows whether it can be read"
            }
        }
    }
}

impl From<rusqlite::Error> for Trouble {
    fn from(error: rusqlite::Error) -> Self {
        Self::from(&error)
    }
}

impl From<&rusqlite::Error> for Trouble {
    fn from(error: &rusqlite::Error) -> Self {
        let message = error.to_string();
        match error.sqlite_error_code() {
            Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt) => Self::Damaged(message),
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Self::Locked(message),
            Some(ErrorCode::ReadOnly) => Self::ReadOnly(message),
            Some(ErrorCode::CannotOpen | ErrorCode::PermissionDenied) => Self::Denied(message),
            Some(ErrorCode::DiskFull) => Self::Full(message),
            Some(ErrorCode::SystemIoFailure) => Self::Disk(message),
            _ => Self::Failed(message),
        }
    }
}

impl From<&io::Error> for Trouble {
    fn from(error: &io::Error) -> Self {
        let message = error.to_string();
        match error.kind() {
            io::ErrorKind::PermissionDenied => Self::Denied(message),
            io::ErrorKind::ReadOnlyFilesystem => Self::ReadOnly(message),
            io::ErrorKind::StorageFull => Self::Full(message),
            _ => Self::Failed(message),
        }
    }
}

#[cfg(test)]
mod tests {
    use rusqlite::ffi;

    use super::*;

    #[test]
    fn only_what_cannot_be_read_any_more_is_to_be_moved_away() {
        for (code, word, lost) in [
            (ffi::SQLITE_NOTADB, "damaged", true),
            (ffi::SQLITE_CORRUPT, "damaged", true),
            (ffi::SQLITE_BUSY, "holds its lock", false),
            (ffi::SQLITE_LOCKED, "holds its lock", false),
            (ffi::SQLITE_FULL, "disk is full", false),
            (ffi::SQLITE_READONLY_DIRECTORY, "cannot be written to", false),
            (ffi::SQLITE_READONLY_DBMOVED, "cannot be written to", false),
            (ffi::SQLITE_CANTOPEN, "cannot be opened", false),
            (ffi::SQLITE_PERM, "cannot be opened", false),
            (ffi::SQLITE_IOERR_WRITE, "disk failed", false),
            (ffi::SQLITE_ERROR, "", false),
        ] {
            let error = rusqlite::Error::SqliteFailure(ffi::Error::new(code), None);
            let fault = Trouble::from(error).of(Path::new("/s/state.db")).to_string();
            assert!(fault.contains(word) && fault.contains("/s/state.db"), "{code}: {fault}");
            assert_eq!(fault.contains("move the file away"), lost, "{code}: {fault}");
        }
        assert!(Trouble::Format(99).advice().contains("move the file away"));
        let denied = Trouble::from(&io::Error::from(io::ErrorKind::PermissionDenied));
        assert!(!denied.advice().contains("move"), "{denied}");
    }
}
