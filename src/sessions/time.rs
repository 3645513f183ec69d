//! Timestamps as stores write them.

use jiff::{Timestamp, civil::DateTime, tz::TimeZone};
use rusqlite::types::ValueRef;

use crate::domain::profile::TimeFormat;
use crate::domain::session::Moment;

/// 2000-01-01 and 2200-01-01 in Unix seconds. A value outside is of another unit, or nonsense.
const PLAUSIBLE: std::ops::Range<f64> = 946_684_800.0..7_258_118_400.0;

/// Reads a moment in the unit the profile declares; anything else is unreadable, never absent.
pub(super) fn moment(value: ValueRef<'_>, format: TimeFormat) -> Moment {
    #[expect(clippy::cast_precision_loss, reason = "Unix times are far below the 53 bits of a double")]
    let number = match value {
        ValueRef::Null => return Moment::Absent,
        ValueRef::Integer(number) => Some(number as f64),
        ValueRef::Real(number) => Some(number),
        ValueRef::Text(_) | ValueRef::Blob(_) => None,
    };
    let (read, unit) = match format {
        TimeFormat::Seconds => (number.and_then(from_seconds), "seconds"),
        TimeFormat::Milliseconds => (number.and_then(|number| from_seconds(number / 1000.0)), "milliseconds"),
        TimeFormat::Iso8601 => (value.as_str().ok().and_then(from_iso), "ISO 8601"),
    };
    match read {
        Some(at) => Moment::At(at),
        None => Moment::Unreadable(format!("`{}` is not a plausible time in {unit}", shown(value))),
    }
}

fn from_seconds(seconds: f64) -> Option<Timestamp> {
    if !PLAUSIBLE.contains(&seconds) {
        return None;
    }
    #[expect(clippy::cast_possible_truncation, reason = "the range was just checked")]
    Timestamp::from_microsecond((seconds * 1e6).round() as i64).ok()
}

/// With an offset as written; without one it is UTC.
fn from_iso(text: &str) -> Option<Timestamp> {
    let text = text.trim();
    let read = text.parse::<Timestamp>().ok().or_else(|| {
        let civil: DateTime = text.parse().ok()?;
        civil.to_zoned(TimeZone::UTC).ok().map(|zoned| zoned.timestamp())
    })?;
    #[expect(clippy::cast_precision_loss, reason = "Unix times are far below the 53 bits of a double")]
    let seconds = read.as_second() as f64;
    PLAUSIBLE.contains(&seconds).then_some(read)
}

fn shown(value: ValueRef<'_>) -> String {
    match value {
        ValueRef::Null => "NULL".to_owned(),
        ValueRef::Integer(number) => number.to_string(),
        ValueRef::Real(number) => number.to_string(),
        ValueRef::Text(text) => String::from_utf8_lossy(text).chars().take(40).collect(),
        ValueRef::Blob(blob) => format!("{} bytes", blob.len()),
    }
}

#[cfg(test)]
mod random_input;

#[cfg(test)]
mod tests {
    use super::*;

    const AT: i64 = 1_771_754_400; // 2026-02-22T10:00:00Z

    fn at() -> Moment {
        Moment::At(Timestamp::from_second(AT).unwrap())
    }

    #[test]
    fn each_format_is_read_in_its_own_unit() {
        assert_eq!(moment(ValueRef::Integer(AT), TimeFormat::Seconds), at());
        #[expect(clippy::cast_precision_loss, reason = "small enough")]
        let real = AT as f64;
        assert_eq!(moment(ValueRef::Real(real), TimeFormat::Seconds), at());
        assert_eq!(moment(ValueRef::Integer(AT * 1000), TimeFormat::Milliseconds), at());
        for text in [
            "2026-02-22T10:00:00+00:00",
            "2026-02-22T11:00:00.000000+01:00",
            "2026-02-22T10:00:00Z",
            "2026-02-22 10:00:00",
            "2026-02-22T10:00:00",
        ] {
            assert_eq!(moment(ValueRef::Text(text.as_bytes()), TimeFormat::Iso8601), at(), "{text}");
        }
    }

    #[test]
    fn a_value_of_another_unit_is_unreadable_and_never_absent() {
        let wrong = [
            (ValueRef::Integer(AT * 1000), TimeFormat::Seconds),
            (ValueRef::Integer(AT), TimeFormat::Milliseconds),
            (ValueRef::Integer(AT), TimeFormat::Iso8601),
            (ValueRef::Text(b"yesterday"), TimeFormat::Iso8601),
            (ValueRef::Text(b"\xff\xfe"), TimeFormat::Iso8601),
            (ValueRef::Text(b"1771754400"), TimeFormat::Seconds),
            (ValueRef::Blob(b"x"), TimeFormat::Seconds),
            (ValueRef::Real(f64::NAN), TimeFormat::Seconds),
            (ValueRef::Real(f64::INFINITY), TimeFormat::Seconds),
            (ValueRef::Integer(i64::MAX), TimeFormat::Milliseconds),
            (ValueRef::Integer(0), TimeFormat::Seconds),
        ];
        for (value, format) in wrong {
            assert!(matches!(moment(value, format), Moment::Unreadable(_)), "{value:?} {format:?}");
        }
        assert_eq!(moment(ValueRef::Null, TimeFormat::Seconds), Moment::Absent);
    }
}
