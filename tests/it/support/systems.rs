//! A real host on which other systems' containers are: what `status` says of each, and what `reconcile` makes of it.

use serde_json::Value;

use super::engine::{RealEngine, Scene};
use super::native::{container, reasons};
use super::program::{Finished, Home, Program};

pub(crate) struct SystemsHost<'engine> {
    pub(crate) scene: Scene<'engine>,
    pub(crate) home: Home,
    endpoint: String,
}

impl<'engine> SystemsHost<'engine> {
    pub(crate) fn on(engine: &'engine RealEngine) -> Self {
        Self::through(engine, engine.endpoint())
    }

    /// The same, with sandkeeper going another way to the engine.
    pub(crate) fn through(engine: &'engine RealEngine, endpoint: &str) -> Self {
        Self { scene: engine.scene(), home: Home::new(), endpoint: endpoint.to_owned() }
    }

    /// `sandkeeper ARGUMENTS` on this host. No container is too new here.
    pub(crate) fn sandkeeper(&self, arguments: &[&str]) -> Program<'_> {
        self.home.sandkeeper(arguments).args(["--host", &self.endpoint, "--min-age", "0s"])
    }

    /// What `status` says; all evidence must be good.
    #[track_caller]
    pub(crate) fn status(&self, arguments: &[&str]) -> Value {
        self.status_that_ends(0, arguments)
    }

    #[track_caller]
    pub(crate) fn status_that_ends(&self, exit: i32, arguments: &[&str]) -> Value {
        self.sandkeeper(&[&["status", "--json"], arguments].concat()).run().expect_exit(exit).json()
    }

    /// `reconcile --yes --json`; its report.
    #[track_caller]
    pub(crate) fn reconcile(&self, arguments: &[&str]) -> Finished {
        self.sandkeeper(&[&["reconcile", "--yes", "--json", "--grace", "1s"], arguments].concat()).run()
    }

    pub(crate) fn exists(&self, id: &str) -> bool {
        self.scene.find(id).is_some()
    }
}

/// The container has this status, and one of its reasons says so.
#[track_caller]
pub(crate) fn expect(report: &Value, name: &str, status: &str, reason: &str) {
    let found = container(report, name);
    assert_eq!(found["status"], status, "{found:#}");
    assert!(reasons(found).contains(reason), "{name} lacks the reason {reason:?}: {found:#}");
}

/// What a reconcile made of a container.
#[track_caller]
pub(crate) fn expect_result(finished: &Finished, name: &str, result: &str, reason: &str) {
    let report = finished.json();
    let outcome = report["outcomes"].as_array().unwrap().iter().find(|each| each["name"] == name);
    let outcome = outcome.unwrap_or_else(|| panic!("no outcome for {name} in {report:#}"));
    assert!(
        outcome["result"] == result && outcome["reason"].as_str().unwrap().contains(reason),
        "{name} is not {result} because {reason:?}: {report:#}"
    );
}
