//! All keys, from the table, chapter by chapter.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

use super::{Cursor, cells, dialog, put_all};
use crate::ui::command::{Chapter, TABLE};
use crate::ui::model::Model;
use crate::ui::theme::Role;

/// How many lines the help has, at most.
pub(in crate::ui) fn length() -> usize {
    TABLE.len() + Chapter::ALL.len() * 2
}

pub(super) fn draw(model: &Model, line: usize, area: Rect, buffer: &mut Buffer) -> Cursor {
    let theme = model.theme();
    let mut lines: Vec<Vec<(String, Style)>> = Vec::new();
    for chapter in Chapter::ALL {
        let entries: Vec<_> = TABLE
            .iter()
            .filter(|entry| entry.chapter == chapter && model.setup.keymap.offers(entry.command))
            .collect();
        if entries.is_empty() {
            continue;
        }
        if !lines.is_empty() {
            lines.push(Vec::new());
        }
        lines.push(vec![(chapter.title().to_owned(), theme.style(Role::Heading))]);
        for entry in entries {
            let keys: Vec<String> =
                model.setup.keymap.keys(entry.command).iter().map(ToString::to_string).collect();
            lines.push(vec![
                (format!("  {:<18}", keys.join(" ")), theme.style(Role::Key)),
                (entry.long.to_owned(), theme.style(Role::Text)),
            ]);
        }
    }
    let high = cells(lines.len() + 3).min(area.height.saturating_sub(2)).max(area.height.min(6));
    let inside = dialog::open(model, "Keys", 100, high, area, buffer);
    let room = usize::from(inside.height.saturating_sub(1));
    let start = line.min(lines.len().saturating_sub(room));
    for (index, pieces) in lines.iter().skip(start).take(room).enumerate() {
        let pieces = pieces.iter().map(|(text, style)| (text.as_str(), *style));
        put_all(buffer, inside.x, inside.y + cells(index), inside.width, pieces);
    }
    let hint = if lines.len() > room { "↑ ↓ scroll   esc close" } else { "esc close" };
    if inside.height > 1 {
        put_all(buffer, inside.x, inside.bottom() - 1, inside.width, [(hint, theme.style(Role::Dim))]);
    }
    None
}
