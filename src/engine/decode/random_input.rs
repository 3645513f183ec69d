//! Thirty thousand lists that no engine would send: every row becomes a row, and nothing becomes an empty list.

use super::*;
use crate::domain::container::Row;
use crate::engine::sim::Dice;

const CASES: usize = 30_000;

const VALUES: [&str; 16] = [
    "null",
    "true",
    "7",
    "-1",
    "1e400",
    "1700000000",
    "\"\"",
    "\"x\"",
    "\"\\u0000\"",
    "\"\\ud800\"",
    "[]",
    "[null]",
    "[\"/x\"]",
    "{}",
    "{\"a\":\"b\"}",
    "{\"a\":7}",
];
const KEYS: [&str; 10] =
    ["Id", "Names", "Image", "ImageID", "Labels", "State", "Created", "Mounts", "id", "Else"];
const PIECES: [&str; 12] = ["{", "}", "[", "]", ",", ":", "\"", "\\", "\u{0}", "é", "1", "null"];

fn row_of(dice: &mut Dice) -> String {
    if dice.happens(10) {
        return (*dice.pick(&VALUES).unwrap()).to_owned();
    }
    let mut members: Vec<String> = Vec::new();
    if dice.happens(70) {
        let digits = if dice.happens(80) { 64 } else { dice.below(80) };
        members.push(format!("\"Id\":\"{}\",\"Created\":1700000000", dice.hex(digits)));
    }
    for _ in 0..dice.below(4) {
        members.push(format!("\"{}\":{}", dice.pick(&KEYS).unwrap(), dice.pick(&VALUES).unwrap()));
    }
    format!("{{{}}}", members.join(","))
}

/// Reads a list that arrives in pieces.
fn list(body: &[u8], piece: usize) -> Result<Vec<Row>, EngineFault> {
    let mut reader = ListReader::new(&[]);
    body.chunks(piece).try_for_each(|piece| reader.take(piece))?;
    reader.finish()
}

#[test]
fn every_row_of_any_list_becomes_one_row_and_nothing_else_becomes_a_list() {
    let mut dice = Dice::new(1);
    let (mut readable, mut unreadable, mut faults) = (0, 0, 0);
    for _ in 0..CASES {
        let rows: Vec<String> = (0..dice.below(4)).map(|_| row_of(&mut dice)).collect();
        let mut body = format!("[{}]", rows.join(","));
        let damaged = dice.happens(30);
        if damaged {
            let mut at = dice.below(body.len());
            while !body.is_char_boundary(at) {
                at -= 1;
            }
            if dice.happens(50) {
                body.truncate(at);
            } else {
                body.insert_str(at, dice.pick(&PIECES).unwrap());
            }
        }
        match list(body.as_bytes(), 1 + dice.below(40)) {
            Ok(found) => {
                assert!(damaged || found.len() == rows.len(), "{body}");
                assert!(!found.is_empty() || body.trim_matches(['[', ']', ' ']).is_empty(), "{body}");
                for row in found {
                    match row {
                        Row::Container(_) => readable += 1,
                        Row::Unreadable(row) => {
                            assert!(!row.problem.is_empty(), "{body}");
                            unreadable += 1;
                        }
                    }
                }
            }
            Err(_) => faults += 1,
        }
        let _ = inspect(body.as_bytes());
    }
    assert!(readable > 1_000 && unreadable > 1_000 && faults > 1_000, "{readable}, {unreadable}, {faults}");
}
