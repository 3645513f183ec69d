//! Records, beside the loop that draws, how the containers on screen were made. In read-only mode nothing is recorded.

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::World;
use crate::recovery::Recorder;

pub(super) fn spawn(world: &World, tasks: &TaskTracker, stop: &CancellationToken) {
    if world.hands.is_none() {
        return;
    }
    let recorder = Recorder::new(world.state_folder.clone(), world.policy.clone());
    tasks.spawn(recorder.follow(world.watch.clone(), world.timeout, stop.clone()));
}
