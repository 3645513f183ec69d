//! `status --watch` on a terminal: one picture that is drawn over, in whatever size, and a terminal left as it was.

use crate::support::native::{Host, native_row};
use crate::support::rows::Row;
use crate::support::stores::NativeStore;
use crate::support::terminal::{Key, Terminal};

/// Idle sandboxes of these names, and `status --watch` on a terminal.
fn watched(names: &[&str], rows: u16, columns: u16) -> (Host, NativeStore, Terminal) {
    let host = Host::with(&rows_of(names));
    let store = NativeStore::create(host.home.native_store());
    for name in names {
        store.session(name, name).insert();
    }
    let watch = host.sandkeeper(["status", "--watch", "--interval", "200ms"]);
    let terminal = Terminal::start(watch, rows, columns);
    (host, store, terminal)
}

fn rows_of(names: &[&str]) -> Vec<Row> {
    names.iter().map(|name| native_row(name, name)).collect()
}

#[test]
fn a_change_is_drawn_over_the_old_picture() {
    let (host, store, terminal) = watched(&["atlas", "borealis"], 24, 100);
    terminal.wait_for("atlas").wait_for("borealis");
    host.engine.containers(&rows_of(&["atlas", "cygnus"]));
    store.session("cygnus", "cygnus").insert();
    host.engine.events().container("start", &crate::support::rows::id_of("cygnus"));
    terminal.wait_for("cygnus").wait_until("borealis is shown as lost only", |screen| {
        screen.lines().filter(|line| line.contains("borealis")).all(|line| line.contains("lost"))
    });
    let headings = |screen: &str| screen.lines().filter(|line| line.contains("STATUS")).count();
    terminal.wait_until("there is one table", |screen| headings(screen) == 1);
    host.expect_only_looks();
}

#[test]
fn a_small_terminal_says_how_much_it_does_not_show() {
    let names: Vec<String> = (10..30).map(|number| format!("box-{number}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let (_host, _store, terminal) = watched(&names, 12, 60);
    terminal.wait_for("more lines)");
    terminal.resize(60, 120).wait_gone("more lines)").wait_for("box-29");
    terminal.resize(1, 1);
    terminal.resize(8, 40).wait_for("more lines)");
    assert!(terminal.screen().lines().count() <= 8, "{terminal}");
}

#[test]
fn an_interrupt_and_signals_end_it_and_leave_the_terminal_as_it_was() {
    for name in ["TERM", "HUP", "INT"] {
        let (_host, _store, terminal) = watched(&["atlas"], 24, 80);
        terminal.wait_for("atlas").signal(name);
        expect_orderly_end(&terminal);
    }
    let (_host, _store, terminal) = watched(&["atlas"], 24, 80);
    terminal.wait_for("atlas");
    terminal.press(Key::Ctrl('c'));
    expect_orderly_end(&terminal);
}

#[track_caller]
fn expect_orderly_end(terminal: &Terminal) {
    let status = terminal.wait_exit();
    assert!(status.success(), "{status:?}\n{terminal}");
    terminal.wait_restored();
}

#[test]
fn a_window_that_is_closed_ends_it() {
    let (_host, _store, terminal) = watched(&["atlas"], 24, 80);
    terminal.wait_for("atlas");
    terminal.hang_up();
    terminal.wait_exit();
}

#[test]
fn colours_come_and_go_with_no_color() {
    let (host, _store, terminal) = watched(&["atlas"], 24, 80);
    terminal.wait_for("idle");
    assert_ne!(terminal.style_of("idle").fgcolor(), vt100::Color::Default, "{terminal}");
    let plain = host.sandkeeper(["status", "--watch"]).env("NO_COLOR", "1");
    let terminal = Terminal::start(plain, 24, 80);
    terminal.wait_for("idle");
    assert_eq!(terminal.style_of("idle").fgcolor(), vt100::Color::Default, "{terminal}");
}
