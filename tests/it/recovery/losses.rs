//! What counts as a loss, and what a removal would lose.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;

use sandkeeper::domain::ContainerId;
use sandkeeper::engine::sim::{Placed, Program, Signal};
use serde_json::json;

use super::ground::{in_state, lasting, recorded, recreate, remove_behind_our_back, result, see, status};
use crate::support::simulated::SimHost;
use crate::support::terminal::Key;
use crate::support::wait_until;

#[test]
fn an_ordinary_end_is_no_loss() {
    let host = SimHost::new();
    // Its command failed, and its session is over.
    host.store.session("over", "atlas").ended_ago(60).insert();
    host.sandbox("failed", "atlas").exited().placed();
    // Somebody stopped it while its session is live: whoever uses it next starts it.
    let stopped = host.active("stopped", "borealis");
    let terminal = host.dashboard(&[]);
    terminal.wait_for("stopped").wait_for("1 active");
    host.sandkeeper(&["stop", "--yes", "--json", "--even-if-live", "1", "stopped"]).run().expect_exit(0);
    terminal.wait_until("it is seen to have ended", |screen| {
        screen.lines().any(|line| line.contains("stopped ") && line.contains("exited"))
    });
    assert!(!terminal.screen().contains("1 lost"), "{}", terminal.screen());
    assert_eq!(host.state(&stopped).as_deref(), Some("exited"));
    // One that dies under its session is one.
    let killed = lasting(&host, "killed");
    terminal.wait_for("killed");
    host.engine.act(|world, now| world.signal(now, killed.as_str(), Signal::KILL)).unwrap();
    terminal.wait_for("1 lost");
    terminal.quit();
    assert_eq!(status(&host)["lost"], json!([]), "without the events nobody can tell it from a stop");
    // The operator may start it all the same.
    assert_eq!(result(&recreate(&host, "killed").expect_exit(0).json()).0, "started");
    assert_eq!(host.state(&killed).as_deref(), Some("running"));
}

#[test]
fn of_several_that_a_session_had_one_after_the_other_only_the_last_is_lost() {
    let host = SimHost::new();
    host.home.write(".config/sandkeeper/config.toml", "[recovery]\nheal = [\"native\"]\n");
    host.store.session("s1", "atlas").status("active").insert();
    for name in ["first", "second"] {
        let id = host.sandbox(name, "atlas").sleeping().placed();
        see(&host);
        remove_behind_our_back(&host, &id);
    }
    let lost = status(&host)["lost"].clone();
    assert_eq!(
        (lost.as_array().map(Vec::len), &lost[0]["container"]),
        (Some(1), &json!("second")),
        "{lost:#}"
    );
    host.sandkeeper(&["heal", "--once", "--json"]).run().expect_exit(0);
    assert_eq!(host.names(), ["second"]);
}

#[test]
fn a_session_with_a_container_that_runs_misses_no_older_one() {
    let host = SimHost::new();
    host.store.session("s1", "atlas").status("active").insert();
    let id = host.sandbox("old", "atlas").sleeping().placed();
    host.sandbox("new", "atlas").sleeping().placed();
    let terminal = host.dashboard(&[]);
    terminal.wait_for("2 active");
    host.engine.act(|world, now| world.signal(now, id.as_str(), Signal::KILL)).unwrap();
    terminal.wait_until("it is seen to have ended", |screen| {
        screen.lines().any(|line| line.contains("old ") && line.contains("exited"))
    });
    assert!(!terminal.screen().contains("1 lost"), "{}", terminal.screen());
    terminal.quit();
}

#[test]
fn what_may_be_a_strangers_is_neither_recorded_nor_healed() {
    let host = SimHost::new();
    host.home.write(".config/sandkeeper/config.toml", "[recovery]\nheal = [\"native\"]\n");
    host.store.session("s1", "atlas").status("active").insert();
    // Its labels come from its image: anybody may have made it.
    let labels = [("sandkeeper.managed", "true"), ("sandkeeper.workspace", "atlas")];
    let labels: BTreeMap<String, String> =
        labels.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
    let stranger = host.engine.act(|world, now| {
        world.build(now, "stranger:latest", labels.clone());
        let command = vec!["sleep".to_owned(), "1000".to_owned()];
        world.place(Placed {
            name: "stranger".to_owned(),
            image: "stranger:latest".to_owned(),
            labels,
            program: Program::of_command(&command).unwrap(),
            command,
            state: "running".to_owned(),
            created_at: now,
            ..Placed::default()
        })
    });
    let stranger = ContainerId::parse(&stranger).unwrap();
    // What is ours is recorded beside it.
    lasting(&host, "ours");
    let terminal = host.dashboard(&[]);
    terminal.wait_for("1 unknown").wait_for("1 active");
    wait_until("ours is recorded", || recorded(&host) > 0);
    remove_behind_our_back(&host, &stranger);
    terminal.wait_gone("1 unknown");
    assert!(!terminal.screen().contains("1 lost"), "{}", terminal.screen());
    terminal.quit();
    assert_eq!(recorded(&host), 1);
    host.sandkeeper(&["heal", "--once", "--json"]).run().expect_exit(0);
    assert_eq!(host.names(), ["ours"]);
}

#[test]
fn a_preview_tells_what_a_removal_would_lose() {
    let host = SimHost::new();
    let folder = host.home.path().join("project");
    std::fs::create_dir_all(&folder).unwrap();
    let git = |arguments: &[&str]| {
        let done = std::process::Command::new("git").args(arguments).current_dir(&folder).output().unwrap();
        assert!(done.status.success(), "{done:?}");
    };
    git(&["init"]);
    std::fs::write(folder.join("draft.txt"), "not committed").unwrap();
    host.sandbox("old", "atlas")
        .exited()
        .changed(&["/etc/motd", "/root/notes"], 12_345)
        .with(true, "Binds", json!([format!("{}:/work", folder.display())]))
        .with(true, "Tmpfs", json!({ "/scratch": "" }))
        .placed();
    let plain = host.sandkeeper(&["rm", "--dry-run", "old"]).run().expect_exit(0);
    let plain = plain.expect_stdout("in old: 2 paths changed inside it, 12 kB; memory-backed /scratch");
    plain.expect_stdout("1 uncommitted file in ").expect_stdout("project (it stays on the disk)");
    let terminal = host.dashboard(&[]);
    terminal.wait_for("1 orphaned").type_keys("jX").wait_for("Remove: 1 to change");
    terminal.wait_for("2 paths changed inside it, 12 kB").wait_for("1 uncommitted file in");
    terminal.press(Key::Esc).wait_gone("[ Cancel ]").quit();
    assert_eq!(host.engine.mutations(), [""; 0]);
}

#[test]
fn an_archive_is_never_written_through_a_link_that_lies_in_wait() {
    let host = SimHost::new();
    let id = host.orphan("old", "atlas");
    let folder = host.home.path().join("saved");
    std::fs::create_dir_all(&folder).unwrap();
    let precious = host.home.path().join("precious");
    std::fs::write(&precious, "untouched").unwrap();
    let waiting = folder.join(format!("old-{}.tar.part", id.short()));
    std::os::unix::fs::symlink(&precious, &waiting).unwrap();
    let folder = folder.to_str().unwrap();
    let both = host.sandkeeper(&["rm", "--quarantine", "--export", folder, "--yes", "old"]).run();
    both.expect_exit(2).expect_stderr("cannot be used with");
    let finished = host.sandkeeper(&["rm", "--export", folder, "--yes", "--json", "old"]).run();
    assert_eq!(result(&finished.json()).0, "removed", "{finished}");
    assert_eq!(std::fs::read_to_string(&precious).unwrap(), "untouched");
    let saved = std::path::Path::new(folder).join(format!("old-{}.tar", id.short()));
    let saved = saved.symlink_metadata().unwrap();
    assert!(saved.is_file(), "{saved:?}");
    assert_eq!(saved.permissions().mode() & 0o777, 0o600);
}

#[test]
fn of_many_removals_every_loss_is_told_and_none_left_out() {
    let host = SimHost::new();
    let many = 25;
    for number in 0..many {
        host.sandbox(&format!("old-{number}"), "atlas").exited().changed(&["/root/notes"], 10).placed();
    }
    let brake = many.to_string();
    let arguments = ["reconcile", "--dry-run", "--override-brake", &brake];
    let plain = host.sandkeeper(&arguments).run();
    let lines = plain.stdout.lines().filter(|line| line.contains("1 path changed inside it")).count();
    assert_eq!(lines, many, "{plain}");
    let report = host.sandkeeper(&[&arguments[..], &["--json"]].concat()).run().json();
    for outcome in report["outcomes"].as_array().unwrap() {
        assert_eq!(outcome["losses"].as_array().map(Vec::len), Some(1), "{outcome:#}");
    }
    let done = host.sandkeeper(&["rm", "--yes", "--json", "old-0"]).run().expect_exit(0).json();
    assert_eq!(done["outcomes"][0]["losses"], json!(null), "nobody looked, which is not nothing");
}

#[test]
fn what_a_key_adds_to_a_preview_is_looked_into_as_well() {
    let host = SimHost::new();
    host.store.session("s1", "borealis").insert();
    host.sandbox("running", "atlas").changed(&["/etc/motd", "/root/notes"], 10).placed();
    let terminal = host.dashboard(&[]);
    terminal.wait_for("1 orphaned").type_keys("R").wait_for("0 to change");
    terminal.send(b"\x1bOQ").wait_for("1 to change").wait_for("in running: 2 paths changed inside it");
    terminal.press(Key::Esc).wait_gone("[ Cancel ]").quit();
}

#[test]
fn undo_says_what_does_not_come_back_and_what_it_leaves_out() {
    let host = SimHost::new();
    for name in ["earlier", "unrecorded", "last"] {
        host.sandbox(name, name).sleeping().with(true, "Tmpfs", json!({ "/scratch": "" })).placed();
    }
    host.sandkeeper(&["rm", "--yes", "--json", "--grace", "1s", "earlier"]).run().expect_exit(0);
    host.sandkeeper(&["rm", "--yes", "--json", "--grace", "1s", "unrecorded", "last"]).run().expect_exit(0);
    in_state(&host, "DELETE FROM specs WHERE name = 'unrecorded'");
    let preview = host.sandkeeper(&["undo", "--dry-run"]).run().expect_exit(0);
    let preview =
        preview.expect_stdout("in last: what was written inside the old one, outside of mounts, is lost");
    let preview = preview.expect_stdout("what ran in it begins anew; empty again: /scratch");
    let preview = preview.expect_stdout("left out: earlier: it was removed earlier");
    preview.expect_stdout("left out: unrecorded: it was not recorded how it was made");
    let finished = host.sandkeeper(&["undo", "--yes", "--json"]).run().expect_exit(0);
    let report = finished.json();
    let left_out: Vec<&str> =
        report["left_out"].as_array().unwrap().iter().map(|each| each["name"].as_str().unwrap()).collect();
    assert_eq!(left_out, ["earlier", "unrecorded"], "{finished}");
    let (ending, reason) = result(&report);
    assert!(ending == "recreated" && reason.contains("empty again: /scratch"), "{reason}");
}
