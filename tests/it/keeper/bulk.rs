//! Many containers at once, on real engines: failures that stop nobody else, several keepers, the brake, interruption, and
//! what is sent to the engine.

use crate::support::engine::RealEngine;
use crate::support::kept::KeptHost;
use crate::support::proxy::Proxy;
use crate::support::{on_both_engines, wait_until};

on_both_engines![
    of_a_hundred_containers_ten_fail_with_their_causes_and_ninety_go,
    only_rm_force_forces_and_nothing_removes_volumes,
    two_keepers_with_one_state_take_turns,
    two_keepers_who_do_not_know_of_each_other_report_no_false_errors,
    a_database_that_claims_nothing_brakes_bulk_until_the_exact_number_is_named,
    the_brake_does_not_stand_in_the_way_of_a_container_that_is_named,
    an_interrupt_finishes_what_has_begun_and_begins_nothing_new,
    a_hang_up_does_not_abandon_a_stop,
    containers_that_ignore_a_stop_are_waited_for_side_by_side,
];

fn raced(engine: &RealEngine) -> (Proxy, KeptHost<'_>) {
    let proxy = Proxy::before(engine.socket());
    let host = KeptHost::through(engine, &proxy.endpoint());
    (proxy, host)
}

fn of_a_hundred_containers_ten_fail_with_their_causes_and_ninety_go(engine: &RealEngine) {
    let (proxy, host) = raced(engine);
    let ids: Vec<String> = (0..100).map(|number| host.current(&format!("n{number}")).created()).collect();
    for (index, id) in ids[..10].iter().enumerate() {
        let removal = proxy.when("DELETE", &format!("/containers/{id}"));
        match index {
            0..4 => removal.answer(500, "driver failed"),
            4..7 => removal.answer(409, "removal is in conflict"),
            _ => removal.cut(),
        }
    }
    let finished = host.reconcile(&["--override-brake", "100"]).expect_exit(3);
    let report = finished.json();
    let summary = &report["summary"];
    assert_eq!((&summary["removed"], &summary["failed"]), (&90.into(), &10.into()), "{finished}");
    let causes =
        ["driver failed; it is created now", "removal is in conflict; it is created now", "connection"];
    for (index, id) in ids.iter().enumerate() {
        let outcome = report["outcomes"].as_array().unwrap().iter().find(|each| each["id"] == id.as_str());
        let outcome = outcome.unwrap_or_else(|| panic!("no outcome for {id}"));
        let reason = outcome["reason"].as_str().unwrap();
        match index {
            0..4 => assert!(reason.contains(causes[0]), "{reason}"),
            4..7 => assert!(reason.contains(causes[1]), "{reason}"),
            7..10 => assert!(reason.contains(causes[2]), "{reason}"),
            _ => assert_eq!(outcome["result"], "removed", "{reason}"),
        }
        assert_eq!(outcome["result"] == "failed", index < 10, "{reason}");
    }
    assert_eq!(host.scene.containers().len(), 10);
    assert_eq!(proxy.count("DELETE", "/*"), 100, "each was tried once");
    proxy.expect_careful_mutations();
}

fn only_rm_force_forces_and_nothing_removes_volumes(engine: &RealEngine) {
    let (proxy, host) = raced(engine);
    let gently = host.current("gently").option("--volume=/data").running();
    let forced = host.current("forced").option("--volume=/data").running();
    let paused = host.current("paused").option("--volume=/data").paused();
    let volume_of = |id: &String| engine.inspect(id)["Mounts"][0]["Name"].as_str().unwrap().to_owned();
    let volumes = [&gently, &forced, &paused].map(volume_of);
    host.acting("rm", &[&host.scene.name("gently"), &host.scene.name("paused")]).run().expect_exit(0);
    proxy.expect_careful_mutations();
    host.acting("rm", &["--force", &host.scene.name("forced")]).run().expect_exit(0);
    let forcing: Vec<String> = proxy
        .mutations()
        .iter()
        .filter(|request| request.query("force").is_some_and(|value| value != "false"))
        .map(|request| format!("{} {} v={:?}", request.method, request.path, request.query("v")))
        .collect();
    let expected = format!("DELETE /containers/{forced} v=Some(\"false\")");
    assert_eq!(forcing, [expected]);
    assert!(!host.exists(&gently) && !host.exists(&forced));
    let left = engine.cli(&["volume", "ls", "--quiet"]);
    for volume in volumes {
        assert!(left.lines().any(|each| each == volume), "{volume} is gone; left are: {left}");
        engine.cli(&["volume", "rm", &volume]);
    }
}

fn two_keepers_with_one_state_take_turns(engine: &RealEngine) {
    let (proxy, host) = raced(engine);
    let ids: Vec<String> = (0..50).map(|number| host.current(&format!("n{number}")).created()).collect();
    let arguments = ["--override-brake", "50"];
    let keepers =
        [host.acting("reconcile", &arguments).spawn(), host.acting("reconcile", &arguments).spawn()];
    let finished = keepers.map(|keeper| keeper.wait().expect_exit(0));
    let removed: u64 = finished.iter().map(|each| each.json()["summary"]["removed"].as_u64().unwrap()).sum();
    assert_eq!(removed, 50, "{} {}", finished[0], finished[1]);
    let there = host.scene.containers();
    for id in &ids {
        assert_eq!(proxy.count("DELETE", &format!("/containers/{id}")), 1, "{id} was not removed once");
        assert!(!there.contains(id));
    }
}

fn two_keepers_who_do_not_know_of_each_other_report_no_false_errors(engine: &RealEngine) {
    let (proxy, host) = raced(engine);
    let elsewhere = crate::support::program::Home::new();
    let ids: Vec<String> = (0..12)
        .map(|number| {
            let sandbox = host.outdated(&format!("n{number}"));
            if number % 3 == 0 { sandbox.running() } else { sandbox.exited() }
        })
        .collect();
    let keepers = [elsewhere.state(), host.home.state()].map(|state| {
        host.acting("reconcile", &["--override-brake", "12"]).env("XDG_STATE_HOME", state).spawn()
    });
    for finished in keepers.map(|keeper| keeper.wait()) {
        let report = finished.json();
        for outcome in report["outcomes"].as_array().unwrap() {
            let result = outcome["result"].as_str().unwrap();
            // Who finds that the other has begun with one leaves it to him.
            let left = ["removed", "already_gone", "skipped", "kept"];
            assert!(left.contains(&result), "{outcome} in {finished}");
        }
    }
    assert!(ids.iter().all(|id| !host.exists(id)));
    proxy.expect_careful_mutations();
}

fn a_database_that_claims_nothing_brakes_bulk_until_the_exact_number_is_named(engine: &RealEngine) {
    let (proxy, host) = raced(engine);
    for number in 0..7 {
        host.current(&format!("n{number}")).exited();
    }
    for empty in [false, true] {
        if empty {
            host.store.execute("DELETE FROM sessions");
        }
        for wrong in [&[][..], &["--override-brake", "6"], &["--override-brake", "8"]] {
            let refused = host.reconcile(wrong).expect_exit(4);
            let report = refused.json();
            let reason = report["brake"]["reason"].as_str().unwrap_or_default();
            assert!(
                reason.contains("7 of 7 native containers") && reason.contains("wrong database"),
                "{refused}"
            );
            assert_eq!(report["summary"]["kept"], 7, "{refused}");
        }
    }
    let explained = host.sandkeeper(["reconcile", "--yes"]).run().expect_exit(4);
    explained.expect_stdout("wrong database").expect_stdout("--override-brake 7");
    assert!(proxy.mutations().is_empty());
    let finished = host.reconcile(&["--override-brake", "7"]).expect_exit(0);
    assert_eq!(finished.json()["summary"]["removed"], 7, "{finished}");
}

fn the_brake_does_not_stand_in_the_way_of_a_container_that_is_named(engine: &RealEngine) {
    let host = KeptHost::on(engine);
    let ids: Vec<String> = (0..7).map(|number| host.current(&format!("n{number}")).exited()).collect();
    host.acting("rm", &[&host.scene.name("n3")]).run().expect_exit(0);
    assert!(!host.exists(&ids[3]));
    assert_eq!(host.scene.containers().len(), 6);
}

fn an_interrupt_finishes_what_has_begun_and_begins_nothing_new(engine: &RealEngine) {
    for (signal, json) in [("INT", false), ("TERM", true)] {
        let (proxy, host) = raced(engine);
        let first = host.outdated("a").running();
        let second = host.outdated("b").running();
        let run = host.started_at(&second);
        let gate = proxy.when("POST", &format!("/containers/{first}/stop")).hold();
        let mut arguments = vec!["reconcile", "--yes", "--grace", "2s", "--concurrency", "1"];
        if json {
            arguments.push("--json");
        }
        let keeper = host.sandkeeper(arguments).spawn();
        proxy.wait_for("POST", "/*", 1);
        keeper.signal(signal);
        let told = |line: &str| line.contains("nothing new is begun");
        let explained = |line: &str| line.contains("a stop that is dropped half-way");
        if json {
            wait_until("it says so", || told(&keeper.errors_so_far()));
            keeper.signal(signal);
            wait_until("it explains", || explained(&keeper.errors_so_far()));
        } else {
            keeper.line_where("that it ends", told);
            keeper.signal(signal);
            keeper.line_where("why it waits", explained);
        }
        gate.open();
        let finished = keeper.wait().expect_exit(3);
        assert!(proxy.abandoned().is_empty(), "{:?}", proxy.abandoned());
        assert!(!host.exists(&first), "what had begun was not finished: {finished}");
        assert_eq!(host.started_at(&second), run);
        assert_eq!(engine.state(&second).as_deref(), Some("running"));
        assert_eq!(proxy.count("POST", &format!("/containers/{second}/stop")), 0, "{finished}");
        if json {
            let report = finished.json();
            assert_eq!(report["interrupted"], true, "{finished}");
            host.expect_result(&finished, "b", "skipped", "interrupted before it began");
        }
    }
}

fn a_hang_up_does_not_abandon_a_stop(engine: &RealEngine) {
    let (proxy, host) = raced(engine);
    let id = host.outdated("atlas").running();
    let gate = proxy.when("POST", &format!("/containers/{id}/stop")).hold();
    let keeper = host.acting("reconcile", &[]).spawn();
    proxy.wait_for("POST", "/*", 1);
    keeper.signal("HUP");
    wait_until("it says so", || keeper.errors_so_far().contains("nothing new is begun"));
    gate.open();
    keeper.wait().expect_exit(3);
    assert!(proxy.abandoned().is_empty(), "{:?}", proxy.abandoned());
    assert!(!host.exists(&id));
}

fn containers_that_ignore_a_stop_are_waited_for_side_by_side(engine: &RealEngine) {
    let (proxy, host) = raced(engine);
    for number in 0..10 {
        host.outdated(&format!("n{number}")).script("trap '' TERM; exec sleep 1000").running();
    }
    let gate = proxy.when("POST", "/*").hold();
    let keeper = host.acting("reconcile", &["--grace", "1s", "--override-brake", "10"]).spawn();
    // No stop is answered before all of them are asked for.
    proxy.wait_for("POST", "/*", 10);
    gate.open();
    let finished = keeper.wait().expect_exit(0);
    assert_eq!(finished.json()["summary"]["removed"], 10, "{finished}");
}
