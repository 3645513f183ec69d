//! A query checked without a host.

use rusqlite::Connection;

use super::rows::COLUMNS;
use crate::domain::profile::Query;

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
