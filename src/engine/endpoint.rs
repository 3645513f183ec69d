//! Which engine? The same places that the engines' own tools look in, in the same order; every place that did not
//! work is remembered for the message.

use std::fmt;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use thiserror::Error;

use super::fault::EngineFault;
use crate::environment::Environment;

/// How an engine is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// A unix socket.
    Unix(PathBuf),
    /// Plain TCP, as `host:port`.
    Tcp(String),
}

impl Address {
    /// What our own state knows the host by: two paths to one socket are one host.
    pub fn identity(&self) -> String {
        match self {
            Self::Unix(path) => {
                let real = std::fs::canonicalize(path).unwrap_or_else(|_| path.clone());
                Self::Unix(real).to_string()
            }
            Self::Tcp(_) => self.to_string(),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix://{}", path.display()),
            Self::Tcp(authority) => write!(f, "tcp://{authority}"),
        }
    }
}

/// An address and who named it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// The address.
    pub address: Address,
    /// Who named it, such as `DOCKER_HOST`.
    pub origin: String,
}

/// A place that was tried and did not work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// The place.
    pub endpoint: Endpoint,
    /// Why it did not work.
    pub fault: EngineFault,
}

impl fmt::Display for Attempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Endpoint { address, origin } = &self.endpoint;
        match &self.fault {
            // These name the place themselves.
            EngineFault::NoSocket(_) | EngineFault::PermissionDenied(_) => {
                write!(f, "{} ({origin})", self.fault)
            }
            fault => write!(f, "{address} ({origin}): {fault}"),
        }
    }
}

/// What the operator asked for.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct EndpointRequest {
    /// `--host`.
    pub host: Option<String>,
    /// `--context`.
    pub context: Option<String>,
    /// `SANDKEEPER_HOST`, which the flags override.
    pub host_variable: Option<String>,
    /// `SANDKEEPER_CONTEXT`, likewise.
    pub context_variable: Option<String>,
    /// The config file's `host`, which Docker's own variables override.
    pub configured_host: Option<String>,
    /// The config file's `context`, likewise.
    pub configured_context: Option<String>,
}

/// Why no address could be made out of what was asked for.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum EndpointFault {
    /// The address is not one.
    #[error("`{address}` ({origin}) is not an engine address; write unix:///path/to.sock or tcp://host:port")]
    NotAnAddress {
        /// What was given.
        address: String,
        /// By whom.
        origin: String,
    },
    /// TLS is asked for and not available; going on without it would send everything in the clear.
    #[error(
        "{address} ({origin}) asks for TLS, which sandkeeper does not speak; it is not tried without: \
         forward the engine's socket instead, with `ssh -L /tmp/engine.sock:/var/run/docker.sock HOST` and \
         `--host unix:///tmp/engine.sock`"
    )]
    TlsUnavailable {
        /// The address.
        address: String,
        /// Who named it.
        origin: String,
    },
    /// `ssh://` is not spoken.
    #[error(
        "{address} ({origin}): ssh:// is not supported; run sandkeeper on that host, or forward its socket with \
         `ssh -L /tmp/engine.sock:/var/run/docker.sock HOST` and use `--host unix:///tmp/engine.sock`"
    )]
    SshUnsupported {
        /// The address.
        address: String,
        /// Who named it.
        origin: String,
    },
    /// The context does not exist or cannot be read.
    #[error(
        "the Docker context `{name}` ({origin}) cannot be used: {why}; `docker context ls` shows which there are"
    )]
    Context {
        /// The context.
        name: String,
        /// Who named it.
        origin: String,
        /// What is wrong.
        why: String,
    },
}

/// The addresses to try, in order. Whoever names one explicitly gets that one and no other.
pub fn resolve(request: &EndpointRequest, environment: &Environment) -> Result<Vec<Endpoint>, EndpointFault> {
    let single = |address: Result<Address, EndpointFault>, origin: &str| {
        Ok(vec![Endpoint { address: address?, origin: origin.to_owned() }])
    };
    let asked = [
        (&request.host, &request.context, "--host", "--context"),
        (&request.host_variable, &request.context_variable, "SANDKEEPER_HOST", "SANDKEEPER_CONTEXT"),
    ];
    let asked = asked.into_iter().find(|(host, context, ..)| host.is_some() || context.is_some());
    if let Some((Some(host), _, origin, _)) = asked {
        return single(parse(host, origin, tls_requested(environment)), origin);
    }
    let context = asked.and_then(|(_, context, _, origin)| Some((context.as_ref()?, origin)));
    if let Some((context, origin)) = context
        && context != "default"
    {
        return single(from_context(context, origin, environment), &format!("context {context}"));
    }
    if let Some(host) = environment.variables.get("DOCKER_HOST").filter(|host| !host.is_empty()) {
        return single(parse(host, "DOCKER_HOST", tls_requested(environment)), "DOCKER_HOST");
    }
    if context.is_none() {
        let named = environment.variables.get("DOCKER_CONTEXT").filter(|name| !name.is_empty()).cloned();
        if let (None, Some(host)) = (&named, &request.configured_host) {
            return single(parse(host, "config file", tls_requested(environment)), "config file");
        }
        let (context, origin) = match (named, &request.configured_context) {
            (Some(name), _) => (Some(name), "DOCKER_CONTEXT"),
            (None, Some(name)) => (Some(name.clone()), "config file"),
            (None, None) => (current_context(environment), "the current context"),
        };
        if let Some(context) = context.filter(|name| name != "default") {
            return single(from_context(&context, origin, environment), &format!("context {context}"));
        }
    }
    Ok(usual_places(environment))
}

/// The sockets that engines make by themselves: Docker, rootless Docker, Docker Desktop, Podman.
pub fn usual_places(environment: &Environment) -> Vec<Endpoint> {
    let home = &environment.home;
    let mut places = vec![("default socket", PathBuf::from("/var/run/docker.sock"))];
    if let Some(runtime) = environment.variables.get("XDG_RUNTIME_DIR").filter(|folder| !folder.is_empty()) {
        places.push(("rootless Docker", Path::new(runtime).join("docker.sock")));
    }
    places.push(("Docker Desktop", home.join(".docker/run/docker.sock")));
    places.push(("Docker Desktop", home.join(".docker/desktop/docker.sock")));
    if let Some(runtime) = environment.variables.get("XDG_RUNTIME_DIR").filter(|folder| !folder.is_empty()) {
        places.push(("rootless Podman", Path::new(runtime).join("podman/podman.sock")));
    }
    places.push(("Podman", PathBuf::from("/run/podman/podman.sock")));
    places
        .into_iter()
        .map(|(origin, path)| Endpoint { address: Address::Unix(path), origin: origin.to_owned() })
        .collect()
}

fn tls_requested(environment: &Environment) -> bool {
    ["DOCKER_TLS_VERIFY", "DOCKER_TLS"]
        .iter()
        .any(|name| environment.variables.get(*name).is_some_and(|value| !value.is_empty()))
}

fn parse(text: &str, origin: &str, tls: bool) -> Result<Address, EndpointFault> {
    let (address, origin) = (text.to_owned(), origin.to_owned());
    let text = text.trim();
    if text.starts_with('/') {
        return Ok(Address::Unix(PathBuf::from(text)));
    }
    match text.split_once("://") {
        Some(("unix", path)) if path.starts_with('/') => Ok(Address::Unix(PathBuf::from(path))),
        Some(("ssh", _)) => Err(EndpointFault::SshUnsupported { address, origin }),
        Some(("https", _)) => Err(EndpointFault::TlsUnavailable { address, origin }),
        Some(("tcp" | "http", rest)) => {
            let authority = rest.trim_end_matches('/');
            let port = authority.rsplit_once(':').and_then(|(_, port)| port.parse::<u16>().ok());
            let well_formed = !authority.is_empty() && !authority.contains(['/', '@', '?', '#', ' ']);
            match port {
                _ if !well_formed => Err(EndpointFault::NotAnAddress { address, origin }),
                // 2376 is the port that is reserved for the engine with TLS.
                _ if tls => Err(EndpointFault::TlsUnavailable { address, origin }),
                Some(2376) => Err(EndpointFault::TlsUnavailable { address, origin }),
                Some(_) => Ok(Address::Tcp(authority.to_owned())),
                None => Ok(Address::Tcp(format!("{authority}:2375"))),
            }
        }
        _ => Err(EndpointFault::NotAnAddress { address, origin }),
    }
}

#[derive(Deserialize)]
struct DockerConfig {
    #[serde(rename = "currentContext")]
    current_context: Option<String>,
}

#[derive(Deserialize)]
struct ContextMeta {
    #[serde(rename = "Name")]
    name: String,
    #[serde(rename = "Endpoints", default)]
    endpoints: std::collections::HashMap<String, ContextEndpoint>,
}

#[derive(Deserialize)]
struct ContextEndpoint {
    #[serde(rename = "Host", default)]
    host: String,
}

fn docker_folder(environment: &Environment) -> PathBuf {
    match environment.variables.get("DOCKER_CONFIG").filter(|folder| !folder.is_empty()) {
        Some(folder) => PathBuf::from(folder),
        None => environment.home.join(".docker"),
    }
}

/// A config file that cannot be read names no context, just as for Docker's own tools.
fn current_context(environment: &Environment) -> Option<String> {
    let text = std::fs::read_to_string(docker_folder(environment).join("config.json")).ok()?;
    let config: DockerConfig = serde_json::from_str(&text).ok()?;
    config.current_context.filter(|name| !name.is_empty())
}

/// Looks through the context store. Its folders are named by hash; the name inside is what counts.
fn from_context(name: &str, origin: &str, environment: &Environment) -> Result<Address, EndpointFault> {
    let fault =
        |why: String| EndpointFault::Context { name: name.to_owned(), origin: origin.to_owned(), why };
    let contexts = docker_folder(environment).join("contexts");
    let folders =
        std::fs::read_dir(contexts.join("meta")).map_err(|error| fault(format!("no contexts: {error}")))?;
    for folder in folders.flatten() {
        let Ok(text) = std::fs::read_to_string(folder.path().join("meta.json")) else { continue };
        let Ok(meta) = serde_json::from_str::<ContextMeta>(&text) else { continue };
        if meta.name != name {
            continue;
        }
        let endpoint =
            meta.endpoints.get("docker").ok_or_else(|| fault("it has no docker endpoint".to_owned()))?;
        let tls = contexts.join("tls").join(folder.file_name()).join("docker").exists()
            || tls_requested(environment);
        return parse(&endpoint.host, &format!("context {name}"), tls);
    }
    Err(fault("there is no such context".to_owned()))
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    fn environment(variables: &[(&str, &str)]) -> Environment {
        let variables = variables.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        Environment { home: PathBuf::from("/home/ada"), variables }
    }

    fn host(host: &str) -> EndpointRequest {
        EndpointRequest { host: Some(host.to_owned()), ..EndpointRequest::default() }
    }

    fn only(found: Result<Vec<Endpoint>, EndpointFault>) -> (String, String) {
        let found = found.unwrap();
        assert_eq!(found.len(), 1, "{found:?}");
        (found[0].address.to_string(), found[0].origin.clone())
    }

    #[test]
    fn whoever_is_more_explicit_wins() {
        let both = environment(&[("DOCKER_HOST", "unix:///env.sock")]);
        assert_eq!(only(resolve(&host("unix:///flag.sock"), &both)).0, "unix:///flag.sock");
        assert_eq!(
            only(resolve(&EndpointRequest::default(), &both)),
            ("unix:///env.sock".into(), "DOCKER_HOST".into())
        );
    }

    #[test]
    fn without_a_word_the_usual_sockets_are_tried_in_order() {
        let places =
            resolve(&EndpointRequest::default(), &environment(&[("XDG_RUNTIME_DIR", "/run/user/7")]))
                .unwrap();
        let addresses: Vec<String> = places.iter().map(|place| place.address.to_string()).collect();
        assert_eq!(addresses[0], "unix:///var/run/docker.sock");
        assert!(addresses.contains(&"unix:///run/user/7/docker.sock".to_owned()));
        assert!(addresses.contains(&"unix:///run/user/7/podman/podman.sock".to_owned()));
        assert!(addresses.contains(&"unix:///run/podman/podman.sock".to_owned()));
    }

    #[test]
    fn tls_is_never_silently_left_out() {
        let tls = environment(&[("DOCKER_TLS_VERIFY", "1"), ("DOCKER_HOST", "tcp://10.0.0.1:2375")]);
        let cases = [
            resolve(&EndpointRequest::default(), &tls),
            resolve(&host("tcp://10.0.0.1:2376"), &environment(&[])),
            resolve(&host("https://10.0.0.1"), &environment(&[])),
        ];
        for case in cases {
            assert!(matches!(case, Err(EndpointFault::TlsUnavailable { .. })), "{case:?}");
        }
        let plain = resolve(&host("tcp://10.0.0.1"), &environment(&[]));
        assert_eq!(only(plain).0, "tcp://10.0.0.1:2375");
    }

    #[test]
    fn what_is_not_supported_is_refused_with_a_way_out() {
        let error = resolve(&host("ssh://ada@box"), &environment(&[])).unwrap_err().to_string();
        assert!(error.contains("ssh -L"), "{error}");
        for address in
            ["npipe:////./pipe/docker", "unix://relative.sock", "tcp://", "nonsense", "tcp://a b", ""]
        {
            let found = resolve(&host(address), &environment(&[]));
            assert!(matches!(found, Err(EndpointFault::NotAnAddress { .. })), "{address}: {found:?}");
        }
    }

    #[test]
    fn contexts_are_found_by_the_name_inside() {
        let folder = tempfile::tempdir().unwrap();
        let write = |id: &str, name: &str, host: &str| {
            let meta = folder.path().join("contexts/meta").join(id);
            std::fs::create_dir_all(&meta).unwrap();
            let text = format!(
                r#"{{"Name":"{name}","Metadata":{{}},"Endpoints":{{"docker":{{"Host":"{host}"}}}}}}"#
            );
            std::fs::write(meta.join("meta.json"), text).unwrap();
        };
        write("aaaa", "box", "unix:///box.sock");
        write("bbbb", "remote", "tcp://10.0.0.1:2375");
        std::fs::create_dir_all(folder.path().join("contexts/tls/bbbb/docker")).unwrap();
        std::fs::write(folder.path().join("config.json"), r#"{"currentContext":"box","auths":{}}"#).unwrap();
        let variables = HashMap::from([("DOCKER_CONFIG".to_owned(), folder.path().display().to_string())]);
        let environment = Environment { home: PathBuf::from("/home/ada"), variables };
        let named =
            |name: &str| EndpointRequest { context: Some(name.to_owned()), ..EndpointRequest::default() };

        assert_eq!(only(resolve(&EndpointRequest::default(), &environment)).0, "unix:///box.sock");
        assert_eq!(only(resolve(&named("box"), &environment)).1, "context box");
        assert!(matches!(resolve(&named("remote"), &environment), Err(EndpointFault::TlsUnavailable { .. })));
        assert!(matches!(resolve(&named("gone"), &environment), Err(EndpointFault::Context { .. })));
        assert!(
            resolve(&named("default"), &environment).unwrap().len() > 1,
            "`default` means the usual places"
        );
    }
}
