//! A dashboard on a desk: facts to look at, keys to press, and what came of it.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use jiff::Timestamp;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use sandkeeper::domain::{Policy, classify};
use sandkeeper::ui::theme::{Depth, Theme};
use sandkeeper::ui::{Chord, Confirmed, Effect, Keymap, Message, Model, Observation, Setup, update, view};

use crate::facts::{Facts, NOW, ahead};

pub(crate) struct Desk {
    pub(crate) model: Model,
    pub(crate) effects: Vec<Effect>,
}

pub(crate) fn setup(read_only: bool, policy: Policy) -> Setup {
    let themes =
        ["dark", "light"].map(|name| (name.to_owned(), Theme::named(name, None, Depth::True).unwrap()));
    Setup {
        read_only,
        policy,
        machine: "host-a".to_owned(),
        keymap: Keymap::new(&BTreeMap::new(), read_only).unwrap(),
        themes: themes.into(),
        glyphs: sandkeeper::ui::Glyphs::Unicode,
        mouse: true,
        tour: Vec::new(),
        warnings: Vec::new(),
    }
}

pub(crate) fn observation(facts: &Facts, at: Timestamp) -> Observation {
    let mut snapshot = facts.snapshot.clone();
    snapshot.host.engine = Some("Docker 20.10.24".to_owned());
    let verdicts = classify(&snapshot, &facts.policy, at);
    Observation { snapshot: Arc::new(snapshot), verdicts: Arc::new(verdicts), at }
}

impl Desk {
    pub(crate) fn on(facts: &Facts) -> Self {
        Self::with(setup(false, facts.policy.clone()), facts)
    }

    pub(crate) fn read_only(facts: &Facts) -> Self {
        Self::with(setup(true, facts.policy.clone()), facts)
    }

    pub(crate) fn with(setup: Setup, facts: &Facts) -> Self {
        let mut desk = Self { model: Model::new(setup, NOW, 110, 30), effects: Vec::new() };
        desk.sees(facts);
        desk.effects.clear();
        desk
    }

    /// The host is looked at again.
    pub(crate) fn sees(&mut self, facts: &Facts) -> &mut Self {
        let observation = observation(facts, self.model.now);
        self.take(Message::Observed(observation))
    }

    pub(crate) fn take(&mut self, message: Message) -> &mut Self {
        self.effects.extend(update(&mut self.model, message));
        update(&mut self.model, Message::Drawn);
        self
    }

    /// Presses keys: words are chords (`j`, `X`, `enter`, `ctrl-c`), and what stands in `'…'` is typed.
    pub(crate) fn press(&mut self, keys: &str) -> &mut Self {
        for (index, part) in keys.split('\'').enumerate() {
            if index % 2 == 1 {
                for character in part.chars() {
                    self.key(KeyCode::Char(character), KeyModifiers::NONE);
                }
                continue;
            }
            for word in part.split_whitespace() {
                let chord = Chord::parse(word).unwrap_or_else(|| panic!("{word} is no key"));
                self.key(chord.code, chord.modifiers);
            }
        }
        self
    }

    fn key(&mut self, code: KeyCode, modifiers: KeyModifiers) {
        self.take(Message::Key(KeyEvent::new(code, modifiers)));
    }

    /// Time passes, as far as this from the beginning.
    pub(crate) fn later(&mut self, text: &str) -> &mut Self {
        self.take(Message::Tick(ahead(text)))
    }

    pub(crate) fn sized(&mut self, width: u16, height: u16) -> &mut Self {
        self.take(Message::Resize { width, height })
    }

    /// The plans that were confirmed so far.
    pub(crate) fn confirmed(&self) -> Vec<&Confirmed> {
        self.effects
            .iter()
            .filter_map(|effect| match effect {
                Effect::CarryOut(confirmed) => Some(confirmed),
                _ => None,
            })
            .collect()
    }

    pub(crate) fn buffer(&self) -> Buffer {
        let area = Rect { x: 0, y: 0, width: self.model.width, height: self.model.height };
        let mut buffer = Buffer::empty(area);
        view(&self.model, area, &mut buffer);
        buffer
    }

    /// The text on screen.
    pub(crate) fn screen(&self) -> String {
        lines(&self.buffer()).join("\n")
    }

    pub(crate) fn shows(&self, text: &str) -> &Self {
        let screen = self.screen();
        assert!(screen.contains(text), "`{text}` is not on the screen:\n{screen}");
        self
    }

    pub(crate) fn hides(&self, text: &str) -> &Self {
        let screen = self.screen();
        assert!(!screen.contains(text), "`{text}` is on the screen:\n{screen}");
        self
    }

    /// The line of the screen on which the cursor is.
    pub(crate) fn cursor_line(&self) -> String {
        let screen = self.screen();
        screen.lines().find(|line| line.starts_with('>')).unwrap_or_default().to_owned()
    }

    /// The text with a letter for the style of each cell below it, and what the letters stand for.
    pub(crate) fn styled(&self) -> String {
        let buffer = self.buffer();
        let mut letters: Vec<Style> = Vec::new();
        let mut out = String::new();
        for (row, line) in lines(&buffer).iter().enumerate() {
            if line.is_empty() {
                out.push('\n');
                continue;
            }
            let styles: String = (0..buffer.area.width)
                .map(|column| {
                    let style = buffer[(column, u16::try_from(row).unwrap())].style();
                    let place = letters.iter().position(|known| *known == style).unwrap_or_else(|| {
                        letters.push(style);
                        letters.len() - 1
                    });
                    char::from(b'a' + u8::try_from(place % 26).unwrap())
                })
                .collect();
            let _ = writeln!(out, "{line}\n{}", styles.trim_end_matches('a'));
        }
        for (place, style) in letters.iter().enumerate() {
            let _ = writeln!(out, "{} = {style:?}", char::from(b'a' + u8::try_from(place % 26).unwrap()));
        }
        out
    }
}

fn lines(buffer: &Buffer) -> Vec<String> {
    (0..buffer.area.height)
        .map(|row| {
            let mut line = String::new();
            let mut skip = 0;
            for column in 0..buffer.area.width {
                let symbol = buffer[(column, row)].symbol();
                if skip > 0 {
                    skip -= 1;
                    continue;
                }
                skip = sandkeeper::text::width(symbol).saturating_sub(1);
                line.push_str(symbol);
            }
            line.trim_end().to_owned()
        })
        .collect()
}
