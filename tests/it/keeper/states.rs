//! Every state an engine can report, on a scripted engine: which orphans bulk clean-up takes, which it leaves, and which
//! it never touches; and how the keeper behaves towards an engine that says strange things.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use crate::support::native::{Host, native_row};
use crate::support::rows::Row;
use crate::support::scripted::Behaviour;
use crate::support::seconds;
use crate::support::stores::NativeStore;
use rstest::rstest;
use serde_json::{Value, json};

/// A host with one container that the engine stops and removes when asked, and a session database.
struct Kept {
    host: Host,
    store: NativeStore,
    row: Row,
}

impl Kept {
    fn with(row: Row) -> Self {
        let host = Host::with(std::slice::from_ref(&row));
        let store = NativeStore::create(host.home.native_store());
        store.session("elsewhere", "elsewhere").insert();
        let kept = Self { host, store, row };
        kept.when_removed(Behaviour::empty(204));
        kept.host.engine.on("POST", "/containers/*/stop", Behaviour::empty(204));
        kept.host.engine.on("POST", "/containers/*/start", Behaviour::empty(204));
        kept
    }

    fn when_removed(&self, answer: Behaviour) {
        self.host.engine.on("DELETE", "/containers/*", answer);
    }

    /// What the inspections answer from now on, one after the other.
    fn inspections(&self, answers: Vec<Behaviour>) {
        let path = format!("/containers/{}/json", self.row.id);
        self.host.engine.on("GET", &path, Behaviour::Sequence(answers));
    }

    fn reconcile(&self, arguments: &[&str]) -> crate::support::program::Finished {
        let arguments = [&["reconcile", "--yes", "--json", "--grace", "1s"], arguments].concat();
        self.host.sandkeeper(arguments).run()
    }

    fn removals(&self) -> usize {
        self.host.engine.count("DELETE", &format!("/containers/{}", self.row.id))
    }
}

fn gone() -> Behaviour {
    Behaviour::error(404, "No such container")
}

fn first(report: &Value) -> (&str, &str) {
    let outcome = &report["outcomes"][0];
    (outcome["result"].as_str().unwrap(), outcome["reason"].as_str().unwrap())
}

#[rstest]
#[case("created", &[], true)]
#[case("exited", &[], true)]
#[case("dead", &[], true)]
#[case("running", &[], false)]
#[case("paused", &[], false)]
#[case("restarting", &[], false)]
#[case("removing", &["--include-running-orphans"], false)]
#[case("stopped", &["--include-running-orphans"], false)]
#[case("stopping", &["--include-running-orphans"], false)]
#[case("unknown", &["--include-running-orphans"], false)]
#[case("", &["--include-running-orphans"], false)]
fn bulk_takes_an_orphan_in_this_state(#[case] state: &str, #[case] arguments: &[&str], #[case] goes: bool) {
    let row = native_row("box", "atlas").state(state);
    let kept = Kept::with(row.clone());
    if goes {
        kept.inspections(vec![Behaviour::json(&row.inspect()), gone()]);
    }
    let finished = kept.reconcile(arguments);
    let report = finished.json();
    assert_eq!(first(&report).0, if goes { "removed" } else { "kept" }, "{finished}");
    assert_eq!(kept.removals(), usize::from(goes), "{finished}");
    if !goes {
        kept.host.expect_only_looks();
    }
}

#[test]
fn a_container_renamed_after_planning_is_left_alone() {
    let kept = Kept::with(native_row("box", "atlas").state("exited"));
    let mut renamed = kept.row.inspect();
    renamed["Name"] = json!("/another");
    kept.inspections(vec![Behaviour::json(&renamed)]);
    let finished = kept.reconcile(&[]).expect_exit(3);
    let report = finished.json();
    assert!(first(&report).0 == "skipped" && first(&report).1.contains("renamed to another"), "{finished}");
    kept.host.expect_only_looks();
}

/// What can be wrong with a session database. The kind of fault decides the sentence, which has tests of its own; here
/// it must not matter.
#[rstest]
#[case::missing(|path: &Path| fs::remove_file(path).unwrap())]
#[case::empty(|path: &Path| fs::write(path, "").unwrap())]
#[case::garbage(|path: &Path| fs::write(path, "no database, but long enough to look like one".repeat(100)).unwrap())]
#[case::cut(|path: &Path| fs::write(path, &fs::read(path).unwrap()[..50]).unwrap())]
#[case::a_folder(|path: &Path| { fs::remove_file(path).unwrap(); fs::create_dir(path).unwrap() })]
#[case::a_dangling_link(|path: &Path| { fs::remove_file(path).unwrap(); symlink("/nowhere", path).unwrap() })]
#[case::no_table(|path: &Path| sql(path, "DROP TABLE sessions"))]
#[case::another_column(|path: &Path| sql(path, "ALTER TABLE sessions RENAME COLUMN status TO state"))]
#[case::a_row_that_could_claim_anything(|path: &Path| sql(path, "UPDATE sessions SET workspace = x'ff'"))]
fn a_session_database_in_doubt_lets_nothing_be_done(#[case] damage: fn(&Path)) {
    let rows = [
        native_row("orphan", "atlas").state("exited"),
        native_row("stale", "borealis").label("sandkeeper.config-hash", "0ld"),
    ];
    let host = Host::with(&rows);
    let path = host.home.native_store();
    let store = NativeStore::create(&path);
    store.session("elsewhere", "elsewhere").insert();
    store.execute("PRAGMA journal_mode = DELETE");
    drop(store);
    damage(&path);
    let forms: [&[&str]; 5] = [
        &["reconcile", "--include-running-orphans", "--override-brake", "2"],
        &["rm", "orphan", "stale"],
        &["rm", "--force", "orphan", "stale"],
        &["rm", "--force", "--even-if-live", "0", "orphan", "stale"],
        &["stop", "stale"],
    ];
    for form in forms {
        let arguments = [form, &["--yes", "--db", path.to_str().unwrap(), "--expect-hash", "new"]].concat();
        host.sandkeeper(arguments).run().expect_exit(4);
        host.expect_only_looks();
    }
}

fn sql(path: &Path, statements: &str) {
    rusqlite::Connection::open(path).unwrap().execute_batch(statements).unwrap();
}

#[test]
fn the_applications_database_is_the_same_afterwards_byte_by_byte() {
    let row = native_row("box", "atlas").state("exited");
    let kept = Kept::with(row.clone());
    let files = ["", "-wal"].map(|suffix| format!("{}{suffix}", kept.store.path().display()));
    let before = files.clone().map(|file| fs::read(file).unwrap());
    kept.inspections(vec![Behaviour::json(&row.inspect()), gone()]);
    let finished = kept.reconcile(&[]).expect_exit(0);
    assert_eq!(first(&finished.json()).0, "removed", "{finished}");
    assert!(files.map(|file| fs::read(file).unwrap()) == before, "the session database was changed");
}

#[test]
fn an_old_container_started_just_before_planning_is_left_alone() {
    // The list does not tell that it ran; only the keeper's own look does.
    let kept = Kept::with(native_row("box", "atlas").state("exited"));
    let mut ran = kept.row.inspect();
    ran["State"]["StartedAt"] =
        json!((jiff::Timestamp::now() - jiff::SignedDuration::from_secs(10)).to_string());
    kept.inspections(vec![Behaviour::json(&ran)]);
    let finished = kept.reconcile(&[]).expect_exit(3);
    let report = finished.json();
    let said = first(&report);
    assert!(
        said.0 == "skipped" && said.1.contains("started ") && said.1.contains("within the grace"),
        "{finished}"
    );
    let forced = kept.host.sandkeeper(["rm", "--force", "--yes", "box"]).run().expect_exit(3);
    assert!(forced.stdout.contains("within the grace"), "{forced}");
    kept.host.expect_only_looks();
}

#[test]
fn a_container_whose_labels_are_no_longer_ours_is_left_alone() {
    let kept = Kept::with(native_row("box", "atlas").state("exited"));
    let mut other = kept.row.inspect();
    other["Config"]["Labels"] = json!({});
    kept.inspections(vec![Behaviour::json(&other)]);
    let finished = kept.reconcile(&[]).expect_exit(3);
    assert_eq!(first(&finished.json()).0, "skipped", "{finished}");
    kept.host.expect_only_looks();
}

#[test]
fn an_engine_that_answers_with_another_container_is_not_believed() {
    let kept = Kept::with(native_row("box", "atlas").state("exited"));
    let impostor = native_row(&kept.row.id, "atlas").state("exited");
    kept.inspections(vec![Behaviour::json(&impostor.inspect())]);
    let finished = kept.reconcile(&[]).expect_exit(0);
    assert_eq!(first(&finished.json()).0, "already_gone", "{finished}");
    kept.host.expect_only_looks();
}

#[test]
fn a_removal_that_another_has_begun_is_waited_for_and_is_no_error() {
    let row = native_row("box", "atlas").state("exited");
    let kept = Kept::with(row.clone());
    let removing = row.clone().state("removing");
    kept.when_removed(Behaviour::error(409, "removal of container is already in progress"));
    kept.inspections(vec![
        Behaviour::json(&row.inspect()),
        Behaviour::json(&removing.inspect()),
        Behaviour::json(&removing.inspect()),
        gone(),
    ]);
    let finished = kept.reconcile(&[]).expect_exit(0);
    assert_eq!(first(&finished.json()).0, "removed", "{finished}");
    assert_eq!(kept.removals(), 1);
}

#[test]
fn an_engine_that_says_removed_and_keeps_the_container_is_reported() {
    let kept = Kept::with(native_row("box", "atlas").state("exited"));
    let finished = kept.reconcile(&[]).expect_exit(3);
    let report = finished.json();
    assert!(first(&report) == ("failed", "the engine said removed, but it is exited now"), "{finished}");
    assert_eq!(kept.removals(), 1, "it was not tried again");
}

#[rstest]
#[case::an_error(Behaviour::error(500, "boom"), "boom")]
#[case::half_an_answer(Behaviour::Cut { announced: 500, sent: b"{\"Id\":".to_vec() }, "connection")]
#[case::no_json(Behaviour::reply(200, "text/html", "<html>"), "not intelligible")]
#[case::silence(Behaviour::HangBeforeHeaders, "no complete answer")]
fn an_engine_that_fails_at_the_last_look_lets_nothing_be_done(#[case] answer: Behaviour, #[case] why: &str) {
    let kept = Kept::with(native_row("box", "atlas").state("exited"));
    kept.inspections(vec![answer]);
    let finished = kept.reconcile(&["--timeout", crate::support::HASTE]).expect_exit(4);
    let report = finished.json();
    assert!(first(&report).0 == "skipped" && first(&report).1.contains(why), "{finished}");
    kept.host.expect_only_looks();
}

#[test]
fn a_command_whose_state_cannot_be_read_lets_nothing_be_done() {
    let row = native_row("box", "atlas").label("sandkeeper.config-hash", "0ld");
    let kept = Kept::with(row.clone());
    let with_command = row.clone().exec("abc123").inspect();
    kept.inspections(vec![Behaviour::json(&row.inspect()), Behaviour::json(&with_command)]);
    kept.host.engine.on("GET", "/exec/abc123/json", Behaviour::error(500, "boom"));
    let finished = kept.reconcile(&["--expect-hash", "new"]).expect_exit(4);
    assert_eq!(first(&finished.json()).0, "skipped", "{finished}");
    kept.host.expect_only_looks();
}

#[test]
fn half_a_second_of_grace_is_not_rounded_down_to_a_kill() {
    let row = native_row("box", "atlas").label("sandkeeper.config-hash", "0ld");
    let kept = Kept::with(row.clone());
    kept.inspections(vec![
        Behaviour::json(&row.inspect()),
        Behaviour::json(&row.inspect()),
        Behaviour::json(&row.clone().state("exited").inspect()),
        gone(),
    ]);
    let arguments = ["reconcile", "--yes", "--grace", "500ms", "--expect-hash", "new"];
    kept.host.sandkeeper(arguments).run().expect_exit(0);
    let stops: Vec<String> =
        kept.host.engine.mutations().into_iter().filter(|line| line.contains("/stop")).collect();
    assert!(stops.len() == 1 && stops[0].ends_with("/stop?t=1"), "{stops:?}");
}

#[rstest]
#[case::its_own_when_that_is_longer(120, &[], "t=120")]
#[case::the_usual_when_that_is_longer(1, &[], "t=10")]
#[case::what_the_operator_names(120, &["--grace", "3s"], "t=3")]
fn a_container_gets_the_grace_it_was_made_with(
    #[case] own: u64,
    #[case] named: &[&str],
    #[case] asked: &str,
) {
    let row = native_row("box", "atlas").label("sandkeeper.config-hash", "0ld");
    let kept = Kept::with(row.clone());
    let inspection = |state: &str| {
        let mut inspection = row.clone().state(state).inspect();
        inspection["Config"]["StopTimeout"] = json!(own);
        Behaviour::json(&inspection)
    };
    let running = || inspection("running");
    kept.inspections(vec![running(), running(), inspection("exited"), gone()]);
    let arguments = [&["reconcile", "--yes", "--expect-hash", "new"], named].concat();
    kept.host.sandkeeper(arguments).run().expect_exit(0);
    let stops: Vec<String> =
        kept.host.engine.mutations().into_iter().filter(|line| line.contains("/stop")).collect();
    assert!(stops.len() == 1 && stops[0].ends_with(asked), "{stops:?}");
}

#[rstest]
#[case::for_ever(-1, "any time")]
#[case::for_a_day(86_400, "given 1d")]
fn a_container_that_may_take_hours_to_stop_is_left_to_whoever_says_how_long(
    #[case] own: i64,
    #[case] said: &str,
) {
    let row = native_row("box", "atlas").label("sandkeeper.config-hash", "0ld");
    let kept = Kept::with(row.clone());
    let mut inspection = row.clone().inspect();
    inspection["Config"]["StopTimeout"] = json!(own);
    kept.inspections(vec![Behaviour::json(&inspection)]);
    let arguments = ["reconcile", "--yes", "--json", "--expect-hash", "new"];
    let finished = kept.host.sandkeeper(arguments).run().expect_exit(3);
    let report = finished.json();
    let (result, reason) = first(&report);
    assert!(result == "skipped" && reason.contains(said) && reason.contains("--grace"), "{finished}");
    kept.host.expect_only_looks();
}

#[test]
#[ignore = "takes half a minute: run tests/run"]
fn a_stop_whose_answer_never_comes_is_reported_and_nothing_more_is_done() {
    let row = native_row("box", "atlas").label("sandkeeper.config-hash", "0ld");
    let kept = Kept::with(row);
    kept.store.session("s1", "atlas").ended_ago(60).insert();
    kept.host.engine.on("POST", "/containers/*/stop", Behaviour::HangBeforeHeaders);
    let finished = kept.reconcile(&["--expect-hash", "new"]).expect_exit(3);
    let report = finished.json();
    assert!(first(&report).0 == "failed" && first(&report).1.contains("it is running now"), "{finished}");
    assert!(finished.elapsed >= seconds(21), "grace and margin were not waited for: {finished}");
    assert_eq!(kept.host.engine.mutations().len(), 1, "{:?}", kept.host.engine.mutations());
}
