//! The program as a whole: its commands, its words, its package.

mod could_not_look;
mod demo;
mod dirs;
mod doctor;
mod first_run;
mod hostile_text;
mod packaging;
mod pipes;
mod promises;
mod random_input;
mod readme;
mod status_on_docker;
mod workspaces;
