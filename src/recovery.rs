//! Coming back: what is recorded of containers, how they are made again from it, and what a removal would lose. Nothing here
//! changes anything on an engine; only the keeper does.

mod archive;
mod export;
mod losses;
mod recorder;
mod repositories;
mod spec;
mod stand_in;

pub use export::{ExportFault, export};
pub(crate) use losses::lacks;
pub use losses::{Losses, losses};
pub use recorder::Recorder;
pub(crate) use recorder::record;
pub use repositories::{Repository, Unsaved};
pub use spec::{Remake, SpecFault};
pub(crate) use spec::{Source, secrets_in, sources_in};
