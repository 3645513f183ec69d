//! `sandkeeper profiles`: which systems are understood, and whether a profile is right.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::Outcome;
use super::output::{complain, in_lines, write};
use crate::domain::Profile;
use crate::domain::profile::StoreKind;
use crate::profiles::{Library, Origin, parse};
use crate::text::{clean, fit, width};

#[derive(Debug, Args)]
pub(super) struct ProfilesArguments {
    #[command(subcommand)]
    command: Option<ProfilesCommand>,
}

#[derive(Debug, Subcommand)]
enum ProfilesCommand {
    /// List all profiles: built-in ones and your own
    List,
    /// Print a profile; the output is a valid profile file
    Show {
        /// The profile
        name: String,
    },
    /// Check a profile file and say what it means
    Check {
        /// The file
        file: PathBuf,
    },
}

pub(super) fn run(arguments: &ProfilesArguments, library: &Library) -> Outcome {
    match &arguments.command {
        None | Some(ProfilesCommand::List) => list(library),
        Some(ProfilesCommand::Show { name }) => match library.find(name) {
            Ok(entry) => {
                write(&entry.source);
                Outcome::Done
            }
            Err(error) => {
                complain(&format!("error: {error}"));
                Outcome::Usage
            }
        },
        Some(ProfilesCommand::Check { file }) => check(file),
    }
}

fn list(library: &Library) -> Outcome {
    let names = library.entries.iter().map(|entry| width(entry.profile.name.as_str()));
    let widest = names.max().unwrap_or_default();
    let mut lines = Vec::new();
    for entry in &library.entries {
        let origin = match &entry.origin {
            Origin::BuiltIn => "built-in".to_owned(),
            Origin::File(path) => clean(&path.display().to_string()).into_owned(),
        };
        let broken = if entry.broken.is_some() { " (your own version is broken)" } else { "" };
        let name = fit(entry.profile.name.as_str(), widest);
        lines.push(format!("{name}  {}  [{origin}]{broken}", clean(&entry.profile.description)));
    }
    write(&in_lines(&lines));
    for problem in &library.problems {
        complain(&format!("error: {problem}"));
    }
    if library.problems.is_empty() { Outcome::Done } else { Outcome::Failed }
}

fn check(file: &PathBuf) -> Outcome {
    let name = file.display().to_string();
    let text = match std::fs::read_to_string(file) {
        Ok(text) => text,
        Err(error) => {
            complain(&format!("error: {name}: cannot be read: {error}; name an existing profile file"));
            return Outcome::Failed;
        }
    };
    match parse(&name, &text) {
        Ok(profile) => {
            write(&explain(&profile));
            Outcome::Done
        }
        Err(error) => {
            complain(&format!("error: {error}"));
            Outcome::Failed
        }
    }
}

/// A profile in sentences.
fn explain(profile: &Profile) -> String {
    let labels: Vec<String> =
        profile.recognition.labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
    let mut lines = vec![format!("{}: {}", profile.name, profile.description)];
    lines.push(format!("containers: labelled {}", labels.join(" and ")));
    for pattern in &profile.recognition.names {
        let pattern = pattern.as_str();
        let written = pattern.strip_prefix("^(?:").and_then(|rest| rest.strip_suffix(")$"));
        lines.push(format!("  named like {}", written.unwrap_or(pattern)));
    }
    let listed = |templates: Vec<String>| templates.join(", else ");
    let workspace = profile.workspace.iter().map(ToString::to_string).collect();
    lines.push(format!("workspace: {}", listed(workspace)));
    if profile.stores.is_empty() {
        lines.push("sessions: this system keeps no session store".to_owned());
    }
    for store in &profile.stores {
        match &store.kind {
            StoreKind::Sqlite { queries, .. } => {
                lines.push(format!("sessions: SQLite at {}", store.place()));
                let queries = queries.iter();
                lines.extend(
                    queries.map(|query| {
                        format!("  query `{}` prepares and names its columns rightly", query.name)
                    }),
                );
            }
            StoreKind::Http(http) => {
                lines.push(format!("sessions: asked of {}", http.url));
                lines.extend(http.requests.iter().map(|request| format!("  GET {}", request.path)));
            }
        }
    }
    for link in &profile.links {
        let container = link.container.iter().map(ToString::to_string).collect();
        lines.push(format!("  a session claims a container when {} is {}", link.session, listed(container)));
    }
    lines.push("ok: the profile can be used".to_owned());
    let lines: Vec<String> = lines.iter().map(|line| clean(line).into_owned()).collect();
    in_lines(&lines)
}
