//! Ten thousand seeded schedules of the removal protocol: the real keeper against a simulated engine and a real session
//! database. In eight thousand of them something happens in every container at one step of the protocol; in two thousand
//! the store loses its sessions at one step of one container. No container is removed once its session is live, or on the
//! word of a store that lost it, except in the documented window between the last look and the removal.

#![expect(clippy::match_same_arms, reason = "each arm has its own reason")]

mod world;

use std::collections::HashMap;
use std::time::Duration;

use jiff::Timestamp;
use rstest::rstest;
use sandkeeper::domain::plan::{Intent, PLAN_VALIDITY, Reconcile};
use sandkeeper::domain::{classify, plan};
use sandkeeper::keeper::{Ending, KeeperFault, Manner};
use tokio_util::sync::CancellationToken;

use self::world::{Bench, Spared};

/// How many containers one plan has; every one of them is a schedule.
const AT_ONCE: usize = 20;

/// A step of the protocol as the engine sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Moment {
    /// The check before anything is done.
    FirstCheck,
    Stop,
    /// The check after the stop.
    SecondCheck,
    Delete,
    /// The look whether it is gone.
    Confirmation,
}

const MOMENTS: [Moment; 5] =
    [Moment::FirstCheck, Moment::Stop, Moment::SecondCheck, Moment::Delete, Moment::Confirmation];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Happening {
    Nothing,
    /// The session becomes live.
    Live,
    /// The session becomes live and the application starts the container.
    LiveAndStarted,
    /// Somebody restarts the container.
    Restart,
    /// A command begins to run in the background.
    Work,
    /// Somebody else removes the container.
    Removed,
}

/// What happens in one container, when, and whether the engine has already answered the request by then.
#[derive(Clone, Copy, Debug)]
struct Schedule {
    happening: Happening,
    moment: Moment,
    after: bool,
}

/// How a store loses what it said.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Kind {
    /// Every row is deleted.
    Emptied,
    /// An empty database is moved over it.
    Replaced,
    /// The file is deleted.
    Gone,
}

/// When it does, told by a step of one of the containers.
#[derive(Clone, Copy, Debug)]
struct Loss {
    kind: Kind,
    container: usize,
    moment: Moment,
    after: bool,
}

/// xorshift: the same schedules every time.
struct Seed(u64);

impl Seed {
    fn below(&mut self, choices: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from((self.0 >> 11) % choices as u64).unwrap()
    }

    fn one_of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())]
    }
}

impl Loss {
    fn seeded(seed: &mut Seed) -> Self {
        Self {
            kind: seed.one_of(&[Kind::Emptied, Kind::Replaced, Kind::Gone]),
            container: seed.below(AT_ONCE),
            moment: seed.one_of(&MOMENTS),
            after: seed.one_of(&[false, true]),
        }
    }
}

impl Schedule {
    const NOTHING: Self = Self { happening: Happening::Nothing, moment: Moment::Stop, after: false };

    fn seeded(seed: &mut Seed) -> Self {
        let happenings = [
            Happening::Live,
            Happening::Live,
            Happening::Live,
            Happening::LiveAndStarted,
            Happening::Restart,
            Happening::Work,
            Happening::Removed,
            Happening::Nothing,
        ];
        Self {
            moment: seed.one_of(&MOMENTS),
            happening: seed.one_of(&happenings),
            after: seed.one_of(&[false, true]),
        }
    }

    /// How the item may end. A check that took long looks twice, and then sees what happened after its first look.
    fn endings(self) -> Vec<Ending> {
        let seen_by_a_second_look = match (self.happening, self.moment, self.after) {
            (Happening::Restart, Moment::FirstCheck, true) => Some(Ending::Skipped),
            (Happening::Restart, Moment::SecondCheck, true) => Some(Ending::Rescued),
            _ => None,
        };
        [self.ending()].into_iter().chain(seen_by_a_second_look).collect()
    }

    /// How the item ends if every check looks once.
    fn ending(self) -> Ending {
        use Happening::{Live, LiveAndStarted, Nothing, Removed, Restart, Work};
        use Moment::{Confirmation, Delete, FirstCheck, SecondCheck, Stop};
        match (self.happening, self.moment, self.after) {
            (Nothing, _, _) | (_, Confirmation, _) | (_, Delete, true) => Ending::Removed,
            // The window: the last look is over, and nobody has started the container.
            (Live, Delete, false) => Ending::Removed,
            (Removed, _, _) => Ending::AlreadyGone,
            // Processes are listed after the container is inspected. The other window: work that begins between the check
            // and the stop. What is stopped cannot begin any.
            (Work, FirstCheck, _) => Ending::Skipped,
            (Work, Stop | SecondCheck | Delete, _) => Ending::Removed,
            // In time; or so late that the engine refuses to remove what runs again.
            (Live | LiveAndStarted, FirstCheck, _) | (Restart, FirstCheck, false) => Ending::Skipped,
            (LiveAndStarted | Restart, Delete, false) | (Restart, SecondCheck, true) => Ending::Skipped,
            (Live | LiveAndStarted, Stop | SecondCheck, _) => Ending::Rescued,
            // The new run is stopped, and seen to be another one after the stop.
            (Restart, FirstCheck, true) | (Restart, Stop, _) | (Restart, SecondCheck, false) => {
                Ending::Rescued
            }
        }
    }

    fn makes_live(self) -> bool {
        matches!(self.happening, Happening::Live | Happening::LiveAndStarted)
    }
}

#[tokio::test]
async fn no_container_is_removed_while_its_session_is_live() {
    run(160, 0).await;
}

/// Each part has schedules of its own.
#[rstest]
#[tokio::test]
#[ignore = "takes minutes: run tests/run"]
async fn in_eight_thousand_schedules_no_container_is_removed_while_its_session_is_live(
    #[values(1, 2, 3, 4)] part: u64,
) {
    run(2000, part).await;
}

async fn run(schedules: usize, part: u64) {
    let mut random = Seed(0x5a9d_6ee9_e12b_0001 + (part << 20));
    let mut seen: HashMap<String, usize> = HashMap::new();
    for _ in 0..schedules / AT_ONCE {
        let planned: Vec<Schedule> = (0..AT_ONCE).map(|_| Schedule::seeded(&mut random)).collect();
        let bench = Bench::with(&planned);
        let outcomes = bench.reconcile(Duration::ZERO).await.unwrap();
        let containers = bench.world.containers.lock().unwrap();
        for outcome in outcomes {
            let id = outcome.item.id.as_ref().unwrap().to_string();
            let index: usize = outcome.item.name["box-".len()..].parse().unwrap();
            let schedule = planned[index];
            let container = &containers[&id];
            let told =
                format!("{schedule:?} ended as {:?}: {}; {container:?}", outcome.ending, outcome.reason);
            assert!(schedule.endings().contains(&outcome.ending), "{told}");
            let in_the_window = schedule.moment == Moment::Delete;
            assert!(!container.removed_while_live || in_the_window, "removed while live: {told}");
            if schedule.makes_live() && !matches!(schedule.moment, Moment::Delete | Moment::Confirmation) {
                assert_eq!(container.state, "running", "a live session's container does not run: {told}");
            }
            if (schedule.happening, schedule.moment) == (Happening::Work, Moment::FirstCheck) {
                assert!(container.works && !container.stopped, "work was ended: {told}");
            }
            *seen.entry(format!("{:?}", outcome.ending)).or_default() += 1;
        }
    }
    for ending in ["Removed", "Rescued", "Skipped", "AlreadyGone"] {
        assert!(
            seen.get(ending).is_some_and(|count| *count > schedules / 100),
            "{ending} hardly ever happened: {seen:?}"
        );
    }
}

#[tokio::test]
async fn no_container_goes_on_the_word_of_a_store_that_lost_its_sessions() {
    run_losses(10).await;
}

#[tokio::test]
#[ignore = "takes a while: run tests/run"]
async fn in_two_thousand_schedules_no_container_goes_on_the_word_of_a_store_that_lost_its_sessions() {
    run_losses(100).await;
}

/// So many plans during each of which the store loses every session at one step of one container. Whatever is checked
/// after that stays, or comes back.
async fn run_losses(plans: usize) {
    let mut random = Seed(0x5a9d_6ee9_e12b_0002);
    let mut seen: HashMap<(Kind, Option<Spared>), usize> = HashMap::new();
    for _ in 0..plans {
        let loss = Loss::seeded(&mut random);
        let bench = Bench::losing(&[Schedule::NOTHING; AT_ONCE], loss);
        let outcomes = bench.reconcile(Duration::ZERO).await.unwrap();
        let containers = bench.world.containers.lock().unwrap();
        for outcome in outcomes {
            let container = &containers[&outcome.item.id.as_ref().unwrap().to_string()];
            let told = format!("{loss:?} ended as {:?}: {}; {container:?}", outcome.ending, outcome.reason);
            match container.spared {
                Some(Spared::Untouched) => {
                    assert_eq!((outcome.ending, container.stopped), (Ending::Skipped, false), "{told}");
                }
                Some(Spared::Restarted) => assert_eq!(outcome.ending, Ending::Rescued, "{told}"),
                None => {}
            }
            if container.spared.is_some() {
                assert_eq!(container.state, "running", "{told}");
            }
            *seen.entry((loss.kind, container.spared)).or_default() += 1;
        }
    }
    for spared in [Some(Spared::Untouched), Some(Spared::Restarted), None] {
        let count: usize = seen.iter().filter(|((_, how), _)| *how == spared).map(|(_, count)| count).sum();
        assert!(count > plans / 2, "{spared:?} hardly ever happened: {seen:?}");
    }
}

#[tokio::test]
async fn an_expired_plan_is_refused() {
    let bench = Bench::with(&[Schedule::NOTHING; 3]);
    let refused = bench.reconcile(PLAN_VALIDITY + Duration::from_secs(1)).await.unwrap_err();
    assert_eq!(refused, KeeperFault::Expired);
    assert_eq!(bench.engine.mutations(), [""; 0]);
    assert!(bench.world.containers.lock().unwrap().values().all(|each| each.state == "running"));
}

#[tokio::test]
async fn a_plan_from_the_future_is_refused() {
    let bench = Bench::with(&[Schedule::NOTHING]);
    let snapshot = bench.look().await;
    let now = Timestamp::now();
    let verdicts = classify(&snapshot, &bench.policy, now);
    let later = now + jiff::SignedDuration::from_mins(5);
    let plan = plan(&verdicts, &Intent::Reconcile(Reconcile::default()), &bench.policy, later);
    let (progress, _events) = tokio::sync::mpsc::channel(64);
    let cancel = CancellationToken::new();
    let refused = bench
        .keeper()
        .carry_out(plan, &snapshot, bench.systems(), Manner::default(), progress, &cancel)
        .await;
    assert_eq!(refused.unwrap_err(), KeeperFault::Expired);
    assert_eq!(bench.engine.mutations(), [""; 0]);
}
