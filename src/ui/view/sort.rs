//! The menu of sort orders.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::{Cursor, cells, dialog, put};
use crate::ui::list::Column;
use crate::ui::model::Model;
use crate::ui::theme::Role;

pub(super) fn draw(model: &Model, line: usize, area: Rect, buffer: &mut Buffer) -> Cursor {
    let theme = model.theme();
    let inside = dialog::open(model, "Sort by", 34, cells(Column::ALL.len() + 3), area, buffer);
    let room = usize::from(inside.height.saturating_sub(1));
    let start = (line + 1).saturating_sub(room);
    for (index, column) in Column::ALL.iter().enumerate().skip(start).take(room) {
        let chosen = index == line;
        let now = if *column == model.list.sort { "  (now; enter turns it round)" } else { "" };
        let text = format!("{} {}{now}", if chosen { ">" } else { " " }, column.title().to_lowercase());
        let style = theme.style(if chosen { Role::Selection } else { Role::Text });
        put(buffer, inside.x, inside.y + cells(index - start), inside.width, &text, style);
    }
    if inside.height > 1 {
        put(
            buffer,
            inside.x,
            inside.bottom() - 1,
            inside.width,
            "enter sort  esc close",
            theme.style(Role::Dim),
        );
    }
    None
}
