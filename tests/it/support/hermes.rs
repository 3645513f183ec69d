//! A Hermes home: its database as Hermes makes it, its configuration, and the containers it runs.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, params};

use super::engine::{ContainerBuilder, Scene};
use super::stores::unix_ago;

/// One Hermes home. Its database is open, as by a gateway, until dropped.
pub(crate) struct HermesHome {
    folder: PathBuf,
    connection: Connection,
}

impl HermesHome {
    /// A home with the newest tables.
    pub(crate) fn create(folder: impl Into<PathBuf>) -> Self {
        let folder = folder.into();
        fs::create_dir_all(&folder).unwrap();
        let connection = Connection::open(folder.join("state.db")).unwrap();
        connection.pragma_update(None, "journal_mode", "WAL").unwrap();
        connection.busy_timeout(Duration::from_secs(10)).unwrap();
        connection
            .execute_batch(
                "CREATE TABLE schema_version(version INTEGER NOT NULL);
                 INSERT INTO schema_version VALUES (30);
                 CREATE TABLE sessions(id TEXT PRIMARY KEY, source TEXT NOT NULL, user_id TEXT, session_key TEXT, \
                 model TEXT, parent_session_id TEXT, started_at REAL NOT NULL, ended_at REAL, end_reason TEXT, \
                 message_count INTEGER DEFAULT 0, cwd TEXT, git_repo_root TEXT, git_branch TEXT, title TEXT, \
                 display_name TEXT, last_activity_at REAL, profile_name TEXT, archived INTEGER NOT NULL DEFAULT 0, \
                 pinned INTEGER NOT NULL DEFAULT 0, hidden INTEGER NOT NULL DEFAULT 0);
                 CREATE TABLE messages(id INTEGER PRIMARY KEY AUTOINCREMENT, session_id TEXT NOT NULL, \
                 role TEXT NOT NULL, content TEXT, timestamp REAL NOT NULL);
                 CREATE INDEX idx_messages_session ON messages(session_id, timestamp);
                 CREATE TABLE session_turn_leases(conversation_id TEXT PRIMARY KEY, holder TEXT NOT NULL, \
                 acquired_at REAL NOT NULL, expires_at REAL NOT NULL);
                 CREATE TABLE gateway_heartbeats(backend_id TEXT PRIMARY KEY, pid INTEGER NOT NULL, \
                 started_at REAL NOT NULL, last_heartbeat REAL NOT NULL, profile TEXT NOT NULL DEFAULT '', \
                 host TEXT NOT NULL DEFAULT '')",
            )
            .unwrap();
        Self { folder, connection }
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    pub(crate) fn database(&self) -> PathBuf {
        self.folder.join("state.db")
    }

    /// `terminal.lifetime_seconds` in its configuration.
    pub(crate) fn lifetime(&self, seconds: u64) {
        let text =
            format!("model: some/model\nterminal:\n  backend: docker\n  lifetime_seconds: {seconds}\n");
        fs::write(self.folder.join("config.yaml"), text).unwrap();
    }

    /// A session that began, and was last active, so many seconds ago.
    pub(crate) fn session(&self, id: &str, active_ago: impl Into<f64>) {
        let at = unix_ago(active_ago);
        self.execute(&format!(
            "INSERT INTO sessions(id, source, started_at, last_activity_at) VALUES ('{id}', 'cli', {at}, {at})"
        ));
    }

    /// A session that goes on in place of another one.
    pub(crate) fn child(&self, id: &str, parent: &str, active_ago: impl Into<f64>) {
        self.session(id, active_ago);
        self.execute(&format!("UPDATE sessions SET parent_session_id = '{parent}' WHERE id = '{id}'"));
    }

    pub(crate) fn end(&self, id: &str, reason: &str, ago: impl Into<f64>) {
        let at = unix_ago(ago);
        self.execute(&format!(
            "UPDATE sessions SET ended_at = {at}, end_reason = '{reason}' WHERE id = '{id}'"
        ));
    }

    pub(crate) fn message(&self, session: &str, ago: impl Into<f64>) {
        let sql = "INSERT INTO messages(session_id, role, timestamp) VALUES (?1, 'user', ?2)";
        self.connection.execute(sql, params![session, unix_ago(ago)]).unwrap();
    }

    /// A turn of this conversation that may run for so many more seconds; negative means that it has run out.
    pub(crate) fn lease(&self, conversation: &str, left: f64) {
        let sql = "INSERT OR REPLACE INTO session_turn_leases VALUES (?1, 'pid=1', ?2, ?3)";
        self.connection.execute(sql, params![conversation, unix_ago(0), unix_ago(-left)]).unwrap();
    }

    /// Any SQL, for drift and faults.
    pub(crate) fn execute(&self, sql: &str) {
        self.connection.execute_batch(sql).unwrap();
    }

    /// What Hermes calls this home on its containers.
    pub(crate) fn profile(&self) -> &str {
        let name = |path: &Path| path.file_name().and_then(|name| name.to_str()).map(ToOwned::to_owned);
        match self.folder.parent().and_then(name).as_deref() {
            Some("profiles") => self.folder.file_name().and_then(|name| name.to_str()).unwrap(),
            _ => "default",
        }
    }

    /// The lasting container of this home, as Hermes runs it.
    pub(crate) fn lasting<'scene>(&self, scene: &'scene Scene<'_>, name: &str) -> ContainerBuilder<'scene> {
        let sandbox = self.folder.join("sandboxes/docker/default");
        let folder = |part: &str| {
            let folder = sandbox.join(part);
            fs::create_dir_all(&folder).unwrap();
            folder.display().to_string()
        };
        let profile = self.profile();
        let task = if profile == "default" { profile.to_owned() } else { format!("profile_{profile}") };
        hermes(scene, name, &task)
            .label("hermes-profile", profile)
            .mount(&folder("home"), "/root")
            .mount(&folder("workspace"), "/workspace")
    }

    /// A container that lasts as long as its session.
    pub(crate) fn passing<'scene>(
        scene: &'scene Scene<'_>,
        name: &str,
        task: &str,
    ) -> ContainerBuilder<'scene> {
        let passing = hermes(scene, name, task).label("hermes-profile", "default");
        passing.option("--tmpfs=/workspace").option("--tmpfs=/home").option("--tmpfs=/root")
    }
}

fn hermes<'scene>(scene: &'scene Scene<'_>, name: &str, task: &str) -> ContainerBuilder<'scene> {
    scene
        .container(name)
        .label("hermes-agent", "1")
        .label("hermes-task-id", task)
        .label("hermes-egress", "off")
        .command("sleep 1000")
}
