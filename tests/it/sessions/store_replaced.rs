//! A session database that is replaced between two looks: the old file is never served on.

use std::fs;
use std::path::Path;

use sandkeeper::domain::profile::{Query, StoreKind};
use sandkeeper::environment::Environment;
use sandkeeper::profiles::{BUILT_IN, parse};
use sandkeeper::sessions::{Limits, SqliteReader, StoreFault, StoreSet};
use serde_json::Value;

use crate::support::native::{Host, container, native_row};
use crate::support::program::Home;
use crate::support::stores::NativeStore;

pub(super) fn native_queries() -> Vec<Query> {
    let (name, text) = BUILT_IN.iter().find(|(name, _)| *name == "native").unwrap();
    match &parse(name, text).unwrap().stores[0].kind {
        StoreKind::Sqlite { queries, .. } => queries.clone(),
        StoreKind::Http(_) => panic!("the built-in contract has a database"),
    }
}

/// A closed database without a write-ahead log, so that one file is all of it.
fn closed_store(path: &Path, session: &str, status: &str) {
    let store = NativeStore::create(path);
    store.session(session, "alpha").status(status).insert();
    store.execute("PRAGMA journal_mode = DELETE");
}

fn ids(reader: &mut SqliteReader) -> Result<Vec<String>, StoreFault> {
    reader.read().map(|answer| answer.sessions.iter().map(|session| session.id.clone()).collect())
}

#[test]
fn a_file_renamed_over_the_database_is_what_the_next_look_reads() {
    let home = Home::new();
    let (path, new) = (home.path().join("sessions.db"), home.path().join("new.db"));
    closed_store(&path, "old", "active");
    closed_store(&new, "new", "active");
    let mut reader = SqliteReader::new(path.clone(), native_queries(), Limits::default());
    assert_eq!(ids(&mut reader), Ok(vec!["old".to_owned()]));
    assert_eq!(ids(&mut reader), Ok(vec!["old".to_owned()]), "an unchanged file");
    fs::rename(&new, &path).unwrap();
    assert_eq!(ids(&mut reader), Ok(vec!["new".to_owned()]));
}

#[test]
fn a_database_that_is_moved_away_is_missing_and_not_empty() {
    let home = Home::new();
    let path = home.path().join("sessions.db");
    closed_store(&path, "old", "active");
    let mut reader = SqliteReader::new(path.clone(), native_queries(), Limits::default());
    assert_eq!(ids(&mut reader), Ok(vec!["old".to_owned()]));
    fs::rename(&path, home.path().join("elsewhere.db")).unwrap();
    assert_eq!(ids(&mut reader), Err(StoreFault::NotFound));
    fs::write(&path, "").unwrap();
    assert_eq!(ids(&mut reader), Err(StoreFault::Empty));
    fs::rename(home.path().join("elsewhere.db"), &path).unwrap();
    assert_eq!(ids(&mut reader), Ok(vec!["old".to_owned()]));
}

#[test]
fn a_link_that_leads_elsewhere_is_followed_by_the_next_look() {
    let home = Home::new();
    let (path, one, two) = (home.path().join("link"), home.path().join("1.db"), home.path().join("2.db"));
    closed_store(&one, "one", "active");
    closed_store(&two, "two", "active");
    std::os::unix::fs::symlink(&one, &path).unwrap();
    let mut reader = SqliteReader::new(path.clone(), native_queries(), Limits::default());
    assert_eq!(ids(&mut reader), Ok(vec!["one".to_owned()]));
    fs::remove_file(&path).unwrap();
    std::os::unix::fs::symlink(&two, &path).unwrap();
    assert_eq!(ids(&mut reader), Ok(vec!["two".to_owned()]));
}

#[test]
fn a_store_that_was_seen_once_is_missed_when_it_is_gone() {
    let home = Home::new();
    let (name, text) = BUILT_IN.iter().find(|(name, _)| *name == "native").unwrap();
    let environment = Environment {
        home: home.path().to_owned(),
        variables: [("XDG_DATA_HOME".to_owned(), home.data().display().to_string())].into(),
    };
    let profile = parse(name, text).unwrap();
    let mut stores = StoreSet::new(&profile, Vec::new(), None, &environment, Limits::default());
    closed_store(&home.native_store(), "s1", "active");
    let first = stores.read();
    assert_eq!((first.len(), first[0].sessions.value.len(), &first[0].sessions.fault), (1, 1, &None));
    fs::remove_file(home.native_store()).unwrap();
    let second = stores.read();
    assert_eq!(second[0].sessions.value.len(), 1, "the last good answer is kept");
    assert!(second[0].sessions.fault.as_ref().unwrap().contains("no such file"), "{second:?}");
}

/// Whether the line shows the sandbox with this status.
fn shows(line: &str, status: &str) -> bool {
    let report: Value = serde_json::from_str(line).unwrap();
    container(&report, "sandbox")["status"] == status
}

#[test]
fn a_watch_doubts_a_new_file_that_lacks_a_live_session_and_misses_one_that_is_gone() {
    let host = Host::with(&[native_row("sandbox", "alpha")]);
    let path = host.home.native_store();
    closed_store(&path, "old", "active");
    let new = host.home.path().join("new.db");
    closed_store(&new, "new", "idle");
    let watch = host.sandkeeper(["status", "--watch", "--json"]).spawn();
    watch.line_where("an active sandbox", |line| shows(line, "active"));
    fs::rename(&new, &path).unwrap();
    watch.line_where("a doubted sandbox", |line| {
        shows(line, "unknown") && line.contains("no longer has 1 open session, a live one,")
    });

    fs::remove_file(&path).unwrap();
    watch.line_where("a sandbox of which nothing is known", |line| {
        shows(line, "unknown") && line.contains("could not be read")
    });
    watch.signal("TERM");
    watch.wait().expect_exit(4);
    host.expect_only_looks();
}

#[test]
fn a_store_that_is_known_by_a_link_is_known_by_its_own_name_too() {
    let host = Host::with(&[native_row("box", "atlas").state("exited")]);
    let real = host.home.path().join("real.db");
    let link = host.home.path().join("link.db");
    let store = NativeStore::create(&real);
    store.session("s1", "atlas").status("active").insert();
    std::os::unix::fs::symlink(&real, &link).unwrap();
    let by = |path: &Path| {
        let finished = host.sandkeeper(["status", "--json", "--db", path.to_str().unwrap()]).run();
        container(&finished.json(), "box")["status"].as_str().unwrap().to_owned()
    };
    assert_eq!(by(&link), "active");
    store.execute("DELETE FROM sessions");
    assert_eq!(by(&real), "unknown", "what was said through the link is missing");
    assert_eq!(by(&link), "unknown");
}

#[test]
fn a_store_that_lost_its_sessions_is_believed_once_it_is_accepted() {
    let host = Host::with(&[native_row("box", "atlas").state("exited")]);
    let store = NativeStore::create(host.home.native_store());
    store.session("s1", "atlas").status("active").insert();
    host.status([""; 0]).expect_exit(0);
    store.execute("DELETE FROM sessions");
    store.session("s2", "elsewhere").insert();
    // The look of the command itself is the first that misses it.
    let accepted = host.sandkeeper(["accept", "native"]).run().expect_exit(0);
    assert!(
        accepted.stdout.ends_with("with 1 sessions; 1 that it no longer has count as ended\n"),
        "{accepted}"
    );
    let report = host.status([""; 0]).expect_exit(0).json();
    assert_eq!(container(&report, "box")["status"], "orphaned", "{report:#}");
    assert_eq!(report["evidence"][1]["count"], 1, "{report:#}");
}
