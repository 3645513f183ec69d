//! What is lost is made again, adopted or started; what fails leaves things as they were.

use std::time::Duration;

use sandkeeper::domain::ContainerId;
use sandkeeper::engine::sim::{Fault, FaultRule, Placed, Program};
use serde_json::json;

use super::ground::{
    CANARY, bind, dashboard_with_a_loss, lasting, log, recreate, remove_behind_our_back, result, see, status,
};
use crate::support::simulated::SimHost;
use crate::support::terminal::Key;
use crate::support::wait_until;

#[test]
fn a_container_that_is_removed_from_outside_is_lost_and_made_again() {
    let host = SimHost::new();
    let id = lasting(&host, "atlas");
    see(&host);
    let before = host.engine.look(|world, _| {
        let container = world.find(id.as_str()).unwrap();
        (container.labels.clone(), container.image_id.clone())
    });
    remove_behind_our_back(&host, &id);

    let report = status(&host);
    let lost = &report["lost"][0];
    assert_eq!((&lost["container"], &lost["way_back"]), (&json!("atlas"), &json!("recreate")), "{report:#}");
    let reasons = lost["reasons"].to_string();
    assert!(reasons.contains("is live") && reasons.contains("last seen"), "{reasons}");

    let finished = recreate(&host, "atlas").expect_exit(0);
    let (ending, reason) = result(&finished.json());
    assert_eq!(ending, "recreated", "{finished}");
    assert!(reason.contains("what was written inside") && reason.contains("/scratch"), "{reason}");
    let after = host.engine.look(|world, _| {
        let container = world.find("atlas").unwrap();
        assert_ne!(container.id, id.as_str());
        assert_eq!(container.phase.word(), "running");
        (container.labels.clone(), container.image_id.clone())
    });
    assert_eq!(after, before);
    let inspected = host.sandkeeper(&["status", "--json"]).run().expect_exit(0).json();
    assert_eq!(inspected["lost"], json!([]), "{inspected:#}");
    assert_eq!(host.names(), ["atlas"]);
    assert!(log(&host).iter().any(|entry| entry["action"] == "recreate"), "it is in the journal");

    // And once more: what was made is recorded as well.
    remove_behind_our_back(
        &host,
        &ContainerId::parse(&host.engine.look(|w, _| w.find("atlas").unwrap().id.clone())).unwrap(),
    );
    assert_eq!(result(&recreate(&host, "atlas-session").expect_exit(0).json()).0, "recreated");
}

#[test]
fn what_is_made_again_is_no_newer_configuration() {
    let host = SimHost::new();
    host.store.session("s-1", "atlas").status("active").insert();
    let old = host.sandbox("atlas", "atlas").label("sandkeeper.config-hash", "old").sleeping().placed();
    let labels = [
        ("sandkeeper.managed", "true"),
        ("sandkeeper.workspace", "borealis"),
        ("sandkeeper.config-hash", "new"),
    ];
    host.place("current", &labels, "running", 120);
    host.store.session("s-2", "borealis").status("idle").insert();
    let outdated = || {
        let report = status(&host);
        let containers = report["containers"].as_array().unwrap();
        let outdated = containers.iter().filter(|container| container["outdated"] == true);
        outdated.map(|container| container["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(outdated(), ["atlas"]);
    see(&host);
    remove_behind_our_back(&host, &old);
    assert_eq!(result(&recreate(&host, "atlas").expect_exit(0).json()).0, "recreated");
    assert_eq!(outdated(), ["atlas"], "it is still the old one, although it was made last");
    // Nor when what was made again is made once more.
    let again = ContainerId::parse(&host.engine.look(|w, _| w.find("atlas").unwrap().id.clone())).unwrap();
    remove_behind_our_back(&host, &again);
    assert_eq!(result(&recreate(&host, "atlas").expect_exit(0).json()).0, "recreated");
    assert_eq!(outdated(), ["atlas"]);
}

#[test]
fn when_somebody_was_faster_his_container_is_adopted_and_started() {
    let host = SimHost::new();
    let id = lasting(&host, "atlas");
    see(&host);
    let labels = host.engine.look(|world, _| world.find(id.as_str()).unwrap().labels.clone());
    let image = host.engine.look(|world, _| world.find(id.as_str()).unwrap().image.clone());
    remove_behind_our_back(&host, &id);
    let other = host.engine.act(|world, now| {
        world.place(Placed {
            name: "atlas-again".to_owned(),
            image,
            labels,
            command: vec!["sleep".to_owned(), "1000".to_owned()],
            program: Program::service(),
            host_config: json!({ "Binds": [bind(&host)] }).as_object().unwrap().clone(),
            state: "exited".to_owned(),
            created_at: now,
            ..Placed::default()
        })
    });
    let finished = recreate(&host, "atlas").expect_exit(0);
    let (ending, reason) = result(&finished.json());
    assert_eq!(ending, "adopted", "{finished}");
    assert!(reason.contains("atlas-again"), "{reason}");
    assert_eq!(host.names(), ["atlas-again"]);
    let state = host.engine.look(|world, _| world.find(&other).unwrap().phase.word().to_owned());
    assert_eq!(state, "running");
}

#[test]
fn what_an_interrupted_attempt_has_made_is_taken_up_and_gets_the_name() {
    let host = SimHost::new();
    let id = lasting(&host, "atlas");
    see(&host);
    let labels = host.engine.look(|world, _| world.find(id.as_str()).unwrap().labels.clone());
    remove_behind_our_back(&host, &id);
    host.engine.act(|world, now| {
        world.place(Placed {
            name: format!("sandkeeper-recreate-{}-0badcafe", id.short()),
            image: "sandbox:latest".to_owned(),
            labels,
            command: vec!["sleep".to_owned(), "1000".to_owned()],
            program: Program::service(),
            state: "created".to_owned(),
            created_at: now,
            ..Placed::default()
        })
    });
    let finished = recreate(&host, "atlas").expect_exit(0);
    assert_eq!(result(&finished.json()).0, "adopted", "{finished}");
    assert_eq!(host.names(), ["atlas"]);
    assert_eq!(host.engine.look(|world, _| world.find("atlas").unwrap().phase.word().to_owned()), "running");
}

#[test]
fn whatever_fails_leaves_things_as_they_were() {
    let refuse = |status: u16, words: &str| Fault::Status(status, format!("{words} with {CANARY}"));
    let cases: Vec<(&str, Vec<FaultRule>, &str)> = vec![
        (
            "the image is gone",
            vec![FaultRule::on("GET", "/images/*/json", refuse(404, "no such image"))],
            "its image sandbox:latest is gone",
        ),
        (
            "the create fails",
            vec![FaultRule::on("POST", "/containers/create", refuse(500, "no space"))],
            "could not be made",
        ),
        (
            "the create is done and its answer lost",
            vec![FaultRule::on("POST", "/containers/create", Fault::CutConnection(0))],
            "could not be made",
        ),
        (
            "the start fails",
            vec![FaultRule::on("POST", "/containers/*/start", refuse(500, "no cgroup"))],
            "could not be started",
        ),
        (
            "the list fails",
            vec![FaultRule::on("GET", "/containers/json", Fault::Status(500, "no list".to_owned())).nth(2)],
            "cannot be asked",
        ),
        (
            "whether somebody was faster cannot be told once it is made",
            vec![FaultRule::on("GET", "/containers/json", Fault::Status(500, "no list".to_owned())).nth(4)],
            "cannot be asked",
        ),
    ];
    for (case, faults, expected) in cases {
        let host = SimHost::new();
        let id = lasting(&host, "atlas");
        let bystander = host.active("bystander", "elsewhere-too");
        see(&host);
        remove_behind_our_back(&host, &id);
        let before = host.names();
        for fault in faults {
            host.engine.fault(fault);
        }
        let finished = recreate(&host, "atlas");
        host.engine.recover();
        let (ending, reason) = result(&finished.json());
        assert_eq!(ending, "failed", "{case}: {finished}");
        assert!(reason.contains(expected), "{case}: {reason}");
        assert!(!finished.to_string().contains(CANARY), "{case}: {finished}");
        assert_eq!(host.names(), before, "{case}: something is left behind, or gone");
        assert_eq!(host.state(&bystander).as_deref(), Some("running"), "{case}");
        // Nothing of it stands in the way of the next attempt.
        assert_eq!(result(&recreate(&host, "atlas").expect_exit(0).json()).0, "recreated", "{case}");
    }
}

#[test]
fn a_name_that_somebody_else_has_taken_is_his() {
    let host = SimHost::new();
    let id = lasting(&host, "atlas");
    see(&host);
    remove_behind_our_back(&host, &id);
    let stranger = host.sandbox("atlas", "somewhere-else").sleeping().placed();
    let finished = host.sandkeeper(&["recreate", "--yes", "--json", id.as_str()]).run();
    let (ending, reason) = result(&finished.json());
    assert_eq!(ending, "failed", "{finished}");
    assert!(reason.contains("its name atlas is taken by another container"), "{reason}");
    assert_eq!(host.names(), ["atlas"]);
    assert_eq!(host.state(&stranger).as_deref(), Some("running"));
}

#[test]
fn what_goes_with_its_sessions_is_reported_and_not_brought_back() {
    let host = SimHost::new();
    let id = host.sandbox("passing", "atlas").sleeping().label("sandkeeper.persistent", "false").placed();
    host.store.session("s1", "atlas").container("passing").status("active").insert();
    see(&host);
    remove_behind_our_back(&host, &id);
    let report = status(&host);
    assert_eq!(report["lost"][0]["way_back"], "not_persistent", "{report:#}");
    let finished = recreate(&host, "passing").expect_exit(3);
    let (ending, reason) = result(&finished.json());
    assert_eq!(ending, "kept", "{finished}");
    assert!(reason.contains("goes with its sessions"), "{reason}");
    assert_eq!(host.names(), [""; 0]);
}

/// The one container that an attempt has made and not named yet.
fn unnamed(host: &SimHost) -> (String, String) {
    host.engine.look(|world, _| {
        let mut made = world.containers().filter(|it| it.name.starts_with("sandkeeper-recreate-"));
        let found = made.next().map(|it| (it.id.clone(), it.phase.word().to_owned()));
        assert!(made.next().is_none(), "more than one was made");
        found.unwrap_or_else(|| panic!("what was made is gone"))
    })
}

#[test]
fn what_runs_once_it_was_made_is_never_taken_away_again() {
    let refuse = || Fault::Status(500, format!("no, said {CANARY}"));
    let rename = || FaultRule::on("POST", "/containers/*/rename", refuse());
    let inspect = || FaultRule::on("GET", "/containers/*/json", refuse());
    // The look at what is lost and the one for its secrets come before anything is made.
    let cases = [
        ("the rename fails", vec![rename()], "could not be named atlas"),
        ("nothing can be inspected any more", vec![rename(), inspect()], "cannot be"),
    ];
    for (case, faults, expected) in cases {
        let host = SimHost::new();
        let id = lasting(&host, "atlas");
        see(&host);
        remove_behind_our_back(&host, &id);
        let blind = faults.len() > 1;
        let running = if blind {
            // It is made and started, and from then on the engine does not say how it is.
            host.engine.fault(FaultRule::on(
                "POST",
                "/containers/*/start",
                Fault::Latency(Duration::from_secs(8)),
            ));
            let running = host.sandkeeper(&["recreate", "--yes", "--json", "atlas"]).spawn();
            wait_until("it is being started", || {
                host.engine.requests().iter().any(|request| request.contains("/start"))
            });
            Some(running)
        } else {
            None
        };
        for fault in faults {
            host.engine.fault(fault);
        }
        let finished = match running {
            Some(running) => running.wait(),
            None => recreate(&host, "atlas"),
        };
        let (ending, reason) = result(&finished.json());
        assert_eq!(ending, "failed", "{case}: {finished}");
        assert!(reason.contains(expected) && reason.contains("stays"), "{case}: {reason}");
        assert!(!finished.to_string().contains(CANARY), "{case}: {finished}");
        let deleted = host.engine.mutations().into_iter().any(|request| request.contains("DELETE"));
        assert!(!deleted, "{case}: {:?}", host.engine.mutations());
        let (made, state) = unnamed(&host);
        assert_eq!(state, "running", "{case}");
        // The next attempt takes it up.
        host.engine.recover();
        assert_eq!(result(&recreate(&host, "atlas").expect_exit(0).json()).0, "adopted", "{case}");
        assert_eq!(host.names(), ["atlas"], "{case}");
        assert_eq!(host.engine.look(|world, _| world.find("atlas").unwrap().id.clone()), made, "{case}");
    }
}

#[test]
fn a_create_that_fails_and_cannot_be_looked_for_is_said_to_be_left_behind() {
    let host = SimHost::new();
    let id = lasting(&host, "atlas");
    see(&host);
    remove_behind_our_back(&host, &id);
    let no = || Fault::Status(500, "no".to_owned());
    host.engine.fault(FaultRule::on("POST", "/containers/create", no()));
    host.engine.fault(FaultRule::on("GET", "/containers/json", no()).nth(4));
    let finished = recreate(&host, "atlas");
    let (ending, reason) = result(&finished.json());
    assert_eq!(ending, "failed", "{finished}");
    assert!(reason.contains("could not be made") && reason.contains("may be left behind"), "{reason}");
}

#[test]
fn what_nobody_misses_any_more_is_not_made_again() {
    let host = SimHost::new();
    let terminal = dashboard_with_a_loss(&host);
    terminal.type_keys("jC").wait_for("Recreate: 1 to change");
    // While the question waits for its answer, the session gets another container, made in another way.
    host.sandbox("other", "atlas").label("made", "otherwise").sleeping().placed();
    terminal.type_keys("y").wait_for("1 skipped").press(Key::Enter).wait_gone("[ Close ]");
    assert_eq!(host.names(), ["other"]);
    terminal.quit();
}
