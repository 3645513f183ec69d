//! A host on the simulated engine, with a session database of the built-in contract and a dashboard on a terminal.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use sandkeeper::domain::ContainerId;
use sandkeeper::engine::sim::{Placed, Program as Inside, SimClock, SimEngine, World};

use super::program::{Home, Program};
use super::stores::NativeStore;
use super::terminal::Terminal;

/// The image every sandbox is made from.
const IMAGE: &str = "sandbox:latest";

pub(crate) struct SimHost {
    pub(crate) home: Home,
    pub(crate) engine: SimEngine,
    pub(crate) store: NativeStore,
}

impl SimHost {
    pub(crate) fn new() -> Self {
        Self::with(SimClock::wall())
    }

    /// On the engine's side no time passes but what the test lets pass: whoever takes some to end waits for it.
    pub(crate) fn frozen() -> Self {
        Self::with(SimClock::manual(Timestamp::now()))
    }

    fn with(clock: SimClock) -> Self {
        let home = Home::new();
        let store = NativeStore::create(home.native_store());
        // A database without any session looks like the wrong one as soon as there are many containers.
        store.session("elsewhere", "elsewhere").ended_ago(5).insert();
        let mut world = World::new(1);
        world.build(Timestamp::now(), IMAGE, BTreeMap::new());
        let socket = home.path().join("engine.sock");
        super::go_by("dockerd");
        let engine = SimEngine::start(&socket, world, clock, 1).unwrap();
        Self { home, engine, store }
    }

    /// A container of the built-in contract, a day old, that runs until it is asked to end.
    pub(crate) fn sandbox(&self, name: &str, workspace: &str) -> Sandbox<'_> {
        let day = Timestamp::now() - SignedDuration::from_hours(24);
        let labels = [("sandkeeper.managed", "true"), ("sandkeeper.workspace", workspace)];
        let placed = Placed {
            name: name.to_owned(),
            image: IMAGE.to_owned(),
            labels: labels.map(|(key, value)| (key.to_owned(), value.to_owned())).into(),
            command: vec!["serve".to_owned()],
            program: Inside::service(),
            state: "running".to_owned(),
            created_at: day,
            started_at: Some(day),
            ..Placed::default()
        };
        Sandbox { host: self, placed }
    }

    /// Any container: its labels, the engine's word for its state, and its age in minutes.
    pub(crate) fn place(&self, name: &str, labels: &[(&str, &str)], state: &str, age: i64) -> ContainerId {
        let created_at = Timestamp::now() - SignedDuration::from_mins(age);
        let labels = labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        let placed = Placed {
            name: name.to_owned(),
            image: IMAGE.to_owned(),
            labels: labels.collect(),
            command: vec!["sleep".to_owned(), "3600".to_owned()],
            program: Inside::service(),
            state: state.to_owned(),
            created_at,
            started_at: Some(created_at),
            ..Placed::default()
        };
        ContainerId::parse(&self.engine.act(|world, _| world.place(placed))).unwrap()
    }

    /// One that no session claims and in which nothing runs.
    pub(crate) fn orphan(&self, name: &str, workspace: &str) -> ContainerId {
        self.sandbox(name, workspace).exited().placed()
    }

    /// One that a quiet session claims.
    pub(crate) fn idle(&self, name: &str, workspace: &str) -> ContainerId {
        self.store.session(&format!("{name}-session"), workspace).insert();
        self.sandbox(name, workspace).placed()
    }

    /// One that a live session is in.
    pub(crate) fn active(&self, name: &str, workspace: &str) -> ContainerId {
        self.store.session(&format!("{name}-session"), workspace).status("active").insert();
        self.sandbox(name, workspace).placed()
    }

    pub(crate) fn endpoint(&self) -> String {
        format!("unix://{}", self.engine.socket().display())
    }

    /// `sandkeeper ARGUMENTS` on this host.
    pub(crate) fn sandkeeper(&self, arguments: &[&str]) -> Program<'_> {
        self.home.sandkeeper(arguments).env("DOCKER_HOST", self.endpoint())
    }

    /// The dashboard on a terminal of the usual size.
    #[track_caller]
    pub(crate) fn dashboard(&self, arguments: &[&str]) -> Terminal {
        Terminal::start(self.sandkeeper(arguments), 30, 110)
    }

    /// The names of the containers there are, in order.
    pub(crate) fn names(&self) -> Vec<String> {
        let mut names: Vec<String> =
            self.engine.look(|world, _| world.containers().map(|container| container.name.clone()).collect());
        names.sort();
        names
    }

    /// The engine's word for what a container is doing; `None` when it is gone.
    pub(crate) fn state(&self, id: &ContainerId) -> Option<String> {
        self.engine.look(|world, _| Some(world.find(id.as_str()).ok()?.phase.word().to_owned()))
    }

    /// Lets those end who were asked to.
    pub(crate) fn let_them_end(&self) {
        self.engine.clock().advance(Duration::from_secs(2));
    }

    /// The folder with our own state.
    pub(crate) fn state_folder(&self) -> PathBuf {
        self.home.state().join("sandkeeper")
    }
}

/// A container about to be there.
#[must_use = "nothing is there before `placed`"]
pub(crate) struct Sandbox<'host> {
    host: &'host SimHost,
    placed: Placed,
}

impl Sandbox<'_> {
    pub(crate) fn label(mut self, key: &str, value: &str) -> Self {
        self.placed.labels.insert(key.to_owned(), value.to_owned());
        self
    }

    /// It ended by itself, an hour ago.
    pub(crate) fn exited(mut self) -> Self {
        "exited".clone_into(&mut self.placed.state);
        self.placed.finished_at = Some(Timestamp::now() - SignedDuration::from_hours(1));
        self
    }

    /// It does not listen when it is asked to end.
    pub(crate) fn stubborn(mut self) -> Self {
        self.placed.program.obeys.clear();
        self
    }

    /// It takes a second to end, on the engine's clock.
    pub(crate) fn slow(mut self) -> Self {
        self.placed.program.dying = Duration::from_secs(1);
        self
    }

    /// It can be made again: its command is one that the image has.
    pub(crate) fn sleeping(mut self) -> Self {
        self.placed.command = vec!["sleep".to_owned(), "100000".to_owned()];
        self.placed.program = Inside::of_command(&self.placed.command).unwrap();
        self
    }

    /// One of its fields as the engine has it, such as `Env`; `host` says in which part.
    pub(crate) fn with(mut self, host: bool, key: &str, value: serde_json::Value) -> Self {
        let part = if host { &mut self.placed.host_config } else { &mut self.placed.config };
        part.insert(key.to_owned(), value);
        self
    }

    /// It has changed these paths inside.
    pub(crate) fn changed(mut self, paths: &[&str], bytes: u64) -> Self {
        self.placed.changes = paths.iter().map(|path| (*path).to_owned()).collect();
        self.placed.written_bytes = bytes;
        self
    }

    /// It has printed this.
    pub(crate) fn printed(mut self, lines: &[&str]) -> Self {
        self.placed.printed = lines.iter().map(|line| (*line).to_owned()).collect();
        self
    }

    pub(crate) fn placed(self) -> ContainerId {
        let Self { host, placed } = self;
        let id = host.engine.act(|world, _| world.place(placed));
        ContainerId::parse(&id).unwrap()
    }
}
