//! Looking at an engine: list, inspect, images, events. Nothing here can change anything.

mod changes;
mod document;
mod logs;
mod processes;
mod usage;

pub use changes::{Change, ChangeKind};
pub use document::lines as document_lines;
pub use logs::LogLine;
pub(crate) use processes::{DOCKER_COLUMNS, PODMAN_COLUMNS};
pub use usage::Usage;

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bollard::models::EventMessage;
use bollard::query_parameters::EventsOptionsBuilder;
use futures_util::{Stream, StreamExt};
use jiff::{SignedDuration, Timestamp};

use super::decode;
use super::endpoint::{Attempt, Endpoint};
use super::fault::EngineFault;
use super::transport::{Access, Transport};
use crate::domain::Labels;
use crate::domain::container::{Container, ContainerId, Inspected, Row};
use crate::domain::recovery::{Departure, Happening};

/// An engine that can only be looked at. There is no method that changes anything, and the transport below lets
/// nothing but `GET` and `HEAD` out.
///
/// It can be asked about a container:
/// ```
/// # use sandkeeper::{domain::ContainerId, engine::EngineView};
/// async fn look(engine: EngineView, id: ContainerId) {
///     let _ = engine.inspect(&id).await;
/// }
/// ```
/// but not to do anything to it:
/// ```compile_fail,E0599
/// # use sandkeeper::{domain::ContainerId, engine::EngineView};
/// async fn act(engine: EngineView, id: ContainerId) {
///     let _ = engine.remove(&id).await;
/// }
/// ```
/// ```compile_fail,E0599
/// # use sandkeeper::{domain::ContainerId, engine::EngineView};
/// async fn act(engine: EngineView, id: ContainerId) {
///     let _ = engine.start(&id).await;
/// }
/// ```
/// ```compile_fail,E0599
/// # use sandkeeper::{domain::ContainerId, engine::EngineView};
/// async fn act(engine: EngineView, id: ContainerId) {
///     let _ = engine.stop(&id, std::time::Duration::ZERO).await;
/// }
/// ```
/// nor can anything be made of it that does:
/// ```compile_fail,E0277
/// # use sandkeeper::engine::{EngineControl, EngineView};
/// fn act(engine: EngineView) -> EngineControl {
///     engine.into()
/// }
/// ```
#[derive(Clone, Debug)]
pub struct EngineView {
    endpoint: Endpoint,
    transport: Transport,
    timeout: Duration,
    podman: Arc<OnceLock<bool>>,
}

/// What an engine calls itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EngineInfo {
    /// `Docker` or `Podman`.
    pub product: String,
    /// Its version.
    pub version: String,
    /// Whether what answers is a [`gate`](crate::gate): then the socket itself refuses to change anything.
    pub guarded: bool,
    /// Whether that gate says that it is on the engine's own machine.
    pub gate_is_beside: bool,
}

impl fmt::Display for EngineInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.product, self.version)
    }
}

/// A hint that something changed. Hints get lost; whoever wants to know lists again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EngineEvent {
    /// Something happened to this container.
    Container(ContainerId),
    /// This container was started, ended or was removed.
    Turned(ContainerId, Happening, Timestamp),
    /// Something happened to an image or a tag.
    Image,
}

impl EngineView {
    /// A view of the engine at `endpoint`; nothing is sent yet. Every call ends within `timeout`.
    pub fn new(endpoint: Endpoint, timeout: Duration) -> Self {
        let transport = Transport::new(&endpoint.address, Access::Look);
        Self { endpoint, transport, timeout, podman: Arc::default() }
    }

    /// The first endpoint that answers, or every attempt and why it failed. A place where no engine is to be had is
    /// passed over; an engine that is there and fails is not, for the next one would be another host's containers.
    /// All of them together may take `timeout`.
    pub async fn first_that_answers(
        endpoints: &[Endpoint],
        timeout: Duration,
    ) -> Result<(Self, EngineInfo), Vec<Attempt>> {
        let mut attempts = Vec::new();
        for endpoint in endpoints {
            let view = Self::new(endpoint.clone(), timeout);
            match view.info().await {
                Ok(info) => return Ok((view, info)),
                Err(fault) => {
                    let nobody_there =
                        matches!(fault, EngineFault::NoSocket(_) | EngineFault::PermissionDenied(_));
                    attempts.push(Attempt { endpoint: endpoint.clone(), fault });
                    if !nobody_there {
                        break;
                    }
                }
            }
        }
        Err(attempts)
    }

    /// The same engine with another limit on each call.
    #[must_use]
    pub fn within(&self, timeout: Duration) -> Self {
        Self { timeout, ..self.clone() }
    }

    /// Where this engine is.
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// What the engine calls itself. Asked for its version, Podman looks through its packages for a third of a second;
    /// either engine tells it with every answer.
    pub async fn info(&self) -> Result<EngineInfo, EngineFault> {
        let mut guarded = false;
        let mut gate_is_beside = false;
        let named = match self.transport.answer("/_ping", self.timeout).await {
            Ok(answer) => {
                let gate = answer.headers().get(crate::gate::HEADER);
                guarded = gate.is_some();
                gate_is_beside = gate.is_some_and(|word| word == crate::gate::BESIDE);
                answer.headers().get("server").and_then(|name| decode::server(name.to_str().ok()?))
            }
            // A proxy that lets only some questions pass.
            Err(EngineFault::Status { status: 403..=405, .. }) => None,
            Err(fault) => return Err(fault),
        };
        let (product, version) = match named {
            Some(named) => named,
            None => decode::version(&self.transport.get("/version", self.timeout).await?)?,
        };
        Ok(EngineInfo { product, version, guarded, gate_is_beside })
    }

    /// Every container on the engine, whoever it belongs to.
    pub async fn list(&self) -> Result<Vec<Row>, EngineFault> {
        self.list_again(&[]).await
    }

    /// The same, where an earlier list is at hand: what has not changed since is kept once.
    pub async fn list_again(&self, known: &[Row]) -> Result<Vec<Row>, EngineFault> {
        let mut reader = decode::ListReader::new(known);
        let take = |piece: &[u8]| reader.take(piece);
        self.transport.get_in_pieces("/containers/json?all=true", self.timeout, take).await?;
        reader.finish()
    }

    /// One container, or `None` when it is gone. The answer's id is compared: an engine that no longer knows an id
    /// tries it as a name, and somebody's container may be named so.
    pub async fn inspect(&self, id: &ContainerId) -> Result<Option<Arc<Container>>, EngineFault> {
        // Its commands are asked for one by one; all of it together must end in time.
        let inspected = tokio::time::timeout(self.timeout, self.inspect_slowly(id)).await;
        inspected.map_err(|_| EngineFault::TimedOut(self.timeout))?
    }

    async fn inspect_slowly(&self, id: &ContainerId) -> Result<Option<Arc<Container>>, EngineFault> {
        let body = match self.transport.get(&format!("/containers/{id}/json"), self.timeout).await {
            Err(fault) if fault.is_not_found() => return Ok(None),
            body => body?,
        };
        let decode::DecodedInspect { mut container, mut inspection, exec_ids } = decode::inspect(&body)?;
        if container.id != *id {
            return Ok(None);
        }
        for exec_id in &exec_ids {
            let Some(exec) = self.exec(exec_id).await?.filter(|exec| exec.runs) else { continue };
            if inspection.health_check.as_ref().is_some_and(|check| check.is(&exec.command)) {
                inspection.checking.extend(exec.pid);
            } else {
                inspection.running_execs += 1;
                // The program alone: the rest of a command may be secret.
                inspection.commands.extend(exec.command.split_whitespace().next().map(ToOwned::to_owned));
            }
        }
        container.inspected = Inspected::Facts(Box::new(inspection));
        Ok(Some(Arc::new(container)))
    }

    async fn exec(&self, exec_id: &str) -> Result<Option<decode::Exec>, EngineFault> {
        if exec_id.is_empty() || !exec_id.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
            return Err(EngineFault::Unintelligible("an exec id is not one".to_owned()));
        }
        match self.transport.get(&format!("/exec/{exec_id}/json"), self.timeout).await {
            // It ended between the two questions.
            Err(fault) if fault.is_not_found() => Ok(None),
            body => decode::exec(&body?).map(Some),
        }
    }

    /// The id and labels of the image that a reference or id names; `None` when it names nothing.
    pub async fn image(&self, reference: &str) -> Result<Option<(String, Labels)>, EngineFault> {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-/:@+".contains(&byte);
        if reference.is_empty() || !reference.bytes().all(plain) || reference.contains("..") {
            return Err(EngineFault::Unintelligible("the image reference is not one".to_owned()));
        }
        match self.transport.get(&format!("/images/{reference}/json"), self.timeout).await {
            Err(fault) if fault.is_not_found() => Ok(None),
            body => decode::image(&body?).map(Some),
        }
    }

    /// The name that this engine has for itself, if it has one that stays: Podman makes up another with every answer.
    pub(crate) async fn own_id(&self) -> Option<String> {
        if self.is_podman().await.unwrap_or(true) {
            return None;
        }
        let answer = self.transport.get("/info", self.timeout).await.ok()?;
        let answer: serde_json::Value = serde_json::from_slice(&answer).ok()?;
        let id = answer.get("ID")?.as_str().filter(|id| !id.is_empty())?;
        // Engines of one machine can share a key, and then their id; never the folder in which they keep everything.
        let root = answer.get("DockerRootDir").and_then(serde_json::Value::as_str);
        Some(root.map_or_else(|| id.to_owned(), |root| format!("{id} {root}")))
    }

    /// Whether there is a volume of this name.
    pub(crate) async fn has_volume(&self, name: &str) -> Result<bool, EngineFault> {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte);
        if name.is_empty() || !name.bytes().all(plain) || name.contains("..") {
            return Err(EngineFault::Unintelligible("the volume's name is not one".to_owned()));
        }
        match self.transport.get(&format!("/volumes/{name}"), self.timeout).await {
            Ok(_) => Ok(true),
            // Whoever does not know the question has not answered it.
            Err(EngineFault::Status { status: 404, message }) if message.contains("no such volume") => {
                Ok(false)
            }
            Err(fault) => Err(fault),
        }
    }

    /// Hints about containers and images, until the engine ends the stream. The first answer must come in time;
    /// after that silence is normal.
    pub async fn events(
        &self,
    ) -> Result<impl Stream<Item = Result<EngineEvent, EngineFault>> + use<>, EngineFault> {
        self.events_since(None).await
    }

    /// The same, and before them what the engine remembers of what happened since then.
    pub async fn events_since(
        &self,
        since: Option<Timestamp>,
    ) -> Result<impl Stream<Item = Result<EngineEvent, EngineFault>> + use<>, EngineFault> {
        // A stream that never starts must be told from one on which nothing happens.
        self.transport.get("/_ping", self.timeout).await?;
        let filters = HashMap::from([("type", vec!["container", "image"])]);
        let mut options = EventsOptionsBuilder::default().filters(&filters);
        if let Some(since) = since {
            options = options.since(&since.as_second().to_string());
        }
        let options = options.build();
        let stream = self.transport.bollard()?.events(Some(options));
        Ok(stream.filter_map(|message| async move {
            match message {
                Ok(message) => event(&message).map(Ok),
                Err(error) => Some(Err(EngineFault::from(error))),
            }
        }))
    }

    /// How a container came to its end at this time, if the engine still remembers what happened then.
    pub async fn departure(
        &self,
        id: &ContainerId,
        ended_at: Timestamp,
    ) -> Result<Option<Departure>, EngineFault> {
        /// An engine tells what led to an end a little before it, and may count in whole seconds.
        const BEFORE: SignedDuration = SignedDuration::from_secs(2);
        let since = ended_at.saturating_sub(BEFORE).unwrap_or(ended_at);
        let until = Timestamp::now().max(ended_at);
        let until = format!("{}.{:09}", until.as_second(), until.subsec_nanosecond());
        let filters = HashMap::from([("type", vec!["container"]), ("container", vec![id.as_str()])]);
        let options = EventsOptionsBuilder::default()
            .filters(&filters)
            .since(&since.as_second().to_string())
            .until(&until)
            .build();
        let stream = self.transport.bollard()?.events(Some(options));
        let told = async {
            let mut stream = std::pin::pin!(stream);
            let mut departure = None;
            while let Some(message) = stream.next().await {
                if let Some(EngineEvent::Turned(of, happening, at)) = event(&message?)
                    && of == *id
                {
                    departure = Departure::after(departure, happening, at);
                }
            }
            Ok(departure)
        };
        tokio::time::timeout(self.timeout, told).await.map_err(|_| EngineFault::TimedOut(self.timeout))?
    }
}

/// When it happened, by the engine's clock; now if it does not say.
fn moment(message: &EventMessage) -> Timestamp {
    let told = message.time_nano.map(i128::from).and_then(|nano| Timestamp::from_nanosecond(nano).ok());
    told.unwrap_or_else(Timestamp::now)
}

fn event(message: &EventMessage) -> Option<EngineEvent> {
    use bollard::models::EventMessageTypeEnum as Kind;
    match message.typ? {
        Kind::IMAGE => Some(EngineEvent::Image),
        Kind::CONTAINER => {
            let id = message.actor.as_ref()?.id.as_deref()?;
            // Attaching and reading are no changes.
            let idle =
                ["attach", "detach", "top", "copy", "export", "archive-path", "extract-to-dir", "resize"];
            let action = message.action.as_deref().unwrap_or_default();
            let attributes = message.actor.as_ref().and_then(|actor| actor.attributes.as_ref());
            let code = || attributes?.get("exitCode").or(attributes?.get("containerExitCode"))?.parse().ok();
            let happening = match action {
                "start" => Some(Happening::Started),
                "oom" => Some(Happening::OutOfMemory),
                "die" | "died" => Some(Happening::Died(code())),
                "stop" => Some(Happening::Stopped),
                "destroy" | "remove" => Some(Happening::Destroyed),
                _ => None,
            };
            if idle.contains(&action) {
                return None;
            }
            let id = ContainerId::parse(id)?;
            Some(match happening {
                Some(happening) => EngineEvent::Turned(id, happening, moment(message)),
                None => EngineEvent::Container(id),
            })
        }
        _ => None,
    }
}
