//! What holds for every host anyone can think of: the rules that no combination of facts may break.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::facts::profiles::{native, parachute_like};
use crate::facts::{Facts, NOW, Sandbox, SessionRow, bare, id_of, session, span};
use jiff::{SignedDuration, Timestamp};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;
use sandkeeper::domain::container::{Inspected, Row};
use sandkeeper::domain::plan::{Action, Reconcile};
use sandkeeper::domain::profile::Match;
use sandkeeper::domain::session::{LiveRule, Moment};
use sandkeeper::domain::{Container, ContainerId, Intent, Profile, Session, Status, Surroundings, Verdict};

const DAY: SignedDuration = SignedDuration::from_hours(24);

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_container_of_a_system_gets_exactly_one_verdict_with_a_reason(facts in story()) {
        let ours = |container: &&Arc<Container>| {
            let systems = &facts.snapshot.systems;
            systems.iter().any(|system| !matches!(system.profile.recognise(container), Match::Foreign))
        };
        let mut expected: Vec<ContainerId> = facts.containers().filter(ours).map(|c| c.id.clone()).collect();
        let verdicts = facts.verdicts().containers;
        let mut judged: Vec<ContainerId> = verdicts.iter().filter_map(|v| v.subject.id().cloned()).collect();
        expected.sort();
        judged.sort();
        prop_assert_eq!(judged, expected);
        prop_assert!(verdicts.iter().all(|verdict| !verdict.evidence.is_empty()));
    }

    #[test]
    fn the_order_of_rows_and_sessions_changes_nothing(facts in story(), keys in vec(any::<u32>(), 16)) {
        let mut shuffled = facts.clone();
        shuffle(Arc::make_mut(&mut shuffled.snapshot.engine.value), &keys);
        for store in shuffled.snapshot.systems.iter_mut().flat_map(|system| &mut system.stores) {
            shuffle(Arc::make_mut(&mut store.sessions.value), &keys);
        }
        prop_assert_eq!(facts.verdicts(), shuffled.verdicts());
    }

    #[test]
    fn a_live_session_keeps_the_container_it_claims(facts in story(), link in 0_usize..3) {
        let system = facts.snapshot.systems[0].profile.name.as_str();
        for container in facts.containers() {
            let Some(row) = live_session_of(container, system, link) else { continue };
            let claimed = facts.clone().session(row);
            prop_assert!(!removable(&claimed).contains(&container.id), "{:#?}", claimed.verdict(&container.name));
        }
    }

    #[test]
    fn a_running_command_keeps_its_container(facts in story()) {
        for name in names(&facts) {
            let busy = with_container(&facts, &name, |container| {
                let mut inspection = container.inspection().cloned().unwrap_or_default();
                inspection.running_execs = 1;
                container.inspected = Inspected::Facts(Box::new(inspection));
            });
            let verdict = busy.verdict(&name);
            prop_assert!(!removable(&busy).contains(&id_of(&name)), "{verdict:#?}");
            prop_assert!(!is_going(&verdict), "{verdict:#?}");
        }
    }

    #[test]
    fn a_store_that_cannot_be_read_lets_nothing_of_its_system_go(facts in story()) {
        let facts = facts.store_fault("database is locked");
        prop_assert!(facts.verdicts().containers.iter().all(|verdict| !is_going(verdict)));
        prop_assert_eq!(removable(&facts), BTreeSet::new());
    }

    #[test]
    fn a_source_that_never_answered_lets_nothing_go(facts in story()) {
        for facts in [facts.clone().store_never_read(), facts.clone().without_stores(), facts.engine_fault("EOF")] {
            prop_assert!(facts.verdicts().containers.iter().all(|verdict| !is_going(verdict)));
            prop_assert_eq!(removable(&facts), BTreeSet::new());
        }
    }

    #[test]
    fn a_clock_that_jumps_by_a_day_lets_nothing_active_go(facts in story(), forward in any::<bool>()) {
        let now = if forward { facts.now + DAY } else { facts.now - DAY };
        let active = active(&facts);

        let unread = Facts { now, ..facts.clone() };
        prop_assert!(active.is_disjoint(&going(&unread)), "the same facts, judged by the new clock");

        let read_again = read_at(&facts, now);
        let seen = read_again.clone().clock_step("1d");
        prop_assert!(active.is_disjoint(&going(&seen)), "read again, and the jump was seen");

        let declared = facts.snapshot.systems.iter().all(|s| s.profile.live == LiveRule::Declared);
        if declared {
            prop_assert!(active.is_disjoint(&going(&read_again)), "nobody saw it, but the store has a word for life");
        }
    }

    #[test]
    fn a_container_dated_in_the_future_makes_nothing_removable(facts in story()) {
        let before = removable(&facts);
        for name in names(&facts) {
            let skewed = with_container(&facts, &name, |container| container.created_at = NOW + DAY);
            let after = removable(&skewed);
            prop_assert!(!after.contains(&id_of(&name)));
            prop_assert!(after.is_subset(&before), "{:#?}", skewed.verdicts());
        }
    }

    #[test]
    fn a_session_dated_in_the_future_makes_nothing_removable(facts in story(), which in 0_usize..3) {
        let mut skewed = facts.clone();
        for row in Arc::make_mut(&mut skewed.last_store().sessions.value) {
            let row = Arc::make_mut(row);
            let moment = [&mut row.started_at, &mut row.last_activity_at, &mut row.ended_at].into_iter().nth(which);
            if let Some(Moment::At(at)) = moment {
                *at = NOW + DAY;
            }
        }
        let (before, after) = (removable(&facts), removable(&skewed));
        prop_assert!(after.is_subset(&before), "{:#?}", skewed.verdicts());
    }

    #[test]
    fn a_time_that_can_no_longer_be_read_makes_nothing_removable(facts in story(), end in any::<bool>()) {
        let mut garbled = facts.clone();
        for row in Arc::make_mut(&mut garbled.last_store().sessions.value) {
            let row = Arc::make_mut(row);
            let moment = if end { &mut row.ended_at } else { &mut row.last_activity_at };
            if matches!(moment, Moment::At(_)) {
                *moment = Moment::Unreadable("`soon` is no time".to_owned());
            }
        }
        let (before, after) = (removable(&facts), removable(&garbled));
        prop_assert!(after.is_subset(&before), "{:#?}", garbled.verdicts());
    }

    #[test]
    fn what_is_in_use_or_unknown_is_in_no_plan(facts in story()) {
        let going = removable(&facts);
        for verdict in facts.verdicts().containers {
            let safe = verdict.is_in_use() || matches!(verdict.status, Status::Unknown | Status::Active | Status::Idle);
            prop_assert!(!safe || verdict.subject.id().is_none_or(|id| !going.contains(id)), "{verdict:#?}");
        }
    }

    #[test]
    fn a_container_judged_again_by_itself_gets_the_verdict_it_got_among_all(facts in story()) {
        let around = Surroundings::new(facts.snapshot.clone(), facts.verdicts().brakes, &facts.policy, facts.now);
        let verdicts = facts.verdicts().containers;
        for container in facts.containers() {
            let again = around.classify_again(container, &facts.policy, facts.now).containers;
            let before: Vec<Verdict> =
                verdicts.iter().filter(|v| v.subject.id() == Some(&container.id)).cloned().collect();
            prop_assert_eq!(again, before);
        }
    }

    #[test]
    fn every_reason_is_one_line_that_says_something(facts in story()) {
        let verdicts = facts.verdicts();
        let evidence = verdicts.containers.iter().flat_map(|verdict| &verdict.evidence);
        let mut sentences: Vec<String> = evidence.map(ToString::to_string).collect();
        sentences.extend(verdicts.lost.iter().flat_map(|lost| &lost.evidence).map(ToString::to_string));
        sentences.extend(facts.plan(&take_everything()).items().iter().map(|item| item.reason.to_string()));
        for sentence in sentences {
            prop_assert!(!sentence.trim().is_empty() && !sentence.contains(['\n', '\r']), "{sentence:?}");
        }
    }
}

// Questions to a story.

fn take_everything() -> Intent {
    Intent::Reconcile(Reconcile { include_running_orphans: true, ..Reconcile::default() })
}

/// What a reconcile that takes everything would remove.
fn removable(facts: &Facts) -> BTreeSet<ContainerId> {
    let removed = |action| matches!(action, Action::Remove | Action::StopAndRemove | Action::ForceRemove);
    let items = facts.plan(&take_everything()).into_items().into_iter();
    items.filter(|item| removed(item.action)).filter_map(|item| item.id).collect()
}

fn is_going(verdict: &Verdict) -> bool {
    matches!(verdict.status, Status::Stale | Status::Orphaned)
}

/// What is on its way out, by status or by plan.
fn going(facts: &Facts) -> BTreeSet<ContainerId> {
    let verdicts = facts.verdicts().containers;
    let by_status = verdicts.iter().filter(|v| is_going(v)).filter_map(|v| v.subject.id().cloned());
    by_status.chain(removable(facts)).collect()
}

fn active(facts: &Facts) -> BTreeSet<ContainerId> {
    let verdicts = facts.verdicts().containers.into_iter().filter(|verdict| verdict.status == Status::Active);
    verdicts.filter_map(|verdict| verdict.subject.id().cloned()).collect()
}

fn names(facts: &Facts) -> Vec<String> {
    facts.containers().map(|container| container.name.clone()).collect()
}

// The same story, told differently.

fn with_container(facts: &Facts, name: &str, change: impl Fn(&mut Container)) -> Facts {
    let mut facts = facts.clone();
    for row in Arc::make_mut(&mut facts.snapshot.engine.value) {
        if let Row::Container(container) = row
            && container.name == name
        {
            change(Arc::make_mut(container));
        }
    }
    facts
}

/// The same facts, read at another moment and judged then.
fn read_at(facts: &Facts, now: Timestamp) -> Facts {
    let mut facts = Facts { now, ..facts.clone() };
    facts.snapshot.engine.at = Some(now);
    for store in facts.snapshot.systems.iter_mut().flat_map(|system| &mut system.stores) {
        store.sessions.at = Some(now);
    }
    facts
}

fn shuffle<T>(items: &mut Vec<T>, keys: &[u32]) {
    let mut keyed: Vec<(u32, T)> = keys.iter().copied().cycle().zip(items.drain(..)).collect();
    keyed.sort_by_key(|(key, _)| *key);
    items.extend(keyed.into_iter().map(|(_, item)| item));
}

/// A session that is live by every rule and claims the container through one of the system's links.
fn live_session_of(container: &Container, system: &str, link: usize) -> Option<SessionRow> {
    let row = |id: &str| session(id).live().active(Moment::At(NOW));
    Some(match (system, link) {
        (_, 0) => row("extra").uses(&container.name),
        ("parachute", _) => row("extra").workspace(container.name.strip_prefix("parachute-ws-")?),
        (_, 1) => row(container.labels.get("sandkeeper.session")?),
        _ => row("extra").workspace(container.labels.get("sandkeeper.workspace")?),
    })
}

// Stories.

fn story() -> impl Strategy<Value = Facts> {
    let profile = prop_oneof![
        Just(native()),
        Just(parachute_like()),
        Just(Profile { live: LiveRule::ActiveWithin(span("10m")), ..native() }),
    ];
    let drains = vec(0_usize..6, 0..3);
    (profile, vec(container(), 0..6), vec(session_row(), 0..8), drains, option::weighted(0.1, Just("1d")))
        .prop_map(|(profile, containers, sessions, drains, step)| {
            let mut facts = Facts::new().system(profile).policy(|policy| policy.brake.more_than = usize::MAX);
            let count = containers.len();
            for (number, sandbox) in containers.into_iter().enumerate() {
                facts = facts.container(named(sandbox, number));
            }
            for (number, mut row) in sessions.into_iter().enumerate() {
                row.0.id = format!("s{number}");
                facts = facts.session(row);
            }
            for number in drains.into_iter().filter(|number| *number < count) {
                facts = facts.drain(&name(number));
            }
            step.into_iter().fold(facts, Facts::clock_step)
        })
}

fn name(number: usize) -> String {
    format!("parachute-ws-w{number}")
}

/// Gives the container a name and an id of its own, and the image that goes with them.
fn named(sandbox: Sandbox, number: usize) -> Sandbox {
    let Sandbox { container, .. } = bare(&name(number));
    let mut sandbox = sandbox;
    sandbox.container.id = container.id;
    sandbox.container.name = container.name;
    sandbox
}

/// A container that is both native and Parachute's, so that every profile has something to say about it.
fn container() -> impl Strategy<Value = Sandbox> {
    let labels = (
        option::weighted(0.8, select(vec!["w0", "w1"])),
        option::of(select(vec!["s0", "s1", "s2", "elsewhere"])),
        option::of(select(vec!["true", "false", "perhaps"])),
        option::of(select(vec!["15m", "7d", "soon"])),
        option::of(select(vec!["", "h1", "h2"])),
    );
    let states =
        [("running", 4), ("exited", 2), ("created", 1), ("paused", 1), ("restarting", 1), ("dead", 1)];
    let state = prop_oneof![9 => weighted(&states), 1 => Just("stopped")];
    let image = weighted(&[("common", 8), ("moved", 2), ("labelled", 1), ("unasked", 1)]);
    let inspect = weighted(&[("good", 8), ("failed", 1), ("not needed", 1)]);
    let execs = select(vec![0_usize, 0, 0, 1]);
    (labels, state, instant(), option::of(instant()), image, inspect, execs).prop_map(
        |(
            (workspace, session, persistent, lifetime, hash),
            state,
            created,
            started,
            image,
            inspect,
            execs,
        )| {
            let optional = [
                ("sandkeeper.workspace", workspace),
                ("sandkeeper.session", session),
                ("sandkeeper.persistent", persistent),
                ("sandkeeper.lifetime", lifetime),
                ("sandkeeper.config-hash", hash),
                ("config_hash", hash),
            ];
            let base = bare("unnamed").label("sandkeeper.managed", "true").label("app", "parachute");
            let labelled = optional.into_iter().fold(base, |sandbox, (key, value)| match value {
                Some(value) => sandbox.label(key, value),
                None => sandbox,
            });
            let sandbox = labelled.created_at(created).started(started).state(state).execs(execs);
            let sandbox = match image {
                "moved" => sandbox.image_moved(),
                "labelled" => sandbox.image_labels(&[("sandkeeper.managed", "true"), ("app", "parachute")]),
                "unasked" => sandbox.image_unasked(),
                _ => sandbox,
            };
            match inspect {
                "failed" => sandbox.inspect_failed("500"),
                "not needed" => sandbox.not_inspected(),
                _ => sandbox,
            }
        },
    )
}

/// Some words more often than others.
fn weighted(words: &[(&'static str, usize)]) -> impl Strategy<Value = &'static str> + use<> {
    select(words.iter().flat_map(|(word, times)| std::iter::repeat_n(*word, *times)).collect::<Vec<_>>())
}

fn session_row() -> impl Strategy<Value = SessionRow> {
    let workspace = option::weighted(0.8, select(vec!["w0", "w0", "w1", "w9"]));
    let uses = option::weighted(0.3, 0_usize..8);
    (workspace, uses, moment(), moment(), moment(), option::of(any::<bool>())).prop_map(
        |(workspace, uses, started_at, last_activity_at, ended_at, declared_live)| {
            SessionRow(Session {
                vanished: false,
                id: String::new(),
                workspace: workspace.map(ToOwned::to_owned),
                container: uses.map(name),
                title: None,
                started_at,
                last_activity_at,
                ended_at,
                declared_live,
            })
        },
    )
}

/// From a month ago to two days ahead, with the borders of every rule among them.
fn instant() -> impl Strategy<Value = Timestamp> {
    let minutes = prop_oneof![Just(0_i64), Just(-1), Just(-10), Just(-15), Just(-1440), -43_200_i64..2_880];
    (minutes, -1_i64..=1)
        .prop_map(|(minutes, seconds)| NOW + SignedDuration::from_secs(minutes * 60 + seconds))
}

fn moment() -> impl Strategy<Value = Moment> {
    prop_oneof![
        2 => Just(Moment::Absent),
        3 => instant().prop_map(Moment::At),
        1 => Just(Moment::Unreadable("`soon` is no time".to_owned())),
    ]
}
