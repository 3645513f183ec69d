//! The first line: which host, whether anything may be changed, how old each kind of evidence is, how many there are
//! of each status. Below it, what is wrong.

use std::time::Duration;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};

use super::{cells, put, put_all};
use crate::domain::Status;
use crate::domain::span::Span;
use crate::text::{clean, width};
use crate::ui::message::Observation;
use crate::ui::model::Model;
use crate::ui::theme::Role;

pub(super) fn draw(model: &Model, area: Rect, buffer: &mut Buffer) {
    if area.height == 0 {
        return;
    }
    let theme = model.theme();
    let style = theme.style(Role::Header);
    buffer.set_style(area, style);
    let ages = ages(model);
    let (badges, badge_role) = badge(model);
    let badge_style = theme.style(badge_role);
    let engine = model.observation.as_ref().and_then(|seen| seen.snapshot.host.engine.clone());
    let engine = engine.map(|engine| short_engine(&clean(&engine))).unwrap_or_default();
    let mut pieces: Vec<(String, Style)> =
        vec![(" sandkeeper  ".to_owned(), style.add_modifier(Modifier::BOLD))];
    pieces.push((clean(&model.setup.machine).into_owned(), style));
    if !engine.is_empty() {
        pieces.push((format!(" ({engine})"), style));
    }
    pieces.push(("  ".to_owned(), style));
    let badge_at = pieces.len();
    pieces.push((badges[0].to_owned(), badge_style));
    pieces.push(("  ".to_owned(), style));
    pieces.extend(ages);
    // On a narrow terminal the reason beside the badge goes first, then the words of the counts, then the name of the
    // program, then the engine's.
    let total = |pieces: &[(String, Style)]| pieces.iter().map(|(text, _)| width(text)).sum::<usize>();
    let wide = |counts: &[(String, Style)]| counts.iter().map(|(text, _)| width(text) + 1).sum::<usize>();
    let mut counts = counts(model, false);
    for shorter in &badges[1..] {
        if total(&pieces) + wide(&counts) + 1 > usize::from(area.width) {
            (*shorter).clone_into(&mut pieces[badge_at].0);
        }
    }
    if total(&pieces) + wide(&counts) + 1 > usize::from(area.width) {
        counts = self::counts(model, true);
    }
    let counts_width = wide(&counts);
    let room = usize::from(area.width).saturating_sub(counts_width + 1);
    if total(&pieces) > room {
        " ".clone_into(&mut pieces[0].0);
    }
    if total(&pieces) > room && !engine.is_empty() {
        pieces.remove(2);
    }
    if total(&pieces) > room {
        pieces[1].0 = crate::text::shorten(&pieces[1].0, 8);
    }
    let left = cells(room).min(area.width);
    let used =
        put_all(buffer, area.x, area.y, left, pieces.iter().map(|(text, style)| (text.as_str(), *style)));
    let start = area.width.saturating_sub(cells(counts_width)).max(used + 1);
    let counts =
        counts.iter().flat_map(|(text, style)| [(text.as_str(), *style), (" ", theme.style(Role::Header))]);
    put_all(buffer, area.x + start, area.y, area.width.saturating_sub(start), counts);
}

/// Whether anything may be changed, and who sees to it that nothing is, this program or the socket it asks: in so many
/// words, in few, and without.
fn badge(model: &Model) -> ([&'static str; 3], Role) {
    let guarded = model.observation.as_ref().is_some_and(|seen| seen.snapshot.host.guarded);
    match (guarded, model.setup.read_only) {
        (true, _) => ([" RO (enforced by the socket) ", " RO (socket) ", " RO "], Role::ReadOnly),
        (false, true) => ([" RO (this program) ", " RO (program) ", " RO "], Role::ReadOnly),
        (false, false) => ([" RW "; 3], Role::ReadWrite),
    }
}

/// `Docker 20.10.24` is `Docker 20.10` to people.
fn short_engine(engine: &str) -> String {
    match engine.rsplit_once(' ') {
        Some((name, version)) => {
            let parts: Vec<&str> = version.split('.').take(2).collect();
            format!("{name} {}", parts.join("."))
        }
        None => engine.to_owned(),
    }
}

/// How many there are of each status, in words or, where there is no room for words, by their signs.
fn counts(model: &Model, short: bool) -> Vec<(String, Style)> {
    let Some(Observation { verdicts, snapshot, .. }) = &model.observation else { return Vec::new() };
    let theme = model.theme();
    if snapshot.engine.at.is_none() {
        return vec![("not seen yet".to_owned(), theme.style(Role::Danger))];
    }
    let known: Vec<_> = Status::ALL
        .into_iter()
        .filter_map(|status| {
            let count = verdicts.count(status);
            let style = theme.style(Role::Header).patch(theme.style(Role::Status(status)));
            let word = if short { model.glyphs().status(status) } else { status.as_str() };
            let gap = if short { "" } else { " " };
            (count > 0).then(|| (format!("{count}{gap}{word}"), style))
        })
        .collect();
    let limit = model.setup.policy.max_evidence_age;
    if known.is_empty() && snapshot.engine.unusable(model.now, limit).is_some() {
        return vec![("not known now".to_owned(), theme.style(Role::Danger))];
    }
    if known.is_empty() { vec![("no sandboxes".to_owned(), theme.style(Role::Header))] } else { known }
}

/// The age of the engine's word and of the oldest word of a store.
fn ages(model: &Model) -> Vec<(String, Style)> {
    let theme = model.theme();
    let header = theme.style(Role::Header);
    let Some(Observation { snapshot, .. }) = &model.observation else {
        return vec![("looking…".to_owned(), header)];
    };
    let limit = model.setup.policy.max_evidence_age;
    let age = |name: &str, usual: u64, age: Option<Duration>, bad: bool| {
        let age = age.map_or_else(|| "never".to_owned(), |age| coarse(age, usual));
        let style = if bad { header.patch(theme.style(Role::Danger)) } else { header };
        let mark = if bad { "!" } else { "" };
        (format!("{mark}{name} {age}  "), style)
    };
    let engine = &snapshot.engine;
    let mut ages =
        vec![age("engine", 15, engine.age(model.now), engine.unusable(model.now, limit).is_some())];
    let stores: Vec<_> = snapshot.systems.iter().flat_map(|system| &system.stores).collect();
    if stores.is_empty() {
        ages.push(("no session store  ".to_owned(), header));
    } else {
        let bad = stores.iter().any(|store| store.sessions.unusable(model.now, limit).is_some());
        let never = stores.iter().any(|store| store.sessions.at.is_none());
        let oldest = stores.iter().filter_map(|store| store.sessions.age(model.now)).max();
        ages.push(age("sessions", 5, if never { None } else { oldest }, bad));
    }
    ages
}

/// An age in steps coarse enough that a host on which nothing happens costs no bytes on the wire: between two looks
/// facts grow older by as much as is usual, and that is no news.
fn coarse(age: Duration, usual: u64) -> String {
    match age.as_secs() {
        seconds if seconds < usual => format!("<{usual}s"),
        seconds => Span(Duration::from_secs(seconds - seconds % 5)).to_string(),
    }
}

pub(super) fn draw_problems(model: &Model, area: Rect, buffer: &mut Buffer) {
    let style = model.theme().style(Role::Danger);
    let problems = model.problems();
    let room = usize::from(area.height);
    for (index, problem) in problems.iter().take(room).enumerate() {
        let y = area.y + cells(index);
        let more = problems.len() - room.min(problems.len());
        let line = if index + 1 == room && more > 0 {
            format!(" ! {problem} (and {more} more)")
        } else {
            format!(" ! {problem}")
        };
        put(buffer, area.x, y, area.width, &line, style);
    }
}
