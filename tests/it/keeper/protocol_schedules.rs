//! Ten thousand seeded schedules of the removal protocol: the real keeper against a simulated engine and a real session
//! database, while in every container something happens at one step of the protocol. No container is removed once its
//! session is live, except in the documented window between the last look and the removal.

#![expect(clippy::match_same_arms, reason = "each arm has its own reason")]

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::support::native::{native_row, plain_image};
use crate::support::rows::{Row, row, top_of};
use crate::support::scripted::{Behaviour, Request, ScriptedEngine};
use jiff::Timestamp;
use rusqlite::Connection;
use sandkeeper::domain::plan::{Intent, PLAN_VALIDITY, Reconcile};
use sandkeeper::domain::policy::BrakeRule;
use sandkeeper::domain::{Policy, Snapshot, classify, plan};
use sandkeeper::engine::{Address, Endpoint};
use sandkeeper::environment::Environment;
use sandkeeper::keeper::{Ending, ItemOutcome, Keeper, KeeperFault, KeeperLock, Manner, Seat};
use sandkeeper::profiles::Library;
use sandkeeper::sessions::{Limits, NamedStore, StoreSet};
use sandkeeper::watch::{Observer, WatchedSystem};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

/// How many containers one plan has; every one of them is a schedule.
const AT_ONCE: usize = 100;

/// A step of the protocol as the engine sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Moment {
    /// The check before anything is done.
    FirstCheck,
    Stop,
    /// The check after the stop.
    SecondCheck,
    Delete,
    /// The look whether it is gone.
    Confirmation,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Happening {
    Nothing,
    /// The session becomes live.
    Live,
    /// The session becomes live and the application starts the container.
    LiveAndStarted,
    /// Somebody restarts the container.
    Restart,
    /// Somebody else removes the container.
    Removed,
}

/// What happens in one container, when, and whether the engine has already answered the request by then.
#[derive(Clone, Copy, Debug)]
struct Schedule {
    happening: Happening,
    moment: Moment,
    after: bool,
}

impl Schedule {
    fn seeded(seed: &mut u64) -> Self {
        let mut next = |choices: u64| {
            // xorshift: the same schedules every time.
            *seed ^= *seed << 13;
            *seed ^= *seed >> 7;
            *seed ^= *seed << 17;
            (*seed >> 11) % choices
        };
        let moments =
            [Moment::FirstCheck, Moment::Stop, Moment::SecondCheck, Moment::Delete, Moment::Confirmation];
        let happenings = [
            Happening::Live,
            Happening::Live,
            Happening::Live,
            Happening::LiveAndStarted,
            Happening::Restart,
            Happening::Removed,
            Happening::Nothing,
        ];
        Self {
            moment: moments[usize::try_from(next(5)).unwrap()],
            happening: happenings[usize::try_from(next(7)).unwrap()],
            after: next(2) == 1,
        }
    }

    /// How the item may end. A check that took long looks twice, and then sees what happened after its first look.
    fn endings(self) -> Vec<Ending> {
        let seen_by_a_second_look = match (self.happening, self.moment, self.after) {
            (Happening::Restart, Moment::FirstCheck, true) => Some(Ending::Skipped),
            (Happening::Restart, Moment::SecondCheck, true) => Some(Ending::Rescued),
            _ => None,
        };
        [self.ending()].into_iter().chain(seen_by_a_second_look).collect()
    }

    /// How the item ends if every check looks once.
    fn ending(self) -> Ending {
        use Happening::{Live, LiveAndStarted, Nothing, Removed, Restart};
        use Moment::{Confirmation, Delete, FirstCheck, SecondCheck, Stop};
        match (self.happening, self.moment, self.after) {
            (Nothing, _, _) | (_, Confirmation, _) | (_, Delete, true) => Ending::Removed,
            // The window: the last look is over, and nobody has started the container.
            (Live, Delete, false) => Ending::Removed,
            (Removed, _, _) => Ending::AlreadyGone,
            // In time; or so late that the engine refuses to remove what runs again.
            (Live | LiveAndStarted, FirstCheck, _) | (Restart, FirstCheck, false) => Ending::Skipped,
            (LiveAndStarted | Restart, Delete, false) | (Restart, SecondCheck, true) => Ending::Skipped,
            (Live | LiveAndStarted, Stop | SecondCheck, _) => Ending::Rescued,
            // The new run is stopped, and seen to be another one after the stop.
            (Restart, FirstCheck, true) | (Restart, Stop, _) | (Restart, SecondCheck, false) => {
                Ending::Rescued
            }
        }
    }

    fn makes_live(self) -> bool {
        matches!(self.happening, Happening::Live | Happening::LiveAndStarted)
    }
}

#[derive(Clone, Debug)]
struct Simulated {
    row: Row,
    state: &'static str,
    started: Timestamp,
    schedule: Schedule,
    /// How often it was inspected since the plan was made.
    inspections: usize,
    stopped: bool,
    /// The session was live when the removal arrived.
    removed_while_live: bool,
    live: bool,
}

/// The engine's containers, the session database, and which of them is which.
struct World {
    containers: Mutex<HashMap<String, Simulated>>,
    sessions: Mutex<Connection>,
    planned: std::sync::atomic::AtomicBool,
}

impl World {
    fn answer(&self, request: &Request) -> Behaviour {
        let id = request.path.split('/').nth(2).unwrap_or_default().to_owned();
        let mut containers = self.containers.lock().unwrap();
        let Some(container) = containers.get_mut(&id) else {
            return Behaviour::error(404, "No such container");
        };
        let planned = self.planned.load(std::sync::atomic::Ordering::SeqCst);
        let moment = match request.method.as_str() {
            "GET" => {
                container.inspections += usize::from(planned);
                match (container.inspections, container.stopped, container.state) {
                    (0, ..) => None,
                    (_, _, "gone") => Some(Moment::Confirmation),
                    (_, false, _) => Some(Moment::FirstCheck),
                    (_, true, _) => Some(Moment::SecondCheck),
                }
            }
            "DELETE" => Some(Moment::Delete),
            _ if request.path.ends_with("/stop") => Some(Moment::Stop),
            _ => None,
        };
        let due = |after| moment == Some(container.schedule.moment) && container.schedule.after == after;
        let (before, after) = (due(false), due(true));
        if before {
            self.happen(container);
        }
        let answer = container.answer(request);
        if after {
            self.happen(container);
        }
        answer
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
            "GET" => {
                let mut body = self.row.clone().state(self.state).inspect();
                body["State"]["StartedAt"] = json!(self.started.to_string());
                Behaviour::json(&body)
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
                self.stopped = true;
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

/// A folder with a session database of the built-in contract: one ended session per container, which it names.
fn sessions(folder: &Path, rows: &[Row]) -> Connection {
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
        .prepare("INSERT INTO sessions VALUES (?1, ?1, ?1, NULL, 'ended', unixepoch(), NULL, unixepoch())")
        .unwrap();
    for row in rows {
        insert.execute([&row.name]).unwrap();
    }
    drop(insert);
    connection.execute_batch("COMMIT").unwrap();
    connection
}

/// Everything the keeper stands on.
struct Bench {
    engine: ScriptedEngine,
    world: Arc<World>,
    folder: tempfile::TempDir,
    policy: Policy,
}

impl Bench {
    fn with(schedules: &[Schedule]) -> Self {
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
            };
            (row.id.clone(), container)
        });
        let world = Arc::new(World {
            containers: Mutex::new(containers.collect()),
            sessions: Mutex::new(sessions(folder.path(), &rows)),
            planned: false.into(),
        });
        let engine = ScriptedEngine::start();
        engine.on("GET", "/images/*/json", Behaviour::json(&plain_image(&row("any"))));
        let list = Value::Array(rows.iter().map(Row::listed).collect());
        let answering = Arc::clone(&world);
        engine.on("*", "/containers/*", Behaviour::call(move |request| answering.answer(request)));
        engine.on("GET", "/containers/*/top", Behaviour::json(&top_of("sleep 1000")));
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

    fn systems(&self) -> Vec<WatchedSystem> {
        let entry = Library::load(None).find("native").unwrap().clone();
        let named = vec![NamedStore { path: self.folder.path().join("sessions.db"), others: Vec::new() }];
        let stores = StoreSet::new(&entry.profile, named, None, &Environment::default(), Limits::default());
        vec![WatchedSystem { entry, stores, asked_for: true }]
    }

    fn state(&self) -> std::path::PathBuf {
        self.folder.path().join("state")
    }

    fn keeper(&self) -> Keeper {
        let endpoint = self.endpoint();
        let host = endpoint.address.identity();
        let lock = KeeperLock::take(&self.state(), &Seat::named(&host, &host), "the test").unwrap();
        let patience = Duration::from_secs(20);
        Keeper::new(lock, &self.state(), &endpoint, "the test".into(), self.policy.clone(), patience).unwrap()
    }

    async fn look(&self) -> Snapshot {
        let timeout = Duration::from_mins(1);
        let policy = self.policy.clone();
        Observer::new(vec![self.endpoint()], self.systems(), timeout, self.state(), policy).observe().await
    }

    /// Plans as of `planned_at` and carries it out now.
    async fn reconcile(&self, planned_ago: Duration) -> Result<Vec<ItemOutcome>, KeeperFault> {
        let snapshot = self.look().await;
        let verdicts = classify(&snapshot, &self.policy, Timestamp::now());
        let planned_at = Timestamp::now() - jiff::SignedDuration::try_from(planned_ago).unwrap();
        let plan = plan(&verdicts, &Intent::Reconcile(Reconcile::default()), &self.policy, planned_at);
        assert_eq!(plan.changes(), self.world.containers.lock().unwrap().len(), "all of them are planned");
        self.world.planned.store(true, std::sync::atomic::Ordering::SeqCst);
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

#[tokio::test]
async fn no_container_is_removed_while_its_session_is_live() {
    run(1000).await;
}

#[tokio::test]
#[ignore = "takes a minute: run tests/run"]
async fn in_ten_thousand_schedules_no_container_is_removed_while_its_session_is_live() {
    run(10_000).await;
}

async fn run(schedules: usize) {
    let mut random = 0x5a9d_6ee9_e12b_0001;
    let mut seen: HashMap<String, usize> = HashMap::new();
    for _ in 0..schedules / AT_ONCE {
        let planned: Vec<Schedule> = (0..AT_ONCE).map(|_| Schedule::seeded(&mut random)).collect();
        let bench = Bench::with(&planned);
        let outcomes = bench.reconcile(Duration::ZERO).await.unwrap();
        let containers = bench.world.containers.lock().unwrap();
        for outcome in outcomes {
            let id = outcome.item.id.as_ref().unwrap().to_string();
            let index: usize = outcome.item.name["box-".len()..].parse().unwrap();
            let schedule = planned[index];
            let container = &containers[&id];
            let told =
                format!("{schedule:?} ended as {:?}: {}; {container:?}", outcome.ending, outcome.reason);
            assert!(schedule.endings().contains(&outcome.ending), "{told}");
            let in_the_window = schedule.moment == Moment::Delete;
            assert!(!container.removed_while_live || in_the_window, "removed while live: {told}");
            if schedule.makes_live() && !matches!(schedule.moment, Moment::Delete | Moment::Confirmation) {
                assert_eq!(container.state, "running", "a live session's container does not run: {told}");
            }
            *seen.entry(format!("{:?}", outcome.ending)).or_default() += 1;
        }
    }
    for ending in ["Removed", "Rescued", "Skipped", "AlreadyGone"] {
        assert!(
            seen.get(ending).is_some_and(|count| *count > schedules / 100),
            "{ending} hardly ever happened: {seen:?}"
        );
    }
}

#[tokio::test]
async fn an_expired_plan_is_refused() {
    let nothing = Schedule { happening: Happening::Nothing, moment: Moment::Stop, after: false };
    let bench = Bench::with(&[nothing; 3]);
    let refused = bench.reconcile(PLAN_VALIDITY + Duration::from_secs(1)).await.unwrap_err();
    assert_eq!(refused, KeeperFault::Expired);
    assert_eq!(bench.engine.mutations(), [""; 0]);
    assert!(bench.world.containers.lock().unwrap().values().all(|each| each.state == "running"));
}

#[tokio::test]
async fn a_plan_from_the_future_is_refused() {
    let nothing = Schedule { happening: Happening::Nothing, moment: Moment::Stop, after: false };
    let bench = Bench::with(&[nothing]);
    let snapshot = bench.look().await;
    let now = Timestamp::now();
    let verdicts = classify(&snapshot, &bench.policy, now);
    let later = now + jiff::SignedDuration::from_mins(5);
    let plan = plan(&verdicts, &Intent::Reconcile(Reconcile::default()), &bench.policy, later);
    let (progress, _events) = tokio::sync::mpsc::channel(64);
    let cancel = CancellationToken::new();
    let refused = bench
        .keeper()
        .carry_out(plan, &snapshot, bench.systems(), Manner::default(), progress, &cancel)
        .await;
    assert_eq!(refused.unwrap_err(), KeeperFault::Expired);
    assert_eq!(bench.engine.mutations(), [""; 0]);
}
