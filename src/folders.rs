//! Folders that sandboxes leave behind: below the root that a profile declares, mounted by no container, needed by no session.
//! Finding them changes nothing; moving them away is the keeper's work.

use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use jiff::Timestamp;
use serde::Serialize;
use thiserror::Error;

use crate::domain::profile::fill_from_store;
use crate::domain::session::Liveness;
use crate::domain::snapshot::{StoreFacts, SystemFacts};
use crate::domain::span::{Precise, elapsed};
use crate::domain::{Policy, Snapshot, SystemName};

/// Where folders go before they are deleted: beside the others, so that nothing is copied.
pub const TRASH: &str = ".sandkeeper-trash";

/// Measuring a folder ends after this long; it is then at least so large.
const MEASURING: Duration = Duration::from_secs(5);

/// Where one system keeps folders for its sandboxes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Root {
    /// Whose.
    pub system: SystemName,
    /// Where.
    pub path: PathBuf,
    /// Why nothing in it may go, if nothing may.
    pub doubt: Option<String>,
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
    let mut roots: Vec<Root> = Vec::new();
    for system in &snapshot.systems {
        let Some(template) = &system.profile.folders else { continue };
        for store in &system.stores {
            let Some(path) = fill_from_store(template, &store.captures) else { continue };
            let (path, doubt) = (PathBuf::from(path.as_ref()), doubt_of(system, store, policy, now));
            match roots.iter_mut().find(|known| known.path == path) {
                Some(known) => known.doubt = known.doubt.take().or(doubt),
                None => roots.push(Root { system: system.profile.name.clone(), path, doubt }),
            }
        }
    }
    roots
}

/// A session that may be live may want its folder at any moment.
fn doubt_of(system: &SystemFacts, store: &StoreFacts, policy: &Policy, now: Timestamp) -> Option<String> {
    if let Some(broken) = &system.broken {
        return Some(broken.clone());
    }
    if let Some(why) = store.sessions.unusable(now, policy.max_evidence_age) {
        return Some(format!("the sessions in {} could not be read: {why}", store.path));
    }
    let rule = system.profile.live_rule(store.lifetime, policy.default_lifetime);
    store.sessions.value.iter().find_map(|session| match session.liveness(rule, now) {
        Liveness::Live { .. } => Some(format!("session {} is live and may need it", session.id)),
        Liveness::Unclear(why) => Some(format!("session {} may be live: {why}", session.id)),
        Liveness::Ended | Liveness::Quiet => None,
    })
}

/// The folders directly below a root that no container has mounted. `mounted` holds the sources of all binds of all
/// containers of the engine. Links are neither followed nor listed.
pub fn leftovers(
    root: &Root,
    mounted: &BTreeSet<PathBuf>,
    policy: &Policy,
    now: Timestamp,
) -> Result<Vec<Leftover>, FolderFault> {
    let Some(listing) = list(&root.path)? else { return Ok(Vec::new()) };
    let mut found = Vec::new();
    for path in listing {
        let Ok(metadata) = path.symlink_metadata() else { continue };
        let real = path.canonicalize().unwrap_or_else(|_| path.clone());
        let is_used = mounted.iter().any(|source| {
            [&path, &real].iter().any(|folder| source.starts_with(folder) || folder.starts_with(source))
        });
        if !metadata.is_dir() || is_used || path.ends_with(TRASH) {
            continue;
        }
        let measure = Measure::of(&path, metadata.dev());
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
        found.push(Leftover {
            system: root.system.clone(),
            root: root.path.clone(),
            bytes: measure.bytes,
            measured: measure.complete,
            changed_at: measure.changed_at,
            kept: root.doubt.clone().or(too_new),
            identity: (metadata.dev(), metadata.ino()),
            path,
        });
    }
    found.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(found)
}

/// What is in the trash of a root.
pub fn trashed(root: &Root) -> Result<Vec<PathBuf>, FolderFault> {
    let mut listing = match list(&root.path)? {
        Some(_) => list(&root.path.join(TRASH))?.unwrap_or_default(),
        None => Vec::new(),
    };
    listing.sort();
    Ok(listing)
}

/// What is directly in a folder that is no link; `None` when there is no such folder.
fn list(folder: &Path) -> Result<Option<Vec<PathBuf>>, FolderFault> {
    let unreadable = |error: std::io::Error| FolderFault::Unreadable {
        path: folder.display().to_string(),
        why: error.to_string(),
    };
    match folder.symlink_metadata() {
        Ok(metadata) if metadata.is_dir() && is_plain(folder) => {}
        Ok(_) => return Err(FolderFault::NotAFolder(folder.display().to_string())),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(unreadable(error)),
    }
    let entries = folder.read_dir().map_err(unreadable)?;
    entries
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<_, _>>()
        .map(Some)
        .map_err(unreadable)
}

/// An absolute path without steps back.
pub(crate) fn is_plain(path: &Path) -> bool {
    path.is_absolute()
        && path.components().all(|part| matches!(part, Component::RootDir | Component::Normal(_)))
}

/// How large a folder is, and when something in it last changed.
struct Measure {
    bytes: u64,
    complete: bool,
    changed_at: Option<Timestamp>,
}

impl Measure {
    /// Goes through everything on the same disk, and through no link.
    fn of(folder: &Path, device: u64) -> Self {
        let until = Instant::now() + MEASURING;
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
                match path.read_dir() {
                    Ok(entries) => left.extend(entries.filter_map(Result::ok).map(|entry| entry.path())),
                    Err(_) => measure.complete = false,
                }
            }
        }
        measure
    }
}
