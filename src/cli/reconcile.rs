//! `sandkeeper reconcile`: clean up what nobody needs.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use jiff::Timestamp;
use serde::Serialize;

use super::act::{Pass, Site, Wish};
use super::output::{complain, in_lines, write, write_json};
use super::targets::{TargetFault, refuse_several};
use super::{House, Outcome, Trouble};
use crate::domain::plan::{Action, Intent, Item, Reason, Reconcile};
use crate::domain::span::parse_span;
use crate::domain::verdict::Brake;
use crate::domain::{Status, SystemName, Verdicts, WorkspaceRef, plan};
use crate::keeper::{Ending, ItemOutcome, Manner};
use crate::text::clean;

#[derive(Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own on the command line")]
pub(super) struct ReconcileArguments {
    /// Only show what would be done
    #[arg(long, conflicts_with = "yes")]
    dry_run: bool,
    /// Do it without asking
    #[arg(long)]
    yes: bool,
    /// Answer in JSON
    #[arg(long)]
    json: bool,
    /// Take running, paused and restarting orphans too
    #[arg(long)]
    include_running_orphans: bool,
    /// Mark outdated containers that are in use, so that they go when their sessions have ended
    #[arg(long)]
    drain: bool,
    /// Stay until everything that drains is gone
    #[arg(long)]
    wait: bool,
    /// Stop and rename what would be removed; `undo` restores it, and it is removed after a day
    #[arg(long)]
    quarantine: bool,
    /// Save what each container has written inside itself, outside of mounts, as a tar file in this folder first
    #[arg(long, value_name = "DIR")]
    export: Option<PathBuf>,
    /// How long a graceful stop waits [default: the profile's, else 10s]
    #[arg(long, value_name = "TIME", value_parser = parse_span)]
    grace: Option<Duration>,
    /// Only this workspace: `SYSTEM/NAME`, or its name alone where one system has it
    #[arg(long, value_name = "[SYSTEM/]NAME")]
    workspace: Option<String>,
    /// How many containers at once [default: 8, while any number waits for its stop]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    concurrency: Option<u16>,
    /// Pass the mass-orphan brake; N is the exact number of orphans it speaks of
    #[arg(long, value_name = "N")]
    override_brake: Option<usize>,
}

#[derive(Debug, Serialize)]
struct Report<'a> {
    dry_run: bool,
    outcomes: Vec<OutcomeReport<'a>>,
    summary: Summary,
    /// What could not be read; empty when all evidence was good.
    unavailable: &'a [String],
    brake: Option<BrakeReport>,
    interrupted: bool,
}

#[derive(Debug, Serialize)]
struct BrakeReport {
    #[serde(flatten)]
    brake: Brake,
    reason: String,
}

#[derive(Debug, Serialize)]
pub(super) struct OutcomeReport<'a> {
    id: Option<&'a str>,
    name: &'a str,
    system: Option<&'a SystemName>,
    workspace: Option<&'a str>,
    status: Status,
    action: Action,
    result: Ending,
    reason: &'a str,
    /// Folders of the host that a removed container left behind.
    left_behind: &'a [String],
    /// All that would be lost; `null` where nobody looked.
    losses: Option<&'a [String]>,
    /// Whether the journal knows of it.
    journalled: bool,
    duration_ms: u64,
}

#[derive(Debug, Default, Serialize)]
pub(super) struct Summary {
    removed: usize,
    kept: usize,
    skipped: usize,
    drained: usize,
    rescued: usize,
    failed: usize,
    stopped: usize,
    already_gone: usize,
    planned: usize,
    quarantined: usize,
    restored: usize,
    started: usize,
    recreated: usize,
    adopted: usize,
}

impl<'a> OutcomeReport<'a> {
    pub(super) fn new(outcome: &'a ItemOutcome, losses: Option<&'a [String]>) -> Self {
        let item = &outcome.item;
        Self {
            id: item.id.as_ref().map(crate::domain::ContainerId::as_str),
            name: &item.name,
            system: item.system.as_ref(),
            workspace: item.workspace.as_deref(),
            status: item.status,
            action: item.action,
            result: outcome.ending,
            reason: &outcome.reason,
            left_behind: outcome.left_behind(),
            losses,
            journalled: outcome.unjournalled.is_none(),
            duration_ms: u64::try_from(outcome.duration.as_millis()).unwrap_or(u64::MAX),
        }
    }
}

impl Summary {
    pub(super) fn of(outcomes: &[ItemOutcome]) -> Self {
        let mut summary = Self::default();
        for outcome in outcomes {
            let count = match outcome.ending {
                Ending::Removed => &mut summary.removed,
                Ending::Kept => &mut summary.kept,
                Ending::Skipped => &mut summary.skipped,
                Ending::Drained => &mut summary.drained,
                Ending::Rescued => &mut summary.rescued,
                Ending::Failed => &mut summary.failed,
                Ending::Stopped => &mut summary.stopped,
                Ending::AlreadyGone => &mut summary.already_gone,
                Ending::Planned => &mut summary.planned,
                Ending::Quarantined => &mut summary.quarantined,
                Ending::Restored => &mut summary.restored,
                Ending::Started => &mut summary.started,
                Ending::Recreated => &mut summary.recreated,
                Ending::Adopted => &mut summary.adopted,
            };
            *count += 1;
        }
        summary
    }

    /// `3 removed, 1 kept`.
    pub(super) fn sentence(&self) -> String {
        let counts = [
            (self.failed, "failed"),
            (self.rescued, "rescued"),
            (self.skipped, "skipped"),
            (self.removed, "removed"),
            (self.stopped, "stopped"),
            (self.already_gone, "already gone"),
            (self.drained, "drained"),
            (self.quarantined, "quarantined"),
            (self.restored, "restored"),
            (self.recreated, "recreated"),
            (self.started, "started"),
            (self.adopted, "adopted"),
            (self.planned, "planned"),
            (self.kept, "kept"),
        ];
        let told: Vec<String> = counts
            .iter()
            .filter(|(count, _)| *count > 0)
            .map(|(count, word)| format!("{count} {word}"))
            .collect();
        if told.is_empty() { "nothing to do".to_owned() } else { told.join(", ") }
    }
}

pub(super) async fn run(arguments: &ReconcileArguments, house: &House) -> Result<Outcome, Trouble> {
    let wish = Wish {
        command: "reconcile",
        yes: arguments.yes,
        dry_run: arguments.dry_run,
        json: arguments.json,
        manner: Manner {
            grace: arguments.grace,
            concurrency: arguments.concurrency.map(usize::from),
            export: arguments.export.clone(),
        },
    };
    let mut site = Site::enter(house, wish).await?;
    let (snapshot, verdicts) = site.look().await?;
    let intent = Intent::Reconcile(Reconcile {
        only: None,
        include_running_orphans: arguments.include_running_orphans,
        drain: arguments.drain,
        workspace: arguments.workspace.as_deref().map(|name| only(name, &verdicts, house)).transpose()?,
        override_brake: arguments.override_brake,
        quarantine: arguments.quarantine,
    });
    let mut pass = site.pass(&snapshot, &verdicts, &intent).await?;
    if arguments.wait && !arguments.dry_run {
        pass = wait_for_drained(&mut site, &intent, pass, house).await?;
    }
    if arguments.json {
        let brake = pass.brakes.first().cloned();
        write_json(
            &Report {
                dry_run: arguments.dry_run,
                outcomes: pass.reports(),
                summary: Summary::of(&pass.outcomes),
                unavailable: &pass.unavailable,
                brake: brake.map(|brake| BrakeReport { reason: brake.to_string(), brake }),
                interrupted: pass.interrupted,
            },
            true,
        );
    } else {
        write(&summary(&pass.outcomes));
    }
    Ok(if pass.interrupted && pass.outcome == Outcome::Done { Outcome::Partial } else { pass.outcome })
}

/// The one workspace that is meant, with its system: another system's of the same name may appear while this waits.
fn only(name: &str, verdicts: &Verdicts, house: &House) -> Result<WorkspaceRef, TargetFault> {
    let wanted = house.workspace(name);
    refuse_several(&wanted, verdicts)?;
    Ok(wanted.meant(verdicts).pop_first().unwrap_or(wanted))
}

/// The counts, and the folders that stay.
pub(super) fn summary(outcomes: &[ItemOutcome]) -> String {
    let mut lines = vec![Summary::of(outcomes).sentence()];
    for outcome in outcomes {
        let name = &outcome.item.name;
        let folders = outcome.left_behind().iter();
        lines.extend(folders.map(|folder| clean(&format!("left behind by {name}: {folder}")).into_owned()));
    }
    if lines.len() > 1 {
        lines.push("hint: `sandkeeper dirs` lists folders that no container has any more".to_owned());
    }
    in_lines(&lines)
}

/// Passes again and again until nothing drains any more. What is told is the last word on each container. Between two
/// looks others may act; a look that fails is one that found nothing to do yet.
async fn wait_for_drained(
    site: &mut Site<'_>,
    intent: &Intent,
    mut last: Pass,
    house: &House,
) -> Result<Pass, Trouble> {
    let mut complaint = String::new();
    // A number was said of those that were to go then, not of as many others.
    let intent = &match intent {
        Intent::Reconcile(reconcile) => {
            Intent::Reconcile(Reconcile { override_brake: None, ..reconcile.clone() })
        }
        other => other.clone(),
    };
    loop {
        let of = |ending| last.outcomes.iter().any(|outcome| outcome.ending == ending);
        let done = last.draining == 0 && !of(Ending::Drained);
        if last.interrupted || done || of(Ending::Failed) {
            return Ok(last);
        }
        site.leave();
        if !site.pause(house.settings.cadence.without_events).await? {
            last.interrupted = true;
            return Ok(last);
        }
        let mut complain_once = |why: &dyn std::fmt::Display| {
            let sentence = format!("still waiting: {why}");
            if sentence != complaint {
                complain(&sentence);
                complaint = sentence;
            }
        };
        let (snapshot, verdicts) = match site.look_again().await {
            Ok(seen) => seen,
            Err(trouble) => {
                complain_once(&trouble);
                continue;
            }
        };
        let planned = plan(&verdicts, intent, &house.settings.policy, Timestamp::now());
        last.draining = planned.items().iter().filter(|item| item.status == Status::Draining).count();
        if last.draining > 0 && planned.changes() == 0 {
            let braked = |item: &&Item| matches!(item.reason, Reason::Braked(_));
            if let Some(item) = planned.items().iter().find(braked) {
                complain_once(&item.reason);
            }
            continue;
        }
        let mut pass = site.pass(&snapshot, &verdicts, intent).await?;
        let told: Vec<_> = pass.outcomes.iter().map(|outcome| outcome.item.id.clone()).collect();
        pass.outcomes.extend(last.outcomes.into_iter().filter(|outcome| !told.contains(&outcome.item.id)));
        last = pass;
    }
}
