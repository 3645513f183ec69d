//! Session databases as the applications write them.

use std::fmt;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use rusqlite::{Connection, Params, params};

use super::wait_until;

/// Opens a new database the way a gateway does, in WAL mode, and keeps it open.
fn create(path: &Path, schema: &str) -> Connection {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let connection = Connection::open(path).unwrap();
    connection.pragma_update(None, "journal_mode", "WAL").unwrap();
    connection.busy_timeout(Duration::from_secs(10)).unwrap();
    connection.execute_batch(schema).unwrap();
    connection
}

/// The database of the built-in contract. Open, as by its owner, until dropped.
pub(crate) struct NativeStore {
    path: PathBuf,
    connection: Connection,
}

impl NativeStore {
    pub(crate) fn create(path: impl Into<PathBuf>) -> Self {
        let path = path.into();
        let connection = create(
            &path,
            "CREATE TABLE sessions(id TEXT PRIMARY KEY, workspace TEXT NOT NULL, container TEXT, title TEXT, \
             status TEXT NOT NULL, started_at REAL NOT NULL, last_activity_at REAL, ended_at REAL)",
        );
        Self { path, connection }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// An idle session an hour old, quiet for a minute, until the builder says otherwise.
    pub(crate) fn session<'store>(&'store self, id: &str, workspace: &str) -> NativeSession<'store> {
        NativeSession {
            store: self,
            id: id.to_owned(),
            workspace: workspace.to_owned(),
            container: None,
            title: None,
            status: "idle".to_owned(),
            started: unix_ago(3600),
            active: Some(unix_ago(60)),
            ended: None,
        }
    }

    pub(crate) fn end(&self, id: &str) {
        self.change(
            "UPDATE sessions SET status = 'ended', ended_at = ?2 WHERE id = ?1",
            params![id, unix_ago(0)],
        );
    }

    pub(crate) fn activate(&self, id: &str) {
        self.change(
            "UPDATE sessions SET status = 'active', ended_at = NULL, last_activity_at = ?2 WHERE id = ?1",
            params![id, unix_ago(0)],
        );
    }

    pub(crate) fn set_status(&self, id: &str, status: &str) {
        self.change("UPDATE sessions SET status = ?2 WHERE id = ?1", params![id, status]);
    }

    /// Any SQL, for faults the builder does not know.
    pub(crate) fn execute(&self, sql: &str) {
        self.connection.execute_batch(sql).unwrap();
    }

    #[track_caller]
    fn change(&self, sql: &str, values: impl Params) {
        assert_eq!(self.connection.execute(sql, values).unwrap(), 1, "no such session");
    }
}

#[must_use = "nothing is written before `insert`"]
pub(crate) struct NativeSession<'store> {
    store: &'store NativeStore,
    id: String,
    workspace: String,
    container: Option<String>,
    title: Option<String>,
    status: String,
    started: f64,
    active: Option<f64>,
    ended: Option<f64>,
}

impl NativeSession<'_> {
    pub(crate) fn container(mut self, container: impl Into<String>) -> Self {
        self.container = Some(container.into());
        self
    }

    pub(crate) fn title(mut self, title: impl Into<String>) -> Self {
        self.title = Some(title.into());
        self
    }

    pub(crate) fn status(mut self, status: &str) -> Self {
        status.clone_into(&mut self.status);
        self
    }

    pub(crate) fn started_ago(mut self, seconds: impl Into<f64>) -> Self {
        self.started = unix_ago(seconds);
        self
    }

    pub(crate) fn active_ago(mut self, seconds: impl Into<f64>) -> Self {
        self.active = Some(unix_ago(seconds));
        self
    }

    pub(crate) fn never_active(mut self) -> Self {
        self.active = None;
        self
    }

    /// Ended so long ago, its status included.
    pub(crate) fn ended_ago(mut self, seconds: impl Into<f64>) -> Self {
        self.ended = Some(unix_ago(seconds));
        self.status("ended")
    }

    pub(crate) fn insert(self) {
        let Self { store, id, workspace, container, title, status, started, active, ended } = self;
        store.change(
            "INSERT INTO sessions VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
            params![id, workspace, container, title, status, started, active, ended],
        );
    }
}

/// Parachute's database in its form of February 2026. Open, as by its owner, until dropped.
pub(crate) struct ParachuteStore {
    path: PathBuf,
    connection: Connection,
}

impl ParachuteStore {
    pub(crate) fn create(path: impl Into<PathBuf>) -> Self {
        let path = path.into();
        let connection = create(
            &path,
            "CREATE TABLE sessions(id TEXT PRIMARY KEY, title TEXT, module TEXT NOT NULL, source TEXT NOT NULL, \
             working_directory TEXT, vault_root TEXT, model TEXT, created_at TEXT NOT NULL, \
             last_accessed TEXT NOT NULL, continued_from TEXT, agent_type TEXT, metadata TEXT, \
             message_count INTEGER DEFAULT 0, archived INTEGER DEFAULT 0, trust_level TEXT, workspace_id TEXT, \
             parent_session_id TEXT, created_by TEXT DEFAULT 'user', container_env_id TEXT);
             CREATE TABLE container_envs(slug TEXT PRIMARY KEY, display_name TEXT, created_at TEXT);
             CREATE TABLE schema_version(version INTEGER PRIMARY KEY, applied_at TEXT)",
        );
        Self { path, connection }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// A sandboxed session accessed a minute ago, until the builder says otherwise.
    pub(crate) fn session<'store>(&'store self, id: &str) -> ParachuteSession<'store> {
        ParachuteSession {
            store: self,
            id: id.to_owned(),
            title: None,
            workspace: None,
            environment: None,
            trust: Some("sandboxed".to_owned()),
            created: iso_ago(3600),
            accessed: iso_ago(60),
            archived: false,
        }
    }

    pub(crate) fn touch(&self, id: &str) {
        self.change("UPDATE sessions SET last_accessed = ?2 WHERE id = ?1", params![id, iso_ago(0)]);
    }

    pub(crate) fn archive(&self, id: &str) {
        self.change("UPDATE sessions SET archived = 1 WHERE id = ?1", params![id]);
    }

    /// Any SQL, for drift and faults the builder does not know.
    pub(crate) fn execute(&self, sql: &str) {
        self.connection.execute_batch(sql).unwrap();
    }

    #[track_caller]
    fn change(&self, sql: &str, values: impl Params) {
        assert_eq!(self.connection.execute(sql, values).unwrap(), 1, "no such session");
    }
}

#[must_use = "nothing is written before `insert`"]
pub(crate) struct ParachuteSession<'store> {
    store: &'store ParachuteStore,
    id: String,
    title: Option<String>,
    workspace: Option<String>,
    environment: Option<String>,
    trust: Option<String>,
    created: String,
    accessed: String,
    archived: bool,
}

impl ParachuteSession<'_> {
    pub(crate) fn title(mut self, title: impl Into<String>) -> Self {
        self.title = Some(title.into());
        self
    }

    /// Links to `parachute-ws-WORKSPACE`.
    pub(crate) fn workspace(mut self, workspace: impl Into<String>) -> Self {
        self.workspace = Some(workspace.into());
        self
    }

    /// Links to `parachute-env-SLUG`.
    pub(crate) fn environment(mut self, slug: impl Into<String>) -> Self {
        self.environment = Some(slug.into());
        self
    }

    /// `sandboxed`, `direct`, `full`; `None` is NULL.
    pub(crate) fn trust(mut self, level: Option<&str>) -> Self {
        self.trust = level.map(str::to_owned);
        self
    }

    pub(crate) fn created_ago(mut self, seconds: impl Into<f64>) -> Self {
        self.created = iso_ago(seconds);
        self
    }

    pub(crate) fn accessed_ago(mut self, seconds: impl Into<f64>) -> Self {
        self.accessed = iso_ago(seconds);
        self
    }

    pub(crate) fn archived(mut self, archived: bool) -> Self {
        self.archived = archived;
        self
    }

    pub(crate) fn insert(self) {
        let Self { store, id, title, workspace, environment, trust, created, accessed, archived } = self;
        store.change(
            "INSERT INTO sessions(id, title, module, source, created_at, last_accessed, archived, trust_level, \
             workspace_id, container_env_id) VALUES (?1, ?2, 'chat', 'parachute', ?3, ?4, ?5, ?6, ?7, ?8)",
            params![id, title, created, accessed, archived, trust, workspace, environment],
        );
    }
}

/// Another process that keeps writing to a database until dropped.
pub(crate) struct Writer {
    done: Arc<AtomicU64>,
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Writer {
    /// Changes the title of every session, again and again.
    pub(crate) fn start(path: &Path) -> Self {
        Self::start_with(path, |count| format!("UPDATE sessions SET title = 'beat {count}'"))
    }

    /// Runs `statement(1)`, `statement(2)`, and so on, each in its own transaction.
    pub(crate) fn start_with(path: &Path, statement: impl Fn(u64) -> String + Send + 'static) -> Self {
        let mut child = Command::new("sqlite3")
            .arg("-batch")
            .arg(path)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("cannot run sqlite3 (tests/run installs it): {error}"));
        let done = Arc::new(AtomicU64::new(0));
        let counter = Arc::clone(&done);
        let (stop, stopped) = mpsc::channel();
        let thread = thread::spawn(move || {
            let mut input = child.stdin.take().unwrap();
            let mut answers = BufReader::new(child.stdout.take().unwrap()).lines();
            writeln!(input, ".timeout 10000\n.bail on").unwrap();
            for count in 1.. {
                // A write every few milliseconds leaves the processor to the test.
                if stopped.recv_timeout(Duration::from_millis(3)) != Err(RecvTimeoutError::Timeout) {
                    break;
                }
                let asked =
                    writeln!(input, "{};\nSELECT {count};", statement(count)).and_then(|()| input.flush());
                let answered = answers.next().and_then(Result::ok);
                if asked.is_err() || answered != Some(count.to_string()) {
                    let complaint = end(child, input);
                    panic!("the writer failed at write {count}: it answered {answered:?}; {complaint}");
                }
                counter.store(count, Ordering::SeqCst);
            }
            end(child, input);
        });
        let writer = Self { done, stop: Some(stop), thread: Some(thread) };
        writer.wait_for_writes(1);
        writer
    }

    pub(crate) fn writes(&self) -> u64 {
        self.done.load(Ordering::SeqCst)
    }

    /// Waits until so many more writes have been committed.
    #[track_caller]
    pub(crate) fn wait_for_writes(&self, more: u64) {
        let goal = self.writes() + more;
        wait_until("the writer goes on writing", || self.writes() >= goal);
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Ends the process by ending its input, and returns what it complained about.
fn end(mut child: Child, input: impl Write) -> String {
    drop(input);
    let mut complaint = String::new();
    let _ = child.stderr.take().unwrap().read_to_string(&mut complaint);
    let _ = child.wait();
    complaint
}

/// The bytes of a database and of its write-ahead log.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Fingerprint {
    database: Vec<u8>,
    log: Option<Vec<u8>>,
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sum =
            |bytes: &Vec<u8>| bytes.iter().fold(0_u32, |sum, byte| sum.rotate_left(5) ^ u32::from(*byte));
        let show = |bytes: &Vec<u8>| format!("{} bytes, sum {:08x}", bytes.len(), sum(bytes));
        write!(f, "database: {}; log: {:?}", show(&self.database), self.log.as_ref().map(show))
    }
}

/// Reads a database that nobody should have written to; compare two of them.
pub(crate) fn fingerprint(path: &Path) -> Fingerprint {
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    Fingerprint { database: read_elsewhere(path).unwrap(), log: read_elsewhere(Path::new(&log)) }
}

/// Reads a file in another process: a process that closes a database it also has open through SQLite loses
/// the locks it holds on it.
fn read_elsewhere(path: &Path) -> Option<Vec<u8>> {
    path.exists().then(|| Command::new("cat").arg(path).output().unwrap().stdout)
}

fn ago(seconds: impl Into<f64>) -> Timestamp {
    Timestamp::now() - SignedDuration::from_secs_f64(seconds.into())
}

/// Unix seconds with a fraction.
pub(crate) fn unix_ago(seconds: impl Into<f64>) -> f64 {
    ago(seconds).as_duration().as_secs_f64()
}

/// ISO-8601 in UTC with microseconds, as Python writes it.
pub(crate) fn iso_ago(seconds: impl Into<f64>) -> String {
    ago(seconds).strftime("%Y-%m-%dT%H:%M:%S%.6f+00:00").to_string()
}
