//! Coming back: what is lost is made again, what fails leaves things as they were, what was put
//! aside is restored or goes after its time, and no secret is told on the way.

mod coming_back;
mod folders;
mod ground;
mod healing;
mod losses;
mod on_engine;
mod quarantine;
mod recording;
mod secrets;
