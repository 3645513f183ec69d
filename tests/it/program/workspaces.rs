//! A workspace belongs to its system: two systems may use the same name, and whoever names one gets that one.

use serde_json::json;

use crate::support::simulated::SimHost;
use crate::support::stores::NativeStore;

/// A host on which two systems have a workspace `default`.
fn host() -> (SimHost, NativeStore) {
    let host = SimHost::new();
    let native = include_str!("../../../assets/profiles/native.toml");
    let twin = native
        .replace("name = \"native\"", "name = \"twin\"")
        .replace("sandkeeper.managed", "twin.managed")
        .replace("$XDG_DATA_HOME/sandkeeper/", "$XDG_DATA_HOME/twin/");
    host.home.write(".config/sandkeeper/profiles/twin.toml", twin);
    let store = NativeStore::create(host.home.data().join("twin/sessions.db"));
    store.session("elsewhere", "elsewhere").ended_ago(5).insert();
    host.orphan("native-1", "default");
    host.place("twin-1", &[("twin.managed", "true"), ("sandkeeper.workspace", "default")], "exited", 1440);
    host.orphan("alone-1", "alone");
    (host, store)
}

#[test]
fn a_name_that_two_systems_use_is_refused_with_the_candidates() {
    let (host, _store) = host();
    for command in [
        &["drain", "--yes", "default"][..],
        &["rm", "--yes", "default"],
        &["undrain", "default"],
        &["recreate", "--yes", "default"],
        &["reconcile", "--yes", "--workspace", "default"],
    ] {
        host.sandkeeper(command).run().expect_exit(2).expect_stderr("native/default, twin/default");
    }
    assert_eq!(host.names(), ["alone-1", "native-1", "twin-1"]);
    host.sandkeeper(&["rm", "--yes", "alone"]).run().expect_exit(0);
    host.sandkeeper(&["reconcile", "--yes", "--workspace", "native/default"]).run().expect_exit(0);
    assert_eq!(host.names(), ["twin-1"]);
    host.sandkeeper(&["rm", "--yes", "twin/default"]).run().expect_exit(0);
    assert_eq!(host.names(), [""; 0]);
}

#[test]
fn a_session_is_kept_out_of_the_system_that_drains_and_of_no_other() {
    let (host, _store) = host();
    host.sandkeeper(&["drain", "--yes", "twin/default"]).run().expect_exit(0);
    host.sandkeeper(&["may-start", "twin/default"]).run().expect_exit(5);
    host.sandkeeper(&["may-start", "native/default"]).run().expect_exit(0);
    // Without its system, it may be the one that drains.
    host.sandkeeper(&["may-start", "default"]).run().expect_exit(5).expect_stdout("in twin/default: twin-1");
    let answer = host.sandkeeper(&["may-start", "twin/default", "--json"]).run().expect_exit(5).json();
    assert_eq!((&answer["system"], &answer["workspace"]), (&json!("twin"), &json!("default")), "{answer:#}");
}

#[test]
fn two_systems_workspaces_of_one_name_stand_apart() {
    let (host, _store) = host();
    let table = host.sandkeeper(&["status"]).run().expect_exit(0);
    for group in ["default · native", "default · twin", "\nalone\n"] {
        assert!(table.stdout.contains(group), "{group}: {table}");
    }
}
