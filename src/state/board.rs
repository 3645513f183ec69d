//! The board: the folder in which every user's eviction marks stand for others to read, because the state itself is private.
//! A gateway that runs as another user asks here whether a workspace drains.
//!
//! Root makes the folder, owned by root and sticky like `/tmp`: every user may put papers up, and nobody can replace or take
//! down another's. Anybody may put up junk too. So a paper counts only if it is a plain file that belongs to the user in its
//! name, and what it says lets nothing go unless that user is root or oneself.

use std::fs::{DirBuilder, File, OpenOptions, Permissions};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use jiff::Timestamp;
use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::Mark;
use super::place::{effective_user, is_safe};
use crate::domain::ContainerId;
use crate::domain::snapshot::DrainMark;

/// The largest paper that is read, and how many there may be.
const LARGEST: u64 = 4 << 20;
const MOST_PAPERS: usize = 4096;
/// Where the usual name is taken by somebody else, so many others are tried.
const NAMES: usize = 8;

/// The folder in which marks are published.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Board {
    folder: PathBuf,
}

/// Why the marks of others are not known.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("the marks of other users cannot be read: {path}: {why}; {fix}")]
pub struct BoardFault {
    path: String,
    why: String,
    fix: &'static str,
}

/// A mark as somebody has published it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// Whose paper it is on.
    pub user: u32,
    /// Which of that user's states it comes from.
    pub state: String,
    /// The engine, as [`crate::engine::Address::identity`] names it.
    pub host: String,
    /// The mark.
    pub mark: Mark,
}

#[derive(Serialize, Deserialize)]
struct Paper {
    marks: Vec<Line>,
}

#[derive(Serialize, Deserialize)]
struct Line {
    engine: String,
    container: String,
    run: Option<Timestamp>,
    name: String,
    system: Option<String>,
    workspace: Option<String>,
    by: String,
    at: Timestamp,
}

static BOARD: OnceLock<Board> = OnceLock::new();

impl Board {
    /// Where it is unless somebody says otherwise. It outlives a reboot, as marks do.
    pub const PLACE: &'static str = "/var/lib/sandkeeper/marks";
    /// What says otherwise.
    pub const VARIABLE: &'static str = "SANDKEEPER_MARKS";

    /// A board in this folder, which need not be there.
    pub fn at(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into() }
    }

    /// From now on this process publishes here. One that never says so, such as a test or the demo, publishes nothing.
    pub fn put_up(self) {
        // A process has one board.
        let _ = BOARD.set(self);
    }

    /// The board of this process.
    pub fn here() -> Option<&'static Self> {
        BOARD.get()
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Why marks that this user sets now cannot be seen by others; `None` where they can.
    pub fn obstacle(&self) -> Option<String> {
        let place = self.folder.display();
        match self.is_there() {
            Err(fault) => Some(fault.to_string()),
            Ok(false) => Some(format!("there is no folder {place}; root makes it with `sandkeeper status`")),
            Ok(true) => {
                let access = rustix::fs::access(&self.folder, rustix::fs::Access::WRITE_OK);
                access.err().map(|error| format!("this user may not write in {place}: {error}"))
            }
        }
    }

    /// Makes the folder, as root. Nobody else could make one that others believe.
    pub fn prepare(&self) -> std::io::Result<()> {
        let Some(parent) = self.folder.parent() else { return Ok(()) };
        if effective_user() != 0 || self.folder.symlink_metadata().is_ok() {
            return Ok(());
        }
        // Not in somebody else's folder, who could lead it elsewhere.
        if !is_safe(parent) {
            return Err(ErrorKind::PermissionDenied.into());
        }
        DirBuilder::new().recursive(true).mode(0o755).create(parent)?;
        // Nobody can put anything there before it is sticky.
        DirBuilder::new().mode(0o700).create(&self.folder)?;
        std::fs::set_permissions(&self.folder, Permissions::from_mode(0o1777))
    }

    /// Puts up the marks of one state in place of what stood there.
    pub(super) fn publish(&self, state: &str, marks: &[(String, Mark)]) -> std::io::Result<()> {
        let user = effective_user();
        if !matches!(self.is_there(), Ok(true)) {
            return Err(ErrorKind::NotFound.into());
        }
        let text = text_of(marks)?;
        let mut done = false;
        for number in 0..NAMES {
            let path = self.folder.join(name_of(user, state, number));
            let owner = path.symlink_metadata().map(|file| file.uid());
            match owner {
                // Somebody sits on the name; what he says there counts for nobody.
                Ok(owner) if owner != user => {}
                // What stood under another name is old.
                Ok(_) if done => std::fs::remove_file(&path)?,
                Err(_) if done => {}
                Err(_) if marks.is_empty() => {}
                Ok(_) if read_paper(&path, user).is_ok_and(|old| old == text) => done = true,
                Ok(_) | Err(_) => {
                    self.write(&path, user, state, &text)?;
                    done = true;
                }
            }
        }
        if done || marks.is_empty() { Ok(()) } else { Err(ErrorKind::PermissionDenied.into()) }
    }

    /// Whether exactly this is published of a state.
    pub(super) fn shows(&self, state: &str, marks: &[(String, Mark)]) -> bool {
        let user = effective_user();
        let names = (0..NAMES).map(|number| self.folder.join(name_of(user, state, number)));
        let mine = |path: &PathBuf| path.symlink_metadata().is_ok_and(|file| file.uid() == user);
        let papers: Vec<PathBuf> = names.filter(mine).collect();
        match papers.as_slice() {
            [] => marks.is_empty(),
            [paper] => {
                text_of(marks).ok().is_some_and(|text| read_paper(paper, user).is_ok_and(|old| old == text))
            }
            _ => false,
        }
    }

    /// A reader sees the old paper or the new one, whole.
    fn write(&self, path: &Path, user: u32, state: &str, text: &str) -> std::io::Result<()> {
        let beside = self.folder.join(format!(".{user}-{state}-{}", std::process::id()));
        // Left behind by a program that was killed.
        let _ = std::fs::remove_file(&beside);
        let written = (|| {
            let mut file = OpenOptions::new().write(true).create_new(true).mode(0o644).open(&beside)?;
            file.set_permissions(Permissions::from_mode(0o644))?;
            file.write_all(text.as_bytes())?;
            std::fs::rename(&beside, path)
        })();
        if written.is_err() {
            let _ = std::fs::remove_file(&beside);
        }
        written
    }

    /// Everything that is published. What is there and cannot be read is a fault; what is not there says nothing.
    pub fn read(&self) -> Result<Vec<Notice>, BoardFault> {
        self.read_where(|_| true)
    }

    /// What root has published.
    pub fn read_of_root(&self) -> Result<Vec<Notice>, BoardFault> {
        self.read_where(|user| user == 0)
    }

    fn read_where(&self, wanted: impl Fn(u32) -> bool) -> Result<Vec<Notice>, BoardFault> {
        if !self.is_there()? {
            return Ok(Vec::new());
        }
        let unreadable = |error: std::io::Error| fault(&self.folder, error.to_string(), READABLE);
        let mut notices = Vec::new();
        for (count, entry) in std::fs::read_dir(&self.folder).map_err(unreadable)?.enumerate() {
            let entry = entry.map_err(unreadable)?;
            if count >= MOST_PAPERS {
                return Err(fault(&self.folder, format!("more than {MOST_PAPERS} papers"), TIDY));
            }
            let name = entry.file_name();
            let Some((user, state)) = name.to_str().and_then(author_of) else { continue };
            if !wanted(user) {
                continue;
            }
            let path = entry.path();
            // Whoever puts something up in another's name has said nothing.
            let owner = match path.symlink_metadata() {
                Ok(file) if !file.is_file() || file.uid() != user => continue,
                Ok(file) => file.uid(),
                Err(error) if error.kind() == ErrorKind::NotFound => continue,
                Err(error) => return Err(fault(&path, error.to_string(), READABLE)),
            };
            let text = match read_paper(&path, owner) {
                Ok(text) => text,
                Err(error) if error.kind() == ErrorKind::NotFound => continue,
                Err(error) => return Err(fault(&path, error.to_string(), READABLE)),
            };
            let told = parse(&text, user, state).map_err(|why| fault(&path, why, TIDY))?;
            notices.extend(told);
        }
        Ok(notices)
    }

    /// Whether the folder is there, and root's.
    fn is_there(&self) -> Result<bool, BoardFault> {
        let why = match self.folder.symlink_metadata() {
            Ok(folder) if !folder.is_dir() => "it is not a folder",
            Ok(_) if !is_safe(&self.folder) => "it is not root's, or others may replace what is in it",
            Ok(_) => return Ok(true),
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(fault(&self.folder, error.to_string(), READABLE)),
        };
        Err(fault(&self.folder, why.to_owned(), "remove it, and let root make it anew"))
    }
}

fn fault(path: &Path, why: String, fix: &'static str) -> BoardFault {
    BoardFault { path: path.display().to_string(), why, fix }
}

const READABLE: &str = "give every user leave to read it";
const TIDY: &str = "remove what is not sandkeeper's";

/// Which of a user's states it is, however its path is written.
pub(super) fn state_name(folder: &Path) -> String {
    use std::os::unix::ffi::OsStrExt;
    let real = std::fs::canonicalize(folder).unwrap_or_else(|_| folder.to_owned());
    // FNV-1a: the same with every release of the compiler.
    let hash = real.as_os_str().as_bytes().iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("{hash:016x}")
}

fn name_of(user: u32, state: &str, number: usize) -> String {
    if number == 0 { format!("{user}-{state}.json") } else { format!("{user}-{state}-{number}.json") }
}

/// Who has put up a paper of this name, and from which state.
fn author_of(name: &str) -> Option<(u32, &str)> {
    let mut parts = name.strip_suffix(".json")?.split('-');
    let (user, state) = (parts.next()?, parts.next()?);
    let user = user.parse::<u32>().ok().filter(|id| id.to_string() == user)?;
    let hex = state.len() == 16 && state.bytes().all(|byte| byte.is_ascii_hexdigit());
    hex.then_some((user, state))
}

/// The text of a plain file of this user. What it is is asked of what was opened: the name may lead elsewhere by then.
fn read_paper(path: &Path, user: u32) -> std::io::Result<String> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC).bits().cast_signed();
    let file: File = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() || metadata.uid() != user || metadata.len() > LARGEST {
        return Err(std::io::Error::new(ErrorKind::InvalidData, "it is no paper of its user"));
    }
    let mut text = String::new();
    file.take(LARGEST).read_to_string(&mut text)?;
    Ok(text)
}

fn text_of(marks: &[(String, Mark)]) -> std::io::Result<String> {
    let lines = marks.iter().map(|(host, mark)| Line {
        engine: host.clone(),
        container: mark.container.to_string(),
        run: mark.mark.started_at,
        name: mark.name.clone(),
        system: mark.system.clone(),
        workspace: mark.workspace.clone(),
        by: mark.mark.marked_by.clone(),
        at: mark.mark.marked_at,
    });
    Ok(serde_json::to_string(&Paper { marks: lines.collect() })?)
}

fn parse(text: &str, user: u32, state: &str) -> Result<Vec<Notice>, String> {
    let paper: Paper = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let notices = paper.marks.into_iter().map(|line| {
        let container =
            ContainerId::parse(&line.container).ok_or_else(|| "a mark names no container".to_owned())?;
        let mark = DrainMark { started_at: line.run, marked_at: line.at, marked_by: line.by };
        let (name, system, workspace) = (line.name, line.system, line.workspace);
        let mark = Mark { container, name, system, workspace, mark };
        Ok(Notice { user, state: state.to_owned(), host: line.engine, mark })
    });
    notices.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_that_we_give_name_a_user() {
        assert_eq!(author_of("0-00112233445566ff.json"), Some((0, "00112233445566ff")));
        assert_eq!(author_of("1000-00112233445566ff-3.json"), Some((1000, "00112233445566ff")));
        for name in
            [".0-00112233445566ff-77", "00-00112233445566ff.json", "+0-00112233445566ff.json", "0.json", "x"]
        {
            assert_eq!(author_of(name), None, "{name}");
        }
    }

    #[test]
    fn a_state_has_one_name_however_its_path_is_written() {
        let folder = tempfile::tempdir().expect("a folder");
        let link = folder.path().join("link");
        std::fs::create_dir(folder.path().join("state")).expect("a folder");
        std::os::unix::fs::symlink(folder.path().join("state"), &link).expect("a link");
        assert_eq!(state_name(&link), state_name(&folder.path().join("state")));
        assert_ne!(state_name(&link), state_name(folder.path()));
        assert_eq!(
            state_name(Path::new("/nowhere")),
            "ea2512283dfc3920",
            "it must not change with a release"
        );
    }
}
