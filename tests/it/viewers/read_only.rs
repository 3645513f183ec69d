//! Looking without being able to do anything else: by name, by variable, by config, and by the socket.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::process::Command;

use crate::support::gate::GateProcess;
use crate::support::simulated::SimHost;
use crate::support::terminal::Terminal;
use rstest::rstest;

const PROGRAM: &str = env!("CARGO_BIN_EXE_sandkeeper");

/// The program under another name, on this host.
fn named(host: &SimHost, name: &str, arguments: &[&str]) -> Command {
    let link = host.home.path().join(name);
    symlink(PROGRAM, &link).unwrap();
    let mut command = Command::new(link);
    command
        .args(arguments)
        .env_clear()
        .env("HOME", host.home.path())
        .env("TERM", "xterm-256color")
        .env("LANG", "C.UTF-8")
        .env("DOCKER_HOST", host.endpoint())
        .env("SANDKEEPER_MARKS", host.home.board())
        .env("SANDKEEPER_TIMEOUT", "2m")
        .current_dir(host.home.path());
    command
}

#[test]
fn under_the_name_of_the_viewer_nothing_can_be_changed() {
    let host = SimHost::new();
    host.orphan("left-1", "left");
    for command in [
        &["rm", "--yes", "left-1"][..],
        &["reconcile", "--yes"],
        &["stop", "--yes", "left-1"],
        &["drain", "left-1"],
    ] {
        let link = host.home.path().join("sandkeeper-view");
        let _ = fs::remove_file(&link);
        let output = named(&host, "sandkeeper-view", command).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(1) && said.contains("read-only"), "{command:?}: {said}");
    }
    assert_eq!(host.engine.mutations(), [""; 0]);
    assert!(!host.state_folder().exists());
    fs::remove_file(host.home.path().join("sandkeeper-view")).unwrap();
    let terminal = Terminal::run(&named(&host, "sandkeeper-view", &[]), 30, 140);
    terminal.wait_for("left-1").wait_for(" RO (this program) ");
    terminal.type_keys("q").wait_exit();
    assert!(!host.state_folder().exists());
}

#[rstest]
#[case(Some("1"), "", true)]
#[case(None, "read_only = true\n", true)]
#[case(None, "read_only = false\n", false)]
#[case(Some("0"), "", false)]
fn the_config_and_the_environment_make_it_read_only(
    #[case] variable: Option<&str>,
    #[case] config: &str,
    #[case] refused: bool,
) {
    let host = SimHost::new();
    host.orphan("left-1", "left");
    host.home.write(".config/sandkeeper/config.toml", config);
    let mut program = host.sandkeeper(&["rm", "--yes", "left-1"]);
    if let Some(value) = variable {
        program = program.env("SANDKEEPER_READ_ONLY", value);
    }
    let finished = program.run();
    assert_eq!(finished.stderr.contains("read-only"), refused, "{finished}");
    assert_eq!(host.engine.mutations().is_empty(), refused, "{finished}");
}

#[test]
fn the_badge_tells_who_sees_to_it() {
    let host = SimHost::new();
    host.idle("atlas-1", "atlas");
    let wide = |arguments: &[&str]| Terminal::start(host.sandkeeper(arguments), 30, 150);
    wide(&[]).wait_for("atlas-1").wait_for(" RW ");
    wide(&["--read-only"]).wait_for("atlas-1").wait_for(" RO (this program) ");
    let gate = GateProcess::start(&host.home, &host.endpoint(), &[]);
    let guarded = wide(&["--read-only", "--host", &gate.endpoint()]);
    guarded.wait_for("atlas-1").wait_for(" RO (enforced by the socket) ");
    guarded.resize(24, 80).wait_gone("enforced").wait_for(" RO ");
    drop(guarded);
    gate.end();
}

#[test]
fn few_frames_are_drawn_if_few_are_wanted() {
    let host = SimHost::new();
    host.idle("atlas-1", "atlas");
    for (arguments, expected) in [
        (["status", "--max-fps", "0"], 2),
        (["status", "--max-fps", "61"], 2),
        (["status", "--max-fps", "5"], 0),
    ] {
        host.sandkeeper(&arguments).run().expect_exit(expected);
    }
    host.sandkeeper(&["status"])
        .env("SANDKEEPER_MAX_FPS", "many")
        .run()
        .expect_exit(2)
        .expect_stderr("whole number");
    let slow = host.dashboard(&["--max-fps", "2", "--interval", "1s"]);
    slow.wait_for("atlas-1");
    let frames = || slow.raw_bytes().windows(8).filter(|window| *window == b"\x1b[?2026h").count();
    let before = frames();
    let began = std::time::Instant::now();
    for _ in 0..40 {
        slow.type_keys("?");
        slow.press(crate::support::terminal::Key::Tab);
    }
    slow.type_keys("q");
    slow.type_keys("q");
    slow.wait_exit();
    let most = began.elapsed().as_secs() * 2 + 4;
    let drawn = u64::try_from(frames() - before).unwrap();
    assert!(drawn <= most, "{drawn} frames, and {most} at most");
}

#[rstest]
#[case(".config/sandkeeper")]
#[case(".config/sandkeeper/profiles")]
#[case(".config/sandkeeper/themes")]
#[case(".config/sandkeeper/config.toml")]
#[case(".local/state/sandkeeper")]
fn what_others_may_write_to_is_refused_with_the_fix(#[case] place: &str) {
    let host = SimHost::new();
    host.orphan("left-1", "left");
    host.home.write(".config/sandkeeper/config.toml", "");
    host.home.write(".config/sandkeeper/profiles/note.txt", "");
    host.home.write(".config/sandkeeper/themes/note.txt", "");
    fs::create_dir_all(host.state_folder()).unwrap();
    fs::set_permissions(host.state_folder(), Permissions::from_mode(0o700)).unwrap();
    let place = host.home.path().join(place);
    let mode = if place.is_dir() { 0o775 } else { 0o666 };
    fs::set_permissions(&place, Permissions::from_mode(mode)).unwrap();
    let finished = host.sandkeeper(&["rm", "--yes", "left-1"]).run();
    assert_ne!(finished.status, Some(0), "{finished}");
    assert!(finished.stderr.contains("others may write") && finished.stderr.contains("chmod"), "{finished}");
    assert_eq!(host.engine.mutations(), [""; 0]);
}

#[test]
#[ignore = "needs root: run tests/run"]
fn rights_lent_to_the_program_are_refused() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let lent = folder.path().join("sandkeeper");
    fs::copy(PROGRAM, &lent).unwrap();
    for (user, group, mode) in [(Some(64_998), None, 0o4755), (None, Some(64_998), 0o2755)] {
        chown(&lent, Some(user.unwrap_or(0)), Some(group.unwrap_or(0))).unwrap();
        fs::set_permissions(&lent, Permissions::from_mode(mode)).unwrap();
        let output = Command::new(&lent).arg("status").output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(1) && said.contains("setuid"), "{mode:o}: {said}");
    }
}
