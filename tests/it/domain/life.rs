//! What lives in a container is decided once, and holds for every verb. And what is not life, but keeps it all the same.

use rstest::rstest;
use sandkeeper::domain::container::{Inspected, Namespace, Processes};
use sandkeeper::domain::plan::{Action, Reconcile, Targets};
use sandkeeper::domain::session::Moment;
use sandkeeper::domain::{Intent, Status};

use crate::facts::*;

fn targets(names: &[&str]) -> Targets {
    Targets { ids: names.iter().map(|name| id_of(name)).collect(), even_if_live: None }
}

/// A session that began so long ago and has done nothing since.
fn since(text: &str) -> SessionRow {
    session("since").started(Moment::At(ago(text))).active_ago(text)
}

/// Every verb that could end something.
fn ending() -> Vec<Intent> {
    let box_ = || targets(&["box"]);
    vec![
        Intent::Reconcile(Reconcile { include_running_orphans: true, ..Reconcile::default() }),
        Intent::Reconcile(Reconcile {
            quarantine: true,
            include_running_orphans: true,
            ..Reconcile::default()
        }),
        Intent::Stop(box_()),
        Intent::Remove(box_()),
        Intent::ForceRemove(box_()),
        Intent::Evict(box_()),
        Intent::Quarantine(box_()),
    ]
}

#[rstest]
fn whatever_is_a_sign_of_life_protects_from_every_verb_marked_or_not(
    #[values("session", "exec", "work", "forgotten exec", "sidecar")] sign: &str,
    #[values(false, true)] marked: bool,
) {
    let facts = match sign {
        "session" => Facts::native().container(sandbox("box")).session(session("s1").uses("box").live()),
        "exec" => Facts::native().container(sandbox("box").execs(1)),
        "work" => Facts::native().container(sandbox("box").beside(process(205, FIRST, 204, 9, "make"))),
        "forgotten exec" => Facts::native().container(sandbox("box").beside(process(205, 0, 205, 9, "make"))),
        _ => {
            let sidecar = bare("sidecar").joins(Namespace::Network, id_of("box").as_str());
            Facts::native().container(sandbox("box")).container(sidecar)
        }
    };
    let facts = if marked { facts.drain("box") } else { facts };
    let verdict = facts.finds("box", if marked { Status::Draining } else { Status::Active }).0;
    assert!(verdict.is_in_use() && !verdict.life.is_empty());
    for intent in ending() {
        assert_eq!(facts.planned(&intent, "box").action, Action::Keep, "{sign}, {intent:?}");
    }
}

#[rstest]
#[case::processes_that_cannot_be_listed(sandbox("box").processes(Processes::Failed("boom".to_owned())))]
#[case::what_a_command_left(sandbox("box").runs("serve").beside(process(205, FIRST, 204, 9, "make")))]
#[case::a_shell_on_a_terminal(sandbox("box").runs("sh").terminal())]
fn what_may_be_somebodys_work_is_not_ended_by_name_either(#[case] sandbox: Sandbox) {
    let idle =
        Facts::native().container(sandbox.clone()).session(session("s1").uses("box").active_ago("10m"));
    idle.finds("box", Status::Idle);
    let live = Facts::native().container(sandbox).session(session("s1").uses("box").live());
    let counted = Targets { even_if_live: Some(1), ..targets(&["box"]) };
    for intent in ending() {
        assert_eq!(idle.planned(&intent, "box").action, Action::Keep, "{intent:?}");
    }
    for intent in [Intent::Stop(counted.clone()), Intent::ForceRemove(counted)] {
        let item = live.planned(&intent, "box");
        assert_eq!(item.action, Action::Keep, "{intent:?}: {}", item.reason);
    }
}

#[test]
fn counting_sessions_takes_no_network_from_another_container() {
    let sidecar = bare("sidecar").joins(Namespace::Network, id_of("box").as_str());
    let facts = Facts::native().container(sandbox("box")).container(sidecar);
    let facts = facts.session(session("s1").uses("box").live());
    let counted = Targets { even_if_live: Some(1), ..targets(&["box"]) };
    for intent in [Intent::Stop(counted.clone()), Intent::ForceRemove(counted)] {
        let item = facts.planned(&intent, "box");
        assert_eq!(item.action, Action::Keep, "{intent:?}");
        assert!(item.reason.to_string().contains("sidecar runs in its network namespace"), "{}", item.reason);
    }
}

#[test]
fn what_is_quiet_and_marked_goes_with_the_same_verbs() {
    let facts = Facts::native().container(sandbox("box")).drain("box");
    let goes = |intent: &Intent| facts.planned(intent, "box").action != Action::Keep;
    assert!(ending().iter().all(goes), "nothing lives in it, so each of them ends it");
}

// A configuration that is only guessed.

#[test]
fn one_container_with_a_strange_config_ends_nothing_that_an_open_session_claims() {
    let mut facts = Facts::native().container(sandbox("typo").hash("h3o").state("created").created_ago("5m"));
    for number in 0..10 {
        let name = format!("box{number}");
        facts = facts
            .container(sandbox(&name).hash("h30").created_ago("2h"))
            .session(session(&format!("s{number}")).uses(&name).active_ago("10m"));
    }
    for number in 0..10 {
        facts.finds(&format!("box{number}"), Status::Idle).outdated(true).because("the newest container's");
    }
    let named = facts.policy(|policy| policy.expected_hash = Some("h3o".to_owned()));
    named.finds("box0", Status::Stale).because("the expected one");
}

#[test]
fn a_guessed_config_lets_go_what_is_free_or_was_forgotten() {
    let facts = Facts::native()
        .container(sandbox("new").hash("h2").created_ago("1h"))
        .container(sandbox("free").hash("h1").created_ago("3d"))
        .container(sandbox("over").hash("h1").created_ago("3d"))
        .session(session("s1").uses("over").ended_ago("1h"))
        .container(sandbox("forgotten").hash("h1").label("sandkeeper.lifetime", "9d").created_ago("9d"))
        .session(since("8d").uses("forgotten"));
    facts.finds("free", Status::Stale);
    facts.finds("over", Status::Stale);
    facts.finds("forgotten", Status::Idle).because("within its lifetime of 9d");
}

#[test]
fn a_check_that_sees_one_container_decides_by_the_config_the_plan_saw() {
    let facts = Facts::native()
        .container(sandbox("new").hash("h2").created_ago("1h"))
        .container(sandbox("box").hash("h1").created_ago("3d"))
        .session(session("s1").uses("box").active_ago("10m"));
    let again = |facts: &Facts| {
        let brakes = facts.verdicts().brakes;
        let around =
            sandkeeper::domain::Surroundings::new(facts.snapshot.clone(), brakes, &facts.policy, facts.now);
        let container = facts.containers().find(|c| c.name == "box").unwrap().clone();
        around.classify_again(&container, &facts.policy, facts.now).containers.remove(0)
    };
    assert_eq!(again(&facts).status, Status::Idle, "a guess stays a guess");
    assert!(again(&facts).outdated);
}

// Sleep and power-off.

#[test]
fn a_night_asleep_ends_no_turn_that_was_running() {
    let facts = Facts::parachute()
        .container(parachute("parachute-ws-atlas", "h1").created_ago("20d"))
        .session(since("8h5m").workspace("atlas").declared(None));
    facts.finds("parachute-ws-atlas", Status::Idle);
    let slept = facts.slept("8h", "2m");
    slept.finds("parachute-ws-atlas", Status::Active).because("was active 5m ago");
}

#[test]
fn a_weekend_switched_off_is_not_silence() {
    let facts = Facts::native().container(sandbox("box").created_ago("20d")).session(since("3d").uses("box"));
    facts.finds("box", Status::Stale).because("quiet for 3d");
    let facts = facts.booted_ago("10m");
    facts.finds("box", Status::Idle).because("quiet for 10m");
    facts.policy(|policy| policy.count_downtime = true).finds("box", Status::Stale);
}

#[test]
fn a_container_made_right_before_a_sleep_is_still_new_after_it() {
    let facts = Facts::native().container(sandbox("box").state("created").created_ago("8h"));
    facts.finds("box", Status::Orphaned);
    facts.slept("7h59m30s", "0s").finds("box", Status::Idle).because("made 30s ago, within the grace");
}

#[test]
fn processes_that_cannot_be_listed_are_no_silence() {
    let mut box_ = sandbox("box");
    if let Inspected::Facts(inspection) = &mut box_.container.inspected {
        inspection.processes = Processes::Failed("the engine hung up".to_owned());
    }
    let mut facts = Facts::native().container(box_);
    let profile = std::sync::Arc::make_mut(&mut facts.last_system().profile);
    profile.at_rest = vec![regex_lite::Regex::new("^sleep infinity$").unwrap()];
    facts.finds("box", Status::Unknown).because("the engine hung up");
}
