//! A keeper that is killed in the middle, on real engines: whoever comes next says exactly how far it had come and what
//! the engine says now, once, and repeats nothing by itself.

use crate::support::engine::RealEngine;
use crate::support::kept::KeptHost;
use crate::support::proxy::Proxy;
use crate::support::scripted::Gate;
use crate::support::{on_both_engines, wait_until};

on_both_engines![
    killed_before_anything_was_done,
    killed_at_the_last_look_before_the_stop,
    killed_before_the_stop_reached_the_engine,
    killed_after_the_engine_had_stopped_it,
    killed_between_the_stop_and_the_removal,
    killed_after_a_stop_that_was_all_that_was_asked_for,
    killed_before_the_removal_reached_the_engine,
    killed_after_the_engine_had_removed_it,
    killed_before_the_removal_was_confirmed,
    killed_before_a_rescue_reached_the_engine,
    killed_with_many_in_flight,
];

/// What the engine has heard of the request by the time the keeper is killed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Hold {
    Nothing,
    Everything,
}

/// Which request the keeper is killed at, and what the next one must say.
struct Crash {
    method: &'static str,
    path: &'static str,
    nth: usize,
    heard: Hold,
    reached: &'static str,
    now: &'static str,
    /// How often each kind of request reached the proxy by then: stop, delete, start.
    mutations: [usize; 3],
}

fn crash(engine: &RealEngine, crash: &Crash) {
    let proxy = Proxy::before(engine.socket());
    let host = KeptHost::through(engine, &proxy.endpoint());
    let id = host.outdated("atlas").running();
    let bystander = host.current("bystander").running();
    host.store.session("s1", "atlas").ended_ago(60).insert();
    if crash.path == "start" {
        let path = host.store.path().to_owned();
        proxy.when("POST", &format!("/containers/{id}/stop")).before(move |_| {
            let connection = rusqlite::Connection::open(&path).unwrap();
            connection.execute_batch("UPDATE sessions SET status = 'active', ended_at = NULL").unwrap();
        });
    }
    let path = format!("/containers/{id}{}{}", if crash.path.is_empty() { "" } else { "/" }, crash.path);
    let request = proxy.when(crash.method, &path).nth(crash.nth);
    let _gate = match crash.heard {
        Hold::Nothing => request.hold(),
        Hold::Everything => request.hold_answer(),
    };
    let keeper = host.acting("reconcile", &[]).spawn();
    proxy.wait_for(crash.method, &path, crash.nth);
    if crash.heard == Hold::Everything {
        wait_until("the engine has done it", || engine.state(&id).is_none_or(|state| state == "exited"));
    }
    keeper.signal("KILL");
    drop(keeper);
    proxy.forget_rules();
    if crash.path == "start" {
        host.store.end("s1");
    }

    host.sandkeeper(["log"]).run().expect_exit(0).expect_stdout("unfinished");
    let before = proxy.mutations().len();
    let name = host.scene.name("bystander");
    let next = host.sandkeeper(["undrain", &name]).run().expect_exit(0);
    let told: Vec<&str> = next.stderr.lines().collect();
    let expected = format!("was interrupted {}; the engine says it is {}", crash.reached, crash.now);
    assert!(
        told.len() == 1 && told[0].contains(&host.scene.name("atlas")) && told[0].ends_with(&expected),
        "not told that it {expected:?}: {next}"
    );
    let again = host.sandkeeper(["undrain", &name]).run().expect_exit(0);
    assert_eq!(again.stderr, "", "it was told twice");
    assert_eq!(proxy.mutations().len(), before, "something was repeated: {:?}", proxy.mutations());
    let log = host.sandkeeper(["log"]).run().expect_exit(0);
    assert!(log.stdout.contains(&format!("interrupted {}", crash.reached)), "{log}");
    let count = |method, path: &str| proxy.count(method, &format!("/containers/{id}{path}"));
    let sent = [count("POST", "/stop"), count("DELETE", ""), count("POST", "/start")];
    assert_eq!(sent, crash.mutations, "stops, removals and starts");

    let finished = host.reconcile(&[]).expect_exit(0);
    assert_eq!(finished.stderr, "", "it was told again");
    assert!(!host.exists(&id) && host.exists(&bystander), "{finished}");
}

fn killed_before_anything_was_done(engine: &RealEngine) {
    let proxy = Proxy::before(engine.socket());
    let host = KeptHost::through(engine, &proxy.endpoint());
    let ids = ["first", "second"].map(|name| host.outdated(name).running());
    host.store.session("s1", "bystander").insert();
    host.current("bystander").running();
    let _gate = proxy.when("POST", "/containers/*").hold();
    let keeper = host.acting("reconcile", &["--concurrency", "1"]).spawn();
    proxy.wait_for("POST", "/containers/*", 1);
    keeper.signal("KILL");
    drop(keeper);
    proxy.forget_rules();
    let next = host.sandkeeper(["undrain", &host.scene.name("bystander")]).run().expect_exit(0);
    let mut told: Vec<&str> = next
        .stderr
        .lines()
        .filter_map(|line| line.split_once("was interrupted "))
        .map(|(_, what)| what)
        .collect();
    told.sort_unstable();
    let now = "the engine says it is running now";
    let expected = ["before anything was done", "before its stop was confirmed"]
        .map(|reached| format!("{reached}; {now}"));
    assert_eq!(told, expected, "{next}");
    assert!(ids.iter().all(|id| engine.state(id).as_deref() == Some("running")));
    assert_eq!(proxy.mutations().len(), 1, "{:?}", proxy.mutations());
}

fn killed_at_the_last_look_before_the_stop(engine: &RealEngine) {
    let (reached, now) = ("before its stop was confirmed", "running now");
    let (path, nth, heard) = ("json", 2, Hold::Nothing);
    crash(engine, &Crash { method: "GET", path, nth, heard, reached, now, mutations: [0, 0, 0] });
}

fn killed_before_the_stop_reached_the_engine(engine: &RealEngine) {
    let (reached, now) = ("before its stop was confirmed", "running now");
    let (path, nth, heard) = ("stop", 1, Hold::Nothing);
    crash(engine, &Crash { method: "POST", path, nth, heard, reached, now, mutations: [1, 0, 0] });
}

fn killed_after_the_engine_had_stopped_it(engine: &RealEngine) {
    let (reached, now) = ("before its stop was confirmed", "exited now");
    let (path, nth, heard) = ("stop", 1, Hold::Everything);
    crash(engine, &Crash { method: "POST", path, nth, heard, reached, now, mutations: [1, 0, 0] });
}

fn killed_between_the_stop_and_the_removal(engine: &RealEngine) {
    let (reached, now) = ("before its removal was confirmed", "exited now");
    let (path, nth, heard) = ("json", 3, Hold::Nothing);
    crash(engine, &Crash { method: "GET", path, nth, heard, reached, now, mutations: [1, 0, 0] });
}

fn killed_after_a_stop_that_was_all_that_was_asked_for(engine: &RealEngine) {
    let proxy = Proxy::before(engine.socket());
    let host = KeptHost::through(engine, &proxy.endpoint());
    let id = host.current("atlas").running();
    host.store.session("s1", "atlas").insert();
    let name = host.scene.name("atlas");
    let path = format!("/containers/{id}/json");
    let _gate = proxy.when("GET", &path).nth(3).hold();
    let keeper = host.acting("stop", &[&name]).spawn();
    proxy.wait_for("GET", &path, 3);
    keeper.signal("KILL");
    drop(keeper);
    proxy.forget_rules();
    let next = host.sandkeeper(["undrain", &name]).run().expect_exit(0);
    let expected = "was interrupted after it was stopped; the engine says it is exited now";
    assert!(next.stderr.lines().count() == 1 && next.stderr.trim_end().ends_with(expected), "{next}");
    assert_eq!(proxy.mutations().len(), 1, "{:?}", proxy.mutations());
}

fn killed_before_the_removal_reached_the_engine(engine: &RealEngine) {
    let (reached, now) = ("before its removal was confirmed", "exited now");
    let (path, nth, heard) = ("", 1, Hold::Nothing);
    crash(engine, &Crash { method: "DELETE", path, nth, heard, reached, now, mutations: [1, 1, 0] });
}

fn killed_after_the_engine_had_removed_it(engine: &RealEngine) {
    let (reached, now) = ("before its removal was confirmed", "gone");
    let (path, nth, heard) = ("", 1, Hold::Everything);
    crash(engine, &Crash { method: "DELETE", path, nth, heard, reached, now, mutations: [1, 1, 0] });
}

fn killed_before_the_removal_was_confirmed(engine: &RealEngine) {
    let (reached, now) = ("before its removal was confirmed", "gone");
    let (path, nth, heard) = ("json", 4, Hold::Nothing);
    crash(engine, &Crash { method: "GET", path, nth, heard, reached, now, mutations: [1, 1, 0] });
}

fn killed_before_a_rescue_reached_the_engine(engine: &RealEngine) {
    let (reached, now) = ("before the start that undoes its stop was confirmed", "exited now");
    let (path, nth, heard) = ("start", 1, Hold::Nothing);
    crash(engine, &Crash { method: "POST", path, nth, heard, reached, now, mutations: [1, 0, 1] });
}

fn killed_with_many_in_flight(engine: &RealEngine) {
    let proxy = Proxy::before(engine.socket());
    let host = KeptHost::through(engine, &proxy.endpoint());
    let ids: Vec<String> = (0..12).map(|number| host.current(&format!("n{number}")).exited()).collect();
    host.store.session("s1", "bystander").insert();
    host.current("bystander").running();
    // One goes, the others wait at the engine's door.
    let _gates: Vec<Gate> = (2..=12).map(|nth| proxy.when("DELETE", "/*").nth(nth).hold()).collect();
    let keeper = host.acting("reconcile", &["--override-brake", "12"]).spawn();
    wait_until("one is removed and the others are on their way", || {
        proxy.count("DELETE", "/*") >= 5 && host.scene.containers().len() == 12
    });
    keeper.signal("KILL");
    drop(keeper);
    proxy.forget_rules();
    let next = host.sandkeeper(["undrain", &host.scene.name("bystander")]).run().expect_exit(0);
    let left = ids.iter().filter(|id| host.exists(id)).count();
    assert_eq!(left, 11);
    for id in ids.iter().filter(|id| host.exists(id)) {
        let lines: Vec<&str> = next.stderr.lines().filter(|line| line.contains(&id[..12])).collect();
        let named = lines.len() == 1 && lines[0].ends_with("the engine says it is exited now");
        assert!(named, "{id} is left half-done and not named once: {next}");
    }
    let finished = host.reconcile(&["--override-brake", "11"]).expect_exit(0);
    assert_eq!(finished.json()["summary"]["removed"], 11, "{finished}");
    assert_eq!(finished.stderr, "");
}
