//! What a message does to the dashboard. Pure: no clock, no I/O, no drawing; what has to be done outside is returned.

mod commands;
mod layers;
mod observed;

use crossterm::event::{KeyCode, KeyEvent, KeyEventKind};
use jiff::Timestamp;
use ratatui::layout::Rect;
use tui_input::{Input, InputRequest};

use super::command::Command;
use super::detail::{Fetched, Tab};
use super::keymap::Chord;
use super::list::Content;
use super::message::{Effect, Message};
use super::model::{Layer, Model};
use super::work::{Summary, Work};
use crate::domain::evidence::plural;
use crate::engine::LogLine;
use crate::keeper::{Ending, ItemOutcome};

/// No screen is larger than this, whatever a terminal says.
const LARGEST: u16 = 1000;

/// Takes a message in and says what is to be done.
pub fn update(model: &mut Model, message: Message) -> Vec<Effect> {
    let mut effects = Vec::new();
    match message {
        Message::Key(key) => on_key(model, key, &mut effects),
        Message::Paste(text) => layers::paste(model, &text),
        Message::Click { column, row } => on_click(model, column, row),
        Message::Wheel(rows) => on_wheel(model, rows),
        Message::Resize { width, height } => {
            model.width = width.min(LARGEST);
            model.height = height.min(LARGEST);
        }
        Message::Drawn => {
            if let Some(Layer::Preview(preview)) = model.layers.last_mut() {
                preview.was_drawn();
            }
            return effects;
        }
        Message::Tick(now) => on_tick(model, now, &mut effects),
        Message::Settled(generation) => on_settled(model, generation, &mut effects),
        Message::Observed(observation) => observed::observe(model, &observation, &mut effects),
        Message::LastLook(look) => {
            model.last_look = Some(look);
            observed::tell_since_last_look(model, &mut effects);
        }
        Message::Progress(progress) => {
            let now = model.now;
            if let Some(work) = &mut model.work {
                work.hear(&progress, now);
            }
        }
        Message::WorkEnded(result) => on_work_ended(model, result, &mut effects),
        Message::Unfinished(sentence) => model.toast(format!("unfinished: {sentence}"), true),
        Message::Undrained(result) => {
            model.undraining = false;
            if model.ending && model.work.is_none() {
                effects.push(Effect::Quit);
            }
            match result {
                Ok(count) => {
                    model.toast(format!("{count} {} no longer draining", plural(count, "container")), false);
                    effects.push(Effect::Refresh);
                }
                Err(why) => model.toast(why, true),
            }
        }
        Message::Logged(id, lines) => {
            if model.detail.of.as_ref() == Some(&id) {
                on_logged(model, lines);
            }
        }
        Message::LogEnded(id, why) => {
            if model.detail.of.as_ref() == Some(&id) {
                model.detail.log.heard = true;
                model.detail.log.ended = Some(why.unwrap_or_else(|| "end of the log".to_owned()));
            }
        }
        Message::Inspected(id, result) => {
            if model.detail.of.as_ref() == Some(&id) {
                model.detail.document = fetched(result);
            }
        }
        Message::Recalled(id, result) => {
            if model.detail.of.as_ref() == Some(&id) {
                model.detail.past = fetched(result);
            }
        }
        Message::Weighed(id, sentences) => {
            for layer in &mut model.layers {
                if let Layer::Preview(preview) = layer {
                    preview.weigh(&id, &sentences);
                    let more = preview.next_to_weigh();
                    if !more.is_empty() {
                        effects.push(Effect::Weigh(more));
                    }
                }
            }
        }
        Message::Sampled(id, usage) => {
            if let Some(usage) = usage {
                model.usages.add(id, usage);
            }
        }
        Message::AskedToEnd | Message::HungUp => end(model, &mut effects),
    }
    model.scroll();
    turn_detail(model, &mut effects);
    effects
}

/// A log that does not follow, or is being read further up, stays where it is while lines are added to its end.
fn on_logged(model: &mut Model, lines: Vec<LogLine>) {
    let detail = &mut model.detail;
    if detail.log.heard && (!detail.follow || detail.scroll > 0) {
        let wanted = detail.search.to_lowercase();
        detail.scroll += lines.iter().filter(|line| line.text.to_lowercase().contains(&wanted)).count();
    }
    detail.log.add(lines);
}

fn fetched<T>(result: Result<T, String>) -> Fetched<T> {
    match result {
        Ok(value) => Fetched::Here(value),
        Err(why) => Fetched::Failed(why),
    }
}

fn on_key(model: &mut Model, key: KeyEvent, effects: &mut Vec<Effect>) {
    if key.kind == KeyEventKind::Release {
        return;
    }
    if model.layers.is_empty() {
        if let Some(command) = model.setup.keymap.command(Chord::from(key)) {
            commands::run(model, command, effects);
        }
    } else {
        layers::on_key(model, key, effects);
    }
}

fn on_click(model: &mut Model, column: u16, row: u16) {
    if !model.layers.is_empty() {
        return;
    }
    let areas = model.areas();
    let within = |area: Rect| row >= area.y && row < area.y + area.height;
    if within(areas.list) {
        let index = model.list.offset + usize::from(row - areas.list.y);
        if index >= model.list.rows.len() {
            return;
        }
        model.detail.focused = false;
        let again = model.list.cursor() == index;
        model.list.select(index);
        if again && matches!(model.list.rows[index].content, Content::Workspace(_)) {
            commands::fold(model);
        }
    } else if within(areas.tabs) {
        if let Some(tab) = super::view::tab_at(column) {
            model.detail.tab = tab;
            model.detail.scroll = 0;
        }
    } else if within(areas.detail) {
        model.detail.focused = true;
    }
}

fn on_wheel(model: &mut Model, rows: isize) {
    if let Some(layer) = model.layers.last_mut() {
        layers::scroll(layer, rows);
    } else if model.detail.focused {
        model.detail.scroll = model.detail.scroll.saturating_add_signed(rows);
    } else {
        model.list.move_by(rows);
    }
}

fn on_tick(model: &mut Model, now: Timestamp, effects: &mut Vec<Effect>) {
    model.now = now;
    model.toasts.retain(|toast| toast.until > now);
    sample_next(model, effects);
}

/// One visible container at a time, in turn: what is not on screen costs nothing.
fn sample_next(model: &mut Model, effects: &mut Vec<Effect>) {
    if !super::view::shows_usage(model) {
        return;
    }
    let height = usize::from(model.areas().list.height);
    let visible = model.list.rows.iter().skip(model.list.offset).take(height);
    let running: Vec<_> = visible
        .filter_map(|row| model.verdict(row)?.subject.container())
        .filter(|container| container.state.as_str() == "running")
        .map(|container| container.id.clone())
        .collect();
    if running.is_empty() {
        return;
    }
    model.sample_next = (model.sample_next + 1) % running.len();
    effects.push(Effect::Sample(running[model.sample_next].clone()));
}

/// Notices that the cursor or the tab has moved. Facts are fetched once it rests.
fn turn_detail(model: &mut Model, effects: &mut Vec<Effect>) {
    let now_shown = (model.detail.tab, model.selected_id().cloned());
    if model.detail.shown.as_ref() == Some(&now_shown) {
        return;
    }
    if model.detail.of != now_shown.1 {
        model.detail.turn_to(now_shown.1.clone());
    }
    let wants_log = if now_shown.0 == Tab::Logs { now_shown.1.as_ref() } else { None };
    if model.detail.logs_of.is_some() && model.detail.logs_of.as_ref() != wants_log {
        model.detail.logs_of = None;
        effects.push(Effect::Logs(None));
    }
    model.detail.shown = Some(now_shown);
    model.detail.generation += 1;
    effects.push(Effect::Settle(model.detail.generation));
}

fn on_settled(model: &mut Model, generation: u64, effects: &mut Vec<Effect>) {
    if generation != model.detail.generation {
        return;
    }
    let Some(id) = model.selected_id().cloned() else { return };
    match model.detail.tab {
        Tab::Logs if model.detail.logs_of.as_ref() != Some(&id) => {
            model.detail.logs_of = Some(id.clone());
            model.detail.log = super::detail::Log::default();
            effects.push(Effect::Logs(Some(id)));
        }
        Tab::Inspect => effects.push(Effect::Inspect(id)),
        Tab::History => effects.push(Effect::Recall(id)),
        Tab::Logs | Tab::Why | Tab::Sessions => {}
    }
}

fn on_work_ended(model: &mut Model, result: Result<Vec<ItemOutcome>, String>, effects: &mut Vec<Effect>) {
    let Some(work) = model.work.take() else { return };
    effects.push(Effect::Refresh);
    let summary = Summary::new(&work, result);
    if work.by_itself {
        if work.verb == "healing" {
            tell_healing(model, &summary);
        } else {
            observed::pause_evictions(model, &work);
            tell_eviction(model, &summary);
        }
    } else if !model.ending {
        // Below an open dialog there is no place to be read; there it goes on top.
        model.layers.push(Layer::Summary(summary));
        model.list.marks.clear();
    }
    // What was done belongs into the history on screen.
    model.detail.shown = None;
    if model.ending {
        effects.push(Effect::Quit);
    }
}

/// What went by itself is told in passing.
fn tell_eviction(model: &mut Model, summary: &Summary) {
    if let Some(why) = &summary.refused {
        model.toast(format!("a drained container was not removed: {why}"), true);
        return;
    }
    let gone = summary.count(Ending::Removed) + summary.count(Ending::AlreadyGone);
    if gone > 0 {
        model.toast(format!("{gone} drained {} removed", plural(gone, "container")), false);
    }
    let left =
        |outcome: &&ItemOutcome| matches!(outcome.ending, Ending::Failed | Ending::Rescued | Ending::Skipped);
    for outcome in summary.outcomes.iter().filter(left) {
        let (name, reason) = (&outcome.item.name, &outcome.reason);
        model.toast(format!("drained {name} was not removed ({}): {reason}", outcome.ending.as_str()), true);
    }
}

/// What came back by itself, and what did not.
fn tell_healing(model: &mut Model, summary: &Summary) {
    if let Some(why) = &summary.refused {
        model.toast(format!("a lost container was not brought back: {why}"), true);
    }
    for outcome in &summary.outcomes {
        let (name, reason) = (&outcome.item.name, &outcome.reason);
        let trouble = matches!(outcome.ending, Ending::Failed | Ending::Skipped);
        model.toast(format!("{} {name}: {reason}", outcome.ending.as_str()), trouble);
    }
}

/// Ends now, or as soon as the steps in flight are over.
fn end(model: &mut Model, effects: &mut Vec<Effect>) {
    let again = model.ending;
    model.ending = true;
    match &mut model.work {
        // The answer about the marks is worth the moment.
        None if model.undraining => {}
        None => effects.push(Effect::Quit),
        Some(work) => {
            if !again {
                work.cancelled = true;
                effects.push(Effect::CancelWork);
                model.layers.push(Layer::Ending(1));
            } else if let Some(Layer::Ending(asked)) = model.layers.last_mut() {
                *asked += 1;
            }
        }
    }
}

/// Begins to carry something out.
fn begin(model: &mut Model, confirmed: super::preview::Confirmed, effects: &mut Vec<Effect>) {
    model.work = Some(Work::new(confirmed.plan()));
    effects.push(Effect::CarryOut(confirmed));
}

/// Gives a key to a line that is being typed; whether it was one for it.
fn type_into(input: &mut Input, key: KeyEvent) -> bool {
    let chord = Chord::from(key);
    let control = chord.modifiers.contains(crossterm::event::KeyModifiers::CONTROL);
    let request = match chord.code {
        KeyCode::Char('u') if control => InputRequest::DeleteLine,
        KeyCode::Char('w') if control => InputRequest::DeletePrevWord,
        KeyCode::Char('a') if control => InputRequest::GoToStart,
        KeyCode::Char('e') if control => InputRequest::GoToEnd,
        KeyCode::Char(character) if chord.modifiers.is_empty() => InputRequest::InsertChar(character),
        KeyCode::Backspace => InputRequest::DeletePrevChar,
        KeyCode::Delete => InputRequest::DeleteNextChar,
        KeyCode::Left => InputRequest::GoToPrevChar,
        KeyCode::Right => InputRequest::GoToNextChar,
        KeyCode::Home => InputRequest::GoToStart,
        KeyCode::End => InputRequest::GoToEnd,
        _ => return false,
    };
    input.handle(request);
    true
}

/// What a command means while a layer is open, where only moving and leaving keep their keys.
fn moving(model: &Model, key: KeyEvent) -> Option<Command> {
    model.setup.keymap.command(Chord::from(key))
}
