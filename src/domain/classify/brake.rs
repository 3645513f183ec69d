//! The brake: when too much of a system would go at once, nothing of it goes in bulk.

use crate::domain::evidence::Evidence;
use crate::domain::policy::Policy;
use crate::domain::snapshot::SystemFacts;
use crate::domain::verdict::{Brake, Status, Verdict};

/// Counts everything that bulk could take, whatever the reason, for a wrong database, mount or clock makes
/// containers look orphaned, outdated, draining or quiet alike. What was put aside was agreed upon. A system without a store
/// has no database that could be the wrong one; there only what rests on paths or on time counts.
pub(super) fn of(system: &SystemFacts, verdicts: &[Verdict], policy: &Policy) -> Option<Brake> {
    let could_go = |verdict: &&Verdict| match verdict.status {
        _ if verdict.quarantine.is_some() => false,
        Status::Orphaned if !system.profile.has_store() => {
            matches!(verdict.evidence.first(), Some(Evidence::PathGone(_) | Evidence::TooOld { .. }))
        }
        Status::Stale | Status::Orphaned => true,
        Status::Draining => !verdict.is_in_use() && verdict.waits_for.is_none(),
        _ => false,
    };
    let leaving = verdicts.iter().filter(could_go).count();
    let total = verdicts.len();
    let system = system.profile.name.clone();
    policy.brake.acts(leaving, total).then_some(Brake { system, leaving, total })
}
