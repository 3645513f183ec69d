//! One connection at a time to one file. The connections of one process share SQLite's index of the write-ahead log, so one that
//! leads to dead files would mislead the next; and a file must not be closed by one while another holds its locks.

use std::collections::BTreeSet;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use crate::database::Identity;
use crate::sessions::fault::StoreFault;

static TAKEN: Mutex<BTreeSet<Identity>> = Mutex::new(BTreeSet::new());
static GIVEN_BACK: Condvar = Condvar::new();

/// The right to open this file, until dropped.
#[derive(Debug)]
pub(super) struct Turn(Identity);

impl Turn {
    /// Waits for whoever has it open.
    pub(super) fn take(file: Identity, deadline: Instant) -> Result<Self, StoreFault> {
        let mut taken = taken();
        while !taken.insert(file) {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(StoreFault::Stuck);
            }
            let woken = GIVEN_BACK.wait_timeout(taken, left);
            (taken, _) = woken.unwrap_or_else(PoisonError::into_inner);
        }
        Ok(Self(file))
    }

    pub(super) fn is_for(&self, file: Identity) -> bool {
        self.0 == file
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        taken().remove(&self.0);
        GIVEN_BACK.notify_all();
    }
}

/// The set is whole after every step, so a panic elsewhere leaves it so.
fn taken() -> MutexGuard<'static, BTreeSet<Identity>> {
    TAKEN.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_file_is_opened_by_one_at_a_time_and_others_by_anybody() {
        let now = Instant::now();
        let first = Turn::take((u64::MAX, 1), now).unwrap();
        assert!(matches!(Turn::take((u64::MAX, 1), now), Err(StoreFault::Stuck)));
        assert!(Turn::take((u64::MAX, 2), now).is_ok());
        let next = std::thread::spawn(|| Turn::take((u64::MAX, 1), Instant::now() + Duration::from_mins(3)));
        drop(first);
        assert!(next.join().unwrap().is_ok());
        assert!(Turn::take((u64::MAX, 1), now).is_ok());
    }
}
