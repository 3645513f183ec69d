//! One keeper at a time per host and state folder. The lock is the operating system's, so that it ends with its holder
//! however he ends; the file only tells who that is.

use std::fs::{File, TryLockError};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;
use std::time::Duration;

use jiff::Timestamp;
use thiserror::Error;

/// How often a waiting keeper looks again.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// The right to act on one host, for as long as it is held.
#[derive(Debug)]
pub struct KeeperLock {
    _file: File,
}

/// Why the right to act was not given.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum LockFault {
    /// Somebody else has it.
    #[error("another keeper is at work on this host: {0}; try again when it is done")]
    Held(String),
    /// The lock file cannot be used.
    #[error("the lock {path} cannot be used: {why}; give this user access to the state folder")]
    Unusable {
        /// Which file.
        path: String,
        /// Why.
        why: String,
    },
}

impl KeeperLock {
    /// Takes the lock, or says who holds it.
    pub fn take(folder: &Path, host: &str, who: &str) -> Result<Self, LockFault> {
        let mut hasher = DefaultHasher::new();
        host.hash(&mut hasher);
        let path = folder.join(format!("keeper-{:016x}.lock", hasher.finish()));
        let unusable = |why: std::io::Error| LockFault::Unusable {
            path: path.display().to_string(),
            why: why.to_string(),
        };
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(unusable)?;
        let mut options = File::options();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let mut file = options.open(&path).map_err(unusable)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut holder = String::new();
                file.read_to_string(&mut holder).map_err(unusable)?;
                return Err(LockFault::Held(holder.trim().to_owned()));
            }
            Err(TryLockError::Error(error)) => return Err(unusable(error)),
        }
        let holder = format!("pid {} ({who}), since {:.0}\n", std::process::id(), Timestamp::now());
        file.set_len(0)
            .and_then(|()| file.seek(SeekFrom::Start(0)))
            .and_then(|_| file.write_all(holder.as_bytes()))
            .map_err(unusable)?;
        Ok(Self { _file: file })
    }

    /// Waits for the lock at most this long; `told` hears once who holds it.
    pub async fn wait(
        folder: &Path,
        host: &str,
        who: &str,
        patience: Duration,
        told: impl FnOnce(&LockFault),
    ) -> Result<Self, LockFault> {
        let until = tokio::time::Instant::now() + patience;
        let mut told = Some(told);
        loop {
            match Self::take(folder, host, who) {
                Err(held @ LockFault::Held(_)) if tokio::time::Instant::now() < until => {
                    if let Some(told) = told.take() {
                        told(&held);
                    }
                    tokio::time::sleep(LOOK_AGAIN).await;
                }
                result => return result,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_keeper_is_told_who_holds_the_lock() {
        let folder = tempfile::tempdir().unwrap();
        let first = KeeperLock::take(folder.path(), "unix:///a", "ada").unwrap();
        let refused = KeeperLock::take(folder.path(), "unix:///a", "bob").unwrap_err().to_string();
        assert!(
            refused.contains(&format!("pid {}", std::process::id())) && refused.contains("ada"),
            "{refused}"
        );
        KeeperLock::take(folder.path(), "unix:///b", "bob").expect("another host is another lock");
        drop(first);
        KeeperLock::take(folder.path(), "unix:///a", "bob").expect("the lock ends with its holder");
    }
}
