//! Harnesses the integration tests share: real engines, a scripted one, session stores, and the program.

#![allow(dead_code, unused_imports, unused_macros, reason = "each test file uses a part of the harness")]
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a harness that cannot work should say so at once"
)]

pub(crate) mod answer;
pub(crate) mod application;
pub(crate) mod corpus;
pub(crate) mod engine;
pub(crate) mod gate;
pub(crate) mod hermes;
pub(crate) mod kept;
pub(crate) mod native;
pub(crate) mod port;
pub(crate) mod program;
pub(crate) mod proxy;
pub(crate) mod rows;
pub(crate) mod scripted;
pub(crate) mod simulated;
pub(crate) mod ssh;
pub(crate) mod stores;
pub(crate) mod systems;
pub(crate) mod terminal;
mod wire;

use std::thread;
use std::time::{Duration, Instant};

/// How long a wait looks away between two looks.
const STEP: Duration = Duration::from_millis(10);

/// Waits until `condition` holds; panics with `what` once `deadline` has passed.
#[track_caller]
pub(crate) fn wait_until(deadline: Duration, what: &str, mut condition: impl FnMut() -> bool) {
    wait_for(deadline, what, || condition().then_some(()));
}

/// Waits until `look` finds something and returns it; panics with `what` once `deadline` has passed.
#[track_caller]
pub(crate) fn wait_for<T>(deadline: Duration, what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(began.elapsed() < deadline, "waited {deadline:?} in vain: {what}");
        thread::sleep(STEP);
    }
}

/// Makes a test on each real engine out of every function named, which takes the engine.
macro_rules! on_both_engines {
    ($($name:ident),* $(,)?) => {
        mod docker {
            $(#[test]
            #[ignore = "needs a Docker engine: run tests/run"]
            fn $name() {
                super::$name(&crate::support::engine::RealEngine::docker().exclusive());
            })*
        }
        mod podman {
            $(#[test]
            #[ignore = "needs a Podman engine: run tests/run"]
            fn $name() {
                super::$name(&crate::support::engine::RealEngine::podman().exclusive());
            })*
        }
    };
}
pub(crate) use on_both_engines;

/// Gives this process the name of another one. Whoever serves an engine's socket must be called like an engine: sandkeeper
/// takes everybody else for somebody who passes on what another machine says.
pub(crate) fn go_by(name: &str) {
    std::fs::write("/proc/self/comm", name).unwrap();
}

/// Seconds, where a test reads better without `Duration::`.
pub(crate) fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

/// Held while a process or a terminal is made: until it is marked as its own, a descriptor of the one would be inherited by
/// the other, and a terminal that somebody else still holds never hangs up.
pub(crate) fn one_process_at_a_time() -> std::sync::MutexGuard<'static, ()> {
    static MAKING: std::sync::Mutex<()> = std::sync::Mutex::new(());
    MAKING.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
