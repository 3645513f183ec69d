//! A tolerant reading of the engine's JSON. One row that cannot be read costs that row; a document that cannot be
//! read is a fault and never an empty list.

mod list;
mod top;

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use serde::Deserialize;

use super::fault::EngineFault;
use crate::domain::Labels;
use crate::domain::container::{
    Container, ContainerId, ContainerState, HealthCheck, Inspected, Inspection, Joins, Mount, Namespace,
    Processes,
};
pub(crate) use list::{ListReader, row};
pub(in crate::engine) use top::{Known, top};

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct RawMount {
    #[serde(rename = "Type", default)]
    kind: String,
    #[serde(default)]
    name: String,
    #[serde(default)]
    source: String,
    #[serde(default)]
    destination: String,
}

impl From<RawMount> for Mount {
    fn from(raw: RawMount) -> Self {
        let source = if raw.source.is_empty() { raw.name } else { raw.source };
        Self { kind: raw.kind, source, target: raw.destination }
    }
}

fn unintelligible(error: &serde_json::Error, body: &[u8]) -> EngineFault {
    let beginning: String = String::from_utf8_lossy(&body[..body.len().min(60)]).into_owned();
    EngineFault::Unintelligible(format!("{error}; it begins with `{}`", beginning.trim()))
}

/// Names come with a leading slash; more slashes are aliases of legacy links.
fn name_of(names: &[String]) -> String {
    let plain =
        names.iter().map(|name| name.strip_prefix('/').unwrap_or(name)).find(|name| !name.contains('/'));
    plain.unwrap_or_default().to_owned()
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct RawInspect {
    id: String,
    name: String,
    created: String,
    #[serde(default)]
    image: String,
    state: RawState,
    config: RawConfig,
    #[serde(rename = "ExecIDs")]
    exec_ids: Option<Vec<String>>,
    mounts: Option<Vec<RawMount>>,
    host_config: Option<RawHostConfig>,
    restart_count: Option<u64>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct RawState {
    #[serde(default)]
    status: String,
    #[serde(default)]
    started_at: String,
    #[serde(default)]
    finished_at: String,
    exit_code: Option<i64>,
    pid: Option<i64>,
    #[serde(rename = "OOMKilled", default)]
    out_of_memory: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct RawConfig {
    #[serde(default)]
    image: String,
    labels: Option<Labels>,
    tty: Option<bool>,
    open_stdin: Option<bool>,
    attach_stdin: Option<bool>,
    stop_timeout: Option<i64>,
    healthcheck: Option<RawHealthCheck>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct RawHealthCheck {
    test: Option<Vec<String>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct RawHostConfig {
    #[serde(default)]
    auto_remove: bool,
    tmpfs: Option<BTreeMap<String, String>>,
    network_mode: Option<String>,
    pid_mode: Option<String>,
    ipc_mode: Option<String>,
}

impl RawHostConfig {
    /// In whose namespaces the container lives.
    fn joins(&self) -> Vec<(Namespace, String)> {
        let modes = [
            (Namespace::Network, &self.network_mode),
            (Namespace::Pid, &self.pid_mode),
            (Namespace::Ipc, &self.ipc_mode),
        ];
        let whose = |mode: &Option<String>| {
            let whose = mode.as_deref()?.strip_prefix("container:")?;
            Some(whose.strip_prefix('/').unwrap_or(whose).to_owned())
        };
        modes.into_iter().filter_map(|(namespace, mode)| Some((namespace, whose(mode)?))).collect()
    }
}

/// Reads in whose namespaces a container lives out of `GET /containers/{id}/json`; `None` for one that has another id.
pub(super) fn joins(body: &[u8], id: &ContainerId) -> Result<Option<Joins>, EngineFault> {
    #[derive(Deserialize)]
    #[serde(rename_all = "PascalCase")]
    struct Raw {
        id: String,
        host_config: Option<RawHostConfig>,
    }
    let raw: Raw = serde_json::from_slice(body).map_err(|error| unintelligible(&error, body))?;
    let joins = raw.host_config.map_or(Joins::Failed, |host| Joins::Known(host.joins()));
    Ok((raw.id == id.as_str()).then_some(joins))
}

/// An inspected container and the exec instances the engine knows of, running or not.
pub(crate) struct DecodedInspect {
    pub(crate) container: Container,
    pub(super) inspection: Inspection,
    pub(super) exec_ids: Vec<String>,
}

/// Reads `GET /containers/{id}/json`.
pub(crate) fn inspect(body: &[u8]) -> Result<DecodedInspect, EngineFault> {
    let raw: RawInspect = serde_json::from_slice(body).map_err(|error| unintelligible(&error, body))?;
    let id = ContainerId::parse(&raw.id)
        .ok_or_else(|| EngineFault::Unintelligible("the inspected container has no full id".to_owned()))?;
    let created_at = raw
        .created
        .parse()
        .map_err(|_| EngineFault::Unintelligible(format!("`{}` is not a time of creation", raw.created)))?;
    let joins = raw.host_config.as_ref().map_or(Joins::Failed, |host| Joins::Known(host.joins()));
    let inspection = Inspection {
        image_reference: raw.config.image.clone(),
        started_at: moment(&raw.state.started_at)?,
        finished_at: moment(&raw.state.finished_at)?,
        exit_code: raw.state.exit_code,
        running_execs: 0,
        commands: Vec::new(),
        out_of_memory: raw.state.out_of_memory,
        auto_remove: raw.host_config.as_ref().is_some_and(|host| host.auto_remove),
        // Both engines count from zero again when somebody starts it.
        restarts_by_itself: raw.restart_count.is_some_and(|count| count > 0),
        first_pid: raw.state.pid.and_then(|pid| u32::try_from(pid).ok()).filter(|pid| *pid > 0),
        stop_timeout: raw
            .config
            .stop_timeout
            // For ever.
            .map(|seconds| u64::try_from(seconds).map_or(Duration::MAX, Duration::from_secs)),
        terminal: raw.config.tty == Some(true) && raw.config.open_stdin == Some(true),
        attached: raw.config.attach_stdin == Some(true) && raw.config.open_stdin == Some(true),
        health_check: raw.config.healthcheck.and_then(|check| HealthCheck::of(&check.test?)),
        tmpfs: raw.host_config.and_then(|host| host.tmpfs).unwrap_or_default().into_keys().collect(),
        checking: Vec::new(),
        processes: Processes::NotAsked,
    };
    let container = Container {
        id,
        name: raw.name.strip_prefix('/').unwrap_or(&raw.name).to_owned(),
        image: raw.config.image.into(),
        image_id: raw.image.into(),
        labels: raw.config.labels.unwrap_or_default(),
        state: ContainerState::parse(&raw.state.status),
        created_at,
        mounts: raw.mounts.unwrap_or_default().into_iter().map(Mount::from).collect(),
        joins,
        inspected: Inspected::NotNeeded,
    };
    Ok(DecodedInspect { container, inspection, exec_ids: raw.exec_ids.unwrap_or_default() })
}

/// The engines write the year 1, or nothing, for "never". What is no time at all does not mean never.
fn moment(text: &str) -> Result<Option<Timestamp>, EngineFault> {
    if text.is_empty() {
        return Ok(None);
    }
    let moment: Timestamp =
        text.parse().map_err(|_| EngineFault::Unintelligible(format!("`{text}` is not a time")))?;
    Ok((moment > Timestamp::UNIX_EPOCH).then_some(moment))
}

/// A command that was put into a container.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Exec {
    pub(super) runs: bool,
    /// Its process, as the engine's host counts.
    pub(super) pid: Option<u32>,
    /// Its command line; empty where the engine does not tell.
    pub(super) command: String,
}

/// Reads `GET /exec/{id}/json`.
pub(super) fn exec(body: &[u8]) -> Result<Exec, EngineFault> {
    #[derive(Deserialize)]
    #[serde(rename_all = "PascalCase")]
    struct RawExec {
        running: bool,
        pid: Option<i64>,
        process_config: Option<RawProcess>,
    }
    #[derive(Deserialize)]
    struct RawProcess {
        #[serde(default)]
        entrypoint: String,
        arguments: Option<Vec<String>>,
    }
    let raw: RawExec = serde_json::from_slice(body).map_err(|error| unintelligible(&error, body))?;
    let command = raw
        .process_config
        .map(|process| [vec![process.entrypoint], process.arguments.unwrap_or_default()].concat().join(" "));
    Ok(Exec {
        runs: raw.running,
        pid: raw.pid.and_then(|pid| u32::try_from(pid).ok()),
        command: command.unwrap_or_default(),
    })
}

/// Reads `GET /images/{reference}/json`: the id, and the labels that containers inherit.
pub(super) fn image(body: &[u8]) -> Result<(String, Labels), EngineFault> {
    #[derive(Deserialize)]
    #[serde(rename_all = "PascalCase")]
    struct RawImage {
        id: String,
        config: Option<RawImageConfig>,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "PascalCase")]
    struct RawImageConfig {
        labels: Option<Labels>,
    }
    let raw: RawImage = serde_json::from_slice(body).map_err(|error| unintelligible(&error, body))?;
    Ok((raw.id, raw.config.and_then(|config| config.labels).unwrap_or_default()))
}

/// Reads the name of a server, such as `Docker/20.10.24 (linux)`: the product and its version. Any other name is that
/// of something in between.
pub(super) fn server(name: &str) -> Option<(String, String)> {
    let (product, version) = name.split_whitespace().next()?.split_once('/')?;
    let product = match product {
        "Docker" => "Docker",
        "Libpod" => "Podman",
        _ => return None,
    };
    Some((product.to_owned(), version.to_owned()))
}

/// Reads `GET /version`: the product and its version.
pub(super) fn version(body: &[u8]) -> Result<(String, String), EngineFault> {
    #[derive(Deserialize)]
    #[serde(rename_all = "PascalCase")]
    struct RawVersion {
        version: String,
        #[serde(default)]
        components: Option<Vec<RawComponent>>,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "PascalCase")]
    struct RawComponent {
        #[serde(default)]
        name: String,
    }
    let raw: RawVersion = serde_json::from_slice(body).map_err(|error| unintelligible(&error, body))?;
    let components = raw.components.unwrap_or_default();
    let podman = components.iter().any(|component| component.name.contains("Podman"));
    Ok((if podman { "Podman" } else { "Docker" }.to_owned(), raw.version))
}

#[cfg(test)]
mod random_input;

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::domain::container::Row;

    fn id(digit: char) -> String {
        digit.to_string().repeat(64)
    }

    fn good(digit: char) -> String {
        format!(
            r#"{{"Id":"{}","Names":["/box-{digit}"],"Image":"i","ImageID":"sha256:1","Labels":{{"a":"b"}},"State":"running","Created":1700000000,"Mounts":[]}}"#,
            id(digit)
        )
    }

    fn list(body: &[u8]) -> Result<Vec<Row>, EngineFault> {
        let mut reader = ListReader::new(&[]);
        body.chunks(7).try_for_each(|piece| reader.take(piece))?;
        reader.finish()
    }

    fn listed(rows: &[String]) -> Vec<Row> {
        list(format!("[{}]", rows.join(",")).as_bytes()).unwrap()
    }

    fn containers(rows: &[Row]) -> usize {
        rows.iter().filter(|row| matches!(row, Row::Container(_))).count()
    }

    #[test]
    fn one_bad_row_costs_one_row() {
        let bad = [
            "null".to_owned(),
            "7".to_owned(),
            "[]".to_owned(),
            "{}".to_owned(),
            good('a').replace("1700000000", "\"soon\""),
            good('a').replace("1700000000", "9223372036854775807"),
            good('a').replace(r#""a":"b""#, r#""a":7"#),
            good('a').replace(&id('a'), "abc"),
            good('a').replace(r#""Id""#, r#""Di""#),
        ];
        for bad in bad {
            let rows = listed(&[good('1'), bad.clone(), good('2')]);
            assert_eq!((rows.len(), containers(&rows)), (3, 2), "{bad}");
        }
    }

    #[test]
    fn nulls_where_engines_send_them_are_nothing_special() {
        let row = good('a')
            .replace(r#"{"a":"b"}"#, "null")
            .replace(r#"["/box-a"]"#, "null")
            .replace(r#""Mounts":[]"#, r#""Mounts":null"#);
        let rows = listed(&[row]);
        let Row::Container(container) = &rows[0] else { panic!("{rows:?}") };
        assert!(container.labels.is_empty() && container.name.is_empty());
        let rows = listed(&[good('a').replace(r#""running""#, "null")]);
        let Row::Container(container) = &rows[0] else { panic!("{rows:?}") };
        assert_eq!(container.state, ContainerState::Unrecognised(String::new()));
    }

    #[test]
    fn what_has_not_changed_is_kept_once() {
        let before = listed(&[good('a'), good('b')]);
        let mut reader = ListReader::new(&before);
        let again = [good('a'), good('b').replace("running", "paused")];
        reader.take(format!("[{}]", again.join(",")).as_bytes()).unwrap();
        let after = reader.finish().unwrap();
        let (Row::Container(a), Row::Container(b)) = (&before[0], &before[1]) else { panic!("{before:?}") };
        let (Row::Container(a_again), Row::Container(b_again)) = (&after[0], &after[1]) else {
            panic!("{after:?}")
        };
        assert!(Arc::ptr_eq(a, a_again));
        assert_eq!(b_again.state, ContainerState::Paused);
        assert!(b.labels.are_shared_with(&b_again.labels));
    }

    #[test]
    fn an_unknown_state_is_kept_as_the_engine_said_it() {
        let rows = listed(&[good('a').replace("running", "stopped")]);
        let Row::Container(container) = &rows[0] else { panic!("{rows:?}") };
        assert_eq!(container.state, ContainerState::Unrecognised("stopped".to_owned()));
    }

    #[test]
    fn rows_that_share_an_id_are_not_relied_on() {
        let rows = listed(&[good('a'), good('b'), good('a')]);
        assert_eq!(containers(&rows), 1);
        let half_readable = good('a').replace("1700000000", "null");
        assert_eq!(containers(&listed(&[good('a'), half_readable])), 0);
    }

    #[test]
    fn what_is_no_list_is_a_fault_and_never_an_empty_list() {
        for body in ["", "{}", "<html>", "[{\"Id\":", "[{]", "[1}]", "null", r#"{"message":"boom"}"#] {
            assert!(list(body.as_bytes()).is_err(), "{body}");
        }
    }

    #[test]
    fn salvaged_rows_keep_what_tells_whose_they_are() {
        let rows = listed(&[good('a').replace("1700000000", "null")]);
        let Row::Unreadable(row) = &rows[0] else { panic!("{rows:?}") };
        assert_eq!(row.name.as_deref(), Some("box-a"));
        assert_eq!(row.labels.as_ref().unwrap().get("a"), Some("b"));
        assert!(row.id.is_some());
    }

    #[test]
    fn the_year_one_means_never() {
        assert_eq!(moment("0001-01-01T00:00:00Z"), Ok(None));
        assert_eq!(moment(""), Ok(None));
        assert!(matches!(moment("2026-02-22T10:00:00.123456789Z"), Ok(Some(_))));
        assert!(moment("soon").is_err(), "what is no time does not mean never");
    }
}
