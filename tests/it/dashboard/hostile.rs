//! The hostile corpus on every screen there is: nothing of it steers the terminal, and everything stays in its place.

use std::fmt::Write as _;
use std::num::NonZeroU16;

use jiff::Timestamp;
use ratatui::buffer::Buffer;
use sandkeeper::domain::Status;
use sandkeeper::domain::plan::Action;
use sandkeeper::engine::LogLine;
use sandkeeper::keeper::{Ending, ItemOutcome, Progress};
use sandkeeper::state::{PastAction, StatusChange};
use sandkeeper::ui::Message;
use vt100::Parser;

use super::desk::{Desk, setup};
use crate::facts::{Facts, ago, bare, id_of, sandbox, session, span};
use crate::support::corpus::{corpus, is_hostile};

/// A host on which everything that comes from outside is `text`.
fn host(text: &str) -> Facts {
    let (name, left) = (format!("one {text}"), format!("left {text}"));
    let mut facts = Facts::native()
        .container(sandbox(&name).workspace(text).hash(text).label(text, text).state(text))
        .container(sandbox("orphan").workspace(&left).state("exited"))
        .container(sandbox("old").workspace(&left).label("sandkeeper.lifetime", text))
        .container(sandbox("fresh").workspace(&left).hash("new").created_ago("2m"))
        .container(sandbox("odd").workspace(&left).inspect_failed(text))
        .container(bare("stranger"))
        .session(session(text).workspace(text).title(text).live())
        .session(session("quiet").workspace("elsewhere").title(text).uses(&format!("gone {text}")));
    text.clone_into(&mut facts.snapshot.host.endpoint);
    facts
}

/// What the cells hold, and where a terminal puts it.
#[track_caller]
fn expect_intact(word: &str, screen: &str, buffer: &Buffer) {
    let (width, height) = (buffer.area.width, buffer.area.height);
    let size = |count: u16| NonZeroU16::new(count).unwrap();
    let mut terminal = Parser::new(size(height), size(width), 0);
    let mut bytes = String::new();
    for row in 0..height {
        write!(bytes, "\u{1b}[{};1H", row + 1).unwrap();
        let mut column = 0;
        while column < width {
            let symbol = buffer[(column, row)].symbol();
            let hostile = symbol.chars().find(|c| is_hostile(*c) || *c == '\n');
            assert!(hostile.is_none(), "{screen} of {word} holds {hostile:?} at {row}:{column}");
            bytes.push_str(symbol);
            let cells = u16::try_from(sandkeeper::text::width(symbol)).unwrap();
            assert!(
                cells >= 1 && column + cells <= width,
                "{screen} of {word}: {symbol:?} at {row}:{column}"
            );
            column += cells;
        }
    }
    terminal.process(bytes.as_bytes());
    for row in 0..height {
        for column in 0..width {
            let meant = buffer[(column, row)].symbol();
            let shown = terminal.screen().cell(row, column).unwrap();
            let same = shown.contents().trim() == meant.trim() || shown.is_wide_continuation();
            assert!(
                same,
                "{screen} of {word}: {:?} where {meant:?} belongs, at {row}:{column}",
                shown.contents()
            );
        }
    }
}

/// Every screen of the dashboard on that host.
fn screens(text: &str) -> Vec<(&'static str, Buffer)> {
    let facts = host(text);
    let desk = || {
        let mut setup = setup(false, facts.policy.clone());
        text.clone_into(&mut setup.machine);
        setup.warnings = vec![text.to_owned()];
        setup.tour = vec![text.to_owned()];
        Desk::with(setup, &facts)
    };
    let shot = |keys: &str| {
        let mut desk = desk();
        desk.press(keys);
        desk
    };
    let mut shots: Vec<(&'static str, Desk)> = vec![
        ("the tree", shot("")),
        ("the list", shot("f")),
        ("why", shot("f j enter")),
        ("sessions", shot("f j tab")),
        ("help", shot("?")),
        ("the palette", shot(":")),
        ("the sort menu", shot("o")),
        ("the preview of a reconcile", shot("R")),
        ("the preview of a removal", shot("* X")),
        ("the preview of a forced removal", shot("f j F")),
        ("the preview of a drain", shot("* D")),
    ];
    for keys in ["/", ":"] {
        let mut typed = shot(keys);
        typed.take(Message::Paste(text.to_owned()));
        shots.push(("what was pasted", typed));
    }
    let ids = [id_of(&format!("one {text}")), id_of("orphan"), id_of("old"), id_of("fresh"), id_of("odd")];
    // Whichever of them is selected takes what is meant for it.
    let mut logs = shot("f j l");
    let (mut inspection, mut refused) = (shot("f j tab tab tab"), shot("f j tab tab tab"));
    let mut past = shot("f j tab tab tab tab");
    for id in &ids {
        let lines = vec![
            LogLine { stderr: false, at: None, text: text.to_owned() },
            LogLine { stderr: true, at: Some(Timestamp::UNIX_EPOCH), text: format!("\u{1b}[31m{text}") },
        ];
        logs.take(Message::Logged(id.clone(), lines));
        logs.take(Message::LogEnded(id.clone(), Some(text.to_owned())));
        let document = vec![text.to_owned(), format!("  {text}: {text}")];
        inspection.take(Message::Inspected(id.clone(), Ok(document)));
        refused.take(Message::Inspected(id.clone(), Err(text.to_owned())));
        let change = StatusChange { at: ago("5m"), status: Some(Status::Stale), reason: text.to_owned() };
        let action = PastAction {
            at: ago("4m"),
            who: text.to_owned(),
            action: text.to_owned(),
            outcome: text.to_owned(),
        };
        let remembered = sandkeeper::ui::Past { changes: vec![change], actions: vec![action] };
        past.take(Message::Recalled(id.clone(), Ok(remembered)));
    }
    shots.extend([
        ("logs", logs),
        ("an inspection", inspection),
        ("an inspection that failed", refused),
        ("a history", past),
    ]);
    let mut outage = desk();
    outage.sees(&host(text).engine_fault(text).store_fault(text));
    shots.push(("an outage", outage));
    let mut unfinished = desk();
    unfinished.take(Message::Unfinished(text.to_owned()));
    unfinished.take(Message::Undrained(Err(text.to_owned())));
    shots.push(("notices", unfinished));
    let mut refused = shot("R y");
    refused.take(Message::WorkEnded(Err(text.to_owned())));
    shots.push(("work that was refused", refused));
    shots.extend(at_work(text, &facts));
    shots.into_iter().map(|(name, desk)| (name, desk.buffer())).collect()
}

/// Work in progress, and its summary.
fn at_work(text: &str, facts: &Facts) -> Vec<(&'static str, Desk)> {
    let begin = || {
        let mut desk = Desk::on(facts);
        desk.press("R y");
        desk
    };
    let mut working = begin();
    let Some(confirmed) = working.confirmed().first().map(|confirmed| confirmed.plan().items().to_vec())
    else {
        return vec![("a plan that changes nothing", working)];
    };
    working.take(Message::Progress(Progress::Stopping { index: 0, grace: span("8s") }));
    let mut done = begin();
    let outcomes = confirmed.into_iter().filter(|item| item.action != Action::Keep).map(|item| ItemOutcome {
        item,
        ending: Ending::Failed,
        reason: text.to_owned(),
        evidence_missing: false,
        unjournalled: None,
        duration: span("2s"),
    });
    done.take(Message::WorkEnded(Ok(outcomes.collect())));
    vec![("work in progress", working), ("the summary", done)]
}

#[test]
fn nothing_hostile_reaches_a_cell_and_everything_stays_in_its_place() {
    for (word, text) in corpus() {
        // Beyond a few kilobytes everything is cut alike; a megabyte a hundred times over only takes long.
        let text: String = text.chars().take(4_000).collect();
        for (screen, buffer) in screens(&text) {
            expect_intact(word, screen, &buffer);
        }
    }
}

#[test]
fn the_preview_of_a_hostile_plan_is_confirmed_like_any_other() {
    let (_, text) = corpus().into_iter().find(|(word, _)| *word == "osc-0").unwrap();
    let mut desk = Desk::on(&host(&text));
    desk.press("R y");
    assert!(!desk.confirmed().is_empty(), "the screens above show work:\n{}", desk.screen());
}
