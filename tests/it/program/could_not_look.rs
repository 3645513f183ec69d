//! "I could not look" never has the exit code or the words of "nothing is there", whichever command is asked.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use rstest::rstest;

use crate::support::native::{Host, container, native_row};
use crate::support::program::Finished;
use crate::support::stores::NativeStore;

/// A host with one container that nobody needs.
fn host() -> (Host, NativeStore) {
    let host =
        Host::with(&[native_row("box", "atlas").state("exited").label("sandkeeper.config-hash", "c0ffee")]);
    let store = NativeStore::create(host.home.native_store());
    store.session("elsewhere", "elsewhere").ended_ago(5).insert();
    (host, store)
}

#[derive(Clone, Copy)]
enum Blind {
    Engine,
    State,
    Store,
}

const NO_DATABASE: &str =
    "this is no database, and long enough to be sure of it: ..................................";

fn ask(host: &Host, command: &str, blind: Option<Blind>) -> Finished {
    let program = host.sandkeeper(command.split(' '));
    match blind {
        Some(Blind::Engine) => program.env("DOCKER_HOST", "unix:///nowhere/engine.sock").run(),
        Some(Blind::State | Blind::Store) | None => program.run(),
    }
}

#[rstest]
#[case::the_engine(Blind::Engine, &[
    ("status", 1), ("status --json", 1), ("reconcile --dry-run", 4), ("undo --dry-run", 4), ("heal --dry-run", 4),
    ("recreate --dry-run box", 4), ("undrain --dry-run box", 4), ("drain --dry-run box", 4), ("dirs", 4), ("doctor", 1),
])]
#[case::our_own_state(Blind::State, &[
    ("status", 4), ("status --json", 4), ("reconcile --dry-run", 4), ("undo --dry-run", 4), ("heal --dry-run", 4),
    ("recreate --dry-run box", 4), ("undrain --dry-run box", 4), ("drain --dry-run box", 4), ("log", 1), ("log --json", 1),
    ("reconcile --dry-run --json", 4), ("may-start atlas", 4), ("may-start atlas --json", 4), ("doctor", 1),
])]
#[case::a_session_store(Blind::Store, &[
    ("status", 4), ("status --json", 4), ("reconcile --dry-run", 4), ("undo --dry-run", 4), ("heal --dry-run", 4),
    ("reconcile --dry-run --json", 4), ("undo --dry-run --json", 4), ("heal --dry-run --json", 4),
    ("dirs", 4), ("dirs --json", 4), ("doctor", 1),
])]
fn what_could_not_be_looked_at_is_not_nothing(#[case] blind: Blind, #[case] commands: &[(&str, i32)]) {
    let (host, store) = host();
    let seen: Vec<Finished> =
        commands.iter().map(|(command, _)| ask(&host, command, None).expect_exit(0)).collect();
    match blind {
        Blind::Engine => {}
        Blind::State => spoil_state(&host),
        Blind::Store => {
            let path = store.path().to_owned();
            drop(store);
            fs::write(path, NO_DATABASE).unwrap();
        }
    }
    for ((command, code), seen) in commands.iter().zip(seen) {
        let blind = ask(&host, command, Some(blind)).expect_exit(*code);
        assert_ne!((&blind.stdout, &blind.stderr), (&seen.stdout, &seen.stderr), "{blind}");
        assert!(!blind.stdout.is_empty() || !blind.stderr.is_empty(), "{blind}");
    }
}

fn spoil_state(host: &Host) {
    let folder = host.home.state().join("sandkeeper");
    fs::create_dir_all(&folder).unwrap();
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o700)).unwrap();
    for beside in ["state.db-wal", "state.db-shm"] {
        let _ = fs::remove_file(folder.join(beside));
    }
    fs::write(folder.join("state.db"), NO_DATABASE).unwrap();
}

#[test]
fn a_store_of_which_it_cannot_be_read_what_it_said_before_is_doubted() {
    let (host, _store) = host();
    spoil_state(&host);
    let report = host.status([""; 0]).expect_exit(4).json();
    let shown = container(&report, "box");
    assert_eq!(shown["status"], "unknown", "{shown:#}");
    assert!(shown.to_string().contains("what it said before cannot be read"), "{shown:#}");
}

#[test]
fn a_store_that_could_not_be_read_is_a_question_mark_and_null() {
    let (host, store) = host();
    let table = host.sandkeeper(["status"]).run().expect_exit(0);
    assert!(table.stdout.contains("none") && table.stdout.contains("current"), "{table}");
    let path = store.path().to_owned();
    drop(store);
    fs::write(path, NO_DATABASE).unwrap();

    let table = host.sandkeeper(["status"]).run().expect_exit(4);
    let row: Vec<&str> =
        table.stdout.lines().find(|line| line.contains("  box")).unwrap().split_whitespace().collect();
    assert_eq!(row[..5], ["box", "unknown", "exited", "?", "?"], "{table}");
    assert_eq!(row[6], "?", "{table}");
    assert!(!table.stdout.contains("none") && !table.stdout.contains("current"), "{table}");
    let report = host.status([""; 0]).expect_exit(4).json();
    let shown = container(&report, "box");
    for field in ["sessions", "session_count", "live_sessions", "outdated", "quiet_since"] {
        assert!(shown[field].is_null(), "{field}: {shown:#}");
    }
    assert!(report["lost"].is_null(), "{report:#}");
}
