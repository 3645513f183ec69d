//! The command palette.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use tui_input::Input;

use super::{Cursor, cells, dialog, footer, put_all};
use crate::ui::model::Model;
use crate::ui::theme::Role;

pub(super) fn draw(model: &Model, input: &Input, line: usize, area: Rect, buffer: &mut Buffer) -> Cursor {
    let theme = model.theme();
    let found = model.palette(input.value());
    let inside = dialog::open(model, "Command", 90, 18.min(area.height), area, buffer);
    if inside.height == 0 {
        return None;
    }
    let row = Rect { height: 1, ..inside };
    let cursor = footer::draw_input(model, ": ", input, "enter do  esc close", row, buffer);
    let room = usize::from(inside.height - 1);
    let start = (line + 1).saturating_sub(room);
    for (index, command) in found.iter().enumerate().skip(start).take(room) {
        let entry = command.entry();
        let key = model.setup.keymap.first_key(*command).unwrap_or_default();
        let chosen = index == line;
        let text = theme.style(if chosen { Role::Selection } else { Role::Text });
        let name = format!("{} {:<14}", if chosen { ">" } else { " " }, entry.name);
        let key = format!("{key:<9}");
        let pieces = [
            (name.as_str(), text),
            (key.as_str(), theme.style(Role::Key)),
            (entry.long, theme.style(Role::Dim)),
        ];
        put_all(buffer, inside.x, inside.y + 1 + cells(index - start), inside.width, pieces);
    }
    if found.is_empty() && room > 0 {
        put_all(buffer, inside.x, inside.y + 1, inside.width, [("No command fits.", theme.style(Role::Dim))]);
    }
    cursor
}
