//! Learns from a look what every store claims, and holds it against what it claimed before.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use jiff::Timestamp;

use super::attribute::attribute;
use super::claims::Keys;
use super::doubt_of_engine;
use super::installation::proven_instances;
use crate::domain::awake::Clock;
use crate::domain::continuity::{Habits, RememberedClaim, StoreMemory, Trust};
use crate::domain::policy::Policy;
use crate::domain::profile::Profile;
use crate::domain::session::{Liveness, Session};
use crate::domain::snapshot::{Snapshot, StoreFacts};

/// How a profile reads the sessions of one of its stores.
pub(super) fn habits(profile: &Profile, store: &StoreFacts, policy: &Policy) -> Habits {
    Habits {
        live: profile.live_rule(store.lifetime, policy.default_lifetime),
        ends_by_deleting: profile.ends_by_deleting,
    }
}

/// Brings the memory of every store up to date with what it says now, and adds the sessions that have vanished to what it
/// says. Without a good list of containers it is not known who claims any, so nothing is learnt and nothing forgotten.
pub fn remember(snapshot: &mut Snapshot, policy: &Policy, now: Timestamp) {
    let knows_containers = doubt_of_engine(snapshot, policy, now).is_none();
    let memories = new_memories(snapshot, policy, now, knows_containers);
    for (system, memories) in snapshot.systems.iter_mut().zip(memories) {
        for (store, memory) in system.stores.iter_mut().zip(memories) {
            match memory {
                Some(memory) => take_up(store, memory),
                None => store.add_vanished(),
            }
        }
    }
}

/// The store as it is to be judged: with its new memory, and with what that has and the store has not.
pub(super) fn take_up(store: &mut StoreFacts, memory: StoreMemory) {
    if *store.memory != memory {
        store.memory = Arc::new(memory);
    }
    store.add_vanished();
}

/// One per store; `None` where there was no good look.
fn new_memories(
    snapshot: &Snapshot,
    policy: &Policy,
    now: Timestamp,
    knows_containers: bool,
) -> Vec<Vec<Option<StoreMemory>>> {
    let clock = snapshot.clock(policy, now);
    let attributed = attribute(snapshot, policy);
    let systems = snapshot.systems.iter().zip(&attributed.candidates);
    let of_system = systems.map(|(system, candidates)| {
        let keys = knows_containers.then(|| Keys::of(&system.profile, candidates));
        let of_store = system.stores.iter().map(|store| {
            if store.sessions.unusable(now, policy.max_evidence_age).is_some() {
                return None;
            }
            let habits = habits(&system.profile, store, policy);
            let mut memory = store.memory.held_against(&store.sessions.value, habits, clock);
            memory.seen_at = store.sessions.at.max(memory.seen_at);
            let Some(keys) = &keys else { return Some(memory) };
            let claims = |session: &Session| keys.has_claim_of(&system.profile, session, &store.captures);
            // That a store lost sessions matters beyond the containers they claimed, for as long as any container may wait.
            // What went together with its container, though, has ended.
            let is_doubt = |claim: &RememberedClaim| {
                claim.vanished.is_some_and(|vanished| {
                    let passed = clock.quiet_since(vanished.found_at).unwrap_or_default();
                    let longest = policy.open_lifetime.max(store.lifetime.unwrap_or(policy.default_lifetime));
                    vanished.casts_doubt && vanished.found_at < clock.now && passed < longest
                })
            };
            // A live session whose container is not here may only have lost it for a moment, as in a renaming.
            let is_live =
                |session: &Session| matches!(session.liveness(habits.live, clock), Liveness::Live { .. });
            let known_ids: HashSet<&str> =
                memory.claims.values().map(|claim| claim.session.id.as_str()).collect();
            let live: BTreeSet<String> = store
                .sessions
                .value
                .iter()
                .filter(|session| known_ids.contains(session.id.as_str()) && is_live(session))
                .map(|session| session.id.clone())
                .collect();
            memory.claims.retain(|_, claim| {
                claims(&claim.session) || is_doubt(claim) || live.contains(&claim.session.id)
            });
            let mut has_claims = !memory.claims.is_empty();
            for session in store.sessions.value.iter().filter(|session| claims(session)) {
                has_claims = true;
                let liveness = session.liveness(habits.live, clock);
                if !matches!(liveness, Liveness::Ended) {
                    let live = matches!(liveness, Liveness::Live { .. });
                    memory.add(session, live);
                }
            }
            memory.instances.extend(proven_instances(system, store, candidates));
            memory.trust = trust(&memory, has_claims, candidates.is_empty(), policy, clock);
            Some(memory)
        });
        of_store.collect()
    });
    of_system.collect()
}

/// What a look makes of a store that has not shown yet that it is the right one.
fn trust(
    memory: &StoreMemory,
    has_claims: bool,
    nothing_to_claim: bool,
    policy: &Policy,
    clock: Clock<'_>,
) -> Trust {
    match memory.trust {
        Trust::Proven => Trust::Proven,
        _ if has_claims => Trust::Proven,
        known @ (Trust::Unread | Trust::Silent { .. }) if nothing_to_claim => known,
        Trust::Unread => Trust::Silent { since: clock.now },
        // A clock that was set back starts the wait anew.
        Trust::Silent { since } if since > clock.now => Trust::Silent { since: clock.now },
        known @ Trust::Silent { .. } => match memory.unproven(policy.new_store_wait, clock) {
            None | Some(std::time::Duration::ZERO) => Trust::Proven,
            Some(_) => known,
        },
    }
}
