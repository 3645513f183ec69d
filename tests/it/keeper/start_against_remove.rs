//! A start and a removal of the same container at the same moment, over and over, on real engines: never do both succeed.
//! This is what the last step of the protocol rests on, once nothing can be looked at any more.

use std::time::Duration;

use crate::support::engine::{IMAGE, NETWORK, RealEngine};
use bollard::Docker;
use bollard::models::{ContainerCreateBody, HostConfig, ResourcesUlimits};
use futures_util::StreamExt;
use sandkeeper::domain::ContainerId;
use sandkeeper::engine::{Address, Endpoint, EngineControl, EngineView, Permit, RemoveOutcome};

const PATIENCE: Duration = Duration::from_mins(2);
/// How many containers are raced for at the same time.
const AT_ONCE: usize = 8;

/// How one race ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Winner {
    Start,
    Removal,
}

struct Track {
    docker: Docker,
    control: EngineControl,
    view: EngineView,
}

impl Track {
    fn on(engine: &RealEngine) -> Self {
        let endpoint =
            Endpoint { address: Address::Unix(engine.socket().to_owned()), origin: "the test".to_owned() };
        let socket = engine.socket().to_str().unwrap();
        Self {
            docker: Docker::connect_with_unix(socket, 120, bollard::API_DEFAULT_VERSION).unwrap(),
            control: EngineControl::new(&endpoint, PATIENCE).unwrap(),
            view: EngineView::new(endpoint, PATIENCE),
        }
    }

    /// A container that runs on once it has started.
    async fn container(&self) -> ContainerId {
        let limit =
            |name: &str| ResourcesUlimits { name: Some(name.into()), soft: Some(1024), hard: Some(1024) };
        let host_config = HostConfig {
            network_mode: Some(NETWORK.to_owned()),
            ulimits: Some(vec![limit("nofile"), limit("nproc")]),
            ..HostConfig::default()
        };
        let body = ContainerCreateBody {
            image: Some(IMAGE.to_owned()),
            cmd: Some(["sleep", "1000"].map(str::to_owned).to_vec()),
            host_config: Some(host_config),
            ..ContainerCreateBody::default()
        };
        ContainerId::parse(&self.docker.create_container(None, body).await.unwrap().id).unwrap()
    }

    /// Races the two, with so much of a lead for one of them: the other begins when the engine has answered that many pings.
    async fn race(&self, first: Winner, lead: u32) -> Winner {
        let id = self.container().await;
        let wait = async |runner| {
            for _ in 0..if runner == first { 0 } else { lead } {
                self.docker.ping().await.unwrap();
            }
        };
        let removal = async {
            wait(Winner::Removal).await;
            self.control.remove(Permit::after_look(&id, std::time::Instant::now())).await
        };
        let start = async {
            wait(Winner::Start).await;
            self.control.start(Permit::after_look(&id, std::time::Instant::now())).await
        };
        let (removed, started) = tokio::join!(removal, start);
        let there = self.view.inspect(&id).await.unwrap().is_some();
        match (&started, &removed) {
            (Ok(()), Ok(RemoveOutcome::Removed)) => {
                panic!("{id} was started and removed, {lead} pings apart")
            }
            (_, Ok(RemoveOutcome::Removed)) => {
                assert!(!there, "{id} was removed and is there: {started:?}");
                Winner::Removal
            }
            (Ok(()), _) => {
                assert!(there, "{id} was started and is gone: {removed:?}");
                self.control.force_remove(Permit::after_look(&id, std::time::Instant::now())).await.unwrap();
                Winner::Start
            }
            neither => panic!("{id} was neither started nor removed: {neither:?}"),
        }
    }
}

/// In the time of `step` pings the engine begins with a removal.
fn race(engine: &RealEngine, races: u32, step: u32) {
    let track = Track::on(engine);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let winners: Vec<Winner> = runtime.block_on(async {
        // A start that wins is a hundred times the work of one that loses, so few of them get a lead.
        let leads = (0..races).map(|race| match race % 20 {
            0 => (Winner::Start, step * 2),
            _ => (Winner::Removal, step * (race % 8)),
        });
        let races = leads.map(|(first, lead)| track.race(first, lead));
        futures_util::stream::iter(races).buffer_unordered(AT_ONCE).collect().await
    });
    let of = |winner| winners.iter().filter(|each| **each == winner).count();
    let (starts, removals) = (of(Winner::Start), of(Winner::Removal));
    assert!(starts > 0 && removals > 0, "no race: {starts} starts and {removals} removals won");
}

#[test]
#[ignore = "needs a Docker engine: run tests/run"]
fn docker_never_starts_and_removes_the_same_container() {
    race(&RealEngine::docker().exclusive(), 400, 1);
}

#[test]
#[ignore = "needs a Podman engine: run tests/run"]
fn podman_never_starts_and_removes_the_same_container() {
    race(&RealEngine::podman().exclusive(), 40, 15);
}
