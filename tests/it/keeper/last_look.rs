//! The last look before a step: the sessions come last, whoever was not shown is not ended, and two keepers never act at once.

use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use rusqlite::Connection;
use serde_json::{Value, json};

use crate::support::native::{Host, native_row};
use crate::support::rows::Row;
use crate::support::scripted::Behaviour;
use crate::support::simulated::SimHost;
use crate::support::stores::NativeStore;
use crate::support::wait_until;

/// Runs SQL on a session database, from whatever thread the engine serves on.
fn sql(store: &Path, statement: &str) {
    let connection = Connection::open(store).unwrap();
    connection.busy_timeout(crate::support::seconds(10)).unwrap();
    connection.execute_batch(statement).unwrap();
}

/// Something is answered, and from the given time on something happens right before.
fn happens_before(answer: &Value, time: usize, happening: impl Fn() + Send + Sync + 'static) -> Behaviour {
    let (answer, asked) = (answer.clone(), AtomicUsize::new(0));
    Behaviour::call(move |_| {
        if asked.fetch_add(1, Ordering::SeqCst) + 1 == time {
            happening();
        }
        Behaviour::json(&answer)
    })
}

fn result(report: &Value) -> (String, String) {
    let outcome = &report["outcomes"][0];
    (outcome["result"].as_str().unwrap().to_owned(), outcome["reason"].as_str().unwrap().to_owned())
}

#[test]
fn a_session_that_begins_while_the_engine_is_asked_is_seen_before_the_removal() {
    let row = native_row("box", "atlas").state("exited");
    let host = Host::with(std::slice::from_ref(&row));
    // Somebody may watch over it, so that the other containers are listed before each step.
    let watched = include_str!("../../../assets/profiles/native.toml")
        .replace("[rules]\n", "[rules]\ncompanions = [\"watcher-{name}\"]\n");
    host.home.write(".config/sandkeeper/profiles/native.toml", watched);
    let store = NativeStore::create(host.home.native_store());
    store.session("elsewhere", "elsewhere").ended_ago(5).insert();
    store.session("s1", "atlas").ended_ago(60).insert();
    let path = store.path().to_owned();
    let list = Value::Array(vec![Row::listed(&row)]);
    // The first list is the plan's, the second the check's.
    let begins = move || sql(&path, "UPDATE sessions SET status = 'active', ended_at = NULL WHERE id = 's1'");
    host.engine.on("GET", "/containers/json", happens_before(&list, 2, begins));
    host.engine.on("DELETE", "/containers/*", Behaviour::empty(204));
    let finished = host.sandkeeper(["rm", "--yes", "--json", "box"]).run();
    let (ended, reason) = result(&finished.json());
    assert!(ended == "skipped" && reason.contains("s1"), "{finished}");
    assert!(host.engine.count("GET", "/containers/json") >= 2, "the check lists the others");
    host.expect_only_looks();
}

#[test]
fn a_session_that_was_not_counted_is_not_ended_in_the_place_of_one_that_was() {
    let row = native_row("box", "atlas");
    let host = Host::with(std::slice::from_ref(&row));
    let store = NativeStore::create(host.home.native_store());
    store.session("s1", "atlas").status("active").insert();
    store.session("s2", "atlas").ended_ago(60).insert();
    let path = store.path().to_owned();
    let exchange = move || {
        sql(&path, "UPDATE sessions SET status = 'active', ended_at = NULL WHERE id = 's2'");
        sql(&path, "UPDATE sessions SET status = 'ended', ended_at = unixepoch() WHERE id = 's1'");
    };
    let inspect = format!("/containers/{}/json", row.id);
    host.engine.on("GET", &inspect, happens_before(&row.inspect(), 2, exchange));
    let finished = host.sandkeeper(["stop", "--yes", "--json", "--even-if-live", "1", "box"]).run();
    let (ended, reason) = result(&finished.json());
    assert!(ended == "skipped" && reason.contains("session s2 is live in it by now"), "{finished}");
    host.expect_only_looks();
}

#[test]
fn a_session_that_took_the_id_of_one_that_was_counted_is_not_ended_in_its_place() {
    let row = native_row("box", "atlas");
    let host = Host::with(std::slice::from_ref(&row));
    let store = NativeStore::create(host.home.native_store());
    store.session("s1", "atlas").status("active").insert();
    let path = store.path().to_owned();
    let exchange = move || sql(&path, "UPDATE sessions SET title = 'another', started_at = started_at + 60");
    let inspect = format!("/containers/{}/json", row.id);
    host.engine.on("GET", &inspect, happens_before(&row.inspect(), 2, exchange));
    let finished = host.sandkeeper(["stop", "--yes", "--json", "--even-if-live", "1", "box"]).run();
    let (ended, reason) = result(&finished.json());
    assert!(ended == "skipped" && reason.contains("session s1 is live in it by now"), "{finished}");
    host.expect_only_looks();
}

#[test]
fn a_counted_session_that_has_ended_meanwhile_is_no_reason_to_stay() {
    let row = native_row("box", "atlas").state("exited");
    let host = Host::with(std::slice::from_ref(&row));
    let store = NativeStore::create(host.home.native_store());
    for session in ["s1", "s2"] {
        store.session(session, "atlas").status("active").insert();
    }
    let path = store.path().to_owned();
    let ends =
        move || sql(&path, "UPDATE sessions SET status = 'ended', ended_at = unixepoch() WHERE id = 's2'");
    let inspect = format!("/containers/{}/json", row.id);
    // What does not run is inspected by the check alone.
    host.engine.on("GET", &inspect, happens_before(&row.inspect(), 1, ends));
    host.engine.on("DELETE", "/containers/*", Behaviour::empty(204));
    let _ = host.sandkeeper(["rm", "--force", "--yes", "--json", "--even-if-live", "2", "box"]).run();
    assert_eq!(host.engine.count("DELETE", "/*"), 1, "{:?}", host.engine.request_lines());
}

#[test]
fn a_command_is_not_ended_by_counting_sessions_and_is_named() {
    let host = SimHost::new();
    let id = host.active("box", "atlas");
    host.engine.act(|world, now| {
        let command = ["sleep", "100000"].map(str::to_owned).to_vec();
        let exec = world.create_exec(now, id.as_str(), command).unwrap();
        world.start_exec(now, &exec).unwrap();
    });
    for verb in [&["stop"][..], &["rm", "--force"]] {
        let arguments = [verb, &["--yes", "--json", "--even-if-live", "1", "box"]].concat();
        let finished = host.sandkeeper(&arguments).run().expect_exit(3);
        let (ended, reason) = result(&finished.json());
        assert_eq!(ended, "kept", "{finished}");
        assert!(reason.contains("1 live session in it, and 1 command (sleep) runs in it"), "{reason}");
    }
    assert_eq!(host.engine.mutations(), [""; 0]);
}

#[test]
fn two_users_never_act_on_one_engine_at_once() {
    let host = SimHost::frozen();
    host.sandbox("slow", "atlas").slow().placed();
    host.sandbox("other", "atlas").placed();
    let first = host.sandkeeper(&["rm", "--yes", "--json", "slow"]).spawn();
    wait_until("it was asked to stop", || {
        host.engine.requests().iter().any(|request| request.contains("/stop"))
    });
    let elsewhere = host.home.path().join("another-state");
    let other =
        host.sandkeeper(&["stop", "--yes", "--json", "other"]).env("XDG_STATE_HOME", &elsewhere).spawn();
    let holder = format!("pid {} (sandkeeper) of uid ", first.id());
    wait_until("it says who holds the lock", || other.errors_so_far().contains(&holder));
    assert_eq!(host.engine.mutations().len(), 1, "{:?}", host.engine.mutations());
    host.let_them_end();
    assert_eq!(result(&first.wait().json()).0, "removed");
    host.let_them_end();
    assert_eq!(result(&other.wait().json()).0, "stopped");
}

#[test]
fn a_stranger_who_holds_the_lock_is_named_and_nothing_is_done() {
    let host = SimHost::new();
    host.orphan("old", "atlas");
    let id = host.engine.look(|world, _| world.id().to_owned());
    let name = SocketAddr::from_abstract_name(format!("sandkeeper-keeper-{id}")).unwrap();
    let squatter = UnixListener::bind_addr(&name).unwrap();
    let refused = host.sandkeeper(&["rm", "--yes", "old"]).run().expect_exit(1);
    let holder = format!("pid {} (", std::process::id());
    assert!(refused.stderr.contains(&holder) && refused.stderr.contains("is no keeper"), "{refused}");
    assert_eq!(host.engine.mutations(), [""; 0]);
    drop(squatter);
    host.sandkeeper(&["rm", "--yes", "old"]).run().expect_exit(0);
}

#[test]
fn a_removal_that_cannot_be_journalled_is_told_and_is_no_success() {
    let host = SimHost::new();
    let id = host.orphan("old", "atlas");
    // The first command makes the state.
    host.sandkeeper(&["drain", "--yes", "old"]).run().expect_exit(0);
    host.sandkeeper(&["undrain", "old"]).run().expect_exit(0);
    let state = Connection::open(host.state_folder().join("state.db")).unwrap();
    state
        .execute_batch(
            "CREATE TRIGGER full BEFORE INSERT ON steps WHEN NEW.step = 'outcome' \
             BEGIN SELECT RAISE(ABORT, 'database or disk is full'); END;",
        )
        .unwrap();
    drop(state);
    let finished = host.sandkeeper(&["rm", "--yes", "--json", "old"]).run().expect_exit(3);
    let report = finished.json();
    assert_eq!(report["outcomes"][0]["journalled"], json!(false), "{finished}");
    let (ended, reason) = result(&report);
    assert!(ended == "removed" && reason.contains("it is not journalled"), "{finished}");
    assert_eq!(host.state(&id), None);
}

#[test]
#[ignore = "needs the right to mount: run tests/run"]
fn a_disk_that_fills_up_while_a_container_stops_keeps_nothing_out_of_the_journal() {
    let host = SimHost::frozen();
    let id = host.sandbox("slow", "atlas").slow().placed();
    let place = host.home.path().join("small");
    std::fs::create_dir_all(&place).unwrap();
    let mount = |arguments: &[&str]| {
        let done =
            std::process::Command::new(arguments[0]).args(&arguments[1..]).arg(&place).status().unwrap();
        assert!(done.success());
    };
    mount(&["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs"]);
    let running = host.sandkeeper(&["rm", "--yes", "--json", "slow"]).env("XDG_STATE_HOME", &place).spawn();
    wait_until("it was asked to stop", || {
        host.engine.requests().iter().any(|request| request.contains("/stop"))
    });
    // Every last byte.
    let mut filler = std::fs::File::create(place.join("filler")).unwrap();
    while std::io::Write::write(&mut filler, &[1; 4096]).is_ok_and(|written| written > 0) {}
    host.let_them_end();
    let finished = running.wait();
    drop(filler);
    std::fs::remove_file(place.join("filler")).unwrap();
    let log = host.sandkeeper(&["log"]).env("XDG_STATE_HOME", &place).run();
    mount(&["umount"]);
    let report = finished.json();
    assert_eq!(result(&report).0, "removed", "{finished}");
    assert_eq!(report["outcomes"][0]["journalled"], json!(true), "{finished}");
    log.expect_exit(0).expect_stdout("removed");
    assert_eq!(host.state(&id), None);
}
