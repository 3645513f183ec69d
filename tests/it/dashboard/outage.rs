//! The dashboard while evidence is missing: it says so, keeps what it knew, lets nothing be changed, and recovers by itself.

use std::fs;
use std::path::{Path, PathBuf};

use crate::support::simulated::SimHost;
use crate::support::terminal::{Key, Terminal};
use sandkeeper::engine::sim::{Fault, FaultRule};

/// Short enough that an outage shows soon.
const HASTY: [&str; 4] = ["--timeout", crate::support::HASTE, "--interval", "500ms"];

fn host() -> SimHost {
    let host = SimHost::new();
    host.orphan("old", "atlas");
    host.active("busy", "borealis");
    host
}

/// Nothing can be changed: the keys are struck out, and pressing one says why.
#[track_caller]
fn expect_actions_off(terminal: &Terminal, why: &str) {
    terminal.type_keys("gjX").wait_for("remove is not possible now").wait_for(why);
    assert!(!terminal.screen().contains("[ Cancel ]"), "{terminal}");
}

/// The whole way: the orphan is removed without a restart.
#[track_caller]
fn expect_actions_on(terminal: &Terminal, host: &SimHost) {
    terminal.wait_for("1 active 1 orphaned");
    terminal.type_keys("gjX").wait_for("Remove: 1 to change").type_keys("y");
    terminal.wait_for("remove is over: 1 removed").press(Key::Enter).wait_gone("[ Close ]");
    assert_eq!(host.names(), ["busy"]);
    terminal.quit();
}

#[test]
fn an_engine_that_goes_down_and_comes_back_under_a_running_dashboard() {
    let host = host();
    let terminal = host.dashboard(&HASTY);
    terminal.wait_for("1 active 1 orphaned");
    host.engine.down().unwrap();
    terminal.wait_for("!engine").wait_for("2 unknown").wait_for(" ! engine: ");
    // What was known stays on the screen, never an empty list.
    terminal.wait_for("busy").wait_for("old");
    expect_actions_off(&terminal, "the engine's word cannot be relied on");
    host.engine.up().unwrap();
    terminal.wait_gone("!engine");
    expect_actions_on(&terminal, &host);
}

#[test]
fn an_engine_that_hangs_is_no_better() {
    let host = host();
    let terminal = host.dashboard(&HASTY);
    terminal.wait_for("1 active 1 orphaned");
    host.engine.fault(FaultRule::on("GET", "/containers/json", Fault::HangBeforeHeaders));
    host.sandbox("hint", "cygnus").placed();
    terminal.wait_for("!engine").wait_for("no complete answer");
    expect_actions_off(&terminal, "the engine's word cannot be relied on");
    assert_eq!(host.engine.mutations(), [""; 0]);
    host.engine.recover();
    terminal.wait_gone("!engine").wait_for("hint");
    terminal.quit();
}

#[test]
fn a_plan_under_review_cannot_be_confirmed_while_the_engine_is_down() {
    let host = host();
    let terminal = host.dashboard(&HASTY);
    terminal.wait_for("1 active 1 orphaned");
    terminal.type_keys("gjX").wait_for("Remove: 1 to change");
    host.engine.down().unwrap();
    terminal.wait_for("!engine").wait_for("[ Cancel ]").type_keys("y");
    terminal.wait_until("it is not possible, or there is nothing to do", |screen| {
        screen.contains("ot possible now") || screen.contains("othing to do")
    });
    host.engine.up().unwrap();
    terminal.wait_gone("!engine").wait_for("[ Cancel ]").press(Key::Esc).wait_gone("[ Cancel ]");
    assert_eq!(host.engine.mutations(), [""; 0]);
    expect_actions_on(&terminal, &host);
}

#[test]
fn without_an_engine_it_stays_open_says_what_it_tried_and_finds_it_later() {
    let host = host();
    host.engine.down().unwrap();
    let terminal = host.dashboard(&HASTY);
    terminal.wait_for("nothing listens at").wait_for("DOCKER_HOST");
    assert!(!terminal.screen().contains("No container of a known system"), "{terminal}");
    terminal.type_keys("X").wait_for("not possible now");
    host.engine.up().unwrap();
    expect_actions_on(&terminal, &host);
}

#[test]
fn a_session_store_that_becomes_unreadable_makes_everything_unknown_until_it_is_back() {
    let host = host();
    let terminal = host.dashboard(&HASTY);
    terminal.wait_for("1 active 1 orphaned");
    let (path, aside) = (host.store.path().to_owned(), host.home.path().join("aside.db"));
    // With its log beside it, a database is what the log says, whatever the file holds.
    let beside = |path: &Path, suffix: &str| PathBuf::from(format!("{}{suffix}", path.display()));
    let files = ["", "-wal", "-shm"].map(|suffix| (beside(&path, suffix), beside(&aside, suffix)));
    let there: Vec<_> = files.into_iter().filter(|(path, _)| path.exists()).collect();
    for (path, aside) in &there {
        fs::rename(path, aside).unwrap();
    }
    fs::write(&path, "this is no database, and it is long enough to be read as one").unwrap();
    terminal.wait_for("!sessions").wait_for("2 unknown").wait_for(" ! native sessions ");
    expect_actions_off(&terminal, "no session store can be read");
    assert_eq!(host.engine.mutations(), [""; 0]);
    for (path, aside) in &there {
        fs::rename(aside, path).unwrap();
    }
    terminal.wait_gone("!sessions");
    expect_actions_on(&terminal, &host);
}

#[test]
fn a_log_that_cannot_be_read_says_why() {
    let host = host();
    let fault = Fault::Status(501, "configured logging driver does not support reading".to_owned());
    host.engine.fault(FaultRule::on("GET", "/containers/*/logs", fault));
    host.engine.fault(FaultRule::on("GET", "/containers/*/stats", Fault::HangBeforeHeaders));
    let terminal = host.dashboard(&HASTY);
    terminal.wait_for("busy").type_keys("gjl").wait_for("does not support reading");
    terminal.quit();
}
