//! The list of workspaces and containers. Only the rows on screen are looked at.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};

use super::columns::{Columns, of_container, of_group, of_lost};
use super::detail::wrap;
use super::{cells, put};
use crate::advice::advice;
use crate::domain::{Status, WorkspaceRef};
use crate::text::clean;
use crate::ui::list::{Column, Content, Key, Row};
use crate::ui::message::Observation;
use crate::ui::model::Model;
use crate::ui::theme::Role;

pub(super) fn draw(model: &Model, headings: Rect, area: Rect, buffer: &mut Buffer) {
    let columns = Columns::of(model);
    draw_headings(model, &columns, headings, buffer);
    if model.list.rows.is_empty() {
        draw_emptiness(model, area, buffer);
        return;
    }
    let visible = model.list.rows.iter().enumerate().skip(model.list.offset).take(usize::from(area.height));
    for (line, (index, row)) in visible.enumerate() {
        let place = Rect { y: area.y + cells(line), height: 1, ..area };
        draw_row(model, &columns, row, index == model.list.cursor(), place, buffer);
    }
}

fn draw_headings(model: &Model, columns: &Columns, area: Rect, buffer: &mut Buffer) {
    if area.height == 0 {
        return;
    }
    let style = model.theme().style(Role::Heading);
    buffer.set_style(area, style);
    let mut x = area.x + 1;
    for (column, wide) in &columns.0 {
        let arrow = match (*column == model.list.sort, model.list.reversed) {
            (false, _) => "",
            (true, reversed) => model.glyphs().sorted(reversed),
        };
        let title = if *column == Column::Name && model.list.flat { "CONTAINER" } else { column.title() };
        put(
            buffer,
            x,
            area.y,
            (*wide).min(area.right().saturating_sub(x)),
            &format!("{title}{arrow}"),
            style,
        );
        x = x.saturating_add(wide + 2);
    }
}

fn draw_row(model: &Model, columns: &Columns, row: &Row, selected: bool, area: Rect, buffer: &mut Buffer) {
    let theme = model.theme();
    let marked = matches!(&row.key, Key::Container(id) if model.list.marks.contains(id));
    let group = matches!(row.content, Content::Workspace(_));
    let mut base = theme.style(if marked { Role::Marked } else { Role::Text });
    if group {
        base = base.add_modifier(Modifier::BOLD);
    }
    if selected {
        let focus = if model.detail.focused { Role::Dim } else { Role::Selection };
        base = base.patch(theme.style(focus));
        if model.detail.focused {
            base = base.add_modifier(Modifier::UNDERLINED);
        }
        buffer.set_style(area, base);
    }
    let status = status_of(model, row);
    let mut x = area.x;
    // The cursor is visible without any colour.
    put(buffer, x, area.y, 1, if selected { ">" } else { " " }, base);
    x += 1;
    for (column, wide) in &columns.0 {
        if x >= area.right() {
            break;
        }
        let wide = (*wide).min(area.right() - x);
        match (column, status) {
            (Column::Name, _) => {
                put(buffer, x, area.y, wide, &name(model, row, marked), base);
            }
            (Column::Status, Some(status)) => {
                let style = status_style(model, status, base, selected);
                let text = format!("{} {}", model.glyphs().status(status), cell(model, row, Column::Status));
                put(buffer, x, area.y, wide, &text, style);
            }
            (Column::Why, _) if !selected => {
                put(buffer, x, area.y, wide, &in_work(model, row), theme.style(Role::Dim));
            }
            (Column::Why, _) => {
                put(buffer, x, area.y, wide, &in_work(model, row), base);
            }
            (column, _) => {
                put(buffer, x, area.y, wide, &cell(model, row, *column), base);
            }
        }
        x = x.saturating_add(wide + 2);
    }
}

fn status_style(model: &Model, status: Status, base: Style, selected: bool) -> Style {
    let of_status = model.theme().style(Role::Status(status));
    // On the selected row the selection's background stays.
    if selected { base.patch(Style { bg: None, ..of_status }) } else { of_status }
}

fn status_of(model: &Model, row: &Row) -> Option<Status> {
    match &row.content {
        Content::Workspace(group) => group.worst,
        Content::Container(_) => model.verdict(row).map(|verdict| verdict.status),
        Content::Lost(_) => Some(Status::Lost),
    }
}

fn name(model: &Model, row: &Row, marked: bool) -> String {
    let mark = if marked { model.glyphs().mark() } else { " " };
    match (&row.key, &row.content) {
        (Key::Workspace(name), Content::Workspace(group)) => {
            let arrow = model.glyphs().fold(group.folded);
            let all =
                !group.members.is_empty() && group.members.iter().all(|id| model.list.marks.contains(id));
            let mark = if all { model.glyphs().mark() } else { "" };
            let name = match name {
                None => "(no workspace)".to_owned(),
                Some(WorkspaceRef { workspace, system: Some(system) }) if group.shared => {
                    format!("{workspace} · {system}")
                }
                Some(WorkspaceRef { workspace, .. }) => workspace.clone(),
            };
            format!("{arrow} {}{mark}", clean(&name))
        }
        _ if model.list.flat => format!("{mark} {}", cell(model, row, Column::Name)),
        _ => format!("  {mark} {}", cell(model, row, Column::Name)),
    }
}

fn cell(model: &Model, row: &Row, column: Column) -> String {
    match &row.content {
        Content::Workspace(group) => of_group(column, group, model.now),
        Content::Container(_) => {
            model.verdict(row).map(|verdict| of_container(column, verdict, model)).unwrap_or_default()
        }
        Content::Lost(_) => model.lost(row).map(|lost| of_lost(column, lost)).unwrap_or_default(),
    }
}

/// What is going on with it, while something is; else why it has its status.
fn in_work(model: &Model, row: &Row) -> String {
    if let (Some(work), Key::Container(id)) = (&model.work, &row.key)
        && let Some(task) = work.tasks.iter().flatten().find(|task| task.id.as_ref() == Some(id))
    {
        return format!("[{}]", task.line(model.now));
    }
    cell(model, row, Column::Why)
}

/// An empty list says why it is empty; it never looks like "all clean" when nothing was seen.
fn draw_emptiness(model: &Model, area: Rect, buffer: &mut Buffer) {
    let lines: Vec<String> = match &model.observation {
        None => vec!["Looking at the host…".to_owned()],
        Some(seen) if seen.snapshot.engine.at.is_none() => {
            let mut lines = vec!["Nothing can be said about this host until its engine answers.".to_owned()];
            lines.extend(advised(seen));
            lines.push(
                "It is tried again and again; `sandkeeper demo` shows a made-up host meanwhile.".to_owned(),
            );
            lines
        }
        Some(_) if !model.list.filter.is_empty() => vec![
            format!("Nothing fits the filter `{}`.", model.list.filter.text()),
            format!("{} rows are hidden; Esc clears the filter.", model.list.total),
        ],
        Some(seen)
            if seen.snapshot.engine.unusable(model.now, model.setup.policy.max_evidence_age).is_some() =>
        {
            vec!["The last answer showed nothing, and it no longer holds; see above.".to_owned()]
        }
        Some(seen) => advised(seen),
    };
    let room = usize::from(area.width.saturating_sub(2));
    let lines: Vec<String> = lines.iter().flat_map(|line| wrap(&clean(line), room)).collect();
    let style = model.theme().style(Role::Text);
    for (index, line) in lines.iter().take(usize::from(area.height)).enumerate() {
        put(buffer, area.x + 1, area.y + cells(index), area.width.saturating_sub(2), line, style);
    }
}

/// What to do on a host on which something basic is missing.
fn advised(seen: &Observation) -> Vec<String> {
    let advice = advice(&seen.snapshot, &seen.verdicts);
    advice.map(|advice| advice.text().lines().map(str::to_owned).collect()).unwrap_or_default()
}
