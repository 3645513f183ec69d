//! Faults on command: what goes wrong, for which requests, and how often. Chance is seeded, so that a bad day can be
//! had twice.

use std::time::Duration;

use serde_json::{Value, json};

use super::dice::Dice;

/// Something that goes wrong with an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The answer takes this much longer.
    Latency(Duration),
    /// No answer at all, and nothing is done.
    HangBeforeHeaders,
    /// The thing is done, and the answer stops after its headers.
    HangAfterHeaders,
    /// The thing is done, and the answer stops after so many bytes.
    StalledBody(usize),
    /// The thing is done, and the connection is cut after so many bytes; with none, before the headers.
    CutConnection(usize),
    /// Nothing is done, and this is the answer: a status and the engine's words.
    Status(u16, String),
    /// Nothing is done, and this is said in place of an answer, as if all were well.
    Instead(String),
    /// So many of a hundred rows of a list are not as promised.
    MalformedRows(u8),
}

/// Which of the fitting requests go wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Which {
    All,
    Nth(usize),
    First(usize),
    Percent(u8),
}

/// A fault and the requests it happens to.
#[derive(Clone, Debug)]
pub struct FaultRule {
    method: String,
    pattern: String,
    which: Which,
    fault: Fault,
    seen: usize,
}

impl FaultRule {
    /// The fault happens to every request of this method and path. `*` is any method, or one or more segments of a
    /// path; the version prefix does not count.
    pub fn on(method: &str, pattern: &str, fault: Fault) -> Self {
        Self { method: method.to_owned(), pattern: pattern.to_owned(), which: Which::All, fault, seen: 0 }
    }

    /// Only to the one with this number, counted from one.
    #[must_use]
    pub fn nth(self, number: usize) -> Self {
        Self { which: Which::Nth(number), ..self }
    }

    /// Only to the first so many.
    #[must_use]
    pub fn first(self, count: usize) -> Self {
        Self { which: Which::First(count), ..self }
    }

    /// Only to so many of a hundred, by chance.
    #[must_use]
    pub fn percent(self, percent: u8) -> Self {
        Self { which: Which::Percent(percent), ..self }
    }

    fn happens(&mut self, dice: &mut Dice) -> bool {
        self.seen += 1;
        match self.which {
            Which::All => true,
            Which::Nth(number) => self.seen == number,
            Which::First(count) => self.seen <= count,
            Which::Percent(percent) => dice.happens(percent),
        }
    }
}

/// All faults that are switched on.
#[derive(Debug)]
pub(super) struct Faults {
    rules: Vec<FaultRule>,
    dice: Dice,
}

impl Faults {
    pub(super) fn new(seed: u64) -> Self {
        Self { rules: Vec::new(), dice: Dice::new(seed) }
    }

    pub(super) fn add(&mut self, rule: FaultRule) {
        self.rules.push(rule);
    }

    pub(super) fn clear(&mut self) {
        self.rules.clear();
    }

    /// What goes wrong with this request.
    pub(super) fn of(&mut self, method: &str, path: &str) -> Vec<Fault> {
        let (rules, dice) = (&mut self.rules, &mut self.dice);
        let fitting = rules.iter_mut().filter(|rule| fits(rule, method, path));
        fitting.filter_map(|rule| rule.happens(dice).then(|| rule.fault.clone())).collect()
    }

    /// Damages rows of a list.
    pub(super) fn damage(&mut self, list: &mut Value, percent: u8) {
        for row in list.as_array_mut().into_iter().flatten() {
            if self.dice.happens(percent) {
                damage(row, self.dice.below(7));
            }
        }
    }
}

fn damage(row: &mut Value, how: usize) {
    match how {
        0 => *row = Value::Null,
        1 => *row = json!({}),
        2 => row["Created"] = json!("soon"),
        3 => row["Labels"] = json!({ "a": 7 }),
        4 => row["State"] = json!("levitating"),
        5 => row["Id"] = json!("not-an-id"),
        _ => row["Names"] = json!(7),
    }
}

fn fits(rule: &FaultRule, method: &str, path: &str) -> bool {
    let segments = |text: &str| text.trim_matches('/').split('/').map(str::to_owned).collect::<Vec<_>>();
    (rule.method == "*" || rule.method == method) && path_fits(&segments(&rule.pattern), &segments(path))
}

fn path_fits(pattern: &[String], path: &[String]) -> bool {
    match (pattern.split_first(), path.split_first()) {
        (None, None) => true,
        (Some((star, pattern)), Some((_, rest))) if star == "*" => {
            (0..=rest.len()).any(|skipped| path_fits(pattern, &rest[skipped..]))
        }
        (Some((expected, pattern)), Some((segment, rest))) => expected == segment && path_fits(pattern, rest),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn happened(rule: FaultRule, path: &str) -> Vec<bool> {
        let mut faults = Faults::new(7);
        faults.add(rule);
        (0..6).map(|_| !faults.of("GET", path).is_empty()).collect()
    }

    #[test]
    fn a_rule_chooses_its_requests() {
        let rule = || FaultRule::on("GET", "/containers/*/json", Fault::HangAfterHeaders);
        assert_eq!(happened(rule(), "/containers/abc/json"), [true; 6]);
        assert_eq!(happened(rule(), "/containers/json"), [false; 6]);
        assert_eq!(
            happened(rule().nth(2), "/containers/abc/json"),
            [false, true, false, false, false, false]
        );
        assert_eq!(
            happened(rule().first(2), "/containers/abc/json"),
            [true, true, false, false, false, false]
        );
        assert_eq!(happened(FaultRule::on("POST", "/*", Fault::HangAfterHeaders), "/info"), [false; 6]);
        assert_eq!(happened(FaultRule::on("*", "/*", Fault::HangAfterHeaders), "/a/b/c"), [true; 6]);
    }

    #[test]
    fn chance_can_be_had_twice() {
        let rule = || FaultRule::on("*", "/*", Fault::HangBeforeHeaders).percent(50);
        let (once, again) = (happened(rule(), "/info"), happened(rule(), "/info"));
        assert_eq!(once, again);
        assert!(once.contains(&true) && once.contains(&false), "{once:?}");
    }

    #[test]
    fn every_row_can_be_damaged() {
        let mut list = json!([{ "Id": "a", "State": "running" }, { "Id": "b", "State": "running" }]);
        let before = list.clone();
        Faults::new(3).damage(&mut list, 100);
        assert!(
            list.as_array().unwrap().iter().zip(before.as_array().unwrap()).all(|(a, b)| a != b),
            "{list}"
        );
    }
}
