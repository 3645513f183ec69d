//! A repository of our own that stands for one of a sandbox's, so that git never reads what is written there.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::chown;
use std::path::Path;

use super::repositories::{kind_of, unusable};

/// Larger repositories cannot be judged in a moment.
const LARGEST_INDEX: u64 = 64 << 20;
const LARGEST_LIST: u64 = 8 << 20;
const MOST_BRANCHES: usize = 2_000;

/// A repository of our own that stands for theirs: our configuration, their index and branches, their objects borrowed.
pub(super) fn prepare(git: &Path, ours: &Path) -> io::Result<()> {
    // A link would lead us out of the sandbox, whatever it is called.
    for folder in ["objects", "info", "refs", "refs/heads", "refs/remotes"] {
        if kind_of(&git.join(folder))?.is_some_and(|kind| !kind.is_dir()) {
            return Err(unusable());
        }
    }
    let objects = git.join("objects");
    let borrowed = objects.to_str().filter(|path| !path.contains(['\n', '"'])).ok_or_else(unusable)?;
    fs::create_dir_all(ours.join("objects/info"))?;
    fs::create_dir_all(ours.join("refs"))?;
    fs::create_dir_all(ours.join("info"))?;
    fs::write(ours.join("objects/info/alternates"), format!("{borrowed}\n"))?;
    fs::write(
        ours.join("config"),
        "[core]\n\trepositoryformatversion = 0\n\tbare = false\n\tfsmonitor = false\n\thooksPath = /dev/null\n\
         \tattributesFile = /dev/null\n\texcludesFile = /dev/null\n\tuntrackedCache = false\n\
         [protocol]\n\tallow = never\n",
    )?;
    let head = regular(&git.join("HEAD"), 1024)?.ok_or_else(unusable)?;
    if !is_reference(&head) {
        return Err(unusable());
    }
    if !head.starts_with(b"ref: ") {
        // Commits that no branch leads to.
        fs::create_dir_all(ours.join("refs/detached"))?;
        fs::write(ours.join("refs/detached/head"), &head)?;
    }
    fs::write(ours.join("HEAD"), head)?;
    if let Some(stash) = regular(&git.join("refs/stash"), 1024)? {
        if !is_reference(&stash) {
            return Err(unusable());
        }
        fs::write(ours.join("refs/stash"), stash)?;
    }
    for (name, largest) in
        [("index", LARGEST_INDEX), ("packed-refs", LARGEST_LIST), ("info/exclude", 64 << 10)]
    {
        if let Some(content) = regular(&git.join(name), largest)? {
            fs::write(ours.join(name), content)?;
        }
    }
    let mut left = MOST_BRANCHES;
    for kind in ["heads", "remotes"] {
        copy_references(&git.join("refs").join(kind), &ours.join("refs").join(kind), 6, &mut left)?;
    }
    Ok(())
}

fn copy_references(from: &Path, to: &Path, deeper: usize, left: &mut usize) -> io::Result<()> {
    fs::create_dir_all(to)?;
    let entries = match fs::read_dir(from) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    for entry in entries {
        let entry = entry?;
        *left = left.checked_sub(1).ok_or_else(unusable)?;
        if entry.file_type()?.is_dir() && deeper > 0 {
            copy_references(&entry.path(), &to.join(entry.file_name()), deeper - 1, left)?;
        } else if let Some(content) = regular(&entry.path(), 1024)?
            && is_reference(&content)
        {
            fs::write(to.join(entry.file_name()), content)?;
        }
    }
    Ok(())
}

/// A commit, or the name of a branch.
fn is_reference(content: &[u8]) -> bool {
    let content = content.trim_ascii();
    let named = content.strip_prefix(b"ref: refs/");
    let plain = |byte: &u8| byte.is_ascii_graphic();
    match named {
        Some(name) => name.iter().all(plain) && !name.windows(2).any(|pair| pair == b".."),
        None => matches!(content.len(), 40 | 64) && content.iter().all(u8::is_ascii_hexdigit),
    }
}

/// The content of a file that is one, and not too large; `None` when there is none.
fn regular(path: &Path, largest: u64) -> io::Result<Option<Vec<u8>>> {
    match path.symlink_metadata() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
        Ok(metadata) if !metadata.is_file() || metadata.len() > largest => return Err(unusable()),
        Ok(_) => {}
    }
    // It may have become something else meanwhile; a pipe must not hold us.
    let file = rustix::fs::open(
        path,
        rustix::fs::OFlags::RDONLY
            | rustix::fs::OFlags::NOFOLLOW
            | rustix::fs::OFlags::NONBLOCK
            | rustix::fs::OFlags::CLOEXEC,
        rustix::fs::Mode::empty(),
    )?;
    let mut content = Vec::new();
    File::from(file).take(largest).read_to_end(&mut content)?;
    Ok(Some(content))
}

/// Makes a folder and all that is in it somebody's.
pub(super) fn give(folder: &Path, uid: u32, gid: u32) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            give(&entry.path(), uid, gid)?;
        } else {
            chown(entry.path(), Some(uid), Some(gid))?;
        }
    }
    chown(folder, Some(uid), Some(gid))
}
