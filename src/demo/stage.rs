//! Sets the scene: puts the containers on the simulated host and the sessions into their databases.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::script::{Part, Script, SessionPart, SessionState, System};
use super::stores::{SessionRow, Store};
use super::{DemoFault, DemoOptions, Places, crowd};
use crate::domain::ContainerId;
use crate::domain::snapshot::DrainMark;
use crate::engine::sim::{Deed, Dice, Output, Placed, Program, Signal, SimClock, SimEngine, World};
use crate::state::{Mark, State};

/// How long containers count as new; the policy's default.
const NEW: Duration = Duration::from_mins(1);

/// The scene while it is played.
pub(super) struct Stage {
    pub(super) engine: SimEngine,
    pub(super) script: Script,
    stores: BTreeMap<(String, String), Store>,
    pub(super) sessions: Vec<Player>,
    pub(super) places: Places,
    pub(super) dice: Dice,
    pub(super) speed: f64,
}

/// A session on the stage.
#[derive(Clone, Debug)]
pub(super) struct Player {
    pub(super) id: String,
    pub(super) system: String,
    pub(super) store: String,
    pub(super) container: String,
    pub(super) live: bool,
}

impl Stage {
    /// Sets the scene as of `clock`, as the options want it.
    pub(super) fn set(places: Places, clock: SimClock, options: &DemoOptions) -> Result<Self, DemoFault> {
        let mut script = Script::load()?;
        let mut dice = Dice::new(options.seed);
        if let Some(scale) = options.scale {
            script.containers.truncate(scale);
            let missing = scale.saturating_sub(script.containers.len());
            script.containers.extend(crowd::parts(missing, &mut dice));
        }
        let now = clock.now();
        let mut world = World::new(options.seed);
        let old_images = build_images(&mut world, &script, now);
        let mut rows: BTreeMap<(String, String), Vec<SessionRow>> = BTreeMap::new();
        let (mut sessions, mut marks) = (Vec::new(), Vec::new());
        for part in &script.containers {
            let Some(system) = script.system(&part.system) else { continue };
            let container = placed(part, system, &old_images, &places, now, options.speed);
            let started_at = container.started_at;
            let id = world.place(container);
            place_work(&mut world, part, &id, now);
            if part.draining {
                marks.extend(mark(part, &id, started_at, now));
            }
            for session in &part.sessions {
                let store = (part.system.clone(), part.store.clone());
                rows.entry(store).or_default().push(row(session, part, now));
                sessions.push(player(session, part));
            }
        }
        for widow in &script.sessions {
            let part = Part::ghost(&widow.system, &widow.container, &widow.workspace);
            let store = (part.system.clone(), part.store.clone());
            rows.entry(store).or_default().push(row(&widow.session, &part, now));
            sessions.push(player(&widow.session, &part));
        }
        let stores = fill_stores(&script, &places, &rows)?;
        let engine = SimEngine::start(&places.socket, world, clock, options.seed)
            .map_err(|error| DemoFault::Engine(error.to_string()))?;
        let stage = Self { engine, script, stores, sessions, places, dice, speed: options.speed };
        stage.set_marks(&marks)?;
        Ok(stage)
    }

    /// What our own state knows this host by.
    pub(super) fn host(&self) -> String {
        self.engine.endpoint().address.identity()
    }

    fn set_marks(&self, marks: &[Mark]) -> Result<(), DemoFault> {
        if marks.is_empty() {
            return Ok(());
        }
        let state = State::open(&self.places.state)?;
        let host = self.host();
        for mark in marks {
            state.set_mark(&host, mark)?;
        }
        Ok(())
    }

    pub(super) fn store(&self, system: &str, name: &str) -> Option<&Store> {
        self.stores.get(&(system.to_owned(), name.to_owned()))
    }

    /// Where the session databases are.
    pub(super) fn store_paths(&self) -> Vec<PathBuf> {
        self.stores.values().map(|store| store.path().to_owned()).collect()
    }

    /// The part that a container plays.
    pub(super) fn part(&self, name: &str) -> Option<&Part> {
        self.script.containers.iter().find(|part| part.name == name)
    }

    /// A session begins in a container.
    pub(super) fn admit(&mut self, part: &Part, session: &SessionPart) -> Result<(), DemoFault> {
        let now = self.engine.clock().now();
        let Some(store) = self.store(&part.system, &part.store) else { return Ok(()) };
        store.put(&row(session, part, now))?;
        self.sessions.push(player(session, part));
        Ok(())
    }

    /// Puts another container on the stage, as an application would.
    pub(super) fn enter(&mut self, part: Part) {
        let now = self.engine.clock().now();
        let Some(system) = self.script.system(&part.system) else { return };
        let placed = placed(&part, system, &BTreeMap::new(), &self.places, now, self.speed);
        self.engine.act(|world, now| {
            let id = world.place(placed);
            place_work(world, &part, &id, now);
        });
        self.script.containers.push(part);
    }
}

impl Part {
    /// A container that is not there, for the sessions that miss it.
    fn ghost(system: &str, name: &str, workspace: &str) -> Self {
        Self { workspace: Some(workspace.to_owned()), ..Self::plain(system, name) }
    }

    /// A running container about which nothing special is known.
    pub(super) fn plain(system: &str, name: &str) -> Self {
        Self {
            system: system.to_owned(),
            name: name.to_owned(),
            workspace: None,
            state: "running".to_owned(),
            age: Duration::ZERO,
            new_until: None,
            hash: None,
            persistent: None,
            lifetime: None,
            task: None,
            exit_code: 0,
            load: 0,
            draining: false,
            old_image: false,
            stubborn: false,
            exec: Vec::new(),
            binds: Vec::new(),
            tmpfs: Vec::new(),
            says: Vec::new(),
            store: "default".to_owned(),
            sessions: Vec::new(),
        }
    }
}

/// Every tag names a new image now, and named another before. Says which.
fn build_images(world: &mut World, script: &Script, now: Timestamp) -> BTreeMap<String, String> {
    let mut old = BTreeMap::new();
    for system in &script.systems {
        let before = world.build(earlier(now, Duration::from_hours(900)), &system.image, BTreeMap::new());
        world.build(earlier(now, Duration::from_hours(30)), &system.image, BTreeMap::new());
        old.insert(system.image.clone(), before);
    }
    old
}

fn placed(
    part: &Part,
    system: &System,
    old_images: &BTreeMap<String, String>,
    places: &Places,
    now: Timestamp,
    speed: f64,
) -> Placed {
    let age = match part.new_until {
        Some(until) => NEW.saturating_sub(until.div_f64(speed)),
        None => part.age,
    };
    let created_at = earlier(now, age);
    let ran = part.state != "created";
    let started_at = ran.then(|| earlier(now, age.saturating_sub(Duration::from_millis(400))));
    let finished_at = (part.state == "exited").then(|| earlier(now, age / 3));
    let fill = |template: &str| filled(template, part, system, places);
    let labels = system.labels.iter().filter_map(|(key, value)| Some((key.clone(), fill(value)?)));
    let binds = if part.binds.is_empty() && part.tmpfs.is_empty() { &system.binds } else { &part.binds };
    let binds: Vec<String> = binds.iter().filter_map(|bind| fill(bind)).collect();
    for folder in binds.iter().filter_map(|bind| bind.split(':').next()) {
        // What cannot be made is missed only by a comeback, which says so.
        let _ = std::fs::create_dir_all(folder);
    }
    let tmpfs: Map<String, Value> = part.tmpfs.iter().map(|path| (path.clone(), json!(""))).collect();
    let host_config = json!({ "NetworkMode": "bridge", "Binds": binds, "Tmpfs": tmpfs });
    let config =
        json!({ "Env": ["LANG=C.UTF-8", "AGENT_TOKEN=a-secret-of-the-demo"], "WorkingDir": "/workspace" });
    Placed {
        name: part.name.clone(),
        image: system.image.clone(),
        image_id: old_images.get(&system.image).filter(|_| part.old_image).cloned().unwrap_or_default(),
        labels: labels.collect(),
        command: system.command.clone(),
        program: program(part),
        config: config.as_object().cloned().unwrap_or_default(),
        host_config: host_config.as_object().cloned().unwrap_or_default(),
        state: part.state.clone(),
        created_at,
        started_at,
        finished_at,
        exit_code: part.exit_code,
        printed: if ran && part.state == "exited" { part.says.clone() } else { Vec::new() },
        changes: vec!["/workspace".to_owned(), "/tmp".to_owned()],
        written_bytes: 3_000_000 + age.as_secs() * 97 % 800_000_000,
    }
}

/// It talks, and ends politely when asked to unless it is stubborn.
fn program(part: &Part) -> Program {
    let line = |line: &String| [Deed::Say(Output::Out, line.clone()), Deed::Sleep(Duration::from_secs(4))];
    let mut program = Program::service();
    program.then.splice(..0, part.says.iter().flat_map(line));
    program.dying = Duration::from_millis(700);
    if part.stubborn {
        program.obeys.remove(&Signal::TERM);
    }
    program
}

/// What goes on in it.
fn place_work(world: &mut World, part: &Part, id: &str, now: Timestamp) {
    // Both fail only for a container that does not run, and then there is nothing to do.
    let _ = world.set_load(now, id, part.load);
    if !part.exec.is_empty() {
        let _ = world.run_exec(now, id, part.exec.clone(), Program::service());
    }
}

/// Fills a template; `None` when a placeholder has no value.
fn filled(template: &str, part: &Part, system: &System, places: &Places) -> Option<String> {
    let mut text = template.replace("{home}", &places.home.display().to_string());
    let persistent = part.persistent.map(|persistent| persistent.to_string());
    let values = [
        ("{workspace}", part.workspace.as_ref()),
        ("{hash}", part.hash.as_ref().or(system.hash.as_ref())),
        ("{task}", part.task.as_ref()),
        ("{persistent}", persistent.as_ref()),
        ("{lifetime}", part.lifetime.as_ref()),
    ];
    for (placeholder, value) in values {
        if text.contains(placeholder) {
            text = text.replace(placeholder, value?);
        }
    }
    Some(text)
}

fn mark(part: &Part, id: &str, started_at: Option<Timestamp>, now: Timestamp) -> Option<Mark> {
    Some(Mark {
        container: ContainerId::parse(id)?,
        name: part.name.clone(),
        system: Some(part.system.clone()),
        workspace: part.workspace.clone(),
        mark: DrainMark {
            started_at,
            marked_at: earlier(now, Duration::from_mins(18)),
            marked_by: "ada".to_owned(),
        },
    })
}

fn row(session: &SessionPart, part: &Part, now: Timestamp) -> SessionRow {
    SessionRow {
        id: session.id.clone(),
        workspace: part.workspace.clone().unwrap_or_default(),
        container: Some(part.name.clone()),
        title: session.title.clone(),
        state: session.state,
        started: earlier(now, session.age),
        active: earlier(now, session.quiet),
    }
}

fn player(session: &SessionPart, part: &Part) -> Player {
    Player {
        id: session.id.clone(),
        system: part.system.clone(),
        store: part.store.clone(),
        container: part.name.clone(),
        live: session.state == SessionState::Live,
    }
}

fn fill_stores(
    script: &Script,
    places: &Places,
    rows: &BTreeMap<(String, String), Vec<SessionRow>>,
) -> Result<BTreeMap<(String, String), Store>, DemoFault> {
    let mut stores = BTreeMap::new();
    for system in &script.systems {
        for (name, part) in &system.stores {
            let key = (system.name.clone(), name.clone());
            let mut store = Store::create(part.kind, places.home.join(&part.path))?;
            if let Some(rows) = rows.get(&key) {
                store.put_all(rows)?;
            }
            stores.insert(key, store);
        }
    }
    Ok(stores)
}

fn earlier(now: Timestamp, by: Duration) -> Timestamp {
    now.checked_sub(by).unwrap_or(now)
}

/// A folder below another, made if it is not there.
pub(super) fn folder(below: &Path, name: &str) -> Result<PathBuf, DemoFault> {
    let path = below.join(name);
    std::fs::create_dir_all(&path).map_err(|error| DemoFault::folder(&path, &error))?;
    Ok(path)
}
