//! `sandkeeper dirs`: the folders that sandboxes left behind, and a way to be rid of them that can be taken back.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use futures_util::StreamExt;
use jiff::Timestamp;
use serde::Serialize;

use super::act::{can_ask, keeper, typed};
use super::output::{in_lines, write, write_json};
use super::{House, Outcome, Trouble};
use crate::domain::container::Row;
use crate::domain::evidence::plural;
use crate::domain::span::{Span, elapsed};
use crate::engine::{Endpoint, EngineFault, EngineView, usual_places};
use crate::folders::{FolderFault, Leftover, Root, is_used, leftovers, roots, trashed};
use crate::keeper::{FolderOutcome, KeeperFault};
use crate::text::clean;
use crate::watch::Observer;
use crate::watch::place::Place;

const QUESTIONS_AT_ONCE: usize = 16;

/// How long looking through one folder may take: to show it, and to move it.
const TO_SHOW: Duration = Duration::from_secs(5);
const TO_MOVE: Duration = Duration::from_mins(1);

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
        /// Do it without asking, with the folders that are named
        #[arg(long, requires = "folders")]
        yes: bool,
    },
    /// Delete what is in the trash folders, for good; this is always asked
    Empty,
}

#[derive(Debug, Serialize)]
struct Report<'a> {
    roots: Vec<&'a PathBuf>,
    leftovers: &'a [Leftover],
    trashed: &'a [PathBuf],
    /// Stores that could not be read: folders of theirs may be missing here.
    unread: &'a [String],
}

pub(super) async fn run(arguments: &DirsArguments, house: &House) -> Result<Outcome, Trouble> {
    match &arguments.command {
        None | Some(DirsCommand::List) => list(arguments.json, house).await,
        Some(DirsCommand::Trash { folders, yes }) => trash(folders, *yes, house).await,
        Some(DirsCommand::Empty) => empty(house).await,
    }
}

/// What is left behind, as of now.
struct Found {
    endpoint: Endpoint,
    roots: Vec<Root>,
    leftovers: Vec<Leftover>,
    trashed: Vec<PathBuf>,
    unread: Vec<String>,
}

async fn find(house: &House, observer: &mut Observer, patience: Duration) -> Result<Found, Trouble> {
    let Evidence { endpoint, roots, mounted, unread } = look(house, observer).await.map_err(no_evidence)?;
    let policy = &house.settings.policy;
    let now = Timestamp::now();
    let (mut found, mut in_trash) = (Vec::new(), Vec::new());
    for root in &roots {
        found.extend(leftovers(root, &mounted, policy, patience, now)?);
        in_trash.extend(trashed(root)?);
    }
    Ok(Found { endpoint, roots, leftovers: found, trashed: in_trash, unread })
}

fn no_evidence(why: String) -> Trouble {
    Trouble::Keeper(KeeperFault::NoEvidence(why))
}

/// What keeps folders where they are.
struct Evidence {
    endpoint: Endpoint,
    roots: Vec<Root>,
    /// The sources of all binds of all containers.
    mounted: BTreeSet<PathBuf>,
    /// Stores that could not be read: folders of theirs may be missing here.
    unread: Vec<String>,
}

/// Reads the sessions and asks every engine of this machine. Nothing is measured here: it is as new as it can be.
async fn look(house: &House, observer: &mut Observer) -> Result<Evidence, String> {
    let endpoint = observer.connect().await?;
    let snapshot = observer.observe().await;
    if let Some(fault) = &snapshot.engine.fault {
        return Err(fault.clone());
    }
    let mut roots = roots(&snapshot, &house.settings.policy, Timestamp::now());
    let place = Place::of(&endpoint.address).await;
    for root in &roots {
        // Containers of an engine elsewhere may have folders of the same names.
        place.shares(&root.path)?;
    }
    let engine = EngineView::new(endpoint.clone(), house.settings.timeout);
    let mut mounted = mounted(&engine, &snapshot.engine.value).await?;
    // A made-up host has no other engines than its own.
    let others = if house.demo.is_some() { Vec::new() } else { usual_places(&house.environment) };
    for other in others.into_iter().filter(|other| other.address != endpoint.address) {
        match mounted_elsewhere(house, &other).await {
            Ok(sources) => mounted.extend(sources),
            Err(why) => {
                let doubt = format!("a container of {} may have it: {why}", other.address);
                for root in &mut roots {
                    root.doubt.get_or_insert_with(|| doubt.clone());
                }
            }
        }
    }
    let max_age = house.settings.policy.max_evidence_age;
    let unread = snapshot.stores().filter_map(|store| {
        let why = store.sessions.unusable(Timestamp::now(), max_age)?;
        Some(format!("{}: {why}", store.path))
    });
    Ok(Evidence { endpoint, roots, mounted, unread: unread.collect() })
}

/// The same of an engine that nobody asked for; none where there is none.
async fn mounted_elsewhere(house: &House, endpoint: &Endpoint) -> Result<BTreeSet<PathBuf>, String> {
    let engine = EngineView::new(endpoint.clone(), house.settings.timeout);
    match engine.list().await {
        Ok(rows) => mounted(&engine, &rows).await,
        Err(EngineFault::NoSocket(_)) => Ok(BTreeSet::new()),
        Err(fault) => Err(fault.to_string()),
    }
}

/// The sources of all binds of all containers, whoever they belong to. Lists do not always tell them, so each is inspected.
async fn mounted(engine: &EngineView, rows: &[Row]) -> Result<BTreeSet<PathBuf>, String> {
    let mut ids = Vec::new();
    for row in rows {
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
    let found = find(house, &mut house.passing_observer()?, TO_SHOW).await?;
    let outcome = if found.unread.is_empty() { Outcome::Done } else { Outcome::Unavailable };
    if json {
        let roots = found.roots.iter().map(|root| &root.path).collect();
        let unread = &found.unread;
        write_json(&Report { roots, leftovers: &found.leftovers, trashed: &found.trashed, unread }, true);
        return Ok(outcome);
    }
    let mut lines: Vec<String> = found.leftovers.iter().map(line).collect();
    let unread = found.unread.iter();
    lines.extend(unread.map(|store| clean(&format!("unavailable: sessions {store}")).into_owned()));
    if found.roots.is_empty() && outcome == Outcome::Unavailable {
        lines.push("Which folders are left behind cannot be told.".to_owned());
    } else if found.roots.is_empty() {
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
    Ok(outcome)
}

fn line(folder: &Leftover) -> String {
    let age = folder.changed_at.and_then(|at| elapsed(at, Timestamp::now()));
    let age = age.map_or_else(|| "unknown age".to_owned(), |age| format!("unchanged for {}", Span(age)));
    let least = if folder.measured { "" } else { "at least " };
    let kept = match (&folder.kept, &folder.claimed) {
        (Some(why), _) => format!("; stays: {why}"),
        (None, Some(why)) => format!("; stays unless it is named: {why}"),
        (None, None) => String::new(),
    };
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
    let mut observer = house.passing_observer()?;
    let found = find(house, &mut observer, TO_MOVE).await?;
    let chosen = choose(named, &found.leftovers)?;
    write(&in_lines(&chosen.iter().copied().map(line).collect::<Vec<_>>()));
    let is_named = !named.is_empty();
    let movable = |folder: &&Leftover| folder.kept.is_none() && (is_named || folder.claimed.is_none());
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
    let go: Vec<Leftover> = chosen.into_iter().filter(movable).cloned().collect();
    // While somebody read this, and while the others were moved, a container may have been made of one of them.
    let outcomes =
        keeper.trash(&go, async |folder| needed(house, &mut observer, folder, is_named).await).await?;
    Ok(told(&outcomes))
}

/// Why a folder must stay after all, by evidence that was taken for it alone.
async fn needed(house: &House, observer: &mut Observer, folder: &Leftover, is_named: bool) -> Option<String> {
    let Evidence { roots, mounted, .. } = match look(house, observer).await {
        Ok(evidence) => evidence,
        Err(why) => return Some(why),
    };
    let Some(root) = roots.into_iter().find(|root| root.path == folder.root) else {
        return Some("nothing shows any more whose it is".to_owned());
    };
    if is_used(&folder.path, &mounted) {
        return Some("a container has it mounted by now".to_owned());
    }
    root.doubt.or(root.claimed.filter(|_| !is_named))
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

async fn empty(house: &House) -> Result<Outcome, Trouble> {
    if !can_ask() && !house.settings.read_only {
        return Err(Trouble::TypedOnly("dirs empty"));
    }
    may_act(true, house)?;
    let found = find(house, &mut house.passing_observer()?, Duration::ZERO).await?;
    let count = found.trashed.len();
    let lines: Vec<String> =
        found.trashed.iter().map(|path| clean(&path.display().to_string()).into_owned()).collect();
    write(&in_lines(&lines));
    write(&format!("{count} to delete for good\n"));
    if count == 0 {
        return Ok(Outcome::Done);
    }
    if !typed(&format!("delete {count}")).await {
        write("Nothing was done.\n");
        return Ok(Outcome::Done);
    }
    let keeper = keeper(house, &found.endpoint, super::act::LOCK_PATIENCE).await?;
    let mut outcomes = Vec::new();
    for root in &found.roots {
        let of_root: Vec<PathBuf> =
            found.trashed.iter().filter(|path| path.starts_with(&root.path)).cloned().collect();
        outcomes.extend(keeper.empty_trash(root, &of_root).await?);
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
