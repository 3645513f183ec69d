//! Eviction marks between users: what one has marked, another learns from `may-start`; what lets a container go is one's own
//! word and root's; and what cannot be read is never "nothing is draining".

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::PathBuf;

use serde_json::json;

use crate::support::native::{Host, container, native_row};
use crate::support::program::{Home, Program};
use crate::support::stores::NativeStore;

const NOBODY: u32 = 65534;

/// A machine with two users: root, whose host it is, and another one with a home of his own.
struct Machine {
    root: Host,
    other: Home,
    _stores: [NativeStore; 2],
}

impl Machine {
    /// `None`, and a word about it, where tests cannot be another user.
    fn new() -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            eprintln!("skipped: only root can run the program as another user");
            return None;
        }
        let root = Host::with(&[native_row("box", "atlas").state("exited")]);
        let socket = root.engine.socket();
        fs::set_permissions(socket, fs::Permissions::from_mode(0o666)).unwrap();
        fs::set_permissions(socket.parent().unwrap(), fs::Permissions::from_mode(0o755)).unwrap();
        let other = Home::new();
        let stores = [&root.home, &other].map(|home| NativeStore::create(home.native_store()));
        Some(Self { root, other, _stores: stores })
    }

    fn as_root(&self, arguments: &[&str]) -> Program<'_> {
        self.root.sandkeeper(arguments)
    }

    fn as_other(&self, arguments: &[&str]) -> Program<'_> {
        self.other
            .sandkeeper(arguments)
            .env("DOCKER_HOST", self.root.engine.endpoint())
            .env("SANDKEEPER_MARKS", self.root.home.board())
            .user(NOBODY, NOBODY)
    }

    /// What is on the board, in order.
    fn papers(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.root.home.board()).unwrap();
        let mut papers: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
        papers.sort();
        papers
    }
}

fn status_of_box(program: Program<'_>) -> String {
    container(&program.run().json(), "box")["status"].as_str().unwrap().to_owned()
}

#[test]
fn another_user_learns_that_a_workspace_drains() {
    let Some(machine) = Machine::new() else { return };
    machine.as_other(&["may-start", "atlas"]).run().expect_exit(0);
    machine.as_root(&["drain", "--yes", "box"]).run().expect_exit(0);
    machine.as_other(&["may-start", "atlas"]).run().expect_exit(5).expect_stdout("box is draining");
    machine.as_other(&["may-start", "native/atlas"]).run().expect_exit(5);
    machine.as_other(&["may-start", "elsewhere"]).run().expect_exit(0);
    let answer = machine.as_other(&["may-start", "atlas", "--json"]).run().expect_exit(5).json();
    assert_eq!((&answer["may_start"], answer["draining"].as_array().unwrap().len()), (&json!(false), 1));
    // Nobody need be able to ask the engine to be kept out.
    let socket = machine.root.engine.socket();
    fs::set_permissions(socket, fs::Permissions::from_mode(0o600)).unwrap();
    machine.as_other(&["may-start", "atlas"]).run().expect_exit(5);
    machine.as_root(&["undrain", "box"]).run().expect_exit(0);
    machine.as_other(&["may-start", "atlas"]).run().expect_exit(0);
}

#[test]
fn everybody_publishes_but_only_roots_word_and_ones_own_let_a_container_go() {
    let Some(machine) = Machine::new() else { return };
    let alone = machine.as_other(&["drain", "--yes", "box"]).run().expect_exit(0);
    assert!(alone.stderr.contains("`may-start` of other users does not know of it"), "{alone}");
    machine.as_other(&["undrain", "box"]).run().expect_exit(0);
    // Root makes the board with the first look.
    machine.as_root(&["status"]).run().expect_exit(0);

    let marked = machine.as_other(&["drain", "--yes", "box"]).run().expect_exit(0);
    assert!(!marked.stderr.contains("does not know"), "{marked}");
    machine.as_root(&["may-start", "atlas"]).run().expect_exit(5);
    assert_eq!(status_of_box(machine.as_root(&["status", "--json"])), "orphaned");
    assert_eq!(status_of_box(machine.as_other(&["status", "--json"])), "draining");
    machine.as_other(&["undrain", "box"]).run().expect_exit(0);

    machine.as_root(&["drain", "--yes", "box"]).run().expect_exit(0);
    assert_eq!(status_of_box(machine.as_other(&["status", "--json"])), "draining");
    let refused = machine.as_other(&["undrain", "box"]).run().expect_exit(3);
    assert!(refused.stdout.contains("only root can take away"), "{refused}");
}

#[test]
fn what_is_put_up_in_anothers_name_counts_for_nothing() {
    let Some(machine) = Machine::new() else { return };
    machine.as_root(&["drain", "--yes", "box"]).run().expect_exit(0);
    let [paper] = machine.papers().try_into().unwrap();
    let text = fs::read_to_string(&paper).unwrap();
    machine.as_root(&["undrain", "box"]).run().expect_exit(0);
    let board = machine.root.home.board();

    let forged = board.join("0-00112233445566ff.json");
    fs::write(&forged, &text).unwrap();
    chown(&forged, Some(NOBODY), Some(NOBODY)).unwrap();
    symlink(&forged, board.join("0-ff00112233445566.json")).unwrap();
    fs::write(board.join("notes.json"), "no paper").unwrap();
    fs::create_dir(board.join("1-00112233445566ff.json")).unwrap();
    for answer in [machine.as_root(&["may-start", "atlas"]), machine.as_other(&["may-start", "atlas"])] {
        answer.run().expect_exit(0);
    }
    assert_eq!(status_of_box(machine.as_root(&["status", "--json"])), "orphaned");
    // The same words of the one whose name is on it.
    fs::rename(&forged, board.join(format!("{NOBODY}-00112233445566ff.json"))).unwrap();
    machine.as_root(&["may-start", "atlas"]).run().expect_exit(5);
    assert_eq!(status_of_box(machine.as_root(&["status", "--json"])), "orphaned");
}

#[test]
fn a_name_that_somebody_else_sits_on_keeps_nobody_from_publishing() {
    let Some(machine) = Machine::new() else { return };
    machine.as_root(&["drain", "--yes", "box"]).run().expect_exit(0);
    let [paper] = machine.papers().try_into().unwrap();
    chown(&paper, Some(NOBODY), Some(NOBODY)).unwrap();
    machine.as_other(&["may-start", "atlas"]).run().expect_exit(0);
    // Every run that may write makes it good again.
    machine.as_root(&["reconcile", "--yes", "--workspace", "elsewhere"]).run().expect_exit(0);
    machine.as_other(&["may-start", "atlas"]).run().expect_exit(5);
    machine.as_root(&["undrain", "box"]).run().expect_exit(0);
    machine.as_other(&["may-start", "atlas"]).run().expect_exit(0);
}

#[test]
fn a_board_that_cannot_be_read_or_trusted_is_not_an_empty_one() {
    let Some(machine) = Machine::new() else { return };
    machine.as_root(&["status"]).run().expect_exit(0);
    machine.as_other(&["may-start", "atlas"]).run().expect_exit(0);
    let board = machine.root.home.board();
    assert_eq!(board.metadata().unwrap().permissions().mode() & 0o7777, 0o1777);

    let paper = board.join(format!("{NOBODY}-00112233445566ff.json"));
    fs::write(&paper, "{\"marks\": [").unwrap();
    chown(&paper, Some(NOBODY), Some(NOBODY)).unwrap();
    machine.as_root(&["may-start", "atlas"]).run().expect_exit(4).expect_stderr("00112233445566ff.json");
    let answer = machine.as_root(&["may-start", "atlas", "--json"]).run().expect_exit(4).json();
    assert_eq!(answer["may_start"], json!(null), "{answer:#}");
    fs::remove_file(&paper).unwrap();
    machine.as_root(&["may-start", "atlas"]).run().expect_exit(0);

    chown(&board, Some(NOBODY), Some(NOBODY)).unwrap();
    machine.as_root(&["may-start", "atlas"]).run().expect_exit(4).expect_stderr("not root's");
    chown(&board, Some(0), Some(0)).unwrap();
    fs::set_permissions(&board, fs::Permissions::from_mode(0o777)).unwrap();
    machine.as_root(&["may-start", "atlas"]).run().expect_exit(4).expect_stderr("others may replace");
    fs::set_permissions(&board, fs::Permissions::from_mode(0o700)).unwrap();
    machine.as_other(&["may-start", "atlas"]).run().expect_exit(4).expect_stderr("cannot be read");
}

#[test]
fn a_state_that_cannot_be_looked_at_is_not_a_missing_one() {
    let Some(machine) = Machine::new() else { return };
    machine.as_other(&["may-start", "atlas"]).run().expect_exit(0);
    let state = machine.other.state();
    fs::set_permissions(&state, fs::Permissions::from_mode(0o000)).unwrap();
    machine.as_other(&["may-start", "atlas"]).run().expect_exit(4).expect_stderr("cannot be told");
    fs::set_permissions(&state, fs::Permissions::from_mode(0o755)).unwrap();
    machine.as_other(&["may-start", "atlas"]).run().expect_exit(0);
    // A disk that is not mounted.
    symlink(machine.other.path().join("nowhere"), state.join("sandkeeper")).unwrap();
    for command in [&["may-start", "atlas"][..], &["status", "--json"]] {
        let blind = machine.as_other(command).run().expect_exit(4);
        assert!(format!("{blind}").contains("link to nothing"), "{blind}");
    }
}

#[test]
fn root_makes_and_believes_nothing_in_the_home_of_another_user() {
    let Some(machine) = Machine::new() else { return };
    machine.as_root(&["status"]).run().expect_exit(0);
    let in_his_home = |arguments: &[&str]| {
        machine
            .other
            .sandkeeper(arguments)
            .env("DOCKER_HOST", machine.root.engine.endpoint())
            .env("SANDKEEPER_MARKS", machine.root.home.board())
            .run()
    };
    let folder = machine.other.state().join("sandkeeper");
    // From here on the home is his.
    machine.as_other(&["may-start", "atlas"]).run().expect_exit(0);
    in_his_home(&["status"]).expect_exit(0);
    in_his_home(&["drain", "--yes", "box"]).expect_exit(1).expect_stderr("belongs to user 65534");
    assert!(!folder.exists());

    machine.as_other(&["drain", "--yes", "box"]).run().expect_exit(0);
    let blind = in_his_home(&["status", "--json"]).expect_exit(4);
    // What its store said before would be told by a state that root does not read.
    assert_eq!(container(&blind.json(), "box")["status"], "unknown", "{blind}");
    assert!(blind.stdout.contains("belongs to user 65534"), "{blind}");
}

#[test]
fn a_mark_is_found_by_whatever_address_its_engine_is_asked() {
    let host = Host::with(&[native_row("box", "atlas")]);
    NativeStore::create(host.home.native_store()).session("s1", "atlas").insert();
    host.sandkeeper(["drain", "--yes", "box"]).run().expect_exit(0);
    let link = host.home.path().join("another.sock");
    symlink(host.engine.socket(), &link).unwrap();
    let ask = |socket: &std::path::Path| {
        let endpoint = format!("unix://{}", socket.display());
        // Nobody publishes here, so only the user's own state can tell.
        let alone = host.home.sandkeeper(["may-start", "atlas", "--host", &endpoint]);
        alone.env("SANDKEEPER_MARKS", host.home.path().join("no-board")).run()
    };
    ask(&link).expect_exit(5);
    ask(&host.home.path().join("nobody-there.sock")).expect_exit(4);
}

#[test]
fn an_empty_name_is_no_workspace() {
    let host = Host::with(&[]);
    for name in ["", " ", "native/", "atlas/"] {
        host.sandkeeper(["may-start", name]).run().expect_exit(2).expect_stderr("no workspace is named");
    }
}

#[test]
fn a_state_that_was_emptied_is_not_a_missing_one() {
    let host = Host::with(&[native_row("box", "atlas")]);
    NativeStore::create(host.home.native_store()).session("s1", "atlas").insert();
    host.sandkeeper(["drain", "--yes", "box"]).run().expect_exit(0);
    let state = host.home.state().join("sandkeeper/state.db");
    let emptied = fs::File::create(&state).unwrap();
    emptied.set_modified(std::time::SystemTime::now() - std::time::Duration::from_mins(1)).unwrap();
    let nowhere = host.home.path().join("no-board");
    let alone = host.sandkeeper(["may-start", "atlas"]).env("SANDKEEPER_MARKS", nowhere).run();
    alone.expect_exit(4).expect_stderr("it has no tables");
    host.sandkeeper(["drain", "--yes", "box"]).run().expect_exit(1).expect_stderr("it has no tables");
}
