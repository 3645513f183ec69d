//! A real host for the keeper: an engine, a home, a session database of the built-in contract, and what came of each
//! container.

use std::ffi::OsStr;
use std::fs;
use std::path::PathBuf;

use serde_json::Value;

use super::engine::{ContainerBuilder, RealEngine, Scene};
use super::program::{Finished, Home, Program};
use super::stores::NativeStore;

/// The config hash every container of [`KeptHost::current`] carries; others are outdated.
pub(crate) const CURRENT: &str = "c0ffee";

pub(crate) struct KeptHost<'engine> {
    pub(crate) scene: Scene<'engine>,
    pub(crate) home: Home,
    pub(crate) store: NativeStore,
    endpoint: String,
}

impl<'engine> KeptHost<'engine> {
    pub(crate) fn on(engine: &'engine RealEngine) -> Self {
        Self::through(engine, engine.endpoint())
    }

    /// The same, with sandkeeper going another way to the engine.
    pub(crate) fn through(engine: &'engine RealEngine, endpoint: &str) -> Self {
        let home = Home::new();
        let store = NativeStore::create(home.native_store());
        // A database without any session looks like the wrong one as soon as there are many containers.
        store.session("elsewhere", "elsewhere").ended_ago(5).insert();
        Self { scene: engine.scene(), home, store, endpoint: endpoint.to_owned() }
    }

    /// A container of the built-in contract, in a workspace of its own name, that no session claims yet.
    pub(crate) fn sandbox(&self, name: &str) -> ContainerBuilder<'_> {
        self.scene
            .container(self.scene.name(name))
            .label("sandkeeper.managed", "true")
            .label("sandkeeper.workspace", name)
    }

    /// One whose configuration is the current one.
    pub(crate) fn current(&self, name: &str) -> ContainerBuilder<'_> {
        self.sandbox(name).label("sandkeeper.config-hash", CURRENT)
    }

    /// One whose configuration is an old one.
    pub(crate) fn outdated(&self, name: &str) -> ContainerBuilder<'_> {
        self.sandbox(name).label("sandkeeper.config-hash", "0ld")
    }

    /// A folder of the host that containers can have mounted.
    pub(crate) fn shared_folder(&self, name: &str) -> PathBuf {
        let folder = self.home.path().join(name);
        fs::create_dir_all(&folder).unwrap();
        folder
    }

    /// `sandkeeper ARGUMENTS` on this host. No container is too new here.
    pub(crate) fn sandkeeper<A: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = A>) -> Program<'_> {
        self.home
            .sandkeeper(arguments)
            .env("DOCKER_HOST", &self.endpoint)
            .env("SANDKEEPER_MIN_AGE", "0s")
            .args(["--expect-hash", CURRENT])
    }

    /// `sandkeeper COMMAND --yes --json ARGUMENTS`, with a short grace.
    pub(crate) fn acting(&self, command: &str, arguments: &[&str]) -> Program<'_> {
        let graceful = !matches!(command, "drain" | "undrain") && !arguments.contains(&"--grace");
        let grace: &[&str] = if graceful { &["--grace", "2s"] } else { &[] };
        self.sandkeeper([&[command, "--yes", "--json"], grace, arguments].concat())
    }

    #[track_caller]
    pub(crate) fn reconcile(&self, arguments: &[&str]) -> Finished {
        self.acting("reconcile", arguments).run()
    }

    /// What a report says of the sandbox of this name.
    #[track_caller]
    pub(crate) fn outcome<'report>(&self, report: &'report Value, name: &str) -> &'report Value {
        let name = self.scene.name(name);
        let found = report["outcomes"].as_array().unwrap().iter().find(|each| each["name"] == name.as_str());
        found.unwrap_or_else(|| panic!("no outcome for {name} in {report:#}"))
    }

    /// The result word for the sandbox of this name.
    #[track_caller]
    pub(crate) fn result(&self, report: &Value, name: &str) -> String {
        self.outcome(report, name)["result"].as_str().unwrap().to_owned()
    }

    #[track_caller]
    pub(crate) fn expect_result(&self, finished: &Finished, name: &str, result: &str, reason: &str) {
        let report = finished.json();
        let outcome = self.outcome(&report, name);
        let said = outcome["reason"].as_str().unwrap();
        assert!(
            outcome["result"] == result && said.contains(reason),
            "{name} is not {result} because {reason:?}: {finished}"
        );
    }

    /// When a container was last started.
    pub(crate) fn started_at(&self, id: &str) -> String {
        self.scene.inspect(id)["State"]["StartedAt"].as_str().unwrap().to_owned()
    }

    pub(crate) fn exists(&self, id: &str) -> bool {
        self.scene.containers().iter().any(|each| each == id)
    }
}
