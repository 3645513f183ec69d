//! What clients may know of the engine's documents: no secrets, and no containers that are not theirs to see.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;
use serde_json::value::RawValue;

use super::Gate;
use crate::domain::Labels;
use crate::domain::container::{Container, ContainerId, ContainerState, Inspected, Joins, Row};
use crate::domain::profile::{Match, Profile};
use crate::engine::decode;
use crate::engine::redact::Redactor;

/// Longer than any sentence of an engine's.
const LONGEST_REFUSAL: usize = 500;

/// The rules of a gate for documents.
pub(super) struct Documents<'a> {
    redactor: &'a Redactor,
    only: Option<&'a [Arc<Profile>]>,
}

impl<'a> Documents<'a> {
    pub(super) fn of(gate: &'a Gate) -> Self {
        Self { redactor: &gate.redactor, only: gate.only.as_deref() }
    }

    /// One document. `None` if it is not JSON.
    pub(super) fn object(&self, body: &[u8]) -> Option<Vec<u8>> {
        let mut document: Value = serde_json::from_slice(body).ok()?;
        self.redactor.redact(&mut document);
        serde_json::to_vec(&document).ok()
    }

    /// A list of containers, row by row: all of them at once would take many times their length. `None` if it is no list.
    pub(super) fn list(&self, body: &[u8]) -> Option<Vec<u8>> {
        let rows: Vec<&RawValue> = serde_json::from_slice(body).ok()?;
        let mut told = Vec::with_capacity(body.len());
        told.push(b'[');
        for row in rows.iter().filter(|row| self.shows_row(row.get())) {
            if told.len() > 1 {
                told.push(b',');
            }
            // A row that cannot be read must stay one: a missing container is taken for one that is gone.
            match self.object(row.get().as_bytes()) {
                Some(row) => told.extend_from_slice(&row),
                None => told.extend_from_slice(b"{}"),
            }
        }
        told.push(b']');
        Some(told)
    }

    fn shows_row(&self, row: &str) -> bool {
        let Some(profiles) = self.only else { return true };
        match decode::row(row) {
            Row::Container(container) => self.shows(&container),
            Row::Unreadable(row) => {
                let labels = row.labels.as_ref();
                labels.is_some_and(|labels| profiles.iter().any(|profile| profile.matches_labels(labels)))
            }
        }
    }

    fn shows(&self, container: &Container) -> bool {
        let ours = |profile: &Arc<Profile>| !matches!(profile.recognise(container), Match::Foreign);
        self.only.is_none_or(|profiles| profiles.iter().any(ours))
    }

    /// The id of an inspected container, if clients may know of it.
    pub(super) fn visible_id(&self, inspection: &[u8]) -> Option<ContainerId> {
        let container = decode::inspect(inspection).ok()?.container;
        self.shows(&container).then_some(container.id)
    }

    /// One event; `None` if it is none, or about a container that clients may not know of.
    pub(super) fn event(&self, line: &[u8]) -> Option<Vec<u8>> {
        let mut event: Value = serde_json::from_slice(line).ok()?;
        if self.only.is_some() {
            match event.get("Type").and_then(Value::as_str) {
                Some("image") => {}
                Some("container") if self.shows(&subject(&event)?) => {}
                _ => return None,
            }
        }
        self.redactor.redact(&mut event);
        serde_json::to_vec(&event).ok()
    }

    /// The sentence with which the engine refuses.
    pub(super) fn refusal(&self, body: &[u8]) -> String {
        let parsed = serde_json::from_slice::<Value>(body).ok();
        let words = parsed.as_ref().and_then(|value| value.get("message")?.as_str().map(str::to_owned));
        let words = words.unwrap_or_else(|| String::from_utf8_lossy(body).trim().to_owned());
        let mut words = Value::from(words.chars().take(LONGEST_REFUSAL).collect::<String>());
        self.redactor.redact(&mut words);
        words.as_str().unwrap_or_default().to_owned()
    }
}

/// The container an event is about, as far as the event describes it: labels and name stand among its attributes.
fn subject(event: &Value) -> Option<Container> {
    let actor = event.get("Actor")?;
    let attributes = actor.get("Attributes")?.as_object()?;
    let labels: Labels = attributes.iter().filter_map(|(key, value)| Some((key, value.as_str()?))).collect();
    Some(Container {
        id: ContainerId::parse(actor.get("ID")?.as_str()?)?,
        name: labels.get("name").unwrap_or_default().to_owned(),
        image: labels.get("image").unwrap_or_default().into(),
        image_id: "".into(),
        state: ContainerState::parse("running"),
        created_at: Timestamp::UNIX_EPOCH,
        mounts: Arc::default(),
        labels,
        joins: Joins::NotAsked,
        inspected: Inspected::NotNeeded,
    })
}

/// In which container a command runs, by its inspection.
pub(super) fn container_of_command(inspection: &[u8]) -> Option<String> {
    let document: Value = serde_json::from_slice(inspection).ok()?;
    document.get("ContainerID")?.as_str().map(str::to_owned)
}
