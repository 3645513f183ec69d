//! The columns: which fit, how wide they are, and what stands in them. A narrow terminal loses them in a stated order.

use std::time::Duration;

use jiff::Timestamp;

use crate::domain::Status;
use crate::domain::evidence::Evidence;
use crate::domain::span::{Span, elapsed};
use crate::domain::verdict::{Lost, Verdict};
use crate::text::{clean, width};
use crate::ui::glyphs::Glyphs;
use crate::ui::list::{Column, Group};
use crate::ui::model::Model;
use crate::ui::timeline::{TIMELINE, Timeline};
use crate::ui::usage::TRACE;

/// Columns leave in this order when the terminal is narrow; the name, the status and the reason stay.
const LEAVE: [Column; 9] = [
    Column::Past,
    Column::Memory,
    Column::Cpu,
    Column::System,
    Column::Config,
    Column::Age,
    Column::State,
    Column::Idle,
    Column::Sessions,
];
/// What the reason keeps for itself before columns leave.
const ROOM_FOR_REASON: u16 = 22;
/// And before columns that are nice to have join in.
const MUCH_ROOM_FOR_REASON: u16 = 44;
const NAME: (u16, u16) = (22, 38);

/// The columns that fit, each with its width.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Columns(pub(super) Vec<(Column, u16)>);

impl Columns {
    pub(super) fn of(model: &Model) -> Self {
        let several = model.observation.as_ref().is_some_and(|seen| seen.snapshot.systems.len() > 1);
        Self::fit(model.width, several, widest_name(model))
    }

    fn fit(available: u16, several_systems: bool, widest_name: u16) -> Self {
        let mut name = widest_name.clamp(NAME.0, NAME.1);
        let mut columns: Vec<Column> =
            Column::ALL.into_iter().filter(|column| *column != Column::Why).collect();
        if !several_systems {
            columns.retain(|column| *column != Column::System);
        }
        let used = |columns: &[Column], name: u16| -> u16 {
            columns.iter().map(|column| fixed(*column).unwrap_or(name) + 2).sum()
        };
        for column in LEAVE {
            let extra = matches!(column, Column::Past | Column::Memory | Column::Cpu);
            let room = if extra { MUCH_ROOM_FOR_REASON } else { ROOM_FOR_REASON };
            if used(&columns, name) + room <= available {
                // The next to leave may ask for less.
                continue;
            }
            // Long names are cut before the more telling columns leave.
            let over = (used(&columns, name) + ROOM_FOR_REASON).saturating_sub(available);
            if !matches!(column, Column::Past | Column::Memory | Column::Cpu | Column::System) && name > 24 {
                name = name.saturating_sub(over).max(24);
                if used(&columns, name) + ROOM_FOR_REASON <= available {
                    break;
                }
            }
            columns.retain(|kept| *kept != column);
        }
        let over = (used(&columns, name) + 10).saturating_sub(available);
        name = name.saturating_sub(over).max(6);
        let mut left = available;
        let mut fitted = Vec::new();
        for column in columns {
            let wide = fixed(column).unwrap_or(name).min(left);
            if wide == 0 {
                break;
            }
            fitted.push((column, wide));
            left = left.saturating_sub(wide + 2);
        }
        if left > 4 {
            fitted.push((Column::Why, left));
        }
        Self(fitted)
    }

    pub(super) fn has(&self, column: Column) -> bool {
        self.0.iter().any(|(shown, _)| *shown == column)
    }
}

/// The widths of columns whose contents are known beforehand.
fn fixed(column: Column) -> Option<u16> {
    Some(match column {
        Column::Name | Column::Why => return None,
        Column::System | Column::State => 10,
        // A sign, and the longest words: `active, old`.
        Column::Status => 13,
        Column::Sessions => 9,
        Column::Idle | Column::Age => 4,
        Column::Config => 7,
        Column::Cpu => super::cells(TRACE) + 5,
        Column::Memory => super::cells(TRACE) + 6,
        Column::Past => super::cells(TIMELINE),
    })
}

/// Whether what containers use is on screen, so that it is worth asking.
pub(in crate::ui) fn shows_usage(model: &Model) -> bool {
    let columns = Columns::of(model);
    columns.has(Column::Cpu) || columns.has(Column::Memory)
}

/// The longest name among those near the screen; the others may be cut.
fn widest_name(model: &Model) -> u16 {
    let height = usize::from(model.height);
    let near = model.list.rows.iter().skip(model.list.offset).take(height);
    let indent = if model.list.flat { 2 } else { 4 };
    let widest = near.filter_map(|row| model.verdict(row)).map(|verdict| width(verdict.subject.name())).max();
    super::cells(widest.unwrap_or(20) + indent)
}

/// What stands in a column for a container; the name and the status are drawn by the list itself.
pub(super) fn of_container(column: Column, verdict: &Verdict, model: &Model) -> String {
    let container = verdict.subject.container();
    match column {
        Column::Name => name(verdict),
        Column::System => verdict.system.as_ref().map(ToString::to_string).unwrap_or_default(),
        Column::Status => status(verdict),
        Column::State => container.map(|c| clean(c.state.as_str()).into_owned()).unwrap_or_default(),
        Column::Sessions => verdict.sessions_word(),
        Column::Idle => verdict.quiet_word(|at| age(at, model.now)),
        Column::Age => age(container.map(|container| container.created_at), model.now),
        Column::Config => verdict.config_word().to_owned(),
        Column::Cpu => usage(verdict, model, |trace| {
            let permille = trace.cpu_permille()?;
            Some(format!("{}{:>4}%", bars(&trace.cpu_levels(), model.glyphs()), permille / 10))
        }),
        Column::Memory => usage(verdict, model, |trace| {
            Some(format!(
                "{}{:>6}",
                bars(&trace.memory_levels(), model.glyphs()),
                bytes(trace.memory_bytes())
            ))
        }),
        Column::Past => past(verdict, model),
        Column::Why => why(&verdict.evidence),
    }
}

/// The statuses it has had since this was opened, the newest last; one alone tells nothing.
fn past(verdict: &Verdict, model: &Model) -> String {
    let timeline = verdict.subject.id().and_then(|id| model.timelines.get(id));
    let timeline = timeline.filter(|timeline| timeline.len() > 1);
    timeline.into_iter().flat_map(Timeline::iter).map(|status| model.glyphs().status(status)).collect()
}

pub(super) fn of_lost(column: Column, lost: &Lost) -> String {
    match column {
        Column::Name => clean(&lost.container).into_owned(),
        Column::System => lost.system.to_string(),
        Column::Status => Status::Lost.to_string(),
        Column::State => "gone".to_owned(),
        Column::Sessions => clean(&lost.session).into_owned(),
        Column::Why => why(&lost.evidence),
        Column::Idle | Column::Age | Column::Config | Column::Cpu | Column::Memory | Column::Past => {
            String::new()
        }
    }
}

pub(super) fn of_group(column: Column, group: &Group, now: Timestamp) -> String {
    match column {
        Column::Status => group.worst.map(|status| status.to_string()).unwrap_or_default(),
        Column::State if group.containers > 0 => format!("{} up", group.up),
        Column::Sessions if group.containers > 0 => live_in(group),
        // Somebody who could have given a sign of use could not be read.
        Column::Idle if group.unread && group.live == 0 => "?".to_owned(),
        Column::Idle => age(group.quiet_since, now),
        Column::Age => age(group.oldest, now),
        Column::Why if group.folded => format!("{} hidden", group.containers),
        _ => String::new(),
    }
}

/// How many sessions are live in a workspace, as far as could be read.
pub(super) fn live_in(group: &Group) -> String {
    match (group.live, group.unread) {
        (0, true) => "? live".to_owned(),
        (live, true) => format!("{live}+ live"),
        (live, false) => format!("{live} live"),
    }
}

fn name(verdict: &Verdict) -> String {
    match (verdict.subject.name(), verdict.subject.id()) {
        ("", Some(id)) => id.short().to_owned(),
        ("", None) => "(nameless)".to_owned(),
        (name, _) => clean(name).into_owned(),
    }
}

fn status(verdict: &Verdict) -> String {
    // An outdated container that is stale says so already.
    let outdated = verdict.outdated && verdict.status != Status::Stale;
    format!("{}{}", verdict.status, if outdated { ", old" } else { "" })
}

fn why(evidence: &[Evidence]) -> String {
    let reasons: Vec<String> =
        evidence.iter().take(2).map(|reason| clean(&reason.to_string()).into_owned()).collect();
    reasons.join("; ")
}

/// An age, below an hour in steps: a screen on which nothing happens should stand still. The details tell it exactly.
pub(super) fn age(at: Option<Timestamp>, now: Timestamp) -> String {
    let Some(age) = at.and_then(|at| elapsed(at, now)) else { return String::new() };
    let seconds = age.as_secs();
    let step = match seconds {
        0..60 => 10,
        60..300 => 60,
        300..3600 => 300,
        _ => 1,
    };
    Span(Duration::from_secs(seconds - seconds % step)).to_string()
}

fn usage(
    verdict: &Verdict,
    model: &Model,
    show: impl FnOnce(&crate::ui::usage::Trace) -> Option<String>,
) -> String {
    verdict.subject.id().and_then(|id| model.usages.of(id)).and_then(show).unwrap_or_default()
}

/// A sparkline, right-aligned to its full length.
fn bars(levels: &[u8], glyphs: Glyphs) -> String {
    let heights = glyphs.heights();
    let empty = std::iter::repeat_n(" ", TRACE.saturating_sub(levels.len()));
    let bars = levels.iter().map(|level| match usize::from(*level) {
        0 => " ",
        level => heights[level.min(8) - 1],
    });
    empty.chain(bars).collect()
}

/// Memory as people say it.
fn bytes(count: u64) -> String {
    const UNITS: [&str; 5] = ["B", "K", "M", "G", "T"];
    let mut value = count;
    let mut unit = 0;
    let mut rest = 0;
    while value >= 1024 && unit < UNITS.len() - 1 {
        rest = value % 1024;
        value /= 1024;
        unit += 1;
    }
    if value < 10 && unit > 0 {
        format!("{value}.{}{}", rest * 10 / 1024, UNITS[unit])
    } else {
        format!("{value}{}", UNITS[unit])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(width: u16, several: bool) -> Vec<Column> {
        Columns::fit(width, several, 30).0.into_iter().map(|(column, _)| column).collect()
    }

    #[test]
    fn a_wide_terminal_shows_every_column() {
        assert_eq!(shown(200, true), Column::ALL);
        assert!(!shown(200, false).contains(&Column::System));
    }

    #[test]
    fn narrow_terminals_lose_columns_in_the_stated_order() {
        let mut gone: Vec<Column> = Vec::new();
        for width in (1..=200).rev() {
            let columns = shown(width, true);
            for column in LEAVE {
                if !columns.contains(&column) && !gone.contains(&column) {
                    gone.push(column);
                }
            }
            assert!(columns.contains(&Column::Name), "{width}");
        }
        assert_eq!(gone, LEAVE);
    }

    #[test]
    fn eighty_cells_show_status_sessions_and_reason() {
        let columns = shown(80, false);
        for column in [Column::Name, Column::Status, Column::Sessions, Column::Why] {
            assert!(columns.contains(&column), "{columns:?}");
        }
    }

    #[test]
    fn columns_never_take_more_than_there_is() {
        for width in 0..=250 {
            let columns = Columns::fit(width, true, 40).0;
            let used: u16 = columns.iter().map(|(_, cells)| cells + 2).sum();
            assert!(used <= width + 2, "{width}: {columns:?}");
        }
    }

    #[test]
    fn memory_is_shown_as_people_say_it() {
        let shown: Vec<String> = [0, 900, 1536, 20 << 20, 3 << 30].into_iter().map(bytes).collect();
        assert_eq!(shown, ["0B", "900B", "1.5K", "20M", "3.0G"]);
    }
}
