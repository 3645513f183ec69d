//! Work in progress: a gauge, and a line for each item in flight with its countdown.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::{Cursor, cells, dialog, put, put_all};
use crate::text::{clean, fit};
use crate::ui::model::Model;
use crate::ui::theme::Role;

pub(super) fn draw(model: &Model, area: Rect, buffer: &mut Buffer) {
    let Some(work) = &model.work else { return };
    if area.height == 0 {
        return;
    }
    let theme = model.theme();
    let (total, over) = work.counts();
    let title = format!("{} {over} of {total}", work.verb);
    let border = theme.style(Role::Border);
    for x in area.left()..area.right() {
        put(buffer, x, area.y, 1, model.glyphs().rule(), border);
    }
    let lead = put(
        buffer,
        area.x + 1,
        area.y,
        area.width.saturating_sub(2),
        &format!(" {title} "),
        theme.style(Role::Accent),
    );
    let gauge = area.width.saturating_sub(lead + 4).min(40);
    if gauge >= 6 && total > 0 {
        let (done, left) = model.glyphs().gauge();
        let full = usize::from(gauge) * over / total;
        let bar = format!("{}{}", done.repeat(full), left.repeat(usize::from(gauge) - full));
        put(buffer, area.x + 2 + lead, area.y, gauge, &bar, theme.style(Role::Gauge));
    }
    let room = usize::from(area.height - 1);
    let in_flight: Vec<_> = work.in_flight().collect();
    if in_flight.is_empty() && room > 0 {
        let waiting =
            if work.cancelled { "nothing new is begun" } else { "waiting for the lock and the journal" };
        put(buffer, area.x + 2, area.y + 1, area.width.saturating_sub(2), waiting, theme.style(Role::Dim));
    }
    for (index, task) in in_flight.iter().take(room).enumerate() {
        let more = in_flight.len() - room.min(in_flight.len());
        let name = fit(&clean(&task.name), 32);
        let mut line = task.line(model.now);
        if index + 1 == room && more > 0 {
            line = format!("{line}  (and {more} more)");
        }
        let pieces = [
            (name.as_str(), theme.style(Role::Text)),
            ("  ", theme.style(Role::Text)),
            (line.as_str(), theme.style(Role::Warning)),
        ];
        put_all(buffer, area.x + 2, area.y + 1 + cells(index), area.width.saturating_sub(2), pieces);
    }
}

/// The program ends as soon as nothing is in flight.
pub(super) fn draw_ending(model: &Model, asked: usize, area: Rect, buffer: &mut Buffer) -> Cursor {
    let theme = model.theme();
    let inside = dialog::open(model, "Ending", 70, 8, area, buffer);
    let (total, over) = model.work.as_ref().map(super::super::work::Work::counts).unwrap_or_default();
    let mut lines = vec![
        "Waiting for the steps in flight; nothing new is begun.".to_owned(),
        format!("{over} of {total} are over. The program then ends by itself."),
    ];
    if asked > 1 {
        lines.push("A stop that is dropped half-way can end as a kill, so this is waited for.".to_owned());
    }
    for (index, line) in lines.iter().enumerate() {
        put(buffer, inside.x, inside.y + cells(index), inside.width, line, theme.style(Role::Text));
    }
    None
}
