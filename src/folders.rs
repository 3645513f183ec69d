//! Folders that sandboxes leave behind: below the root that a profile declares, mounted by no container, needed by no session.
//! Finding them changes nothing; moving them away is the keeper's work.

mod ground;
mod users;

use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use jiff::Timestamp;
use serde::Serialize;
use thiserror::Error;

use crate::domain::profile::fill_from_store;
use crate::domain::session::{Liveness, Moment};
use crate::domain::snapshot::{StoreFacts, SystemFacts};
use crate::domain::span::{Precise, elapsed};
use crate::domain::{Clock, Policy, Snapshot, SystemName};
pub(crate) use ground::{mounted_below, open_below};
pub(crate) use users::Users;

/// Where folders go before they are deleted: beside the others, so that nothing is copied.
pub const TRASH: &str = ".sandkeeper-trash";

/// Where one system keeps folders for its sandboxes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Root {
    /// Whose.
    pub system: SystemName,
    /// Where.
    pub path: PathBuf,
    /// The folder of the store that it is below. On the way from there no link is followed.
    pub base: PathBuf,
    /// Why nothing in it may go, if nothing may.
    pub doubt: Option<String>,
    /// Why only what is named may go, if so.
    pub claimed: Option<String>,
}

/// A folder without a container.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Leftover {
    /// Whose.
    pub system: SystemName,
    /// The root it is directly below.
    pub root: PathBuf,
    /// Where it is.
    pub path: PathBuf,
    /// How many bytes its files have, as far as they were counted.
    pub bytes: u64,
    /// Whether all of them were counted.
    pub measured: bool,
    /// When something in it last changed.
    pub changed_at: Option<Timestamp>,
    /// Why it must stay, if it must.
    pub kept: Option<String>,
    /// Why it stays unless it is named, if so.
    pub claimed: Option<String>,
    /// The folder of the store that the root is below.
    #[serde(skip)]
    pub base: PathBuf,
    /// Which folder it is, whatever the path leads to later.
    #[serde(skip)]
    pub identity: (u64, u64),
}

/// Why folders cannot be told from one another.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum FolderFault {
    /// A root that is a link, or leads through one that it should not.
    #[error(
        "{0} is not a folder of its own (a link?), so nothing below it is touched; name the folder itself in the profile"
    )]
    NotAFolder(String),
    /// The disk does not answer.
    #[error("{path} cannot be read: {why}; give this user access to it")]
    Unreadable {
        /// Which folder.
        path: String,
        /// Why.
        why: String,
    },
    /// A folder that was named is not one of them.
    #[error("{0} is not one of the folders that sandboxes left behind; `sandkeeper dirs` lists them")]
    NotOneOfThem(String),
}

/// The roots that the profiles in use declare.
pub fn roots(snapshot: &Snapshot, policy: &Policy, now: Timestamp) -> Vec<Root> {
    let clock = snapshot.clock(policy, now);
    let mut roots: Vec<Root> = Vec::new();
    for system in &snapshot.systems {
        let Some(template) = &system.profile.folders else { continue };
        for store in &system.stores {
            let Some(path) = fill_from_store(template, &store.captures) else { continue };
            let Some(base) = store.captures.get("folder").map(PathBuf::from) else { continue };
            let (path, doubt) = (PathBuf::from(path.as_ref()), doubt_of(system, store, policy, clock));
            let open = store.sessions.value.iter().find(|session| session.ended_at == Moment::Absent);
            let claimed = open.map(|session| format!("session {} has not ended", session.id));
            match roots.iter_mut().find(|known| known.path == path) {
                Some(known) => {
                    known.doubt = known.doubt.take().or(doubt);
                    known.claimed = known.claimed.take().or(claimed);
                }
                None => roots.push(Root { system: system.profile.name.clone(), path, base, doubt, claimed }),
            }
        }
    }
    roots
}

/// A session that may be live may want its folder at any moment.
fn doubt_of(system: &SystemFacts, store: &StoreFacts, policy: &Policy, clock: Clock<'_>) -> Option<String> {
    if let Some(broken) = &system.broken {
        return Some(broken.clone());
    }
    if let Some(why) = store.sessions.unusable(clock.now, policy.max_evidence_age) {
        return Some(format!("the sessions in {} could not be read: {why}", store.path));
    }
    let rule = system.profile.live_rule(store.lifetime, policy.default_lifetime);
    store.sessions.value.iter().find_map(|session| match session.liveness(rule, clock) {
        Liveness::Live { .. } => Some(format!("session {} is live and may need it", session.id)),
        Liveness::Unclear(why) => Some(format!("session {} may be live: {why}", session.id)),
        Liveness::Ended | Liveness::Quiet => None,
    })
}

/// Whether one of these sources of binds is a folder, is in it, or contains it.
pub fn is_used(folder: &Path, mounted: &BTreeSet<PathBuf>) -> bool {
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let real_folder = real(folder);
    let touches = |source: &Path, folder: &Path| source.starts_with(folder) || folder.starts_with(source);
    mounted.iter().any(|source| touches(source, folder) || touches(&real(source), &real_folder))
}

/// The folders directly below a root that no container has mounted. `mounted` holds the sources of all binds of all
/// containers of the engine. Links are neither followed nor listed. Looking through one folder takes at most `patience`.
pub fn leftovers(
    root: &Root,
    mounted: &BTreeSet<PathBuf>,
    policy: &Policy,
    patience: Duration,
    now: Timestamp,
) -> Result<Vec<Leftover>, FolderFault> {
    let Some(listing) = list(root, Path::new(""))? else { return Ok(Vec::new()) };
    let mut found = Vec::new();
    let users = Users::look();
    let in_use = |path: &Path| match &users {
        Ok(users) => users.have_left(path).err(),
        Err(why) => Some(why.clone()),
    };
    for path in listing {
        let Ok(metadata) = path.symlink_metadata() else { continue };
        if !metadata.is_dir() || is_used(&path, mounted) || path.ends_with(TRASH) {
            continue;
        }
        let measure = Measure::of(&path, metadata.dev(), patience);
        let age = measure.changed_at.and_then(|at| elapsed(at, now));
        let too_new = match age {
            Some(age) if age >= policy.min_age => None,
            Some(age) => Some(format!(
                "it changed {} ago, within the grace of {}",
                Precise(age),
                Precise(policy.min_age)
            )),
            None => Some("when it last changed cannot be told".to_owned()),
        };
        // What was not seen may have changed a moment ago.
        let unseen = (!measure.complete).then(|| "not all of it could be read, or not in time".to_owned());
        found.push(Leftover {
            system: root.system.clone(),
            root: root.path.clone(),
            bytes: measure.bytes,
            measured: measure.complete,
            changed_at: measure.changed_at,
            kept: root
                .doubt
                .clone()
                .or_else(|| mounted_below(&path).err())
                .or_else(|| in_use(&path))
                .or(unseen)
                .or(too_new),
            claimed: root.claimed.clone(),
            base: root.base.clone(),
            identity: (metadata.dev(), metadata.ino()),
            path,
        });
    }
    found.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(found)
}

/// What is in the trash of a root.
pub fn trashed(root: &Root) -> Result<Vec<PathBuf>, FolderFault> {
    let mut listing = match list(root, Path::new(""))? {
        Some(_) => list(root, Path::new(TRASH))?.unwrap_or_default(),
        None => Vec::new(),
    };
    listing.sort();
    Ok(listing)
}

/// What is directly in the root, or in a folder of it; `None` when there is no such folder.
fn list(root: &Root, below: &Path) -> Result<Option<Vec<PathBuf>>, FolderFault> {
    let folder = if below.as_os_str().is_empty() { root.path.clone() } else { root.path.join(below) };
    let unreadable = |error: std::io::Error| FolderFault::Unreadable {
        path: folder.display().to_string(),
        why: error.to_string(),
    };
    match open_below(&root.base, &folder) {
        Ok(_) => {}
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) if ground::is_no_folder(&error) => {
            return Err(FolderFault::NotAFolder(folder.display().to_string()));
        }
        Err(error) => return Err(unreadable(error)),
    }
    let entries = folder.read_dir().map_err(unreadable)?;
    entries
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<_, _>>()
        .map(Some)
        .map_err(unreadable)
}

/// How large a folder is, and when something in it last changed.
struct Measure {
    bytes: u64,
    complete: bool,
    changed_at: Option<Timestamp>,
}

impl Measure {
    /// Goes through everything on the same disk, and through no link.
    fn of(folder: &Path, device: u64, patience: Duration) -> Self {
        let until = Instant::now() + patience;
        let mut measure = Self { bytes: 0, complete: true, changed_at: None };
        let mut left = vec![folder.to_owned()];
        while let Some(path) = left.pop() {
            let metadata = path.symlink_metadata();
            let (Ok(metadata), true) = (metadata, Instant::now() < until) else {
                measure.complete = false;
                break;
            };
            let changed = metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH);
            measure.changed_at = measure.changed_at.max(Timestamp::try_from(changed).ok());
            measure.bytes += if metadata.is_file() { metadata.len() } else { 0 };
            if metadata.is_dir() && metadata.dev() == device {
                let entries = path.read_dir().and_then(Iterator::collect::<Result<Vec<_>, _>>);
                match entries {
                    Ok(entries) => left.extend(entries.into_iter().map(|entry| entry.path())),
                    Err(_) => measure.complete = false,
                }
            }
        }
        measure
    }
}
