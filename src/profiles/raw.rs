//! The TOML form of a profile.

use std::collections::BTreeMap;

use serde::Deserialize;
use toml::Spanned;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawProfile {
    pub(super) name: Spanned<String>,
    pub(super) description: String,
    pub(super) containers: RawContainers,
    #[serde(default)]
    pub(super) rules: RawRules,
    pub(super) sessions: Option<RawSessions>,
    #[serde(default)]
    pub(super) recovery: RawRecovery,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
pub(super) struct RawRecovery {
    #[serde(default)]
    pub(super) record: bool,
    #[serde(default)]
    pub(super) heal: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawContainers {
    pub(super) labels: Spanned<BTreeMap<String, String>>,
    #[serde(default)]
    pub(super) names: Vec<Spanned<String>>,
    #[serde(default)]
    pub(super) workspace: Vec<Spanned<String>>,
    pub(super) instance: Option<Spanned<String>>,
    pub(super) home: Option<RawHome>,
    #[serde(default)]
    pub(super) undecidable: Vec<RawUndecidable>,
    #[serde(default)]
    pub(super) mounts: Vec<RawMount>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawHome {
    pub(super) container: Vec<Spanned<String>>,
    pub(super) store: Spanned<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawMount {
    pub(super) target: String,
    pub(super) source: Spanned<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawUndecidable {
    pub(super) name: Option<Spanned<String>>,
    #[serde(default)]
    pub(super) labels: BTreeMap<String, String>,
    #[serde(default)]
    pub(super) running: bool,
    pub(super) why: Spanned<String>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
pub(super) struct RawRules {
    pub(super) persistent: Option<RawPersistence>,
    pub(super) lifetime: Option<RawLifetime>,
    pub(super) over: Option<RawOver>,
    #[serde(default)]
    pub(super) at_rest: Vec<Spanned<String>>,
    #[serde(default)]
    pub(super) companions: Vec<Spanned<String>>,
    pub(super) folders: Option<RawFolders>,
    pub(super) config_hash: Option<RawHash>,
    #[serde(default)]
    pub(super) image_drift: bool,
    pub(super) stop_grace: Option<Spanned<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawPersistence {
    pub(super) label: Option<String>,
    pub(super) bind_on: Option<String>,
    pub(super) default: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawLifetime {
    pub(super) label: Option<String>,
    pub(super) file: Option<Spanned<String>>,
    pub(super) key: Option<String>,
    pub(super) default: Option<Spanned<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawFolders {
    pub(super) root: Spanned<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawOver {
    #[serde(default)]
    pub(super) when_not_running: bool,
    #[serde(default)]
    pub(super) missing_binds: Vec<Spanned<String>>,
    #[serde(default)]
    pub(super) missing_paths: Vec<Spanned<String>>,
    pub(super) max_age: Option<Spanned<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawHash {
    pub(super) label: String,
    pub(super) expect: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawSessions {
    pub(super) store: Spanned<RawKind>,
    #[serde(default)]
    pub(super) serves: Vec<Spanned<String>>,
    pub(super) paths: Option<Spanned<Vec<RawPath>>>,
    pub(super) live_within: Option<Spanned<String>>,
    #[serde(default)]
    pub(super) ends_by_deleting: bool,
    pub(super) links: Spanned<Vec<RawLink>>,
    pub(super) queries: Option<Spanned<Vec<RawQuery>>>,
    pub(super) http: Option<RawHttp>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawHttp {
    #[serde(default)]
    pub(super) serves: Vec<Spanned<String>>,
    pub(super) url: Spanned<String>,
    pub(super) key: Option<RawKey>,
    pub(super) times: Times,
    pub(super) requests: Spanned<Vec<RawRequest>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawKey {
    pub(super) header: String,
    #[serde(default)]
    pub(super) prefix: String,
    pub(super) variable: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawRequest {
    pub(super) path: Spanned<String>,
    #[serde(default)]
    pub(super) rows: String,
    pub(super) most: Option<usize>,
    pub(super) live_ids: Option<Spanned<OneOrMany>>,
    pub(super) id: Option<Spanned<OneOrMany>>,
    pub(super) workspace: Option<Spanned<OneOrMany>>,
    pub(super) container: Option<Spanned<OneOrMany>>,
    pub(super) title: Option<Spanned<OneOrMany>>,
    pub(super) started_at: Option<Spanned<OneOrMany>>,
    pub(super) last_activity_at: Option<Spanned<OneOrMany>>,
    pub(super) ended_at: Option<Spanned<OneOrMany>>,
    pub(super) live: Option<Spanned<OneOrMany>>,
}

#[derive(Deserialize)]
#[serde(untagged)]
pub(super) enum OneOrMany {
    One(String),
    Many(Vec<String>),
}

/// A path, or a path with captures that hold for whatever is found there.
#[derive(Deserialize)]
#[serde(untagged)]
pub(super) enum RawPath {
    Plain(String),
    With {
        path: String,
        #[serde(flatten)]
        captures: BTreeMap<String, String>,
    },
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum RawKind {
    Sqlite,
    Http,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawLink {
    pub(super) session: Spanned<String>,
    pub(super) container: Spanned<Vec<Spanned<String>>>,
    pub(super) unless: Option<Spanned<String>>,
    pub(super) only: Option<Only>,
    #[serde(default)]
    pub(super) lost: Lost,
}

#[derive(Deserialize, Clone, Copy, PartialEq)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Only {
    Persistent,
    NonPersistent,
}

#[derive(Deserialize, Default, Clone, Copy)]
#[serde(rename_all = "lowercase")]
pub(super) enum Lost {
    #[default]
    Never,
    Live,
    Open,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawQuery {
    pub(super) name: String,
    pub(super) requires: BTreeMap<String, Vec<String>>,
    #[serde(default)]
    pub(super) absent: Vec<String>,
    pub(super) times: Times,
    pub(super) sql: String,
}

#[derive(Deserialize, Clone, Copy)]
#[serde(rename_all = "lowercase")]
pub(super) enum Times {
    Seconds,
    Milliseconds,
    Iso8601,
}
