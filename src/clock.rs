//! The clocks of this host: the wall clock, which can be set, the time since it was switched on, and how much of that it was
//! awake. Comparing them shows that the wall clock was set, and that the host slept.

use std::sync::OnceLock;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use rustix::time::{ClockId, clock_gettime};

use crate::domain::awake::{Awake, Sleep};

/// Less is ordinary slewing and scheduling.
const SMALLEST_STEP: Duration = Duration::from_secs(5);
/// How long silence proves nothing after the wall clock was set.
const SETTLING: Duration = Duration::from_mins(10);
/// Shorter sleeps change nothing.
const SHORTEST_SLEEP: Duration = Duration::from_secs(1);
/// So many sleeps are kept; older ones count as one.
const SLEEPS: usize = 64;

/// All clocks at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reading {
    /// Tells one time the host was switched on from another.
    pub boot: String,
    /// What the wall clock shows.
    pub wall: Timestamp,
    /// The time since the host was switched on, sleep included.
    pub up: Duration,
    /// How much of it the host was awake.
    pub awake: Duration,
}

impl Reading {
    /// Reads them now.
    pub fn now() -> Self {
        static BOOT: OnceLock<String> = OnceLock::new();
        let read = |clock| {
            let time = clock_gettime(clock);
            let (seconds, nanos) = (u64::try_from(time.tv_sec), u32::try_from(time.tv_nsec));
            Duration::new(seconds.unwrap_or_default(), nanos.unwrap_or_default())
        };
        let boot = BOOT.get_or_init(|| {
            let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
            id.trim().to_owned()
        });
        let (up, awake) = (read(ClockId::Boottime), read(ClockId::Monotonic));
        Self { boot: boot.clone(), wall: Timestamp::now(), up, awake }
    }

    /// By how much the wall clock was set between two readings of one boot.
    fn step_since(&self, earlier: &Self) -> SignedDuration {
        let passed = SignedDuration::try_from(self.up.saturating_sub(earlier.up)).unwrap_or_default();
        self.wall.duration_since(earlier.wall) - passed
    }

    fn asleep(&self) -> Duration {
        self.up.saturating_sub(self.awake)
    }
}

/// The first reading of this program, taken before it does anything else.
static START: OnceLock<Reading> = OnceLock::new();

/// Takes the first reading. `main` calls this first thing: whatever is compared later is compared with that moment.
pub fn start() {
    START.get_or_init(Reading::now);
}

/// The last reading, and what the readings before it showed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct History {
    /// The last reading.
    pub last: Reading,
    /// When the wall clock was last seen to have been set, and by how much.
    pub step: Option<(Timestamp, Duration)>,
    /// The sleeps of this boot.
    pub slept: Vec<Sleep>,
}

impl History {
    /// The history of this program, after what an earlier one has left.
    pub fn since(kept: Option<Self>) -> Self {
        let start = START.get_or_init(Reading::now).clone();
        match kept {
            Some(mut kept) => {
                kept.add(start);
                kept
            }
            None => Self::beginning(start),
        }
    }

    /// Nothing is known from before. All sleep of this boot may have been a moment ago.
    fn beginning(start: Reading) -> Self {
        let length = start.asleep();
        let slept = (length >= SHORTEST_SLEEP).then_some(Sleep { until: start.wall, length });
        Self { slept: slept.into_iter().collect(), last: start, step: None }
    }

    /// Takes up another reading.
    pub fn add(&mut self, now: Reading) {
        if now.boot != self.last.boot || now.up < self.last.up {
            let step = self.step;
            *self = Self { step, ..Self::beginning(now) };
            return;
        }
        let step = now.step_since(&self.last);
        let mut length = now.asleep().saturating_sub(self.last.asleep());
        if step.unsigned_abs() > SMALLEST_STEP {
            self.step = Some((now.wall, step.unsigned_abs()));
            // The sleeps were told by the clock that was set: they may have been just now.
            length += self.slept.drain(..).map(|sleep| sleep.length).sum::<Duration>();
            // A machine that is halted from outside and resumed does not count that time on any clock of its own, and is then
            // set forward. Nobody lived through it, and neither through the time a slow clock is set right by.
            length += Duration::try_from(step).unwrap_or_default();
        }
        if length >= SHORTEST_SLEEP {
            self.slept.push(Sleep { until: now.wall, length });
        }
        while self.slept.len() > SLEEPS {
            let oldest = self.slept.remove(0);
            if let Some(next) = self.slept.first_mut() {
                next.length += oldest.length;
            }
        }
        self.last = now;
    }

    /// By how much the wall clock was set lately, if it was. While this is known, silence proves nothing.
    pub fn recent_step(&self) -> Option<Duration> {
        let (at, step) = self.step?;
        let since = self.last.wall.duration_since(at).unsigned_abs();
        (since < SETTLING).then_some(step)
    }

    /// When the host was off or asleep.
    pub fn awake(&self) -> Awake {
        let Reading { wall, up, .. } = &self.last;
        Awake { booted_at: wall.checked_sub(*up).ok(), slept: self.slept.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::awake::Clock;

    const HOUR: Duration = Duration::from_hours(1);

    fn reading(wall: i64, up: Duration, awake: Duration) -> Reading {
        Reading { boot: "b".to_owned(), wall: Timestamp::constant(wall, 0), up, awake }
    }

    fn later(reading: &Reading, wall: Duration, up: Duration, awake: Duration) -> Reading {
        let mut later = reading.clone();
        later.wall += wall;
        later.up += up;
        later.awake += awake;
        later
    }

    #[test]
    fn a_wall_clock_that_was_set_is_seen_and_doubted_for_a_while() {
        let second = Duration::from_secs(1);
        for jumped in [HOUR * 24, Duration::ZERO] {
            let start = reading(1_772_366_400, HOUR, HOUR);
            let mut history = History::beginning(start.clone());
            history.add(later(&start, second, second, second));
            assert_eq!(history.recent_step(), None, "an ordinary second");
            let last = history.last.clone();
            history.add(later(&last, jumped, second * 60, second * 60));
            assert!(history.recent_step().is_some(), "{jumped:?} on the wall, a minute on the other clocks");
            let last = history.last.clone();
            history.add(later(&last, second, second, second));
            assert!(history.recent_step().is_some(), "not forgotten at once");
            let last = history.last.clone();
            history.add(later(&last, SETTLING, SETTLING, SETTLING));
            assert_eq!(history.recent_step(), None, "settled");
        }
    }

    #[test]
    fn sleep_is_no_jump_and_is_remembered() {
        let start = reading(1_772_366_400, HOUR, HOUR);
        let mut history = History::beginning(start.clone());
        history.add(later(&start, HOUR * 8, HOUR * 8, HOUR));
        assert_eq!(history.recent_step(), None);
        assert_eq!(history.awake().slept, [Sleep { until: history.last.wall, length: HOUR * 7 }]);
    }

    #[test]
    fn a_machine_that_was_halted_and_set_forward_was_not_quiet_meanwhile() {
        let start = reading(1_772_366_400, HOUR * 720, HOUR * 720);
        let mut history = History::beginning(start.clone());
        history.add(later(&start, HOUR * 60, Duration::ZERO, Duration::ZERO));
        let resumed = history.last.clone();
        history.add(later(&resumed, HOUR, HOUR, HOUR));
        assert_eq!(history.recent_step(), None, "settled");
        let awake = history.awake();
        let quiet = Clock::new(history.last.wall, &awake).quiet_since(start.wall);
        assert_eq!(quiet, Some(HOUR), "of 61 hours one was spent awake");
    }

    #[test]
    fn sleeps_before_a_step_are_kept_as_one() {
        let start = reading(1_772_366_400, HOUR * 100, HOUR * 100);
        let mut history = History::beginning(start.clone());
        for _ in 0..2 {
            let last = history.last.clone();
            history.add(later(&last, HOUR * 8, HOUR * 8, HOUR));
        }
        let last = history.last.clone();
        history.add(later(&last, Duration::ZERO, HOUR, HOUR));
        assert_eq!(history.slept, [Sleep { until: history.last.wall, length: HOUR * 14 }]);
    }

    #[test]
    fn without_a_history_all_sleep_of_this_boot_may_have_been_just_now() {
        let history = History::beginning(reading(1_772_366_400, HOUR * 10, HOUR * 2));
        assert_eq!(history.awake().slept, [Sleep { until: history.last.wall, length: HOUR * 8 }]);
    }

    #[test]
    fn another_boot_begins_anew() {
        let start = reading(1_772_366_400, HOUR * 100, HOUR * 100);
        let mut history = History::beginning(start.clone());
        let mut rebooted = later(&start, HOUR * 60, Duration::ZERO, Duration::ZERO);
        (rebooted.boot, rebooted.up, rebooted.awake) = ("c".to_owned(), HOUR, HOUR);
        history.add(rebooted.clone());
        assert_eq!(history.awake().booted_at, Some(rebooted.wall - HOUR));
        assert_eq!(history.recent_step(), None);
    }
}
