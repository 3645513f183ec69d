//! Where the answer goes: a full disk is a failure, a reader who leaves is none, and neither is a reason to panic.

use std::fs::File;
use std::io::Read;
use std::process::{Command, Stdio};

use crate::support::native::{Host, native_row};
use crate::support::stores::NativeStore;

fn host() -> (Host, NativeStore) {
    let rows: Vec<_> =
        (0..500).map(|number| native_row(&format!("box-{number}"), "alpha").state("exited")).collect();
    let host = Host::with(&rows);
    let store = NativeStore::create(host.home.native_store());
    store.session("s1", "alpha").insert();
    (host, store)
}

fn sandkeeper(host: &Host, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sandkeeper"));
    command
        .args(arguments)
        .env_clear()
        .env("HOME", host.home.path())
        .env("DOCKER_HOST", host.engine.endpoint())
        .env("SANDKEEPER_MARKS", host.home.board())
        .env("SANDKEEPER_TIMEOUT", "2m")
        .env("RUST_BACKTRACE", "1")
        .stdin(Stdio::null());
    command
}

#[test]
fn an_answer_that_cannot_be_written_is_a_failure() {
    let (host, _store) = host();
    for arguments in
        [&["status"][..], &["status", "--json"], &["doctor"], &["profiles"], &["profiles", "show", "native"]]
    {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let output = sandkeeper(&host, arguments).stdout(full).output().unwrap();
        let complaint = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {complaint}");
        assert!(complaint.starts_with("error: the answer cannot be written: No space left"), "{complaint}");
        assert_eq!(complaint.lines().count(), 1, "{complaint}");
    }
}

#[test]
fn a_reader_who_leaves_early_is_no_error() {
    let (host, _store) = host();
    for arguments in [&["status"][..], &["status", "--json"]] {
        let mut child =
            sandkeeper(&host, arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        child.stdout.take().unwrap().read_exact(&mut [0; 10]).unwrap();
        let output = child.wait_with_output().unwrap();
        assert_eq!(String::from_utf8(output.stderr).unwrap(), "");
        assert_eq!(output.status.code(), Some(0));
    }
}

#[test]
fn nobody_needs_to_read_the_complaints() {
    let (host, _store) = host();
    host.home.write(".config/sandkeeper/profiles/mine.toml", "nonsense");
    let full = File::options().write(true).open("/dev/full").unwrap();
    let output = sandkeeper(&host, &["status"]).stdout(Stdio::piped()).stderr(full).output().unwrap();
    assert_eq!(output.status.code(), Some(4));
    assert!(output.stdout.ends_with(b"\n"));
}
