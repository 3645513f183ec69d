//! Is a container over that nothing claims? Asked of systems in which being unclaimed proves nothing by itself.

use std::collections::HashMap;

use super::attribute::Candidate;
use crate::domain::awake::Clock;
use crate::domain::evidence::Evidence;
use crate::domain::profile::Over;
use crate::domain::snapshot::PathFact;
use crate::domain::verdict::Status;

/// Orphaned where one of the signs shows; otherwise it may be in use, whatever it looks like.
pub(super) fn judge(
    over: &Over,
    candidate: &Candidate<'_>,
    paths: &HashMap<String, PathFact>,
    watch_ended: bool,
    unclaimed: Evidence,
    clock: Clock<'_>,
) -> (Status, Vec<Evidence>) {
    let container = candidate.container;
    let state = container.state.clone();
    let mut signs = Vec::new();
    let mut unsure = Vec::new();
    for path in over.paths_of(&candidate.recognised) {
        match paths.get(&path) {
            Some(PathFact::There) => {}
            Some(PathFact::Gone) => signs.push(Evidence::PathGone(path)),
            Some(PathFact::Unsure(why)) => unsure.push(Evidence::PathUnsure { path, why: why.clone() }),
            None => unsure.push(Evidence::PathUnsure { path, why: "it was not looked up".to_owned() }),
        }
    }
    let since = container.created_at.max(container.started_at().unwrap_or(container.created_at));
    let age = clock.quiet_since(since).unwrap_or_default();
    if let Some(limit) = over.max_age.filter(|limit| age > *limit) {
        signs.push(Evidence::TooOld { age, limit });
    }
    if over.when_not_running && watch_ended && !state.holds_processes() {
        signs.insert(0, unclaimed);
        return (Status::Orphaned, signs);
    }
    if !signs.is_empty() {
        signs.push(unclaimed);
        return (Status::Orphaned, signs);
    }
    let mut evidence = vec![Evidence::MayBeInUse { age, state, limit: over.max_age }];
    evidence.append(&mut unsure);
    (Status::Idle, evidence)
}
