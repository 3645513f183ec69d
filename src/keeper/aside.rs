//! Putting a container aside instead of removing it. The checks are those of a removal, before the stop and after it; only
//! the end is another, and can be taken back.

use jiff::Timestamp;
use tokio::sync::SemaphorePermit;

use super::outcome::{Ending, Progress};
use super::protocol::{Ended, Removal};
use crate::domain::ContainerId;
use crate::domain::container::Container;
use crate::domain::recovery::{Quarantine, quarantine_name};
use crate::state::Step;

impl Removal<'_> {
    /// Stops it if it runs, then gives it another name: what a removal would do, but for the end. It is written down before
    /// it is renamed, and counts as put aside only once it bears that name.
    pub(super) async fn quarantine(
        &self,
        id: &ContainerId,
        container: &Container,
        work: SemaphorePermit<'_>,
    ) -> Result<Ended, Ended> {
        let was_running = container.state.holds_processes();
        let now = Timestamp::now();
        let aside = Quarantine {
            name: self.item.name.clone(),
            named: quarantine_name(id, &self.item.name),
            since: now,
            by: self.who.to_owned(),
            until: now.saturating_add(self.quarantine_for).unwrap_or(Timestamp::MAX),
            was_running,
        };
        let named = aside.named.clone();
        let (host, key) = (self.host.to_owned(), id.clone());
        self.journal.perform(move |state| state.set_quarantine(&host, &key, &aside)).await?;
        let mut work = work;
        if was_running {
            drop(work);
            let grace = format!("grace {}s", self.grace.as_secs());
            self.journal.step(self.number, Step::Stopping, grace).await?;
            // A second look, for the journal came between the first one and now.
            self.check(self.item.action, container.started_at()).await?;
            let mut journalled = self.stop(id, container).await?;
            if journalled.is_ok() {
                journalled = self.journal.step(self.number, Step::Renaming, named.clone()).await;
            }
            work = self.turn().await?;
            self.check_after_stop(id, container.started_at()).await?;
            journalled?;
        } else {
            self.check(self.item.action, self.item.started_at).await?;
        }
        self.tell(Progress::Recovering { index: self.index, word: "renaming" });
        let renamed = self.control.rename(id, &named).await;
        drop(work);
        let now_named = self.engine.inspect(id).await;
        match (renamed, now_named) {
            (_, Ok(Some(container))) if container.name == named => {
                Ok(Ended::new(Ending::Quarantined, format!("{}; now {named}", self.item.reason)))
            }
            (_, Ok(None)) => Ok(Ended::new(Ending::AlreadyGone, "somebody else removed it")),
            (renamed, _) => {
                let (host, key) = (self.host.to_owned(), id.clone());
                self.journal.perform(move |state| state.end_quarantine(&host, &key).map(|_| ())).await?;
                let why =
                    renamed.err().map_or_else(|| "it kept its name".to_owned(), |fault| fault.to_string());
                let again = if was_running { self.start_again(id).await } else { String::new() };
                Err(Ended::new(Ending::Failed, format!("it could not be renamed: {why}{again}")))
            }
        }
    }

    async fn start_again(&self, id: &ContainerId) -> String {
        match self.control.start(id).await {
            Ok(()) => "; it was started again".to_owned(),
            Err(fault) => format!("; it is stopped, and could not be started again: {fault}"),
        }
    }
}
