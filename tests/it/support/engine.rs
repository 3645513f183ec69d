//! The real engines `tests/run` starts, and the containers a test puts there.

use std::cell::{Cell, RefCell};
use std::env;
use std::fs::{File, TryLockError};
use std::ops::Deref;
use std::path::Path;
use std::process::{self, Command};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use serde_json::{Map, Value, json};

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

    /// What tests do over and over is done without one for the same reason.
    fn act(&self, method: &str, target: &str, body: Option<&Value>) -> Result<Answer, String> {
        let answer = Client::new(self.socket()).ask(method, target, body);
        let well = (200..400).contains(&answer.status);
        if well { Ok(answer) } else { Err(format!("{method} {target}: {}", answer.text())) }
    }

    #[track_caller]
    pub(crate) fn start(&self, id: &str) {
        self.act("POST", &format!("/containers/{id}/start"), None).unwrap();
    }

    /// Kills its first process, and waits for that.
    #[track_caller]
    pub(crate) fn stop(&self, id: &str) {
        self.act("POST", &format!("/containers/{id}/stop?t=0"), None).unwrap();
    }

    #[track_caller]
    pub(crate) fn pause(&self, id: &str) {
        let target = format!("/containers/{id}/pause");
        wait_until(&format!("{id} is paused"), || match self.act("POST", &target, None) {
            Ok(_) => true,
            Err(error) if could_not_freeze(&error) => false,
            Err(error) => panic!("cannot pause {id}: {error}"),
        });
    }

    /// Begins a command in a container and does not wait for it.
    #[track_caller]
    fn begin(&self, id: &str, command: &[&str]) {
        let made = self.act("POST", &format!("/containers/{id}/exec"), Some(&json!({ "Cmd": command })));
        let exec = made.unwrap().json()["Id"].as_str().unwrap().to_owned();
        let detached = json!({ "Detach": true, "Tty": false });
        self.act("POST", &format!("/exec/{exec}/start"), Some(&detached)).unwrap();
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
        for id in ids {
            let removed = self.act("DELETE", &format!("/containers/{id}?force=1&v=1"), None);
            if let Err(error) = removed
                && self.containers().contains(id)
            {
                eprintln!("left behind on {:?}: {id}: {error}", self.kind);
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
            labels: Map::new(),
            mounts: Vec::new(),
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
        self.engine.begin(id, &["sh", "-c", &script]);
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

/// What Podman limits by itself, and higher than some hosts allow it to.
fn limits(kind: Kind) -> &'static [&'static str] {
    match kind {
        Kind::Docker => &[],
        Kind::Podman => &["nofile", "nproc"],
    }
}

const LIMIT: u32 = 1024;

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
        self.scene.engine.begin(&self.id, &["rm", &self.marker]);
        wait_until("the exec ends", || self.scene.running_execs(&self.id) <= self.before);
    }
}

/// A container about to be created; the last call says in which state it should be.
#[must_use = "nothing is created before `created`, `running`, `paused` or `exited`"]
pub(crate) struct ContainerBuilder<'scene> {
    scene: &'scene Scene<'scene>,
    name: String,
    network: String,
    labels: Map<String, Value>,
    /// `source:target`.
    mounts: Vec<String>,
    options: Vec<String>,
    image: String,
    command: Vec<String>,
}

impl ContainerBuilder<'_> {
    pub(crate) fn label(mut self, key: &str, value: &str) -> Self {
        self.labels.insert(key.to_owned(), value.into());
        self
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
    pub(crate) fn mount(mut self, source: &str, target: &str) -> Self {
        self.mounts.push(format!("{source}:{target}"));
        self
    }

    /// Any other option of `docker create`, such as `--restart=always`. It is left to the command line to say what it means.
    pub(crate) fn option(mut self, option: impl Into<String>) -> Self {
        self.options.push(option.into());
        self
    }

    /// Creates it, not started, and returns its full id.
    #[track_caller]
    pub(crate) fn created(self) -> String {
        let id = if self.options.is_empty() { self.ask_for_it() } else { self.have_it_created() };
        self.scene.containers.borrow_mut().push(id.clone());
        assert!(id.len() == 64 && id.bytes().all(|each| each.is_ascii_hexdigit()), "not a full id: {id}");
        id
    }

    #[track_caller]
    fn ask_for_it(&self) -> String {
        let engine = self.scene.engine;
        let limits: Vec<Value> = limits(engine.kind)
            .iter()
            .map(|name| json!({ "Name": name, "Soft": LIMIT, "Hard": LIMIT }))
            .collect();
        let body = json!({
            "Image": self.image, "Cmd": self.command, "Labels": self.labels,
            "HostConfig": { "NetworkMode": self.network, "Binds": self.mounts, "Ulimits": limits },
        });
        let made = engine.act("POST", &format!("/containers/create?name={}", self.name), Some(&body));
        made.unwrap().json()["Id"].as_str().unwrap().to_owned()
    }

    #[track_caller]
    fn have_it_created(&self) -> String {
        let engine = self.scene.engine;
        let labels =
            self.labels.iter().map(|(key, value)| format!("--label={key}={}", value.as_str().unwrap()));
        let mounts = self.mounts.iter().map(|mount| format!("--volume={mount}"));
        let limits = limits(engine.kind).iter().map(|name| format!("--ulimit={name}={LIMIT}:{LIMIT}"));
        let made: Vec<String> = labels.chain(mounts).chain(limits).chain(self.options.clone()).collect();
        let mut arguments = vec!["create", "--network", &self.network, "--name", &self.name];
        arguments.extend(made.iter().chain([&self.image]).chain(&self.command).map(String::as_str));
        engine.cli(&arguments)
    }

    #[track_caller]
    pub(crate) fn running(self) -> String {
        let engine = self.scene.engine;
        let id = self.created();
        engine.start(&id);
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
        engine.start(&id);
        engine.stop(&id);
        engine.wait_for_state(&id, "exited");
        id
    }
}
