//! Bodies the scripted engine answers with: list rows, inspections and images, in the shape of Engine 20.10.

use jiff::Timestamp;
use serde_json::{Value, json};

/// A 64-hex id that is always the same for the same name.
pub(crate) fn id_of(name: &str) -> String {
    let mut state: u64 = 0xcbf2_9ce4_8422_2325;
    for byte in name.bytes() {
        state = (state ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    let mut next = || {
        state = (state ^ (state >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9).rotate_left(17);
        state
    };
    format!("{:016x}{:016x}{:016x}{:016x}", next(), next(), next(), next())
}

/// Unix seconds, so many of them ago.
pub(crate) fn ago(seconds: i64) -> i64 {
    Timestamp::now().as_second() - seconds
}

/// A container named `name`: running, a day old, without labels.
pub(crate) fn row(name: &str) -> Row {
    Row {
        id: id_of(name),
        name: name.to_owned(),
        labels: serde_json::Map::new(),
        state: "running".to_owned(),
        created: ago(86_400),
        image: "sandkeeper-test:latest".to_owned(),
        image_id: format!("sha256:{}", id_of("sandkeeper-test:latest")),
        mounts: Vec::new(),
        execs: Vec::new(),
    }
}

/// The body of `GET /containers/{id}/json` for a row.
pub(crate) fn inspect_of(row: &Row) -> Value {
    row.inspect()
}

/// The body of `GET /containers/{id}/top` for a container whose first process is this and in which nothing else runs.
pub(crate) fn top_of(command: &str) -> Value {
    json!({
        "Titles": ["PID", "PPID", "SID", "STAT", "ELAPSED", "COMMAND"],
        "Processes": [[FIRST.to_string(), "4200", FIRST.to_string(), "Ss", "02:00:00", command]],
    })
}

/// The first process of whatever runs.
const FIRST: u32 = 4242;

/// The body of `GET /images/{reference}/json`.
pub(crate) fn image_inspect(id: &str, tags: &[&str], labels: &[(&str, &str)]) -> Value {
    let labels: serde_json::Map<_, _> =
        labels.iter().map(|(key, value)| ((*key).to_owned(), json!(value))).collect();
    json!({
        "Id": id, "RepoTags": tags, "RepoDigests": [], "Created": time(ago(200_000)), "Size": 2_000_000,
        "Architecture": "amd64", "Os": "linux", "Config": { "Labels": labels, "Cmd": ["sh"], "Env": [] },
    })
}

/// One container, as facts from which both the list row and the inspection follow.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) id: String,
    pub(crate) name: String,
    labels: serde_json::Map<String, Value>,
    state: String,
    created: i64,
    image: String,
    image_id: String,
    mounts: Vec<Value>,
    execs: Vec<String>,
}

impl Row {
    pub(crate) fn id(mut self, id: impl Into<String>) -> Self {
        self.id = id.into();
        self
    }

    pub(crate) fn label(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.labels.insert(key.into(), Value::String(value.into()));
        self
    }

    /// `created`, `running`, `paused`, `restarting`, `removing`, `exited`, `dead`, or nonsense.
    pub(crate) fn state(mut self, state: impl Into<String>) -> Self {
        self.state = state.into();
        self
    }

    /// Unix seconds; see [`ago`].
    pub(crate) fn created(mut self, unix: i64) -> Self {
        self.created = unix;
        self
    }

    pub(crate) fn image(mut self, reference: impl Into<String>, id: impl Into<String>) -> Self {
        self.image = reference.into();
        self.image_id = id.into();
        self
    }

    /// A bind mount.
    pub(crate) fn mount(mut self, source: &str, target: &str) -> Self {
        self.mounts.push(json!({
            "Type": "bind", "Source": source, "Destination": target, "Mode": "", "RW": true,
            "Propagation": "rprivate",
        }));
        self
    }

    /// A named volume.
    pub(crate) fn volume(mut self, name: &str, target: &str) -> Self {
        self.mounts.push(json!({
            "Type": "volume", "Name": name, "Source": format!("/volumes/{name}/_data"), "Destination": target,
            "Driver": "local", "Mode": "z", "RW": true, "Propagation": "",
        }));
        self
    }

    /// A command that runs in it.
    pub(crate) fn exec(mut self, exec_id: impl Into<String>) -> Self {
        self.execs.push(exec_id.into());
        self
    }

    /// Its row in `GET /containers/json`.
    pub(crate) fn listed(&self) -> Value {
        let status = match self.state.as_str() {
            "running" => "Up 2 hours",
            "paused" => "Up 2 hours (Paused)",
            "exited" => "Exited (0) 2 hours ago",
            "restarting" => "Restarting (1) 2 seconds ago",
            "created" => "Created",
            other => other,
        };
        json!({
            "Id": self.id, "Names": [format!("/{}", self.name)], "Image": self.image, "ImageID": self.image_id,
            "Command": "sleep 1000", "Created": self.created, "Ports": [], "Labels": self.labels,
            "State": self.state, "Status": status, "HostConfig": { "NetworkMode": "none" },
            "NetworkSettings": { "Networks": {} }, "Mounts": self.mounts,
        })
    }

    /// The body of `GET /containers/{id}/json`.
    pub(crate) fn inspect(&self) -> Value {
        let started = self.state != "created";
        let running = matches!(self.state.as_str(), "running" | "paused" | "restarting");
        let never = "0001-01-01T00:00:00Z".to_owned();
        let execs = if self.execs.is_empty() { Value::Null } else { json!(self.execs) };
        json!({
            "Id": self.id, "Name": format!("/{}", self.name), "Created": time(self.created),
            "Path": "sleep", "Args": ["1000"], "Image": self.image_id, "RestartCount": 0,
            "State": {
                "Status": self.state, "Running": running, "Paused": self.state == "paused",
                "Restarting": self.state == "restarting", "Dead": self.state == "dead", "OOMKilled": false,
                "Pid": if running { FIRST } else { 0 }, "ExitCode": 0, "Error": "",
                "StartedAt": if started { time(self.created + 1) } else { never.clone() },
                "FinishedAt": if started && !running { time(self.created + 2) } else { never },
            },
            "Config": {
                "Hostname": "sandbox", "User": "", "Env": ["PATH=/bin"], "Cmd": ["sleep", "1000"],
                "Image": self.image, "Labels": self.labels, "WorkingDir": "", "Entrypoint": null,
            },
            "HostConfig": {
                "NetworkMode": "none", "AutoRemove": false, "Binds": null,
                "RestartPolicy": { "Name": "no", "MaximumRetryCount": 0 },
            },
            "Mounts": self.mounts, "ExecIDs": execs, "NetworkSettings": { "Networks": {} },
        })
    }
}

fn time(unix: i64) -> String {
    Timestamp::from_second(unix).unwrap().to_string()
}
