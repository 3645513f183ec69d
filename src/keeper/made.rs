//! What an attempt to bring a container back has made: how it comes to be, gets its name, and goes again if nothing came of
//! it. Once it runs it may be in use, for it bears the labels that its application looks for: then it stays.

use std::hash::{BuildHasher, Hasher};
use std::time::Instant;

use super::comeback::{Comeback, failed};
use super::protocol::Ended;
use super::sources::{Ground, ground, unseen};
use crate::domain::container::{ContainerId, ContainerState, Row};
use crate::domain::recovery::temporary_name;
use crate::engine::{EngineFault, Permit, RemoveOutcome};
use crate::recovery::Remake;
use crate::state::Step;

impl Comeback<'_> {
    /// Makes it under a name that nobody else can have.
    pub(super) async fn create(&self, remake: &Remake, image: &str) -> Result<ContainerId, Ended> {
        let chance = std::hash::RandomState::new().build_hasher().finish();
        let name = format!("{}{:08x}", temporary_name(&remake.id), chance & 0xffff_ffff);
        self.journal.step(self.number, Step::Creating, name.clone()).await?;
        self.tell("creating");
        // The last thing before the request: an engine makes an empty folder where one is missing.
        let sources = remake.sources();
        let document = match ground(self.engine, &sources).await? {
            Ground::There => remake.document(image),
            Ground::Unseen(why) => match (remake.document_insisting(image), sources.first()) {
                (Some(document), _) => document,
                (None, Some(source)) => return Err(unseen(&source.path, &why)),
                (None, None) => remake.document(image),
            },
        };
        let made = match self.control.create(&name, &document).await {
            Ok(made) => made,
            Err(fault) => {
                let left =
                    if makes_nothing(&fault) { String::new() } else { self.take_away_by_name(&name).await };
                return Err(failed(format!("it could not be made: {fault}{left}")));
            }
        };
        if let Err(fault) = self.journal.step(self.number, Step::Created, made.to_string()).await {
            let left = self.take_away(&made).await;
            return Err(failed(format!("{fault}{left}")));
        }
        Ok(made)
    }

    /// Starts what was made, and gives it its name once it runs.
    pub(super) async fn run(&self, made: &ContainerId, name: &str) -> Result<(), Ended> {
        let undone = |why: String| async move {
            let left = self.take_away(made).await;
            failed(format!("{why}{left}"))
        };
        if let Err(ended) = self.start_and_wait(made).await {
            let undone = undone(ended.reason).await;
            return Err(Ended { evidence_missing: ended.evidence_missing, ..undone });
        }
        if let Err(fault) = self.journal.step(self.number, Step::Renaming, name).await {
            return Err(undone(fault.to_string()).await);
        }
        match self.rename(made, name).await {
            Ok(()) => Ok(()),
            Err(why) => Err(undone(why).await),
        }
    }

    /// Takes away what this attempt has made, as long as nothing runs in it; says what is left. It is never forced: the
    /// engine itself refuses to remove what somebody has started meanwhile.
    pub(super) async fn take_away(&self, made: &ContainerId) -> String {
        let short = made.short();
        let began = Instant::now();
        let made_now = match self.engine.inspect(made).await {
            Ok(None) => return String::new(),
            Ok(Some(container)) => container,
            Err(fault) => {
                return format!("; {short} was made and stays, for whether it runs cannot be told: {fault}");
            }
        };
        match &made_now.state {
            ContainerState::Created | ContainerState::Exited | ContainerState::Dead => {}
            state => {
                let name = &made_now.name;
                return format!(
                    "; what was made is {state} as {name} ({short}) and stays; `recreate` takes it up"
                );
            }
        }
        match self.control.remove(Permit::after_look(made, began)).await {
            Ok(RemoveOutcome::Removed | RemoveOutcome::AlreadyGone) => String::new(),
            Ok(RemoveOutcome::Refused(why)) => format!("; {short} is left behind: {why}"),
            Err(fault) => format!("; {short} may be left behind: {fault}"),
        }
    }

    /// Takes away what may have been made although the engine did not say so; the name tells.
    async fn take_away_by_name(&self, name: &str) -> String {
        let Ok(rows) = self.list().await else { return format!("; {name} may be left behind") };
        let made = rows.iter().find_map(|row| match row {
            Row::Container(container) if container.name == name => Some(container.id.clone()),
            _ => None,
        });
        match made {
            Some(made) => self.take_away(&made).await,
            None if rows.iter().any(|row| matches!(row, Row::Unreadable(_))) => {
                format!("; {name} may be left behind")
            }
            None => String::new(),
        }
    }
}

/// Whether the engine refused before it did anything. One that fails may have got halfway.
fn makes_nothing(fault: &EngineFault) -> bool {
    matches!(fault, EngineFault::Status { status: 400..=499, .. })
}
