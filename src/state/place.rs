//! Whose folders and files these are. What belongs to another user is not obeyed, and nothing is made there.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::StateFault;
use super::fault::Trouble;

/// The user whose rights this process has.
pub(super) fn effective_user() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Whether nobody but root can change what is found at this path, or would be made there.
pub(super) fn is_safe(path: &Path) -> bool {
    let Some(Ok(real)) = nearest(path).map(std::fs::canonicalize) else { return false };
    real.ancestors().all(|folder| {
        // In a sticky folder nobody can replace what is somebody else's.
        let safe = |mode: u32| mode & 0o022 == 0 || mode & 0o1000 != 0;
        folder.symlink_metadata().is_ok_and(|it| it.uid() == 0 && safe(it.mode()))
    })
}

/// The first that is there: the path itself, or one of the folders above it.
fn nearest(path: &Path) -> Option<PathBuf> {
    path.ancestors().find(|each| each.symlink_metadata().is_ok()).map(Path::to_owned)
}

/// Refuses to make or change anything in a folder of another user. For root that holds for every folder above it, too: whoever owns
/// one can lead it elsewhere.
pub(super) fn refuse_to_write(folder: &Path) -> Result<(), StateFault> {
    let Some(Ok(real)) = nearest(folder).map(std::fs::canonicalize) else { return Ok(()) };
    let user = effective_user();
    let concerned: Vec<&Path> = match user {
        0 => real.ancestors().collect(),
        _ if folder.exists() => vec![&real],
        _ => Vec::new(),
    };
    for each in concerned {
        match each.metadata().map(|metadata| metadata.uid()) {
            Ok(owner) if owner != 0 && owner != user => return Err(stranger(folder, each, owner)),
            Ok(_) | Err(_) => {}
        }
    }
    Ok(())
}

/// Refuses to believe what another user wrote.
pub(super) fn refuse_to_read(folder: &Path, file: &Path) -> Result<(), StateFault> {
    let Ok(owner) = file.metadata().map(|metadata| metadata.uid()) else { return Ok(()) };
    let mine = owner == 0 || owner == effective_user();
    if mine { Ok(()) } else { Err(stranger(folder, file, owner)) }
}

fn stranger(folder: &Path, which: &Path, owner: u32) -> StateFault {
    let why = format!("{} belongs to user {owner}, and what is another user's is not used", which.display());
    StateFault::Folder { folder: folder.display().to_string(), why }
}

/// A state that is being made is empty for a moment. One that stays so was emptied.
pub(super) fn refuse_emptied(file: &Path, metadata: &std::fs::Metadata) -> Result<(), StateFault> {
    const MADE_WITHIN: Duration = Duration::from_secs(10);
    let is_new =
        metadata.modified().ok().and_then(|at| at.elapsed().ok()).is_none_or(|ago| ago < MADE_WITHIN);
    if is_new { Ok(()) } else { Err(Trouble::NoTables.of(file)) }
}

/// A link to nothing, on the way to a file that is not there: where it leads to may be a disk that is not mounted.
pub(super) fn refuse_dangling(folder: &Path, file: &Path) -> Result<(), StateFault> {
    match nearest(file).filter(|nearest| nearest.metadata().is_err()) {
        None => Ok(()),
        Some(link) => Err(StateFault::Folder {
            folder: folder.display().to_string(),
            why: format!("{} is a link to nothing", link.display()),
        }),
    }
}
