//! `sandkeeper profiles`: which systems are understood, and whether a profile is right.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::Outcome;
use super::output::{complain, in_lines, write};
use crate::domain::Profile;
use crate::domain::profile::StoreKind;
use crate::domain::span::Precise;
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
    /// Show what a profile makes of this host: what it recognises, what it reads, who claims whom
    Try {
        /// The profile, or a file that may become one
        #[arg(value_name = "NAME|FILE")]
        name: String,
    },
}

impl ProfilesArguments {
    /// The profile to be tried on this host, which is more than looking at profiles.
    pub(super) fn tried(&self) -> Option<&str> {
        match &self.command {
            Some(ProfilesCommand::Try { name }) => Some(name),
            _ => None,
        }
    }
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
        // Tried where there is a host to try it on.
        Some(ProfilesCommand::Try { .. }) => Outcome::Done,
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
    lines.extend(rules(profile));
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
    lines.push("hint: `sandkeeper profiles try FILE` shows what it makes of this host".to_owned());
    let lines: Vec<String> = lines.iter().map(|line| clean(line).into_owned()).collect();
    in_lines(&lines)
}

/// The rules that are not the same for every system, in sentences.
fn rules(profile: &Profile) -> Vec<String> {
    let mut lines = Vec::new();
    let undecidable = profile.recognition.undecidable.iter();
    lines.extend(undecidable.map(|form| format!("  some are not judged: {}", form.why)));
    if let Some(home) = &profile.home {
        let container: Vec<String> = home.container.iter().map(ToString::to_string).collect();
        lines.push(match container.join(", else ") {
            key if key.is_empty() => "whose: only what a session names is judged".to_owned(),
            key => format!("whose: that store's whose {} is the container's {key}", home.store),
        });
    }
    if let Some(file) = &profile.lifetime.file {
        lines.push(format!("lifetime: `{}` of {}", file.key, file.path));
    }
    let companions = profile.companions.iter();
    lines.extend(companions.map(|name| format!("life: while a container named {name} runs")));
    if let Some(over) = &profile.over {
        let mut signs = Vec::new();
        if over.when_not_running {
            signs.push("nothing runs in it".to_owned());
        }
        signs.extend(over.missing_binds.iter().map(|bind| format!("its folder {bind} is gone")));
        signs.extend(over.missing_paths.iter().map(|path| format!("{path} is gone")));
        signs.extend(over.max_age.map(|age| format!("it is older than {}", Precise(age))));
        lines.push(format!("over: when nothing claims it and {}", signs.join(", or ")));
    }
    lines
}
