//! Containers that were made again, each with the time at which the first of its line was made: what comes back is as old as
//! it was, and its configuration is not the newest because of it.

use std::collections::HashMap;

use jiff::Timestamp;
use rusqlite::{Connection, params};

use super::specs::moment;
use super::{State, StateFault};
use crate::domain::ContainerId;

pub(super) const TABLES: &str = "
CREATE TABLE comebacks (
    host TEXT NOT NULL, container TEXT NOT NULL, first_made_at INTEGER NOT NULL, PRIMARY KEY (host, container));
";

impl State {
    /// Takes note that a container was made in place of one that was made at this time.
    pub fn note_comeback(
        &self,
        host: &str,
        id: &ContainerId,
        first_made_at: Timestamp,
    ) -> Result<(), StateFault> {
        let written = self.connection.execute(
            "INSERT OR REPLACE INTO comebacks (host, container, first_made_at) VALUES (?1, ?2, ?3)",
            params![host, id.as_str(), first_made_at.as_microsecond()],
        );
        written.map(|_| ()).map_err(|error| self.fault(&error))
    }
}

pub(super) fn read(connection: &Connection, host: &str) -> rusqlite::Result<HashMap<ContainerId, Timestamp>> {
    if !connection.prepare("SELECT 1 FROM sqlite_schema WHERE name = 'comebacks'")?.exists([])? {
        return Ok(HashMap::new());
    }
    let mut statement =
        connection.prepare("SELECT container, first_made_at FROM comebacks WHERE host = ?1")?;
    let rows = statement.query_map([host], |row| Ok((row.get::<_, String>(0)?, row.get::<_, i64>(1)?)))?;
    let mut comebacks = HashMap::new();
    for row in rows {
        let (id, at) = row?;
        if let (Some(id), Some(at)) = (ContainerId::parse(&id), moment(at)) {
            comebacks.insert(id, at);
        }
    }
    Ok(comebacks)
}
