//! Reading someone else's SQLite: read-only, in short looks that leave nothing open, and never more trusting than it must be.

mod glance;
mod linked;
mod look;
mod query;
mod rows;
mod schema;
mod turn;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rusqlite::Connection;

use super::fault::StoreFault;
use super::known::Known;
use crate::database::Identity;
use crate::domain::Session;
use crate::domain::profile::Query;
use glance::Glance;
pub(crate) use look::keeps_log;
use look::{explain, look};
pub use query::{QueryFault, check_query};
use rows::{bind_now, read_rows};
use schema::Schema;

/// Bounds of one read.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// How long a read may take, waiting for locks included.
    pub time: Duration,
    /// How many sessions are read at most; more is a fault, never a cut.
    pub rows: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { time: Duration::from_secs(3), rows: 1_000_000 }
    }
}

/// What was read is read again after this long, whatever the files look like.
const READ_AGAIN: Duration = Duration::from_secs(30);

/// What a store said.
#[derive(Clone, Debug)]
pub struct Answer {
    /// All sessions.
    pub sessions: Arc<Vec<Arc<Session>>>,
    /// Which query variant fitted.
    pub variant: String,
}

/// A reader of one database file. It has nothing open between reads: that a database is unchanged is told from outside.
#[derive(Debug)]
pub struct SqliteReader {
    path: PathBuf,
    queries: Vec<Query>,
    limits: Limits,
    last: Option<Last>,
}

/// The last answer.
#[derive(Debug)]
struct Last {
    file: Identity,
    answer: Answer,
    /// Until when it may be given out again, if at all.
    keeps: Option<Keeps>,
}

/// How long an answer keeps: as long as the database looks like this, and not too long.
#[derive(Debug)]
struct Keeps {
    glance: Glance,
    read_at: Instant,
}

/// What one look found.
struct Found {
    sessions: Vec<Arc<Session>>,
    variant: String,
    /// Whether the same database may say something else a moment later.
    depends_on_time: bool,
}

impl SqliteReader {
    /// A reader for the file at `path`; nothing is opened yet.
    pub fn new(path: PathBuf, queries: Vec<Query>, limits: Limits) -> Self {
        Self { path, queries, limits, last: None }
    }

    /// Lets the next read go into the database, whatever it looks like from outside.
    pub fn distrust(&mut self) {
        if let Some(last) = &mut self.last {
            last.keeps = None;
        }
    }

    /// Device and inode of the file that was read last.
    pub(super) fn file(&self) -> Option<(u64, u64)> {
        self.last.as_ref().map(|last| last.file)
    }

    /// Reads all sessions. Any doubt is a fault; the next read starts afresh.
    pub fn read(&mut self) -> Result<Answer, StoreFault> {
        self.read_within(self.limits.time)
    }

    /// The same, in less time.
    pub(super) fn read_within(&mut self, time: Duration) -> Result<Answer, StoreFault> {
        if let Some(answer) = self.unchanged() {
            return Ok(answer);
        }
        self.distrust();
        let known = self.last.as_ref().map(|last| Arc::clone(&last.answer.sessions)).unwrap_or_default();
        let read_at = Instant::now();
        let seen = look(&self.path, time, |connection| {
            find(connection, &self.queries, self.limits.rows, Known::new(&known))
        })?;
        let Found { sessions, variant, depends_on_time } = seen.value;
        let same = known.len() == sessions.len()
            && known.iter().zip(&sessions).all(|(known, session)| Arc::ptr_eq(known, session));
        let sessions = if same { known } else { Arc::new(sessions) };
        let answer = Answer { sessions, variant };
        let file = seen.glance.identity();
        let keeps = !depends_on_time && seen.glance.is_settled();
        let keeps = keeps.then_some(Keeps { glance: seen.glance, read_at });
        self.last = Some(Last { file, answer: answer.clone(), keeps });
        Ok(answer)
    }

    /// The last answer, if the database cannot have changed since.
    fn unchanged(&self) -> Option<Answer> {
        let last = self.last.as_ref()?;
        let keeps = last.keeps.as_ref().filter(|keeps| keeps.read_at.elapsed() < READ_AGAIN)?;
        let looks_the_same = Glance::at(&self.path).is_ok_and(|now| now == keeps.glance);
        looks_the_same.then(|| last.answer.clone())
    }
}

fn find(
    connection: &Connection,
    queries: &[Query],
    rows: usize,
    known: Known<'_>,
) -> Result<Found, StoreFault> {
    let schema = Schema::read(connection)?;
    let query = schema.first_fit(queries)?;
    let mut statement = connection.prepare(&query.sql).map_err(|error| explain(&error))?;
    let depends_on_time = bind_now(&mut statement, query).map_err(|error| explain(&error))?;
    let sessions = read_rows(&mut statement, query, rows, known)?;
    Ok(Found { sessions, variant: query.name.clone(), depends_on_time })
}

/// Whether the database has the tables of one of the other systems, and not those of ours.
pub(super) fn fits_only_others(
    path: &Path,
    ours: &[Query],
    others: &[Query],
    time: Duration,
) -> Result<bool, StoreFault> {
    let seen = look(path, time, |connection| {
        let schema = Schema::read(connection)?;
        Ok(schema.first_fit(ours).is_err() && schema.first_fit(others).is_ok())
    })?;
    Ok(seen.value)
}
