//! The other systems that are understood out of the box, each as far as its facts carry: what is known to be needed is kept, and
//! where the facts end the answer is `unknown`.

use std::path::Path;

use jiff::Timestamp;
use rusqlite::Connection;
use serde_json::json;

use crate::support::native::{Host, container};
use crate::support::rows::{Row, ago, row};
use crate::support::scripted::Behaviour;
use crate::support::stores::iso_ago;
use crate::support::systems::{expect, expect_result};

const DAY: i64 = 86_400;

fn database(path: &Path, sql: &str) -> Connection {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    let connection = Connection::open(path).unwrap();
    connection.execute_batch(sql).unwrap();
    connection
}

fn aged(row: Row) -> Row {
    row.created(ago(9 * DAY))
}

/// `profiles try NAME` recognises so many containers and says this of them.
#[track_caller]
fn expect_tried(host: &Host, name: &str, recognised: usize, sentences: &[&str]) {
    let tried = host.sandkeeper(["profiles", "try", name]).run().expect_exit(0);
    let tried = tried.expect_stdout(&format!("{recognised} recognised"));
    sentences.iter().fold(tried, |tried, sentence| tried.expect_stdout(sentence));
}

#[test]
fn a_dev_container_is_over_when_its_folder_is_gone() {
    let home = tempfile::tempdir().unwrap();
    let folder = |name: &str| home.path().join(name).display().to_string();
    std::fs::create_dir(folder("there")).unwrap();
    std::fs::create_dir(folder("empty")).unwrap();
    let dev = |name: &str, folder: &str| {
        aged(row(name)).label("devcontainer.local_folder", folder).label("devcontainer.config_file", "x")
    };
    let host = Host::with(&[
        dev("there-running", &folder("there")),
        dev("there-exited", &folder("there")).state("exited"),
        dev("gone-running", &folder("gone")),
        dev("gone-exited", &folder("gone")).state("exited"),
        dev("unmounted", &folder("empty/project")).state("exited"),
        dev("windows", "c:\\projects\\x").state("exited"),
        row("other").label("com.example", "1").state("exited"),
    ]);
    let report = host.status([""; 0]).expect_exit(0).json();
    let gone = format!("{} is gone, so what it was made for is over", folder("gone"));
    expect(&report, "there-running", "idle", "nothing shows that it is over");
    expect(&report, "there-exited", "idle", "nothing shows that it is over");
    expect(&report, "gone-running", "orphaned", &gone);
    expect(&report, "gone-exited", "orphaned", &gone);
    expect(&report, "unmounted", "idle", "as where a disk is not mounted");
    expect(&report, "windows", "idle", "nothing shows that it is over");
    assert_eq!(container(&report, "there-running")["workspace"], folder("there"));
    assert_eq!(report["containers"].as_array().unwrap().len(), 6);
    let there = format!("  there-running (running): workspace {}", folder("there"));
    expect_tried(
        &host,
        "devcontainers",
        6,
        &[&there, "sessions: this system keeps none", "  gone-exited: orphaned: "],
    );
    let plan = host.sandkeeper(["reconcile", "--dry-run", "--json"]).run().expect_exit(0).json();
    let removed: Vec<_> =
        plan["outcomes"].as_array().unwrap().iter().filter(|o| o["action"] != "keep").collect();
    assert_eq!(removed.len(), 1, "{plan:#}");
    assert_eq!(removed[0]["name"], "gone-exited");
}

#[test]
fn many_folders_that_are_gone_at_once_look_like_a_disk_that_is() {
    let home = tempfile::tempdir().unwrap();
    std::fs::create_dir(home.path().join("something")).unwrap();
    let rows: Vec<Row> = (0..7)
        .map(|number| {
            let folder = home.path().join(format!("project-{number}")).display().to_string();
            aged(row(&format!("dev-{number}"))).label("devcontainer.local_folder", folder).state("exited")
        })
        .collect();
    let host = Host::with(&rows);
    let plan = host.sandkeeper(["reconcile", "--dry-run"]).run();
    assert!(
        plan.stdout.contains("0 to change, 7 to keep") && plan.stdout.contains("brake: 7 of 7"),
        "{plan}"
    );
}

#[test]
fn test_containers_are_at_work_while_their_ryuk_runs() {
    let test = |name: &str, session: &str| {
        aged(row(name)).label("org.testcontainers", "true").label("org.testcontainers.session-id", session)
    };
    let host = Host::with(&[
        aged(row("testcontainers-ryuk-s1"))
            .label("org.testcontainers", "true")
            .label("org.testcontainers.session-id", "s1"),
        test("db-watched", "s1"),
        test("job-watched", "s1").state("exited"),
        aged(row("go-watched"))
            .label("org.testcontainers", "true")
            .label("org.testcontainers.sessionId", "s3"),
        row("reaper_s3"),
        test("db-left", "s2"),
        test("job-left", "s2").state("exited"),
        aged(row("testcontainers-ryuk-s2")).state("exited").label("org.testcontainers", "true"),
        test("job-alone", "s4").state("exited"),
        test("reusable", "s2").label("org.testcontainers.hash", "abc").state("exited"),
    ]);
    let report = host.status([""; 0]).expect_exit(0).json();
    for name in ["testcontainers-ryuk-s1", "db-watched", "job-watched"] {
        expect(&report, name, "active", "testcontainers-ryuk-s1 runs, which watches over it");
    }
    expect(&report, "go-watched", "active", "reaper_s3 runs");
    expect(&report, "db-left", "idle", "nothing shows that it is over");
    expect(&report, "job-left", "orphaned", "nothing claims it; exited");
    expect(&report, "job-alone", "idle", "nothing shows that it is over");
    expect(&report, "reusable", "unknown", "made to be used again");
    expect_tried(
        &host,
        "testcontainers",
        9,
        &["  db-watched (running): workspace s1", "  db-watched: active: "],
    );
    // What is watched over is not removed even if it is named.
    let plan = host.sandkeeper(["rm", "--dry-run", "--json", "db-watched"]).run().json();
    assert_eq!(plan["outcomes"][0]["action"], "keep", "{plan:#}");
}

#[test]
fn whoever_watches_over_test_containers_is_looked_for_again_before_they_go() {
    let test = |name: &str| {
        aged(row(name)).label("org.testcontainers", "true").label("org.testcontainers.session-id", "s1")
    };
    let job = test("job").state("exited");
    let ryuk = |state: &str| row("testcontainers-ryuk-s1").state(state).listed();
    let host = Host::with(std::slice::from_ref(&job));
    let list = |rows: serde_json::Value| host.engine.on("GET", "/containers/json", Behaviour::json(&rows));
    list(json!([job.listed(), ryuk("exited")]));
    let report = host.status([""; 0]).expect_exit(0).json();
    expect(&report, "job", "orphaned", "nothing claims it; exited");
    // A row that cannot be read may be anybody's.
    list(json!([job.listed(), ryuk("exited"), { "Id": 7 }]));
    let report = host.status([""; 0]).json();
    expect(&report, "job", "unknown", "it may be the one that watches over this one");
    // It comes back while the plan is being carried out.
    let lists = vec![
        Behaviour::json(&json!([job.listed(), ryuk("exited")])),
        Behaviour::json(&json!([job.listed(), ryuk("running")])),
    ];
    host.engine.on("GET", "/containers/json", Behaviour::Sequence(lists));
    let finished = host.sandkeeper(["reconcile", "--yes", "--json"]).run().expect_exit(3);
    expect_result(&finished, "job", "skipped", "testcontainers-ryuk-s1 runs");
    host.expect_only_looks();
}

#[test]
fn openclaws_registry_tells_what_is_hot_idle_and_cold() {
    let claw = |name: &str| {
        aged(row(name)).label("openclaw.sandbox", "1").label("openclaw.sessionKey", "agent:main")
    };
    let host = Host::with(&[
        claw("openclaw-sbx-hot"),
        claw("openclaw-sbx-idle"),
        claw("openclaw-sbx-cold"),
        claw("openclaw-sbx-unlisted").state("exited"),
        claw("openclaw-sbx-theirs").state("exited").mount("/home/ada/.openclaw/sandboxes/x-1", "/workspace"),
    ]);
    let folder = host.home.path().join(".openclaw");
    let now = Timestamp::now().as_millisecond();
    let store = database(
        &folder.join("state/openclaw.sqlite"),
        "CREATE TABLE sandbox_registry_entries (registry_kind TEXT NOT NULL, container_name TEXT NOT NULL,
           session_key TEXT, backend_id TEXT, runtime_label TEXT, image TEXT, created_at_ms INTEGER,
           last_used_at_ms INTEGER, config_label_kind TEXT, config_hash TEXT, cdp_port INTEGER, no_vnc_port INTEGER,
           entry_json TEXT NOT NULL, updated_at INTEGER NOT NULL, PRIMARY KEY (registry_kind, container_name)) STRICT",
    );
    for (name, quiet) in [("hot", 60), ("idle", 3600), ("cold", 2 * DAY)] {
        let used = now - quiet * 1000;
        let sql = format!(
            "INSERT INTO sandbox_registry_entries (registry_kind, container_name, session_key, created_at_ms, \
             last_used_at_ms, entry_json, updated_at) VALUES ('container', 'openclaw-sbx-{name}', 'agent:main', {used}, \
             {used}, '{{}}', 0)"
        );
        store.execute_batch(&sql).unwrap();
    }
    let report = host.status([""; 0]).expect_exit(0).json();
    expect(&report, "openclaw-sbx-hot", "active", "counts as live");
    expect(&report, "openclaw-sbx-idle", "idle", "within its lifetime of 1d");
    expect(&report, "openclaw-sbx-cold", "stale", "longer than its lifetime of 1d");
    expect(&report, "openclaw-sbx-unlisted", "unknown", "nothing shows to whose sessions it belongs");
    expect(&report, "openclaw-sbx-theirs", "unknown", "belongs to /home/ada/.openclaw/state");
    let told = [
        "3 rows, read as `registry with times`",
        "  container openclaw-sbx-hot: live",
        "{container} = openclaw-sbx-hot",
        "  openclaw-sbx-cold: stale: ",
    ];
    expect_tried(&host, "openclaw", 5, &told);
    // One of ours that the registry has forgotten.
    let sandbox = folder.join("sandboxes/agent-1").display().to_string();
    host.engine.containers(&[claw("openclaw-sbx-forgotten").state("exited").mount(&sandbox, "/workspace")]);
    let report = host.status([""; 0]).expect_exit(0).json();
    expect(&report, "openclaw-sbx-forgotten", "orphaned", "no session claims it");
    // The registry of an older version says nothing about use.
    store.execute_batch("ALTER TABLE sandbox_registry_entries DROP COLUMN last_used_at_ms").unwrap();
    let report = host.status([""; 0]).expect_exit(4).json();
    expect(&report, "openclaw-sbx-forgotten", "unknown", "column sandbox_registry_entries.last_used_at_ms");
}

#[test]
fn nanoclaws_claims_count_and_what_only_a_heartbeat_knows_is_unknown() {
    let claw = |name: &str, session: &str| {
        aged(row(name))
            .label("nanoclaw-install", "i1")
            .label("nanoclaw-group", "g")
            .label("nanoclaw-session", session)
    };
    let host = Host::with(&[
        claw("nanoclaw-v2-a-1", "claimed"),
        claw("nanoclaw-v2-a-2", "quiet"),
        claw("nanoclaw-v2-a-3", "quiet").state("exited"),
        claw("nanoclaw-v2-a-4", "stranger").state("exited"),
        claw("nanoclaw-v2-a-5", "quiet").state("exited").label("nanoclaw-role", "gateway"),
    ]);
    let store = database(
        &host.home.path().join("nanoclaw/data/v2.db"),
        "CREATE TABLE sessions (id TEXT PRIMARY KEY, agent_group_id TEXT, status TEXT, container_status TEXT, last_active TEXT);
         CREATE TABLE session_claims (session_id TEXT PRIMARY KEY)",
    );
    for id in ["claimed", "quiet"] {
        let sql = "INSERT INTO sessions VALUES (?1, 'g', 'active', 'running', ?2)";
        store.execute(sql, [id, &iso_ago(3600)]).unwrap();
    }
    store.execute_batch("INSERT INTO session_claims VALUES ('claimed')").unwrap();
    let report = host.status([""; 0]).expect_exit(0).json();
    expect(&report, "nanoclaw-v2-a-1", "active", "session claimed is live");
    expect(&report, "nanoclaw-v2-a-2", "unknown", "shows only in a heartbeat file");
    expect(&report, "nanoclaw-v2-a-3", "idle", "1 session claims it");
    expect(&report, "nanoclaw-v2-a-4", "unknown", "nothing shows to whose sessions it belongs");
    expect(&report, "nanoclaw-v2-a-5", "unknown", "it is a gateway");
    let told = ["2 rows, read as `sessions and claims`", "  claimed: live", "  nanoclaw-v2-a-1: active: "];
    expect_tried(&host, "nanoclaw", 5, &told);
    // A second installation on the engine is not ours because it uses the same session's name.
    host.engine.containers(&[
        claw("nanoclaw-v2-a-3", "quiet").state("exited"),
        claw("nanoclaw-v2-b-1", "quiet").label("nanoclaw-install", "i2").state("exited"),
    ]);
    let report = host.status([""; 0]).expect_exit(0).json();
    expect(&report, "nanoclaw-v2-a-3", "idle", "1 session claims it");
    expect(&report, "nanoclaw-v2-b-1", "unknown", "belongs to instance i2");
}

#[test]
fn openhands_servers_that_wait_are_kept_and_running_ones_are_not_judged() {
    let hands = |name: &str| aged(row(name)).label("sandbox_spec_id", "ghcr.io/x:1");
    let host = Host::with(&[
        hands("oh-agent-server-busy"),
        hands("oh-agent-server-runs"),
        hands("oh-agent-server-paused").state("paused"),
        hands("oh-agent-server-exited").state("exited"),
        hands("oh-agent-server-unlisted").state("exited"),
        hands("my-own").state("exited"),
    ]);
    let store = database(
        &host.home.path().join(".openhands/openhands.db"),
        "CREATE TABLE conversation_metadata (conversation_id TEXT PRIMARY KEY, sandbox_id TEXT, title TEXT, created_at TEXT, last_updated_at TEXT)",
    );
    for (name, quiet) in [("busy", 60), ("runs", 2 * DAY), ("paused", 8 * DAY), ("exited", 8 * DAY)] {
        let at = Timestamp::from_second(ago(quiet)).unwrap().strftime("%Y-%m-%d %H:%M:%S.000000").to_string();
        let sql = "INSERT INTO conversation_metadata VALUES (?1, 'oh-agent-server-' || ?1, NULL, ?2, ?2)";
        store.execute(sql, [name, &at]).unwrap();
    }
    let report = host.status([""; 0]).expect_exit(0).json();
    expect(&report, "oh-agent-server-busy", "active", "session busy was active");
    expect(&report, "oh-agent-server-runs", "unknown", "known only inside of it");
    expect(&report, "oh-agent-server-paused", "idle", "1 session claims it");
    expect(&report, "oh-agent-server-exited", "idle", "1 session claims it");
    expect(&report, "oh-agent-server-unlisted", "unknown", "nothing shows to whose sessions it belongs");
    assert_eq!(report["containers"].as_array().unwrap().len(), 5, "{report:#}");
    let told =
        ["4 rows, read as `conversation metadata`", "  not my-own: ", "  oh-agent-server-paused: idle: "];
    expect_tried(&host, "openhands", 5, &told);
}
