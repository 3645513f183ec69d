//! The last line: the keys that work now, or what is being typed.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};
use tui_input::Input;

use super::{Cursor, cells, put, put_all};
use crate::text::{clean, width};
use crate::ui::command::{Command, Effectiveness, Entry, TABLE};
use crate::ui::model::{Layer, Model};
use crate::ui::theme::Role;

pub(super) fn draw(model: &Model, area: Rect, buffer: &mut Buffer) -> Cursor {
    if area.height == 0 {
        return None;
    }
    let theme = model.theme();
    match model.layers.last() {
        Some(Layer::Filter(input, _)) => {
            let shown = model.list.rows.iter().filter(|row| is_member(row)).count();
            let hint = format!("{shown} of {}  enter keep  esc undo", model.list.total);
            return draw_input(model, "/", input, &hint, area, buffer);
        }
        Some(Layer::Search(input, _)) => {
            return draw_input(model, "search the log: ", input, "enter keep  esc undo", area, buffer);
        }
        _ => {}
    }
    if let Some(step) = model.tour() {
        let lines = super::detail::wrap(&clean(step), usize::from(area.width.saturating_sub(2)));
        for (index, line) in lines.iter().take(usize::from(area.height)).enumerate() {
            put(buffer, area.x + 1, area.y + cells(index), area.width, line, theme.style(Role::Accent));
        }
        return None;
    }
    let mut pieces: Vec<(String, Style)> = vec![(" ".to_owned(), theme.style(Role::Text))];
    if !model.list.marks.is_empty() {
        pieces.push((format!("{} marked  ", model.list.marks.len()), theme.style(Role::Marked)));
    }
    if !model.list.filter.is_empty() {
        pieces.push((format!("/{}  ", clean(model.list.filter.text())), theme.style(Role::Accent)));
    }
    let blocked = model.cannot_act().is_some();
    let before: usize = pieces.iter().map(|(text, _)| width(text)).sum();
    for (entry, key) in offered(model, usize::from(area.width).saturating_sub(before)) {
        let off = blocked && entry.effectiveness != Effectiveness::Looks;
        let mut key_style = theme.style(if off { Role::Dim } else { Role::Key });
        let mut word_style = theme.style(if off { Role::Dim } else { Role::Text });
        if off {
            // Seen without colour, too.
            key_style = key_style.add_modifier(Modifier::CROSSED_OUT);
            word_style = word_style.add_modifier(Modifier::CROSSED_OUT);
        }
        pieces.push((key, key_style));
        pieces.push((format!(" {}", entry.short), word_style));
        pieces.push(("  ".to_owned(), theme.style(Role::Text)));
    }
    put_all(buffer, area.x, area.y, area.width, pieces.iter().map(|(text, style)| (text.as_str(), *style)));
    None
}

/// The commands that have a place here, with their keys. Where there is no room for all, those that are needed least often
/// give way before the help and the way out do.
fn offered(model: &Model, room: usize) -> Vec<(&'static Entry, String)> {
    let keyed = |entry: &'static Entry| Some((entry, model.setup.keymap.first_key(entry.command)?));
    let mut offered: Vec<_> =
        TABLE.iter().filter(|entry| !entry.short.is_empty()).filter_map(keyed).collect();
    let wide = |offered: &[(&Entry, String)]| -> usize {
        offered
            .iter()
            .map(|(entry, key)| width(key) + width(entry.short) + 3)
            .sum::<usize>()
            .saturating_sub(2)
    };
    for rare in [Command::Undo, Command::Recreate] {
        if wide(&offered) > room {
            offered.retain(|(entry, _)| entry.command != rare);
        }
    }
    offered
}

fn is_member(row: &crate::ui::list::Row) -> bool {
    !matches!(row.content, crate::ui::list::Content::Workspace(_))
}

/// A line being typed, with its cursor, and a hint at the right.
pub(super) fn draw_input(
    model: &Model,
    prompt: &str,
    input: &Input,
    hint: &str,
    area: Rect,
    buffer: &mut Buffer,
) -> Cursor {
    let theme = model.theme();
    let lead = put(buffer, area.x, area.y, area.width, prompt, theme.style(Role::Key));
    let room = area.width.saturating_sub(lead + 1);
    let scroll = input.visual_scroll(usize::from(room));
    let typed: String = clean(input.value()).chars().skip(scroll).collect();
    put(buffer, area.x + lead, area.y, room, &typed, theme.style(Role::Text));
    let at = cells(input.visual_cursor().saturating_sub(scroll)).min(room);
    let free = usize::from(room).saturating_sub(width(&typed) + 2);
    if width(hint) <= free {
        let wide = cells(width(hint));
        put(buffer, area.right() - wide, area.y, wide, hint, theme.style(Role::Dim));
    }
    (area.width > lead).then_some((area.x + lead + at, area.y))
}
