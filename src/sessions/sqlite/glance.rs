//! A database seen from outside: as long as it looks the same, it says the same.

use std::fs::Metadata;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use crate::database::{Identity, SETTLES, Stamp, beside};
use crate::sessions::fault::StoreFault;

/// The database and what SQLite keeps beside it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Glance {
    /// Where the database really is; its log lies beside that name, whatever links led there.
    pub(super) path: PathBuf,
    pub(super) database: Stamp,
    /// The write-ahead log.
    pub(super) log: Option<Stamp>,
    /// The journal of a write that is under way, or that was cut off.
    journal: Option<Stamp>,
    pub(super) owner: u32,
    /// How many names the file has.
    pub(super) names: u64,
}

impl Glance {
    /// Looks at the path. Anything that is not a plain, non-empty file is refused before SQLite touches it, for opening a
    /// pipe would wait for ever.
    pub(super) fn at(path: &Path) -> Result<Self, StoreFault> {
        let path = path.canonicalize().map_err(|error| unseen(&error))?;
        let file = std::fs::metadata(&path).map_err(|error| unseen(&error))?;
        if let Some(kind) = unusual_kind(&file) {
            return Err(StoreFault::NotAFile(kind));
        }
        if file.len() == 0 {
            return Err(StoreFault::Empty);
        }
        let stamp = |ending| Stamp::at(&beside(&path, ending)).map_err(|error| unseen(&error));
        Ok(Self {
            log: stamp("-wal")?,
            journal: stamp("-journal")?,
            database: Stamp::of(&file),
            owner: file.uid(),
            names: file.nlink(),
            path,
        })
    }

    /// Whether it would look different had it been written to once more.
    pub(super) fn is_settled(&self) -> bool {
        let files = [Some(&self.database), self.log.as_ref(), self.journal.as_ref()];
        files.into_iter().flatten().all(|stamp| stamp.is_older_than(SETTLES))
    }

    pub(super) fn identity(&self) -> Identity {
        self.database.identity()
    }

    /// Whether nothing is in its log. SQLite takes an empty log for none.
    pub(super) fn is_without_log(&self) -> bool {
        self.log.is_none_or(|log| log.is_empty())
    }
}

fn unseen(error: &io::Error) -> StoreFault {
    match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => StoreFault::NotFound,
        io::ErrorKind::PermissionDenied => StoreFault::PermissionDenied,
        _ => StoreFault::Failed(error.to_string()),
    }
}

fn unusual_kind(file: &Metadata) -> Option<&'static str> {
    let kind = file.file_type();
    if kind.is_file() {
        None
    } else if kind.is_dir() {
        Some("folder")
    } else if kind.is_fifo() {
        Some("pipe")
    } else if kind.is_socket() {
        Some("socket")
    } else {
        Some("device")
    }
}
