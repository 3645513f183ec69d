//! Keys while a dialog is open. The one on top takes them; on something destructive Enter alone only ever leaves.

use crossterm::event::{KeyCode, KeyEvent};
use tui_input::{Input, InputRequest};

use super::{begin, commands, moving, type_into};
use crate::domain::plan::{Intent, Reconcile, Targets};
use crate::ui::command::Command;
use crate::ui::filter::Filter;
use crate::ui::list::Column;
use crate::ui::message::Effect;
use crate::ui::model::{Layer, Model};
use crate::ui::preview::{Preview, Refusal};

/// The longest line that can be typed.
const LONGEST: usize = 200;

pub(super) fn on_key(model: &mut Model, key: KeyEvent, effects: &mut Vec<Effect>) {
    let Some(layer) = model.layers.pop() else { return };
    let command = moving(model, key);
    let leaves = key.code == KeyCode::Esc || matches!(command, Some(Command::Back));
    match layer {
        Layer::Filter(input, before) => on_filter(model, key, input, before),
        Layer::Search(input, before) => on_search(model, key, input, before),
        Layer::Palette(input, line) => on_palette(model, key, input, line, effects),
        Layer::Help(_) | Layer::Summary(_) if leaves || is_enter(key) => {}
        Layer::Help(_) if matches!(command, Some(Command::Help | Command::Quit)) => {}
        Layer::Summary(_) | Layer::Sort(_) if matches!(command, Some(Command::Quit)) => {}
        Layer::Sort(_) if leaves => {}
        Layer::Sort(line) if is_enter(key) => {
            let column = Column::ALL[line.min(Column::ALL.len() - 1)];
            // The same column once more turns it round.
            model.list.reversed = model.list.sort == column && !model.list.reversed;
            model.list.sort = column;
            model.arrange();
        }
        Layer::Preview(preview) => on_preview(model, key, *preview, effects),
        Layer::Ending(asked) => {
            model.layers.push(Layer::Ending(asked));
            if matches!(command, Some(Command::Quit)) {
                super::end(model, effects);
            }
        }
        mut layer @ (Layer::Help(_) | Layer::Summary(_) | Layer::Sort(_)) => {
            let page = isize::try_from(model.height / 2).unwrap_or(10).max(1);
            match command {
                Some(Command::Up) => scroll(&mut layer, -1),
                Some(Command::Down) => scroll(&mut layer, 1),
                Some(Command::PageUp) => scroll(&mut layer, -page),
                Some(Command::PageDown) => scroll(&mut layer, page),
                Some(Command::First) => scroll(&mut layer, isize::MIN),
                Some(Command::Last) => scroll(&mut layer, 10_000),
                _ => {}
            }
            model.layers.push(layer);
        }
    }
}

/// Moves a layer's lines; the view keeps them within what there is.
pub(super) fn scroll(layer: &mut Layer, rows: isize) {
    let (line, last) = match layer {
        Layer::Help(line) => (line, super::super::view::help_length()),
        Layer::Sort(line) => (line, Column::ALL.len() - 1),
        Layer::Summary(summary) => {
            let last = summary.outcomes.len().saturating_sub(1);
            (&mut summary.scroll, last)
        }
        Layer::Preview(preview) => {
            let last = preview.plan().items().len().saturating_sub(1);
            (&mut preview.scroll, last)
        }
        Layer::Filter(..) | Layer::Search(..) | Layer::Palette(..) | Layer::Ending(_) => return,
    };
    *line = line.saturating_add_signed(rows).min(last);
}

/// Pasted text is typed text, without its line breaks: a paste never presses Enter.
pub(super) fn paste(model: &mut Model, text: &str) {
    // A phrase that must be typed is not pasted.
    let Some(Layer::Filter(input, _) | Layer::Search(input, _) | Layer::Palette(input, _)) =
        model.layers.last_mut()
    else {
        return;
    };
    for character in text.chars().filter(|character| !character.is_control()).take(LONGEST) {
        input.handle(InputRequest::InsertChar(character));
    }
    let typed = input.value().to_owned();
    match model.layers.last() {
        Some(Layer::Filter(..)) => {
            model.list.filter = Filter::parse(&typed);
            model.arrange();
        }
        Some(Layer::Search(..)) => model.detail.search = typed,
        _ => {}
    }
}

fn is_enter(key: KeyEvent) -> bool {
    key.code == KeyCode::Enter
}

/// Esc, or Control-C where letters are typed.
fn cancels(key: KeyEvent) -> bool {
    key.code == KeyCode::Esc
        || (key.code == KeyCode::Char('c') && key.modifiers.contains(crossterm::event::KeyModifiers::CONTROL))
}

fn on_filter(model: &mut Model, key: KeyEvent, mut input: Input, before: String) {
    if cancels(key) {
        model.list.filter = Filter::parse(&before);
        model.arrange();
        return;
    }
    match key.code {
        KeyCode::Enter => return,
        KeyCode::Up => model.list.move_by(-1),
        KeyCode::Down => model.list.move_by(1),
        // Enough is enough.
        KeyCode::Char(_) if input.value().chars().count() >= LONGEST => {}
        _ if type_into(&mut input, key) => {
            model.list.filter = Filter::parse(input.value());
            model.arrange();
        }
        _ => {}
    }
    model.layers.push(Layer::Filter(input, before));
}

fn on_search(model: &mut Model, key: KeyEvent, mut input: Input, before: String) {
    if cancels(key) {
        model.detail.search = before;
        return;
    }
    if is_enter(key) {
        return;
    }
    if type_into(&mut input, key) {
        input.value().clone_into(&mut model.detail.search);
        model.detail.scroll = 0;
    }
    model.layers.push(Layer::Search(input, before));
}

fn on_palette(
    model: &mut Model,
    key: KeyEvent,
    mut input: Input,
    mut line: usize,
    effects: &mut Vec<Effect>,
) {
    if cancels(key) {
        return;
    }
    let found = model.palette(input.value());
    match key.code {
        KeyCode::Enter => {
            // Choosing a destructive command only opens its preview.
            if let Some(command) = found.get(line) {
                commands::run(model, *command, effects);
            }
            return;
        }
        KeyCode::Up => line = line.saturating_sub(1),
        KeyCode::Down | KeyCode::Tab => line = (line + 1).min(found.len().saturating_sub(1)),
        _ => {
            if type_into(&mut input, key) {
                line = 0;
            }
        }
    }
    model.layers.push(Layer::Palette(input, line));
}

fn on_preview(model: &mut Model, key: KeyEvent, mut preview: Preview, effects: &mut Vec<Effect>) {
    let phrase = preview.phrase();
    let typed_right = phrase.as_ref().is_some_and(|phrase| preview.typed.value().trim() == phrase);
    let says_yes = match &phrase {
        // The phrase is the yes; Enter only sends it.
        Some(_) => is_enter(key) && typed_right,
        None => key.code == KeyCode::Char('y') && key.modifiers.is_empty(),
    };
    if says_yes {
        return confirm(model, preview, effects);
    }
    if cancels(key) || (is_enter(key) && preview.typed.value().is_empty()) {
        return;
    }
    if is_enter(key) {
        preview.notice = phrase.map(|phrase| format!("Type `{phrase}` exactly, or Esc to leave."));
        model.layers.push(Layer::Preview(Box::new(preview)));
        return;
    }
    if matches!(key.code, KeyCode::Up | KeyCode::Down | KeyCode::PageUp | KeyCode::PageDown) {
        let page = isize::try_from(model.height / 2).unwrap_or(10).max(1);
        let rows = match key.code {
            KeyCode::Up => -1,
            KeyCode::Down => 1,
            KeyCode::PageUp => -page,
            _ => page,
        };
        let mut layer = Layer::Preview(Box::new(preview));
        scroll(&mut layer, rows);
        model.layers.push(layer);
        return;
    }
    if let Some(changed) = other_intent(model, &preview, key)
        && let Some(observation) = &model.observation
    {
        preview.change_intent(changed, observation, &model.setup.policy, model.now);
        let removed = preview.next_to_weigh();
        if !removed.is_empty() {
            effects.push(Effect::Weigh(removed));
        }
    } else if phrase.is_some() {
        preview.notice = None;
        type_into(&mut preview.typed, key);
    } else if key.code == KeyCode::Char('n') {
        return;
    }
    model.layers.push(Layer::Preview(Box::new(preview)));
}

fn confirm(model: &mut Model, preview: Preview, effects: &mut Vec<Effect>) {
    // The world may have changed since the dialog was opened.
    if let Some(why) = model.cannot_act() {
        let mut preview = preview;
        preview.notice = Some(format!("Not possible now: {why}."));
        model.layers.push(Layer::Preview(Box::new(preview)));
        return;
    }
    match preview.confirm(&model.setup.policy, model.now) {
        Ok(confirmed) => begin(model, confirmed, effects),
        Err((mut preview, refusal)) => {
            preview.notice = Some(match refusal {
                Refusal::NotTyped => "The phrase is not typed.".to_owned(),
                Refusal::JustChanged => "It has just changed: read it first.".to_owned(),
                Refusal::NothingToDo => "There is nothing to do.".to_owned(),
                Refusal::NoEvidence(why) => format!("Not possible now: {why}."),
            });
            model.layers.push(Layer::Preview(preview));
        }
    }
}

/// The choices a preview offers, on function keys so that none of them can be part of a phrase: another scope, running
/// orphans too, draining what is in use, past the brake, over live sessions.
fn other_intent(model: &Model, preview: &Preview, key: KeyEvent) -> Option<Intent> {
    let KeyCode::F(number) = key.code else { return None };
    match (&preview.intent, number) {
        (Intent::Reconcile(reconcile), 2) => {
            let include_running_orphans = !reconcile.include_running_orphans;
            Some(Intent::Reconcile(Reconcile { include_running_orphans, ..reconcile.clone() }))
        }
        (Intent::Reconcile(reconcile), 3) => {
            Some(Intent::Reconcile(Reconcile { drain: !reconcile.drain, ..reconcile.clone() }))
        }
        (Intent::Reconcile(reconcile), 4) => Some(Intent::Reconcile(next_scope(model, reconcile))),
        (Intent::Reconcile(reconcile), 5) if preview.behind_the_brake() > 0 => {
            let override_brake = Some(preview.behind_the_brake());
            Some(Intent::Reconcile(Reconcile { override_brake, ..reconcile.clone() }))
        }
        (Intent::Reconcile(reconcile), 7) => {
            Some(Intent::Reconcile(Reconcile { quarantine: !reconcile.quarantine, ..reconcile.clone() }))
        }
        (Intent::Remove(targets), 7) => Some(Intent::Quarantine(targets.clone())),
        (Intent::Quarantine(targets), 7) => Some(Intent::Remove(targets.clone())),
        (Intent::Stop(targets), 6) => Some(Intent::Stop(Targets {
            even_if_live: preview.live_sessions_in_the_way(),
            ..targets.clone()
        })),
        (Intent::ForceRemove(targets), 6) => Some(Intent::ForceRemove(Targets {
            even_if_live: preview.live_sessions_in_the_way(),
            ..targets.clone()
        })),
        _ => None,
    }
}

/// Everything, the workspace under the cursor, the marked containers, and round again.
fn next_scope(model: &Model, reconcile: &Reconcile) -> Reconcile {
    let here = model.list.workspace().cloned().flatten();
    let marked = (!model.list.marks.is_empty()).then(|| model.list.marks.clone());
    let (workspace, only) = match (&reconcile.workspace, &reconcile.only) {
        (None, None) if here.is_some() => (here, None),
        (_, None) => (None, marked),
        (_, Some(_)) => (None, None),
    };
    Reconcile { workspace, only, ..reconcile.clone() }
}
