//! What the README tells people to type does what it says.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

use crate::support::gate::GateProcess;
use crate::support::simulated::SimHost;
use crate::support::terminal::Terminal;

const README: &str = include_str!("../../../README.md");

/// The commands in the blocks that are shell, each without its comment.
fn commands() -> Vec<String> {
    let mut commands = Vec::new();
    let mut in_shell = false;
    for line in README.lines() {
        match line {
            "```sh" => in_shell = true,
            "```" => in_shell = false,
            line if in_shell => {
                commands.push(line.split(" # ").next().unwrap().trim().to_owned());
            }
            _ => {}
        }
    }
    commands
}

/// A host with one of each kind, seen from a shell that knows `sandkeeper`.
struct Shell {
    host: SimHost,
}

impl Shell {
    fn new() -> Self {
        let host = SimHost::new();
        host.orphan("old", "atlas");
        host.active("busy", "borealis");
        let programs = host.home.path().join("programs");
        fs::create_dir(&programs).unwrap();
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_sandkeeper"), programs.join("sandkeeper")).unwrap();
        Self { host }
    }

    fn command(&self, line: &str) -> Command {
        let program = self.host.sandkeeper(&[]).into_command();
        let mut shell = Command::new("sh");
        shell.args(["-ec", line]).current_dir(self.host.home.path());
        shell.envs(program.get_envs().filter_map(|(key, value)| Some((key, value?))));
        let programs = self.host.home.path().join("programs");
        shell.env("PATH", format!("{}:/usr/bin:/bin", programs.display()));
        shell
    }

    fn run(&self, line: &str) -> Output {
        let _alone = crate::support::one_process_at_a_time();
        self.command(line).output().unwrap()
    }
}

#[test]
fn every_command_is_one_of_those_tried_below() {
    let tried = [
        "cargo run --release -- demo",
        "tests/run",
        "cargo install --path . --locked",
        "sandkeeper gate --listen /run/sandkeeper/gate.sock --mode 0660 --group sandkeeper-view",
        "sandkeeper doctor --read-only-user viewer --host unix:///run/sandkeeper/gate.sock",
    ];
    let commands = commands();
    assert!(commands.len() > 10, "{commands:?}");
    for command in &commands {
        let plain = command.starts_with("sandkeeper ");
        assert!(tried.contains(&command.as_str()) || plain, "nobody tries `{command}`");
    }
    for command in tried {
        assert!(commands.iter().any(|known| known == command), "the README no longer has `{command}`");
    }
}

#[test]
fn what_runs_on_any_host_does() {
    let special = ["sandkeeper gate ", "sandkeeper doctor --read-only-user "];
    for line in commands() {
        if !line.starts_with("sandkeeper ") || special.iter().any(|special| line.starts_with(special)) {
            continue;
        }
        let shell = Shell::new();
        let ran = shell.run(&line);
        assert!(ran.status.success(), "`{line}`: {ran:?}");
        if line.contains("--yes") {
            assert_eq!(shell.host.names(), ["busy"], "the clean-up took what nobody needs and nothing else");
        } else {
            assert_eq!(shell.host.names(), ["busy", "old"], "`{line}` changed something");
        }
    }
}

#[test]
fn what_is_written_to_files_is_worth_it() {
    let shell = Shell::new();
    assert!(
        shell
            .run("sandkeeper completions bash > sandkeeper.bash; sandkeeper man > sandkeeper.1")
            .status
            .success()
    );
    for file in ["sandkeeper.bash", "sandkeeper.1"] {
        let text = fs::read_to_string(shell.host.home.path().join(file)).unwrap();
        assert!(text.contains("reconcile"), "{file}");
    }
}

#[test]
fn the_demo_is_one_command_away() {
    let shell = Shell::new();
    // The build has been made already; what is left of the command is this.
    let mut demo = shell.command("sandkeeper demo");
    demo.env("TERM", "xterm-256color");
    let terminal = Terminal::run(&demo, 30, 110);
    terminal.wait_for("demo host").wait_for("orphaned").type_keys("q");
    assert!(terminal.wait_exit().success());
}

#[test]
fn the_gate_and_its_doctor() {
    let shell = Shell::new();
    let gate =
        GateProcess::start(&shell.host.home, &shell.host.endpoint(), &["--mode", "0660", "--group", "root"]);
    let mode = gate.socket().metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o660);
    let line = format!("sandkeeper doctor --read-only-user nobody --host {}", gate.endpoint());
    let ran = shell.run(&line);
    let said = String::from_utf8_lossy(&ran.stdout);
    assert!(said.contains("nobody"), "{ran:?}");
    let view = format!("sandkeeper --read-only --host {} status", gate.endpoint());
    assert!(String::from_utf8_lossy(&shell.run(&view).stdout).contains("busy"));
}

#[test]
fn the_one_test_command_is_there() {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/run");
    assert_ne!(tests.metadata().unwrap().permissions().mode() & 0o111, 0);
}

#[test]
#[ignore = "needs a minute to build"]
fn it_is_installed_from_its_sources() {
    let root = tempfile::tempdir().unwrap();
    let installed = Command::new(env!("CARGO"))
        .args(["install", "--path", ".", "--locked", "--debug", "--root"])
        .arg(root.path())
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    assert!(installed.status.success(), "{}", String::from_utf8_lossy(&installed.stderr));
    let version = Command::new(root.path().join("bin/sandkeeper")).arg("--version").output().unwrap();
    assert!(String::from_utf8_lossy(&version.stdout).starts_with("sandkeeper "));
}

#[test]
fn every_command_in_the_table_exists_with_its_options() {
    let rows = README.lines().filter_map(|line| line.strip_prefix("| `sandkeeper")?.split('`').next());
    let rows: Vec<&str> = rows.collect();
    assert!(rows.len() > 10, "{rows:?}");
    for row in rows {
        let words: Vec<&str> =
            row.split(['[', ']', ' ', '|', '\\']).filter(|word| !word.is_empty()).collect();
        let shell = Shell::new();
        // `stop\|rm TARGET...` are two commands; `profiles [list\|show NAME]` is one with others below it.
        let first = row.split_whitespace().next().unwrap_or_default();
        let mut names: Vec<&str> = first.split("\\|").filter(|name| !name.is_empty()).collect();
        if names.is_empty() {
            names.push("");
        }
        for name in names {
            let help = shell.run(&format!("sandkeeper {name} --help"));
            assert!(help.status.success(), "{name}: {help:?}");
            let help = String::from_utf8_lossy(&help.stdout).into_owned();
            for option in words.iter().filter(|word| word.starts_with("--")) {
                assert!(help.contains(option), "`sandkeeper {name}` has no {option}");
            }
        }
    }
}

#[test]
fn every_file_it_points_to_is_there() {
    for target in README.split("](").skip(1).map(|rest| rest.split(')').next().unwrap()) {
        if !target.contains("://") {
            let place = Path::new(env!("CARGO_MANIFEST_DIR")).join(target);
            assert!(place.exists(), "{target} is not there");
        }
    }
}
