//! From JSON rows to sessions, by the mapping of a profile. One row that cannot be understood is a fault: it could claim
//! anything.

use rusqlite::types::ValueRef;
use serde_json::Value;

use super::fault::StoreFault;
use super::time::moment;
use crate::domain::Session;
use crate::domain::profile::TimeFormat;
use crate::domain::profile::record::{Found, Mapping, Value as Column};
use crate::domain::session::Moment;
use crate::engine::redact::without_secrets;

/// Texts that link or identify are refused beyond this length; titles are cut.
const LONGEST_KEY: usize = 4096;
const LONGEST_TITLE: usize = 200;

/// The sessions that rows tell of.
pub(super) fn sessions(
    rows: &[Value],
    mapping: &Mapping,
    times: TimeFormat,
) -> Result<Vec<Session>, StoreFault> {
    rows.iter()
        .enumerate()
        .map(|(index, row)| Row { row, number: index + 1 }.session(mapping, times))
        .collect()
}

/// The ids that rows tell of.
pub(super) fn live_ids(rows: &[Value], id: &Column) -> Result<Vec<String>, StoreFault> {
    rows.iter().enumerate().map(|(index, row)| Row { row, number: index + 1 }.id(Some(id))).collect()
}

/// One row and its place, for messages.
struct Row<'a> {
    row: &'a Value,
    number: usize,
}

impl Row<'_> {
    fn session(&self, mapping: &Mapping, times: TimeFormat) -> Result<Session, StoreFault> {
        let title = self.text(mapping.title.as_ref())?;
        let title = title.map(|title| {
            without_secrets(&title.chars().take(LONGEST_TITLE).collect::<String>()).into_owned()
        });
        Ok(Session {
            vanished: false,
            id: self.id(mapping.id.as_ref())?,
            workspace: self.key("workspace", mapping.workspace.as_ref())?,
            container: self.key("container", mapping.container.as_ref())?,
            title: title.filter(|title| !title.trim().is_empty()),
            started_at: self.moment(mapping.started_at.as_ref(), times)?,
            last_activity_at: self.moment(mapping.last_activity_at.as_ref(), times)?,
            ended_at: self.moment(mapping.ended_at.as_ref(), times)?,
            declared_live: match self.text(mapping.live.as_ref())?.as_deref() {
                None => None,
                Some("true" | "1") => Some(true),
                Some("false" | "0") => Some(false),
                Some(other) => return Err(self.bad(&format!("whether it is live is `{other}`"))),
            },
        })
    }

    fn id(&self, column: Option<&Column>) -> Result<String, StoreFault> {
        self.key("id", column)?.ok_or_else(|| self.bad("it has no id"))
    }

    fn key(&self, name: &str, column: Option<&Column>) -> Result<Option<String>, StoreFault> {
        match self.text(column)? {
            Some(text) if text.len() > LONGEST_KEY => {
                Err(self.bad(&format!("{name} is {} bytes long", text.len())))
            }
            text => Ok(text),
        }
    }

    fn moment(&self, column: Option<&Column>, times: TimeFormat) -> Result<Moment, StoreFault> {
        let Some(text) = self.text(column)? else { return Ok(Moment::Absent) };
        // Numbers are told from texts by the format the profile declares.
        let number = match times {
            TimeFormat::Seconds | TimeFormat::Milliseconds => text.parse::<f64>().ok(),
            TimeFormat::Iso8601 => None,
        };
        Ok(moment(number.map_or(ValueRef::Text(text.as_bytes()), ValueRef::Real), times))
    }

    fn text(&self, column: Option<&Column>) -> Result<Option<String>, StoreFault> {
        let Some(column) = column else { return Ok(None) };
        column.fill(|field| self.field(field)).map_err(|lacking| {
            StoreFault::SchemaUnknown(format!("row {} has no field {lacking}", self.number))
        })
    }

    fn field(&self, name: &str) -> Found {
        let value = if name == "." { Some(self.row) } else { self.row.get(name) };
        match value {
            Some(Value::Null) => Found::Nothing,
            Some(Value::String(text)) => Found::Text(text.clone()),
            Some(plain @ (Value::Bool(_) | Value::Number(_))) => Found::Text(plain.to_string()),
            // A list or an object where a value should be is not what the profile speaks of.
            None | Some(Value::Array(_) | Value::Object(_)) => Found::Missing,
        }
    }

    fn bad(&self, why: &str) -> StoreFault {
        StoreFault::BadRow(format!("row {}: {why}", self.number))
    }
}
