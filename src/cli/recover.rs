//! `recreate`, `undo` and `heal`: bringing back what is lost, was removed, or was put aside.

use std::collections::HashSet;
use std::path::Path;

use clap::Args;
use jiff::Timestamp;
use serde::Serialize;

use super::act::{Asking, Pass, Site, Wish};
use super::output::{complain, in_lines, write, write_json};
use super::reconcile::{OutcomeReport, Summary};
use super::targets::{TargetFault, refuse_several};
use super::{House, Outcome, Trouble};
use crate::domain::plan::{Intent, Reason, Targets, last_removed, to_heal};
use crate::domain::{ContainerId, Snapshot, Verdict, Verdicts, WorkspaceRef, plan};
use crate::keeper::{Ending, HEAL_PACE, KeeperFault, Manner};
use crate::state::{LogEntry, State};
use crate::text::clean;

#[derive(Debug, Args)]
pub(super) struct RecreateArguments {
    /// Lost containers by name or id, their sessions, or whole workspaces (`SYSTEM/NAME`, or their name alone)
    #[arg(required = true, value_name = "TARGET")]
    targets: Vec<String>,
    #[command(flatten)]
    asking: Asking,
}

#[derive(Debug, Args)]
pub(super) struct UndoArguments {
    /// Containers by the name or id they had [default: all that were removed or put aside last]
    #[arg(value_name = "TARGET")]
    targets: Vec<String>,
    #[command(flatten)]
    asking: Asking,
}

#[derive(Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own on the command line")]
pub(super) struct HealArguments {
    /// Bring back what is lost now, then end; this is the default
    #[arg(long, conflicts_with = "watch")]
    once: bool,
    /// Stay, and bring back whatever is lost
    #[arg(long)]
    watch: bool,
    /// Only show what would be done
    #[arg(long, conflicts_with = "watch")]
    dry_run: bool,
    /// Answer in JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Serialize)]
struct Report<'a> {
    dry_run: bool,
    outcomes: Vec<OutcomeReport<'a>>,
    summary: Summary,
    /// What could not be read; empty when all evidence was good.
    unavailable: &'a [String],
    /// What was removed and does not come back with this.
    left_out: &'a [LeftOut],
}

/// A container that was removed and is not brought back.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct LeftOut {
    id: String,
    name: String,
    why: &'static str,
}

pub(super) async fn recreate(arguments: &RecreateArguments, house: &House) -> Result<Outcome, Trouble> {
    let find = |verdicts: &Verdicts| resolve(&arguments.targets, verdicts, Among::Lost, house);
    act("recreate", &arguments.asking, house, find, Intent::Recreate, |_, _| Vec::new()).await
}

pub(super) async fn undo(arguments: &UndoArguments, house: &House) -> Result<Outcome, Trouble> {
    let find = |verdicts: &Verdicts| match arguments.targets.as_slice() {
        [] => Ok(last_removed(verdicts)),
        targets => resolve(targets, verdicts, Among::Removed, house),
    };
    let folder = &house.settings.state_folder;
    let left_out = |verdicts: &Verdicts, ids: &HashSet<ContainerId>| {
        if arguments.targets.is_empty() { left_out(verdicts, ids, folder) } else { Vec::new() }
    };
    act("undo", &arguments.asking, house, find, Intent::Undo, left_out).await
}

/// What the keeper removed and a bare `undo` does not bring back: what was removed earlier, and what it has no record of.
fn left_out(verdicts: &Verdicts, ids: &HashSet<ContainerId>, folder: &Path) -> Vec<LeftOut> {
    const UNRECORDED: &str = "it was not recorded how it was made, so it cannot be made again";
    let gone = verdicts.gone.iter().map(|gone| &gone.remembered);
    let gone = gone.filter(|gone| gone.removed.is_some() && !ids.contains(&gone.container.id));
    let mut left_out: Vec<LeftOut> = gone
        .map(|gone| LeftOut {
            id: gone.container.id.to_string(),
            name: gone.container.name.clone(),
            why: match (gone.has_spec, gone.persistent) {
                (false, _) => UNRECORDED,
                (true, false) => "it goes with its sessions, so it is not brought back",
                (true, true) => "it was removed earlier; `undo` brings it back if you name it",
            },
        })
        .collect();
    // What was removed last without any record is known to the journal alone.
    let log = State::open_to_read(folder).ok().flatten().and_then(|state| state.log(None).ok());
    let log = log.unwrap_or_default();
    let removed = |entry: &&LogEntry| {
        entry.outcome.as_deref().is_some_and(|outcome| outcome.starts_with(Ending::Removed.as_str()))
    };
    let last = log.iter().rev().find(removed).map(|entry| &entry.at);
    let known = |entry: &&LogEntry| {
        let is = |id: &ContainerId| id.as_str() == entry.container;
        verdicts.gone.iter().any(|gone| is(&gone.remembered.container.id))
            || verdicts.containers.iter().any(|verdict| verdict.subject.id().is_some_and(is))
            || made_again(&log, entry)
    };
    let of_last = log.iter().filter(removed).filter(|entry| Some(&entry.at) == last);
    left_out.extend(of_last.filter(|entry| !known(entry)).map(|entry| LeftOut {
        id: entry.container.clone(),
        name: entry.name.clone(),
        why: UNRECORDED,
    }));
    left_out
}

/// Whether the journal says that it came back since, under whatever id.
fn made_again(log: &[LogEntry], removed: &LogEntry) -> bool {
    let back = [Ending::Recreated, Ending::Adopted, Ending::Restored].map(Ending::as_str);
    log.iter().any(|entry| {
        let outcome = entry.outcome.as_deref().unwrap_or_default();
        entry.container == removed.container && back.iter().any(|word| outcome.starts_with(word))
    })
}

async fn act(
    command: &'static str,
    asking: &Asking,
    house: &House,
    find: impl FnOnce(&Verdicts) -> Result<HashSet<ContainerId>, TargetFault>,
    intent: impl FnOnce(Targets) -> Intent,
    left_out: impl FnOnce(&Verdicts, &HashSet<ContainerId>) -> Vec<LeftOut>,
) -> Result<Outcome, Trouble> {
    let manner = Manner::default();
    let wish = Wish { command, yes: asking.yes, dry_run: asking.dry_run, json: asking.json, manner };
    let mut site = Site::enter(house, wish).await?;
    let (snapshot, verdicts) = site.look().await?;
    refuse_without_memory(&snapshot)?;
    let ids = find(&verdicts)?;
    let left_out = left_out(&verdicts, &ids);
    if !asking.json {
        let line = |left: &LeftOut| clean(&format!("left out: {}: {}", left.name, left.why)).into_owned();
        write(&in_lines(&left_out.iter().map(line).collect::<Vec<_>>()));
    }
    let intent = intent(Targets { ids, even_if_live: None });
    let pass = site.pass(&snapshot, &verdicts, &intent).await?;
    tell(&pass, asking.dry_run, asking.json, &left_out);
    let kept = pass.outcomes.iter().any(|outcome| outcome.ending == Ending::Kept);
    Ok(if kept && pass.outcome == Outcome::Done { Outcome::Partial } else { pass.outcome })
}

/// Where our own state cannot be read, nothing to bring back is not known to be nothing.
fn refuse_without_memory(snapshot: &Snapshot) -> Result<(), Trouble> {
    let fault = snapshot.recalled.fault.clone().map(KeeperFault::NoEvidence);
    fault.map_or(Ok(()), |fault| Err(fault.into()))
}

fn tell(pass: &Pass, dry_run: bool, json: bool, left_out: &[LeftOut]) {
    let summary = Summary::of(&pass.outcomes);
    if json {
        let unavailable = &pass.unavailable;
        write_json(&Report { dry_run, outcomes: pass.reports(), summary, unavailable, left_out }, true);
    } else {
        write(&format!("{}\n", summary.sentence()));
    }
}

/// Heals until nothing is left to heal, or everything that is left was given up; with `--watch`, for ever.
pub(super) async fn heal(arguments: &HealArguments, house: &House) -> Result<Outcome, Trouble> {
    let wish = Wish {
        command: "heal",
        // Whoever allows it in the profile or the config has said yes.
        yes: true,
        dry_run: arguments.dry_run,
        json: arguments.json,
        manner: Manner::default(),
    };
    let mut site = Site::enter(house, wish).await?;
    let mut seen = Some(site.look().await?);
    if let Some((snapshot, _)) = &seen {
        refuse_without_memory(snapshot)?;
    }
    let mut complaint = String::new();
    let mut failures = None;
    loop {
        let mut waits = false;
        if let Some((snapshot, verdicts)) = seen.take() {
            let intent = Intent::Heal(Targets { ids: to_heal(&verdicts), even_if_live: None });
            let plan = plan(&verdicts, &intent, &house.settings.policy, Timestamp::now());
            waits = plan.items().iter().any(|item| matches!(item.reason, Reason::TriedJustNow(_)));
            if plan.changes() > 0 || !(arguments.watch || waits) {
                let pass = site.pass(&snapshot, &verdicts, &intent).await?;
                let failed = pass.outcomes.iter().any(|outcome| outcome.ending == Ending::Failed);
                let over = !arguments.watch && (!failed || arguments.dry_run);
                if over || (arguments.watch && arguments.json) {
                    tell(&pass, arguments.dry_run, arguments.json, &[]);
                }
                if over || pass.interrupted {
                    return Ok(outcome_of(&pass));
                }
                waits |= failed;
                failures = (failed && !arguments.watch).then_some(pass);
            }
        }
        site.leave();
        let pause = if waits { HEAL_PACE } else { house.settings.cadence.without_events };
        if !site.pause(pause).await? {
            // Interrupted before the next try.
            return Ok(failures.map_or(Outcome::Done, |pass| {
                tell(&pass, arguments.dry_run, arguments.json, &[]);
                outcome_of(&pass)
            }));
        }
        match site.look_again().await {
            Ok(looked) => seen = Some(looked),
            Err(trouble) => {
                let sentence = format!("still watching: {trouble}");
                if sentence != complaint {
                    complain(&sentence);
                    complaint = sentence;
                }
            }
        }
    }
}

/// What was given up is a failure, however long ago.
fn outcome_of(pass: &Pass) -> Outcome {
    let given_up = pass.outcomes.iter().any(|outcome| matches!(outcome.item.reason, Reason::GivenUp { .. }));
    if given_up && pass.outcome == Outcome::Done { Outcome::Partial } else { pass.outcome }
}

/// What a session misses and nobody has recorded is here, in a way: as something that cannot be brought back.
fn not_found(target: &str, wanted: &WorkspaceRef, verdicts: &Verdicts, among: Among) -> TargetFault {
    let mut lost = verdicts.lost.iter().filter(|lost| among == Among::Lost && lost.id.is_none());
    let missed = lost.find(|lost| {
        lost.session == *target
            || lost.container == *target
            || wanted.names(Some(&lost.system), lost.workspace.as_deref())
    });
    match missed {
        Some(lost) => {
            TargetFault::NotRecorded { session: lost.session.clone(), container: lost.container.clone() }
        }
        None => TargetFault::NotFound { target: target.to_owned() },
    }
}

/// Where targets are looked for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Among {
    Lost,
    Removed,
}

/// Finds what the operator means among what is gone, put aside or stopped: a name, id or session that fits exactly; else a
/// workspace, or the beginning of an id. Of several that bore one name the last one is meant.
fn resolve(
    targets: &[String],
    verdicts: &Verdicts,
    among: Among,
    house: &House,
) -> Result<HashSet<ContainerId>, TargetFault> {
    let gone = verdicts.gone.iter().map(|gone| &gone.remembered);
    let mut gone: Vec<_> = gone.filter(|gone| among == Among::Lost || gone.removed.is_some()).collect();
    gone.sort_by_key(|gone| std::cmp::Reverse(gone.last_known()));
    let mut names = HashSet::new();
    let newest: Vec<_> = gone.iter().filter(|gone| names.insert(gone.container.name.as_str())).collect();
    let here: Vec<_> = verdicts
        .containers
        .iter()
        .filter(|verdict| among == Among::Lost || verdict.quarantine.is_some())
        .filter_map(|verdict| Some((verdict, verdict.subject.id()?)))
        .collect();
    let mut ids = HashSet::new();
    for target in targets {
        let begins = |id: &ContainerId| target.len() >= 4 && id.as_str().starts_with(target.as_str());
        let exact = here.iter().filter(|(verdict, id)| {
            let aside = verdict.quarantine.as_ref().is_some_and(|aside| aside.named == *target);
            aside || id.as_str() == target || verdict.subject.name() == target
        });
        let mut found: HashSet<ContainerId> = exact.map(|(_, id)| (*id).clone()).collect();
        let sessions = verdicts.lost.iter().filter(|lost| among == Among::Lost && lost.session == *target);
        found.extend(sessions.filter_map(|lost| lost.id.clone()));
        if found.is_empty() {
            let by_id = gone.iter().filter(|gone| gone.container.id.as_str() == target).copied();
            let by_name = newest.iter().filter(|gone| gone.container.name == *target).map(|gone| **gone);
            found.extend(by_id.chain(by_name).map(|gone| gone.container.id.clone()));
        }
        let wanted = house.workspace(target);
        if found.is_empty() {
            refuse_several(&wanted, verdicts)?;
            let down = |verdict: &Verdict| {
                verdict.subject.container().is_some_and(|container| !container.state.holds_processes())
            };
            let here = here.iter().filter(|(verdict, id)| {
                let within = wanted.names(verdict.system.as_ref(), verdict.workspace.as_deref());
                begins(id) || (within && down(verdict))
            });
            found.extend(here.map(|(_, id)| (*id).clone()));
            let gone = newest.iter().filter(|gone| {
                begins(&gone.container.id) || wanted.names(Some(&gone.system), gone.workspace.as_deref())
            });
            found.extend(gone.map(|gone| gone.container.id.clone()));
        }
        if found.is_empty() {
            return Err(not_found(target, &wanted, verdicts, among));
        }
        ids.extend(found);
    }
    Ok(ids)
}
