//! Which sessions claim which containers: hash joins over the links of the profile, linear in both.
//!
//! Sessions are gathered in groups, one per key that some container has. A group that several containers share (a
//! workspace) is summed up once; what a container has to itself is added on top.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use super::attribute::Candidate;
use crate::domain::container::Row;
use crate::domain::evidence::Evidence;
use crate::domain::policy::Policy;
use crate::domain::profile::{Link, LostRule, Profile, fill_from_session};
use crate::domain::session::{Liveness, Moment, Session};
use crate::domain::snapshot::{StoreFacts, SystemFacts};
use crate::domain::span::elapsed;
use crate::domain::verdict::{Claim, Claims, Lost};

/// What all sessions that claim a container say together.
#[derive(Clone, Debug, Default)]
pub(super) struct Claimed {
    pub(super) claims: Arc<Claims>,
    /// A session of which it cannot be told whether it is live; of several, the first by id.
    unclear: Option<Doubt>,
    /// A session of which it cannot be told how long it has been quiet; of several, the first by id.
    ageless: Option<Doubt>,
}

/// A session of which something cannot be told, and why.
#[derive(Clone, Debug)]
struct Doubt {
    session: Arc<Session>,
    why: String,
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

    /// Why it cannot be told whether a session is live, if there is such a session.
    pub(super) fn unclear_liveness(&self) -> Option<Evidence> {
        let Doubt { session, why } = self.unclear.as_ref()?;
        Some(Evidence::LivenessUnclear { session: session.id.clone(), why: why.clone() })
    }

    /// Why it cannot be told how long a session has been quiet, if there is such a session.
    pub(super) fn unreadable_activity(&self) -> Option<Evidence> {
        let Doubt { session, why } = self.ageless.as_ref()?;
        Some(Evidence::ActivityUnreadable { session: session.id.clone(), why: why.clone() })
    }
}

/// Claims per candidate, in their order, and the sessions whose container is gone.
pub(super) struct Joined {
    pub(super) claimed: Vec<Claimed>,
    /// Per candidate: a session that may be live, and whose container is not there under the name it gives. It may be in
    /// this one, under another name.
    pub(super) sought_by: Vec<Option<String>>,
    pub(super) lost: Vec<Lost>,
}

/// Joins the sessions of all usable stores with the candidates. `present` holds every name and id on the engine, if
/// they are known.
pub(super) fn join(
    system: &SystemFacts,
    candidates: &[Candidate<'_>],
    present: Option<&HashSet<&str>>,
    policy: &Policy,
    now: Timestamp,
) -> Joined {
    let profile = &system.profile;
    let keys = Keys::of(profile, candidates);
    let usable = |store: &&StoreFacts| store.sessions.unusable(now, policy.max_evidence_age).is_none();
    let stores: Vec<&StoreFacts> = system.stores.iter().filter(usable).collect();

    let count = stores.iter().map(|store| store.sessions.value.len()).sum();
    let mut judged: Vec<Judged<'_>> = Vec::with_capacity(count);
    let mut claims: Vec<(usize, usize)> = Vec::with_capacity(count);
    let mut lost = Vec::new();
    let mut sought: HashMap<usize, String> = HashMap::new();
    for store in stores {
        for session in store.sessions.value.iter() {
            let liveness = session.liveness(profile.live, now);
            let before = claims.len();
            let mut missing = None;
            for (link, groups) in profile.links.iter().zip(&keys.groups) {
                let fill = |template| fill_from_session(template, session, &store.captures);
                let Some(key) = fill(&link.session) else { continue };
                if let Some(named) = link.unless.as_ref().and_then(fill) {
                    let may_be_live = matches!(liveness, Liveness::Live { .. } | Liveness::Unclear(_));
                    let is_there = present.is_some_and(|present| present.contains(named.as_ref()));
                    if let (true, false, Some(group)) = (may_be_live, is_there, groups.get(&key)) {
                        sought.entry(*group).or_insert_with(|| session.id.clone());
                    }
                    continue;
                }
                match groups.get(&key) {
                    Some(group) => claims.push((*group, judged.len())),
                    None if is_needed(link.lost, &liveness) => missing = missing.or(Some(key)),
                    None => {}
                }
            }
            let links = claims.len() - before;
            if let (0, Some(key)) = (links, missing)
                && present.is_some_and(|present| !present.contains(key.as_ref()))
            {
                lost.push(lost_session(system, session, &liveness, key.into_owned(), now));
            }
            judged.push(Judged { session, store, liveness, newest: session.newest_moment(), links });
        }
    }
    lost.sort_by(|a, b| (&a.workspace, &a.session).cmp(&(&b.workspace, &b.session)));
    let members = Lists::sorted(keys.containers.len(), &claims);
    let sought_by =
        |candidate| keys.of_candidate.get(candidate).iter().find_map(|group| sought.get(group).cloned());
    Joined {
        sought_by: (0..candidates.len()).map(sought_by).collect(),
        claimed: Sums { containers: &keys.containers, members, judged }.of_all(&keys.of_candidate),
        lost,
    }
}

/// The keys that containers have. Only these can form a group of sessions.
struct Keys<'a> {
    /// One table per link, from key to group.
    groups: Vec<HashMap<Cow<'a, str>, usize>>,
    /// How many containers have the key of each group.
    containers: Vec<usize>,
    /// The groups of each candidate.
    of_candidate: Lists,
}

impl<'a> Keys<'a> {
    fn of(profile: &Profile, candidates: &[Candidate<'a>]) -> Self {
        let table = |link: &Link| HashMap::with_capacity(candidates.len() * link.container.len());
        let mut groups: Vec<HashMap<Cow<'a, str>, usize>> = profile.links.iter().map(table).collect();
        let mut containers = Vec::new();
        let mut of_candidate = Lists::default();
        for candidate in candidates {
            // Where persistence cannot be told, a link that depends on it counts.
            let counts = |only: bool| profile.persistence_of(candidate.container) != Ok(!only);
            for (link, groups) in profile.links.iter().zip(&mut groups) {
                if !link.only_persistent.is_none_or(counts) {
                    continue;
                }
                for key in link.container.iter().filter_map(|template| candidate.recognised.fill(template)) {
                    let group = *groups.entry(key).or_insert(containers.len());
                    if group == containers.len() {
                        containers.push(0);
                    }
                    if !of_candidate.unfinished().contains(&group) {
                        of_candidate.push(group);
                        containers[group] += 1;
                    }
                }
            }
            of_candidate.finish();
        }
        Self { groups, containers, of_candidate }
    }
}

/// Many short lists in one piece of memory.
#[derive(Default)]
struct Lists {
    items: Vec<usize>,
    ends: Vec<usize>,
}

impl Lists {
    fn push(&mut self, item: usize) {
        self.items.push(item);
    }

    /// The list to which items are being added.
    fn unfinished(&self) -> &[usize] {
        &self.items[self.ends.last().copied().unwrap_or_default()..]
    }

    fn finish(&mut self) {
        self.ends.push(self.items.len());
    }

    fn get(&self, index: usize) -> &[usize] {
        let start = index.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.items[start..self.ends[index]]
    }

    /// Sorts pairs of (list, item) into so many lists; items keep their order.
    fn sorted(lists: usize, pairs: &[(usize, usize)]) -> Self {
        let mut ends = vec![0; lists + 1];
        for (list, _) in pairs {
            ends[list + 1] += 1;
        }
        for list in 0..lists {
            ends[list + 1] += ends[list];
        }
        let mut items = vec![0; pairs.len()];
        for (list, item) in pairs {
            items[ends[*list]] = *item;
            ends[*list] += 1;
        }
        ends.pop();
        Self { items, ends }
    }
}

/// A session with what was found out about it.
struct Judged<'a> {
    session: &'a Arc<Session>,
    store: &'a StoreFacts,
    liveness: Liveness,
    newest: Option<Timestamp>,
    /// Through how many links it claims containers.
    links: usize,
}

impl Judged<'_> {
    fn rank(&self) -> Rank<'_> {
        rank(self.session, &self.liveness, self.newest)
    }

    fn claim(&self) -> Claim {
        Claim { session: Arc::clone(self.session), liveness: self.liveness.clone() }
    }

    /// Why it cannot be told how long it has been quiet. The beginning matters only where nothing later is recorded.
    fn ageless(&self) -> Option<&str> {
        match (&self.liveness, &self.session.last_activity_at) {
            (Liveness::Quiet, _) => self.session.last_trace().err(),
            (Liveness::Ended, Moment::Unreadable(why)) => Some(why),
            _ => None,
        }
    }

    /// Of two doubts the one about the first session by id, so that it is the same every time.
    fn doubted(&self, known: Option<Doubt>, why: &str) -> Option<Doubt> {
        let why = || format!("{why} ({})", self.store.path);
        known
            .filter(|known| known.session.id <= self.session.id)
            .or_else(|| Some(Doubt { session: Arc::clone(self.session), why: why() }))
    }
}

type Rank<'a> = (bool, Reverse<Option<Timestamp>>, &'a str);

/// Live ones first, then the newest, then by id so that the order is the same every time.
fn rank<'a>(session: &'a Session, liveness: &Liveness, newest: Option<Timestamp>) -> Rank<'a> {
    (!matches!(liveness, Liveness::Live { .. }), Reverse(newest), &session.id)
}

fn rank_again(claim: &Claim) -> Rank<'_> {
    rank(&claim.session, &claim.liveness, claim.session.newest_moment())
}

/// Sums up what sessions say, group by group.
struct Sums<'a> {
    /// How many containers share each group.
    containers: &'a [usize],
    /// The sessions of each group.
    members: Lists,
    judged: Vec<Judged<'a>>,
}

impl Sums<'_> {
    /// What each candidate's sessions say together.
    fn of_all(&self, of_candidate: &Lists) -> Vec<Claimed> {
        let mut known = HashMap::new();
        let mut its = Vec::new();
        let sum = |candidate| {
            its.clear();
            its.extend(
                of_candidate.get(candidate).iter().filter(|group| !self.members.get(**group).is_empty()),
            );
            // Shared ones first, the largest at the front: so their sums are found again.
            its.sort_unstable_by_key(|&group| {
                (self.containers[group] == 1, Reverse(self.members.get(group).len()), group)
            });
            let shared = its.partition_point(|&group| self.containers[group] > 1);
            let sum = self.of_shared(&its[..shared], &mut known);
            if shared == its.len() { sum } else { self.added(sum, &its, shared) }
        };
        (0..of_candidate.ends.len()).map(sum).collect()
    }

    /// The sum of groups that several containers share, made once.
    fn of_shared(&self, its: &[usize], known: &mut HashMap<Vec<usize>, Claimed>) -> Claimed {
        let Some(last) = its.len().checked_sub(1) else { return Claimed::default() };
        if let Some(sum) = known.get(its) {
            return sum.clone();
        }
        let sum = self.added(self.of_shared(&its[..last], known), its, last);
        known.insert(its.to_vec(), sum.clone());
        sum
    }

    /// The sum of all groups of `its`, given the sum of the first `summed` of them. A session that claims the
    /// container through more than one link counts once.
    fn added(&self, sum: Claimed, its: &[usize], summed: usize) -> Claimed {
        let Claimed { claims, mut unclear, mut ageless } = sum;
        let mut claims = Arc::unwrap_or_clone(claims);
        let mut fresh: Vec<&Judged<'_>> = Vec::new();
        for (position, group) in its.iter().enumerate().skip(summed) {
            for member in self.members.get(*group) {
                let judged = &self.judged[*member];
                let counted = |earlier: &usize| self.members.get(*earlier).binary_search(member).is_ok();
                if judged.links > 1 && its[..position].iter().any(counted) {
                    continue;
                }
                claims.total += 1;
                claims.newest_moment = claims.newest_moment.max(judged.newest);
                match &judged.liveness {
                    Liveness::Live { .. } => claims.live += 1,
                    Liveness::Ended => claims.ended += 1,
                    Liveness::Quiet => {}
                    Liveness::Unclear(why) => unclear = judged.doubted(unclear, why),
                }
                if let Some(why) = judged.ageless() {
                    ageless = judged.doubted(ageless, why);
                }
                fresh.push(judged);
            }
        }
        if fresh.len() > Claims::LISTED {
            fresh.select_nth_unstable_by_key(Claims::LISTED, |judged| judged.rank());
            fresh.truncate(Claims::LISTED);
        }
        fresh.sort_unstable_by_key(|judged| judged.rank());
        let already_listed = !claims.listed.is_empty();
        claims.listed.extend(fresh.into_iter().map(Judged::claim));
        if already_listed {
            claims.listed.sort_by(|a, b| rank_again(a).cmp(&rank_again(b)));
            claims.listed.truncate(Claims::LISTED);
        }
        Claimed { claims: Arc::new(claims), unclear, ageless }
    }
}

fn is_needed(rule: LostRule, liveness: &Liveness) -> bool {
    match rule {
        LostRule::Never => false,
        LostRule::Live => matches!(liveness, Liveness::Live { .. }),
        LostRule::Open => matches!(liveness, Liveness::Live { .. } | Liveness::Quiet),
    }
}

/// Every name and id on the engine, whoever it belongs to; `None` when one of its rows could not be named, for then
/// nothing can be called gone.
pub(super) fn names_present(rows: &[Row]) -> Option<HashSet<&str>> {
    let mut present = HashSet::new();
    for row in rows {
        let (id, name) = match row {
            Row::Container(container) => (&container.id, container.name.as_str()),
            Row::Unreadable(row) => (row.id.as_ref()?, row.name.as_deref()?),
        };
        if name.is_empty() {
            return None;
        }
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

fn live_session(session: &Session, quiet: Option<Duration>) -> Evidence {
    Evidence::LiveSession {
        session: session.id.clone(),
        title: session.title.clone(),
        quiet,
        declared: session.declared_live == Some(true),
    }
}
