//! The eviction marks, read again only where our own state may have changed.

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

use std::collections::HashMap;
use std::path::PathBuf;
use std::time::Duration;

use tokio::time::Instant;

use crate::domain::ContainerId;
use crate::domain::snapshot::DrainMark;
use crate::state::{Glance, State, StateFault, marks_of_root};

/// What was read is read again after this long, whatever the files look like.
const READ_AGAIN: Duration = Duration::from_secs(10);

/// The marks on one host.
pub(super) type Marks = HashMap<ContainerId, DrainMark>;

/// Reads the marks, and keeps what it read.
#[derive(Debug)]
pub(super) struct MarkReader {
    folder: PathBuf,
    last: Option<Last>,
}

#[derive(Debug)]
struct Last {
    host: String,
    glance: Glance,
    at: Instant,
    marks: Marks,
}

impl MarkReader {
    pub(super) fn new(folder: PathBuf) -> Self {
        Self { folder, last: None }
    }

    /// The marks on a host that let a container go: our own, and root's.
    pub(super) fn read(&mut self, host: &str) -> Result<Marks, StateFault> {
        let mut marks = self.own(host)?;
        for (container, mark) in marks_of_root(&self.folder, host)? {
            marks.entry(container).or_insert(mark);
        }
        Ok(marks)
    }

    /// Our own.
    fn own(&mut self, host: &str) -> Result<Marks, StateFault> {
        // Looked at before it is read: what is written meanwhile then looks new the next time.
        let glance = State::glance(&self.folder);
        if let (Some(last), Some(glance)) = (&self.last, glance)
            && last.host == host
            && last.glance == glance
            && last.at.elapsed() < READ_AGAIN
        {
            return Ok(last.marks.clone());
        }
        self.last = None;
        let marks = match State::open_to_read(&self.folder)? {
            Some(state) => state.drains(host)?,
            None => Marks::new(),
        };
        self.last = glance.map(|glance| Last {
            host: host.to_owned(),
            glance,
            at: Instant::now(),
            marks: marks.clone(),
        });
        Ok(marks)
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;
    use crate::state::Mark;

    #[test]
    fn every_change_is_seen_however_soon_it_comes() {
        let folder = tempfile::tempdir().expect("a folder");
        let state = State::open(folder.path()).expect("a state");
        let mut reader = MarkReader::new(folder.path().to_owned());
        for round in 0..200_u32 {
            let container = ContainerId::parse(&format!("{round:064x}")).expect("an id");
            let mark = Mark {
                container: container.clone(),
                name: "box".to_owned(),
                system: None,
                workspace: None,
                mark: DrainMark {
                    started_at: None,
                    marked_at: Timestamp::UNIX_EPOCH,
                    marked_by: "somebody".to_owned(),
                },
            };
            state.set_mark("here", &mark).expect("a mark");
            assert!(reader.read("here").expect("marks").contains_key(&container), "round {round}");
            assert!(reader.read("elsewhere").expect("marks").is_empty());
            assert!(state.clear_mark("here", &container).expect("a mark"));
            assert!(reader.read("here").expect("marks").is_empty(), "round {round}");
        }
    }

    #[test]
    fn what_cannot_be_read_is_said_and_not_remembered() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut reader = MarkReader::new(folder.path().to_owned());
        assert!(reader.read("here").expect("none yet").is_empty());
        std::fs::write(folder.path().join("state.db"), "no database at all, but long enough to be one")
            .expect("a file");
        assert!(reader.read("here").is_err());
        assert!(reader.read("here").is_err());
    }
}
