//! Which sessions claim which containers: hash joins over the links of the profile, linear in both.
//!
//! Sessions are gathered in groups, one per key that some container has. A group that several containers share (a
//! workspace) is summed up once; what a container has to itself is added on top.

use std::borrow::{Borrow, Cow};
use std::cmp::{Ordering, Reverse};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use super::attribute::Candidate;
use super::hash::{QuickMap, QuickSet, Seeded};
use crate::domain::awake::Clock;
use crate::domain::container::Row;
use crate::domain::evidence::Evidence;
use crate::domain::policy::Policy;
use crate::domain::profile::{Link, LostRule, Profile, fill_from_session};
use crate::domain::recovery::Tries;
use crate::domain::session::{Liveness, Moment, Session};
use crate::domain::snapshot::{StoreFacts, SystemFacts};
use crate::domain::span::elapsed;
use crate::domain::verdict::{Claim, Claims, Lost, WayBack};

/// What all sessions that claim a container say together. There is one for every container; what is rare is boxed.
#[derive(Clone, Debug, Default)]
pub(super) struct Claimed {
    pub(super) claims: Arc<Claims>,
    /// Why it cannot be told whether a session is live, if there is such a session.
    pub(super) unclear_liveness: Option<Box<Evidence>>,
    /// Why it cannot be told how long a session has been quiet, if there is such a session.
    pub(super) unreadable_activity: Option<Box<Evidence>>,
    /// The places of the stores whose sessions claim it, in order.
    pub(super) stores: Vec<usize>,
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
    pub(super) claimed: Vec<Claimed>,
    /// Per candidate: a session that may be live, and whose container is not there under the name it gives. It may be in
    /// this one, under another name.
    pub(super) sought_by: Vec<Option<String>>,
    pub(super) lost: Vec<Lost>,
    /// The sessions that claim some candidate, by [`session_key`].
    pub(super) served: HashSet<usize>,
}

/// Tells sessions of one look apart, whatever they call themselves.
pub(super) fn session_key(session: &Arc<Session>) -> usize {
    Arc::as_ptr(session).addr()
}

/// Joins the sessions of all usable stores with the candidates. `present` holds every name and id on the engine, if
/// they are known; `removed` those that are known to have been removed.
pub(super) fn join<Name: Borrow<str> + Eq + Hash>(
    system: &SystemFacts,
    candidates: &[Candidate<'_>],
    present: Option<&QuickSet<Name>>,
    removed: &HashSet<&str>,
    policy: &Policy,
    clock: Clock<'_>,
) -> Joined {
    let profile = &system.profile;
    let keys = Keys::of(profile, candidates);
    let usable = |store: &&StoreFacts| store.sessions.unusable(clock.now, policy.max_evidence_age).is_none();
    let stores: Vec<(usize, &StoreFacts)> =
        system.stores.iter().enumerate().filter(|(_, store)| usable(store)).collect();

    let count = stores.iter().map(|(_, store)| store.sessions.value.len()).sum();
    let mut judged: Vec<Judged<'_>> = Vec::with_capacity(count);
    let mut claims: Vec<(usize, usize)> = Vec::with_capacity(count * profile.links.len());
    let mut lost = Vec::new();
    let mut served = HashSet::new();
    let mut sought: HashMap<usize, &str> = HashMap::new();
    for (place, store) in stores {
        let live = profile.live_rule(store.lifetime, policy.default_lifetime);
        for session in store.sessions.value.iter() {
            let liveness = session.liveness(live, clock);
            let before = claims.len();
            let mut missing = None;
            for (link, groups) in profile.links.iter().zip(&keys.groups) {
                let fill = |template| fill_from_session(template, session, &store.captures);
                let Some(key) = fill(&link.session) else { continue };
                if let Some(named) = link.unless.as_ref().and_then(fill) {
                    let is_recent =
                        |at| clock.quiet_since(at).is_none_or(|quiet| quiet < policy.open_lifetime);
                    let may_need_it = match liveness {
                        Liveness::Live { .. } | Liveness::Unclear(_) => true,
                        Liveness::Ended => false,
                        // What was removed is not here under another name.
                        Liveness::Quiet if removed.contains(named.as_ref()) => false,
                        Liveness::Quiet => session.newest_moment().is_none_or(is_recent),
                    };
                    let is_there = present.is_some_and(|present| present.contains(named.as_ref()));
                    if let (true, false, Some(group)) = (may_need_it, is_there, groups.get(&key)) {
                        let first = sought.entry(*group).or_insert(&session.id);
                        *first = session.id.as_str().min(first);
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
                lost.push(lost_session(system, session, &liveness, key.into_owned(), clock.now));
            }
            if links > 0 && matches!(liveness, Liveness::Live { .. }) {
                served.insert(session_key(session));
            }
            let ageless = why_ageless(session, &liveness).is_some();
            let (newest, repeats) = (session.newest_moment(), links > 1);
            judged.push(Judged { session, store, place, liveness, newest, repeats, ageless });
        }
    }
    lost.sort_by(|a, b| (&a.workspace, &a.session).cmp(&(&b.workspace, &b.session)));
    let members = Lists::sorted(keys.containers.len(), &claims);
    let sought_by = |candidate| {
        let seekers = keys.of_candidate.get(candidate).iter().filter_map(|group| sought.get(group));
        seekers.min().map(ToString::to_string)
    };
    Joined {
        sought_by: (0..candidates.len()).map(sought_by).collect(),
        claimed: Sums { containers: &keys.containers, members, judged }.of_all(&keys.of_candidate),
        lost,
        served,
    }
}

/// The keys that containers have. Only these can form a group of sessions.
pub(super) struct Keys<'a> {
    /// One table per link, from key to group.
    groups: Vec<QuickMap<Cow<'a, str>, usize>>,
    /// How many containers have the key of each group.
    containers: Vec<usize>,
    /// The groups of each candidate.
    of_candidate: Lists,
}

impl<'a> Keys<'a> {
    pub(super) fn of(profile: &Profile, candidates: &[Candidate<'a>]) -> Self {
        let table = |link: &Link| {
            QuickMap::with_capacity_and_hasher(candidates.len() * link.container.len(), Seeded::default())
        };
        let mut groups: Vec<QuickMap<Cow<'a, str>, usize>> = profile.links.iter().map(table).collect();
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

    /// Whether a session claims one of the containers.
    pub(super) fn has_claim_of(
        &self,
        profile: &Profile,
        session: &Session,
        captures: &BTreeMap<String, String>,
    ) -> bool {
        profile.links.iter().zip(&self.groups).any(|(link, groups)| {
            let fill = |template| fill_from_session(template, session, captures);
            fill(&link.session)
                .is_some_and(|key| link.unless.as_ref().and_then(fill).is_none() && groups.contains_key(&key))
        })
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
    /// Which of the system's stores that is.
    place: usize,
    liveness: Liveness,
    newest: Option<Timestamp>,
    /// Whether it claims containers through more than one link.
    repeats: bool,
    /// Whether it cannot be told how long it has been quiet.
    ageless: bool,
}

impl Judged<'_> {
    /// Live ones first, then the newest, then by id so that the order is the same every time.
    fn order(&self, other: &Self) -> Ordering {
        let rank =
            |judged: &Self| (!matches!(judged.liveness, Liveness::Live { .. }), Reverse(judged.newest));
        rank(self).cmp(&rank(other)).then_with(|| self.session.id.cmp(&other.session.id))
    }

    fn claim(&self) -> Claim {
        Claim { session: Arc::clone(self.session), liveness: self.liveness.clone() }
    }

    fn unclear_liveness(&self) -> Option<Evidence> {
        let Liveness::Unclear(why) = &self.liveness else { return None };
        Some(Evidence::LivenessUnclear { session: self.session.id.clone(), why: self.told_by_store(why) })
    }

    fn unreadable_activity(&self) -> Option<Evidence> {
        let why = why_ageless(self.session, &self.liveness)?;
        Some(Evidence::ActivityUnreadable { session: self.session.id.clone(), why: self.told_by_store(why) })
    }

    fn told_by_store(&self, why: &str) -> String {
        format!("{why} ({})", self.store.path)
    }
}

/// Why it cannot be told how long it has been quiet. The beginning matters only where nothing later is recorded.
fn why_ageless<'a>(session: &'a Session, liveness: &Liveness) -> Option<&'a str> {
    match (liveness, &session.last_activity_at) {
        (Liveness::Quiet, _) => session.last_trace().err(),
        (Liveness::Ended, Moment::Unreadable(why)) => Some(why),
        _ => None,
    }
}

/// What several sessions say together; sessions are told by their place.
#[derive(Clone, Default)]
struct Sum {
    total: usize,
    live: usize,
    ended: usize,
    vanished: usize,
    newest: Option<Timestamp>,
    /// The places of their stores, which are few.
    stores: Vec<usize>,
    /// The first by id of those whose liveness is unclear.
    unclear: Option<usize>,
    /// The first by id of those that are ageless.
    ageless: Option<usize>,
    /// Those that will be listed.
    listed: Vec<usize>,
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
        let claimed = |candidate| {
            its.clear();
            let groups = of_candidate.get(candidate).iter();
            its.extend(groups.filter(|group| !self.members.get(**group).is_empty()));
            // Shared ones first, the largest at the front: so their sums are found again.
            its.sort_unstable_by_key(|&group| {
                (self.containers[group] == 1, Reverse(self.members.get(group).len()), group)
            });
            let shared = its.partition_point(|&group| self.containers[group] > 1);
            self.add_shared(&its[..shared], &mut known);
            match known.get(&its[..shared]) {
                Some((_, claimed)) if shared == its.len() => Claimed::clone(claimed),
                Some((sum, _)) => self.claimed(&self.added(sum.clone(), &its, shared)),
                None => self.claimed(&self.added(Sum::default(), &its, shared)),
            }
        };
        (0..of_candidate.ends.len()).map(claimed).collect()
    }

    /// Sums up groups that several containers share, once.
    fn add_shared(&self, its: &[usize], known: &mut HashMap<Vec<usize>, (Sum, Claimed)>) {
        let Some((_, before)) = its.split_last() else { return };
        if known.contains_key(its) {
            return;
        }
        self.add_shared(before, known);
        let sum = known.get(before).map(|(sum, _)| sum.clone()).unwrap_or_default();
        let sum = self.added(sum, its, before.len());
        let claimed = self.claimed(&sum);
        known.insert(its.to_vec(), (sum, claimed));
    }

    /// The sum of all groups of `its`, given the sum of the first `summed` of them. A session that claims the
    /// container through more than one link counts once.
    fn added(&self, mut sum: Sum, its: &[usize], summed: usize) -> Sum {
        sum.listed.reserve_exact(its[summed..].iter().map(|group| self.members.get(*group).len()).sum());
        for (position, group) in its.iter().enumerate().skip(summed) {
            for &member in self.members.get(*group) {
                let judged = &self.judged[member];
                let counted = |earlier: &usize| self.members.get(*earlier).binary_search(&member).is_ok();
                if judged.repeats && its[..position].iter().any(counted) {
                    continue;
                }
                sum.total += 1;
                sum.vanished += usize::from(judged.session.vanished);
                sum.newest = sum.newest.max(judged.newest);
                if let Err(place) = sum.stores.binary_search(&judged.place) {
                    sum.stores.insert(place, judged.place);
                }
                match judged.liveness {
                    Liveness::Live { .. } => sum.live += 1,
                    Liveness::Ended => sum.ended += 1,
                    Liveness::Quiet => {}
                    Liveness::Unclear(_) => sum.unclear = Some(self.first_by_id(sum.unclear, member)),
                }
                if judged.ageless {
                    sum.ageless = Some(self.first_by_id(sum.ageless, member));
                }
                sum.listed.push(member);
            }
        }
        let order = |a: &usize, b: &usize| self.judged[*a].order(&self.judged[*b]);
        if sum.listed.len() > Claims::LISTED {
            sum.listed.select_nth_unstable_by(Claims::LISTED, order);
            sum.listed.truncate(Claims::LISTED);
        }
        sum.listed.sort_unstable_by(order);
        sum
    }

    fn first_by_id(&self, known: Option<usize>, member: usize) -> usize {
        known
            .filter(|known| self.judged[*known].session.id <= self.judged[member].session.id)
            .unwrap_or(member)
    }

    fn claimed(&self, sum: &Sum) -> Claimed {
        let claims = Claims {
            total: sum.total,
            live: sum.live,
            ended: sum.ended,
            vanished: sum.vanished,
            newest_moment: sum.newest,
            listed: sum.listed.iter().map(|member| self.judged[*member].claim()).collect(),
        };
        let judged = |member: Option<usize>| member.map(|member| &self.judged[member]);
        Claimed {
            claims: Arc::new(claims),
            unclear_liveness: judged(sum.unclear).and_then(Judged::unclear_liveness).map(Box::new),
            unreadable_activity: judged(sum.ageless).and_then(Judged::unreadable_activity).map(Box::new),
            stores: sum.stores.clone(),
        }
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
pub(super) fn names_present(rows: &[Row]) -> Option<QuickSet<&str>> {
    let mut present = QuickSet::with_capacity_and_hasher(rows.len() * 3, Seeded::default());
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
        id: None,
        way_back: WayBack::None,
        heals: false,
        tries: Tries::default(),
        evidence: vec![Evidence::ContainerGone { container }, why],
    }
}

pub(super) fn live_session(session: &Session, quiet: Option<Duration>) -> Evidence {
    Evidence::LiveSession {
        session: session.id.clone(),
        title: session.title.clone(),
        quiet,
        declared: session.declared_live == Some(true),
    }
}
