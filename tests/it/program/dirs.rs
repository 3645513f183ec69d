//! The folders that sandboxes leave behind: named when a sandbox goes, listed while nobody has them, and moved away only by a
//! step of its own that can be taken back.

use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use serde_json::Value;

use crate::support::engine::RealEngine;
use crate::support::hermes::HermesHome;
use crate::support::native::{Host, container};
use crate::support::program::Finished;
use crate::support::rows::{Row, row};
use crate::support::scripted::Behaviour;
use crate::support::systems::{SystemsHost, expect_result};
use crate::support::wait_until;

/// A Hermes home with these sandbox folders, each with a file of 2,000 bytes, unchanged for a day.
fn home_with(host: &Host, sandboxes: &[&str]) -> HermesHome {
    let home = HermesHome::create(host.home.path().join(".hermes"));
    home.session("s1", 86_400.0);
    home.end("s1", "user_exit", 80_000.0);
    for name in sandboxes {
        let folder = root(&home).join(name);
        fs::create_dir_all(folder.join("home/deep")).unwrap();
        fs::create_dir_all(folder.join("workspace")).unwrap();
        fs::write(folder.join("home/deep/notes"), [b'x'; 2000]).unwrap();
        age(&folder);
    }
    home
}

fn root(home: &HermesHome) -> PathBuf {
    home.folder().join("sandboxes/docker")
}

/// Makes everything in a folder a day old.
fn age(path: &Path) {
    if path.is_dir() {
        for entry in fs::read_dir(path).unwrap() {
            age(&entry.unwrap().path());
        }
    }
    File::open(path).unwrap().set_modified(SystemTime::now() - Duration::from_hours(24)).unwrap();
}

fn lasting(folder: &Path) -> Row {
    row("hermes-01234567")
        .label("hermes-agent", "1")
        .mount(&folder.join("home").display().to_string(), "/root")
}

fn listed(host: &Host) -> Value {
    host.sandkeeper(["dirs", "--json"]).run().expect_exit(0).json()
}

fn names(report: &Value) -> Vec<String> {
    let folders = report["leftovers"].as_array().unwrap().iter();
    let name = |each: &Value| Path::new(each["path"].as_str().unwrap()).file_name().unwrap().to_owned();
    folders.map(|each| name(each).into_string().unwrap()).collect()
}

fn trash(host: &Host, arguments: &[&str]) -> Finished {
    host.sandkeeper([&["dirs", "trash"], arguments].concat()).run()
}

#[test]
fn folders_without_a_container_are_listed_with_size_and_age() {
    let host = Host::with(&[]);
    let home = home_with(&host, &["default", "old", "older"]);
    symlink("/etc", root(&home).join("link")).unwrap();
    fs::write(root(&home).join("file"), "x").unwrap();
    host.engine.containers(&[lasting(&root(&home).join("default")), row("other")]);
    let report = listed(&host);
    assert_eq!(names(&report), ["old", "older"], "{report:#}");
    let old = &report["leftovers"][0];
    assert_eq!(
        (&old["system"], &old["bytes"], &old["measured"]),
        (&"hermes".into(), &2000.into(), &true.into())
    );
    assert_eq!(old["kept"], Value::Null, "{report:#}");
    let table = host.sandkeeper(["dirs"]).run().expect_exit(0);
    let table = table.expect_stdout("old  1.9 KiB, unchanged for 1d  [hermes]");
    assert!(!table.stdout.contains("default"), "{table}");
    // A container that does not run has its folders all the same, and so has a stranger's.
    host.engine.containers(&[
        lasting(&root(&home).join("default")).state("exited"),
        row("other").mount(&root(&home).join("old/workspace/sub").display().to_string(), "/x"),
        row("broad").mount(&root(&home).join("older").display().to_string(), "/y"),
    ]);
    assert_eq!(names(&listed(&host)), [""; 0]);
    host.expect_only_looks();
}

#[test]
fn what_somebody_may_need_stays() {
    let host = Host::with(&[]);
    let home = home_with(&host, &["old", "fresh"]);
    fs::write(root(&home).join("fresh/home/deep/new"), "x").unwrap();
    let report = listed(&host);
    assert!(report["leftovers"][0]["kept"].as_str().unwrap().contains("within the grace"), "{report:#}");
    assert_eq!(report["leftovers"][1]["kept"], Value::Null);

    home.session("busy", 5.0);
    let report = listed(&host);
    for folder in report["leftovers"].as_array().unwrap() {
        assert!(
            folder["kept"].as_str().unwrap().contains("session busy is live and may need it"),
            "{report:#}"
        );
    }
    let old = root(&home).join("old").display().to_string();
    trash(&host, &["--yes", &old]).expect_exit(3).expect_stdout("0 to move, 1 to keep");
    assert!(root(&home).join("old").is_dir());

    home.execute("DROP TABLE messages");
    let report = host.sandkeeper(["dirs", "--json"]).run().expect_exit(4).json();
    assert!(report["leftovers"][1]["kept"].as_str().unwrap().contains("could not be read"), "{report:#}");
    trash(&host, &["--yes", &old]).expect_exit(3).expect_stdout("0 to move");
    assert!(root(&home).join("old").is_dir());
}

#[test]
fn moving_needs_the_typed_word_and_can_be_taken_back() {
    let host = Host::with(&[]);
    let home = home_with(&host, &["one", "two"]);
    trash(&host, &[]).expect_exit(2).expect_stderr("needs a confirmation");
    trash(&host, &["--yes"]).expect_exit(2).expect_stderr("<FOLDERS>");
    host.sandkeeper(["dirs", "empty", "--yes"]).run().expect_exit(2);
    let one = root(&home).join("one").display().to_string();
    host.sandkeeper(["--read-only", "dirs", "trash", "--yes", &one])
        .run()
        .expect_exit(1)
        .expect_stderr("read-only");
    for wrong in ["\n", "yes\n", "move 1\n"] {
        let finished = host.sandkeeper(["dirs", "trash"]).typing(wrong).run();
        assert!(finished.stdout.contains("Nothing was done"), "{finished}");
    }
    assert!(root(&home).join("one").is_dir() && root(&home).join("two").is_dir());

    let finished = host.sandkeeper(["dirs", "trash"]).typing("move 2\n").run().expect_exit(0);
    let finished = finished.expect_stdout("2 to move, 0 to keep");
    assert!(finished.stdout.matches("moved to ").count() == 2, "{finished}");
    let report = listed(&host);
    assert_eq!(names(&report), [""; 0], "the trash is not a left-over folder: {report:#}");
    let trashed: Vec<&str> =
        report["trashed"].as_array().unwrap().iter().map(|each| each.as_str().unwrap()).collect();
    assert_eq!(trashed.len(), 2);
    for path in &trashed {
        assert_eq!(Path::new(path).parent(), Some(root(&home).join(".sandkeeper-trash").as_path()));
        assert_eq!(fs::read(Path::new(path).join("home/deep/notes")).unwrap().len(), 2000, "whole");
    }
    let log = host.sandkeeper(["log"]).run().expect_exit(0);
    let log =
        log.expect_stdout("/sandboxes/docker/one  move to trash: no container has it mounted  ->  moved to ");

    // Deleting is another step, with another word.
    host.sandkeeper(["dirs", "empty"]).run().expect_exit(2);
    let finished = host.sandkeeper(["dirs", "empty"]).typing("move 2\n").run();
    assert!(Path::new(trashed[0]).is_dir(), "{finished}");
    host.sandkeeper(["dirs", "empty"]).typing("delete 2\n").run().expect_exit(0).expect_stdout(": deleted");
    assert!(!Path::new(trashed[0]).exists() && root(&home).is_dir(), "{log}");
    assert_eq!(host.sandkeeper(["log", "--json"]).run().json().as_array().unwrap().len(), 4);
}

#[test]
fn a_folder_that_a_stopped_container_has_by_another_name_stays() {
    let host = Host::with(&[]);
    let home = home_with(&host, &["old", "used"]);
    let link = host.home.path().join("by-another-name");
    symlink(home.folder(), &link).unwrap();
    host.engine.containers(&[lasting(&link.join("sandboxes/docker/used")).state("exited")]);
    assert_eq!(names(&listed(&host)), ["old"]);
}

#[test]
fn nothing_is_moved_that_is_not_listed() {
    let host = Host::with(&[]);
    let home = home_with(&host, &["old", "used"]);
    host.engine.containers(&[lasting(&root(&home).join("used"))]);
    let outside = host.home.path().join("precious");
    fs::create_dir_all(&outside).unwrap();
    age(&outside);
    symlink(&outside, root(&home).join("link")).unwrap();
    let inside = |name: &str| root(&home).join(name);
    for path in [
        outside.clone(),
        inside("used"),
        inside("link"),
        inside("old/home"),
        inside("../../.."),
        inside("old/../../../../precious"),
        inside(".sandkeeper-trash"),
        root(&home),
        PathBuf::from("/"),
        PathBuf::from("old"),
    ] {
        let path = path.display().to_string();
        trash(&host, &["--yes", &path])
            .expect_exit(2)
            .expect_stderr("is not one of the folders that sandboxes left behind");
    }
    assert!(outside.is_dir() && inside("used/home").is_dir() && inside("old/home").is_dir());
    trash(&host, &["--yes", &inside("old").display().to_string()]).expect_exit(0);
    assert!(!inside("old").exists() && inside("link").exists());
}

#[test]
fn a_root_that_is_a_link_is_left_alone() {
    let host = Host::with(&[]);
    let home = home_with(&host, &["old"]);
    let elsewhere = host.home.path().join("elsewhere");
    fs::rename(root(&home), &elsewhere).unwrap();
    symlink(&elsewhere, root(&home)).unwrap();
    let old = |root: PathBuf| root.join("old").display().to_string();
    trash(&host, &["--yes", &old(root(&home))]).expect_exit(1).expect_stderr("is not a folder of its own");
    assert!(elsewhere.join("old/home").is_dir());
    // Nor is a link further up followed.
    fs::remove_file(root(&home)).unwrap();
    fs::create_dir_all(host.home.path().join("all")).unwrap();
    fs::rename(&elsewhere, host.home.path().join("all/docker")).unwrap();
    fs::remove_dir(root(&home).parent().unwrap()).unwrap();
    symlink(host.home.path().join("all"), root(&home).parent().unwrap()).unwrap();
    trash(&host, &["--yes", &old(root(&home))]).expect_exit(1).expect_stderr("is not a folder of its own");
    assert!(host.home.path().join("all/docker/old/home").is_dir());
}

#[test]
fn a_session_that_has_not_ended_keeps_the_folders_that_are_not_named() {
    let host = Host::with(&[]);
    let home = home_with(&host, &["one", "two"]);
    home.session("quiet", 86_400.0);
    let report = listed(&host);
    assert_eq!(report["leftovers"][0]["kept"], Value::Null, "{report:#}");
    assert_eq!(report["leftovers"][0]["claimed"], "session quiet has not ended", "{report:#}");
    let table = host.sandkeeper(["dirs"]).run().expect_exit(0);
    table.expect_stdout("stays unless it is named: session quiet has not ended");
    let finished = host.sandkeeper(["dirs", "trash"]).typing("move 2\n").run().expect_exit(0);
    let finished = finished.expect_stdout("0 to move, 2 to keep");
    assert!(root(&home).join("one").is_dir(), "{finished}");
    trash(&host, &["--yes", &root(&home).join("one").display().to_string()]).expect_exit(0);
    assert!(!root(&home).join("one").exists() && root(&home).join("two").is_dir());
}

#[test]
fn the_containers_of_every_engine_of_the_machine_keep_their_folders() {
    let host = Host::with(&[]);
    let home = home_with(&host, &["docker", "podman"]);
    let podman = crate::support::scripted::ScriptedEngine::start();
    podman.containers(&[lasting(&root(&home).join("podman"))]);
    let runtime = host.home.path().join("run");
    fs::create_dir_all(runtime.join("podman")).unwrap();
    symlink(podman.socket(), runtime.join("podman/podman.sock")).unwrap();
    let look = || {
        let program =
            host.sandkeeper(["dirs", "--json"]).env("XDG_RUNTIME_DIR", runtime.display().to_string());
        program.run().expect_exit(0).json()
    };
    assert_eq!(names(&look()), ["docker"]);
    // One that does not answer may have any of them.
    podman.on("GET", "/containers/json", Behaviour::error(500, "boom"));
    let report = look();
    assert_eq!(names(&report), ["docker", "podman"]);
    for folder in report["leftovers"].as_array().unwrap() {
        assert!(folder["kept"].as_str().unwrap().contains("podman.sock may have it"), "{report:#}");
    }
}

#[test]
fn what_could_not_be_looked_through_stays() {
    let host = Host::with(&[]);
    let home = home_with(&host, &["deep"]);
    // So deep that its innermost folder has no path that could be asked for.
    let mut folder = File::open(root(&home).join("deep")).unwrap();
    for _ in 0..20 {
        let name = "x".repeat(250);
        rustix::fs::mkdirat(&folder, name.as_str(), rustix::fs::Mode::RWXU).unwrap();
        let flags = rustix::fs::OFlags::DIRECTORY;
        let deeper = rustix::fs::openat(&folder, name.as_str(), flags, rustix::fs::Mode::empty()).unwrap();
        folder = File::from(deeper);
    }
    let report = listed(&host);
    assert_eq!(report["leftovers"][0]["measured"], false, "{report:#}");
    assert!(report["leftovers"][0]["kept"].as_str().unwrap().contains("not all of it"), "{report:#}");
    trash(&host, &["--yes", &root(&home).join("deep").display().to_string()]).expect_exit(3);
    assert!(root(&home).join("deep").is_dir());
}

#[test]
#[ignore = "needs the right to mount: run tests/run"]
fn what_is_mounted_in_a_folder_is_neither_moved_nor_deleted() {
    let host = Host::with(&[]);
    let home = home_with(&host, &["old"]);
    let precious = host.home.path().join("precious");
    fs::create_dir_all(&precious).unwrap();
    fs::write(precious.join("file"), "x").unwrap();
    age(&precious);
    let mount = |source: &Path, target: &Path| {
        let done = std::process::Command::new("mount").arg("--bind").args([source, target]).status().unwrap();
        assert!(done.success());
        Mounted(target.to_owned())
    };
    let inside = root(&home).join("old/workspace");
    {
        let _mounted = mount(&precious, &inside);
        let report = listed(&host);
        assert!(
            report["leftovers"][0]["kept"].as_str().unwrap().contains("something is mounted at"),
            "{report:#}"
        );
        trash(&host, &["--yes", &root(&home).join("old").display().to_string()]).expect_exit(3);
        assert!(inside.join("file").is_file());
    }
    trash(&host, &["--yes", &root(&home).join("old").display().to_string()]).expect_exit(0);
    let trashed = PathBuf::from(listed(&host)["trashed"][0].as_str().unwrap());
    {
        let _mounted = mount(&precious, &trashed.join("workspace"));
        let finished = host.sandkeeper(["dirs", "empty"]).typing("delete 1\n").run();
        finished.expect_stdout("something is mounted at");
        assert!(trashed.join("home").is_dir());
    }
    assert!(precious.join("file").is_file());
    host.sandkeeper(["dirs", "empty"]).typing("delete 1\n").run().expect_exit(0);
    assert!(!trashed.exists() && precious.join("file").is_file());
}

/// A mount that ends with the test.
struct Mounted(PathBuf);

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = std::process::Command::new("umount").arg(&self.0).status();
    }
}

#[test]
#[ignore = "needs a Docker engine: run tests/run"]
fn a_folder_that_a_container_of_another_engine_has_stays_on_docker() {
    a_folder_that_a_container_of_another_engine_has_stays(&RealEngine::docker().exclusive());
}

#[test]
#[ignore = "needs a Podman engine: run tests/run"]
fn a_folder_that_a_container_of_another_engine_has_stays_on_podman() {
    a_folder_that_a_container_of_another_engine_has_stays(&RealEngine::podman().exclusive());
}

fn a_folder_that_a_container_of_another_engine_has_stays(engine: &RealEngine) {
    // The engine that is asked knows of no container, and nobody told us of the other one.
    let host = Host::with(&[]);
    let home = home_with(&host, &["old", "free"]);
    let scene = engine.scene();
    let old = root(&home).join("old");
    let id =
        scene.container(scene.name("far")).mount(&old.join("home").display().to_string(), "/root").running();
    let report = listed(&host);
    let kept = |name: &str| {
        let of = |each: &&Value| each["path"].as_str().unwrap().ends_with(name);
        report["leftovers"].as_array().unwrap().iter().find(of).unwrap()["kept"].clone()
    };
    assert!(kept("/old").as_str().unwrap().contains("old/home mounted at /root"), "{report:#}");
    assert_eq!(kept("/free"), Value::Null, "{report:#}");
    trash(&host, &["--yes", &old.display().to_string()]).expect_exit(3);
    assert!(old.join("home").is_dir());
    engine.cli(&["rm", "--force", &id]);
    trash(&host, &["--yes", &old.display().to_string()]).expect_exit(0);
}

#[test]
fn a_folder_that_somebody_works_in_stays() {
    let host = Host::with(&[]);
    let home = home_with(&host, &["old"]);
    let old = root(&home).join("old");
    let mut child =
        std::process::Command::new("sleep").arg("1000").current_dir(old.join("workspace")).spawn().unwrap();
    let refused = trash(&host, &["--yes", &old.display().to_string()]);
    child.kill().unwrap();
    child.wait().unwrap();
    refused.expect_exit(3).expect_stdout("works in");
    assert!(old.is_dir());
}

#[test]
fn without_every_containers_mounts_nothing_is_left_behind() {
    let host = Host::with(&[]);
    let home = home_with(&host, &["old"]);
    host.engine.containers(&[row("one")]);
    host.engine.on("GET", "/containers/*/json", Behaviour::error(500, "boom"));
    let old = root(&home).join("old").display().to_string();
    trash(&host, &["--yes", &old]).expect_exit(4).expect_stderr("could not be inspected");
    host.engine.on("GET", "/containers/json", Behaviour::error(500, "boom"));
    trash(&host, &["--yes", &old]).expect_exit(4);
    let port = crate::support::port::to_socket(host.engine.socket());
    host.engine.containers(&[]);
    let far = host.home.sandkeeper(["--host", &port, "dirs", "trash", "--yes", &old]).run();
    far.expect_exit(4).expect_stderr("reached over the network");
    assert!(root(&home).join("old/home").is_dir());
}

#[test]
fn a_container_that_comes_after_the_list_keeps_its_folder() {
    let host = Host::with(&[]);
    let home = home_with(&host, &["old"]);
    let used = lasting(&root(&home).join("old"));
    let (listed, inspected) = (used.listed(), used.inspect());
    host.engine.on("GET", "/containers/*/json", Behaviour::json(&inspected));
    let asked = std::sync::atomic::AtomicUsize::new(0);
    host.engine.on(
        "GET",
        "/containers/json",
        Behaviour::call(move |_| {
            let first = asked.fetch_add(1, std::sync::atomic::Ordering::SeqCst) == 0;
            Behaviour::json(&if first { serde_json::json!([]) } else { serde_json::json!([listed]) })
        }),
    );
    let finished = trash(&host, &["--yes", &root(&home).join("old").display().to_string()]).expect_exit(3);
    let finished = finished.expect_stdout("1 to move").expect_stdout("left where it is: a container has it");
    assert!(root(&home).join("old/home").is_dir(), "{finished}");
}

#[test]
#[ignore = "needs a Docker engine: run tests/run"]
fn a_removed_sandbox_names_its_folders_in_the_summary_and_in_the_log() {
    let engine = RealEngine::docker().exclusive();
    let host = SystemsHost::on(&engine);
    let home = HermesHome::create(host.home.path().join(".hermes"));
    home.session("s1", 86_400.0);
    home.end("s1", "user_exit", 80_000.0);
    home.lifetime(1);
    let id = home.lasting(&host.scene, "hermes-0a1b2c3d").running();
    wait_until("its lifetime is over", || {
        container(&host.status(&[]), "hermes-0a1b2c3d")["status"] == "stale"
    });
    let listed = host.sandkeeper(&["dirs", "--json"]).run().expect_exit(0).json();
    assert_eq!(listed["leftovers"].as_array().unwrap().len(), 0, "it still has a container: {listed:#}");
    let finished = host.reconcile(&[]).expect_exit(0);
    expect_result(&finished, "hermes-0a1b2c3d", "removed", "");
    assert!(!host.exists(&id));
    let folder = home.folder().join("sandboxes/docker/default");
    let folders = [folder.join("home"), folder.join("workspace")].map(|path| path.display().to_string());
    let mut said: Vec<String> = finished.json()["outcomes"][0]["left_behind"]
        .as_array()
        .unwrap()
        .iter()
        .map(|each| each.as_str().unwrap().to_owned())
        .collect();
    said.sort();
    assert_eq!(said, folders);
    let log = host.sandkeeper(&["log"]).run().expect_exit(0);
    assert!(folders.iter().all(|folder| log.stdout.contains(folder)), "{log}");
    let listed = host.sandkeeper(&["dirs", "--json"]).run().expect_exit(0).json();
    assert_eq!(listed["leftovers"][0]["path"], folder.display().to_string(), "{listed:#}");

    // The same in words, for a second one.
    home.lasting(&host.scene, "hermes-11111111").exited();
    let removed = host.sandkeeper(&["rm", "--yes", "hermes-11111111"]).run().expect_exit(0);
    let removed = removed.expect_stdout(&format!("left behind by hermes-11111111: {}", folders[0]));
    removed.expect_stdout("`sandkeeper dirs`");
}
