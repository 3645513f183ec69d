//! Reading someone else's SQLite: read-only, in short transactions, and never more trusting than it must be.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::Metadata;
use std::io::Read;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, ErrorCode, OpenFlags, Statement};

use super::fault::StoreFault;
use super::known::Known;
use super::time::moment;
use crate::domain::Session;
use crate::domain::profile::Query;
use crate::engine::redact::without_secrets;

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

/// Texts that link or identify are refused beyond this length; titles are cut.
const LONGEST_KEY: usize = 4096;
const LONGEST_TITLE: usize = 200;

/// What a store said.
#[derive(Clone, Debug)]
pub struct Answer {
    /// All sessions.
    pub sessions: Arc<Vec<Arc<Session>>>,
    /// Which query variant fitted.
    pub variant: String,
}

/// A reader of one database file. It keeps its connection between reads, so that an unchanged database costs one
/// pragma; it gives the connection up as soon as the path leads to another file.
#[derive(Debug)]
pub struct SqliteReader {
    path: PathBuf,
    queries: Vec<Query>,
    limits: Limits,
    open: Option<Open>,
    /// The file that the next connection must lead to.
    expected: Option<Identity>,
}

#[derive(Debug)]
struct Open {
    connection: Connection,
    identity: Identity,
    /// The data version and the answer that was read at it.
    last: Option<(i64, Answer)>,
    /// What the last reading found, whether or not it keeps.
    known: Arc<Vec<Arc<Session>>>,
}

/// Which file a path leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Identity {
    device: u64,
    inode: u64,
}

impl SqliteReader {
    /// A reader for the file at `path`; nothing is opened yet.
    pub fn new(path: PathBuf, queries: Vec<Query>, limits: Limits) -> Self {
        Self { path, queries, limits, open: None, expected: None }
    }

    /// Gives the connection up, but not the memory of which file it led to.
    pub fn reconnect(&mut self) {
        self.expected = self.open.take().map(|open| open.identity).or(self.expected);
    }

    /// Device and inode of the file the connection leads to.
    pub(super) fn file(&self) -> Option<(u64, u64)> {
        self.open.as_ref().map(|open| (open.identity.device, open.identity.inode))
    }

    /// Reads all sessions. Any doubt is a fault; the next read starts afresh.
    pub fn read(&mut self) -> Result<Answer, StoreFault> {
        self.read_within(self.limits.time)
    }

    /// The same, in less time.
    pub(super) fn read_within(&mut self, time: Duration) -> Result<Answer, StoreFault> {
        let answer = self.try_read(time);
        if answer.is_err() {
            self.open = None;
        }
        answer
    }

    fn try_read(&mut self, time: Duration) -> Result<Answer, StoreFault> {
        let deadline = Instant::now() + time;
        let identity = identify(&self.path)?;
        let known = self.open.as_ref().map(|open| open.identity).or(self.expected.take());
        if known.is_some_and(|known| known != identity) {
            return Err(StoreFault::Replaced);
        }
        let mut open = match self.open.take() {
            Some(open) => open,
            None => Open { connection: connect(&self.path)?, identity, last: None, known: Arc::default() },
        };
        patience(&open.connection, time)?;
        open.connection
            .progress_handler(1000, Some(move || Instant::now() > deadline))
            .map_err(|error| explain(&error))?;
        let answer = query(&mut open, &self.queries, self.limits.rows)?;
        // The file may have been swapped between the look and the open.
        if identify(&self.path)? != identity {
            return Err(StoreFault::Replaced);
        }
        self.open = Some(open);
        Ok(answer)
    }
}

/// Which file is there; anything that is not a plain, non-empty file is refused before SQLite touches it, for
/// opening a pipe would wait for ever.
fn identify(path: &Path) -> Result<Identity, StoreFault> {
    let metadata = std::fs::metadata(path).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory => StoreFault::NotFound,
        std::io::ErrorKind::PermissionDenied => StoreFault::PermissionDenied,
        _ => StoreFault::Failed(error.to_string()),
    })?;
    if let Some(kind) = unusual_kind(&metadata) {
        return Err(StoreFault::NotAFile(kind));
    }
    if metadata.len() == 0 {
        return Err(StoreFault::Empty);
    }
    Ok(Identity { device: metadata.dev(), inode: metadata.ino() })
}

fn unusual_kind(metadata: &Metadata) -> Option<&'static str> {
    let kind = metadata.file_type();
    if kind.is_file() {
        None
    } else if kind.is_dir() {
        Some("folder")
    } else if kind.is_fifo() {
        Some("pipe")
    } else if kind.is_socket() {
        Some("socket")
    } else {
        Some("device")
    }
}

fn connect(path: &Path) -> Result<Connection, StoreFault> {
    if let Err(error) = std::fs::File::open(path) {
        return Err(match error.kind() {
            std::io::ErrorKind::PermissionDenied => StoreFault::PermissionDenied,
            _ => StoreFault::Failed(format!("it cannot be opened: {error}")),
        });
    }
    if would_leave_foreign_files(path) {
        return Err(StoreFault::WalUnreadable);
    }
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags).map_err(|error| explain(&error))?;
    connection.pragma_update(None, "query_only", true).map_err(|error| explain(&error))?;
    Ok(connection)
}

/// Half of the time for waiting, half for reading.
fn patience(connection: &Connection, time: Duration) -> Result<(), StoreFault> {
    // SQLite counts milliseconds in 32 bits.
    connection.busy_timeout((time / 2).min(Duration::from_hours(24))).map_err(|error| explain(&error))
}

/// Opening a WAL database that nobody has open makes its -wal and -shm files, even for reading. Made by its owner or by
/// root they belong to the owner; made by anyone else they could lock the application out of its own database.
fn would_leave_foreign_files(path: &Path) -> bool {
    let mut header = [0_u8; 20];
    let is_wal = std::fs::File::open(path).and_then(|mut file| file.read_exact(&mut header)).is_ok()
        && header[18] == 2;
    let beside = PathBuf::from(format!("{}-shm", path.display()));
    let us = std::fs::metadata("/proc/self").map(|process| process.uid());
    let owner = std::fs::metadata(path).map(|file| file.uid());
    let trusted = matches!((us, owner), (Ok(us), Ok(owner)) if us == 0 || us == owner);
    is_wal && !beside.exists() && !trusted
}

fn query(open: &mut Open, queries: &[Query], rows: usize) -> Result<Answer, StoreFault> {
    let transaction = open.connection.transaction().map_err(|error| explain(&error))?;
    // The first read of the transaction fixes what the whole of it sees.
    let version: i64 = transaction
        .query_row("PRAGMA data_version", [], |row| row.get(0))
        .map_err(|error| explain(&error))?;
    if let Some((known, answer)) = &open.last
        && *known == version
    {
        return Ok(answer.clone());
    }
    let schema = Schema::read(&transaction).map_err(|error| explain(&error))?;
    let query = schema.first_fit(queries)?;
    let mut statement = transaction.prepare(&query.sql).map_err(|error| explain(&error))?;
    let depends_on_time = bind_now(&mut statement).map_err(|error| explain(&error))?;
    let sessions = read_rows(&mut statement, query, rows, Known::new(&open.known))?;
    drop(statement);
    transaction.commit().map_err(|error| explain(&error))?;
    // Its pages are not needed again until it changes, and then they are others. What cannot be given back is kept.
    let _ = open.connection.release_memory();
    let answer = Answer { sessions: Arc::new(sessions), variant: query.name.clone() };
    open.known = Arc::clone(&answer.sessions);
    open.last = (!depends_on_time).then(|| (version, answer.clone()));
    Ok(answer)
}

/// Whether one of the query variants fits the database.
pub(super) fn fits(path: &Path, queries: &[Query], time: Duration) -> Result<bool, StoreFault> {
    identify(path)?;
    let connection = connect(path)?;
    patience(&connection, time)?;
    let schema = Schema::read(&connection).map_err(|error| explain(&error))?;
    Ok(schema.first_fit(queries).is_ok())
}

/// Binds `:now`, in Unix seconds, where a query asks for it. Says whether it did: such an answer does not keep.
fn bind_now(statement: &mut Statement<'_>) -> rusqlite::Result<bool> {
    let Some(index) = statement.parameter_index(":now")? else { return Ok(false) };
    statement.raw_bind_parameter(index, Timestamp::now().as_second())?;
    Ok(true)
}

/// Tables and views, each with its columns.
struct Schema(BTreeMap<String, BTreeSet<String>>);

impl Schema {
    fn read(connection: &Connection) -> rusqlite::Result<Self> {
        let mut statement = connection.prepare(
            "SELECT m.name, c.name FROM sqlite_schema AS m, pragma_table_xinfo(m.name) AS c \
             WHERE m.type IN ('table', 'view')",
        )?;
        let mut tables: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            tables.entry(row.get(0)?).or_default().insert(row.get(1)?);
        }
        Ok(Self(tables))
    }

    /// The first variant whose tables and columns exist. When none fits, the error names what the first one misses.
    fn first_fit<'q>(&self, queries: &'q [Query]) -> Result<&'q Query, StoreFault> {
        let mut explanation = Vec::new();
        for query in queries {
            let missing = self.missing(query);
            let unread = query.absent.iter().find(|table| self.0.contains_key(*table));
            let lacks = match unread {
                Some(table) => format!("does not read table {table}"),
                None if missing.is_empty() => return Ok(query),
                None => format!("misses {}", missing.join(", ")),
            };
            explanation.push(format!("`{}` {lacks}", query.name));
        }
        Err(StoreFault::SchemaUnknown(explanation.join("; ")))
    }

    fn missing(&self, query: &Query) -> Vec<String> {
        let mut missing = Vec::new();
        for (table, columns) in &query.requires {
            match self.0.get(table) {
                None => missing.push(format!("table {table}")),
                Some(known) => {
                    let absent = columns.iter().filter(|column| !known.contains(*column));
                    missing.extend(absent.map(|column| format!("column {table}.{column}")));
                }
            }
        }
        missing
    }
}

/// The fixed names of a query's result columns.
const COLUMNS: [&str; 8] =
    ["id", "workspace", "container", "title", "started_at", "last_activity_at", "ended_at", "live"];

fn read_rows(
    statement: &mut Statement<'_>,
    query: &Query,
    limit: usize,
    mut known: Known<'_>,
) -> Result<Vec<Arc<Session>>, StoreFault> {
    let position = COLUMNS.map(|column| statement.column_names().position(|name| name == column));
    let [id, workspace, container, title, started_at, last_activity_at, ended_at, live] = position;
    let mut sessions = Vec::new();
    let mut rows = statement.raw_query();
    while let Some(row) = rows.next().map_err(|error| explain(&error))? {
        if sessions.len() == limit {
            return Err(StoreFault::TooManyRows(limit));
        }
        let value = |column: Option<usize>| match column {
            Some(column) => row.get_ref(column).map_err(|error| explain(&error)),
            None => Ok(ValueRef::Null),
        };
        let id = key("id", value(id)?)?
            .ok_or_else(|| StoreFault::BadRow(format!("row {} has no id", sessions.len() + 1)))?;
        sessions.push(known.keep(Session {
            vanished: false,
            workspace: key("workspace", value(workspace)?)?,
            container: key("container", value(container)?)?,
            title: shown_text(value(title)?),
            started_at: moment(value(started_at)?, query.times),
            last_activity_at: moment(value(last_activity_at)?, query.times),
            ended_at: moment(value(ended_at)?, query.times),
            declared_live: match value(live)? {
                ValueRef::Integer(number) => Some(number != 0),
                ValueRef::Null => None,
                other => {
                    return Err(StoreFault::BadRow(format!("session {id}: live is a {}", other.data_type())));
                }
            },
            id,
        }));
    }
    sessions.shrink_to_fit();
    Ok(sessions)
}

/// A text that identifies or links. What is neither text nor a number could link to anything, so it is refused.
fn key(column: &str, value: ValueRef<'_>) -> Result<Option<String>, StoreFault> {
    let text = match value {
        ValueRef::Null => return Ok(None),
        ValueRef::Integer(number) => number.to_string(),
        ValueRef::Text(text) if text.len() <= LONGEST_KEY => std::str::from_utf8(text)
            .map_err(|_| StoreFault::BadRow(format!("{column} is not UTF-8")))?
            .to_owned(),
        ValueRef::Text(text) => {
            return Err(StoreFault::BadRow(format!("{column} is {} bytes long", text.len())));
        }
        other => return Err(StoreFault::BadRow(format!("{column} is a {}", other.data_type()))),
    };
    Ok((!text.is_empty()).then_some(text))
}

fn shown_text(value: ValueRef<'_>) -> Option<String> {
    let ValueRef::Text(text) = value else { return None };
    let text: String = String::from_utf8_lossy(text).chars().take(LONGEST_TITLE).collect();
    let text = without_secrets(&text).into_owned();
    (!text.trim().is_empty()).then_some(text)
}

fn explain(error: &rusqlite::Error) -> StoreFault {
    let message = error.to_string();
    let Some(code) = error.sqlite_error() else { return StoreFault::Failed(message) };
    match (code.code, code.extended_code) {
        (_, rusqlite::ffi::SQLITE_READONLY_ROLLBACK) => StoreFault::HotJournal,
        (ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked, _) => StoreFault::Locked,
        (ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt, _) => StoreFault::NotADatabase(message),
        (ErrorCode::OperationInterrupted, _) => StoreFault::TimedOut,
        (ErrorCode::PermissionDenied, _) => StoreFault::PermissionDenied,
        (ErrorCode::CannotOpen | ErrorCode::ReadOnly, _) => StoreFault::WalUnreadable,
        _ => StoreFault::Failed(message),
    }
}

/// What is wrong with a query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueryFault {
    /// What is wrong.
    pub what: String,
    /// What to try.
    pub fix: &'static str,
    /// Where in the SQL, in bytes, if it can be told.
    pub offset: usize,
}

impl QueryFault {
    fn new(what: impl Into<String>, fix: &'static str) -> Self {
        Self { what: what.into(), fix, offset: 0 }
    }

    fn unprepared(error: &rusqlite::Error) -> Self {
        let (message, offset) = match error {
            rusqlite::Error::SqlInputError { msg, offset, .. } => (msg.clone(), *offset),
            rusqlite::Error::MultipleStatement => ("it is more than one statement".to_owned(), 0),
            other => (other.to_string(), 0),
        };
        let fix = "write one SELECT that uses only what `requires` lists";
        let offset = usize::try_from(offset).unwrap_or_default();
        Self { what: format!("does not prepare: {message}"), fix, offset }
    }
}

/// Checks a query without a host: it must prepare against tables that have just what it requires, change nothing,
/// ask for nothing it will not be given, and name its result columns as a session's. With `must_tell_life` nothing but
/// its `live` column could say which sessions are live.
pub fn check_query(query: &Query, must_tell_life: bool) -> Result<(), QueryFault> {
    let quote = |name: &str| format!("\"{}\"", name.replace('"', "\"\""));
    let connection = Connection::open_in_memory().map_err(|error| QueryFault::unprepared(&error))?;
    for (table, columns) in &query.requires {
        let columns: Vec<String> = columns.iter().map(|column| quote(column)).collect();
        let create = format!("CREATE TABLE {} ({})", quote(table), columns.join(", "));
        connection.execute(&create, []).map_err(|error| {
            QueryFault::new(
                format!("`requires` is not usable: {error}"),
                "list each table with the columns the query uses",
            )
        })?;
    }
    let statement = connection.prepare(&query.sql).map_err(|error| QueryFault::unprepared(&error))?;
    if !statement.readonly() {
        return Err(QueryFault::new("would change the database", "write a SELECT"));
    }
    // A parameter that nobody binds is NULL, and a comparison with NULL finds no session at all.
    let parameters = (1..=statement.parameter_count()).map(|index| statement.parameter_name(index));
    if let Some(unknown) = parameters.into_iter().find(|name| *name != Some(":now")) {
        let what = format!("asks for the parameter `{}`, which is not given", unknown.unwrap_or("?"));
        return Err(QueryFault::new(what, "use `:now`, the time in Unix seconds, or no parameter"));
    }
    let columns: Vec<&str> = statement.column_names().collect();
    if !columns.contains(&"id") {
        return Err(QueryFault::new("yields no column `id`", "name the session's own id `AS id`"));
    }
    if let Some(unknown) = columns.iter().find(|name| !COLUMNS.contains(name)) {
        let what = format!("yields a column `{unknown}`, which a session does not have");
        let fix =
            "name the columns id, workspace, container, title, started_at, last_activity_at, ended_at, live";
        return Err(QueryFault::new(what, fix));
    }
    if must_tell_life && !columns.contains(&"live") {
        let fix = "add a column `live`, or `live_within` to `[sessions]`";
        return Err(QueryFault::new("does not say which sessions are live", fix));
    }
    Ok(())
}
