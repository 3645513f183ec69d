//! Workspaces by name. A workspace belongs to its system: two systems may both have one called `default`, so its whole name is
//! `hermes/default`.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::fmt;

use super::profile::SystemName;
use super::verdict::Verdicts;

/// A workspace as somebody names it: with its system, or by its own name alone.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WorkspaceRef {
    /// The system, if it was named.
    pub system: Option<SystemName>,
    /// What the system calls it.
    pub workspace: String,
}

impl WorkspaceRef {
    /// A workspace of a system, as far as that is known.
    pub fn of(system: Option<&SystemName>, workspace: &str) -> Self {
        Self { system: system.cloned(), workspace: workspace.to_owned() }
    }

    /// Reads `SYSTEM/WORKSPACE` or `WORKSPACE`. A workspace may have a slash in its name: what stands before the first one is
    /// a system only if there is such a system.
    pub fn parse(text: &str, is_system: impl Fn(&str) -> bool) -> Self {
        match text.split_once('/') {
            Some((system, workspace)) if !workspace.is_empty() && is_system(system) => {
                Self { system: Some(SystemName::new(system)), workspace: workspace.to_owned() }
            }
            _ => Self { system: None, workspace: text.to_owned() },
        }
    }

    /// Whether it means this workspace of this system.
    pub fn names(&self, system: Option<&SystemName>, workspace: Option<&str>) -> bool {
        workspace == Some(&self.workspace) && (self.system.is_none() || self.system.as_ref() == system)
    }

    /// The workspaces it could mean, of those that have a container here or miss one.
    pub fn meant(&self, verdicts: &Verdicts) -> BTreeSet<Self> {
        let named = places(verdicts).filter(|(system, workspace)| self.names(*system, Some(workspace)));
        let all: BTreeSet<Self> = named.map(|(system, workspace)| Self::of(system, workspace)).collect();
        // One of which it is not known whose it is may be any of the others.
        let known: BTreeSet<Self> = all.iter().filter(|each| each.system.is_some()).cloned().collect();
        if known.is_empty() { all } else { known }
    }
}

impl fmt::Display for WorkspaceRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.system {
            Some(system) => write!(f, "{system}/{}", self.workspace),
            None => f.write_str(&self.workspace),
        }
    }
}

/// The names that workspaces of several systems have.
pub fn shared_names(verdicts: &Verdicts) -> HashSet<&str> {
    let mut owners: HashMap<&str, Option<&SystemName>> = HashMap::new();
    let mut shared = HashSet::new();
    for (system, workspace) in places(verdicts) {
        if *owners.entry(workspace).or_insert(system) != system {
            shared.insert(workspace);
        }
    }
    shared
}

/// Every workspace of which something is here, or missed.
fn places(verdicts: &Verdicts) -> impl Iterator<Item = (Option<&SystemName>, &str)> {
    let here = verdicts.containers.iter();
    let here = here.filter_map(|verdict| Some((verdict.system.as_ref(), verdict.workspace.as_deref()?)));
    let lost = verdicts.lost.iter().filter_map(|lost| Some((Some(&lost.system), lost.workspace.as_deref()?)));
    let gone = verdicts.gone.iter().map(|gone| &gone.remembered);
    let gone = gone.filter_map(|gone| Some((Some(&gone.system), gone.workspace.as_deref()?)));
    here.chain(lost).chain(gone)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> (Option<String>, String) {
        let known = |name: &str| ["hermes", "parachute"].contains(&name);
        let parsed = WorkspaceRef::parse(text, known);
        assert_eq!(parsed.to_string(), text);
        (parsed.system.map(|system| system.to_string()), parsed.workspace)
    }

    #[test]
    fn what_stands_before_a_slash_is_a_system_only_if_there_is_such_a_system() {
        let whole = |system: &str, workspace: &str| (Some(system.to_owned()), workspace.to_owned());
        let bare = |workspace: &str| (None, workspace.to_owned());
        assert_eq!(parsed("hermes/default"), whole("hermes", "default"));
        assert_eq!(parsed("parachute/team/blue"), whole("parachute", "team/blue"));
        for text in ["default", "team/blue", "/default", "hermes", "hermes/", "", "Hermes/default"] {
            assert_eq!(parsed(text), bare(text), "{text:?}");
        }
    }

    #[test]
    fn a_bare_name_means_every_systems_and_a_whole_one_means_one() {
        let (hermes, parachute) = (SystemName::new("hermes"), SystemName::new("parachute"));
        let bare = WorkspaceRef::of(None, "default");
        let whole = WorkspaceRef::of(Some(&hermes), "default");
        assert!(bare.names(Some(&hermes), Some("default")) && bare.names(None, Some("default")));
        assert!(whole.names(Some(&hermes), Some("default")));
        for (system, workspace) in
            [(Some(&parachute), Some("default")), (None, Some("default")), (Some(&hermes), None)]
        {
            assert!(!whole.names(system, workspace), "{system:?} {workspace:?}");
        }
    }
}
