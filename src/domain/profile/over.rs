//! When an unclaimed container is over, for systems in which being unclaimed proves nothing: a scanner keeps no sessions,
//! and its neighbour's scan may be at work right now.

use std::fmt;
use std::path::Path;
use std::time::Duration;

use super::Recognised;
use crate::domain::template::Template;

/// The signs of which one is enough.
#[derive(Clone, Debug, Default)]
pub struct Over {
    /// No process lives in it; where companions are declared, one of them must be there and not run either.
    pub when_not_running: bool,
    /// One of the folders it was given is gone.
    pub missing_binds: Vec<BindPattern>,
    /// One of these paths is gone.
    pub missing_paths: Vec<Template>,
    /// It is older than anything in it may take.
    pub max_age: Option<Duration>,
}

/// A pattern over the sources of bind mounts, such as `/tmp/scan-*`: `*` stands for anything within one component.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BindPattern(String);

impl BindPattern {
    /// Accepts an absolute path; `None` for anything else.
    pub fn parse(text: &str) -> Option<Self> {
        (text.starts_with('/') && text.len() > 1).then(|| Self(text.trim_end_matches('/').to_owned()))
    }

    /// The beginning of `source` that the pattern speaks of, if it speaks of it.
    fn part_of(&self, source: &str) -> Option<String> {
        let pattern: Vec<_> = Path::new(&self.0).components().collect();
        let components: Vec<_> = Path::new(source).components().take(pattern.len()).collect();
        let fits = components.len() == pattern.len()
            && pattern.iter().zip(&components).all(|(pattern, component)| {
                let text = |component: &std::path::Component<'_>| {
                    component.as_os_str().to_string_lossy().into_owned()
                };
                matches_component(&text(pattern), &text(component))
            });
        fits.then(|| components.iter().collect::<std::path::PathBuf>().to_string_lossy().into_owned())
    }
}

impl fmt::Display for BindPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Whether a name fits a pattern in which `*` stands for anything.
fn matches_component(pattern: &str, name: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == name,
        Some((before, after)) => name.strip_prefix(before).is_some_and(|rest| {
            let ends = rest.char_indices().map(|(at, _)| at).chain([rest.len()]);
            ends.into_iter().any(|end| matches_component(after, &rest[end..]))
        }),
    }
}

impl Over {
    /// The paths whose absence would show that this container is over.
    pub fn paths_of(&self, recognised: &Recognised<'_>) -> Vec<String> {
        let binds = recognised.container.mounts.iter().filter(|mount| mount.kind == "bind");
        let binds = binds
            .filter_map(|mount| self.missing_binds.iter().find_map(|pattern| pattern.part_of(&mount.source)));
        let paths = self.missing_paths.iter().filter_map(|template| recognised.fill(template));
        let paths = paths.filter(|path| path.starts_with('/')).map(std::borrow::Cow::into_owned);
        let mut all: Vec<String> = binds.chain(paths).collect();
        all.sort();
        all.dedup();
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bind_pattern_speaks_of_whole_components_only() {
        let pattern = BindPattern::parse("/tmp/scan-*").unwrap();
        let part = |source: &str| pattern.part_of(source);
        assert_eq!(part("/tmp/scan-12/mask").as_deref(), Some("/tmp/scan-12"));
        assert_eq!(part("/tmp/scan-").as_deref(), Some("/tmp/scan-"));
        assert_eq!(part("/tmp/scanner"), None);
        assert_eq!(part("/tmp"), None);
        assert_eq!(part("/var/tmp/scan-1"), None);
        assert_eq!(BindPattern::parse("tmp/scan-*"), None);
    }
}
