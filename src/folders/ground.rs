//! Firm ground under what is moved or deleted: no link on the way to it, and nothing of another place mounted in it. A folder
//! that was opened once is the same one from then on, whatever its path leads to later.

use std::ffi::OsStr;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::io::Errno;

/// Opens a folder below `base`, without following a link on the way from there.
pub(crate) fn open_below(base: &Path, folder: &Path) -> io::Result<OwnedFd> {
    let outside = || io::Error::from(Errno::NOTDIR);
    let below = folder.strip_prefix(base).map_err(|_| outside())?;
    let open = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let mut opened = openat(CWD, base, open, Mode::empty())?;
    for part in below.components() {
        let Component::Normal(name) = part else { return Err(outside()) };
        opened = openat(&opened, name, open | OFlags::NOFOLLOW, Mode::empty())?;
    }
    Ok(opened)
}

/// Whether something is there that is no folder, such as a link.
pub(super) fn is_no_folder(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::NOTDIR | Errno::LOOP))
}

/// Refuses a folder in which something is mounted: what is deleted there would be deleted where it comes from.
pub(crate) fn mounted_below(folder: &Path) -> Result<(), String> {
    let untold = |error: io::Error| format!("whether something is mounted in it cannot be told: {error}");
    let real = folder.canonicalize().map_err(untold)?;
    let mounts = std::fs::read("/proc/self/mountinfo").map_err(untold)?;
    let places =
        mounts.split(|byte| *byte == b'\n').filter_map(|line| line.split(|byte| *byte == b' ').nth(4));
    match places.map(unescaped).find(|place| place.starts_with(&real)) {
        Some(place) => Err(format!("something is mounted at {}", place.display())),
        None => Ok(()),
    }
}

/// A path of the list of mounts, in which odd characters are written as a backslash and three octal digits.
pub(super) fn unescaped(text: &[u8]) -> PathBuf {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((byte, after)) = rest.split_first() {
        let code = after.get(..3).and_then(|digits| std::str::from_utf8(digits).ok());
        let code = code.and_then(|digits| u8::from_str_radix(digits, 8).ok()).filter(|_| *byte == b'\\');
        bytes.push(code.unwrap_or(*byte));
        rest = if code.is_some() { &after[3..] } else { after };
    }
    PathBuf::from(OsStr::from_bytes(&bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_link_is_followed_below_the_base() {
        let place = tempfile::tempdir().unwrap();
        let base = place.path().join("base");
        std::fs::create_dir_all(base.join("a/b")).unwrap();
        std::fs::create_dir_all(place.path().join("outside/b")).unwrap();
        std::os::unix::fs::symlink(place.path().join("outside"), base.join("link")).unwrap();
        std::os::unix::fs::symlink(&base, place.path().join("way")).unwrap();
        let way = place.path().join("way");
        assert!(open_below(&base, &base.join("a/b")).is_ok());
        assert!(open_below(&way, &way.join("a/b")).is_ok(), "a link above the base is nobody's trap");
        for wrong in
            [base.join("link"), base.join("link/b"), base.join("a/../a"), place.path().join("outside")]
        {
            assert!(is_no_folder(&open_below(&base, &wrong).unwrap_err()), "{wrong:?}");
        }
        assert_eq!(open_below(&base, &base.join("gone")).unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn what_is_mounted_is_found_at_and_below_a_folder() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(mounted_below(folder.path()), Ok(()));
        assert!(mounted_below(Path::new("/proc")).is_err() && mounted_below(Path::new("/")).is_err());
        assert!(mounted_below(Path::new("/nowhere/at/all")).is_err());
        assert_eq!(unescaped(b"/a\\040b\\134c"), PathBuf::from("/a b\\c"));
    }
}
