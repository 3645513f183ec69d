//! Everything the dashboard knows. Plain data: [`update`](fn@super::update) changes it, [`view`](fn@super::view) draws it.

use std::collections::HashMap;
use std::time::Duration;

use jiff::Timestamp;
use tui_input::Input;

use super::command::Command;
use super::detail::Detail;
use super::glyphs::Glyphs;
use super::keymap::Keymap;
use super::layout::{Areas, Wants, divide};
use super::list::{Content, Key, List, Row, Traces};
use super::message::{LastLook, Observation};
use super::preview::Preview;
use super::theme::Theme;
use super::timeline::Timeline;
use super::usage::Usages;
use super::work::{Summary, Work};
use crate::domain::verdict::{Lost, Verdict};
use crate::domain::{ContainerId, Policy, Status};
use crate::text::clean;

/// More toasts than this are never on screen.
const MOST_TOASTS: usize = 4;

/// What the dashboard is told at its start.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Whether nothing may be changed.
    pub read_only: bool,
    /// The operator's rules.
    pub policy: Policy,
    /// What people call this machine.
    pub machine: String,
    /// Which key asks for what.
    pub keymap: Keymap,
    /// The themes to choose from by name, the first one shown first.
    pub themes: Vec<(String, Theme)>,
    /// Which signs the terminal can show.
    pub glyphs: Glyphs,
    /// Whether the mouse is listened to.
    pub mouse: bool,
    /// What the footer tells a newcomer, one step after the other.
    pub tour: Vec<String>,
    /// What cannot be used of the operator's own files, a sentence each.
    pub warnings: Vec<String>,
}

/// Something above the list that takes the keys first.
#[derive(Debug)]
pub enum Layer {
    /// The filter is being typed; the text is what it was before.
    Filter(Input, String),
    /// A search in the log is being typed.
    Search(Input, String),
    /// A command is being chosen: what is typed, and which line of the matches.
    Palette(Input, usize),
    /// All keys; the first line on screen.
    Help(usize),
    /// The menu of sort orders; which line.
    Sort(usize),
    /// A plan under review.
    Preview(Box<Preview>),
    /// What came of a plan.
    Summary(Summary),
    /// The program ends as soon as the steps in flight are over; how often the operator asked.
    Ending(usize),
}

/// A passing word at the edge of the screen.
#[derive(Clone, Debug)]
pub struct Toast {
    /// What it says.
    pub text: String,
    /// Whether something is wrong.
    pub warning: bool,
    /// Until when.
    pub until: Timestamp,
}

/// Everything the dashboard knows.
#[derive(Debug)]
pub struct Model {
    /// What it was told at its start.
    pub setup: Setup,
    /// The time, as of the last tick.
    pub now: Timestamp,
    /// Cells across.
    pub width: u16,
    /// Cells down.
    pub height: u16,
    /// The host as it was last seen.
    pub observation: Option<Observation>,
    /// The list.
    pub list: List,
    /// The detail pane.
    pub detail: Detail,
    /// What is above the list; the last one is on top.
    pub layers: Vec<Layer>,
    /// The plan being carried out.
    pub work: Option<Work>,
    /// Passing words.
    pub toasts: Vec<Toast>,
    /// What visible containers use.
    pub usages: Usages,
    /// The statuses each container has had, the newest last.
    pub timelines: HashMap<ContainerId, Timeline>,
    /// Which theme.
    pub theme: usize,
    /// Whether the mouse is listened to.
    pub mouse: bool,
    /// Which step of the tour is shown.
    pub tour_step: usize,
    /// Whether the program is to end.
    pub ending: bool,
    pub(super) last_look: Option<LastLook>,
    /// Containers that could not be evicted, until when they are left alone, and how often that was tried.
    pub(super) evictions: HashMap<ContainerId, (Timestamp, u32)>,
    /// Whether marks are being taken away right now.
    pub(super) undraining: bool,
    pub(super) sample_next: usize,
}

impl Model {
    /// A dashboard that has seen nothing yet.
    pub fn new(setup: Setup, now: Timestamp, width: u16, height: u16) -> Self {
        let mouse = setup.mouse;
        let mut model = Self {
            setup,
            now,
            width,
            height,
            observation: None,
            list: List::default(),
            detail: Detail::default(),
            layers: Vec::new(),
            work: None,
            toasts: Vec::new(),
            usages: Usages::default(),
            timelines: HashMap::new(),
            theme: 0,
            mouse,
            tour_step: 0,
            ending: false,
            last_look: None,
            evictions: HashMap::new(),
            undraining: false,
            sample_next: 0,
        };
        for warning in model.setup.warnings.clone() {
            model.toast(warning, true);
        }
        model
    }

    /// The theme in use.
    pub fn theme(&self) -> &Theme {
        &self.setup.themes[self.theme % self.setup.themes.len()].1
    }

    /// What the footer tells a newcomer now.
    pub fn tour(&self) -> Option<&str> {
        self.setup.tour.get(self.tour_step).map(String::as_str)
    }

    /// The signs in use.
    pub fn glyphs(&self) -> Glyphs {
        self.setup.glyphs
    }

    /// Where everything is on the screen.
    pub fn areas(&self) -> Areas {
        let work = self.work.as_ref().map_or(0, |work| {
            let lines = work.in_flight().count().clamp(1, 6);
            u16::try_from(lines + 1).unwrap_or(7)
        });
        let problems = u16::try_from(self.problems().len()).unwrap_or(u16::MAX);
        divide(
            self.width,
            self.height,
            Wants {
                problems,
                work,
                detail_focused: self.detail.focused,
                more_footer: u16::from(self.tour().is_some()),
            },
        )
    }

    /// The verdict of a row.
    pub fn verdict(&self, row: &Row) -> Option<&Verdict> {
        match row.content {
            Content::Container(index) => self.observation.as_ref()?.verdicts.containers.get(index),
            _ => None,
        }
    }

    /// The lost session of a row.
    pub fn lost(&self, row: &Row) -> Option<&Lost> {
        match row.content {
            Content::Lost(index) => self.observation.as_ref()?.verdicts.lost.get(index),
            _ => None,
        }
    }

    /// The container under the cursor.
    pub fn selected_id(&self) -> Option<&ContainerId> {
        match self.list.selected().map(|row| &row.key) {
            Some(Key::Container(id)) => Some(id),
            _ => None,
        }
    }

    /// What is wrong with the evidence, a line each; empty when all of it holds.
    pub fn problems(&self) -> Vec<String> {
        let Some(Observation { snapshot, verdicts, .. }) = &self.observation else { return Vec::new() };
        let limit = self.setup.policy.max_evidence_age;
        let mut problems = Vec::new();
        if let Some(why) = snapshot.engine.unusable(self.now, limit) {
            problems.push(format!("engine: {why}"));
        }
        for system in &snapshot.systems {
            if let Some(broken) = &system.broken {
                problems.push(format!("profile {}: {broken}", system.profile.name));
            }
            for store in &system.stores {
                if let Some(why) = store.sessions.unusable(self.now, limit) {
                    problems.push(format!("{} sessions {}: {why}", system.profile.name, store.path));
                }
            }
        }
        if let Some(why) = &snapshot.marks_fault {
            problems.push(format!("eviction marks: {why}"));
        }
        if let Some(why) = &snapshot.recalled.fault {
            problems.push(format!("what was lost or put aside: {why}"));
        }
        if let Some(step) = snapshot.clock_step {
            problems.push(format!(
                "the clock jumped by {}: silence proves nothing for now",
                crate::domain::span::Span(step)
            ));
        }
        problems.extend(verdicts.brakes.iter().map(|brake| format!("brake: {brake}")));
        problems.into_iter().map(|problem| clean(&problem).into_owned()).collect()
    }

    /// Why nothing can be changed right now; `None` when it can.
    pub fn cannot_act(&self) -> Option<String> {
        if self.setup.read_only {
            return Some("this is read-only".to_owned());
        }
        let Some(Observation { snapshot, .. }) = &self.observation else {
            return Some("the host has not been seen yet".to_owned());
        };
        let limit = self.setup.policy.max_evidence_age;
        if let Some(why) = snapshot.engine.unusable(self.now, limit) {
            return Some(format!("the engine's word cannot be relied on: {why}"));
        }
        let mut stores = snapshot.systems.iter().flat_map(|system| &system.stores).peekable();
        if stores.peek().is_some() && stores.all(|store| store.sessions.unusable(self.now, limit).is_some()) {
            return Some("no session store can be read, so every container may be needed".to_owned());
        }
        if let Some(work) = &self.work {
            return Some(format!("a {} is being carried out", work.verb));
        }
        None
    }

    /// Says something in passing.
    pub fn toast(&mut self, text: impl Into<String>, warning: bool) {
        let text = clean(&text.into()).into_owned();
        self.toasts.retain(|toast| toast.text != text);
        if self.toasts.len() == MOST_TOASTS {
            self.toasts.remove(0);
        }
        let length = if warning { Duration::from_secs(12) } else { Duration::from_secs(6) };
        self.toasts.push(Toast { text, warning, until: self.now + length });
    }

    pub(super) fn note_status(&mut self, id: &ContainerId, status: Status) {
        self.timelines.entry(id.clone()).or_default().note(status);
    }

    /// Lays the list out anew and keeps the cursor on screen.
    pub(super) fn arrange(&mut self) {
        if let Some(observation) = &self.observation {
            let traces = Traces { usages: &self.usages, timelines: &self.timelines };
            self.list.arrange(&observation.verdicts, traces);
        }
        self.scroll();
    }

    pub(super) fn scroll(&mut self) {
        let height = usize::from(self.areas().list.height);
        self.list.scroll_into_view(height);
    }

    /// The commands that fit what is typed in the palette.
    pub fn palette(&self, typed: &str) -> Vec<Command> {
        super::palette::matches(typed, &self.setup.keymap)
    }
}
