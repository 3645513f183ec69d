//! Looking closer at one container. Nothing here can change the host.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;

use super::Runner;
use crate::domain::{Container, ContainerId};
use crate::engine::document_lines;
use crate::recovery::losses;
use crate::state::State;
use crate::ui::message::{Message, Past};

/// How many lines of a log are asked for at first.
const FIRST_LINES: usize = 1_000;
/// Lines come in bursts; so many at most make one message.
const BURST: usize = 200;

/// How long it may take to find out what a removal would lose.
const WEIGHED_WITHIN: Duration = Duration::from_secs(3);

const NOT_REACHED: &str = "the engine has not answered yet";

impl Runner {
    pub(super) fn follow_log(&mut self, id: Option<ContainerId>) {
        if let Some(log) = self.log.take() {
            log.abort();
        }
        let Some(id) = id else { return };
        let messages = self.messages.clone();
        let engine = self.engine();
        let task = self.tasks.spawn(async move {
            let Some(engine) = engine else {
                let _ = messages.send(Message::LogEnded(id, Some(NOT_REACHED.to_owned()))).await;
                return;
            };
            let mut bursts = engine.logs(&id, FIRST_LINES, true).ready_chunks(BURST);
            let mut trouble = None;
            while let Some(burst) = bursts.next().await {
                let mut lines = Vec::new();
                for line in burst {
                    match line {
                        Ok(line) => lines.push(line),
                        Err(fault) => trouble = Some(fault.to_string()),
                    }
                }
                if messages.send(Message::Logged(id.clone(), lines)).await.is_err() {
                    return;
                }
            }
            let _ = messages.send(Message::LogEnded(id, trouble)).await;
        });
        self.log = Some(task.abort_handle());
    }

    pub(super) fn inspect(&mut self, id: ContainerId) {
        let messages = self.messages.clone();
        let engine = self.engine();
        self.tasks.spawn(async move {
            let result = match engine {
                None => Err(NOT_REACHED.to_owned()),
                Some(engine) => match engine.document(&id).await {
                    Ok(document) => Ok(document_lines(&document)),
                    Err(fault) => Err(fault.to_string()),
                },
            };
            let _ = messages.send(Message::Inspected(id, result)).await;
        });
    }

    pub(super) fn sample(&mut self, id: ContainerId) {
        let Some(engine) = self.engine() else { return };
        let messages = self.messages.clone();
        self.tasks.spawn(async move {
            let usage = engine.usage(&id).await.ok();
            let _ = messages.send(Message::Sampled(id, usage)).await;
        });
    }

    /// Looks into each for what its removal would lose; the preview is there meanwhile.
    pub(super) fn weigh(&mut self, containers: Vec<Arc<Container>>) {
        let Some(engine) = self.engine() else { return };
        for container in containers {
            let (messages, engine) = (self.messages.clone(), engine.clone());
            self.tasks.spawn(async move {
                let sentences = losses(&engine, &container, WEIGHED_WITHIN).await.sentences();
                let _ = messages.send(Message::Weighed(container.id.clone(), sentences)).await;
            });
        }
    }

    pub(super) fn recall(&mut self, id: ContainerId) {
        let messages = self.messages.clone();
        let folder = self.world.state_folder.clone();
        let host = self.host();
        self.tasks.spawn(async move {
            let asked = id.clone();
            let look_up = tokio::task::spawn_blocking(move || -> Result<Past, String> {
                let Some(state) = State::open_to_read(&folder).map_err(|fault| fault.to_string())? else {
                    return Ok(Past::default());
                };
                let changes = state.history_of(&host, &asked).map_err(|fault| fault.to_string())?;
                let actions = state.actions_on(&host, &asked).map_err(|fault| fault.to_string())?;
                Ok(Past { changes, actions })
            });
            let result = look_up.await.unwrap_or_else(|error| Err(error.to_string()));
            let _ = messages.send(Message::Recalled(id, result)).await;
        });
    }

    fn host(&self) -> String {
        self.world.watch.snapshots.borrow().host.identity.clone()
    }
}
