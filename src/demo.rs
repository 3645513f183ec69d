//! The demo host: a made-up machine with four agent systems, on which the whole program runs as on a real one.
//!
//! The engine is [simulated](crate::engine::sim), the session databases are real SQLite files, and everything, our own
//! state included, lies in one temporary folder that goes when the scene does. What is on the stage and what happens in
//! the first minute stands in `assets/demo/scene.toml`.

mod apart;
mod crowd;
mod life;
mod picture;
mod script;
mod stage;
mod stores;
mod tour;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;

use jiff::Timestamp;
use tempfile::TempDir;
use thiserror::Error;

use crate::engine::sim::SimClock;
use crate::engine::{Address, Endpoint};
use crate::environment::Environment;
use crate::state::StateFault;
use apart::Apart;
pub use apart::{BACKSTAGE, play_apart};
use stage::Stage;
pub use tour::tour;

/// How the name of a demo's folder begins.
const PREFIX: &str = "sandkeeper-demo-";
/// A socket's path may not be longer than about a hundred bytes.
const LONGEST_FOLDER: usize = 60;

/// How the demo is to be.
#[derive(Clone, Debug)]
pub struct DemoOptions {
    /// Decides about everything that chance decides about.
    pub seed: u64,
    /// How fast things happen, more than zero; 1 is as in life.
    pub speed: f64,
    /// How many containers there are; about thirty when nobody says.
    pub scale: Option<usize>,
    /// The program that plays the stage in a process of its own, if it shall.
    pub apart: Option<PathBuf>,
}

impl Default for DemoOptions {
    fn default() -> Self {
        Self { seed: 7, speed: 1.0, scale: None, apart: None }
    }
}

/// Why there is no demo.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum DemoFault {
    /// The folder cannot be made.
    #[error(
        "the demo's folder {folder} cannot be made: {why}; set TMPDIR to a folder that this user may write in"
    )]
    Folder {
        /// Which.
        folder: String,
        /// Why.
        why: String,
    },
    /// A session database cannot be written.
    #[error(
        "the demo's session database {path} cannot be written: {why}; free some space in its file system"
    )]
    Store {
        /// Which.
        path: String,
        /// Why.
        why: String,
    },
    /// The simulated engine does not start.
    #[error("the demo's engine does not start: {0}; try again with another TMPDIR")]
    Engine(String),
    /// The scene is wrong, which is our mistake.
    #[error("the demo's scene cannot be read: {0}; please report this")]
    Script(String),
    /// Our own state cannot be written.
    #[error(transparent)]
    State(#[from] StateFault),
}

impl DemoFault {
    fn folder(folder: &Path, error: &std::io::Error) -> Self {
        Self::Folder { folder: folder.display().to_string(), why: error.to_string() }
    }

    fn store(path: &Path, error: &rusqlite::Error) -> Self {
        Self::Store { path: path.display().to_string(), why: error.to_string() }
    }
}

/// Where everything of a scene lies; nothing of it lies anywhere else.
#[derive(Clone, Debug)]
pub(crate) struct Places {
    home: PathBuf,
    state: PathBuf,
    socket: PathBuf,
}

impl Places {
    /// Makes them below a folder.
    fn make(folder: &Path) -> Result<Self, DemoFault> {
        let home = stage::folder(folder, "home")?;
        for below in [".config", ".local/share", ".local/state", "run"] {
            stage::folder(&home, below)?;
        }
        Ok(Self::below(folder))
    }

    fn below(folder: &Path) -> Self {
        let home = folder.join("home");
        Self { state: home.join(".local/state/sandkeeper"), socket: folder.join("engine.sock"), home }
    }

    /// The surroundings in which the program finds the scene and nothing else.
    fn environment(&self) -> Environment {
        let below = |path: &str| self.home.join(path).display().to_string();
        let mut variables: HashMap<String, String> = HashMap::from([
            ("HOME".to_owned(), self.home.display().to_string()),
            ("XDG_CONFIG_HOME".to_owned(), below(".config")),
            ("XDG_DATA_HOME".to_owned(), below(".local/share")),
            ("XDG_STATE_HOME".to_owned(), below(".local/state")),
            ("XDG_RUNTIME_DIR".to_owned(), below("run")),
            ("DOCKER_HOST".to_owned(), format!("unix://{}", self.socket.display())),
            // Its past is older than this machine is up, and older than our own state there.
            ("SANDKEEPER_COUNT_DOWNTIME".to_owned(), "1".to_owned()),
            ("SANDKEEPER_NEW_STORE_WAIT".to_owned(), "0s".to_owned()),
        ]);
        // Who sits there, in front of what, and how long he is willing to wait, is real.
        let real = [
            "USER",
            "LOGNAME",
            "TERM",
            "COLORTERM",
            "NO_COLOR",
            "LANG",
            "LC_ALL",
            "LC_CTYPE",
            "COLORFGBG",
            "SANDKEEPER_TIMEOUT",
        ];
        for name in real {
            variables.extend(std::env::var(name).ok().map(|value| (name.to_owned(), value)));
        }
        Environment { home: self.home.clone(), variables }
    }
}

/// Who plays the scene.
enum Backstage {
    /// A thread here.
    Here { stop: Option<Sender<()>>, thread: Option<JoinHandle<()>> },
    /// Another process.
    Apart { _process: Apart },
    /// Nobody: nothing happens by itself.
    Still(Box<Stage>),
}

impl Backstage {
    fn here(places: Places, options: &DemoOptions) -> Result<Self, DemoFault> {
        let stage = Stage::set(places, SimClock::wall(), options)?;
        let (stop, stopped) = channel();
        let thread =
            std::thread::Builder::new().name("demo".to_owned()).spawn(move || life::play(stage, &stopped));
        let thread = thread.map_err(|error| DemoFault::Engine(error.to_string()))?;
        Ok(Self::Here { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for Backstage {
    fn drop(&mut self) {
        if let Self::Here { stop, thread } = self {
            drop(stop.take());
            if let Some(thread) = thread.take() {
                let _ = thread.join();
            }
        }
    }
}

/// A demo host, for as long as it is held.
pub struct Scene {
    // First the players go, then the folder.
    backstage: Option<Backstage>,
    places: Places,
    folder: Option<TempDir>,
}

impl std::fmt::Debug for Scene {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Scene").field("folder", &self.folder).finish_non_exhaustive()
    }
}

impl Scene {
    /// Sets the scene and plays it until dropped.
    pub fn start(options: &DemoOptions) -> Result<Self, DemoFault> {
        let folder = temporary_folder()?;
        let backstage = match &options.apart {
            Some(program) => Backstage::Apart { _process: Apart::start(program, folder.path(), options)? },
            None => Backstage::here(Places::make(folder.path())?, options)?,
        };
        Ok(Self { backstage: Some(backstage), places: Places::below(folder.path()), folder: Some(folder) })
    }

    /// A scene in which nothing happens by itself, as it is at `now`: for pictures and tests. Actions work.
    pub fn still(seed: u64, now: Timestamp) -> Result<Self, DemoFault> {
        let folder = temporary_folder()?;
        let places = Places::make(folder.path())?;
        let stage = Stage::set(
            places.clone(),
            SimClock::manual(now),
            &DemoOptions { seed, ..DemoOptions::default() },
        )?;
        Ok(Self { backstage: Some(Backstage::Still(Box::new(stage))), places, folder: Some(folder) })
    }

    /// The folder in which everything lies.
    pub fn folder(&self) -> &Path {
        self.folder.as_ref().map_or(Path::new(""), TempDir::path)
    }

    /// Where the engine is.
    pub fn endpoint(&self) -> Endpoint {
        Endpoint { address: Address::Unix(self.places.socket.clone()), origin: "demo".to_owned() }
    }

    /// The surroundings to run the rest of the program in: it finds the scene there, as it finds a real host.
    pub fn environment(&self) -> Environment {
        self.places.environment()
    }

    /// The session databases of a scene that is played by nobody else.
    pub fn stores(&self) -> Vec<PathBuf> {
        match &self.backstage {
            Some(Backstage::Still(stage)) => stage.store_paths(),
            _ => Vec::new(),
        }
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        self.backstage = None;
        if let Some(folder) = self.folder.take() {
            // What cannot be removed cannot be helped at this point.
            let _ = folder.close();
        }
    }
}

fn temporary_folder() -> Result<TempDir, DemoFault> {
    let usual = std::env::temp_dir();
    let place = if usual.as_os_str().len() > LONGEST_FOLDER { PathBuf::from("/tmp") } else { usual };
    let made = tempfile::Builder::new().prefix(PREFIX).tempdir_in(&place);
    made.map_err(|error| DemoFault::folder(&place, &error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{Policy, Status, classify};

    #[test]
    fn while_a_table_is_missing_nobody_can_tell() {
        let now = "2026-02-22T12:00:00Z".parse().unwrap();
        let scene = Scene::still(7, now).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let status = || {
            let snapshot = runtime.block_on(scene.snapshot(now)).unwrap();
            let verdicts = classify(&snapshot, &Policy::default(), now);
            let named =
                |name: &str| verdicts.containers.iter().find(|verdict| verdict.subject.name() == name);
            ["hermes-4be19c07", "hermes-d90e6612"].map(|name| named(name).map(|verdict| verdict.status))
        };
        let Some(Backstage::Still(stage)) = &scene.backstage else { panic!("a still scene has a stage") };
        let store = stage.store("hermes", "default").unwrap();
        assert_eq!(status(), [Some(Status::Active), Some(Status::Stale)]);
        store.hide().unwrap();
        assert_eq!(status(), [Some(Status::Unknown), Some(Status::Unknown)]);
        store.show().unwrap();
        assert_eq!(status(), [Some(Status::Active), Some(Status::Stale)]);
    }
}
