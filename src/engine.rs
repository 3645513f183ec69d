//! The engine port: everything that is said to Docker or Podman goes through here.
//!
//! Two types keep looking and acting apart. [`EngineView`] can only look: it has no method that changes anything,
//! and its transport refuses every request that is not a `GET` or `HEAD` before it leaves the process.
//! [`EngineControl`] can act, addresses containers by full id only, and is for the keeper alone.

mod control;
pub(crate) mod decode;
mod elements;
mod endpoint;
mod fault;
pub(crate) mod redact;
pub mod sim;
mod transport;
mod view;

pub use control::{EngineControl, FRESH, Permit, RemoveOutcome, StopOutcome};
pub use endpoint::{Address, Attempt, Endpoint, EndpointFault, EndpointRequest, resolve, usual_places};
pub use fault::EngineFault;
pub use view::{Change, ChangeKind, EngineEvent, EngineInfo, EngineView, LogLine, Usage, document_lines};
pub(crate) use view::{DOCKER_COLUMNS, PODMAN_COLUMNS};
