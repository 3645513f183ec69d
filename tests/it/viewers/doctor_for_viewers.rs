//! `doctor --read-only-user`: can that user look, and can it do nothing else?

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

use crate::support::gate::GateProcess;
use crate::support::simulated::SimHost;
use serde_json::Value;

/// What it finds about the user: `health finding fix` of every check that is about viewers.
fn findings(host: &SimHost, endpoint: &str, user: &str, keys: &str) -> Vec<String> {
    let file = host.home.write("keys", keys).display().to_string();
    let arguments =
        ["doctor", "--json", "--read-only-user", user, "--authorized-keys", &file, "--host", endpoint];
    let report = host.home.sandkeeper(arguments).run().json();
    let checks = report["checks"].as_array().unwrap();
    let about_viewers = checks.iter().filter(|check| check["check"].as_str().unwrap().starts_with("viewer"));
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    about_viewers
        .map(|check| {
            format!(
                "{} {}: {}; {}",
                text(&check["health"]),
                text(&check["check"]),
                text(&check["finding"]),
                text(&check["fix"])
            )
        })
        .collect()
}

#[track_caller]
fn expect(findings: &[String], beginning: &str, part: &str) {
    let fits = |finding: &&String| finding.starts_with(beginning) && finding.contains(part);
    assert!(findings.iter().any(|finding| fits(&finding)), "no `{beginning}…{part}` in {findings:#?}");
}

const GOOD: &str =
    "# a comment\nrestrict,pty,command=\"/usr/bin/sandkeeper-view --max-fps 5\" ssh-ed25519 AAAA ada\n";

#[test]
fn a_user_that_is_not_there_is_told_how_to_make() {
    let host = SimHost::new();
    let found = findings(&host, &host.endpoint(), "no-such-viewer", GOOD);
    expect(&found, "failed viewer", "useradd");
}

#[test]
fn root_is_nobody_who_only_looks() {
    let host = SimHost::new();
    let found = findings(&host, &host.endpoint(), "root", "ssh-ed25519 AAAA root\n");
    expect(&found, "failed viewer:", "root");
    expect(&found, "failed viewer groups", "gpasswd");
    expect(&found, "failed viewer keys", "restrict");
    expect(&found, "failed viewer gate", "is not a gate");
}

#[test]
#[ignore = "needs root: run tests/run"]
fn every_right_of_a_viewer_is_tried_as_that_user() {
    // A user that every Debian has, with a shell that runs nothing.
    let (user, group) = ("games", "60");
    let host = SimHost::new();
    host.store.execute("PRAGMA journal_mode = WAL");
    host.store.session("s1", "atlas").insert();
    let home = host.home.path().to_owned();
    fs::set_permissions(&home, Permissions::from_mode(0o711)).unwrap();
    let gate = GateProcess::start(&host.home, &host.endpoint(), &["--mode", "0660", "--group", group]);
    let found = findings(&host, &gate.endpoint(), user, GOOD);
    expect(&found, "failed viewer:", "usermod --shell");
    expect(&found, "ok viewer groups", "games");
    expect(&found, "ok viewer gate", "refuses everything else");
    expect(&found, "ok viewer keys", "1 restricted");
    expect(&found, "ok viewer sessions", "while its application runs");

    let beside = |ending: &str| host.home.native_store().with_extension(format!("db{ending}"));
    fs::set_permissions(beside("-wal"), Permissions::from_mode(0o600)).unwrap();
    expect(&findings(&host, &gate.endpoint(), user, GOOD), "failed viewer sessions", "setfacl -m d:");
    fs::set_permissions(beside(""), Permissions::from_mode(0o600)).unwrap();
    expect(&findings(&host, &gate.endpoint(), user, GOOD), "failed viewer sessions", "cannot read");
    fs::set_permissions(gate.socket(), Permissions::from_mode(0o600)).unwrap();
    expect(&findings(&host, &gate.endpoint(), user, GOOD), "failed viewer gate", "--mode 0660");
    let loose = "pty,command=\"/bin/sh\" ssh-ed25519 AAAA ada\n";
    let found = findings(&host, &gate.endpoint(), user, loose);
    expect(&found, "failed viewer keys", "restrict");
    expect(&found, "failed viewer keys", "not known to only look");
    gate.end();
}

#[test]
fn the_line_that_people_are_told_to_write_is_right() {
    let line =
        fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/assets/ssh/authorized_keys")).unwrap();
    let host = SimHost::new();
    let keys = host.home.write("keys", line).display().to_string();
    let arguments = ["doctor", "--json", "--read-only-user", "nobody", "--authorized-keys", &keys];
    let report = host.sandkeeper(&arguments).run().json();
    let checks = report["checks"].as_array().unwrap();
    let found = checks.iter().find(|check| check["check"] == "viewer keys").unwrap();
    assert_eq!(found["health"], "ok", "{found}");
}
