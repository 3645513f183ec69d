//! Plans: what a bulk reconcile takes and keeps, what a named container allows, and what nothing overrides.

use std::time::Duration;

use crate::facts::profiles::storeless;
use crate::facts::{FIRST, Facts, NOW, Sandbox, ago, ahead, bare, id_of, process, sandbox, session, span};
use rstest::rstest;
use sandkeeper::domain::container::Processes;
use sandkeeper::domain::plan::{Action, Item, PLAN_VALIDITY, Reason, Reconcile, Targets};
use sandkeeper::domain::session::Moment;
use sandkeeper::domain::{Intent, Status, SystemName, WorkspaceRef};

// The bulk column of the status table.

#[rstest]
fn an_active_container_is_kept_always(#[values(true, false)] drain: bool) {
    let facts = Facts::native().container(sandbox("box")).session(session("s1").uses("box").live());
    let choices = Reconcile { include_running_orphans: true, drain, ..Reconcile::default() };
    let item = facts.planned(&Intent::Reconcile(choices), "box");
    assert_decided(&item, Status::Active, Action::Keep, "session s1 is live");
}

#[test]
fn an_idle_container_is_kept() {
    let facts = Facts::native().container(sandbox("box")).session(session("s1").uses("box"));
    assert_decided(&facts.planned(&reconcile(), "box"), Status::Idle, Action::Keep, "none is live");
}

#[rstest]
#[case::running("running", Action::StopAndRemove)]
#[case::paused("paused", Action::StopAndRemove)]
#[case::restarting("restarting", Action::StopAndRemove)]
#[case::created("created", Action::Remove)]
#[case::exited("exited", Action::Remove)]
#[case::dead("dead", Action::Remove)]
fn a_stale_container_is_stopped_gracefully_and_removed(#[case] state: &str, #[case] action: Action) {
    let stale = sandbox("box").persistent(false).state(state);
    let facts = Facts::native().container(stale).session(session("s1").uses("box").ended_ago("1h"));
    assert_decided(&facts.planned(&reconcile(), "box"), Status::Stale, action, "its session has ended");
}

#[rstest]
fn an_orphan_in_which_nothing_runs_is_removed(#[values("created", "exited", "dead")] state: &str) {
    let facts = Facts::native().container(sandbox("box").state(state));
    let item = facts.planned(&reconcile(), "box");
    assert_decided(&item, Status::Orphaned, Action::Remove, "no session claims it");
}

#[rstest]
fn an_orphan_in_which_something_runs_is_kept_unless_included(
    #[values("running", "paused", "restarting")] state: &str,
) {
    let facts = Facts::native().container(sandbox("box").state(state));
    let item = facts.planned(&reconcile(), "box");
    assert_decided(&item, Status::Orphaned, Action::Keep, "--include-running-orphans takes it too");
    let item = facts.planned(&including_running_orphans(), "box");
    assert_decided(&item, Status::Orphaned, Action::StopAndRemove, "no session claims it");
}

#[test]
fn a_draining_container_goes_once_every_session_has_ended() {
    let facts = Facts::native().container(sandbox("box")).drain("box");
    let busy = facts.clone().session(session("s1").uses("box").live());
    let item = busy.planned(&reconcile(), "box");
    assert_decided(
        &item,
        Status::Draining,
        Action::Keep,
        "goes when its sessions have ended: session s1 is live",
    );
    let open = facts.clone().session(session("s1").uses("box").active_ago("30m"));
    for intent in [reconcile(), Intent::Evict(targets(&["box"]))] {
        let item = open.planned(&intent, "box");
        assert_decided(&item, Status::Draining, Action::Keep, "1 session of it has not ended");
    }
    let item = open.planned(&Intent::Remove(targets(&["box"])), "box");
    assert_decided(&item, Status::Draining, Action::StopAndRemove, "asked for");
    let forgotten = Facts::native().container(sandbox("box").created_ago("9d").started(Some(ago("9d"))));
    let forgotten = forgotten
        .drain("box")
        .session(session("s1").uses("box").started(Moment::At(ago("25h"))).active_ago("25h"));
    let item = forgotten.planned(&reconcile(), "box");
    assert_decided(&item, Status::Draining, Action::StopAndRemove, "marked for eviction");
    let left = facts.session(session("s1").uses("box").ended_ago("1m"));
    let item = left.planned(&reconcile(), "box");
    assert_decided(&item, Status::Draining, Action::StopAndRemove, "marked for eviction");
}

#[test]
fn a_draining_container_in_which_somebody_works_says_that_the_work_has_to_end() {
    let working = sandbox("box").beside(process(205, FIRST, 204, 9, "make"));
    let facts = Facts::native().container(working).drain("box");
    let item = facts.planned(&reconcile(), "box");
    assert_decided(
        &item,
        Status::Draining,
        Action::Keep,
        "goes when nothing is at work in it: make runs in it",
    );
}

#[test]
fn nothing_is_removed_by_force_while_it_is_paused_and_cannot_be_listed() {
    let paused = sandbox("box").state("paused").processes(Processes::NotAsked);
    let facts = Facts::native().container(paused).session(session("s1").uses("box").ended_ago("1h"));
    let forced = Targets { even_if_live: Some(0), ..targets(&["box"]) };
    for intent in [Intent::ForceRemove(targets(&["box"])), Intent::ForceRemove(forced)] {
        let item = facts.planned(&intent, "box");
        assert_decided(&item, item.status, Action::Keep, "`rm` without --force looks before it removes it");
    }
    let item = facts.planned(&Intent::Remove(targets(&["box"])), "box");
    assert_decided(&item, item.status, Action::StopAndRemove, "asked for");
}

#[test]
fn a_lost_session_is_nothing_that_a_plan_removes() {
    let facts = Facts::native().session(session("s1").uses("gone").live());
    assert_eq!(facts.verdicts().count(Status::Lost), 1);
    assert_eq!(facts.plan(&reconcile()).items(), []);
}

// The grace for new containers.

#[test]
fn a_new_container_is_kept_whatever_else_speaks_against_it() {
    let new = sandbox("box").created_ago("30s").image_moved();
    let facts = Facts::native().container(new);
    let named = targets(&["box"]);
    for intent in
        [reconcile(), including_running_orphans(), Intent::Remove(named.clone()), Intent::Stop(named)]
    {
        let item = facts.planned(&intent, "box");
        assert_decided(&item, Status::Stale, Action::Keep, "made 30s ago, within the grace of 1m");
    }
}

#[test]
fn a_container_dated_in_the_future_is_new() {
    let facts = Facts::native().container(sandbox("box").created_at(ahead("1d")).image_moved());
    let item = facts.planned(&Intent::Remove(targets(&["box"])), "box");
    assert_decided(&item, Status::Stale, Action::Keep, "made 0s ago");
}

// The brake.

#[test]
fn the_brake_holds_everything_of_its_system_and_nothing_of_another() {
    let facts = orphans(6)
        .container(sandbox("outdated").image_moved())
        .session(session("s1").uses("outdated"))
        .system(storeless())
        .container(bare("scan").label("kojuto.scan", "true").state("exited"));
    let why = "7 of 7 native containers would go at once";
    assert_decided(&facts.planned(&reconcile(), "orphan0"), Status::Orphaned, Action::Keep, why);
    assert_decided(&facts.planned(&reconcile(), "outdated"), Status::Stale, Action::Keep, why);
    assert_eq!(facts.planned(&reconcile(), "scan").action, Action::Remove);
    assert_eq!(facts.plan(&reconcile()).brakes().len(), 1);
}

#[rstest]
#[case::the_exact_number(6, Action::Remove)]
#[case::fewer(5, Action::Keep)]
#[case::more(7, Action::Keep)]
fn the_brake_is_overridden_by_the_exact_number_only(#[case] number: usize, #[case] action: Action) {
    let choices = Reconcile { override_brake: Some(number), ..Reconcile::default() };
    let plan = orphans(6).plan(&Intent::Reconcile(choices));
    assert!(plan.items().iter().all(|item| item.action == action), "{:#?}", plan.items());
    assert_eq!(plan.brakes().is_empty(), action == Action::Remove);
}

#[test]
fn the_brake_does_not_hold_a_container_that_the_operator_named() {
    let item = orphans(6).planned(&Intent::Remove(targets(&["orphan0"])), "orphan0");
    assert_decided(&item, Status::Orphaned, Action::Remove, "asked for");
}

#[test]
fn the_brake_is_not_escaped_by_asking_for_one_workspace() {
    let facts = orphans(6).container(sandbox("box").workspace("atlas").state("exited"));
    let choices = Reconcile { workspace: Some(WorkspaceRef::of(None, "atlas")), ..Reconcile::default() };
    let plan = facts.plan(&Intent::Reconcile(choices));
    assert_eq!(plan.items().len(), 1);
    assert!(matches!(plan.items()[0].reason, Reason::Braked(_)), "{:#?}", plan.items());
}

#[test]
fn a_workspace_of_one_system_is_not_that_of_another() {
    let facts = Facts::native().container(sandbox("box").workspace("atlas").state("exited"));
    for (system, items) in [("native", 1), ("twin", 0)] {
        let only = WorkspaceRef::of(Some(&SystemName::new(system)), "atlas");
        let choices = Reconcile { workspace: Some(only), ..Reconcile::default() };
        assert_eq!(facts.plan(&Intent::Reconcile(choices)).items().len(), items, "{system}");
    }
}

// Drains.

#[test]
fn an_outdated_container_in_use_is_drained_if_asked_and_kept_otherwise() {
    let facts = Facts::native().container(sandbox("box").image_moved());
    let facts = facts.session(session("s1").uses("box").live());
    assert_eq!(facts.planned(&reconcile(), "box").action, Action::Keep);
    let choices = Reconcile { drain: true, ..Reconcile::default() };
    let item = facts.planned(&Intent::Reconcile(choices), "box");
    assert_decided(&item, Status::Active, Action::Drain, "session s1 is live");
}

#[test]
fn a_named_container_is_drained_unless_it_drains_already() {
    let facts = Facts::native().container(sandbox("box")).session(session("s1").uses("box").live());
    let intent = Intent::Drain(targets(&["box"]));
    assert_eq!(facts.planned(&intent, "box").action, Action::Drain);
    assert_eq!(facts.drain("box").planned(&intent, "box").action, Action::Keep);
}

// What nothing overrides.

#[rstest]
#[case::unreadable_store(Facts::native().container(sandbox("box")).store_fault("locked"))]
#[case::engine_in_doubt(Facts::native().container(sandbox("box").state("exited")).engine_fault("timed out"))]
#[case::unrecognised_state(Facts::native().container(sandbox("box").state("stopped")))]
#[case::labels_of_the_image(
    Facts::native().container(sandbox("box").image_labels(&[("sandkeeper.managed", "true")]))
)]
#[case::clock_jump(Facts::native().container(sandbox("box").image_moved()).clock_step("1d"))]
#[case::marked(Facts::native().container(sandbox("box")).drain("box").store_fault("locked"))]
fn an_unknown_container_is_never_touched(#[case] facts: Facts) {
    for intent in every_intent(&["box"]) {
        let item = facts.planned(&intent, "box");
        assert_eq!((item.status, item.action), (Status::Unknown, Action::Keep), "{intent:?}: {item:#?}");
    }
}

#[rstest]
#[case::a_live_session(Facts::native().container(sandbox("box")).session(session("s1").uses("box").live()))]
#[case::a_command(Facts::native().container(sandbox("box").execs(1)))]
#[case::both_and_a_mark(
    Facts::native().container(sandbox("box").execs(1)).session(session("s1").uses("box").live()).drain("box")
)]
fn what_is_in_use_is_never_stopped_or_removed(#[case] facts: Facts) {
    for intent in every_intent(&["box"]) {
        let action = facts.planned(&intent, "box").action;
        assert!(matches!(action, Action::Keep | Action::Drain), "{intent:?}: {action:?}");
    }
}

#[rstest]
#[case::nobody_counted(None, Action::Keep)]
#[case::miscounted(Some(1), Action::Keep)]
#[case::counted(Some(2), Action::ForceRemove)]
fn force_ends_live_sessions_only_if_they_were_counted(#[case] count: Option<usize>, #[case] action: Action) {
    let facts = Facts::native().container(sandbox("box"));
    let facts = facts.session(session("s1").uses("box").live()).session(session("s2").uses("box").live());
    let targets = Targets { even_if_live: count, ..targets(&["box"]) };
    assert_eq!(facts.planned(&Intent::ForceRemove(targets.clone()), "box").action, action);
    assert_eq!(
        facts.planned(&Intent::Remove(targets), "box").action,
        Action::Keep,
        "a plain removal never does"
    );
}

#[rstest]
#[case::made(sandbox("box").created_ago("5s"), "made 5s ago")]
#[case::started(sandbox("box").started(Some(ago("5s"))), "started 5s ago")]
#[case::started_and_ended(sandbox("box").state("exited").started(Some(ago("5s"))), "started 5s ago")]
#[case::outdated(sandbox("box").image_moved().started(Some(ago("5s"))), "started 5s ago")]
fn what_was_just_made_or_started_is_never_stopped_or_removed(#[case] new: Sandbox, #[case] why: &str) {
    let facts = Facts::native().container(new);
    for intent in every_intent(&["box"]).into_iter().filter(|intent| !matches!(intent, Intent::Drain(_))) {
        let item = facts.planned(&intent, "box");
        assert!(
            item.action == Action::Keep && item.reason.to_string().contains(why),
            "{intent:?}: {item:#?}"
        );
    }
    let no_grace = facts.policy(|policy| policy.min_age = Duration::ZERO);
    assert_eq!(no_grace.planned(&Intent::ForceRemove(targets(&["box"])), "box").action, Action::ForceRemove);
}

#[test]
fn counting_the_live_sessions_does_not_end_the_grace_for_those_about_to_come() {
    let facts = Facts::native().container(sandbox("box").started(Some(ago("5s"))));
    let facts = facts.session(session("s1").uses("box").live());
    let counted = Targets { even_if_live: Some(1), ..targets(&["box"]) };
    for intent in [Intent::Stop(counted.clone()), Intent::ForceRemove(counted)] {
        let item = facts.planned(&intent, "box");
        assert_decided(&item, Status::Active, Action::Keep, "started 5s ago, within the grace of 1m");
    }
}

#[test]
fn a_command_without_a_session_is_nothing_that_could_be_counted() {
    let facts = Facts::native().container(sandbox("box").execs(1));
    for count in [0, 1] {
        let intent = Intent::ForceRemove(Targets { even_if_live: Some(count), ..targets(&["box"]) });
        assert_eq!(facts.planned(&intent, "box").action, Action::Keep);
    }
}

#[test]
fn a_container_that_a_stop_would_remove_is_left_to_those_who_name_it() {
    let facts = Facts::native().container(sandbox("box").image_moved().auto_remove());
    let item = facts.planned(&reconcile(), "box");
    assert_decided(&item, Status::Stale, Action::Keep, "it was made with --rm");
    assert_eq!(facts.planned(&Intent::Remove(targets(&["box"])), "box").action, Action::StopAndRemove);
}

#[rstest]
#[case::nobody(None, false)]
#[case::somebody(None, true)]
#[case::somebody_counted(Some(1), true)]
fn a_stop_never_removes(#[case] count: Option<usize>, #[case] live: bool) {
    let mut facts = Facts::native().container(sandbox("box").auto_remove());
    if live {
        facts = facts.session(session("s1").uses("box").live());
    }
    let item = facts.planned(&Intent::Stop(Targets { even_if_live: count, ..targets(&["box"]) }), "box");
    assert!(item.action == Action::Keep && item.reason.to_string().contains("say `rm`"), "{item:#?}");
}

#[test]
fn a_removal_that_is_a_stop_says_so() {
    let facts = Facts::native().container(sandbox("box").auto_remove());
    for intent in [Intent::Remove(targets(&["box"])), Intent::ForceRemove(targets(&["box"]))] {
        let item = facts.planned(&intent, "box");
        assert!(item.reason.to_string().contains("its stop removes it at once"), "{item:#?}");
    }
}

#[test]
fn counting_sessions_ends_no_command() {
    let facts = Facts::native().container(sandbox("box").execs(2));
    let facts = facts.session(session("s1").uses("box").live());
    let counted = Targets { even_if_live: Some(1), ..targets(&["box"]) };
    for intent in [Intent::Stop(counted.clone()), Intent::ForceRemove(counted)] {
        let item = facts.planned(&intent, "box");
        assert_eq!(item.action, Action::Keep, "{item:#?}");
        assert!(item.reason.to_string().contains("1 live session in it, and 2 commands run in it"));
    }
}

#[test]
fn whoever_counted_has_said_yes_to_those_he_was_shown_and_to_nobody_else() {
    let with = |sessions: &[&str]| {
        let facts = Facts::native().container(sandbox("box"));
        sessions.iter().fold(facts, |facts, name| facts.session(session(name).uses("box").live()))
    };
    let counted = |count| Intent::Stop(Targets { even_if_live: Some(count), ..targets(&["box"]) });
    let item = with(&["s1", "s2"]).planned(&counted(2), "box");
    assert_eq!(item.action, Action::Stop);
    let now = |sessions: &[&str]| {
        let verdict = with(sessions).verdict("box");
        item.shown.allows(Some(&verdict), &counted(2)).map(std::borrow::Cow::into_owned)
    };
    assert_eq!(now(&["s1", "s2"]), Ok(counted(2)));
    assert_eq!(now(&["s2"]), Ok(counted(1)), "one has ended");
    assert_eq!(now(&[]), Ok(counted(0)));
    for newcomers in [&["s1", "s3"][..], &["s3"], &["s1", "s2", "s3"]] {
        assert!(now(newcomers).unwrap_err().contains("session s3"), "{newcomers:?}");
    }
}

// Named containers.

#[test]
fn a_plan_for_named_containers_speaks_of_no_others() {
    let facts = Facts::native().container(sandbox("one")).container(sandbox("two"));
    let plan = facts.plan(&Intent::Remove(targets(&["two"])));
    assert_eq!(plan.items().iter().map(|item| item.name.as_str()).collect::<Vec<_>>(), ["two"]);
}

#[test]
fn stopping_what_does_not_run_changes_nothing() {
    let facts = Facts::native().container(sandbox("up")).container(sandbox("down").state("exited"));
    let intent = Intent::Stop(targets(&["up", "down"]));
    assert_decided(&facts.planned(&intent, "up"), Status::Orphaned, Action::Stop, "asked for");
    assert_decided(
        &facts.planned(&intent, "down"),
        Status::Orphaned,
        Action::Keep,
        "there is nothing to stop",
    );
    assert_eq!(facts.plan(&intent).changes(), 1);
}

#[test]
fn a_workspace_alone_is_reconciled_if_asked() {
    let facts = Facts::native()
        .container(sandbox("one").workspace("atlas").state("exited"))
        .container(sandbox("two").workspace("borealis").state("exited"))
        .container(sandbox("three").state("exited"));
    let choices = Reconcile { workspace: Some(WorkspaceRef::of(None, "atlas")), ..Reconcile::default() };
    let items = facts.plan(&Intent::Reconcile(choices)).into_items();
    assert_eq!(items.iter().map(|item| item.name.as_str()).collect::<Vec<_>>(), ["one"]);
}

// The plan itself.

#[test]
fn an_item_carries_the_facts_it_was_decided_on() {
    let facts = Facts::native()
        .container(sandbox("old").hash("h1").workspace("atlas").created_ago("3d").started(Some(ago("2h"))))
        .container(sandbox("new").hash("h2").created_ago("1d"));
    let item = facts.planned(&reconcile(), "old");
    assert_eq!(item.id, Some(id_of("old")));
    assert_eq!(item.started_at, Some(ago("2h")));
    assert_eq!(item.workspace.as_deref(), Some("atlas"));
    assert_eq!(item.system.map(|system| system.to_string()).as_deref(), Some("native"));
    assert_eq!(item.state.map(|state| state.to_string()).as_deref(), Some("running"));
}

#[test]
fn a_plan_expires_and_so_does_one_from_the_future() {
    let plan = Facts::native().plan(&reconcile());
    assert_eq!(plan.made_at(), NOW);
    assert!(!plan.has_expired(NOW));
    assert!(!plan.has_expired(NOW + PLAN_VALIDITY));
    assert!(plan.has_expired(NOW + PLAN_VALIDITY + span("1s")));
    assert!(plan.has_expired(ago("1s")), "the clock went back, so nobody knows how long it has waited");
}

#[track_caller]
fn assert_decided(item: &Item, status: Status, action: Action, why: &str) {
    assert_eq!((item.status, item.action), (status, action), "{item:#?}");
    let reason = item.reason.to_string();
    assert!(reason.contains(why), "`{reason}` does not say `{why}`");
}

fn reconcile() -> Intent {
    Intent::Reconcile(Reconcile::default())
}

fn including_running_orphans() -> Intent {
    Intent::Reconcile(Reconcile { include_running_orphans: true, ..Reconcile::default() })
}

fn targets(names: &[&str]) -> Targets {
    Targets { ids: names.iter().map(|name| id_of(name)).collect(), even_if_live: None }
}

fn every_intent(names: &[&str]) -> Vec<Intent> {
    let everything = Reconcile { include_running_orphans: true, drain: true, ..Reconcile::default() };
    let chosen = targets(names);
    vec![
        Intent::Reconcile(everything),
        Intent::Stop(chosen.clone()),
        Intent::Remove(chosen.clone()),
        Intent::ForceRemove(chosen.clone()),
        Intent::Drain(chosen),
    ]
}

/// So many native containers in which nothing runs and which no session claims.
fn orphans(count: usize) -> Facts {
    let add = |facts: Facts, number| facts.container(sandbox(&format!("orphan{number}")).state("exited"));
    (0..count).fold(Facts::native(), add)
}
