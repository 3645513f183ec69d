//! The scene as data: which systems, containers and sessions there are, and what happens in the first minute.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Deserializer};

use super::DemoFault;
use crate::domain::span::parse_span;

/// The scene that comes with the program.
const SCENE: &str = include_str!("../../assets/demo/scene.toml");

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Script {
    pub(super) systems: Vec<System>,
    pub(super) containers: Vec<Part>,
    /// Sessions whose container is gone.
    pub(super) sessions: Vec<Widow>,
    pub(super) steps: Vec<Step>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct System {
    /// The profile that understands it.
    pub(super) name: String,
    pub(super) image: String,
    pub(super) command: Vec<String>,
    /// A label whose placeholder has no value is left out.
    pub(super) labels: BTreeMap<String, String>,
    #[serde(default)]
    pub(super) binds: Vec<String>,
    /// The current config hash.
    pub(super) hash: Option<String>,
    #[serde(default)]
    pub(super) stores: BTreeMap<String, StorePart>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StorePart {
    pub(super) kind: StoreKind,
    /// Below the home folder.
    pub(super) path: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum StoreKind {
    Native,
    Parachute,
    Hermes,
}

/// A container.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Part {
    pub(super) system: String,
    pub(super) name: String,
    pub(super) workspace: Option<String>,
    #[serde(default = "running")]
    pub(super) state: String,
    #[serde(default, deserialize_with = "span")]
    pub(super) age: Duration,
    /// It was made so lately that it counts as new until then.
    #[serde(default, deserialize_with = "some_span")]
    pub(super) new_until: Option<Duration>,
    pub(super) hash: Option<String>,
    pub(super) persistent: Option<bool>,
    pub(super) lifetime: Option<String>,
    pub(super) task: Option<String>,
    #[serde(default)]
    pub(super) exit_code: i32,
    /// How busy it is, in percent of one processor.
    #[serde(default)]
    pub(super) load: u32,
    /// Marked for eviction.
    #[serde(default)]
    pub(super) draining: bool,
    /// Made from an image that its tag no longer names.
    #[serde(default)]
    pub(super) old_image: bool,
    /// Does not listen to a polite stop.
    #[serde(default)]
    pub(super) stubborn: bool,
    /// A command that runs in it.
    #[serde(default)]
    pub(super) exec: Vec<String>,
    /// In place of the system's.
    #[serde(default)]
    pub(super) binds: Vec<String>,
    #[serde(default)]
    pub(super) tmpfs: Vec<String>,
    /// What it prints, again and again.
    #[serde(default)]
    pub(super) says: Vec<String>,
    #[serde(default = "default_store")]
    pub(super) store: String,
    #[serde(default)]
    pub(super) sessions: Vec<SessionPart>,
}

/// A session without a container.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Widow {
    pub(super) system: String,
    pub(super) container: String,
    pub(super) workspace: String,
    pub(super) session: SessionPart,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SessionPart {
    pub(super) id: String,
    pub(super) title: String,
    #[serde(default)]
    pub(super) state: SessionState,
    #[serde(default, deserialize_with = "span")]
    pub(super) age: Duration,
    #[serde(default, deserialize_with = "span")]
    pub(super) quiet: Duration,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum SessionState {
    #[default]
    Live,
    Idle,
    Ended,
}

/// Something that happens at a time after the beginning.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Step {
    #[serde(deserialize_with = "span")]
    pub(super) at: Duration,
    #[serde(flatten)]
    pub(super) deed: Deed,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "do", rename_all = "kebab-case")]
pub(super) enum Deed {
    StartSession {
        container: String,
        session: SessionPart,
    },
    EndSession {
        session: String,
    },
    /// Its row disappears.
    ForgetSession {
        session: String,
    },
    LoseContainer {
        container: String,
    },
    /// The gateway's timer removes a drained container.
    Evict {
        container: String,
    },
    /// The command in it ends, and with it the container.
    EndScan {
        container: String,
    },
    /// A table is missing for a while.
    Migrate {
        system: String,
        store: String,
        #[serde(rename = "for", deserialize_with = "span")]
        time: Duration,
    },
}

impl Script {
    /// Reads the scene.
    pub(super) fn load() -> Result<Self, DemoFault> {
        let mut script: Self = toml::from_str(SCENE).map_err(|error| DemoFault::Script(error.to_string()))?;
        script.steps.sort_by_key(|step| step.at);
        Ok(script)
    }

    pub(super) fn system(&self, name: &str) -> Option<&System> {
        self.systems.iter().find(|system| system.name == name)
    }
}

fn running() -> String {
    "running".to_owned()
}

fn default_store() -> String {
    "default".to_owned()
}

fn span<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    let text = String::deserialize(deserializer)?;
    parse_span(&text).map_err(serde::de::Error::custom)
}

fn some_span<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
    span(deserializer).map(Some)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn the_scene_is_whole() {
        let script = Script::load().unwrap();
        assert_eq!(script.systems.len(), 4);
        assert!((30..=36).contains(&script.containers.len()), "{}", script.containers.len());
        let names: HashSet<&str> = script.containers.iter().map(|part| part.name.as_str()).collect();
        assert_eq!(names.len(), script.containers.len(), "every name is used once");
        let ids: Vec<&str> = script
            .containers
            .iter()
            .flat_map(|part| &part.sessions)
            .map(|session| session.id.as_str())
            .collect();
        for part in &script.containers {
            let system = script.system(&part.system).expect("its system");
            assert!(part.sessions.is_empty() || system.stores.contains_key(&part.store), "{}", part.name);
        }
        for Step { at, deed } in &script.steps {
            assert!(*at < Duration::from_mins(1), "the first minute is over at {at:?}");
            match deed {
                Deed::StartSession { container, .. }
                | Deed::LoseContainer { container }
                | Deed::Evict { container }
                | Deed::EndScan { container } => assert!(names.contains(container.as_str()), "{container}"),
                Deed::EndSession { session } | Deed::ForgetSession { session } => {
                    assert!(ids.contains(&session.as_str()), "{session}");
                }
                Deed::Migrate { system, store, .. } => {
                    assert!(script.system(system).is_some_and(|system| system.stores.contains_key(store)));
                }
            }
        }
    }
}
