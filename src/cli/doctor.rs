//! `sandkeeper doctor`: one line per check, each failure with its fix.

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod authorized_keys;
mod viewer;

use std::io::IsTerminal;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use clap::Args;
use jiff::Timestamp;
use serde::Serialize;

use super::output::{Manner, in_lines, write, write_json};
use super::{House, Outcome, Trouble};
use crate::advice::advice;
use crate::domain::evidence::plural;
use crate::domain::snapshot::{StoreFacts, SystemFacts};
use crate::domain::{Snapshot, Status, classify};
use crate::profiles::Origin;
use crate::state::{Board, State};
use crate::text::{clean, fit};

#[derive(Debug, Args)]
pub(super) struct DoctorArguments {
    /// Answer in JSON
    #[arg(long)]
    json: bool,
    /// Check too whether this user can look, through the gate that `--host` names, and can do nothing else; as root, and with
    /// the `--db` of its command
    #[arg(long, value_name = "NAME")]
    read_only_user: Option<String>,
    /// Where that user's keys are [default: `.ssh/authorized_keys` in its home]
    #[arg(long, value_name = "FILE", requires = "read_only_user")]
    authorized_keys: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Health {
    Ok,
    /// Nothing is wrong, but the operator may want to know.
    Note,
    Failed,
}

#[derive(Debug, Serialize)]
struct Check {
    #[serde(rename = "check")]
    about: String,
    health: Health,
    finding: String,
    fix: Option<String>,
}

#[derive(Debug, Serialize)]
struct Diagnosis {
    healthy: bool,
    checks: Vec<Check>,
}

impl Check {
    fn new(about: &str, health: Health, finding: impl Into<String>) -> Self {
        Self { about: about.to_owned(), health, finding: finding.into(), fix: None }
    }

    /// Findings carry their fix behind the last semicolon, as every fault's sentence does.
    fn failed(about: &str, sentence: &str) -> Self {
        let (finding, fix) = match sentence.rsplit_once("; ") {
            Some((finding, fix)) => (finding.to_owned(), Some(fix.to_owned())),
            None => (sentence.to_owned(), None),
        };
        Self { about: about.to_owned(), health: Health::Failed, finding, fix }
    }
}

pub(super) async fn run(arguments: &DoctorArguments, house: &House) -> Result<Outcome, Trouble> {
    let mut observer = house.passing_observer()?;
    let snapshot = observer.observe().await;
    let mut checks = engine(&snapshot);
    checks.extend(config(house));
    checks.extend(profiles(house, &snapshot));
    checks.extend(snapshot.systems.iter().flat_map(stores));
    checks.push(state_folder(&house.settings.state_folder));
    checks.extend(board());
    checks.push(terminal());
    if let Some(name) = &arguments.read_only_user {
        checks.extend(viewer::checks(name, arguments.authorized_keys.as_deref(), &snapshot));
    }
    let healthy = checks.iter().all(|check| check.health != Health::Failed);
    let diagnosis = Diagnosis { healthy, checks };
    if arguments.json {
        write_json(&diagnosis, true);
    } else {
        let verdicts = classify(&snapshot, &house.settings.policy, Timestamp::now());
        let advice = advice(&snapshot, &verdicts).map(|advice| advice.text()).unwrap_or_default();
        let lines: Vec<String> = advice.lines().map(|line| clean(line).into_owned()).collect();
        let gap = if lines.is_empty() { "" } else { "\n" };
        write(&format!("{}{gap}{}", shown(&diagnosis, Manner::of_stdout()), in_lines(&lines)));
    }
    Ok(if healthy { Outcome::Done } else { Outcome::Failed })
}

fn engine(snapshot: &Snapshot) -> Vec<Check> {
    let engine = snapshot.host.engine.as_deref();
    match (&snapshot.engine.fault, engine) {
        (None, Some(engine)) => {
            let count = snapshot.engine.value.len();
            let containers = plural(count, "container");
            let finding = format!("{engine} at {}, {count} {containers} in all", snapshot.host.endpoint);
            vec![Check::new("engine", Health::Ok, finding)]
        }
        (fault, _) => vec![Check::failed("engine", fault.as_deref().unwrap_or("no answer"))],
    }
}

fn config(house: &House) -> Vec<Check> {
    let finding = match &house.settings.config_file {
        Some(path) => path.display().to_string(),
        None => "no config file; all defaults".to_owned(),
    };
    vec![Check::new("config", Health::Ok, finding)]
}

fn profiles(house: &House, snapshot: &Snapshot) -> Vec<Check> {
    let mut checks = Vec::new();
    for entry in &house.library.entries {
        let name = &entry.profile.name;
        let check = format!("profile {name}");
        let origin = match &entry.origin {
            Origin::BuiltIn => "built-in".to_owned(),
            Origin::File(path) => path.display().to_string(),
        };
        let in_use = snapshot.systems.iter().any(|system| &system.profile.name == name);
        checks.push(match &entry.broken {
            Some(problem) => Check::failed(&check, problem),
            None if in_use => Check::new(&check, Health::Ok, format!("in use ({origin})")),
            None => Check::new(&check, Health::Note, format!("no trace of it on this host ({origin})")),
        });
    }
    let told = |problem: &str| {
        let mut broken = house.library.entries.iter().filter_map(|entry| entry.broken.as_deref());
        broken.any(|sentence| sentence.ends_with(problem))
    };
    let others = house.library.problems.iter().filter(|problem| !told(problem));
    checks.extend(others.map(|problem| Check::failed("profile", problem)));
    checks
}

fn stores(system: &SystemFacts) -> Vec<Check> {
    let name = format!("sessions {}", system.profile.name);
    system.stores.iter().map(|store| check_store(&name, store)).collect()
}

fn check_store(name: &str, store: &StoreFacts) -> Check {
    let mode = std::fs::metadata(&store.path).map(|metadata| metadata.permissions().mode() & 0o7777);
    let place = match mode {
        Ok(mode) => format!("{} (mode {mode:04o})", store.path),
        Err(_) => store.path.clone(),
    };
    if let Some(fault) = &store.sessions.fault {
        return Check::failed(name, &format!("{place}: {fault}"));
    }
    let variant = store.variant.as_deref().unwrap_or("none");
    let count = store.read_count();
    let sessions = plural(count, "session");
    Check::new(name, Health::Ok, format!("{place}: {count} {sessions}, read as `{variant}`"))
}

/// The folder need not exist yet; if it does, nobody else may write in it.
fn state_folder(folder: &Path) -> Check {
    let place = folder.display();
    match std::fs::metadata(folder) {
        Ok(metadata) if !metadata.is_dir() => {
            Check::failed("state", &format!("{place} is not a folder; move it away"))
        }
        Ok(metadata) if metadata.permissions().mode() & 0o022 != 0 => {
            Check::failed("state", &format!("others may write in {place}; run `chmod 700 {place}`"))
        }
        Ok(_) => match State::open_to_read(folder) {
            Ok(_) => Check::new("state", Health::Ok, place.to_string()),
            Err(fault) => Check::failed("state", &fault.to_string()),
        },
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            Check::new("state", Health::Ok, format!("{place} (made when something is first changed)"))
        }
        Err(error) => Check::failed("state", &format!("{place}: {error}; give this user access to it")),
    }
}

/// Whether users see each other's marks. Where one user does everything that is nobody's trouble.
fn board() -> Option<Check> {
    let board = Board::here()?;
    let place = board.folder().display();
    Some(match (board.read(), board.obstacle()) {
        (Err(fault), _) => Check::failed("marks", &fault.to_string()),
        (Ok(_), Some(why)) => {
            Check::new("marks", Health::Note, format!("what this user drains, other users do not see: {why}"))
        }
        (Ok(notices), None) => {
            let count = notices.len();
            let finding = format!("{place}: {count} {} of all users", plural(count, "mark"));
            Check::new("marks", Health::Ok, finding)
        }
    })
}

fn terminal() -> Check {
    if !std::io::stdout().is_terminal() {
        return Check::new("terminal", Health::Note, "the output is not a terminal");
    }
    let size = crossterm::terminal::size();
    let kind = std::env::var("TERM").unwrap_or_default();
    match size {
        Ok((width, height)) if width >= 80 && height >= 24 => {
            Check::new("terminal", Health::Ok, format!("{kind}, {width}x{height}"))
        }
        Ok((width, height)) => {
            let finding = format!("{kind}, {width}x{height}; 80x24 or more is comfortable");
            Check::new("terminal", Health::Note, finding)
        }
        Err(error) => Check::new("terminal", Health::Note, format!("its size cannot be told: {error}")),
    }
}

fn shown(diagnosis: &Diagnosis, manner: Manner) -> String {
    let mut lines = Vec::new();
    for check in &diagnosis.checks {
        let health = match check.health {
            Health::Ok => manner.paint(Status::Active, "ok    "),
            Health::Note => "note  ".to_owned(),
            Health::Failed => manner.paint(Status::Lost, "FAILED"),
        };
        lines.push(format!("{health}  {}  {}", fit(&check.about, 20), clean(&check.finding)));
        lines.extend(check.fix.as_ref().map(|fix| format!("{:30}fix: {}", "", clean(fix))));
    }
    in_lines(&lines)
}
