//! Where everything is on the screen. Both the drawing and the mouse ask here, so they cannot disagree.

use ratatui::layout::Rect;

/// The parts of the screen; a part for which there is no room has no height.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Areas {
    /// Host, badge, ages, counts.
    pub header: Rect,
    /// What is wrong, a line each.
    pub problems: Rect,
    /// The headings of the columns.
    pub headings: Rect,
    /// The list.
    pub list: Rect,
    /// Work in progress.
    pub work: Rect,
    /// The tabs of the detail pane.
    pub tabs: Rect,
    /// The detail pane.
    pub detail: Rect,
    /// The keys that work now.
    pub footer: Rect,
}

/// What the layout depends on.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Wants {
    /// Lines of problems.
    pub problems: u16,
    /// Lines of work in progress, its frame included.
    pub work: u16,
    /// Whether the detail pane has the focus and so the larger part.
    pub detail_focused: bool,
    /// Lines at the foot beyond the usual one.
    pub more_footer: u16,
}

/// The list keeps at least this many rows before anything else is shown beside it.
const LEAST_LIST: u16 = 4;

/// Divides the screen. What matters least goes first when it is small: detail, work, headings, footer, header.
pub(super) fn divide(width: u16, height: u16, wants: Wants) -> Areas {
    let mut top = 0;
    let mut bottom = height;
    let mut areas = Areas::default();
    let line = |y: u16, rows: u16| Rect { x: 0, y, width, height: rows };
    if height >= 3 {
        areas.header = line(0, 1);
        top = 1;
    }
    if height >= 4 {
        let lines = 1 + if height >= 16 { wants.more_footer } else { 0 };
        bottom -= lines;
        areas.footer = line(bottom, lines);
    }
    let problems = wants.problems.min((bottom - top).saturating_sub(LEAST_LIST + 1)).min(4);
    areas.problems = line(top, problems);
    top += problems;
    if bottom - top > LEAST_LIST {
        areas.headings = line(top, 1);
        top += 1;
    }
    let work = wants.work.min((bottom - top).saturating_sub(LEAST_LIST));
    if work >= 2 {
        bottom -= work;
        areas.work = line(bottom, work);
    }
    let room = bottom - top;
    let detail = if wants.detail_focused {
        (room / 4 * 3).max(room.min(3))
    } else if room >= LEAST_LIST + 6 {
        (room / 3).max(5)
    } else {
        0
    };
    if detail >= 2 {
        bottom -= detail;
        areas.tabs = line(bottom, 1);
        areas.detail = line(bottom + 1, detail - 1);
    }
    areas.list = line(top, bottom - top);
    areas
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_size_is_divided_without_overlap_or_overhang() {
        for height in 0..60 {
            for (problems, work, detail_focused) in
                [(0, 0, false), (3, 6, true), (9, 20, false), (0, 3, true)]
            {
                let areas = divide(80, height, Wants { problems, work, detail_focused, more_footer: 1 });
                let parts = [
                    areas.header,
                    areas.problems,
                    areas.headings,
                    areas.list,
                    areas.work,
                    areas.tabs,
                    areas.detail,
                    areas.footer,
                ];
                let mut rows = vec![false; usize::from(height)];
                for part in parts {
                    for row in part.y..part.y + part.height {
                        assert!(!std::mem::replace(&mut rows[usize::from(row)], true), "{height}: {areas:?}");
                    }
                }
                assert!(rows.into_iter().all(|used| used), "{height}: {areas:?}");
            }
        }
    }

    #[test]
    fn eighty_by_twenty_four_has_room_for_everything() {
        let areas = divide(80, 24, Wants::default());
        assert!(areas.list.height >= 11 && areas.detail.height >= 6, "{areas:?}");
    }
}
