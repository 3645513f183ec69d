//! Whoever may only look: the gate, SSH, read-only mode.

mod doctor_for_viewers;
mod gate;
mod gate_fuzz;
mod gate_on_engine;
mod read_only;
mod ssh;
