//! Host paths that verdicts depend on: a scan whose folder is gone is over. Only what the engine itself would see counts,
//! and only where everything around the path can be seen: a disk that is not mounted looks like a folder that is gone.
//! Where the engine's files are is told by [`super::place`].

use std::collections::{BTreeSet, HashMap};
use std::io::ErrorKind;
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
    let root = match place.root() {
        Ok(root) => root.to_owned(),
        Err(why) => return all(why),
    };
    let asked = paths.clone();
    let look = tokio::task::spawn_blocking(move || {
        asked.into_iter().map(|path| (path.clone(), fact(&root, &path))).collect()
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
}
