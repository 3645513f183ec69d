//! Acting: nothing happens without a preview that was confirmed, on evidence that holds.

use sandkeeper::domain::plan::{Action, Intent};
use sandkeeper::keeper::{Ending, ItemOutcome, Progress};
use sandkeeper::ui::{Effect, Message};

use super::desk::Desk;
use crate::facts::{Facts, ahead, id_of, sandbox, session, span};

fn orphan() -> Facts {
    Facts::native().container(sandbox("orphan").workspace("atlas").state("exited")).session(session("s1"))
}

fn many(count: usize) -> Facts {
    let facts = Facts::native().session(session("s1")).policy(|policy| policy.brake.more_than = 1000);
    (0..count).fold(facts, |facts, number| {
        facts.container(sandbox(&format!("box-{number:02}")).workspace("atlas").state("exited"))
    })
}

#[test]
fn a_removal_is_shown_and_only_y_confirms_it() {
    let mut desk = Desk::on(&orphan());
    desk.press("j X");
    desk.shows("Remove: 1 to change, 0 to keep").shows("[ Cancel ]").shows("y remove");
    desk.press("enter");
    desk.hides("[ Cancel ]");
    for key in ["esc", "n", "ctrl-c", "enter"] {
        desk.press("X").press(key);
        desk.hides("[ Cancel ]");
        assert!(desk.confirmed().is_empty(), "{key} confirmed");
    }
    for key in ["space", "tab", "Y", "X", "j"] {
        desk.press("X").press(key);
        assert!(desk.confirmed().is_empty(), "{key} confirmed");
        desk.press("esc");
    }
    desk.press("X y");
    assert_eq!(desk.confirmed().len(), 1);
    assert_eq!(desk.confirmed()[0].plan().items()[0].action, Action::Remove);
    desk.shows("remove 0 of 1");
}

#[test]
fn more_than_ten_ask_for_a_phrase_with_the_count() {
    let mut desk = Desk::on(&many(11));
    desk.press("* X");
    desk.shows("type `remove 11`");
    desk.press("y enter");
    assert!(desk.confirmed().is_empty());
    desk.shows("exactly");
    desk.press("ctrl-u 'remove 1' enter");
    assert!(desk.confirmed().is_empty());
    desk.press("'1' enter");
    assert_eq!(desk.confirmed().len(), 1);
}

#[test]
fn a_phrase_cannot_be_pasted() {
    let mut desk = Desk::on(&many(11));
    desk.press("* X").take(Message::Paste("remove 11\n".to_owned())).press("enter");
    assert!(desk.confirmed().is_empty());
}

#[test]
fn force_asks_for_a_phrase_even_for_one() {
    let mut desk = Desk::on(&orphan());
    desk.press("j F y enter");
    assert!(desk.confirmed().is_empty());
    desk.press("ctrl-u 'force 1' enter");
    assert!(matches!(desk.confirmed()[0].plan().intent(), Intent::ForceRemove(_)));
}

#[test]
fn a_live_session_keeps_its_container_and_says_so() {
    let facts = Facts::native()
        .container(sandbox("box").workspace("atlas"))
        .session(session("s1").uses("box").live());
    let mut desk = Desk::on(&facts);
    desk.press("j X");
    desk.shows("0 to change, 1 to keep").shows("session s1 is live").shows("nothing to do");
    desk.press("y");
    assert!(desk.confirmed().is_empty());
}

#[test]
fn a_stop_over_live_sessions_is_a_separate_choice_with_its_own_phrase() {
    let facts = Facts::native()
        .container(sandbox("box").workspace("atlas"))
        .session(session("s1").uses("box").live());
    let mut desk = Desk::on(&facts);
    desk.press("j S");
    desk.shows("f6 although it ends 1 live session");
    desk.press("f6");
    desk.shows("type `end 1 live`");
    desk.press("y enter");
    assert!(desk.confirmed().is_empty());
    desk.press("ctrl-u 'end 1 live' enter");
    assert_eq!(desk.confirmed().len(), 1);
}

#[test]
fn a_plan_that_changes_under_the_eyes_must_be_read_again() {
    let mut desk = Desk::on(&orphan());
    desk.press("R");
    desk.shows("1 to change");
    let more = orphan().container(sandbox("another").workspace("atlas").state("exited"));
    desk.sees(&more);
    desk.shows("2 to change").shows("read it again");
    desk.press("y");
    assert!(desk.confirmed().is_empty(), "the key may have been on its way");
    desk.shows("just changed");
    desk.later("3s").press("y");
    assert_eq!(desk.confirmed()[0].plan().changes(), 2);
}

#[test]
fn a_session_that_comes_to_life_takes_its_container_out_of_the_open_plan() {
    let idle =
        Facts::native().container(sandbox("box").workspace("atlas")).session(session("s1").uses("box"));
    let live = Facts::native()
        .container(sandbox("box").workspace("atlas"))
        .session(session("s1").uses("box").live());
    let mut desk = Desk::on(&idle);
    desk.press("j X");
    desk.shows("1 to change");
    desk.sees(&live).later("5s");
    desk.shows("0 to change");
    desk.press("y");
    assert!(desk.confirmed().is_empty());
}

#[test]
fn facts_that_grow_old_disable_the_dialog_and_every_action() {
    let mut desk = Desk::on(&orphan());
    desk.press("j X").later("40s").press("y");
    assert!(desk.confirmed().is_empty());
    desk.shows("not possible now");
    desk.press("esc X");
    desk.shows("remove is not possible now");
    assert!(desk.confirmed().is_empty());
}

#[test]
fn an_engine_that_fails_disables_actions_until_it_answers() {
    let mut desk = Desk::on(&orphan());
    desk.sees(&orphan().engine_fault("connection refused"));
    desk.shows("! engine: connection refused").shows("!engine").shows("orphan");
    desk.press("j X");
    desk.shows("remove is not possible now: the engine's word cannot be relied on");
    desk.sees(&orphan()).press("X y");
    assert_eq!(desk.confirmed().len(), 1);
}

#[test]
fn unreadable_stores_are_named_and_nothing_goes() {
    let mut desk = Desk::on(&orphan().store_fault("permission denied"));
    desk.shows("permission denied").shows("unknown");
    desk.press("j X");
    desk.shows("no session store can be read");
    assert!(desk.confirmed().is_empty());
}

#[test]
fn a_host_that_was_never_seen_does_not_look_clean() {
    let mut nothing = Facts::native().engine_fault("no socket at /var/run/docker.sock");
    nothing.snapshot.engine.at = None;
    let desk = Desk::on(&nothing);
    desk.shows("Nothing can be said about this host").shows("no socket at").hides("no sandboxes");
}

#[test]
fn read_only_has_no_key_that_acts() {
    let mut desk = Desk::read_only(&orphan());
    desk.press("j X y S y R y D y F 'force 1' enter u");
    assert!(desk.confirmed().is_empty());
    let harmless =
        |effect: &Effect| !matches!(effect, Effect::CarryOut(_) | Effect::Undrain(_) | Effect::Remember(_));
    assert!(desk.effects.iter().all(harmless));
    desk.shows(" RO ").hides("X remove");
    desk.press("esc : 'remove' enter y");
    assert!(desk.confirmed().is_empty());
}

#[test]
fn marks_take_part_in_an_action_and_hidden_ones_too() {
    let mut desk = Desk::on(&many(3));
    desk.press("j space space / 'box-02' enter X");
    desk.shows("box-00").shows("box-01").shows("Remove: 2 to change");
}

#[test]
fn reconcile_can_be_widened_and_narrowed_in_its_preview() {
    let facts = orphan().container(sandbox("runs").workspace("borealis"));
    let mut desk = Desk::on(&facts);
    desk.press("R");
    desk.shows("1 to change, 1 to keep").shows("running orphans: off");
    desk.press("f2");
    desk.shows("2 to change, 0 to keep").shows("running orphans: on");
    desk.press("f4");
    desk.shows("Reconcile native/atlas: 1 to change");
    desk.press("f4");
    desk.shows("Reconcile everything: 2 to change");
}

#[test]
fn the_brake_is_shown_and_passed_only_by_asking() {
    let facts = (0..8).fold(Facts::native().session(session("s1")), |facts, number| {
        facts.container(sandbox(&format!("box-{number}")).workspace("atlas").state("exited"))
    });
    let mut desk = Desk::on(&facts);
    desk.press("R");
    desk.shows("brake:").shows("0 to change").shows("f5 past the brake");
    desk.press("f5");
    desk.shows("8 to change");
}

#[test]
fn undrain_needs_no_confirmation_and_only_takes_what_is_marked() {
    let facts = orphan().container(sandbox("marked").workspace("borealis")).drain("marked");
    let facts = facts.session(session("s2").uses("marked").live());
    let mut desk = Desk::on(&facts);
    desk.press("j u");
    desk.shows("nothing here is draining");
    desk.press("G u");
    let undrained =
        desk.effects.iter().any(|effect| matches!(effect, Effect::Undrain(verdicts) if verdicts.len() == 1));
    assert!(undrained);
}

#[test]
fn a_drained_container_goes_by_itself_once_its_last_session_has_ended() {
    let with =
        |session| Facts::native().container(sandbox("box").workspace("atlas")).drain("box").session(session);
    let mut desk = Desk::on(&with(session("s1").uses("box").live()));
    assert!(desk.confirmed().is_empty());
    desk.sees(&with(session("s1").uses("box").ended_ago("1s")));
    assert_eq!(desk.confirmed().len(), 1);
    assert!(matches!(desk.confirmed()[0].plan().intent(), Intent::Evict(_)));
    desk.sees(&with(session("s1").uses("box").ended_ago("1s")));
    assert_eq!(desk.confirmed().len(), 1, "one attempt at a time");
}

#[test]
fn progress_is_shown_with_countdowns_and_the_summary_names_failures_first() {
    let mut desk = Desk::on(&many(3));
    desk.press("R y");
    let plan = desk.confirmed()[0].plan().items().to_vec();
    desk.take(Message::Progress(Progress::Begun { index: 0 }));
    desk.shows("reconcile 0 of 3").shows("checking");
    desk.take(Message::Progress(Progress::Stopping { index: 0, grace: span("9s") }));
    desk.shows("stopping, 9s left");
    desk.later("4s");
    desk.shows("stopping, 5s left");
    desk.press("j k / 'box' enter");
    desk.shows("reconcile 0 of 3");
    desk.press("X");
    desk.shows("a reconcile is being carried out");
    let outcome = |index: usize, ending, reason: &str| ItemOutcome {
        item: plan[index].clone(),
        ending,
        reason: reason.to_owned(),
        evidence_missing: false,
        unjournalled: None,
        duration: span("1s"),
    };
    desk.take(Message::WorkEnded(Ok(vec![
        outcome(0, Ending::Removed, "gone"),
        outcome(1, Ending::Failed, "device busy"),
        outcome(2, Ending::Skipped, "it was started again since"),
    ])));
    desk.shows("reconcile is over: 1 failed, 1 skipped, 1 removed").shows("→ try again");
    let screen = desk.screen();
    let place = |text: &str| screen.lines().position(|line| line.contains(text)).unwrap();
    assert!(place("device busy") < place("started again") && place("started again") < place("gone"));
    desk.later("1h").shows("device busy");
    desk.press("enter");
    desk.hides("device busy");
}

#[test]
fn a_plan_refused_as_a_whole_says_why() {
    let mut desk = Desk::on(&orphan());
    desk.press("R y");
    desk.take(Message::WorkEnded(Err("another keeper is at work on this host: pid 7 (ada)".to_owned())));
    desk.shows("nothing was done").shows("another keeper is at work");
}

#[test]
fn quit_waits_for_the_steps_in_flight_and_says_so() {
    let mut desk = Desk::on(&orphan());
    desk.press("R y q");
    assert!(desk.effects.iter().any(|effect| matches!(effect, Effect::CancelWork)));
    assert!(!desk.effects.iter().any(|effect| matches!(effect, Effect::Quit)));
    desk.shows("Waiting for the steps in flight");
    desk.press("q");
    desk.shows("can end as a kill");
    desk.take(Message::WorkEnded(Ok(Vec::new())));
    assert!(desk.effects.iter().any(|effect| matches!(effect, Effect::Quit)));
}

#[test]
fn quit_without_work_ends_at_once() {
    let mut desk = Desk::on(&orphan());
    desk.press("q");
    assert!(matches!(desk.effects.last(), Some(Effect::Quit)));
}

#[test]
fn what_is_under_the_cursor_is_copied_whole() {
    let mut desk = Desk::on(&orphan());
    desk.press("j y");
    let id = id_of("orphan").to_string();
    assert!(desk.effects.iter().any(|effect| matches!(effect, Effect::Copy(text) if *text == id)));
}

#[test]
fn a_plan_waits_no_longer_than_its_evidence() {
    let mut desk = Desk::on(&orphan());
    desk.press("j X");
    // News keep it fresh for as long as the dialog is open.
    for seconds in [10, 20, 30, 40, 50] {
        let at = ahead(&format!("{seconds}s"));
        desk.take(Message::Tick(at)).sees(&orphan().engine_read_at(at).store_read_at(at));
    }
    desk.press("y");
    assert_eq!(desk.confirmed().len(), 1);
}

#[test]
fn what_happens_to_kept_containers_does_not_disturb_an_open_plan() {
    let mut desk = Desk::on(&many(11).container(sandbox("busy").workspace("zeta")));
    desk.press("R 'reconcile 1'");
    let busy = many(11).container(sandbox("busy").workspace("zeta"));
    desk.sees(&busy.session(session("s9").uses("busy").live()));
    desk.hides("read it again");
    desk.press("'1' enter");
    assert_eq!(desk.confirmed().len(), 1);
}
