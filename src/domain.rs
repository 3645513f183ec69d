//! The words of sandkeeper and the rules that connect them: facts in, verdicts and plans out.
//!
//! Nothing here reads a clock, a file or a socket: `now` is an argument, facts are values. That is why every rule
//! can be tested by writing the facts down.

pub mod awake;
mod classify;
pub mod container;
pub mod continuity;
pub mod evidence;
mod labels;
pub mod plan;
pub mod policy;
pub mod profile;
pub mod recovery;
pub mod session;
pub mod snapshot;
pub mod span;
pub mod template;
pub mod unread;
pub mod verdict;
pub mod workspace;

pub use awake::{Awake, Clock};
pub(crate) use classify::processes;
pub use classify::{Surroundings, classify, owned, remember};
pub use container::{Container, ContainerId, ContainerState};
pub use evidence::Evidence;
pub use labels::Labels;
pub use plan::{Intent, Plan, plan};
pub use policy::Policy;
pub use profile::{Profile, SystemName};
pub use recovery::Recalled;
pub use session::Session;
pub use snapshot::Snapshot;
pub use verdict::{Status, Verdict, Verdicts};
pub use workspace::WorkspaceRef;
