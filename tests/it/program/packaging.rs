//! What packages install: completions, manual pages, units, and a version that says where it comes from.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::support::program::Home;

const COMMANDS: [&str; 8] =
    ["status", "reconcile", "drain", "may-start", "doctor", "profiles", "demo", "completions"];

fn at_root(path: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

fn said(arguments: &[&str]) -> String {
    Home::new().sandkeeper(arguments).run().expect_exit(0).stdout
}

/// Whether a tool is there to ask; tests do without it where it is not.
fn has(tool: &str) -> bool {
    Command::new("sh").args(["-c", &format!("command -v {tool}")]).output().unwrap().status.success()
}

#[test]
fn every_shell_completes_every_command() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = said(&["completions", shell]);
        for word in COMMANDS.iter().chain(&["--read-only", "--include-running-orphans", "--scale"]) {
            // Elvish and PowerShell list options one by one, fish without their dashes.
            assert!(script.contains(word.trim_start_matches('-')), "{shell} does not know {word}");
        }
        assert!(!script.to_lowercase().contains("backstage"), "{shell} shows what is not meant for people");
    }
    Home::new().sandkeeper(["completions", "tcsh"]).run().expect_exit(2).expect_stderr("possible values");
}

#[test]
fn a_shell_accepts_its_completions() {
    let home = Home::new();
    let script = home.write("completions.bash", said(&["completions", "bash"]));
    let checked = Command::new("bash").arg("-n").arg(&script).output().unwrap();
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
}

#[test]
fn the_manual_tells_about_the_program_and_each_command() {
    let page = said(&["man"]);
    assert!(page.contains(".TH sandkeeper 1") && page.contains("read\\-only"), "{page}");
    for command in COMMANDS {
        let page = said(&["man", command]);
        assert!(page.contains(".SH SYNOPSIS") && page.contains(&command.replace('-', "\\-")), "{page}");
    }
    Home::new()
        .sandkeeper(["man", "nothing"])
        .run()
        .expect_exit(2)
        .expect_stderr("there is no command `nothing`");

    let home = Home::new();
    home.sandkeeper(["man", "--into", "pages"]).run().expect_exit(0);
    for page in ["sandkeeper.1", "sandkeeper-reconcile.1", "sandkeeper-demo.1"] {
        assert!(home.path().join("pages").join(page).exists(), "{page} is missing");
    }
    if has("groff") {
        let page = home.path().join("pages/sandkeeper.1");
        let output = Command::new("groff").args(["-man", "-Tutf8", "-ww"]).arg(page).output().unwrap();
        let shown = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && shown.contains("sandkeeper-demo(1)"), "{shown}");
    }
}

#[test]
fn the_version_names_the_commit_where_there_is_one() {
    let version = said(&["--version"]);
    let rest = version.trim().strip_prefix("sandkeeper ").unwrap();
    let number = env!("CARGO_PKG_VERSION");
    let commit = rest.strip_prefix(number).unwrap().trim();
    let in_brackets = |text: &str| {
        text.strip_prefix('(')
            .and_then(|text| text.strip_suffix(')'))
            .is_some_and(|commit| commit.len() >= 7 && commit.bytes().all(|byte| byte.is_ascii_hexdigit()))
    };
    assert!(commit.is_empty() || in_brackets(commit), "{version}");
    assert_eq!(
        said(&["status", "--version"]).trim().rsplit_once(' ').unwrap().1,
        version.trim().rsplit_once(' ').unwrap().1
    );
}

#[test]
fn the_units_are_what_systemd_understands() {
    let service = fs::read_to_string(at_root("assets/systemd/sandkeeper.service")).unwrap();
    let command =
        service.lines().find_map(|line| line.strip_prefix("ExecStart=/usr/bin/sandkeeper ")).unwrap();
    // The very command, on a host without an engine: it is understood, and refuses.
    let home = Home::new();
    let arguments = command.split(' ').chain(["--host", "unix:///no/such.sock"]);
    home.sandkeeper(arguments).run().expect_exit(4);
    for option in ["Type=oneshot", "SuccessExitStatus=3", "NoNewPrivileges=yes"] {
        assert!(service.lines().any(|line| line == option), "{option}");
    }
    if has("systemd-analyze") {
        for unit in ["sandkeeper.service", "sandkeeper.timer", "sandkeeper-gate.service"] {
            let text = fs::read_to_string(at_root("assets/systemd").join(unit)).unwrap();
            // The program need not be installed here.
            home.write(format!("units/{unit}"), text.replace("/usr/bin/sandkeeper", "/bin/true"));
        }
        let units = home.path().join("units");
        let verified = Command::new("systemd-analyze")
            .args(["--user", "--man=no", "--recursive-errors=no", "verify"])
            .args(
                ["sandkeeper.service", "sandkeeper.timer", "sandkeeper-gate.service"]
                    .map(|unit| units.join(unit)),
            )
            .env("XDG_RUNTIME_DIR", home.runtime())
            .env("HOME", home.path())
            .output()
            .unwrap();
        let complaints = String::from_utf8_lossy(&verified.stderr);
        let ours: Vec<_> = complaints.lines().filter(|line| line.contains("/units/")).collect();
        assert!(ours.is_empty(), "{ours:#?}");
    }
}

#[test]
fn the_unit_of_the_gate_runs_the_gate() {
    let service = fs::read_to_string(at_root("assets/systemd/sandkeeper-gate.service")).unwrap();
    let command =
        service.lines().find_map(|line| line.strip_prefix("ExecStart=/usr/bin/sandkeeper ")).unwrap();
    // The very command, where the group and the folder of the unit are not: it is understood, and refuses.
    let home = Home::new();
    let command = command
        .replace("/run/sandkeeper/", "/no/such/folder/")
        .replace("--group sandkeeper-view", "--group 0");
    home.sandkeeper(command.split(' '))
        .run()
        .expect_exit(1)
        .expect_stderr("the gate cannot listen at /no/such/folder");
}

#[test]
fn the_debian_package_names_files_that_are_there() {
    let manifest: toml::Table = fs::read_to_string(at_root("Cargo.toml")).unwrap().parse().unwrap();
    let deb = &manifest["package"]["metadata"]["deb"];
    for asset in deb["assets"].as_array().unwrap() {
        let source = asset[0].as_str().unwrap();
        let beginning = source.trim_end_matches('*');
        if source.starts_with("target/") {
            continue;
        }
        let (folder, name) = beginning.rsplit_once('/').unwrap_or(("", beginning));
        let mut entries = fs::read_dir(at_root(folder)).unwrap().map(|entry| entry.unwrap().file_name());
        assert!(entries.any(|entry| entry.to_string_lossy().starts_with(name)), "{source} names nothing");
    }
}
