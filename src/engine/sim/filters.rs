//! The `filters` of a request: which containers a list shows, which events a listener hears.

use std::collections::BTreeMap;

use regex_lite::Regex;
use serde_json::Value;

use super::event::Event;
use super::world::{Refusal, SimContainer, World};

/// Filters by key; values of one key are alternatives, except labels, which must all fit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Filters(BTreeMap<String, Vec<String>>);

const CONTAINER_KEYS: [&str; 16] = [
    "ancestor",
    "before",
    "exited",
    "expose",
    "health",
    "id",
    "is-task",
    "isolation",
    "label",
    "name",
    "network",
    "publish",
    "since",
    "status",
    "volume",
    "type",
];
const STATES: [&str; 7] = ["created", "running", "paused", "restarting", "removing", "exited", "dead"];

type Fits<'a> = Box<dyn Fn(&SimContainer) -> bool + 'a>;

impl Filters {
    /// Reads the JSON of the query parameter, in its new form and in the old one.
    pub(super) fn parse(text: Option<&str>) -> Result<Self, Refusal> {
        let Some(text) = text.filter(|text| !text.is_empty()) else { return Ok(Self::default()) };
        let unreadable = |why: String| Refusal::new(500, why);
        let value: Value = serde_json::from_str(text).map_err(|_| {
            let first = text.chars().next().unwrap_or_default();
            unreadable(format!("invalid character '{first}' looking for beginning of value"))
        })?;
        let Value::Object(keys) = value else { return Err(unreadable("invalid filter".to_owned())) };
        let values = |value: Value| match value {
            Value::Array(values) => {
                values.iter().filter_map(Value::as_str).map(str::to_owned).collect::<Vec<_>>()
            }
            Value::Object(values) => values
                .into_iter()
                .filter(|(_, on)| on == &Value::Bool(true))
                .map(|(value, _)| value)
                .collect(),
            _ => Vec::new(),
        };
        Ok(Self(keys.into_iter().map(|(key, value)| (key, values(value))).collect()))
    }

    pub(super) fn has(&self, key: &str) -> bool {
        self.0.contains_key(key)
    }

    fn of(&self, key: &str) -> &[String] {
        self.0.get(key).map(Vec::as_slice).unwrap_or_default()
    }

    /// What a container must be like to be listed.
    pub(super) fn for_containers<'a>(&'a self, world: &'a World) -> Result<Fits<'a>, Refusal> {
        if let Some(key) = self.0.keys().find(|key| !CONTAINER_KEYS.contains(&key.as_str())) {
            return Err(Refusal::new(400, format!("Invalid filter '{key}'")));
        }
        if let Some(state) = self.of("status").iter().find(|state| !STATES.contains(&state.as_str())) {
            return Err(Refusal::new(400, format!("Invalid filter 'status={state}'")));
        }
        let names: Vec<Regex> = self.of("name").iter().filter_map(|name| Regex::new(name).ok()).collect();
        let made = |key: &str| -> Result<Option<_>, Refusal> {
            self.of(key).first().map(|other| world.find(other).map(|it| it.created_at)).transpose()
        };
        let (before, since) = (made("before")?, made("since")?);
        let ancestors: Vec<Option<&str>> =
            self.of("ancestor").iter().map(|image| world.image(image).map(|it| it.id.as_str())).collect();
        Ok(Box::new(move |container: &SimContainer| {
            let any = |key: &str, fits: &dyn Fn(&str) -> bool| {
                let values = self.of(key);
                values.is_empty() || values.iter().any(|value| fits(value))
            };
            let network =
                container.host_config.get("NetworkMode").and_then(Value::as_str).unwrap_or("bridge");
            let name_fits = |name: &Regex| {
                name.is_match(&container.name) || name.is_match(&format!("/{}", container.name))
            };
            any("id", &|id| container.id.starts_with(id))
                && (names.is_empty() || names.iter().any(name_fits))
                && any("status", &|state| container.phase.word() == state)
                && any("exited", &|code| {
                    container.finished_at.is_some()
                        && !container.phase.is_up()
                        && container.exit_code.to_string() == code
                })
                && any("health", &|health| health == "none")
                && any("network", &|wanted| network == wanted)
                && any("volume", &|volume| has_mount(container, volume))
                && self.of("label").iter().all(|label| has_label(&container.labels, label))
                && before.is_none_or(|limit| container.created_at < limit)
                && since.is_none_or(|limit| container.created_at > limit)
                && (ancestors.is_empty() || ancestors.contains(&Some(container.image_id.as_str())))
        }))
    }

    /// Whether a listener hears an event.
    pub(super) fn hears(&self, event: &Event) -> bool {
        let any = |key: &str, fits: &dyn Fn(&str) -> bool| {
            let values = self.of(key);
            values.is_empty() || values.iter().any(|value| fits(value))
        };
        let name = event.attributes.get("name").map(String::as_str).unwrap_or_default();
        let plain_action = event.action.split(':').next().unwrap_or_default();
        any("type", &|kind| kind == event.kind)
            && any("event", &|action| action == event.action || action == plain_action)
            && any("container", &|who| {
                event.kind == "container" && (event.id.starts_with(who) || name == who)
            })
            && any("image", &|image| {
                event.image.as_deref() == Some(image) || (event.kind == "image" && event.id == image)
            })
            && self.of("label").iter().all(|label| has_label(&event.attributes, label))
    }
}

/// `key` or `key=value`.
fn has_label(labels: &BTreeMap<String, String>, wanted: &str) -> bool {
    match wanted.split_once('=') {
        Some((key, value)) => labels.get(key).is_some_and(|found| found == value),
        None => labels.contains_key(wanted),
    }
}

fn has_mount(container: &SimContainer, volume: &str) -> bool {
    super::json::mounts(container)
        .iter()
        .any(|mount| ["Name", "Source", "Destination"].iter().any(|key| mount[*key] == volume))
}
