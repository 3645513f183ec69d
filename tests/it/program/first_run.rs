//! The first minute on a real host on which something basic is missing: what is said, and the way out.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::Command;

use crate::support::native::{Host, native_row};
use crate::support::program::{Finished, Home};
use crate::support::rows::row;
use crate::support::stores::NativeStore;

/// All of these are said, by `status` and by `doctor` alike.
#[track_caller]
fn expect_said(finished: &Finished, parts: &[&str]) {
    for part in parts {
        assert!(finished.stdout.contains(part), "lacks {part:?}: {finished}");
    }
}

/// A line that stands alone, to be copied.
#[track_caller]
fn expect_line(finished: &Finished, line: &str) {
    assert!(finished.stdout.lines().any(|each| each.trim() == line), "lacks the line {line:?}: {finished}");
}

#[test]
fn no_engine() {
    if ["/var/run/docker.sock", "/run/podman/podman.sock"].iter().any(|socket| Path::new(socket).exists()) {
        eprintln!("skipped: this machine has an engine of its own");
        return;
    }
    let home = Home::new();
    for command in ["status", "doctor"] {
        let finished = home.sandkeeper([command]).run().expect_exit(1);
        expect_said(&finished, &["Nothing can be said", "/var/run/docker.sock (default socket)", "Podman"]);
        expect_line(&finished, "sandkeeper --host unix:///path/to/engine.sock");
        expect_line(&finished, "sandkeeper demo");
    }
}

#[test]
fn an_engine_that_was_named_and_is_not_there() {
    let home = Home::new();
    let finished = home.sandkeeper(["status", "--host", "unix:///no/such.sock"]).run().expect_exit(1);
    expect_said(&finished, &["nothing listens at /no/such.sock (--host)"]);
    assert!(!finished.stdout.contains("/var/run/docker.sock"), "no other place was tried: {finished}");
    assert_eq!(finished.stdout.matches("/no/such.sock (--host)").count(), 1, "it is told once: {finished}");
}

#[test]
fn a_socket_that_this_user_may_not_open() {
    if Command::new("id").arg("-u").output().unwrap().stdout != b"0\n" {
        eprintln!("skipped: only root can run the program as another user");
        return;
    }
    let home = Home::new();
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let socket = folder.path().join("engine.sock");
    let _listener = UnixListener::bind(&socket).unwrap();
    fs::set_permissions(&socket, fs::Permissions::from_mode(0o660)).unwrap();
    // Group 1 has a name on every Debian and most others; where it has none, its number is as good.
    std::os::unix::fs::chown(&socket, Some(0), Some(1)).unwrap();
    let host = format!("unix://{}", socket.display());
    let finished = home.sandkeeper(["status", "--host", &host]).user(65534, 65534).run().expect_exit(1);
    expect_said(
        &finished,
        &["permission denied on", "sudo usermod --append --groups", "lets only GET through"],
    );
    expect_line(&finished, "systemctl --user start podman.socket");
    std::os::unix::fs::chown(&socket, Some(0), Some(0)).unwrap();
    let finished = home.sandkeeper(["status", "--host", &host]).user(65534, 65534).run().expect_exit(1);
    expect_said(&finished, &["for root alone"]);
    assert!(!finished.stdout.contains("usermod"), "nobody should join root's group: {finished}");
}

#[test]
fn no_container_of_a_known_system() {
    let host = Host::with(&[row("somebody-elses"), row("another")]);
    for command in ["status", "doctor"] {
        let finished = host.sandkeeper([command]).run().expect_exit(0);
        expect_said(
            &finished,
            &["No container of a known system is on this engine.", "There are 2 containers"],
        );
        let line = "docker run --label sandkeeper.managed=true --label sandkeeper.workspace=my-project IMAGE";
        expect_line(&finished, line);
    }
}

#[test]
fn no_session_database() {
    let host = Host::with(&[native_row("sandbox", "alpha")]);
    for (command, code) in [("status", 4), ("doctor", 1)] {
        let finished = host.sandkeeper([command]).run().expect_exit(code);
        let place = host.home.native_store();
        expect_said(&finished, &["No session database of native was found", "nobody touches them"]);
        expect_line(&finished, place.to_str().unwrap());
        expect_line(&finished, "sandkeeper --db native=/path/to/sessions.db");
    }
}

#[test]
fn a_host_on_which_all_is_well_gets_no_advice() {
    let host = Host::with(&[native_row("sandbox", "alpha")]);
    let store = NativeStore::create(host.home.native_store());
    store.session("s1", "alpha").insert();
    for command in ["status", "doctor"] {
        let finished = host.sandkeeper([command]).run().expect_exit(0);
        for word in ["sandkeeper demo", "sandkeeper --", "was found"] {
            assert!(!finished.stdout.contains(word), "{word}: {finished}");
        }
    }
}
