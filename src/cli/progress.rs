//! The progress of a plan: on a terminal a line per item in flight with its countdown, and a total; elsewhere a plain
//! line per finished item.

use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::time::{Duration, Instant};

use super::output::{complain, write};
use crate::domain::plan::{Action, Item};
use crate::domain::span::Span;
use crate::keeper::Progress;
use crate::text::{clean, shorten};

/// More lines in flight than these are only counted.
const MOST_LINES: usize = 10;

pub(super) struct Display {
    names: Vec<String>,
    in_flight: BTreeMap<usize, InFlight>,
    finished: usize,
    total: usize,
    drawn: usize,
    live: bool,
    silent: bool,
}

struct InFlight {
    word: &'static str,
    until: Option<Instant>,
}

impl Display {
    pub(super) fn new(items: &[Item], json: bool) -> Self {
        Self {
            names: items.iter().map(|item| clean(&item.name).into_owned()).collect(),
            in_flight: BTreeMap::new(),
            finished: 0,
            total: items.iter().filter(|item| item.action != Action::Keep).count(),
            drawn: 0,
            live: std::io::stdout().is_terminal() && !json,
            silent: json,
        }
    }

    pub(super) fn hear(&mut self, progress: &Progress) {
        match progress {
            Progress::Begun { index } => {
                self.in_flight.insert(*index, InFlight { word: "checking", until: None });
            }
            Progress::Stopping { index, grace } => {
                self.in_flight
                    .insert(*index, InFlight { word: "stopping", until: Some(Instant::now() + *grace) });
            }
            Progress::Removing { index } => {
                self.in_flight.insert(*index, InFlight { word: "removing", until: None });
            }
            Progress::Recovering { index, word } => {
                self.in_flight.insert(*index, InFlight { word, until: None });
            }
            Progress::Finished { index, outcome } => {
                self.in_flight.remove(index);
                self.finished += 1;
                let name = &self.names[*index];
                let ending = outcome.ending.as_str().replace('_', " ");
                self.note(&format!("{ending}: {name}: {}", outcome.reason));
            }
        }
    }

    /// A line that stays.
    pub(super) fn note(&mut self, line: &str) {
        self.erase();
        if self.silent {
            return;
        }
        write(&format!("{}\n", clean(line)));
        self.draw();
    }

    /// A line that must be heard even where only JSON is written.
    pub(super) fn warn(&mut self, line: &str) {
        if self.silent { complain(line) } else { self.note(line) }
    }

    pub(super) fn tick(&mut self) {
        self.erase();
        self.draw();
    }

    pub(super) fn close(&mut self) {
        self.erase();
        self.live = false;
    }

    fn draw(&mut self) {
        if !self.live || self.total == 0 {
            return;
        }
        let width = crossterm::terminal::size().map_or(80, |(width, _)| usize::from(width));
        let mut lines = Vec::new();
        for (index, item) in self.in_flight.iter().take(MOST_LINES) {
            let left = item.until.map(|until| until.saturating_duration_since(Instant::now()));
            let countdown = match left {
                Some(Duration::ZERO) => " (grace is over)".to_owned(),
                Some(left) => format!(" ({} left)", Span(left)),
                None => String::new(),
            };
            lines.push(format!("  {} {}{countdown}", item.word, self.names[*index]));
        }
        if self.in_flight.len() > MOST_LINES {
            lines.push(format!("  and {} more", self.in_flight.len() - MOST_LINES));
        }
        lines.push(format!("{} of {} done", self.finished, self.total));
        let text: String = lines.iter().map(|line| shorten(line, width.saturating_sub(1)) + "\n").collect();
        self.drawn = lines.len();
        write(&text);
    }

    fn erase(&mut self) {
        if self.drawn > 0 {
            write(&format!("\x1b[{}A\x1b[J", self.drawn));
            self.drawn = 0;
        }
    }
}
