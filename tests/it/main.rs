//! The tests, one folder per subject. They are one program, because every program is linked against the whole library.
//!
//! What needs a real engine is ignored here; `tests/run` starts engines and runs it all.

#![expect(clippy::unwrap_used, reason = "in tests a surprise should end the test")]

mod facts;
mod support;

mod dashboard;
mod domain;
mod engine;
mod keeper;
mod program;
mod recovery;
mod sessions;
mod support_works;
mod systems;
mod viewers;
