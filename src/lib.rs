//! sandkeeper: a terminal console for the sandbox containers that agent systems leave on a host.
//!
//! The map of the house, in the direction in which data flows:
//!
//! - [`engine`] and [`sessions`] read facts: containers from the engine, sessions from the application's database.
//! - [`watch`] assembles them into a [`domain::Snapshot`], each kind of fact with its age.
//! - [`domain`] is pure: [`domain::classify`] turns a snapshot into verdicts with their evidence,
//!   [`domain::plan()`] turns verdicts and an intent into a plan.
//! - [`profiles`] and [`config`] say what to look for and by which rules.
//! - [`keeper`] carries out a confirmed plan, checking again before every step; [`state`] is its journal.
//! - [`recovery`] keeps what it takes to make a container again, and tells what its removal would lose.
//! - [`folders`] finds what sandboxes leave on the disk.
//! - [`gate`] is a read-only way to the engine, for people who may only look.
//! - [`cli`] shows the result, as a table for people and as JSON for programs.
//! - [`advice`] has the words for whoever sees a host for the first time, or sees nothing on it.
//! - [`demo`] is a made-up host to try all of it on, and [`engine::sim`] the engine under it.
//! - [`text`] is the boundary that everything from outside crosses before a person sees it.

pub mod accounts;
pub mod advice;
pub mod cli;
pub mod clock;
pub mod config;
pub mod demo;
pub mod document;
pub mod domain;
pub mod engine;
pub mod environment;
pub mod folders;
pub mod gate;
pub mod keeper;
pub mod privileges;
pub mod profiles;
pub mod recovery;
pub mod sessions;
pub mod state;
pub mod text;
pub mod ui;
pub mod watch;
