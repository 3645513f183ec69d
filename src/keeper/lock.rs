//! One keeper at a time per engine. The lock is the operating system's, so that it ends with its holder however he ends, and it is
//! named after the engine, so that it is one lock for all users and all state folders: a socket in the abstract namespace, whose
//! holder the kernel itself names. That namespace is one per network namespace; for those who share a state folder across them,
//! a file in it is locked as well.

use std::fs::{File, TryLockError};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::time::Duration;

use jiff::Timestamp;
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, connect, listen, socket_with,
};
use thiserror::Error;

use crate::engine::{Address, Endpoint, EngineView};
use crate::text::clean;

/// How often a waiting keeper looks again.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// What a lock is for: one engine, by the name that only it has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seat {
    host: String,
    engine: String,
}

/// The right to act on one engine, for as long as it is held.
#[derive(Debug)]
pub struct KeeperLock {
    _file: File,
    _socket: OwnedFd,
}

/// Why the right to act was not given.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum LockFault {
    /// Somebody else has it.
    #[error("another keeper is at work on this host: {0}; try again when it is done")]
    Held(String),
    /// Somebody has the engine's socket who is no keeper.
    #[error(
        "nothing can be done on this host, because {0} holds the keeper's lock and is no keeper; end it first"
    )]
    Squatted(String),
    /// The lock cannot be used.
    #[error("the lock {path} cannot be used: {why}; give this user access to the state folder")]
    Unusable {
        /// Which one.
        path: String,
        /// Why.
        why: String,
    },
}

impl Seat {
    /// Asks the engine for its name. One that has none, or a new one with every question, is known by its socket.
    pub async fn of(endpoint: &Endpoint, timeout: Duration) -> Self {
        let told = EngineView::new(endpoint.clone(), timeout).own_id().await;
        let engine = match (told, &endpoint.address) {
            (Some(id), _) => id,
            (None, Address::Unix(path)) => match std::fs::metadata(path) {
                Ok(socket) => format!("socket-{}-{}", socket.dev(), socket.ino()),
                Err(_) => endpoint.address.identity(),
            },
            (None, Address::Tcp(_)) => endpoint.address.identity(),
        };
        Self::named(&endpoint.address.identity(), &engine)
    }

    /// For an engine whose name is known; `host` is what our own state calls it.
    pub fn named(host: &str, engine: &str) -> Self {
        Self { host: host.to_owned(), engine: engine.to_owned() }
    }

    /// The name of its socket in the abstract namespace.
    fn socket_name(&self) -> String {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-:.".contains(&byte);
        let short = self.engine.len() <= 64 && self.engine.bytes().all(plain);
        let engine = if short { self.engine.clone() } else { format!("{:016x}", fingerprint(&self.engine)) };
        format!("sandkeeper-keeper-{engine}")
    }
}

/// FNV-1a: the same in every release and on every machine, for names of files.
fn fingerprint(text: &str) -> u64 {
    text.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |sum, byte| (sum ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}

impl KeeperLock {
    /// Takes the lock, or says who holds it.
    pub fn take(folder: &Path, seat: &Seat, who: &str) -> Result<Self, LockFault> {
        let path = folder.join(format!("keeper-{:016x}.lock", fingerprint(&seat.host)));
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
        let socket = take_socket(&seat.socket_name())?;
        let holder = format!("pid {} ({who}), since {:.0}\n", std::process::id(), Timestamp::now());
        file.set_len(0)
            .and_then(|()| file.seek(SeekFrom::Start(0)))
            .and_then(|_| file.write_all(holder.as_bytes()))
            .map_err(unusable)?;
        Ok(Self { _file: file, _socket: socket })
    }

    /// Waits for the lock at most this long; `told` hears once who holds it.
    pub async fn wait(
        folder: &Path,
        seat: &Seat,
        who: &str,
        patience: Duration,
        told: impl FnOnce(&LockFault),
    ) -> Result<Self, LockFault> {
        let until = tokio::time::Instant::now() + patience;
        let mut told = Some(told);
        loop {
            match Self::take(folder, seat, who) {
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

/// Takes the engine's socket, which ends with this process.
fn take_socket(name: &str) -> Result<OwnedFd, LockFault> {
    let unusable = |error: Errno| LockFault::Unusable { path: format!("@{name}"), why: error.to_string() };
    let address = SocketAddrUnix::new_abstract_name(name.as_bytes()).map_err(unusable)?;
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = || socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None).map_err(unusable);
    let ours = socket()?;
    match bind(&ours, &address) {
        Ok(()) => {
            // Whoever connects is told by the kernel whose it is. Nobody ever answers, so many may stand in line.
            listen(&ours, 4096).map_err(unusable)?;
            Ok(ours)
        }
        Err(Errno::ADDRINUSE) => {
            let asking = socket()?;
            // Without waiting: a holder never answers, and after many questions the kernel makes others wait.
            let holder = connect(&asking, &address).ok().and_then(|()| holder(asking));
            let Some((pid, uid)) = holder else {
                return Err(LockFault::Held("who it is cannot be told".to_owned()));
            };
            let Some(pid) = pid else {
                return Err(LockFault::Held(format!("a process of uid {uid} that is not seen from here")));
            };
            let command = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
            let command = clean(command.trim_end()).into_owned();
            let told = format!("pid {pid} ({command}) of uid {uid}");
            let is_keeper =
                command.is_empty() || command.starts_with("sandkeeper") || pid == std::process::id();
            Err(if is_keeper { LockFault::Held(told) } else { LockFault::Squatted(told) })
        }
        Err(error) => Err(unusable(error)),
    }
}

/// Whom the kernel names at the other end: the process, unless it is in a namespace that is not seen from here, and its user.
fn holder(connected: OwnedFd) -> Option<(Option<u32>, u32)> {
    tokio::runtime::Handle::try_current().ok()?;
    let stream = tokio::net::UnixStream::from_std(connected.into()).ok()?;
    let named = stream.peer_cred().ok()?;
    Some((named.pid().and_then(|pid| u32::try_from(pid).ok()).filter(|pid| *pid > 0), named.uid()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_keeper_is_told_who_holds_the_lock() {
        let folder = tempfile::tempdir().unwrap();
        let a = Seat::named("unix:///a", &format!("a-{}", std::process::id()));
        let b = Seat::named("unix:///b", &format!("b-{}", std::process::id()));
        let first = KeeperLock::take(folder.path(), &a, "ada").unwrap();
        let refused = KeeperLock::take(folder.path(), &a, "bob").unwrap_err().to_string();
        assert!(
            refused.contains(&format!("pid {}", std::process::id())) && refused.contains("ada"),
            "{refused}"
        );
        drop(KeeperLock::take(folder.path(), &b, "bob").expect("another host is another lock"));
        drop(first);
        KeeperLock::take(folder.path(), &a, "bob").expect("the lock ends with its holder");
    }

    #[tokio::test]
    async fn two_state_folders_share_the_lock_of_one_engine() {
        let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let engine = format!("engine-{}", std::process::id());
        let first = KeeperLock::take(one.path(), &Seat::named("unix:///a", &engine), "ada").unwrap();
        // By another way to the same engine, and by another user.
        let seat = Seat::named("tcp://localhost:1", &engine);
        for _ in 0..200 {
            let refused = KeeperLock::take(other.path(), &seat, "bob").unwrap_err();
            assert!(matches!(refused, LockFault::Held(_)), "{refused}");
            let told = refused.to_string();
            assert!(told.contains(&format!("pid {}", std::process::id())), "{refused}");
        }
        drop(first);
        KeeperLock::take(other.path(), &seat, "bob").expect("the lock ends with its holder");
    }

    #[test]
    fn names_of_locks_are_the_same_in_every_release() {
        assert_eq!(fingerprint(""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(fingerprint("a"), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(Seat::named("x", "AB:CD").socket_name(), "sandkeeper-keeper-AB:CD");
        assert!(Seat::named("x", &"/long/".repeat(90)).socket_name().len() < 100);
    }
}
