//! Coming back, on the simulated engine: what is lost is made again, what fails leaves things as they were, what was put
//! aside is restored or goes after its time, and no secret is told on the way.

#![expect(clippy::unwrap_used, reason = "the helpers below are part of the tests")]

mod support;

#[path = "recovery/coming_back.rs"]
mod coming_back;
#[path = "recovery/ground.rs"]
mod ground;
#[path = "recovery/healing.rs"]
mod healing;
#[path = "recovery/losses.rs"]
mod losses;
#[path = "recovery/quarantine.rs"]
mod quarantine;
#[path = "recovery/secrets.rs"]
mod secrets;
