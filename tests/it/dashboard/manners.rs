//! The dashboard as a guest on a terminal: every way out leaves it as it was, every size and every kind will do, and nothing
//! but our own words reaches it.

use std::collections::BTreeSet;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::support::simulated::SimHost;
use crate::support::terminal::{Key, Terminal};
use crate::support::{seconds, wait_until};
use rstest::rstest;

fn host() -> SimHost {
    let host = SimHost::new();
    host.orphan("old", "atlas");
    host.idle("quiet", "borealis");
    host.active("busy", "cygnus");
    host
}

#[track_caller]
fn expect_orderly_end(terminal: &Terminal) {
    let status = terminal.wait_exit();
    assert!(status.success(), "{status:?}\n{terminal}");
    terminal.wait_restored();
}

#[rstest]
#[case("TERM")]
#[case("INT")]
#[case("HUP")]
fn a_signal_ends_it_and_leaves_the_terminal_as_it_was(#[case] name: &str) {
    let host = host();
    let terminal = host.dashboard(&[]);
    terminal.wait_for("busy").signal(name);
    expect_orderly_end(&terminal);
}

#[test]
fn control_c_ends_it_from_the_list_and_closes_what_is_open() {
    let host = host();
    let terminal = host.dashboard(&[]);
    terminal.wait_for("busy").type_keys("?").wait_for("─ Keys ─").press(Key::Ctrl('c'));
    terminal.wait_gone("─ Keys ─").press(Key::Ctrl('c'));
    expect_orderly_end(&terminal);
}

#[test]
fn a_window_that_is_closed_ends_it() {
    let host = host();
    let terminal = host.dashboard(&[]);
    terminal.wait_for("busy").hang_up();
    terminal.wait_exit();
}

#[test]
fn a_window_that_is_closed_ends_it_even_where_nobody_hears_the_signal() {
    let host = host();
    let program = host.sandkeeper(&[]).env("TERM", "xterm-256color").into_command();
    let mut deaf = Command::new("sh");
    deaf.args(["-c", "trap '' HUP; exec \"$0\""]).arg(program.get_program()).current_dir(host.home.path());
    deaf.envs(program.get_envs().filter_map(|(key, value)| Some((key, value?))));
    let ends = || {
        let terminal = Terminal::run(&deaf, 24, 100);
        terminal.wait_for("busy").hang_up();
        let closed = Instant::now();
        terminal.wait_exit();
        closed.elapsed()
    };
    // A machine that is busy with something else may be slow once, and not every time.
    let soonest = (0..4).map(|_| ends()).min().unwrap();
    assert!(soonest < Duration::from_secs(10), "it ended only after {soonest:?}");
}

#[test]
fn half_a_key_holds_nothing_up() {
    let host = host();
    let terminal = host.dashboard(&[]);
    // The beginning of an arrow, and nothing after it for now.
    terminal.wait_for("busy").type_keys("\x1b[");
    host.idle("newcomer", "dorado");
    terminal.wait_for("newcomer").resize(30, 90).wait_until("it fills the new window", |screen| {
        screen.lines().nth(29).is_some_and(|footer| !footer.trim().is_empty())
    });
    terminal.type_keys("B").signal("TERM");
    expect_orderly_end(&terminal);
}

#[test]
fn it_steps_aside_for_the_shell_and_comes_back() {
    let host = host();
    let program = host.sandkeeper(&[]).env("TERM", "xterm-256color").into_command();
    let mut shell = Command::new("bash");
    shell
        .args(["--norc", "--noprofile", "-i"])
        .env("PS1", "prompt> ")
        .env("SANDKEEPER", program.get_program());
    shell
        .envs(program.get_envs().filter_map(|(key, value)| Some((key, value?))))
        .current_dir(host.home.path());
    let terminal = Terminal::run(&shell, 24, 100);
    terminal.wait_for("prompt>").type_keys("$SANDKEEPER\r").wait_for("busy").press(Key::Ctrl('z'));
    // Back at the prompt the first screen is there, with what was on it, and lines can be typed.
    terminal.wait_for("Stopped").wait_gone("WORKSPACE");
    assert!(terminal.screen().contains("$SANDKEEPER"), "{terminal}");
    terminal.type_keys("echo $((6 * 7)) is the answer\r").wait_for("42 is the answer");
    terminal
        .type_keys("fg\r")
        .wait_for("WORKSPACE")
        .wait_for("busy")
        .type_keys("j")
        .wait_until("it listens again", |screen| {
            screen.lines().any(|line| line.starts_with('>') && line.contains("old"))
        });
    terminal.type_keys("q").wait_gone("WORKSPACE").type_keys("exit\r");
    terminal.wait_exit();
    terminal.wait_restored();
}

#[test]
fn every_size_will_do_and_the_picture_is_whole_afterwards() {
    let host = host();
    let terminal = host.dashboard(&[]);
    terminal.wait_for("busy");
    let whole = |screen: &str| {
        ["sandkeeper", "WORKSPACE", "old", "quiet", "busy", "[Why]", "q quit"]
            .iter()
            .all(|part| screen.contains(part))
    };
    for (rows, columns) in [(1, 1), (2, 3), (1, 200), (60, 1), (5, 20), (24, 80), (50, 200)] {
        terminal.resize(rows, columns);
        // Back before it has noticed.
        terminal.resize(30, 110).wait_until(&format!("all is there after {rows}x{columns}"), whole);
    }
    terminal.resize(24, 80).wait_until("all is there on a small terminal", whole);
    terminal.resize(1, 1).type_keys("??").resize(30, 110).wait_until("all is there", whole);
    terminal.quit();
}

#[test]
fn a_narrow_terminal_drops_columns_and_keeps_names_and_statuses() {
    let host = host();
    let terminal = Terminal::start(host.sandkeeper(&[]), 24, 40);
    terminal.wait_for("old").wait_for("orphaned").wait_for("quiet").wait_for("busy");
    assert!(!terminal.screen().contains("SESSIONS"), "{terminal}");
    terminal.quit();
}

#[test]
fn a_dumb_terminal_gets_a_plain_table() {
    let host = host();
    let terminal = Terminal::start(host.sandkeeper(&[]).env("TERM", "dumb"), 24, 100);
    terminal.wait_for("busy").wait_for("STATUS");
    assert!(!terminal.raw_bytes().windows(6).any(|window| window == b"\x1b[?104"), "{terminal}");
    terminal.press(Key::Ctrl('c'));
    expect_orderly_end(&terminal);
}

/// The parameters of every sequence that chooses a look.
fn looks(terminal: &Terminal) -> BTreeSet<String> {
    let said = String::from_utf8_lossy(&terminal.raw_bytes()).into_owned();
    let sequences = said.split("\u{1b}[").skip(1).filter_map(|rest| {
        let end = rest.find(|c: char| c.is_ascii_alphabetic())?;
        rest[end..].starts_with('m').then(|| rest[..end].to_owned())
    });
    sequences.collect()
}

/// The looks of a dashboard in this environment.
fn looks_with(variables: &[(&str, &str)]) -> BTreeSet<String> {
    let host = host();
    let program =
        variables.iter().fold(host.sandkeeper(&[]), |program, (key, value)| program.env(key, value));
    let terminal = Terminal::start(program, 24, 100);
    terminal.wait_for("busy").type_keys("jX").wait_for("[ Cancel ]");
    terminal.press(Key::Esc).wait_gone("[ Cancel ]");
    let looks = looks(&terminal);
    terminal.quit();
    looks
}

#[test]
fn a_terminal_gets_the_colours_it_has() {
    let has = |looks: &BTreeSet<String>, part: &str| looks.iter().any(|look| look.contains(part));
    let truecolour = looks_with(&[("COLORTERM", "truecolor")]);
    assert!(has(&truecolour, "8;2;"), "{truecolour:?}");
    let of_256 = looks_with(&[("TERM", "xterm-256color")]);
    assert!(has(&of_256, "8;5;") && !has(&of_256, "8;2;"), "{of_256:?}");
    let sixteen = looks_with(&[("TERM", "xterm")]);
    let beyond = |look: &String| {
        let index =
            look.split("8;5;").nth(1).map(|rest| rest.split(';').next().unwrap().parse::<u16>().unwrap());
        index.is_some_and(|index| index > 15)
    };
    assert!(has(&sixteen, "8;5;") && !sixteen.iter().any(beyond) && !has(&sixteen, "8;2;"), "{sixteen:?}");
    let none = looks_with(&[("NO_COLOR", "1"), ("COLORTERM", "truecolor")]);
    assert!(!has(&none, "8;2;") && !has(&none, "8;5;"), "{none:?}");
    assert!(has(&none, "7"), "the selection shows without colour: {none:?}");
}

#[test]
fn without_unicode_there_is_none() {
    let host = host();
    let terminal = Terminal::start(host.sandkeeper(&[]).env("LANG", "C").env("LC_ALL", "C"), 24, 100);
    terminal.wait_for("busy").type_keys("jX").wait_for("[ Cancel ]").press(Key::Esc).wait_gone("[ Cancel ]");
    terminal.type_keys("?").wait_for("Moving").press(Key::Esc).wait_gone("Moving");
    let beyond: BTreeSet<char> =
        String::from_utf8_lossy(&terminal.raw_bytes()).chars().filter(|c| !c.is_ascii()).collect();
    assert!(beyond.is_empty(), "{beyond:?}\n{terminal}");
    terminal.quit();
}

#[test]
fn an_id_is_copied_through_the_terminal() {
    let host = SimHost::new();
    let id = host.orphan("old", "atlas");
    let terminal = host.dashboard(&[]);
    terminal.wait_for("old").type_keys("jy").wait_for(&format!("copied {}", id.short()));
    let said = String::from_utf8_lossy(&terminal.raw_bytes()).into_owned();
    let copied = said.split("\u{1b}]52;c;").nth(1).unwrap();
    let copied = copied.split(['\u{7}', '\u{1b}']).next().unwrap();
    let decode = ["-c", "printf %s \"$0\" | base64 --decode", copied];
    assert_eq!(Command::new("sh").args(decode).output().unwrap().stdout, id.as_str().as_bytes());
    terminal.quit();
}

#[test]
fn the_mouse_selects_and_scrolls_and_can_be_let_go() {
    let host = host();
    let terminal = host.dashboard(&[]);
    terminal.wait_for("busy");
    let cursor_on = |name: &'static str| {
        move |screen: &str| screen.lines().any(|line| line.starts_with('>') && line.contains(name))
    };
    let (row, column) = terminal.find("quiet").unwrap();
    terminal.click(row, column).wait_until("the click selects", cursor_on("quiet"));
    terminal.wheel(row, column, false).wait_until("the wheel moves up", cursor_on("atlas"));
    let (row, column) = terminal.find("Sessions ─").unwrap();
    terminal.click(row, column).wait_for("[Sessions]");
    assert_eq!(terminal.unrestored().iter().filter(|what| **what == "the mouse").count(), 1);
    terminal.type_keys("m");
    terminal.wait_until("the mouse is let go", |_| !terminal.unrestored().contains(&"the mouse"));
    terminal.quit();
}

#[test]
fn what_happens_on_the_host_shows_by_itself() {
    let host = host();
    let terminal = host.dashboard(&[]);
    terminal.wait_for("1 active 1 idle 1 orphaned");
    host.sandbox("newcomer", "draco").placed();
    terminal.wait_for("newcomer");
    host.store.session("wakes-up", "atlas").status("active").insert();
    terminal.wait_until("the orphan is in use", |screen| {
        screen.lines().any(|line| line.contains("old") && line.contains("active"))
    });
    host.store.end("busy-session");
    terminal.wait_until("the busy one is not any more", |screen| {
        screen.lines().any(|line| line.contains("busy") && line.contains("idle"))
    });
    terminal.quit();
}

#[test]
fn a_host_on_which_nothing_happens_costs_next_to_no_bytes() {
    let host = SimHost::new();
    for number in 10..60 {
        host.idle(&format!("quiet-{number}"), &format!("ws-{number}"));
    }
    let terminal = host.dashboard(&[]);
    terminal.wait_for("50 idle").wait_for("quiet-10");
    // What it says about its own start may be more; after that, no twenty seconds are.
    let mut since = (Instant::now(), terminal.bytes_written());
    wait_until("for twenty seconds at most twenty bytes a second are written", || {
        let written = terminal.bytes_written();
        if written - since.1 > 20 * 20 {
            since = (Instant::now(), written);
        }
        since.0.elapsed() >= seconds(20)
    });
    terminal.quit();
}

#[test]
fn only_our_own_words_reach_the_terminal() {
    let host = SimHost::new();
    let hostile = "\u{1b}]0;owned\u{7}\u{1b}[2J\u{9b}6n\u{202e}evil\u{200b}\u{1b}]52;c;ZXZpbA==\u{7}";
    host.sandbox(&format!("box{hostile}"), &format!("ws{hostile}"))
        .label(&format!("l{hostile}"), hostile)
        .placed();
    let talker = host.sandbox("talker", "atlas").printed(&[hostile, "\u{1b}[31mred\u{1b}[0m \tok"]).placed();
    host.store.session("s", "atlas").title(hostile).status("active").insert();
    host.store.session("lost", &format!("gone{hostile}")).container("nowhere").status("active").insert();
    let terminal = host.dashboard(&[]);
    terminal.wait_for("talker");
    for tab in ["[Sessions]", "[Logs]", "[Inspect]", "[History]", "[Why]"] {
        for _ in 0..8 {
            terminal.type_keys("j");
        }
        terminal.type_keys("/talker\rgj").press(Key::Tab).wait_for(tab);
        if tab == "[Logs]" {
            terminal.wait_for("red").wait_for("evil");
            assert_eq!(terminal.style_of("red").fgcolor(), vt100::Color::Idx(1), "{terminal}");
        }
        terminal.press(Key::Esc).wait_for("nowhere");
    }
    terminal.type_keys("*X").wait_for("[ Cancel ]").press(Key::Esc).wait_gone("[ Cancel ]");
    terminal.quit();
    let said = String::from_utf8_lossy(&terminal.raw_bytes()).into_owned();
    for part in ["\u{1b}]", "\u{202e}", "\u{200b}", "\u{9b}", "\u{7}", "\u{1b}[6n"] {
        assert!(!said.contains(part), "{part:?} came through");
    }
    assert_eq!(host.state(&talker).as_deref(), Some("running"));
}

#[test]
fn mistakes_in_what_people_wrote_are_told_before_the_screen_is_taken() {
    let host = host();
    let complains = |arguments: &[&str], part: &str| {
        let terminal = host.dashboard(arguments);
        let status = terminal.wait_exit();
        assert_eq!(status.exit_code(), 2, "{terminal}");
        terminal.wait_for(part).wait_restored();
        assert!(!terminal.raw_bytes().contains(&0x1b), "{terminal}");
    };
    complains(&["--theme", "drak"], "did you mean `dark`?");
    host.home.write(".config/sandkeeper/config.toml", "[keys]\nremove = \"S\"\n");
    complains(&[], "`S` is given to both");
}

#[test]
fn keys_and_themes_are_the_operators_choice() {
    let host = host();
    let config = "theme = \"mine\"\n[keys]\nremove = \"ctrl-x\"\n";
    host.home.write(".config/sandkeeper/config.toml", config);
    let theme = "base = \"dark\"\n[roles]\norphaned = { fg = \"#010203\" }\n";
    host.home.write(".config/sandkeeper/themes/mine.toml", theme);
    let terminal = Terminal::start(host.sandkeeper(&[]).env("COLORTERM", "truecolor"), 30, 110);
    terminal.wait_for("busy").wait_for("ctrl-x remove");
    assert_eq!(terminal.style_of("◇ orphaned").fgcolor(), vt100::Color::Rgb(1, 2, 3), "{terminal}");
    terminal.type_keys("jX").press(Key::Ctrl('x')).wait_for("Remove: 1 to change");
    terminal.press(Key::Esc).wait_gone("[ Cancel ]").type_keys("t").wait_for("theme dark");
    terminal.quit();
}

#[test]
fn the_log_follows_is_searched_and_stays_bounded() {
    let host = SimHost::new();
    let lines: Vec<String> = (0..3000).map(|number| format!("line {number}")).collect();
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    host.sandbox("talker", "atlas").printed(&lines).placed();
    let terminal = host.dashboard(&[]);
    terminal.wait_for("talker").type_keys("jl").wait_for("line 2999");
    terminal.type_keys("/line 2500").wait_gone("line 2999").wait_for("line 2500").press(Key::Enter);
    terminal.press(Key::Esc).wait_for("line 2999").type_keys("g").wait_gone("line 2999");
    terminal.type_keys("G").wait_for("line 2999").quit();
    wait_until("the log is let go", || host.engine.requests().len() < 10_000);
}
