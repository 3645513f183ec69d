//! The real engines `tests/run` starts, and the containers a test puts there.

use std::cell::{Cell, RefCell};
use std::env;
use std::fs::{File, TryLockError};
use std::ops::Deref;
use std::path::Path;
use std::process::{self, Command};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use serde_json::Value;

use super::answer::Answer;
use super::client::Client;
use super::{wait_at_most, wait_until};

/// The image `tests/run` imports: a static busybox and nothing else.
pub(crate) const IMAGE: &str = "sandkeeper-test:latest";

/// The host's own network: for every other one, `none` included, dockerd starts two more processes at every start.
pub(crate) const NETWORK: &str = "host";

/// How long other tests may have all engines of a kind.
const BUSY: Duration = Duration::from_mins(30);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Docker,
    Podman,
}

/// One of the private engines. Tests run at the same time and sandkeeper lists everything an engine has, so a
/// test that creates containers goes through [`RealEngine::exclusive`] first.
#[derive(Clone, Debug)]
pub(crate) struct RealEngine {
    pub(crate) kind: Kind,
    endpoint: String,
    /// Where the others of its kind answer.
    others: Vec<String>,
}

impl RealEngine {
    pub(crate) fn docker() -> Self {
        Self::from_environment(Kind::Docker, "SANDKEEPER_TEST_DOCKER")
    }

    pub(crate) fn podman() -> Self {
        Self::from_environment(Kind::Podman, "SANDKEEPER_TEST_PODMAN")
    }

    fn from_environment(kind: Kind, variable: &str) -> Self {
        let endpoints = env::var(variable).unwrap_or_default();
        let mut endpoints = endpoints.split_whitespace().map(str::to_owned);
        let endpoint = endpoints.next().unwrap_or_else(|| {
            panic!("{variable} is not set: run this test through `tests/run`, which starts the engine")
        });
        Self { kind, endpoint, others: endpoints.collect() }
    }

    /// `unix://...`, for `DOCKER_HOST` or `--host`.
    pub(crate) fn endpoint(&self) -> &str {
        &self.endpoint
    }

    pub(crate) fn socket(&self) -> &Path {
        Path::new(self.endpoint.strip_prefix("unix://").unwrap())
    }

    /// Waits for an engine of this kind that no other test, in this process or another, uses; then clears it of
    /// containers.
    pub(crate) fn exclusive(self) -> Exclusive {
        let endpoints: Vec<String> = self.others.into_iter().chain([self.endpoint]).collect();
        let (endpoint, lock) = wait_at_most(BUSY, "an engine is free", || {
            endpoints.iter().find_map(|endpoint| Some((endpoint.clone(), lock(endpoint)?)))
        });
        let engine = Self { kind: self.kind, endpoint, others: Vec::new() };
        engine.remove(&engine.containers());
        Exclusive { engine, _lock: lock }
    }

    /// Runs the docker command line against the engine, Podman included, and returns what it prints.
    #[track_caller]
    pub(crate) fn cli(&self, arguments: &[&str]) -> String {
        self.try_cli(arguments)
            .unwrap_or_else(|error| panic!("`docker {}` on {:?}: {error}", arguments.join(" "), self.kind))
    }

    /// The same, with the complaint as the error.
    pub(crate) fn try_cli(&self, arguments: &[&str]) -> Result<String, String> {
        let output = Command::new("docker")
            .args(["-H", &self.endpoint])
            .args(arguments)
            .env_remove("DOCKER_HOST")
            .env_remove("DOCKER_CONTEXT")
            .env_remove("DOCKER_API_VERSION")
            .env_remove("DOCKER_TLS_VERIFY")
            .output()
            .unwrap_or_else(|error| panic!("cannot run docker (tests/run installs it): {error}"));
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim_end().to_owned();
        if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
    }

    /// What tests look at over and over is asked for without a command line, which takes longer than the answer.
    fn ask(&self, target: &str) -> Answer {
        Client::new(self.socket()).ask("GET", target, None)
    }

    #[track_caller]
    pub(crate) fn pause(&self, id: &str) {
        wait_until(&format!("{id} is paused"), || match self.try_cli(&["pause", id]) {
            Ok(_) => true,
            Err(error) if could_not_freeze(&error) => false,
            Err(error) => panic!("cannot pause {id}: {error}"),
        });
    }

    /// What the engine knows about a container; `None` when it is gone.
    pub(crate) fn find(&self, id: &str) -> Option<Value> {
        let answer = self.ask(&format!("/containers/{id}/json"));
        match answer.status {
            200 => Some(answer.json()),
            404 => None,
            // Podman, in the middle of a removal.
            500 if answer.text().contains("no such container") => None,
            _ => panic!("cannot inspect {id}: {}", answer.text()),
        }
    }

    #[track_caller]
    pub(crate) fn inspect(&self, id: &str) -> Value {
        self.find(id).unwrap_or_else(|| panic!("container {id} is gone"))
    }

    /// `running`, `exited` and so on; `None` when the container is gone.
    pub(crate) fn state(&self, id: &str) -> Option<String> {
        self.find(id).map(|found| found["State"]["Status"].as_str().unwrap().to_owned())
    }

    #[track_caller]
    pub(crate) fn wait_for_state(&self, id: &str, state: &str) {
        let what = format!("{id} is {state}");
        wait_until(&what, || self.state(id).as_deref() == Some(state));
    }

    /// The full ids of all containers.
    pub(crate) fn containers(&self) -> Vec<String> {
        let rows = self.ask("/containers/json?all=1").json();
        rows.as_array().unwrap().iter().map(|row| row["Id"].as_str().unwrap().to_owned()).collect()
    }

    /// The id an image name stands for now.
    pub(crate) fn image_id(&self, reference: &str) -> String {
        self.cli(&["image", "inspect", "--format", "{{.Id}}", reference])
    }

    /// A place for a test's containers, cleared when it is dropped.
    pub(crate) fn scene(&self) -> Scene<'_> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let prefix = format!("scene-{}-{}", process::id(), COUNT.fetch_add(1, Ordering::SeqCst));
        Scene {
            engine: self,
            prefix,
            containers: RefCell::default(),
            images: RefCell::default(),
            execs: Cell::new(0),
        }
    }

    /// Removes containers in whatever state they are. Those that are gone are no trouble.
    fn remove(&self, ids: &[String]) {
        if ids.is_empty() {
            return;
        }
        let mut arguments = vec!["rm", "--force", "--volumes"];
        arguments.extend(ids.iter().map(String::as_str));
        if let Err(error) = self.try_cli(&arguments) {
            let there = self.containers();
            let left: Vec<&String> = ids.iter().filter(|id| there.contains(id)).collect();
            if !left.is_empty() {
                eprintln!("left behind on {:?}: {left:?}: {error}", self.kind);
            }
        }
    }
}

/// On a busy machine runc gives up freezing a container after a while, and has to be asked again.
pub(crate) fn could_not_freeze(error: &str) -> bool {
    error.contains("unable to freeze")
}

/// Takes an engine, unless another test has it.
fn lock(endpoint: &str) -> Option<File> {
    let socket = endpoint.strip_prefix("unix://").unwrap();
    let lock = File::create(format!("{socket}.lock")).unwrap();
    match lock.try_lock() {
        Ok(()) => Some(lock),
        Err(TryLockError::WouldBlock) => None,
        Err(TryLockError::Error(error)) => panic!("{socket}.lock cannot be locked: {error}"),
    }
}

/// An engine nobody else uses until this is dropped.
pub(crate) struct Exclusive {
    engine: RealEngine,
    _lock: File,
}

impl Deref for Exclusive {
    type Target = RealEngine;

    fn deref(&self) -> &RealEngine {
        &self.engine
    }
}

/// The containers and images of one test.
pub(crate) struct Scene<'engine> {
    engine: &'engine RealEngine,
    prefix: String,
    containers: RefCell<Vec<String>>,
    images: RefCell<Vec<String>>,
    execs: Cell<u32>,
}

impl Scene<'_> {
    /// A name no other scene uses.
    pub(crate) fn name(&self, name: &str) -> String {
        format!("{}-{name}", self.prefix)
    }

    /// Describes a container with exactly this name. It runs `sleep 1000` in [`IMAGE`] unless told otherwise.
    pub(crate) fn container(&self, name: impl Into<String>) -> ContainerBuilder<'_> {
        ContainerBuilder {
            scene: self,
            name: name.into(),
            network: NETWORK.to_owned(),
            options: Vec::new(),
            image: IMAGE.to_owned(),
            command: ["sleep", "1000"].map(str::to_owned).to_vec(),
        }
    }

    /// Makes an image with labels of its own and returns its id. The same name again moves the name.
    pub(crate) fn image(&self, reference: &str, labels: &[(&str, &str)]) -> String {
        let engine = self.engine;
        let directory = tempfile::tempdir().unwrap();
        let layer = directory.path().join("layer.tar").display().to_string();
        let base = engine.cli(&["create", "--network=none", IMAGE, "true"]);
        engine.cli(&["export", "--output", &layer, &base]);
        engine.remove(&[base]);
        // Not `commit`: Podman 4.3 does not understand the docker command line's request for it.
        let changes: Vec<_> =
            labels.iter().map(|(key, value)| format!("--change=LABEL {key}={value}")).collect();
        let mut arguments = vec!["import"];
        arguments.extend(changes.iter().map(String::as_str));
        arguments.extend([layer.as_str(), reference]);
        engine.cli(&arguments);
        let id = engine.image_id(reference);
        self.images.borrow_mut().push(id.clone());
        id
    }

    /// Runs a command in a container until the returned handle ends it.
    pub(crate) fn exec(&self, id: &str) -> Exec<'_> {
        let number = self.execs.replace(self.execs.get() + 1);
        let marker = format!("/tmp/{}-exec-{number}", self.prefix);
        let script = format!("touch {marker}; while [ -e {marker} ]; do sleep 0.1; done");
        let before = self.running_execs(id);
        self.engine.cli(&["exec", "--detach", id, "sh", "-c", &script]);
        wait_until("the engine shows the exec", || self.running_execs(id) > before);
        Exec { scene: self, id: id.to_owned(), marker, before }
    }

    fn running_execs(&self, id: &str) -> usize {
        self.engine.inspect(id)["ExecIDs"].as_array().map_or(0, Vec::len)
    }
}

impl Deref for Scene<'_> {
    type Target = RealEngine;

    fn deref(&self) -> &RealEngine {
        self.engine
    }
}

impl Drop for Scene<'_> {
    fn drop(&mut self) {
        self.engine.remove(&self.containers.borrow());
        for id in self.images.borrow().iter() {
            let _ = self.engine.try_cli(&["rmi", "--force", id]);
        }
    }
}

/// A command that runs in a container.
pub(crate) struct Exec<'scene> {
    scene: &'scene Scene<'scene>,
    id: String,
    marker: String,
    before: usize,
}

impl Exec<'_> {
    /// Lets the command end by itself and waits until the engine has noticed.
    pub(crate) fn end(self) {
        self.scene.engine.cli(&["exec", &self.id, "rm", &self.marker]);
        wait_until("the exec ends", || self.scene.running_execs(&self.id) <= self.before);
    }
}

/// A container about to be created; the last call says in which state it should be.
#[must_use = "nothing is created before `created`, `running`, `paused` or `exited`"]
pub(crate) struct ContainerBuilder<'scene> {
    scene: &'scene Scene<'scene>,
    name: String,
    network: String,
    options: Vec<String>,
    image: String,
    command: Vec<String>,
}

impl ContainerBuilder<'_> {
    pub(crate) fn label(self, key: &str, value: &str) -> Self {
        self.option(format!("--label={key}={value}"))
    }

    /// The command, split at spaces.
    pub(crate) fn command(mut self, command: &str) -> Self {
        self.command = command.split_whitespace().map(str::to_owned).collect();
        self
    }

    /// A script for `sh -c`.
    pub(crate) fn script(mut self, script: &str) -> Self {
        self.command = ["sh", "-c", script].map(str::to_owned).to_vec();
        self
    }

    pub(crate) fn network(mut self, network: &str) -> Self {
        network.clone_into(&mut self.network);
        self
    }

    pub(crate) fn image(mut self, reference: &str) -> Self {
        reference.clone_into(&mut self.image);
        self
    }

    /// A bind mount when `source` is a path, a named volume otherwise.
    pub(crate) fn mount(self, source: &str, target: &str) -> Self {
        self.option(format!("--volume={source}:{target}"))
    }

    /// Any other option of `docker create`, such as `--restart=always`.
    pub(crate) fn option(mut self, option: impl Into<String>) -> Self {
        self.options.push(option.into());
        self
    }

    /// Creates it, not started, and returns its full id.
    #[track_caller]
    pub(crate) fn created(self) -> String {
        let engine = self.scene.engine;
        let mut arguments = vec!["create", "--network", &self.network, "--name", &self.name];
        if engine.kind == Kind::Podman {
            // Podman asks for limits that are higher than some hosts allow it.
            arguments.extend(["--ulimit=nofile=1024:1024", "--ulimit=nproc=1024:1024"]);
        }
        arguments.extend(self.options.iter().map(String::as_str));
        arguments.push(&self.image);
        arguments.extend(self.command.iter().map(String::as_str));
        let id = engine.cli(&arguments);
        self.scene.containers.borrow_mut().push(id.clone());
        assert!(id.len() == 64 && id.bytes().all(|each| each.is_ascii_hexdigit()), "not a full id: {id}");
        id
    }

    #[track_caller]
    pub(crate) fn running(self) -> String {
        let engine = self.scene.engine;
        let id = self.created();
        engine.cli(&["start", &id]);
        engine.wait_for_state(&id, "running");
        id
    }

    #[track_caller]
    pub(crate) fn paused(self) -> String {
        let engine = self.scene.engine;
        let id = self.running();
        engine.pause(&id);
        engine.wait_for_state(&id, "paused");
        id
    }

    /// Lets it run and ends it, with exit code 137 unless its command ends by itself.
    #[track_caller]
    pub(crate) fn exited(self) -> String {
        let engine = self.scene.engine;
        let id = self.created();
        engine.cli(&["start", &id]);
        engine.cli(&["stop", "--time=0", &id]);
        engine.wait_for_state(&id, "exited");
        id
    }
}
