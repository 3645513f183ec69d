//! Which systems are on a host is found out, not asked: by their containers and by their stores. Who is claimed by several is
//! nobody's to touch.

use rusqlite::Connection;
use serde_json::{Value, json};

use crate::support::hermes::HermesHome;
use crate::support::native::{Host, container, native_row, reasons};
use crate::support::program::Finished;
use crate::support::rows::{Row, row};
use crate::support::stores::{NativeStore, ParachuteStore};
use crate::support::systems::expect;

fn scan() -> Row {
    row("scan").label("kojuto.scan", "true").state("exited")
}

fn hermes() -> Row {
    row("hermes-01234567")
        .label("hermes-agent", "1")
        .label("hermes-task-id", "t")
        .label("hermes-profile", "default")
}

fn doctor(host: &Host) -> Finished {
    host.sandkeeper(["doctor"]).run()
}

#[track_caller]
fn expect_in_use(host: &Host, expected: &[&str]) {
    let finished = doctor(host);
    let in_use = finished.stdout.lines().filter(|line| line.contains(" in use ("));
    let in_use: Vec<&str> = in_use
        .map(|line| line.split_whitespace().skip_while(|word| *word != "profile").nth(1).unwrap())
        .collect();
    assert_eq!(in_use, expected, "{finished}");
    let report = host.status([""; 0]).json();
    let systems: Vec<&str> =
        report["systems"].as_array().unwrap().iter().map(|system| system.as_str().unwrap()).collect();
    assert_eq!(systems, expected, "{report:#}");
}

#[test]
fn systems_are_found_by_their_containers_and_by_their_stores() {
    let host = Host::with(&[]);
    expect_in_use(&host, &[]);
    host.engine.containers(&[scan()]);
    expect_in_use(&host, &["kojuto"]);
    host.engine.containers(&[scan(), hermes()]);
    expect_in_use(&host, &["hermes", "kojuto"]);
    let _native = NativeStore::create(host.home.native_store());
    let _parachute = ParachuteStore::create(host.home.path().join("Parachute/Chat/sessions.db"));
    expect_in_use(&host, &["hermes", "kojuto", "native", "parachute"]);
    host.engine.containers(&[]);
    expect_in_use(&host, &["native", "parachute"]);
    let report = host.status(["--profile", "kojuto"]).expect_exit(0).json();
    assert_eq!(report["systems"], json!(["kojuto"]), "what was asked for is looked for, found or not");
}

#[test]
fn several_systems_have_a_column_of_their_own_and_one_has_none() {
    let host = Host::with(&[scan()]);
    let table = host.sandkeeper(["status"]).run().expect_exit(0);
    assert!(!table.stdout.contains("SYSTEM") && !table.stdout.contains("systems:"), "{table}");
    host.engine.containers(&[scan(), native_row("box", "atlas")]);
    let _native = NativeStore::create(host.home.native_store());
    let table = host.sandkeeper(["status"]).run().expect_exit(0);
    assert!(table.stdout.contains("systems: kojuto, native\n"), "{table}");
    let heading = table.stdout.lines().find(|line| line.contains("WORKSPACE")).unwrap();
    let column = heading.find("SYSTEM").unwrap();
    for (name, system) in [("scan", "kojuto"), ("box", "native")] {
        let line = table.stdout.lines().find(|line| line.trim_start().starts_with(name)).unwrap();
        assert!(line[column..].starts_with(system), "{table}");
    }
}

#[test]
fn a_container_that_two_profiles_claim_is_unknown_with_both_named() {
    let host =
        Host::with(&[scan(), row("mine").label("kojuto.scan", "true").label("mine", "1").state("exited")]);
    let profile = "name = \"fork\"\ndescription = \"A fork\"\n[containers]\nlabels = { mine = \"1\" }\n";
    host.home.write(".config/sandkeeper/profiles/fork.toml", profile);
    let report = host.status([""; 0]).expect_exit(0).json();
    expect(&report, "mine", "unknown", "claimed by several profiles: fork, kojuto");
    assert_eq!(container(&report, "mine")["system"], Value::Null);
    expect(&report, "scan", "orphaned", "nothing claims it");
    let finished = host.sandkeeper(["reconcile", "--dry-run", "--min-age", "0s"]).run();
    assert!(finished.stdout.contains("1 to change, 1 to keep"), "{finished}");
    host.expect_only_looks();
}

#[test]
fn a_container_that_two_stores_claim_is_unknown_with_both_named() {
    let host = Host::with(&[native_row("box", "atlas"), native_row("other", "borealis")]);
    let one = NativeStore::create(host.home.path().join("one.db"));
    let two = NativeStore::create(host.home.path().join("two.db"));
    one.session("s1", "atlas").ended_ago(50).insert();
    two.session("s2", "atlas").ended_ago(50).insert();
    two.session("s3", "borealis").insert();
    let named = |store: &NativeStore| format!("native={}", store.path().display());
    let report = host.status(["--db", &named(&one), "--db", &named(&two)]).expect_exit(0).json();
    expect(&report, "box", "unknown", "claimed by sessions of several stores: ");
    let why = reasons(container(&report, "box"));
    assert!(why.contains("/one.db") && why.contains("/two.db"), "{why}");
    expect(&report, "other", "idle", "1 session claims it");
    // The same file under two names is one store.
    std::os::unix::fs::symlink(one.path(), host.home.path().join("again.db")).unwrap();
    let again = format!("native={}", host.home.path().join("again.db").display());
    let report = host.status(["--db", &named(&one), "--db", &again]).expect_exit(0).json();
    expect(&report, "box", "idle", "1 session claims it");
}

#[test]
fn an_older_form_of_the_tables_answers_where_the_newest_does_not_fit() {
    let host = Host::with(&[row("parachute-ws-atlas").label("app", "parachute").label("workspace", "atlas")]);
    let store = ParachuteStore::create(host.home.path().join("Parachute/Chat/sessions.db"));
    store.session("s1").workspace("atlas").accessed_ago(5).insert();
    let steps = [
        ("", "with environments"),
        ("ALTER TABLE sessions DROP COLUMN container_env_id", "with trust levels"),
        ("ALTER TABLE sessions DROP COLUMN trust_level", "before trust levels"),
    ];
    for (change, read_as) in steps {
        store.execute(change);
        let finished = doctor(&host);
        assert!(finished.stdout.contains(&format!("1 session, read as `{read_as}`")), "{finished}");
        expect(&host.status([""; 0]).expect_exit(0).json(), "parachute-ws-atlas", "active", "s1");
    }
    store.execute("ALTER TABLE sessions RENAME COLUMN last_accessed TO touched");
    store.execute("ALTER TABLE sessions DROP COLUMN workspace_id");
    let report = host.status([""; 0]).expect_exit(4).json();
    expect(
        &report,
        "parachute-ws-atlas",
        "unknown",
        "`before trust levels` misses column sessions.last_accessed, column sessions.workspace_id",
    );
    let finished = doctor(&host).expect_exit(1);
    assert!(finished.stdout.contains("add a query variant to it"), "{finished}");
}

#[test]
fn a_home_that_cannot_be_looked_into_is_not_passed_over() {
    let host = Host::with(&[hermes().mount("/home/ada/.hermes/sandboxes/docker/default/home", "/root")]);
    let home = HermesHome::create(host.home.path().join(".hermes"));
    home.session("s1", 10.0);
    let report = host.status([""; 0]).expect_exit(0).json();
    expect(
        &report,
        "hermes-01234567",
        "unknown",
        "belongs to /home/ada/.hermes (default), whose sessions are not read here",
    );
    // A database of another application under that name is no store without sessions.
    let strange = host.home.path().join(".hermes/profiles/work/state.db");
    std::fs::create_dir_all(strange.parent().unwrap()).unwrap();
    Connection::open(&strange).unwrap().execute_batch("CREATE TABLE photos(id)").unwrap();
    let report = host.status([""; 0]).expect_exit(4).json();
    assert_eq!(container(&report, "hermes-01234567")["status"], "unknown", "{report:#}");
}

#[test]
fn a_container_of_two_systems_is_disputed_even_if_only_one_is_looked_for() {
    let both = scan().label("hermes-agent", "1");
    let host = Host::with(&[both]);
    for arguments in [&[][..], &["--profile", "kojuto"][..]] {
        let report = host.status(arguments).json();
        expect(&report, "scan", "unknown", "claimed by several profiles: ");
        let why = reasons(container(&report, "scan"));
        assert!(why.contains("hermes") && why.contains("kojuto"), "{why}");
    }
}
