//! What runs in a container.

use std::sync::Arc;
use std::time::Duration;

use super::EngineView;
use crate::domain::container::{
    Container, ContainerId, ContainerState, Inspected, Inspection, Joins, ProcessList, Processes,
};
use crate::engine::decode;
use crate::engine::fault::EngineFault;

/// Docker lets the host's `ps` look, whose columns these are; the one in busybox knows them too.
pub(crate) const DOCKER_COLUMNS: &str = "-eo pid,ppid,sid,stat,etime,args";
/// Podman takes such words for the `ps` inside, which nobody who only looks should run, and has others of its own.
pub(crate) const PODMAN_COLUMNS: &str = "pid,ppid,hpid,pgid,state,etime,args";

/// For a moment after a start the runtime stands where a program will be, or nothing does.
const TRIES: usize = 10;
const PAUSE: Duration = Duration::from_millis(50);

impl EngineView {
    /// The same container with what runs in it, which costs the engine a process of its own: only for whom it matters.
    pub async fn with_processes(&self, container: &Arc<Container>) -> Arc<Container> {
        let mut container = Container::clone(container);
        if let Inspected::Facts(inspection) = &mut container.inspected {
            let listed = self.processes(&container.id, &container.state, inspection);
            let listed = tokio::time::timeout(self.timeout, listed).await;
            inspection.processes = match listed.unwrap_or(Err(EngineFault::TimedOut(self.timeout))) {
                Ok(Some(list)) => Processes::Listed(list),
                Ok(None) => Processes::NotAsked,
                Err(fault) => Processes::Failed(fault.to_string()),
            };
            inspection.checking.clear();
        }
        Arc::new(container)
    }

    /// Whatever runs in a container; `None` where the engine would refuse to say.
    async fn processes(
        &self,
        id: &ContainerId,
        state: &ContainerState,
        inspection: &Inspection,
    ) -> Result<Option<ProcessList>, EngineFault> {
        let podman = self.is_podman().await?;
        if podman && *state == ContainerState::Paused {
            return Ok(None);
        }
        let no_first = || EngineFault::Unintelligible("its first process is not among them".to_owned());
        let first = inspection.first_pid.ok_or_else(no_first)?;
        let (health_check, checking) = (inspection.health_check.as_ref(), inspection.checking.as_slice());
        let columns = if podman { PODMAN_COLUMNS } else { DOCKER_COLUMNS }.replace(' ', "%20");
        let path = format!("/containers/{id}/top?ps_args={columns}");
        let mut last = Err(no_first());
        for attempt in 0..TRIES {
            if attempt > 0 {
                tokio::time::sleep(PAUSE).await;
            }
            let body = self.transport.get(&path, self.timeout).await?;
            last = match decode::top(&body, decode::Known { first, health_check, checking }) {
                Ok(answer) if answer.settled => return Ok(answer.list),
                Ok(answer) => answer.list.ok_or_else(no_first),
                // Podman leaves columns out of the line of a process that ends while it looks.
                Err(fault) => Err(fault),
            };
        }
        last.map(Some)
    }

    /// In whose namespaces a container lives; `None` when it is gone.
    pub async fn joins(&self, id: &ContainerId) -> Result<Option<Joins>, EngineFault> {
        match self.transport.get(&format!("/containers/{id}/json"), self.timeout).await {
            Err(fault) if fault.is_not_found() => Ok(None),
            body => decode::joins(&body?, id),
        }
    }

    /// Whether Podman answers; every answer of its says so. Asked once.
    pub(super) async fn is_podman(&self) -> Result<bool, EngineFault> {
        if let Some(known) = self.podman.get() {
            return Ok(*known);
        }
        let answer = self.transport.answer("/_ping", self.timeout).await?;
        let podman = answer.headers().contains_key("libpod-api-version");
        Ok(*self.podman.get_or_init(|| podman))
    }
}
