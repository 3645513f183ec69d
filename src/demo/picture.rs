//! A picture of a scene: what the program sees of it, with nothing in it that differs from one run to the next.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use super::{DemoFault, Scene};
use crate::config::{Flags, Settings};
use crate::domain::{Policy, Snapshot};
use crate::profiles::Library;
use crate::sessions::{Limits, StoreSet};
use crate::watch::{Observer, WatchedSystem};

/// What stands in a picture in place of the temporary folder.
const FOLDER: &str = "/demo";
/// A picture shows all of the scene, however busy the machine is.
const PATIENCE: Duration = Duration::from_mins(2);

impl Scene {
    /// The rules that hold there.
    pub fn policy(&self) -> Result<Policy, DemoFault> {
        let settings = Settings::load(Flags::default(), &self.environment());
        settings.map(|settings| settings.policy).map_err(|error| DemoFault::Script(error.to_string()))
    }

    /// Looks at the scene as the program does. Of a [still](Scene::still) scene that was set at the same time, two
    /// pictures are alike: every look was taken at `now`, and the folder has a name of its own.
    pub async fn snapshot(&self, now: Timestamp) -> Result<Snapshot, DemoFault> {
        let environment = self.environment();
        let settings = Settings::load(Flags::default(), &environment);
        let settings = settings.map_err(|error| DemoFault::Script(error.to_string()))?;
        let library = Library::load(Some(&settings.profile_folder));
        let limits = Limits { time: PATIENCE, ..Limits::default() };
        let systems = library.entries.iter().map(|entry| WatchedSystem {
            entry: entry.clone(),
            stores: StoreSet::new(&entry.profile, Vec::new(), None, &environment, limits),
            asked_for: false,
        });
        let systems = systems.collect();
        let mut observer =
            Observer::new(vec![self.endpoint()], systems, PATIENCE, settings.state_folder, settings.policy);
        let mut snapshot = observer.observe().await;
        let folder = self.folder().display().to_string();
        let renamed = |text: &mut String| *text = text.replace(&folder, FOLDER);
        renamed(&mut snapshot.host.endpoint);
        renamed(&mut snapshot.host.identity);
        snapshot.engine.at = snapshot.engine.at.map(|_| now);
        for store in snapshot.systems.iter_mut().flat_map(|system| &mut system.stores) {
            renamed(&mut store.path);
            store.captures.values_mut().for_each(renamed);
            store.sessions.at = store.sessions.at.map(|_| now);
            store.file = None;
        }
        let rows = Arc::make_mut(&mut snapshot.engine.value);
        for row in rows {
            if let crate::domain::container::Row::Container(container) = row {
                for mount in Arc::make_mut(&mut Arc::make_mut(container).mounts) {
                    renamed(&mut mount.source);
                }
            }
        }
        Ok(snapshot)
    }
}
