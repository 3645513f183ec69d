//! `status` on a real engine, beside a database that its owner keeps writing: every status, each with its reasons.

use serde_json::Value;

use crate::support::engine::{ContainerBuilder, RealEngine, Scene};
use crate::support::native::{container, evidence, reasons, statuses};
use crate::support::program::{Finished, Home};
use crate::support::stores::{NativeStore, Writer, fingerprint};
use crate::support::wait_for;

/// A sandbox of the built-in contract; its workspace is named like it.
fn sandbox<'scene>(scene: &'scene Scene<'_>, name: &str) -> ContainerBuilder<'scene> {
    scene.container(name).label("sandkeeper.managed", "true").label("sandkeeper.workspace", name)
}

fn status(home: &Home, engine: &RealEngine, arguments: &[&str]) -> Finished {
    let mut program = home.sandkeeper(["status", "--host", engine.endpoint(), "--min-age", "0s"]);
    for argument in arguments {
        program = program.arg(argument);
    }
    program.run()
}

/// A container's status is this, for this reason.
#[track_caller]
fn expect(report: &Value, name: &str, status: &str, reason: &str) {
    let found = container(report, name);
    assert_eq!(found["status"], status, "{found:#}");
    assert!(reasons(found).contains(reason), "{name} lacks the reason {reason:?}: {found:#}");
}

/// Puts one container on the engine for every way to every status, and its sessions into the store.
fn every_status(scene: &Scene<'_>, store: &NativeStore) {
    sandbox(scene, "live").running();
    store.session("s-live", "live").status("active").title("Fix the build").active_ago(12).insert();
    sandbox(scene, "live-paused").label("sandkeeper.session", "s-label").paused();
    store.session("s-label", "elsewhere").status("active").insert();
    // A row that says `active` is live, however old.
    sandbox(scene, "live-old").running();
    let old = store.session("s-old", "x").container("live-old").status("active");
    old.started_ago(100_000).active_ago(90_000).insert();

    sandbox(scene, "quiet").paused();
    store.session("s-quiet", "quiet").active_ago(120).insert();
    sandbox(scene, "quiet-created").created();
    store.session("s-created", "quiet-created").insert();
    sandbox(scene, "persistent-ended").label("sandkeeper.persistent", "true").exited();
    store.session("s-persistent", "persistent-ended").ended_ago(60).insert();

    sandbox(scene, "over").label("sandkeeper.persistent", "false").exited();
    store.session("s-over", "over").ended_ago(30).insert();
    sandbox(scene, "tired").label("sandkeeper.lifetime", "1s").running();
    store.session("s-tired", "tired").active_ago(600).insert();

    sandbox(scene, "nobody-created").created();
    sandbox(scene, "nobody-running").running();
    sandbox(scene, "nobody-paused").paused();
    sandbox(scene, "nobody-exited").exited();

    store.session("s-lost", "gone").container("gone").status("active").insert();
    store.session("s-lost-quiet", "gone").container("f".repeat(64)).insert();
    store.session("s-not-lost", "gone").container("gone").ended_ago(60).insert();

    scene.image("forged:latest", &[("sandkeeper.managed", "true"), ("sandkeeper.workspace", "forged")]);
    scene.container("forged").image("forged:latest").running();
    sandbox(scene, "odd-lifetime").label("sandkeeper.lifetime", "soon").running();
    store.session("s-odd", "odd-lifetime").insert();

    // Nobody's business.
    scene.container("unlabelled").running();
    scene.container("foreign").label("com.example.app", "web").exited();
    scene
        .container("not-managed")
        .label("sandkeeper.managed", "false")
        .label("sandkeeper.workspace", "live")
        .running();
    scene.container("half-parachute").label("app", "parachute").running();
    scene.container("parachute-ws-half").label("workspace", "half").running();
}

/// The report once the short-lived one has been quiet for long enough.
fn settled(home: &Home, engine: &RealEngine) -> Value {
    wait_for("`tired` is past its lifetime", || {
        let report = status(home, engine, &["--json"]).expect_exit(0).json();
        (container(&report, "tired")["status"] == "stale").then_some(report)
    })
}

#[test]
#[ignore = "needs a Docker engine: run tests/run"]
fn every_status_appears_with_its_reasons_beside_a_database_in_use() {
    let engine = RealEngine::docker().exclusive();
    let scene = engine.scene();
    let home = Home::new();
    let store = NativeStore::create(home.native_store());
    every_status(&scene, &store);
    let busy = sandbox(&scene, "busy").running();
    store.session("s-busy", "busy").active_ago(3000).insert();
    let exec = scene.exec(&busy);

    let writer = Writer::start(store.path());
    let report = settled(&home, &engine);
    expect(&report, "live", "active", "session s-live (beat");
    expect(&report, "live", "active", "is live, last activity ");
    expect(&report, "live-paused", "active", "session s-label");
    expect(&report, "live-old", "active", "last activity 1d ago");
    expect(&report, "busy", "active", "1 command running in it (exec)");
    expect(&report, "quiet", "idle", "quiet for ");
    expect(&report, "quiet-created", "idle", "1 session claims it, none is live");
    expect(&report, "persistent-ended", "idle", "1 session claims it, none is live, all ended");
    expect(&report, "over", "stale", "not persistent, and its session has ended");
    expect(&report, "tired", "stale", "longer than its lifetime of 1s");
    expect(&report, "nobody-created", "orphaned", "no session claims it; created");
    expect(&report, "nobody-running", "orphaned", "no session claims it; running");
    expect(&report, "nobody-paused", "orphaned", "no session claims it; paused");
    expect(&report, "nobody-exited", "orphaned", "no session claims it; exited");
    expect(&report, "forged", "unknown", "sandkeeper.managed=true comes from its image forged:latest");
    expect(&report, "odd-lifetime", "unknown", "`soon` is not a length of time");
    let states: Vec<_> = ["quiet-created", "live", "quiet", "over"]
        .map(|name| container(&report, name)["state"].as_str().unwrap().to_owned())
        .into();
    assert_eq!(states, ["created", "running", "paused", "exited"]);

    let lost = report["lost"].as_array().unwrap();
    let who: Vec<_> = lost.iter().map(|each| each["session"].as_str().unwrap()).collect();
    assert_eq!(who, ["s-lost", "s-lost-quiet"]);
    assert!(reasons(&lost[0]).contains("it needs container gone, which is not there"), "{lost:#?}");
    assert_eq!(lost[0]["workspace"], "gone");

    // Nothing else is on the list, and the summary counts what is.
    assert_eq!(statuses(&report).len(), 15, "{:#?}", statuses(&report));
    let counted = ["active", "idle", "stale", "orphaned", "draining", "lost", "unknown"];
    let counts = counted.map(|word| report["summary"][word].as_u64().unwrap());
    assert_eq!(counts, [4, 3, 2, 4, 0, 2, 2], "{report:#}");
    for each in report["containers"].as_array().unwrap() {
        assert!(!reasons(each).is_empty(), "{each:#}");
        assert_eq!(each["id"].as_str().unwrap().len(), 64);
        assert_eq!(each["system"], "native");
        assert!(each["created_at"].as_str().unwrap().ends_with('Z'), "{each:#}");
    }

    // The writer was never in the way of the readers, nor they in its.
    writer.wait_for_writes(20);
    drop(writer);
    let before = fingerprint(store.path());
    status(&home, &engine, &["--json"]).expect_exit(0);
    status(&home, &engine, &[]).expect_exit(0);
    assert_eq!(fingerprint(store.path()), before, "the owner's database changed");

    exec.end();
    let report = status(&home, &engine, &["--json"]).expect_exit(0).json();
    expect(&report, "busy", "idle", "within its lifetime");
}

#[test]
#[ignore = "needs a Docker engine: run tests/run"]
fn the_json_has_the_promised_shape() {
    let engine = RealEngine::docker().exclusive();
    let scene = engine.scene();
    let home = Home::new();
    let store = NativeStore::create(home.native_store());
    let id = sandbox(&scene, "atlas").running();
    store.session("s1", "atlas").status("active").title("Plan the trip").active_ago(5).insert();
    let report = status(&home, &engine, &["--json"]).expect_exit(0).json();

    assert_eq!(report["host"]["endpoint"], engine.endpoint());
    assert!(report["host"]["engine"].as_str().unwrap().starts_with("Docker "), "{report:#}");
    assert_eq!(report["host"]["reachable"], true);
    let engine_source = evidence(&report, "engine");
    assert_eq!((&engine_source["ok"], &engine_source["error"]), (&true.into(), &Value::Null));
    assert_eq!(engine_source["system"], Value::Null);
    let source = evidence(&report, "sessions");
    assert_eq!(source["system"], "native");
    assert_eq!(source["path"], store.path().display().to_string());
    assert!(source["age_ms"].as_u64().unwrap() < 10_000);

    let found = container(&report, "atlas");
    assert_eq!(found["id"], id.as_str());
    assert_eq!(found["workspace"], "atlas");
    assert_eq!(found["outdated"], false);
    assert_eq!(found["image"], "sandkeeper-test:latest");
    let session = &found["sessions"][0];
    assert_eq!((&session["id"], &session["live"]), (&"s1".into(), &true.into()));
    assert_eq!(session["title"], "Plan the trip");
    assert!(session["last_activity_at"].as_str().unwrap().ends_with('Z'), "{session:#}");
}

#[test]
#[ignore = "needs a Docker engine: run tests/run"]
fn a_moved_image_tag_and_an_old_config_make_a_quiet_container_stale_and_a_live_one_outdated() {
    let engine = RealEngine::docker().exclusive();
    let scene = engine.scene();
    let home = Home::new();
    let store = NativeStore::create(home.native_store());
    scene.image("moving:latest", &[("build", "1")]);
    for (name, session) in [("drifted", "idle"), ("drifted-live", "active")] {
        sandbox(&scene, name).image("moving:latest").running();
        store.session(name, name).status(session).insert();
    }
    for (name, hash) in [("old-live", "111"), ("old", "111"), ("new", "222")] {
        sandbox(&scene, name).label("sandkeeper.config-hash", hash).running();
        store.session(name, name).status(if name == "old-live" { "active" } else { "idle" }).insert();
    }
    // A config that is only the newest container's ends nothing that an open session claims.
    for name in ["old-free", "old-over"] {
        sandbox(&scene, name).label("sandkeeper.config-hash", "111").running();
    }
    sandbox(&scene, "new-too").label("sandkeeper.config-hash", "222").running();
    store.session("old-over", "old-over").ended_ago(5).insert();
    let report = status(&home, &engine, &["--json"]).expect_exit(0).json();
    expect(&report, "drifted", "idle", "");
    assert_eq!(container(&report, "drifted")["image"], "moving:latest");
    scene.image("moving:latest", &[("build", "2")]);
    let report = status(&home, &engine, &["--json"]).expect_exit(0).json();
    expect(&report, "drifted", "stale", "moving:latest now names image ");
    expect(&report, "drifted-live", "active", "moving:latest now names image ");
    expect(&report, "old", "idle", "config 111 is not 222 (the newest container's)");
    expect(&report, "old-free", "stale", "config 111 is not 222 (the newest container's)");
    expect(&report, "old-over", "stale", "config 111 is not 222 (the newest container's)");
    expect(&report, "old-live", "active", "config 111 is not 222");
    expect(&report, "new", "idle", "");
    let outdated = |name: &str| container(&report, name)["outdated"].as_bool().unwrap();
    assert!(outdated("drifted") && outdated("drifted-live") && outdated("old") && outdated("old-live"));
    assert!(!outdated("new"));

    let report = status(&home, &engine, &["--json", "--expect-hash", "111"]).expect_exit(0).json();
    expect(&report, "old", "idle", "");
    expect(&report, "new", "stale", "config 222 is not 111 (the expected one)");
}

#[test]
#[ignore = "needs a Docker engine: run tests/run"]
fn two_installations_on_one_engine_are_unknown_until_one_is_named() {
    let engine = RealEngine::docker().exclusive();
    let scene = engine.scene();
    let home = Home::new();
    let store = NativeStore::create(home.native_store());
    for (name, instance) in [("mine", "gateway-a"), ("theirs", "gateway-b")] {
        sandbox(&scene, name).label("sandkeeper.instance", instance).exited();
    }
    store.session("s1", "mine").insert();
    let report = status(&home, &engine, &["--json"]).expect_exit(0).json();
    for name in ["mine", "theirs"] {
        expect(&report, name, "unknown", "several instances share this engine (gateway-a, gateway-b)");
    }
    let report = status(&home, &engine, &["--json", "--instance", "gateway-a"]).expect_exit(0).json();
    expect(&report, "mine", "idle", "");
    expect(&report, "theirs", "unknown", "belongs to instance gateway-b; ours is gateway-a");
}

#[test]
#[ignore = "needs a Docker engine: run tests/run"]
fn a_new_container_is_given_time_for_its_session_to_start() {
    let engine = RealEngine::docker().exclusive();
    let scene = engine.scene();
    let home = Home::new();
    let _store = NativeStore::create(home.native_store());
    sandbox(&scene, "fresh").created();
    let report = home.sandkeeper(["status", "--json", "--host", engine.endpoint()]).run();
    expect(&report.expect_exit(0).json(), "fresh", "idle", "within the grace of 1m");
    let report = status(&home, &engine, &["--json"]).expect_exit(0).json();
    expect(&report, "fresh", "orphaned", "no session claims it");
}

#[test]
#[ignore = "needs a Docker engine: run tests/run"]
fn the_table_is_grouped_by_workspace_and_plain_in_a_pipe() {
    let engine = RealEngine::docker().exclusive();
    let scene = engine.scene();
    let home = Home::new();
    let store = NativeStore::create(home.native_store());
    let in_workspace = |name: &str, workspace: &str| {
        scene.container(name).label("sandkeeper.managed", "true").label("sandkeeper.workspace", workspace)
    };
    in_workspace("box-1", "atlas").running();
    in_workspace("box-3", "borealis").exited();
    in_workspace("box-2", "atlas").exited();
    store.session("s1", "atlas").status("active").insert();
    store.session("s2", "atlas").container("box-9").status("active").insert();
    let finished = status(&home, &engine, &[]).expect_exit(0);
    assert!(!finished.stdout.contains(|c: char| c.is_control() && c != '\n'), "{finished}");
    let firsts: Vec<&str> =
        finished.stdout.lines().skip_while(|line| !line.starts_with("WORKSPACE")).collect();
    let words: Vec<&str> = firsts.iter().map(|line| line.split_whitespace().next().unwrap()).collect();
    assert_eq!(words, ["WORKSPACE", "atlas", "box-1", "box-2", "box-9", "borealis", "box-3"], "{finished}");
    assert!(firsts.iter().all(|line| line.trim_end() == *line), "no trailing blanks: {finished}");
    let column = firsts[0].find("WHY").unwrap();
    let why = firsts[2].char_indices().map(|(at, _)| at).nth(column).map(|at| &firsts[2][at..]);
    assert!(why.unwrap().starts_with("session s"), "{finished}");
}

#[test]
#[ignore = "needs a Docker engine: run tests/run"]
fn without_its_database_every_container_is_unknown_and_nothing_is_lost() {
    let engine = RealEngine::docker().exclusive();
    let scene = engine.scene();
    let home = Home::new();
    sandbox(&scene, "one").running();
    sandbox(&scene, "two").exited();
    let report = status(&home, &engine, &["--json"]).expect_exit(4).json();
    assert_eq!(statuses(&report), ["one: unknown", "two: unknown"]);
    assert_eq!(report["summary"]["unknown"], 2);
}
