//! Which sessions claim which containers: hash joins over the links of the profile, linear in both.
//!
//! Sessions are gathered in groups, one per key that some container has. Many containers may share a group (a
//! workspace) without its sessions being copied: a group is summed up once.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use jiff::Timestamp;

use super::attribute::Candidate;
use crate::domain::container::Row;
use crate::domain::evidence::Evidence;
use crate::domain::policy::Policy;
use crate::domain::profile::{LostRule, fill_from_session};
use crate::domain::session::{Liveness, Moment, Session};
use crate::domain::snapshot::{Snapshot, StoreFacts, SystemFacts};
use crate::domain::span::elapsed;
use crate::domain::verdict::{Claim, Claims, Lost};

/// What all sessions that claim a container say together.
#[derive(Clone, Debug, Default)]
pub(super) struct Claimed {
    pub(super) claims: Arc<Claims>,
    /// A session of which it cannot be told whether it is live.
    pub(super) unclear: Option<Evidence>,
    /// A session whose last sign of life cannot be read, so that nobody knows for how long it has been quiet.
    pub(super) activity_unreadable: Option<Evidence>,
}

impl Claimed {
    /// Names the first `named` live sessions and counts the rest.
    pub(super) fn live_evidence(&self, named: usize) -> Vec<Evidence> {
        let live = self.claims.listed.iter().filter_map(|claim| match claim.liveness {
            Liveness::Live { quiet } => Some(live_session(&claim.session, quiet)),
            _ => None,
        });
        let mut evidence: Vec<Evidence> = live.take(named).collect();
        match self.claims.live.saturating_sub(evidence.len()) {
            0 => {}
            more => evidence.push(Evidence::MoreLiveSessions(more)),
        }
        evidence
    }
}

/// Claims per candidate, in their order, and the sessions whose container is gone.
pub(super) struct Joined {
    pub(super) claimed: Vec<Arc<Claimed>>,
    pub(super) lost: Vec<Lost>,
}

/// A session with what was found out about it.
struct Judged<'a> {
    session: &'a Arc<Session>,
    store: &'a str,
    liveness: Liveness,
}

/// Sessions that share a key.
#[derive(Default)]
struct Group {
    link: usize,
    members: Vec<usize>,
}

/// Joins the sessions of all usable stores with the candidates.
pub(super) fn join(
    snapshot: &Snapshot,
    system: &SystemFacts,
    candidates: &[Candidate<'_>],
    policy: &Policy,
    now: Timestamp,
    look_for_lost: bool,
) -> Joined {
    let profile = &system.profile;
    let usable = |store: &&StoreFacts| store.sessions.unusable(now, policy.max_evidence_age).is_none();
    let stores: Vec<&StoreFacts> = system.stores.iter().filter(usable).collect();

    // One table per link: key -> group. Only keys that some container has can form a group.
    let mut groups: Vec<Group> = Vec::new();
    let mut tables: Vec<HashMap<Cow<'_, str>, usize>> =
        profile.links.iter().map(|_| HashMap::new()).collect();
    let mut groups_of: Vec<Vec<usize>> = candidates.iter().map(|_| Vec::new()).collect();
    for (link_index, link) in profile.links.iter().enumerate() {
        for (candidate, its_groups) in candidates.iter().zip(&mut groups_of) {
            let wanted =
                link.only_persistent.is_none_or(|only| only == profile.is_persistent(candidate.container));
            if !wanted {
                continue;
            }
            for key in link.container.iter().filter_map(|template| candidate.recognised.fill(template)) {
                let group = *tables[link_index].entry(key).or_insert_with(|| {
                    groups.push(Group { link: link_index, members: Vec::new() });
                    groups.len() - 1
                });
                if !its_groups.contains(&group) {
                    its_groups.push(group);
                }
            }
        }
    }

    let present = if look_for_lost { snapshot_names(snapshot, policy, now) } else { None };
    let mut judged: Vec<Judged<'_>> = Vec::with_capacity(stores.iter().map(|s| s.sessions.value.len()).sum());
    let mut group_of_session: Vec<Vec<Option<usize>>> = profile.links.iter().map(|_| Vec::new()).collect();
    let mut lost = Vec::new();
    for store in stores {
        for session in store.sessions.value.iter() {
            let liveness = session.liveness(profile.live, now);
            let index = judged.len();
            let mut matched = false;
            let mut missing = None;
            for (link_index, link) in profile.links.iter().enumerate() {
                let excluded = link
                    .unless
                    .as_ref()
                    .is_some_and(|t| fill_from_session(t, session, &store.captures).is_some());
                let key =
                    if excluded { None } else { fill_from_session(&link.session, session, &store.captures) };
                let group = key.as_ref().and_then(|key| tables[link_index].get(key)).copied();
                group_of_session[link_index].push(group);
                if let Some(group) = group {
                    groups[group].members.push(index);
                    matched = true;
                } else if let (Some(key), true) = (key, is_needed(link.lost, &liveness)) {
                    missing = missing.or(Some(key));
                }
            }
            if let (false, Some(key), Some(present)) = (matched, missing, &present)
                && !present.contains(key.as_ref())
            {
                lost.push(lost_session(system, session, &liveness, key.into_owned(), now));
            }
            judged.push(Judged { session, store: &store.path, liveness });
        }
    }

    let summaries: Vec<Arc<Claimed>> =
        groups.iter().map(|group| Arc::new(sum_up(group.members.iter().copied(), &judged))).collect();
    let claimed = groups_of
        .into_iter()
        .map(|mut its| {
            its.retain(|&group| !groups[group].members.is_empty());
            match its.as_slice() {
                [] => Arc::default(),
                [only] => Arc::clone(&summaries[*only]),
                several => Arc::new(merged(several, &groups, &group_of_session, &judged)),
            }
        })
        .collect();
    Joined { claimed, lost }
}

/// Live ones first, then the newest, then by id so that the order is the same every time.
fn rank<'a>(judged: &Judged<'a>) -> (bool, std::cmp::Reverse<Option<Timestamp>>, &'a str) {
    let live = matches!(judged.liveness, Liveness::Live { .. });
    (!live, std::cmp::Reverse(judged.session.newest_moment()), &judged.session.id)
}

fn is_needed(rule: LostRule, liveness: &Liveness) -> bool {
    match rule {
        LostRule::Never => false,
        LostRule::Live => matches!(liveness, Liveness::Live { .. }),
        LostRule::Open => matches!(liveness, Liveness::Live { .. } | Liveness::Quiet),
    }
}

/// Every name and id on the engine, whoever it belongs to; `None` when the list is in doubt or one of its rows
/// could not be named, for then nothing can be called gone.
fn snapshot_names<'a>(snapshot: &'a Snapshot, policy: &Policy, now: Timestamp) -> Option<HashSet<&'a str>> {
    if snapshot.engine.unusable(now, policy.max_evidence_age).is_some() {
        return None;
    }
    let mut present = HashSet::new();
    for row in snapshot.engine.value.iter() {
        let (id, name) = match row {
            Row::Container(container) => (&container.id, container.name.as_str()),
            Row::Unreadable(row) => (row.id.as_ref()?, row.name.as_deref()?),
        };
        present.extend([id.as_str(), id.short(), name]);
    }
    Some(present)
}

fn lost_session(
    system: &SystemFacts,
    session: &Session,
    liveness: &Liveness,
    container: String,
    now: Timestamp,
) -> Lost {
    let why = match liveness {
        Liveness::Live { quiet } => live_session(session, *quiet),
        _ => Evidence::SessionOpen { quiet: session.newest_moment().and_then(|at| elapsed(at, now)) },
    };
    Lost {
        session: session.id.clone(),
        title: session.title.clone(),
        system: system.profile.name.clone(),
        workspace: session.workspace.clone(),
        container: container.clone(),
        evidence: vec![Evidence::ContainerGone { container }, why],
    }
}

fn live_session(session: &Session, quiet: Option<std::time::Duration>) -> Evidence {
    Evidence::LiveSession {
        session: session.id.clone(),
        title: session.title.clone(),
        quiet,
        declared: session.declared_live == Some(true),
    }
}

/// Adds up several groups. A session that claims the container through more than one link counts once.
fn merged(
    its: &[usize],
    groups: &[Group],
    group_of_session: &[Vec<Option<usize>>],
    judged: &[Judged<'_>],
) -> Claimed {
    let members = its.iter().enumerate().flat_map(|(position, &group)| {
        let counted = move |member: usize| {
            its[..position]
                .iter()
                .any(|&earlier| group_of_session[groups[earlier].link][member] == Some(earlier))
        };
        groups[group].members.iter().copied().filter(move |&member| !counted(member))
    });
    sum_up(members, judged)
}

fn sum_up(members: impl Iterator<Item = usize>, judged: &[Judged<'_>]) -> Claimed {
    let mut claims = Claims::default();
    let mut unclear = None;
    let mut activity_unreadable = None;
    let mut ranked: Vec<usize> = Vec::new();
    for member in members {
        let Judged { session, store, liveness } = &judged[member];
        let told = |why: &str| format!("{why} ({store})");
        ranked.push(member);
        claims.total += 1;
        claims.newest_moment = claims.newest_moment.max(session.newest_moment());
        match liveness {
            Liveness::Live { .. } => claims.live += 1,
            Liveness::Ended => claims.ended += 1,
            Liveness::Quiet => {}
            Liveness::Unclear(why) => {
                let evidence = Evidence::LivenessUnclear { session: session.id.clone(), why: told(why) };
                unclear.get_or_insert(evidence);
            }
        }
        if let Some(why) = unreadable_activity(session) {
            let evidence = Evidence::ActivityUnreadable { session: session.id.clone(), why: told(why) };
            activity_unreadable.get_or_insert(evidence);
        }
    }
    ranked.sort_by_key(|&member| rank(&judged[member]));
    let listed = ranked.into_iter().take(Claims::LISTED).map(|member| {
        let Judged { session, liveness, .. } = &judged[member];
        Claim { session: Arc::clone(session), liveness: liveness.clone() }
    });
    claims.listed = listed.collect();
    Claimed { claims: Arc::new(claims), unclear, activity_unreadable }
}

/// What keeps anyone from telling when the session last did something. Its beginning matters only where nothing
/// later is recorded.
fn unreadable_activity(session: &Session) -> Option<&str> {
    let began = match (&session.last_activity_at, &session.ended_at) {
        (Moment::Absent, Moment::Absent) => Some(&session.started_at),
        _ => None,
    };
    [Some(&session.ended_at), Some(&session.last_activity_at), began].into_iter().flatten().find_map(
        |moment| match moment {
            Moment::Unreadable(why) => Some(why.as_str()),
            Moment::At(_) | Moment::Absent => None,
        },
    )
}
