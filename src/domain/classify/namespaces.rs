//! Whether another container lives in this one's namespaces: what it uses there ends with this one.

use crate::domain::container::Container;
use crate::domain::evidence::Evidence;
use crate::domain::snapshot::Neighbours;

/// A container that runs and shares the network, pid or ipc namespace of this one.
pub(super) fn shared_by(container: &Container, neighbours: &Neighbours) -> Option<Evidence> {
    let (namespace, by) = neighbours.lives_in(container)?;
    Some(Evidence::NamespaceShared { namespace, by: by.to_owned() })
}

/// A container that runs and may do so, for all that is known.
pub(super) fn doubt(container: &Container, neighbours: &Neighbours) -> Option<Evidence> {
    let unread = neighbours.unread_besides(container)?;
    container.state.holds_processes().then(|| Evidence::NeighbourUnreadable(unread.to_owned()))
}
