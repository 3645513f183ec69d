//! The TOML form of a profile, and the checks that turn it into a [`Profile`].

use std::collections::BTreeMap;
use std::time::Duration;

use regex_lite::Regex;
use serde::Deserialize;
use toml::Spanned;

use crate::document::{Document, DocumentError};
use crate::domain::profile::{
    CONTAINER_PLACEHOLDERS, ExpectedHash, HashRule, Lifetime, Link, LostRule, Persistence, Profile, Query,
    Recognition, SESSION_PLACEHOLDERS, StoreRule, SystemName, TimeFormat, Undecidable,
};
use crate::domain::session::LiveRule;
use crate::domain::span::{BadSpan, parse_span};
use crate::domain::template::{BadTemplate, Template};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawProfile {
    name: Spanned<String>,
    description: String,
    containers: RawContainers,
    #[serde(default)]
    rules: RawRules,
    sessions: Option<RawSessions>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawContainers {
    labels: Spanned<BTreeMap<String, String>>,
    #[serde(default)]
    names: Vec<Spanned<String>>,
    #[serde(default)]
    workspace: Vec<Spanned<String>>,
    instance: Option<Spanned<String>>,
    #[serde(default)]
    undecidable: Vec<RawUndecidable>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawUndecidable {
    name: Spanned<String>,
    why: String,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct RawRules {
    persistent: Option<RawPersistence>,
    lifetime: Option<RawLifetime>,
    config_hash: Option<RawHash>,
    #[serde(default)]
    image_drift: bool,
    stop_grace: Option<Spanned<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawPersistence {
    label: Option<String>,
    bind_on: Option<String>,
    default: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawLifetime {
    label: Option<String>,
    default: Option<Spanned<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawHash {
    label: String,
    expect: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawSessions {
    store: StoreKind,
    paths: Spanned<Vec<String>>,
    live_within: Option<Spanned<String>>,
    links: Spanned<Vec<RawLink>>,
    queries: Spanned<Vec<RawQuery>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum StoreKind {
    Sqlite,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawLink {
    session: Spanned<String>,
    container: Spanned<Vec<Spanned<String>>>,
    unless: Option<Spanned<String>>,
    only: Option<Only>,
    #[serde(default)]
    lost: Lost,
}

#[derive(Deserialize, Clone, Copy, PartialEq)]
#[serde(rename_all = "kebab-case")]
enum Only {
    Persistent,
    NonPersistent,
}

#[derive(Deserialize, Default, Clone, Copy)]
#[serde(rename_all = "lowercase")]
enum Lost {
    #[default]
    Never,
    Live,
    Open,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawQuery {
    name: String,
    requires: BTreeMap<String, Vec<String>>,
    times: Times,
    sql: String,
}

#[derive(Deserialize, Clone, Copy)]
#[serde(rename_all = "lowercase")]
enum Times {
    Seconds,
    Milliseconds,
    Iso8601,
}

/// Reads and checks a profile; its SQL is checked by the caller.
pub(super) fn read(document: Document<'_>) -> Result<Profile, DocumentError> {
    let raw: RawProfile = document.parse()?;
    let checker = Checker { document };
    let name = checker.name(&raw.name)?;
    let recognition = checker.recognition(&raw.containers)?;
    let captures = captures_of(&recognition);
    let workspace = raw.containers.workspace.iter();
    let workspace = workspace
        .map(|template| checker.container_template("containers.workspace", template, &captures))
        .collect::<Result<_, _>>()?;
    let instance = raw.containers.instance.as_ref();
    let instance = instance
        .map(|template| checker.container_template("containers.instance", template, &captures))
        .transpose()?;
    let (store, links, live) = match &raw.sessions {
        None => (StoreRule::None, Vec::new(), LiveRule::Declared),
        Some(sessions) => checker.sessions(sessions, &captures)?,
    };
    let rules = raw.rules;
    let lifetime_default = rules.lifetime.as_ref().and_then(|lifetime| lifetime.default.as_ref());
    Ok(Profile {
        name,
        description: raw.description,
        recognition,
        workspace,
        instance,
        persistence: rules.persistent.map_or(
            Persistence { default: true, ..Persistence::default() },
            |RawPersistence { label, bind_on, default }| Persistence { label, bind_on, default },
        ),
        lifetime: Lifetime {
            default: checker.span("rules.lifetime.default", lifetime_default)?,
            label: rules.lifetime.and_then(|lifetime| lifetime.label),
        },
        config_hash: rules.config_hash.map(|RawHash { label, expect }| HashRule {
            label,
            expected: match expect.as_str() {
                "newest" => ExpectedHash::Newest,
                _ => ExpectedHash::Literal(expect),
            },
        }),
        image_drift: rules.image_drift,
        stop_grace: checker.span("rules.stop_grace", rules.stop_grace.as_ref())?,
        store,
        links,
        live,
    })
}

fn captures_of(recognition: &Recognition) -> Vec<String> {
    let patterns = recognition.names.iter().chain(recognition.undecidable.iter().map(|form| &form.name));
    patterns.flat_map(|pattern| pattern.capture_names().flatten().map(ToOwned::to_owned)).collect()
}

struct Checker<'a> {
    document: Document<'a>,
}

impl Checker<'_> {
    fn name(&self, raw: &Spanned<String>) -> Result<SystemName, DocumentError> {
        let name = raw.get_ref();
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        if name.is_empty() || !name.chars().all(plain) {
            let fix = "use lower-case letters, digits and dashes, such as `my-gateway`";
            return Err(self.document.error(
                raw.span(),
                "name",
                format!("`{name}` is not a profile name"),
                fix,
            ));
        }
        Ok(SystemName::new(name))
    }

    fn recognition(&self, raw: &RawContainers) -> Result<Recognition, DocumentError> {
        if raw.labels.get_ref().is_empty() {
            let what = "without a label every container on the host would be this system's";
            let fix = "name at least one label that only this system sets, such as `{ app = \"mine\" }`";
            return Err(self.document.error(raw.labels.span(), "containers.labels", what, fix));
        }
        let names =
            raw.names.iter().map(|name| self.pattern("containers.names", name)).collect::<Result<_, _>>()?;
        let undecidable = raw
            .undecidable
            .iter()
            .map(|form| {
                let name = self.pattern("containers.undecidable.name", &form.name)?;
                Ok(Undecidable { name, why: form.why.clone() })
            })
            .collect::<Result<_, _>>()?;
        Ok(Recognition { labels: raw.labels.get_ref().clone(), names, undecidable })
    }

    /// Patterns always match the whole name: a prefix match would catch a neighbour's container.
    fn pattern(&self, key: &str, raw: &Spanned<String>) -> Result<Regex, DocumentError> {
        Regex::new(&format!("^(?:{})$", raw.get_ref())).map_err(|error| {
            let what = format!("`{}` is not a pattern: {error}", raw.get_ref());
            self.document.error(
                raw.span(),
                key,
                what,
                "write a regular expression, such as 'box-(?<slug>[a-z0-9-]+)'",
            )
        })
    }

    fn container_template(
        &self,
        key: &str,
        raw: &Spanned<String>,
        captures: &[String],
    ) -> Result<Template, DocumentError> {
        let template = self.template(key, raw, CONTAINER_PLACEHOLDERS)?;
        for placeholder in template.placeholders() {
            if let Some(capture) = placeholder.strip_prefix("name.")
                && !captures.iter().any(|known| known == capture)
            {
                let what = format!("`{{{placeholder}}}` is captured by no name pattern");
                let fix = format!("write `(?<{capture}>…)` in one of `containers.names`");
                return Err(self.document.error(raw.span(), key, what, fix));
            }
        }
        Ok(template)
    }

    fn template(&self, key: &str, raw: &Spanned<String>, known: &[&str]) -> Result<Template, DocumentError> {
        Template::parse(raw.get_ref(), known).map_err(|error| {
            let (what, fix) = match &error {
                BadTemplate::Unbalanced(_) => (error.to_string(), "close every `{` with a `}`".to_owned()),
                BadTemplate::UnknownPlaceholder { placeholder, known } => {
                    (format!("`{{{placeholder}}}` is not known here"), format!("use one of {known}"))
                }
            };
            self.document.error(raw.span(), key, what, fix)
        })
    }

    fn span(&self, key: &str, raw: Option<&Spanned<String>>) -> Result<Option<Duration>, DocumentError> {
        raw.map(|raw| {
            parse_span(raw.get_ref())
                .map_err(|bad| self.document.error(raw.span(), key, bad.what(), BadSpan::FIX))
        })
        .transpose()
    }

    fn sessions(
        &self,
        raw: &RawSessions,
        captures: &[String],
    ) -> Result<(StoreRule, Vec<Link>, LiveRule), DocumentError> {
        let needed = [
            ("sessions.paths", raw.paths.span(), raw.paths.get_ref().is_empty(), "where the database is"),
            (
                "sessions.links",
                raw.links.span(),
                raw.links.get_ref().is_empty(),
                "how a session names its container",
            ),
            (
                "sessions.queries",
                raw.queries.span(),
                raw.queries.get_ref().is_empty(),
                "how sessions are read",
            ),
        ];
        for (key, span, is_empty, meaning) in needed {
            if is_empty {
                return Err(self.document.error(span, key, "is empty", format!("say {meaning}")));
            }
        }
        let links =
            raw.links.get_ref().iter().map(|link| self.link(link, captures)).collect::<Result<_, _>>()?;
        let queries = raw.queries.get_ref().iter().map(|query| Query {
            name: query.name.clone(),
            requires: query.requires.clone(),
            sql: query.sql.clone(),
            times: match query.times {
                Times::Seconds => TimeFormat::Seconds,
                Times::Milliseconds => TimeFormat::Milliseconds,
                Times::Iso8601 => TimeFormat::Iso8601,
            },
        });
        let store = match raw.store {
            StoreKind::Sqlite => {
                StoreRule::Sqlite { paths: raw.paths.get_ref().clone(), queries: queries.collect() }
            }
        };
        let live = self.span("sessions.live_within", raw.live_within.as_ref())?;
        Ok((store, links, live.map_or(LiveRule::Declared, LiveRule::ActiveWithin)))
    }

    fn link(&self, raw: &RawLink, captures: &[String]) -> Result<Link, DocumentError> {
        if raw.container.get_ref().is_empty() {
            let fix = "say what of a container equals `session`, such as \"{name}\"";
            return Err(self.document.error(
                raw.container.span(),
                "sessions.links.container",
                "is empty, so no session would claim anything",
                fix,
            ));
        }
        let container = raw.container.get_ref().iter();
        let unless = raw.unless.as_ref();
        Ok(Link {
            session: self.template("sessions.links.session", &raw.session, SESSION_PLACEHOLDERS)?,
            container: container
                .map(|template| self.container_template("sessions.links.container", template, captures))
                .collect::<Result<_, _>>()?,
            unless: unless
                .map(|template| self.template("sessions.links.unless", template, SESSION_PLACEHOLDERS))
                .transpose()?,
            only_persistent: raw.only.map(|only| only == Only::Persistent),
            lost: match raw.lost {
                Lost::Never => LostRule::Never,
                Lost::Live => LostRule::Live,
                Lost::Open => LostRule::Open,
            },
        })
    }
}
