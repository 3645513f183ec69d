//! A store that no longer says what it said: what is missing has not ended.

use sandkeeper::domain::plan::{Action, Reconcile};
use sandkeeper::domain::session::Moment;
use sandkeeper::domain::{Intent, Snapshot, Status, Surroundings};

use crate::facts::*;

fn reconcile() -> Intent {
    Intent::Reconcile(Reconcile { include_running_orphans: true, ..Reconcile::default() })
}

/// So many containers, each with an open session that was active a minute ago.
fn claimed(count: usize) -> Facts {
    (0..count).fold(Facts::native(), |facts, number| {
        let name = format!("box{number}");
        facts.container(sandbox(&name)).session(open(number))
    })
}

fn open(number: usize) -> SessionRow {
    session(&format!("s{number}")).uses(&format!("box{number}")).active_ago("1m")
}

fn nothing_goes(facts: &Facts) {
    let items = facts.plan(&reconcile()).into_items();
    assert!(items.iter().all(|item| item.action == Action::Keep), "{items:#?}");
}

#[test]
fn an_emptied_store_ends_nothing_however_often_it_is_looked_at() {
    let facts = claimed(3).remembered().sessions(Vec::new()).looked_at_again("1s");
    facts
        .finds("box0", Status::Unknown)
        .because("no longer has 3 open sessions")
        .because("sandkeeper accept");
    nothing_goes(&facts);
    let facts = facts.sessions(Vec::new()).looked_at_again("10m");
    facts.finds("box0", Status::Unknown);
    nothing_goes(&facts);
}

#[test]
fn a_live_session_that_vanishes_casts_doubt_on_its_store() {
    let facts = Facts::native()
        .container(sandbox("box").workspace("w"))
        .container(sandbox("spare").state("exited"))
        .session(session("s1").uses("box").live())
        .drain("box")
        .remembered()
        .sessions(Vec::new())
        .looked_at_again("1s");
    facts.finds("box", Status::Unknown).because("1 open session, a live one, that it had");
    facts.finds("spare", Status::Unknown);
    nothing_goes(&facts);
}

#[test]
fn a_quiet_session_that_vanishes_counts_as_open_until_its_lifetime_is_over() {
    let facts = claimed(4).remembered().sessions(vec![open(1), open(2), open(3)]).looked_at_again("1m");
    facts.finds("box0", Status::Idle).because("1 session is no longer in the store and never ended");
    facts.finds("box1", Status::Idle);
    let facts = facts.sessions(vec![open(1), open(2), open(3)]).looked_at_again("23h");
    facts.finds("box0", Status::Idle);
    let facts = facts.sessions(vec![open(1), open(2), open(3)]).looked_at_again("2h");
    facts.finds("box0", Status::Stale).because("quiet for 1d");
}

#[test]
fn a_session_that_ended_is_not_missed() {
    let mut rows = vec![open(1)];
    rows.push(session("s0").uses("box0").ended_ago("1s"));
    let facts = claimed(2).remembered().sessions(rows).looked_at_again("1s");
    assert_eq!(facts.verdict("box0").claims.ended, 1);
    let facts = facts.sessions(vec![open(1)]).looked_at_again("1s");
    assert_eq!(facts.verdict("box0").claims.total, 0, "its row may go once it has ended");
}

#[test]
fn what_comes_back_is_believed_again_at_once() {
    let rows = || (0..3).map(open).collect();
    let facts = claimed(3).remembered().sessions(Vec::new()).looked_at_again("1s");
    facts.finds("box0", Status::Unknown);
    let facts = facts.sessions(rows()).looked_at_again("1s");
    for name in ["box0", "box1", "box2"] {
        assert_eq!(facts.finds(name, Status::Idle).0.claims.vanished, 0);
    }
}

#[test]
fn a_store_is_doubted_for_an_hour_or_for_the_lifetime_of_the_container() {
    let short = |name: &str| sandbox(name).label("sandkeeper.lifetime", "15m");
    let facts = Facts::native()
        .container(short("a"))
        .container(short("b"))
        .session(session("s1").uses("a").active_ago("1m"))
        .session(session("s2").uses("b").active_ago("1m"))
        .remembered()
        .sessions(Vec::new())
        .looked_at_again("1s");
    let facts = facts.sessions(Vec::new()).looked_at_again("59m");
    facts.finds("a", Status::Unknown);
    let facts = facts.sessions(Vec::new()).looked_at_again("2m");
    facts.finds("a", Status::Stale);
}

#[test]
fn an_accepted_store_is_believed_as_it_is() {
    let mut facts = claimed(3).remembered().sessions(Vec::new()).looked_at_again("1s");
    let memory = &mut facts.last_store().memory;
    std::sync::Arc::make_mut(memory).accept(NOW + span("1s"));
    let facts = facts.sessions(Vec::new()).looked_at_again("1s");
    facts.finds("box0", Status::Orphaned);
}

#[test]
fn what_vanished_after_the_look_that_was_accepted_is_missed_all_the_same() {
    let mut facts = claimed(3).remembered().sessions(Vec::new()).looked_at_again("1s");
    std::sync::Arc::make_mut(&mut facts.last_store().memory).accept(NOW);
    let facts = facts.sessions(Vec::new()).looked_at_again("1s");
    facts.finds("box0", Status::Unknown);
}

#[test]
fn an_accepted_store_has_to_show_anew_whose_containers_it_claims() {
    let claimed = id_of("one").to_string();
    let facts = Facts::native()
        .container(sandbox("one").instance("theirs"))
        .container(sandbox("two").instance("theirs").state("exited"))
        .session(session("s1").uses(&claimed))
        .remembered();
    facts.finds("two", Status::Orphaned);
    let others = || vec![session("s2").uses("elsewhere")];
    let mut facts = facts.sessions(others()).looked_at_again("1s");
    std::sync::Arc::make_mut(&mut facts.last_store().memory).accept(NOW + span("1s"));
    let facts = facts.sessions(others()).looked_at_again("1s");
    facts.finds("two", Status::Unknown).because("belongs to instance theirs");
}

#[test]
fn a_session_is_not_forgotten_because_another_has_its_id() {
    let named = |box_: &str, began: &str| {
        session("7").uses(box_).workspace(box_).started(Moment::At(ago(began))).active_ago("1m")
    };
    let facts = Facts::native()
        .container(sandbox("alpha"))
        .container(sandbox("beta"))
        .session(named("alpha", "3h").live())
        .drain("alpha")
        .remembered()
        .sessions(vec![named("beta", "2h").live()])
        .looked_at_again("1s");
    facts.finds("alpha", Status::Unknown).because("no longer has 1 open session, a live one");
    nothing_goes(&facts);
    let facts = facts.sessions(vec![named("beta", "2h").live()]).looked_at_again("1s");
    facts.finds("alpha", Status::Unknown);
    // The right one again.
    let facts = facts.sessions(vec![named("alpha", "3h").live()]).looked_at_again("1s");
    facts.finds("alpha", Status::Draining).because("session 7 is live");
}

#[test]
fn an_id_alone_does_not_make_it_the_same_session() {
    let unknown_begin = |box_: &str| session("7").uses(box_).workspace(box_).started(Moment::Absent).live();
    let facts = Facts::native()
        .container(sandbox("alpha"))
        .container(sandbox("beta"))
        .session(unknown_begin("alpha").active_ago("1m"))
        .remembered()
        .sessions(vec![unknown_begin("beta").active_ago("1m")])
        .looked_at_again("1s");
    facts.finds("alpha", Status::Unknown).because("no longer has 1 open session, a live one");
    nothing_goes(&facts);
}

#[test]
fn two_sessions_with_one_id_are_remembered_both() {
    let at = |box_: &str| session("7").uses(box_).workspace(box_).live();
    let facts = Facts::native()
        .container(sandbox("alpha"))
        .container(sandbox("beta"))
        .session(at("alpha").active_ago("1m"))
        .session(at("beta").started(Moment::At(ago("3h"))).active_ago("1m"))
        .remembered()
        .looked_at_again("1s");
    for (left, missing) in [("alpha", "beta"), ("beta", "alpha")] {
        let row = if left == "beta" { at("beta").started(Moment::At(ago("3h"))) } else { at("alpha") };
        let facts = facts.clone().sessions(vec![row.active_ago("1m")]).looked_at_again("1s");
        facts.finds(missing, Status::Unknown).because("no longer has 1 open session, a live one");
    }
}

#[test]
fn doubt_outlasts_the_container_whose_session_vanished() {
    let mut facts = claimed(3)
        .container(sandbox("spare").state("exited"))
        .remembered()
        .sessions(Vec::new())
        .looked_at_again("1s");
    let rows = std::sync::Arc::make_mut(&mut facts.snapshot.engine.value);
    rows.retain(|row| format!("{row:?}").contains("\"spare\""));
    let facts = facts.sessions(Vec::new()).looked_at_again("1s");
    facts.finds("spare", Status::Unknown).because("no longer has 3 open sessions");
    let facts = facts.sessions(Vec::new()).looked_at_again("1d");
    facts.finds("spare", Status::Orphaned);
}

#[test]
fn the_container_of_a_session_that_vanished_takes_the_doubt_with_it() {
    let mut facts = claimed(2).container(sandbox("spare").state("exited")).remembered();
    let rows = std::sync::Arc::make_mut(&mut facts.snapshot.engine.value);
    rows.retain(|row| format!("{row:?}").contains("\"spare\""));
    let facts = facts.sessions(Vec::new()).looked_at_again("1s");
    facts.finds("spare", Status::Orphaned);
}

#[test]
fn a_list_of_containers_that_could_not_be_read_makes_nothing_forgotten() {
    let facts = claimed(2).remembered();
    let known = facts.snapshot.systems[0].stores[0].memory.clone();
    let facts = facts.engine_fault("it hung up").remembered();
    assert_eq!(facts.snapshot.systems[0].stores[0].memory, known);
}

// Systems that end sessions by deleting them.

fn deleting(mut facts: Facts) -> Facts {
    let profile = std::sync::Arc::make_mut(&mut facts.last_system().profile);
    profile.ends_by_deleting = true;
    facts
}

#[test]
fn where_ending_means_deleting_one_that_is_missing_has_ended() {
    let facts =
        deleting(claimed(4)).remembered().sessions(vec![open(1), open(2), open(3)]).looked_at_again("1s");
    facts.finds("box0", Status::Orphaned);
}

#[test]
fn where_ending_means_deleting_most_of_them_at_once_are_still_doubt() {
    let facts = deleting(claimed(4)).remembered().sessions(vec![open(1)]).looked_at_again("1s");
    facts.finds("box0", Status::Unknown).because("no longer has 3 open sessions");
    nothing_goes(&facts);
}

// Stores that are new here.

#[test]
fn a_new_store_that_claims_nothing_is_doubted_until_two_looks_a_quarter_of_an_hour_apart() {
    let facts = Facts::native().container(sandbox("box").state("exited").created_ago("3d")).unknown_store();
    let facts = facts.looked_at_again("1s");
    facts.finds("box", Status::Unknown).because("is new here and claims none").because("15m more");
    let facts = facts.looked_at_again("14m");
    facts.finds("box", Status::Unknown);
    let facts = facts.looked_at_again("2m");
    facts.finds("box", Status::Orphaned);
    let facts = facts.looked_at_again("1s");
    facts.finds("box", Status::Orphaned);
}

#[test]
fn a_new_store_that_claims_one_container_is_the_right_one() {
    let facts = Facts::native()
        .container(sandbox("box").state("exited").created_ago("3d"))
        .container(sandbox("used"))
        .session(session("s1").uses("used").ended_ago("1h"))
        .unknown_store()
        .looked_at_again("1s");
    facts.finds("box", Status::Orphaned);
}

#[test]
fn a_store_that_nobody_compared_is_not_believed() {
    let facts = Facts::native().container(sandbox("box").state("exited").created_ago("3d")).unknown_store();
    facts.finds("box", Status::Unknown).because("is new here");
}

// The check before a step.

#[test]
fn a_check_holds_the_stores_against_what_the_plan_knew() {
    let facts = Facts::native()
        .container(sandbox("gone").state("exited"))
        .container(sandbox("box"))
        .session(session("s1").uses("box").live())
        .remembered();
    facts.finds("gone", Status::Orphaned);
    let around = Surroundings::new(facts.snapshot.clone(), Vec::new(), &facts.policy, facts.now);
    let container = facts.containers().find(|c| c.name == "gone").unwrap().clone();
    let check = |snapshot: &Snapshot| {
        let around = around.with_systems(snapshot.systems.clone(), &facts.policy, facts.now);
        around.classify_again(&container, &facts.policy, facts.now).containers.remove(0)
    };
    assert_eq!(check(&facts.snapshot).status, Status::Orphaned);
    let emptied = facts.clone().sessions(Vec::new());
    let verdict = check(&emptied.snapshot);
    assert_eq!(verdict.status, Status::Unknown, "{:#?}", verdict.evidence);
}
