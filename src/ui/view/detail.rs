//! The detail pane: why, who, what it writes, how it is made, what happened to it.

use jiff::Timestamp;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};

use super::{cells, put, put_all};
use crate::domain::evidence::{Evidence, plural};
use crate::domain::session::Liveness;
use crate::domain::span::{Span, elapsed};
use crate::domain::verdict::{Claim, Lost, Verdict};
use crate::engine::LogLine;
use crate::text::ansi::{self, Paint};
use crate::text::{clean, width};
use crate::ui::detail::{Fetched, Tab};
use crate::ui::list::{Content, Group};
use crate::ui::message::Past;
use crate::ui::model::Model;
use crate::ui::theme::Role;

/// One line of the pane, in pieces.
type Line = Vec<(String, Style)>;

pub(super) fn draw(model: &Model, tabs: Rect, area: Rect, buffer: &mut Buffer) {
    if tabs.height == 0 {
        return;
    }
    draw_tabs(model, tabs, buffer);
    let height = usize::from(area.height);
    let all = contents(model, usize::from(area.width.saturating_sub(2)));
    let last = all.len().saturating_sub(height);
    let start = match model.detail.tab {
        // A log is read from its end.
        Tab::Logs => last.saturating_sub(model.detail.scroll),
        _ => model.detail.scroll.min(last),
    };
    for (index, line) in all.iter().skip(start).take(height).enumerate() {
        let pieces = line.iter().map(|(text, style)| (text.as_str(), *style));
        put_all(buffer, area.x + 1, area.y + cells(index), area.width.saturating_sub(2), pieces);
    }
}

/// How many lines the pane has.
pub(in crate::ui) fn lines(model: &Model) -> usize {
    contents(model, usize::from(model.areas().detail.width.saturating_sub(2))).len()
}

const TAB_GAP: u16 = 2;

fn draw_tabs(model: &Model, area: Rect, buffer: &mut Buffer) {
    let theme = model.theme();
    let border = theme.style(Role::Border);
    for x in area.left()..area.right() {
        put(buffer, x, area.y, 1, model.glyphs().rule(), border);
    }
    let mut x = area.x + 1;
    for tab in Tab::ALL {
        let chosen = tab == model.detail.tab;
        let title = if chosen { format!("[{}]", tab.title()) } else { format!(" {} ", tab.title()) };
        let mut style = theme.style(if chosen { Role::Tab } else { Role::Dim });
        if chosen && model.detail.focused {
            style = style.add_modifier(Modifier::REVERSED);
        }
        x += put(buffer, x, area.y, area.right().saturating_sub(x), &title, style) + TAB_GAP - 1;
    }
    let name = match model.list.selected() {
        Some(row) => match &row.content {
            Content::Container(_) => model.verdict(row).map(|v| v.subject.name().to_owned()),
            Content::Lost(_) => model.lost(row).map(|lost| lost.container.clone()),
            Content::Workspace(_) => None,
        },
        None => None,
    };
    let mut right = name.map(|name| format!(" {} ", clean(&name))).unwrap_or_default();
    if model.detail.tab == Tab::Logs && !model.detail.search.is_empty() {
        right = format!(" search: {}{right}", clean(&model.detail.search));
    }
    let wide = cells(width(&right));
    if area.right() > x + wide + 1 {
        put(buffer, area.right() - wide - 1, area.y, wide, &right, theme.style(Role::Dim));
    }
}

/// Which tab is drawn at a column.
pub(in crate::ui) fn tab_at(column: u16) -> Option<Tab> {
    let mut x = 1;
    for tab in Tab::ALL {
        let wide = cells(tab.title().len() + 2);
        if (x..x + wide).contains(&column) {
            return Some(tab);
        }
        x += wide + TAB_GAP - 1;
    }
    None
}

fn contents(model: &Model, room: usize) -> Vec<Line> {
    let theme = model.theme();
    let plain = theme.style(Role::Text);
    let dim = theme.style(Role::Dim);
    let Some(row) = model.list.selected() else { return Vec::new() };
    let one = |text: &str| vec![vec![(text.to_owned(), dim)]];
    match (&row.content, model.detail.tab) {
        (Content::Workspace(group), _) => workspace(model, group),
        (Content::Lost(_), tab) => match (model.lost(row), tab) {
            (Some(lost), Tab::Why | Tab::Sessions) => why_lost(model, lost, room),
            _ => one("Its container is gone: there is nothing to look at."),
        },
        (Content::Container(_), tab) => {
            let Some(verdict) = model.verdict(row) else { return Vec::new() };
            match tab {
                Tab::Why => why(model, verdict, room),
                Tab::Sessions => sessions(model, verdict),
                Tab::Logs => log(model, room),
                Tab::Inspect => match &model.detail.document {
                    Fetched::Waiting => one("Asking the engine…"),
                    Fetched::Failed(why) => one(&format!("It cannot be inspected: {}", clean(why))),
                    Fetched::Here(lines) => {
                        lines.iter().map(|line| vec![(clean(line).into_owned(), plain)]).collect()
                    }
                },
                Tab::History => match &model.detail.past {
                    Fetched::Waiting => one("Looking it up…"),
                    Fetched::Failed(why) => one(&format!("The state cannot be read: {}", clean(why))),
                    Fetched::Here(past) => history(model, past),
                },
            }
        }
    }
}

fn why(model: &Model, verdict: &Verdict, room: usize) -> Vec<Line> {
    let theme = model.theme();
    let style = theme.style(Role::Status(verdict.status)).add_modifier(Modifier::BOLD);
    let mut head = vec![(format!("{} {}", model.glyphs().status(verdict.status), verdict.status), style)];
    if verdict.outdated {
        head.push((", outdated".to_owned(), theme.style(Role::Warning)));
    }
    let mut facts = Vec::new();
    facts.extend(verdict.system.as_ref().map(|system| format!("{system}")));
    facts.extend(verdict.subject.container().map(|c| clean(c.image_reference()).into_owned()));
    facts
        .push(if verdict.persistent { "outlives its sessions" } else { "goes with its sessions" }.to_owned());
    facts.extend(verdict.subject.id().map(|id| id.short().to_owned()));
    head.push((format!("   {}", facts.join(" · ")), theme.style(Role::Dim)));
    let mut lines = vec![head];
    for (index, reason) in verdict.evidence.iter().enumerate() {
        lines.extend(reason_lines(model, reason, index == 0, room));
    }
    if let Some(session) = &verdict.sought_by {
        let text = format!(
            "session {} of this workspace misses its container, which may be this one",
            clean(session)
        );
        lines.push(vec![("  ".to_owned(), theme.style(Role::Dim)), (text, theme.style(Role::Warning))]);
    }
    if let Some(timeline) =
        verdict.subject.id().and_then(|id| model.timelines.get(id)).filter(|t| t.len() > 1)
    {
        let mut line = vec![("since this was opened: ".to_owned(), theme.style(Role::Dim))];
        for (index, status) in timeline.iter().enumerate() {
            if index > 0 {
                line.push((" → ".to_owned(), theme.style(Role::Dim)));
            }
            line.push((
                format!("{} {status}", model.glyphs().status(status)),
                theme.style(Role::Status(status)),
            ));
        }
        lines.push(line);
    }
    lines
}

/// A reason, with its source and the age of that source.
fn reason_lines(model: &Model, reason: &Evidence, deciding: bool, room: usize) -> Vec<Line> {
    let theme = model.theme();
    let style = theme.style(if reason.is_unavailability() { Role::Danger } else { Role::Text });
    let bullet = if deciding { "▸ " } else { "  " };
    let source = source(model, reason);
    let text = clean(&reason.to_string()).into_owned();
    let wrapped = wrap(&text, room.saturating_sub(2));
    let mut lines: Vec<Line> = Vec::new();
    for (index, part) in wrapped.iter().enumerate() {
        let lead = if index == 0 { bullet } else { "  " };
        lines.push(vec![(lead.to_owned(), theme.style(Role::Accent)), (part.clone(), style)]);
    }
    let fits = wrapped.last().is_some_and(|last| width(last) + width(&source) + 5 <= room);
    match lines.last_mut() {
        Some(last) if fits => last.push((format!("  ({source})"), theme.style(Role::Dim))),
        _ => lines.push(vec![(format!("    ({source})"), theme.style(Role::Dim))]),
    }
    lines
}

fn source(model: &Model, reason: &Evidence) -> String {
    let Some(seen) = &model.observation else { return String::new() };
    let aged = |name: &str, age: Option<std::time::Duration>| match age {
        Some(age) if age.as_secs() < 15 => format!("{name}, just now"),
        Some(age) => format!("{name}, {} ago", Span(age)),
        None => name.to_owned(),
    };
    match reason.origin() {
        "sessions" => {
            let stores = seen.snapshot.systems.iter().flat_map(|system| &system.stores);
            aged("session store", stores.filter_map(|store| store.sessions.age(model.now)).max())
        }
        "engine" => aged("engine", seen.snapshot.engine.age(model.now)),
        other => other.to_owned(),
    }
}

fn why_lost(model: &Model, lost: &Lost, room: usize) -> Vec<Line> {
    let theme = model.theme();
    let style = theme.style(Role::Status(crate::domain::Status::Lost)).add_modifier(Modifier::BOLD);
    let mut head = vec![(format!("{} lost", model.glyphs().status(crate::domain::Status::Lost)), style)];
    let title = lost.title.as_ref().map(|title| format!(" ({})", clean(title))).unwrap_or_default();
    head.push((
        format!("   session {}{title} of {}", clean(&lost.session), lost.system),
        theme.style(Role::Dim),
    ));
    let mut lines = vec![head];
    for (index, reason) in lost.evidence.iter().enumerate() {
        lines.extend(reason_lines(model, reason, index == 0, room));
    }
    lines
}

fn workspace(model: &Model, group: &Group) -> Vec<Line> {
    let plain = model.theme().style(Role::Text);
    let text = format!(
        "{} {}, {} with processes, {} {}. Actions here take all of its containers; z folds it.",
        group.containers,
        plural(group.containers, "container"),
        group.up,
        super::columns::live_in(group),
        plural(group.live, "session"),
    );
    vec![vec![(text, plain)]]
}

fn sessions(model: &Model, verdict: &Verdict) -> Vec<Line> {
    let theme = model.theme();
    let claims = &verdict.claims;
    if verdict.known_sessions().is_none() && claims.total == 0 {
        let mut unread = verdict.evidence.iter().filter(|reason| reason.is_unavailability());
        let why = unread.next().or(verdict.evidence.first()).map(ToString::to_string).unwrap_or_default();
        return vec![vec![(
            format!("Who needs it cannot be told: {}", clean(&why)),
            theme.style(Role::Danger),
        )]];
    }
    if claims.total == 0 {
        return vec![vec![("No session claims it.".to_owned(), theme.style(Role::Dim))]];
    }
    let mut lines: Vec<Line> = claims.listed.iter().map(|claim| session(model, claim)).collect();
    if claims.total > claims.listed.len() {
        let more = claims.total - claims.listed.len();
        lines.push(vec![(format!("and {more} more"), theme.style(Role::Dim))]);
    }
    lines
}

fn session(model: &Model, claim: &Claim) -> Line {
    let theme = model.theme();
    let (word, role) = match &claim.liveness {
        Liveness::Live { .. } => ("live ", Role::Good),
        Liveness::Quiet => ("quiet", Role::Text),
        Liveness::Ended => ("ended", Role::Dim),
        Liveness::Unclear(_) => ("?    ", Role::Danger),
    };
    let ago = |at: Option<Timestamp>| super::columns::age(at, model.now);
    let session = &claim.session;
    let title = session.title.as_ref().map(|title| format!("  {}", clean(title))).unwrap_or_default();
    let mut facts = Vec::new();
    for (name, moment) in
        [("active", &session.last_activity_at), ("began", &session.started_at), ("ended", &session.ended_at)]
    {
        let shown = ago(moment.known());
        if !shown.is_empty() {
            facts.push(format!("{name} {shown} ago"));
        }
    }
    vec![
        (format!("{word}  "), theme.style(role)),
        (clean(&session.id).into_owned(), theme.style(Role::Text)),
        (title, theme.style(Role::Accent)),
        (format!("  {}", facts.join(", ")), theme.style(Role::Dim)),
    ]
}

fn log(model: &Model, room: usize) -> Vec<Line> {
    let theme = model.theme();
    let dim = theme.style(Role::Dim);
    let log = &model.detail.log;
    if !log.heard {
        return vec![vec![("Asking the engine…".to_owned(), dim)]];
    }
    let wanted = model.detail.search.to_lowercase();
    let mut lines: Vec<Line> = Vec::new();
    if log.dropped > 0 {
        lines.push(vec![(format!("({} older lines are not kept)", log.dropped), dim)]);
    }
    for line in &log.lines {
        if wanted.is_empty() || line.text.to_lowercase().contains(&wanted) {
            lines.push(log_line(model, line, room));
        }
    }
    if let Some(ended) = &log.ended {
        lines.push(vec![(format!("({})", clean(ended)), dim)]);
    } else if log.lines.is_empty() {
        lines.push(vec![("(nothing written yet)".to_owned(), dim)]);
    }
    lines
}

fn log_line(model: &Model, line: &LogLine, _room: usize) -> Line {
    let theme = model.theme();
    let time = line.at.map(|at| at.strftime("%H:%M:%S ").to_string()).unwrap_or_default();
    let lead = if line.stderr { theme.style(Role::Warning) } else { theme.style(Role::Dim) };
    let mut pieces = vec![(time, lead)];
    for (paint, text) in ansi::spans(&line.text) {
        pieces.push((text, painted(model, paint)));
    }
    pieces
}

/// The colours a program gave its own line, as far as they are harmless.
fn painted(model: &Model, paint: Paint) -> Style {
    let mut style = model.theme().style(Role::Text);
    if let Some(colour) = paint.foreground.and_then(|colour| model.theme().foreign(colour)) {
        style = style.fg(colour);
    }
    for (set, modifier) in [
        (paint.bold, Modifier::BOLD),
        (paint.dim, Modifier::DIM),
        (paint.italic, Modifier::ITALIC),
        (paint.underline, Modifier::UNDERLINED),
    ] {
        if set {
            style = style.add_modifier(modifier);
        }
    }
    style
}

fn history(model: &Model, past: &Past) -> Vec<Line> {
    let theme = model.theme();
    let dim = theme.style(Role::Dim);
    let mut lines: Vec<(Timestamp, Line)> = Vec::new();
    for change in &past.changes {
        let line = match change.status {
            Some(status) => vec![
                (format!("became {status}"), theme.style(Role::Status(status))),
                (format!("  {}", clean(&change.reason)), dim),
            ],
            None => vec![("was gone".to_owned(), theme.style(Role::Warning))],
        };
        lines.push((change.at, line));
    }
    for action in &past.actions {
        let text = format!("{} by {}: {}", action.action.replace('_', " "), action.who, action.outcome);
        lines.push((action.at, vec![(clean(&text).into_owned(), theme.style(Role::Accent))]));
    }
    if lines.is_empty() {
        return vec![vec![("Nothing is remembered of it yet.".to_owned(), dim)]];
    }
    lines.sort_by_key(|(at, _)| std::cmp::Reverse(*at));
    lines
        .into_iter()
        .map(|(at, line)| {
            let ago = elapsed(at, model.now).map(|age| Span(age).to_string()).unwrap_or_default();
            let lead = (format!("{}  {ago:>4} ago  ", at.strftime("%Y-%m-%d %H:%M:%S")), dim);
            std::iter::once(lead).chain(line).collect()
        })
        .collect()
}

/// Breaks a sentence at spaces.
pub(super) fn wrap(text: &str, room: usize) -> Vec<String> {
    let room = room.max(8);
    let mut lines = Vec::new();
    let mut line = String::new();
    for word in text.split(' ') {
        if !line.is_empty() && width(&line) + 1 + width(word) > room {
            lines.push(std::mem::take(&mut line));
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    lines.push(line);
    lines
}
