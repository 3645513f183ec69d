//! An engine that fails in whatever way: an answer in time, the right exit code, and one bad row costs one row.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::process::Command;

use rstest::rstest;
use serde_json::{Value, json};

use crate::support::native::{Host, container, evidence, native_row, plain_image, reasons, statuses};
use crate::support::program::{Finished, Home};
use crate::support::rows::{Row, ago};
use crate::support::scripted::{Behaviour, Gate};
use crate::support::stores::NativeStore;
use crate::support::{HASTE, HASTE_AND_MARGIN};

/// Three sandboxes, each with an idle session of its own; the second is the one that will be in trouble.
const NAMES: [&str; 3] = ["first", "second", "third"];

fn rows() -> [Row; 3] {
    NAMES.map(|name| native_row(name, name))
}

fn host() -> (Host, NativeStore) {
    let host = Host::with(&rows());
    let store = NativeStore::create(host.home.native_store());
    for name in NAMES {
        store.session(name, name).insert();
    }
    (host, store)
}

/// Looks with a short time-out, and expects an answer in that time and not a word about panics.
#[track_caller]
fn look(host: &Host) -> Finished {
    let finished = host.status(["--timeout", HASTE]);
    expect_orderly(&finished);
    host.expect_only_looks();
    finished
}

#[track_caller]
fn expect_orderly(finished: &Finished) {
    assert!(finished.elapsed < HASTE_AND_MARGIN, "too late: {finished}");
    assert!(!finished.stderr.contains("panicked") && !finished.stderr.contains("bug"), "{finished}");
    assert_eq!(finished.signal, None, "{finished}");
}

/// The engine could not be listed, for this reason.
#[track_caller]
fn expect_nothing_shown(finished: Finished, cause: &str) {
    let finished = finished.expect_exit(1);
    let report = finished.json();
    assert_eq!(report["host"]["reachable"], false, "{report:#}");
    for part in ["containers", "lost", "summary"] {
        assert_eq!(report[part], json!(null), "nothing is known of a host that was not seen: {report:#}");
    }
    let engine = evidence(&report, "engine");
    assert_eq!(engine["ok"], false);
    let error = engine["error"].as_str().unwrap();
    assert!(error.contains(cause), "the error lacks {cause:?}: {error}");
    assert!(error.contains("; "), "no hint: {error}");
}

#[test]
fn a_healthy_engine_gives_verdicts() {
    let (host, _store) = host();
    let finished = look(&host).expect_exit(0);
    assert_eq!(statuses(&finished.json()), ["first: idle", "second: idle", "third: idle"]);
}

#[test]
fn no_socket() {
    let home = Home::new();
    let missing = format!("unix://{}/no.sock", home.path().display());
    let finished = home.sandkeeper(["status", "--json", "--timeout", HASTE, "--host", &missing]).run();
    expect_orderly(&finished);
    expect_nothing_shown(finished, "nothing listens at");
    let finished = home.sandkeeper(["status", "--host", &missing]).run().expect_exit(1);
    finished.expect_stdout("nothing listens at").expect_stdout("--host");
}

#[test]
fn a_socket_nobody_listens_at() {
    let home = Home::new();
    let path = home.path().join("dead.sock");
    drop(UnixListener::bind(&path).unwrap());
    let host = format!("unix://{}", path.display());
    let finished = home.sandkeeper(["status", "--json", "--timeout", HASTE, "--host", &host]).run();
    expect_orderly(&finished);
    expect_nothing_shown(finished, "nothing listens at");
}

#[test]
fn a_socket_that_accepts_and_never_reads() {
    let home = Home::new();
    let path = home.path().join("mute.sock");
    let _listener = UnixListener::bind(&path).unwrap();
    let host = format!("unix://{}", path.display());
    let finished = home.sandkeeper(["status", "--json", "--timeout", HASTE, "--host", &host]).run();
    expect_orderly(&finished);
    expect_nothing_shown(finished, "no complete answer within");
}

#[test]
fn a_socket_this_user_may_not_open() {
    if Command::new("id").arg("-u").output().unwrap().stdout != b"0\n" {
        eprintln!("skipped: only root can run the program as another user");
        return;
    }
    let (host, _store) = host();
    fs::set_permissions(host.engine.socket().parent().unwrap(), fs::Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(host.engine.socket(), fs::Permissions::from_mode(0o600)).unwrap();
    let finished = host.sandkeeper(["status", "--json", "--timeout", HASTE]).user(65534, 65534).run();
    expect_orderly(&finished);
    assert!(finished.stdout.contains("join the group that owns the socket"), "{finished}");
    expect_nothing_shown(finished, "permission denied on");
    assert_eq!(host.engine.request_lines(), [""; 0]);
}

fn half_a_list() -> Vec<u8> {
    let whole = Value::Array(rows().iter().map(Row::listed).collect()).to_string();
    whole.as_bytes()[..whole.len() / 2].to_vec()
}

#[rstest]
#[case::hang_before_headers(Behaviour::HangBeforeHeaders, "no complete answer within")]
#[case::hang_after_headers(Behaviour::HangAfterHeaders, "no complete answer within")]
#[case::stalled_body(Behaviour::StallBody { announced: 99_999, sent: half_a_list() }, "no complete answer within")]
#[case::stalled_chunks(Behaviour::ChunkedThenStall { sent: half_a_list() }, "no complete answer within")]
#[case::cut(Behaviour::Cut { announced: 99_999, sent: half_a_list() }, "the connection failed")]
#[case::error_500(Behaviour::error(500, "driver is on fire"), "the engine answered 500: driver is on fire")]
#[case::error_503(
    Behaviour::reply(503, "text/html", "<h1>Busy</h1>"),
    "the engine answered 503: <h1>Busy</h1>"
)]
#[case::html(Behaviour::reply(200, "text/html", "<html>Welcome to nginx</html>"), "Welcome to nginx")]
#[case::half_json(Behaviour::reply(200, "application/json", half_a_list()), "not intelligible")]
#[case::nothing(Behaviour::reply(200, "application/json", ""), "not intelligible")]
#[case::null(Behaviour::json(&Value::Null), "not intelligible")]
#[case::an_error_in_a_good_answer(Behaviour::error(200, "out of files"), "out of files")]
#[case::not_utf8(Behaviour::reply(200, "application/json", b"[\"\xff\xfe\"]".to_vec()), "not intelligible")]
#[case::a_redirect(Behaviour::empty(302), "the engine answered 302")]
#[case::gone(Behaviour::empty(204), "not intelligible")]
fn a_list_that_fails(#[case] fault: Behaviour, #[case] cause: &str) {
    let (host, _store) = host();
    host.engine.on("GET", "/containers/json", fault.clone());
    expect_nothing_shown(look(&host), cause);

    // The table says the same, and says that nothing can be said.
    let finished = host.sandkeeper(["status", "--timeout", HASTE]).run().expect_exit(1);
    expect_orderly(&finished);
    finished.expect_stdout(cause).expect_stdout("Nothing can be said");

    host.engine.on("GET", "/containers/json", Behaviour::json(&json!([])));
    host.engine.on("GET", "/_ping", Behaviour::error(404, "page not found"));
    host.engine.on("GET", "/version", fault);
    if cause.contains("out of files") {
        return; // A version that is no version is told in other words.
    }
    expect_nothing_shown(look(&host), cause);
}

#[test]
fn a_list_of_a_hundred_megabytes() {
    let (host, _store) = host();
    host.engine.on("GET", "/containers/json", Behaviour::Huge { total: 100 * 1024 * 1024 });
    let finished = host.sandkeeper(["status", "--json", "--timeout", "3m"]).run();
    expect_nothing_shown(finished, "larger than 64 MiB");
}

/// Replaces something in the second row of the list.
fn with_second(change: impl Fn(&mut Value)) -> Behaviour {
    let mut listed: Vec<Value> = rows().iter().map(Row::listed).collect();
    change(&mut listed[1]);
    Behaviour::json(&Value::Array(listed))
}

#[rstest]
#[case::no_state(|row: &mut Value| row["State"] = Value::Null, 0, "gives no state")]
#[case::an_unknown_state(|row: &mut Value| row["State"] = json!("stopped"), 0, "`stopped`")]
#[case::a_state_of_another_kind(|row: &mut Value| row["State"] = json!({ "Status": "running" }), 4, "row for it cannot be read")]
#[case::labels_that_are_no_texts(|row: &mut Value| row["Labels"]["sandkeeper.lifetime"] = json!(15), 4, "row for it cannot be read")]
#[case::created_as_text(|row: &mut Value| row["Created"] = json!("2026-02-22"), 4, "row for it cannot be read")]
#[case::created_out_of_range(|row: &mut Value| row["Created"] = json!(i64::MAX), 4, "out of range")]
#[case::a_short_id(|row: &mut Value| row["Id"] = json!("abcdef012345"), 4, "not a full container id")]
#[case::no_id(|row: &mut Value| drop(row.as_object_mut().unwrap().remove("Id")), 4, "missing field `Id`")]
#[case::names_of_another_kind(|row: &mut Value| row["Names"] = json!("second"), 4, "row for it cannot be read")]
fn one_bad_row_costs_one_row(#[case] damage: fn(&mut Value), #[case] exit: i32, #[case] cause: &str) {
    let (host, _store) = host();
    host.engine.on("GET", "/containers/json", with_second(damage));
    let report = look(&host).expect_exit(exit).json();
    assert_eq!(report["host"]["reachable"], true);
    let (bad, good): (Vec<_>, Vec<_>) =
        report["containers"].as_array().unwrap().iter().partition(|each| each["status"] == "unknown");
    assert_eq!((bad.len(), good.len()), (1, 2), "{report:#}");
    assert!(reasons(bad[0]).contains(cause), "{report:#}");
    for name in ["first", "third"] {
        assert_eq!(container(&report, name)["status"], "idle", "{report:#}");
    }
}

#[rstest]
#[case::null(json!(null))]
#[case::a_number(json!(7))]
#[case::a_list(json!([]))]
#[case::nothing_in_it(json!({}))]
fn a_row_that_does_not_say_whose_it_is_may_be_anybodys(#[case] row: Value) {
    let (host, _store) = host();
    let mut listed: Vec<Value> = rows().iter().map(Row::listed).collect();
    listed.insert(1, row);
    host.engine.on("GET", "/containers/json", Behaviour::json(&Value::Array(listed)));
    let report = look(&host).expect_exit(4).json();
    assert_eq!(report["summary"]["idle"], 3, "{report:#}");
    assert_eq!(report["summary"]["unknown"], 1, "{report:#}");
}

#[test]
fn a_row_without_labels_is_nobodys_and_one_without_a_name_is_told_by_its_id() {
    let (host, _store) = host();
    host.engine.on("GET", "/containers/json", with_second(|row| row["Labels"] = Value::Null));
    let report = look(&host).expect_exit(0).json();
    assert_eq!(statuses(&report), ["first: idle", "third: idle"]);

    let nameless = rows()[1].id.clone();
    host.engine.on(
        "GET",
        "/containers/json",
        with_second(|row| {
            row["Names"] = Value::Null;
            // One that does not run is not inspected, which would tell its name.
            row["State"] = json!("exited");
        }),
    );
    // A session may name it, and nobody could tell.
    let finished = host.sandkeeper(["status", "--timeout", HASTE]).run().expect_exit(4);
    finished.expect_stdout(&nameless[..12]);
}

#[test]
fn two_rows_with_one_id_are_both_in_doubt() {
    let (host, _store) = host();
    let id = rows()[0].id.clone();
    host.engine.on("GET", "/containers/json", with_second(move |row| row["Id"] = json!(id)));
    let report = look(&host).expect_exit(4).json();
    assert_eq!(statuses(&report)[2], "third: idle", "{report:#}");
    assert_eq!(report["summary"]["unknown"], 2);
    assert!(reasons(container(&report, "first")).contains("stands in several rows"));
}

#[test]
fn a_container_from_the_future_or_from_the_year_1970_is_judged_without_trouble() {
    let future = native_row("future", "first").created(ago(-86_400));
    let past = native_row("past", "second").created(0);
    let host = Host::with(&[future, past]);
    let store = NativeStore::create(host.home.native_store());
    store.session("first", "first").insert();
    store.session("second", "second").insert();
    let report = look(&host).expect_exit(0).json();
    assert_eq!(statuses(&report), ["future: idle", "past: idle"]);
}

#[rstest]
#[case::fails(Behaviour::error(500, "cannot inspect"), "cannot inspect")]
#[case::hangs(Behaviour::HangBeforeHeaders, "no complete answer within")]
#[case::stalls(Behaviour::StallBody { announced: 9999, sent: b"{".to_vec() }, "no complete answer within")]
#[case::half(Behaviour::reply(200, "application/json", "{\"Id\":"), "not intelligible")]
fn an_inspection_that_fails_costs_one_container(#[case] fault: Behaviour, #[case] cause: &str) {
    let (host, _store) = host();
    host.engine.on("GET", &format!("/containers/{}/json", rows()[1].id), fault);
    let report = look(&host).expect_exit(4).json();
    assert_eq!(statuses(&report), ["first: idle", "second: unknown", "third: idle"], "{report:#}");
    let why = reasons(container(&report, "second"));
    assert!(why.contains("could not be inspected") && why.contains(cause), "{why}");
}

#[rstest]
#[case::fails(Behaviour::error(500, "cannot tell"))]
#[case::hangs(Behaviour::HangBeforeHeaders)]
fn an_exec_that_cannot_be_asked_for_costs_one_container(#[case] fault: Behaviour) {
    let (host, _store) = host();
    let [first, second, third] = rows();
    host.engine.containers(&[first, second.exec("e".repeat(64)), third]);
    host.engine.on("GET", "/exec/*/json", fault);
    let report = look(&host).expect_exit(4).json();
    assert_eq!(statuses(&report), ["first: idle", "second: unknown", "third: idle"], "{report:#}");
}

#[test]
fn a_container_that_is_gone_by_the_time_it_is_inspected_is_not_shown() {
    let (host, _store) = host();
    host.engine.on("GET", &format!("/containers/{}/json", rows()[1].id), Behaviour::error(404, "No such"));
    let report = look(&host).expect_exit(0).json();
    assert_eq!(statuses(&report), ["first: idle", "third: idle"]);
}

#[test]
fn an_inspection_that_answers_for_another_container_is_not_believed() {
    let (host, _store) = host();
    let [first, second, _] = rows();
    let other = Behaviour::json(&first.inspect());
    host.engine.on("GET", &format!("/containers/{}/json", second.id), other);
    let report = look(&host).json();
    let named = statuses(&report);
    assert_eq!(named.iter().filter(|each| each.starts_with("first")).count(), 1, "{named:?}");
    assert!(!named.contains(&"second: idle".to_owned()), "{named:?}");
}

#[rstest]
#[case::fails(Behaviour::error(500, "no such driver"), "no such driver")]
#[case::hangs(Behaviour::HangBeforeHeaders, "no complete answer within")]
#[case::gone(Behaviour::error(404, "No such image"), "no longer has it")]
fn an_image_that_cannot_be_asked_for_costs_the_containers_made_from_it(
    #[case] fault: Behaviour,
    #[case] cause: &str,
) {
    let (host, _store) = host();
    let [first, second, third] = rows();
    let second = second.image("other:latest", format!("sha256:{}", "b".repeat(64)));
    host.engine.containers(&[first.clone(), second, third]);
    host.engine.on("GET", "/images/*/json", fault);
    for name in ["sandkeeper-test:latest", first.listed()["ImageID"].as_str().unwrap()] {
        host.engine.on("GET", &format!("/images/{name}/json"), Behaviour::json(&plain_image(&first)));
    }
    let report = look(&host).expect_exit(4).json();
    assert_eq!(statuses(&report), ["first: idle", "second: unknown", "third: idle"], "{report:#}");
    assert!(reasons(container(&report, "second")).contains(cause), "{report:#}");
}

#[test]
fn everything_that_hangs_at_once_still_ends_in_time() {
    let (host, _store) = host();
    host.engine.on("GET", "/containers/*/json", Behaviour::HangBeforeHeaders);
    host.engine.on("GET", "/images/*/json", Behaviour::HangBeforeHeaders);
    let report = look(&host).expect_exit(4).json();
    assert_eq!(report["summary"]["unknown"], 3, "{report:#}");
}

#[test]
fn many_commands_that_hang_in_one_container_cost_one_container() {
    let (host, _store) = host();
    let [first, second, third] = rows();
    let second = (0..9).fold(second, |row, number| row.exec(format!("{number}").repeat(64)));
    host.engine.containers(&[first, second, third]);
    let slow = Gate::default();
    host.engine.on("GET", "/exec/*/json", Behaviour::Held(slow, Box::new(Behaviour::empty(404))));
    let report = look(&host).expect_exit(4).json();
    assert_eq!(statuses(&report), ["first: idle", "second: unknown", "third: idle"], "{report:#}");
}
