//! Where the stores are: path patterns with `~`, `$VARIABLE`, `*` and `{capture}`, expanded on this host.

use std::collections::BTreeMap;
use std::io;
use std::path::{Component, Path, PathBuf};

use super::fault::StoreFault;
use crate::domain::profile::StorePath;
use crate::environment::Environment;

/// A store that a pattern led to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Located {
    pub(super) path: PathBuf,
    pub(super) captures: BTreeMap<String, String>,
}

/// All paths that fit the pattern. A pattern without wildcards always yields its path, there or not. A folder that
/// is missing yields nothing; one that cannot be looked into is a fault.
pub(super) fn locate(pattern: &str, environment: &Environment) -> Result<Vec<Located>, StoreFault> {
    let Some(expanded) = expand(pattern, environment) else { return Ok(Vec::new()) };
    let mut found = vec![Located { path: PathBuf::new(), captures: BTreeMap::new() }];
    for component in Path::new(&expanded).components() {
        let text = component.as_os_str().to_string_lossy();
        if !text.contains(['*', '{']) {
            for located in &mut found {
                located.path.push(component);
            }
            continue;
        }
        let mut deeper = Vec::new();
        for located in found {
            for name in names_in(&located.path)? {
                let mut captures = located.captures.clone();
                if matches_component(&text, &name, &mut captures) {
                    deeper.push(Located { path: located.path.join(&name), captures });
                }
            }
        }
        deeper.sort_by(|a, b| a.path.cmp(&b.path));
        found = deeper;
    }
    let wild = expanded.contains(['*', '{']);
    found.retain(|located| !wild || may_exist(&located.path));
    Ok(found)
}

/// What a path that was named says by the profile's own patterns: by the one that fits it whole, else by the one of which
/// most fits its end, wherever it is.
pub(super) fn captures_of(
    path: &Path,
    patterns: &[StorePath],
    environment: &Environment,
) -> BTreeMap<String, String> {
    let mut best = (0, BTreeMap::new());
    for StorePath { pattern, captures } in patterns {
        let below = pattern.split_once('/').filter(|(first, _)| first.starts_with(['~', '$']));
        let forms = [expand(pattern, environment), below.map(|(_, below)| below.to_owned())];
        for form in forms.into_iter().flatten() {
            let length = Path::new(&form).components().count();
            let mut found = captures.clone();
            if length > best.0 && fits_end(path, &form, &mut found) {
                best = (length, found);
            }
        }
    }
    best.1
}

fn fits_end(path: &Path, pattern: &str, captures: &mut BTreeMap<String, String>) -> bool {
    let mut names = path.components().rev();
    Path::new(pattern).components().rev().all(|part| {
        let text = |part: Component<'_>| part.as_os_str().to_string_lossy().into_owned();
        names.next().is_some_and(|name| matches_component(&text(part), &text(name), captures))
    })
}

/// Whether something is at the path, or nobody can say because a folder above may not be looked into.
pub(super) fn may_exist(path: &Path) -> bool {
    path.try_exists().unwrap_or(true) || path.symlink_metadata().is_ok()
}

/// `None` when a variable without a default is not set: the place does not exist on this host.
pub(super) fn expand(pattern: &str, environment: &Environment) -> Option<String> {
    let rooted = match pattern.strip_prefix("~/") {
        Some(rest) => environment.home.join(rest).to_string_lossy().into_owned(),
        None => pattern.to_owned(),
    };
    let mut expanded = String::new();
    let mut rest = rooted.as_str();
    while let Some((before, after)) = rest.split_once('$') {
        let end = after.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(after.len());
        expanded.push_str(before);
        expanded.push_str(&environment.variable(&after[..end])?);
        rest = &after[end..];
    }
    expanded.push_str(rest);
    Some(expanded)
}

fn names_in(folder: &Path) -> Result<Vec<String>, StoreFault> {
    let listing = match std::fs::read_dir(folder) {
        Ok(listing) => listing,
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Ok(Vec::new());
        }
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            return Err(StoreFault::PermissionDenied);
        }
        Err(error) => return Err(StoreFault::Failed(error.to_string())),
    };
    listing
        .map(|entry| entry.map(|entry| entry.file_name().to_string_lossy().into_owned()))
        .collect::<Result<_, _>>()
        .map_err(|error| StoreFault::Failed(error.to_string()))
}

/// One path component: `*` stands for anything, `{name}` too and remembers it.
fn matches_component(pattern: &str, name: &str, captures: &mut BTreeMap<String, String>) -> bool {
    let Some(start) = pattern.find(['*', '{']) else { return pattern == name };
    let Some(rest) = name.strip_prefix(&pattern[..start]) else { return false };
    let (capture, after) = match pattern[start..].strip_prefix('{').and_then(|inside| inside.split_once('}'))
    {
        Some((capture, after)) => (Some(capture), after),
        None => (None, &pattern[start + 1..]),
    };
    let ends = rest.char_indices().map(|(at, _)| at).chain([rest.len()]);
    for end in ends.filter(|end| *end > 0 || capture.is_none()) {
        let mut inner = captures.clone();
        if let Some(capture) = capture {
            inner.insert(capture.to_owned(), rest[..end].to_owned());
        }
        if matches_component(after, &rest[end..], &mut inner) {
            *captures = inner;
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    fn environment(home: &Path) -> Environment {
        Environment { home: home.to_owned(), variables: HashMap::from([("BASE".into(), "base".into())]) }
    }

    #[test]
    fn captures_name_what_a_component_stood_for() {
        let home = tempfile::tempdir().unwrap();
        for profile in ["work", "play"] {
            let folder = home.path().join("agents").join(profile);
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(folder.join("state.db"), "x").unwrap();
        }
        std::fs::create_dir_all(home.path().join("agents/empty")).unwrap();
        let found = locate("~/agents/{profile}/state.db", &environment(home.path())).unwrap();
        let profiles: Vec<&str> = found.iter().map(|located| located.captures["profile"].as_str()).collect();
        assert_eq!(profiles, ["play", "work"]);
    }

    #[test]
    fn a_store_that_cannot_be_followed_is_not_passed_over() {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join("agents/work");
        std::fs::create_dir_all(&folder).unwrap();
        std::os::unix::fs::symlink("/nowhere/at/all", folder.join("state.db")).unwrap();
        let found = locate("~/agents/*/state.db", &environment(home.path())).unwrap();
        assert_eq!(found.len(), 1, "a dangling link is a store that cannot be read, not no store");
    }

    #[test]
    fn a_plain_path_is_yielded_whether_it_exists_or_not() {
        let home = tempfile::tempdir().unwrap();
        let found = locate("~/$BASE/x.db", &environment(home.path())).unwrap();
        assert_eq!(found[0].path, home.path().join("base/x.db"));
        assert!(locate("$NOT_SET/x.db", &environment(home.path())).unwrap().is_empty());
    }

    #[test]
    fn a_named_path_says_what_the_pattern_says_that_fits_most_of_it() {
        let mut environment = environment(Path::new("/home/ada"));
        let path = |pattern: &str, profile: Option<&str>| StorePath {
            pattern: pattern.to_owned(),
            captures: profile.map(|profile| ("profile".to_owned(), profile.to_owned())).into_iter().collect(),
        };
        let patterns = [
            path("~/.agent/state.db", Some("default")),
            path("~/.agent/profiles/{profile}/state.db", None),
            path("$AGENT_HOME/state.db", Some("custom")),
            path("$AGENT_HOME/profiles/{profile}/state.db", None),
        ];
        let told = |path: &str, environment: &Environment| {
            captures_of(Path::new(path), &patterns, environment).get("profile").cloned()
        };
        for (path, profile) in [
            ("/home/ada/.agent/state.db", "default"),
            ("/home/bob/.agent/state.db", "default"),
            ("/home/bob/.agent/profiles/work/state.db", "work"),
            ("/srv/agent/state.db", "custom"),
            ("/srv/agent/profiles/work/state.db", "work"),
        ] {
            assert_eq!(told(path, &environment).as_deref(), Some(profile), "{path}");
        }
        assert_eq!(told("/srv/agent/other.db", &environment), None);
        environment.variables.insert("AGENT_HOME".into(), "/srv/.agent".into());
        assert_eq!(told("/srv/.agent/state.db", &environment).as_deref(), Some("custom"));
    }

    #[test]
    fn components_match_whole_names() {
        let matches = |pattern, name| matches_component(pattern, name, &mut BTreeMap::new());
        assert!(matches("*.db", "a.db") && matches("*", "anything") && matches("a{x}c", "abc"));
        assert!(!matches("*.db", "a.dbx") && !matches("a{x}c", "ac"), "a capture stands for something");
    }
}
