//! Which of a profile's queries fits the tables of a database.

use std::collections::{BTreeMap, BTreeSet};

use rusqlite::Connection;

use super::look::explain;
use crate::domain::profile::Query;
use crate::sessions::fault::StoreFault;

/// Tables and views, each with its columns.
pub(super) struct Schema(BTreeMap<String, BTreeSet<String>>);

impl Schema {
    pub(super) fn read(connection: &Connection) -> Result<Self, StoreFault> {
        Self::tables(connection).map(Self).map_err(|error| explain(&error))
    }

    fn tables(connection: &Connection) -> rusqlite::Result<BTreeMap<String, BTreeSet<String>>> {
        let mut statement = connection.prepare(
            "SELECT m.name, c.name FROM sqlite_schema AS m, pragma_table_xinfo(m.name) AS c \
             WHERE m.type IN ('table', 'view')",
        )?;
        let mut tables: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            tables.entry(row.get(0)?).or_default().insert(row.get(1)?);
        }
        Ok(tables)
    }

    /// The first variant whose tables and columns exist. When none fits, the error names what the first one misses.
    pub(super) fn first_fit<'q>(&self, queries: &'q [Query]) -> Result<&'q Query, StoreFault> {
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
