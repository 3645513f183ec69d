//! Sessions that only the application itself can tell: what it says counts, and whatever it fails to say leaves everything
//! `unknown`.

use serde_json::{Value, json};

use crate::support::application::{Application, Mood};
use crate::support::native::{Host, container, evidence, reasons, statuses};
use crate::support::program::Finished;
use crate::support::rows::{Row, ago, row};
use crate::support::systems::expect;

fn environment(slug: &str) -> Row {
    row(&format!("parachute-env-{slug}"))
        .created(ago(3 * 86_400))
        .label("app", "parachute")
        .label("type", "env")
        .label("env_slug", slug)
        .label("config_hash", "420392a11eab")
}

fn private(name: &str, session: &str) -> Row {
    row(name).label("app", "parachute").label("type", "session").label("session_id", session)
}

#[track_caller]
fn status(host: &Host, application: &Application) -> Finished {
    // Only an application that never answers is not worth waiting for.
    let patience = if application.hangs() { crate::support::HASTE } else { "2m" };
    host.status(["--db", &application.named("parachute"), "--timeout", patience])
}

#[test]
fn what_the_application_says_is_what_counts() {
    let host = Host::with(&[
        environment("busy"),
        environment("streaming"),
        environment("quiet"),
        environment("over"),
        environment("empty"),
        environment("nobodys").state("exited"),
        private("parachute-session-0123456789ab", "0123456789abcdef"),
    ]);
    let parachute = Application::parachute();
    for slug in ["busy", "streaming", "quiet", "over", "empty"] {
        parachute.environment(slug);
    }
    parachute.session("s-busy", Some("busy"), 30.0);
    parachute.session("s-streaming", Some("streaming"), 7200.0);
    parachute.session("s-quiet", Some("quiet"), 7200.0);
    parachute.session("0123456789abcdef", None, 30.0);
    parachute.archived("s-over", Some("over"), 10.0);
    parachute.streams(&["s-streaming"]);

    let report = status(&host, &parachute).expect_exit(0).json();
    expect(&report, "parachute-env-busy", "active", "session s-busy (about s-busy) was active");
    expect(&report, "parachute-env-streaming", "active", "session s-streaming (about s-streaming) is live");
    expect(&report, "parachute-env-quiet", "idle", "2 sessions claim it, none is live");
    expect(&report, "parachute-env-over", "idle", "2 sessions claim it, none is live, 1 ended");
    expect(&report, "parachute-env-empty", "stale", "1 session claims it, none is live");
    expect(&report, "parachute-env-nobodys", "orphaned", "no session claims it");
    expect(&report, "parachute-session-0123456789ab", "active", "session 0123456789abcdef");
    assert_eq!(evidence(&report, "sessions")["path"], parachute.url());
    let asked = parachute.asked();
    assert!(asked.iter().all(|question| question.starts_with("GET ")), "{asked:?}");
    host.expect_only_looks();
}

/// Nothing but a whole and good answer yields a verdict that could let anything go.
#[track_caller]
fn expect_unknown(host: &Host, parachute: &Application, why: &str) {
    let finished = status(host, parachute).expect_exit(4);
    let report = finished.json();
    for name in ["parachute-env-a", "parachute-env-b"] {
        let found = container(&report, name);
        assert_eq!(found["status"], "unknown", "{finished}");
        let said = reasons(found);
        assert!(
            said.contains(why) && said.contains(&parachute.url()) && said.contains("; "),
            "{why:?}: {said}"
        );
    }
    let said = evidence(&report, "sessions");
    assert_eq!((&said["ok"], &said["path"]), (&false.into(), &parachute.url().into()), "{finished}");
}

fn host_and_application() -> (Host, Application) {
    let host = Host::with(&[environment("a").state("exited"), environment("b")]);
    let parachute = Application::parachute();
    parachute.environment("b");
    (host, parachute)
}

#[test]
fn an_application_that_fails_leaves_everything_unknown() {
    let (host, parachute) = host_and_application();
    let moods = [
        (Mood::Status(401), "status 401; give its key"),
        (Mood::Status(403), "status 403; give its key"),
        (Mood::Status(500), "status 500"),
        (Mood::Status(302), "status 302"),
        (Mood::Hang, "did not answer in time"),
        (Mood::Stall, "did not answer in time"),
        (Mood::Half, "the answer broke off"),
        (Mood::HalfJson, "is no JSON"),
        (Mood::Text("<html>hello</html>".to_owned()), "is no JSON"),
        (Mood::Text(String::new()), "is no JSON"),
        (Mood::Text("[]".to_owned()), "has no list `containers`"),
        (Mood::Text(r#"{"containers": {}}"#.to_owned()), "has no list `containers`"),
        (Mood::Text(r#"{"detail": "starting"}"#.to_owned()), "has no list `containers`"),
    ];
    for (mood, why) in moods {
        parachute.mood(mood);
        expect_unknown(&host, &parachute, why);
    }
    parachute.mood(Mood::Good);
    let report = status(&host, &parachute).expect_exit(0).json();
    assert_eq!(statuses(&report), ["parachute-env-a: orphaned", "parachute-env-b: stale"]);
}

#[test]
fn one_question_of_several_that_fails_is_enough() {
    let (host, parachute) = host_and_application();
    for target in [
        "/api/containers",
        "/api/chat?archived=false&limit=1000",
        "/api/chat?archived=true&limit=1000",
        "/api/chat/active-streams",
    ] {
        for (mood, why) in [(Mood::Status(500), "status 500"), (Mood::HalfJson, "is no JSON")] {
            parachute.mood_about(target, mood);
            expect_unknown(&host, &parachute, why);
            let path = target.split('?').next().unwrap();
            expect_unknown(&host, &parachute, path);
        }
    }
}

#[test]
fn answers_of_another_shape_are_not_guessed_at() {
    let sessions = "/api/chat?archived=false&limit=1000";
    let good = json!({ "id": "s1", "title": "t", "containerId": "b", "createdAt": "2026-03-01T10:00:00Z", "lastAccessed": "2026-03-01T10:00:00Z" });
    let without = |field: &str| {
        let mut row = good.clone();
        row.as_object_mut().unwrap().remove(field);
        row
    };
    let with = |field: &str, value: Value| {
        let mut row = good.clone();
        row[field] = value;
        row
    };
    let cases = [
        (without("id"), "row 1 has no field `id`"),
        (without("containerId"), "row 1 has no field `containerId`, `containerEnvId`, `container_id`"),
        (without("lastAccessed"), "row 1 has no field `lastAccessed`, `last_accessed`"),
        (with("id", Value::Null), "row 1: it has no id"),
        (with("containerId", json!({ "slug": "b" })), "has no field `containerId`"),
        (with("containerId", json!("x".repeat(5000))), "bytes long"),
        (json!("s1"), "has no field `id`"),
    ];
    for (row, why) in cases {
        let (host, parachute) = host_and_application();
        parachute.push(sessions, "sessions", row);
        expect_unknown(&host, &parachute, why);
    }
    // A time that cannot be read costs the container of that session, and no other.
    let (host, parachute) = host_and_application();
    parachute.push(sessions, "sessions", with("lastAccessed", json!("yesterday")));
    let report = status(&host, &parachute).expect_exit(4).json();
    expect(&report, "parachute-env-b", "unknown", "`yesterday` is not a plausible time");
    expect(&report, "parachute-env-a", "orphaned", "no session claims it");
    // A title need not be there; the older name of the field is as good.
    let (host, parachute) = host_and_application();
    let mut older = without("title");
    older.as_object_mut().unwrap().remove("containerId");
    older["containerEnvId"] = json!("a");
    parachute.push(sessions, "sessions", older);
    expect(
        &status(&host, &parachute).expect_exit(0).json(),
        "parachute-env-a",
        "stale",
        "1 session claims it",
    );
}

#[test]
fn a_list_that_may_go_on_and_a_turn_in_no_list_are_faults() {
    let (host, parachute) = host_and_application();
    parachute.streams(&["just-begun"]);
    expect_unknown(&host, &parachute, "session just-begun is live, but stands in none of its lists");
    parachute.session("just-begun", Some("a"), 7200.0);
    expect(&status(&host, &parachute).expect_exit(0).json(), "parachute-env-a", "active", "just-begun");
    for number in 0..999 {
        parachute.session(&format!("s{number}"), None, 7200.0);
    }
    expect_unknown(&host, &parachute, "it holds more than 1000 sessions");
}

#[test]
fn a_key_comes_from_the_environment_or_the_configuration_and_is_never_shown() {
    let (host, parachute) = host_and_application();
    parachute.require_key("k3y-of-parachute");
    expect_unknown(&host, &parachute, "status 401; give its key");
    let arguments = ["status", "--json", "--db", &parachute.named("parachute")];
    let good = host.sandkeeper(arguments).env("PARACHUTE_API_KEY", "k3y-of-parachute").run().expect_exit(0);
    assert!(!good.to_string().contains("k3y-of"), "{good}");
    let bad = host.sandkeeper(arguments).env("PARACHUTE_API_KEY", "wr0ng-key").run().expect_exit(4);
    assert!(!bad.to_string().contains("wr0ng"), "{bad}");
    let config = format!(
        "[secrets]\nparachute = \"k3y-of-parachute\"\n[stores]\nparachute = [\"{}\"]\n",
        parachute.url()
    );
    host.home.write(".config/sandkeeper/config.toml", config);
    host.status([""; 0]).expect_exit(0);
    let doctor = host.sandkeeper(["doctor"]).run().expect_exit(0);
    assert!(doctor.stdout.contains(&parachute.url()) && !doctor.stdout.contains("k3y-of"), "{doctor}");
}

#[test]
fn nobody_is_asked_unless_there_is_a_container_only_he_can_speak_of() {
    // Whatever listens at the usual place of this machine is not what this test is about.
    let workspace = row("parachute-ws-atlas").label("app", "parachute").label("workspace", "atlas");
    let host = Host::with(&[workspace]);
    let parachute = Application::parachute();
    let shown = host.sandkeeper(["profiles", "show", "parachute"]).run().stdout;
    let moved = shown.replace("http://127.0.0.1:3333", &parachute.url());
    host.home.write(".config/sandkeeper/profiles/parachute.toml", &moved);
    host.status([""; 0]);
    assert_eq!(parachute.asked(), [""; 0]);

    host.engine.containers(&[environment("a")]);
    let report = host.status([""; 0]).expect_exit(0).json();
    expect(&report, "parachute-env-a", "orphaned", "no session claims it");
    // Its four lists are no one moment, so each is asked for twice.
    assert_eq!(parachute.asked().len(), 8, "{:?}", parachute.asked());

    // Another machine is asked only if the operator himself names it.
    let far = shown.replace("http://127.0.0.1:3333", "http://192.0.2.1:3333");
    host.home.write(".config/sandkeeper/profiles/parachute.toml", &far);
    let report = host.status([""; 0]).expect_exit(4).json();
    expect(&report, "parachute-env-a", "unknown", "http://192.0.2.1:3333 is not on this machine");
}

#[test]
fn nobody_there_is_unknown_and_https_is_not_spoken() {
    let host = Host::with(&[environment("a")]);
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let report = host.status(["--db", &format!("parachute=http://{closed}")]).expect_exit(4).json();
    expect(&report, "parachute-env-a", "unknown", "nobody answers there");
    let report = host.status(["--db", &format!("parachute=https://{closed}")]).expect_exit(4).json();
    expect(&report, "parachute-env-a", "unknown", "is not plain HTTP");
}

#[test]
fn another_application_is_a_profile_and_not_code() {
    let boxed = |number: &str| {
        row(&format!("box-{number}")).label("app", "mine").label("box", number).created(ago(3 * 86_400))
    };
    let host = Host::with(&[boxed("1"), boxed("2")]);
    let application = Application::start();
    application.answer(
        "/sessions",
        json!([
            { "key": 7, "box": 1, "seen": 1_771_754_400_000_u64, "busy": true },
            { "key": 8, "box": 2, "seen": 1_771_754_400_000_u64, "busy": false },
        ]),
    );
    let profile = format!(
        r#"
name = "mine"
description = "My gateway"
[containers]
labels = {{ app = "mine" }}
workspace = ["{{label.box}}"]
[sessions]
store = "http"
[[sessions.links]]
session = "{{workspace}}"
container = ["{{label.box}}"]
[sessions.http]
url = "{}"
times = "milliseconds"
[[sessions.http.requests]]
path = "/sessions"
id = "{{key}}"
workspace = "{{box}}"
last_activity_at = "{{seen}}"
live = "{{busy}}"
"#,
        application.url()
    );
    let path = host.home.write(".config/sandkeeper/profiles/mine.toml", &profile);
    let checked = host.home.sandkeeper(["profiles", "check"]).arg(&path).run().expect_exit(0);
    checked.expect_stdout("GET /sessions").expect_stdout("ok: the profile can be used");
    let report = host.status([""; 0]).expect_exit(0).json();
    expect(&report, "box-1", "active", "session 7 is live");
    expect(&report, "box-2", "stale", "1 session claims it, none is live");
}

#[test]
fn an_address_without_its_system_is_asked_by_nobody() {
    let host = Host::with(&[]);
    let finished = host.status(["--db", "http://127.0.0.1:3333"]).expect_exit(2);
    finished.expect_stderr("write `--db SYSTEM=http://127.0.0.1:3333`");
}

#[test]
fn a_session_that_moves_between_two_lists_is_not_missed() {
    let (host, parachute) = host_and_application();
    parachute.archived("s-back", Some("b"), 30.0);
    parachute.unarchives_between_two_questions();
    let report = status(&host, &parachute).expect_exit(0).json();
    expect(&report, "parachute-env-b", "active", "session s-back");
}

#[test]
fn lists_that_never_agree_are_doubt() {
    let (host, parachute) = host_and_application();
    parachute.never_says_the_same_twice();
    expect_unknown(&host, &parachute, "changed between any two of three looks");
}
