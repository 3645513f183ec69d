//! Parachute's containers and sessions on a real engine: an old config hash never costs a session its container.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::support::application::{Application, Mood};
use crate::support::engine::{ContainerBuilder, RealEngine, Scene};
use crate::support::native::{container, evidence, reasons, statuses};
use crate::support::program::Home;
use crate::support::proxy::Proxy;
use crate::support::stores::{ParachuteStore, fingerprint};
use crate::support::systems::{SystemsHost, expect_result};

/// The hashes of `parachute-sandbox:latest:512m:1.0` and of what came after it.
const OLD: &str = "6820ef2d765a";
const NEW: &str = "5de99fd81fbd";

fn vault_of(home: &Home) -> PathBuf {
    home.path().join("Parachute")
}

fn vault(home: &Home) -> PathBuf {
    vault_of(home).join("Chat/sessions.db")
}

/// `parachute-ws-SLUG` as of PR 96, of the vault in this home.
fn workspace<'scene>(
    home: &Home,
    scene: &'scene Scene<'_>,
    slug: &str,
    hash: &str,
) -> ContainerBuilder<'scene> {
    let workspace = scene.container(format!("parachute-ws-{slug}")).label("workspace", slug);
    of_vault(&vault_of(home), workspace.label("config_hash", hash), slug)
}

/// A container with its transcripts in the vault.
fn of_vault<'scene>(
    vault: &Path,
    container: ContainerBuilder<'scene>,
    slug: &str,
) -> ContainerBuilder<'scene> {
    let transcripts = vault.join(".parachute/sandbox").join(slug).join(".claude");
    std::fs::create_dir_all(&transcripts).unwrap();
    container.label("app", "parachute").mount(&transcripts.display().to_string(), "/home/sandbox/.claude")
}

fn status(home: &Home, engine: &RealEngine, exit: i32, arguments: &[&str]) -> Value {
    let mut program = home.sandkeeper(["--host", engine.endpoint(), "--min-age", "0s", "status", "--json"]);
    for argument in arguments {
        program = program.arg(argument);
    }
    program.run().expect_exit(exit).json()
}

#[track_caller]
fn expect(report: &Value, name: &str, status: &str, outdated: impl Into<Value>, reason: &str) {
    let found = container(report, name);
    assert_eq!((&found["status"], &found["outdated"]), (&status.into(), &outdated.into()), "{found:#}");
    assert!(reasons(found).contains(reason), "{name} lacks the reason {reason:?}: {found:#}");
    assert_eq!(found["system"], "parachute");
}

#[test]
#[ignore = "needs a Docker engine: run tests/run"]
fn an_old_config_hash_makes_a_container_stale_only_when_no_session_lives_in_it() {
    let engine = RealEngine::docker().exclusive();
    let scene = engine.scene();
    let home = Home::new();
    let store = ParachuteStore::create(vault(&home));
    workspace(&home, &scene, "atlas", OLD).running();
    workspace(&home, &scene, "borealis", OLD).running();
    workspace(&home, &scene, "cygnus", OLD).running();
    workspace(&home, &scene, "dorado", NEW).running();
    store.session("9f2c6b1e-atlas").workspace("atlas").title("Trip").accessed_ago(30).insert();
    store.session("cygnus-1").workspace("cygnus").accessed_ago(3600).insert();
    store.session("dorado-1").workspace("dorado").accessed_ago(3600).insert();
    let before = fingerprint(store.path());

    let report = status(&home, &engine, 0, &[]);
    let old = format!("config {OLD} is not {NEW} (the newest container's)");
    expect(&report, "parachute-ws-atlas", "active", true, "session 9f2c6b1e-atlas (Trip) was active ");
    expect(&report, "parachute-ws-atlas", "active", true, &old);
    expect(&report, "parachute-ws-borealis", "stale", true, &old);
    expect(&report, "parachute-ws-cygnus", "idle", true, &old);
    expect(&report, "parachute-ws-dorado", "idle", false, "1 session claims it, none is live");
    assert_eq!(container(&report, "parachute-ws-atlas")["workspace"], "atlas");

    for expected in [OLD.to_owned(), format!("parachute={OLD}")] {
        let report = status(&home, &engine, 0, &["--expect-hash", &expected]);
        expect(&report, "parachute-ws-atlas", "active", false, "");
        expect(&report, "parachute-ws-borealis", "orphaned", false, "no session claims it");
        expect(&report, "parachute-ws-cygnus", "idle", false, "");
        expect(&report, "parachute-ws-dorado", "stale", true, "(the expected one)");
    }

    // A turn runs through exec, however long ago the session was accessed.
    let exec = scene.exec(container(&report, "parachute-ws-cygnus")["id"].as_str().unwrap());
    let report = status(&home, &engine, 0, &[]);
    expect(&report, "parachute-ws-cygnus", "active", true, "1 command running in it (exec)");
    exec.end();
    assert_eq!(fingerprint(store.path()), before);
}

#[test]
#[ignore = "needs a Docker engine: run tests/run"]
fn sessions_without_a_workspace_live_in_the_default_container() {
    let engine = RealEngine::docker().exclusive();
    let scene = engine.scene();
    let home = Home::new();
    let store = ParachuteStore::create(vault(&home));
    let default = scene.container("parachute-default").label("type", "default").label("config_hash", OLD);
    of_vault(&vault_of(&home), default, "default").running();
    // A session outside of any sandbox claims nothing.
    store.session("direct").trust(Some("direct")).accessed_ago(5).insert();
    let report = status(&home, &engine, 0, &[]);
    expect(&report, "parachute-default", "orphaned", false, "no session claims it");
    assert_eq!(report["lost"].as_array().unwrap().len(), 0, "{report:#}");

    store.session("boxed").accessed_ago(5).insert();
    let report = status(&home, &engine, 0, &[]);
    expect(&report, "parachute-default", "active", false, "session boxed was active");
    assert_eq!(container(&report, "parachute-default")["workspace"], "default");

    store.archive("boxed");
    let report = status(&home, &engine, 0, &[]);
    expect(&report, "parachute-default", "idle", false, "1 session claims it, none is live, all ended");
}

#[test]
#[ignore = "needs a Docker engine: run tests/run"]
fn an_archived_session_is_over_however_recently_it_was_accessed() {
    let engine = RealEngine::docker().exclusive();
    let scene = engine.scene();
    let home = Home::new();
    let store = ParachuteStore::create(vault(&home));
    workspace(&home, &scene, "atlas", OLD).running();
    workspace(&home, &scene, "newest", NEW).running();
    store.session("a1").workspace("atlas").accessed_ago(1).insert();
    expect(&status(&home, &engine, 0, &[]), "parachute-ws-atlas", "active", true, "a1");
    store.archive("a1");
    expect(&status(&home, &engine, 0, &[]), "parachute-ws-atlas", "stale", true, "config");
}

#[test]
#[ignore = "needs a Docker engine: run tests/run"]
fn a_live_session_without_its_container_has_lost_it() {
    let engine = RealEngine::docker().exclusive();
    let scene = engine.scene();
    let home = Home::new();
    let store = ParachuteStore::create(vault(&home));
    workspace(&home, &scene, "atlas", NEW).running();
    store.session("here").workspace("atlas").accessed_ago(5).insert();
    store.session("gone").workspace("borealis").accessed_ago(5).insert();
    store.session("gone-quiet").workspace("cygnus").accessed_ago(7200).insert();
    let report = status(&home, &engine, 0, &[]);
    let lost = report["lost"].as_array().unwrap();
    assert_eq!(lost.len(), 1, "a quiet session gets its container when it goes on: {report:#}");
    assert_eq!((&lost[0]["session"], &lost[0]["workspace"]), (&"gone".into(), &"borealis".into()));
    assert_eq!(lost[0]["container"], "parachute-ws-borealis");
}

#[test]
#[ignore = "needs a Docker engine: run tests/run"]
fn containers_of_which_only_parachute_can_speak_are_unknown_without_it_and_foreign_names_never_appear() {
    let engine = RealEngine::docker().exclusive();
    let scene = engine.scene();
    let home = Home::new();
    let _store = ParachuteStore::create(vault(&home));
    for (name, kind) in [("parachute-env-lab", "env"), ("parachute-session-0123456789ab", "session")] {
        scene
            .container(name)
            .label("app", "parachute")
            .label("type", kind)
            .label("config_hash", NEW)
            .exited();
    }
    for name in ["my-parachute-ws-x", "parachute", "parachute-ws-", "parachute-sandbox-01234567"] {
        scene.container(name).label("app", "parachute").exited();
    }
    scene.container("parachute-ws-bare").exited();
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let report = status(&home, &engine, 4, &["--db", &format!("parachute=http://{closed}")]);
    assert_eq!(statuses(&report).len(), 2, "{report:#}");
    for name in ["parachute-env-lab", "parachute-session-0123456789ab"] {
        expect(&report, name, "unknown", Value::Null, "nobody answers there");
    }
}

/// An environment of today.
fn environment<'scene>(scene: &'scene Scene<'_>, slug: &str, hash: &str) -> ContainerBuilder<'scene> {
    let name = format!("parachute-env-{slug}");
    let labelled = scene.container(name).label("app", "parachute").label("type", "env");
    labelled.label("env_slug", slug).label("config_hash", hash)
}

#[test]
#[ignore = "needs a Docker engine: run tests/run"]
fn an_outdated_container_with_a_live_session_is_kept_then_drained_and_one_without_goes_at_once() {
    let engine = RealEngine::docker().exclusive();
    let host = SystemsHost::on(&engine);
    let store = ParachuteStore::create(vault(&host.home));
    let busy = workspace(&host.home, &host.scene, "busy", OLD).running();
    let free = workspace(&host.home, &host.scene, "free", OLD).running();
    let current = workspace(&host.home, &host.scene, "current", NEW).running();
    store.session("b1").workspace("busy").accessed_ago(5).insert();
    store.session("f1").workspace("free").accessed_ago(3600).insert();
    store.session("c1").workspace("current").accessed_ago(3600).insert();

    let finished = host.reconcile(&["--drain", "--expect-hash", NEW]).expect_exit(0);
    expect_result(&finished, "parachute-ws-busy", "drained", "it goes when its sessions have ended");
    expect_result(&finished, "parachute-ws-free", "removed", &format!("config {OLD} is not {NEW}"));
    expect_result(&finished, "parachute-ws-current", "kept", "");
    assert!(host.exists(&busy) && !host.exists(&free) && host.exists(&current));
    let draining = host.status(&[]);
    assert_eq!(container(&draining, "parachute-ws-busy")["status"], "draining");
    host.sandkeeper(&["may-start", "busy"]).run().expect_exit(5);
    host.reconcile(&[]).expect_exit(0);
    assert!(host.exists(&busy), "its session still lives in it");

    store.archive("b1");
    let finished = host.reconcile(&[]).expect_exit(0);
    expect_result(&finished, "parachute-ws-busy", "removed", "marked for eviction");
    assert!(!host.exists(&busy) && host.exists(&current));
}

#[test]
#[ignore = "needs a Docker engine: run tests/run"]
fn todays_environments_are_kept_drained_and_removed_by_what_parachute_itself_says() {
    let engine = RealEngine::docker().exclusive();
    let host = SystemsHost::on(&engine);
    let parachute = Application::parachute();
    for slug in ["busy", "free", "current"] {
        parachute.environment(slug);
    }
    parachute.session("b1", Some("busy"), 7200.0);
    parachute.streams(&["b1"]);
    parachute.session("f1", Some("free"), 3600.0);
    let busy = environment(&host.scene, "busy", OLD).running();
    let free = environment(&host.scene, "free", OLD).running();
    let current = environment(&host.scene, "current", NEW).running();
    let named = parachute.named("parachute");
    let db = ["--db", named.as_str(), "--expect-hash", NEW];

    let report = host.status(&db);
    expect(&report, "parachute-env-busy", "active", true, "session b1 (about b1) is live");
    expect(&report, "parachute-env-free", "stale", true, "config");
    expect(&report, "parachute-env-current", "idle", false, "1 session claims it, none is live");
    // Parachute that does not answer any more: nothing is done.
    parachute.mood(Mood::Status(500));
    let finished = host.reconcile(&db).expect_exit(4);
    expect_result(&finished, "parachute-env-free", "kept", "status 500");
    parachute.mood(Mood::Good);

    let finished = host.reconcile(&[&db[..], &["--drain"]].concat()).expect_exit(0);
    expect_result(&finished, "parachute-env-busy", "drained", "it goes when its sessions have ended");
    expect_result(&finished, "parachute-env-free", "removed", "config");
    assert!(host.exists(&busy) && !host.exists(&free) && host.exists(&current));

    // Its turn is over; its session is not, so it stays until somebody asks for its end.
    parachute.streams(&[]);
    let finished = host.reconcile(&db).expect_exit(0);
    expect_result(&finished, "parachute-env-busy", "kept", "not ended");
    assert!(host.exists(&busy) && host.exists(&current));
    host.sandkeeper(&[&["rm", "--yes", "--grace", "1s", "parachute-env-busy"], &db[..]].concat())
        .run()
        .expect_exit(0);
    assert!(!host.exists(&busy) && host.exists(&current));
}

#[test]
fn whether_a_session_is_archived_is_not_guessed() {
    use crate::support::native::{Host, container};
    let host = Host::with(&[]);
    let transcripts = vault_of(&host.home).join(".parachute/sandbox/demo/.claude");
    std::fs::create_dir_all(&transcripts).unwrap();
    let row = crate::support::rows::row("parachute-ws-demo").label("app", "parachute");
    let row =
        row.label("workspace", "demo").mount(&transcripts.display().to_string(), "/home/sandbox/.claude");
    host.engine.containers(&[row]);
    let store = ParachuteStore::create(vault(&host.home));
    store.session("s1").workspace("demo").trust(Some("sandboxed")).accessed_ago(3600).insert();
    let status = || {
        let report = host.sandkeeper(["status", "--json"]).run().json();
        container(&report, "parachute-ws-demo")["status"].as_str().unwrap().to_owned()
    };
    assert_eq!(status(), "idle");
    for unclear in ["'false'", "''", "x'00'"] {
        store.execute(&format!("UPDATE sessions SET archived = {unclear}"));
        assert_eq!(status(), "unknown", "{unclear}");
    }
    store.execute("UPDATE sessions SET archived = 1");
    assert_eq!(status(), "idle", "a workspace outlives its sessions");
}

#[test]
#[ignore = "needs a Docker engine: run tests/run"]
fn a_turn_that_begins_after_the_plan_saves_its_environment() {
    let engine = RealEngine::docker().exclusive();
    let proxy = Proxy::before(engine.socket());
    let host = SystemsHost::through(&engine, &proxy.endpoint());
    let parachute = std::sync::Arc::new(Application::parachute());
    parachute.environment("free");
    parachute.environment("current");
    parachute.session("f1", Some("free"), 3600.0);
    let free = environment(&host.scene, "free", OLD).exited();
    environment(&host.scene, "current", NEW).exited();
    let application = std::sync::Arc::clone(&parachute);
    // The plan is made on the first list; the check asks for another.
    proxy.when("GET", "/containers/json").nth(2).before(move |_| application.streams(&["f1"]));
    let finished =
        host.reconcile(&["--db", &parachute.named("parachute"), "--expect-hash", NEW]).expect_exit(3);
    expect_result(&finished, "parachute-env-free", "skipped", "session f1 (about f1) is live");
    assert!(host.exists(&free));
}

#[test]
#[ignore = "needs a Docker engine: run tests/run"]
fn the_february_form_without_hashes_and_trust_levels_is_understood() {
    let engine = RealEngine::docker().exclusive();
    let scene = engine.scene();
    let home = Home::new();
    let store = ParachuteStore::create(vault(&home));
    store.session("s1").workspace("atlas").accessed_ago(5).insert();
    store.execute("ALTER TABLE sessions DROP COLUMN trust_level; DROP TABLE container_envs");
    store.execute("ALTER TABLE sessions DROP COLUMN container_env_id");
    scene.container("parachute-ws-atlas").label("app", "parachute").label("workspace", "atlas").running();
    let quiet = scene.container("parachute-ws-quiet").label("workspace", "quiet");
    of_vault(&vault_of(&home), quiet, "quiet").running();
    let report = status(&home, &engine, 0, &[]);
    expect(&report, "parachute-ws-atlas", "active", false, "s1");
    expect(&report, "parachute-ws-quiet", "orphaned", false, "no session claims it");
}

#[test]
#[ignore = "needs a Docker engine: run tests/run"]
fn a_vault_elsewhere_is_named_with_db_and_a_missing_one_makes_everything_unknown() {
    let engine = RealEngine::docker().exclusive();
    let scene = engine.scene();
    let home = Home::new();
    let elsewhere = home.path().join("elsewhere");
    let store = ParachuteStore::create(elsewhere.join("Chat/sessions.db"));
    store.session("s1").workspace("atlas").accessed_ago(5).insert();
    let atlas = scene.container("parachute-ws-atlas").label("workspace", "atlas").label("config_hash", OLD);
    of_vault(&elsewhere, atlas, "atlas").running();
    let report = status(&home, &engine, 4, &[]);
    let usual = vault(&home).display().to_string();
    expect(&report, "parachute-ws-atlas", "unknown", Value::Null, &usual);
    assert_eq!(evidence(&report, "sessions")["path"], usual);
    let named = format!("parachute={}", store.path().display());
    expect(&status(&home, &engine, 0, &["--db", &named]), "parachute-ws-atlas", "active", false, "s1");
}

#[test]
#[ignore = "needs a Docker engine: run tests/run"]
fn the_database_of_another_vault_does_not_judge() {
    let engine = RealEngine::docker().exclusive();
    let host = SystemsHost::on(&engine);
    let store = ParachuteStore::create(vault(&host.home));
    store.session("s1").workspace("current").accessed_ago(3600).insert();
    store.session("s2").workspace("named").accessed_ago(3600).insert();
    // The vault has moved; its old database is still where it was.
    let moved = Home::new();
    let theirs = workspace(&moved, &host.scene, "atlas", OLD).exited();
    let scene = &host.scene;
    let unbound = |slug: &str| scene.container(format!("parachute-ws-{slug}")).label("app", "parachute");
    let nobody = unbound("nobody").label("workspace", "nobody").label("config_hash", OLD).exited();
    unbound("named").label("workspace", "named").label("config_hash", NEW).running();
    workspace(&host.home, &host.scene, "current", NEW).running();

    let report = host.status(&[]);
    let belongs = format!("belongs to {}/Parachute/Chat, whose sessions", moved.path().display());
    expect(&report, "parachute-ws-atlas", "unknown", true, &belongs);
    expect(&report, "parachute-ws-nobody", "unknown", true, "nothing shows to whose sessions it belongs");
    expect(&report, "parachute-ws-named", "idle", false, "1 session claims it");
    let finished = host.reconcile(&["--include-running-orphans"]).expect_exit(0);
    expect_result(&finished, "parachute-ws-atlas", "kept", &belongs);
    assert!(host.exists(&theirs) && host.exists(&nobody));
}
