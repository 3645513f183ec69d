//! Moving left-over folders to the trash beside them, and emptying it: each journalled before and after, none through a
//! link, none outside of its root.

use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use jiff::Timestamp;

use super::{Keeper, KeeperFault};
use crate::folders::{Leftover, TRASH, is_plain};
use crate::state::{ItemRecord, PlanRecord, Step};

/// What came of one folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FolderOutcome {
    /// Which.
    pub path: PathBuf,
    /// Where it is now, or why it is where it was.
    pub result: Result<Option<PathBuf>, String>,
}

impl Keeper {
    /// Moves each folder to the trash of its root.
    pub async fn trash(&self, folders: &[Leftover]) -> Result<Vec<FolderOutcome>, KeeperFault> {
        let now = Timestamp::now();
        let act = |folder: &Leftover| move_to_trash(folder, now).map(Some);
        let name = |folder: &Leftover| (folder.path.clone(), Some(folder.system.to_string()));
        self.each("move to trash", "no container has it mounted", folders, name, act).await
    }

    /// Deletes what is in the trash of a root, for good.
    pub async fn empty_trash(
        &self,
        root: &Path,
        trashed: &[PathBuf],
    ) -> Result<Vec<FolderOutcome>, KeeperFault> {
        let act = |path: &PathBuf| delete(root, path).map(|()| None);
        self.each("delete", "it was in the trash", trashed, |path| (path.clone(), None), act).await
    }

    async fn each<T>(
        &self,
        action: &str,
        reason: &str,
        folders: &[T],
        name: impl Fn(&T) -> (PathBuf, Option<String>),
        act: impl Fn(&T) -> Result<Option<PathBuf>, String>,
    ) -> Result<Vec<FolderOutcome>, KeeperFault> {
        let plan = PlanRecord { host: self.host.clone(), who: self.who.clone(), intent: "dirs".to_owned() };
        let records = folders.iter().map(|folder| {
            let (path, system) = name(folder);
            ItemRecord {
                container: String::new(),
                name: path.display().to_string(),
                system,
                workspace: None,
                status: "left behind".to_owned(),
                action: action.to_owned(),
                reason: reason.to_owned(),
                started_at: None,
            }
        });
        let numbers = self.journal.begin(plan, records.collect()).await?;
        let mut outcomes = Vec::new();
        for (folder, number) in folders.iter().zip(numbers) {
            let result = act(folder);
            let line = match &result {
                Ok(Some(to)) => format!("moved to {}", to.display()),
                Ok(None) => "deleted".to_owned(),
                Err(why) => format!("failed: {why}"),
            };
            self.journal.step(number, Step::Outcome, line).await?;
            outcomes.push(FolderOutcome { path: name(folder).0, result });
        }
        Ok(outcomes)
    }
}

/// A rename moves what is at the path itself, were it a link by now; so it must still be the folder that was listed.
fn move_to_trash(folder: &Leftover, now: Timestamp) -> Result<PathBuf, String> {
    let Leftover { root, path, identity, .. } = folder;
    let name = path.file_name().filter(|_| path.parent() == Some(root) && is_plain(path));
    let Some(name) = name else { return Err(format!("it is not directly below {}", root.display())) };
    own_folder(root)?;
    let metadata = path.symlink_metadata().map_err(|error| error.to_string())?;
    if !metadata.is_dir() || (metadata.dev(), metadata.ino()) != *identity {
        return Err("it is another one than was listed".to_owned());
    }
    let trash = root.join(TRASH);
    match fs::DirBuilder::new().mode(0o700).create(&trash) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            return Err(format!("{} cannot be made: {error}", trash.display()));
        }
        _ => own_folder(&trash)?,
    }
    let place = trash.join(format!("{}.{}", name.to_string_lossy(), now.as_millisecond()));
    if place.symlink_metadata().is_ok() {
        return Err(format!("{} is there already", place.display()));
    }
    fs::rename(path, &place).map_err(|error| error.to_string())?;
    Ok(place)
}

/// Deleting goes into folders and never through links.
fn delete(root: &Path, path: &Path) -> Result<(), String> {
    let trash = root.join(TRASH);
    if path.parent() != Some(&trash) || !is_plain(path) {
        return Err(format!("it is not in {}", trash.display()));
    }
    own_folder(root)?;
    own_folder(&trash)?;
    let metadata = path.symlink_metadata().map_err(|error| error.to_string())?;
    let deleted = if metadata.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
    deleted.map_err(|error| error.to_string())
}

fn own_folder(path: &Path) -> Result<(), String> {
    match path.symlink_metadata() {
        Ok(metadata) if metadata.is_dir() => Ok(()),
        Ok(_) => Err(format!("{} is not a folder of its own", path.display())),
        Err(error) => Err(format!("{}: {error}", path.display())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::SystemName;

    fn leftover(root: &Path, path: &Path) -> Leftover {
        let identity = path.symlink_metadata().map(|metadata| (metadata.dev(), metadata.ino()));
        Leftover {
            system: SystemName::new("hermes"),
            root: root.to_owned(),
            path: path.to_owned(),
            bytes: 0,
            measured: true,
            changed_at: None,
            kept: None,
            identity: identity.unwrap_or_default(),
        }
    }

    #[test]
    fn nothing_outside_of_its_root_is_moved_and_nothing_through_a_link() {
        let place = tempfile::tempdir().unwrap();
        let (root, outside) = (place.path().join("root"), place.path().join("outside"));
        for folder in [&root, &outside, &root.join("a"), &root.join("a/deep"), &outside.join("b")] {
            fs::create_dir_all(folder).unwrap();
        }
        std::os::unix::fs::symlink(&outside, root.join("link")).unwrap();
        std::os::unix::fs::symlink(&root, place.path().join("root-link")).unwrap();
        let now = Timestamp::now();
        let refused = [
            leftover(&root, &outside),
            leftover(&root, &outside.join("b")),
            leftover(&root, &root.join("a/deep")),
            leftover(&root, &root.join("../outside")),
            leftover(&root, &root.join("link")),
            leftover(&place.path().join("root-link"), &place.path().join("root-link/a")),
            Leftover { identity: (0, 0), ..leftover(&root, &root.join("a")) },
        ];
        for folder in refused {
            assert!(move_to_trash(&folder, now).is_err(), "{folder:?}");
        }
        assert!(outside.join("b").is_dir() && root.join("a/deep").is_dir() && root.join("link").exists());

        let moved = move_to_trash(&leftover(&root, &root.join("a")), now).unwrap();
        assert!(moved.join("deep").is_dir() && !root.join("a").exists());
        assert_eq!(moved.parent(), Some(root.join(TRASH).as_path()));
        for path in [&outside, &root, &root.join("link"), &root.join(TRASH)] {
            assert!(delete(&root, path).is_err(), "{path:?}");
        }
        // A link in the trash goes, what it leads to stays.
        std::os::unix::fs::symlink(&outside, moved.join("way-out")).unwrap();
        delete(&root, &moved).unwrap();
        assert!(!moved.exists() && outside.join("b").is_dir());
    }

    #[test]
    fn a_trash_that_is_a_link_is_refused() {
        let place = tempfile::tempdir().unwrap();
        let (root, outside) = (place.path().join("root"), place.path().join("outside"));
        fs::create_dir_all(root.join("a")).unwrap();
        fs::create_dir_all(&outside).unwrap();
        std::os::unix::fs::symlink(&outside, root.join(TRASH)).unwrap();
        assert!(move_to_trash(&leftover(&root, &root.join("a")), Timestamp::now()).is_err());
        assert!(root.join("a").is_dir());
    }
}
