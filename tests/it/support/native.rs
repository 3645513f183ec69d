//! A host as the built-in contract describes it, on a scripted engine, and what `status --json` says about it.

use std::ffi::OsStr;

use serde_json::Value;

use super::program::{Finished, Home, Program};
use super::rows::{Row, image_inspect, row};
use super::scripted::{Behaviour, ScriptedEngine};

/// A container of the built-in contract: running, a day old, in this workspace.
pub(crate) fn native_row(name: &str, workspace: &str) -> Row {
    row(name).label("sandkeeper.managed", "true").label("sandkeeper.workspace", workspace)
}

/// A home and an engine whose images carry no labels of their own.
pub(crate) struct Host {
    pub(crate) home: Home,
    pub(crate) engine: ScriptedEngine,
}

impl Host {
    pub(crate) fn with(rows: &[Row]) -> Self {
        let engine = ScriptedEngine::start();
        engine.containers(rows);
        engine.on("GET", "/images/*/json", Behaviour::json(&plain_image(&row("any"))));
        Self { home: Home::new(), engine }
    }

    /// `sandkeeper ARGUMENTS` on this host.
    pub(crate) fn sandkeeper<A: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = A>) -> Program<'_> {
        self.home.sandkeeper(arguments).env("DOCKER_HOST", self.engine.endpoint())
    }

    /// Runs `status --json` with further arguments.
    #[track_caller]
    pub(crate) fn status<A: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = A>) -> Finished {
        let mut program = self.sandkeeper(["status", "--json"]);
        for argument in arguments {
            program = program.arg(argument);
        }
        program.run()
    }

    /// Nothing but looking has reached the engine.
    #[track_caller]
    pub(crate) fn expect_only_looks(&self) {
        assert_eq!(self.engine.mutations(), [""; 0], "requests that could change something");
    }
}

/// The image a row was made from, without labels.
pub(crate) fn plain_image(row: &Row) -> Value {
    let listed = row.listed();
    image_inspect(listed["ImageID"].as_str().unwrap(), &[listed["Image"].as_str().unwrap()], &[])
}

/// The container of this name in a report.
#[track_caller]
pub(crate) fn container<'report>(report: &'report Value, name: &str) -> &'report Value {
    let found = report["containers"].as_array().unwrap().iter().find(|each| each["name"] == name);
    found.unwrap_or_else(|| panic!("no container {name} in {report:#}"))
}

/// `name: status` of every container in a report, in its order.
pub(crate) fn statuses(report: &Value) -> Vec<String> {
    let text = |value: &Value| value.as_str().unwrap_or("?").to_owned();
    let containers = report["containers"].as_array().unwrap().iter();
    containers.map(|each| format!("{}: {}", text(&each["name"]), text(&each["status"]))).collect()
}

/// All reasons of something in a report, in one text.
pub(crate) fn reasons(of: &Value) -> String {
    let reasons = of["reasons"].as_array().unwrap().iter();
    reasons.map(|reason| reason.as_str().unwrap()).collect::<Vec<_>>().join("\n")
}

/// What a report says about a source, `engine` or `sessions`.
#[track_caller]
pub(crate) fn evidence<'report>(report: &'report Value, source: &str) -> &'report Value {
    let found = report["evidence"].as_array().unwrap().iter().find(|each| each["source"] == source);
    found.unwrap_or_else(|| panic!("no evidence from {source} in {report:#}"))
}
