//! Plans: what would be done about each container, and why. A plan never acts by itself.
//!
//! A [`Plan`] cannot be cloned and gives up its items only by being consumed, so what was confirmed can be carried
//! out once. Every item carries the facts it was decided on, which are checked again before each step.

mod brakes;
mod recover;
mod shown;
mod words;

use std::collections::HashSet;
use std::time::Duration;

use jiff::Timestamp;
use serde::Serialize;

use super::container::{Container, ContainerId, ContainerState, Processes};
use super::evidence::Evidence;
use super::policy::Policy;
use super::profile::SystemName;
use super::span::elapsed;
use super::verdict::{Brake, Claims, Status, Verdict, Verdicts};
use super::workspace::WorkspaceRef;
use brakes::{brake_on, held_brakes};
pub use recover::{last_removed, to_heal};
pub use shown::{Commands, Shown};

/// How long a plan may wait for its confirmation.
pub const PLAN_VALIDITY: Duration = Duration::from_secs(30);

/// What the operator asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Intent {
    /// Clean up everything that nobody needs.
    Reconcile(Reconcile),
    /// Stop these, gracefully.
    Stop(Targets),
    /// Remove these: stop gracefully, then remove.
    Remove(Targets),
    /// Remove these even if they do not react to a stop.
    ForceRemove(Targets),
    /// Mark these for eviction.
    Drain(Targets),
    /// Remove those of these that are marked for eviction and whose sessions have all ended, or whose quarantine is over.
    Evict(Targets),
    /// Put these aside: stop gracefully, then rename.
    Quarantine(Targets),
    /// Bring these back: they are gone, have ended, or were put aside.
    Recreate(Targets),
    /// Bring these back, which the keeper put aside or removed.
    Undo(Targets),
    /// Bring these back, without anybody asking, if live sessions miss them.
    Heal(Targets),
}

/// Containers the operator named.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Targets {
    /// Which.
    pub ids: HashSet<ContainerId>,
    /// The operator knows that sessions are live in them and names their exact number, per container.
    pub even_if_live: Option<usize>,
}

/// The choices of a bulk reconcile.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Reconcile {
    /// Take running, paused and restarting orphans too.
    pub include_running_orphans: bool,
    /// Mark outdated containers that are in use, so that they go when all of their sessions have ended.
    pub drain: bool,
    /// Only this workspace.
    pub workspace: Option<WorkspaceRef>,
    /// Only these containers.
    pub only: Option<HashSet<ContainerId>>,
    /// The operator has seen the brake and names the exact number of containers behind it.
    pub override_brake: Option<usize>,
    /// Put aside what would be removed.
    pub quarantine: bool,
}

/// What would be done about one container.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// Nothing.
    Keep,
    /// Remove; no process lives in it.
    Remove,
    /// Stop gracefully, then remove.
    StopAndRemove,
    /// Stop gracefully.
    Stop,
    /// Remove, killing what runs in it.
    ForceRemove,
    /// Mark for eviction.
    Drain,
    /// Stop gracefully if it runs, then rename.
    Quarantine,
    /// Take out of quarantine: rename, and start if it ran.
    Restore,
    /// Start.
    Start,
    /// Make it again as it was recorded, unless another has taken its place.
    Recreate,
}

impl Action {
    /// Whether it brings something back.
    pub fn is_recovery(self) -> bool {
        matches!(self, Self::Restore | Self::Start | Self::Recreate)
    }

    /// Whether it removes something for good.
    pub fn removes(self) -> bool {
        matches!(self, Self::Remove | Self::StopAndRemove | Self::ForceRemove)
    }

    /// The word in JSON, in the journal and on screen.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Keep => "keep",
            Self::Remove => "remove",
            Self::StopAndRemove => "stop_and_remove",
            Self::Stop => "stop",
            Self::ForceRemove => "force_remove",
            Self::Drain => "drain",
            Self::Quarantine => "quarantine",
            Self::Restore => "restore",
            Self::Start => "start",
            Self::Recreate => "recreate",
        }
    }
}

/// Why an item's action is what it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The verdict's own first reason.
    Verdict(Evidence),
    /// Processes live in an orphan, and running orphans were not asked for.
    RunningOrphan(ContainerState),
    /// Made or started within the grace.
    TooNew(Evidence),
    /// It is paused, and its engine does not list what runs in it.
    PausedUnlisted,
    /// It cannot be told whether somebody is at work in it, and it runs.
    MayBeAtWork(Evidence),
    /// Something else than sessions lives in it, which no number of sessions covers.
    NotCounted(Evidence),
    /// The brake holds for its system.
    Braked(Brake),
    /// In use; it goes when all of its sessions have ended.
    InUseUntilDrained(Evidence),
    /// It is to go, but open sessions still claim it.
    WaitsFor(Evidence),
    /// The operator asked for it, and nobody lives in it.
    Asked,
    /// The operator asked for it, and named the number of live sessions it ends.
    AskedOverLiveSessions(usize),
    /// Sessions are live in it; force needs their exact number.
    LiveSessions {
        /// How many.
        count: usize,
        /// One of them.
        evidence: Evidence,
    },
    /// Nothing runs in it, so there is nothing to stop.
    NotRunning(ContainerState),
    /// A session that may be live misses its container, which may be this one under another name.
    Sought(String),
    /// The engine removes it as soon as it stops, so it could not be given back to whoever comes meanwhile.
    AutoRemove,
    /// A stop was asked for, which would remove it.
    StopRemoves,
    /// The operator asked for its removal, and its stop will be just that.
    AskedWithItsStop,
    /// Commands run in it beside its live sessions, and whoever counts sessions has not counted them.
    CommandsRun {
        /// How many sessions are live.
        sessions: usize,
        /// What runs.
        commands: Commands,
    },
    /// It was put in quarantine, and somebody has started it since.
    StartedAside,
    /// It is in quarantine, for this much longer.
    InQuarantine(Duration),
    /// Live sessions miss it.
    Missed(usize),
    /// It was removed, and that is taken back.
    Undone,
    /// Nobody misses it.
    NotLost,
    /// It goes with its sessions.
    NotPersistent,
    /// It is not known how it was made.
    NotRecorded,
    /// The keeper did nothing to it that could be taken back.
    NothingToUndo,
    /// It was tried in vain a moment ago.
    TriedJustNow(Duration),
    /// It was tried in vain too often.
    GivenUp {
        /// How often.
        tries: usize,
        /// What came of the last time.
        reason: String,
    },
}

/// One container of a plan, with the facts the decision rests on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// Which container; `None` for a row of the list whose id could not be read, which is always kept.
    pub id: Option<ContainerId>,
    /// Its name.
    pub name: String,
    /// Whose it is.
    pub system: Option<SystemName>,
    /// Its workspace.
    pub workspace: Option<String>,
    /// The status it had.
    pub status: Status,
    /// The state it had.
    pub state: Option<ContainerState>,
    /// The run it was in.
    pub started_at: Option<Timestamp>,
    /// Folders of the host that are mounted into it, and stay when it goes.
    pub binds: Vec<String>,
    /// What whoever says yes to it is shown of it.
    pub shown: Shown,
    /// What would be done.
    pub action: Action,
    /// Why.
    pub reason: Reason,
}

/// An ordered list of what would be done.
#[derive(Debug)]
pub struct Plan {
    made_at: Timestamp,
    intent: Intent,
    items: Vec<Item>,
    brakes: Vec<Brake>,
}

impl Plan {
    /// When it was made.
    pub fn made_at(&self) -> Timestamp {
        self.made_at
    }

    /// Whether it has waited too long to be carried out.
    pub fn has_expired(&self, now: Timestamp) -> bool {
        elapsed(self.made_at, now).is_none_or(|age| age > PLAN_VALIDITY)
    }

    /// What was asked for.
    pub fn intent(&self) -> &Intent {
        &self.intent
    }

    /// What would be done, for showing.
    pub fn items(&self) -> &[Item] {
        &self.items
    }

    /// The brakes that hold.
    pub fn brakes(&self) -> &[Brake] {
        &self.brakes
    }

    /// How many containers would be changed.
    pub fn changes(&self) -> usize {
        self.items.iter().filter(|item| item.action != Action::Keep).count()
    }

    /// Gives up the items, once.
    pub fn into_items(self) -> Vec<Item> {
        self.items
    }
}

/// Decides what would be done about every container the intent speaks of.
pub fn plan(verdicts: &Verdicts, intent: &Intent, policy: &Policy, now: Timestamp) -> Plan {
    let brakes = held_brakes(verdicts, intent, policy);
    let mut items: Vec<Item> = verdicts
        .containers
        .iter()
        .filter(|verdict| concerns(intent, verdict))
        .map(|verdict| {
            let container = verdict.subject.container();
            let (action, reason) = match container {
                Some(container) if recover::is_recovery(intent) && verdict.status != Status::Unknown => {
                    recover::here(verdict, container, &verdicts.lost, intent, now)
                }
                _ => decide(verdict, intent, policy, &brakes, now),
            };
            Item {
                id: verdict.subject.id().cloned(),
                name: verdict.subject.name().to_owned(),
                system: verdict.system.clone(),
                workspace: verdict.workspace.clone(),
                status: verdict.status,
                state: container.map(|container| container.state.clone()),
                started_at: container.and_then(Container::started_at),
                binds: container.map(binds_of).unwrap_or_default(),
                shown: Shown::of(verdict),
                action,
                reason,
            }
        })
        .collect();
    items.extend(recover::gone(verdicts, intent, now));
    Plan { made_at: now, intent: intent.clone(), items, brakes }
}

fn binds_of(container: &Container) -> Vec<String> {
    container.mounts.iter().filter(|mount| mount.kind == "bind").map(|mount| mount.source.clone()).collect()
}

fn concerns(intent: &Intent, verdict: &Verdict) -> bool {
    match intent {
        Intent::Reconcile(Reconcile { workspace, only, .. }) => {
            workspace
                .as_ref()
                .is_none_or(|only| only.names(verdict.system.as_ref(), verdict.workspace.as_deref()))
                && only.as_ref().is_none_or(|only| verdict.subject.id().is_some_and(|id| only.contains(id)))
        }
        Intent::Stop(targets)
        | Intent::Remove(targets)
        | Intent::ForceRemove(targets)
        | Intent::Drain(targets)
        | Intent::Evict(targets)
        | Intent::Quarantine(targets)
        | Intent::Recreate(targets)
        | Intent::Undo(targets)
        | Intent::Heal(targets) => verdict.subject.id().is_some_and(|id| targets.ids.contains(id)),
    }
}

/// Whether it is paused on an engine that does not list what is. Other removals look after they have woken it.
fn is_unlisted(container: &Container) -> bool {
    let listed =
        container.inspection().is_some_and(|inspection| matches!(inspection.processes, Processes::Listed(_)));
    container.state == ContainerState::Paused && !listed
}

fn decide(
    verdict: &Verdict,
    intent: &Intent,
    policy: &Policy,
    brakes: &[Brake],
    now: Timestamp,
) -> (Action, Reason) {
    let deciding = || Reason::Verdict(verdict.evidence.first().cloned().unwrap_or(Evidence::BeingRemoved));
    let keep = |reason| (Action::Keep, reason);
    let Some(container) = verdict.subject.container() else { return keep(deciding()) };
    if verdict.status == Status::Unknown {
        return keep(deciding());
    }
    match intent {
        Intent::Drain(_) if verdict.status != Status::Draining => return (Action::Drain, Reason::Asked),
        Intent::Drain(_) => return keep(deciding()),
        Intent::Reconcile(Reconcile { drain: true, .. })
            if verdict.status == Status::Active && verdict.outdated =>
        {
            return (Action::Drain, deciding());
        }
        _ => {}
    }
    let too_new = verdict.too_new.as_deref().cloned();
    let running = container.state.holds_processes();
    let auto_remove = container.inspection().is_some_and(|inspection| inspection.auto_remove);
    if matches!(intent, Intent::Stop(_)) && running && auto_remove {
        return keep(Reason::StopRemoves);
    }
    if matches!(intent, Intent::ForceRemove(_)) && is_unlisted(container) {
        return keep(Reason::PausedUnlisted);
    }
    if verdict.is_in_use() {
        match (over_live_sessions(verdict, intent), too_new) {
            // The number was of those who are there, not of those who are about to come.
            (Some((action, _)), Some(too_new)) if action != Action::Keep => {
                return keep(Reason::TooNew(too_new));
            }
            (Some(decided), _) => return decided,
            (None, _) => {}
        }
        return keep(match (verdict.status, verdict.life.first()) {
            (Status::Draining, Some(life)) => Reason::InUseUntilDrained(life.clone()),
            _ => deciding(),
        });
    }
    if let (Some(doubt), true, true) = (verdict.work_doubt.as_deref(), running, ends_what_is_named(intent)) {
        return keep(Reason::MayBeAtWork(doubt.clone()));
    }
    if let Some(session) = &verdict.sought_by {
        return keep(Reason::Sought(session.clone()));
    }
    if let Some(too_new) = too_new {
        return keep(Reason::TooNew(too_new));
    }
    let aside = verdict.quarantine.as_ref().map(|aside| elapsed(now, aside.until).unwrap_or_default());
    let removal = if running { Action::StopAndRemove } else { Action::Remove };
    let asked = if running && auto_remove { Reason::AskedWithItsStop } else { Reason::Asked };
    match intent {
        Intent::Stop(_) if running => (Action::Stop, Reason::Asked),
        Intent::Stop(_) => keep(Reason::NotRunning(container.state.clone())),
        Intent::Remove(_) => (removal, asked),
        Intent::ForceRemove(_) => (Action::ForceRemove, asked),
        Intent::Drain(_) | Intent::Recreate(_) | Intent::Undo(_) | Intent::Heal(_) => keep(deciding()),
        Intent::Quarantine(_) if aside.is_some() => keep(deciding()),
        Intent::Quarantine(_) if running && auto_remove => keep(Reason::AutoRemove),
        Intent::Quarantine(_) => (Action::Quarantine, Reason::Asked),
        Intent::Evict(_) | Intent::Reconcile(_) if aside.is_some() && running => keep(Reason::StartedAside),
        Intent::Evict(_) | Intent::Reconcile(_) if aside.is_some_and(|left| !left.is_zero()) => {
            keep(Reason::InQuarantine(aside.unwrap_or_default()))
        }
        Intent::Evict(_) if verdict.status != Status::Draining && aside.is_none() => keep(deciding()),
        Intent::Evict(_) | Intent::Reconcile(_) if verdict.waits_for.is_some() => {
            keep(verdict.waits_for.as_deref().cloned().map_or_else(deciding, Reason::WaitsFor))
        }
        Intent::Evict(_) => match brake_on(verdict, brakes) {
            Some(brake) => keep(Reason::Braked(brake)),
            None if running && auto_remove => keep(Reason::AutoRemove),
            None => (removal, deciding()),
        },
        Intent::Reconcile(reconcile) => {
            let removable = matches!(verdict.status, Status::Stale | Status::Orphaned | Status::Draining);
            if !removable {
                return keep(deciding());
            }
            if let Some(brake) = brake_on(verdict, brakes) {
                return keep(Reason::Braked(brake));
            }
            if verdict.status == Status::Orphaned && running && !reconcile.include_running_orphans {
                return keep(Reason::RunningOrphan(container.state.clone()));
            }
            if running && auto_remove {
                return keep(Reason::AutoRemove);
            }
            if (reconcile.quarantine || policy.recovery.quarantine) && aside.is_none() {
                return (Action::Quarantine, deciding());
            }
            (removal, deciding())
        }
    }
}

/// Whether it ends what runs in the containers that the operator named. What goes without being named is `unknown` in doubt.
fn ends_what_is_named(intent: &Intent) -> bool {
    matches!(intent, Intent::Stop(_) | Intent::Remove(_) | Intent::ForceRemove(_) | Intent::Quarantine(_))
}

/// A stop or a forced removal may end live sessions, but only exactly those the operator counted. Commands cannot be
/// counted that way: nobody can tell whose they are.
fn over_live_sessions(verdict: &Verdict, intent: &Intent) -> Option<(Action, Reason)> {
    let (targets, action) = match intent {
        Intent::Stop(targets) => (targets, Action::Stop),
        Intent::ForceRemove(targets) => (targets, Action::ForceRemove),
        _ => return None,
    };
    let count = verdict.claims.live;
    if count == 0 {
        return None;
    }
    let commands = Commands::of(verdict);
    if commands.count > 0 {
        return Some((Action::Keep, Reason::CommandsRun { sessions: count, commands }));
    }
    let is_session =
        |reason: &&Evidence| matches!(reason, Evidence::LiveSession { .. } | Evidence::MoreLiveSessions(_));
    if let Some(other) = verdict.life.iter().find(|reason| !is_session(reason)) {
        return Some((Action::Keep, Reason::NotCounted(other.clone())));
    }
    if let Some(doubt) = verdict.work_doubt.as_deref() {
        return Some((Action::Keep, Reason::MayBeAtWork(doubt.clone())));
    }
    if targets.even_if_live == Some(count) && count <= Claims::LISTED {
        return Some((action, Reason::AskedOverLiveSessions(count)));
    }
    let evidence = verdict.life.iter().find(|reason| matches!(reason, Evidence::LiveSession { .. }))?.clone();
    Some((Action::Keep, Reason::LiveSessions { count, evidence }))
}
