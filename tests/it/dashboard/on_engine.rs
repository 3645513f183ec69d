//! The dashboard on real engines, by keyboard alone: a stop, a removal, a drain and a bulk clean-up, with what came of them
//! asked of the engine.

use crate::support::engine::RealEngine;
use crate::support::kept::KeptHost;
use crate::support::on_both_engines;
use crate::support::terminal::{Key, Terminal};

on_both_engines![
    a_stop_a_removal_a_drain_and_a_bulk_reconcile_by_keyboard_alone,
    what_happens_on_the_engine_is_on_the_screen,
    logs_usage_and_inspection_of_a_real_container,
];

fn dashboard(host: &KeptHost<'_>) -> Terminal {
    let arguments: [&str; 0] = [];
    Terminal::start(host.sandkeeper(arguments), 50, 200)
}

/// Chooses the one container that this filter leaves, and presses a key on it.
fn on(terminal: &Terminal, filter: &str, key: &str) {
    terminal.type_keys("/").press(Key::Ctrl('u')).type_keys(filter).wait_for(" 1 of ").press(Key::Enter);
    terminal.wait_gone("enter keep").type_keys("gj").type_keys(key);
}

/// Says yes, and closes the summary once it says this.
fn confirm(terminal: &Terminal, preview: &str, summary: &str) {
    terminal.wait_for(preview).wait_for("[ Cancel ]").type_keys("y").wait_for(summary);
    terminal.press(Key::Enter).wait_gone("[ Close ]");
}

fn a_stop_a_removal_a_drain_and_a_bulk_reconcile_by_keyboard_alone(engine: &RealEngine) {
    let host = KeptHost::on(engine);
    // Most of them are to go at once here, which is not suspicious.
    host.home.write(".config/sandkeeper/config.toml", "[brake]\nmore_than = 100\n");
    let polite = "trap exit TERM; while :; do sleep 0.1; done";
    let [to_stop, to_remove, to_drain] =
        ["halt", "drop", "leave"].map(|name| host.current(name).script(polite).running());
    host.store.session("drain-session", "leave").status("active").insert();
    // A database that claims none of them looks like the wrong one.
    let kept = host.current("kept").running();
    host.store.session("kept-session", "kept").insert();
    let old: Vec<String> = (0..12).map(|number| host.outdated(&format!("old{number}")).exited()).collect();
    let terminal = dashboard(&host);
    terminal.wait_for("1 active 1 idle 12 stale 2 orphaned");

    on(&terminal, "ws:halt", "S");
    confirm(&terminal, "Stop: 1 to change", "stop is over: 1 stopped");
    assert_eq!(host.scene.state(&to_stop).as_deref(), Some("exited"));

    on(&terminal, "ws:drop", "X");
    confirm(&terminal, "Remove: 1 to change", "remove is over: 1 removed");
    assert!(!host.exists(&to_remove));

    on(&terminal, "ws:leave", "D");
    confirm(&terminal, "Drain: 1 to change", "drain is over: 1 drained");
    terminal.wait_for("1 draining");
    assert_eq!(host.scene.state(&to_drain).as_deref(), Some("running"), "a session is in it");
    host.store.end("drain-session");
    terminal.wait_for("1 drained container removed").wait_gone("1 draining");
    assert!(!host.exists(&to_drain));

    // What is left: the stopped orphan and twelve outdated ones.
    terminal.press(Key::Esc).wait_gone("/ws:leave").type_keys("R").wait_for("type `reconcile 13`");
    terminal.type_keys("reconcile 13\r").wait_for("reconcile is over: 13 removed");
    assert!(old.iter().all(|id| !host.exists(id)) && !host.exists(&to_stop));
    assert_eq!(host.scene.state(&kept).as_deref(), Some("running"));
    terminal.press(Key::Enter).wait_gone("[ Close ]").quit();
}

fn what_happens_on_the_engine_is_on_the_screen(engine: &RealEngine) {
    let host = KeptHost::on(engine);
    let terminal = dashboard(&host);
    terminal.wait_for("No container of a known system");
    let id = host.current("newcomer").running();
    terminal.wait_for("newcomer").wait_for("1 orphaned");
    host.store.session("s", "newcomer").status("active").insert();
    terminal.wait_for("1 active");
    host.store.end("s");
    terminal.wait_gone("1 active");
    host.scene.cli(&["rm", "--force", &id]);
    terminal.wait_for("No container of a known system");
    terminal.quit();
}

fn logs_usage_and_inspection_of_a_real_container(engine: &RealEngine) {
    let host = KeptHost::on(engine);
    let script = "n=0; while :; do echo count $n; n=$((n+1)); sleep 0.2; done";
    host.current("talker").option("--env=MY_TOKEN=hunter2").script(script).running();
    let terminal = dashboard(&host);
    terminal.wait_for("talker").type_keys("jl").wait_for("count 0").wait_for("count 20");
    terminal.press(Key::Tab).wait_for("[Inspect]").wait_for("Config:");
    // It is somewhere in there.
    terminal.wait_until("the variable is on some page", |screen| {
        terminal.press(Key::Down);
        screen.contains("MY_TOKEN=<redacted>")
    });
    assert!(!String::from_utf8_lossy(&terminal.raw_bytes()).contains("hunter2"), "{terminal}");
    terminal.quit();
}
