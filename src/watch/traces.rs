//! What a list of the engine shows of each system. A list stays the same for many looks at the sessions, and is looked through
//! once.

use std::collections::HashMap;
use std::sync::Arc;

use crate::domain::container::Row;
use crate::domain::profile::Match;
use crate::domain::snapshot::Neighbours;
use crate::domain::{Profile, SystemName};

#[derive(Debug, Default)]
pub(super) struct Traces {
    rows: Arc<Vec<Row>>,
    neighbours: Option<Arc<Neighbours>>,
    systems: HashMap<SystemName, bool>,
    rules: HashMap<(SystemName, usize), bool>,
}

impl Traces {
    /// The traces in this list.
    pub(super) fn within(&mut self, rows: &Arc<Vec<Row>>) -> &mut Self {
        if !Arc::ptr_eq(&self.rows, rows) {
            *self = Self { rows: Arc::clone(rows), ..Self::default() };
        }
        self
    }

    /// Which containers there are, and whether they run.
    pub(super) fn neighbours(&mut self) -> Arc<Neighbours> {
        Arc::clone(self.neighbours.get_or_insert_with(|| Arc::new(Neighbours::of(&self.rows))))
    }

    /// Whether a container of this system is, or may be, on the engine.
    pub(super) fn show(&mut self, profile: &Profile) -> bool {
        *self.systems.entry(profile.name.clone()).or_insert_with(|| {
            self.rows.iter().any(|row| match row {
                Row::Container(container) => !matches!(profile.recognise(container), Match::Foreign),
                Row::Unreadable(row) => {
                    row.labels.as_ref().is_some_and(|labels| profile.matches_labels(labels))
                }
            })
        })
    }

    /// Whether a container of this system is on the engine whose sessions would be where this rule of its profile says.
    pub(super) fn show_name_for(&mut self, profile: &Profile, rule: usize) -> bool {
        *self.rules.entry((profile.name.clone(), rule)).or_insert_with(|| {
            let Some(rule) = profile.stores.get(rule) else { return false };
            self.rows.iter().any(|row| match row {
                Row::Container(container) => {
                    rule.serves(&container.name) && !matches!(profile.recognise(container), Match::Foreign)
                }
                Row::Unreadable(_) => false,
            })
        })
    }
}
