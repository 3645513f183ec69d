//! The hostile corpus and a canary on a real terminal: of all the bytes that the program writes, only its own sequences steer,
//! and the secret is in none of them.

use std::collections::BTreeSet;

use crate::support::corpus::{corpus, is_hostile};
use crate::support::simulated::SimHost;
use crate::support::terminal::{Key, Terminal};
use jiff::{SignedDuration, Timestamp};
use sandkeeper::engine::sim::{Fault, FaultRule, Placed, Program as Inside};
use serde_json::json;

const CANARY: &str = "hunter2-canary";

/// The sequences in what was written: each as it steers the terminal, without its numbers.
fn sequences(text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut rest = text;
    while let Some(at) = rest.find('\u{1b}') {
        rest = &rest[at + 1..];
        let kind = match rest.chars().next() {
            Some('[') => {
                let end = rest[1..].find(|c: char| ('@'..='~').contains(&c)).unwrap_or(0) + 1;
                let inner = &rest[1..end];
                let last = rest[end..].chars().next().unwrap_or(' ');
                // Modes are told by their numbers; places and colours are not.
                let inner = if matches!(last, 'h' | 'l') { inner } else { "" };
                format!("[{inner}{last}")
            }
            Some(']') => format!("]{}", rest[1..].split(';').next().unwrap_or_default()),
            other => format!("{other:?}"),
        };
        found.insert(kind);
    }
    found
}

/// A sandbox with this text everywhere, found by its word.
fn place(host: &SimHost, word: &str, text: &str) {
    let hour = Timestamp::now() - SignedDuration::from_hours(1);
    let labels = [
        ("sandkeeper.managed".to_owned(), "true".to_owned()),
        ("sandkeeper.workspace".to_owned(), format!("{word}-{text}")),
        (format!("evil.{text}"), text.to_owned()),
    ];
    let config = json!({ "Env": [format!("EVIL={text}")], "User": text });
    let placed = Placed {
        name: format!("{word}-{text}").replace('/', ""),
        image: "sandbox:latest".to_owned(),
        labels: labels.into(),
        command: vec!["serve".to_owned(), text.to_owned()],
        config: config.as_object().unwrap().clone(),
        program: Inside::service(),
        state: "running".to_owned(),
        created_at: hour,
        started_at: Some(hour),
        printed: vec![text.to_owned(), format!("\u{1b}[31mred {text}")],
        ..Placed::default()
    };
    host.engine.act(|world, _| world.place(placed));
    host.store.session(&format!("{word}-s"), &format!("{word}-{text}")).title(text).insert();
}

/// Looks at every row in every tab, opens everything that opens, and ends.
fn tour(terminal: &Terminal, words: &[String]) {
    let named = |screen: &str, word: &str| screen.lines().any(|line| line.starts_with(&format!(">  {word}")));
    terminal.type_keys("f");
    for tab in ["[Why]", "[Sessions]", "[Logs]", "[Inspect]", "[History]"] {
        terminal.type_keys("g").wait_until(&format!("{tab} of the first"), |screen| {
            screen.contains(tab) && named(screen, &words[0])
        });
        for word in &words[1..] {
            terminal.type_keys("j").wait_until(&format!("{tab} of {word}"), |screen| named(screen, word));
        }
        terminal.press(Key::Tab);
    }
    terminal.wait_for("[Why]");
    for (open, title) in
        [("?", "─ Keys ─"), (":", "─ Command ─"), ("R", "─ Reconcile "), ("o", "─ Sort by ─")]
    {
        terminal.type_keys(open).wait_for(title);
        terminal.press(Key::Esc).wait_gone(title);
    }
}

fn end(terminal: &Terminal) {
    terminal.type_keys("q");
    terminal.wait_exit();
    terminal.wait_restored();
}

/// The words by which the rows are found, in the order of the list.
fn populate(host: &SimHost, harmless: bool) -> Vec<String> {
    let mut words = Vec::new();
    for (number, (_, text)) in corpus().into_iter().enumerate() {
        let word = format!("w{number:02}");
        let text: String = if harmless { "plain".to_owned() } else { text.chars().take(1_000).collect() };
        place(host, &word, &text);
        words.push(word);
    }
    words
}

#[test]
fn only_our_own_sequences_reach_the_terminal() {
    let mut seen: Vec<BTreeSet<String>> = Vec::new();
    for harmless in [true, false] {
        let host = SimHost::new();
        let words = populate(&host, harmless);
        let terminal = Terminal::start(host.sandkeeper(&[]), 40, 140);
        terminal.wait_for(&words[0]);
        tour(&terminal, &words);
        if !harmless {
            // The engine's own words, too.
            let osc = corpus()[0].1.clone();
            host.engine.fault(FaultRule::on("GET", "containers/json", Fault::Status(500, osc)));
            terminal.wait_for("owned");
        }
        end(&terminal);
        let written = String::from_utf8(terminal.raw_bytes()).expect("UTF-8 and nothing else");
        seen.push(sequences(&written));
        let allowed = ['\u{1b}', '\r', '\n', '\u{7}'];
        let hostile = written.chars().find(|c| is_hostile(*c) && !allowed.contains(c));
        assert!(hostile.is_none(), "{hostile:?} reached the terminal");
    }
    let foreign: Vec<_> = seen[1].difference(&seen[0]).collect();
    assert!(foreign.is_empty(), "sequences that a harmless host does not cause: {foreign:?}");
    assert!(seen[1].iter().all(|kind| kind.starts_with('[') || kind.starts_with(']')), "{:?}", seen[1]);
}

#[test]
fn a_canary_is_nowhere_in_the_output() {
    let host = SimHost::new();
    let day = Timestamp::now() - SignedDuration::from_hours(24);
    let labels = [
        ("sandkeeper.managed", "true"),
        ("sandkeeper.workspace", "atlas"),
        ("com.example.api-key", CANARY),
        ("note", "password=hunter2-canary"),
    ];
    let config = json!({ "Env": [format!("DATABASE_URL={CANARY}"), format!("X={CANARY}")] });
    let placed = Placed {
        name: "w00-atlas".to_owned(),
        image: "sandbox:latest".to_owned(),
        labels: labels.map(|(key, value)| (key.to_owned(), value.to_owned())).into(),
        command: ["serve", "--token", CANARY, &format!("--password={CANARY}")].map(str::to_owned).to_vec(),
        config: config.as_object().unwrap().clone(),
        program: Inside::service(),
        state: "exited".to_owned(),
        created_at: day,
        started_at: Some(day),
        finished_at: Some(day),
        ..Placed::default()
    };
    host.engine.act(|world, _| world.place(placed));
    let terminal = Terminal::start(host.sandkeeper(&[]), 60, 140);
    terminal.wait_for("w00-atlas");
    tour(&terminal, &["w00".to_owned()]);
    terminal.press(Key::BackTab).press(Key::BackTab).wait_for("[Inspect]").wait_for("Args:");
    terminal.press(Key::Enter);
    let mut lines = 0;
    while !String::from_utf8_lossy(&terminal.raw_bytes()).contains("<redacted>") {
        lines += 1;
        assert!(lines < 300, "the inspection shows what was taken out\n{terminal}");
        let before = terminal.screen();
        terminal.type_keys("j").wait_until("it scrolls", |screen| screen != before);
    }
    terminal.press(Key::Enter);
    end(&terminal);
    let written = String::from_utf8_lossy(&terminal.raw_bytes()).into_owned();
    assert!(!written.contains(CANARY), "{terminal}");
    for arguments in [
        &["status"][..],
        &["status", "--json"],
        &["doctor"],
        &["doctor", "--json"],
        &["reconcile", "--dry-run", "--json"],
        &["reconcile", "--yes", "--json"],
        &["log"],
        &["log", "--json"],
        &["status", "--json"],
    ] {
        let finished = host.sandkeeper(arguments).run();
        let said = format!("{}{}", finished.stdout, finished.stderr);
        assert!(!said.contains(CANARY), "{arguments:?}: {said}");
    }
}
