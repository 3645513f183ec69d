//! The applications' side of the scene: session databases as each system keeps them.

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::Timestamp;
use rusqlite::{Connection, Params, params};

use super::DemoFault;
use super::script::{SessionState, StoreKind};

/// A session to be written.
#[derive(Clone, Debug)]
pub(super) struct SessionRow {
    pub(super) id: String,
    pub(super) workspace: String,
    /// The container it names, if it names one.
    pub(super) container: Option<String>,
    pub(super) title: String,
    pub(super) state: SessionState,
    pub(super) started: Timestamp,
    pub(super) active: Timestamp,
}

/// A session database, open as by the application that owns it.
#[derive(Debug)]
pub(super) struct Store {
    kind: StoreKind,
    path: PathBuf,
    connection: Connection,
}

/// How long a turn of Hermes may take before its lease runs out.
const LEASE: Duration = Duration::from_mins(5);

impl Store {
    pub(super) fn create(kind: StoreKind, path: PathBuf) -> Result<Self, DemoFault> {
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).map_err(|error| DemoFault::folder(folder, &error))?;
        }
        let made = || -> rusqlite::Result<Connection> {
            let connection = Connection::open(&path)?;
            connection.pragma_update(None, "journal_mode", "WAL")?;
            // A demo may forget everything at a power failure.
            connection.pragma_update(None, "synchronous", "OFF")?;
            connection.busy_timeout(Duration::from_mins(1))?;
            connection.execute_batch(schema(kind))?;
            Ok(connection)
        };
        let connection = made().map_err(|error| DemoFault::store(&path, &error))?;
        Ok(Self { kind, path, connection })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Writes many sessions at once.
    pub(super) fn put_all(&mut self, rows: &[SessionRow]) -> Result<(), DemoFault> {
        let kind = self.kind;
        let written = (|| {
            let transaction = self.connection.transaction()?;
            for row in rows {
                put(kind, &transaction, row)?;
            }
            transaction.commit()
        })();
        written.map_err(|error| DemoFault::store(&self.path, &error))
    }

    pub(super) fn put(&self, row: &SessionRow) -> Result<(), DemoFault> {
        put(self.kind, &self.connection, row).map_err(|error| DemoFault::store(&self.path, &error))
    }

    /// A live session did something.
    pub(super) fn touch(&self, id: &str, now: Timestamp) -> Result<(), DemoFault> {
        match self.kind {
            StoreKind::Native => self.change(
                "UPDATE sessions SET last_activity_at = ?2, status = 'active' WHERE id = ?1",
                params![id, unix(now)],
            ),
            StoreKind::Parachute => self
                .change("UPDATE sessions SET last_accessed = ?2 WHERE id = ?1", params![id, now.to_string()]),
            StoreKind::Hermes => {
                self.change(
                    "UPDATE sessions SET last_activity_at = ?2 WHERE id = ?1",
                    params![id, unix(now)],
                )?;
                self.change(
                    "UPDATE session_turn_leases SET expires_at = ?2 WHERE conversation_id = ?1",
                    params![id, unix(now) + LEASE.as_secs_f64()],
                )
            }
        }
    }

    pub(super) fn end(&self, id: &str, now: Timestamp) -> Result<(), DemoFault> {
        match self.kind {
            StoreKind::Native => self.change(
                "UPDATE sessions SET status = 'ended', ended_at = ?2, last_activity_at = ?2 WHERE id = ?1",
                params![id, unix(now)],
            ),
            StoreKind::Parachute => self.change(
                "UPDATE sessions SET archived = 1, last_accessed = ?2 WHERE id = ?1",
                params![id, now.to_string()],
            ),
            StoreKind::Hermes => {
                self.change("DELETE FROM session_turn_leases WHERE conversation_id = ?1", params![id])?;
                self.change(
                    "UPDATE sessions SET ended_at = ?2, end_reason = 'user_exit', last_activity_at = ?2 WHERE id = ?1",
                    params![id, unix(now)],
                )
            }
        }
    }

    /// Its row disappears, as when a gateway crashes between two writes.
    pub(super) fn forget(&self, id: &str) -> Result<(), DemoFault> {
        self.change("DELETE FROM sessions WHERE id = ?1", params![id])
    }

    /// The table is away, as during an update of the application.
    pub(super) fn hide(&self) -> Result<(), DemoFault> {
        self.change("ALTER TABLE sessions RENAME TO sessions_migrating", params![])
    }

    /// The table is back.
    pub(super) fn show(&self) -> Result<(), DemoFault> {
        self.change("ALTER TABLE sessions_migrating RENAME TO sessions", params![])
    }

    fn change(&self, sql: &str, values: impl Params) -> Result<(), DemoFault> {
        let changed = self.connection.execute(sql, values);
        changed.map(|_| ()).map_err(|error| DemoFault::store(&self.path, &error))
    }
}

fn schema(kind: StoreKind) -> &'static str {
    match kind {
        StoreKind::Native => {
            "CREATE TABLE sessions (id TEXT PRIMARY KEY, workspace TEXT NOT NULL, container TEXT, title TEXT,
                 status TEXT NOT NULL, started_at REAL NOT NULL, last_activity_at REAL, ended_at REAL);"
        }
        StoreKind::Parachute => {
            "CREATE TABLE sessions (id TEXT PRIMARY KEY, title TEXT, created_at TEXT, last_accessed TEXT,
                 archived INTEGER NOT NULL DEFAULT 0, workspace_id TEXT, trust_level TEXT);"
        }
        StoreKind::Hermes => {
            "CREATE TABLE sessions (id TEXT PRIMARY KEY, source TEXT, session_key TEXT, parent_session_id TEXT,
                 started_at REAL, ended_at REAL, end_reason TEXT, message_count INTEGER, title TEXT,
                 last_activity_at REAL, profile_name TEXT, archived INTEGER DEFAULT 0);
             CREATE TABLE messages (id INTEGER PRIMARY KEY, session_id TEXT, role TEXT, timestamp REAL);
             CREATE INDEX messages_by_session ON messages (session_id, timestamp);
             CREATE TABLE session_turn_leases (conversation_id TEXT PRIMARY KEY, holder TEXT, acquired_at REAL,
                 expires_at REAL);"
        }
    }
}

fn put(kind: StoreKind, connection: &Connection, row: &SessionRow) -> rusqlite::Result<()> {
    let SessionRow { id, workspace, container, title, state, started, active } = row;
    let ended = (*state == SessionState::Ended).then_some(*active);
    match kind {
        StoreKind::Native => {
            let status = match state {
                SessionState::Live => "active",
                SessionState::Idle => "idle",
                SessionState::Ended => "ended",
            };
            connection
                .prepare_cached("INSERT INTO sessions VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)")?
                .execute(params![
                    id,
                    workspace,
                    container,
                    title,
                    status,
                    unix(*started),
                    unix(*active),
                    ended.map(unix)
                ])?;
        }
        StoreKind::Parachute => {
            // Its own default workspace is written as none at all.
            let workspace = (workspace != "default").then_some(workspace);
            connection
                .prepare_cached("INSERT INTO sessions VALUES (?1, ?2, ?3, ?4, ?5, ?6, 'sandboxed')")?
                .execute(params![
                id,
                title,
                started.to_string(),
                active.to_string(),
                ended.is_some(),
                workspace
            ])?;
        }
        StoreKind::Hermes => {
            connection.execute(
                "INSERT INTO sessions (id, source, started_at, ended_at, end_reason, title, last_activity_at, profile_name)
                 VALUES (?1, 'cli', ?2, ?3, ?4, ?5, ?6, ?7)",
                params![
                    id,
                    unix(*started),
                    ended.map(unix),
                    ended.map(|_| "user_exit"),
                    title,
                    unix(*active),
                    workspace
                ],
            )?;
            connection.execute(
                "INSERT INTO messages (session_id, role, timestamp) VALUES (?1, 'user', ?2)",
                params![id, unix(*started)],
            )?;
            if *state == SessionState::Live {
                connection.execute(
                    "INSERT INTO session_turn_leases VALUES (?1, 'gateway', ?2, ?3)",
                    params![id, unix(*active), unix(*active) + LEASE.as_secs_f64()],
                )?;
            }
        }
    }
    Ok(())
}

fn unix(at: Timestamp) -> f64 {
    at.as_duration().as_secs_f64()
}
