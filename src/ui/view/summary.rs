//! What came of a plan: failures first, each with its cause and what to do next.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::{Cursor, cells, dialog, put, put_all};
use crate::keeper::Ending;
use crate::text::{clean, fit, width};
use crate::ui::model::Model;
use crate::ui::theme::Role;
use crate::ui::work::{Summary, next_step};

/// In which order endings are counted.
const ENDINGS: [Ending; 12] = [
    Ending::Failed,
    Ending::Rescued,
    Ending::Skipped,
    Ending::Removed,
    Ending::Stopped,
    Ending::Drained,
    Ending::AlreadyGone,
    Ending::Quarantined,
    Ending::Restored,
    Ending::Recreated,
    Ending::Started,
    Ending::Adopted,
];

pub(super) fn draw(model: &Model, summary: &Summary, area: Rect, buffer: &mut Buffer) -> Cursor {
    let theme = model.theme();
    let counts: Vec<String> = ENDINGS
        .into_iter()
        .filter_map(|ending| {
            let count = summary.count(ending);
            (count > 0).then(|| format!("{count} {}", ending.as_str().replace('_', " ")))
        })
        .chain((summary.kept > 0).then(|| format!("{} kept", summary.kept)))
        .collect();
    let title = format!(
        "{} is over: {}",
        summary.verb,
        if counts.is_empty() { "nothing was done".to_owned() } else { counts.join(", ") }
    );
    let wide = area.width.saturating_sub(4).min(130);
    let mut head: Vec<(String, Role)> = Vec::new();
    if let Some(why) = &summary.refused {
        let lines = super::detail::wrap(&clean(why), usize::from(wide.saturating_sub(4)));
        head.extend(lines.into_iter().map(|line| (line, Role::Danger)));
    }
    if summary.cancelled {
        head.push(("It was broken off: what had not begun was left alone.".to_owned(), Role::Warning));
    }
    let steps = summary.outcomes.iter().filter(|o| next_step(o.ending, o.evidence_missing).is_some()).count();
    let high =
        cells(summary.outcomes.len() + steps + head.len() + 4).min(area.height.saturating_sub(2)).max(6);
    let inside = dialog::open(model, &title, wide, high, area, buffer);
    for (index, (line, role)) in head.iter().enumerate() {
        put(buffer, inside.x, inside.y + cells(index), inside.width, line, theme.style(*role));
    }
    let top = inside.y + cells(head.len()).min(inside.height);
    let bottom = inside.bottom().saturating_sub(1);
    draw_outcomes(model, summary, Rect { y: top, height: bottom.saturating_sub(top), ..inside }, buffer);
    put(buffer, inside.x, bottom, inside.width, "[ Close ]  enter or esc", theme.style(Role::Selection));
    None
}

fn draw_outcomes(model: &Model, summary: &Summary, area: Rect, buffer: &mut Buffer) {
    let theme = model.theme();
    let widest =
        summary.outcomes.iter().map(|outcome| width(&outcome.item.name)).max().unwrap_or(4).clamp(4, 32);
    let mut y = area.y;
    for outcome in summary.outcomes.iter().skip(summary.scroll) {
        if y >= area.bottom() {
            break;
        }
        let role = match outcome.ending {
            Ending::Failed => Role::Danger,
            Ending::Rescued | Ending::Skipped => Role::Warning,
            _ => Role::Good,
        };
        let ending = fit(&outcome.ending.as_str().replace('_', " "), 12);
        let name = fit(&clean(&outcome.item.name), widest);
        let reason = clean(&outcome.reason).into_owned();
        let gap = ("  ", theme.style(Role::Text));
        let pieces = [
            (ending.as_str(), theme.style(role)),
            gap,
            (name.as_str(), theme.style(Role::Text)),
            gap,
            (reason.as_str(), theme.style(Role::Dim)),
        ];
        put_all(buffer, area.x, y, area.width, pieces);
        y += 1;
        if let Some(step) = next_step(outcome.ending, outcome.evidence_missing)
            && y < area.bottom()
        {
            put(
                buffer,
                area.x + 14,
                y,
                area.width.saturating_sub(14),
                &format!("→ {step}"),
                theme.style(Role::Accent),
            );
            y += 1;
        }
    }
}
