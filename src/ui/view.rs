//! Draws the dashboard into a buffer. Nothing is decided here: the same model gives the same cells.

mod columns;
mod detail;
mod dialog;
mod footer;
mod header;
mod help;
mod list;
mod palette;
mod preview;
mod sort;
mod summary;
mod toasts;
mod work;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

use super::glyphs::Glyphs;
use super::model::{Layer, Model};
use super::theme::Role;
use crate::text::shorten;

pub(super) use columns::shows_usage;
pub(super) use detail::{lines as detail_lines, tab_at};
pub(super) use help::length as help_length;

/// Where the cursor of the terminal belongs, if something is being typed.
pub(super) type Cursor = Option<(u16, u16)>;

/// Draws everything.
pub fn view(model: &Model, area: Rect, buffer: &mut Buffer) -> Cursor {
    let theme = model.theme();
    buffer.set_style(area, theme.style(Role::Text));
    let areas = model.areas();
    header::draw(model, areas.header, buffer);
    header::draw_problems(model, areas.problems, buffer);
    list::draw(model, areas.headings, areas.list, buffer);
    work::draw(model, areas.work, buffer);
    detail::draw(model, areas.tabs, areas.detail, buffer);
    let mut cursor = footer::draw(model, areas.footer, buffer);
    toasts::draw(model, areas.list, buffer);
    for layer in &model.layers {
        cursor = match layer {
            Layer::Filter(..) | Layer::Search(..) => cursor,
            Layer::Palette(input, line) => palette::draw(model, input, *line, area, buffer),
            Layer::Help(line) => help::draw(model, *line, area, buffer),
            Layer::Sort(line) => sort::draw(model, *line, area, buffer),
            Layer::Preview(preview) => preview::draw(model, preview, area, buffer),
            Layer::Summary(summary) => summary::draw(model, summary, area, buffer),
            Layer::Ending(asked) => work::draw_ending(model, *asked, area, buffer),
        };
    }
    if model.glyphs() == Glyphs::Ascii {
        for cell in &mut buffer.content {
            if let Some(plain) = model.glyphs().plain(cell.symbol()) {
                cell.set_symbol(plain);
            }
        }
    }
    cursor
}

/// Writes text into one row, cut with `…` where it does not fit; returns the cells it took.
fn put(buffer: &mut Buffer, x: u16, y: u16, cells: u16, text: &str, style: Style) -> u16 {
    let area = buffer.area;
    if y >= area.bottom() || x >= area.right() || cells == 0 {
        return 0;
    }
    let cells = cells.min(area.right() - x);
    let (end, _) = buffer.set_stringn(x, y, shorten(text, usize::from(cells)), usize::from(cells), style);
    end - x
}

/// A row of differently styled pieces, from left to right, no further than `cells`.
fn put_all<'a>(
    buffer: &mut Buffer,
    x: u16,
    y: u16,
    cells: u16,
    pieces: impl IntoIterator<Item = (&'a str, Style)>,
) -> u16 {
    let mut used = 0;
    for (text, style) in pieces {
        used += put(buffer, x + used, y, cells - used, text, style);
        if used >= cells {
            break;
        }
    }
    used
}

/// A number of cells as the terminal counts them.
fn cells(count: usize) -> u16 {
    u16::try_from(count).unwrap_or(u16::MAX)
}
