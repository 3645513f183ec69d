//! What the operator has seen: recalled once, then written down by one task, in the order in which it was seen.

use std::path::Path;

use jiff::Timestamp;
use tokio::sync::mpsc;
use tokio_util::task::TaskTracker;

use super::World;
use crate::state::{Seen, State};
use crate::ui::message::{LastLook, Message, Remembered};

/// The way to that task.
pub(super) struct Memory(mpsc::UnboundedSender<Vec<Remembered>>);

impl Memory {
    /// Begins to remember. In read-only mode it only recalls.
    pub(super) fn begin(world: &World, tasks: &TaskTracker, messages: mpsc::Sender<Message>) -> Self {
        let (sender, mut inbox) = mpsc::unbounded_channel();
        let folder = world.state_folder.clone();
        let writes = world.hands.is_some();
        let mut snapshots = world.watch.snapshots.clone();
        tasks.spawn(async move {
            // Which host it is shows with the first answer of an engine.
            let known = snapshots.wait_for(|snapshot| snapshot.engine.at.is_some()).await;
            let Ok(host) = known.map(|snapshot| snapshot.host.identity.clone()) else { return };
            // The last look must be known before this one is written over it.
            let (asked, place) = (host.clone(), folder.clone());
            let recalled = tokio::task::spawn_blocking(move || recall(&place, &asked)).await;
            if let Ok(Some(look)) = recalled {
                let _ = messages.send(Message::LastLook(look)).await;
            }
            while let Some(changes) = inbox.recv().await {
                if writes {
                    let (folder, host) = (folder.clone(), host.clone());
                    let _ = tokio::task::spawn_blocking(move || write(&folder, &host, changes)).await;
                }
            }
        });
        Self(sender)
    }

    /// Writes down what changed, and that somebody looks now.
    pub(super) fn remember(&self, changes: Vec<Remembered>) {
        // The task only goes before us when no host was ever seen.
        let _ = self.0.send(changes);
    }
}

fn recall(folder: &Path, host: &str) -> Option<LastLook> {
    let state = State::open_to_read(folder).ok()??;
    let at = state.last_look(host).ok()?;
    let statuses = state.last_statuses(host).ok()?;
    Some(LastLook { at, statuses })
}

/// What cannot be written is missing from the history, and from nothing else.
fn write(folder: &Path, host: &str, changes: Vec<Remembered>) {
    let seen: Vec<Seen> = changes
        .into_iter()
        .map(|Remembered { id, name, status, reason }| Seen { id, name, status, reason })
        .collect();
    let now = Timestamp::now();
    if let Ok(mut state) = State::open(folder) {
        let _ = state.record_changes(host, now, &seen);
        let _ = state.set_last_look(host, now);
    }
}
