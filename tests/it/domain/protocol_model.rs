//! The removal protocol and an application that starts a session, step by step in every possible order. With the fence
//! (`may-start`, asked after the session is written down) nothing is removed under a session; without it, or asked too
//! early, only the documented window is left: a session written down between the last look and the removal.

use stateright::{Checker, HasDiscoveries, Model, Property};

/// How the application asks before it places a session in a container that drains.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Fence {
    /// It does not ask.
    None,
    /// It asks, then writes its session down.
    AskThenWrite,
    /// It writes its session down, then asks, and takes it back if it may not start.
    WriteThenAsk,
}

/// How far the keeper has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Keeper {
    Planned,
    Marked,
    Checked,
    Stopped,
    CheckedAgain,
    Skipped,
    Rescued,
    Refused,
    Removed,
}

/// How far the application has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Application {
    Away,
    Asked,
    Written,
    /// The session is placed; its container must stay.
    Placed,
    Started,
    Turned,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Container {
    Running,
    Stopped,
    Gone,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct World {
    keeper: Keeper,
    application: Application,
    container: Container,
    /// The keeper when the session was written down, for as long as it is.
    written_at: Option<Keeper>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Step {
    Keeper,
    Application,
}

struct Protocol {
    fence: Fence,
}

impl Protocol {
    /// One step of the keeper. Each is one request or one read, so nothing comes in between within it.
    fn keep(&self, mut world: World) -> Option<World> {
        let live = world.written_at.is_some();
        world.keeper = match world.keeper {
            Keeper::Planned if self.fence != Fence::None => Keeper::Marked,
            Keeper::Planned | Keeper::Marked if live => Keeper::Skipped,
            Keeper::Planned | Keeper::Marked => Keeper::Checked,
            Keeper::Checked => {
                world.container = Container::Stopped;
                Keeper::Stopped
            }
            Keeper::Stopped if live => {
                world.container = Container::Running;
                Keeper::Rescued
            }
            Keeper::Stopped => Keeper::CheckedAgain,
            // Without force the engine does not remove what runs.
            Keeper::CheckedAgain if world.container == Container::Running => Keeper::Refused,
            Keeper::CheckedAgain => {
                world.container = Container::Gone;
                Keeper::Removed
            }
            Keeper::Skipped | Keeper::Rescued | Keeper::Refused | Keeper::Removed => return None,
        };
        Some(world)
    }

    fn may_start(world: World) -> bool {
        world.keeper == Keeper::Planned
    }

    /// One step of the application.
    fn apply(&self, mut world: World) -> Option<World> {
        world.application = match (world.application, self.fence) {
            (Application::Away, Fence::AskThenWrite) if !Self::may_start(world) => Application::Turned,
            (Application::Away, Fence::AskThenWrite) => Application::Asked,
            (Application::Away, Fence::None) | (Application::Asked, _) => {
                world.written_at = Some(world.keeper);
                Application::Placed
            }
            (Application::Away, Fence::WriteThenAsk) => {
                world.written_at = Some(world.keeper);
                Application::Written
            }
            (Application::Written, _) if Self::may_start(world) => Application::Placed,
            (Application::Written, _) => {
                world.written_at = None;
                Application::Turned
            }
            (Application::Placed, _) => {
                if world.container == Container::Stopped {
                    world.container = Container::Running;
                }
                Application::Started
            }
            (Application::Started | Application::Turned, _) => return None,
        };
        Some(world)
    }
}

impl Model for Protocol {
    type State = World;
    type Action = Step;

    fn init_states(&self) -> Vec<World> {
        vec![World {
            keeper: Keeper::Planned,
            application: Application::Away,
            container: Container::Running,
            written_at: None,
        }]
    }

    fn actions(&self, _: &World, actions: &mut Vec<Step>) {
        actions.extend([Step::Keeper, Step::Application]);
    }

    fn next_state(&self, world: &World, step: Step) -> Option<World> {
        match step {
            Step::Keeper => self.keep(*world),
            Step::Application => self.apply(*world),
        }
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(NO_REMOVAL, |_, world: &World| !removed_under_a_session(*world)),
            Property::always(ONLY_THE_WINDOW, |_, world: &World| {
                !removed_under_a_session(*world) || world.written_at == Some(Keeper::CheckedAgain)
            }),
            Property::always(
                "whoever was placed in time has a running container in the end",
                |_, world: &World| {
                    let over = matches!(world.keeper, Keeper::Skipped | Keeper::Rescued | Keeper::Refused);
                    !(over && world.application == Application::Started)
                        || world.container == Container::Running
                },
            ),
            Property::sometimes("removed", |_, world: &World| world.keeper == Keeper::Removed),
            Property::sometimes("placed", |_, world: &World| world.application == Application::Started),
        ]
    }
}

const NO_REMOVAL: &str = "no container is removed under a session";
const ONLY_THE_WINDOW: &str =
    "only a session written down between the last look and the removal loses its container";

/// The session was placed before the removal, and the container is gone.
fn removed_under_a_session(world: World) -> bool {
    let placed = matches!(world.application, Application::Placed | Application::Started);
    let before = world.written_at.is_some_and(|keeper| keeper != Keeper::Removed);
    placed && before && world.container == Container::Gone
}

fn checked(fence: Fence) -> impl Checker<Protocol> {
    Protocol { fence }.checker().finish_when(HasDiscoveries::All).spawn_bfs().join()
}

#[test]
fn with_the_fence_asked_after_writing_nothing_is_removed_under_a_session() {
    checked(Fence::WriteThenAsk).assert_properties();
}

#[test]
fn without_the_fence_the_one_known_window_is_left() {
    let checker = checked(Fence::None);
    let path = checker.assert_any_discovery(NO_REMOVAL).into_actions();
    let window = [&[Step::Keeper; 3][..], &[Step::Application, Step::Keeper]].concat();
    assert!(path.starts_with(&window), "not the known counterexample: {path:?}");
    checker.assert_no_discovery(ONLY_THE_WINDOW);
}

#[test]
fn a_fence_asked_before_writing_leaves_the_window_open() {
    let checker = checked(Fence::AskThenWrite);
    checker.assert_any_discovery(NO_REMOVAL);
    checker.assert_no_discovery(ONLY_THE_WINDOW);
}
