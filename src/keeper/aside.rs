//! Putting a container aside instead of removing it. The checks are those of a removal, before the stop and after it; only
//! the end is another, and can be taken back.

use std::time::Instant;

use jiff::Timestamp;
use tokio::sync::SemaphorePermit;

use super::outcome::{Ending, Progress};
use super::protocol::{Ended, Removal};
use crate::domain::ContainerId;
use crate::domain::container::Container;
use crate::domain::recovery::{Quarantine, quarantine_name};
use crate::engine::Permit;
use crate::state::Step;

impl Removal<'_> {
    /// Stops it if it runs, then gives it another name: what a removal would do, but for the end. It is written down before
    /// it is renamed, and counts as put aside only once it bears that name.
    pub(super) async fn quarantine(
        &self,
        id: &ContainerId,
        container: &Container,
        permit: Permit,
        work: SemaphorePermit<'_>,
    ) -> Result<Ended, Ended> {
        // It is written down first, and looked at once more afterwards.
        drop(permit);
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
        let (permit, work) = match self.ready_to_rename(id, container, &named, work).await {
            Ok(ready) => ready,
            Err(ended) => return Err(self.not_aside(id, ended).await),
        };
        self.tell(Progress::Recovering { index: self.index, word: "renaming" });
        let renamed = self.control.rename(permit, &named).await;
        drop(work);
        match (renamed, self.engine.inspect(id).await) {
            (_, Ok(Some(container))) if container.name == named => Ok(self.put_aside_as(&named)),
            (Ok(()), Err(_)) => Ok(self.put_aside_as(&named)),
            (_, Ok(None)) => {
                let gone = Ended::new(Ending::AlreadyGone, "somebody else removed it");
                Ok(self.not_aside(id, gone).await)
            }
            (Err(fault), Err(_)) => {
                // What was written down holds if it bears the name, and only then.
                let reason = format!("whether it was renamed to {named} cannot be told: {fault}");
                Err(Ended::for_lack_of_evidence(Ending::Failed, reason))
            }
            (renamed, Ok(Some(_))) => {
                let why =
                    renamed.err().map_or_else(|| "it kept its name".to_owned(), |fault| fault.to_string());
                let again = if was_running { self.start_again(id).await } else { String::new() };
                let ended = Ended::new(Ending::Failed, format!("it could not be renamed: {why}{again}"));
                Err(self.not_aside(id, ended).await)
            }
        }
    }

    /// Stops it if it runs, and looks once more whether somebody needs it.
    async fn ready_to_rename<'a>(
        &'a self,
        id: &ContainerId,
        container: &Container,
        named: &str,
        work: SemaphorePermit<'a>,
    ) -> Result<(Permit, SemaphorePermit<'a>), Ended> {
        if !container.state.holds_processes() {
            let (_, permit) = self.check(self.item.action, self.item.started_at).await?;
            return Ok((permit, work));
        }
        drop(work);
        let grace = format!("grace {}s", self.grace.as_secs());
        self.journal.step(self.number, Step::Stopping, grace).await?;
        // A second look, for the journal came between the first one and now.
        let (_, permit) = self.check(self.item.action, container.started_at()).await?;
        let mut journalled = self.stop(permit, container).await?;
        if journalled.is_ok() {
            journalled = self.journal.step(self.number, Step::Renaming, named).await;
        }
        let work = self.turn().await?;
        let permit = self.check_after_stop(id, container.started_at()).await?;
        journalled?;
        Ok((permit, work))
    }

    fn put_aside_as(&self, named: &str) -> Ended {
        Ended::new(Ending::Quarantined, format!("{}; now {named}", self.item.reason))
    }

    /// It was not put aside after all, so nothing is to say that it was.
    async fn not_aside(&self, id: &ContainerId, ended: Ended) -> Ended {
        let (host, key) = (self.host.to_owned(), id.clone());
        let ending = self.journal.perform(move |state| state.end_quarantine(&host, &key).map(|_| ()));
        match ending.await {
            Ok(()) => ended,
            Err(fault) => Ended { reason: format!("{} (and the journal: {fault})", ended.reason), ..ended },
        }
    }

    async fn start_again(&self, id: &ContainerId) -> String {
        match self.control.start(Permit::after_look(id, Instant::now())).await {
            Ok(()) => "; it was started again".to_owned(),
            Err(fault) => format!("; it is stopped, and could not be started again: {fault}"),
        }
    }
}
