//! `sandkeeper may-start WORKSPACE`: what a gateway asks before it places a new session. It answers from the marks of every user
//! of the machine that it can read, and says so when it could not look.

use clap::Args;
use serde::Serialize;

use super::output::{complain, write, write_json};
use super::{House, Outcome, Trouble};
use crate::domain::WorkspaceRef;
use crate::domain::profile::SystemName;
use crate::engine::{EngineFault, EngineView};
use crate::state::{Board, Mark, State};
use crate::text::clean;

#[derive(Debug, Args)]
pub(super) struct MayStartArguments {
    /// The workspace: `SYSTEM/NAME`, or its name alone, which means that of every system
    #[arg(value_parser = named)]
    workspace: String,
    /// Answer in JSON
    #[arg(long)]
    json: bool,
}

/// A variable that is empty must not become a yes.
fn named(text: &str) -> Result<String, &'static str> {
    let is_named = text.rsplit('/').next().is_some_and(|name| !name.trim().is_empty());
    if is_named { Ok(text.to_owned()) } else { Err("no workspace is named; is a variable empty?") }
}

#[derive(Debug, Serialize)]
struct Answer<'a> {
    workspace: &'a str,
    system: Option<&'a SystemName>,
    /// Neither yes nor no where it could not be looked.
    may_start: Option<bool>,
    reason: String,
    draining: Vec<String>,
}

/// What was found out about a workspace.
#[derive(Debug, Default)]
struct Findings {
    /// Its containers that drain.
    draining: Vec<Mark>,
    /// Where it could not be looked, and why.
    blind: Vec<String>,
}

/// A mark, the engine it was set on, and by whom that is told.
struct Told {
    host: String,
    mark: Mark,
}

pub(super) async fn run(arguments: &MayStartArguments, house: &House) -> Result<Outcome, Trouble> {
    let wanted = house.workspace(&arguments.workspace);
    let Findings { draining, blind } = look(&wanted, house).await?;
    let (may_start, outcome, reason) = match (draining.first(), blind.first()) {
        (Some(mark), _) => (Some(false), Outcome::Draining, refusal(&wanted, mark)),
        (None, Some(why)) => {
            let reason = format!("whether a session may start in {wanted} cannot be told: {why}");
            (None, Outcome::Unavailable, reason)
        }
        (None, None) => {
            let reason = format!("a session may start in {wanted}: nothing in it is draining");
            (Some(true), Outcome::Done, reason)
        }
    };
    if arguments.json {
        let draining = draining.iter().map(|mark| mark.container.to_string()).collect();
        let (workspace, system) = (wanted.workspace.as_str(), wanted.system.as_ref());
        write_json(&Answer { workspace, system, may_start, reason, draining }, true);
    } else if may_start.is_none() {
        complain(&format!("error: {reason}"));
    } else {
        write(&format!("{}\n", clean(&reason)));
    }
    Ok(outcome)
}

/// Says which workspace drains; a name alone may have meant another system's.
fn refusal(wanted: &WorkspaceRef, mark: &Mark) -> String {
    let system = mark.system.as_deref().map(SystemName::new);
    let meant = WorkspaceRef::of(system.as_ref(), &wanted.workspace);
    let hint = match (&wanted.system, &meant.system) {
        (None, Some(_)) => format!("; ask for SYSTEM/{} if another system's is meant", wanted.workspace),
        _ => String::new(),
    };
    format!(
        "no session should start in {meant}: {} is draining, marked by {}{hint}",
        mark.name, mark.mark.marked_by
    )
}

/// Looks through our own marks and everybody's on the board for those in this workspace whose container is still there, in the
/// run that was marked. When the engine cannot be asked, a mark counts: keeping a session out for a while harms less than
/// placing it in what is about to go.
async fn look(wanted: &WorkspaceRef, house: &House) -> Result<Findings, Trouble> {
    let endpoints = house.endpoints()?;
    let mut findings = Findings::default();
    let mut told = Vec::new();
    match own(house) {
        Ok(own) => told.extend(own),
        Err(why) => findings.blind.push(why),
    }
    match Board::here().map(Board::read).transpose() {
        Ok(notices) => {
            let notices = notices.into_iter().flatten();
            told.extend(notices.map(|notice| Told { host: notice.host, mark: notice.mark }));
        }
        Err(fault) => findings.blind.push(fault.to_string()),
    }
    // One that does not say whose it is may be the one that is asked for.
    told.retain(|Told { mark, .. }| {
        mark.workspace.as_deref() == Some(&wanted.workspace)
            && wanted
                .system
                .as_ref()
                .is_none_or(|wanted| mark.system.as_deref().is_none_or(|system| system == wanted.as_str()))
    });
    let engines: Vec<(String, EngineView)> = endpoints
        .into_iter()
        .map(|endpoint| {
            let host = endpoint.address.identity();
            (host, EngineView::new(endpoint, house.settings.timeout.mul_f32(0.9)))
        })
        .collect();
    for Told { host, mark } in told {
        if findings.draining.iter().any(|known| known.container == mark.container) {
            continue;
        }
        match standing(&host, &mark, &engines).await {
            Standing::Holds => findings.draining.push(mark),
            Standing::Over => {}
            Standing::NotKnown(why) => findings.blind.push(why),
        }
    }
    Ok(findings)
}

/// The marks in our own state. None is there only where a state could be read, or where there is certainly none.
fn own(house: &House) -> Result<Vec<Told>, String> {
    let state = State::open_to_read(&house.settings.state_folder).map_err(|fault| fault.to_string())?;
    let Some(state) = state else { return Ok(Vec::new()) };
    // Whatever address they were set at: another one may lead to the same engine.
    let marks = state.marks_of_all_hosts().map_err(|fault| fault.to_string())?;
    Ok(marks.into_iter().map(|(host, mark)| Told { host, mark }).collect())
}

/// Whether a mark still means anything.
enum Standing {
    Holds,
    Over,
    NotKnown(String),
}

/// Asks the engine that the mark was set on. Another user may reach that engine by another way than ours: then every engine is
/// asked, for an id is the same everywhere.
async fn standing(host: &str, mark: &Mark, engines: &[(String, EngineView)]) -> Standing {
    let same = engines.iter().find(|(identity, _)| identity == host);
    if let Some((_, engine)) = same {
        return match is_over(mark, engine).await {
            Ok(true) => Standing::Over,
            Ok(false) | Err(_) => Standing::Holds,
        };
    }
    let (mut unasked, mut answered) = (None, false);
    for (identity, engine) in engines {
        match is_over(mark, engine).await {
            Ok(false) => return Standing::Holds,
            Ok(true) => answered = true,
            // One of several places at which an engine may be.
            Err(EngineFault::NoSocket(_)) if answered || engines.len() > 1 => {}
            Err(fault) => {
                let name = &mark.name;
                let why =
                    format!("{name} is marked on {host}, and {identity} cannot be asked for it: {fault}");
                unasked = Some(why);
            }
        }
    }
    match unasked {
        Some(why) => Standing::NotKnown(why),
        None if answered => Standing::Over,
        None => Standing::NotKnown(format!("{} is marked on {host}, and no engine answers here", mark.name)),
    }
}

async fn is_over(mark: &Mark, engine: &EngineView) -> Result<bool, EngineFault> {
    let container = engine.inspect(&mark.container).await?;
    Ok(container.is_none_or(|container| !mark.mark.is_on_this_run(&container)))
}
