//! Acting on an engine. Every call is addressed by full id and uses up a [`Permit`], force is a method of its own, and no
//! volume is ever removed.

use std::time::{Duration, Instant};

use bollard::Docker;
use bollard::query_parameters::{
    RemoveContainerOptionsBuilder, RenameContainerOptionsBuilder, StopContainerOptionsBuilder,
};
use serde_json::Value;

use super::endpoint::Endpoint;
use super::fault::EngineFault;
use super::transport::{Access, Transport};
use crate::domain::ContainerId;

/// How much longer than its grace a stop may take before its outcome counts as unknown.
const STOP_MARGIN: Duration = Duration::from_secs(20);

/// How old the look that allows a request may be by the time it is sent. A debug build looks once, however busy the machine
/// is, so that tests can count its looks.
pub const FRESH: Duration =
    if cfg!(debug_assertions) { Duration::from_mins(1) } else { Duration::from_millis(200) };

/// The right to ask for one change of one container. It is given out by whoever has looked whether the change is allowed, used
/// up by the request, and worth nothing once that look is old: what was true then need not be true now.
#[derive(Debug)]
#[must_use = "it is good for one request, now"]
pub struct Permit {
    id: ContainerId,
    since: Instant,
}

impl Permit {
    /// For a container that was looked at; `since` is when the oldest of the looks that count began.
    pub fn after_look(id: &ContainerId, since: Instant) -> Self {
        Self { id: id.clone(), since }
    }

    /// Whether it is still worth something.
    pub fn is_fresh(&self) -> bool {
        self.since.elapsed() <= FRESH
    }

    /// The container it is for.
    pub fn id(&self) -> &ContainerId {
        &self.id
    }

    fn redeem(self) -> Result<ContainerId, EngineFault> {
        if self.is_fresh() { Ok(self.id) } else { Err(EngineFault::Outdated(self.since.elapsed())) }
    }
}

/// An engine that can be changed. Only the keeper holds one.
#[derive(Debug)]
pub struct EngineControl {
    docker: Docker,
    transport: Transport,
    timeout: Duration,
}

/// How a stop went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StopOutcome {
    /// It was stopped.
    Stopped,
    /// It was not running.
    AlreadyStopped,
    /// It does not exist.
    Gone,
}

/// How a removal went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RemoveOutcome {
    /// It was removed.
    Removed,
    /// It did not exist.
    AlreadyGone,
    /// The engine refused: it runs, or somebody is removing it.
    Refused(String),
}

impl EngineControl {
    /// Control over the engine at `endpoint`; nothing is sent yet.
    pub fn new(endpoint: &Endpoint, timeout: Duration) -> Result<Self, EngineFault> {
        let transport = Transport::new(&endpoint.address, Access::Act);
        Ok(Self { docker: transport.bollard()?, transport, timeout })
    }

    /// Stops gracefully. The request is never dropped: some engines turn a dropped stop into a kill.
    pub async fn stop(&self, permit: Permit, grace: Duration) -> Result<StopOutcome, EngineFault> {
        // Engines count whole seconds. Rounded down, half a second would be a kill at once.
        let seconds = i32::try_from(grace.as_millis().div_ceil(1000)).unwrap_or(i32::MAX);
        let options = StopContainerOptionsBuilder::default().t(seconds).build();
        let limit = grace + STOP_MARGIN;
        let docker = self.docker.clone();
        let id = permit.redeem()?;
        // A task of its own: whoever waits for the answer may leave, the request stays.
        let stop = tokio::spawn(async move { docker.stop_container(id.as_str(), Some(options)).await });
        let answer = tokio::time::timeout(limit, stop).await.map_err(|_| EngineFault::TimedOut(limit))?;
        let answer = answer.map_err(|error| EngineFault::Connection(error.to_string()))?;
        match answer.map_err(EngineFault::from) {
            Ok(()) => Ok(StopOutcome::Stopped),
            Err(EngineFault::Status { status: 304, .. }) => Ok(StopOutcome::AlreadyStopped),
            Err(EngineFault::Status { status: 404, .. }) => Ok(StopOutcome::Gone),
            Err(fault) => Err(fault),
        }
    }

    /// Starts a container that was stopped.
    pub async fn start(&self, permit: Permit) -> Result<(), EngineFault> {
        let id = permit.redeem()?;
        let start = self.docker.start_container(id.as_str(), None);
        match tokio::time::timeout(self.timeout, start).await {
            Err(_) => Err(EngineFault::TimedOut(self.timeout)),
            Ok(Err(error)) => match EngineFault::from(error) {
                EngineFault::Status { status: 304, .. } => Ok(()),
                fault => Err(fault),
            },
            Ok(Ok(())) => Ok(()),
        }
    }

    /// Makes a container as the document says, under this name, and tells its full id. Nothing runs in it yet.
    pub async fn create(&self, name: &str, document: &Value) -> Result<ContainerId, EngineFault> {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte);
        if name.is_empty() || !name.bytes().all(plain) {
            return Err(EngineFault::Unintelligible(format!("`{name}` is no name for a container")));
        }
        let path = format!("/containers/create?name={name}");
        let answer = self.transport.post(&path, document, self.timeout).await?;
        let answer: Value = serde_json::from_slice(&answer)
            .map_err(|error| EngineFault::Unintelligible(error.to_string()))?;
        let id = answer.get("Id").and_then(Value::as_str).and_then(ContainerId::parse);
        id.ok_or_else(|| EngineFault::Unintelligible("it does not say which container it made".to_owned()))
    }

    /// Gives a container another name, which nobody else may have.
    pub async fn rename(&self, permit: Permit, name: &str) -> Result<(), EngineFault> {
        let id = permit.redeem()?;
        let options = RenameContainerOptionsBuilder::default().name(name).build();
        let rename = self.docker.rename_container(id.as_str(), options);
        tokio::time::timeout(self.timeout, rename)
            .await
            .map_err(|_| EngineFault::TimedOut(self.timeout))??;
        Ok(())
    }

    /// Lets a paused container run on, for engines that do not stop what is paused.
    pub async fn unpause(&self, permit: Permit) -> Result<(), EngineFault> {
        let id = permit.redeem()?;
        let unpause = self.docker.unpause_container(id.as_str());
        tokio::time::timeout(self.timeout, unpause)
            .await
            .map_err(|_| EngineFault::TimedOut(self.timeout))??;
        Ok(())
    }

    /// Pauses a container again that was only to be looked into.
    pub async fn pause(&self, permit: Permit) -> Result<(), EngineFault> {
        let id = permit.redeem()?;
        let pause = self.docker.pause_container(id.as_str());
        tokio::time::timeout(self.timeout, pause)
            .await
            .map_err(|_| EngineFault::TimedOut(self.timeout))??;
        Ok(())
    }

    /// Removes a container in which nothing runs. Without force this is a compare-and-swap: if somebody started it
    /// meanwhile, the engine refuses.
    pub async fn remove(&self, permit: Permit) -> Result<RemoveOutcome, EngineFault> {
        self.delete(permit, false).await
    }

    /// Removes a container and kills what runs in it.
    pub async fn force_remove(&self, permit: Permit) -> Result<RemoveOutcome, EngineFault> {
        self.delete(permit, true).await
    }

    /// Volumes are never removed with it.
    async fn delete(&self, permit: Permit, force: bool) -> Result<RemoveOutcome, EngineFault> {
        let id = permit.redeem()?;
        let options = RemoveContainerOptionsBuilder::default().force(force).v(false).build();
        let remove = self.docker.remove_container(id.as_str(), Some(options));
        match tokio::time::timeout(self.timeout, remove).await {
            Err(_) => Err(EngineFault::TimedOut(self.timeout)),
            Ok(Ok(())) => Ok(RemoveOutcome::Removed),
            Ok(Err(error)) => match EngineFault::from(error) {
                EngineFault::Status { status: 404, .. } => Ok(RemoveOutcome::AlreadyGone),
                EngineFault::Status { status: 409, message } => Ok(RemoveOutcome::Refused(message)),
                fault => Err(fault),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn nothing_is_sent_on_a_look_that_has_grown_old() {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("engine.sock");
        let listener = tokio::net::UnixListener::bind(&socket).unwrap();
        let endpoint =
            Endpoint { address: super::super::Address::Unix(socket), origin: "the test".to_owned() };
        let control = EngineControl::new(&endpoint, Duration::from_millis(50)).unwrap();
        let id = ContainerId::parse(&"a".repeat(64)).unwrap();
        let long_ago = Instant::now().checked_sub(FRESH + Duration::from_millis(1)).unwrap();
        let old = || Permit::after_look(&id, long_ago);
        assert!(!old().is_fresh() && Permit::after_look(&id, Instant::now()).is_fresh());
        let refused = [
            control.stop(old(), Duration::ZERO).await.map(|_| ()),
            control.start(old()).await,
            control.rename(old(), "other").await,
            control.unpause(old()).await,
            control.pause(old()).await,
            control.remove(old()).await.map(|_| ()),
            control.force_remove(old()).await.map(|_| ()),
        ];
        for answer in refused {
            assert!(matches!(answer, Err(EngineFault::Outdated(_))), "{answer:?}");
        }
        let nobody = futures_util::future::poll_immediate(listener.accept()).await;
        assert!(nobody.is_none(), "somebody connected");
    }
}
