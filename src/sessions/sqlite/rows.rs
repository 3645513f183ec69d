//! The rows of a query as sessions. A row that cannot be understood could claim anything, and spoils the whole answer.

use std::sync::Arc;

use jiff::Timestamp;
use rusqlite::Statement;
use rusqlite::types::ValueRef;

use super::look::explain;
use crate::domain::Session;
use crate::domain::profile::Query;
use crate::engine::redact::without_secrets;
use crate::sessions::fault::StoreFault;
use crate::sessions::known::Known;
use crate::sessions::time::moment;

/// Texts that link or identify are refused beyond this length; titles are cut.
const LONGEST_KEY: usize = 4096;
const LONGEST_TITLE: usize = 200;

/// What a query may say to learn the time, or to leave something to chance.
const FLEETING: [&str; 7] = ["now", "current_", "date(", "time(", "julianday", "unixepoch", "random"];

/// Binds `:now`, in Unix seconds, where a query asks for it. Says whether the same database may say something else a moment
/// later: such an answer does not keep.
pub(super) fn bind_now(statement: &mut Statement<'_>, query: &Query) -> rusqlite::Result<bool> {
    if let Some(index) = statement.parameter_index(":now")? {
        statement.raw_bind_parameter(index, Timestamp::now().as_second())?;
    }
    let sql = query.sql.to_ascii_lowercase();
    Ok(FLEETING.iter().any(|word| sql.contains(word)))
}

/// The fixed names of a query's result columns.
pub(super) const COLUMNS: [&str; 8] =
    ["id", "workspace", "container", "title", "started_at", "last_activity_at", "ended_at", "live"];

pub(super) fn read_rows(
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
