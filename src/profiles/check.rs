//! The checks that turn the TOML form of a profile into a [`Profile`].

use std::collections::BTreeMap;
use std::time::Duration;

use regex_lite::Regex;
use toml::Spanned;

use super::http;
use super::raw::{
    Lost, Only, RawContainers, RawHash, RawHome, RawKind, RawLifetime, RawLink, RawOver, RawPath,
    RawPersistence, RawProfile, RawSessions, RawUndecidable, Times,
};
use crate::document::{Document, DocumentError};
use crate::domain::profile::{
    BindPattern, CONTAINER_PLACEHOLDERS, ExpectedHash, HashRule, Home, Lifetime, LifetimeFile, Link,
    LostRule, MountPattern, Over, Persistence, Profile, Query, Recognition, Recovery, SESSION_PLACEHOLDERS,
    STORE_PLACEHOLDERS, StoreKind, StorePath, StoreRule, SystemName, TimeFormat, Undecidable,
};
use crate::domain::session::LiveRule;
use crate::domain::span::{BadSpan, parse_span};
use crate::domain::template::{BadTemplate, Template};

/// What `live_within` says when it means the lifetime of the containers.
const LIFETIME: &str = "lifetime";

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
    let ends_by_deleting = raw.sessions.as_ref().is_some_and(|sessions| sessions.ends_by_deleting);
    let (stores, links, live) = match &raw.sessions {
        None => (Vec::new(), Vec::new(), LiveRule::Declared),
        Some(sessions) => checker.sessions(sessions, &captures)?,
    };
    let rules = raw.rules;
    let home = raw.containers.home.as_ref();
    let over = rules.over.as_ref();
    if let Some(home) = home
        && !stores.iter().any(|store| matches!(store.kind, StoreKind::Sqlite { .. }))
    {
        let what = "tells nothing, for no store is a file that could be in a home";
        let fix = "leave `[containers.home]` away, or tell installations apart by `instance`";
        return Err(document.error(home.store.span(), "containers.home", what, fix));
    }
    Ok(Profile {
        ends_by_deleting,
        name,
        description: raw.description,
        recognition,
        workspace,
        instance,
        home: home.map(|home| checker.home(home, &captures)).transpose()?,
        persistence: rules.persistent.map_or(
            Persistence { default: true, ..Persistence::default() },
            |RawPersistence { label, bind_on, default }| Persistence { label, bind_on, default },
        ),
        lifetime: rules.lifetime.map(|lifetime| checker.lifetime(lifetime)).transpose()?.unwrap_or_default(),
        folders: rules.folders.as_ref().map(|folders| checker.root(&folders.root)).transpose()?,
        companions: rules
            .companions
            .iter()
            .map(|template| checker.container_template("rules.companions", template, &captures))
            .collect::<Result<_, _>>()?,
        at_rest: rules
            .at_rest
            .iter()
            .map(|pattern| checker.pattern("rules.at_rest", pattern))
            .collect::<Result<_, _>>()?,
        over: over.map(|over| checker.over(over, &captures)).transpose()?,
        config_hash: rules.config_hash.map(|RawHash { label, expect }| HashRule {
            label,
            expected: match expect.as_str() {
                "newest" => ExpectedHash::Newest,
                _ => ExpectedHash::Literal(expect),
            },
        }),
        image_drift: rules.image_drift,
        stop_grace: checker.span("rules.stop_grace", rules.stop_grace.as_ref())?,
        recovery: Recovery { record: raw.recovery.record, heal: raw.recovery.heal },
        stores,
        links,
        live,
    })
}

/// The placeholders that patterns make, such as `name.slug` and `mount.home`.
fn captures_of(recognition: &Recognition) -> Vec<String> {
    let names =
        recognition.names.iter().chain(recognition.undecidable.iter().filter_map(|form| form.name.as_ref()));
    let mounts = recognition.mounts.iter().map(|mount| &mount.source);
    let captured = |family: &'static str, pattern: &Regex| {
        let names: Vec<String> =
            pattern.capture_names().flatten().map(|name| format!("{family}.{name}")).collect();
        names
    };
    names
        .flat_map(|pattern| captured("name", pattern))
        .chain(mounts.flat_map(|pattern| captured("mount", pattern)))
        .collect()
}

pub(super) fn time_format(raw: Times) -> TimeFormat {
    match raw {
        Times::Seconds => TimeFormat::Seconds,
        Times::Milliseconds => TimeFormat::Milliseconds,
        Times::Iso8601 => TimeFormat::Iso8601,
    }
}

fn store_path(raw: &RawPath) -> StorePath {
    match raw {
        RawPath::Plain(pattern) => StorePath { pattern: pattern.clone(), captures: BTreeMap::new() },
        RawPath::With { path, captures } => StorePath { pattern: path.clone(), captures: captures.clone() },
    }
}

pub(super) struct Checker<'a> {
    pub(super) document: Document<'a>,
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
        let undecidable =
            raw.undecidable.iter().map(|form| self.undecidable(form)).collect::<Result<_, _>>()?;
        let mounts = raw
            .mounts
            .iter()
            .map(|mount| {
                let source = self.pattern("containers.mounts.source", &mount.source)?;
                Ok(MountPattern { target: mount.target.clone(), source })
            })
            .collect::<Result<_, _>>()?;
        Ok(Recognition { labels: raw.labels.get_ref().clone(), names, undecidable, mounts })
    }

    fn undecidable(&self, raw: &RawUndecidable) -> Result<Undecidable, DocumentError> {
        if raw.name.is_none() && raw.labels.is_empty() && !raw.running {
            let fix = "say which containers, with `name`, `labels` or `running`";
            let what = "would hold for every container of the system";
            return Err(self.document.error(raw.why.span(), "containers.undecidable", what, fix));
        }
        let name = raw.name.as_ref();
        Ok(Undecidable {
            name: name.map(|name| self.pattern("containers.undecidable.name", name)).transpose()?,
            labels: raw.labels.clone(),
            running: raw.running,
            why: raw.why.get_ref().clone(),
        })
    }

    /// Patterns always match the whole name: a prefix match would catch a neighbour's container.
    pub(super) fn pattern(&self, key: &str, raw: &Spanned<String>) -> Result<Regex, DocumentError> {
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
            let (capture, patterns, section) = match placeholder.split_once('.') {
                Some(("name", capture)) => (capture, "name", "containers.names"),
                Some(("mount", capture)) if !capture.starts_with('/') => {
                    (capture, "mount", "containers.mounts")
                }
                _ => continue,
            };
            if !captures.iter().any(|known| known == placeholder) {
                let what = format!("`{{{placeholder}}}` is captured by no {patterns} pattern");
                let fix = format!("write `(?<{capture}>…)` in one of `{section}`");
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

    fn home(&self, raw: &RawHome, captures: &[String]) -> Result<Home, DocumentError> {
        let container = raw.container.iter();
        let container = container
            .map(|template| self.container_template("containers.home.container", template, captures))
            .collect::<Result<_, _>>()?;
        Ok(Home { container, store: self.template("containers.home.store", &raw.store, STORE_PLACEHOLDERS)? })
    }

    fn lifetime(&self, raw: RawLifetime) -> Result<Lifetime, DocumentError> {
        let file = match (&raw.file, raw.key) {
            (Some(file), Some(key)) => {
                let path = self.template("rules.lifetime.file", file, STORE_PLACEHOLDERS)?;
                Some(LifetimeFile { path, key })
            }
            (Some(file), None) => {
                let fix = "add `key = …`, such as \"terminal.lifetime_seconds\"";
                return Err(self.document.error(
                    file.span(),
                    "rules.lifetime.file",
                    "is not enough by itself",
                    fix,
                ));
            }
            (None, _) => None,
        };
        let default = self.span("rules.lifetime.default", raw.default.as_ref())?;
        Ok(Lifetime { label: raw.label, file, default })
    }

    /// Folders are moved away from there, so it must lie well below what is not the system's.
    fn root(&self, raw: &Spanned<String>) -> Result<Template, DocumentError> {
        let root = self.template("rules.folders.root", raw, STORE_PLACEHOLDERS)?;
        let text = raw.get_ref();
        let below =
            text.strip_prefix("{store.folder}/").is_some_and(|below| !below.trim_matches('/').is_empty());
        if !below || text.split('/').any(|part| part == "..") {
            let what = format!("`{text}` is not a folder below the store's");
            let fix = "write one, such as \"{store.folder}/sandboxes\"";
            return Err(self.document.error(raw.span(), "rules.folders.root", what, fix));
        }
        Ok(root)
    }

    fn over(&self, raw: &RawOver, captures: &[String]) -> Result<Over, DocumentError> {
        let bind = |raw: &Spanned<String>| {
            BindPattern::parse(raw.get_ref()).ok_or_else(|| {
                let what = format!("`{}` is not an absolute path", raw.get_ref());
                let fix = "write a path, such as \"/tmp/scan-*\"";
                self.document.error(raw.span(), "rules.over.missing_binds", what, fix)
            })
        };
        let path = |raw| self.container_template("rules.over.missing_paths", raw, captures);
        Ok(Over {
            when_not_running: raw.when_not_running,
            missing_binds: raw.missing_binds.iter().map(bind).collect::<Result<_, _>>()?,
            missing_paths: raw.missing_paths.iter().map(path).collect::<Result<_, _>>()?,
            max_age: self.span("rules.over.max_age", raw.max_age.as_ref())?,
        })
    }

    fn sessions(
        &self,
        raw: &RawSessions,
        captures: &[String],
    ) -> Result<(Vec<StoreRule>, Vec<Link>, LiveRule), DocumentError> {
        self.not_empty("sessions.links", &raw.links, "how a session names its container")?;
        let links =
            raw.links.get_ref().iter().map(|link| self.link(link, captures)).collect::<Result<_, _>>()?;
        let live = match raw.live_within.as_ref() {
            Some(within) if within.get_ref() == LIFETIME => LiveRule::WithinLifetime,
            within => {
                let within = self.span("sessions.live_within", within)?;
                within.map_or(LiveRule::Declared, LiveRule::ActiveWithin)
            }
        };
        let mut stores = Vec::new();
        if let RawKind::Sqlite = raw.store.get_ref() {
            stores.push(self.files(raw)?);
        } else if raw.http.is_none() {
            let fix = "add a section `[sessions.http]`";
            return Err(self.document.error(raw.store.span(), "http", "is missing", fix));
        }
        if let Some(http) = &raw.http {
            stores.push(http::rule(self, http, live == LiveRule::Declared)?);
        }
        Ok((stores, links, live))
    }

    fn files(&self, raw: &RawSessions) -> Result<StoreRule, DocumentError> {
        let missing = |key: &str, fix: &str| self.document.error(raw.store.span(), key, "is missing", fix);
        let paths = raw.paths.as_ref().ok_or_else(|| missing("paths", "add `paths = …` here"))?;
        self.not_empty("sessions.paths", paths, "where the database is")?;
        let queries = raw.queries.as_ref();
        let queries = queries.ok_or_else(|| missing("queries", "add a section `[[sessions.queries]]`"))?;
        self.not_empty("sessions.queries", queries, "how sessions are read")?;
        let queries = queries.get_ref().iter().map(|query| Query {
            name: query.name.clone(),
            requires: query.requires.clone(),
            absent: query.absent.clone(),
            sql: query.sql.clone(),
            times: time_format(query.times),
        });
        let serves = raw.serves.iter().map(|name| self.pattern("sessions.serves", name));
        let paths = paths.get_ref().iter().map(store_path);
        Ok(StoreRule {
            serves: serves.collect::<Result<_, _>>()?,
            kind: StoreKind::Sqlite { paths: paths.collect(), queries: queries.collect() },
        })
    }

    pub(super) fn not_empty<T>(
        &self,
        key: &str,
        list: &Spanned<Vec<T>>,
        meaning: &str,
    ) -> Result<(), DocumentError> {
        if list.get_ref().is_empty() {
            return Err(self.document.error(list.span(), key, "is empty", format!("say {meaning}")));
        }
        Ok(())
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
