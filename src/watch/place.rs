//! On which machine an engine is, and where its files are seen from here. A socket does not tell: what listens at it may only
//! pass everything on, as `ssh -L` does, and then neither our files nor our session stores have to do with its containers.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::net::UnixStream;

use crate::domain::snapshot::StoreFacts;
use crate::engine::Address;

/// Processes that are an engine, or that listen in its name until it is needed. Whoever else answers passes on.
const ENGINES: [&str; 4] = ["dockerd", "podman", "systemd", "init"];

/// How the process of a gate is named.
const GATE: &str = "sandkeeper";

/// Where the engine's files are.
#[derive(Clone, Debug)]
pub(crate) enum Place {
    /// Where ours are.
    Here,
    /// On this machine, below this path, which leads to what is open here.
    Below {
        /// The path.
        root: PathBuf,
        /// Keeps that path what it is.
        _open: Arc<File>,
    },
    /// Where they cannot be seen; the text says why.
    Elsewhere(String),
}

impl Default for Place {
    fn default() -> Self {
        Self::Elsewhere("the engine has not answered yet".to_owned())
    }
}

impl Place {
    /// Asks the socket who listens at it.
    pub(crate) async fn of(address: &Address) -> Self {
        listener(address).await.map_or_else(Self::elsewhere, Self::of_process)
    }

    /// The same for a gate that says that its engine is on its machine. Whether the gate is on ours, only its process tells.
    /// It lets nobody act, so what is seen with our own eyes is good enough.
    pub(crate) async fn behind_gate(address: &Address) -> Self {
        match listener(address).await {
            Ok(pid) if name_of(pid).starts_with(GATE) => Self::Here,
            Ok(pid) => Self::passed_on_by(&name_of(pid)),
            Err(why) => Self::elsewhere(why),
        }
    }

    /// Whether the engine itself, and nobody who only passes on, listens on this machine.
    pub(crate) async fn has_engine(address: &Address) -> bool {
        listener(address).await.is_ok_and(|pid| ENGINES.contains(&name_of(pid).as_str()))
    }

    fn elsewhere(why: &str) -> Self {
        Self::Elsewhere(why.to_owned())
    }

    fn passed_on_by(name: &str) -> Self {
        Self::Elsewhere(format!("`{name}` answers in the engine's place, which may be on another machine"))
    }

    fn of_process(pid: u32) -> Self {
        if pid == std::process::id() {
            return Self::Here;
        }
        let process = PathBuf::from(format!("/proc/{pid}"));
        let name = name_of(pid);
        if !ENGINES.contains(&name.as_str()) {
            return Self::passed_on_by(&name);
        }
        let Some(ours) = mounts_of_root("/proc/self".as_ref()) else {
            return Self::Elsewhere("/proc cannot be read here".to_owned());
        };
        if mounts_of_root(&process).as_ref() == Some(&ours) {
            return Self::Here;
        }
        match usual_root(&process) {
            Some((theirs, _)) if theirs == ours => Self::Here,
            Some((_, Some(root))) => Self::below(root),
            _ => Self::Elsewhere("the engine has files of its own, which only root may see".to_owned()),
        }
    }

    /// Below a folder that is open, and so stays the same one.
    fn below(root: File) -> Self {
        let path = PathBuf::from(format!("/proc/self/fd/{}", root.as_raw_fd()));
        Self::Below { root: path, _open: Arc::new(root) }
    }

    /// Where its files begin, seen from here; the error says why they are not seen.
    pub(crate) fn root(&self) -> Result<&Path, &str> {
        match self {
            Self::Here => Ok(Path::new("/")),
            Self::Below { root, .. } => Ok(root),
            Self::Elsewhere(why) => Err(why),
        }
    }

    /// Whether a path leads to the same file for the engine as for us; the error says why that cannot be told.
    pub(crate) fn shares(&self, path: &Path) -> Result<(), String> {
        let root = self.root()?;
        let ours = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let theirs = root.join(ours.strip_prefix("/").unwrap_or(&ours));
        let identity = |path: &Path| path.symlink_metadata().map(|found| (found.dev(), found.ino())).ok();
        if matches!(self, Self::Here) || identity(&theirs) == identity(&ours) {
            return Ok(());
        }
        Err(format!("{} is something else for the engine than it is here", path.display()))
    }

    /// Casts doubt on the stores that were found and not named, where the engine's containers need not be theirs.
    pub(crate) fn cast_doubt<'a>(&self, stores: impl Iterator<Item = &'a mut StoreFacts>) {
        for store in stores.filter(|store| !store.named && store.sessions.fault.is_none()) {
            // An application has no path; it is on this machine, as the engine is.
            let doubt = match store.file {
                Some(_) => self.shares(Path::new(&store.path)),
                None => self.root().map(|_| ()).map_err(ToOwned::to_owned),
            };
            if let Err(why) = doubt {
                let what = format!("its sessions need not be those of this engine's containers: {why}");
                let hint = "if they are, name it with `--db SYSTEM=PATH`";
                store.sessions = store.sessions.with_fault(format!("{what}; {hint}"));
            }
        }
    }

    /// The same away from the loop: a dead network disk must not hold up everything else.
    pub(crate) async fn doubt(&self, mut stores: Vec<StoreFacts>, patience: Duration) -> Vec<StoreFacts> {
        if matches!(self, Self::Here) || stores.iter().all(|store| store.named) {
            return stores;
        }
        let (place, mut unsure) = (self.clone(), stores.clone());
        let look = tokio::task::spawn_blocking(move || {
            place.cast_doubt(stores.iter_mut());
            stores
        });
        if let Ok(Ok(stores)) = tokio::time::timeout(patience, look).await {
            return stores;
        }
        let why = "whether the engine sees it too could not be told in time".to_owned();
        Self::Elsewhere(why).cast_doubt(unsure.iter_mut());
        unsure
    }
}

/// The mounts at the root of most threads of a process, and that root, if it may be seen. Podman looks into a container
/// through its eyes, and leaves the thread that did so there, be it the first one; so a thread is asked twice.
fn usual_root(process: &Path) -> Option<(Vec<String>, Option<File>)> {
    let threads = process.join("task").read_dir().ok()?;
    let mut seen: BTreeMap<Vec<String>, Vec<PathBuf>> = BTreeMap::new();
    for thread in threads.flatten().map(|thread| thread.path()) {
        if let Some(mounts) = mounts_of_root(&thread) {
            seen.entry(mounts).or_default().push(thread);
        }
    }
    let (mounts, threads) = seen.into_iter().max_by_key(|(_, threads)| threads.len())?;
    let root = threads.iter().find_map(|thread| {
        let root = File::open(thread.join("root")).ok()?;
        (mounts_of_root(thread).as_ref() == Some(&mounts)).then_some(root)
    });
    Some((mounts, root))
}

/// The mounts that a process has at its root. They have numbers of their own in every mount namespace, so equal ones mean
/// equal files; anybody may read them.
fn mounts_of_root(process: &Path) -> Option<Vec<String>> {
    let mounts = fs::read_to_string(process.join("mountinfo")).ok()?;
    let at_root = mounts.lines().filter(|line| line.split(' ').nth(4) == Some("/"));
    let numbers: Vec<String> =
        at_root.filter_map(|line| line.split(' ').next()).map(ToOwned::to_owned).collect();
    (!numbers.is_empty()).then_some(numbers)
}

/// The process that listens at an address; the error says why it cannot be told.
async fn listener(address: &Address) -> Result<u32, &'static str> {
    let Address::Unix(socket) = address else {
        return Err("the engine is reached over the network, and its files are not");
    };
    let peer = UnixStream::connect(socket).await.and_then(|stream| stream.peer_cred());
    let peer = peer.map_err(|_| "the engine's socket did not answer")?;
    let pid = peer.pid().and_then(|pid| u32::try_from(pid).ok()).filter(|pid| *pid > 0);
    // A process that this namespace does not know has files that it does not know either.
    pid.ok_or("the engine runs outside of this container, and its files are not seen from here")
}

fn name_of(pid: u32) -> String {
    let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    name.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(flavor = "current_thread")]
    async fn an_engine_is_here_only_if_its_own_process_answers_here() {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("engine.sock");
        let elsewhere = |place: Place| matches!(place, Place::Elsewhere(_));
        assert!(elsewhere(Place::of(&Address::Tcp("10.0.0.1:2375".to_owned())).await));
        assert!(elsewhere(Place::of(&Address::Unix("/nowhere.sock".into())).await));
        let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        let ours = Place::of(&Address::Unix(socket)).await;
        assert!(matches!(ours, Place::Here), "our own process listens: {ours:?}");
        let mut other = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let place = Place::of_process(other.id());
        other.kill().unwrap();
        other.wait().unwrap();
        assert!(elsewhere(place), "a stranger listens");
    }

    #[test]
    fn what_the_engine_sees_elsewhere_is_not_ours() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("root");
        let ours = folder.path().join("store");
        fs::write(&ours, "x").unwrap();
        let theirs = root.join(ours.strip_prefix("/").unwrap());
        fs::create_dir_all(theirs.parent().unwrap()).unwrap();
        let place = Place::below(File::open(root).unwrap());
        assert!(place.shares(&ours).is_err(), "nothing is there for the engine");
        fs::write(&theirs, "x").unwrap();
        assert!(place.shares(&ours).is_err(), "another file is there for the engine");
        fs::remove_file(&theirs).unwrap();
        fs::hard_link(&ours, &theirs).unwrap();
        assert_eq!(place.shares(&ours), Ok(()));
        assert_eq!(Place::Here.shares(&ours), Ok(()));
    }
}
