//! Coming back, on real engines: a sandbox that is removed behind our back is lost, and made again like the old one in every
//! field; what was put aside or removed by sandkeeper is taken back.

use crate::support::engine::{Kind, RealEngine};
use crate::support::hermes::HermesHome;
use crate::support::kept::KeptHost;
use crate::support::program::Finished;
use crate::support::terminal::{Key, Terminal};
use crate::support::{on_both_engines, wait_until};
use serde_json::{Value, json};

on_both_engines![
    a_lasting_sandbox_that_is_removed_behind_our_back_is_lost_and_comes_back_as_it_was,
    when_somebody_was_faster_his_container_is_adopted,
    what_fails_leaves_nothing_behind,
    what_ends_with_its_session_is_not_lost_and_what_goes_with_it_is_not_brought_back,
    quarantine_restore_and_purge,
    a_removal_is_undone_and_its_named_and_unnamed_volumes_come_back_with_what_is_in_them,
    healing_brings_back_what_was_killed_and_what_was_removed_once_each,
    what_a_container_has_written_is_saved_before_it_goes,
];

/// A value that nobody may ever be shown.
const CANARY: &str = "canary-5up3r-53cr3t";

/// What must be the same again, as a path into an inspection.
const FIELDS: [&str; 37] = [
    "/Image",
    "/Path",
    "/Args",
    "/Config/Image",
    "/Config/Cmd",
    "/Config/Entrypoint",
    "/Config/Env",
    "/Config/Labels",
    "/Config/User",
    "/Config/WorkingDir",
    "/Config/StopSignal",
    "/Config/StopTimeout",
    "/Config/Healthcheck",
    "/Config/Tty",
    "/Config/OpenStdin",
    "/Config/Hostname",
    "/HostConfig/Binds",
    "/HostConfig/Tmpfs",
    "/HostConfig/Memory",
    "/HostConfig/MemorySwap",
    "/HostConfig/NanoCpus",
    "/HostConfig/CpuShares",
    "/HostConfig/PidsLimit",
    "/HostConfig/CapAdd",
    "/HostConfig/CapDrop",
    "/HostConfig/SecurityOpt",
    "/HostConfig/NetworkMode",
    "/HostConfig/RestartPolicy",
    "/HostConfig/Ulimits",
    "/HostConfig/Init",
    "/HostConfig/ReadonlyRootfs",
    "/HostConfig/ShmSize",
    "/HostConfig/AutoRemove",
    "/HostConfig/Privileged",
    "/HostConfig/ExtraHosts",
    "/HostConfig/OomScoreAdj",
    "/HostConfig/LogConfig",
];

fn lost(host: &KeptHost<'_>) -> Value {
    host.sandkeeper(["status", "--json"]).run().json()["lost"].clone()
}

fn only(finished: &Finished) -> (String, String) {
    let outcome = &finished.json()["outcomes"][0];
    let text = |key: &str| outcome[key].as_str().unwrap_or_default().to_owned();
    (text("result"), text("reason"))
}

fn expect(finished: &Finished, result: &str, reason: &str) {
    let (ending, why) = only(finished);
    assert!(ending == result && why.contains(reason), "not {result} because {reason:?}: {finished}");
}

fn recovering(host: &KeptHost<'_>, arguments: &[&str]) -> Finished {
    host.sandkeeper(arguments.iter().copied()).args(["--yes", "--json"]).run()
}

/// Lets sandkeeper see the host, as every acting command does.
fn see(host: &KeptHost<'_>) {
    host.reconcile(&[]);
}

/// The mounts, in an order that does not depend on chance.
fn mounts(inspected: &Value) -> Vec<String> {
    let mounts = inspected["Mounts"].as_array().unwrap().iter();
    let mut mounts: Vec<String> = mounts
        .map(|mount| {
            format!("{} {} {} {}", mount["Type"], mount["Source"], mount["Destination"], mount["RW"])
        })
        .collect();
    mounts.sort();
    mounts
}

fn id_named(engine: &RealEngine, name: &str) -> String {
    engine.inspect(name)["Id"].as_str().unwrap().to_owned()
}

fn clear(engine: &RealEngine, name: &str) {
    let _ = engine.try_cli(&["rm", "--force", name]);
}

fn a_lasting_sandbox_that_is_removed_behind_our_back_is_lost_and_comes_back_as_it_was(engine: &RealEngine) {
    let host = KeptHost::on(engine);
    let home = HermesHome::create(host.home.path().join(".hermes"));
    home.session("20260301_100000_aaaaaa", 5.0);
    let extra = host.shared_folder("shared");
    let mut sandbox = home
        .lasting(&host.scene, "hermes-0a1b2c3d")
        .mount(&format!("{}:/shared", extra.display()), "ro")
        .option(format!("--env=API_TOKEN={CANARY}"))
        .option("--env=LANG=C")
        .option("--user=0:0")
        .option("--workdir=/workspace")
        .option("--tmpfs=/scratch:size=1m")
        .option("--cap-add=NET_ADMIN")
        .option("--cap-drop=MKNOD")
        .option("--security-opt=no-new-privileges")
        .option("--stop-signal=SIGINT")
        .option("--restart=on-failure:3")
        .option("--init=false")
        .option("--entrypoint=sleep")
        .command("1000");
    if engine.kind == Kind::Docker {
        sandbox = sandbox
            .option("--ulimit=nofile=512:1024")
            .option("--memory=256m")
            .option("--pids-limit=100")
            .option("--cpu-shares=512")
            .option("--hostname=sandy")
            .option("--oom-score-adj=100")
            .option("--health-cmd=true")
            .option("--health-interval=1h");
    }
    let id = sandbox.running();
    std::fs::write(home.folder().join("sandboxes/docker/default/workspace/work.txt"), "unsaved").unwrap();
    let mut old = engine.inspect(&id);
    let terminal = Terminal::start(host.sandkeeper([""; 0]), 40, 160);
    terminal.wait_for("1 active");
    wait_until("it is recorded", || recorded(&host) == 1);

    engine.cli(&["rm", "--force", &id]);
    terminal.wait_for("1 lost").type_keys("j").wait_for("last seen").wait_for("makes it again");
    if engine.kind == Kind::Docker {
        terminal.wait_for("somebody removed it (exit code 137)");
    }
    terminal.type_keys("C").wait_for("Recreate: 1 to change").type_keys("y");
    terminal.wait_for("recreate is over: 1 recreated").press(Key::Enter).wait_gone("[ Close ]");
    terminal.wait_gone("1 lost").wait_for("1 active");
    assert!(!String::from_utf8_lossy(&terminal.raw_bytes()).contains(CANARY), "{terminal}");
    terminal.quit();

    let mut new = engine.inspect("hermes-0a1b2c3d");
    assert_ne!(new["Id"], old["Id"]);
    // Podman keeps them in no order, and adds the host name.
    for inspected in [&mut old, &mut new] {
        let variables = inspected["Config"]["Env"].as_array_mut().unwrap();
        variables.retain(|variable| !variable.as_str().unwrap().starts_with("HOSTNAME="));
        variables.sort_by_key(ToString::to_string);
    }
    assert_eq!(new["State"]["Status"], "running");
    for field in FIELDS {
        let (old, new) = (old.pointer(field), new.pointer(field));
        let made_up = field == "/Config/Hostname" && engine.kind == Kind::Podman;
        let nothing = |value: Option<&Value>| value.is_none_or(|v| v.is_null() || *v == json!([]));
        assert!(made_up || old == new || (nothing(old) && nothing(new)), "{field}: {old:?} became {new:?}");
    }
    assert_eq!(mounts(&new), mounts(&old));
    let found = engine.cli(&["exec", "hermes-0a1b2c3d", "cat", "/workspace/work.txt"]);
    assert_eq!(found, "unsaved");
    assert_eq!(engine.containers().len(), 1, "nothing else is left");
    let log = host.sandkeeper(["log", "--json"]).run().expect_exit(0);
    assert!(log.json()[0]["outcome"].as_str().unwrap().contains("made again as"), "{log}");
    assert!(!log.to_string().contains(CANARY));
    clear(engine, "hermes-0a1b2c3d");
}

fn recorded(host: &KeptHost<'_>) -> i64 {
    let path = host.home.state().join("sandkeeper/state.db");
    if !path.exists() {
        return 0;
    }
    let state = rusqlite::Connection::open(path).unwrap();
    state.query_row("SELECT count(*) FROM specs WHERE spec IS NOT NULL", [], |row| row.get(0)).unwrap_or(0)
}

fn when_somebody_was_faster_his_container_is_adopted(engine: &RealEngine) {
    let host = KeptHost::on(engine);
    let home = HermesHome::create(host.home.path().join(".hermes"));
    home.session("s1", 5.0);
    let id = home.lasting(&host.scene, "hermes-1").running();
    see(&host);
    engine.cli(&["rm", "--force", &id]);
    assert_eq!(lost(&host)[0]["way_back"], "recreate");
    let other = home.lasting(&host.scene, "hermes-2").exited();
    expect(&recovering(&host, &["recreate", "hermes-1"]).expect_exit(0), "adopted", "hermes-2");
    assert_eq!(engine.containers(), std::slice::from_ref(&other), "no second one");
    engine.wait_for_state(&other, "running");
    assert_eq!(lost(&host), json!([]));
}

fn what_fails_leaves_nothing_behind(engine: &RealEngine) {
    let host = KeptHost::on(engine);
    let image = "sandkeeper-recovery-test:latest";
    host.scene.image(image, &[]);
    host.store.session("s1", "atlas").status("active").insert();
    let name = host.scene.name("atlas");
    let id = host.current("atlas").image(image).running();
    let folder = host.shared_folder("bound");
    see(&host);
    engine.cli(&["rm", "--force", &id]);

    // Its name is somebody else's by now.
    let stranger = host.scene.container(name.clone()).running();
    expect(&recovering(&host, &["recreate", &id]), "failed", "is taken by another container");
    assert_eq!(engine.containers(), std::slice::from_ref(&stranger));
    engine.cli(&["rm", "--force", &stranger]);

    // Its image is gone.
    engine.cli(&["rmi", "--force", image]);
    expect(&recovering(&host, &["recreate", &id]), "failed", "sandkeeper-recovery-test:latest is gone");
    assert_eq!(engine.containers(), [""; 0]);

    // It cannot be started: what it runs is gone.
    host.store.session("s2", "borealis").status("active").insert();
    let script = folder.join("run");
    std::fs::write(&script, "#!/bin/sh\nwhile :; do sleep 1; done\n").unwrap();
    let mut permissions = std::fs::metadata(&script).unwrap().permissions();
    std::os::unix::fs::PermissionsExt::set_mode(&mut permissions, 0o755);
    std::fs::set_permissions(&script, permissions).unwrap();
    let bound = folder.display().to_string();
    let second = host.current("borealis").mount(&bound, "/bound").command("/bound/run").running();
    see(&host);
    engine.cli(&["rm", "--force", &second]);
    std::fs::remove_file(&script).unwrap();
    expect(&recovering(&host, &["recreate", &second]), "failed", "could not be started");
    assert_eq!(engine.containers(), [""; 0]);
}

fn what_ends_with_its_session_is_not_lost_and_what_goes_with_it_is_not_brought_back(engine: &RealEngine) {
    let host = KeptHost::on(engine);
    host.store.session("over", "atlas").ended_ago(5).insert();
    host.current("atlas").script("exit 1").exited();
    assert_eq!(lost(&host), json!([]));
    let name = host.scene.name("passing");
    let passing = host.current("passing").label("sandkeeper.persistent", "false").running();
    host.store.session("s1", "passing").container(name.clone()).status("active").insert();
    see(&host);
    engine.cli(&["rm", "--force", &passing]);
    assert_eq!(lost(&host)[0]["way_back"], "not_persistent");
    let before = engine.containers().len();
    expect(&recovering(&host, &["recreate", &name]), "kept", "goes with its sessions");
    assert_eq!(engine.containers().len(), before);
}

fn quarantine_restore_and_purge(engine: &RealEngine) {
    let host = KeptHost::on(engine);
    let id = host
        .current("atlas")
        .script("echo kept >/inside; trap exit TERM; while :; do sleep 0.1; done")
        .running();
    wait_until("it has written", || engine.try_cli(&["exec", &id, "cat", "/inside"]).is_ok());
    let name = host.scene.name("atlas");
    let aside = host.acting("rm", &["--quarantine", &name]).run().expect_exit(0);
    expect(&aside, "quarantined", "sandkeeper-quarantine-");
    let named = engine.inspect(&id)["Name"].as_str().unwrap().to_owned();
    assert!(named.contains(&format!("sandkeeper-quarantine-{}-", &id[..12])), "{named}");
    assert_eq!(engine.state(&id).as_deref(), Some("exited"));
    let shown = host.sandkeeper(["status", "--json"]).run().json();
    assert!(shown["containers"][0]["reasons"][0].as_str().unwrap().contains("in quarantine"), "{shown:#}");

    expect(&recovering(&host, &["undo"]).expect_exit(0), "restored", &name);
    assert_eq!(engine.state(&id).as_deref(), Some("running"));
    assert_eq!(engine.cli(&["exec", &id, "cat", "/inside"]), "kept", "what it wrote is still there");

    host.home.write(".config/sandkeeper/config.toml", "[reconcile]\nquarantine_for = \"0s\"\n");
    host.acting("rm", &["--quarantine", &name]).run().expect_exit(0);
    let purged = host.reconcile(&[]).expect_exit(0);
    expect(&purged, "removed", "in quarantine");
    assert!(!host.exists(&id));
    let log = host.sandkeeper(["log", "--json"]).run().json();
    let actions: Vec<&str> = log.as_array().unwrap().iter().map(|e| e["action"].as_str().unwrap()).collect();
    assert_eq!(actions, ["quarantine", "restore", "quarantine", "remove"]);
}

fn a_removal_is_undone_and_its_named_and_unnamed_volumes_come_back_with_what_is_in_them(engine: &RealEngine) {
    let host = KeptHost::on(engine);
    let volume = host.scene.name("named");
    let id = host
        .current("atlas")
        .mount(&volume, "/named")
        .option("--volume=/unnamed")
        .script("echo a >/named/file; echo b >/unnamed/file; trap exit TERM; while :; do sleep 0.1; done")
        .running();
    wait_until("it has written", || {
        engine.try_cli(&["exec", &id, "cat", "/unnamed/file"]).is_ok_and(|text| text == "b")
    });
    let name = host.scene.name("atlas");
    host.acting("rm", &[&name]).run().expect_exit(0);
    assert!(!host.exists(&id));
    assert_eq!(lost(&host), json!([]));
    let undone = recovering(&host, &["undo"]).expect_exit(0);
    expect(&undone, "recreated", "what was written inside the old one, outside of mounts, is lost");
    let new = id_named(engine, &name);
    assert_eq!(engine.cli(&["exec", &new, "cat", "/named/file", "/unnamed/file"]), "a\nb");
    engine.cli(&["rm", "--force", "--volumes", &new]);
    for volume in engine.cli(&["volume", "ls", "--quiet"]).lines() {
        let _ = engine.try_cli(&["volume", "rm", volume]);
    }
}

fn healing_brings_back_what_was_killed_and_what_was_removed_once_each(engine: &RealEngine) {
    let host = KeptHost::on(engine);
    host.home.write(".config/sandkeeper/config.toml", "[recovery]\nheal = [\"native\"]\n");
    let (killed, removed) = (host.current("killed").running(), host.current("removed").running());
    for workspace in ["killed", "removed"] {
        host.store.session(&format!("in {workspace}"), workspace).status("active").insert();
    }
    let mut healer = host.sandkeeper(["heal", "--watch"]).spawn();
    wait_until("both are recorded", || recorded(&host) == 2);
    engine.cli(&["rm", "--force", &removed]);
    healer.line_where("one is back", |line| line.contains("recreated"));
    let again = id_named(engine, &host.scene.name("removed"));
    assert_eq!(engine.state(&again).as_deref(), Some("running"));
    engine.cli(&["exec", &killed, "true"]);
    // Podman was not seen to tell afterwards how a container ended; what cannot be told from a stop is left alone.
    if engine.kind == Kind::Docker {
        engine.cli(&["kill", &killed]);
        healer.line_where("the other runs again", |line| line.contains("started"));
        assert_eq!(engine.state(&killed).as_deref(), Some("running"));
    }
    assert_eq!(engine.containers().len(), 2);
    healer.signal("TERM");
    healer = {
        healer.wait();
        host.sandkeeper(["--read-only", "heal", "--once"]).spawn()
    };
    healer.wait().expect_exit(1).expect_stderr("read-only");

    // One whose program fails under its session is started again; by its exit code it was no stop.
    host.store.session("in failing", "failing").status("active").insert();
    let folder = host.shared_folder("switch");
    let bound = folder.display().to_string();
    let failing = host
        .current("failing")
        .mount(&bound, "/switch")
        .script("while [ ! -e /switch/fail ]; do sleep 0.1; done; rm /switch/fail; exit 1")
        .running();
    see(&host);
    std::fs::write(folder.join("fail"), "").unwrap();
    engine.wait_for_state(&failing, "exited");
    let finished = host.sandkeeper(["heal", "--once", "--json"]).run().expect_exit(0);
    expect(&finished, "started", "");
    assert_eq!(engine.state(&failing).as_deref(), Some("running"));
    clear(engine, &again);
}

fn what_a_container_has_written_is_saved_before_it_goes(engine: &RealEngine) {
    let host = KeptHost::on(engine);
    let bound = host.shared_folder("bound");
    std::fs::write(bound.join("stays"), "outside").unwrap();
    let deep = "d".repeat(120);
    let script = format!(
        "mkdir -p /new/{deep}/{deep}; echo one >/new/{deep}/{deep}/file; echo two >/etc-of-mine; ln -s /new /link; \
         ln /etc-of-mine /hard; touch /ready; trap exit TERM; while :; do sleep 0.1; done"
    );
    let id = host
        .current("atlas")
        .network("none")
        .mount(bound.to_str().unwrap(), "/bound")
        .script(&script)
        .running();
    wait_until("it has written", || engine.try_cli(&["exec", &id, "ls", "/ready"]).is_ok());
    let name = host.scene.name("atlas");
    let folder = host.home.path().join("saved");
    // Where nothing can be written, nothing is removed.
    let file = host.home.write("a-file", "");
    let refused = host.acting("rm", &["--export", file.to_str().unwrap(), &name]).run();
    expect(&refused, "failed", "it is not removed");
    assert!(host.exists(&id));
    let removed = host.acting("rm", &["--export", folder.to_str().unwrap(), &name]).run().expect_exit(0);
    expect(&removed, "removed", "");
    assert!(!host.exists(&id));
    let archive = folder.join(format!("{name}-{}.tar", &id[..12]));
    let into = host.shared_folder("unpacked");
    let unpacked =
        std::process::Command::new("tar").arg("-xf").arg(&archive).arg("-C").arg(&into).output().unwrap();
    assert!(unpacked.status.success(), "{unpacked:?}");
    let read =
        |path: &str| std::fs::read_to_string(into.join(path)).unwrap_or_else(|why| panic!("{path}: {why}"));
    assert_eq!(read(&format!("new/{deep}/{deep}/file")), "one\n");
    assert_eq!((read("etc-of-mine"), read("hard")), ("two\n".to_owned(), "two\n".to_owned()));
    if engine.kind == Kind::Docker {
        // Podman packs what a link leads to.
        assert_eq!(std::fs::read_link(into.join("link")).unwrap().to_str(), Some("/new"));
    }
    assert!(!into.join("bound").join("stays").exists(), "what is mounted stays where it is");
    let log = host.sandkeeper(["log", "--json"]).run().json();
    assert!(log.to_string().contains("entries in"), "{log:#}");
}
