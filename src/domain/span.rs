//! Lengths of time as people write and read them: `90s`, `15m`, `1h30m`, `4d`.

use std::fmt;
use std::time::Duration;

use jiff::Timestamp;

const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;
/// A century. Whatever is longer is a slip of the finger, and would not fit into a clock.
const LONGEST: Duration = Duration::from_secs(36_525 * DAY);

/// Why a length of time could not be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}; {}", self.what(), Self::FIX)]
pub struct BadSpan(pub String);

impl BadSpan {
    /// What to try.
    pub const FIX: &str = "write a number and a unit, such as `90s`, `15m`, `24h` or `7d`";

    /// What is wrong.
    pub fn what(&self) -> String {
        format!("`{}` is not a length of time", self.0)
    }
}

/// Reads `90s`, `500ms`, `15m`, `1h30m`, `24h`, `7d`. A bare number means seconds.
pub fn parse_span(text: &str) -> Result<Duration, BadSpan> {
    let bad = || BadSpan(text.to_owned());
    let mut rest = text.trim();
    if rest.is_empty() {
        return Err(bad());
    }
    if let Ok(seconds) = rest.parse::<u64>() {
        let total = Duration::from_secs(seconds);
        return if total > LONGEST { Err(bad()) } else { Ok(total) };
    }
    let mut total = Duration::ZERO;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).ok_or_else(bad)?;
        let number: u64 = rest[..digits].parse().map_err(|_| bad())?;
        rest = rest[digits..].trim_start();
        let letters = rest.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(rest.len());
        let part = match &rest[..letters] {
            "ms" => Some(Duration::from_millis(number)),
            "s" | "sec" => Some(Duration::from_secs(number)),
            "m" | "min" => number.checked_mul(MINUTE).map(Duration::from_secs),
            "h" => number.checked_mul(HOUR).map(Duration::from_secs),
            "d" => number.checked_mul(DAY).map(Duration::from_secs),
            _ => None,
        };
        total = part.and_then(|part| total.checked_add(part)).ok_or_else(bad)?;
        rest = rest[letters..].trim_start();
    }
    if total > LONGEST { Err(bad()) } else { Ok(total) }
}

/// A length of time in its largest unit that is not zero, the way people say it: `12s`, `3h`, `4d`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span(pub Duration);

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0.as_secs();
        let text = match seconds {
            0 if self.0 >= Duration::from_millis(100) => format!("0.{}s", self.0.subsec_millis() / 100),
            0 if self.0 >= Duration::from_millis(1) => format!("{}ms", self.0.subsec_millis()),
            0..MINUTE => format!("{seconds}s"),
            MINUTE..HOUR => format!("{}m", seconds / MINUTE),
            HOUR..DAY => format!("{}h", seconds / HOUR),
            _ => format!("{}d", seconds / DAY),
        };
        f.pad(&text)
    }
}

/// A length of time in its two largest units, where one would hide a difference: `1h5m`, `2d3h`, `12s`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Precise(pub Duration);

impl fmt::Display for Precise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0.as_secs();
        let (unit, rest) = match seconds {
            0..MINUTE => (1, 0),
            MINUTE..HOUR => (MINUTE, seconds % MINUTE),
            HOUR..DAY => (HOUR, seconds % HOUR / MINUTE * MINUTE),
            _ => (DAY, seconds % DAY / HOUR * HOUR),
        };
        let larger = Span(Duration::from_secs(seconds / unit * unit));
        match rest {
            0 if seconds < MINUTE => f.pad(&Span(self.0).to_string()),
            0 => f.pad(&larger.to_string()),
            rest => f.pad(&format!("{larger}{}", Span(Duration::from_secs(rest)))),
        }
    }
}

/// How long before `now` the moment `then` lies; `None` when it lies after `now`.
pub fn elapsed(then: Timestamp, now: Timestamp) -> Option<Duration> {
    Duration::try_from(now.duration_since(then)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_write_spans_in_many_ways() {
        for (text, seconds) in [
            ("90s", 90),
            ("15m", 900),
            ("1h30m", 5400),
            ("24h", 86_400),
            ("7d", 604_800),
            ("60", 60),
            ("1h 5s", 3605),
            ("0s", 0),
        ] {
            assert_eq!(parse_span(text), Ok(Duration::from_secs(seconds)), "{text}");
        }
        assert_eq!(parse_span("250ms"), Ok(Duration::from_millis(250)));
    }

    #[test]
    fn nonsense_is_refused_with_an_example() {
        for text in ["", "soon", "5 parsecs", "-3s", "h", "99999999999999999999d", "3h4"] {
            let error = parse_span(text).unwrap_err().to_string();
            assert!(error.contains("15m"), "{text}: {error}");
        }
    }

    #[test]
    fn a_span_is_shown_in_its_largest_unit() {
        for (seconds, shown) in
            [(0, "0s"), (59, "59s"), (60, "1m"), (7199, "1h"), (86_400, "1d"), (864_000, "10d")]
        {
            assert_eq!(Span(Duration::from_secs(seconds)).to_string(), shown);
        }
        for (seconds, shown) in [
            (0, "0s"),
            (59, "59s"),
            (60, "1m"),
            (90, "1m30s"),
            (3900, "1h5m"),
            (3659, "1h"),
            (90_061, "1d1h"),
        ] {
            assert_eq!(Precise(Duration::from_secs(seconds)).to_string(), shown);
        }
        assert_eq!(Span(Duration::from_millis(420)).to_string(), "0.4s");
        assert_eq!(Span(Duration::from_millis(45)).to_string(), "45ms");
    }
}
