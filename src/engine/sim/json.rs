//! How the simulated engine writes what it knows: lists, inspections, statistics, in Docker's words.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::world::{Phase, Progress, SimContainer, SimExec, SimImage, World};

/// The engine that is simulated.
pub(super) const VERSION: &str = "20.10.24";
/// The newest API it speaks, and the oldest.
pub(super) const API: (u32, u32) = (1, 41);
pub(super) const OLDEST_API: (u32, u32) = (1, 12);
const PROCESSORS: u32 = 8;
const MEMORY: u64 = 16 << 30;

pub(super) fn version() -> Value {
    json!({
        "Platform": { "Name": "simulated" },
        "Components": [{ "Name": "Engine", "Version": VERSION, "Details": { "ApiVersion": "1.41" } }],
        "Version": VERSION, "ApiVersion": "1.41", "MinAPIVersion": "1.12", "GitCommit": "simulated",
        "GoVersion": "none", "Os": "linux", "Arch": "amd64", "KernelVersion": "simulated",
    })
}

pub(super) fn info(world: &World, now: Timestamp) -> Value {
    let count = |fits: fn(&Phase) -> bool| world.containers().filter(|it| fits(&it.phase)).count();
    json!({
        "ID": world.id(), "Name": "demo-host", "ServerVersion": VERSION, "Driver": "overlay2",
        "Containers": world.len(), "Images": world.images().count(),
        "ContainersRunning": count(|phase| matches!(phase, Phase::Running(_) | Phase::Restarting(_))),
        "ContainersPaused": count(|phase| matches!(phase, Phase::Paused(..))),
        "ContainersStopped": count(|phase| !phase.is_up()),
        "OperatingSystem": "a simulated host", "OSType": "linux", "Architecture": "x86_64",
        "KernelVersion": "simulated", "NCPU": PROCESSORS, "MemTotal": MEMORY, "SystemTime": now.to_string(),
        "CgroupDriver": "cgroupfs", "CgroupVersion": "2", "LiveRestoreEnabled": false,
        "SecurityOptions": ["name=seccomp,profile=default"], "Warnings": null,
    })
}

/// One row of the list.
pub(super) fn row(world: &World, container: &SimContainer, now: Timestamp) -> Value {
    // Once the reference names another image, only the id tells what it was made from.
    let named = world.image(&container.image).is_some_and(|image| image.id == container.image_id);
    let network = network(container);
    json!({
        "Id": container.id, "Names": [format!("/{}", container.name)],
        "Image": if named { &container.image } else { &container.image_id }, "ImageID": container.image_id,
        "Command": container.command.join(" "), "Created": container.created_at.as_second(), "Ports": [],
        "Labels": container.labels, "State": container.phase.word(), "Status": status(container, now),
        "HostConfig": { "NetworkMode": network }, "NetworkSettings": { "Networks": { network: {} } },
        "Mounts": mounts(container),
    })
}

/// The whole of one container.
pub(super) fn inspect(container: &SimContainer, with_size: bool) -> Value {
    let phase = &container.phase;
    let execs = if container.exec_ids.is_empty() { Value::Null } else { json!(container.exec_ids) };
    let (path, arguments) =
        container.command.split_first().map_or(("", &[] as &[String]), |(path, rest)| (path.as_str(), rest));
    let network = network(container);
    let mut whole = json!({
        "Id": container.id, "Created": container.created_at.to_string(), "Path": path, "Args": arguments,
        "State": {
            "Status": phase.word(), "Running": phase.is_up(), "Paused": matches!(phase, Phase::Paused(..)),
            "Restarting": matches!(phase, Phase::Restarting(_)), "OOMKilled": false,
            "Dead": matches!(phase, Phase::Dead), "Pid": phase.pid(), "ExitCode": container.exit_code,
            "Error": container.error, "StartedAt": moment(container.started_at),
            "FinishedAt": moment(container.finished_at),
        },
        "Image": container.image_id, "Name": format!("/{}", container.name),
        "RestartCount": container.restart_count, "Driver": "overlay2", "Platform": "linux",
        "MountLabel": "", "ProcessLabel": "", "AppArmorProfile": "", "ExecIDs": execs,
        "HostConfig": over(host_config_defaults(), &container.host_config),
        "GraphDriver": { "Data": {}, "Name": "overlay2" }, "Mounts": mounts(container),
        "Config": config(container),
        "NetworkSettings": { "Networks": { network: {} } },
    });
    if let (true, Some(whole)) = (with_size, whole.as_object_mut()) {
        whole.insert("SizeRw".to_owned(), json!(container.written_bytes));
        whole.insert("SizeRootFs".to_owned(), json!(container.written_bytes + 120_000_000));
    }
    whole
}

fn config(container: &SimContainer) -> Value {
    let hostname = container.id.get(..12).unwrap_or_default();
    let defaults = json!({
        "Hostname": hostname, "Domainname": "", "User": "", "AttachStdin": false, "AttachStdout": false,
        "AttachStderr": false, "Tty": false, "OpenStdin": false, "StdinOnce": false,
        "Env": ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"],
        "Cmd": container.command, "Image": container.image, "Volumes": null, "WorkingDir": "",
        "Entrypoint": null, "OnBuild": null,
    });
    let mut config = over(defaults, &container.config);
    config["Labels"] = json!(container.labels);
    config
}

fn host_config_defaults() -> Value {
    json!({
        "Binds": null, "NetworkMode": "default", "AutoRemove": false, "Privileged": false,
        "RestartPolicy": { "Name": "", "MaximumRetryCount": 0 }, "Tmpfs": null, "Mounts": null,
        "Memory": 0, "NanoCpus": 0, "PidsLimit": null, "ReadonlyRootfs": false, "Runtime": "runc",
        "CapAdd": null, "CapDrop": null, "SecurityOpt": null, "ShmSize": 67_108_864, "Ulimits": null,
        "LogConfig": { "Type": "json-file", "Config": {} },
    })
}

fn over(mut defaults: Value, given: &Map<String, Value>) -> Value {
    if let Some(defaults) = defaults.as_object_mut() {
        defaults.extend(given.iter().map(|(key, value)| (key.clone(), value.clone())));
    }
    defaults
}

fn network(container: &SimContainer) -> &str {
    container.host_config.get("NetworkMode").and_then(Value::as_str).unwrap_or("default")
}

/// What is mounted: binds and volumes of the short form, and mounts of the long one.
pub(super) fn mounts(container: &SimContainer) -> Vec<Value> {
    let listed = |key: &str| container.host_config.get(key).and_then(Value::as_array);
    let short = listed("Binds").into_iter().flatten().filter_map(Value::as_str).filter_map(|bind| {
        let mut parts = bind.split(':');
        let (source, target) = (parts.next()?, parts.next()?);
        Some(mount(if source.starts_with('/') { "bind" } else { "volume" }, source, target))
    });
    let long = listed("Mounts").into_iter().flatten().filter_map(|given| {
        let text = |key: &str| given.get(key).and_then(Value::as_str).unwrap_or_default();
        Some(mount(text("Type"), text("Source"), given.get("Target")?.as_str()?))
    });
    short.chain(long).collect()
}

fn mount(kind: &str, source: &str, target: &str) -> Value {
    let mut mount = json!({
        "Type": kind, "Source": source, "Destination": target, "Mode": "", "RW": true, "Propagation": "",
    });
    if kind == "volume" {
        mount["Name"] = json!(source);
        mount["Driver"] = json!("local");
        mount["Source"] = json!(format!("/var/lib/docker/volumes/{source}/_data"));
    }
    mount
}

/// The engines write the year 1 for never.
fn moment(at: Option<Timestamp>) -> String {
    at.map_or_else(|| "0001-01-01T00:00:00Z".to_owned(), |at| at.to_string())
}

fn status(container: &SimContainer, now: Timestamp) -> String {
    let since = |at: Option<Timestamp>| human(now.duration_since(at.unwrap_or(now)).unsigned_abs());
    match &container.phase {
        Phase::Created => "Created".to_owned(),
        Phase::Running(_) => format!("Up {}", since(container.started_at)),
        Phase::Paused(..) => format!("Up {} (Paused)", since(container.started_at)),
        Phase::Restarting(_) => {
            format!("Restarting ({}) {} ago", container.exit_code, since(container.finished_at))
        }
        Phase::Exited => format!("Exited ({}) {} ago", container.exit_code, since(container.finished_at)),
        Phase::Dead => "Dead".to_owned(),
        Phase::Strange(word) => word.clone(),
    }
}

/// A time span in the engine's own words.
fn human(span: Duration) -> String {
    let seconds = span.as_secs();
    let hours = (seconds + 1800) / 3600;
    match seconds {
        0 => "Less than a second".to_owned(),
        1 => "1 second".to_owned(),
        2..60 => format!("{seconds} seconds"),
        60..120 => "About a minute".to_owned(),
        120..3600 => format!("{} minutes", seconds / 60),
        _ => match hours {
            0 | 1 => "About an hour".to_owned(),
            2..48 => format!("{hours} hours"),
            48..336 => format!("{} days", hours / 24),
            336..1440 => format!("{} weeks", hours / 24 / 7),
            1440..17520 => format!("{} months", hours / 24 / 30),
            _ => format!("{} years", hours / 24 / 365),
        },
    }
}

pub(super) fn exec(exec: &SimExec) -> Value {
    let (running, code, pid) = match exec.progress {
        Progress::Waiting => (false, Value::Null, 0),
        Progress::Running { pid, .. } => (true, Value::Null, pid),
        Progress::Ended { pid, code } => (false, json!(code), pid),
    };
    let (entrypoint, arguments) =
        exec.command.split_first().map_or(("", &[] as &[String]), |(path, rest)| (path.as_str(), rest));
    json!({
        "ID": exec.id, "Running": running, "ExitCode": code, "Pid": pid, "ContainerID": exec.container,
        "ProcessConfig": { "tty": false, "entrypoint": entrypoint, "arguments": arguments, "privileged": false },
        "OpenStdin": false, "OpenStderr": false, "OpenStdout": false, "CanRemove": false, "DetachKeys": "",
    })
}

pub(super) fn image(world: &World, image: &SimImage) -> Value {
    json!({
        "Id": image.id, "RepoTags": world.tags_of(&image.id), "RepoDigests": [], "Parent": "", "Comment": "",
        "Created": image.created_at.to_string(), "Architecture": "amd64", "Os": "linux", "Size": image.size,
        "VirtualSize": image.size, "Config": { "Labels": image.labels, "Cmd": null, "Entrypoint": null },
    })
}

pub(super) fn image_row(world: &World, image: &SimImage) -> Value {
    json!({
        "Id": image.id, "ParentId": "", "RepoTags": world.tags_of(&image.id), "RepoDigests": [],
        "Created": image.created_at.as_second(), "Size": image.size, "SharedSize": -1, "Labels": image.labels,
        "Containers": -1,
    })
}

/// What a container has changed in its file system.
pub(super) fn changes(container: &SimContainer) -> Value {
    if container.changes.is_empty() {
        return Value::Null;
    }
    container.changes.iter().map(|path| json!({ "Path": path, "Kind": 1 })).collect()
}

/// One sample of what a container uses; `before` is the time of the sample before it.
pub(super) fn stats(container: &SimContainer, now: Timestamp, before: Option<Timestamp>) -> Value {
    let (name, id) = (format!("/{}", container.name), &container.id);
    if !container.phase.is_up() {
        let never = moment(None);
        return json!({
            "read": never, "preread": never, "pids_stats": {}, "num_procs": 0, "storage_stats": {},
            "cpu_stats": processor(None), "precpu_stats": processor(None), "memory_stats": {}, "name": name,
            "id": id,
        });
    }
    let at = |at: Timestamp| processor(Some((container.processor_time(at), at)));
    // Every container has a size of its own, and some more while it works.
    let own = u64::from_str_radix(id.get(..6).unwrap_or_default(), 16).unwrap_or_default();
    let memory = 20_000_000 + own * 25 + u64::from(container.load()) * 2_000_000;
    json!({
        "read": now.to_string(), "preread": moment(before), "pids_stats": { "current": 3 }, "num_procs": 0,
        "storage_stats": {}, "cpu_stats": at(now), "precpu_stats": before.map_or_else(|| processor(None), at),
        "memory_stats": { "usage": memory, "limit": MEMORY, "stats": { "inactive_file": 0 } },
        "networks": {}, "name": name, "id": id,
    })
}

fn processor(sample: Option<(Duration, Timestamp)>) -> Value {
    let throttling = json!({ "periods": 0, "throttled_periods": 0, "throttled_time": 0 });
    let Some((used, at)) = sample else {
        return json!({
            "cpu_usage": { "total_usage": 0, "usage_in_kernelmode": 0, "usage_in_usermode": 0 },
            "throttling_data": throttling,
        });
    };
    let used = u64::try_from(used.as_nanos()).unwrap_or(u64::MAX);
    let of_all = u64::try_from(at.as_nanosecond()).unwrap_or_default().saturating_mul(u64::from(PROCESSORS));
    json!({
        "cpu_usage": { "total_usage": used, "usage_in_kernelmode": used / 4, "usage_in_usermode": used / 4 * 3 },
        "system_cpu_usage": of_all, "online_cpus": PROCESSORS, "throttling_data": throttling,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_in_the_engines_words() {
        let cases = [
            (0, "Less than a second"),
            (1, "1 second"),
            (59, "59 seconds"),
            (61, "About a minute"),
            (125, "2 minutes"),
            (3700, "About an hour"),
            (7200, "2 hours"),
            (4 * 86_400, "4 days"),
            (30 * 86_400, "4 weeks"),
        ];
        for (seconds, words) in cases {
            assert_eq!(human(Duration::from_secs(seconds)), words, "{seconds}");
        }
    }
}
