//! Pictures of every part of the screen, cell by cell, styles included. `INSTA_UPDATE=always cargo test` takes them anew.

use insta::assert_snapshot;
use sandkeeper::engine::LogLine;
use sandkeeper::keeper::{Ending, ItemOutcome, Progress};
use sandkeeper::ui::Message;

use super::desk::Desk;
use crate::facts::{Facts, id_of, sandbox, session, span};

/// A host with one of everything.
fn scene() -> Facts {
    Facts::native()
        .container(sandbox("atlas-main").workspace("atlas").hash("5de99f").created_ago("4d"))
        .container(sandbox("atlas-old").workspace("atlas").hash("6820ef").created_ago("9d").persistent(false))
        .container(sandbox("borealis").workspace("borealis").hash("5de99f").created_ago("5d"))
        .container(sandbox("cygnus").workspace("cygnus").hash("5de99f").state("exited").created_ago("6d"))
        .container(sandbox("draco").workspace("draco").hash("5de99f").created_ago("7d"))
        .container(sandbox("eos").workspace("eos").hash("5de99f").state("stopped").created_ago("7d"))
        .session(session("s-9f2c").uses("atlas-main").title("Refactor the parser").live().active_ago("20s"))
        .session(session("s-77aa").uses("borealis").active_ago("3h"))
        .session(session("s-d0d0").uses("draco").live().active_ago("2m"))
        .session(session("s-1057").uses("gone-1").workspace("gemini").live().active_ago("30s"))
        .drain("draco")
}

fn desk() -> Desk {
    Desk::on(&scene())
}

#[test]
fn the_whole_screen() {
    assert_snapshot!(desk().styled());
}

#[test]
fn the_whole_screen_at_eighty_by_twenty_four() {
    assert_snapshot!(desk().sized(80, 24).press("j").screen());
}

#[test]
fn the_whole_screen_on_a_wide_terminal() {
    assert_snapshot!(desk().sized(200, 30).press("j").screen());
}

#[test]
fn a_screen_too_small_for_anything_but_the_list() {
    assert_snapshot!(desk().sized(24, 6).screen());
}

#[test]
fn a_light_theme() {
    assert_snapshot!(desk().sized(80, 12).press("t").later("30s").styled());
}

#[test]
fn without_unicode() {
    let mut setup = super::desk::setup(false, scene().policy.clone());
    setup.glyphs = sandkeeper::ui::Glyphs::Ascii;
    let mut desk = Desk::with(setup, &scene());
    desk.sized(80, 24).press("j R");
    let screen = desk.screen();
    assert!(screen.is_ascii(), "{screen}");
    assert_snapshot!(screen);
}

#[test]
fn the_preview_of_a_reconcile() {
    assert_snapshot!(desk().press("R").styled());
}

#[test]
fn the_preview_of_a_forced_removal() {
    assert_snapshot!(desk().press("j F 'for'").screen());
}

#[test]
fn work_in_progress() {
    let mut desk = desk();
    desk.press("R y");
    let tasks = desk.confirmed()[0].plan().items().iter().enumerate();
    let changing: Vec<usize> = tasks
        .filter(|(_, item)| item.action != sandkeeper::domain::plan::Action::Keep)
        .map(|(index, _)| index)
        .collect();
    desk.take(Message::Progress(Progress::Stopping { index: changing[0], grace: span("8s") }));
    assert_snapshot!(desk.styled());
}

#[test]
fn the_summary() {
    let mut desk = desk();
    desk.press("R y");
    let items = desk.confirmed()[0].plan().items().to_vec();
    let endings = [
        (Ending::Failed, "the engine answered 500: device busy"),
        (Ending::Removed, "its session has ended"),
    ];
    let changed = items.into_iter().filter(|item| item.action != sandkeeper::domain::plan::Action::Keep);
    let outcomes = changed.zip(endings.into_iter().cycle()).map(|(item, (ending, reason))| ItemOutcome {
        item,
        ending,
        reason: reason.to_owned(),
        evidence_missing: false,
        unjournalled: None,
        duration: span("2s"),
    });
    desk.take(Message::WorkEnded(Ok(outcomes.collect())));
    assert_snapshot!(desk.styled());
}

#[test]
fn help() {
    assert_snapshot!(desk().sized(110, 60).press("?").screen());
}

#[test]
fn read_only_help() {
    let mut desk = Desk::read_only(&scene());
    assert_snapshot!(desk.sized(110, 60).press("?").screen());
}

#[test]
fn the_palette() {
    assert_snapshot!(desk().press(": 're'").screen());
}

#[test]
fn the_sort_menu() {
    assert_snapshot!(desk().press("o j").screen());
}

#[test]
fn the_filter() {
    assert_snapshot!(desk().press("/ 'status:idle,lost'").styled());
}

#[test]
fn the_log() {
    let mut desk = desk();
    desk.press("j l");
    let line = |text: &str, stderr| LogLine { stderr, at: None, text: text.to_owned() };
    let lines = vec![line("starting", false), line("\u{1b}[32mready\u{1b}[0m", false), line("oops", true)];
    desk.take(Message::Logged(id_of("atlas-main"), lines));
    assert_snapshot!(desk.styled());
}

#[test]
fn an_outage() {
    let mut desk = desk();
    desk.sees(&scene().engine_fault("no answer from unix:///var/run/docker.sock within 3s"));
    assert_snapshot!(desk.styled());
}

#[test]
fn ending_while_work_is_in_flight() {
    assert_snapshot!(desk().press("R y q q").screen());
}
