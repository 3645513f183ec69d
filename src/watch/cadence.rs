//! Pauses between attempts: growing while something fails, capped, and back to normal at the first success.

use std::time::Duration;

const FIRST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(15);

/// The pause after failures.
#[derive(Debug, Default)]
pub(super) struct Backoff {
    failures: u32,
}

impl Backoff {
    /// Takes note of an attempt and says how long to wait before the next; `usual` is the pause after a success.
    pub(super) fn after(&mut self, success: bool, usual: Duration) -> Duration {
        if success {
            self.failures = 0;
            return usual;
        }
        let pause = FIRST.saturating_mul(1 << self.failures.min(8)).min(LONGEST);
        self.failures += 1;
        pause
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_a_cap_and_a_success_ends_them() {
        let usual = Duration::from_secs(10);
        let mut backoff = Backoff::default();
        let pauses: Vec<u64> = (0..6).map(|_| backoff.after(false, usual).as_secs()).collect();
        assert_eq!(pauses, [1, 2, 4, 8, 15, 15]);
        assert_eq!(backoff.after(true, usual), usual);
        assert_eq!(backoff.after(false, usual).as_secs(), 1);
    }
}
