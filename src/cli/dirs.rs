//! `sandkeeper dirs`: the folders that sandboxes left behind, and a way to be rid of them that can be taken back.

use std::collections::BTreeSet;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use futures_util::StreamExt;
use jiff::Timestamp;
use serde::Serialize;

use super::act::{can_ask, keeper, typed};
use super::output::{in_lines, write, write_json};
use super::{House, Outcome, Trouble};
use crate::domain::Snapshot;
use crate::domain::container::Row;
use crate::domain::evidence::plural;
use crate::domain::span::{Span, elapsed};
use crate::engine::{Endpoint, EngineView};
use crate::folders::{FolderFault, Leftover, Root, leftovers, roots, trashed};
use crate::keeper::{FolderOutcome, KeeperFault};
use crate::text::clean;
use crate::watch::{Observer, paths};

const QUESTIONS_AT_ONCE: usize = 16;

#[derive(Debug, Args)]
pub(super) struct DirsArguments {
    #[command(subcommand)]
    command: Option<DirsCommand>,
    /// Answer in JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Subcommand)]
enum DirsCommand {
    /// List the folders without a container, with their size and age
    List,
    /// Move such folders to a trash folder beside them
    Trash {
        /// The folders; without any, all that are listed and may go
        folders: Vec<PathBuf>,
        /// Do it without asking
        #[arg(long)]
        yes: bool,
    },
    /// Delete what is in the trash folders, for good
    Empty {
        /// Do it without asking
        #[arg(long)]
        yes: bool,
    },
}

#[derive(Debug, Serialize)]
struct Report<'a> {
    roots: Vec<&'a PathBuf>,
    leftovers: &'a [Leftover],
    trashed: &'a [PathBuf],
}

pub(super) async fn run(arguments: &DirsArguments, house: &House) -> Result<Outcome, Trouble> {
    match &arguments.command {
        None | Some(DirsCommand::List) => list(arguments.json, house).await,
        Some(DirsCommand::Trash { folders, yes }) => trash(folders, *yes, house).await,
        Some(DirsCommand::Empty { yes }) => empty(*yes, house).await,
    }
}

/// What is left behind, as of now.
struct Found {
    endpoint: Endpoint,
    roots: Vec<Root>,
    leftovers: Vec<Leftover>,
    trashed: Vec<PathBuf>,
}

async fn find(house: &House, observer: &mut Observer) -> Result<Found, Trouble> {
    let no_evidence = |why: String| Trouble::Keeper(KeeperFault::NoEvidence(why));
    let endpoint = observer.connect().await.map_err(no_evidence)?;
    let snapshot = observer.observe().await;
    if let Some(fault) = &snapshot.engine.fault {
        return Err(no_evidence(fault.clone()));
    }
    let policy = &house.settings.policy;
    let now = Timestamp::now();
    let roots = roots(&snapshot, policy, now);
    let mounted = mounted(house, &endpoint, &snapshot).await.map_err(no_evidence)?;
    let (mut found, mut in_trash) = (Vec::new(), Vec::new());
    for root in &roots {
        // Containers of an engine elsewhere may have folders of the same names.
        paths::is_shared(&endpoint.address, &root.path).await.map_err(no_evidence)?;
        found.extend(leftovers(root, &mounted, policy, now)?);
        in_trash.extend(trashed(root)?);
    }
    Ok(Found { endpoint, roots, leftovers: found, trashed: in_trash })
}

/// The sources of all binds of all containers, whoever they belong to. Lists do not always tell them, so each is inspected.
async fn mounted(
    house: &House,
    endpoint: &Endpoint,
    snapshot: &Snapshot,
) -> Result<BTreeSet<PathBuf>, String> {
    let engine = EngineView::new(endpoint.clone(), house.settings.timeout);
    let mut ids = Vec::new();
    for row in snapshot.engine.value.iter() {
        match row {
            Row::Container(container) => ids.push(container.id.clone()),
            Row::Unreadable(row) => return Err(format!("a container cannot be read: {}", row.problem)),
        }
    }
    let questions = ids.iter().map(|id| engine.inspect(id));
    let answers: Vec<_> =
        futures_util::stream::iter(questions).buffer_unordered(QUESTIONS_AT_ONCE).collect().await;
    let mut mounted = BTreeSet::new();
    for answer in answers {
        let container = answer.map_err(|fault| format!("a container could not be inspected: {fault}"))?;
        let mounts = container.iter().flat_map(|container| container.mounts.iter());
        mounted.extend(mounts.filter(|mount| mount.kind == "bind").map(|mount| PathBuf::from(&mount.source)));
    }
    Ok(mounted)
}

async fn list(json: bool, house: &House) -> Result<Outcome, Trouble> {
    let found = find(house, &mut house.observer()?).await?;
    if json {
        let roots = found.roots.iter().map(|root| &root.path).collect();
        write_json(&Report { roots, leftovers: &found.leftovers, trashed: &found.trashed }, true);
        return Ok(Outcome::Done);
    }
    let mut lines: Vec<String> = found.leftovers.iter().map(line).collect();
    if found.roots.is_empty() {
        lines.push("No system of which there is a trace here says where it keeps folders.".to_owned());
    } else if lines.is_empty() {
        lines.push("No folder is left behind.".to_owned());
    } else {
        lines.push("hint: `sandkeeper dirs trash` moves them to a trash folder beside them".to_owned());
    }
    if !found.trashed.is_empty() {
        let count = found.trashed.len();
        lines.push(format!(
            "{count} {} in the trash; `sandkeeper dirs empty` deletes them",
            plural(count, "folder")
        ));
    }
    write(&in_lines(&lines));
    Ok(Outcome::Done)
}

fn line(folder: &Leftover) -> String {
    let age = folder.changed_at.and_then(|at| elapsed(at, Timestamp::now()));
    let age = age.map_or_else(|| "unknown age".to_owned(), |age| format!("unchanged for {}", Span(age)));
    let least = if folder.measured { "" } else { "at least " };
    let kept = folder.kept.as_ref().map(|why| format!("; stays: {why}")).unwrap_or_default();
    let size = size(folder.bytes);
    clean(&format!("{}  {least}{size}, {age}  [{}]{kept}", folder.path.display(), folder.system)).into_owned()
}

fn size(bytes: u64) -> String {
    let units = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    units.iter().find(|(unit, _)| bytes >= *unit).map_or_else(
        || format!("{bytes} {}", plural(usize::try_from(bytes).unwrap_or(usize::MAX), "byte")),
        |(unit, name)| format!("{}.{} {name}", bytes / unit, bytes % unit * 10 / unit),
    )
}

async fn trash(named: &[PathBuf], yes: bool, house: &House) -> Result<Outcome, Trouble> {
    may_act(yes, house)?;
    let mut observer = house.observer()?;
    let found = find(house, &mut observer).await?;
    let chosen = choose(named, &found.leftovers)?;
    write(&in_lines(&chosen.iter().copied().map(line).collect::<Vec<_>>()));
    let movable = |folder: &&Leftover| folder.kept.is_none();
    let count = chosen.iter().copied().filter(movable).count();
    write(&format!("{count} to move, {} to keep\n", chosen.len() - count));
    if count == 0 {
        return Ok(if named.is_empty() { Outcome::Done } else { Outcome::Partial });
    }
    if !yes && !typed(&format!("move {count}")).await {
        write("Nothing was done.\n");
        return Ok(Outcome::Done);
    }
    let keeper = keeper(house, &found.endpoint, super::act::LOCK_PATIENCE).await?;
    // While somebody read this, a container may have been made of one of them.
    let again = find(house, &mut observer).await?;
    let still = |folder: &&Leftover| {
        let same = |now: &&Leftover| now.path == folder.path && now.identity == folder.identity;
        again.leftovers.iter().find(same).is_some_and(|now| now.kept.is_none())
    };
    let (go, changed): (Vec<&Leftover>, Vec<&Leftover>) = chosen.into_iter().filter(movable).partition(still);
    let go: Vec<Leftover> = go.into_iter().cloned().collect();
    let mut outcomes = keeper.trash(&go).await?;
    let needed = "it is no longer a folder that nobody needs".to_owned();
    outcomes.extend(
        changed.iter().map(|folder| FolderOutcome { path: folder.path.clone(), result: Err(needed.clone()) }),
    );
    Ok(told(&outcomes))
}

/// The folders that were named, or all.
fn choose<'a>(named: &[PathBuf], leftovers: &'a [Leftover]) -> Result<Vec<&'a Leftover>, FolderFault> {
    if named.is_empty() {
        return Ok(leftovers.iter().collect());
    }
    let find = |path: &PathBuf| {
        let found = leftovers.iter().find(|folder| folder.path == *path);
        found.ok_or_else(|| FolderFault::NotOneOfThem(path.display().to_string()))
    };
    named.iter().map(find).collect()
}

async fn empty(yes: bool, house: &House) -> Result<Outcome, Trouble> {
    may_act(yes, house)?;
    let found = find(house, &mut house.observer()?).await?;
    let count = found.trashed.len();
    let lines: Vec<String> =
        found.trashed.iter().map(|path| clean(&path.display().to_string()).into_owned()).collect();
    write(&in_lines(&lines));
    write(&format!("{count} to delete for good\n"));
    if count == 0 {
        return Ok(Outcome::Done);
    }
    if !yes && !typed(&format!("delete {count}")).await {
        write("Nothing was done.\n");
        return Ok(Outcome::Done);
    }
    let keeper = keeper(house, &found.endpoint, super::act::LOCK_PATIENCE).await?;
    let mut outcomes = Vec::new();
    for root in &found.roots {
        let of_root: Vec<PathBuf> =
            found.trashed.iter().filter(|path| path.starts_with(&root.path)).cloned().collect();
        outcomes.extend(keeper.empty_trash(&root.path, &of_root).await?);
    }
    Ok(told(&outcomes))
}

fn may_act(yes: bool, house: &House) -> Result<(), Trouble> {
    if house.settings.read_only {
        return Err(Trouble::ReadOnly("dirs"));
    }
    if yes || can_ask() { Ok(()) } else { Err(Trouble::Unconfirmed("dirs")) }
}

fn told(outcomes: &[FolderOutcome]) -> Outcome {
    let lines = outcomes.iter().map(|outcome| {
        let came = match &outcome.result {
            Ok(Some(to)) => format!("moved to {}", to.display()),
            Ok(None) => "deleted".to_owned(),
            Err(why) => format!("left where it is: {why}"),
        };
        clean(&format!("{}: {came}", outcome.path.display())).into_owned()
    });
    write(&in_lines(&lines.collect::<Vec<_>>()));
    if outcomes.iter().all(|outcome| outcome.result.is_ok()) { Outcome::Done } else { Outcome::Partial }
}
