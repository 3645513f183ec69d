//! `stop`, `rm`, `drain` and `undrain`: acting on containers the operator names.

use std::collections::HashSet;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use serde::Serialize;
use thiserror::Error;

use super::act::{Asking, Site, Wish};
use super::output::{complain, write, write_json};
use super::reconcile::{OutcomeReport, Summary};
use super::{House, Outcome, Trouble};
use crate::domain::plan::{Intent, Targets};
use crate::domain::span::parse_span;
use crate::domain::{ContainerId, Verdict, Verdicts, WorkspaceRef};
use crate::keeper::{KeeperFault, Manner};
use crate::state::Board;

/// Why a target is not one.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(super) enum TargetFault {
    #[error(
        "`{target}` is no container, id or workspace of a known system here; `sandkeeper status` lists them"
    )]
    NotFound { target: String },
    #[error("`{target}` could be any of {candidates}; name the full id")]
    Ambiguous { target: String, candidates: String },
    #[error("several systems have a workspace `{workspace}`: {candidates}; name one of these")]
    SeveralSystems { workspace: String, candidates: String },
    #[error(
        "session {session} needs {container}, which is gone; sandkeeper has never seen how it was made, so it cannot be made \
         again: let the application make it anew (most do when the session goes on), or make it by hand under that name; \
         what is here from now on is recorded by every `status`, `reconcile` or dashboard that is not read-only"
    )]
    NotRecorded { session: String, container: String },
}

/// Refuses a workspace by its name alone where several systems have one of that name.
pub(super) fn refuse_several(wanted: &WorkspaceRef, verdicts: &Verdicts) -> Result<(), TargetFault> {
    let meant = wanted.meant(verdicts);
    if meant.len() < 2 {
        return Ok(());
    }
    let candidates = meant.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    Err(TargetFault::SeveralSystems { workspace: wanted.workspace.clone(), candidates })
}

#[derive(Debug, Args)]
struct Common {
    /// Containers by full or unambiguous short id or by name, or whole workspaces (`SYSTEM/NAME`, or their name alone)
    #[arg(required = true, value_name = "TARGET")]
    targets: Vec<String>,
    #[command(flatten)]
    asking: Asking,
}

#[derive(Debug, Args)]
pub(super) struct StopArguments {
    #[command(flatten)]
    common: Common,
    /// How long a graceful stop waits [default: the profile's, else 10s]
    #[arg(long, value_name = "TIME", value_parser = parse_span)]
    grace: Option<Duration>,
    /// Stop it even if sessions are live in it; N is their exact number
    #[arg(long, value_name = "N")]
    even_if_live: Option<usize>,
}

#[derive(Debug, Args)]
pub(super) struct RemoveArguments {
    #[command(flatten)]
    common: Common,
    /// How long a graceful stop waits [default: the profile's, else 10s]
    #[arg(long, value_name = "TIME", value_parser = parse_span)]
    grace: Option<Duration>,
    /// Kill what runs in it; every check is still made
    #[arg(long)]
    force: bool,
    /// Stop and rename it instead of removing it; `undo` restores it, and it is removed after a day
    #[arg(long, conflicts_with = "force")]
    quarantine: bool,
    /// Save what it has written inside itself, outside of mounts, as a tar file in this folder first
    #[arg(long, value_name = "DIR", conflicts_with = "quarantine")]
    export: Option<PathBuf>,
    /// With --force: remove it even if sessions are live in it; N is their exact number
    #[arg(long, value_name = "N", requires = "force")]
    even_if_live: Option<usize>,
}

#[derive(Debug, Args)]
pub(super) struct DrainArguments {
    #[command(flatten)]
    common: Common,
}

#[derive(Debug, Serialize)]
struct Report<'a> {
    dry_run: bool,
    outcomes: Vec<OutcomeReport<'a>>,
    summary: Summary,
    /// What could not be read; empty when all evidence was good.
    unavailable: &'a [String],
}

pub(super) async fn stop(arguments: &StopArguments, house: &House) -> Result<Outcome, Trouble> {
    let manner = Manner { grace: arguments.grace, ..Manner::default() };
    let even_if_live = arguments.even_if_live;
    act("stop", &arguments.common, manner, house, |ids| Intent::Stop(Targets { ids, even_if_live })).await
}

pub(super) async fn remove(arguments: &RemoveArguments, house: &House) -> Result<Outcome, Trouble> {
    let export = arguments.export.clone();
    let manner = Manner { grace: arguments.grace, export, ..Manner::default() };
    let even_if_live = arguments.even_if_live;
    let (force, quarantine) = (arguments.force, arguments.quarantine);
    act("rm", &arguments.common, manner, house, |ids| {
        let targets = Targets { ids, even_if_live };
        if quarantine {
            return Intent::Quarantine(targets);
        }
        if force { Intent::ForceRemove(targets) } else { Intent::Remove(targets) }
    })
    .await
}

pub(super) async fn drain(arguments: &DrainArguments, house: &House) -> Result<Outcome, Trouble> {
    let intent = |ids| Intent::Drain(Targets { ids, even_if_live: None });
    let outcome = act("drain", &arguments.common, Manner::default(), house, intent).await?;
    let hidden = Board::here().and_then(Board::obstacle).filter(|_| !arguments.common.asking.dry_run);
    if let Some(why) = hidden {
        complain(&format!("note: `may-start` of other users does not know of it: {why}"));
    }
    Ok(outcome)
}

/// Taking a mark away destroys nothing, so it is not asked for twice.
pub(super) async fn undrain(arguments: &DrainArguments, house: &House) -> Result<Outcome, Trouble> {
    let common = &arguments.common;
    let wish = Wish {
        command: "undrain",
        yes: true,
        dry_run: common.asking.dry_run,
        json: common.asking.json,
        manner: Manner::default(),
    };
    let mut site = Site::enter(house, wish).await?;
    let (snapshot, verdicts) = site.look().await?;
    if let Some(fault) = snapshot.marks_fault {
        return Err(KeeperFault::NoEvidence(fault).into());
    }
    let ids = resolve(&common.targets, &verdicts, house)?;
    let mut lines = Vec::new();
    let mut outcome = Outcome::Done;
    for verdict in &verdicts.containers {
        let Some(id) = verdict.subject.id().filter(|id| ids.contains(id)) else { continue };
        let (cleared, word) = match site.keeper() {
            _ if !snapshot.drains.contains_key(id) => (false, "was not draining"),
            Some(keeper) if keeper.undrain(verdict).await? => (true, "no longer draining"),
            Some(_) => {
                outcome = Outcome::Partial;
                (false, "still draining, by a mark of root that only root can take away")
            }
            None => (false, "would no longer be draining"),
        };
        lines.push((id.to_string(), cleared, word));
    }
    if common.asking.json {
        let cleared: Vec<_> = lines
            .iter()
            .map(|(id, cleared, _)| serde_json::json!({ "id": id, "undrained": cleared }))
            .collect();
        write_json(&serde_json::json!({ "outcomes": cleared }), true);
    } else {
        for (id, _, word) in &lines {
            write(&format!("{word}: {}\n", &id[..12]));
        }
    }
    Ok(outcome)
}

async fn act(
    command: &'static str,
    common: &Common,
    manner: Manner,
    house: &House,
    intent: impl FnOnce(HashSet<ContainerId>) -> Intent,
) -> Result<Outcome, Trouble> {
    let wish = Wish {
        command,
        yes: common.asking.yes,
        dry_run: common.asking.dry_run,
        json: common.asking.json,
        manner,
    };
    let mut site = Site::enter(house, wish).await?;
    let (snapshot, verdicts) = site.look().await?;
    let intent = intent(resolve(&common.targets, &verdicts, house)?);
    let pass = site.pass(&snapshot, &verdicts, &intent).await?;
    let summary = Summary::of(&pass.outcomes);
    let kept = pass.outcomes.iter().any(|outcome| outcome.ending == crate::keeper::Ending::Kept);
    if common.asking.json {
        let (dry_run, unavailable) = (common.asking.dry_run, pass.unavailable.as_slice());
        write_json(&Report { dry_run, outcomes: pass.reports(), summary, unavailable }, true);
    } else {
        write(&super::reconcile::summary(&pass.outcomes));
    }
    // Whoever names a container and does not get it has not got what he asked for.
    Ok(if kept && pass.outcome == Outcome::Done { Outcome::Partial } else { pass.outcome })
}

/// Finds what the operator means. A name or id that fits exactly wins; else a workspace; else the beginning of an id.
fn resolve(
    targets: &[String],
    verdicts: &Verdicts,
    house: &House,
) -> Result<HashSet<ContainerId>, TargetFault> {
    let mut ids = HashSet::new();
    for target in targets {
        let known = || verdicts.containers.iter().filter_map(|v| v.subject.id().map(|id| (v, id)));
        let exact: Vec<_> =
            known().filter(|(v, id)| id.as_str() == target || v.subject.name() == target.as_str()).collect();
        let wanted = house.workspace(target);
        let within = |v: &Verdict| wanted.names(v.system.as_ref(), v.workspace.as_deref());
        let workspace: Vec<_> = known().filter(|(v, _)| within(v)).collect();
        if exact.is_empty() {
            refuse_several(&wanted, verdicts)?;
        }
        let beginning: Vec<_> =
            known().filter(|(_, id)| target.len() >= 4 && id.as_str().starts_with(target.as_str())).collect();
        let named = |found: &[(&Verdict, &ContainerId)]| {
            found
                .iter()
                .map(|(v, id)| format!("{} ({})", v.subject.name(), id.short()))
                .collect::<Vec<_>>()
                .join(", ")
        };
        let found = match (exact.len(), workspace.len(), beginning.len()) {
            (1, 0, _) => exact,
            (0, 1.., 0) => workspace,
            (0, 0, 1) => beginning,
            (0, 0, 0) => return Err(TargetFault::NotFound { target: target.clone() }),
            _ => {
                let all: Vec<_> = exact.into_iter().chain(workspace).chain(beginning).collect();
                let first = all[0].1;
                // A workspace named like its only container means the same.
                if all.iter().all(|(_, id)| *id == first) {
                    vec![all[0]]
                } else {
                    let candidates = named(&all);
                    return Err(TargetFault::Ambiguous { target: target.clone(), candidates });
                }
            }
        };
        ids.extend(found.into_iter().map(|(_, id)| id.clone()));
    }
    Ok(ids)
}
