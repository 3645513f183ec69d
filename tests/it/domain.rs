//! The rules, on facts made up by hand: no engine, no files, no clock.

mod classify;
mod continuity;
mod doubt;
mod installations;
mod life;
mod lost;
mod memory_model;
mod ordinary_day;
mod plan;
mod processes;
mod properties;
mod protocol_model;
mod unknown;
