//! Where a system keeps its sessions, and how they are read from there.

use std::collections::BTreeMap;
use std::fmt;

use regex_lite::Regex;

use super::record::Mapping;

/// The unit or format of a store's timestamps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeFormat {
    /// Unix seconds, whole or fractional.
    Seconds,
    /// Unix milliseconds.
    Milliseconds,
    /// ISO 8601 / RFC 3339 text; without an offset it is UTC.
    Iso8601,
}

/// One variant of the session query; the first whose tables and columns exist is used.
#[derive(Clone, Debug)]
pub struct Query {
    /// What `doctor` calls it.
    pub name: String,
    /// Table to columns that must exist.
    pub requires: BTreeMap<String, Vec<String>>,
    /// Tables that must not exist: they hold what this variant does not read.
    pub absent: Vec<String>,
    /// The statement; its result columns have the fixed names of a session.
    pub sql: String,
    /// How its times are written.
    pub times: TimeFormat,
}

/// A place where stores may be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StorePath {
    /// The path: `~`, `$VARIABLE`, `*` and `{capture}` for one path component.
    pub pattern: String,
    /// Captures that hold for every store found there.
    pub captures: BTreeMap<String, String>,
}

impl fmt::Display for StorePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.pattern)
    }
}

/// One kind of place where sessions are. A system may have several, each for some of its containers.
#[derive(Clone, Debug)]
pub struct StoreRule {
    /// Anchored patterns of the container names whose sessions are there; none means all.
    pub serves: Vec<Regex>,
    /// What it is.
    pub kind: StoreKind,
}

/// What a store is.
#[derive(Clone, Debug)]
pub enum StoreKind {
    /// SQLite files.
    Sqlite {
        /// Where they may be.
        paths: Vec<StorePath>,
        /// Query variants, tried in order.
        queries: Vec<Query>,
    },
    /// The application itself, asked over HTTP.
    Http(HttpRule),
}

/// How an application is asked over HTTP.
#[derive(Clone, Debug)]
pub struct HttpRule {
    /// Where it listens, such as `http://127.0.0.1:3333`.
    pub url: String,
    /// The header that carries a key, and the variable the key is in.
    pub key: Option<HttpKey>,
    /// How its times are written.
    pub times: TimeFormat,
    /// What is asked, in this order; all of it must be answered.
    pub requests: Vec<HttpRequest>,
}

/// How a key is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpKey {
    /// The header.
    pub header: String,
    /// What stands in front of the key, such as `Bearer `.
    pub prefix: String,
    /// The environment variable that holds it, unless the configuration does.
    pub variable: String,
}

/// One question.
#[derive(Clone, Debug)]
pub struct HttpRequest {
    /// Path and query.
    pub path: String,
    /// The member of the answer that holds the rows; empty for an answer that is itself the list.
    pub rows: String,
    /// So many rows may mean that there are more, which is a fault.
    pub most: Option<usize>,
    /// What its rows are.
    pub yields: HttpRows,
}

/// What the rows of an answer are.
#[derive(Clone, Debug)]
pub enum HttpRows {
    /// Sessions.
    Sessions(Box<Mapping>),
    /// The ids of sessions that are live, which some other answer must have told of.
    Live(super::record::Value),
}

impl StoreRule {
    /// Whether the sessions of a container of this name are there.
    pub fn serves(&self, name: &str) -> bool {
        self.serves.is_empty() || self.serves.iter().any(|pattern| pattern.is_match(name))
    }

    /// Where it is looked for, for messages.
    pub fn place(&self) -> String {
        match &self.kind {
            StoreKind::Sqlite { paths, .. } => {
                paths.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
            }
            StoreKind::Http(http) => http.url.clone(),
        }
    }
}
