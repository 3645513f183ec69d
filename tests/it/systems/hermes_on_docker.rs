//! Hermes's sandboxes on a real engine: what lasts is kept for its lifetime, what does not goes with its session, and two
//! homes never judge each other's containers.

use crate::support::engine::RealEngine;
use crate::support::hermes::HermesHome;
use crate::support::native::{container, reasons};
use crate::support::proxy::Proxy;
use crate::support::stores::fingerprint;
use crate::support::systems::{SystemsHost, expect, expect_result};
use crate::support::wait_until;

/// The default home of the host's user.
fn home_of(host: &SystemsHost<'_>) -> HermesHome {
    HermesHome::create(host.home.path().join(".hermes"))
}

#[test]
#[ignore = "needs a Docker engine: run tests/run"]
fn a_lasting_container_is_kept_idle_for_its_lifetime_and_goes_after_it() {
    let engine = RealEngine::docker().exclusive();
    let host = SystemsHost::on(&engine);
    let home = home_of(&host);
    home.session("20260301_100000_aaaaaa", 40.0);
    home.end("20260301_100000_aaaaaa", "user_exit", 30.0);
    home.lifetime(3600);
    let id = home.lasting(&host.scene, "hermes-0a1b2c3d").running();
    let before = fingerprint(&home.database());

    let report = host.status(&[]);
    expect(&report, "hermes-0a1b2c3d", "idle", "within its lifetime of 1h");
    let found = container(&report, "hermes-0a1b2c3d");
    assert_eq!((&found["system"], &found["workspace"]), (&"hermes".into(), &"default".into()));
    assert_eq!(found["persistent"], true);
    let finished = host.reconcile(&[]).expect_exit(0);
    expect_result(&finished, "hermes-0a1b2c3d", "kept", "1 session claims it, none is live");

    // Its home's configuration decides; it began a moment ago, so a second is over soon.
    home.lifetime(1);
    wait_until("its lifetime is over", || {
        container(&host.status(&[]), "hermes-0a1b2c3d")["status"] == "stale"
    });
    expect(&host.status(&[]), "hermes-0a1b2c3d", "stale", "longer than its lifetime of 1s");
    let finished = host.reconcile(&[]).expect_exit(0);
    expect_result(&finished, "hermes-0a1b2c3d", "removed", "longer than its lifetime of 1s");
    assert!(!host.exists(&id));
    assert!(home.folder().join("sandboxes/docker/default/home").is_dir(), "its folders stay");
    assert_eq!(fingerprint(&home.database()), before);
}

#[test]
#[ignore = "needs a Docker engine: run tests/run"]
fn without_a_configuration_the_lifetime_is_five_minutes_and_a_broken_one_proves_nothing() {
    let engine = RealEngine::docker().exclusive();
    let host = SystemsHost::on(&engine);
    let home = home_of(&host);
    home.session("s1", 40.0);
    home.end("s1", "user_exit", 30.0);
    home.lasting(&host.scene, "hermes-1").running();
    expect(&host.status(&[]), "hermes-1", "idle", "within its lifetime of 5m");

    std::fs::write(home.folder().join("config.yaml"), "terminal: {lifetime_seconds: 900}\n").unwrap();
    let report = host.status_that_ends(4, &[]);
    expect(&report, "hermes-1", "unknown", "does not say how long its containers may be quiet");
    let finished = host.reconcile(&[]).expect_exit(4);
    expect_result(&finished, "hermes-1", "kept", "config.yaml");
}

#[test]
#[ignore = "needs a Docker engine: run tests/run"]
fn one_live_session_of_a_home_protects_the_container_they_share() {
    let engine = RealEngine::docker().exclusive();
    let host = SystemsHost::on(&engine);
    let home = home_of(&host);
    home.lifetime(1);
    for number in 0..5 {
        home.session(&format!("old-{number}"), 86_400.0);
        home.end(&format!("old-{number}"), "user_exit", 80_000.0);
    }
    home.session("leaked", 86_400.0);
    home.session("working", 7200.0);
    home.lease("working", 200.0);
    let id = home.lasting(&host.scene, "hermes-2").running();

    // A turn that may take its time counts, however quiet the session is.
    let report = host.status(&[]);
    expect(&report, "hermes-2", "active", "session working is live, last activity 2h ago");
    assert_eq!(container(&report, "hermes-2")["live_sessions"], 1);
    let finished = host.reconcile(&["--include-running-orphans"]).expect_exit(0);
    expect_result(&finished, "hermes-2", "kept", "session working is live");

    // A turn may be leased before its session is written down.
    home.lease("working", -1.0);
    home.lease("not-written-yet", 200.0);
    expect(&host.status(&[]), "hermes-2", "active", "session not-written-yet is live");
    home.session("not-written-yet", 7200.0);
    home.lease("not-written-yet", -1.0);

    // A row that never ended is not life for ever, and neither is a lease that has run out.
    home.lease("working", -1.0);
    wait_until("nothing but leaked rows are left", || {
        container(&host.status(&[]), "hermes-2")["status"] == "stale"
    });
    expect(&host.status(&[]), "hermes-2", "stale", "8 sessions claim it, none is live, 5 ended");
    expect_result(&host.reconcile(&[]).expect_exit(0), "hermes-2", "removed", "longer than its lifetime");
    assert!(!host.exists(&id));
}

#[test]
#[ignore = "needs a Docker engine: run tests/run"]
fn activity_is_the_newest_of_what_the_session_and_its_messages_say() {
    let engine = RealEngine::docker().exclusive();
    let host = SystemsHost::on(&engine);
    let home = home_of(&host);
    home.session("s1", 86_400.0);
    home.message("s1", 20.0);
    home.lasting(&host.scene, "hermes-3").running();
    expect(&host.status(&[]), "hermes-3", "active", "session s1 was active");

    // A time that cannot be read is not silence: milliseconds where seconds belong, text.
    home.execute("UPDATE messages SET timestamp = timestamp * 1000");
    let found = host.status_that_ends(4, &[]);
    expect(&found, "hermes-3", "unknown", "is not a plausible time in seconds");
    assert!(container(&found, "hermes-3")["live_sessions"].is_null(), "{found:#}");
    home.execute("DELETE FROM messages; UPDATE sessions SET last_activity_at = 'yesterday'");
    expect(&host.status_that_ends(4, &[]), "hermes-3", "unknown", "`yesterday` is not a plausible time");
    // One that was never written leaves it to the others.
    home.execute("UPDATE sessions SET last_activity_at = 0");
    home.message("s1", 20.0);
    expect(&host.status(&[]), "hermes-3", "active", "session s1 was active");
}

#[test]
#[ignore = "needs a Docker engine: run tests/run"]
fn a_passing_container_goes_when_its_session_has_ended_for_good() {
    let engine = RealEngine::docker().exclusive();
    let host = SystemsHost::on(&engine);
    let home = home_of(&host);
    let passing = |name: &str, task: &str| HermesHome::passing(&host.scene, name, task).running();
    home.session("ended", 40.0);
    home.end("ended", "user_exit", 30.0);
    home.session("busy", 10.0);
    home.session("closed", 40.0);
    home.end("closed", "agent_close", 30.0);
    // It went on twice; its container still has the first one's name.
    home.session("first", 7200.0);
    home.end("first", "compression", 3600.0);
    home.child("second", "first", 3600.0);
    home.end("second", "compression", 60.0);
    home.child("third", "second", 20.0);
    // A compression whose continuation never came.
    home.session("torn", 7200.0);
    home.end("torn", "compression", 7100.0);
    // The same, with a subagent that came to its end before.
    home.session("helped", 7200.0);
    home.child("helper", "helped", 7190.0);
    home.end("helper", "user_exit", 7150.0);
    home.end("helped", "compression", 7100.0);
    home.session("agent:main/x y", 40.0);
    home.end("agent:main/x y", "user_exit", 30.0);
    let ended = passing("hermes-ended", "ended");
    let odd = passing("hermes-odd", "agent_main_x_y");
    for (name, task) in
        [("busy", "busy"), ("closed", "closed"), ("first", "first"), ("torn", "torn"), ("helped", "helped")]
    {
        passing(&format!("hermes-{name}"), task);
    }
    let second = passing("hermes-second", "second");

    let report = host.status(&[]);
    expect(&report, "hermes-ended", "stale", "not persistent, and its session has ended");
    assert_eq!(container(&report, "hermes-ended")["persistent"], false);
    expect(&report, "hermes-odd", "stale", "not persistent, and its session has ended");
    expect(&report, "hermes-busy", "active", "session busy was active");
    expect(&report, "hermes-closed", "active", "session closed was active");
    expect(&report, "hermes-first", "active", "session first was active");
    expect(&report, "hermes-second", "active", "session second was active");
    expect(&report, "hermes-torn", "idle", "1 session claims it, none is live");
    expect(&report, "hermes-helped", "idle", "1 session claims it, none is live");

    // A turn is leased to the conversation's first session.
    home.end("third", "user_exit", 15.0);
    expect(&host.status(&[]), "hermes-second", "stale", "its session has ended");
    home.lease("first", 200.0);
    expect(&host.status(&[]), "hermes-second", "active", "session second is live");
    home.lease("first", -1.0);

    let finished = host.reconcile(&[]).expect_exit(0);
    for name in ["hermes-ended", "hermes-odd", "hermes-first", "hermes-second"] {
        expect_result(&finished, name, "removed", "has ended");
    }
    for name in ["hermes-busy", "hermes-closed", "hermes-torn", "hermes-helped"] {
        expect_result(&finished, name, "kept", "");
    }
    assert!(!host.exists(&ended) && !host.exists(&odd) && !host.exists(&second));
}

#[test]
#[ignore = "needs a Docker engine: run tests/run"]
fn two_homes_on_one_engine_never_judge_each_others_containers() {
    let engine = RealEngine::docker().exclusive();
    let host = SystemsHost::on(&engine);
    let ours = home_of(&host);
    let theirs = HermesHome::create(host.home.path().join("elsewhere/.hermes"));
    for (home, session) in [(&ours, "mine"), (&theirs, "yours")] {
        home.lifetime(1);
        home.session(session, 86_400.0);
        home.end(session, "user_exit", 80_000.0);
    }
    let own = ours.lasting(&host.scene, "hermes-ours").exited();
    let foreign = theirs.lasting(&host.scene, "hermes-theirs").exited();
    let passing = HermesHome::passing(&host.scene, "hermes-passing", "yours").exited();
    wait_until("the lifetime is over", || container(&host.status(&[]), "hermes-ours")["status"] == "stale");

    // Only one home is known: the other's containers are left alone, whatever they look like.
    let report = host.status(&[]);
    let other = theirs.folder().display().to_string();
    expect(
        &report,
        "hermes-theirs",
        "unknown",
        &format!("belongs to {other} (default), whose sessions are not read"),
    );
    expect(&report, "hermes-passing", "unknown", "nothing shows to whose sessions it belongs");
    wait_until("ours is removed", || {
        host.reconcile(&["--include-running-orphans"]);
        !host.exists(&own)
    });
    let finished = host.reconcile(&["--include-running-orphans"]);
    expect_result(&finished, "hermes-theirs", "kept", "whose sessions are not read here");
    expect_result(&finished, "hermes-passing", "kept", "nothing shows");
    assert!(host.exists(&foreign) && host.exists(&passing));

    // Both known: each session speaks for its own home's containers only.
    ours.session("busy-here", 5.0);
    ours.lease("busy-here", 500.0);
    let both = [
        "--db".to_owned(),
        format!("hermes={}", ours.database().display()),
        "--db".to_owned(),
        format!("hermes={}", theirs.database().display()),
    ];
    let both: Vec<&str> = both.iter().map(String::as_str).collect();
    ours.lasting(&host.scene, "hermes-ours").running();
    let report = host.status(&both);
    expect(&report, "hermes-ours", "active", "session busy-here is live");
    expect(&report, "hermes-theirs", "stale", "1 session claims it, none is live");
    expect(&report, "hermes-passing", "stale", "its session has ended");

    // The same session in both stores: whose is it?
    ours.session("yours", 86_400.0);
    let report = host.status(&both);
    expect(&report, "hermes-passing", "unknown", "claimed by sessions of several stores: ");
    let why = reasons(container(&report, "hermes-passing"));
    for home in [&ours, &theirs] {
        assert!(why.contains(&home.database().display().to_string()), "{why}");
    }
}

#[test]
#[ignore = "needs a Docker engine: run tests/run"]
fn every_profile_has_its_own_database_and_hermes_home_counts_once() {
    let engine = RealEngine::docker().exclusive();
    let host = SystemsHost::on(&engine);
    let home = home_of(&host);
    let work = HermesHome::create(home.folder().join("profiles/work"));
    home.session("in-default", 40.0);
    home.end("in-default", "user_exit", 30.0);
    work.session("in-work", 40.0);
    work.end("in-work", "user_exit", 30.0);
    work.lifetime(7200);
    home.lasting(&host.scene, "hermes-default").running();
    work.lasting(&host.scene, "hermes-work").running();
    let hermes_home = home.folder().display().to_string();
    let program = host.sandkeeper(&["status", "--json"]).env("HERMES_HOME", hermes_home);
    let report = program.run().expect_exit(0).json();
    expect(&report, "hermes-default", "idle", "within its lifetime of 5m");
    expect(&report, "hermes-work", "idle", "within its lifetime of 2h");
    let stores = report["evidence"].as_array().unwrap().iter().filter(|each| each["source"] == "sessions");
    assert_eq!(stores.count(), 2, "{report:#}");
}

#[test]
#[ignore = "needs a Docker engine: run tests/run"]
fn work_in_the_background_keeps_its_container() {
    for engine in [RealEngine::docker(), RealEngine::podman()] {
        let engine = engine.exclusive();
        let host = SystemsHost::on(&engine);
        let home = home_of(&host);
        home.lifetime(1);
        home.session("s1", 86_400.0);
        home.end("s1", "user_exit", 80_000.0);
        let id = home.lasting(&host.scene, "hermes-8").running();
        // The command has returned; what it started goes on.
        host.scene.cli(&["exec", &id, "sh", "-c", "(while true; do sleep 1; done) >/dev/null 2>&1 &"]);
        // The shell alone, or the shell and its `sleep`, depending on the moment.
        let work = "in it in the background";
        wait_until("its command has returned", || {
            reasons(container(&host.status(&[]), "hermes-8")).contains(work)
        });
        expect(&host.status(&[]), "hermes-8", "active", work);
        let finished = host.reconcile(&["--include-running-orphans"]).expect_exit(0);
        expect_result(&finished, "hermes-8", "kept", work);
        assert!(host.exists(&id));

        // Once it is done, nothing but what keeps the container up runs in it.
        host.scene.cli(&["exec", &id, "sh", "-c", "kill -9 -1; true"]);
        wait_until("it goes after its lifetime", || {
            host.reconcile(&[]);
            !host.exists(&id)
        });
    }
}

#[test]
#[ignore = "needs a Docker engine: run tests/run"]
fn work_that_begins_before_the_stop_keeps_its_container_and_so_does_a_silent_engine() {
    let engine = RealEngine::docker().exclusive();
    let proxy = Proxy::before(engine.socket());
    let host = SystemsHost::through(&engine, &proxy.endpoint());
    let home = home_of(&host);
    home.lifetime(1);
    home.session("s1", 86_400.0);
    home.end("s1", "user_exit", 80_000.0);
    let id = home.lasting(&host.scene, "hermes-9").running();
    wait_until("its lifetime is over", || container(&host.status(&[]), "hermes-9")["status"] == "stale");
    // The plan is made on the first look at its processes; the second one belongs to the check before the stop.
    let (endpoint, work) = (engine.endpoint().to_owned(), id.clone());
    proxy.when("GET", "/containers/*/top").nth(2).before(move |_| {
        let begin = ["exec", &work, "sh", "-c", "(while true; do sleep 1; done) >/dev/null 2>&1 &"];
        let done = std::process::Command::new("docker").args(["-H", &endpoint]).args(begin).status().unwrap();
        assert!(done.success());
    });
    let finished = host.reconcile(&[]).expect_exit(3);
    expect_result(&finished, "hermes-9", "skipped", "in it in the background");
    proxy.forget_rules();
    host.scene.cli(&["exec", &id, "sh", "-c", "kill -9 -1; true"]);
    proxy.when("GET", "/containers/*/top").answer(403, "not allowed here");
    wait_until("nothing can be told of it", || {
        container(&host.status_that_ends(4, &[]), "hermes-9")["status"] == "unknown"
    });
    let report = host.status_that_ends(4, &[]);
    expect(&report, "hermes-9", "unknown", "whether something runs in it in the background cannot be told");
    assert!(host.exists(&id) && proxy.mutations().is_empty());
}

#[test]
#[ignore = "needs a Docker engine: run tests/run"]
fn a_container_in_the_folders_of_another_profile_is_not_judged_by_that_one() {
    let engine = RealEngine::docker().exclusive();
    let host = SystemsHost::on(&engine);
    let home = home_of(&host);
    let work = HermesHome::create(home.folder().join("profiles/work"));
    for home in [&home, &work] {
        home.lifetime(1);
        home.session("old", 86_400.0);
        home.end("old", "user_exit", 80_000.0);
    }
    work.session("busy", 5.0);
    work.lease("busy", 500.0);
    // TERMINAL_SANDBOX_DIR leads both profiles to the folders of one home.
    let id = home.lasting(&host.scene, "hermes-shared").label("hermes-profile", "work").exited();
    let nobody = home.lasting(&host.scene, "hermes-nobody").label("hermes-profile", "").exited();
    let own = home.lasting(&host.scene, "hermes-own").exited();
    let belongs = format!("belongs to {} (work), whose sessions are not read", home.folder().display());
    let report = host.status(&[]);
    expect(&report, "hermes-shared", "unknown", &belongs);
    expect(&report, "hermes-nobody", "unknown", "whose sessions are not read");
    wait_until("the one of its own profile goes after its lifetime", || {
        let finished = host.reconcile(&["--include-running-orphans"]);
        expect_result(&finished, "hermes-shared", "kept", &belongs);
        !host.exists(&own)
    });
    assert!(host.exists(&id) && host.exists(&nobody));
}

#[test]
#[ignore = "needs a Docker engine: run tests/run"]
fn a_long_conversation_takes_no_longer_to_read_than_many_short_ones() {
    let engine = RealEngine::docker().exclusive();
    let host = SystemsHost::on(&engine);
    let home = home_of(&host);
    let (first, second) = (crate::support::stores::unix_ago(90_000), crate::support::stores::unix_ago(5));
    home.execute(&format!(
        "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 4999)
         INSERT INTO sessions(id, source, parent_session_id, started_at, last_activity_at, ended_at, end_reason)
         SELECT 's' || i, 'cli', CASE WHEN i THEN 's' || (i - 1) END, {first} + i, {first} + i, {first} + i, 'compression' FROM n;
         UPDATE sessions SET last_activity_at = {second}, ended_at = NULL, end_reason = NULL WHERE id = 's4999';
         INSERT INTO sessions(id, source, parent_session_id, started_at) VALUES ('egg', 'cli', 'hen', {first}), ('hen', 'cli', 'egg', {first})"
    ));
    home.lasting(&host.scene, "hermes-5").running();
    HermesHome::passing(&host.scene, "hermes-6", "s0").running();
    HermesHome::passing(&host.scene, "hermes-7", "hen").running();
    // All pairs of five thousand would take minutes.
    let report = host.status(&[]);
    expect(&report, "hermes-5", "active", "more live sessions");
    expect(&report, "hermes-6", "active", "session s0 was active");
    expect(&report, "hermes-7", "idle", "1 session claims it, none is live");
}

#[test]
#[ignore = "needs a Docker engine: run tests/run"]
fn older_and_newer_tables_are_both_understood_and_strange_ones_prove_nothing() {
    let engine = RealEngine::docker().exclusive();
    let host = SystemsHost::on(&engine);
    let home = home_of(&host);
    home.session("s1", 20.0);
    home.message("s1", 20.0);
    home.lasting(&host.scene, "hermes-4").running();
    let variant = || {
        let doctor = host.sandkeeper(&["doctor", "--json"]).run().json();
        let checks = doctor["checks"].as_array().unwrap();
        let found = checks.iter().find(|check| check["check"] == "sessions hermes").unwrap();
        found["finding"].as_str().unwrap().to_owned()
    };
    let steps = [
        ("", "with activity and turn leases"),
        ("ALTER TABLE sessions DROP COLUMN last_activity_at", "with turn leases"),
        ("DROP TABLE session_turn_leases", "messages only"),
        ("ALTER TABLE sessions ADD COLUMN last_activity_at REAL", "with activity"),
        ("ALTER TABLE sessions ADD COLUMN from_the_future TEXT", "with activity"),
    ];
    for (change, read_as) in steps {
        home.execute(change);
        assert!(variant().ends_with(&format!("read as `{read_as}`")), "{read_as}: {}", variant());
        expect(&host.status(&[]), "hermes-4", "active", "session s1 was active");
    }
    // Leases of another form are not to be passed over.
    home.execute("CREATE TABLE session_turn_leases(conversation_id TEXT PRIMARY KEY, until REAL)");
    let report = host.status_that_ends(4, &[]);
    expect(&report, "hermes-4", "unknown", "misses column session_turn_leases.expires_at");
    expect(&report, "hermes-4", "unknown", "`with activity` does not read table session_turn_leases");
    home.execute("DROP TABLE session_turn_leases");
    home.execute("ALTER TABLE sessions RENAME COLUMN end_reason TO why");
    let report = host.status_that_ends(4, &[]);
    expect(&report, "hermes-4", "unknown", "`messages only` misses column sessions.end_reason");
    expect_result(&host.reconcile(&[]).expect_exit(4), "hermes-4", "kept", "sessions.end_reason");
}
