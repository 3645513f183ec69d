//! Acting from the dashboard on a terminal, by keyboard alone, with the effects checked on the engine.

use crate::support::simulated::SimHost;
use crate::support::terminal::Key;
use crate::support::wait_until;
use serde_json::Value;

/// The line on which a text is, for what stands beside it.
fn line_with<'screen>(screen: &'screen str, text: &str) -> &'screen str {
    screen.lines().find(|line| line.contains(text)).unwrap_or_default()
}

/// What the journal says, oldest first.
fn journal(host: &SimHost) -> Vec<Value> {
    let log = host.sandkeeper(&["log", "--json"]).run().expect_exit(0).json();
    log.as_array().unwrap().clone()
}

#[test]
fn filter_mark_preview_cancel_confirm_progress_summary_quit() {
    let host = SimHost::frozen();
    let stale = host.orphan("atlas-old", "atlas");
    let slow = host.sandbox("atlas-slow", "atlas").slow().placed();
    let other = host.orphan("borealis-old", "borealis");
    let terminal = host.dashboard(&[]);
    terminal.wait_for("borealis-old").wait_for("3 orphaned").wait_for("RW");

    // Filter as you type; the letters belong to no command meanwhile.
    terminal.type_keys("/atlas").wait_for("/atlas").wait_gone("borealis-old").wait_for("2 of 3");
    terminal.press(Key::Enter).wait_gone("2 of 3");
    // The first row is the workspace: its mark takes all of its containers, and survives the filter.
    terminal.type_keys(" ").wait_for("2 marked");
    terminal.press(Key::Esc).wait_for("borealis-old").wait_for("2 marked");

    // Cancel has the focus: neither Enter nor Esc does anything.
    for key in [Key::Enter, Key::Esc] {
        terminal.type_keys("X").wait_for("Remove: 2 to change, 0 to keep").wait_for("[ Cancel ]");
        terminal.wait_for("stop, remove").wait_for("lost: everything written inside the containers");
        terminal.press(key).wait_gone("[ Cancel ]").wait_for("2 marked");
    }
    assert_eq!(host.engine.mutations(), [""; 0]);

    terminal.type_keys("X").wait_for("[ Cancel ]").type_keys("y");
    // While it stops, the rest stays usable.
    terminal.wait_until("one is over, one stops", |screen| {
        screen.contains("remove 1 of 2") && line_with(screen, "stopping,").contains("atlas-slow")
    });
    terminal.type_keys("?").wait_for("─ Keys ─").press(Key::Esc).wait_gone("─ Keys ─");
    terminal.type_keys("G").wait_until("the cursor is on the last row", |screen| {
        screen.lines().any(|line| line.starts_with('>') && line.contains("borealis-old"))
    });
    host.let_them_end();
    terminal.wait_for("remove is over: 2 removed").wait_for("[ Close ]");
    terminal.wait_until("both are in the summary", |screen| {
        ["atlas-old", "atlas-slow"].iter().all(|name| line_with(screen, name).contains("removed"))
    });
    terminal.press(Key::Esc).wait_gone("[ Close ]").wait_gone("marked").wait_for("1 orphaned");
    assert_eq!(host.names(), ["borealis-old"]);
    assert_eq!((host.state(&stale), host.state(&slow)), (None, None));
    assert_eq!(host.state(&other).as_deref(), Some("exited"));
    terminal.quit();
    let done = journal(&host);
    assert_eq!(done.len(), 2, "{done:#?}");
    assert!(done.iter().all(|entry| entry["outcome"].as_str().unwrap().contains("removed")), "{done:#?}");
}

#[test]
fn a_stop_leaves_the_container_there() {
    let host = SimHost::new();
    let idle = host.idle("quiet", "atlas");
    let terminal = host.dashboard(&[]);
    terminal.wait_for("quiet").type_keys("jS").wait_for("Stop: 1 to change").type_keys("y");
    terminal.wait_for("stop is over: 1 stopped").press(Key::Enter).wait_gone("[ Close ]");
    terminal.wait_until("it is shown as exited", |screen| line_with(screen, "quiet").contains("exited"));
    assert_eq!(host.state(&idle).as_deref(), Some("exited"));
    terminal.quit();
}

#[test]
fn what_a_live_session_is_in_is_kept_and_said_why() {
    let host = SimHost::new();
    let busy = host.active("busy", "atlas");
    let terminal = host.dashboard(&[]);
    terminal.wait_for("busy").type_keys("jX").wait_for("Remove: 0 to change, 1 to keep");
    terminal
        .wait_for("nothing to do")
        .wait_until("the session is the reason", |screen| line_with(screen, "keep  ").contains("live"));
    terminal.type_keys("y").wait_for("There is nothing to do.").press(Key::Esc).wait_gone("[ Cancel ]");
    assert_eq!(host.state(&busy).as_deref(), Some("running"));
    assert_eq!(host.engine.mutations(), [""; 0]);
    terminal.quit();
}

#[test]
fn a_session_that_begins_while_the_preview_is_open_changes_the_plan() {
    let host = SimHost::new();
    let orphan = host.sandbox("box", "atlas").placed();
    let terminal = host.dashboard(&[]);
    terminal.wait_for("box").type_keys("jX").wait_for("Remove: 1 to change");
    host.store.session("newcomer", "atlas").status("active").insert();
    terminal.wait_for("The host has changed").wait_for("Remove: 0 to change, 1 to keep").type_keys("y");
    terminal.wait_for("There is nothing to do.").press(Key::Esc).wait_gone("[ Cancel ]");
    assert_eq!(host.state(&orphan).as_deref(), Some("running"));
    assert_eq!(host.engine.mutations(), [""; 0]);
    terminal.quit();
}

#[test]
fn a_bulk_of_more_than_ten_wants_its_count_typed() {
    let host = SimHost::new();
    for number in 10..22 {
        host.orphan(&format!("old-{number}"), &format!("ws-{number}"));
        host.idle(&format!("kept-{number}"), &format!("ws-{number}"));
    }
    // One of each pair is claimed by name.
    host.store.execute("UPDATE sessions SET container = replace(id, '-session', '')");
    let terminal = host.dashboard(&[]);
    terminal.wait_for("12 idle").wait_for("12 orphaned").type_keys("R");
    terminal.wait_for("Reconcile everything: 12 to change").wait_for("type `reconcile 12`");
    // Neither a quick yes nor a wrong number does it.
    terminal.type_keys("y\r").wait_for("exactly").press(Key::Ctrl('u'));
    terminal.type_keys("reconcile 11\r").wait_for("exactly").press(Key::Ctrl('u'));
    assert_eq!(host.engine.mutations(), [""; 0]);
    terminal.type_keys("reconcile 12\r").wait_for("reconcile is over: 12 removed");
    assert_eq!(host.names().len(), 12, "{:?}", host.names());
    assert!(host.names().iter().all(|name| name.starts_with("kept-")), "{:?}", host.names());
    terminal.press(Key::Enter).wait_gone("[ Close ]").wait_gone("orphaned");
    terminal.quit();
}

#[test]
fn force_is_a_key_of_its_own_and_wants_a_phrase() {
    let host = SimHost::new();
    let stubborn = host.sandbox("stubborn", "atlas").stubborn().placed();
    let terminal = host.dashboard(&[]);
    terminal.wait_for("stubborn").type_keys("jF").wait_for("Remove by force: 1 to change");
    terminal.wait_for("type `force 1`").type_keys("force 1\r").wait_for("force removal is over: 1 removed");
    assert_eq!(host.state(&stubborn), None);
    let forced: Vec<String> = host.engine.mutations();
    assert_eq!(forced.len(), 1, "{forced:?}");
    assert!(forced[0].contains("force=true") && forced[0].contains("v=false"), "{forced:?}");
    terminal.press(Key::Enter).wait_gone("[ Close ]");
    terminal.quit();
}

#[test]
fn a_drained_container_goes_when_its_last_session_ends_and_not_before() {
    let host = SimHost::new();
    let (busy, spared) = (host.active("busy", "atlas"), host.active("spared", "borealis"));
    let terminal = host.dashboard(&[]);
    terminal.wait_for("2 active").type_keys("*D").wait_for("Drain: 2 to change").type_keys("y");
    terminal.wait_for("drain is over: 2 drained").press(Key::Enter).wait_gone("[ Close ]");
    terminal.wait_for("2 draining");
    assert_eq!(host.engine.mutations(), [""; 0], "a drain only marks");
    // The mark is taken from one of them.
    terminal.type_keys("/spared\r").wait_gone("busy");
    terminal.type_keys("gju").wait_for("no longer draining").press(Key::Esc);
    terminal.wait_for("1 active 1 draining");
    host.store.end("busy-session");
    terminal.wait_for("1 drained container removed").wait_gone("busy");
    assert_eq!((host.state(&busy), host.state(&spared).as_deref()), (None, Some("running")));
    terminal.quit();
}

#[test]
fn quitting_during_a_stop_waits_for_it_and_says_so() {
    let host = SimHost::frozen();
    let slow = host.sandbox("slow", "atlas").slow().placed();
    let waiting: Vec<_> = (0..3).map(|number| host.orphan(&format!("later-{number}"), "borealis")).collect();
    let terminal = host.dashboard(&[]);
    terminal.wait_for("later-2").type_keys("jX").wait_for("Remove: 1 to change").type_keys("y");
    terminal.wait_for("stopping,");
    wait_until("the engine stops it", || !host.engine.mutations().is_empty());
    terminal.type_keys("q").wait_for("Waiting for the steps in flight");
    terminal.type_keys("q").wait_for("can end as a kill");
    host.let_them_end();
    let status = terminal.wait_exit();
    assert!(status.success(), "{status:?}\n{terminal}");
    terminal.wait_restored();
    // What had begun came to an end that the journal tells; nothing new was begun.
    assert_ne!(host.state(&slow).as_deref(), Some("running"));
    assert!(waiting.iter().all(|id| host.state(id).is_some()));
    let done = journal(&host);
    assert_eq!(done.len(), 1, "{done:#?}");
    assert!(done[0]["outcome"].is_string(), "{done:#?}");
}

#[test]
fn a_window_that_is_closed_during_a_stop_does_not_abandon_it() {
    let host = SimHost::frozen();
    let slow = host.sandbox("slow", "atlas").slow().placed();
    let terminal = host.dashboard(&[]);
    terminal.wait_for("slow").type_keys("jX").wait_for("Remove: 1 to change").type_keys("y");
    terminal.wait_for("stopping,");
    wait_until("the engine stops it", || !host.engine.mutations().is_empty());
    terminal.hang_up();
    host.let_them_end();
    terminal.wait_exit();
    assert_ne!(host.state(&slow).as_deref(), Some("running"));
    let done = journal(&host);
    assert!(done.len() == 1 && done[0]["outcome"].is_string(), "{done:#?}");
}

#[test]
fn a_failure_is_told_first_with_its_cause_and_what_to_do() {
    use sandkeeper::engine::sim::{Fault, FaultRule};
    let host = SimHost::new();
    let stuck = host.orphan("stuck", "atlas");
    host.orphan("willing", "borealis");
    let fault = Fault::Status(500, "driver failed to remove root filesystem".to_owned());
    host.engine.fault(FaultRule::on("DELETE", &format!("/containers/{stuck}"), fault));
    let terminal = host.dashboard(&[]);
    terminal.wait_for("willing").type_keys("*X").wait_for("Remove: 2 to change").type_keys("y");
    terminal.wait_for("remove is over: 1 failed, 1 removed").wait_for("driver failed").wait_for("try again");
    let (failed, removed) = (terminal.find("failed  ").unwrap(), terminal.find("removed  ").unwrap());
    assert!(failed.0 < removed.0, "failures come first\n{terminal}");
    terminal.press(Key::Enter).wait_gone("[ Close ]");
    assert_eq!(host.names(), ["stuck"]);
    terminal.quit();
}

#[test]
fn the_palette_only_opens_the_preview() {
    let host = SimHost::new();
    host.orphan("old", "atlas");
    let terminal = host.dashboard(&[]);
    terminal.wait_for("old").type_keys("j:remove").wait_for("Stop gracefully, then remove");
    terminal.press(Key::Enter).wait_for("Remove: 1 to change").press(Key::Enter).wait_gone("[ Cancel ]");
    assert_eq!(host.engine.mutations(), [""; 0]);
    terminal.quit();
}

#[test]
fn what_was_done_and_seen_is_remembered() {
    let host = SimHost::new();
    let idle = host.idle("quiet", "atlas");
    let terminal = host.dashboard(&[]);
    terminal.wait_for("quiet").type_keys("jS").wait_for("Stop: 1 to change").type_keys("y");
    terminal.wait_for("stop is over").press(Key::Enter).wait_gone("[ Close ]");
    terminal.press(Key::BackTab).wait_for("[History]").wait_for("stop by").wait_for("became idle");
    terminal.quit();
    // Meanwhile the host goes on.
    host.orphan("newcomer", "borealis");
    host.engine.act(|world, now| world.remove(now, idle.as_str(), false)).unwrap();
    let terminal = host.dashboard(&[]);
    terminal.wait_for("since you last looked").wait_for("1 new, 1 gone");
    terminal.quit();
    // It is told once.
    let terminal = host.dashboard(&[]);
    terminal.wait_for("newcomer").type_keys("jl").wait_for("end of the log").quit();
    let said = String::from_utf8_lossy(&terminal.raw_bytes()).into_owned();
    assert!(!said.contains("since you last looked"), "{terminal}");
}

#[test]
fn read_only_neither_acts_nor_writes_nor_offers_to() {
    let host = SimHost::new();
    host.orphan("old", "atlas");
    let terminal = host.dashboard(&["--read-only"]);
    terminal.wait_for("old").wait_for(" RO ");
    assert!(!terminal.screen().contains("remove"), "{terminal}");
    terminal.type_keys("?").wait_for("─ Keys ─").type_keys("G");
    assert!(!terminal.screen().contains("Stop gracefully"), "{terminal}");
    terminal.press(Key::Esc).wait_gone("─ Keys ─");
    terminal.type_keys("jXSRDFuy*X:remove").wait_for("No command fits").press(Key::Esc);
    terminal.wait_gone("No command fits").type_keys("jl").wait_for("[Logs]");
    terminal.quit();
    assert_eq!(host.engine.mutations(), [""; 0]);
    assert!(!host.state_folder().exists(), "nothing is written down");
}

#[test]
fn another_keeper_at_work_is_waited_for() {
    let host = SimHost::frozen();
    let slow = host.sandbox("slow", "atlas").slow().placed();
    let old = host.orphan("old", "borealis");
    let terminal = host.dashboard(&[]);
    terminal.wait_for("old");
    let other = host.sandkeeper(&["rm", "--yes", "slow"]).spawn();
    wait_until("the other one stops it", || {
        host.engine.mutations().iter().any(|request| request.contains("/stop"))
    });
    terminal.type_keys("/old\rjX").wait_for("Remove: 1 to change").type_keys("y");
    terminal.wait_for("waiting: ");
    host.let_them_end();
    terminal.wait_for("remove is over: 1 removed");
    other.wait().expect_exit(0);
    assert_eq!((host.state(&slow), host.state(&old)), (None, None));
    terminal.press(Key::Enter).wait_gone("[ Close ]");
    terminal.quit();
}
