//! The gate's own socket: nobody can reach it before its rights are set, somebody else's is never taken away, and it goes
//! when the gate ends.

use std::fs::{self, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, RenameFlags, renameat_with};
use tokio::net::UnixListener;

use super::GateFault;

/// A socket that is removed when this is dropped, unless it has become another one.
#[derive(Debug)]
pub(super) struct Socket {
    pub(super) listener: UnixListener,
    path: PathBuf,
    identity: (u64, u64),
}

impl Socket {
    /// Listens at `path` with these rights. What a gate that was killed left there goes; anything else stays.
    pub(super) fn listen(path: &Path, mode: u32, group: Option<u32>) -> Result<Self, GateFault> {
        let fault = |why: String| GateFault::Socket { path: path.display().to_string(), why };
        let in_words = |error: io::Error| fault(error.to_string());
        let (Some(folder), Some(_)) = (path.parent(), path.file_name()) else {
            return Err(fault("it is not the path of a file; name one in a folder of the gate's own".into()));
        };
        let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
        refuse_open_folder(folder).map_err(fault)?;
        let left_behind = refuse_somebody_elses(path).map_err(fault)?;
        // Made in a folder that only we can open, and moved to its place when its rights are right.
        let draft = Draft::in_folder(folder).map_err(in_words)?;
        let listener = UnixListener::bind(&draft.socket).map_err(in_words)?;
        let settle = || {
            if let Some(group) = group {
                std::os::unix::fs::chown(&draft.socket, None, Some(group))?;
            }
            fs::set_permissions(&draft.socket, Permissions::from_mode(mode))
        };
        settle().map_err(in_words)?;
        if let Some(identity) = left_behind {
            draft.clear(path, identity).map_err(fault)?;
        }
        // Unlike a rename, a link never takes the place of a gate that has just been faster.
        fs::hard_link(&draft.socket, path).map_err(|error| match error.kind() {
            ErrorKind::AlreadyExists => fault(TAKEN.to_owned()),
            _ => in_words(error),
        })?;
        let identity = identity_of(&draft.socket).map_err(in_words)?;
        Ok(Self { listener, path: path.to_owned(), identity })
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        if identity_of(&self.path).is_ok_and(|identity| identity == self.identity) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

const TAKEN: &str = "somebody listens there already; end that program or name another path";

/// A folder of our own beside the socket, which goes with whatever is in it.
struct Draft {
    folder: PathBuf,
    socket: PathBuf,
    /// What was left behind in our place.
    old: PathBuf,
}

impl Draft {
    fn in_folder(folder: &Path) -> io::Result<Self> {
        let folder = folder.join(format!(".gate-{}", std::process::id()));
        let draft = Self { socket: folder.join("s"), old: folder.join("o"), folder };
        // Left by another of this number, which is no more.
        draft.remove();
        fs::DirBuilder::new().mode(0o700).create(&draft.folder)?;
        Ok(draft)
    }

    /// Takes away what was left behind, unless another gate has taken its place meanwhile.
    fn clear(&self, path: &Path, left_behind: (u64, u64)) -> Result<(), String> {
        let in_words = |error: io::Error| error.to_string();
        match fs::rename(path, &self.old) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            moved => moved.map_err(in_words)?,
        }
        if identity_of(&self.old).map_err(in_words)? == left_behind {
            return Ok(());
        }
        // Back with it, unless yet another one is there by now.
        let _ = renameat_with(CWD, &self.old, CWD, path, RenameFlags::NOREPLACE);
        Err(TAKEN.to_owned())
    }

    fn remove(&self) {
        let _ = fs::remove_file(&self.socket);
        let _ = fs::remove_file(&self.old);
        let _ = fs::remove_dir(&self.folder);
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        self.remove();
    }
}

fn identity_of(path: &Path) -> io::Result<(u64, u64)> {
    let metadata = fs::symlink_metadata(path)?;
    Ok((metadata.dev(), metadata.ino()))
}

/// Whoever may write in the folder can put a socket of his own in our place.
fn refuse_open_folder(folder: &Path) -> Result<(), String> {
    let metadata =
        fs::metadata(folder).map_err(|error| format!("its folder {}: {error}", folder.display()))?;
    let mode = metadata.mode();
    if mode & 0o022 != 0 {
        let place = folder.display();
        return Err(format!(
            "others may write in its folder (mode {:04o}); run `chmod go-w {place}`, or name one that is yours alone",
            mode & 0o7777
        ));
    }
    Ok(())
}

/// Which socket was left behind there, if one was.
fn refuse_somebody_elses(path: &Path) -> Result<Option<(u64, u64)>, String> {
    let metadata = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        found => found.map_err(|error| error.to_string())?,
    };
    if !metadata.file_type().is_socket() {
        return Err("there is something that is no socket; move it away or name another path".to_owned());
    }
    match UnixStream::connect(path) {
        // Nobody listens any more: left behind by a gate that was killed.
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => {
            Ok(Some((metadata.dev(), metadata.ino())))
        }
        Ok(_) => Err(TAKEN.to_owned()),
        Err(error) => Err(format!("there is a socket that cannot be tried ({error}); name another path")),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener as Listener;

    use super::*;

    fn mode_of(path: &Path) -> u32 {
        fs::metadata(path).unwrap().mode() & 0o7777
    }

    #[tokio::test]
    async fn the_socket_has_its_rights_and_goes_with_the_gate() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("gate.sock");
        let socket = Socket::listen(&path, 0o660, None).unwrap();
        assert_eq!(mode_of(&path), 0o660);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "no draft is left");
        drop(socket);
        assert!(!path.exists());
    }

    #[tokio::test]
    async fn what_a_killed_gate_left_goes_and_everything_else_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("gate.sock");
        drop(Listener::bind(&path).unwrap());
        assert!(path.exists(), "a socket outlives its program");
        drop(Socket::listen(&path, 0o600, None).unwrap());

        let other = Listener::bind(&path).unwrap();
        assert!(Socket::listen(&path, 0o600, None).unwrap_err().to_string().contains("listens there"));
        assert!(path.exists());
        drop(other);
        fs::remove_file(&path).unwrap();

        fs::write(&path, "precious").unwrap();
        assert!(Socket::listen(&path, 0o600, None).unwrap_err().to_string().contains("no socket"));
        assert_eq!(fs::read_to_string(&path).unwrap(), "precious");
    }

    #[tokio::test]
    async fn a_gate_that_was_faster_keeps_its_place() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("gate.sock");
        drop(Listener::bind(&path).unwrap());
        let left_behind = refuse_somebody_elses(&path).unwrap().unwrap();
        // Between our look and our move, another takes the place.
        let faster = Socket::listen(&path, 0o600, None).unwrap();
        let draft = Draft::in_folder(folder.path()).unwrap();
        assert_eq!(draft.clear(&path, left_behind).unwrap_err(), TAKEN);
        drop(draft);
        assert_eq!(identity_of(&path).unwrap(), faster.identity);
        UnixStream::connect(&path).unwrap();
        assert!(Socket::listen(&path, 0o600, None).unwrap_err().to_string().contains("listens there"));
    }

    #[tokio::test]
    async fn a_socket_that_took_our_place_is_left_to_its_owner() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("gate.sock");
        let socket = Socket::listen(&path, 0o600, None).unwrap();
        fs::remove_file(&path).unwrap();
        fs::write(&path, "another's").unwrap();
        drop(socket);
        assert!(path.exists());
    }

    #[tokio::test]
    async fn a_folder_in_which_others_may_write_is_refused_with_the_fix() {
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), Permissions::from_mode(0o777)).unwrap();
        let fault = Socket::listen(&folder.path().join("gate.sock"), 0o600, None).unwrap_err().to_string();
        assert!(fault.contains("chmod go-w"), "{fault}");
    }
}
