//! Coming back: what is recorded of containers, how they are made again from it, and what a removal would lose. Nothing here
//! changes anything on an engine; only the keeper does.

mod recorder;

mod spec;

pub use recorder::Recorder;
pub(crate) use recorder::record;
pub use spec::{Remake, SpecFault};
