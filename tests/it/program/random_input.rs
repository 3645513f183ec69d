//! A hundred thousand texts that nobody expected, for everything that reads what others wrote. None makes it fall, and what
//! it promises holds for each.

use crate::support::corpus::is_hostile;
use regex_lite::Regex;
use sandkeeper::engine::sim::Dice;
use sandkeeper::gate::Asked;
use sandkeeper::profiles;
use sandkeeper::text::{ansi, clean, escape_json, fit, shorten, width};

const CASES: usize = 60_000;
/// A profile is much more to read than a line.
const PROFILES: usize = 25_000;

/// A text made of these pieces and of characters from anywhere.
fn text(dice: &mut Dice, pieces: &[&str], most: usize) -> String {
    let mut text = String::new();
    for _ in 0..dice.below(most) {
        if dice.happens(70) {
            text.push_str(dice.pick(pieces).unwrap());
        } else {
            let number = if dice.happens(50) { dice.below(0x300) } else { dice.below(0x11_0000) };
            text.extend(char::from_u32(u32::try_from(number).unwrap()));
        }
    }
    text
}

/// The text with some of it replaced, doubled or left out.
fn mutated(dice: &mut Dice, text: &str, pieces: &[&str]) -> String {
    let mut characters: Vec<char> = text.chars().collect();
    for _ in 0..=dice.below(4) {
        let at = dice.below(characters.len() + 1);
        let end = (at + dice.below(12)).min(characters.len());
        match dice.below(4) {
            0 => drop(characters.drain(at..end)),
            1 => {
                let doubled = characters[at..end].to_vec();
                characters.splice(at..at, doubled);
            }
            _ => {
                let piece: Vec<char> = dice.pick(pieces).unwrap().chars().collect();
                characters.splice(at..end, piece);
            }
        }
    }
    characters.into_iter().collect()
}

#[test]
fn whatever_is_sanitised_is_harmless_and_stays_so() {
    let pieces = [
        "a",
        "word ",
        "\u{1b}",
        "\u{1b}[",
        "\u{1b}]0;",
        "\u{7}",
        "\u{9b}",
        "31m",
        ";",
        "?",
        "2J",
        "\u{202e}",
        "\u{200d}",
        "👩",
        "日",
        "\u{301}",
        "\0",
        "\r\n",
        "\u{feff}",
        "\u{e0041}",
        "…",
    ];
    let mut dice = Dice::new(1);
    for _ in 0..CASES {
        let text = text(&mut dice, &pieces, 24);
        for shown in [clean(&text).into_owned(), ansi::plain(&text)] {
            assert!(!shown.chars().any(|c| is_hostile(c) || c == '\n'), "{text:?} became {shown:?}");
        }
        assert_eq!(clean(&clean(&text)), clean(&text), "once is enough for {text:?}");
        let cells = dice.below(30);
        assert!(width(&shorten(&clean(&text), cells)) <= cells, "{text:?} in {cells}");
        assert_eq!(width(&fit(&clean(&text), cells)), cells, "{text:?} in {cells}");
        let json = serde_json::to_string(&text).unwrap();
        let escaped = escape_json(&json);
        assert!(!escaped.chars().any(is_hostile), "{escaped:?}");
        assert_eq!(serde_json::from_str::<String>(&escaped).unwrap(), text);
    }
}

#[test]
fn whatever_passes_the_gate_is_a_question() {
    let targets = [
        "/_ping",
        "/v1.41/containers/json?all=1&limit=5",
        "/containers/json?filters=%7B%22label%22%3A%5B%22a%3Db%22%5D%7D",
        "/containers/atlas/json",
        "/v1.24/containers/atlas/logs?follow=1&stdout=1&tail=100",
        "/containers/atlas/stats?stream=0",
        "/containers/atlas/top",
        "/exec/0123abcd/json",
        "/images/registry:5000/a/b@sha256:1234/json",
        "/events?since=1&filters=%7B%22type%22%3A%5B%22container%22%5D%7D",
        "/containers/atlas/archive?path=/etc",
        "/containers/create",
    ];
    let pieces = [
        "..",
        "/",
        "//",
        "%2f",
        "%2e",
        "%00",
        "\0",
        "\r\n",
        " ",
        "?",
        "&",
        "=",
        "#",
        "\\",
        "*",
        ":",
        "@",
        "json",
        "logs",
        "archive",
        "exec",
        "start",
        "v1.41",
        "v2",
        "size=1",
        "all=1",
        "ps_args=e",
        "details=1",
        "é",
        "%C3%A9",
        "{",
        "}",
        "%7B",
        "HTTP/1.1",
        "GET ",
    ];
    let name = "[A-Za-z0-9][A-Za-z0-9_.-]*";
    let question = Regex::new(&format!(
        "^(/v1\\.[0-9]{{1,2}})?(/_ping|/version|/info|/events|/containers/json|/containers/{name}/(json|logs|stats|top)|\
         /exec/{name}/json|/images/[A-Za-z0-9_.:@+/-]+/json)(\\?[a-z-]+=[A-Za-z0-9%._~-]*(&[a-z-]+=[A-Za-z0-9%._~-]*)*)?$"
    ))
    .unwrap();
    let methods = ["GET", "GET", "GET", "GET", "HEAD", "POST", "DELETE", "PUT", "get", "GET "];
    let mut dice = Dice::new(2);
    let mut passed = 0;
    for _ in 0..CASES {
        let target = *dice.pick(&targets).unwrap();
        let target = if dice.happens(90) { mutated(&mut dice, target, &pieces) } else { target.to_owned() };
        let method = *dice.pick(&methods).unwrap();
        let Ok(asked) = Asked::parse(method, &target) else { continue };
        passed += 1;
        let sent = asked.target();
        assert!(matches!(method, "GET" | "HEAD"), "{method} {target}");
        let path = sent.split('?').next().unwrap();
        assert!(
            question.is_match(&sent) && !path.contains("..") && !path.contains("//"),
            "{target:?} became {sent:?}"
        );
        for costly in ["?size=1", "&size=1", "?details=1", "&details=1", "?ps_args=", "&ps_args="] {
            assert!(!sent.contains(costly), "{target:?} became {sent:?}");
        }
        assert_eq!(Asked::parse(method, &sent).as_ref(), Ok(&asked), "{sent:?} is asked in one form");
    }
    assert!(passed > CASES / 50, "only {passed} passed: the cases are no test");
}

#[test]
fn whatever_is_called_a_profile_is_read_or_refused_with_its_place() {
    let profile = "name = \"mine\"\ndescription = \"d\"\n[containers]\nlabels = { app = \"x\" }\nnames = [\"box-(?P<slug>[a-z]+)\"]\n\
                   workspace = [\"{label.ws}\", \"{name.slug}\"]\n[rules]\nlifetime = { label = \"l\", default = \"15m\" }\n";
    let pieces = [
        "\"",
        "'",
        "{",
        "}",
        "[",
        "]",
        "=",
        "\n",
        "#",
        "name",
        "labels",
        "containers",
        "rules",
        "{label.x}",
        "{nothing}",
        "(?P<",
        "*",
        "15m",
        "-1",
        "1e9",
        "true",
        "\u{202e}",
        "\0",
        "\\u0000",
        "é",
        "[[",
        "]]",
        ".",
        ",",
    ];
    let mut dice = Dice::new(3);
    let (mut read, mut refused) = (0, 0);
    for _ in 0..PROFILES {
        let text = if dice.happens(97) { mutated(&mut dice, profile, &pieces) } else { profile.to_owned() };
        match profiles::parse("mine.toml", &text) {
            Ok(_) => read += 1,
            Err(error) => {
                refused += 1;
                let sentence = error.to_string();
                assert!(sentence.contains("mine.toml") && sentence.len() < 10_000, "{text:?}: {sentence}");
            }
        }
    }
    assert!(read > PROFILES / 50 && refused > PROFILES / 4, "{read} were read, {refused} refused");
}
