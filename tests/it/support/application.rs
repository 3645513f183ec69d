//! An application that tells of its sessions over HTTP, as today's Parachute does, and every way in which it can fail to.

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use serde_json::{Value, json};

use super::stores::iso_ago;

/// How it answers.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Mood {
    Good,
    /// With this status, whatever is asked.
    Status(u16),
    /// Not at all, with the connection open.
    Hang,
    /// With half of the body, and then nothing more.
    Stall,
    /// With half of the body, and then the end.
    Half,
    /// With half of the JSON, as if that were all of it.
    HalfJson,
    /// With this text.
    Text(String),
}

#[derive(Default)]
struct State {
    answers: BTreeMap<String, Value>,
    mood: Option<Mood>,
    /// The question that the mood is about; `None` means all.
    about: Option<String>,
    key: Option<String>,
    asked: Vec<String>,
    held: Vec<TcpStream>,
    /// What happens right after the open sessions were told.
    after_open: Option<AfterOpen>,
}

/// What happens between two questions.
enum AfterOpen {
    /// The archived sessions become open ones, once.
    Unarchive,
    /// Another session begins, each time.
    Begin,
}

/// The application. It listens until the test ends.
pub(crate) struct Application {
    address: SocketAddr,
    state: Arc<Mutex<State>>,
}

const CONTAINERS: &str = "/api/containers";
const OPEN: &str = "/api/chat?archived=false&limit=1000";
const ARCHIVED: &str = "/api/chat?archived=true&limit=1000";
const STREAMS: &str = "/api/chat/active-streams";

impl Application {
    /// Today's Parachute, without environments and sessions.
    pub(crate) fn parachute() -> Self {
        let application = Self::start();
        application.answer(CONTAINERS, json!({ "containers": [] }));
        application.answer(OPEN, json!({ "sessions": [] }));
        application.answer(ARCHIVED, json!({ "sessions": [] }));
        application.answer(STREAMS, json!({ "streams": [] }));
        application
    }

    /// An application that knows nothing yet.
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::new(Mutex::new(State::default()));
        let serving = Arc::clone(&state);
        thread::spawn(move || {
            for caller in listener.incoming().map_while(Result::ok) {
                let state = Arc::clone(&serving);
                thread::spawn(move || serve(&caller, &state));
            }
        });
        Self { address, state }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// `--db` for a system.
    pub(crate) fn named(&self, system: &str) -> String {
        format!("{system}={}", self.url())
    }

    pub(crate) fn answer(&self, target: &str, answer: Value) {
        self.state.lock().unwrap().answers.insert(target.to_owned(), answer);
    }

    pub(crate) fn mood(&self, mood: Mood) {
        let mut state = self.state.lock().unwrap();
        state.mood = Some(mood);
        state.about = None;
    }

    /// The mood, for one question only.
    pub(crate) fn mood_about(&self, target: &str, mood: Mood) {
        let mut state = self.state.lock().unwrap();
        state.mood = Some(mood);
        state.about = Some(target.to_owned());
    }

    /// Whether it keeps somebody waiting for ever.
    pub(crate) fn hangs(&self) -> bool {
        matches!(self.state.lock().unwrap().mood, Some(Mood::Hang | Mood::Stall))
    }

    /// From now on `X-API-Key` must be this.
    pub(crate) fn require_key(&self, key: &str) {
        self.state.lock().unwrap().key = Some(key.to_owned());
    }

    /// Every question so far.
    pub(crate) fn asked(&self) -> Vec<String> {
        self.state.lock().unwrap().asked.clone()
    }

    pub(crate) fn environment(&self, slug: &str) {
        self.push(
            CONTAINERS,
            "containers",
            json!({ "slug": slug, "displayName": slug, "createdAt": iso_ago(3 * 86_400) }),
        );
    }

    /// A session in an environment, or in none.
    pub(crate) fn session(&self, id: &str, environment: Option<&str>, accessed_ago: f64) {
        self.push(OPEN, "sessions", session(id, environment, accessed_ago, false));
    }

    pub(crate) fn archived(&self, id: &str, environment: Option<&str>, accessed_ago: f64) {
        self.push(ARCHIVED, "sessions", session(id, environment, accessed_ago, true));
    }

    /// After the next time that the open sessions are told, all archived ones become open.
    pub(crate) fn unarchives_between_two_questions(&self) {
        self.state.lock().unwrap().after_open = Some(AfterOpen::Unarchive);
    }

    /// Each time that the open sessions are told, another one begins.
    pub(crate) fn never_says_the_same_twice(&self) {
        self.state.lock().unwrap().after_open = Some(AfterOpen::Begin);
    }

    /// Sessions in which a turn runs, all of them.
    pub(crate) fn streams(&self, ids: &[&str]) {
        self.answer(STREAMS, json!({ "streams": ids }));
    }

    pub(crate) fn push(&self, target: &str, list: &str, row: Value) {
        let mut state = self.state.lock().unwrap();
        state.answers.get_mut(target).unwrap()[list].as_array_mut().unwrap().push(row);
    }
}

impl State {
    fn go_on(&mut self) {
        let number = self.asked.len();
        let add = |state: &mut Self, row: Value| {
            state.answers.get_mut(OPEN).unwrap()["sessions"].as_array_mut().unwrap().push(row);
        };
        match self.after_open {
            None => {}
            Some(AfterOpen::Unarchive) => {
                self.after_open = None;
                let archived = self.answers.get_mut(ARCHIVED).unwrap()["sessions"].take();
                self.answers.insert(ARCHIVED.to_owned(), json!({ "sessions": [] }));
                archived.as_array().unwrap().iter().for_each(|row| add(self, row.clone()));
            }
            Some(AfterOpen::Begin) => add(self, session(&format!("new-{number}"), None, 7200.0, false)),
        }
    }
}

fn session(id: &str, environment: Option<&str>, accessed_ago: f64, archived: bool) -> Value {
    json!({
        "id": id, "title": format!("about {id}"), "module": "chat", "source": "parachute", "archived": archived,
        "trustLevel": "sandboxed", "containerId": environment, "messageCount": 3, "metadata": { "a": 1 },
        "createdAt": iso_ago(accessed_ago + 60.0), "lastAccessed": iso_ago(accessed_ago),
    })
}

fn serve(mut caller: &TcpStream, state: &Mutex<State>) -> io::Result<()> {
    let mut reader = BufReader::new(caller.try_clone()?);
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 {
            return Ok(());
        }
        let target = line.split(' ').nth(1).unwrap_or_default().to_owned();
        let asked = format!("{} {target}", line.split(' ').next().unwrap_or_default());
        let mut key = None;
        loop {
            line.clear();
            if reader.read_line(&mut line)? == 0 || line.trim().is_empty() {
                break;
            }
            if let Some((name, value)) = line.split_once(':')
                && name.eq_ignore_ascii_case("x-api-key")
            {
                key = Some(value.trim().to_owned());
            }
        }
        let mut state = state.lock().unwrap();
        state.asked.push(asked);
        let about = state.about.as_ref().is_none_or(|about| *about == target);
        let mood = state.mood.clone().filter(|_| about).unwrap_or(Mood::Good);
        if mood == Mood::Hang {
            state.held.push(caller.try_clone()?);
            return Ok(());
        }
        let (status, body) = if state.key.is_some() && state.key != key {
            (401, json!({ "detail": "Invalid API key" }).to_string())
        } else {
            match (&mood, state.answers.get(&target)) {
                (Mood::Status(status), _) => (*status, json!({ "detail": "no" }).to_string()),
                (Mood::Text(text), _) => (200, text.clone()),
                (_, Some(answer)) => (200, answer.to_string()),
                (_, None) => (404, json!({ "detail": "Not Found" }).to_string()),
            }
        };
        if target == OPEN {
            state.go_on();
        }
        let half = &body[..body.len() / 2];
        let length = if mood == Mood::HalfJson { half.len() } else { body.len() };
        let head = format!(
            "HTTP/1.1 {status} Whatever\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n"
        );
        let sent = if matches!(mood, Mood::Half | Mood::Stall | Mood::HalfJson) { half } else { &body };
        caller.write_all(format!("{head}{sent}").as_bytes())?;
        match mood {
            Mood::Half => return caller.shutdown(std::net::Shutdown::Both),
            Mood::Stall => {
                state.held.push(caller.try_clone()?);
                return Ok(());
            }
            _ => {}
        }
    }
}
