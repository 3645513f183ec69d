//! The rules, on facts made up by hand: no engine, no files, no clock.

mod classify;
mod doubt;
mod lost;
mod plan;
mod processes;
mod properties;
mod protocol_model;
mod unknown;
