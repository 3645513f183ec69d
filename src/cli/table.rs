//! The table of `status`: grouped by workspace, readable without colour, cut to the terminal's width.

use std::fmt::Write;

use jiff::Timestamp;

use super::output::Manner;
use super::report::Report;
use crate::advice::advice;
use crate::domain::evidence::{Evidence, plural};
use crate::domain::span::{Span, elapsed};
use crate::domain::verdict::{Lost, Verdict};
use crate::domain::workspace::shared_names;
use crate::domain::{Snapshot, Status, Verdicts};
use crate::text::{clean, fit, shorten, width};

/// One line of the table, before it is laid out.
struct Line {
    status: Option<Status>,
    cells: [String; COLUMNS],
    why: String,
}

const COLUMNS: usize = 8;
const HEADINGS: [&str; COLUMNS] =
    ["WORKSPACE / CONTAINER", "STATUS", "STATE", "SESSIONS", "IDLE", "AGE", "CONFIG", "SYSTEM"];
/// The widest a column may grow.
const WIDEST: [usize; COLUMNS] = [44, 18, 12, 10, 6, 6, 8, 16];
/// Shown only where there is more than one.
const SYSTEM: usize = 7;
/// What a narrow terminal keeps for the reason: first long names are cut, then columns are left out, one by one.
const ROOM_FOR_REASON: usize = 32;
const NAME_WHERE_NARROW: usize = 24;
const NARROWEST_NAME: usize = 12;
/// Names mostly tell the system, so it goes before what is found nowhere else.
const DROP_ORDER: [usize; 6] = [6, 5, SYSTEM, 2, 4, 3];

/// The whole table.
pub(super) fn table(
    snapshot: &Snapshot,
    verdicts: &Verdicts,
    report: &Report,
    manner: Manner,
    now: Timestamp,
) -> String {
    let mut out = header(snapshot, report, manner);
    let containers = verdicts.containers.iter();
    let containers = containers.map(|verdict| {
        let place = verdict.workspace.as_deref().map(|name| (name, verdict.system.as_ref()));
        (place, container_line(verdict, now))
    });
    let lost = verdicts.lost.iter().map(|lost| {
        let place = lost.workspace.as_deref().map(|name| (name, Some(&lost.system)));
        (place, lost_line(lost))
    });
    let mut rows: Vec<_> = containers.chain(lost).collect();
    rows.sort_by_key(|(place, _)| *place);
    let shared = shared_names(verdicts);
    let mut lines = Vec::new();
    let mut group = None;
    for (place, line) in rows {
        if group != Some(place) {
            group = Some(place);
            lines.push(group_line(&match place {
                None => "(no workspace)".to_owned(),
                Some((name, Some(system))) if shared.contains(name) => format!("{name} · {system}"),
                Some((name, _)) => name.to_owned(),
            }));
        }
        lines.push(line);
    }
    if !lines.is_empty() {
        lay_out(&lines, snapshot.systems.len() > 1, manner, &mut out);
    }
    for brake in &verdicts.brakes {
        let _ = writeln!(out, "brake: {brake}");
    }
    match advice(snapshot, verdicts) {
        Some(advice) => advice.text().lines().for_each(|line| {
            let _ = writeln!(out, "{}", clean(line));
        }),
        None if lines.is_empty() && !report.host.reachable => {
            out.push_str("Nothing can be said about this host's containers until its engine answers.\n");
        }
        None => {}
    }
    out
}

fn header(snapshot: &Snapshot, report: &Report, manner: Manner) -> String {
    let mut out = String::new();
    let engine = snapshot.host.engine.as_deref().unwrap_or("engine not reached");
    let counts: Vec<String> = Status::ALL
        .into_iter()
        .filter_map(|status| {
            let containers = report.containers.iter().flatten();
            let count = containers.filter(|container| container.status == status).count();
            let lost = report.lost.as_ref().map_or(0, Vec::len);
            let count = if status == Status::Lost { lost } else { count };
            (count > 0).then(|| manner.paint(status, &format!("{count} {status}")))
        })
        .collect();
    let host = format!("{} ({})", clean(&snapshot.host.endpoint), clean(engine));
    let _ = writeln!(out, "{}  {host}", manner.bold("sandkeeper"));
    if !counts.is_empty() {
        let _ = writeln!(out, "{}", counts.join("  "));
    }
    if snapshot.systems.len() > 1 {
        let systems: Vec<&str> = snapshot.systems.iter().map(|system| system.profile.name.as_str()).collect();
        let _ = writeln!(out, "systems: {}", systems.join(", "));
    }
    for evidence in &report.evidence {
        let system = evidence.system.as_ref().map(|system| format!("{system} ")).unwrap_or_default();
        match &evidence.error {
            Some(error) => {
                // The advice below tells of every place by itself.
                if evidence.source == "engine" && !snapshot.host.tried.is_empty() {
                    continue;
                }
                // The engine's address is in the line above, and in the error where it matters.
                let place = if evidence.source == "sessions" { &format!(" {}", evidence.path) } else { "" };
                let line = format!("{system}{}{place}: {error}", evidence.source);
                let _ = writeln!(out, "{} {}", manner.paint(Status::Unknown, "unavailable:"), clean(&line));
            }
            None if evidence.source == "sessions" => {
                let count = evidence.count.unwrap_or_default();
                let path = clean(&evidence.path);
                let _ = writeln!(out, "{system}sessions: {count} {} in {path}", plural(count, "row"));
            }
            None => {}
        }
    }
    out
}

fn group_line(name: &str) -> Line {
    let mut cells: [String; COLUMNS] = std::array::from_fn(|_| String::new());
    cells[0] = clean(name).into_owned();
    Line { status: None, cells, why: String::new() }
}

fn lost_line(lost: &Lost) -> Line {
    let mut cells: [String; COLUMNS] = std::array::from_fn(|_| String::new());
    cells[0] = format!("  {}", clean(&lost.container));
    cells[1] = Status::Lost.to_string();
    cells[3] = clean(&lost.session).into_owned();
    cells[SYSTEM] = lost.system.to_string();
    Line { status: Some(Status::Lost), cells, why: why(&lost.evidence) }
}

fn why(evidence: &[Evidence]) -> String {
    let reasons: Vec<String> =
        evidence.iter().map(|reason| clean(&reason.to_string()).into_owned()).collect();
    reasons.join("; ")
}

fn container_line(verdict: &Verdict, now: Timestamp) -> Line {
    let ago = |at: Option<Timestamp>| {
        at.and_then(|at| elapsed(at, now)).map(|age| Span(age).to_string()).unwrap_or_default()
    };
    let container = verdict.subject.container();
    let id = verdict.subject.id().map(|id| id.short().to_owned());
    let name = match verdict.subject.name() {
        "" => id.unwrap_or_else(|| "(nameless)".to_owned()),
        name => clean(name).into_owned(),
    };
    let outdated = if verdict.outdated && verdict.status != Status::Stale { ", outdated" } else { "" };
    Line {
        status: Some(verdict.status),
        cells: [
            format!("  {name}"),
            format!("{}{outdated}", verdict.status),
            container.map(|container| clean(container.state.as_str()).into_owned()).unwrap_or_default(),
            verdict.sessions_word(),
            verdict.quiet_word(ago),
            ago(container.map(|container| container.created_at)),
            verdict.config_word().to_owned(),
            verdict.system.as_ref().map(ToString::to_string).unwrap_or_default(),
        ],
        why: why(&verdict.evidence),
    }
}

fn lay_out(lines: &[Line], several_systems: bool, manner: Manner, out: &mut String) {
    let mut widths: [usize; COLUMNS] = std::array::from_fn(|column| {
        let cells = lines.iter().map(|line| width(&line.cells[column]));
        cells.chain([width(HEADINGS[column])]).max().unwrap_or_default().min(WIDEST[column])
    });
    let mut shown = [true; COLUMNS];
    shown[SYSTEM] = several_systems;
    if let Some(available) = manner.width {
        let used = |shown: &[bool; COLUMNS], widths: &[usize; COLUMNS]| -> usize {
            (0..COLUMNS).filter(|column| shown[*column]).map(|column| widths[column] + 2).sum()
        };
        let narrow_name = |shown: &[bool; COLUMNS], widths: &mut [usize; COLUMNS], narrowest: usize| {
            let over = (used(shown, widths) + ROOM_FOR_REASON).saturating_sub(available);
            widths[0] = widths[0].saturating_sub(over).max(narrowest.min(widths[0]));
        };
        narrow_name(&shown, &mut widths, NAME_WHERE_NARROW);
        for column in DROP_ORDER {
            if used(&shown, &widths) + ROOM_FOR_REASON <= available {
                break;
            }
            shown[column] = false;
        }
        narrow_name(&shown, &mut widths, NARROWEST_NAME);
    }
    let mut write_line = |cells: &[String; COLUMNS], status: Option<Status>, why: &str, heading: bool| {
        let mut line = String::new();
        let mut used = 0;
        for column in (0..COLUMNS).filter(|column| shown[*column]) {
            let cell = fit(&cells[column], widths[column]);
            used += widths[column] + 2;
            match status {
                Some(status) if column == 1 => line.push_str(&manner.paint(status, &cell)),
                _ => line.push_str(&cell),
            }
            line.push_str("  ");
        }
        match manner.width {
            Some(available) => line.push_str(&shorten(why, available.saturating_sub(used))),
            None => line.push_str(why),
        }
        let line = line.trim_end();
        let _ = writeln!(out, "{}", if heading { manner.bold(line) } else { line.to_owned() });
    };
    write_line(&HEADINGS.map(ToOwned::to_owned), None, "WHY", true);
    for line in lines {
        write_line(&line.cells, line.status, &line.why, false);
    }
}
