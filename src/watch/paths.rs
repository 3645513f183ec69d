//! Host paths that verdicts depend on: a scan whose folder is gone is over. Only what the engine itself would see counts,
//! and only where everything around the path can be seen: a disk that is not mounted looks like a folder that is gone.
//! Where the engine's files are is told by [`super::place`].

use std::collections::{BTreeSet, HashMap};
use std::fs::DirEntry;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::place::Place;
use crate::domain::Container;
use crate::domain::profile::{Match, Profile};
use crate::domain::snapshot::PathFact;

/// What is at the paths on which the verdicts on these containers depend.
pub(crate) async fn look_up<'a>(
    place: &Place,
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
    if let Err(why) = place.root() {
        return all(why);
    }
    let (asked, place) = (paths.clone(), place.clone());
    let look = tokio::task::spawn_blocking(move || {
        let told = |path: &String| match place.root() {
            Ok(root) => fact(root, path),
            Err(why) => PathFact::Unsure(why.to_owned()),
        };
        asked.iter().map(|path| (path.clone(), told(path))).collect()
    });
    // A dead network disk must not hold up everything else.
    match tokio::time::timeout(patience, look).await {
        Ok(facts) => facts.unwrap_or_else(|_| all("the look at it failed")),
        Err(_) => all("the disk did not answer in time"),
    }
}

fn fact(root: &Path, path: &str) -> PathFact {
    let seen = root.join(path.trim_start_matches('/'));
    match seen.symlink_metadata() {
        Ok(_) => return PathFact::There,
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return PathFact::Unsure(error.to_string()),
    }
    let Some(Ok(around)) = seen.parent().map(Path::read_dir) else {
        return PathFact::Unsure("the folder around it cannot be seen either".to_owned());
    };
    if !around.filter_map(Result::ok).any(|entry| is_somebodys(&entry)) {
        return PathFact::Unsure("the folder around it is empty, as where a disk is not mounted".to_owned());
    }
    if MOUNTED
        .iter()
        .any(|place| path.starts_with(place) && same_disk(&root.join(place.trim_matches('/')), &seen))
    {
        return PathFact::Unsure("it was on a disk that need not be mounted".to_owned());
    }
    PathFact::Gone
}

/// Where disks come and go.
const MOUNTED: [&str; 5] = ["/media/", "/mnt/", "/run/media/", "/Volumes/", "/net/"];

/// Whether an entry shows that a folder is what it should be. An encrypted home that is locked holds links and hidden files.
fn is_somebodys(entry: &DirEntry) -> bool {
    let is_link = entry.file_type().is_ok_and(|kind| kind.is_symlink());
    !is_link && !entry.file_name().as_encoded_bytes().starts_with(b".")
}

/// Whether nothing is mounted between a place and the folder around a path.
fn same_disk(place: &Path, path: &Path) -> bool {
    let disk = |folder: &Path| folder.metadata().ok().map(|found| found.dev());
    path.parent().is_none_or(|around| disk(around) == disk(place))
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
        // A disk may be away although something is beside where it was, and a locked home is not empty.
        std::fs::create_dir_all(root.join("media/other")).unwrap();
        assert!(matches!(fact(root, "/media/usb"), PathFact::Unsure(_)), "a disk that is not there");
        std::fs::create_dir_all(root.join("home/ada/.ecryptfs")).unwrap();
        std::os::unix::fs::symlink("/usr/share/README", root.join("home/ada/README.txt")).unwrap();
        assert!(matches!(fact(root, "/home/ada/project"), PathFact::Unsure(_)), "a locked home");
        std::fs::create_dir_all(root.join("home/ada/other")).unwrap();
        assert_eq!(fact(root, "/home/ada/project"), PathFact::Gone);
        std::os::unix::fs::symlink("/nowhere", root.join("tmp/link")).unwrap();
        assert_eq!(fact(root, "/tmp/link"), PathFact::There, "a link that leads nowhere is still there");
    }
}
