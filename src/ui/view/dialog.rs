//! The frame every dialog has.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::put;
use crate::ui::model::Model;
use crate::ui::theme::Role;

/// Draws an empty framed box in the middle of the screen, as large as asked for and as fits, and returns its inside.
pub(super) fn open(
    model: &Model,
    title: &str,
    wide: u16,
    high: u16,
    area: Rect,
    buffer: &mut Buffer,
) -> Rect {
    let theme = model.theme();
    let width = wide.min(area.width);
    let height = high.min(area.height);
    let frame =
        Rect { x: area.x + (area.width - width) / 2, y: area.y + (area.height - height) / 2, width, height };
    for y in frame.top()..frame.bottom() {
        for x in frame.left()..frame.right() {
            if let Some(cell) = buffer.cell_mut((x, y)) {
                cell.reset();
            }
        }
    }
    buffer.set_style(frame, theme.style(Role::Dialog));
    // A frame takes more than a very small screen has.
    if width < 10 || height < 4 {
        return frame;
    }
    let border = theme.style(Role::Border);
    let set = model.glyphs().border();
    let across = set.horizontal_top.repeat(usize::from(width - 2));
    put(buffer, frame.x, frame.y, width, &format!("{}{across}{}", set.top_left, set.top_right), border);
    put(
        buffer,
        frame.x,
        frame.bottom() - 1,
        width,
        &format!("{}{across}{}", set.bottom_left, set.bottom_right),
        border,
    );
    for y in frame.top() + 1..frame.bottom() - 1 {
        put(buffer, frame.x, y, 1, set.vertical_left, border);
        put(buffer, frame.right() - 1, y, 1, set.vertical_right, border);
    }
    put(buffer, frame.x + 2, frame.y, width - 4, &format!(" {title} "), theme.style(Role::Accent));
    Rect { x: frame.x + 2, y: frame.y + 1, width: width - 4, height: height - 2 }
}
