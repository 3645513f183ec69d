//! What a store said before. A store that no longer has what it had is more often a wrong, emptied or half-restored one than
//! one whose sessions all ended without a trace, so nothing is concluded from rows that are missing.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use super::awake::Clock;
use super::session::{LiveRule, Liveness, Moment, Session};

/// The shortest time for which a store is doubted.
pub const SHORTEST_DOUBT: Duration = Duration::from_hours(1);

/// What is remembered of one store. The default is a store that was never read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoreMemory {
    /// When it was last read.
    pub seen_at: Option<Timestamp>,
    /// Whether it has shown that it is the store of the containers that are here.
    pub trust: Trust,
    /// The installations of whose containers it has claimed one by its id, or by a session that the container names.
    pub instances: BTreeSet<String>,
    /// The open sessions that claim a container that is here, by id; one whose id another session
    /// has as well stands beside that one.
    pub claims: BTreeMap<String, RememberedClaim>,
}

/// Whether a store has shown that it is the right one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Trust {
    /// It was never read.
    #[default]
    Unread,
    /// It has claimed none of its system's containers since then.
    Silent {
        /// When that was first seen.
        since: Timestamp,
    },
    /// It has claimed one, was silent for long enough, or was accepted.
    Proven,
}

/// An open session that claims a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RememberedClaim {
    /// As it was last read.
    pub session: Arc<Session>,
    /// Whether it was live then.
    pub live: bool,
    /// Set when the store no longer had it.
    pub vanished: Option<Vanished>,
}

impl RememberedClaim {
    /// Whether a session with the same id is the same one. Many stores count from one: another store's first session began at
    /// another time, and is somewhere else.
    pub fn is_of(&self, session: &Session) -> bool {
        let began = |session: &Session| session.started_at.known().map(Timestamp::as_microsecond);
        let (known, now) = (&self.session, session);
        let same_place = known.workspace == now.workspace && known.container == now.container;
        same_place || (began(known).is_some() && began(known) == began(now))
    }

    /// What it is kept by while another session has its id.
    fn key_beside(&self) -> String {
        let session = &self.session;
        let began = session.started_at.known().map(Timestamp::as_microsecond);
        let place = (began, &session.workspace, &session.container);
        format!("{}{BESIDE}{place:?}", session.id)
    }
}

/// Stands between the id of a session and what tells it from another with that id.
pub const BESIDE: char = '\u{1f}';

/// A session that its store no longer has, though it never said that it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Vanished {
    /// When it was last there.
    pub last_seen: Timestamp,
    /// When it was found missing.
    pub found_at: Timestamp,
    /// Whether so much was missing at that moment that the store itself is in doubt.
    pub casts_doubt: bool,
}

/// Why a store is in doubt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Suspicion {
    /// Since when.
    pub since: Timestamp,
    /// How many open sessions it no longer has.
    pub vanished: usize,
    /// Whether one of them was live.
    pub live: bool,
}

/// How the sessions of a store are read.
#[derive(Clone, Copy, Debug)]
pub struct Habits {
    /// Which of them are live.
    pub live: LiveRule,
    /// Whether its system ends sessions by deleting them: then one that is missing has ended, unless most are missing.
    pub ends_by_deleting: bool,
}

impl StoreMemory {
    /// A store that was found to be the right one, of which nothing else is remembered.
    pub fn proven() -> Self {
        Self { trust: Trust::Proven, ..Self::default() }
    }

    /// Why the store is in doubt, if it is. For how long depends on the container in question.
    pub fn suspicion(&self) -> Option<Suspicion> {
        let mut suspicion: Option<Suspicion> = None;
        for claim in self.claims.values() {
            let Some(Vanished { found_at, casts_doubt: true, .. }) = claim.vanished else { continue };
            let so_far = suspicion.get_or_insert(Suspicion { since: found_at, vanished: 0, live: false });
            so_far.since = so_far.since.max(found_at);
            so_far.vanished += 1;
            so_far.live |= claim.live;
        }
        suspicion
    }

    /// For how much longer a store that has claimed nothing yet is doubted; `None` if it is not.
    pub fn unproven(&self, wait: Duration, clock: Clock<'_>) -> Option<Duration> {
        match self.trust {
            _ if wait.is_zero() => None,
            Trust::Proven => None,
            Trust::Unread => Some(wait),
            Trust::Silent { since } => {
                // Time that cannot have passed is no reason to believe it.
                let passed = clock.quiet_since(since).unwrap_or_default();
                Some(wait.saturating_sub(passed))
            }
        }
    }

    /// The same after another look: remembered sessions that are no longer there have vanished. Nothing new is learnt.
    #[must_use]
    pub fn held_against(&self, sessions: &[Arc<Session>], habits: Habits, clock: Clock<'_>) -> Self {
        let mut memory = self.clone();
        if memory.claims.is_empty() {
            return memory;
        }
        let mut present: HashMap<&str, Vec<&Arc<Session>>> =
            self.claims.values().map(|claim| (claim.session.id.as_str(), Vec::new())).collect();
        for session in sessions {
            if let Some(of_that_id) = present.get_mut(session.id.as_str()) {
                of_that_id.push(session);
            }
        }
        let mut missing = Vec::new();
        let mut open = 0;
        memory.claims.retain(|id, claim| {
            let same_id = present.get(claim.session.id.as_str()).into_iter().flatten();
            let session = same_id.copied().find(|session| claim.is_of(session));
            let ended = session
                .is_some_and(|session| matches!(session.liveness(habits.live, clock), Liveness::Ended));
            if claim.vanished.is_none() && !ended {
                open += 1;
                missing.extend(session.is_none().then(|| id.clone()));
            }
            if session.is_some() {
                claim.vanished = None;
            }
            !ended
        });
        let most = missing.len() >= 2 && missing.len() * 2 > open;
        let was_live = missing.iter().any(|id| memory.claims.get(id).is_some_and(|claim| claim.live));
        let casts_doubt = most || (was_live && !habits.ends_by_deleting);
        let last_seen = self.seen_at.unwrap_or(clock.now);
        for id in missing {
            if habits.ends_by_deleting && !casts_doubt {
                memory.claims.remove(&id);
            } else if let Some(claim) = memory.claims.get_mut(&id) {
                claim.vanished = Some(Vanished { last_seen, found_at: clock.now, casts_doubt });
            }
        }
        memory
    }

    /// Takes up what another program has learnt meanwhile. What was known in `before` and is no longer has been forgotten for a
    /// reason.
    pub fn learn(&mut self, other: &Self, before: &Self) {
        for (id, claim) in &other.claims {
            if !before.claims.contains_key(id) {
                self.claims.entry(id.clone()).or_insert_with(|| claim.clone());
            }
        }
    }

    /// Remembers that an open session claims a container. Another one that has or had its id is not forgotten for that.
    pub fn add(&mut self, session: &Arc<Session>, live: bool) {
        let claim = RememberedClaim { session: Arc::clone(session), live, vanished: None };
        let beside = claim.key_beside();
        let is_taken = self.claims.get(&session.id).is_some_and(|before| !before.is_of(session));
        let key = if is_taken || self.claims.contains_key(&beside) { beside } else { session.id.clone() };
        self.claims.insert(key, claim);
    }

    /// The sessions that have vanished, as open ones that have been quiet since they were last seen.
    pub fn vanished(&self) -> impl Iterator<Item = Arc<Session>> {
        self.claims.values().filter_map(|claim| {
            let Vanished { last_seen, .. } = claim.vanished?;
            Some(Arc::new(Session {
                last_activity_at: Moment::At(last_seen),
                ended_at: Moment::Absent,
                declared_live: Some(false),
                vanished: true,
                ..(*claim.session).clone()
            }))
        })
    }

    /// The operator has said that this is the right store, as it was seen at that time: what it no longer had then is over. Whose
    /// containers it claims it has to show anew, for it may be another installation's.
    pub fn accept(&mut self, seen_at: Timestamp) {
        self.trust = Trust::Proven;
        self.instances.clear();
        self.claims.retain(|_, claim| claim.vanished.is_none_or(|vanished| vanished.found_at > seen_at));
    }
}
