//! The config file, the environment and the flags; profiles of one's own, right and wrong.

use std::fs;
use std::path::{Path, PathBuf};

use rstest::rstest;
use rusqlite::Connection;

use crate::support::native::{Host, container, evidence, native_row, reasons, statuses};
use crate::support::program::Home;
use crate::support::rows::{ago, row};
use crate::support::seconds;
use crate::support::stores::{NativeStore, unix_ago};

const GLOBAL_FLAGS: [&str; 11] = [
    "--host",
    "--context",
    "--profile",
    "--db",
    "--min-age",
    "--expect-hash",
    "--instance",
    "--timeout",
    "--interval",
    "--config",
    "--read-only",
];

/// A host with one container that is half a minute old and that no session claims.
fn young_host() -> (Host, NativeStore) {
    let host = Host::with(&[native_row("young", "alpha").created(ago(30))]);
    let store = NativeStore::create(host.home.native_store());
    (host, store)
}

fn write_config(home: &Home, text: &str) -> PathBuf {
    home.write(".config/sandkeeper/config.toml", text)
}

fn write_profile(home: &Home, file: &str, text: &str) -> PathBuf {
    home.write(format!(".config/sandkeeper/profiles/{file}"), text)
}

#[test]
fn the_sample_config_is_right_and_changes_nothing() {
    let (host, _store) = young_host();
    let sample = Path::new(env!("CARGO_MANIFEST_DIR")).join("assets/config.toml");
    let without = host.status([""; 0]).expect_exit(0).json();
    let with = host.status(["--config", sample.to_str().unwrap()]).expect_exit(0).json();
    assert_eq!(with["containers"][0]["status"], without["containers"][0]["status"]);

    // Every example that is commented out is right as well.
    let text = fs::read_to_string(sample).unwrap();
    let uncommented: String = text
        .lines()
        .filter(|line| !line.starts_with("# context ="))
        .map(|line| match line.strip_prefix("# ") {
            Some(example) if example.split_once(" = ").is_some_and(|(key, _)| !key.contains(' ')) => {
                format!("{example}\n")
            }
            _ => format!("{line}\n"),
        })
        .collect();
    let all = host.home.write("all.toml", uncommented);
    let finished = host.status(["--config", all.to_str().unwrap()]);
    assert_ne!(finished.status, Some(2), "{finished}");
}

#[rstest]
#[case("intervall = \"2s\"", ":1: `intervall`: unknown key; did you mean `interval`?")]
#[case("\n[brake]\nmore_then = 3", ":3: `more_then`: unknown key; did you mean `more_than`?")]
#[case("zzz = 1", ":1: `zzz`: unknown key; the keys that may stand here are host, context,")]
#[case("timeout = \"soon\"", ":1: `timeout`: `soon` is not a length of time; write a number and a unit")]
#[case("# a comment\nmin_age = 60", ":2: `min_age`: invalid type: integer `60`, expected a string")]
#[case("read_only = \"yes\"", "assets/config.toml")]
#[case("timeout = \"0s\"", "must be longer than nothing")]
#[case("min_age = \"60s", ":1: `min_age`: ")]
fn a_mistake_in_the_config_is_named_with_file_line_key_and_fix(#[case] text: &str, #[case] expected: &str) {
    let home = Home::new();
    let path = write_config(&home, text);
    let program = home.sandkeeper(["status"]).without_env("SANDKEEPER_TIMEOUT");
    let finished = program.run().expect_exit(2).expect_stderr(expected);
    if expected.starts_with(':') {
        assert!(finished.stderr.starts_with(&format!("error: {}{expected}", path.display())), "{finished}");
    }
    assert!(!finished.stderr.contains("profiles show"), "a profile is no example of a config: {finished}");
    assert_eq!(finished.stderr.lines().count(), 1, "{finished}");
}

#[test]
fn a_config_that_was_asked_for_must_be_there() {
    let home = Home::new();
    let finished = home.sandkeeper(["status", "--config", "/no/such.toml"]).run().expect_exit(2);
    finished.expect_stderr("/no/such.toml").expect_stderr("No such file");
}

#[test]
fn defaults_then_file_then_environment_then_flags() {
    let (host, _store) = young_host();
    let grace = |arguments: &[&str], variable: Option<&str>| {
        let mut program = host.sandkeeper(["status", "--json"]);
        for argument in arguments {
            program = program.arg(argument);
        }
        if let Some(value) = variable {
            program = program.env("SANDKEEPER_MIN_AGE", value);
        }
        let report = program.run().expect_exit(0).json();
        let why = reasons(container(&report, "young"));
        why.split("grace of ").nth(1).unwrap().split(':').next().unwrap().to_owned()
    };
    assert_eq!(grace(&[], None), "1m");
    write_config(&host.home, "min_age = \"2h\"");
    assert_eq!(grace(&[], None), "2h");
    assert_eq!(grace(&[], Some("3h")), "3h");
    assert_eq!(grace(&["--min-age", "4h"], Some("3h")), "4h");
    let other = host.home.write("other.toml", "min_age = \"5h\"");
    assert_eq!(grace(&["--config", other.to_str().unwrap()], None), "5h");
}

#[test]
fn a_variable_that_is_no_length_of_time_is_named() {
    let home = Home::new();
    let finished = home.sandkeeper(["status"]).env("SANDKEEPER_TIMEOUT", "a while").run().expect_exit(2);
    finished.expect_stderr("SANDKEEPER_TIMEOUT").expect_stderr("`a while` is not a length of time");
}

#[test]
fn the_config_names_stores_hashes_and_the_instance() {
    let mine =
        native_row("mine", "alpha").label("sandkeeper.instance", "a").label("sandkeeper.config-hash", "1");
    let theirs = native_row("theirs", "beta").label("sandkeeper.instance", "b");
    let host = Host::with(&[mine, theirs]);
    let store = NativeStore::create(host.home.path().join("elsewhere/my.db"));
    store.session("s1", "alpha").insert();
    let config = "instance = \"a\"\n[stores]\nnative = [\"~/elsewhere/my.db\"]\nparachute = [\"/no/such.db\"]\n\
                  [expect_hash]\nnative = \"2\"\nparachute = \"3\"\n";
    write_config(&host.home, config);
    let report = host.status(["--profile", "native"]).expect_exit(0).json();
    assert_eq!(evidence(&report, "sessions")["path"], store.path().display().to_string());
    assert_eq!(statuses(&report), ["mine: stale", "theirs: unknown"], "{report:#}");
    assert!(reasons(container(&report, "mine")).contains("config 1 is not 2 (the expected one)"));
    assert!(reasons(container(&report, "theirs")).contains("belongs to instance b; ours is a"));
}

#[test]
fn a_tilde_after_the_system_is_the_home_although_no_shell_has_seen_it() {
    let (host, store) = young_host();
    let report = host.status(["--db", "native=~/.local/share/sandkeeper/sessions.db"]).expect_exit(0).json();
    assert_eq!(evidence(&report, "sessions")["path"], store.path().display().to_string());
}

#[test]
fn flags_stand_before_or_after_the_subcommand() {
    let (host, store) = young_host();
    let db = format!("native={}", store.path().display());
    let flags = ["--profile", "native", "--db", &db, "--min-age", "1h", "--timeout", "2m", "--read-only"];
    let before = host.sandkeeper(flags).arg("status").arg("--json").run().expect_exit(0).json();
    let after = host.status(flags).expect_exit(0).json();
    assert_eq!(statuses(&before), statuses(&after));
    let around = host.sandkeeper(["--min-age", "1h", "status", "--json", "--profile", "native"]).run();
    assert_eq!(statuses(&around.expect_exit(0).json()), statuses(&after));
}

#[test]
fn every_global_flag_is_in_the_help_of_every_command() {
    let home = Home::new();
    for command in [&["--help"][..], &["status", "--help"], &["doctor", "--help"], &["profiles", "--help"]] {
        let finished = home.sandkeeper(command).run().expect_exit(0);
        for flag in GLOBAL_FLAGS {
            assert!(finished.stdout.contains(flag), "{flag} is missing: {finished}");
        }
    }
    home.sandkeeper(["--version"]).run().expect_exit(0).expect_stdout("sandkeeper 0.");
}

#[rstest]
#[case(&["--no-such-flag"], "--no-such-flag")]
#[case(&["no-such-command"], "no-such-command")]
#[case(&["status", "--min-age", "soon"], "`soon` is not a length of time")]
#[case(&["status", "--timeout", "0s"], "must be longer than nothing")]
#[case(&["status", "--profile", "parachut"], "did you mean `parachute`?")]
#[case(&["status", "--profile", "zzz"], "the profiles here are ")]
#[case(&["status", "--db", "nativ=/x.db"], "did you mean `native`?")]
#[case(&["status", "--profile", "native", "--db", "parachute=/x.db"], "which is not looked for; add `--profile parachute`")]
#[case(&["status", "--expect-hash", "nativ=1"], "did you mean `native`?")]
#[case(&["profiles", "show", "nativ"], "did you mean `native`?")]
#[case(&["--host", "unix:///a", "--context", "b", "status"], "cannot be used with")]
#[case(&["profiles", "check"], "<FILE>")]
#[case(&["status", "--expect-hash", ""], "would make every container outdated")]
#[case(&["status", "--expect-hash", "native="], "would make every container outdated")]
#[case(&["status", "--db", "native="], "has no path")]
#[case(&["status", "--instance", " "], "has no name")]
#[case(&["status", "--timeout", "9999999d"], "is not a length of time")]
fn a_wrong_call_is_told_and_exits_with_2(#[case] arguments: &[&str], #[case] expected: &str) {
    let home = Home::new();
    let finished = home.sandkeeper(arguments).run().expect_exit(2).expect_stderr(expected);
    assert_eq!(finished.stdout, "", "{finished}");
}

/// The toml files of a folder below tests/profiles.
fn profile_files(folder: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/profiles").join(folder);
    let files: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(!files.is_empty());
    files
}

#[test]
fn a_right_profile_is_explained() {
    let home = Home::new();
    for file in profile_files("valid") {
        let finished = home.sandkeeper(["profiles", "check"]).arg(&file).run().expect_exit(0);
        let finished =
            finished.expect_stdout("ok: the profile can be used").expect_stdout("containers: labelled");
        assert_eq!(finished.stderr, "", "{finished}");
    }
}

#[test]
fn a_wrong_profile_is_refused_with_file_line_key_and_fix() {
    let home = Home::new();
    for file in profile_files("invalid") {
        let text = fs::read_to_string(&file).unwrap();
        let expected = text.lines().next().unwrap().strip_prefix("# ").unwrap();
        let finished = home.sandkeeper(["profiles", "check"]).arg(&file).run().expect_exit(1);
        assert_eq!(finished.stderr, format!("error: {}{expected}\n", file.display()));
        assert_eq!(finished.stdout, "", "{finished}");
    }
    let missing = home.sandkeeper(["profiles", "check", "/no/such.toml"]).run().expect_exit(1);
    missing.expect_stderr("/no/such.toml: cannot be read").expect_stderr("; ");
}

#[test]
fn what_is_shown_can_be_checked_and_overrides_the_built_in_one() {
    let home = Home::new();
    for (name, _) in sandkeeper::profiles::BUILT_IN {
        let shown = home.sandkeeper(["profiles", "show", name]).run().expect_exit(0).stdout;
        let path = write_profile(&home, &format!("{name}.toml"), &shown);
        home.sandkeeper(["profiles", "check"]).arg(&path).run().expect_exit(0);
        let listed = home.sandkeeper(["profiles", "list"]).run().expect_exit(0).stdout;
        let line = listed.lines().find(|line| line.starts_with(&format!("{name} "))).unwrap();
        assert!(line.contains(path.to_str().unwrap()), "{listed}");
    }
    let bare = home.sandkeeper(["profiles"]).run().expect_exit(0).stdout;
    assert_eq!(bare, home.sandkeeper(["profiles", "list"]).run().stdout);
}

#[test]
fn a_users_version_of_a_built_in_profile_is_the_one_that_counts() {
    let (host, _store) = young_host();
    let shown = host.sandkeeper(["profiles", "show", "native"]).run().stdout;
    let changed = shown.replace("sandkeeper.managed\" = \"true", "sandkeeper.managed\" = \"mine");
    write_profile(&host.home, "anything.toml", &changed);
    assert_eq!(statuses(&host.status([""; 0]).expect_exit(0).json()), [""; 0]);
}

#[rstest]
#[case::by_its_file_name("native.toml", "name = \"native\"\nnonsense = 1\n")]
#[case::by_the_name_inside("mine.toml", "name = \"native\" # mine\nnonsense = 1\n")]
#[case::although_it_is_not_even_toml("native.toml", "}{")]
fn a_broken_version_of_a_built_in_profile_makes_its_containers_unknown(
    #[case] file: &str,
    #[case] text: &str,
) {
    let (host, _store) = young_host();
    let path = write_profile(&host.home, file, text);
    let place = path.display().to_string();
    let finished = host.status([""; 0]).expect_exit(4).expect_stderr("warning: ").expect_stderr(&place);
    let report = finished.json();
    assert_eq!(statuses(&report), ["young: unknown"]);
    let why = reasons(container(&report, "young"));
    assert!(why.contains("your profile cannot be used") && why.contains(&place), "{why}");

    let doctor = host.sandkeeper(["doctor"]).run().expect_exit(1).expect_stdout("FAILED  profile native");
    assert_eq!(doctor.stdout.matches(&place).count(), 1, "told once: {doctor}");
    let listed = host.sandkeeper(["profiles", "list"]).run().expect_exit(1);
    listed.expect_stdout("(your own version is broken)").expect_stderr(&place);
}

#[test]
fn a_broken_profile_of_a_system_nobody_else_knows_is_missing_evidence() {
    let (host, _store) = young_host();
    let path = write_profile(&host.home, "mine.toml", "name = \"mine\"\n");
    let place = path.display().to_string();
    let finished = host.status([""; 0]).expect_exit(4).expect_stderr(&place);
    assert_eq!(statuses(&finished.json()), ["young: idle"], "what is known stays known");
    host.status(["--profile", "native"]).expect_exit(0);
    host.sandkeeper(["doctor"]).run().expect_exit(1).expect_stdout(&place);
}

#[test]
fn two_files_for_one_profile_are_a_contradiction() {
    let (host, _store) = young_host();
    let shown = host.sandkeeper(["profiles", "show", "native"]).run().stdout;
    write_profile(&host.home, "a.toml", &shown);
    write_profile(&host.home, "b.toml", &shown);
    let report = host.status([""; 0]).expect_exit(4).expect_stderr("remove one of the two").json();
    assert_eq!(statuses(&report), ["young: unknown"]);
}

#[test]
fn a_profile_of_ones_own_works_from_end_to_end() {
    let mine = |name: &str| row(name).label("app", "mine").state("running");
    let host = Host::with(&[
        mine("mine-ada-notes"),
        mine("mine-ada-quiet"),
        mine("mine-bob-notes"),
        mine("mine-bob-gone").state("exited"),
        mine("other"),
        native_row("sandbox", "alpha"),
    ]);
    write_profile(
        &host.home,
        "mine.toml",
        r#"
name = "mine"
description = "My gateway"
[containers]
labels = { app = "mine" }
names = ['mine-(?<user>[a-z]+)-(?<slug>[a-z0-9-]+)']
workspace = ["{name.user}/{name.slug}"]
[rules]
lifetime = { default = "1h" }
[sessions]
store = "sqlite"
paths = ["~/mine/{user}/state.db"]
[[sessions.links]]
session = "{store.user}/{workspace}"
container = ["{name.user}/{name.slug}"]
lost = "live"
[[sessions.queries]]
name = "v2"
requires = { chat = ["id", "space", "busy", "seen_ms", "colour"] }
times = "milliseconds"
sql = "SELECT id, 'never' AS workspace, 1 AS live FROM chat"
[[sessions.queries]]
name = "v1"
requires = { chat = ["id", "space", "busy", "seen_ms"] }
times = "milliseconds"
sql = "SELECT id, space AS workspace, busy AS live, seen_ms AS last_activity_at FROM chat"
"#,
    );
    for (user, rows) in
        [("ada", vec![("notes", 1, 5.0), ("quiet", 0, 9000.0)]), ("bob", vec![("lost", 1, 5.0)])]
    {
        let path = host.home.write(format!("mine/{user}/state.db"), "");
        let store = Connection::open(path).unwrap();
        store
            .execute_batch("CREATE TABLE chat(id INTEGER PRIMARY KEY, space TEXT, busy INT, seen_ms REAL)")
            .unwrap();
        for (space, busy, seconds_ago) in rows {
            let insert = "INSERT INTO chat(space, busy, seen_ms) VALUES (?1, ?2, ?3)";
            store.execute(insert, (space, busy, unix_ago(seconds_ago) * 1000.0)).unwrap();
        }
    }
    let report = host.status(["--profile", "mine"]).expect_exit(0).json();
    assert_eq!(
        statuses(&report),
        [
            "mine-ada-notes: active",
            "mine-ada-quiet: stale",
            "mine-bob-gone: orphaned",
            "mine-bob-notes: orphaned"
        ],
        "{report:#}"
    );
    assert_eq!(container(&report, "mine-ada-notes")["workspace"], "ada/notes");
    assert_eq!(report["lost"][0]["container"], "bob/lost", "{report:#}");
    let doctor = host.sandkeeper(["doctor", "--profile", "mine"]).run().expect_exit(0);
    doctor.expect_stdout("mine/ada/state.db").expect_stdout("2 sessions, read as `v1`");
}

#[test]
fn the_time_out_is_taken_from_wherever_it_is_said() {
    let (host, _store) = young_host();
    host.engine.on("GET", "/containers/json", crate::support::scripted::Behaviour::HangBeforeHeaders);
    write_config(&host.home, "timeout = \"300ms\"");
    let short = host.sandkeeper(["status"]).without_env("SANDKEEPER_TIMEOUT").run().expect_exit(1);
    let long = host.sandkeeper(["status"]).env("SANDKEEPER_TIMEOUT", "10s").run().expect_exit(1);
    assert!(long.elapsed > seconds(9) && short.elapsed < long.elapsed, "{short}{long}");
}
