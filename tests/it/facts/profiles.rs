//! Profiles made by hand, as the built-in contract and the notes on the systems describe them.

use std::collections::BTreeMap;
use std::time::Duration;

use regex_lite::Regex;
use sandkeeper::domain::profile::{
    CONTAINER_PLACEHOLDERS, ExpectedHash, HashRule, Lifetime, Link, LostRule, Persistence, Recognition,
    Recovery, SESSION_PLACEHOLDERS, StoreKind, StorePath, StoreRule, Undecidable,
};
use sandkeeper::domain::session::LiveRule;
use sandkeeper::domain::template::Template;
use sandkeeper::domain::{Profile, SystemName};

/// The contract for people who write their own gateway.
pub(crate) fn native() -> Profile {
    let named = link("{container}", &["{name}", "{id}", "{short_id}"]);
    let labelled = link("{id}", &["{label.sandkeeper.session}"]);
    let shared = link("{workspace}", &["{label.sandkeeper.workspace}"]);
    Profile {
        recognition: Recognition { labels: labels("sandkeeper.managed", "true"), ..nothing() },
        workspace: vec![of_container("{label.sandkeeper.workspace}")],
        instance: Some(of_container("{label.sandkeeper.instance}")),
        persistence: Persistence {
            label: Some("sandkeeper.persistent".to_owned()),
            bind_on: None,
            default: true,
        },
        lifetime: Lifetime { label: Some("sandkeeper.lifetime".to_owned()), ..Lifetime::default() },
        config_hash: Some(hash_rule("sandkeeper.config-hash", ExpectedHash::Newest)),
        links: vec![
            Link { lost: LostRule::Open, ..named },
            labelled,
            Link { unless: Some(of_session("{container}")), ..shared },
        ],
        live: LiveRule::Declared,
        ..profile("native")
    }
}

/// Parachute as of February 2026: no flag says that a session is live, only its last access.
pub(crate) fn parachute_like() -> Profile {
    let why = "its sessions are behind HTTP, which this profile cannot read".to_owned();
    Profile {
        recognition: Recognition {
            labels: labels("app", "parachute"),
            names: vec![pattern("^parachute-ws-(?<slug>.+)$"), pattern("^parachute-default$")],
            undecidable: vec![Undecidable {
                name: Some(pattern("^parachute-env-(?<slug>.+)$")),
                labels: BTreeMap::new(),
                running: false,
                why,
            }],
            mounts: Vec::new(),
        },
        workspace: vec![of_container("{name.slug}"), of_container("default")],
        config_hash: Some(hash_rule("config_hash", ExpectedHash::Newest)),
        links: vec![
            Link { lost: LostRule::Live, ..link("parachute-ws-{workspace}", &["{name}"]) },
            Link { lost: LostRule::Live, ..link("{container}", &["{name}"]) },
        ],
        live: LiveRule::ActiveWithin(Duration::from_mins(10)),
        ..profile("parachute")
    }
}

/// A system that keeps no sessions at all.
pub(crate) fn storeless() -> Profile {
    Profile {
        recognition: Recognition { labels: labels("kojuto.scan", "true"), ..nothing() },
        stores: Vec::new(),
        ..profile("kojuto")
    }
}

/// A profile that recognises everything and links nothing.
fn profile(name: &str) -> Profile {
    Profile {
        name: SystemName::new(name),
        description: String::new(),
        recognition: nothing(),
        workspace: Vec::new(),
        instance: None,
        home: None,
        persistence: Persistence { default: true, ..Persistence::default() },
        lifetime: Lifetime::default(),
        folders: None,
        companions: Vec::new(),
        at_rest: Vec::new(),
        ends_by_deleting: false,
        over: None,
        config_hash: None,
        image_drift: true,
        stop_grace: None,
        recovery: Recovery { record: true, heal: false },
        stores: vec![StoreRule {
            serves: Vec::new(),
            kind: StoreKind::Sqlite {
                paths: vec![StorePath { pattern: format!("/data/{name}.db"), captures: BTreeMap::new() }],
                queries: Vec::new(),
            },
        }],
        links: Vec::new(),
        live: LiveRule::Declared,
    }
}

pub(crate) fn hash_rule(label: &str, expected: ExpectedHash) -> HashRule {
    HashRule { label: label.to_owned(), expected }
}

fn nothing() -> Recognition {
    Recognition { labels: BTreeMap::new(), names: Vec::new(), undecidable: Vec::new(), mounts: Vec::new() }
}

fn labels(key: &str, value: &str) -> BTreeMap<String, String> {
    BTreeMap::from([(key.to_owned(), value.to_owned())])
}

fn link(session: &str, container: &[&str]) -> Link {
    Link {
        session: of_session(session),
        container: container.iter().map(|text| of_container(text)).collect(),
        unless: None,
        only_persistent: None,
        lost: LostRule::Never,
    }
}

fn of_container(text: &str) -> Template {
    Template::parse(text, CONTAINER_PLACEHOLDERS).unwrap()
}

fn of_session(text: &str) -> Template {
    Template::parse(text, SESSION_PLACEHOLDERS).unwrap()
}

fn pattern(text: &str) -> Regex {
    Regex::new(text).unwrap()
}
