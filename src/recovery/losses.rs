//! What the removal of a container would lose, or leave behind unsaved, as far as it can be told in a moment.

use std::path::PathBuf;
use std::time::Duration;

use super::repositories::{self, Repository};
use super::spec::Remake;
use crate::domain::container::Container;
use crate::domain::evidence::plural;
use crate::engine::{Address, EngineView};

/// What would be lost.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Losses {
    /// How many paths it has changed inside itself; `None` when that cannot be told in time.
    pub changes: Option<usize>,
    /// How many bytes that is.
    pub bytes: Option<u64>,
    /// Memory-backed mounts.
    pub tmpfs: Vec<String>,
    /// Repositories in its folders with work that nobody else has.
    pub repositories: Vec<Repository>,
}

impl Losses {
    /// In sentences; none if nothing would be lost.
    pub fn sentences(&self) -> Vec<String> {
        let mut sentences = Vec::new();
        match (self.changes, self.bytes) {
            (Some(0), _) => {}
            (Some(count), bytes) => {
                let bytes = bytes.map(|bytes| format!(", {}", size(bytes))).unwrap_or_default();
                sentences.push(format!("{count} {} changed inside it{bytes}", plural(count, "path")));
            }
            (None, _) => {
                sentences.push("what it has changed inside itself cannot be told in time".to_owned());
            }
        }
        if !self.tmpfs.is_empty() {
            sentences.push(format!("memory-backed {}", self.tmpfs.join(", ")));
        }
        sentences.extend(self.repositories.iter().map(Repository::sentence));
        sentences
    }
}

/// What does not come back with a container that is made again, in sentences.
pub(crate) async fn lacks(engine: &EngineView, remake: &Remake) -> Vec<String> {
    let mut lacks = vec![
        "what was written inside the old one, outside of mounts, is lost".to_owned(),
        "what ran in it begins anew".to_owned(),
    ];
    let tmpfs = remake.tmpfs();
    if !tmpfs.is_empty() {
        lacks.push(format!("empty again: {}", tmpfs.join(", ")));
    }
    for (name, target) in remake.volumes() {
        let lack = match engine.has_volume(&name).await {
            Ok(true) => continue,
            Ok(false) => "is gone and comes back empty",
            Err(_) => "may be gone, which cannot be told",
        };
        lacks.push(format!("the volume at {target} {lack}: {name}"));
    }
    if !remake.other_networks.is_empty() {
        lacks.push(format!("not connected again to: {}", remake.other_networks.join(", ")));
    }
    lacks
}

fn size(bytes: u64) -> String {
    match bytes {
        0..1_000 => format!("{bytes} B"),
        1_000..1_000_000 => format!("{} kB", bytes / 1_000),
        1_000_000..1_000_000_000 => format!("{} MB", bytes / 1_000_000),
        _ => format!("{} GB", bytes / 1_000_000_000),
    }
}

/// Finds out what would be lost, within this time. Nothing is changed, and nothing of the container's is run.
pub async fn losses(engine: &EngineView, container: &Container, patience: Duration) -> Losses {
    let view = engine.within(patience);
    let local = matches!(engine.endpoint().address, Address::Unix(_));
    let binds = container.mounts.iter().filter(|mount| local && mount.kind == "bind");
    let folders: Vec<PathBuf> = binds.map(|mount| PathBuf::from(&mount.source)).collect();
    let unseen = folders.clone();
    let look = tokio::task::spawn_blocking(move || repositories::look_into(&folders, patience));
    let (weight, changes, repositories) =
        tokio::join!(view.weight(&container.id), view.changes(&container.id), async {
            // A dead disk must not hold up the question.
            let looked = tokio::time::timeout(patience * 2, look).await.ok().and_then(Result::ok);
            looked.unwrap_or_else(|| repositories::cannot_be_told(unseen).collect())
        });
    // An engine that has to look at every file may not be in time with it; what is gone has nothing to lose.
    let is_another = matches!(&weight, Err(fault) if fault.is_not_found());
    let (bytes, tmpfs) = weight.unwrap_or_default();
    let of_list = container.inspection().map(|inspection| inspection.tmpfs.clone()).unwrap_or_default();
    Losses {
        changes: changes.ok().filter(|_| !is_another).map(|changes| changes.len()),
        bytes: bytes.filter(|bytes| *bytes > 0),
        tmpfs: if tmpfs.is_empty() { of_list } else { tmpfs },
        repositories,
    }
}
