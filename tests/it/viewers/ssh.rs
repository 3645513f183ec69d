//! Somebody looks at the host over SSH, through the gate, with a key that lets look and nothing else.

use std::fs::{self, Permissions};
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use crate::support::gate::GateProcess;
use crate::support::simulated::SimHost;
use crate::support::ssh::{Sshd, VIEWER, processes_of};
use crate::support::terminal::{Key, Terminal};
use crate::support::{seconds, wait_until};
use sandkeeper::engine::sim::Dice;
use sandkeeper::ui::TABLE;

/// A host, a gate in front of it, and a server that lets somebody look through the gate.
struct Recipe {
    sshd: Sshd,
    gate: GateProcess,
    host: SimHost,
}

impl Recipe {
    fn new() -> Self {
        let host = SimHost::new();
        host.idle("atlas-1", "atlas");
        host.orphan("left-1", "left");
        // Others pass through, and read the database; the engine's socket stays closed to them.
        fs::set_permissions(host.home.path(), Permissions::from_mode(0o711)).unwrap();
        fs::set_permissions(host.engine.socket(), Permissions::from_mode(0o600)).unwrap();
        let gate = GateProcess::start(
            &host.home,
            &host.endpoint(),
            &["--mode", "0660", "--group", &VIEWER.to_string()],
        );
        let program = host.home.path().join("sandkeeper-view");
        let built = env!("CARGO_BIN_EXE_sandkeeper");
        if fs::hard_link(built, &program).is_err() {
            fs::copy(built, &program).unwrap();
        }
        let command = format!(
            "{} --host {} --db native={} --interval 1s",
            program.display(),
            gate.endpoint(),
            host.home.native_store().display()
        );
        let sshd = Sshd::start(&format!("restrict,pty,command=\"LANG=C.UTF-8 {command}\""));
        Self { sshd, gate, host }
    }

    /// The console, over SSH.
    #[track_caller]
    fn look(&self) -> Terminal {
        let terminal = Terminal::run(&self.sshd.client(&["-tt"], &[]), 30, 120);
        terminal.wait_for("atlas-1").wait_for(" RO ");
        terminal
    }

    /// Whether nothing of what the viewer started is left.
    fn has_ended(&self) -> bool {
        processes_of(&self.host.home.path().join("sandkeeper-view")).is_empty()
    }

    #[track_caller]
    fn expect_only_questions(&self) {
        let requests = self.host.engine.requests();
        assert!(requests.len() > 5, "{requests:?}");
        let other: Vec<&String> = requests
            .iter()
            .filter(|request| !request.starts_with("GET ") && !request.starts_with("HEAD "))
            .collect();
        assert!(other.is_empty(), "{other:?}");
        assert_eq!(self.host.names(), ["atlas-1", "borealis-1", "left-1"]);
    }
}

/// Types something; if that was the way out, begins anew.
fn poke(recipe: &Recipe, terminal: &mut Terminal, bytes: &[u8]) {
    if terminal.exited_within(Duration::ZERO).is_some() {
        *terminal = recipe.look();
    }
    terminal.send(bytes);
}

#[test]
#[ignore = "needs root and sshd: run tests/run"]
fn the_console_is_seen_over_ssh_and_no_key_changes_anything() {
    let recipe = Recipe::new();
    let mut terminal = recipe.look();
    recipe.host.idle("borealis-1", "borealis");
    terminal.wait_for("borealis-1");

    for key in ["S", "X", "F", "R", "D", "U", "C", "N", "E", "*X", "*D", " S"] {
        for confirmation in ["y", "\r", "Y", "yes\r"] {
            poke(&recipe, &mut terminal, key.as_bytes());
            poke(&recipe, &mut terminal, confirmation.as_bytes());
        }
    }
    for entry in TABLE {
        for ending in ["\r", "\ry", "\r\r"] {
            poke(&recipe, &mut terminal, format!(":{}{ending}", entry.name).as_bytes());
            poke(&recipe, &mut terminal, b"\x1b\x1b");
        }
    }
    let mut dice = Dice::new(8);
    for _ in 0..1_000 {
        let byte = match dice.below(10) {
            0..3 => *dice.pick(b"SXRDFUCy:/?*\r\t ").unwrap(),
            3 => b'\r',
            4 => 0x1b,
            _ => u8::try_from(dice.below(95)).unwrap() + b' ',
        };
        poke(&recipe, &mut terminal, &[byte]);
    }
    drop(terminal);
    let terminal = recipe.look();
    terminal.wait_for("borealis-1");
    recipe.expect_only_questions();
    assert_eq!(
        recipe.gate.log().lines().filter(|line| line.starts_with("refused")).count(),
        0,
        "it does not even ask"
    );
}

#[test]
#[ignore = "needs root and sshd: run tests/run"]
fn a_cut_connection_ends_the_program_at_the_other_end() {
    let recipe = Recipe::new();
    let mut soonest = seconds(60);
    for signal in ["KILL", "TERM", "KILL", "TERM"] {
        let terminal = recipe.look();
        wait_until("it runs", || !recipe.has_ended());
        terminal.signal(signal);
        let cut = Instant::now();
        wait_until("it is gone", || recipe.has_ended());
        soonest = soonest.min(cut.elapsed());
    }
    // A machine that is busy with something else may be slow once, and not every time.
    assert!(soonest < seconds(10), "it was gone only {soonest:?} after the connection was cut");
    let terminal = recipe.look();
    for _ in 0..30 {
        terminal.resize(10, 40).resize(50, 200).resize(1, 1).resize(24, 80);
    }
    terminal.wait_for("atlas-1").press(Key::Ctrl('c'));
    terminal.wait_exit();
    wait_until("it is gone", || recipe.has_ended());
}

#[test]
#[ignore = "needs root and sshd: run tests/run"]
fn the_key_gives_no_shell_no_file_and_no_forwarding() {
    let Recipe { sshd, gate, host } = Recipe::new();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    // Whatever is asked for, the answer is the status, once.
    for (options, words) in [
        (&[][..], &["id"][..]),
        (&[], &["/bin/sh", "-c", "id"]),
        (&["-o", "SetEnv=SANDKEEPER_READ_ONLY=0 SANDKEEPER_HOST=unix:///nowhere.sock"], &["id"]),
        (&["-s"], &["sftp"]),
        (&["-A", "-X"], &["sandkeeper", "rm", "--yes", "left-1"]),
    ] {
        let output = sshd.run(options, words);
        let said = text(&output.stdout);
        assert!(
            said.contains("atlas-1") && !said.contains("uid="),
            "{words:?}: {said}{}",
            text(&output.stderr)
        );
    }
    // Forwarding to a port, from a port, to a socket.
    let port = format!("127.0.0.1:{}", sshd.port());
    let output = sshd.run(&["-W", &port], &[]);
    assert!(!output.status.success() && !text(&output.stdout).contains("SSH-2.0"), "{output:?}");
    let output = sshd.run(&["-N", "-o", "ExitOnForwardFailure=yes", "-R", &format!("0:{port}")], &[]);
    assert!(!output.status.success(), "{output:?}");

    let local = sshd.at("local.sock");
    let forward = format!("{}:{}", local.display(), host.engine.socket().display());
    let mut forwarding = sshd.client(&["-N", "-L", &forward], &[]).spawn().unwrap();
    wait_until("the client listens", || local.exists());
    let mut stream = UnixStream::connect(&local).unwrap();
    stream.set_read_timeout(Some(seconds(60))).unwrap();
    let _ = stream.write_all(b"GET /_ping HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    assert_eq!(text(&answer), "", "nothing comes through");
    let _ = forwarding.kill();
    let _ = forwarding.wait();
    assert_eq!(host.engine.mutations(), [""; 0]);
    gate.end();
}
