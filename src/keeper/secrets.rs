//! The secrets of a container that is being brought back: an engine may quote what it was asked for, and with it a value of
//! the environment, which nobody may be shown.

use std::path::Path;

use serde_json::Value;

use crate::domain::ContainerId;
use crate::engine::EngineView;
use crate::recovery::secrets_in;
use crate::state::State;

/// Values of the environment, the longest first.
#[derive(Default)]
pub(super) struct Secrets(Vec<String>);

impl Secrets {
    /// Those that are recorded of a container, and those it has if it is here.
    pub(super) async fn of(folder: &Path, host: &str, engine: &EngineView, id: &ContainerId) -> Self {
        let state = State::open_to_read(folder).ok().flatten();
        let recorded = state.and_then(|state| state.spec(host, id).ok().flatten());
        let recorded = recorded.and_then(|kept| serde_json::from_str::<Value>(kept.reveal()).ok());
        let present = engine.inspection_to_keep(id).await.ok();
        let mut secrets: Vec<String> = recorded.iter().chain(&present).flat_map(secrets_in).collect();
        // One that begins another would leave the rest of it to be read.
        secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        secrets.dedup();
        Self(secrets)
    }

    /// A text with every one of them taken out.
    pub(super) fn hidden_in(&self, text: &str) -> String {
        self.0.iter().fold(text.to_owned(), |text, secret| text.replace(secret, "<redacted>"))
    }
}
