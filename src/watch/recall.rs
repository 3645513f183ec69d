//! What was here before: containers that this watch has seen and sees no more, and what our own state remembers of others.
//! It is read anew with every look, for another program may have removed or brought back something meanwhile.

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::{SignedDuration, Timestamp};

use crate::domain::container::{Container, ContainerId, Row};
use crate::domain::profile::Match;
use crate::domain::recovery::{Departure, Remembered, Tries};
use crate::domain::snapshot::{Images, Reading};
use crate::domain::{Recalled, Snapshot, owned};
use crate::state::{Glance, State};

/// What was read is read again after this long, whatever the files look like.
const READ_AGAIN: Duration = Duration::from_secs(30);
/// How long a container that nobody recorded is remembered.
const KEPT_FOR: SignedDuration = SignedDuration::from_hours(24);

#[derive(Debug)]
pub(super) struct Recall {
    /// Where our own state is.
    folder: PathBuf,
    /// When that list was made.
    at: Option<Timestamp>,
    /// The last good list.
    rows: Option<Arc<Vec<Row>>>,
    /// What was known of their images.
    images: Images,
    /// What has gone since this watch began.
    gone: HashMap<ContainerId, Arc<Remembered>>,
    recorded: Option<Recorded>,
}

/// What our own state said, and when; it is read again only where that may have changed.
#[derive(Debug)]
struct Recorded {
    host: String,
    glance: Glance,
    rows: Arc<Vec<Row>>,
    at: Instant,
    recalled: Recalled,
}

impl Recall {
    pub(super) fn new(folder: PathBuf) -> Self {
        Self { folder, at: None, rows: None, images: Images::default(), gone: HashMap::new(), recorded: None }
    }

    /// Everything that is remembered beside what this snapshot shows.
    pub(super) fn look(
        &mut self,
        snapshot: &Snapshot,
        departures: &HashMap<ContainerId, Departure>,
    ) -> Recalled {
        if snapshot.engine.fault.is_none() && snapshot.engine.at.is_some() {
            self.compare(snapshot);
        }
        let mut recalled = self.recorded(snapshot);
        for remembered in &mut recalled.gone {
            let id = &remembered.container.id;
            let seen_at = self.gone.get(id).map_or(remembered.seen_at, |gone| gone.seen_at);
            let seen_at = seen_at.max(remembered.seen_at);
            let departure = departures.get(id).or(remembered.departure.as_ref());
            update(remembered, seen_at, departure.cloned());
        }
        if !self.gone.is_empty() {
            let known: HashSet<&ContainerId> = recalled.gone.iter().map(|gone| &gone.container.id).collect();
            let unrecorded = self.gone.values().filter(|gone| !known.contains(&gone.container.id));
            let unrecorded: Vec<_> = unrecorded
                .map(|gone| {
                    let mut gone = Arc::clone(gone);
                    let (seen_at, departure) = (gone.seen_at, departures.get(&gone.container.id).cloned());
                    update(&mut gone, seen_at, departure);
                    gone
                })
                .collect();
            recalled.gone.extend(unrecorded);
            recalled.gone.sort_by(|a, b| a.container.id.cmp(&b.container.id));
        }
        if !departures.is_empty() {
            let present = ids(snapshot);
            let of_present = departures.iter().filter(|(id, _)| present.contains(id));
            recalled.departures = of_present.map(|(id, departure)| (id.clone(), departure.clone())).collect();
        }
        recalled
    }

    /// What our own state remembers beside what is here.
    fn recorded(&mut self, snapshot: &Snapshot) -> Recalled {
        // Looked at before it is read: what is written meanwhile then looks new the next time.
        let (host, rows) = (&snapshot.host.identity, &snapshot.engine.value);
        let glance = State::glance(&self.folder);
        if let (Some(known), Some(glance)) = (&self.recorded, glance)
            && known.host == *host
            && known.glance == glance
            && Arc::ptr_eq(&known.rows, rows)
            && known.at.elapsed() < READ_AGAIN
        {
            return known.recalled.clone();
        }
        let present = ids(snapshot);
        let state = State::open_to_read(&self.folder);
        let recalled = match state.and_then(|state| state.map(|it| it.recalled(host, &present)).transpose()) {
            Ok(recalled) => recalled.unwrap_or_default(),
            Err(fault) => {
                // What was put aside stays so; and it is read again with the next look.
                let known = self.recorded.as_ref().filter(|known| known.host == *host);
                let known = known.map(|known| known.recalled.clone()).unwrap_or_default();
                let gone = known.gone.into_iter().filter(|gone| !present.contains(&gone.container.id));
                return Recalled { gone: gone.collect(), fault: Some(fault.to_string()), ..known };
            }
        };
        self.recorded = glance.map(|glance| Recorded {
            host: host.clone(),
            glance,
            rows: Arc::clone(rows),
            at: Instant::now(),
            recalled: recalled.clone(),
        });
        recalled
    }

    /// Finds what has gone since the list before.
    fn compare(&mut self, snapshot: &Snapshot) {
        let rows = &snapshot.engine.value;
        let seen_at = self.at.or(snapshot.engine.at).unwrap_or_default();
        self.at = snapshot.engine.at;
        self.gone.retain(|_, gone| Timestamp::now().duration_since(gone.seen_at) < KEPT_FOR);
        if self.rows.as_ref().is_some_and(|known| Arc::ptr_eq(known, rows)) {
            if self.images != snapshot.images {
                self.images = snapshot.images.clone();
            }
            return;
        }
        let before = self.rows.replace(Arc::clone(rows)).unwrap_or_default();
        let listed: HashSet<&ContainerId> = rows.iter().filter_map(id_of).collect();
        let images = std::mem::replace(&mut self.images, snapshot.images.clone());
        let went: Vec<&Arc<Container>> = before
            .iter()
            .filter_map(|row| match row {
                Row::Container(container) if !listed.contains(&container.id) => Some(container),
                Row::Container(_) | Row::Unreadable(_) => None,
            })
            .collect();
        if !went.is_empty() {
            // Whose they were is judged by what was known while they were here.
            let rows = went.iter().map(|container| Row::Container(Arc::clone(container))).collect();
            let engine = Reading::good(rows, seen_at);
            let owned = owned(&Snapshot { engine, images, ..snapshot.clone() }, None);
            let owned = went.into_iter().filter(|container| owned.contains(&container.id));
            let gone = owned.filter_map(|container| remembered(snapshot, container, seen_at));
            self.gone.extend(gone.map(|gone| (gone.container.id.clone(), Arc::new(gone))));
        }
        self.gone.retain(|id, _| !listed.contains(id));
    }
}

/// Notes when it was last seen and how it went. What stays the same stays shared with the look before.
fn update(remembered: &mut Arc<Remembered>, seen_at: Timestamp, departure: Option<Departure>) {
    if remembered.seen_at != seen_at || remembered.departure != departure {
        *remembered = Arc::new(Remembered { seen_at, departure, ..(**remembered).clone() });
    }
}

/// What is here.
fn ids(snapshot: &Snapshot) -> HashSet<&ContainerId> {
    snapshot.engine.value.iter().filter_map(id_of).collect()
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
