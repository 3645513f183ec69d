//! What the dashboard asks an engine about one container: its log, its usage and its whole inspection.

use std::path::Path;
use std::time::Duration;

use futures_util::stream::BoxStream;
use futures_util::{StreamExt, TryStreamExt};
use serde_json::{Value, json};

use crate::support::engine::RealEngine;
use crate::support::on_both_engines;
use crate::support::rows::{id_of, row};
use crate::support::scripted::{Behaviour, ScriptedEngine};
use sandkeeper::domain::ContainerId;
use sandkeeper::engine::{Address, Endpoint, EngineFault, EngineView, LogLine, document_lines};

on_both_engines![a_real_engine_tells_log_usage_and_inspection];

/// How long a view in these tests waits for an engine that answers.
const PATIENCE: Duration = Duration::from_mins(3);

fn view(socket: &Path, timeout: Duration) -> EngineView {
    let endpoint = Endpoint { address: Address::Unix(socket.to_owned()), origin: "the test".to_owned() };
    EngineView::new(endpoint, timeout)
}

fn wait<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async { tokio::time::timeout(PATIENCE, future).await.unwrap() })
}

fn id(name: &str) -> ContainerId {
    ContainerId::parse(&id_of(name)).unwrap()
}

/// An engine with one container, whose log is answered so.
fn with_log(log: Behaviour) -> ScriptedEngine {
    let engine = ScriptedEngine::start();
    engine.containers(&[row("box")]);
    engine.on("GET", &format!("/containers/{}/logs", id_of("box")), log);
    engine
}

fn frame(stream: u8, payload: &str) -> Vec<u8> {
    let mut frame = vec![stream, 0, 0, 0];
    frame.extend(u32::try_from(payload.len()).unwrap().to_be_bytes());
    frame.extend_from_slice(payload.as_bytes());
    frame
}

fn texts(lines: &[LogLine]) -> Vec<(bool, &str)> {
    lines.iter().map(|line| (line.stderr, line.text.as_str())).collect()
}

async fn all(lines: BoxStream<'static, Result<LogLine, EngineFault>>) -> Result<Vec<LogLine>, EngineFault> {
    lines.try_collect().await
}

#[test]
fn a_log_comes_line_by_line_with_its_times() {
    let mut body = frame(1, "2024-05-06T07:08:09.000000001Z hello\n");
    body.extend(frame(2, "2024-05-06T07:08:10.000000001Z oh no\n"));
    let engine = with_log(Behaviour::reply(200, "application/octet-stream", body));
    let lines = wait(all(view(engine.socket(), PATIENCE).logs(&id("box"), 50, false))).unwrap();
    assert_eq!(texts(&lines), [(false, "hello"), (true, "oh no")]);
    assert_eq!(lines[0].at, Some("2024-05-06T07:08:09.000000001Z".parse().unwrap()));
    let asked = engine.requests().into_iter().find(|request| request.path.ends_with("/logs")).unwrap();
    for (name, value) in
        [("tail", "50"), ("follow", "false"), ("timestamps", "true"), ("stdout", "true"), ("stderr", "true")]
    {
        assert_eq!(asked.query(name), Some(value), "{asked}");
    }
    assert_eq!(engine.mutations(), [""; 0]);
}

#[test]
fn a_log_that_stalls_ends_with_a_fault_after_what_came() {
    let sent = frame(1, "2024-05-06T07:08:09Z first\n2024-05-06T07:08:09Z unfin");
    let engine = with_log(Behaviour::ChunkedThenStall { sent });
    let timeout = Duration::from_secs(15);
    let items: Vec<_> = wait(view(engine.socket(), timeout).logs(&id("box"), 50, false).collect());
    assert_eq!(items.len(), 2, "{items:?}");
    assert_eq!(items[0].as_ref().unwrap().text, "first");
    assert_eq!(items[1], Err(EngineFault::TimedOut(timeout)));
}

#[test]
fn a_log_that_never_begins_or_is_refused_is_a_fault() {
    for follow in [false, true] {
        let timeout = Duration::from_millis(300);
        let engine = with_log(Behaviour::HangBeforeHeaders);
        let fault = wait(all(view(engine.socket(), timeout).logs(&id("box"), 50, follow))).unwrap_err();
        assert_eq!(fault, EngineFault::TimedOut(timeout));
        let engine = with_log(Behaviour::error(501, "configured logging driver does not support reading"));
        let fault = wait(all(view(engine.socket(), PATIENCE).logs(&id("box"), 50, follow))).unwrap_err();
        assert!(fault.to_string().contains("logging driver"), "{fault}");
    }
}

#[test]
fn a_log_that_is_followed_may_be_silent_and_goes_on() {
    let feed = crate::support::scripted::Feed::default();
    let engine = with_log(Behaviour::Events(feed.clone()));
    let timeout = Duration::from_secs(5);
    let mut lines = view(engine.socket(), timeout).logs(&id("box"), 5, true);
    wait(async {
        let first = async {
            // Whoever is to receive it must be there when it is sent.
            while feed.readers() == 0 {
                tokio::task::yield_now().await;
            }
            feed.push_raw(frame(1, "2024-05-06T07:08:09Z one\n2024-05-06T07:08:09Z tw"));
        };
        let (line, ()) = tokio::join!(lines.next(), first);
        assert_eq!(line.unwrap().unwrap().text, "one");
        assert!(tokio::time::timeout(timeout * 2, lines.next()).await.is_err(), "silence is no end");
        feed.push_raw(frame(1, "o\n"));
        assert_eq!(lines.next().await.unwrap().unwrap().text, "two");
        feed.end();
        assert_eq!(lines.next().await, None);
    });
}

#[test]
fn an_id_that_is_somebody_elses_name_tells_nothing() {
    let engine = with_log(Behaviour::reply(200, "application/octet-stream", frame(1, "private\n")));
    let path = format!("/containers/{}/json", id_of("box"));
    engine.on("GET", &path, Behaviour::json(&row("named-like-an-id").inspect()));
    let view = view(engine.socket(), PATIENCE);
    assert!(wait(all(view.logs(&id("box"), 5, false))).unwrap_err().is_not_found());
    assert!(wait(view.document(&id("box"))).unwrap_err().is_not_found());
    assert!(!engine.requests().iter().any(|request| request.path.ends_with("/logs")));
}

#[test]
fn an_inspection_shows_everything_but_secrets() {
    let engine = ScriptedEngine::start();
    let mut inspection = row("box").label("app.token", "hunter2").inspect();
    inspection["Config"]["Env"] = json!(["PATH=/bin", "OPENAI_API_KEY=hunter2"]);
    inspection["Args"] = json!(["--password", "hunter2"]);
    engine.on("GET", &format!("/containers/{}/json", id_of("box")), Behaviour::json(&inspection));
    let view = view(engine.socket(), PATIENCE);
    let document = wait(view.document(&id("box"))).unwrap();
    let lines = document_lines(&document);
    assert!(!lines.iter().any(|line| line.contains("hunter2")), "{lines:#?}");
    for expected in
        ["    - PATH=/bin", "    - OPENAI_API_KEY=<redacted>", "    app.token: <redacted>", "Name: /box"]
    {
        assert!(lines.iter().any(|line| line == expected), "no {expected:?}: {lines:#?}");
    }
    assert!(wait(view.document(&id("gone"))).unwrap_err().is_not_found());
}

#[test]
fn usage_is_asked_for_once_and_not_streamed() {
    let engine = ScriptedEngine::start();
    let stats = |second: u32, used: u64| -> Value {
        json!({
            "read": format!("2024-05-06T07:08:{second:02}Z"), "id": id_of("box"),
            "cpu_stats": { "cpu_usage": { "total_usage": used } },
            "memory_stats": { "usage": 3000, "limit": 4000, "stats": { "inactive_file": 1000 } },
        })
    };
    let answers = [stats(10, 1_000_000_000), stats(12, 2_000_000_000)];
    let answers = Behaviour::Sequence(answers.iter().map(Behaviour::json).collect());
    engine.on("GET", &format!("/containers/{}/stats", id_of("box")), answers);
    let view = view(engine.socket(), PATIENCE);
    let (first, second) = wait(async { (view.usage(&id("box")).await, view.usage(&id("box")).await) });
    let (first, second) = (first.unwrap(), second.unwrap());
    assert_eq!(second.cpu_percent_since(&first), Some(50.0));
    assert_eq!((second.memory_bytes, second.memory_limit), (2000, Some(4000)));
    for request in engine.requests() {
        assert_eq!((request.query("stream"), request.query("one-shot")), (Some("false"), Some("true")));
    }
}

fn a_real_engine_tells_log_usage_and_inspection(engine: &RealEngine) {
    let scene = engine.scene();
    let script = "echo out; echo err >&2; echo last; while :; do :; done";
    let busy = scene.container(scene.name("busy")).option("--env=MY_TOKEN=hunter2").script(script).running();
    let terminal = scene.container(scene.name("terminal")).option("--tty").script("echo hello; sleep 1000");
    let (busy, terminal) = [busy, terminal.running()].map(|id| ContainerId::parse(&id).unwrap()).into();
    let view = view(engine.socket(), PATIENCE);
    wait(async {
        // Followed, it waits for lines that are not written yet.
        let lines: Vec<_> = view.logs(&busy, 10, true).take(3).try_collect().await.unwrap();
        let mut sorted = texts(&lines);
        sorted.sort_unstable();
        assert_eq!(sorted, [(false, "last"), (false, "out"), (true, "err")], "{lines:?}");
        assert!(lines.iter().all(|line| line.at.is_some()), "{lines:?}");
        let lines = all(view.logs(&busy, 1, false)).await.unwrap();
        assert_eq!(lines.len(), 1, "{lines:?}");
        let lines: Vec<_> = view.logs(&terminal, 10, true).take(1).try_collect().await.unwrap();
        assert_eq!(texts(&lines), [(false, "hello")]);

        // Where the engine cannot read its control groups, its own command shows nothing either.
        let counted = engine.cli(&["stats", "--no-stream", "--format", "{{.MemUsage}}", busy.as_str()]);
        if counted.starts_with("0B ") {
            assert!(matches!(view.usage(&busy).await, Err(EngineFault::Unintelligible(_))));
        } else {
            let first = view.usage(&busy).await.unwrap();
            assert!(first.cpu_nanoseconds > 0 && first.memory_bytes > 0, "{first:?}");
            // A busy loop shows sooner or later.
            while view
                .usage(&busy)
                .await
                .unwrap()
                .cpu_percent_since(&first)
                .is_none_or(|percent| percent <= 0.0)
            {}
        }

        let shown = view.document(&busy).await.unwrap().to_string();
        assert!(shown.contains("MY_TOKEN=<redacted>") && !shown.contains("hunter2"), "{shown}");
    });
}
