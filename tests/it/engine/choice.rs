//! Which engine is watched: the first that is there, and from then on no other. And what is kept of what it says.

use std::future::Future;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use sandkeeper::domain::Policy;
use sandkeeper::engine::{Address, Endpoint};
use sandkeeper::watch::Observer;

use crate::support::program::Home;
use crate::support::rows::row;
use crate::support::scripted::{Behaviour, ScriptedEngine};

fn endpoint(path: &Path) -> Endpoint {
    Endpoint { address: Address::Unix(path.to_owned()), origin: path.display().to_string() }
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

fn observer(paths: &[&Path]) -> Observer {
    let endpoints = paths.iter().map(|path| endpoint(path)).collect();
    let state = std::env::temp_dir().join("no-such-state");
    Observer::new(endpoints, Vec::new(), Duration::from_secs(4), state, Policy::default())
}

fn engine_with(name: &str) -> ScriptedEngine {
    let engine = ScriptedEngine::start();
    engine.containers(&[row(name)]);
    engine
}

#[test]
fn places_without_an_engine_are_passed_over() {
    let home = Home::new();
    let engine = engine_with("only");
    let missing = home.path().join("no.sock");
    let dead = home.path().join("dead.sock");
    drop(UnixListener::bind(&dead).unwrap());
    let snapshot = block_on(observer(&[&missing, &dead, engine.socket()]).observe());
    assert_eq!(snapshot.engine.fault, None);
    assert_eq!(snapshot.host.endpoint, engine.endpoint());
}

#[test]
fn an_engine_that_is_there_and_fails_is_not_passed_over() {
    let (failing, other) = (engine_with("mine"), engine_with("other"));
    failing.on("GET", "/_ping", Behaviour::error(500, "starting up"));
    let snapshot = block_on(observer(&[failing.socket(), other.socket()]).observe());
    let fault = snapshot.engine.fault.unwrap();
    assert!(fault.contains("starting up") && fault.contains("the engine's own log"), "{fault}");
    assert_eq!(other.request_lines(), [""; 0], "another engine's containers are not this one's");
}

#[test]
fn an_engine_names_itself_with_its_first_answer_and_is_asked_again_only_if_a_proxy_keeps_that_back() {
    let engine = engine_with("mine");
    let snapshot = block_on(observer(&[engine.socket()]).observe());
    assert_eq!(snapshot.host.engine.as_deref(), Some("Docker 20.10.24"));
    assert_eq!(engine.count("GET", "/version"), 0);
    engine.on("GET", "/_ping", Behaviour::error(403, "forbidden"));
    let version = serde_json::json!({ "Version": "4.3.1", "Components": [{ "Name": "Podman Engine" }] });
    engine.on("GET", "/version", Behaviour::json(&version));
    let snapshot = block_on(observer(&[engine.socket()]).observe());
    assert_eq!(snapshot.host.engine.as_deref(), Some("Podman 4.3.1"));
}

#[test]
fn sockets_that_hang_do_not_add_up() {
    let home = Home::new();
    let paths: Vec<PathBuf> = (0..40).map(|number| home.path().join(format!("{number}.sock"))).collect();
    let _listeners: Vec<_> = paths.iter().map(|path| UnixListener::bind(path).unwrap()).collect();
    let began = Instant::now();
    let places: Vec<&Path> = paths.iter().map(PathBuf::as_path).collect();
    let snapshot = block_on(observer(&places).observe());
    // One after the other would be forty times the time-out.
    assert!(began.elapsed() < crate::support::HASTE_AND_MARGIN, "{:?}", began.elapsed());
    assert!(snapshot.engine.fault.unwrap().contains("no complete answer within"));
}

#[test]
fn every_attempt_is_told_with_the_most_telling_hint() {
    let home = Home::new();
    let (missing, mute) = (home.path().join("no.sock"), home.path().join("mute.sock"));
    let _listener = UnixListener::bind(&mute).unwrap();
    let mut observer = observer(&[&missing, &mute]);
    let fault = block_on(observer.observe()).engine.fault.unwrap();
    for part in ["no.sock", "mute.sock", "nothing listens", "no complete answer", "longer `--timeout`"] {
        assert!(fault.contains(part), "lacks {part}: {fault}");
    }
    assert_eq!(observer.failed_attempts().len(), 2);
}

#[test]
fn an_engine_that_goes_away_is_not_replaced_by_its_neighbour() {
    let (mine, other) = (engine_with("mine"), engine_with("other"));
    let mut observer = observer(&[mine.socket(), other.socket()]);
    block_on(async {
        let before = observer.observe().await;
        assert_eq!(before.engine.fault, None);
        drop(mine);
        for _ in 0..3 {
            let after = observer.observe().await;
            assert!(after.engine.fault.is_some());
            assert_eq!(after.engine.value, before.engine.value, "the last good answer is kept");
            assert_eq!(after.host.endpoint, before.host.endpoint);
        }
    });
    assert_eq!(other.request_lines(), [""; 0]);
}

#[test]
fn a_list_that_stays_the_same_is_kept_and_only_its_time_is_new() {
    let engine = engine_with("mine");
    let mut observer = observer(&[engine.socket()]);
    block_on(async {
        let first = observer.observe().await;
        let second = observer.observe().await;
        assert!(Arc::ptr_eq(&first.engine.value, &second.engine.value));
        assert!(first.engine.at < second.engine.at);
        engine.containers(&[row("mine"), row("new")]);
        let third = observer.observe().await;
        assert_eq!((second.engine.value.len(), third.engine.value.len()), (1, 2));
        assert!(third.neighbours.runs("new").is_some(), "what is found in a list is found again in the next");
    });
}
