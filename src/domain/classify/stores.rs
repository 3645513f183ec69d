//! Whether silence in the stores means anything.

use std::time::Duration;

use crate::domain::awake::Clock;
use crate::domain::continuity::{SHORTEST_DOUBT, Suspicion};
use crate::domain::evidence::Evidence;
use crate::domain::policy::Policy;
use crate::domain::snapshot::{SystemFacts, Unusable};

/// Why the stores of one rule support no finding of "nobody needs it".
pub(super) enum StoreDoubt {
    /// They do not, for this reason.
    Whole(Evidence),
    /// One of them has lost sessions that it had. For how long that matters depends on the container.
    Suspect(String, Suspicion),
}

impl StoreDoubt {
    /// Why nothing can be said of a container with this lifetime, if nothing can.
    pub(super) fn of_container(&self, lifetime: Duration, clock: Clock<'_>) -> Option<Evidence> {
        match self {
            Self::Whole(evidence) => Some(evidence.clone()),
            Self::Suspect(path, Suspicion { since, vanished, live }) => {
                let passed = clock.quiet_since(*since).unwrap_or_default();
                let left = lifetime.max(SHORTEST_DOUBT).checked_sub(passed).filter(|left| !left.is_zero())?;
                let (path, vanished, live) = (path.clone(), *vanished, *live);
                Some(Evidence::StoreSuspect { path, vanished, live, left })
            }
        }
    }

    /// Why the stores of one rule support no finding of "nobody needs it", if they do not. One store in doubt is enough: the
    /// session that matters may be in it.
    pub(super) fn of(system: &SystemFacts, rule: usize, policy: &Policy, clock: Clock<'_>) -> Option<Self> {
        let stores = || system.stores.iter().filter(|store| store.rule == rule);
        if stores().next().is_none() {
            let (path, fault) =
                (system.profile.stores[rule].place(), "no session store was found".to_owned());
            return Some(Self::Whole(Evidence::StoreUnreadable { path, fault }));
        }
        let unreadable = stores().find_map(|store| {
            store.sessions.unusable(clock.now, policy.max_evidence_age).map(|why| match why {
                Unusable::Fault(fault) => Evidence::StoreUnreadable { path: store.path.clone(), fault },
                Unusable::Old(age) => Evidence::FactsTooOld { source: store.path.clone(), age },
            })
        });
        let unproven = || {
            stores().find_map(|store| {
                let left = store.memory.unproven(policy.new_store_wait, clock)?;
                Some(Evidence::StoreUnproven { path: store.path.clone(), left })
            })
        };
        let suspects = || {
            let suspicions = stores().filter_map(|store| Some((store, store.memory.suspicion()?)));
            suspicions.max_by_key(|(_, suspicion)| suspicion.since)
        };
        unreadable
            .or_else(unproven)
            .map(Self::Whole)
            .or_else(|| suspects().map(|(store, suspicion)| Self::Suspect(store.path.clone(), suspicion)))
    }
}
