//! The journal: who did what, when and why, on disk before anything happens, in a file nobody else can read; and what
//! happens when it cannot be relied on.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::thread;

use crate::support::native::{Host, native_row};
use crate::support::program::{Finished, Program};
use crate::support::rows::Row;
use crate::support::scripted::Behaviour;
use crate::support::stores::NativeStore;
use rstest::rstest;
use sandkeeper::state::{ItemRecord, PlanRecord, State, Step};
use serde_json::Value;

/// A scripted host with orphans that the engine removes when asked.
struct Kept {
    host: Host,
    _store: NativeStore,
}

impl Kept {
    fn with(names: &[&str]) -> Self {
        let rows: Vec<Row> = names.iter().map(|name| native_row(name, "atlas").state("exited")).collect();
        let host = Host::with(&rows);
        for row in &rows {
            let gone = Behaviour::Sequence(vec![
                Behaviour::json(&row.inspect()),
                Behaviour::error(404, "No such container"),
            ]);
            host.engine.on("GET", &format!("/containers/{}/json", row.id), gone);
        }
        host.engine.on("DELETE", "/containers/*", Behaviour::empty(204));
        let store = NativeStore::create(host.home.native_store());
        Self { host, _store: store }
    }

    fn folder(&self) -> PathBuf {
        self.host.home.state().join("sandkeeper")
    }

    fn database(&self) -> PathBuf {
        self.folder().join("state.db")
    }

    fn reconcile(&self) -> Program<'_> {
        self.host.sandkeeper(["reconcile", "--yes", "--json"])
    }

    fn log(&self, arguments: &[&str]) -> Finished {
        self.host.sandkeeper([&["log"], arguments].concat()).run()
    }
}

fn mode(path: &Path) -> u32 {
    path.metadata().unwrap().permissions().mode() & 0o777
}

#[test]
fn the_state_is_its_owners_alone() {
    let kept = Kept::with(&["box"]);
    kept.reconcile().run().expect_exit(0);
    assert_eq!(mode(&kept.folder()), 0o700);
    assert_eq!(mode(&kept.database()), 0o600);
    // A file that was copied back from somewhere is closed to others again.
    fs::set_permissions(kept.database(), fs::Permissions::from_mode(0o644)).unwrap();
    kept.reconcile().run();
    assert_eq!(mode(&kept.database()), 0o600);
}

#[test]
fn a_state_folder_others_may_write_in_is_refused_with_the_fix() {
    let kept = Kept::with(&["box"]);
    fs::create_dir_all(kept.folder()).unwrap();
    fs::set_permissions(kept.folder(), fs::Permissions::from_mode(0o777)).unwrap();
    let refused = kept.reconcile().run().expect_exit(1);
    assert!(
        refused.stderr.contains("others may write in it") && refused.stderr.contains("0700"),
        "{refused}"
    );
    kept.host.expect_only_looks();
}

#[test]
fn the_log_says_who_did_what_when_and_why() {
    let kept = Kept::with(&["box"]);
    kept.log(&[]).expect_exit(0).expect_stdout("Nothing was done here yet");
    assert_eq!(kept.log(&["--json"]).expect_exit(0).json(), serde_json::json!([]));
    kept.reconcile()
        .env("USER", "ada")
        .env("SSH_CONNECTION", "203.0.113.7 50022 192.0.2.1 22")
        .run()
        .expect_exit(0);

    let line = kept.log(&[]).expect_exit(0);
    for part in ["ada from 203.0.113.7", "reconcile", "box", "remove: no session", "->  removed:"] {
        assert!(line.stdout.contains(part), "{part:?} is missing: {line}");
    }
    let log = kept.log(&["--json"]).expect_exit(0).json();
    let entry = &log[0];
    assert_eq!(log.as_array().unwrap().len(), 1, "{log:#}");
    assert_eq!(entry["who"], "ada from 203.0.113.7");
    assert_eq!(entry["host"], kept.host.engine.endpoint());
    assert_eq!(entry["container"], crate::support::rows::id_of("box"));
    assert_eq!((&entry["action"], &entry["status"]), (&"remove".into(), &"orphaned".into()));
    assert!(entry["at"].as_str().unwrap().parse::<jiff::Timestamp>().is_ok(), "{entry:#}");
    let steps: Vec<&str> =
        entry["steps"].as_array().unwrap().iter().map(|step| step["step"].as_str().unwrap()).collect();
    assert_eq!(steps, ["removing", "outcome"]);
}

#[test]
fn what_is_only_kept_is_not_in_the_log() {
    let kept = Kept::with(&["box"]);
    let store = NativeStore::create(kept.host.home.path().join("other.db"));
    store.session("s1", "atlas").insert();
    kept.reconcile().args(["--db", store.path().to_str().unwrap()]).run().expect_exit(0);
    assert_eq!(kept.log(&["--json"]).json(), serde_json::json!([]));
}

#[test]
fn since_leaves_out_what_is_older() {
    let kept = Kept::with(&["box"]);
    let mut state = State::open(&kept.folder()).unwrap();
    let plan = PlanRecord { host: "unix:///a".into(), who: "ada".into(), intent: "reconcile".into() };
    let item = item("old-box");
    let number = state.begin(&plan, &[item]).unwrap()[0];
    state.write_steps(&[(number, Step::Outcome, "removed: asked for".to_owned())]).unwrap();
    drop(state);
    let database = rusqlite::Connection::open(kept.database()).unwrap();
    database.execute_batch("UPDATE plans SET at = '2026-01-01T00:00:00Z'").unwrap();
    drop(database);
    kept.reconcile().run().expect_exit(0);

    let names = |log: &Value| -> Vec<String> {
        log.as_array().unwrap().iter().map(|entry| entry["name"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(names(&kept.log(&["--json"]).json()), ["old-box", "box"]);
    assert_eq!(names(&kept.log(&["--json", "--since", "1h"]).json()), ["box"]);
    kept.log(&["--since", "yesterday"]).expect_exit(2);
}

fn item(name: &str) -> ItemRecord {
    ItemRecord {
        container: crate::support::rows::id_of(name),
        name: name.to_owned(),
        system: Some("native".to_owned()),
        workspace: None,
        status: "orphaned".to_owned(),
        action: "remove".to_owned(),
        reason: "asked for".to_owned(),
        started_at: None,
    }
}

#[rstest]
#[case::garbage(
    b"this is no database, and long enough to be sure of it: ............................................"
)]
#[case::half_a_header(b"SQLite format 3\0\x10\0\x02\x02")]
fn a_state_that_is_no_database_is_refused_before_anything_is_done(#[case] bytes: &[u8]) {
    let kept = Kept::with(&["box"]);
    fs::create_dir_all(kept.folder()).unwrap();
    fs::set_permissions(kept.folder(), fs::Permissions::from_mode(0o700)).unwrap();
    fs::write(kept.database(), bytes).unwrap();
    let refused = kept.reconcile().run().expect_exit(1);
    assert!(
        refused.stderr.contains("state.db") && refused.stderr.contains("move the file away"),
        "{refused}"
    );
    kept.log(&[]).expect_exit(1).expect_stderr("state.db");
    kept.host.sandkeeper(["may-start", "atlas"]).run().expect_exit(4).expect_stderr("state.db");
    kept.host.expect_only_looks();
}

#[test]
fn a_state_of_a_newer_program_is_refused() {
    let kept = Kept::with(&["box"]);
    drop(State::open(&kept.folder()).unwrap());
    let database = rusqlite::Connection::open(kept.database()).unwrap();
    database.pragma_update(None, "user_version", 99).unwrap();
    drop(database);
    kept.reconcile().run().expect_exit(1).expect_stderr("another version");
    kept.host.expect_only_looks();
}

/// A journal of some size, as its bytes.
fn long_journal() -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let mut state = State::open(folder.path()).unwrap();
    let plan = PlanRecord { host: "unix:///a".into(), who: "ada".into(), intent: "reconcile".into() };
    let items: Vec<ItemRecord> = (0..60).map(|number| item(&format!("box-{number}"))).collect();
    for _ in 0..3 {
        let numbers = state.begin(&plan, &items).unwrap();
        let steps: Vec<_> =
            numbers.into_iter().map(|number| (number, Step::Outcome, "removed".to_owned())).collect();
        state.write_steps(&steps).unwrap();
    }
    drop(state);
    fs::read(folder.path().join("state.db")).unwrap()
}

/// Tries every place on a journal of its own. Whoever opens one that was just written waits a moment, so many wait at once.
fn at_each<T: Send>(places: &[usize], attempt: impl Fn(&Path, usize) -> T + Sync) -> Vec<T> {
    const AT_ONCE: usize = 16;
    let attempt = &attempt;
    thread::scope(|scope| {
        let parts = places.chunks(places.len().div_ceil(AT_ONCE));
        let threads = parts.map(|part| {
            scope.spawn(move || {
                let folder = tempfile::tempdir().unwrap();
                part.iter().map(|place| attempt(folder.path(), *place)).collect::<Vec<T>>()
            })
        });
        let threads: Vec<_> = threads.collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    })
}

#[test]
fn a_journal_cut_at_any_place_loads_or_is_refused() {
    let whole = long_journal();
    assert!(whole.len() > 40_000, "{} bytes", whole.len());
    let pages = (0..whole.len()).step_by(4096);
    let cuts: Vec<usize> =
        (0..128).chain((0..whole.len()).step_by(997)).chain(pages.flat_map(|page| page..page + 2)).collect();
    let loaded = at_each(&cuts, |folder, cut| {
        fs::write(folder.join("state.db"), &whole[..cut]).unwrap();
        State::open_to_read(folder).and_then(|state| match state {
            Some(state) => Ok(state.log(None)?.len()),
            None => Ok(0),
        })
    });
    let (mut refused, mut loaded_whole) = (0, 0);
    for (cut, loaded) in cuts.iter().zip(loaded) {
        match loaded {
            Err(fault) => {
                refused += 1;
                assert!(fault.to_string().contains("state.db"), "cut at {cut}: {fault}");
            }
            // The room that was set aside is at its end, and nothing is in that.
            Ok(180) => loaded_whole += 1,
            Ok(entries) => assert!(*cut == 0 && entries == 0, "cut at {cut}, and {entries} entries loaded"),
        }
    }
    assert_eq!(refused + loaded_whole, cuts.iter().filter(|cut| **cut > 0).count());
    assert!(refused > loaded_whole, "{refused} refused, {loaded_whole} loaded");
}

#[test]
fn a_journal_with_bytes_turned_over_never_panics() {
    let whole = long_journal();
    let places: Vec<usize> = (0..whole.len()).step_by(401).collect();
    at_each(&places, |folder, place| {
        let mut turned = whole.clone();
        turned[place] ^= 0xff;
        fs::write(folder.join("state.db"), &turned).unwrap();
        for beside in ["state.db-wal", "state.db-shm"] {
            let _ = fs::remove_file(folder.join(beside));
        }
        // Loading or refusing: both are answers.
        let _ = State::open_to_read(folder).map(|state| {
            state.map(|state| {
                (state.log(None).is_ok(), state.unfinished("unix:///a"), state.marks("unix:///a"))
            })
        });
        let _ = State::open(folder).and_then(|mut state| {
            let plan = PlanRecord { host: "h".into(), who: "w".into(), intent: "i".into() };
            state.begin(&plan, &[item("box")])
        });
    });
}

#[rstest]
#[case::in_the_header(60)]
#[case::after_the_first_page(4096)]
#[case::in_the_middle(20_000)]
fn a_cut_journal_lets_nothing_be_done(#[case] cut: usize) {
    let kept = Kept::with(&["box"]);
    drop(State::open(&kept.folder()).unwrap());
    fs::write(kept.database(), &long_journal()[..cut]).unwrap();
    kept.reconcile().run().expect_exit(1).expect_stderr("nothing is done without a journal");
    kept.host.expect_only_looks();
}

#[test]
fn read_only_mode_writes_nothing() {
    let kept = Kept::with(&["box", "other"]);
    kept.host.engine.containers(&["box", "other"].map(|name| native_row(name, "atlas").state("exited")));
    kept.host.sandkeeper(["drain", "--yes", "box"]).run().expect_exit(0);
    let look = || -> Vec<(PathBuf, Vec<u8>)> {
        let mut files: Vec<_> = fs::read_dir(kept.folder())
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .map(|path| (path.clone(), fs::read(&path).unwrap()))
            .collect();
        files.sort();
        files
    };
    let before = look();
    for command in
        [&["status"][..], &["log"], &["may-start", "atlas"], &["reconcile", "--dry-run"], &["doctor"]]
    {
        let _ = kept.host.sandkeeper(command).arg("--read-only").run();
        kept.host.sandkeeper(["reconcile", "--yes", "--read-only"]).run().expect_exit(1);
    }
    kept.host.sandkeeper(["may-start", "atlas", "--read-only"]).run().expect_exit(5);
    let names = |files: &[(PathBuf, Vec<u8>)]| -> Vec<PathBuf> {
        files.iter().map(|(path, _)| path.clone()).collect()
    };
    let after = look();
    assert_eq!(names(&after), names(&before));
    assert!(after == before, "a file of ours was changed");
}

#[test]
fn what_is_read_while_another_program_writes_is_what_it_wrote() {
    let folder = tempfile::tempdir().unwrap();
    let plan = PlanRecord { host: "unix:///a".into(), who: "ada".into(), intent: "reconcile".into() };
    let mut writer = State::open(folder.path()).unwrap();
    writer.begin(&plan, &[item("one")]).unwrap();
    drop(writer);
    let reader = State::open_to_read(folder.path()).unwrap().unwrap();
    assert_eq!(reader.log(None).unwrap().len(), 1);
    let mut writer = State::open(folder.path()).unwrap();
    writer.begin(&plan, &[item("two")]).unwrap();
    assert_eq!(reader.log(None).unwrap().len(), 2, "while it is open");
    drop(writer);
    assert_eq!(reader.log(None).unwrap().len(), 2, "after it was closed");
}
