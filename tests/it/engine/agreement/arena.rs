//! The arena of the agreement suite: one engine, simulated or real, and short words for what the cases do to it.

use std::collections::BTreeMap;

use jiff::Timestamp;
use sandkeeper::engine::sim::{SimClock, SimEngine, World};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::answer::Answer;
use crate::support::client::Client;
use crate::support::engine::{Exclusive, IMAGE, NETWORK, RealEngine, could_not_freeze};
use crate::support::wait_until;

/// Runs until it is told to end, and then ends with code 3.
pub(crate) const LISTENS: &str = "trap 'exit 3' TERM; while :; do sleep 0.1; done";

/// An engine that nobody else uses.
pub(crate) struct Arena {
    client: Client,
    engine: Engine,
}

enum Engine {
    Simulated { _engine: SimEngine, _folder: TempDir },
    Real { _engine: Exclusive },
}

impl Arena {
    pub(crate) fn simulated() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut world = World::new(1);
        world.build(Timestamp::now(), IMAGE, BTreeMap::new());
        let engine =
            SimEngine::start(&folder.path().join("engine.sock"), world, SimClock::wall(), 1).unwrap();
        let client = Client::new(engine.socket());
        Self { client, engine: Engine::Simulated { _engine: engine, _folder: folder } }
    }

    pub(crate) fn docker() -> Self {
        let engine = RealEngine::docker().exclusive();
        let client = Client::new(engine.socket());
        Self { client, engine: Engine::Real { _engine: engine } }
    }

    #[track_caller]
    pub(crate) fn get(&self, target: &str) -> Answer {
        self.client.ask("GET", target, None)
    }

    #[track_caller]
    pub(crate) fn post(&self, target: &str) -> Answer {
        self.client.ask("POST", target, None)
    }

    #[track_caller]
    pub(crate) fn send(&self, target: &str, body: &Value) -> Answer {
        self.client.ask("POST", target, Some(body))
    }

    #[track_caller]
    pub(crate) fn delete(&self, target: &str) -> Answer {
        self.client.ask("DELETE", target, None)
    }

    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    /// Expects a status of a `POST /containers/{id}/{what}`.
    #[track_caller]
    pub(crate) fn expect(&self, status: u16, id: &str, what: &str) -> Answer {
        assert!((status, what) != (204, "pause"), "`pause` asks again when the runtime could not freeze it");
        let answer = self.post(&format!("/containers/{id}/{what}"));
        assert_eq!(answer.status, status, "{what}: {}", answer.text());
        answer
    }

    #[track_caller]
    pub(crate) fn pause(&self, id: &str) {
        wait_until(&format!("{id} is paused"), || {
            let answer = self.post(&format!("/containers/{id}/pause"));
            let message = answer.text();
            assert!(answer.status == 204 || could_not_freeze(&message), "pause: {message}");
            answer.status == 204
        });
    }

    /// What is asked for to make a container that runs this script.
    pub(crate) fn body(script: &str) -> Value {
        json!({
            "Image": IMAGE, "Cmd": ["sh", "-c", script], "HostConfig": { "NetworkMode": NETWORK },
        })
    }

    /// Makes a container that runs a script, with more or other wishes.
    #[track_caller]
    pub(crate) fn create_with(&self, name: &str, script: &str, wishes: &Value) -> String {
        let mut body = Self::body(script);
        merge(&mut body, wishes);
        let answer = self.send(&format!("/containers/create?name={name}"), &body);
        assert_eq!(answer.status, 201, "{}", answer.text());
        answer.json()["Id"].as_str().unwrap().to_owned()
    }

    #[track_caller]
    pub(crate) fn create(&self, name: &str, script: &str) -> String {
        self.create_with(name, script, &json!({}))
    }

    /// A container whose script runs. A shell is told to listen before anybody may speak to it.
    #[track_caller]
    pub(crate) fn running(&self, name: &str, script: &str) -> String {
        self.running_with(name, script, &json!({}))
    }

    #[track_caller]
    pub(crate) fn running_with(&self, name: &str, script: &str, wishes: &Value) -> String {
        let id = self.create_with(name, script, wishes);
        self.expect(204, &id, "start");
        self.wait_for_script(&id, if script.starts_with("trap") { 2 } else { 1 });
        id
    }

    /// A real engine answers a start while the runtime's own process, which heeds other signals, is still there. And a shell
    /// sets its traps before it runs its first command.
    fn wait_for_script(&self, id: &str, at_least: usize) {
        wait_until("the script runs and has set its traps", || {
            let top = self.get(&format!("/containers/{id}/top")).json();
            let processes = top["Processes"].as_array().map_or(&[][..], Vec::as_slice);
            let is_runtime = |process: &Value| process.to_string().to_lowercase().contains("init");
            // The simulated shell is always ready.
            matches!(self.engine, Engine::Simulated { .. })
                || (processes.len() >= at_least && !processes.iter().any(is_runtime))
        });
    }

    /// A container that ran and has ended with this code.
    #[track_caller]
    pub(crate) fn exited(&self, name: &str, code: u8) -> String {
        let id = self.create(name, &format!("exit {code}"));
        self.expect(204, &id, "start");
        self.wait_for_state(&id, "exited");
        id
    }

    #[track_caller]
    pub(crate) fn inspect(&self, id: &str) -> Value {
        let answer = self.get(&format!("/containers/{id}/json"));
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.json()
    }

    pub(crate) fn is_gone(&self, id: &str) -> bool {
        self.get(&format!("/containers/{id}/json")).status == 404
    }

    #[track_caller]
    pub(crate) fn state(&self, id: &str) -> String {
        self.inspect(id)["State"]["Status"].as_str().unwrap().to_owned()
    }

    #[track_caller]
    pub(crate) fn exit_code(&self, id: &str) -> i64 {
        self.inspect(id)["State"]["ExitCode"].as_i64().unwrap()
    }

    #[track_caller]
    pub(crate) fn wait_for_state(&self, id: &str, state: &str) {
        wait_until(&format!("{id} is {state}"), || self.state(id) == state);
    }

    #[track_caller]
    pub(crate) fn wait_until_gone(&self, id: &str) {
        wait_until(&format!("{id} is gone"), || self.is_gone(id));
    }

    /// What happened to a container so far, in order; a signal or exit code stands behind a colon. Looking at processes
    /// is left out, and a pause that is told again is told once.
    #[track_caller]
    pub(crate) fn events_of(&self, id: &str) -> Vec<String> {
        let filters = json!({ "type": ["container"], "container": [id] });
        let events = self.events("1", &filters);
        pauses_once(events.iter().map(told).filter(|told| told != "top"))
    }

    /// Expects that exactly this happened to a container. An engine may tell of it a moment after it shows it.
    #[track_caller]
    pub(crate) fn expect_events(&self, id: &str, expected: &[&str]) {
        wait_until(&format!("{expected:?} is told of {id}"), || self.events_of(id).len() >= expected.len());
        assert_eq!(self.events_of(id), expected);
    }

    /// Everything that happened since a time and fits.
    #[track_caller]
    pub(crate) fn events(&self, since: &str, filters: &Value) -> Vec<Value> {
        let until = nanoseconds(Timestamp::now());
        let target = format!("/events?since={since}&until={until}&filters={}", encoded(&filters.to_string()));
        let answer = self.get(&target);
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.json_lines()
    }

    /// The names that a list with these filters shows, sorted.
    #[track_caller]
    pub(crate) fn names(&self, query: &str, filters: &Value) -> Vec<String> {
        let answer = self.get(&format!("/containers/json?{query}&filters={}", encoded(&filters.to_string())));
        assert_eq!(answer.status, 200, "{}", answer.text());
        let mut names: Vec<String> = answer
            .json()
            .as_array()
            .unwrap()
            .iter()
            .map(|row| row["Names"][0].as_str().unwrap().trim_start_matches('/').to_owned())
            .collect();
        names.sort();
        names
    }
}

/// An event in short: what happened, and the signal or exit code if there is one.
pub(crate) fn told(event: &Value) -> String {
    let action = event["Action"].as_str().unwrap();
    let attributes = &event["Actor"]["Attributes"];
    let detail = ["signal", "exitCode"].iter().find_map(|key| attributes[*key].as_str());
    detail.map_or(action.to_owned(), |detail| format!("{action}:{detail}"))
}

/// The same without pauses that are told again. An engine hears from its runtime as well that somebody paused. Hearing it
/// late, when the container runs again, it takes that for another pause and tells of it a second time. On a busy machine a
/// pause can also fail half-way, and is told then.
pub(crate) fn pauses_once(events: impl IntoIterator<Item = String>) -> Vec<String> {
    let mut once: Vec<String> = Vec::new();
    for event in events {
        once.push(event);
        if once.ends_with(&["pause", "unpause", "pause", "unpause"].map(str::to_owned)) {
            once.truncate(once.len() - 2);
        }
    }
    once
}

/// A time as the engines' query parameters want it.
pub(crate) fn nanoseconds(at: Timestamp) -> String {
    format!("{}.{:09}", at.as_second(), at.subsec_nanosecond())
}

pub(crate) fn encoded(text: &str) -> String {
    text.bytes()
        .map(|byte| match byte {
            byte if byte.is_ascii_alphanumeric() => char::from(byte).to_string(),
            byte => format!("%{byte:02X}"),
        })
        .collect()
}

/// Puts the second over the first, objects into objects.
fn merge(under: &mut Value, over: &Value) {
    match (under, over) {
        (Value::Object(under), Value::Object(over)) => {
            for (key, value) in over {
                merge(under.entry(key.clone()).or_insert(Value::Null), value);
            }
        }
        (under, over) => *under = over.clone(),
    }
}
