//! Settings: defaults, then the config file, then the environment, then the flags; each layer overrides the one
//! before it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;
use thiserror::Error;
use toml::Spanned;

use crate::document::{Document, DocumentError};
use crate::domain::policy::{BrakeRule, RecoveryRule};
use crate::domain::span::{BadSpan, parse_span};
use crate::domain::{Policy, SystemName};
use crate::engine::EndpointRequest;
use crate::environment::Environment;
use crate::privileges::{PrivilegeFault, refuse_open_to_others};
use crate::watch::Cadence;

/// Everything that can be set.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Which engine.
    pub endpoint: EndpointRequest,
    /// Which profiles; none means all.
    pub profiles: Vec<String>,
    /// Stores that override those the profiles find.
    pub stores: Vec<Addressed<PathBuf>>,
    /// Keys that applications want to see before they tell of their sessions, by system. Never shown.
    pub secrets: BTreeMap<String, String>,
    /// The operator's rules.
    pub policy: Policy,
    /// How long one look may take.
    pub timeout: Duration,
    /// How often to look.
    pub cadence: Cadence,
    /// The shortest time between two frames of the dashboard.
    pub frame_floor: Duration,
    /// Whether nothing may be changed.
    pub read_only: bool,
    /// Whether it may be recorded how containers are made, where profiles allow it.
    pub record: bool,
    /// Systems whose lost containers are brought back without asking, besides those whose profile says so.
    pub heal: Vec<String>,
    /// The keys of the dashboard that the operator changed, by command.
    pub keys: BTreeMap<String, Vec<String>>,
    /// Whether the dashboard listens to the mouse.
    pub mouse: bool,
    /// Which theme, if one was chosen.
    pub theme: Option<String>,
    /// Where the user's own themes are.
    pub theme_folder: PathBuf,
    /// Where the user's own profiles are.
    pub profile_folder: PathBuf,
    /// Where our own state is.
    pub state_folder: PathBuf,
    /// The config file that was read, if there was one.
    pub config_file: Option<PathBuf>,
}

/// A value for one system, or for every system it fits: `[SYSTEM=]VALUE`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Addressed<T> {
    /// The system, if it was named.
    pub system: Option<String>,
    /// The value.
    pub value: T,
}

impl Addressed<String> {
    /// Splits `SYSTEM=VALUE`. What stands before the first `=` is a system only if it looks like one, so that a path
    /// may contain `=`.
    pub fn parse(text: &str) -> Self {
        let name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        match text.split_once('=') {
            Some((system, value)) if !system.is_empty() && system.chars().all(name) => {
                Self { system: Some(system.to_owned()), value: value.to_owned() }
            }
            _ => Self { system: None, value: text.to_owned() },
        }
    }
}

/// What the flags set. Everything that was not given is `None` or empty.
#[derive(Clone, Debug, Default)]
pub struct Flags {
    /// `--config`.
    pub config: Option<PathBuf>,
    /// `--host`.
    pub host: Option<String>,
    /// `--context`.
    pub context: Option<String>,
    /// `--profile`.
    pub profiles: Vec<String>,
    /// `--db`.
    pub stores: Vec<Addressed<String>>,
    /// `--expect-hash`.
    pub expected_hashes: Vec<Addressed<String>>,
    /// `--instance`.
    pub instance: Option<String>,
    /// `--min-age`.
    pub min_age: Option<Duration>,
    /// `--timeout`.
    pub timeout: Option<Duration>,
    /// `--interval`.
    pub interval: Option<Duration>,
    /// `--theme`.
    pub theme: Option<String>,
    /// `--max-fps`.
    pub max_fps: Option<u32>,
    /// `--read-only`.
    pub read_only: bool,
}

/// Why the settings cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ConfigError {
    /// The file is wrong.
    #[error(transparent)]
    Document(#[from] DocumentError),
    /// The file cannot be read.
    #[error("the config file {path} cannot be read: {why}; correct the path or leave `--config` away")]
    Unreadable {
        /// Which file.
        path: String,
        /// Why.
        why: String,
    },
    /// A variable is wrong.
    #[error("the environment variable {name}: {why}")]
    Variable {
        /// Which variable.
        name: &'static str,
        /// What is wrong with it.
        why: String,
    },
    /// Others may change what stands in it.
    #[error(transparent)]
    Privilege(#[from] PrivilegeFault),
    /// A value makes no sense.
    #[error("{0}")]
    Senseless(&'static str),
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct File {
    host: Option<String>,
    context: Option<String>,
    #[serde(default)]
    profiles: Vec<String>,
    instance: Option<String>,
    min_age: Option<Spanned<String>>,
    timeout: Option<Spanned<String>>,
    interval: Option<Spanned<String>>,
    interval_with_events: Option<Spanned<String>>,
    max_evidence_age: Option<Spanned<String>>,
    default_lifetime: Option<Spanned<String>>,
    open_lifetime: Option<Spanned<String>>,
    new_store_wait: Option<Spanned<String>>,
    count_downtime: Option<bool>,
    stop_grace: Option<Spanned<String>>,
    max_fps: Option<u32>,
    read_only: Option<bool>,
    mouse: Option<bool>,
    #[serde(default)]
    keys: BTreeMap<String, Keys>,
    theme: Option<String>,
    #[serde(default)]
    stores: BTreeMap<String, Vec<PathBuf>>,
    #[serde(default)]
    secrets: BTreeMap<String, String>,
    #[serde(default)]
    expect_hash: BTreeMap<String, String>,
    #[serde(default)]
    brake: Brake,
    #[serde(default)]
    recovery: Recovery,
    #[serde(default)]
    reconcile: Reconcile,
}

/// One key, or several.
#[derive(Deserialize)]
#[serde(untagged)]
enum Keys {
    One(String),
    Several(Vec<String>),
}

impl From<Keys> for Vec<String> {
    fn from(keys: Keys) -> Self {
        match keys {
            Keys::One(key) => vec![key],
            Keys::Several(keys) => keys,
        }
    }
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct Brake {
    more_than: Option<usize>,
    percent: Option<usize>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct Recovery {
    record: Option<bool>,
    keep: Option<Spanned<String>>,
    #[serde(default)]
    heal: Vec<String>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct Reconcile {
    quarantine: Option<bool>,
    quarantine_for: Option<Spanned<String>>,
}

impl Settings {
    /// Puts the layers together.
    pub fn load(flags: Flags, environment: &Environment) -> Result<Self, ConfigError> {
        let variable =
            |name: &str| environment.variables.get(name).filter(|value| !value.is_empty()).cloned();
        let switch = |name: &str| variable(name).map(|value| value != "0" && value != "false");
        let asked = flags.config.or_else(|| variable("SANDKEEPER_CONFIG").map(PathBuf::from));
        let folder = environment.folder("XDG_CONFIG_HOME");
        let usual = folder.join("config.toml");
        refuse_open_places(&folder, asked.as_deref().unwrap_or(&usual))?;
        let (config_file, text) = read_file(asked.as_deref(), &usual)?;
        let name = config_file.as_ref().map(|path| path.display().to_string()).unwrap_or_default();
        let example = "the sample, `assets/config.toml` of sandkeeper's source, shows every key";
        let document = Document { file: &name, text: &text, example };
        let file: File = document.parse()?;

        let mut policy = policy_of(document, &file)?;
        let profiles = match (flags.profiles, variable("SANDKEEPER_PROFILES")) {
            (named, _) if !named.is_empty() => named,
            (_, Some(listed)) => listed.split(',').map(|name| name.trim().to_owned()).collect(),
            _ => file.profiles,
        };
        let looked_for = |system: &String| profiles.is_empty() || profiles.contains(system);

        let span = |key, value: Option<&Spanned<String>>| from_file(document, key, value);
        policy.instance = flags.instance.or_else(|| variable("SANDKEEPER_INSTANCE")).or(file.instance);
        if let Some(counts) = switch("SANDKEEPER_COUNT_DOWNTIME") {
            policy.count_downtime = counts;
        }
        let of_file = file.expect_hash.into_iter().filter(|(system, _)| looked_for(system));
        policy.expected_hash_of = of_file.map(|(system, hash)| (SystemName::new(&system), hash)).collect();
        expect_hashes(&mut policy, flags.expected_hashes);
        let from_environment = |name| span_from(environment, name);
        if let Some(min_age) = flags.min_age.or(from_environment("SANDKEEPER_MIN_AGE")?) {
            policy.min_age = min_age;
        }
        if let Some(wait) = from_environment("SANDKEEPER_NEW_STORE_WAIT")? {
            policy.new_store_wait = wait;
        }

        let mut cadence = Cadence::default();
        if let Some(interval) = span("interval_with_events", file.interval_with_events.as_ref())? {
            cadence.with_events = interval;
        }
        let interval = flags.interval.or(from_environment("SANDKEEPER_INTERVAL")?);
        if let Some(interval) = interval.or(span("interval", file.interval.as_ref())?) {
            cadence.without_events = interval;
        }
        let timeout = flags.timeout.or(from_environment("SANDKEEPER_TIMEOUT")?);
        let timeout = timeout.or(span("timeout", file.timeout.as_ref())?).unwrap_or(Duration::from_secs(3));
        if timeout.is_zero() || cadence.without_events.is_zero() || cadence.with_events.is_zero() {
            return Err(ConfigError::Senseless(
                "timeout and interval must be longer than nothing; try `3s` and `2s`",
            ));
        }

        let mut stores: Vec<Addressed<PathBuf>> = flags
            .stores
            .into_iter()
            .map(|Addressed { system, value }| Addressed { system, value: PathBuf::from(value) })
            .collect();
        if stores.is_empty() {
            // What the file says about systems that are not looked for is not needed.
            let of_file = file.stores.into_iter().filter(|(system, _)| looked_for(system));
            stores = of_file
                .flat_map(|(system, paths)| {
                    paths.into_iter().map(move |value| Addressed { system: Some(system.clone()), value })
                })
                .collect();
        }
        refuse_blanks(&policy, &stores)?;
        expand_home(&mut stores, &environment.home);
        Ok(Self {
            endpoint: EndpointRequest {
                host: flags.host,
                context: flags.context,
                host_variable: variable("SANDKEEPER_HOST"),
                context_variable: variable("SANDKEEPER_CONTEXT"),
                configured_host: file.host,
                configured_context: file.context,
            },
            profiles,
            stores,
            secrets: file.secrets,
            policy,
            timeout,
            cadence,
            record: file.recovery.record.unwrap_or(true),
            heal: file.recovery.heal,
            frame_floor: frame_floor(flags.max_fps, environment, file.max_fps)?,
            read_only: flags.read_only
                || switch("SANDKEEPER_READ_ONLY").unwrap_or(false)
                || file.read_only.unwrap_or(false),
            keys: file.keys.into_iter().map(|(command, keys)| (command, keys.into())).collect(),
            mouse: file.mouse.unwrap_or(true),
            theme: flags.theme.or_else(|| variable("SANDKEEPER_THEME")).or(file.theme),
            theme_folder: environment.folder("XDG_CONFIG_HOME").join("themes"),
            profile_folder: environment.folder("XDG_CONFIG_HOME").join("profiles"),
            state_folder: environment.folder("XDG_STATE_HOME"),
            config_file,
        })
    }
}

/// What the file says about the rules.
fn policy_of(document: Document<'_>, file: &File) -> Result<Policy, ConfigError> {
    let span = |key, value: &Option<Spanned<String>>, usual: Duration| -> Result<Duration, ConfigError> {
        Ok(from_file(document, key, value.as_ref())?.unwrap_or(usual))
    };
    let usual = Policy::default();
    Ok(Policy {
        min_age: span("min_age", &file.min_age, usual.min_age)?,
        max_evidence_age: span("max_evidence_age", &file.max_evidence_age, usual.max_evidence_age)?,
        default_lifetime: span("default_lifetime", &file.default_lifetime, usual.default_lifetime)?,
        open_lifetime: span("open_lifetime", &file.open_lifetime, usual.open_lifetime)?,
        new_store_wait: span("new_store_wait", &file.new_store_wait, usual.new_store_wait)?,
        count_downtime: file.count_downtime.unwrap_or(usual.count_downtime),
        stop_grace: span("stop_grace", &file.stop_grace, usual.stop_grace)?,
        brake: BrakeRule {
            more_than: file.brake.more_than.unwrap_or(usual.brake.more_than),
            percent: file.brake.percent.unwrap_or(usual.brake.percent),
        },
        recovery: recovery_rule(document, &file.recovery, &file.reconcile)?,
        ..usual
    })
}

fn recovery_rule(
    document: Document<'_>,
    recovery: &Recovery,
    reconcile: &Reconcile,
) -> Result<RecoveryRule, ConfigError> {
    let usual = RecoveryRule::default();
    let keep = from_file(document, "recovery.keep", recovery.keep.as_ref())?;
    let aside = from_file(document, "reconcile.quarantine_for", reconcile.quarantine_for.as_ref())?;
    Ok(RecoveryRule {
        keep: keep.unwrap_or(usual.keep),
        quarantine: reconcile.quarantine.unwrap_or(usual.quarantine),
        quarantine_for: aside.unwrap_or(usual.quarantine_for),
    })
}

/// Whoever may write where the settings and profiles are decides what is removed.
fn refuse_open_places(folder: &Path, file: &Path) -> Result<(), PrivilegeFault> {
    refuse_open_to_others(file)?;
    [folder, &folder.join("profiles"), &folder.join("themes")].into_iter().try_for_each(refuse_open_to_others)
}

fn expect_hashes(policy: &mut Policy, hashes: Vec<Addressed<String>>) {
    for Addressed { system, value } in hashes {
        match system {
            Some(system) => {
                policy.expected_hash_of.insert(SystemName::new(&system), value);
            }
            None => policy.expected_hash = Some(value),
        }
    }
}

/// After `SYSTEM=` and in a file no shell has done this.
fn expand_home(stores: &mut [Addressed<PathBuf>], home: &Path) {
    for store in stores {
        if let Ok(below_home) = store.value.strip_prefix("~") {
            store.value = home.join(below_home);
        }
    }
}

/// A script's unset variable must not look like a value: an empty hash would make every container outdated.
fn refuse_blanks(policy: &Policy, stores: &[Addressed<PathBuf>]) -> Result<(), ConfigError> {
    let blank = |text: &String| text.trim().is_empty();
    let mut hashes = policy.expected_hash.iter().chain(policy.expected_hash_of.values());
    let senseless = if hashes.any(blank) {
        "the expected config hash is empty, which would make every container outdated; write `--expect-hash HASH` \
         or leave it away"
    } else if policy.instance.as_ref().is_some_and(blank) {
        "the instance has no name; write `--instance NAME` or leave it away"
    } else if stores.iter().any(|store| store.value.as_os_str().is_empty()) {
        "a session database has no path; write `--db SYSTEM=PATH`"
    } else {
        return Ok(());
    };
    Err(ConfigError::Senseless(senseless))
}

/// A file that was asked for must be there; the usual one need not.
fn read_file(asked: Option<&Path>, usual: &Path) -> Result<(Option<PathBuf>, String), ConfigError> {
    let path = asked.unwrap_or(usual);
    match std::fs::read_to_string(path) {
        Ok(text) => Ok((Some(path.to_owned()), text)),
        Err(error) if asked.is_none() && error.kind() == std::io::ErrorKind::NotFound => {
            Ok((None, String::new()))
        }
        Err(error) => {
            Err(ConfigError::Unreadable { path: path.display().to_string(), why: error.to_string() })
        }
    }
}

fn from_file(
    document: Document<'_>,
    key: &str,
    value: Option<&Spanned<String>>,
) -> Result<Option<Duration>, ConfigError> {
    let Some(value) = value else { return Ok(None) };
    match parse_span(value.get_ref()) {
        Ok(span) => Ok(Some(span)),
        Err(bad) => Err(document.error(value.span(), key, bad.what(), BadSpan::FIX).into()),
    }
}

/// The time between two frames; a screen that draws less than once a second looks dead.
fn frame_floor(
    flag: Option<u32>,
    environment: &Environment,
    file: Option<u32>,
) -> Result<Duration, ConfigError> {
    let said =
        flag.map_or_else(|| number_from(environment, "SANDKEEPER_MAX_FPS"), |count| Ok(Some(count)))?;
    match said.or(file).unwrap_or(30) {
        fps @ 1..=60 => Ok(Duration::from_secs(1) / fps),
        _ => Err(ConfigError::Senseless("the dashboard draws 1 to 60 times a second; try `--max-fps 5`")),
    }
}

fn number_from(environment: &Environment, name: &'static str) -> Result<Option<u32>, ConfigError> {
    let Some(value) = environment.variables.get(name).filter(|value| !value.is_empty()) else {
        return Ok(None);
    };
    let why = || format!("`{value}` is not a whole number; write one such as `5`");
    value.parse().map(Some).map_err(|_| ConfigError::Variable { name, why: why() })
}

fn span_from(environment: &Environment, name: &'static str) -> Result<Option<Duration>, ConfigError> {
    let Some(value) = environment.variables.get(name).filter(|value| !value.is_empty()) else {
        return Ok(None);
    };
    parse_span(value).map(Some).map_err(|bad| ConfigError::Variable { name, why: bad.to_string() })
}
