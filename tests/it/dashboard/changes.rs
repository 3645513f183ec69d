//! What changes on the host is told, kept in the timeline, and written down; the details follow the cursor.

use sandkeeper::domain::Status;
use sandkeeper::engine::LogLine;
use sandkeeper::ui::{Effect, LastLook, Message};

use super::desk::Desk;
use crate::facts::{Facts, ago, id_of, sandbox, session};

fn one(row: crate::facts::SessionRow) -> Facts {
    Facts::native().container(sandbox("box").workspace("atlas")).session(row)
}

fn line(text: &str) -> LogLine {
    LogLine { stderr: false, at: None, text: text.to_owned() }
}

#[test]
fn changes_are_told_in_passing_and_go_away_by_themselves() {
    let mut desk = Desk::on(&one(session("s1").uses("box").live()));
    desk.hides("became");
    desk.sees(&one(session("s1").uses("box")));
    desk.shows("1 became idle");
    desk.sees(&one(session("s1").uses("box")).container(sandbox("fresh").workspace("atlas")));
    desk.shows("1 new");
    desk.sees(&one(session("s1").uses("box")));
    desk.shows("1 gone");
    desk.later("10s");
    desk.hides("became").hides("1 gone");
}

#[test]
fn a_session_that_loses_its_container_is_told_and_listed() {
    let mut desk = Desk::on(&one(session("s1").uses("box").live()));
    desk.sees(&Facts::native().session(session("s1").uses("box").live()));
    desk.shows("1 session lost its container").shows("lost").shows("1 lost");
}

#[test]
fn an_outage_is_not_told_as_containers_that_went() {
    let facts = one(session("s1").uses("box"));
    let mut desk = Desk::on(&facts);
    desk.sees(&facts.clone().engine_fault("connection refused"));
    desk.hides("gone").shows("box");
}

#[test]
fn what_changed_since_the_last_look_is_told_once() {
    let mut desk = Desk::on(&one(session("s1").uses("box")));
    desk.take(Message::LastLook(LastLook {
        at: Some(ago("3h")),
        statuses: vec![(id_of("box"), Status::Active), (id_of("other"), Status::Idle)],
    }));
    desk.shows("since you last looked, 3h ago: 1 became idle, 1 gone");
    let gone = desk.effects.iter().any(|effect| match effect {
        Effect::Remember(changes) => {
            changes.iter().any(|change| change.id == id_of("other") && change.status.is_none())
        }
        _ => false,
    });
    assert!(gone, "what has gone is written down, or it would be told again");
}

#[test]
fn status_changes_are_written_down_but_not_in_read_only_mode() {
    let written = |desk: &Desk| desk.effects.iter().filter(|e| matches!(e, Effect::Remember(_))).count();
    let mut desk = Desk::on(&one(session("s1").uses("box").live()));
    desk.sees(&one(session("s1").uses("box").live()));
    assert_eq!(written(&desk), 0, "nothing changed");
    desk.sees(&one(session("s1").uses("box")));
    assert_eq!(written(&desk), 1);
    let mut viewer = Desk::read_only(&one(session("s1").uses("box").live()));
    viewer.sees(&one(session("s1").uses("box")));
    assert_eq!(written(&viewer), 0);
}

#[test]
fn the_timeline_shows_the_statuses_a_container_has_had() {
    let mut desk = Desk::on(&one(session("s1").uses("box").live()));
    desk.press("j").sees(&one(session("s1").uses("box")));
    desk.shows("● active → ○ idle");
}

#[test]
fn why_names_the_source_of_each_reason() {
    let mut desk = Desk::on(&one(session("s1").uses("box").live()));
    desk.press("j");
    desk.shows("session s1 is live").shows("(session store, just now)");
}

#[test]
fn sessions_are_listed_with_life_and_times() {
    let mut desk = Desk::on(&one(session("s1").uses("box").title("Refactor").live().active_ago("5m")));
    desk.press("j tab");
    desk.shows("[Sessions]").shows("live   s1  Refactor").shows("active 5m ago");
}

#[test]
fn details_are_fetched_only_once_the_cursor_rests() {
    let facts = one(session("s1").uses("box")).container(sandbox("other").workspace("atlas"));
    let mut desk = Desk::on(&facts);
    desk.press("j tab tab tab");
    let fetched = |desk: &Desk| {
        desk.effects.iter().filter(|e| matches!(e, Effect::Inspect(_) | Effect::Logs(Some(_)))).count()
    };
    assert_eq!(fetched(&desk), 0);
    let rests: Vec<u64> = desk
        .effects
        .iter()
        .filter_map(|effect| match effect {
            Effect::Settle(generation) => Some(*generation),
            _ => None,
        })
        .collect();
    for generation in rests {
        desk.take(Message::Settled(generation));
    }
    assert_eq!(fetched(&desk), 1, "only for where it rests");
    desk.take(Message::Inspected(id_of("box"), Ok(vec!["Hostname: box".to_owned()])));
    desk.shows("Hostname: box");
    desk.press("j");
    desk.hides("Hostname: box");
    desk.take(Message::Inspected(id_of("box"), Ok(vec!["Hostname: box".to_owned()])));
    desk.hides("Hostname: box");
}

#[test]
fn logs_follow_are_searched_and_stay_bounded() {
    let mut desk = Desk::on(&one(session("s1").uses("box")));
    desk.press("j l");
    let numbered = (0..6_000).map(|number| line(&format!("line {number}"))).collect();
    desk.take(Message::Logged(id_of("box"), numbered));
    desk.shows("line 5999");
    assert_eq!(desk.model.detail.log.lines.len(), 5_000);
    desk.press("/ 'line 4321' enter");
    desk.shows("line 4321").hides("line 4322");
    desk.press("esc w g");
    desk.shows("older lines are not kept");
    desk.take(Message::LogEnded(id_of("box"), Some("the engine ended the stream".to_owned())));
    desk.press("G");
    desk.shows("the engine ended the stream");
}

#[test]
fn a_log_keeps_its_colours_and_loses_everything_else() {
    let mut desk = Desk::on(&one(session("s1").uses("box")));
    desk.press("j l");
    desk.take(Message::Logged(id_of("box"), vec![line("\u{1b}[31mred\u{1b}[0m \u{1b}]0;title\u{7}plain")]));
    desk.shows("red plain").hides("title");
    let buffer = desk.buffer();
    let red = buffer
        .content()
        .iter()
        .find(|cell| cell.symbol() == "r" && cell.fg == ratatui::style::Color::Indexed(1));
    assert!(red.is_some());
}

#[test]
fn hostile_names_and_titles_cannot_leave_their_cells() {
    let evil = "x\u{1b}[2J\u{202e}\u{200b}y";
    let facts = Facts::native()
        .container(sandbox(evil).workspace("at\u{1b}]0;las"))
        .session(session("s\u{7}1").uses(evil).title("t\u{9b}31m").live());
    let mut desk = Desk::on(&facts);
    for keys in ["j", "tab", "tab", "tab", "tab", "esc ?", "esc R", "esc :", "esc /"] {
        desk.press(keys);
        for cell in desk.buffer().content() {
            let hostile =
                |c: char| c.is_control() || matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}');
            assert!(!cell.symbol().chars().any(hostile), "{:?}", cell.symbol());
        }
    }
}
