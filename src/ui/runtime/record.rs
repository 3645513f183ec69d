//! Records, beside the loop that draws, how the containers on screen were made. In read-only mode nothing is recorded.

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::World;
use crate::engine::EngineView;
use crate::recovery::Recorder;

pub(super) fn spawn(world: &World, tasks: &TaskTracker, stop: &CancellationToken) {
    if world.hands.is_none() {
        return;
    }
    let watch = world.watch.clone();
    let mut snapshots = watch.snapshots.clone();
    let mut recorder = Recorder::new(world.state_folder.clone(), world.policy.clone());
    let (timeout, stop) = (world.timeout, stop.clone());
    tasks.spawn(async move {
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                changed = snapshots.changed() => if changed.is_err() { return },
            }
            let snapshot = snapshots.borrow_and_update().clone();
            if let Some(endpoint) = watch.endpoint() {
                let engine = EngineView::new(endpoint, timeout);
                // What cannot be recorded now is with the next look.
                let _ = recorder.look(&engine, &snapshot).await;
            }
        }
    });
}
