//! A hundred thousand values that stand where a time should: each is a plausible moment, absent, or unreadable.

use super::*;
use crate::engine::sim::Dice;

const CASES: usize = 100_000;

const PIECES: [&str; 22] = [
    "2026",
    "-",
    "02",
    "30",
    "T",
    " ",
    "24",
    ":",
    "60",
    ".",
    "999999999",
    "Z",
    "+01:00",
    "+99",
    "-00:00",
    "[UTC]",
    "now",
    "e",
    "0x1",
    "\u{661}",
    "\0",
    "1772366400",
];

#[test]
fn whatever_stands_where_a_time_should_is_plausible_absent_or_unreadable() {
    let formats = [TimeFormat::Seconds, TimeFormat::Milliseconds, TimeFormat::Iso8601];
    let plausible = |at: Timestamp| {
        #[expect(clippy::cast_precision_loss, reason = "Unix times are far below the 53 bits of a double")]
        let seconds = at.as_second() as f64;
        (PLAUSIBLE.start - 1.0..=PLAUSIBLE.end).contains(&seconds)
    };
    let mut dice = Dice::new(1);
    let mut known = 0;
    for _ in 0..CASES {
        let text: String = (0..dice.below(8)).map(|_| *dice.pick(&PIECES).unwrap()).collect();
        let whole = "2026-02-28T10:20:30Z".to_owned();
        let text = if dice.happens(20) { whole } else { text };
        let bits = dice.throw();
        let value = match dice.below(6) {
            0 => ValueRef::Null,
            1 => ValueRef::Integer(i64::from_ne_bytes(bits.to_ne_bytes())),
            2 => ValueRef::Integer(i64::try_from(bits % 8_000_000_000_000).unwrap()),
            3 => ValueRef::Real(f64::from_bits(bits)),
            4 => ValueRef::Blob(text.as_bytes()),
            _ => ValueRef::Text(text.as_bytes()),
        };
        for format in formats {
            match moment(value, format) {
                Moment::At(at) => {
                    known += 1;
                    assert!(plausible(at), "{value:?} as {format:?} is {at}");
                }
                Moment::Absent => assert_eq!(value, ValueRef::Null),
                Moment::Unreadable(why) => {
                    assert!(value != ValueRef::Null && why.len() < 400, "{value:?}: {why}");
                }
            }
        }
    }
    assert!(known > 1_000, "only {known} were times: the cases are no test");
}
