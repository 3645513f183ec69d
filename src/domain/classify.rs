//! From facts to verdicts: a pure function of the snapshot, the policy and `now`.
//!
//! The order of the questions is the safety of the product. Whatever casts doubt on ownership or on the evidence
//! is asked before anything that could let a container go; a positive sign of life is asked before everything
//! that rests on silence.

mod again;
mod aside;
mod attribute;
mod claims;
mod hash;
mod home;
mod missing;
mod namespaces;
mod outdated;
mod over;
pub(crate) mod processes;

use std::borrow::{Borrow, Cow};
use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use super::container::{Container, ContainerState, Inspected};
use super::evidence::Evidence;
use super::policy::Policy;
use super::recovery::Quarantine;
use super::snapshot::{DrainMark, Neighbours, PathFact, Snapshot, SystemFacts, Unusable};
use super::span::elapsed;
use super::verdict::{Brake, Status, Subject, Verdict, Verdicts};
pub use again::Surroundings;
pub use attribute::owned;
use attribute::{Candidate, attribute};
use claims::{Claimed, join, names_present};
use hash::QuickSet;
use outdated::CurrentConfig;

/// How many live sessions a verdict names before it only counts them.
const NAMED_LIVE_SESSIONS: usize = 3;

/// Judges everything in the snapshot. Total and deterministic: every container of some system gets exactly one
/// verdict with at least one reason.
pub fn classify(snapshot: &Snapshot, policy: &Policy, now: Timestamp) -> Verdicts {
    let named = aside::with_old_names(snapshot);
    let snapshot = named.as_ref().unwrap_or(snapshot);
    let certain = doubt_of_engine(snapshot, policy, now).is_none();
    let present = if certain { names_present(&snapshot.engine.value) } else { None };
    judge_all(snapshot, present.as_ref(), policy, now)
}

/// `present` holds every name and id on the engine, if they are known.
fn judge_all<Name: Borrow<str> + Eq + Hash>(
    snapshot: &Snapshot,
    present: Option<&QuickSet<Name>>,
    policy: &Policy,
    now: Timestamp,
) -> Verdicts {
    let attributed = attribute(snapshot, policy);
    let mut verdicts = Verdicts { containers: attributed.undecided, ..Verdicts::default() };
    verdicts.containers.reserve_exact(attributed.candidates.iter().map(Vec::len).sum());
    for (system, candidates) in snapshot.systems.iter().zip(attributed.candidates) {
        let mut joined = join(system, &candidates, present, policy, now);
        let judge = Judge {
            policy,
            now,
            system,
            drains: &snapshot.drains,
            quarantined: &snapshot.recalled.quarantined,
            engine_doubt: doubt_of_engine(snapshot, policy, now),
            store_doubts: (0..system.profile.stores.len())
                .map(|rule| doubt_of_stores(system, rule, policy, now))
                .collect(),
            clock_step: snapshot.clock_step,
            current_config: CurrentConfig::of(
                &system.profile,
                &candidates,
                &snapshot.recalled.made_again,
                policy,
                now,
            ),
            images: &snapshot.images,
            paths: &snapshot.paths,
            neighbours: &snapshot.neighbours,
        };
        let judged = verdicts.containers.len();
        let of_system = candidates.into_iter().zip(joined.claimed.into_iter().zip(joined.sought_by));
        verdicts.containers.extend(
            of_system.map(|(candidate, (claimed, sought_by))| judge.verdict(candidate, claimed, sought_by)),
        );
        verdicts.brakes.extend(brake(system, &verdicts.containers[judged..], policy));
        if present.is_some() {
            // Only where every name is known can anything be called gone.
            let judged = &verdicts.containers[judged..];
            let (lost, served) = (&mut joined.lost, &joined.served);
            let gone = missing::find(system, &snapshot.recalled, judged, lost, served, policy, now);
            verdicts.gone.extend(gone);
        }
        verdicts.lost.extend(joined.lost);
    }
    verdicts.containers.sort_unstable_by(|a, b| order_of(a).cmp(&order_of(b)));
    verdicts
}

fn order_of(verdict: &Verdict) -> (Option<&str>, Option<&super::SystemName>, &str, Option<&str>) {
    let id = verdict.subject.id().map(super::ContainerId::as_str);
    (verdict.workspace.as_deref(), verdict.system.as_ref(), verdict.subject.name(), id)
}

/// Why the engine's answer supports no verdict, if it does not.
fn doubt_of_engine(snapshot: &Snapshot, policy: &Policy, now: Timestamp) -> Option<Evidence> {
    snapshot.engine.unusable(now, policy.max_evidence_age).map(|why| match why {
        Unusable::Fault(fault) => Evidence::EngineFailed(fault),
        Unusable::Old(age) => Evidence::FactsTooOld { source: "the engine".to_owned(), age },
    })
}

/// Why the stores of one rule support no finding of "nobody needs it", if they do not. One store in doubt is enough: the
/// session that matters may be in it.
fn doubt_of_stores(system: &SystemFacts, rule: usize, policy: &Policy, now: Timestamp) -> Option<Evidence> {
    let mut stores = system.stores.iter().filter(|store| store.rule == rule).peekable();
    if stores.peek().is_none() {
        let fault = "no session store was found".to_owned();
        return Some(Evidence::StoreUnreadable { path: system.profile.stores[rule].place(), fault });
    }
    stores.find_map(|store| {
        store.sessions.unusable(now, policy.max_evidence_age).map(|why| match why {
            Unusable::Fault(fault) => Evidence::StoreUnreadable { path: store.path.clone(), fault },
            Unusable::Old(age) => Evidence::FactsTooOld { source: store.path.clone(), age },
        })
    })
}

/// Everything that is the same for all containers of one system.
struct Judge<'a> {
    policy: &'a Policy,
    now: Timestamp,
    system: &'a SystemFacts,
    drains: &'a HashMap<super::ContainerId, DrainMark>,
    quarantined: &'a HashMap<super::ContainerId, Quarantine>,
    engine_doubt: Option<Evidence>,
    /// One per rule of the profile.
    store_doubts: Vec<Option<Evidence>>,
    clock_step: Option<Duration>,
    current_config: CurrentConfig,
    images: &'a super::snapshot::Images,
    paths: &'a HashMap<String, PathFact>,
    neighbours: &'a Neighbours,
}

impl Judge<'_> {
    fn verdict(&self, candidate: Candidate<'_>, claimed: Claimed, sought_by: Option<String>) -> Verdict {
        let container = candidate.container;
        let running_execs = container.inspection().map_or(0, |inspection| inspection.running_execs);
        let mut outdated = self.current_config.outdated(container, &self.system.profile, self.images);
        let is_outdated = outdated.iter().any(|reason| *reason != Evidence::ConfigUndecided);
        let (status, mut evidence) = self.decide(&candidate, &claimed, running_execs, is_outdated);
        if status == Status::Stale {
            outdated.retain(|reason| *reason != Evidence::ConfigUndecided);
        }
        evidence.append(&mut outdated);
        let mut verdict = Verdict {
            subject: Subject::Container(Arc::clone(container)),
            system: Some(self.system.profile.name.clone()),
            workspace: candidate.workspace,
            status,
            outdated: is_outdated,
            persistent: self.system.profile.persistence_of(container).unwrap_or(true),
            sought_by,
            quiet_since: newest_sign_of_use(container, &claimed),
            running_execs,
            claims: claimed.claims,
            quarantine: None,
            evidence,
        };
        if let Some(quarantine) = self.quarantined.get(&container.id)
            && container.name == quarantine.name
        {
            aside::mark(&mut verdict, quarantine, self.now);
        }
        verdict
    }

    /// The status and its reasons; why it is outdated is added by the caller.
    fn decide(
        &self,
        candidate: &Candidate<'_>,
        claimed: &Claimed,
        running_execs: usize,
        is_outdated: bool,
    ) -> (Status, Vec<Evidence>) {
        let container = candidate.container;
        let unknown = |why: Evidence| (Status::Unknown, vec![why]);

        // Whose it is, and whether the engine's word can be relied on.
        if let Some(doubt) =
            candidate.doubt.as_deref().cloned().or_else(|| home::doubt(self.system, candidate, claimed))
        {
            return unknown(doubt);
        }
        if let Some(doubt) = &self.engine_doubt {
            return unknown(doubt.clone());
        }
        match &container.state {
            ContainerState::Unrecognised(word) => return unknown(Evidence::StateNotRecognised(word.clone())),
            ContainerState::Removing => return unknown(Evidence::BeingRemoved),
            _ => {}
        }

        // Positive signs of life.
        let mark = self.mark_on(container);
        let mut life = claimed.live_evidence(NAMED_LIVE_SESSIONS);
        if running_execs > 0 {
            life.push(Evidence::RunningExec(running_execs));
        }
        life.extend(processes::life(&self.system.profile, container));
        life.extend(namespaces::shared_by(container, self.neighbours));
        life.extend(self.running_companion(candidate));
        if !life.is_empty() {
            return match mark {
                Some(mark) => (Status::Draining, [vec![mark], life].concat()),
                None => (Status::Active, life),
            };
        }

        // Silence proves something only if everyone could have spoken.
        match &container.inspected {
            Inspected::Failed(fault) => return unknown(Evidence::InspectFailed(fault.clone())),
            Inspected::NotNeeded if container.state.holds_processes() => {
                return unknown(Evidence::InspectFailed("the engine was not asked".to_owned()));
            }
            Inspected::NotNeeded | Inspected::Facts(_) => {}
        }
        if let Some(why) = candidate.recognised.undecidable {
            return unknown(Evidence::Undecidable(why.to_owned()));
        }
        if self.neighbours.incomplete && !self.system.profile.companions.is_empty() {
            let why = "a container cannot be read, and it may be the one that watches over this one";
            return unknown(Evidence::Undecidable(why.to_owned()));
        }
        let rules = self.system.profile.stores.iter().zip(&self.store_doubts);
        let mut doubts =
            rules.filter(|(rule, _)| rule.serves(&container.name)).filter_map(|(_, doubt)| doubt.clone());
        if let Some(doubt) = doubts.next() {
            return unknown(doubt);
        }
        if let Some(unclear) = home::unclear(self.system, candidate, claimed) {
            return unknown(unclear);
        }
        if let Some(unclear) = &claimed.unclear_liveness {
            return unknown((**unclear).clone());
        }
        if let Some(step) = self.clock_step {
            return unknown(Evidence::ClockStepped(step));
        }

        // Nobody lives in it.
        let (status, evidence) = match mark {
            Some(mark) => (Status::Draining, vec![mark]),
            None if is_outdated => (Status::Stale, Vec::new()),
            None if claimed.claims.total == 0 => self.unclaimed(candidate),
            None => self.claimed_but_quiet(candidate, claimed),
        };
        if matches!(status, Status::Draining | Status::Stale | Status::Orphaned) {
            let doubt = processes::doubt(&self.system.profile, container);
            if let Some(doubt) = doubt.or_else(|| namespaces::doubt(container, self.neighbours)) {
                return unknown(doubt);
            }
        }
        (status, evidence)
    }

    /// A container that runs only while whatever this one belongs to does.
    fn running_companion(&self, candidate: &Candidate<'_>) -> Option<Evidence> {
        let name = self.companion(candidate, true)?;
        Some(Evidence::CompanionRuns(name.into_owned()))
    }

    /// The first of its companions that runs, or that is there and does not.
    fn companion<'a>(&'a self, candidate: &'a Candidate<'_>, runs: bool) -> Option<Cow<'a, str>> {
        let names = self.system.profile.companions.iter();
        let mut names = names.filter_map(|template| candidate.recognised.fill(template));
        names.find(|name| self.neighbours.runs(name) == Some(runs))
    }

    fn unclaimed(&self, candidate: &Candidate<'_>) -> (Status, Vec<Evidence>) {
        let container = candidate.container;
        if let Some(too_new) = self.policy.too_new(container, self.now) {
            return (Status::Idle, vec![too_new]);
        }
        let age = elapsed(container.created_at, self.now).unwrap_or_default();
        let has_store = self.system.profile.has_store();
        let unclaimed = Evidence::NoSession { age, state: container.state.clone(), has_store };
        match &self.system.profile.over {
            None => (Status::Orphaned, vec![unclaimed]),
            Some(over) => {
                // One that watches over it and is not there may never have been there.
                let is_watched = !self.system.profile.companions.is_empty();
                let watch_ended = !is_watched || self.companion(candidate, false).is_some();
                over::judge(over, candidate, self.paths, watch_ended, unclaimed, self.now)
            }
        }
    }

    fn claimed_but_quiet(&self, candidate: &Candidate<'_>, claimed: &Claimed) -> (Status, Vec<Evidence>) {
        let container = candidate.container;
        let claims = &claimed.claims;
        let summary = Evidence::QuietSessions { count: claims.total, ended: claims.ended };
        if claims.ended == claims.total {
            match self.system.profile.persistence_of(container) {
                Ok(true) => {}
                Ok(false) => {
                    let ago = claims.newest_moment.and_then(|at| elapsed(at, self.now));
                    return (Status::Stale, vec![Evidence::AllSessionsEnded { count: claims.total, ago }]);
                }
                Err(why) => return (Status::Unknown, vec![Evidence::PersistenceUnreadable(why), summary]),
            }
        }
        if let Some(unreadable) = &claimed.unreadable_activity {
            return (Status::Unknown, vec![(**unreadable).clone(), summary]);
        }
        let of_store = home::lifetime(self.system, candidate, claimed);
        let lifetime =
            match self.system.profile.lifetime_of(container, of_store, self.policy.default_lifetime) {
                Ok(lifetime) => lifetime,
                Err(why) => return (Status::Unknown, vec![Evidence::LifetimeUnreadable(why), summary]),
            };
        let newest = newest_sign_of_use(container, claimed);
        let quiet = newest.and_then(|at| elapsed(at, self.now)).unwrap_or_default();
        if quiet > lifetime {
            return (Status::Stale, vec![Evidence::QuietPastLifetime { quiet, lifetime }, summary]);
        }
        (Status::Idle, vec![summary, Evidence::WithinLifetime { quiet, lifetime }])
    }

    /// The eviction mark, unless it was set on an earlier run of the container. A run that was not asked for is
    /// taken for the same here; the keeper asks before it acts.
    fn mark_on(&self, container: &Container) -> Option<Evidence> {
        let mark = self.drains.get(&container.id)?;
        let same_run = container.started_at().is_none_or(|started_at| mark.started_at == Some(started_at));
        let ago = elapsed(mark.marked_at, self.now).unwrap_or_default();
        same_run.then(|| Evidence::DrainMarked { ago, by: mark.marked_by.clone() })
    }
}

/// The newest of: what its sessions did, when it was made, when it was started.
fn newest_sign_of_use(container: &Container, claimed: &Claimed) -> Option<Timestamp> {
    [Some(container.created_at), container.started_at(), claimed.claims.newest_moment]
        .into_iter()
        .flatten()
        .max()
}

/// The mass-orphan brake. A system without a store has no database that could be the wrong one, but what it was given may
/// be on a disk that is not mounted. When the store claims
/// not one of the system's containers, outdated and draining ones count too: nothing else would stop a wrong database from letting
/// them all go.
fn brake(system: &SystemFacts, verdicts: &[Verdict], policy: &Policy) -> Option<Brake> {
    let has_store = system.profile.has_store();
    let nothing_is_claimed = verdicts.iter().all(|verdict| verdict.claims.total == 0);
    let unclaimed = |verdict: &&Verdict| match verdict.status {
        // What was put aside was agreed upon.
        _ if verdict.quarantine.is_some() => false,
        Status::Orphaned => has_store || matches!(verdict.evidence.first(), Some(Evidence::PathGone(_))),
        Status::Stale | Status::Draining => has_store && nothing_is_claimed,
        _ => false,
    };
    let orphaned = verdicts.iter().filter(unclaimed).count();
    let total = verdicts.len();
    let system = system.profile.name.clone();
    policy.brake.acts(orphaned, total).then_some(Brake { system, orphaned, total })
}
