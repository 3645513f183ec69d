//! What live sessions miss: containers that were here and are gone, containers that ended under them, and containers that
//! were put aside. A session that has another container of its system misses nothing.

use std::cmp::Reverse;
use std::collections::HashSet;
use std::sync::Arc;

use jiff::Timestamp;

use super::attribute::Candidate;
use super::claims::{Claimed, Joined, join, session_key};
use super::hash::QuickSet;
use super::installation::Installations;
use crate::domain::awake::Clock;
use crate::domain::container::{Container, ContainerState};
use crate::domain::evidence::Evidence;
use crate::domain::policy::Policy;
use crate::domain::profile::Match;
use crate::domain::recovery::{Departure, Recalled, Remembered};
use crate::domain::session::Liveness;
use crate::domain::snapshot::SystemFacts;
use crate::domain::span::elapsed;
use crate::domain::verdict::{Claim, Gone, Lost, Verdict, WayBack};

/// How many live sessions the reasons name.
const NAMED: usize = 1;

/// What a program that was killed ends with. A stop that it did not react to ends so, too.
const KILLED: i64 = 137;

/// Finds what the sessions of one system miss, and adds it to those who miss a container by name.
pub(super) fn find(
    system: &SystemFacts,
    recalled: &Recalled,
    verdicts: &[Verdict],
    joined: &mut Joined,
    ours: &Installations,
    policy: &Policy,
    clock: Clock<'_>,
) -> Vec<Gone> {
    let (now, lost, served) = (clock.now, &mut joined.lost, &joined.served);
    let profile = &system.profile;
    let heals = profile.recovery.heal;
    let mut remembered: Vec<&Arc<Remembered>> =
        recalled.gone.iter().filter(|gone| gone.system == profile.name).collect();
    // Of several that a session had, one after the other, it misses the last one.
    remembered.sort_by_key(|gone| Reverse(gone.last_known()));
    let mut told = HashSet::new();
    let ghosts: Vec<Candidate<'_>> = remembered.iter().filter_map(|gone| ghost(system, gone)).collect();
    let ghosts = of_our_installation(system, ghosts, ours);
    let of_ghosts =
        join::<String>(system, &ghosts, None::<&QuickSet<String>>, &HashSet::new(), policy, clock);
    let mut all = Vec::with_capacity(remembered.len());
    for gone in remembered {
        let claimed = ghosts.iter().position(|ghost| ghost.container.id == gone.container.id);
        let claimed = claimed.map(|place| &of_ghosts.claimed[place]);
        let mut missing = claimed.map(|claimed| missing_it(gone, claimed, served)).unwrap_or_default();
        missing.retain(|claim| told.insert(session_key(&claim.session)));
        if gone.removed.is_some() || !gone.persistent {
            // He who removed it was asked to, and looked who needs it; and what goes with every turn is not missed.
            missing.clear();
        }
        // What may be a stranger's is not told to anybody.
        let named = if claimed.is_some() { tell_named(lost, gone, heals, now) } else { 0 };
        if named == 0 && !missing.is_empty() {
            lost.push(Lost { heals, ..lost_for(gone, &missing, now) });
        }
        let live = missing.len().max(named);
        all.push(Gone { remembered: Arc::clone(gone), live, heals });
    }
    all.sort_by(|a, b| a.remembered.container.id.cmp(&b.remembered.container.id));
    let mut told = in_good_hands(verdicts);
    let mut newest_first: Vec<&Verdict> = verdicts.iter().collect();
    newest_first.sort_by_key(|verdict| Reverse(verdict.subject.container().map(|it| it.created_at)));
    for verdict in newest_first {
        lost.extend(lost_in_place(verdict, recalled, &mut told, now).map(|lost| Lost { heals, ..lost }));
    }
    lost.sort_by(|a, b| (&a.workspace, &a.session).cmp(&(&b.workspace, &b.session)));
    all
}

/// The sessions that a container which runs, and was not put aside, is there for.
fn in_good_hands(verdicts: &[Verdict]) -> HashSet<usize> {
    let serves = |verdict: &&Verdict| {
        verdict.quarantine.is_none()
            && verdict.subject.container().is_some_and(|container| container.state.holds_processes())
    };
    let claims = verdicts.iter().filter(serves).flat_map(|verdict| &verdict.claims.listed);
    claims.map(|claim| session_key(&claim.session)).collect()
}

fn ghost<'a>(system: &'a SystemFacts, gone: &'a Remembered) -> Option<Candidate<'a>> {
    let Match::Ours(recognised) = system.profile.recognise(&gone.container) else { return None };
    Some(Candidate { container: &gone.container, workspace: gone.workspace.clone(), doubt: None, recognised })
}

/// Those that belong to our installation.
fn of_our_installation<'a>(
    system: &SystemFacts,
    ghosts: Vec<Candidate<'a>>,
    ours: &Installations,
) -> Vec<Candidate<'a>> {
    let Some(template) = &system.profile.instance else { return ghosts };
    let is_ours = |ghost: &Candidate<'_>| ours.doubt(ghost.recognised.fill(template).as_deref()).is_none();
    ghosts.into_iter().filter(is_ours).collect()
}

/// The live sessions that need it: they began while it was here, and have nothing else.
fn missing_it(gone: &Remembered, claimed: &Claimed, served: &HashSet<usize>) -> Vec<Claim> {
    let began_with_it =
        |claim: &&Claim| claim.session.started_at.known().is_none_or(|started| started <= gone.last_known());
    let live = claimed.claims.listed.iter().filter(|claim| claim.is_live());
    live.filter(began_with_it)
        .filter(|claim| !served.contains(&session_key(&claim.session)))
        .cloned()
        .collect()
}

/// Adds what is remembered to those who miss it by its name or id; says how many of them are live.
fn tell_named(lost: &mut [Lost], gone: &Remembered, heals: bool, now: Timestamp) -> usize {
    let Container { id, name, .. } = &*gone.container;
    let mut live = 0;
    for lost in lost.iter_mut().filter(|lost| lost.system == gone.system && lost.id.is_none()) {
        if lost.container == *name || lost.container == id.as_str() || lost.container == id.short() {
            lost.id = Some(id.clone());
            lost.way_back = way_back(gone);
            lost.heals = heals && gone.removed.is_none();
            lost.tries = gone.tries.clone();
            lost.evidence.extend(history(gone, now));
            live += usize::from(matches!(lost.evidence.get(1), Some(Evidence::LiveSession { .. })));
        }
    }
    live
}

fn way_back(gone: &Remembered) -> WayBack {
    match gone {
        Remembered { persistent: false, .. } => WayBack::NotPersistent,
        Remembered { has_spec: true, .. } => WayBack::Recreate,
        _ => WayBack::None,
    }
}

/// When it was last seen, how it went, and what can be done about it.
fn history(gone: &Remembered, now: Timestamp) -> Vec<Evidence> {
    let mut evidence = Vec::new();
    if let Some(departure) = &gone.departure {
        evidence.push(departed(departure, now));
    }
    evidence.push(Evidence::LastSeen { ago: elapsed(gone.last_known(), now).unwrap_or_default() });
    if let Some((at, by)) = &gone.removed {
        evidence.push(Evidence::RemovedByUs { ago: elapsed(*at, now).unwrap_or_default(), by: by.clone() });
    }
    if let Some(given_up) = given_up(&gone.tries) {
        evidence.push(given_up);
    }
    evidence.push(Evidence::Comeback(way_back(gone)));
    evidence
}

fn given_up(tries: &crate::domain::recovery::Tries) -> Option<Evidence> {
    tries.given_up().then(|| Evidence::GivenUp { tries: tries.failed, reason: tries.reason.clone() })
}

fn departed(departure: &Departure, now: Timestamp) -> Evidence {
    Evidence::Departed { how: departure.to_string(), ago: elapsed(departure.at, now).unwrap_or_default() }
}

fn lost_for(gone: &Remembered, missing: &[Claim], now: Timestamp) -> Lost {
    let name = gone.container.name.clone();
    let mut evidence = vec![Evidence::ContainerGone { container: name.clone() }];
    evidence.extend(living(missing));
    evidence.extend(history(gone, now));
    let (session, title) = first(missing);
    Lost {
        session,
        title,
        system: gone.system.clone(),
        workspace: gone.workspace.clone(),
        container: name,
        id: Some(gone.container.id.clone()),
        way_back: way_back(gone),
        heals: false,
        tries: gone.tries.clone(),
        evidence,
    }
}

fn first(missing: &[Claim]) -> (String, Option<String>) {
    missing.first().map(|claim| (claim.session.id.clone(), claim.session.title.clone())).unwrap_or_default()
}

fn living(missing: &[Claim]) -> Vec<Evidence> {
    let named = missing.iter().take(NAMED).map(|claim| {
        let quiet = match claim.liveness {
            Liveness::Live { quiet } => quiet,
            _ => None,
        };
        super::claims::live_session(&claim.session, quiet)
    });
    let mut evidence: Vec<Evidence> = named.collect();
    match missing.len().saturating_sub(NAMED) {
        0 => {}
        more => evidence.push(Evidence::MoreLiveSessions(more)),
    }
    evidence
}

/// A session whose container is here, and yet of no use to it: it ended under it, or was put aside.
/// `told` holds those that have another one, or were told already.
fn lost_in_place(
    verdict: &Verdict,
    recalled: &Recalled,
    told: &mut HashSet<usize>,
    now: Timestamp,
) -> Option<Lost> {
    let container = verdict.subject.container()?;
    let claims = verdict.claims.listed.iter().filter(|claim| claim.is_live());
    let live: Vec<Claim> =
        claims.filter(|claim| !told.contains(&session_key(&claim.session))).cloned().collect();
    let ended = matches!(container.state, ContainerState::Exited | ContainerState::Dead);
    if live.is_empty() || verdict.status == crate::domain::Status::Unknown {
        return None;
    }
    let mut tries =
        recalled.tries.get(&(verdict.system.clone()?, container.name.clone())).cloned().unwrap_or_default();
    let (way_back, mut why) = if let Some(aside) = &verdict.quarantine {
        let put_aside = Evidence::Quarantined {
            ago: elapsed(aside.since, now).unwrap_or_default(),
            by: aside.by.clone(),
            left: elapsed(now, aside.until).unwrap_or_default(),
        };
        (WayBack::Restore, vec![put_aside])
    } else {
        let departure =
            recalled.departures.get(&container.id).cloned().or_else(|| told_by_inspect(container))?;
        if !ended || departure.is_ordinary() {
            return None;
        }
        tries = tries.unless_it_lasted(departure.at);
        let way_back = if verdict.persistent { WayBack::Start } else { WayBack::NotPersistent };
        (
            way_back,
            vec![Evidence::ContainerEnded { container: container.name.clone() }, departed(&departure, now)],
        )
    };
    told.extend(live.iter().map(|claim| session_key(&claim.session)));
    let rest = why.split_off(1);
    why.extend(living(&live));
    why.extend(rest);
    why.extend(given_up(&tries));
    why.push(Evidence::Comeback(way_back));
    let (session, title) = first(&live);
    Some(Lost {
        session,
        title,
        system: verdict.system.clone()?,
        workspace: verdict.workspace.clone(),
        container: container.name.clone(),
        id: Some(container.id.clone()),
        way_back,
        heals: false,
        tries,
        evidence: why,
    })
}

/// What an inspect tells of its end. A program that was killed may have been stopped by somebody, so that tells nothing.
fn told_by_inspect(container: &Container) -> Option<Departure> {
    let inspection = container.inspection()?;
    let told = inspection.out_of_memory || inspection.exit_code.is_some_and(|code| code != KILLED);
    told.then_some(Departure {
        at: inspection.finished_at?,
        exit_code: inspection.exit_code,
        out_of_memory: inspection.out_of_memory,
        stopped: false,
        destroyed: false,
    })
}
