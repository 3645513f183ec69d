//! Containers in quarantine: they are judged under the name they had, by which their sessions know them, and their status
//! says that they were put aside unless somebody needs them.

use std::collections::HashMap;
use std::sync::Arc;

use jiff::Timestamp;

use crate::domain::container::{Container, ContainerId, Row};
use crate::domain::evidence::Evidence;
use crate::domain::recovery::{Quarantine, Recalled};
use crate::domain::snapshot::{Reading, Snapshot};
use crate::domain::span::elapsed;
use crate::domain::verdict::{Status, Verdict};

/// The snapshot with every container in quarantine under its old name; `None` when there is none. What bears another
/// name than it was put aside with is not in quarantine.
pub(super) fn with_old_names(snapshot: &Snapshot) -> Option<Snapshot> {
    let quarantined = &snapshot.recalled.quarantined;
    if quarantined.is_empty() {
        return None;
    }
    let mut aside = HashMap::new();
    let rows = snapshot.engine.value.iter().map(|row| match row {
        Row::Container(container) => {
            let (container, quarantine) = with_old_name(container, quarantined);
            aside.extend(quarantine.map(|quarantine| (container.id.clone(), quarantine.clone())));
            Row::Container(container)
        }
        row @ Row::Unreadable(_) => row.clone(),
    });
    let value = Arc::new(rows.collect());
    let Reading { at, fault, .. } = &snapshot.engine;
    let engine = Reading { value, at: *at, fault: fault.clone() };
    let recalled = Recalled { quarantined: aside, ..snapshot.recalled.clone() };
    Some(Snapshot { engine, recalled, ..snapshot.clone() })
}

/// The container under its old name, unless it bears that: then it was not put aside after all, or somebody took it back.
pub(super) fn with_old_name<'a>(
    container: &Arc<Container>,
    quarantined: &'a HashMap<ContainerId, Quarantine>,
) -> (Arc<Container>, Option<&'a Quarantine>) {
    match quarantined.get(&container.id) {
        Some(aside) if container.name != aside.name => {
            (Arc::new(Container { name: aside.name.clone(), ..(**container).clone() }), Some(aside))
        }
        _ => (Arc::clone(container), None),
    }
}

/// Says that it is in quarantine. Whoever needs it, or whatever cannot be told, decides about its status all the same.
pub(super) fn mark(verdict: &mut Verdict, aside: &Quarantine, now: Timestamp) {
    let put_aside = Evidence::Quarantined {
        ago: elapsed(aside.since, now).unwrap_or_default(),
        by: aside.by.clone(),
        left: elapsed(now, aside.until).unwrap_or_default(),
    };
    if verdict.status == Status::Unknown || verdict.is_in_use() {
        verdict.evidence.push(put_aside);
    } else {
        verdict.status = Status::Stale;
        verdict.evidence.insert(0, put_aside);
    }
    verdict.quarantine = Some(Box::new(aside.clone()));
}
