//! A wall clock that jumps makes a session that was active a moment ago look silent for a day. The jump is seen by
//! comparing it with a clock that cannot jump.

use std::time::{Duration, Instant};

use jiff::Timestamp;

/// Less is ordinary slewing and scheduling.
const SMALLEST_STEP: Duration = Duration::from_secs(5);
/// How long silence proves nothing after a jump.
const SETTLING: Duration = Duration::from_mins(10);

/// Compares the wall clock with the steady one.
#[derive(Debug, Default)]
pub(super) struct ClockWatch {
    last: Option<(Instant, Timestamp)>,
    step: Option<(Instant, Duration)>,
}

impl ClockWatch {
    /// The jump that was seen lately, if any.
    pub(super) fn look(&mut self) -> Option<Duration> {
        self.look_at(Instant::now(), Timestamp::now())
    }

    fn look_at(&mut self, steady: Instant, wall: Timestamp) -> Option<Duration> {
        if let Some((last_steady, last_wall)) = self.last {
            let passed = steady.saturating_duration_since(last_steady);
            let shown = wall.duration_since(last_wall);
            let step = (shown - jiff::SignedDuration::try_from(passed).unwrap_or_default()).unsigned_abs();
            if step > SMALLEST_STEP {
                self.step = Some((steady, step));
            }
        }
        self.last = Some((steady, wall));
        self.step = self.step.filter(|(since, _)| steady.saturating_duration_since(*since) < SETTLING);
        self.step.map(|(_, step)| step)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_jump_in_either_direction_is_seen_and_remembered_for_a_while() {
        let day = Duration::from_hours(24);
        let start = (Instant::now(), Timestamp::now());
        let second = Duration::from_secs(1);
        for jumped in [start.1 + day, start.1 - day] {
            let mut clock = ClockWatch::default();
            assert_eq!(clock.look_at(start.0, start.1), None);
            assert_eq!(clock.look_at(start.0 + second, start.1 + second), None, "an ordinary second");
            assert!(clock.look_at(start.0 + second * 2, jumped).is_some_and(|step| step > day / 2));
            assert!(clock.look_at(start.0 + second * 3, jumped + second).is_some(), "not forgotten at once");
            assert_eq!(clock.look_at(start.0 + SETTLING * 2, jumped + SETTLING * 2), None, "settled");
        }
    }
}
