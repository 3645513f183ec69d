//! What was here before: containers that this watch has seen and sees no more, and what our own state remembers of others.
//! It is read anew with every look, for another program may have removed or brought back something meanwhile.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use crate::domain::container::{Container, ContainerId, Row};
use crate::domain::profile::Match;
use crate::domain::recovery::{Departure, Remembered, Tries};
use crate::domain::{Recalled, Snapshot};
use crate::state::State;

/// How long a container that nobody recorded is remembered.
const KEPT_FOR: SignedDuration = SignedDuration::from_hours(24);

#[derive(Debug, Default)]
pub(super) struct Recall {
    /// Every container of the last good list that some profile recognises.
    present: HashMap<ContainerId, Arc<Container>>,
    /// When that list was made.
    at: Option<Timestamp>,
    rows: Option<Arc<Vec<Row>>>,
    /// What has gone since this watch began.
    gone: HashMap<ContainerId, Remembered>,
}

impl Recall {
    /// Everything that is remembered beside what this snapshot shows.
    pub(super) fn look(
        &mut self,
        snapshot: &Snapshot,
        departures: &HashMap<ContainerId, Departure>,
        folder: &Path,
    ) -> Recalled {
        if snapshot.engine.fault.is_none() && snapshot.engine.at.is_some() {
            self.compare(snapshot);
        }
        let present: HashSet<&ContainerId> = snapshot.engine.value.iter().filter_map(id_of).collect();
        let state = State::open_to_read(folder).ok().flatten();
        let recorded = state.and_then(|state| state.recalled(&snapshot.host.identity, &present).ok());
        let mut recalled = recorded.unwrap_or_default();
        let mut known = HashSet::new();
        for remembered in &mut recalled.gone {
            let id = remembered.container.id.clone();
            let seen_at = self.gone.get(&id).map_or(remembered.seen_at, |gone| gone.seen_at);
            let departure = departures.get(&id).cloned().or_else(|| remembered.departure.clone());
            let seen_at = seen_at.max(remembered.seen_at);
            *remembered = Arc::new(Remembered { seen_at, departure, ..(**remembered).clone() });
            known.insert(id);
        }
        let unrecorded = self.gone.values().filter(|gone| !known.contains(&gone.container.id)).map(|gone| {
            let departure = departures.get(&gone.container.id).cloned();
            Arc::new(Remembered { departure, ..gone.clone() })
        });
        recalled.gone.extend(unrecorded);
        recalled.gone.sort_by(|a, b| a.container.id.cmp(&b.container.id));
        recalled.departures = departures
            .iter()
            .filter(|(id, _)| present.contains(id))
            .map(|(id, departure)| (id.clone(), departure.clone()))
            .collect();
        recalled
    }

    /// Finds what has gone since the list before.
    fn compare(&mut self, snapshot: &Snapshot) {
        let rows = &snapshot.engine.value;
        let seen_at = self.at.or(snapshot.engine.at).unwrap_or_default();
        self.at = snapshot.engine.at;
        if self.rows.as_ref().is_some_and(|known| Arc::ptr_eq(known, rows)) {
            return;
        }
        self.rows = Some(Arc::clone(rows));
        let containers = rows.iter().filter_map(|row| match row {
            Row::Container(container) => Some(container),
            Row::Unreadable(_) => None,
        });
        let present: HashMap<ContainerId, Arc<Container>> =
            containers.map(|container| (container.id.clone(), Arc::clone(container))).collect();
        let listed: HashSet<&ContainerId> = rows.iter().filter_map(id_of).collect();
        for (id, container) in std::mem::replace(&mut self.present, present) {
            if !listed.contains(&id)
                && let Some(gone) = remembered(snapshot, &container, seen_at)
            {
                self.gone.insert(id, gone);
            }
        }
        self.gone.retain(|id, gone| {
            !listed.contains(id) && Timestamp::now().duration_since(gone.seen_at) < KEPT_FOR
        });
    }
}

fn id_of(row: &Row) -> Option<&ContainerId> {
    match row {
        Row::Container(container) => Some(&container.id),
        Row::Unreadable(row) => row.id.as_ref(),
    }
}

/// A container that is gone, if it was exactly one system's and that one may be remembered.
fn remembered(snapshot: &Snapshot, container: &Arc<Container>, seen_at: Timestamp) -> Option<Remembered> {
    let mut owners = snapshot.systems.iter().filter_map(|system| match system.profile.recognise(container) {
        Match::Ours(recognised) => Some((&system.profile, system.profile.workspace_of(&recognised))),
        Match::Foreign | Match::Nameless => None,
    });
    let (profile, workspace) = owners.next()?;
    if owners.next().is_some() || !profile.recovery.record {
        return None;
    }
    Some(Remembered {
        system: profile.name.clone(),
        workspace,
        persistent: profile.persistence_of(container).unwrap_or(false),
        seen_at,
        has_spec: false,
        departure: None,
        removed: None,
        tries: Tries::default(),
        container: Arc::clone(container),
    })
}
