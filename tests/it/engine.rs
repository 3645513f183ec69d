//! Talking to an engine: what it answers, what happens when it does not, and whether the simulated one agrees.

mod agreement;
mod choice;
mod endpoints;
mod faults;
mod outage;
mod simulated;
mod view;
