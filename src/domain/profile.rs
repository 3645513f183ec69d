//! Profiles: how to recognise a system's containers, how to read its sessions, what its rules are.
//!
//! This is the checked form. Reading it from TOML, with errors that name the line, is the work of
//! [`crate::profiles`].

mod labels;
mod over;
pub mod record;
mod store;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use regex_lite::Regex;
use serde::{Serialize, Serializer};

use super::container::{Container, ContainerState};
use super::labels::Labels;
use super::session::{LiveRule, Session};
use super::span::parse_span;
use super::template::{Field, Template};
pub use over::{BindPattern, Over};
pub use store::{
    HttpKey, HttpRequest, HttpRows, HttpRule, Query, StoreKind, StorePath, StoreRule, TimeFormat,
};

/// The name of a system, such as `parachute`: the name of its profile.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SystemName(Arc<str>);

impl SystemName {
    /// Wraps a name.
    pub fn new(name: &str) -> Self {
        Self(name.into())
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for SystemName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl Serialize for SystemName {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

/// How a system's containers are recognised: every label, and one of the name patterns if there are any.
#[derive(Clone, Debug)]
pub struct Recognition {
    /// Labels that must be there with exactly these values; `*` stands for any.
    pub labels: BTreeMap<String, String>,
    /// Anchored patterns of which the name must match one; none means any name.
    pub names: Vec<Regex>,
    /// Containers that are the system's, but whose sessions this profile cannot read.
    pub undecidable: Vec<Undecidable>,
    /// What mounts tell: named captures of their sources. They need not be there.
    pub mounts: Vec<MountPattern>,
}

/// What the source of a bind mount tells.
#[derive(Clone, Debug)]
pub struct MountPattern {
    /// The path inside the container.
    pub target: String,
    /// Anchored pattern of the source, with the captures that `{mount.…}` refers to.
    pub source: Regex,
}

/// Tells apart installations that keep a store each: the container and its store fill the same key.
#[derive(Clone, Debug)]
pub struct Home {
    /// The container's side: the first of these that can be filled.
    pub container: Vec<Template>,
    /// The store's side.
    pub store: Template,
}

/// A form of container that is recognised but cannot be judged. Everything that is given must hold.
#[derive(Clone, Debug)]
pub struct Undecidable {
    /// Anchored name pattern.
    pub name: Option<Regex>,
    /// Labels, as in [`Recognition::labels`].
    pub labels: BTreeMap<String, String>,
    /// Only while its processes run; a paused one's wait.
    pub running: bool,
    /// Why it cannot be judged, as a sentence without a full stop.
    pub why: String,
}

impl Undecidable {
    fn holds(&self, container: &Container) -> bool {
        has_labels(&self.labels, &container.labels)
            && (!self.running
                || matches!(container.state, ContainerState::Running | ContainerState::Restarting))
            && self.name.as_ref().is_none_or(|name| name.is_match(&container.name))
    }
}

/// What a profile asks of a label that may have any value.
const ANY_VALUE: &str = "*";

/// Whether all of the wanted labels are there, each with its value.
fn has_labels(wanted: &BTreeMap<String, String>, labels: &Labels) -> bool {
    wanted
        .iter()
        .all(|(key, value)| labels.get(key).is_some_and(|found| found == value || value == ANY_VALUE))
}

/// Whether a container outlives its sessions.
#[derive(Clone, Debug, Default)]
pub struct Persistence {
    /// A label that says `true` or `false`.
    pub label: Option<String>,
    /// A path inside the container: a bind mount there means persistent, anything else means not.
    pub bind_on: Option<String>,
    /// What holds when neither says anything.
    pub default: bool,
}

/// How long a container may be quiet before it is stale.
#[derive(Clone, Debug, Default)]
pub struct Lifetime {
    /// A label such as `15m`.
    pub label: Option<String>,
    /// The system's own configuration, of which each store has one.
    pub file: Option<LifetimeFile>,
    /// The profile's own; the policy's default holds without it.
    pub default: Option<Duration>,
}

/// A length of time that stands in a configuration file of the system.
#[derive(Clone, Debug)]
pub struct LifetimeFile {
    /// Where the file is, relative to what the store tells.
    pub path: Template,
    /// The key, with a dot between its levels; the value is in seconds or a length such as `15m`.
    pub key: String,
}

/// Where the current config hash comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExpectedHash {
    /// The newest container of the system carries the current one.
    Newest,
    /// It is written in the profile.
    Literal(String),
}

/// The config-hash rule.
#[derive(Clone, Debug)]
pub struct HashRule {
    /// The label that carries the hash.
    pub label: String,
    /// What it is compared with.
    pub expected: ExpectedHash,
}

/// Which sessions may be reported as having lost their container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LostRule {
    /// None: this link does not mean that the session needs a container.
    Never,
    /// Live sessions.
    Live,
    /// Every session that has not ended.
    Open,
}

/// One way in which a session claims a container: both sides are filled, and equal keys mean a claim.
#[derive(Clone, Debug)]
pub struct Link {
    /// The session's side.
    pub session: Template,
    /// The container's side: any of these.
    pub container: Vec<Template>,
    /// The link does not count for sessions for which this has a value.
    pub unless: Option<Template>,
    /// The link counts for persistent (`true`) or non-persistent (`false`) containers only.
    pub only_persistent: Option<bool>,
    /// Whether a session whose key no container has is lost.
    pub lost: LostRule,
}

/// What may be done about lost containers of a system.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recovery {
    /// How lasting containers are made may be recorded, so that they can be made again. Their environment is part of it.
    pub record: bool,
    /// What is lost while a session is live is brought back without anybody asking.
    pub heal: bool,
}

/// A checked profile.
#[derive(Clone, Debug)]
pub struct Profile {
    /// The system's name.
    pub name: SystemName,
    /// One sentence for `profiles list`.
    pub description: String,
    /// How its containers are recognised.
    pub recognition: Recognition,
    /// Templates of which the first that can be filled names the workspace.
    pub workspace: Vec<Template>,
    /// Which installation made the container, for systems that say so.
    pub instance: Option<Template>,
    /// Which of several stores a container belongs to, for systems that keep one per installation.
    pub home: Option<Home>,
    /// Whether containers outlive their sessions.
    pub persistence: Persistence,
    /// How long they may be quiet.
    pub lifetime: Lifetime,
    /// Where the system keeps a folder for each of its sandboxes, by what its store tells.
    pub folders: Option<Template>,
    /// Names of containers, as templates: while one of them runs, so does whatever this one belongs to.
    pub companions: Vec<Template>,
    /// Anchored patterns of the command lines that run in a container at rest, beyond what is known to wait. If its first
    /// process is one of these, whatever else runs in it is somebody's work.
    pub at_rest: Vec<Regex>,
    /// What shows that an unclaimed container is over; without it being unclaimed is enough.
    pub over: Option<Over>,
    /// How an outdated configuration is told.
    pub config_hash: Option<HashRule>,
    /// Whether a moved image tag makes a container outdated.
    pub image_drift: bool,
    /// How long a graceful stop waits; the policy's default holds without it.
    pub stop_grace: Option<Duration>,
    /// What may be done about lost containers.
    pub recovery: Recovery,
    /// Where the sessions are; nowhere for systems that keep none.
    pub stores: Vec<StoreRule>,
    /// How sessions claim containers.
    pub links: Vec<Link>,
    /// Which sessions are live.
    pub live: LiveRule,
    /// Whether the system ends sessions by deleting them from its store.
    pub ends_by_deleting: bool,
}

/// What a profile makes of a container.
#[derive(Clone, Debug)]
pub enum Match<'a> {
    /// Not this system's.
    Foreign,
    /// This system's.
    Ours(Recognised<'a>),
    /// This system's by its labels, but the engine gave no name: neither the patterns nor the sessions that name
    /// their container could be compared with it.
    Nameless,
}

/// A container through the eyes of the profile that recognised it.
#[derive(Clone, Debug)]
pub struct Recognised<'a> {
    container: &'a Container,
    captures: Vec<(&'a str, &'a str)>,
    mounts: Vec<(&'a str, &'a str)>,
    /// Why it cannot be judged, for forms whose sessions the profile cannot read.
    pub undecidable: Option<&'a str>,
}

/// Placeholders that a container can fill.
pub const CONTAINER_PLACEHOLDERS: &[&str] = &["name", "id", "short_id", "image", "label.", "name.", "mount."];
/// Placeholders that a session can fill.
pub const SESSION_PLACEHOLDERS: &[&str] = &["id", "workspace", "container", "store."];
/// Placeholders that a store can fill; `{store.folder}` is the folder it is in.
pub const STORE_PLACEHOLDERS: &[&str] = &["store."];

impl Profile {
    /// Whether labels alone make it this system's; all that can be asked of a row that is not readable whole.
    pub fn matches_labels(&self, labels: &Labels) -> bool {
        has_labels(&self.recognition.labels, labels)
    }

    /// Whether this container is the system's.
    pub fn recognise<'a>(&'a self, container: &'a Container) -> Match<'a> {
        if !self.matches_labels(&container.labels) {
            return Match::Foreign;
        }
        let ours = |captures, undecidable| {
            let mounts = self.recognition.mounts.iter().filter_map(|pattern| pattern.captures_of(container));
            let mounts = mounts.flatten().collect();
            Match::Ours(Recognised { container, captures, mounts, undecidable })
        };
        if container.name.is_empty() {
            return Match::Nameless;
        }
        let undecidable = self.recognition.undecidable.iter().find(|form| form.holds(container));
        let why = undecidable.map(|form| form.why.as_str());
        let of_form = undecidable.and_then(|form| form.name.as_ref());
        let patterns = of_form.into_iter().chain(&self.recognition.names);
        let found = patterns.into_iter().find_map(|pattern| captures_of(pattern, &container.name));
        match found {
            Some(captures) => ours(captures, why),
            None if self.recognition.names.is_empty() => ours(Vec::new(), why),
            None => Match::Foreign,
        }
    }

    /// The first workspace template that can be filled.
    pub fn workspace_of(&self, recognised: &Recognised<'_>) -> Option<String> {
        self.workspace.iter().find_map(|template| recognised.fill(template)).map(Cow::into_owned)
    }

    /// Whether the container outlives its sessions: its label, its mounts, else the profile's rule.
    /// A label that cannot be read is an error: its author meant something.
    pub fn persistence_of(&self, container: &Container) -> Result<bool, String> {
        match self.persistence.label.as_ref().and_then(|key| Some((key, container.labels.get(key)?))) {
            Some((key, text)) => match text {
                "true" => Ok(true),
                "false" => Ok(false),
                _ => Err(format!("label {key}: `{text}` is neither `true` nor `false`")),
            },
            None => Ok(match &self.persistence.bind_on {
                Some(target) => container.mounts.iter().any(|m| m.kind == "bind" && &m.target == target),
                None => self.persistence.default,
            }),
        }
    }

    /// How long the container may be quiet: its label, its store's configuration, the profile's rule, else `fallback`.
    /// A label that cannot be read is an error: its author meant something.
    pub fn lifetime_of(
        &self,
        container: &Container,
        of_store: Option<Duration>,
        fallback: Duration,
    ) -> Result<Duration, String> {
        match self.lifetime.label.as_ref().and_then(|key| Some((key, container.labels.get(key)?))) {
            Some((key, text)) => parse_span(text).map_err(|bad| format!("label {key}: {bad}")),
            None => Ok(of_store.or(self.lifetime.default).unwrap_or(fallback)),
        }
    }

    /// Whether the profile names this command line as one that runs in a container at rest.
    pub fn rests(&self, command: &str) -> bool {
        self.at_rest.iter().any(|pattern| pattern.is_match(command))
    }

    /// Which sessions of a store are live, given what its configuration says about the lifetime of containers.
    pub fn live_rule(&self, of_store: Option<Duration>, fallback: Duration) -> LiveRule {
        match self.live {
            LiveRule::WithinLifetime => {
                LiveRule::ActiveWithin(of_store.or(self.lifetime.default).unwrap_or(fallback))
            }
            rule => rule,
        }
    }

    /// Whether the system has a session store at all.
    pub fn has_store(&self) -> bool {
        !self.stores.is_empty()
    }
}

impl<'a> Recognised<'a> {
    /// Fills a template from the container.
    pub fn fill(&self, template: &Template) -> Option<Cow<'a, str>> {
        let container = self.container;
        template.fill(|field| match field {
            Field::Id => Some(container.id.as_str()),
            Field::ShortId => Some(container.id.short()),
            Field::Name => Some(&container.name),
            Field::Image => Some(container.image_reference()),
            Field::Label(key) => container.labels.get(key),
            Field::NameCapture(key) => {
                self.captures.iter().find(|(name, _)| name == key).map(|(_, value)| *value)
            }
            Field::Mount(target) => container
                .mounts
                .iter()
                .find(|mount| &mount.target == target)
                .map(|mount| mount.source.as_str()),
            Field::MountCapture(key) => {
                self.mounts.iter().find(|(name, _)| name == key).map(|(_, value)| *value)
            }
            Field::Workspace | Field::Container | Field::StoreCapture(_) => None,
        })
    }
}

impl MountPattern {
    /// What the pattern captures, where such a bind is mounted.
    fn captures_of<'a>(&'a self, container: &'a Container) -> Option<Vec<(&'a str, &'a str)>> {
        let mount =
            container.mounts.iter().find(|mount| mount.kind == "bind" && mount.target == self.target)?;
        captures_of(&self.source, &mount.source)
    }
}

/// Fills a template from what is known of a store: the captures of its path, and the folder it is in.
pub fn fill_from_store<'a>(
    template: &Template,
    captures: &'a BTreeMap<String, String>,
) -> Option<Cow<'a, str>> {
    template.fill(|field| match field {
        Field::StoreCapture(key) => captures.get(key).map(String::as_str),
        _ => None,
    })
}

/// Fills a template from a session and the captures of its store's path.
pub fn fill_from_session<'a>(
    template: &Template,
    session: &'a Session,
    captures: &'a BTreeMap<String, String>,
) -> Option<Cow<'a, str>> {
    template.fill(|field| match field {
        Field::Id => Some(session.id.as_str()),
        Field::Workspace => session.workspace.as_deref(),
        Field::Container => session.container.as_deref(),
        Field::StoreCapture(key) => captures.get(key).map(String::as_str),
        _ => None,
    })
}

fn captures_of<'a>(pattern: &'a Regex, name: &'a str) -> Option<Vec<(&'a str, &'a str)>> {
    let captures = pattern.captures(name)?;
    let named = pattern.capture_names().flatten();
    Some(named.filter_map(|key| captures.name(key).map(|found| (key, found.as_str()))).collect())
}
