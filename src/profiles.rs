//! The profile library: the built-in profiles, and the user's own, which add to them or override them.
//!
//! A user's file that cannot be used is never skipped silently. If it overrides a built-in profile, that one still
//! recognises the containers, and every one of them is `unknown` until the file is right.

mod check;
mod http;
mod raw;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::document::{Document, DocumentError};
use crate::domain::Profile;
use crate::domain::profile::StoreKind;
use crate::domain::session::LiveRule;
use crate::sessions::check_query;
use crate::text::closest;

/// The profiles that come with the program: name and text.
pub const BUILT_IN: &[(&str, &str)] = &[
    ("devcontainers", include_str!("../assets/profiles/devcontainers.toml")),
    ("hermes", include_str!("../assets/profiles/hermes.toml")),
    ("kojuto", include_str!("../assets/profiles/kojuto.toml")),
    ("nanoclaw", include_str!("../assets/profiles/nanoclaw.toml")),
    ("native", include_str!("../assets/profiles/native.toml")),
    ("openclaw", include_str!("../assets/profiles/openclaw.toml")),
    ("openhands", include_str!("../assets/profiles/openhands.toml")),
    ("parachute", include_str!("../assets/profiles/parachute.toml")),
    ("testcontainers", include_str!("../assets/profiles/testcontainers.toml")),
];

/// Where a profile comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// It came with the program.
    BuiltIn,
    /// The user's file.
    File(PathBuf),
}

/// A profile in use.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The profile.
    pub profile: Arc<Profile>,
    /// Its text.
    pub source: Arc<str>,
    /// Where it comes from.
    pub origin: Origin,
    /// Why the user's version of it could not be used.
    pub broken: Option<String>,
}

/// All profiles that can be used, and what is wrong with the others.
#[derive(Clone, Debug, Default)]
pub struct Library {
    /// Usable profiles, by name.
    pub entries: Vec<Entry>,
    /// The user's files that could not be used, each with its reason.
    pub problems: Vec<String>,
}

/// A profile was asked for that does not exist.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no profile `{name}`; {fix}")]
pub struct NoSuchProfile {
    name: String,
    fix: String,
}

impl Library {
    /// Loads the built-in profiles and those in `folder`.
    pub fn load(folder: Option<&Path>) -> Self {
        let mut library = Self::default();
        for (name, source) in BUILT_IN {
            match parse(name, source) {
                Ok(profile) => library.put(profile, source, Origin::BuiltIn),
                Err(error) => library.problems.push(error.to_string()),
            }
        }
        if let Some(folder) = folder {
            library.load_folder(folder);
        }
        library.entries.sort_by(|a, b| a.profile.name.cmp(&b.profile.name));
        library
    }

    fn load_folder(&mut self, folder: &Path) {
        let listing = match std::fs::read_dir(folder) {
            Ok(listing) => listing,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return,
            Err(error) => {
                self.problems.push(unreadable_folder(folder, &error));
                return;
            }
        };
        let mut files: Vec<PathBuf> = Vec::new();
        for entry in listing {
            match entry {
                Ok(entry) => files.push(entry.path()),
                Err(error) => self.problems.push(unreadable_folder(folder, &error)),
            }
        }
        files.retain(|path| path.extension().is_some_and(|extension| extension == "toml"));
        files.sort();
        for path in files {
            let file = path.display().to_string();
            match std::fs::read_to_string(&path) {
                Ok(source) => match parse(&file, &source) {
                    Ok(profile) => match self.file_of(&profile) {
                        Some(other) => {
                            let name = &profile.name;
                            let problem = format!(
                                "{file}: the profile `{name}` stands in {} too; remove one of the two",
                                other.display()
                            );
                            self.distrust(&path, &source, problem);
                        }
                        None => self.put(profile, &source, Origin::File(path)),
                    },
                    Err(error) => self.distrust(&path, &source, error.to_string()),
                },
                Err(error) => {
                    let problem =
                        format!("{file}: cannot be read: {error}; give this user read access to it");
                    self.distrust(&path, "", problem);
                }
            }
        }
    }

    /// The user's file that has defined this profile already.
    fn file_of(&self, profile: &Profile) -> Option<&Path> {
        self.entries.iter().filter(|entry| entry.profile.name == profile.name).find_map(|entry| match &entry
            .origin
        {
            Origin::File(path) => Some(path.as_path()),
            Origin::BuiltIn => None,
        })
    }

    fn put(&mut self, profile: Profile, source: &str, origin: Origin) {
        self.entries.retain(|entry| entry.profile.name != profile.name);
        self.entries.push(Entry { profile: Arc::new(profile), source: source.into(), origin, broken: None });
    }

    /// A broken file that is named like a profile, or names one inside, was meant to replace it: its containers can no
    /// longer be judged.
    fn distrust(&mut self, path: &Path, source: &str, problem: String) {
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        let meant = |name: &str| name == stem || named_in(source).any(|named| named == name);
        for entry in self.entries.iter_mut().filter(|entry| meant(entry.profile.name.as_str())) {
            entry.broken = Some(format!("your profile cannot be used: {problem}"));
        }
        self.problems.push(problem);
    }

    /// The profile of this name.
    pub fn find(&self, name: &str) -> Result<&Entry, NoSuchProfile> {
        let names = || self.entries.iter().map(|entry| entry.profile.name.as_str());
        self.entries.iter().find(|entry| entry.profile.name.as_str() == name).ok_or_else(|| NoSuchProfile {
            name: name.to_owned(),
            fix: match closest(name, names()) {
                Some(meant) => format!("did you mean `{meant}`?"),
                None => format!("the profiles here are {}", names().collect::<Vec<_>>().join(", ")),
            },
        })
    }

    /// The profiles to use: those named, or all.
    pub fn select(&self, names: &[String]) -> Result<Vec<Entry>, NoSuchProfile> {
        if names.is_empty() {
            return Ok(self.entries.clone());
        }
        let mut chosen: Vec<Entry> = Vec::new();
        for name in names {
            let entry = self.find(name)?;
            if !chosen.iter().any(|known| known.profile.name == entry.profile.name) {
                chosen.push(entry.clone());
            }
        }
        Ok(chosen)
    }
}

fn unreadable_folder(folder: &Path, error: &std::io::Error) -> String {
    format!(
        "the profile folder {} cannot be read: {error}; make it a folder that this user may read",
        folder.display()
    )
}

/// What a file that may not even be TOML says after `name =`.
fn named_in(source: &str) -> impl Iterator<Item = &str> {
    source.lines().filter_map(|line| {
        let value = line.trim().strip_prefix("name")?.trim_start().strip_prefix('=')?;
        Some(value.split('#').next()?.trim().trim_matches(['"', '\'']))
    })
}

/// Reads a profile and checks everything that can be checked without a host, its SQL included.
pub fn parse(file: &str, text: &str) -> Result<Profile, DocumentError> {
    let example = "`sandkeeper profiles show native` is a full example";
    let document = Document { file, text, example };
    let profile = check::read(document)?;
    for store in &profile.stores {
        let StoreKind::Sqlite { queries, .. } = &store.kind else { continue };
        for query in queries {
            check_query(query, profile.live == LiveRule::Declared).map_err(|fault| {
                let start = text.find(query.sql.as_str()).unwrap_or_default() + fault.offset;
                let what = format!("query `{}` {}", query.name, fault.what);
                document.error(start..start, "sessions.queries.sql", what, fault.fix)
            })?;
        }
    }
    Ok(profile)
}
