//! Events: what happened on the simulated host, for whoever listens and for those who ask afterwards.

use std::collections::{BTreeMap, VecDeque};

use jiff::Timestamp;
use serde_json::{Value, json};

/// As many as the real engine keeps.
const KEPT: usize = 256;

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// `container` or `image`.
    pub kind: &'static str,
    /// What happened.
    pub action: String,
    /// To whom.
    pub id: String,
    /// The image of the container it happened to.
    pub image: Option<String>,
    /// Labels, name, and what belongs to the action.
    pub attributes: BTreeMap<String, String>,
    /// When.
    pub at: Timestamp,
}

impl Event {
    /// As the engine writes it.
    pub(super) fn json(&self) -> Value {
        let mut event = json!({
            "status": self.action, "id": self.id, "Type": self.kind, "Action": self.action,
            "Actor": { "ID": self.id, "Attributes": self.attributes }, "scope": "local",
            "time": self.at.as_second(), "timeNano": i64::try_from(self.at.as_nanosecond()).unwrap_or(i64::MAX),
        });
        if let (Some(image), Some(event)) = (&self.image, event.as_object_mut()) {
            event.insert("from".to_owned(), Value::String(image.clone()));
        }
        event
    }
}

/// The newest events, each with its number.
#[derive(Clone, Debug, Default)]
pub(super) struct Events {
    kept: VecDeque<Event>,
    /// How many there have been before the first one that is kept.
    forgotten: u64,
}

impl Events {
    pub(super) fn push(&mut self, event: Event) {
        self.kept.push_back(event);
        if self.kept.len() > KEPT {
            self.kept.pop_front();
            self.forgotten += 1;
        }
    }

    /// The number that the next event gets.
    pub(super) fn next_number(&self) -> u64 {
        self.forgotten + u64::try_from(self.kept.len()).unwrap_or_default()
    }

    /// The events from this number on. Whoever is too slow misses some, as on a real engine.
    pub(super) fn from(&self, number: u64) -> impl Iterator<Item = &Event> {
        let known = usize::try_from(number.saturating_sub(self.forgotten)).unwrap_or(usize::MAX);
        self.kept.iter().skip(known)
    }

    /// Nobody remembers any of them; listeners miss nothing that comes.
    pub(super) fn forget(&mut self) {
        self.forgotten = self.next_number();
        self.kept.clear();
    }
}
