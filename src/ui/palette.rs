//! The command palette: the table of commands, found by typing.

use nucleo_matcher::pattern::{CaseMatching, Normalization, Pattern};
use nucleo_matcher::{Config, Matcher, Utf32Str};

use super::command::{Command, TABLE};
use super::keymap::Keymap;

/// The commands that fit, the best first. What is not offered here cannot be found either.
pub(super) fn matches(typed: &str, keymap: &Keymap) -> Vec<Command> {
    let pattern = Pattern::parse(typed, CaseMatching::Ignore, Normalization::Smart);
    let mut matcher = Matcher::new(Config::DEFAULT);
    let mut characters = Vec::new();
    let mut found: Vec<(u32, Command)> = TABLE
        .iter()
        .filter(|entry| keymap.offers(entry.command) && entry.command != Command::Palette)
        .filter_map(|entry| {
            // A name that fits counts more than a word of the explanation.
            let name = pattern.score(Utf32Str::new(entry.name, &mut characters), &mut matcher);
            let long = pattern.score(Utf32Str::new(entry.long, &mut characters), &mut matcher);
            let score = name.map(|score| score * 2 + 1).max(long)?;
            Some((score, entry.command))
        })
        .collect();
    found.sort_by_key(|(score, _)| std::cmp::Reverse(*score));
    found.into_iter().map(|(_, command)| command).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn commands_are_found_by_name_and_meaning_and_only_where_they_exist() {
        let all = Keymap::new(&BTreeMap::new(), false).unwrap();
        assert_eq!(matches("reconc", &all).first(), Some(&Command::Reconcile));
        assert!(matches("clipboard", &all).contains(&Command::Copy));
        assert_eq!(matches("", &all).len(), TABLE.len() - 1);
        let viewing = Keymap::new(&BTreeMap::new(), true).unwrap();
        assert!(!matches("remove", &viewing).contains(&Command::Remove));
    }
}
