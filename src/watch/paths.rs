//! Host paths that verdicts depend on: a scan whose folder is gone is over. Only what the engine itself would see counts,
//! and only where everything around the path can be seen: a disk that is not mounted looks like a folder that is gone.

use std::collections::{BTreeSet, HashMap};
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::net::UnixStream;

use crate::domain::Container;
use crate::domain::profile::{Match, Profile};
use crate::domain::snapshot::PathFact;
use crate::engine::Address;

/// What is at the paths on which the verdicts on these containers depend. A gate sees less of the host than its engine
/// does: behind one, this program's own eyes count.
pub(crate) async fn look_up<'a>(
    (address, guarded): (&Address, bool),
    profiles: impl Iterator<Item = &'a Arc<Profile>> + Clone,
    containers: impl Iterator<Item = &'a Container>,
    patience: Duration,
) -> HashMap<String, PathFact> {
    let mut paths: BTreeSet<String> = BTreeSet::new();
    for container in containers {
        for profile in profiles.clone() {
            if let (Some(over), Match::Ours(recognised)) = (&profile.over, profile.recognise(container)) {
                paths.extend(over.paths_of(&recognised));
            }
        }
    }
    if paths.is_empty() {
        return HashMap::new();
    }
    let all = |why: &str| {
        let unsure = PathFact::Unsure(why.to_owned());
        paths.iter().map(|path| (path.clone(), unsure.clone())).collect()
    };
    let look = async {
        let root = match root_of(address).await {
            Ok(_) if guarded => PathBuf::from("/"),
            Ok(root) => root,
            Err(why) => return all(why),
        };
        let asked = paths.clone();
        let look = tokio::task::spawn_blocking(move || {
            asked.into_iter().map(|path| (path.clone(), fact(&root, &path))).collect()
        });
        look.await.unwrap_or_else(|_| all("the look at it failed"))
    };
    // A dead network disk must not hold up everything else.
    tokio::time::timeout(patience, look).await.unwrap_or_else(|_| all("the disk did not answer in time"))
}

/// Where the engine's own files begin, seen from here.
async fn root_of(address: &Address) -> Result<PathBuf, &'static str> {
    let Address::Unix(socket) = address else {
        return Err("the engine is reached over the network, and its files are not");
    };
    let peer = UnixStream::connect(socket).await.and_then(|stream| stream.peer_cred());
    match peer.map(|peer| peer.pid()) {
        Ok(Some(pid)) if pid > 0 => {
            // Only root may look through another process's eyes; for others the engine's host is this one.
            let root = PathBuf::from(format!("/proc/{pid}/root"));
            Ok(if root.read_dir().is_ok() { root } else { PathBuf::from("/") })
        }
        // A process that this namespace does not know has files that it does not know either.
        Ok(_) => Err("the engine runs outside of this container, and its files are not seen from here"),
        Err(_) => Err("the engine's socket did not answer"),
    }
}

/// Whether a path leads to the same folder for the engine as for us; the error says why that cannot be told.
pub(crate) async fn is_shared(address: &Address, path: &Path) -> Result<(), String> {
    let root = root_of(address).await?;
    let theirs = root.join(path.strip_prefix("/").unwrap_or(path));
    let identity = |path: &Path| path.symlink_metadata().map(|found| (found.dev(), found.ino())).ok();
    if identity(&theirs) == identity(path) {
        return Ok(());
    }
    Err(format!("{} is another folder for the engine than it is here", path.display()))
}

fn fact(root: &Path, path: &str) -> PathFact {
    let seen = root.join(path.trim_start_matches('/'));
    match seen.symlink_metadata() {
        Ok(_) => return PathFact::There,
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return PathFact::Unsure(error.to_string()),
    }
    match seen.parent().map(Path::read_dir) {
        Some(Ok(mut around)) => match around.next() {
            Some(Ok(_)) => PathFact::Gone,
            _ => PathFact::Unsure("the folder around it is empty, as where a disk is not mounted".to_owned()),
        },
        _ => PathFact::Unsure("the folder around it cannot be seen either".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_gone_only_where_its_surroundings_can_be_seen() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        std::fs::create_dir_all(root.join("tmp/scan-1")).unwrap();
        std::fs::create_dir_all(root.join("mnt")).unwrap();
        assert_eq!(fact(root, "/tmp/scan-1"), PathFact::There);
        assert_eq!(fact(root, "/tmp/scan-2"), PathFact::Gone);
        assert!(matches!(fact(root, "/mnt/project"), PathFact::Unsure(_)), "an empty mount point");
        assert!(matches!(fact(root, "/home/ada/project"), PathFact::Unsure(_)), "nothing around it");
        assert!(matches!(fact(root, "/tmp/scan-2/deep"), PathFact::Unsure(_)));
        std::os::unix::fs::symlink("/nowhere", root.join("tmp/link")).unwrap();
        assert_eq!(fact(root, "/tmp/link"), PathFact::There, "a link that leads nowhere is still there");
    }

    #[tokio::test(flavor = "current_thread")]
    async fn files_of_an_engine_on_the_network_are_not_taken_for_ours() {
        assert!(root_of(&Address::Tcp("10.0.0.1:2375".to_owned())).await.is_err());
        assert!(root_of(&Address::Unix("/nowhere.sock".into())).await.is_err());
    }
}
