//! The simulated engine misbehaves on command, and only then.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::StreamExt;
use jiff::{SignedDuration, Timestamp};
use sandkeeper::domain::ContainerId;
use sandkeeper::domain::container::{ContainerState, Row};
use sandkeeper::engine::sim::{Fault, FaultRule, Placed, Program, Quirks, SimClock, SimEngine, World};
use sandkeeper::engine::{
    EngineControl, EngineEvent, EngineFault, EngineView, Permit, RemoveOutcome, StopOutcome,
};
use tempfile::TempDir;

/// Long enough for a slow machine; whatever should come comes at once.
const PATIENCE: Duration = Duration::from_mins(3);
/// How long to wait for what should never come.
const IMPATIENCE: Duration = Duration::from_millis(300);

struct Host {
    engine: SimEngine,
    ids: Vec<ContainerId>,
    _folder: TempDir,
}

/// Nobody needs to look here.
fn permit(id: &ContainerId) -> Permit {
    Permit::after_look(id, std::time::Instant::now())
}

impl Host {
    /// A host with running containers, one for each name, at noon.
    fn with(names: &[&str]) -> Self {
        let noon: Timestamp = "2026-02-22T12:00:00Z".parse().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let mut world = World::new(1);
        world.build(noon, "box", BTreeMap::new());
        let ids = names.iter().map(|name| {
            let id = world.place(Placed {
                name: (*name).to_owned(),
                image: "box".to_owned(),
                command: vec!["serve".to_owned()],
                program: Program::service(),
                state: "running".to_owned(),
                created_at: noon,
                started_at: Some(noon),
                ..Placed::default()
            });
            ContainerId::parse(&id).unwrap()
        });
        let ids = ids.collect();
        let socket = folder.path().join("engine.sock");
        let engine = SimEngine::start(&socket, world, SimClock::manual(noon), 7).unwrap();
        Self { engine, ids, _folder: folder }
    }

    fn view(&self) -> EngineView {
        EngineView::new(self.engine.endpoint(), PATIENCE)
    }

    fn hasty_view(&self) -> EngineView {
        EngineView::new(self.engine.endpoint(), IMPATIENCE)
    }

    fn control(&self) -> EngineControl {
        EngineControl::new(&self.engine.endpoint(), PATIENCE).unwrap()
    }

    /// Stops the first container while the clock goes on second by second; says how many went by.
    async fn stopped_after(&self, control: &EngineControl, grace: Duration) -> Duration {
        let stop = control.stop(permit(&self.ids[0]), grace);
        tokio::pin!(stop);
        let mut waited = Duration::ZERO;
        loop {
            if let Ok(outcome) = tokio::time::timeout(Duration::from_millis(20), &mut stop).await {
                assert_eq!(outcome, Ok(StopOutcome::Stopped));
                return waited;
            }
            self.engine.clock().advance(Duration::from_secs(1));
            waited += Duration::from_secs(1);
        }
    }

    fn on_list(&self, fault: Fault) -> &SimEngine {
        self.engine.fault(FaultRule::on("GET", "/containers/json", fault))
    }
}

fn run<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work)
}

#[test]
fn without_faults_it_is_an_engine() {
    let host = Host::with(&["one", "two"]);
    run(async {
        assert_eq!(host.view().info().await.unwrap().to_string(), "Docker 20.10.24");
        assert_eq!(host.view().list().await.unwrap().len(), 2);
        let one = host.view().inspect(&host.ids[0]).await.unwrap().unwrap();
        assert_eq!((one.name.as_str(), &one.state), ("one", &ContainerState::Running));
        assert!(host.view().image("box").await.unwrap().is_some());
    });
    assert_eq!(host.engine.mutations(), [""; 0]);
}

#[test]
fn answers_hang_stall_and_break_off() {
    let host = Host::with(&["one"]);
    run(async {
        for fault in [Fault::HangBeforeHeaders, Fault::HangAfterHeaders, Fault::StalledBody(20)] {
            host.on_list(fault.clone());
            let answer = host.hasty_view().list().await;
            assert!(matches!(answer, Err(EngineFault::TimedOut(_))), "{fault:?}: {answer:?}");
            host.engine.recover();
        }
        for fault in [Fault::CutConnection(0), Fault::CutConnection(20)] {
            host.on_list(fault.clone());
            let answer = host.view().list().await;
            assert!(matches!(answer, Err(EngineFault::Connection(_))), "{fault:?}: {answer:?}");
            host.engine.recover();
        }
        assert_eq!(host.view().list().await.unwrap().len(), 1, "all is well again");
    });
}

#[test]
fn answers_are_refusals_and_nonsense() {
    let host = Host::with(&["one"]);
    run(async {
        host.on_list(Fault::Status(500, "no space left on device".to_owned()));
        let answer = host.view().list().await;
        let expected = EngineFault::Status { status: 500, message: "no space left on device".to_owned() };
        assert_eq!(answer.unwrap_err(), expected);
        host.engine.recover();
        host.on_list(Fault::Instead("<html>".to_owned()));
        assert!(matches!(host.view().list().await, Err(EngineFault::Unintelligible(_))));
    });
}

#[test]
fn an_answer_can_take_its_time() {
    let host = Host::with(&["one"]);
    host.on_list(Fault::Latency(Duration::from_secs(2)));
    run(async {
        assert!(matches!(host.hasty_view().list().await, Err(EngineFault::TimedOut(_))));
        assert_eq!(host.view().list().await.unwrap().len(), 1);
    });
}

#[test]
fn rows_are_malformed_one_by_one() {
    let names: Vec<String> = (0..40).map(|number| format!("box-{number}")).collect();
    let host = Host::with(&names.iter().map(String::as_str).collect::<Vec<_>>());
    host.on_list(Fault::MalformedRows(30));
    run(async {
        let rows = host.view().list().await.unwrap();
        assert_eq!(rows.len(), 40);
        let good = rows.iter().filter(
            |row| matches!(row, Row::Container(container) if container.state == ContainerState::Running),
        );
        let good = good.count();
        assert!((1..40).contains(&good), "{good} of 40 are as promised");
    });
}

#[test]
fn only_the_requests_that_were_meant_go_wrong() {
    let host = Host::with(&["one", "two"]);
    let rule = FaultRule::on("GET", "/containers/*/json", Fault::Status(500, "no".to_owned())).nth(2);
    host.engine.fault(rule);
    run(async {
        assert!(host.view().inspect(&host.ids[0]).await.is_ok());
        assert!(host.view().inspect(&host.ids[1]).await.is_err());
        assert!(host.view().inspect(&host.ids[1]).await.is_ok());
        assert!(host.view().list().await.is_ok());
    });
}

#[test]
fn what_is_done_stays_done_when_the_answer_is_lost() {
    let host = Host::with(&["one"]);
    host.engine.fault(FaultRule::on("POST", "/containers/*/stop", Fault::CutConnection(0)));
    run(async {
        let answer = host.control().stop(permit(&host.ids[0]), PATIENCE).await;
        assert!(matches!(answer, Err(EngineFault::Connection(_))), "{answer:?}");
        let one = host.view().inspect(&host.ids[0]).await.unwrap().unwrap();
        assert_eq!(one.state, ContainerState::Exited);
    });
}

#[test]
fn ignored_signals_cost_the_whole_grace() {
    let host = Host::with(&["one"]);
    host.engine.act(|world, _| world.quirks = Quirks { ignore_signals: true, ..Quirks::default() });
    run(async {
        let control = host.control();
        let waited = host.stopped_after(&control, Duration::from_secs(10)).await;
        assert!(waited >= Duration::from_secs(10), "{waited:?}");
        let one = host.view().inspect(&host.ids[0]).await.unwrap().unwrap();
        assert_eq!(one.inspection().unwrap().exit_code, Some(137));
    });
}

#[test]
fn a_slow_stop_ends_by_itself_within_its_grace() {
    let host = Host::with(&["one"]);
    host.engine.act(|world, _| {
        world.quirks = Quirks { dying: Duration::from_secs(5), ..Quirks::default() };
    });
    run(async {
        let control = host.control();
        let waited = host.stopped_after(&control, Duration::from_secs(10)).await;
        assert!(waited >= Duration::from_secs(5), "{waited:?}");
        let one = host.view().inspect(&host.ids[0]).await.unwrap().unwrap();
        assert_eq!(one.inspection().unwrap().exit_code, Some(0));
    });
}

#[test]
fn a_wrong_clock_shows_in_everything_it_writes() {
    let host = Host::with(&["one"]);
    host.engine.clock().set_skew(SignedDuration::from_hours(24));
    run(async {
        let control = host.control();
        control.stop(permit(&host.ids[0]), PATIENCE).await.unwrap();
        control.start(permit(&host.ids[0])).await.unwrap();
        let one = host.view().inspect(&host.ids[0]).await.unwrap().unwrap();
        let (started, made) = (one.started_at().unwrap(), one.created_at);
        assert_eq!(started.duration_since(made), SignedDuration::from_hours(24));
    });
}

#[test]
fn events_come_unless_they_are_lost() {
    let host = Host::with(&["one", "two"]);
    run(async {
        let mut events = Box::pin(host.view().events().await.unwrap());
        let control = host.control();
        // The stream begins some time after the first look at it, so things happen until one is heard of.
        let busy = async {
            loop {
                control.stop(permit(&host.ids[0]), PATIENCE).await.unwrap();
                control.start(permit(&host.ids[0])).await.unwrap();
            }
        };
        let heard = async {
            tokio::select! {
                event = events.next() => event.unwrap().unwrap(),
                () = busy => unreachable!("it never ends"),
            }
        };
        let event = tokio::time::timeout(PATIENCE, heard).await.unwrap();
        let about = |event: &EngineEvent| match event {
            EngineEvent::Container(id) | EngineEvent::Turned(id, ..) => id.clone(),
            EngineEvent::Image => panic!("nothing happened to an image"),
        };
        assert_eq!(about(&event), host.ids[0]);

        host.engine.act(|world, _| {
            world.quirks = Quirks { lost_events_percent: 100, ..Quirks::default() };
        });
        control.stop(permit(&host.ids[1]), PATIENCE).await.unwrap();
        while let Ok(event) = tokio::time::timeout(IMPATIENCE, events.next()).await {
            assert_eq!(about(&event.unwrap().unwrap()), host.ids[0], "only what happened before is told");
        }
    });
}

#[test]
fn an_engine_that_is_down_can_come_up_again() {
    let host = Host::with(&["one"]);
    run(async {
        let view = host.view();
        let mut events = Box::pin(view.events().await.unwrap());
        assert!(tokio::time::timeout(IMPATIENCE, events.next()).await.is_err(), "nothing happens");
        host.engine.down().unwrap();
        let end = tokio::time::timeout(PATIENCE, events.next()).await.unwrap();
        assert!(matches!(end, None | Some(Err(_))), "the stream is cut: {end:?}");
        assert!(matches!(view.list().await, Err(EngineFault::NoSocket(_))));
        host.engine.up().unwrap();
        assert_eq!(view.list().await.unwrap().len(), 1);
    });
}

#[test]
fn a_restart_of_the_engine_ends_what_runs_and_revives_what_asked_for_it() {
    let host = Host::with(&["one"]);
    let revived = host.engine.act(|world, now| {
        let policy = serde_json::json!({ "RestartPolicy": { "Name": "always" } });
        world.place(Placed {
            name: "revived".to_owned(),
            image: "box".to_owned(),
            program: Program::service(),
            host_config: policy.as_object().unwrap().clone(),
            state: "running".to_owned(),
            created_at: now,
            started_at: Some(now),
            ..Placed::default()
        })
    });
    host.engine.restart().unwrap();
    run(async {
        let state = async |id: &ContainerId| host.view().inspect(id).await.unwrap().unwrap().state.clone();
        assert_eq!(state(&host.ids[0]).await, ContainerState::Exited);
        assert_eq!(state(&ContainerId::parse(&revived).unwrap()).await, ContainerState::Running);
    });
}

#[test]
fn control_acts_on_it_as_on_a_real_one() {
    let host = Host::with(&["one"]);
    run(async {
        let (control, id) = (host.control(), &host.ids[0]);
        assert!(matches!(control.remove(permit(id)).await, Ok(RemoveOutcome::Refused(_))));
        assert_eq!(control.stop(permit(id), PATIENCE).await, Ok(StopOutcome::Stopped));
        assert!(
            control.stop(permit(id), PATIENCE).await.is_ok(),
            "nothing runs, and that is what was asked for"
        );
        control.start(permit(id)).await.unwrap();
        assert_eq!(control.force_remove(permit(id)).await, Ok(RemoveOutcome::Removed));
        assert_eq!(control.remove(permit(id)).await, Ok(RemoveOutcome::AlreadyGone));
        assert_eq!(host.view().inspect(id).await, Ok(None));
    });
    assert_eq!(host.engine.mutations().len(), 6);
}

#[test]
fn the_same_seed_makes_the_same_host() {
    let ids = || Host::with(&["one", "two"]).ids;
    assert_eq!(ids(), ids());
}
