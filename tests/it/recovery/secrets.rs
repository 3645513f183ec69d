//! What is recorded, for how long, and that no secret is told on the way.

use std::os::unix::fs::PermissionsExt;

use rusqlite::Connection;
use sandkeeper::engine::sim::{Fault, FaultRule};
use serde_json::json;

use super::ground::{
    CANARY, dashboard_with_a_loss, lasting, recorded, recreate, remove_behind_our_back, result, see,
};
use crate::support::program::Finished;
use crate::support::simulated::SimHost;
use crate::support::terminal::Key;

#[test]
fn specs_are_recorded_only_where_that_is_allowed_and_forgotten_in_time() {
    let host = SimHost::new();
    let id = lasting(&host, "atlas");
    host.sandkeeper(&["--read-only", "status", "--json"]).run().expect_exit(0);
    assert_eq!(recorded(&host), 0, "a read-only look records nothing");
    host.home.write(".config/sandkeeper/config.toml", "[recovery]\nrecord = false\n");
    host.sandkeeper(&["status", "--json"]).run().expect_exit(0);
    see(&host);
    assert_eq!(recorded(&host), 0);
    host.home.write(".config/sandkeeper/config.toml", "");
    see(&host);
    assert_eq!(recorded(&host), 1);
    host.home.write(".config/sandkeeper/config.toml", "[recovery]\nrecord = false\n");
    see(&host);
    assert_eq!(recorded(&host), 0, "what was recorded before is forgotten");
    host.home.write(".config/sandkeeper/config.toml", "");
    see(&host);
    remove_behind_our_back(&host, &id);
    host.home.write(".config/sandkeeper/config.toml", "[recovery]\nkeep = \"0s\"\n");
    host.orphan("another", "borealis");
    see(&host);
    let state = Connection::open(host.state_folder().join("state.db")).unwrap();
    let left: Vec<String> = state
        .prepare("SELECT name FROM specs")
        .unwrap()
        .query_map([], |row| row.get(0))
        .unwrap()
        .map(Result::unwrap)
        .collect();
    assert!(!left.contains(&"atlas".to_owned()), "{left:?}");
}

#[test]
fn what_was_recorded_under_other_rules_is_recorded_by_todays() {
    let host = SimHost::new();
    let id = lasting(&host, "atlas");
    let native = include_str!("../../../assets/profiles/native.toml");
    let lasts = "default = true }";
    assert!(native.contains(lasts), "{native}");
    host.home.write(".config/sandkeeper/profiles/native.toml", native.replace(lasts, "default = false }"));
    see(&host);
    assert_eq!(recorded(&host), 0, "what goes with its sessions is not made again");
    host.home.write(".config/sandkeeper/profiles/native.toml", native);
    see(&host);
    assert_eq!(recorded(&host), 1);
    remove_behind_our_back(&host, &id);
    assert_eq!(result(&recreate(&host, "atlas").expect_exit(0).json()).0, "recreated");
}

#[test]
fn a_secret_is_in_the_spec_and_nowhere_else() {
    let host = SimHost::new();
    let terminal = dashboard_with_a_loss(&host);
    host.engine.fault(
        FaultRule::on("POST", "/containers/create", Fault::Status(400, format!("bad variable {CANARY}")))
            .first(1),
    );
    terminal.type_keys("jC").wait_for("Recreate: 1 to change").type_keys("y").wait_for("1 failed");
    terminal.press(Key::Enter).wait_gone("[ Close ]");
    let mut told = vec![String::from_utf8_lossy(&terminal.raw_bytes()).into_owned()];
    terminal.quit();
    for arguments in [
        &["recreate", "--dry-run", "atlas"][..],
        &["recreate", "--yes", "--json", "atlas"],
        &["status", "--json"],
        &["status"],
        &["log", "--json"],
        &["log"],
        &["doctor"],
    ] {
        told.push(host.sandkeeper(arguments).run().to_string());
    }
    for text in &told {
        assert!(!text.contains(CANARY), "{text}");
    }
    let state = Connection::open(host.state_folder().join("state.db")).unwrap();
    let columns = state
        .prepare(
            "SELECT m.name, c.name FROM sqlite_schema m, pragma_table_info(m.name) c WHERE m.type = 'table'",
        )
        .unwrap()
        .query_map([], |row| Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?)))
        .unwrap()
        .map(Result::unwrap)
        .collect::<Vec<_>>();
    let mut found = Vec::new();
    for (table, column) in columns {
        let sql = format!("SELECT count(*) FROM {table} WHERE CAST({column} AS TEXT) LIKE '%{CANARY}%'");
        let count: i64 = state.query_row(&sql, [], |row| row.get(0)).unwrap();
        if count > 0 {
            found.push(format!("{table}.{column}"));
        }
    }
    assert_eq!(found, ["specs.spec"]);
    let mode = std::fs::metadata(host.state_folder().join("state.db")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn no_part_of_a_secret_is_told_in_whatever_form_an_engine_quotes_it() {
    let host = SimHost::new();
    host.store.session("s1", "atlas").status("active").insert();
    let short = "abcd";
    let (long, quoted) = (format!("abcd{CANARY}"), format!("line\n\"{CANARY}<ta1l>"));
    let id = host
        .sandbox("atlas", "atlas")
        .sleeping()
        .with(false, "Env", json!([format!("A={short}"), format!("B={long}"), format!("C={quoted}")]))
        .placed();
    see(&host);
    let written = json!(quoted).to_string();
    let written = written.trim_matches('"');
    let numbered = written.replace('<', "\\u003c").replace('>', "\\u003e");
    let words = format!("bad {long} and {written} and {numbered}");
    let told = |finished: Finished| {
        let text = finished.to_string();
        assert_eq!(result(&finished.json()).0, "failed", "{text}");
        assert!(!text.contains(CANARY) && !text.contains("ta1l"), "{text}");
    };
    // Made again, and started again.
    remove_behind_our_back(&host, &id);
    host.engine.fault(FaultRule::on("POST", "/containers/create", Fault::Status(400, words.clone())));
    told(recreate(&host, "atlas"));
    host.engine.recover();
    assert_eq!(result(&recreate(&host, "atlas").expect_exit(0).json()).0, "recreated");
    host.sandkeeper(&["stop", "--yes", "--min-age", "0s", "--json", "--even-if-live", "1", "atlas"])
        .run()
        .expect_exit(0);
    host.engine.fault(FaultRule::on("POST", "/containers/*/start", Fault::Status(500, words)));
    told(recreate(&host, "atlas"));
    let journal = host.sandkeeper(&["log", "--json"]).run().to_string();
    assert!(!journal.contains(CANARY) && !journal.contains("ta1l"), "{journal}");
}
