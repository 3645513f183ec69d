//! What holds for every SQLite file, somebody else's or our own: it is opened through SQLite and in no other way. Closing any
//! other descriptor of it gives up every lock that this process holds on it, and then its owner, or another of our own
//! connections, deletes or overwrites what is being read. Whoever wants to know more looks from outside, with `stat`.

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

use std::fmt::Write as _;
use std::fs::Metadata;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::Timestamp;

/// Which file it is: device and inode.
pub(crate) type Identity = (u64, u64);

/// Enough of a file to tell that somebody wrote to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    identity: Identity,
    length: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

/// A file that was written to more recently than this may be written to again without looking any different: file systems
/// count time in steps.
pub(crate) const SETTLES: Duration = Duration::from_secs(2);

impl Stamp {
    /// What is at the path, links followed; `None` where nothing is.
    pub(crate) fn at(path: &Path) -> io::Result<Option<Self>> {
        match std::fs::metadata(path) {
            Ok(file) => Ok(Some(Self::of(&file))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    pub(crate) fn of(file: &Metadata) -> Self {
        Self {
            identity: (file.dev(), file.ino()),
            length: file.len(),
            modified: (file.mtime(), file.mtime_nsec()),
            changed: (file.ctime(), file.ctime_nsec()),
        }
    }

    pub(crate) fn identity(&self) -> Identity {
        self.identity
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Whether the last write is so long ago that another one would look different. A time that is still to come says
    /// nothing.
    pub(crate) fn is_older_than(&self, time: Duration) -> bool {
        let (seconds, part) = self.modified.max(self.changed);
        let newest = i128::from(seconds) * 1_000_000_000 + i128::from(part);
        let age = Timestamp::now().as_nanosecond() - newest;
        u128::try_from(age).is_ok_and(|age| age > time.as_nanos())
    }

    /// How far apart two writes are that surely look different where this file is. Where only whole seconds are counted, it
    /// shows.
    pub(crate) fn step(&self) -> Duration {
        let is_coarse = self.modified.1 == 0 && self.changed.1 == 0;
        if is_coarse { SETTLES } else { Duration::from_millis(20) }
    }
}

/// The file that SQLite keeps beside a database: `-wal`, `-shm` or `-journal`.
pub(crate) fn beside(database: &Path, ending: &str) -> PathBuf {
    let mut path = database.as_os_str().to_owned();
    path.push(ending);
    PathBuf::from(path)
}

/// The path as SQLite wants it in a URI with a parameter, every unusual byte escaped.
pub(crate) fn uri(path: &Path, parameter: &str) -> String {
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
    format!("{uri}?{parameter}")
}

#[cfg(test)]
mod tests {
    use std::fs::{File, FileTimes};
    use std::time::SystemTime;

    use super::*;

    #[test]
    fn a_time_that_is_too_new_or_still_to_come_is_not_trusted() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let file = File::create(&path).unwrap();
        let stamp = || Stamp::at(&path).unwrap().unwrap();
        assert!(!stamp().is_older_than(SETTLES), "just written");
        // Its times were set back, and that was just now.
        let long_ago = SystemTime::now() - Duration::from_hours(1);
        file.set_times(FileTimes::new().set_modified(long_ago)).unwrap();
        assert!(!stamp().is_older_than(SETTLES));
        let long_ago = Stamp { modified: (1_700_000_000, 1), changed: (1_700_000_000, 1), ..stamp() };
        assert!(long_ago.is_older_than(SETTLES));
        let to_come = Timestamp::now().as_second() + 3600;
        for in_future in
            [Stamp { modified: (to_come, 0), ..long_ago }, Stamp { changed: (to_come, 0), ..long_ago }]
        {
            assert!(!in_future.is_older_than(SETTLES), "{in_future:?}");
        }
    }

    #[test]
    fn a_path_is_escaped_byte_by_byte() {
        assert_eq!(uri(Path::new("/a b/ü?#%.db"), "x=1"), "file:/a%20b/%c3%bc%3f%23%25.db?x=1");
        assert_eq!(beside(Path::new("/a/b.db"), "-wal"), Path::new("/a/b.db-wal"));
    }
}
