//! Which key asks for what: the table's own keys, changed by the `[keys]` of the config file. A mistake there is an
//! error that names both commands; no key ever means two things.

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use thiserror::Error;

use super::command::{Command, Effectiveness, TABLE};
use crate::text::closest;

/// A key with its modifiers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Chord {
    /// The key.
    pub code: KeyCode,
    /// Control or Alt; Shift is part of the character.
    pub modifiers: KeyModifiers,
}

/// Why the keys of the config file cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum KeymapFault {
    /// No such command.
    #[error("there is no command `{name}` to give a key to{hint}; `?` in the dashboard lists them")]
    UnknownCommand {
        /// What was written.
        name: String,
        /// What was probably meant.
        hint: String,
    },
    /// No such key.
    #[error(
        "`{key}` is no key, in `{command}`; write a character, or `ctrl-x`, `alt-x`, `f5`, `enter`, `esc`, `tab`, `space`, `up`, …"
    )]
    UnknownKey {
        /// What was written.
        key: String,
        /// For which command.
        command: String,
    },
    /// Two commands want the same key.
    #[error("the key `{key}` is given to both `{first}` and `{second}`; change one of them")]
    Conflict {
        /// The key.
        key: String,
        /// One command.
        first: &'static str,
        /// The other.
        second: &'static str,
    },
    /// A key that is pressed without thinking.
    #[error("`{key}` is pressed without thinking, so it cannot mean `{command}`; choose another key")]
    TooEasy {
        /// The key.
        key: String,
        /// The command.
        command: &'static str,
    },
    /// The way out must stay.
    #[error("`{0}` needs at least one key")]
    WithoutKey(&'static str),
}

impl Chord {
    /// Reads `x`, `X`, `ctrl-x`, `alt-x`, `f5`, `enter`, `esc`, `tab`, `backtab`, `space`, `up`, `pagedown`, ….
    pub fn parse(text: &str) -> Option<Self> {
        let mut modifiers = KeyModifiers::NONE;
        let mut rest = text;
        loop {
            if let Some(after) = rest.strip_prefix("ctrl-") {
                modifiers |= KeyModifiers::CONTROL;
                rest = after;
            } else if let Some(after) = rest.strip_prefix("alt-") {
                modifiers |= KeyModifiers::ALT;
                rest = after;
            } else {
                break;
            }
        }
        let mut characters = rest.chars();
        let code = match (characters.next(), characters.next()) {
            (Some(' '), None) => return None,
            (Some(only), None) => KeyCode::Char(only),
            _ => named(rest)?,
        };
        Some(Self { code, modifiers })
    }
}

fn named(name: &str) -> Option<KeyCode> {
    if let Some(number) = name.strip_prefix('f').and_then(|number| number.parse().ok()) {
        return (1..=12).contains(&number).then_some(KeyCode::F(number));
    }
    NAMES.iter().find(|(known, _)| *known == name).map(|(_, code)| *code)
}

const NAMES: [(&str, KeyCode); 15] = [
    ("space", KeyCode::Char(' ')),
    ("enter", KeyCode::Enter),
    ("esc", KeyCode::Esc),
    ("tab", KeyCode::Tab),
    ("backtab", KeyCode::BackTab),
    ("up", KeyCode::Up),
    ("down", KeyCode::Down),
    ("left", KeyCode::Left),
    ("right", KeyCode::Right),
    ("home", KeyCode::Home),
    ("end", KeyCode::End),
    ("pageup", KeyCode::PageUp),
    ("pagedown", KeyCode::PageDown),
    ("delete", KeyCode::Delete),
    ("backspace", KeyCode::Backspace),
];

impl fmt::Display for Chord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = String::new();
        if self.modifiers.contains(KeyModifiers::CONTROL) {
            text.push_str("ctrl-");
        }
        if self.modifiers.contains(KeyModifiers::ALT) {
            text.push_str("alt-");
        }
        match (NAMES.iter().find(|(_, code)| *code == self.code), self.code) {
            (Some((name, _)), _) => text.push_str(name),
            (None, KeyCode::Char(c)) => text.push(c),
            (None, KeyCode::F(number)) => return f.pad(&format!("{text}f{number}")),
            (None, other) => text += &format!("{other:?}").to_lowercase(),
        }
        f.pad(&text)
    }
}

impl From<KeyEvent> for Chord {
    fn from(event: KeyEvent) -> Self {
        let modifiers = event.modifiers & (KeyModifiers::CONTROL | KeyModifiers::ALT);
        Self { code: event.code, modifiers }
    }
}

/// Which key asks for what.
#[derive(Clone, Debug)]
pub struct Keymap {
    commands: HashMap<Chord, Command>,
    keys: BTreeMap<Command, Vec<Chord>>,
}

impl Keymap {
    /// The table's keys with the operator's changes. In read-only mode what changes anything has no key at all.
    pub fn new(changes: &BTreeMap<String, Vec<String>>, read_only: bool) -> Result<Self, KeymapFault> {
        for name in changes.keys() {
            if !TABLE.iter().any(|entry| entry.name == name) {
                let hint = closest(name, TABLE.iter().map(|entry| entry.name));
                let hint = hint.map(|meant| format!(" (did you mean `{meant}`?)")).unwrap_or_default();
                return Err(KeymapFault::UnknownCommand { name: name.clone(), hint });
            }
        }
        let mut map = Self { commands: HashMap::new(), keys: BTreeMap::new() };
        for entry in TABLE {
            let written: Vec<&str> = match changes.get(entry.name) {
                Some(keys) => keys.iter().map(String::as_str).collect(),
                None => entry.keys.to_vec(),
            };
            if written.is_empty() && matches!(entry.command, Command::Quit | Command::Back) {
                return Err(KeymapFault::WithoutKey(entry.name));
            }
            for key in written {
                let unknown =
                    || KeymapFault::UnknownKey { key: key.to_owned(), command: entry.name.to_owned() };
                let chord = Chord::parse(key).ok_or_else(unknown)?;
                let easy = matches!(
                    chord.code,
                    KeyCode::Enter | KeyCode::Esc | KeyCode::Tab | KeyCode::Char(' ') | KeyCode::Backspace
                );
                if easy && entry.effectiveness == Effectiveness::Destroys {
                    return Err(KeymapFault::TooEasy { key: key.to_owned(), command: entry.name });
                }
                if let Some(first) = map.commands.insert(chord, entry.command) {
                    return Err(KeymapFault::Conflict {
                        key: chord.to_string(),
                        first: first.entry().name,
                        second: entry.name,
                    });
                }
                map.keys.entry(entry.command).or_default().push(chord);
            }
        }
        if read_only {
            map.commands.retain(|_, command| command.entry().effectiveness == Effectiveness::Looks);
            map.keys.retain(|command, _| command.entry().effectiveness == Effectiveness::Looks);
        }
        Ok(map)
    }

    /// What a key asks for.
    pub fn command(&self, chord: Chord) -> Option<Command> {
        self.commands.get(&chord).copied()
    }

    /// The keys of a command; none when it has none, or must not have any here.
    pub fn keys(&self, command: Command) -> &[Chord] {
        self.keys.get(&command).map_or(&[], Vec::as_slice)
    }

    /// The first key of a command, as people read it.
    pub fn first_key(&self, command: Command) -> Option<String> {
        self.keys(command).first().map(ToString::to_string)
    }

    /// Whether a command exists here at all: what changes something does not, in read-only mode.
    pub fn offers(&self, command: Command) -> bool {
        self.keys.contains_key(&command)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changes(lines: &[(&str, &[&str])]) -> BTreeMap<String, Vec<String>> {
        let owned = |keys: &[&str]| keys.iter().map(ToString::to_string).collect();
        lines.iter().map(|(name, keys)| ((*name).to_owned(), owned(keys))).collect()
    }

    fn chord(text: &str) -> Chord {
        Chord::parse(text).unwrap()
    }

    #[test]
    fn the_table_itself_has_no_conflict() {
        let map = Keymap::new(&BTreeMap::new(), false).unwrap();
        assert_eq!(map.command(chord("X")), Some(Command::Remove));
        assert_eq!(map.command(chord("ctrl-c")), Some(Command::Quit));
        assert_eq!(map.first_key(Command::Mark).as_deref(), Some("space"));
    }

    #[test]
    fn read_only_has_no_key_for_anything_that_changes_the_host() {
        let map = Keymap::new(&BTreeMap::new(), true).unwrap();
        for key in ["S", "X", "R", "D", "F", "u"] {
            assert_eq!(map.command(chord(key)), None, "{key}");
        }
        assert!(!map.offers(Command::Undrain) && map.offers(Command::Logs));
    }

    #[test]
    fn keys_can_be_changed_and_a_freed_key_used_again() {
        let map = Keymap::new(&changes(&[("remove", &["ctrl-x"]), ("mark", &["X"])]), false).unwrap();
        assert_eq!(map.command(chord("ctrl-x")), Some(Command::Remove));
        assert_eq!(map.command(chord("X")), Some(Command::Mark));
    }

    #[test]
    fn mistakes_are_named_with_what_to_do() {
        for (lines, said) in [
            (changes(&[("remove", &["S"])]), "`S` is given to both `stop` and `remove`"),
            (changes(&[("remoev", &["X"])]), "did you mean `remove`"),
            (changes(&[("remove", &["hyper-x"])]), "`hyper-x` is no key, in `remove`"),
            (changes(&[("remove", &["enter"]), ("detail", &["i"])]), "without thinking"),
            (changes(&[("quit", &[])]), "`quit` needs at least one key"),
        ] {
            let fault = Keymap::new(&lines, false).unwrap_err().to_string();
            assert!(fault.contains(said), "{fault}");
        }
    }

    #[test]
    fn a_chord_is_written_as_it_is_read() {
        for text in ["x", "X", "ctrl-z", "alt-f5", "space", "pagedown", "?", "/"] {
            assert_eq!(chord(text).to_string(), text);
        }
        assert_eq!(Chord::parse(""), None);
    }
}
