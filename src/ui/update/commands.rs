//! What each command does, while no dialog is open.

use std::collections::HashSet;

use crate::domain::ContainerId;
use crate::domain::evidence::plural;
use crate::domain::plan::{Intent, Reconcile, Targets, last_removed};
use crate::text::clean;
use crate::ui::command::{Command, Effectiveness};
use crate::ui::detail::Tab;
use crate::ui::list::{Column, Key};
use crate::ui::message::Effect;
use crate::ui::model::{Layer, Model};
use crate::ui::preview::Preview;
use tui_input::Input;

pub(super) fn run(model: &mut Model, command: Command, effects: &mut Vec<Effect>) {
    // The palette offers what the keymap does; this is the last gate.
    if !model.setup.keymap.offers(command) {
        return;
    }
    walk_on(model, command);
    if command.entry().effectiveness != Effectiveness::Looks {
        act(model, command, effects);
        return;
    }
    match command {
        Command::Up => step(model, -1),
        Command::Down => step(model, 1),
        Command::PageUp => step(model, -page(model)),
        Command::PageDown => step(model, page(model)),
        Command::First => step(model, isize::MIN),
        Command::Last => step(model, isize::MAX),
        Command::Detail => model.detail.focused = !model.detail.focused,
        Command::NextTab => turn(model, model.detail.tab.step(1)),
        Command::PreviousTab => turn(model, model.detail.tab.step(Tab::ALL.len() - 1)),
        Command::Logs => {
            turn(model, Tab::Logs);
            model.detail.focused = true;
        }
        Command::Follow => {
            model.detail.follow = !model.detail.follow;
            if model.detail.follow {
                model.detail.scroll = 0;
            }
            let word = if model.detail.follow { "The log follows" } else { "The log stays where it is" };
            model.toast(word, false);
        }
        Command::Back => back(model),
        Command::Filter if model.detail.focused && model.detail.tab == Tab::Logs => {
            let before = model.detail.search.clone();
            model.layers.push(Layer::Search(Input::new(before.clone()), before));
        }
        Command::Filter => {
            let before = model.list.filter.text().to_owned();
            model.detail.focused = false;
            model.layers.push(Layer::Filter(Input::new(before.clone()), before));
        }
        Command::Sort => {
            let place = Column::ALL.iter().position(|column| *column == model.list.sort);
            model.layers.push(Layer::Sort(place.unwrap_or_default()));
        }
        Command::ReverseSort => {
            model.list.reversed = !model.list.reversed;
            model.arrange();
        }
        Command::Flat => {
            model.list.flat = !model.list.flat;
            model.arrange();
        }
        Command::Fold => fold(model),
        Command::FoldAll => fold_all(model),
        Command::ShowAll => {
            model.list.filter = crate::ui::filter::Filter::default();
            model.list.folded.clear();
            model.arrange();
        }
        Command::Mark => {
            model.list.toggle_mark();
            model.list.move_by(1);
        }
        Command::MarkVisible => model.list.toggle_visible(),
        Command::Copy => copy(model, effects),
        Command::Refresh => {
            effects.push(Effect::Refresh);
            // What is shown of the row is fetched again, too.
            model.detail.shown = None;
        }
        Command::Theme => {
            model.theme = (model.theme + 1) % model.setup.themes.len();
            let name = model.setup.themes[model.theme].0.clone();
            model.toast(format!("theme {name}"), false);
        }
        Command::Mouse => {
            model.mouse = !model.mouse;
            let word = if model.mouse { "The mouse is listened to" } else { "The mouse is your terminal's" };
            model.toast(word, false);
            effects.push(Effect::Mouse(model.mouse));
        }
        Command::Palette => model.layers.push(Layer::Palette(Input::default(), 0)),
        Command::Help => model.layers.push(Layer::Help(0)),
        // A keeper that stands still between a check and its step would take the step on old evidence.
        Command::Suspend if model.work.is_some() || model.undraining => {
            model.toast("not while something is being carried out", true);
        }
        Command::Suspend => effects.push(Effect::Suspend),
        Command::Quit => super::end(model, effects),
        Command::Stop
        | Command::Remove
        | Command::ForceRemove
        | Command::Reconcile
        | Command::Drain
        | Command::Recreate
        | Command::Undo
        | Command::Undrain => {}
    }
}

/// The tour goes on when the operator has tried what its step is about.
fn walk_on(model: &mut Model, command: Command) {
    let tried = match model.tour_step {
        0 => matches!(command, Command::Up | Command::Down),
        1 => matches!(command, Command::Detail | Command::NextTab | Command::Down | Command::Up),
        2 => command == Command::Reconcile,
        3 => command == Command::Drain,
        _ => !matches!(command, Command::Back | Command::Help | Command::Quit),
    };
    if tried && model.tour_step + 1 < model.setup.tour.len() {
        model.tour_step += 1;
    }
}

fn page(model: &Model) -> isize {
    let areas = model.areas();
    let height = if model.detail.focused { areas.detail.height } else { areas.list.height };
    isize::try_from(height.max(2) - 1).unwrap_or(1)
}

fn step(model: &mut Model, rows: isize) {
    if !model.detail.focused {
        model.list.move_by(rows);
    } else if model.detail.tab == Tab::Logs {
        // A log is read from its end.
        model.detail.scroll = model.detail.scroll.saturating_add_signed(rows.saturating_neg());
        clamp_detail(model);
    } else {
        model.detail.scroll = model.detail.scroll.saturating_add_signed(rows);
        clamp_detail(model);
    }
}

/// Scrolling past the end would have to be scrolled back.
fn clamp_detail(model: &mut Model) {
    let height = usize::from(model.areas().detail.height);
    let lines = crate::ui::view::detail_lines(model);
    model.detail.scroll = model.detail.scroll.min(lines.saturating_sub(height));
}

fn turn(model: &mut Model, tab: Tab) {
    model.detail.tab = tab;
    model.detail.scroll = 0;
}

fn back(model: &mut Model) {
    if model.detail.tab == Tab::Logs && !model.detail.search.is_empty() {
        model.detail.search.clear();
        model.detail.scroll = 0;
    } else if model.detail.focused {
        model.detail.focused = false;
    } else if !model.list.filter.is_empty() {
        model.list.filter = crate::ui::filter::Filter::default();
        model.arrange();
    } else if !model.list.marks.is_empty() {
        model.list.marks.clear();
    } else if model.tour_step < model.setup.tour.len() {
        model.tour_step = model.setup.tour.len();
    }
}

pub(super) fn fold(model: &mut Model) {
    let Some(workspace) = model.list.workspace().cloned() else { return };
    if !model.list.folded.remove(&workspace) {
        model.list.folded.insert(workspace.clone());
    }
    // The cursor stays in the workspace it was in.
    let place = model.list.rows.iter().position(|row| row.key == Key::Workspace(workspace.clone()));
    if let Some(place) = place {
        model.list.select(place);
    }
    model.arrange();
}

fn fold_all(model: &mut Model) {
    if model.list.folded.is_empty() {
        let workspaces = model.list.rows.iter().filter_map(|row| match &row.key {
            Key::Workspace(name) => Some(name.clone()),
            _ => None,
        });
        model.list.folded = workspaces.collect();
        if let Some(workspace) = model.list.workspace().cloned() {
            let place = model.list.rows.iter().position(|row| row.key == Key::Workspace(workspace.clone()));
            model.list.select(place.unwrap_or_default());
        }
    } else {
        model.list.folded.clear();
    }
    model.arrange();
}

fn copy(model: &mut Model, effects: &mut Vec<Effect>) {
    let text = match model.list.selected().map(|row| &row.key) {
        Some(Key::Container(id)) => id.to_string(),
        // With its system, as the commands take it.
        Some(Key::Workspace(Some(workspace))) => workspace.to_string(),
        Some(Key::Lost(name)) => name.clone(),
        _ => return,
    };
    let shown: String = text.chars().take(12).collect();
    model.toast(format!("copied {shown}"), false);
    // It may be pasted into a shell.
    effects.push(Effect::Copy(clean(&text).into_owned()));
}

/// Opens the preview of an action, or says why it cannot be done. Nothing is done here.
fn act(model: &mut Model, command: Command, effects: &mut Vec<Effect>) {
    let name = command.entry().name;
    // What goes by itself must never keep the operator from taking its mark away.
    let evicting = model.work.as_ref().is_some_and(|work| work.by_itself);
    let why_not = if command == Command::Undrain && evicting {
        effects.push(Effect::CancelWork);
        None
    } else {
        model.cannot_act()
    };
    if let Some(why) = why_not {
        model.toast(format!("{name} is not possible now: {why}"), true);
        return;
    }
    let targets = Targets { ids: recoverable(model, command), even_if_live: None };
    if targets.ids.is_empty() && matches!(command, Command::Recreate | Command::Undo) {
        let what = if command == Command::Undo { "to undo" } else { "to bring back" };
        model.toast(format!("there is nothing here {what}"), true);
        return;
    }
    if targets.ids.is_empty() && command != Command::Reconcile {
        model.toast(format!("there is no container under the cursor to {name}"), true);
        return;
    }
    let intent = match command {
        Command::Stop => Intent::Stop(targets),
        Command::Remove => Intent::Remove(targets),
        Command::ForceRemove => Intent::ForceRemove(targets),
        Command::Drain => Intent::Drain(targets),
        Command::Reconcile => {
            let only = (!model.list.marks.is_empty()).then_some(targets.ids);
            Intent::Reconcile(Reconcile { only, ..Reconcile::default() })
        }
        Command::Recreate => Intent::Recreate(targets),
        Command::Undo => Intent::Undo(targets),
        Command::Undrain => return undrain(model, &targets, effects),
        _ => return,
    };
    if let Some(observation) = &model.observation {
        let mut preview = Preview::new(intent, observation, &model.setup.policy, model.now);
        let removed = preview.next_to_weigh();
        if !removed.is_empty() {
            effects.push(Effect::Weigh(removed));
        }
        model.layers.push(Layer::Preview(Box::new(preview)));
    }
}

/// What a command is about; for those that bring something back that may be a container which is not here.
fn recoverable(model: &Model, command: Command) -> HashSet<ContainerId> {
    let here = model.list.targets();
    let Some(observation) = &model.observation else { return here };
    let verdicts = &observation.verdicts;
    match command {
        Command::Recreate => {
            let lost = model.list.selected().and_then(|row| model.lost(row)).and_then(|lost| lost.id.clone());
            match (&model.list.marks.is_empty(), lost) {
                (true, Some(id)) => HashSet::from([id]),
                _ => here,
            }
        }
        Command::Undo => {
            let aside = |id: &ContainerId| {
                let verdict = verdicts.containers.iter().find(|verdict| verdict.subject.id() == Some(id));
                verdict.is_some_and(|verdict| verdict.quarantine.is_some())
            };
            let aside: HashSet<ContainerId> = here.into_iter().filter(aside).collect();
            if aside.is_empty() { last_removed(verdicts) } else { aside }
        }
        _ => here,
    }
}

/// Taking a mark away destroys nothing, so it is not asked for twice.
fn undrain(model: &mut Model, targets: &Targets, effects: &mut Vec<Effect>) {
    let Some(observation) = &model.observation else { return };
    let marked: Vec<_> = observation
        .verdicts
        .containers
        .iter()
        .filter(|verdict| {
            let asked = verdict.subject.id().filter(|id| targets.ids.contains(id));
            asked.is_some_and(|id| observation.snapshot.drains.contains_key(id))
        })
        .cloned()
        .collect();
    if marked.is_empty() {
        model.toast("nothing here is draining", true);
    } else {
        let count = marked.len();
        model.toast(format!("taking the mark from {count} {}", plural(count, "container")), false);
        model.undraining = true;
        effects.push(Effect::Undrain(marked));
    }
}
