//! From the engine's word on how a container is made to a request for another one like it.
//!
//! `Config` and `HostConfig` of an inspection have the form that the engine wants to make a container, so they are taken as they
//! are: whatever limit, capability or option there was, it is there again. Only what the engine made up for the old one is
//! left out, and what it keeps elsewhere is put in: volumes that it named itself, and the network.

use serde_json::{Map, Value, json};
use thiserror::Error;

use crate::domain::ContainerId;

/// Why a container cannot be made from what was recorded.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SpecFault {
    /// It cannot be read.
    #[error("what was recorded of it cannot be read")]
    Unreadable,
    /// It does not say something that is needed. Never what the record does say.
    #[error("what was recorded of it lacks `{0}`")]
    Lacks(&'static str),
}

/// A container to be made again.
#[derive(Clone)]
pub struct Remake {
    inspection: Value,
    /// The id it had.
    pub id: ContainerId,
    /// The name it had.
    pub name: String,
    /// The image reference it was made from.
    pub image: String,
    /// The id of that image.
    pub image_id: String,
    /// Networks that it is not connected to again.
    pub other_networks: Vec<String>,
}

impl std::fmt::Debug for Remake {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Remake({})", self.id.short())
    }
}

impl Remake {
    /// Reads what was recorded.
    pub fn read(recorded: &str) -> Result<Self, SpecFault> {
        // The parser's own complaint could quote a secret.
        let inspection: Value = serde_json::from_str(recorded).map_err(|_| SpecFault::Unreadable)?;
        let text = |value: &Value| value.as_str().filter(|text| !text.is_empty()).map(str::to_owned);
        let id = text(&inspection["Id"]).and_then(|id| ContainerId::parse(&id));
        let name = text(&inspection["Name"]).ok_or(SpecFault::Lacks("Name"))?;
        let object = |key: &'static str| match &inspection[key] {
            Value::Object(_) => Ok(()),
            _ => Err(SpecFault::Lacks(key)),
        };
        object("Config")?;
        object("HostConfig")?;
        let mut remake = Self {
            id: id.ok_or(SpecFault::Lacks("Id"))?,
            name: name.strip_prefix('/').unwrap_or(&name).to_owned(),
            image: text(&inspection["Config"]["Image"]).ok_or(SpecFault::Lacks("Config.Image"))?,
            image_id: text(&inspection["Image"]).ok_or(SpecFault::Lacks("Image"))?,
            other_networks: Vec::new(),
            inspection,
        };
        let main = remake.network_mode();
        let networks = remake.inspection["NetworkSettings"]["Networks"].as_object();
        let others = networks.into_iter().flat_map(Map::keys).filter(|name| !is_main(name, &main));
        remake.other_networks = others.cloned().collect();
        Ok(remake)
    }

    fn network_mode(&self) -> String {
        self.inspection["HostConfig"]["NetworkMode"].as_str().unwrap_or("default").to_owned()
    }

    /// Memory-backed mounts, which come back empty.
    pub fn tmpfs(&self) -> Vec<String> {
        let tmpfs = self.inspection["HostConfig"]["Tmpfs"].as_object();
        tmpfs.into_iter().flat_map(Map::keys).cloned().collect()
    }

    /// The folders of the host that it has mounted.
    pub(crate) fn sources(&self) -> Vec<Source> {
        sources_in(&self.inspection)
    }

    /// The volumes that it has, by name, and where they are in it.
    pub(crate) fn volumes(&self) -> Vec<(String, String)> {
        let mounts = self.inspection["Mounts"].as_array().into_iter().flatten();
        let volumes = mounts.filter(|mount| mount["Type"] == "volume");
        let text = |value: &Value| value.as_str().filter(|text| !text.is_empty()).map(str::to_owned);
        volumes.filter_map(|mount| Some((text(&mount["Name"])?, text(&mount["Destination"])?))).collect()
    }

    /// The same document for an engine whose folders cannot be seen from here: every folder is asked for in the form in which
    /// an engine insists that it is there. `None` where an option has no such form.
    pub(crate) fn document_insisting(&self, image: &str) -> Option<Value> {
        let mut document = self.document(image);
        let host = document["HostConfig"].as_object_mut()?;
        let binds = match host.remove("Binds") {
            Some(Value::Array(binds)) => binds,
            _ => Vec::new(),
        };
        let (folders, others): (Vec<Value>, Vec<Value>) =
            binds.into_iter().partition(|bind| bind.as_str().is_some_and(|bind| bind.starts_with('/')));
        let folders: Option<Vec<Value>> =
            folders.iter().map(|bind| bind.as_str().and_then(as_mount)).collect();
        let mut mounts = match host.remove("Mounts") {
            Some(Value::Array(mounts)) => mounts,
            _ => Vec::new(),
        };
        mounts.extend(folders?);
        if !others.is_empty() {
            host.insert("Binds".to_owned(), Value::from(others));
        }
        if !mounts.is_empty() {
            host.insert("Mounts".to_owned(), Value::from(mounts));
        }
        Some(document)
    }

    /// The document that asks for it, made from this image: its reference, or its id once the reference names another.
    pub fn document(&self, image: &str) -> Value {
        let mut document = self.inspection["Config"].clone();
        let mut host = self.inspection["HostConfig"].clone();
        if let Some(config) = document.as_object_mut() {
            self.clear_config(config);
            config.insert("Image".to_owned(), json!(image));
        }
        if let Some(host) = host.as_object_mut() {
            self.clear_host(host);
        }
        document["HostConfig"] = host;
        if let Some(networking) = self.networking() {
            document["NetworkingConfig"] = networking;
        }
        document
    }

    /// A host name that the engine took from the id is nobody's wish.
    fn clear_config(&self, config: &mut Map<String, Value>) {
        let of_id = config.get("Hostname").and_then(Value::as_str) == Some(self.id.short());
        // Engines refuse a name for a container that lives under the name of another one, or of the host.
        let shares_name = self.network_mode().starts_with("container:")
            || self.inspection["HostConfig"]["UTSMode"] == "host";
        if of_id || shares_name {
            config.remove("Hostname");
            config.remove("Domainname");
        }
        config.remove("MacAddress");
        if let Some(variables) = config.get_mut("Env").and_then(Value::as_array_mut) {
            // Podman adds the host name that it took from the id.
            let made_up = format!("HOSTNAME={}", self.id.short());
            variables.retain(|variable| variable.as_str() != Some(&made_up));
        }
        // Podman tells how it was called.
        config.remove("CreateCommand");
        config.remove("OnBuild");
    }

    fn clear_host(&self, host: &mut Map<String, Value>) {
        for made_up in ["ContainerIDFile", "ConsoleSize", "Isolation"] {
            host.remove(made_up);
        }
        host.retain(|_, value| !value.is_null());
        // Podman gives limits their kernel's names, and takes them by their common ones only.
        for limit in host.get_mut("Ulimits").and_then(Value::as_array_mut).into_iter().flatten() {
            if let Some(name) = limit["Name"].as_str().and_then(|name| name.strip_prefix("RLIMIT_")) {
                limit["Name"] = json!(name.to_ascii_lowercase());
            }
        }
        let unnamed = self.volumes_the_engine_named(host);
        if !unnamed.is_empty() {
            let binds = host.entry("Binds").or_insert_with(|| json!([]));
            if let Some(binds) = binds.as_array_mut() {
                binds.extend(unnamed.into_iter().map(Value::from));
            }
        }
    }

    /// Volumes without a name of their own are kept when a container is removed; with the name the engine gave them they
    /// come back with what is in them.
    fn volumes_the_engine_named(&self, host: &Map<String, Value>) -> Vec<String> {
        let texts = |key: &str| host.get(key).and_then(Value::as_array).into_iter().flatten();
        let mut asked: Vec<&str> =
            texts("Binds").filter_map(|bind| bind.as_str()?.split(':').nth(1)).collect();
        asked.extend(texts("Mounts").filter_map(|mount| mount.get("Target")?.as_str()));
        let mounts = self.inspection["Mounts"].as_array().into_iter().flatten();
        let volumes = mounts.filter(|mount| mount["Type"] == "volume").filter_map(|mount| {
            let (name, target) = (mount["Name"].as_str()?, mount["Destination"].as_str()?);
            let mode = if mount["RW"] == json!(false) { ":ro" } else { "" };
            (!asked.contains(&target) && !name.is_empty()).then(|| format!("{name}:{target}{mode}"))
        });
        volumes.collect()
    }

    /// The network it was on by its own wish, with the names it had there.
    fn networking(&self) -> Option<Value> {
        let mode = self.network_mode();
        let usual =
            matches!(mode.as_str(), "default" | "bridge" | "host" | "none" | "slirp4netns" | "private");
        if usual || mode.starts_with("container:") || mode.starts_with("ns:") {
            return None;
        }
        let networks = self.inspection["NetworkSettings"]["Networks"].as_object()?;
        let known = networks.get(&mode)?;
        let mut endpoint = Map::new();
        for key in ["IPAMConfig", "Links", "DriverOpts"] {
            if let Some(value) = known.get(key).filter(|value| !value.is_null()) {
                endpoint.insert(key.to_owned(), value.clone());
            }
        }
        let aliases = known["Aliases"].as_array().into_iter().flatten();
        let aliases: Vec<Value> =
            aliases.filter(|alias| alias.as_str() != Some(self.id.short())).cloned().collect();
        if !aliases.is_empty() {
            endpoint.insert("Aliases".to_owned(), Value::from(aliases));
        }
        Some(json!({ "EndpointsConfig": { mode: endpoint } }))
    }
}

/// Every value of the environment in an inspection, in each form in which an engine may quote it: as it is, and as JSON
/// writes it, which some engines do with `<`, `>` and `&` as numbers.
pub(crate) fn secrets_in(inspection: &Value) -> Vec<String> {
    /// Shorter values are in every other word.
    const TELLING: usize = 4;
    let variables = inspection["Config"]["Env"].as_array().into_iter().flatten();
    let values = variables.filter_map(|variable| Some(variable.as_str()?.split_once('=')?.1));
    let mut secrets: Vec<String> = values
        .filter(|value| value.len() >= TELLING)
        .flat_map(|value| {
            let quoted = json!(value).to_string();
            let quoted = quoted[1..quoted.len() - 1].to_owned();
            let numbered = quoted.replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026");
            [value.to_owned(), quoted, numbered]
        })
        .collect();
    secrets.sort();
    secrets.dedup();
    secrets
}

/// A folder of the host that a container has mounted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Source {
    /// Where it is, for the engine.
    pub(crate) path: String,
    /// Whether the engine makes an empty one where there is none, instead of failing.
    pub(crate) made_if_missing: bool,
}

/// The folders of the host that the container of an inspection has mounted.
pub(crate) fn sources_in(inspection: &Value) -> Vec<Source> {
    let listed = |key: &str| inspection["HostConfig"][key].as_array().into_iter().flatten();
    let short = listed("Binds").filter_map(|bind| bind.as_str()?.split(':').next());
    let short = short.filter(|source| source.starts_with('/')).map(|source| (source, true));
    let long = listed("Mounts").filter(|mount| mount["Type"] == "bind").filter_map(|mount| {
        // An engine may be told to make it all the same.
        let makes = mount["BindOptions"]["CreateMountpoint"] == json!(true);
        Some((mount["Source"].as_str()?, makes))
    });
    let mut sources: Vec<Source> = Vec::new();
    for (path, made_if_missing) in short.chain(long) {
        match sources.iter_mut().find(|known| known.path == path) {
            Some(known) => known.made_if_missing |= made_if_missing,
            None => sources.push(Source { path: path.to_owned(), made_if_missing }),
        }
    }
    sources
}

/// A folder of the short form (`/srv:/work:ro`) in the long form; `None` if it has an option that the long form lacks.
fn as_mount(bind: &str) -> Option<Value> {
    let mut parts = bind.split(':');
    let (source, target, options) = (parts.next()?, parts.next()?, parts.next().unwrap_or_default());
    if parts.next().is_some() {
        return None;
    }
    let mut mount = json!({ "Type": "bind", "Source": source, "Target": target });
    for option in options.split(',').filter(|option| !option.is_empty()) {
        match option {
            "rw" | "rbind" => {}
            "ro" => mount["ReadOnly"] = json!(true),
            "private" | "rprivate" | "shared" | "rshared" | "slave" | "rslave" => {
                mount["BindOptions"]["Propagation"] = json!(option);
            }
            "consistent" | "cached" | "delegated" | "default" => mount["Consistency"] = json!(option),
            _ => return None,
        }
    }
    Some(mount)
}

fn is_main(name: &str, mode: &str) -> bool {
    name == mode || matches!(mode, "default" | "host" | "none") || (mode == "bridge" && name == "podman")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recorded() -> Value {
        json!({
            "Id": "a".repeat(64), "Name": "/box", "Image": "sha256:1",
            "Config": { "Image": "i:1", "Hostname": "a".repeat(12), "Env": ["TOKEN=hunter2"], "Cmd": ["sleep"] },
            "HostConfig": {
                "Binds": ["/srv:/work"], "NetworkMode": "mesh", "Memory": 64, "ContainerIDFile": "", "CapAdd": null,
                "Ulimits": [{ "Name": "RLIMIT_NOFILE", "Soft": 1, "Hard": 2 }], "Tmpfs": { "/tmp": "" },
            },
            "Mounts": [
                { "Type": "bind", "Source": "/srv", "Destination": "/work", "RW": true },
                { "Type": "volume", "Name": "0f0f", "Destination": "/data", "RW": true },
            ],
            "NetworkSettings": { "Networks": {
                "mesh": { "Aliases": ["box", "a".repeat(12)], "IPAMConfig": null }, "other": {},
            } },
        })
    }

    #[test]
    fn what_the_operator_wished_is_asked_for_and_what_the_engine_made_up_is_not() {
        let remake = Remake::read(&recorded().to_string()).unwrap();
        let document = remake.document("i:1");
        assert_eq!(document["Env"][0], "TOKEN=hunter2");
        assert_eq!(document["Hostname"], Value::Null);
        let host = &document["HostConfig"];
        assert_eq!(host["Binds"], json!(["/srv:/work", "0f0f:/data"]));
        assert_eq!((&host["Memory"], &host["Ulimits"][0]["Name"]), (&json!(64), &json!("nofile")));
        assert_eq!(host.get("CapAdd"), None);
        assert_eq!(
            document["NetworkingConfig"],
            json!({ "EndpointsConfig": { "mesh": { "Aliases": ["box"] } } })
        );
        assert_eq!(remake.other_networks, ["other"]);
        assert_eq!(remake.tmpfs(), ["/tmp"]);
    }

    #[test]
    fn a_host_name_is_asked_for_wherever_an_engine_takes_one() {
        let named = |network: &str, uts: &str| {
            let mut inspection = recorded();
            inspection["Config"]["Hostname"] = json!("sandy");
            inspection["HostConfig"]["NetworkMode"] = json!(network);
            inspection["HostConfig"]["UTSMode"] = json!(uts);
            Remake::read(&inspection.to_string()).unwrap().document("i:1")["Hostname"] == "sandy"
        };
        assert!(named("mesh", "") && named("none", "") && named("host", ""));
        assert!(!named("container:other", "") && !named("host", "host"));
    }

    #[test]
    fn what_cannot_be_read_is_not_quoted() {
        let mut broken = recorded();
        broken["HostConfig"] = json!("TOKEN=hunter2");
        for text in [broken.to_string(), format!("{}TOKEN=hunter2", recorded())] {
            let fault = Remake::read(&text).unwrap_err();
            assert!(!format!("{fault} {fault:?}").contains("hunter2"), "{fault:?}");
        }
        assert!(!format!("{:?}", Remake::read(&recorded().to_string())).contains("hunter2"));
    }

    #[test]
    fn folders_that_cannot_be_seen_are_insisted_on() {
        let mut recorded = recorded();
        recorded["HostConfig"]["Binds"] = json!(["/srv:/work:ro,rslave", "data:/data", "/etc/x:/x"]);
        let remake = Remake::read(&recorded.to_string()).unwrap();
        let made = |path: &str| Source { path: path.to_owned(), made_if_missing: true };
        assert_eq!(remake.sources(), [made("/srv"), made("/etc/x")]);
        let document = remake.document_insisting("i:1").unwrap();
        let host = &document["HostConfig"];
        assert_eq!(host["Binds"], json!(["data:/data"]));
        let work = json!({
            "Type": "bind", "Source": "/srv", "Target": "/work", "ReadOnly": true,
            "BindOptions": { "Propagation": "rslave" },
        });
        let x = json!({ "Type": "bind", "Source": "/etc/x", "Target": "/x" });
        assert_eq!(host["Mounts"], json!([work, x]));
        assert_eq!(
            sources_in(&document),
            [
                Source { path: "/srv".to_owned(), made_if_missing: false },
                Source { path: "/etc/x".to_owned(), made_if_missing: false },
            ]
        );
        // What relabels its folder has no such form.
        recorded["HostConfig"]["Binds"] = json!(["/srv:/work:Z"]);
        assert!(Remake::read(&recorded.to_string()).unwrap().document_insisting("i:1").is_none());
    }
}
