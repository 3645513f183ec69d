//! `sandkeeper may-start WORKSPACE`: what a gateway asks before it places a new session.

use clap::Args;
use serde::Serialize;

use super::output::{write, write_json};
use super::{House, Outcome, Trouble};
use crate::engine::EngineView;
use crate::keeper::KeeperFault;
use crate::state::{Mark, State};
use crate::text::clean;

#[derive(Debug, Args)]
pub(super) struct MayStartArguments {
    /// The workspace
    workspace: String,
    /// Answer in JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Serialize)]
struct Answer<'a> {
    workspace: &'a str,
    may_start: bool,
    reason: String,
    draining: Vec<String>,
}

pub(super) async fn run(arguments: &MayStartArguments, house: &House) -> Result<Outcome, Trouble> {
    let draining = draining(&arguments.workspace, house).await?;
    let workspace = &arguments.workspace;
    let reason = match draining.first() {
        None => format!("a session may start in {workspace}: nothing in it is draining"),
        Some(mark) => format!("no session should start in {workspace}: {} is draining", mark.name),
    };
    let may_start = draining.is_empty();
    if arguments.json {
        let draining = draining.iter().map(|mark| mark.container.to_string()).collect();
        write_json(&Answer { workspace, may_start, reason, draining }, true);
    } else {
        write(&format!("{}\n", clean(&reason)));
    }
    Ok(if may_start { Outcome::Done } else { Outcome::Draining })
}

/// The marks in this workspace whose container is still there, in the run that was marked. When the engine cannot be
/// asked, a mark counts: keeping a session out for a while harms less than placing it in what is about to go.
async fn draining(workspace: &str, house: &House) -> Result<Vec<Mark>, Trouble> {
    let Some(state) = State::open_to_read(&house.settings.state_folder).map_err(KeeperFault::from)? else {
        return Ok(Vec::new());
    };
    let endpoints = house.endpoints()?;
    let mut draining = Vec::new();
    for endpoint in &endpoints {
        let host = endpoint.address.identity();
        let marks = state.marks(&host).map_err(KeeperFault::from)?;
        let engine = EngineView::new(endpoint.clone(), house.settings.timeout.mul_f32(0.9));
        for mark in marks.into_iter().filter(|mark| mark.workspace.as_deref() == Some(workspace)) {
            let over = match engine.inspect(&mark.container).await {
                Ok(None) => true,
                Ok(Some(container)) => container.started_at() != mark.mark.started_at,
                Err(_) => false,
            };
            if !over {
                draining.push(mark);
            }
        }
    }
    Ok(draining)
}
