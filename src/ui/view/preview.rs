//! The preview of a plan: each container with what would happen to it and why, what would be lost, and how to say yes.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Modifier;

use super::{Cursor, cells, dialog, footer, put, put_all};
use crate::domain::evidence::plural;
use crate::domain::plan::{Action, Intent, Item, Reconcile};
use crate::text::{clean, fit, width};
use crate::ui::model::Model;
use crate::ui::preview::{Preview, Refusal};
use crate::ui::theme::Role;

pub(super) fn draw(model: &Model, preview: &Preview, area: Rect, buffer: &mut Buffer) -> Cursor {
    let theme = model.theme();
    let plan = preview.plan();
    let (changes, kept) = (plan.changes(), plan.items().len() - plan.changes());
    let title = format!("{}: {changes} to change, {kept} to keep", title(&preview.intent));
    let losses = preview.losses().into_iter().map(|line| (line, Role::Warning)).collect();
    let mut notes: Vec<(String, Role)> = Vec::new();
    notes.extend(plan.brakes().iter().map(|brake| (format!("brake: {brake}"), Role::Danger)));
    notes.extend(choices(preview).into_iter().map(|line| (line, Role::Dim)));
    notes.extend(preview.notice.iter().map(|line| (line.clone(), Role::Danger)));
    let wide = area.width.saturating_sub(4).min(130);
    let wrapped = |notes: Vec<(String, Role)>| -> Vec<(String, Role)> {
        let wrap = |(line, role): (String, Role)| {
            let parts = super::detail::wrap(&clean(&line), usize::from(wide.saturating_sub(4)));
            parts.into_iter().map(move |part| (part, role))
        };
        notes.into_iter().flat_map(wrap).collect()
    };
    let (mut losses, notes) = (wrapped(losses), wrapped(notes));
    // What is lost may be a long list; it leaves room for the rest, and says what it leaves out.
    let room = usize::from(area.height.saturating_sub(8)).saturating_sub(notes.len()).max(2);
    if losses.len() > room {
        let left_out = losses.len() - (room - 1);
        losses.truncate(room - 1);
        losses.push((
            format!("and {left_out} more lines; `--dry-run` on the command line shows all"),
            Role::Warning,
        ));
    }
    let notes: Vec<(String, Role)> = losses.into_iter().chain(notes).collect();
    let wanted = cells(plan.items().len().max(1) + notes.len() + 4);
    let inside =
        dialog::open(model, &title, wide, wanted.min(area.height.saturating_sub(2)).max(8), area, buffer);
    // The question is always visible; then the notes, then the items.
    let question = inside.bottom().saturating_sub(1);
    let notes_room = usize::from(inside.height.saturating_sub(3)).min(notes.len());
    let items_room = usize::from(inside.height.saturating_sub(2)).saturating_sub(notes_room);
    draw_items(model, preview, Rect { height: cells(items_room), ..inside }, buffer);
    for (index, (line, role)) in notes.iter().take(notes_room).enumerate() {
        let y = question.saturating_sub(cells(notes_room - index));
        put(buffer, inside.x, y, inside.width, line, theme.style(*role));
    }
    draw_question(model, preview, Rect { y: question, height: 1, ..inside }, buffer)
}

fn title(intent: &Intent) -> String {
    match intent {
        Intent::Reconcile(Reconcile { workspace: Some(workspace), .. }) => {
            format!("Reconcile {}", clean(&workspace.to_string()))
        }
        Intent::Reconcile(Reconcile { only: Some(_), .. }) => "Reconcile what is marked".to_owned(),
        Intent::Reconcile(_) => "Reconcile everything".to_owned(),
        Intent::Stop(_) => "Stop".to_owned(),
        Intent::Remove(_) => "Remove".to_owned(),
        Intent::ForceRemove(_) => "Remove by force".to_owned(),
        Intent::Drain(_) => "Drain".to_owned(),
        Intent::Evict(_) => "Evict".to_owned(),
        Intent::Quarantine(_) => "Quarantine".to_owned(),
        Intent::Recreate(_) => "Recreate".to_owned(),
        Intent::Undo(_) => "Undo".to_owned(),
        Intent::Heal(_) => "Heal".to_owned(),
    }
}

fn word(action: Action) -> &'static str {
    match action {
        Action::Keep => "keep",
        Action::Remove => "remove",
        Action::StopAndRemove => "stop, remove",
        Action::Stop => "stop",
        Action::ForceRemove => "force removal",
        Action::Drain => "drain",
        Action::Quarantine => "quarantine",
        Action::Restore => "restore",
        Action::Start => "start",
        Action::Recreate => "recreate",
    }
}

/// What is to be changed comes first.
fn draw_items(model: &Model, preview: &Preview, area: Rect, buffer: &mut Buffer) {
    let theme = model.theme();
    let mut items: Vec<&Item> = preview.plan().items().iter().collect();
    items.sort_by_key(|item| item.action == Action::Keep);
    let widest = items.iter().map(|item| width(&item.name)).max().unwrap_or(0).clamp(4, 32);
    let room = usize::from(area.height);
    let start = preview.scroll.min(items.len().saturating_sub(room));
    let shown = items.len().min(room);
    for (index, item) in items.iter().skip(start).take(room).enumerate() {
        let changes = item.action != Action::Keep;
        let action = fit(word(item.action), 13);
        let name = fit(&clean(&item.name), widest);
        let status = fit(item.status.as_str(), 8);
        let reason = clean(&item.reason.to_string()).into_owned();
        let action_role = if changes { Role::Danger } else { Role::Good };
        let mut text = theme.style(if changes { Role::Text } else { Role::Dim });
        if changes {
            text = text.add_modifier(Modifier::BOLD);
        }
        let gap = ("  ", theme.style(Role::Text));
        let pieces = [
            (action.as_str(), theme.style(action_role)),
            gap,
            (name.as_str(), text),
            gap,
            (status.as_str(), theme.style(Role::Status(item.status))),
            gap,
            (reason.as_str(), theme.style(Role::Dim)),
        ];
        put_all(buffer, area.x, area.y + cells(index), area.width, pieces);
    }
    if items.len() > shown && room > 0 {
        let hint = format!(" {}–{} of {} ↑ ↓ ", start + 1, start + shown, items.len());
        let wide = cells(width(&hint));
        let y = area.bottom().saturating_sub(1);
        put(buffer, area.right().saturating_sub(wide), y, wide, &hint, theme.style(Role::Accent));
    }
    if items.is_empty() {
        put(
            buffer,
            area.x,
            area.y,
            area.width,
            "There is nothing this could be about.",
            theme.style(Role::Dim),
        );
    }
}

/// The choices this plan offers.
fn choices(preview: &Preview) -> Vec<String> {
    let on = |set: bool| if set { "on" } else { "off" };
    match &preview.intent {
        Intent::Reconcile(reconcile) => {
            let mut line = format!(
                "f2 running orphans: {}   f3 drain outdated in use: {}   f4 scope",
                on(reconcile.include_running_orphans),
                on(reconcile.drain)
            );
            if preview.behind_the_brake() > 0 {
                line.push_str("   f5 past the brake");
            }
            line.push_str(if reconcile.quarantine {
                "   f7 quarantine: on"
            } else {
                "   f7 quarantine: off"
            });
            let past = reconcile.override_brake.map(|behind| {
                format!(
                    "past the brake: {behind} containers that no session claims look like a wrong database"
                )
            });
            past.into_iter().chain([line]).collect()
        }
        Intent::Stop(_) | Intent::ForceRemove(_) => preview
            .live_sessions_in_the_way()
            .map(|count| format!("f6 although it ends {count} live {}", plural(count, "session")))
            .into_iter()
            .collect(),
        Intent::Remove(_) => vec!["f7 quarantine instead: stop, rename, `U` restores".to_owned()],
        Intent::Quarantine(_) => vec!["f7 remove instead, for good".to_owned()],
        Intent::Drain(_) | Intent::Evict(_) | Intent::Recreate(_) | Intent::Undo(_) | Intent::Heal(_) => {
            Vec::new()
        }
    }
}

fn draw_question(model: &Model, preview: &Preview, area: Rect, buffer: &mut Buffer) -> Cursor {
    let theme = model.theme();
    let cancel = ("[ Cancel ]", theme.style(Role::Selection));
    let gap = ("  ", theme.style(Role::Text));
    match (preview.refusal(&model.setup.policy, model.now), preview.phrase()) {
        (Some(Refusal::NothingToDo), _) => {
            put_all(
                buffer,
                area.x,
                area.y,
                area.width,
                [cancel, gap, ("nothing to do", theme.style(Role::Dim))],
            );
            None
        }
        (Some(Refusal::NoEvidence(why)), _) => {
            let text = format!("not possible now: {}", clean(&why));
            put_all(
                buffer,
                area.x,
                area.y,
                area.width,
                [cancel, gap, (text.as_str(), theme.style(Role::Danger))],
            );
            None
        }
        (_, Some(phrase)) => {
            let prompt = format!("type `{phrase}` and enter, or esc: ");
            footer::draw_input(model, &prompt, &preview.typed, "", area, buffer)
        }
        (_, None) => {
            let yes = format!("y {}", preview.verb());
            let pieces = [
                cancel,
                gap,
                (yes.as_str(), theme.style(Role::Danger)),
                gap,
                ("enter or esc leaves", theme.style(Role::Dim)),
            ];
            put_all(buffer, area.x, area.y, area.width, pieces);
            None
        }
    }
}
