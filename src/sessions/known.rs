//! What was read before, so that a session that has not changed is kept once: a store with many sessions is read again and
//! again, and almost all of it stays the same.

use std::sync::Arc;

use crate::domain::Session;

/// How far ahead a session is looked for when others before it have gone.
const AHEAD: usize = 16;

/// The sessions of the last reading, in their order.
pub(super) struct Known<'a> {
    sessions: &'a [Arc<Session>],
    next: usize,
}

impl<'a> Known<'a> {
    pub(super) fn new(sessions: &'a [Arc<Session>]) -> Self {
        Self { sessions, next: 0 }
    }

    /// The session, as it was kept before if it is the same. Queries give an order, so it is where it was or nearby;
    /// one that is not found there only costs its memory.
    pub(super) fn keep(&mut self, session: Session) -> Arc<Session> {
        let ahead = self.sessions[self.next..].iter().take(AHEAD);
        let Some(steps) = ahead.into_iter().position(|known| known.id == session.id) else {
            return Arc::new(session);
        };
        let known = &self.sessions[self.next + steps];
        self.next += steps + 1;
        if **known == session { Arc::clone(known) } else { Arc::new(session) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::session::Moment;

    fn session(id: usize, title: &str) -> Session {
        Session {
            vanished: false,
            id: id.to_string(),
            workspace: None,
            container: None,
            title: Some(title.to_owned()),
            started_at: Moment::Absent,
            last_activity_at: Moment::Absent,
            ended_at: Moment::Absent,
            declared_live: None,
        }
    }

    #[test]
    fn what_is_the_same_is_kept_and_what_changed_is_not() {
        let before: Vec<Arc<Session>> = (0..10).map(|id| Arc::new(session(id, "old"))).collect();
        let mut known = Known::new(&before);
        // One is new, two are gone, one has changed.
        let now = [(10, "new"), (0, "old"), (3, "old"), (4, "changed"), (5, "old"), (9, "old")];
        let kept: Vec<Arc<Session>> = now.iter().map(|(id, title)| known.keep(session(*id, title))).collect();
        for (session, (id, title)) in kept.iter().zip(now) {
            assert_eq!(
                (session.id.as_str(), session.title.as_deref()),
                (id.to_string().as_str(), Some(title))
            );
            let same = before.iter().any(|before| Arc::ptr_eq(before, session));
            assert_eq!(same, title == "old", "{id}");
        }
    }
}
