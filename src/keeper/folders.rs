//! Moving left-over folders to the trash beside them, and emptying it: each journalled before and after, none through a
//! link, none outside of its root.

use std::ffi::OsStr;
use std::fs;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Component, Path, PathBuf};

use jiff::Timestamp;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, RenameFlags, mkdirat, openat, renameat_with, statat};
use rustix::io::Errno;

use super::{Keeper, KeeperFault};
use crate::folders::{Leftover, Root, TRASH, Users, mounted_below, open_below};
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
    /// Moves each folder to the trash of its root, unless `needed` says, right before, that somebody needs it.
    pub async fn trash(
        &self,
        folders: &[Leftover],
        mut needed: impl AsyncFnMut(&Leftover) -> Option<String>,
    ) -> Result<Vec<FolderOutcome>, KeeperFault> {
        let now = Timestamp::now();
        let act = async |folder: &Leftover| match needed(folder).await {
            Some(why) => Err(why),
            None => move_to_trash(folder, now).map(Some),
        };
        let name = |folder: &Leftover| (folder.path.clone(), Some(folder.system.to_string()));
        self.each("move to trash", "no container has it mounted", folders, name, act).await
    }

    /// Deletes what is in the trash of a root, for good.
    pub async fn empty_trash(
        &self,
        root: &Root,
        trashed: &[PathBuf],
    ) -> Result<Vec<FolderOutcome>, KeeperFault> {
        let act = async |path: &PathBuf| delete(&root.base, &root.path, path).map(|()| None);
        self.each("delete", "it was in the trash", trashed, |path| (path.clone(), None), act).await
    }

    async fn each<T>(
        &self,
        action: &str,
        reason: &str,
        folders: &[T],
        name: impl Fn(&T) -> (PathBuf, Option<String>),
        mut act: impl AsyncFnMut(&T) -> Result<Option<PathBuf>, String>,
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
            let result = act(folder).await;
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

/// Moves by the folders that were opened, so that nobody can put a link in the way.
fn move_to_trash(folder: &Leftover, now: Timestamp) -> Result<PathBuf, String> {
    let Leftover { root, base, path, identity, .. } = folder;
    let name = name_in(root, path)?;
    let opened = open(base, root)?;
    let metadata = statat(&opened, name, AtFlags::SYMLINK_NOFOLLOW).map_err(|error| error.to_string())?;
    let is_folder = FileType::from_raw_mode(metadata.st_mode) == FileType::Directory;
    if !is_folder || (metadata.st_dev, metadata.st_ino) != *identity {
        return Err("it is another one than was listed".to_owned());
    }
    mounted_below(path)?;
    // Containers of engines that nobody told us of, and whoever else has it.
    Users::look()?.have_left(path)?;
    let trash = root.join(TRASH);
    match mkdirat(&opened, TRASH, Mode::RWXU) {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(error) => return Err(format!("{} cannot be made: {error}", trash.display())),
    }
    let into = open_trash(&opened, &trash)?;
    let place = format!("{}.{}", name.to_string_lossy(), now.as_millisecond());
    renameat_with(&opened, name, &into, place.as_str(), RenameFlags::NOREPLACE)
        .map_err(|error| error.to_string())?;
    Ok(trash.join(place))
}

/// Deleting goes into folders and never through links, nor into what is mounted there.
fn delete(base: &Path, root: &Path, path: &Path) -> Result<(), String> {
    let trash = root.join(TRASH);
    let name = name_in(&trash, path)?;
    let opened = open_trash(&open(base, root)?, &trash)?;
    mounted_below(path)?;
    Users::look()?.have_left(path)?;
    let metadata = statat(&opened, name, AtFlags::SYMLINK_NOFOLLOW).map_err(|error| error.to_string())?;
    // By the folder that was opened, wherever its path leads by now.
    let path = PathBuf::from(format!("/proc/self/fd/{}", opened.as_raw_fd())).join(name);
    let deleted = match FileType::from_raw_mode(metadata.st_mode) {
        FileType::Directory => fs::remove_dir_all(path),
        _ => fs::remove_file(path),
    };
    deleted.map_err(|error| error.to_string())
}

/// The name of what is directly in a folder.
fn name_in<'a>(folder: &Path, path: &'a Path) -> Result<&'a OsStr, String> {
    let below = path.strip_prefix(folder).ok().map(|below| below.components().collect::<Vec<_>>());
    match below.as_deref() {
        Some([Component::Normal(name)]) => Ok(name),
        _ => Err(format!("it is not directly in {}", folder.display())),
    }
}

fn open(base: &Path, root: &Path) -> Result<OwnedFd, String> {
    open_below(base, root).map_err(|error| format!("{} is not a folder of its own: {error}", root.display()))
}

fn open_trash(root: &OwnedFd, trash: &Path) -> Result<OwnedFd, String> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(root, TRASH, flags, Mode::empty())
        .map_err(|error| format!("{} is not a folder of its own: {error}", trash.display()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

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
            claimed: None,
            base: root.parent().unwrap().to_owned(),
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
        fs::create_dir_all(outside.join("root/c")).unwrap();
        std::os::unix::fs::symlink(&outside, place.path().join("way")).unwrap();
        let way = place.path().join("way/root");
        let now = Timestamp::now();
        let refused = [
            leftover(&root, &outside),
            leftover(&root, &outside.join("b")),
            leftover(&root, &root.join("a/deep")),
            leftover(&root, &root.join("../outside")),
            leftover(&root, &root.join("link")),
            leftover(&place.path().join("root-link"), &place.path().join("root-link/a")),
            Leftover { base: place.path().to_owned(), ..leftover(&way, &way.join("c")) },
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
            assert!(delete(place.path(), &root, path).is_err(), "{path:?}");
        }
        // A link in the trash goes, what it leads to stays.
        std::os::unix::fs::symlink(&outside, moved.join("way-out")).unwrap();
        delete(place.path(), &root, &moved).unwrap();
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
