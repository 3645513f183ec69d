//! Whether what a connection has open is what lies at its path. SQLite does not say which files it reads, but the process's own
//! descriptors do; a stat before and after would miss a file that was there both times and was another one in between.

use std::collections::BTreeSet;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, StatxAttributes, StatxFlags, statx};

use super::glance::Glance;
use crate::database::{Identity, beside};
use crate::folders::mounted_below;
use crate::sessions::fault::StoreFault;

/// The descriptors of this process.
const DESCRIPTORS: &str = "/proc/self/fd";

/// The files a connection reads, by the names it opened them with.
#[derive(Debug)]
pub(super) struct Linked {
    files: Vec<(&'static str, PathBuf)>,
    log: PathBuf,
    with_log: bool,
}

impl Linked {
    /// The files of a connection that reads with a write-ahead log, or without one.
    pub(super) fn new(glance: &Glance, with_log: bool) -> Result<Self, StoreFault> {
        if with_log && let Some(why) = second_name(glance)? {
            return Err(StoreFault::TwoNames(why));
        }
        let log = beside(&glance.path, "-wal");
        let mut files = vec![("database", glance.path.clone())];
        if with_log {
            files.push(("-wal", log.clone()));
            files.push(("-shm", beside(&glance.path, "-shm")));
        }
        Ok(Self { files, log, with_log })
    }

    /// Each of them is open, and it is the one that lies at its path now.
    pub(super) fn check(&self) -> Result<(), StoreFault> {
        let open = self.open_files().map_err(|error| StoreFault::Untold(error.to_string()))?;
        for (what, path) in &self.files {
            if !identity(path).is_some_and(|linked| open.contains(&linked)) {
                return Err(StoreFault::Replaced(what));
            }
        }
        let appeared = || std::fs::symlink_metadata(&self.log).is_ok_and(|log| log.len() > 0);
        if !self.with_log && appeared() {
            return Err(StoreFault::Replaced("-wal"));
        }
        Ok(())
    }

    /// What this process has open under their names. Only those are asked what they are: a descriptor of a dead network disk
    /// would not answer. One that was deleted, or that another file took the place of, has no such name any more.
    fn open_files(&self) -> io::Result<BTreeSet<Identity>> {
        let mut open = BTreeSet::new();
        for descriptor in Path::new(DESCRIPTORS).read_dir()? {
            let descriptor = descriptor?.path();
            // What another thread has closed meanwhile is not ours.
            let Ok(name) = descriptor.read_link() else { continue };
            if self.files.iter().any(|(_, path)| *path == name) {
                open.extend(std::fs::metadata(&descriptor).map(|file| (file.dev(), file.ino())));
            }
        }
        Ok(open)
    }
}

fn identity(path: &Path) -> Option<Identity> {
    std::fs::symlink_metadata(path).ok().map(|file| (file.dev(), file.ino()))
}

/// Why the file may have a second name. A write-ahead log lies beside the name that its writer uses, and that may be the other.
pub(super) fn second_name(glance: &Glance) -> Result<Option<&'static str>, StoreFault> {
    if glance.names > 1 {
        return Ok(Some("has more than one name (a hard link)"));
    }
    Ok(is_mounted(&glance.path)?.then_some("is mounted here as a single file"))
}

/// Whether the file itself, and not the folder it is in, was mounted here.
fn is_mounted(path: &Path) -> Result<bool, StoreFault> {
    let told = statx(CWD, path, AtFlags::empty(), StatxFlags::BASIC_STATS).ok();
    let told = told.filter(|file| file.stx_attributes_mask.contains(StatxAttributes::MOUNT_ROOT));
    match told {
        Some(file) => Ok(file.stx_attributes.contains(StatxAttributes::MOUNT_ROOT)),
        // Linux before 5.8 says it only in its list of mounts.
        None if path.exists() => Ok(mounted_below(path).is_err()),
        None => Err(StoreFault::Replaced("database")),
    }
}
