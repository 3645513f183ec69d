//! A keeper, a session that wakes up, a command that begins in the background and a store that loses its rows, step by step
//! in every possible order. Each check of the keeper is the real one: the rules, on what can be seen at that moment.

use std::sync::Arc;

use sandkeeper::domain::plan::{Action, Reconcile, plan};
use sandkeeper::domain::{Intent, Surroundings};
use stateright::{Checker, HasDiscoveries, Model, Property};

use crate::facts::*;

/// How far the keeper has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Keeper {
    Planned,
    Checked,
    Stopped,
    CheckedAgain,
    Skipped,
    Rescued,
    Removed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct World {
    keeper: Keeper,
    /// How far the keeper was when the session woke up.
    woken_at: Option<Keeper>,
    /// How far it was when the command began.
    work_since: Option<Keeper>,
    /// The stop ended the command.
    work_ended: bool,
    /// The store has no rows any more, not even that of the session that woke up.
    store_lost: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Step {
    Keeper,
    Wake,
    Work,
    LoseStore,
}

/// What the keeper stands on: the look on which the plan was made.
struct Host {
    planned: Facts,
    around: Surroundings,
}

impl Host {
    /// Two containers of a configuration that was replaced by name, each with an open session that has been quiet.
    fn new(memory: bool) -> Self {
        let facts = Facts::native()
            .policy(|policy| policy.expected_hash = Some("new".to_owned()))
            .container(sandbox("box").hash("old"))
            .container(sandbox("other").hash("old"))
            .sessions(vec![row("box"), row("other")]);
        let planned = if memory { facts.remembered() } else { facts };
        let around = Surroundings::new(planned.snapshot.clone(), Vec::new(), &planned.policy, planned.now);
        let host = Self { planned, around };
        let item = host.planned.planned(&intent(), "box");
        assert_eq!(item.action, Action::StopAndRemove, "{}", item.reason);
        host
    }

    /// Whether a check of the first container as it is now lets the keeper go on.
    fn lets_go(&self, world: World) -> bool {
        let runs = world.keeper == Keeper::Planned;
        let subject = sandbox("box").hash("old");
        let subject = match (runs, world.work_since) {
            (true, Some(_)) => subject.beside(process(200, FIRST, 200, 60, "make all")),
            (true, None) => subject,
            (false, _) => subject.state("exited"),
        };
        let seen = Facts::native().container(subject);
        let container = Arc::clone(seen.containers().next().unwrap());
        let woken = world.woken_at.map_or_else(|| row("box"), |_| row("box").live());
        let rows = if world.store_lost { Vec::new() } else { vec![woken, row("other")] };
        let store = self.planned.clone().sessions(rows);
        let Facts { policy, now, .. } = &self.planned;
        let around = self.around.with_systems(store.snapshot.systems.clone(), policy, *now);
        let verdicts = around.classify_again(&container, policy, *now);
        let expected = if runs { Action::StopAndRemove } else { Action::Remove };
        plan(&verdicts, &intent(), policy, *now).items()[0].action == expected
    }

    fn keep(&self, mut world: World) -> Option<World> {
        world.keeper = match world.keeper {
            Keeper::Planned if self.lets_go(world) => Keeper::Checked,
            Keeper::Planned => Keeper::Skipped,
            Keeper::Checked => {
                world.work_ended = world.work_since.is_some();
                Keeper::Stopped
            }
            Keeper::Stopped if self.lets_go(world) => Keeper::CheckedAgain,
            Keeper::Stopped => Keeper::Rescued,
            Keeper::CheckedAgain => Keeper::Removed,
            Keeper::Skipped | Keeper::Rescued | Keeper::Removed => return None,
        };
        Some(world)
    }
}

fn intent() -> Intent {
    Intent::Reconcile(Reconcile::default())
}

fn row(container: &str) -> SessionRow {
    session(&format!("of-{container}")).uses(container).active_ago("2h")
}

const NO_REMOVAL: &str = "no container is removed under a session that woke up before the last look";
const NO_WORK_LOST: &str = "no command is ended that began before the check";

impl Model for Host {
    type State = World;
    type Action = Step;

    fn init_states(&self) -> Vec<World> {
        vec![World {
            keeper: Keeper::Planned,
            woken_at: None,
            work_since: None,
            work_ended: false,
            store_lost: false,
        }]
    }

    fn actions(&self, _: &World, actions: &mut Vec<Step>) {
        actions.extend([Step::Keeper, Step::Wake, Step::Work, Step::LoseStore]);
    }

    fn next_state(&self, world: &World, step: Step) -> Option<World> {
        let mut next = *world;
        let runs = matches!(world.keeper, Keeper::Planned | Keeper::Checked);
        match step {
            Step::Keeper => return self.keep(next),
            Step::Wake if world.woken_at.is_none() => next.woken_at = Some(world.keeper),
            Step::Work if world.work_since.is_none() && runs => next.work_since = Some(world.keeper),
            Step::LoseStore if !world.store_lost => next.store_lost = true,
            Step::Wake | Step::Work | Step::LoseStore => return None,
        }
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(NO_REMOVAL, |_, world: &World| {
                let in_time = !matches!(world.woken_at, None | Some(Keeper::CheckedAgain | Keeper::Removed));
                world.keeper != Keeper::Removed || !in_time
            }),
            Property::always(NO_WORK_LOST, |_, world: &World| {
                !world.work_ended || world.work_since == Some(Keeper::Checked)
            }),
            Property::sometimes("removed", |_, world: &World| world.keeper == Keeper::Removed),
            Property::sometimes("rescued", |_, world: &World| world.keeper == Keeper::Rescued),
            Property::sometimes("skipped for work", |_, world: &World| {
                world.keeper == Keeper::Skipped && world.work_since.is_some()
            }),
        ]
    }
}

fn checked(memory: bool) -> impl Checker<Host> {
    Host::new(memory).checker().finish_when(HasDiscoveries::All).spawn_bfs().join()
}

#[test]
fn with_its_memory_the_keeper_ends_nothing_on_the_word_of_a_store_that_lost_its_rows() {
    checked(true).assert_properties();
}

#[test]
fn without_it_an_emptied_store_would_end_a_live_session() {
    let checker = checked(false);
    let path = checker.assert_any_discovery(NO_REMOVAL).into_actions();
    assert!(path.contains(&Step::LoseStore), "another way to lose it: {path:?}");
    checker.assert_no_discovery(NO_WORK_LOST);
}
