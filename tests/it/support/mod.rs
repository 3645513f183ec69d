//! Harnesses the integration tests share: real engines, a scripted one, session stores, and the program.

#![allow(dead_code, unused_imports, unused_macros, reason = "each test file uses a part of the harness")]
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a harness that cannot work should say so at once"
)]

pub(crate) mod answer;
pub(crate) mod application;
pub(crate) mod client;
pub(crate) mod corpus;
pub(crate) mod engine;
pub(crate) mod gate;
pub(crate) mod gateway;
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

/// After this time a wait counts as a hang. It only bounds a test that would never end: no test may pass or fail by how busy
/// the machine is. `SANDKEEPER_TEST_PATIENCE=3` makes it three times as long.
pub(crate) fn hang_limit() -> Duration {
    const LIMIT: Duration = Duration::from_mins(3);
    let factor = std::env::var("SANDKEEPER_TEST_PATIENCE").ok();
    factor.map_or(LIMIT, |factor| LIMIT.mul_f64(factor.parse().expect("a factor, such as 2.5")))
}

/// The program's own time-out where something hangs on purpose: a wait that every such test pays for, and still long enough
/// for everything else that a busy machine has to answer meanwhile.
pub(crate) const HASTE: &str = "4s";

/// By then everything that waits for [`HASTE`] at the same time has given up, and nothing that waits for it over and over.
pub(crate) const HASTE_AND_MARGIN: Duration = Duration::from_secs(40);

/// Waits until `condition` holds.
#[track_caller]
pub(crate) fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    wait_for(what, || condition().then_some(()));
}

/// Waits until `look` finds something and returns it.
#[track_caller]
pub(crate) fn wait_for<T>(what: &str, look: impl FnMut() -> Option<T>) -> T {
    wait_at_most(hang_limit(), what, look)
}

/// The same for what may lawfully take long, such as other tests that use an engine.
#[track_caller]
pub(crate) fn wait_at_most<T>(limit: Duration, what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(began.elapsed() < limit, "waited {limit:?} in vain: {what}");
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
