//! The last statuses of a container, oldest first. There is one for every container, so it is small.

use crate::domain::Status;

/// How many statuses are remembered.
pub(super) const TIMELINE: usize = 8;

/// The statuses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Timeline([Option<Status>; TIMELINE]);

impl Timeline {
    /// Adds a status, unless nothing has changed; the oldest makes room.
    pub fn note(&mut self, status: Status) {
        let length = self.len();
        if length > 0 && self.0[length - 1] == Some(status) {
            return;
        }
        if length == TIMELINE {
            self.0.rotate_left(1);
            self.0[TIMELINE - 1] = Some(status);
        } else {
            self.0[length] = Some(status);
        }
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.iter().count()
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = Status> {
        self.0.into_iter().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_changes_are_kept_and_the_oldest_makes_room() {
        let mut timeline = Timeline::default();
        for status in [Status::Idle, Status::Idle, Status::Active] {
            timeline.note(status);
        }
        assert_eq!(timeline.iter().collect::<Vec<_>>(), [Status::Idle, Status::Active]);
        for _ in 0..TIMELINE {
            timeline.note(Status::Stale);
            timeline.note(Status::Orphaned);
        }
        assert_eq!(timeline.len(), TIMELINE);
        assert_eq!(timeline.iter().last(), Some(Status::Orphaned));
        assert!(timeline.iter().all(|status| status != Status::Idle));
    }
}
