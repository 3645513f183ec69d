//! Names, labels, titles, paths and errors come from outside: none of them steers the terminal or hides in the text.

use std::fs;
use std::os::unix::ffi::OsStrExt;

use serde_json::{Value, json};

use crate::support::corpus::{corpus, is_hostile};
use crate::support::native::{Host, container, native_row};
use crate::support::program::{Finished, Home};
use crate::support::rows::{Row, id_of};
use crate::support::scripted::Behaviour;
use crate::support::stores::NativeStore;

/// Nothing hostile on either stream, and no line longer than a person could ever scroll through.
#[track_caller]
fn expect_harmless(finished: &Finished) {
    for (stream, text) in [("standard output", &finished.stdout), ("standard error", &finished.stderr)] {
        let found = text.char_indices().find(|(_, c)| is_hostile(*c));
        if let Some((at, c)) = found {
            let around: String =
                text[..at].chars().rev().take(80).collect::<Vec<_>>().into_iter().rev().collect();
            panic!("{stream} holds {c:?} after {around:?}");
        }
        assert!(
            !text.contains("FAKE LINE\n") || !text.lines().any(|line| line.starts_with("FAKE")),
            "{text}"
        );
    }
    assert!(!finished.stderr.contains("panicked"), "{}", finished.stderr);
}

/// The same for people, who do not read megabytes.
#[track_caller]
fn expect_readable(finished: &Finished) {
    expect_harmless(finished);
    let longest =
        finished.stdout.lines().chain(finished.stderr.lines()).map(|line| line.chars().count()).max();
    assert!(longest.unwrap_or_default() < 20_000, "a line of {longest:?} characters");
    let combining = finished.stdout.matches('\u{301}').count();
    assert!(combining < 100, "{combining} combining marks came through");
}

/// One container per hostile text, in its name, its labels, its image and its workspace.
fn hostile_rows() -> Vec<Row> {
    rows_with(corpus())
}

fn rows_with(texts: Vec<(&'static str, String)>) -> Vec<Row> {
    let rows = texts.into_iter().map(|(word, text)| {
        native_row(word, &text)
            .label(format!("evil.{text}"), text.clone())
            .label("sandkeeper.config-hash", text.clone())
            .label("sandkeeper.lifetime", text.clone())
            .image(text.clone(), format!("sha256:{}", id_of(word)))
    });
    rows.collect()
}

/// One container per hostile text, named so. None of them runs, so that no inspection repeats the name.
fn hostile_names() -> Behaviour {
    let list = corpus().into_iter().map(|(word, text)| {
        let mut listed = native_row(word, word).state("exited").listed();
        listed["Names"] = json!([format!("/{}", text.replace('/', ""))]);
        listed
    });
    Behaviour::json(&Value::Array(list.collect()))
}

fn hostile_host() -> (Host, NativeStore) {
    let host = Host::with(&hostile_rows());
    let store = NativeStore::create(host.home.native_store());
    for (word, text) in corpus() {
        // Linking texts have a limit of their own, which has tests of its own.
        let workspace: String = text.chars().take(1000).collect();
        store.session(word, &workspace).title(text.clone()).status("active").insert();
        store.session(&format!("lost-{word}"), "w").container(format!("gone-{workspace}")).insert();
    }
    (host, store)
}

#[test]
fn status_shows_hostile_texts_harmlessly() {
    let (host, _store) = hostile_host();
    for arguments in [&["status"][..], &["status", "--json"], &["doctor"], &["doctor", "--json"]] {
        let finished = host.sandkeeper(arguments).run();
        assert_ne!(finished.status, Some(101));
        expect_harmless(&finished);
        if arguments.len() == 1 {
            expect_readable(&finished);
        }
    }
}

#[test]
fn acting_on_hostile_texts_is_told_and_logged_harmlessly() {
    let (host, _store) = hostile_host();
    host.engine.on("DELETE", "/containers/*", Behaviour::error(500, &corpus()[0].1));
    // A name is compared with every other; megabytes of them only take long.
    let short: Vec<_> = corpus().into_iter().filter(|(_, text)| text.len() < 1000).collect();
    host.engine.containers(&rows_with(short));
    for (_, text) in corpus().into_iter().filter(|(word, _)| *word != "nul") {
        let target: String = text.chars().take(1000).collect();
        expect_readable(&host.sandkeeper(["rm", "--yes", "--", &target]).run());
    }
    host.engine.on("GET", "/containers/json", hostile_names());
    for arguments in [
        &["reconcile", "--dry-run"][..],
        &["reconcile", "--dry-run", "--json"],
        &["reconcile", "--yes", "--override-brake", "28"],
        &["reconcile", "--yes", "--json", "--override-brake", "28"],
        &["log"],
        &["log", "--json"],
        &["may-start", "w"],
    ] {
        expect_harmless(&host.sandkeeper(arguments).run());
    }
    host.sandkeeper(["log"]).run().expect_exit(0).expect_stdout("skipped");
}

#[test]
fn hostile_names_are_shown_harmlessly() {
    let (host, _store) = hostile_host();
    host.engine.on("GET", "/containers/json", hostile_names());
    expect_readable(&host.sandkeeper(["status"]).run());
    let finished = host.status([""; 0]);
    expect_harmless(&finished);
    let names: Vec<String> = finished.json()["containers"]
        .as_array()
        .unwrap()
        .iter()
        .map(|each| each["name"].as_str().unwrap().to_owned())
        .collect();
    for (word, text) in corpus() {
        assert!(names.contains(&text.replace('/', "")), "the name of {word} is not as the engine gave it");
    }
}

#[test]
fn the_json_gives_every_text_back_as_it_was() {
    let (host, _store) = hostile_host();
    let report = host.status([""; 0]).json();
    for (word, text) in corpus() {
        let found = container(&report, word);
        assert_eq!(found["workspace"], text.as_str(), "the workspace of {word}");
        assert_eq!(found["image"], text.as_str(), "the image of {word}");
        if text.len() < 200 && !text.trim().is_empty() {
            assert_eq!(found["sessions"][0]["title"], text.as_str(), "the title of {word}");
        }
    }
}

#[test]
fn texts_in_rows_that_cannot_be_read_are_harmless_too() {
    let (host, _store) = hostile_host();
    let list: Vec<Value> = hostile_rows()
        .iter()
        .zip(corpus())
        .map(|(row, (_, text))| {
            let mut listed = row.listed();
            listed["Id"] = json!(text);
            listed["State"] = json!(text);
            listed
        })
        .collect();
    host.engine.on("GET", "/containers/json", Behaviour::json(&Value::Array(list)));
    expect_readable(&host.sandkeeper(["status"]).run().expect_exit(4));
    expect_harmless(&host.status([""; 0]).expect_exit(4));
}

#[test]
fn states_nobody_knows_are_harmless() {
    let rows: Vec<Row> =
        corpus().into_iter().map(|(word, text)| native_row(word, word).state(text)).collect();
    let host = Host::with(&rows);
    let _store = NativeStore::create(host.home.native_store());
    expect_readable(&host.sandkeeper(["status"]).run());
    expect_harmless(&host.status([""; 0]));
}

/// The places in which a text is tried: a third of them, others for the next text. One function makes all texts harmless;
/// what is tried in a place is whether it is called there, and for that the place needs no more than every third text.
fn every_third<T>(places: impl IntoIterator<Item = T>, text: usize) -> impl Iterator<Item = T> {
    places.into_iter().skip(text % 3).step_by(3)
}

#[test]
#[ignore = "takes long: run tests/run"]
fn an_engines_errors_are_harmless() {
    for (number, (_, text)) in corpus().into_iter().enumerate() {
        let host = Host::with(&[]);
        let tries: [(Behaviour, &[&str]); 6] = [
            (Behaviour::error(500, &text), &["status"]),
            (Behaviour::reply(500, "text/plain", text.clone()), &["status"]),
            (Behaviour::reply(200, "text/plain", text.clone()), &["status"]),
            (Behaviour::error(200, &text), &["status"]),
            (Behaviour::error(200, &text), &["status", "--json"]),
            (Behaviour::error(200, &text), &["doctor"]),
        ];
        for (answer, report) in every_third(tries, number) {
            host.engine.on("GET", "/containers/json", answer);
            let finished = host.sandkeeper(report).run().expect_exit(1);
            expect_harmless(&finished);
            if report.len() == 1 {
                expect_readable(&finished);
            }
        }
        let version = json!({ "Version": text, "Components": [{ "Name": text }] });
        host.engine.on("GET", "/_ping", Behaviour::error(404, &text));
        host.engine.on("GET", "/version", Behaviour::json(&version));
        expect_readable(&host.sandkeeper(["status"]).run());
    }
}

#[test]
fn bytes_that_are_not_utf8_are_harmless() {
    let host = Host::with(&[]);
    for body in [&b"\xff\xfe\x1b[2J"[..], b"[{\"Id\":\"\xff\"}]", b"\x80\x9b31m"] {
        host.engine.on("GET", "/containers/json", Behaviour::reply(500, "text/plain", body));
        expect_readable(&host.sandkeeper(["status"]).run().expect_exit(1));
        host.engine.on("GET", "/containers/json", Behaviour::reply(200, "text/plain", body));
        expect_readable(&host.sandkeeper(["status"]).run().expect_exit(1));
    }
    let store = NativeStore::create(host.home.native_store());
    store.session("s1", "alpha").status("active").insert();
    store.execute("UPDATE sessions SET title = CAST(x'ff1b5b324a' AS TEXT)");
    host.engine.containers(&[native_row("sandbox", "alpha")]);
    expect_readable(&host.sandkeeper(["status"]).run().expect_exit(0));
    let odd = std::ffi::OsStr::from_bytes(b"/no/\xff\x1b[2J.db");
    let finished = host.sandkeeper(["status", "--db"]).arg(odd).run();
    expect_readable(&finished);
}

#[test]
#[ignore = "takes long: run tests/run"]
fn paths_arguments_and_variables_are_harmless() {
    let home = Home::new();
    // A text with a zero byte, or one as long as this, cannot be an argument.
    let texts = corpus().into_iter().filter(|(_, text)| !text.contains('\0') && text.len() < 100_000);
    for (number, (word, text)) in texts.enumerate() {
        let calls: [&[&str]; 13] = [
            &["status", "--host", &text],
            &["status", "--context", &text],
            &["status", "--profile", &text],
            &["status", "--config", &text],
            &["status", "--min-age", &text],
            &["status", &format!("--{text}")],
            &[&text],
            &["profiles", "show", &text],
            &["profiles", "check", &text],
            &["status", "--host", "unix:///no.sock", "--db", &format!("/no/{text}")],
            &["gate", "--host", "unix:///no.sock", "--listen", &format!("/no/{text}")],
            &["gate", "--host", "unix:///no.sock", "--listen", "/no/x", "--group", &format!("g{text}")],
            &["doctor", "--host", "unix:///no.sock", "--read-only-user", &format!("u{text}")],
        ];
        for call in every_third(calls, number) {
            let finished = home.sandkeeper(call).run();
            assert!(finished.status.is_some_and(|code| code != 0), "{word}: {finished}");
            expect_readable(&finished);
        }
        expect_readable(&home.sandkeeper(["status"]).env("DOCKER_HOST", &text).run());
        expect_readable(&home.sandkeeper(["status"]).env("SANDKEEPER_TIMEOUT", &text).run().expect_exit(2));
    }
}

#[test]
fn config_and_profiles_are_harmless() {
    for (word, text) in corpus() {
        let home = Home::new();
        let quoted = json!(text).to_string();
        home.write(".config/sandkeeper/profiles/native.toml", format!("name = {quoted}\nx = {quoted}\n"));
        home.write(".config/sandkeeper/profiles/raw.toml", format!("{text} = 1\n"));
        for command in [&["profiles", "list"][..], &["doctor", "--host", "unix:///no.sock"]] {
            let finished = home.sandkeeper(command).run().expect_exit(1);
            expect_readable(&finished);
        }
        let path = home.write(".config/sandkeeper/config.toml", format!("{quoted} = {quoted}\n"));
        expect_readable(&home.sandkeeper(["status"]).run().expect_exit(2));
        fs::write(path, format!("timeout = {quoted}\n")).unwrap();
        expect_readable(&home.sandkeeper(["status"]).run().expect_exit(2));
        let described = format!(
            "name = \"mine\"\ndescription = {quoted}\n[containers]\nlabels = {{ app = {quoted} }}\nworkspace = [{quoted}]\n"
        );
        let file = home.write("mine.toml", described);
        let finished = home.sandkeeper(["profiles", "check", file.to_str().unwrap()]).run();
        assert_ne!(finished.status, Some(101), "{word}: {finished}");
    }
}

#[test]
fn ten_thousand_labels_and_empty_keys_are_no_trouble() {
    let mut row = native_row("sandbox", "alpha").label("", "").label(" ", "x");
    for number in 0..10_000 {
        row = row.label(format!("label-{number}"), "value");
    }
    let host = Host::with(&[row]);
    let store = NativeStore::create(host.home.native_store());
    store.session("s1", "alpha").insert();
    let report = host.status([""; 0]).expect_exit(0).json();
    assert_eq!(container(&report, "sandbox")["status"], "idle");
}

#[test]
fn names_that_look_like_something_else_stay_what_they_are() {
    let other = id_of("other");
    let names = [other.as_str(), &other[..12], "x", "xx", "..", "-rf", "--help", "native"];
    let rows: Vec<Row> = names.iter().map(|name| native_row(name, name).state("exited")).collect();
    let host = Host::with(&rows);
    let store = NativeStore::create(host.home.native_store());
    for name in names {
        store.session(name, "elsewhere").container(name).insert();
    }
    // A session that names an id means the id, even where another container is named like it.
    let report = host.status([""; 0]).expect_exit(0).json();
    for name in names {
        let found = container(&report, name);
        assert_eq!(found["session_count"], 1, "{found:#}");
        assert_eq!(found["sessions"][0]["id"], name);
    }
    assert_eq!(report["lost"], json!([]));
}
