//! What a container has written inside itself: which paths, how much, and the files themselves.

use std::io::Write;
use std::time::Duration;

use http_body_util::BodyExt;
use serde::Deserialize;

use super::EngineView;
use crate::domain::container::ContainerId;
use crate::engine::fault::{EngineFault, chain};

/// A path inside a container that is not as its image has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Which.
    pub path: String,
    /// What became of it.
    pub kind: ChangeKind,
}

/// What became of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeKind {
    /// It is another one, or holds something else.
    Modified,
    /// The image does not have it.
    Added,
    /// The image has it.
    Deleted,
}

impl EngineView {
    /// Every path that is not as the image has it. Whether it is this container's is for the caller to see: an id that the
    /// engine no longer knows may be somebody's name.
    pub async fn changes(&self, id: &ContainerId) -> Result<Vec<Change>, EngineFault> {
        #[derive(Deserialize)]
        #[serde(rename_all = "PascalCase")]
        struct Raw {
            path: String,
            kind: u8,
        }
        let body = self.transport.get(&format!("/containers/{id}/changes"), self.timeout).await?;
        // Nothing is null to the one engine, and an empty list to the other.
        let raw: Option<Vec<Raw>> =
            serde_json::from_slice(&body).map_err(|error| EngineFault::Unintelligible(error.to_string()))?;
        let changes = raw.unwrap_or_default().into_iter().map(|Raw { path, kind }| Change {
            path,
            kind: match kind {
                1 => ChangeKind::Added,
                2 => ChangeKind::Deleted,
                _ => ChangeKind::Modified,
            },
        });
        Ok(changes.collect())
    }

    /// How many bytes it has written inside itself, if the engine can tell in time, for it has to look at every file; and
    /// which of its folders are kept in memory.
    pub async fn weight(&self, id: &ContainerId) -> Result<(Option<u64>, Vec<String>), EngineFault> {
        let document = self.inspection_at(id, "?size=true").await?;
        let tmpfs = document.pointer("/HostConfig/Tmpfs").and_then(serde_json::Value::as_object);
        let tmpfs = tmpfs.into_iter().flat_map(serde_json::Map::keys).cloned().collect();
        Ok((document.get("SizeRw").and_then(serde_json::Value::as_u64), tmpfs))
    }

    /// Writes a path of a container, and everything below it, as the engine packs it. `patience` is for each piece of it.
    pub async fn save_path(
        &self,
        id: &ContainerId,
        path: &str,
        patience: Duration,
        out: &mut (impl Write + Send),
    ) -> Result<(), EngineFault> {
        let query = format!("/containers/{id}/archive?path={}", encoded(path));
        let late = |_| EngineFault::TimedOut(patience);
        let mut body = tokio::time::timeout(patience, self.transport.open(&query)).await.map_err(late)??;
        while let Some(frame) = tokio::time::timeout(patience, body.frame()).await.map_err(late)? {
            let frame = frame.map_err(|error| EngineFault::Connection(chain(&error)))?;
            if let Some(data) = frame.data_ref() {
                out.write_all(data).map_err(|error| EngineFault::Connection(error.to_string()))?;
            }
        }
        Ok(())
    }
}

/// A path as part of a query.
fn encoded(path: &str) -> String {
    use std::fmt::Write as _;
    path.bytes().fold(String::new(), |mut text, byte| {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'.' | b'-' | b'_' => {
                text.push(char::from(byte));
            }
            other => {
                // Writing to a string cannot fail.
                let _ = write!(text, "%{other:02X}");
            }
        }
        text
    })
}
