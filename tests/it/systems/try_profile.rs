//! A profile can be tried before it is trusted: what it recognises on this host, what it reads, and who claims whom.

use rusqlite::Connection;

use crate::support::application::Application;
use crate::support::engine::RealEngine;
use crate::support::hermes::HermesHome;
use crate::support::native::{Host, native_row, statuses};
use crate::support::rows::{ago, row};
use crate::support::stores::{NativeStore, ParachuteStore};
use crate::support::systems::{SystemsHost, expect, expect_result};

fn tried(host: &Host, name: &str) -> crate::support::program::Finished {
    host.sandkeeper(["profiles", "try", name]).run()
}

#[test]
fn the_built_in_contract_is_shown_with_what_it_matched() {
    let host = Host::with(&[native_row("box", "atlas"), row("stranger"), native_row("other", "borealis")]);
    let store = NativeStore::create(host.home.native_store());
    store.session("s1", "atlas").status("active").insert();
    let finished = tried(&host, "native")
        .expect_exit(0)
        .expect_stdout("containers: 3 on the engine, 2 with the labels, 2 recognised")
        .expect_stdout("  box (running): workspace atlas, persistent, ")
        .expect_stdout("{label.sandkeeper.workspace} = atlas")
        .expect_stdout("1 row, read as `sandkeeper sessions table`")
        .expect_stdout("  s1: live, active ")
        .expect_stdout("{workspace} = atlas")
        .expect_stdout("  box: active: session s1 is live")
        .expect_stdout("  other: orphaned: no session claims it");
    assert!(!finished.stdout.contains("stranger"), "{finished}");
    host.expect_only_looks();
}

#[test]
fn parachute_is_shown_with_names_that_just_miss_and_with_what_it_says_itself() {
    let labelled = |name: &str| row(name).label("app", "parachute");
    let host = Host::with(&[
        labelled("parachute-ws-atlas"),
        labelled("my-parachute"),
        labelled("parachute-env-lab"),
    ]);
    let store = ParachuteStore::create(host.home.path().join("Parachute/Chat/sessions.db"));
    store.session("s1").workspace("atlas").accessed_ago(30).insert();
    let parachute = Application::parachute();
    parachute.environment("lab");
    let finished =
        host.sandkeeper(["profiles", "try", "parachute", "--db", &parachute.named("parachute")]).run();
    finished
        .expect_exit(0)
        .expect_stdout("3 with the labels, 2 recognised")
        .expect_stdout("  not my-parachute: it has the labels, but its name fits no pattern")
        .expect_stdout("read as `with environments`")
        .expect_stdout("  s1: live, active ")
        .expect_stdout(&format!("sessions in {}: 1 row", parachute.url()))
        .expect_stdout("  environment lab: quiet; {container} = parachute-env-lab")
        .expect_stdout("  parachute-ws-atlas: active: ");
}

#[test]
fn hermes_is_shown_with_its_homes_and_kojuto_without_sessions() {
    let host = Host::with(&[row("scan").label("kojuto.scan", "true").created(ago(300))]);
    tried(&host, "kojuto")
        .expect_exit(0)
        .expect_stdout("1 with the labels, 1 recognised")
        .expect_stdout("sessions: this system keeps none")
        .expect_stdout("  scan: idle: nothing claims it, and nothing shows that it is over");
    tried(&host, "hermes").expect_exit(4).expect_stdout("no session database was found there");

    let home = HermesHome::create(host.home.path().join(".hermes"));
    home.lifetime(900);
    home.session("s1", 7200.0);
    let sandbox = home.folder().join("sandboxes/docker/default/home").display().to_string();
    let lasting = row("hermes-01234567").label("hermes-agent", "1").label("hermes-profile", "default");
    host.engine.containers(&[lasting.mount(&sandbox, "/root")]);
    tried(&host, "hermes")
        .expect_exit(0)
        .expect_stdout("1 row, read as `with activity and turn leases`")
        .expect_stdout("lifetime of containers: 15m")
        .expect_stdout(&format!("{{mount.home}} = {}", home.folder().display()))
        .expect_stdout("  s1: quiet, active 2h ago")
        .expect_stdout("  hermes-01234567: stale: quiet for");
}

#[test]
fn every_built_in_profile_can_be_tried_on_a_host_without_a_trace_of_it() {
    let host = Host::with(&[]);
    for (name, _) in sandkeeper::profiles::BUILT_IN {
        let finished = tried(&host, name);
        let has_sessions = !["kojuto", "devcontainers", "testcontainers"].contains(name);
        let finished = finished.expect_exit(if has_sessions && *name != "parachute" { 4 } else { 0 });
        finished
            .expect_stdout("containers: 0 on the engine, 0 with the labels, 0 recognised")
            .expect_stdout("none: there is nothing of this system here");
    }
    tried(&host, "hermess").expect_exit(2).expect_stderr("did you mean `hermes`?");
}

const MINE: &str = r#"
name = "mine"
description = "My gateway's sandboxes"

[containers]
labels = { "mine.sandbox" = "1" }
names = ['mine-(?<slug>[a-z0-9-]+)']
workspace = ["{label.mine.workspace}", "{name.slug}"]

[sessions]
store = "sqlite"
paths = ["~/.mine/state.db", "~/.mine/users/{user}/state.db"]
live_within = "10m"

[[sessions.links]]
session = "{container}"
container = ["{name}"]
lost = "live"

[[sessions.queries]]
name = "first version"
requires = { chats = ["id", "box", "began", "seen", "closed"] }
times = "seconds"
sql = """
SELECT id, 'mine-' || box AS container, began AS started_at, seen AS last_activity_at, closed AS ended_at FROM chats
"""
"#;

#[test]
fn a_users_own_profile_works_from_the_first_try_to_the_last_verdict() {
    let mine = |name: &str| row(name).label("mine.sandbox", "1").created(ago(3 * 86_400));
    let host = Host::with(&[
        mine("mine-a"),
        mine("mine-b"),
        mine("mine-c").state("exited"),
        mine("Mine").state("exited"),
    ]);
    let folder = host.home.path().join(".mine/users/ada");
    std::fs::create_dir_all(&folder).unwrap();
    let store = Connection::open(folder.join("state.db")).unwrap();
    store
        .execute_batch(
            "CREATE TABLE chats (id INTEGER PRIMARY KEY, box TEXT, began REAL, seen REAL, closed REAL)",
        )
        .unwrap();
    for (id, name, quiet) in [(1, "a", 30), (2, "b", 2 * 86_400), (3, "gone", 30)] {
        let at = ago(quiet);
        store
            .execute("INSERT INTO chats VALUES (?1, ?2, ?3, ?3, NULL)", rusqlite::params![id, name, at])
            .unwrap();
    }

    // A draft, tried from wherever it lies.
    let draft = host.home.write("draft.toml", MINE);
    let checked = host.sandkeeper(["profiles", "check"]).arg(&draft).run().expect_exit(0);
    checked.expect_stdout("query `first version` prepares").expect_stdout("profiles try FILE");
    tried(&host, draft.to_str().unwrap())
        .expect_exit(0)
        .expect_stdout("4 with the labels, 3 recognised")
        .expect_stdout("  not Mine: ")
        .expect_stdout("{store.user} is ada")
        .expect_stdout("  mine-a: active: session 1 was active")
        .expect_stdout("  mine-gone is missing for session 3");
    assert_eq!(statuses(&host.status([""; 0]).json()), [""; 0], "a draft is not yet in use");

    // In place: found by itself.
    host.home.write(".config/sandkeeper/profiles/mine.toml", MINE);
    let report = host.status([""; 0]).expect_exit(0).json();
    expect(&report, "mine-a", "active", "session 1 was active");
    expect(&report, "mine-b", "stale", "longer than its lifetime of 1d");
    expect(&report, "mine-c", "orphaned", "no session claims it");
    assert_eq!(
        (&report["lost"][0]["container"], &report["systems"][0]),
        (&"mine-gone".into(), &"mine".into())
    );
    let doctor = host.sandkeeper(["doctor"]).run().expect_exit(0);
    assert!(
        doctor.stdout.lines().any(|line| line.contains("profile mine") && line.contains("in use")),
        "{doctor}"
    );
    let plan = host.sandkeeper(["reconcile", "--dry-run"]).run();
    assert!(plan.stdout.contains("2 to change, 1 to keep"), "{plan}");
    host.expect_only_looks();
}

#[test]
#[ignore = "needs a Docker engine: run tests/run"]
fn a_users_own_profile_decides_what_reconcile_removes() {
    let engine = RealEngine::docker().exclusive();
    let host = SystemsHost::on(&engine);
    host.home.write(".config/sandkeeper/profiles/mine.toml", MINE);
    let path = host.home.path().join(".mine/users/ada/state.db");
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    let store = Connection::open(&path).unwrap();
    store
        .execute_batch(
            "CREATE TABLE chats(id INTEGER PRIMARY KEY, box TEXT, began REAL, seen REAL, closed REAL)",
        )
        .unwrap();
    let now = crate::support::stores::unix_ago(5);
    store.execute("INSERT INTO chats VALUES (1, 'a', ?1, ?1, NULL)", [now]).unwrap();
    let mine = |name: &str| host.scene.container(name).label("mine.sandbox", "1");
    let (used, left) = (mine("mine-a").running(), mine("mine-c").exited());
    let finished = host.reconcile(&[]).expect_exit(0);
    expect_result(&finished, "mine-a", "kept", "session 1 was active");
    expect_result(&finished, "mine-c", "removed", "no session claims it");
    assert!(host.exists(&used) && !host.exists(&left));
}

#[test]
fn the_guide_to_profiles_is_right() {
    let guide = include_str!("../../../assets/profiles/README.md");
    let pieces: Vec<&str> =
        guide.split("```toml").skip(1).map(|piece| piece.split("```").next().unwrap()).collect();
    assert_eq!(pieces.len(), 2, "the two halves of the example");
    let host = Host::with(&[]);
    let path = host.home.write("guide.toml", pieces.concat());
    host.sandkeeper(["profiles", "check"])
        .arg(&path)
        .run()
        .expect_exit(0)
        .expect_stdout("ok: the profile can be used");
}

#[test]
fn a_profile_file_that_is_right_can_be_tried_where_it_lies() {
    let host = Host::with(&[row("every-ada-x")
        .label("app", "everything")
        .label("tier", "sandbox")
        .label("box", "7")]);
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/profiles/valid");
    for file in std::fs::read_dir(folder).unwrap() {
        let file = file.unwrap().path();
        let finished = tried(&host, file.to_str().unwrap());
        let matched = usize::from(file.ends_with("everything.toml"));
        let counts = format!("containers: 1 on the engine, {matched} with the labels, {matched} recognised");
        let finished = finished.expect_stdout(&counts);
        assert_eq!(
            finished.stdout.contains("  every-ada-x (running): workspace ada/x"),
            matched == 1,
            "{finished}"
        );
    }
}
