//! What changes between planning and acting, and while acting, on real engines behind a proxy: whoever comes in time is
//! left alone, whoever comes during the stop gets the container back.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use crate::support::engine::{NETWORK, RealEngine};
use crate::support::gateway::Gateway;
use crate::support::kept::KeptHost;
use crate::support::on_both_engines;
use crate::support::proxy::Proxy;
use rusqlite::Connection;

on_both_engines![
    a_session_that_starts_after_planning_is_left_alone,
    a_command_that_starts_after_planning_is_left_alone,
    a_session_that_was_not_counted_is_not_ended_in_the_place_of_one_that_was,
    a_session_that_starts_during_the_stop_gets_its_container_back,
    a_session_that_starts_while_an_operator_stops_its_container_gets_it_back,
    a_drained_container_that_was_rescued_still_drains,
    a_session_that_starts_while_a_stop_is_cut_off_gets_its_container_back,
    a_session_that_starts_while_the_removal_fails_gets_its_container_back,
    a_container_restarted_after_planning_is_left_alone,
    an_exited_container_that_ran_again_after_planning_is_left_alone,
    a_new_container_under_the_old_name_is_left_alone,
    a_session_database_that_is_gone_from_the_start_removes_nothing,
    a_session_database_that_fails_half_way_removes_nothing_more,
    a_session_database_that_fails_during_the_stop_brings_the_container_back,
    a_session_database_replaced_after_planning_removes_nothing,
    a_gateway_that_restarts_during_the_stop_gets_its_container_back,
    a_stop_that_fails_is_reported_and_not_escalated,
    a_journal_that_fails_during_the_stop_keeps_the_container,
    an_engine_that_fails_after_the_stop_is_asked_to_start_the_container_again,
];

/// A host whose engine is reached through a proxy.
fn raced(engine: &RealEngine) -> (Proxy, KeptHost<'_>) {
    let proxy = Proxy::before(engine.socket());
    let host = KeptHost::through(engine, &proxy.endpoint());
    (proxy, host)
}

fn inspect(id: &str) -> String {
    format!("/containers/{id}/json")
}

fn stop(id: &str) -> String {
    format!("/containers/{id}/stop")
}

/// Runs SQL on the session database, from whatever thread the proxy serves on.
fn sql(store: &Path, statement: &str) {
    let connection = Connection::open(store).unwrap();
    connection.busy_timeout(crate::support::seconds(10)).unwrap();
    connection.execute_batch(statement).unwrap();
}

/// Makes a session live, later.
fn goes_live(
    host: &KeptHost<'_>,
    session: &str,
) -> impl Fn(&crate::support::scripted::Request) + Send + Sync + use<> {
    let path = host.store.path().to_owned();
    let statement = format!("UPDATE sessions SET status = 'active', ended_at = NULL WHERE id = '{session}'");
    move |_| sql(&path, &statement)
}

fn away(path: &Path) -> PathBuf {
    path.with_extension("away")
}

fn a_session_that_starts_after_planning_is_left_alone(engine: &RealEngine) {
    let (proxy, host) = raced(engine);
    let id = host.outdated("atlas").running();
    host.store.session("s1", "atlas").ended_ago(60).insert();
    // The first inspect is the plan's, the second the keeper's.
    proxy.when("GET", &inspect(&id)).nth(2).before(goes_live(&host, "s1"));
    let finished = host.reconcile(&[]).expect_exit(3);
    host.expect_result(&finished, "atlas", "skipped", "session s1 is live");
    assert!(proxy.mutations().is_empty(), "{:?}", proxy.mutations());
}

fn a_command_that_starts_after_planning_is_left_alone(engine: &RealEngine) {
    let (proxy, host) = raced(engine);
    let id = host.outdated("atlas").running();
    let (asked, target) = (engine.clone(), id.clone());
    proxy.when("GET", &inspect(&id)).nth(2).before(move |_| {
        asked.cli(&["exec", "--detach", &target, "sleep", "100"]);
    });
    let finished = host.reconcile(&[]).expect_exit(3);
    host.expect_result(&finished, "atlas", "skipped", "command");
    assert!(proxy.mutations().is_empty(), "{:?}", proxy.mutations());
}

fn a_session_that_was_not_counted_is_not_ended_in_the_place_of_one_that_was(engine: &RealEngine) {
    let (proxy, host) = raced(engine);
    let id = host.current("atlas").running();
    host.store.session("s1", "atlas").status("active").insert();
    host.store.session("s2", "atlas").ended_ago(60).insert();
    let (begins, path) = (goes_live(&host, "s2"), host.store.path().to_owned());
    proxy.when("GET", &inspect(&id)).nth(2).before(move |request| {
        begins(request);
        sql(&path, "UPDATE sessions SET status = 'ended', ended_at = unixepoch() WHERE id = 's1'");
    });
    let name = host.scene.name("atlas");
    let finished = host.acting("rm", &["--force", "--even-if-live", "1", &name]).run().expect_exit(3);
    host.expect_result(&finished, "atlas", "skipped", "session s2 is live in it by now");
    assert!(proxy.mutations().is_empty(), "{:?}", proxy.mutations());
}

fn a_session_that_starts_during_the_stop_gets_its_container_back(engine: &RealEngine) {
    let (proxy, host) = raced(engine);
    let id = host.outdated("atlas").running();
    host.store.session("s1", "atlas").ended_ago(60).insert();
    proxy.when("POST", &stop(&id)).before(goes_live(&host, "s1"));
    let finished = host.reconcile(&[]).expect_exit(3);
    host.expect_result(&finished, "atlas", "rescued", "session s1 is live");
    assert_eq!(engine.state(&id).as_deref(), Some("running"));
    assert_eq!(proxy.count("DELETE", "/*"), 0);
    host.sandkeeper(["log"]).run().expect_exit(0).expect_stdout("rescued");
    proxy.expect_careful_mutations();
}

fn a_session_that_starts_while_an_operator_stops_its_container_gets_it_back(engine: &RealEngine) {
    let (proxy, host) = raced(engine);
    let id = host.current("atlas").running();
    host.store.session("s1", "atlas").insert();
    proxy.when("POST", &stop(&id)).before(goes_live(&host, "s1"));
    let finished = host.acting("stop", &[&host.scene.name("atlas")]).run().expect_exit(3);
    host.expect_result(&finished, "atlas", "rescued", "session s1 is live");
    assert_eq!(engine.state(&id).as_deref(), Some("running"));
}

fn a_drained_container_that_was_rescued_still_drains(engine: &RealEngine) {
    let (proxy, host) = raced(engine);
    let id = host.outdated("atlas").running();
    host.store.session("s1", "atlas").status("active").insert();
    host.reconcile(&["--drain"]).expect_exit(0);
    host.store.end("s1");
    proxy.when("POST", &stop(&id)).nth(1).before(goes_live(&host, "s1"));
    let finished = host.reconcile(&[]).expect_exit(3);
    host.expect_result(&finished, "atlas", "rescued", "");
    host.sandkeeper(["may-start", "atlas"]).run().expect_exit(5);
    host.store.end("s1");
    host.expect_result(&host.reconcile(&[]).expect_exit(0), "atlas", "removed", "");
    host.sandkeeper(["may-start", "atlas"]).run().expect_exit(0);
}

fn a_session_that_starts_while_a_stop_is_cut_off_gets_its_container_back(engine: &RealEngine) {
    let (proxy, host) = raced(engine);
    let id = host.outdated("atlas").running();
    host.store.session("s1", "atlas").ended_ago(60).insert();
    // The engine stops it and cannot say so any more.
    proxy.when("POST", &stop(&id)).cut_answer();
    proxy.when("GET", &inspect(&id)).nth(3).before(goes_live(&host, "s1"));
    let finished = host.reconcile(&[]).expect_exit(3);
    host.expect_result(&finished, "atlas", "rescued", "session s1 is live");
    assert_eq!(engine.state(&id).as_deref(), Some("running"));
}

fn a_session_that_starts_while_the_removal_fails_gets_its_container_back(engine: &RealEngine) {
    let (proxy, host) = raced(engine);
    let id = host.outdated("atlas").running();
    host.store.session("s1", "atlas").ended_ago(60).insert();
    let path = host.store.path().to_owned();
    proxy.when("GET", &inspect(&id)).nth(4).before(move |_| {
        sql(&path, "UPDATE sessions SET status = 'active', ended_at = NULL WHERE id = 's1'");
    });
    proxy.when("DELETE", "/*").answer(500, "the disk is on fire");
    let finished = host.reconcile(&[]).expect_exit(3);
    host.expect_result(&finished, "atlas", "rescued", "session s1 is live");
    assert_eq!(engine.state(&id).as_deref(), Some("running"));
}

fn a_container_restarted_after_planning_is_left_alone(engine: &RealEngine) {
    let (proxy, host) = raced(engine);
    let id = host.outdated("atlas").running();
    let (asked, target) = (engine.clone(), id.clone());
    proxy.when("GET", &inspect(&id)).nth(2).before(move |_| {
        asked.cli(&["restart", "--time=0", &target]);
    });
    let finished = host.reconcile(&[]).expect_exit(3);
    host.expect_result(&finished, "atlas", "skipped", "started again");
    assert!(proxy.mutations().is_empty());
}

fn an_exited_container_that_ran_again_after_planning_is_left_alone(engine: &RealEngine) {
    let (proxy, host) = raced(engine);
    let id = host.current("atlas").exited();
    let (asked, target) = (engine.clone(), id.clone());
    proxy.when("GET", &inspect(&id)).nth(1).before(move |_| {
        asked.start(&target);
        asked.stop(&target);
    });
    let finished = host.reconcile(&[]).expect_exit(3);
    host.expect_result(&finished, "atlas", "skipped", "started again");
    assert!(host.exists(&id) && proxy.mutations().is_empty());
}

fn a_new_container_under_the_old_name_is_left_alone(engine: &RealEngine) {
    let (proxy, host) = raced(engine);
    let old = host.outdated("atlas").running();
    let (asked, target, name) = (engine.clone(), old.clone(), host.scene.name("atlas"));
    let new = Arc::new(Mutex::new(String::new()));
    let made = Arc::clone(&new);
    proxy.when("GET", &inspect(&old)).nth(2).before(move |_| {
        asked.cli(&["rename", &target, &format!("{name}-old")]);
        let labels = ["--label=sandkeeper.managed=true", "--label=sandkeeper.workspace=atlas"];
        let create = [
            &["create", "--network", NETWORK, "--name", &name],
            &labels[..],
            &[crate::support::engine::IMAGE, "true"],
        ];
        *made.lock().unwrap() = asked.cli(&create.concat());
        asked.cli(&["rm", "--force", &target]);
    });
    let finished = host.reconcile(&[]).expect_exit(0);
    host.expect_result(&finished, "atlas", "already_gone", "somebody else");
    let new = new.lock().unwrap().clone();
    assert!(host.exists(&new), "{finished}");
    assert!(proxy.mutations().is_empty());
    engine.cli(&["rm", "--force", &new]);
}

fn a_session_database_that_is_gone_from_the_start_removes_nothing(engine: &RealEngine) {
    let (proxy, host) = raced(engine);
    host.outdated("stale").running();
    host.current("orphan").exited();
    std::fs::rename(host.store.path(), away(host.store.path())).unwrap();
    let finished = host.reconcile(&["--include-running-orphans"]).expect_exit(4);
    host.expect_result(&finished, "stale", "kept", "");
    host.expect_result(&finished, "orphan", "kept", "");
    for forced in [&["rm"][..], &["rm", "--force"], &["stop"]] {
        let name = host.scene.name("stale");
        host.acting(forced[0], &[&forced[1..], &[name.as_str()]].concat()).run().expect_exit(4);
    }
    assert!(proxy.mutations().is_empty(), "{:?}", proxy.mutations());
}

fn a_session_database_that_fails_half_way_removes_nothing_more(engine: &RealEngine) {
    let (proxy, host) = raced(engine);
    let ids = ["a", "b", "c"].map(|name| host.current(name).exited());
    let path = host.store.path().to_owned();
    proxy.when("DELETE", "/*").nth(1).after(move |_| std::fs::rename(&path, away(&path)).unwrap());
    let finished = host.reconcile(&["--concurrency", "1"]).expect_exit(4);
    host.expect_result(&finished, "a", "removed", "");
    host.expect_result(&finished, "b", "skipped", "sessions.db");
    host.expect_result(&finished, "c", "skipped", "sessions.db");
    assert!(!host.exists(&ids[0]) && host.exists(&ids[1]) && host.exists(&ids[2]));
    assert_eq!(proxy.mutations().len(), 1);
}

fn a_session_database_that_fails_during_the_stop_brings_the_container_back(engine: &RealEngine) {
    let (proxy, host) = raced(engine);
    let id = host.outdated("atlas").running();
    let path = host.store.path().to_owned();
    proxy.when("POST", &stop(&id)).before(move |_| std::fs::rename(&path, away(&path)).unwrap());
    let finished = host.reconcile(&[]).expect_exit(4);
    host.expect_result(&finished, "atlas", "rescued", "sessions.db");
    assert_eq!(engine.state(&id).as_deref(), Some("running"));
    assert_eq!(proxy.count("DELETE", "/*"), 0);
}

fn a_session_database_replaced_after_planning_removes_nothing(engine: &RealEngine) {
    let (proxy, host) = raced(engine);
    let id = host.current("orphan").exited();
    let path = host.store.path().to_owned();
    proxy.when("GET", &inspect(&id)).nth(1).before(move |_| {
        std::fs::rename(&path, away(&path)).unwrap();
        std::fs::copy(away(&path), &path).unwrap();
    });
    let finished = host.reconcile(&[]).expect_exit(4);
    host.expect_result(&finished, "orphan", "skipped", "replaced");
    assert!(host.exists(&id) && proxy.mutations().is_empty());
}

fn a_gateway_that_restarts_during_the_stop_gets_its_container_back(engine: &RealEngine) {
    let (proxy, host) = raced(engine);
    let id = host.outdated("atlas").running();
    let path = host.home.path().join("gateway.db");
    let gateway = Arc::new(Gateway::start(&path));
    gateway.begin("s1", "atlas");
    gateway.end("s1");
    let owner = Arc::clone(&gateway);
    proxy.when("POST", &stop(&id)).before(move |_| {
        owner.restart();
        owner.begin("s2", "atlas");
    });
    let named = format!("native={}", path.display());
    let finished = host.reconcile(&["--db", &named]).expect_exit(3);
    host.expect_result(&finished, "atlas", "rescued", "session s2 is live");
    assert_eq!(engine.state(&id).as_deref(), Some("running"));
    assert_eq!(proxy.count("DELETE", "/*"), 0);
}

fn a_stop_that_fails_is_reported_and_not_escalated(engine: &RealEngine) {
    let (proxy, host) = raced(engine);
    let id = host.outdated("atlas").running();
    proxy.when("POST", &stop(&id)).answer(500, "cannot kill container");
    let finished = host.reconcile(&[]).expect_exit(3);
    host.expect_result(&finished, "atlas", "failed", "cannot kill container; it is running now");
    assert_eq!(engine.state(&id).as_deref(), Some("running"));
    assert_eq!(proxy.mutations().len(), 1, "{:?}", proxy.mutations());
}

fn a_journal_that_fails_during_the_stop_keeps_the_container(engine: &RealEngine) {
    let (proxy, host) = raced(engine);
    let id = host.outdated("atlas").running();
    let journal = host.home.state().join("sandkeeper/state.db");
    // Whoever holds the write lock longer than anyone waits for it is as good as a full disk.
    let held = Arc::new(Mutex::new(None));
    let holder = Arc::clone(&held);
    proxy.when("POST", &stop(&id)).before(move |_| {
        let connection = Connection::open(&journal).unwrap();
        connection.execute_batch("BEGIN IMMEDIATE").unwrap();
        *holder.lock().unwrap() = Some(connection);
    });
    let finished = host.reconcile(&[]).expect_exit(3);
    host.expect_result(&finished, "atlas", "failed", "not removed without a journal");
    assert_eq!(engine.state(&id).as_deref(), Some("exited"));
    assert_eq!(proxy.count("DELETE", "/*"), 0);
    drop(held.lock().unwrap().take());
}

fn an_engine_that_fails_after_the_stop_is_asked_to_start_the_container_again(engine: &RealEngine) {
    let (proxy, host) = raced(engine);
    let id = host.outdated("atlas").running();
    for nth in [3, 4] {
        proxy.when("GET", &inspect(&id)).nth(nth).answer(500, "out of memory");
    }
    let finished = host.reconcile(&[]).expect_exit(4);
    host.expect_result(&finished, "atlas", "rescued", "out of memory");
    assert_eq!(engine.state(&id).as_deref(), Some("running"));
    assert_eq!(proxy.count("DELETE", "/*"), 0);
}
