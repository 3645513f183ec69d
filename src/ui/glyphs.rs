//! The signs that stand beside words: one cell each, different without any colour, and plain where the terminal's
//! character set is not Unicode.

use ratatui::symbols::border;

use crate::domain::Status;
use crate::environment::Environment;

/// Which signs the terminal can show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Glyphs {
    /// All of them.
    Unicode,
    /// Those on every keyboard.
    Ascii,
}

impl Glyphs {
    /// What the locale says. A user who set none gets what every terminal can show.
    pub fn of(environment: &Environment) -> Self {
        let locale = ["LC_ALL", "LC_CTYPE", "LANG"]
            .into_iter()
            .find_map(|name| environment.variables.get(name).filter(|value| !value.is_empty()));
        let charset = locale.map(|locale| locale.to_ascii_lowercase().replace('-', "")).unwrap_or_default();
        if charset.contains("utf8") { Self::Unicode } else { Self::Ascii }
    }

    /// A status at a glance.
    pub fn status(self, status: Status) -> &'static str {
        match status {
            Status::Active => self.pick("●", "+"),
            Status::Idle => self.pick("○", "o"),
            Status::Stale => self.pick("◐", "~"),
            Status::Orphaned => self.pick("◇", "-"),
            Status::Draining => self.pick("▽", "v"),
            Status::Lost => self.pick("×", "x"),
            Status::Unknown => "?",
        }
    }

    /// A row that is marked.
    pub fn mark(self) -> &'static str {
        "*"
    }

    /// A workspace whose containers are shown, or not.
    pub fn fold(self, folded: bool) -> &'static str {
        if folded { self.pick("▸", ">") } else { self.pick("▾", "v") }
    }

    /// Which way a column is sorted.
    pub fn sorted(self, descending: bool) -> &'static str {
        if descending { self.pick("↓", "v") } else { self.pick("↑", "^") }
    }

    /// Eight heights, the lowest first.
    pub fn heights(self) -> [&'static str; 8] {
        match self {
            Self::Unicode => ["▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"],
            Self::Ascii => [".", ":", "-", "=", "+", "*", "%", "#"],
        }
    }

    /// The full and the empty part of a gauge.
    pub fn gauge(self) -> (&'static str, &'static str) {
        (self.pick("█", "#"), self.pick("░", "."))
    }

    /// A horizontal rule.
    pub fn rule(self) -> &'static str {
        self.pick("─", "-")
    }

    /// What stands for a sign of ours that the terminal cannot show. What comes from outside is not ours to change.
    pub fn plain(self, sign: &str) -> Option<&'static str> {
        if self == Self::Unicode {
            return None;
        }
        Some(match sign {
            "…" => "~",
            "→" | "▸" => ">",
            "·" => ".",
            "–" => "-",
            "↑" => "^",
            "↓" => "v",
            _ => return None,
        })
    }

    /// The frame around a dialog.
    pub fn border(self) -> border::Set<'static> {
        match self {
            Self::Unicode => border::ROUNDED,
            Self::Ascii => border::Set {
                top_left: "+",
                top_right: "+",
                bottom_left: "+",
                bottom_right: "+",
                vertical_left: "|",
                vertical_right: "|",
                horizontal_top: "-",
                horizontal_bottom: "-",
            },
        }
    }

    fn pick(self, unicode: &'static str, ascii: &'static str) -> &'static str {
        match self {
            Self::Unicode => unicode,
            Self::Ascii => ascii,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use rstest::rstest;

    use super::*;
    use crate::text::{clean, width};

    #[test]
    fn every_status_has_a_sign_of_its_own_in_one_cell() {
        for glyphs in [Glyphs::Unicode, Glyphs::Ascii] {
            let signs: BTreeSet<_> = Status::ALL.map(|status| glyphs.status(status)).into();
            assert_eq!(signs.len(), Status::ALL.len());
            let others = [glyphs.mark(), glyphs.fold(true), glyphs.fold(false), glyphs.rule()];
            for sign in signs.into_iter().chain(others).chain(glyphs.heights()) {
                assert_eq!(width(sign), 1, "{sign}");
                assert_eq!(clean(sign), sign);
                assert!(glyphs == Glyphs::Unicode || sign.is_ascii(), "{sign}");
            }
        }
    }

    #[rstest]
    #[case(&[("LANG", "de_DE.UTF-8")], Glyphs::Unicode)]
    #[case(&[("LANG", "C.utf8")], Glyphs::Unicode)]
    #[case(&[("LANG", "C")], Glyphs::Ascii)]
    #[case(&[], Glyphs::Ascii)]
    #[case(&[("LC_ALL", "C"), ("LANG", "de_DE.UTF-8")], Glyphs::Ascii)]
    #[case(&[("LC_ALL", ""), ("LC_CTYPE", "en_US.UTF-8"), ("LANG", "C")], Glyphs::Unicode)]
    fn the_locale_tells_which_signs_there_are(#[case] set: &[(&str, &str)], #[case] glyphs: Glyphs) {
        let variables = set.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let environment = Environment { variables: variables.collect(), ..Environment::default() };
        assert_eq!(Glyphs::of(&environment), glyphs);
    }
}
