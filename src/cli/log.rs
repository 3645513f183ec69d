//! `sandkeeper log`: the journal, for people and for programs.

use std::time::Duration;

use clap::Args;
use jiff::Timestamp;

use super::output::{in_lines, write, write_json};
use super::{House, Outcome, Trouble};
use crate::domain::span::parse_span;
use crate::keeper::KeeperFault;
use crate::state::{LogEntry, State};
use crate::text::clean;

#[derive(Debug, Args)]
pub(super) struct LogArguments {
    /// Answer in JSON
    #[arg(long)]
    json: bool,
    /// Only what was done within this long
    #[arg(long, value_name = "TIME", value_parser = parse_span)]
    since: Option<Duration>,
}

pub(super) fn run(arguments: &LogArguments, house: &House) -> Result<Outcome, Trouble> {
    let since = arguments.since.and_then(|span| Timestamp::now().checked_sub(span).ok());
    let state = State::open_to_read(&house.settings.state_folder).map_err(KeeperFault::from)?;
    let entries = match state {
        Some(state) => state.log(since).map_err(KeeperFault::from)?,
        None => Vec::new(),
    };
    if arguments.json {
        write_json(&entries, true);
    } else if entries.is_empty() {
        let place = house.settings.state_folder.display();
        write(&format!("Nothing was done here yet, as far as this user's journal in {place} tells.\n"));
    } else {
        write(&in_lines(&entries.iter().map(line).collect::<Vec<_>>()));
    }
    Ok(Outcome::Done)
}

fn line(entry: &LogEntry) -> String {
    let id: String = entry.container.chars().take(12).collect();
    let id = if id.is_empty() { id } else { format!(" ({id})") };
    let outcome = entry.outcome.as_deref().unwrap_or("unfinished");
    let line = format!(
        "{}  {}  {}  {}{id}  {}: {}  ->  {outcome}",
        entry.at, entry.who, entry.intent, entry.name, entry.action, entry.reason
    );
    clean(&line).into_owned()
}
