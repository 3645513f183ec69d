//! Acting: the removal protocol, its races and crashes, the journal.

mod auto_remove;
mod bulk;
mod confirmation;
mod crash;
mod journal;
mod last_look;
mod looks;
mod marks;
mod processes;
mod processes_on_engine;
mod protocol_schedules;
mod races;
mod reconcile_on_engine;
mod start_against_remove;
mod states;
mod targets_on_engine;
