//! Which brakes hold for a plan: they are for bulk and for what goes by itself.

use super::Intent;
use crate::domain::policy::Policy;
use crate::domain::verdict::{Brake, Status, Verdict, Verdicts};

/// The brake is for bulk and for what goes by itself: a container the operator named just now is not a mass.
pub(super) fn held_brakes(verdicts: &Verdicts, intent: &Intent, policy: &Policy) -> Vec<Brake> {
    let reconcile = match intent {
        Intent::Reconcile(reconcile) => reconcile,
        Intent::Evict(_) => {
            // Only what drains goes by itself, so only that is counted.
            let draining = |brake: &&Brake| {
                let goes = |verdict: &&Verdict| {
                    verdict.system.as_ref() == Some(&brake.system)
                        && verdict.status == Status::Draining
                        && !verdict.is_in_use()
                        && verdict.waits_for.is_none()
                };
                policy.brake.acts(verdicts.containers.iter().filter(goes).count(), brake.total)
            };
            return verdicts.brakes.iter().filter(draining).cloned().collect();
        }
        _ => return Vec::new(),
    };
    let leaving: usize = verdicts.brakes.iter().map(|brake| brake.leaving).sum();
    if reconcile.override_brake == Some(leaving) { Vec::new() } else { verdicts.brakes.clone() }
}

/// The brake that holds for its system.
pub(super) fn brake_on(verdict: &Verdict, brakes: &[Brake]) -> Option<Brake> {
    brakes.iter().find(|brake| verdict.system.as_ref() == Some(&brake.system)).cloned()
}
