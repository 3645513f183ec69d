//! How long the host was awake. Nobody can use a sandbox while its host sleeps or is switched off, so that time is not
//! silence: what was active right before a sleep is still warm after it.

use std::time::Duration;

use jiff::Timestamp;

use super::span::elapsed;

/// When the host was not awake, as far as it matters and is known. The default has never slept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Awake {
    /// When it was switched on.
    pub booted_at: Option<Timestamp>,
    /// Its sleeps since then.
    pub slept: Vec<Sleep>,
}

/// A time the host slept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sleep {
    /// When it was first seen awake again.
    pub until: Timestamp,
    /// For how long it slept.
    pub length: Duration,
}

/// The current time, and how much of the past the host was awake.
#[derive(Clone, Copy, Debug)]
pub struct Clock<'a> {
    /// The current time.
    pub now: Timestamp,
    awake: Option<&'a Awake>,
}

impl<'a> Clock<'a> {
    /// A clock that counts only the time the host was awake as quiet.
    pub fn new(now: Timestamp, awake: &'a Awake) -> Self {
        Self { now, awake: Some(awake) }
    }

    /// A clock that counts all time as quiet.
    pub fn wall(now: Timestamp) -> Self {
        Self { now, awake: None }
    }

    /// For how long the host was awake since then; `None` if that lies ahead.
    pub fn quiet_since(&self, since: Timestamp) -> Option<Duration> {
        let passed = elapsed(since, self.now)?;
        let Some(Awake { booted_at, slept }) = self.awake else { return Some(passed) };
        // Never more than since it was switched on, whatever the clock showed before.
        let since = booted_at.map_or(since, |booted_at| since.max(booted_at));
        let passed = elapsed(since, self.now).unwrap_or_default();
        let asleep = slept.iter().filter_map(|sleep| {
            // Where in the time before `until` it slept is not known. All of it counts that can lie after `since`.
            elapsed(since, sleep.until).map(|room| sleep.length.min(room))
        });
        Some(passed.saturating_sub(asleep.sum()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOON: Timestamp = Timestamp::constant(1_772_366_400, 0);
    const HOUR: Duration = Duration::from_hours(1);

    fn quiet(awake: &Awake, since: Timestamp) -> Option<Duration> {
        Clock::new(NOON, awake).quiet_since(since)
    }

    #[test]
    fn a_night_asleep_is_not_silence() {
        let awake = Awake { slept: vec![Sleep { until: NOON - HOUR, length: HOUR * 8 }], ..Awake::default() };
        assert_eq!(quiet(&awake, NOON - HOUR * 10), Some(HOUR * 2), "two of ten hours were spent awake");
        assert_eq!(quiet(&awake, NOON - HOUR / 2), Some(HOUR / 2), "after the sleep every minute counts");
        assert_eq!(
            quiet(&awake, NOON - HOUR * 2),
            Some(HOUR),
            "what was active in the last hour of it was not"
        );
        assert_eq!(quiet(&awake, NOON + HOUR), None, "what lies ahead is not in the past");
    }

    #[test]
    fn silence_is_never_longer_than_the_host_is_up() {
        let awake = Awake { booted_at: Some(NOON - HOUR), ..Awake::default() };
        assert_eq!(quiet(&awake, NOON - HOUR * 60), Some(HOUR));
        assert_eq!(quiet(&awake, NOON - HOUR / 4), Some(HOUR / 4));
        let ahead = Awake { booted_at: Some(NOON + HOUR), ..Awake::default() };
        assert_eq!(
            quiet(&ahead, NOON - HOUR),
            Some(Duration::ZERO),
            "a clock that was set back proves nothing"
        );
    }

    #[test]
    fn a_wall_clock_counts_everything() {
        assert_eq!(Clock::wall(NOON).quiet_since(NOON - HOUR), Some(HOUR));
    }
}
