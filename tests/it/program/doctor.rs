//! `doctor`: one line per check, and a fix for each failure.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use serde_json::Value;

use crate::support::native::{Host, native_row};
use crate::support::program::{Finished, Home};
use crate::support::scripted::Behaviour;
use crate::support::stores::{NativeStore, fingerprint};

fn host() -> (Host, NativeStore) {
    let host = Host::with(&[native_row("sandbox", "alpha")]);
    let store = NativeStore::create(host.home.native_store());
    store.session("s1", "alpha").insert();
    (host, store)
}

fn doctor(host: &Host) -> Finished {
    host.sandkeeper(["doctor", "--timeout", crate::support::HASTE]).run()
}

/// The line about something.
#[track_caller]
fn line<'text>(finished: &'text Finished, about: &str) -> &'text str {
    let found =
        finished.stdout.lines().find(|line| line.get(8..).is_some_and(|rest| rest.starts_with(about)));
    found.unwrap_or_else(|| panic!("no line about {about}: {finished}"))
}

/// A failed check and, on the line below, its fix.
#[track_caller]
fn expect_failed(finished: Finished, about: &str, finding: &str, fix: &str) {
    let finished = finished.expect_exit(1);
    let failed = line(&finished, about);
    assert!(failed.starts_with("FAILED") && failed.contains(finding), "lacks {finding:?}: {finished}");
    let below = finished.stdout.lines().skip_while(|line| *line != failed).nth(1).unwrap();
    assert!(below.trim_start().starts_with("fix: "), "no fix: {finished}");
    assert!(below.contains(fix), "the fix lacks {fix:?}: {finished}");
    assert!(!failed.contains(fix), "the fix is told twice: {finished}");
}

#[test]
fn a_healthy_host() {
    let (host, store) = host();
    let before = fingerprint(store.path());
    let finished = doctor(&host).expect_exit(0);
    assert!(!finished.stdout.contains("FAILED") && !finished.stdout.contains("fix:"), "{finished}");
    for (about, finding) in [
        ("engine", "Docker 20.10.24 at unix://"),
        ("engine", ", 1 container in all"),
        ("config", "no config file; all defaults"),
        ("profile native", "in use (built-in)"),
        ("profile parachute", "no trace of it on this host (built-in)"),
        ("sessions native", "sessions.db (mode 0644): 1 session, read as `sandkeeper sessions table`"),
        ("state", ".local/state/sandkeeper (made when something is first changed)"),
        ("terminal", "the output is not a terminal"),
    ] {
        assert!(line(&finished, about).contains(finding), "{about} lacks {finding:?}: {finished}");
    }
    assert!(finished.stdout.lines().all(|line| line == line.trim_end()), "{finished}");
    assert!(!host.home.state().join("sandkeeper").exists(), "looking makes nothing");
    assert_eq!(fingerprint(store.path()), before);
    host.expect_only_looks();
}

#[test]
fn no_engine() {
    let home = Home::new();
    let finished = home.sandkeeper(["doctor", "--host", "unix:///no/such.sock"]).run();
    expect_failed(finished, "engine", "nothing listens at /no/such.sock (--host)", "start the engine");
}

#[test]
fn an_engine_that_fails_or_hangs() {
    let (host, _store) = host();
    host.engine.on("GET", "/containers/json", Behaviour::error(500, "no space left on device"));
    expect_failed(doctor(&host), "engine", "500: no space left on device", "look at the engine's own log");
    host.engine.on("GET", "/containers/json", Behaviour::HangAfterHeaders);
    expect_failed(doctor(&host), "engine", "no complete answer within", "try a longer `--timeout`");
    host.engine.on("GET", "/containers/json", Behaviour::reply(200, "text/html", "<html>"));
    expect_failed(
        doctor(&host),
        "engine",
        "not intelligible",
        "check that the address is a Docker or Podman API",
    );
}

#[test]
fn each_fault_of_a_database_has_its_fix() {
    let (host, store) = host();
    let path = store.path().to_owned();
    let check = |finding: &str, fix: &str| {
        expect_failed(doctor(&host), "sessions native", finding, fix);
        let finished = doctor(&host);
        assert!(line(&finished, "sessions native").contains(path.to_str().unwrap()), "{finished}");
    };
    store.execute("ALTER TABLE sessions DROP COLUMN title");
    check("misses column sessions.title", "add a query variant");
    store.execute("PRAGMA journal_mode = DELETE; BEGIN EXCLUSIVE");
    check("locked by another program", "clears by itself");
    drop(store);
    fs::write(&path, "not a database, whatever its name says").unwrap();
    check("not a readable SQLite database", "check the path");
    fs::write(&path, "").unwrap();
    check("the file is empty", "has been started once");
    fs::remove_file(&path).unwrap();
    check("no session database was found", "`--db SYSTEM=PATH`");
    fs::create_dir(&path).unwrap();
    check("it is a folder", "name the database file itself");
}

#[test]
fn a_row_that_cannot_be_read_does_not_fail_the_whole_check() {
    let (host, _store) = host();
    let listed = serde_json::json!([native_row("sandbox", "alpha").listed(), null]);
    host.engine.on("GET", "/containers/json", Behaviour::json(&listed));
    doctor(&host).expect_exit(0);
}

#[test]
fn a_state_folder_others_may_write_in() {
    let (host, _store) = host();
    let folder = host.home.state().join("sandkeeper");
    fs::create_dir_all(&folder).unwrap();
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o777)).unwrap();
    expect_failed(doctor(&host), "state", "others may write in", "chmod 700");
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o700)).unwrap();
    assert!(line(&doctor(&host), "state").starts_with("ok"));
    fs::remove_dir(&folder).unwrap();
    fs::write(&folder, "").unwrap();
    expect_failed(doctor(&host), "state", "is not a folder", "move it away");
}

#[test]
fn a_profile_folder_that_cannot_be_read() {
    let (host, _store) = host();
    host.home.write(".config/sandkeeper/profiles", "a file where a folder should be");
    expect_failed(doctor(&host), "profile  ", "cannot be read", "make it a folder");
}

#[test]
fn a_config_that_was_read_is_named() {
    let (host, _store) = host();
    let path = host.home.write(".config/sandkeeper/config.toml", "min_age = \"2m\"");
    let finished = doctor(&host).expect_exit(0);
    assert!(line(&finished, "config").contains(path.to_str().unwrap()), "{finished}");
}

#[test]
fn the_json_has_one_entry_per_check() {
    let (host, store) = host();
    let report = host.sandkeeper(["doctor", "--json"]).run().expect_exit(0).json();
    assert_eq!(report["healthy"], true);
    let about = |check: &Value| check["check"].as_str().unwrap().to_owned();
    let names: Vec<_> = report["checks"].as_array().unwrap().iter().map(about).collect();
    let profiles = sandkeeper::profiles::BUILT_IN.iter().map(|(name, _)| format!("profile {name}"));
    let around = |names: &[&str]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
    let expected = [
        around(&["engine", "config"]),
        profiles.collect(),
        around(&["sessions native", "state", "marks", "terminal"]),
    ];
    assert_eq!(names, expected.concat());
    for check in report["checks"].as_array().unwrap() {
        assert!(["ok", "note"].contains(&check["health"].as_str().unwrap()), "{check}");
        assert!(!check["finding"].as_str().unwrap().is_empty() && check["fix"].is_null(), "{check}");
    }

    store.execute("DROP TABLE sessions");
    let report = host.sandkeeper(["doctor", "--json"]).run().expect_exit(1).json();
    assert_eq!(report["healthy"], false);
    let failed =
        report["checks"].as_array().unwrap().iter().find(|check| check["health"] == "failed").unwrap();
    assert_eq!(failed["check"], "sessions native");
    assert!(failed["fix"].as_str().unwrap().contains("query variant"), "{failed}");
}
