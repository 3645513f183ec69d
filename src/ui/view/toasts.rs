//! Passing words, in the lower right corner of the list.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::{cells, put};
use crate::text::width;
use crate::ui::model::Model;
use crate::ui::theme::Role;

pub(super) fn draw(model: &Model, area: Rect, buffer: &mut Buffer) {
    let theme = model.theme();
    let room = usize::from(area.height / 2);
    for (index, toast) in model.toasts.iter().rev().take(room).enumerate() {
        let text = format!(" {} ", toast.text);
        let wide = cells(width(&text)).min(area.width);
        let y = area.bottom() - 1 - cells(index);
        let style = theme.style(if toast.warning { Role::Warning } else { Role::Toast });
        put(buffer, area.right() - wide, y, wide, &text, style);
    }
}
