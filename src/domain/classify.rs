//! From facts to verdicts: a pure function of the snapshot, the policy and `now`.
//!
//! The order of the questions is the safety of the product. Whatever casts doubt on ownership or on the evidence
//! is asked before anything that could let a container go; a positive sign of life is asked before everything
//! that rests on silence.

mod again;
mod aside;
mod attribute;
mod brake;
mod claims;
mod hash;
mod home;
mod installation;
mod missing;
mod namespaces;
mod outdated;
mod over;
pub(crate) mod processes;
mod remember;
mod stores;

use std::borrow::{Borrow, Cow};
use std::collections::{HashMap, HashSet};
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use super::awake::Clock;
use super::container::{Container, ContainerState, Inspected};
use super::evidence::Evidence;
use super::policy::Policy;
use super::recovery::Quarantine;
use super::snapshot::{DrainMark, Neighbours, PathFact, Snapshot, SystemFacts, Unusable};
use super::span::elapsed;
use super::unread::Unread;
use super::verdict::{Status, Subject, Verdict, Verdicts};
pub use again::Surroundings;
pub use attribute::owned;
use attribute::{Candidate, settle_installations, sorted};
use claims::{Claimed, join, names_present};
use hash::QuickSet;
use installation::Installations;
use outdated::{CurrentConfig, Outdated};
pub use remember::remember;
use stores::StoreDoubt;

/// How many live sessions a verdict names before it only counts them.
const NAMED_LIVE_SESSIONS: usize = 3;

/// Judges everything in the snapshot. Total and deterministic: every container of some system gets exactly one
/// verdict with at least one reason.
pub fn classify(snapshot: &Snapshot, policy: &Policy, now: Timestamp) -> Verdicts {
    let named = aside::with_old_names(snapshot);
    let (as_listed, snapshot) = (snapshot, named.as_ref().unwrap_or(snapshot));
    let certain = doubt_of_engine(snapshot, policy, now).is_none();
    let mut present = if certain { names_present(&snapshot.engine.value) } else { None };
    if let (Some(present), true) = (&mut present, named.is_some()) {
        present.extend(names_present(&as_listed.engine.value).into_iter().flatten());
    }
    judge_all(snapshot, present.as_ref(), None, policy, now)
}

/// What the containers of one system tell about each other.
#[derive(Clone, Debug)]
struct Fleet {
    installations: Installations,
    current_config: CurrentConfig,
}

impl Fleet {
    /// Learns it from all of them, and casts doubt on those of other installations.
    fn of(
        snapshot: &Snapshot,
        system: &SystemFacts,
        candidates: &mut [Candidate<'_>],
        policy: &Policy,
        now: Timestamp,
    ) -> Self {
        let installations = Installations::of(system, candidates, &snapshot.engine.value, policy);
        settle_installations(&system.profile, candidates, &installations);
        let made_again = &snapshot.recalled.made_again;
        let current_config = CurrentConfig::of(&system.profile, candidates, made_again, policy, now);
        Self { installations, current_config }
    }
}

/// `present` holds every name and id on the engine, if they are known; `known` what the containers of each system tell about
/// each other, if they are not all here to tell it.
fn judge_all<Name: Borrow<str> + Eq + Hash>(
    snapshot: &Snapshot,
    present: Option<&QuickSet<Name>>,
    known: Option<&[Fleet]>,
    policy: &Policy,
    now: Timestamp,
) -> Verdicts {
    let clock = snapshot.clock(policy, now);
    let attributed = sorted(snapshot);
    let mut verdicts = Verdicts { containers: attributed.undecided, ..Verdicts::default() };
    verdicts.containers.reserve_exact(attributed.candidates.iter().map(Vec::len).sum());
    let removed = snapshot.recalled.gone.iter().filter(|gone| gone.removed.is_some());
    let removed: HashSet<&str> = removed.map(|gone| gone.container.name.as_str()).collect();
    let systems = snapshot.systems.iter().zip(attributed.candidates).enumerate();
    for (place, (system, mut candidates)) in systems {
        let fleet = match known.and_then(|known| known.get(place)) {
            Some(fleet) => {
                settle_installations(&system.profile, &mut candidates, &fleet.installations);
                fleet.clone()
            }
            None => Fleet::of(snapshot, system, &mut candidates, policy, now),
        };
        let mut joined = join(system, &candidates, present, &removed, policy, clock);
        let judge = Judge {
            policy,
            clock,
            system,
            drains: &snapshot.drains,
            quarantined: &snapshot.recalled.quarantined,
            engine_doubt: doubt_of_engine(snapshot, policy, now),
            store_doubts: (0..system.profile.stores.len())
                .map(|rule| StoreDoubt::of(system, rule, policy, clock))
                .collect(),
            clock_step: snapshot.clock_step,
            current_config: fleet.current_config,
            images: &snapshot.images,
            paths: &snapshot.paths,
            neighbours: &snapshot.neighbours,
        };
        let judged = verdicts.containers.len();
        let of_system = candidates
            .into_iter()
            .zip(std::mem::take(&mut joined.claimed).into_iter().zip(std::mem::take(&mut joined.sought_by)));
        verdicts.containers.extend(
            of_system.map(|(candidate, (claimed, sought_by))| judge.verdict(candidate, claimed, sought_by)),
        );
        verdicts.brakes.extend(brake::of(system, &verdicts.containers[judged..], policy));
        if present.is_some() {
            // Only where every name is known can anything be called gone.
            let judged = &verdicts.containers[judged..];
            let (recalled, ours) = (&snapshot.recalled, &fleet.installations);
            let gone = missing::find(system, recalled, judged, &mut joined, ours, policy, clock);
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

/// Everything that is the same for all containers of one system.
struct Judge<'a> {
    policy: &'a Policy,
    clock: Clock<'a>,
    system: &'a SystemFacts,
    drains: &'a HashMap<super::ContainerId, DrainMark>,
    quarantined: &'a HashMap<super::ContainerId, Quarantine>,
    engine_doubt: Option<Evidence>,
    /// One per rule of the profile.
    store_doubts: Vec<Option<StoreDoubt>>,
    clock_step: Option<Duration>,
    current_config: CurrentConfig,
    images: &'a super::snapshot::Images,
    paths: &'a HashMap<String, PathFact>,
    neighbours: &'a Neighbours,
}

impl Judge<'_> {
    fn verdict(&self, candidate: Candidate<'_>, claimed: Claimed, sought_by: Option<String>) -> Verdict {
        let container = candidate.container;
        let life = self.life(&candidate, &claimed);
        let mut reasons = self.current_config.outdated(container, &self.system.profile, self.images);
        let outdated = Outdated::by(&reasons);
        let (status, mut evidence) = self.decide(&candidate, &claimed, &life, outdated);
        let unread = self.unread(&candidate, &claimed, status, &reasons);
        if status == Status::Stale {
            reasons.retain(|reason| *reason != Evidence::ConfigUndecided);
        }
        evidence.append(&mut reasons);
        if claimed.claims.vanished > 0 {
            evidence.push(Evidence::VanishedSessions(claimed.claims.vanished));
        }
        let quarantine = self.quarantined.get(&container.id).filter(|aside| container.name == aside.name);
        let is_to_go = status == Status::Draining || quarantine.is_some();
        let waits_for = is_to_go.then(|| self.open_sessions(&candidate, &claimed)).flatten();
        if let (Status::Draining, true, Some(waits_for)) = (status, life.is_empty(), &waits_for) {
            evidence.insert(1, waits_for.clone());
        }
        let work_doubt = self.work_doubt(container).map(Box::new);
        let mut verdict = Verdict {
            subject: Subject::Container(Arc::clone(container)),
            system: Some(self.system.profile.name.clone()),
            workspace: candidate.workspace,
            status,
            outdated: outdated != Outdated::No,
            persistent: self.system.profile.persistence_of(container).unwrap_or(true),
            sought_by,
            quiet_since: newest_sign_of_use(container, &claimed),
            life,
            work_doubt,
            waits_for: waits_for.map(Box::new),
            too_new: self.policy.too_new(container, self.clock).map(Box::new),
            claims: claimed.claims,
            quarantine: None,
            unread,
            evidence,
        };
        if let Some(quarantine) = quarantine {
            aside::mark(&mut verdict, quarantine, self.clock.now);
        }
        verdict
    }

    /// Everything that lives in it. What counts as life is decided here, and nowhere else.
    fn life(&self, candidate: &Candidate<'_>, claimed: &Claimed) -> Vec<Evidence> {
        let container = candidate.container;
        let mut life = claimed.live_evidence(NAMED_LIVE_SESSIONS);
        let running_execs = container.inspection().map_or(0, |inspection| inspection.running_execs);
        if running_execs > 0 {
            life.push(Evidence::RunningExec(running_execs));
        }
        life.extend(processes::life(&self.system.profile, container));
        life.extend(namespaces::shared_by(container, self.neighbours));
        life.extend(self.running_companion(candidate));
        life
    }

    /// The open sessions that keep what is to go, if they do: it goes when all have ended, or when it has been quiet for
    /// so long that their ends were forgotten.
    fn open_sessions(&self, candidate: &Candidate<'_>, claimed: &Claimed) -> Option<Evidence> {
        let count = claimed.claims.total - claimed.claims.ended;
        if count == 0 {
            return None;
        }
        if let Some(unreadable) = &claimed.unreadable_activity {
            return Some((**unreadable).clone());
        }
        let limit = match self.lifetime(candidate, claimed) {
            Ok(lifetime) => lifetime.max(self.policy.open_lifetime),
            Err(why) => return Some(Evidence::LifetimeUnreadable(why)),
        };
        let quiet = self.quiet(candidate.container, claimed);
        (quiet <= limit).then_some(Evidence::OpenSessions { count, quiet, limit })
    }

    fn lifetime(&self, candidate: &Candidate<'_>, claimed: &Claimed) -> Result<Duration, String> {
        let of_store = home::lifetime(self.system, candidate, claimed);
        self.system.profile.lifetime_of(candidate.container, of_store, self.policy.default_lifetime)
    }

    /// For how long nothing has shown that it is used.
    fn quiet(&self, container: &Container, claimed: &Claimed) -> Duration {
        let newest = newest_sign_of_use(container, claimed);
        newest.and_then(|at| self.clock.quiet_since(at)).unwrap_or_default()
    }

    /// The status and its reasons; why it is outdated is added by the caller.
    fn decide(
        &self,
        candidate: &Candidate<'_>,
        claimed: &Claimed,
        life: &[Evidence],
        outdated: Outdated,
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
        if !life.is_empty() {
            return match mark {
                Some(mark) => (Status::Draining, [&[mark], life].concat()),
                None => (Status::Active, life.to_vec()),
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
        if let Some(doubt) = self.doubt_of_its_stores(candidate, claimed) {
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
            None if self.is_over_by_config(candidate, claimed, outdated) => (Status::Stale, Vec::new()),
            None if claimed.claims.total == 0 => self.unclaimed(candidate),
            None => self.claimed_but_quiet(candidate, claimed),
        };
        if matches!(status, Status::Draining | Status::Stale | Status::Orphaned)
            && let Some(doubt) = self.work_doubt(container)
        {
            return unknown(doubt);
        }
        (status, evidence)
    }

    /// Why it cannot be told whether somebody is at work in it.
    fn work_doubt(&self, container: &Container) -> Option<Evidence> {
        let doubt = processes::doubt(&self.system.profile, container);
        doubt.or_else(|| namespaces::doubt(container, self.neighbours))
    }

    /// Why the stores that could claim it cannot say that nobody needs it.
    fn doubt_of_its_stores(&self, candidate: &Candidate<'_>, claimed: &Claimed) -> Option<Evidence> {
        let rules = self.system.profile.stores.iter().zip(&self.store_doubts);
        let its = rules.filter(|(rule, _)| rule.serves(&candidate.container.name));
        let mut doubts = its.filter_map(|(_, doubt)| doubt.as_ref()).peekable();
        doubts.peek()?;
        // A lifetime that cannot be read is told by itself.
        let lifetime = self.lifetime(candidate, claimed).unwrap_or_default();
        doubts.find_map(|doubt| doubt.of_container(lifetime, self.clock))
    }

    /// Whether its configuration alone lets it go. One that only differs from the newest container's may be the right one, so
    /// an open session keeps it.
    fn is_over_by_config(&self, candidate: &Candidate<'_>, claimed: &Claimed, outdated: Outdated) -> bool {
        match outdated {
            Outdated::No => false,
            Outdated::Named => true,
            Outdated::Guessed => self.open_sessions(candidate, claimed).is_none(),
        }
    }

    /// What could not be read of it, whether or not the verdict depends on that.
    fn unread(
        &self,
        candidate: &Candidate<'_>,
        claimed: &Claimed,
        status: Status,
        evidence: &[Evidence],
    ) -> Unread {
        let container = candidate.container;
        let unsure = candidate.doubt.is_some() || self.engine_doubt.is_some();
        let asked = matches!(container.inspected, Inspected::Facts(_));
        Unread {
            sessions: unsure
                || self.doubt_of_its_stores(candidate, claimed).is_some()
                || candidate.recognised.undecidable.is_some()
                || home::doubt(self.system, candidate, claimed).is_some()
                || home::unclear(self.system, candidate, claimed).is_some()
                || claimed.unclear_liveness.is_some()
                || claimed.unreadable_activity.is_some(),
            config: unsure || status == Status::Unknown || evidence.contains(&Evidence::ConfigUndecided),
            processes: unsure
                || (container.state.holds_processes() && !asked)
                || processes::doubt(&self.system.profile, container).is_some(),
        }
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
        if let Some(too_new) = self.policy.too_new(container, self.clock) {
            return (Status::Idle, vec![too_new]);
        }
        let age = elapsed(container.created_at, self.clock.now).unwrap_or_default();
        let has_store = self.system.profile.has_store();
        let unclaimed = Evidence::NoSession { age, state: container.state.clone(), has_store };
        match &self.system.profile.over {
            None => (Status::Orphaned, vec![unclaimed]),
            Some(over) => {
                // One that watches over it and is not there may never have been there.
                let is_watched = !self.system.profile.companions.is_empty();
                let watch_ended = !is_watched || self.companion(candidate, false).is_some();
                over::judge(over, candidate, self.paths, watch_ended, unclaimed, self.clock)
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
                    let ago = claims.newest_moment.and_then(|at| elapsed(at, self.clock.now));
                    return (Status::Stale, vec![Evidence::AllSessionsEnded { count: claims.total, ago }]);
                }
                Err(why) => return (Status::Unknown, vec![Evidence::PersistenceUnreadable(why), summary]),
            }
        }
        if let Some(unreadable) = &claimed.unreadable_activity {
            return (Status::Unknown, vec![(**unreadable).clone(), summary]);
        }
        let lifetime = match self.lifetime(candidate, claimed) {
            Ok(lifetime) => lifetime,
            Err(why) => return (Status::Unknown, vec![Evidence::LifetimeUnreadable(why), summary]),
        };
        let quiet = self.quiet(container, claimed);
        if quiet > lifetime {
            return (Status::Stale, vec![Evidence::QuietPastLifetime { quiet, lifetime }, summary]);
        }
        (Status::Idle, vec![summary, Evidence::WithinLifetime { quiet, lifetime }])
    }

    /// The eviction mark, unless it was set on an earlier run of the container. A run that was not asked for is
    /// taken for the same here; the keeper asks before it acts.
    fn mark_on(&self, container: &Container) -> Option<Evidence> {
        let mark = self.drains.get(&container.id)?;
        let same_run = container.started_at().is_none() || mark.is_on_this_run(container);
        let ago = elapsed(mark.marked_at, self.clock.now).unwrap_or_default();
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
