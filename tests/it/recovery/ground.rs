//! What the tests of recovery have in common: a lasting container, a look, a loss, and what came of it.

use std::path::PathBuf;

use rusqlite::Connection;
use sandkeeper::domain::ContainerId;
use serde_json::{Value, json};

use crate::support::program::Finished;
use crate::support::simulated::SimHost;
use crate::support::terminal::Terminal;
use crate::support::wait_until;

/// A value that nobody may ever be shown.
pub(crate) const CANARY: &str = "canary-5up3r-53cr3t";

/// A folder of the host, mounted at `/work`.
pub(crate) fn bind(host: &SimHost) -> String {
    let folder = shared(host);
    std::fs::create_dir_all(&folder).unwrap();
    format!("{}:/work", folder.display())
}

/// Where that folder is.
pub(crate) fn shared(host: &SimHost) -> PathBuf {
    host.home.path().join("srv/atlas")
}

/// A lasting container with a live session that does not name it, and with every kind of option.
pub(crate) fn lasting(host: &SimHost, name: &str) -> ContainerId {
    host.store.session(&format!("{name}-session"), name).status("active").insert();
    host.sandbox(name, name)
        .sleeping()
        .with(false, "Env", json!(["PATH=/bin", format!("API_TOKEN={CANARY}")]))
        .with(false, "User", json!("1000:1000"))
        .with(true, "Memory", json!(268_435_456))
        .with(true, "CapAdd", json!(["NET_ADMIN"]))
        .with(true, "Binds", json!([bind(host)]))
        .with(true, "Tmpfs", json!({ "/scratch": "" }))
        .placed()
}

/// A dashboard that has recorded the lasting container `atlas`, and then sees it lost.
pub(crate) fn dashboard_with_a_loss(host: &SimHost) -> Terminal {
    let id = lasting(host, "atlas");
    let terminal = host.dashboard(&[]);
    terminal.wait_for("1 active");
    wait_until("it is recorded", || recorded(host) == 1);
    remove_behind_our_back(host, &id);
    terminal.wait_for("1 lost");
    terminal
}

/// Lets sandkeeper see the host once, as every acting command does.
pub(crate) fn see(host: &SimHost) {
    host.sandkeeper(&["reconcile", "--yes", "--json"]).run().expect_exit(0);
}

pub(crate) fn remove_behind_our_back(host: &SimHost, id: &ContainerId) {
    host.engine.act(|world, now| world.remove(now, id.as_str(), true)).unwrap();
}

pub(crate) fn status(host: &SimHost) -> Value {
    host.sandkeeper(&["status", "--json"]).run().json()
}

pub(crate) fn recreate(host: &SimHost, target: &str) -> Finished {
    host.sandkeeper(&["recreate", "--yes", "--json", target]).run()
}

pub(crate) fn result(report: &Value) -> (String, String) {
    let outcome = &report["outcomes"][0];
    (outcome["result"].as_str().unwrap().to_owned(), outcome["reason"].as_str().unwrap().to_owned())
}

pub(crate) fn log(host: &SimHost) -> Vec<Value> {
    host.sandkeeper(&["log", "--json"]).run().expect_exit(0).json().as_array().unwrap().clone()
}

/// How many specs there are.
pub(crate) fn recorded(host: &SimHost) -> i64 {
    let path = host.state_folder().join("state.db");
    if !path.exists() {
        return 0;
    }
    let state = Connection::open(path).unwrap();
    state.query_row("SELECT count(*) FROM specs WHERE spec IS NOT NULL", [], |row| row.get(0)).unwrap_or(0)
}

pub(crate) fn in_state(host: &SimHost, sql: &str) {
    let state = Connection::open(host.state_folder().join("state.db")).unwrap();
    state.execute_batch(sql).unwrap();
}
