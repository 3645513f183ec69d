//! The engine, the containers and the session database of a schedule.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;

use jiff::Timestamp;
use rusqlite::Connection;
use sandkeeper::domain::plan::{Intent, Reconcile};
use sandkeeper::domain::policy::BrakeRule;
use sandkeeper::domain::{Policy, Snapshot, classify, plan};
use sandkeeper::engine::{Address, Endpoint};
use sandkeeper::environment::Environment;
use sandkeeper::keeper::{ItemOutcome, Keeper, KeeperFault, KeeperLock, Manner, Seat};
use sandkeeper::profiles::Library;
use sandkeeper::sessions::{Limits, NamedStore, StoreSet};
use sandkeeper::watch::{Observer, WatchedSystem};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::{Happening, Kind, Loss, Moment, Schedule};
use crate::support::native::{native_row, plain_image};
use crate::support::rows::{Row, row, top_of};
use crate::support::scripted::{Behaviour, Request, ScriptedEngine};

#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub(super) struct Simulated {
    pub(super) row: Row,
    pub(super) state: &'static str,
    started: Timestamp,
    pub(super) schedule: Schedule,
    /// How often it was inspected since the plan was made or, once it was stopped, since then.
    inspections: usize,
    pub(super) stopped: bool,
    /// The session was live when the removal arrived.
    pub(super) removed_while_live: bool,
    pub(super) live: bool,
    /// A command runs in it that nobody waits for.
    pub(super) works: bool,
    /// Its inspection, of this state and run: to write it anew takes longer than to answer.
    shown: Option<((&'static str, Timestamp), String)>,
    /// What the loss of the store leaves the keeper to do, if that came before it looked.
    pub(super) spared: Option<Spared>,
}

/// How a container must come out of it that the store was lost before a check of it began.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Spared {
    /// It was not even stopped.
    Untouched,
    /// It was stopped already, and runs again.
    Restarted,
}

/// The engine's containers, the session database, and which of them is which.
pub(super) struct World {
    pub(super) containers: Mutex<HashMap<String, Simulated>>,
    sessions: Mutex<Connection>,
    folder: PathBuf,
    loss: Option<Loss>,
    lost: AtomicBool,
    pub(super) planned: AtomicBool,
}

impl World {
    fn answer(&self, request: &Request) -> Behaviour {
        let id = request.path.split('/').nth(2).unwrap_or_default().to_owned();
        let mut containers = self.containers.lock().unwrap();
        let Some(container) = containers.get_mut(&id) else {
            return Behaviour::error(404, "No such container");
        };
        let planned = self.planned.load(Ordering::SeqCst);
        let moment = match request.method.as_str() {
            "GET" if request.path.ends_with("/top") => None,
            "GET" => {
                container.inspections += usize::from(planned);
                match (planned, container.stopped, container.state) {
                    (false, ..) => None,
                    (_, _, "gone") => Some(Moment::Confirmation),
                    (_, false, _) => Some(Moment::FirstCheck),
                    (_, true, _) => Some(Moment::SecondCheck),
                }
            }
            "DELETE" => Some(Moment::Delete),
            _ if request.path.ends_with("/stop") => Some(Moment::Stop),
            _ => None,
        };
        let due = |at: Moment, is_after: bool, after: bool| moment == Some(at) && is_after == after;
        let schedule = container.schedule;
        let loss = self.loss.filter(|loss| container.row.name == format!("box-{}", loss.container));
        let now_lost = |after| loss.filter(|loss| due(loss.moment, loss.after, after));
        if due(schedule.moment, schedule.after, false) {
            self.happen(container);
        }
        if let Some(loss) = now_lost(false) {
            self.lose(loss.kind, &mut containers);
        }
        let container = containers.get_mut(&id).unwrap();
        let answer = container.answer(request);
        if due(schedule.moment, schedule.after, true) {
            self.happen(container);
        }
        if let Some(loss) = now_lost(true) {
            self.lose(loss.kind, &mut containers);
        }
        answer
    }

    /// The store loses its sessions, once. Whoever is checked from now on is in doubt.
    fn lose(&self, kind: Kind, containers: &mut HashMap<String, Simulated>) {
        if self.lost.swap(true, Ordering::SeqCst) {
            return;
        }
        let store = self.folder.join("sessions.db");
        match kind {
            Kind::Emptied => {
                let sessions = self.sessions.lock().unwrap();
                sessions.execute_batch("DELETE FROM sessions; VACUUM").unwrap();
            }
            Kind::Replaced => {
                let other = tempfile::tempdir_in(&self.folder).unwrap();
                drop(sessions(other.path(), &[], "ended"));
                for rest in ["sessions.db-wal", "sessions.db-shm"] {
                    std::fs::remove_file(self.folder.join(rest)).unwrap();
                }
                std::fs::rename(other.path().join("sessions.db"), store).unwrap();
            }
            Kind::Gone => std::fs::remove_file(store).unwrap(),
        }
        for container in containers.values_mut().filter(|container| container.inspections == 0) {
            container.spared = match (container.state, container.stopped) {
                ("gone", _) => None,
                (_, false) => Some(Spared::Untouched),
                (_, true) => Some(Spared::Restarted),
            };
        }
    }

    /// Once.
    fn happen(&self, container: &mut Simulated) {
        let happening = std::mem::replace(&mut container.schedule.happening, Happening::Nothing);
        if matches!(happening, Happening::Live | Happening::LiveAndStarted) {
            let sessions = self.sessions.lock().unwrap();
            let update = "UPDATE sessions SET status = 'active', ended_at = NULL WHERE id = ?1";
            assert_eq!(sessions.execute(update, [&container.row.name]).unwrap(), 1);
            container.live = true;
        }
        if matches!(happening, Happening::LiveAndStarted | Happening::Restart) && container.state != "gone" {
            container.start(happening == Happening::Restart);
        }
        if happening == Happening::Work {
            container.works = container.state == "running";
        }
        if happening == Happening::Removed {
            container.state = "gone";
        }
    }
}

impl Simulated {
    fn start(&mut self, anew: bool) {
        if anew || self.state != "running" {
            self.started = Timestamp::now();
        }
        self.state = "running";
    }

    fn answer(&mut self, request: &Request) -> Behaviour {
        if self.state == "gone" {
            return Behaviour::error(404, "No such container");
        }
        match request.method.as_str() {
            "GET" if request.path.ends_with("/top") => ready(if self.works { &AT_WORK } else { &AT_REST }),
            "GET" => {
                let seen = (self.state, self.started);
                if self.shown.as_ref().is_none_or(|(of, _)| *of != seen) {
                    let mut body = self.row.clone().state(self.state).inspect();
                    body["State"]["StartedAt"] = json!(self.started.to_string());
                    self.shown = Some((seen, body.to_string()));
                }
                ready(self.shown.as_ref().map_or("", |(_, body)| body))
            }
            "DELETE" => {
                assert!(request.query("force") != Some("true") && request.query("v") != Some("true"));
                if self.state == "running" {
                    return Behaviour::error(409, "You cannot remove a running container");
                }
                self.state = "gone";
                self.removed_while_live = self.live;
                Behaviour::empty(204)
            }
            _ if request.path.ends_with("/stop") => {
                (self.stopped, self.inspections, self.works) = (true, 0, false);
                let was_running = std::mem::replace(&mut self.state, "exited") == "running";
                Behaviour::empty(if was_running { 204 } else { 304 })
            }
            _ => {
                let runs = self.state == "running";
                self.start(false);
                Behaviour::empty(if runs { 304 } else { 204 })
            }
        }
    }
}

/// A folder with a session database of the built-in contract: one session per container, which it names.
fn sessions(folder: &Path, rows: &[Row], status: &str) -> Connection {
    let connection = Connection::open(folder.join("sessions.db")).unwrap();
    connection
        .execute_batch(
            "PRAGMA journal_mode = wal; PRAGMA synchronous = off;
             CREATE TABLE sessions(id TEXT PRIMARY KEY, workspace TEXT NOT NULL, container TEXT, title TEXT,
                 status TEXT NOT NULL, started_at REAL NOT NULL, last_activity_at REAL, ended_at REAL);
             BEGIN",
        )
        .unwrap();
    let mut insert = connection
        .prepare("INSERT INTO sessions VALUES (?1, ?1, ?1, NULL, ?2, unixepoch(), NULL, unixepoch())")
        .unwrap();
    for row in rows {
        insert.execute([row.name.as_str(), status]).unwrap();
    }
    drop(insert);
    connection.execute_batch("COMMIT").unwrap();
    connection
}

/// What runs in a container that only waits, and in one in which somebody works.
static AT_REST: LazyLock<String> = LazyLock::new(|| top_of("sleep 1000").to_string());
static AT_WORK: LazyLock<String> = LazyLock::new(|| {
    let mut processes = top_of("sleep 1000");
    let work = json!(["4300", "4242", "4300", "S", "00:05", "make all"]);
    processes["Processes"].as_array_mut().unwrap().push(work);
    processes.to_string()
});

fn ready(body: &str) -> Behaviour {
    Behaviour::reply(200, "application/json", body)
}

/// Read once: to read it takes longer than a schedule does.
static LIBRARY: LazyLock<Library> = LazyLock::new(|| Library::load(None));

/// Everything the keeper stands on.
pub(super) struct Bench {
    pub(super) engine: ScriptedEngine,
    pub(super) world: Arc<World>,
    folder: tempfile::TempDir,
    pub(super) policy: Policy,
}

impl Bench {
    /// Every session has ended.
    pub(super) fn with(schedules: &[Schedule]) -> Self {
        Self::new(schedules, "ended", None)
    }

    /// Every session is open and quiet, until the store loses them all.
    pub(super) fn losing(schedules: &[Schedule], loss: Loss) -> Self {
        Self::new(schedules, "idle", Some(loss))
    }

    fn new(schedules: &[Schedule], status: &str, loss: Option<Loss>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let started = Timestamp::now() - jiff::SignedDuration::from_hours(1);
        let rows: Vec<Row> = (0..schedules.len())
            .map(|index| native_row(&format!("box-{index}"), "atlas").label("sandkeeper.config-hash", "0ld"))
            .collect();
        let containers = rows.iter().zip(schedules).map(|(row, schedule)| {
            let container = Simulated {
                row: row.clone(),
                state: "running",
                started,
                schedule: *schedule,
                inspections: 0,
                stopped: false,
                removed_while_live: false,
                live: false,
                works: false,
                shown: None,
                spared: None,
            };
            (row.id.clone(), container)
        });
        let world = Arc::new(World {
            containers: Mutex::new(containers.collect()),
            sessions: Mutex::new(sessions(folder.path(), &rows, status)),
            folder: folder.path().to_owned(),
            loss,
            lost: false.into(),
            planned: false.into(),
        });
        let engine = ScriptedEngine::start();
        engine.on("GET", "/images/*/json", Behaviour::json(&plain_image(&row("any"))));
        let list = Value::Array(rows.iter().map(Row::listed).collect());
        let answering = Arc::clone(&world);
        engine.on("*", "/containers/*", Behaviour::call(move |request| answering.answer(request)));
        engine.on("GET", "/containers/json", Behaviour::json(&list));
        engine.on("GET", "/containers/*/json/recorded", Behaviour::error(500, "not asked here"));
        let policy = Policy {
            expected_hash: Some("new".to_owned()),
            new_store_wait: Duration::ZERO,
            count_downtime: true,
            brake: BrakeRule { more_than: usize::MAX, percent: 100 },
            ..Policy::default()
        };
        Self { engine, world, folder, policy }
    }

    fn endpoint(&self) -> Endpoint {
        Endpoint { address: Address::Unix(self.engine.socket().to_owned()), origin: "the test".to_owned() }
    }

    pub(super) fn systems(&self) -> Vec<WatchedSystem> {
        let entry = LIBRARY.find("native").unwrap().clone();
        let named = vec![NamedStore { path: self.folder.path().join("sessions.db"), others: Vec::new() }];
        let stores = StoreSet::new(&entry.profile, named, None, &Environment::default(), Limits::default());
        vec![WatchedSystem { entry, stores, asked_for: true }]
    }

    fn state(&self) -> std::path::PathBuf {
        self.folder.path().join("state")
    }

    pub(super) fn keeper(&self) -> Keeper {
        let endpoint = self.endpoint();
        let host = endpoint.address.identity();
        let lock = KeeperLock::take(&self.state(), &Seat::named(&host, &host), "the test").unwrap();
        let patience = Duration::from_secs(20);
        Keeper::new(lock, &self.state(), &endpoint, "the test".into(), self.policy.clone(), patience).unwrap()
    }

    pub(super) async fn look(&self) -> Snapshot {
        let timeout = Duration::from_mins(1);
        let policy = self.policy.clone();
        Observer::new(vec![self.endpoint()], self.systems(), timeout, self.state(), policy).observe().await
    }

    /// Plans as of `planned_at` and carries it out now.
    pub(super) async fn reconcile(&self, planned_ago: Duration) -> Result<Vec<ItemOutcome>, KeeperFault> {
        let snapshot = self.look().await;
        let verdicts = classify(&snapshot, &self.policy, Timestamp::now());
        let planned_at = Timestamp::now() - jiff::SignedDuration::try_from(planned_ago).unwrap();
        let plan = plan(&verdicts, &Intent::Reconcile(Reconcile::default()), &self.policy, planned_at);
        assert_eq!(plan.changes(), self.world.containers.lock().unwrap().len(), "all of them are planned");
        self.world.planned.store(true, Ordering::SeqCst);
        let (progress, mut events) = tokio::sync::mpsc::channel(64);
        let listening = tokio::spawn(async move { while events.recv().await.is_some() {} });
        let keeper = self.keeper();
        let manner = Manner { grace: Some(Duration::from_secs(1)), ..Manner::default() };
        let cancel = CancellationToken::new();
        let outcomes = keeper.carry_out(plan, &snapshot, self.systems(), manner, progress, &cancel).await;
        listening.abort();
        outcomes
    }
}
