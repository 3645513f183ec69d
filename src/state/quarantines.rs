//! Which containers were put aside, under which name, until when. The name they bear tells nobody anything: only a line here,
//! keyed by the full id, makes a container one in quarantine.

use std::collections::HashMap;

use rusqlite::{Connection, params};

use super::specs::moment;
use super::{State, StateFault};
use crate::domain::ContainerId;
use crate::domain::recovery::Quarantine;

impl State {
    /// Writes down that a container is being put aside.
    pub fn set_quarantine(&self, host: &str, id: &ContainerId, aside: &Quarantine) -> Result<(), StateFault> {
        let written = self.connection.execute(
            "INSERT OR REPLACE INTO quarantines (host, container, name, named, since, by, until, was_running) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
            params![
                host,
                id.as_str(),
                aside.name,
                aside.named,
                aside.since.as_microsecond(),
                aside.by,
                aside.until.as_microsecond(),
                aside.was_running,
            ],
        );
        written.map(|_| ()).map_err(|error| self.fault(&error))
    }

    /// A container is not put aside any more.
    pub fn end_quarantine(&self, host: &str, id: &ContainerId) -> Result<bool, StateFault> {
        let ended = self
            .connection
            .execute("DELETE FROM quarantines WHERE host = ?1 AND container = ?2", [host, id.as_str()]);
        ended.map(|count| count > 0).map_err(|error| self.fault(&error))
    }
}

pub(super) fn read(
    connection: &Connection,
    host: &str,
) -> rusqlite::Result<HashMap<ContainerId, Quarantine>> {
    let mut statement = connection.prepare(
        "SELECT container, name, named, since, by, until, was_running FROM quarantines WHERE host = ?1",
    )?;
    let mut rows = statement.query([host])?;
    let mut quarantined = HashMap::new();
    while let Some(row) = rows.next()? {
        let id = ContainerId::parse(&row.get::<_, String>(0)?);
        let (since, until) = (moment(row.get(3)?), moment(row.get(5)?));
        if let (Some(id), Some(since), Some(until)) = (id, since, until) {
            let aside = Quarantine {
                name: row.get(1)?,
                named: row.get(2)?,
                since,
                by: row.get(4)?,
                until,
                was_running: row.get(6)?,
            };
            quarantined.insert(id, aside);
        }
    }
    Ok(quarantined)
}
