//! Words for whoever sees nothing, or nothing useful, on a host: what was looked for, where, and what to do next, with
//! lines that can be copied. The dashboard and the commands say the same.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::domain::snapshot::{Obstacle, StoreFacts, SystemFacts, Tried};
use crate::domain::{Snapshot, Verdicts};

/// What to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Advice {
    /// What is the matter, in a sentence.
    pub heading: String,
    /// The rest, line by line.
    pub lines: Vec<AdviceLine>,
}

/// A line of advice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AdviceLine {
    /// To be read.
    Words(String),
    /// To be copied into a shell.
    Copy(String),
}

impl Advice {
    fn new(heading: impl Into<String>) -> Self {
        Self { heading: heading.into(), lines: Vec::new() }
    }

    fn words(mut self, words: impl Into<String>) -> Self {
        self.lines.push(AdviceLine::Words(words.into()));
        self
    }

    fn copy(mut self, line: impl Into<String>) -> Self {
        self.lines.push(AdviceLine::Copy(line.into()));
        self
    }

    /// As plain text: what can be copied stands on lines of its own, set in.
    pub fn text(&self) -> String {
        let lines = self.lines.iter().map(|line| match line {
            AdviceLine::Words(words) => format!("{words}\n"),
            AdviceLine::Copy(line) => format!("    {line}\n"),
        });
        std::iter::once(format!("{}\n", self.heading)).chain(lines).collect()
    }
}

/// What to say about a host on which something basic is missing; `None` when there is enough to look at.
pub fn advice(snapshot: &Snapshot, verdicts: &Verdicts) -> Option<Advice> {
    if snapshot.engine.at.is_none() {
        let tried = &snapshot.host.tried;
        let forbidden = tried.iter().find(|tried| tried.obstacle == Obstacle::Forbidden);
        let failing = tried.iter().any(|tried| tried.obstacle == Obstacle::Failing);
        return Some(match forbidden {
            Some(forbidden) if !failing => may_not(forbidden),
            _ => no_engine(tried),
        });
    }
    if verdicts.containers.is_empty() && verdicts.lost.is_empty() && snapshot.engine.fault.is_none() {
        return Some(no_containers(snapshot.engine.value.len()));
    }
    snapshot.systems.iter().find_map(no_store)
}

fn no_engine(tried: &[Tried]) -> Advice {
    let mut advice =
        Advice::new("Nothing can be said about this host's containers until its engine answers.");
    for tried in tried {
        advice = advice.words(format!("  {}", tried.sentence));
    }
    if tried.iter().all(|tried| tried.obstacle == Obstacle::NobodyThere) {
        advice = advice
            .words("If there is an engine on this machine, start it:")
            .copy("sudo systemctl start docker")
            .copy("systemctl --user start podman.socket");
    }
    advice
        .words("If it listens elsewhere, say where:")
        .copy("sandkeeper --host unix:///path/to/engine.sock")
        .words("To look around without one, on a made-up host:")
        .copy("sandkeeper demo")
}

fn may_not(tried: &Tried) -> Advice {
    let advice =
        Advice::new("Nothing can be said about this host's containers: this user may not ask its engine.")
            .words(format!("  {}", tried.sentence));
    let group = group_of(Path::new(&tried.place));
    let advice = match &group {
        Some(group) if group != "root" => advice
            .words(format!("Its socket is for the group `{group}`. Join it and log in again; its members can become root:"))
            .copy(format!("sudo usermod --append --groups {group} \"$USER\"")),
        _ => advice.words("Its socket is for root alone; ask whoever runs it."),
    };
    advice
        .words("Or use an engine of your own that needs no root:")
        .copy("systemctl --user start podman.socket")
        .words(
            "Or look through a proxy that root runs in front of the socket and that lets only GET through:",
        )
        .copy("sandkeeper --read-only --host unix:///path/to/proxy.sock")
        .words("To look around first, on a made-up host:")
        .copy("sandkeeper demo")
}

/// The group that a file belongs to, by name if it has one.
fn group_of(path: &Path) -> Option<String> {
    let number = std::fs::metadata(path).ok()?.gid().to_string();
    let groups = std::fs::read_to_string("/etc/group").unwrap_or_default();
    let named = groups.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)? == number).then(|| name.to_owned())
    });
    named.or(Some(number))
}

fn no_containers(others: usize) -> Advice {
    let advice = Advice::new("No container of a known system is on this engine.");
    let advice = match others {
        0 => advice.words("There is no container at all."),
        1 => advice.words("There is one container, and it carries none of the labels that are looked for."),
        others => advice.words(format!(
            "There are {others} containers, and none carries the labels that are looked for."
        )),
    };
    advice
        .words("Label yours when they are made; a label cannot be added later:")
        .copy("docker run --label sandkeeper.managed=true --label sandkeeper.workspace=my-project IMAGE")
        .words("Which systems are known without that, and by which labels:")
        .copy("sandkeeper profiles list")
        .words("To see what it looks like, on a made-up host:")
        .copy("sandkeeper demo")
}

/// A system whose containers are here and whose session database is not.
fn no_store(system: &SystemFacts) -> Option<Advice> {
    let missing = |store: &StoreFacts| !store.exists && store.sessions.at.is_none();
    if system.stores.is_empty() || !system.stores.iter().all(missing) {
        return None;
    }
    let name = &system.profile.name;
    let mut advice = Advice::new(format!("No session database of {name} was found. It was looked for at:"));
    for store in &system.stores {
        advice = advice.words(format!("  {}", store.path));
    }
    let advice = advice
        .words("Until it is found its containers are `unknown`, and nobody touches them. If it is elsewhere, say where:")
        .copy(format!("sandkeeper --db {name}=/path/to/sessions.db"))
        .words("What is read from it, and which tables it needs:")
        .copy(format!("sandkeeper profiles show {name}"));
    Some(advice)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::snapshot::Reading;
    use jiff::Timestamp;

    fn tried(place: &str, obstacle: Obstacle) -> Tried {
        Tried { place: place.to_owned(), sentence: format!("no luck at {place}"), obstacle }
    }

    fn unreachable_at(tried: Vec<Tried>) -> String {
        let mut snapshot = Snapshot { engine: Reading::failed("no luck"), ..Snapshot::default() };
        snapshot.host.tried = tried;
        advice(&snapshot, &Verdicts::default()).unwrap().text()
    }

    #[test]
    fn without_an_engine_every_place_is_named_and_the_demo_offered() {
        let text = unreachable_at(vec![
            tried("/run/a.sock", Obstacle::NobodyThere),
            tried("/run/b.sock", Obstacle::NobodyThere),
        ]);
        for part in
            ["/run/a.sock", "/run/b.sock", "systemctl start docker", "--host unix://", "sandkeeper demo"]
        {
            assert!(text.contains(part), "lacks {part}: {text}");
        }
        let text = unreachable_at(vec![tried("/run/a.sock", Obstacle::Failing)]);
        assert!(!text.contains("systemctl start"), "one that runs need not be started: {text}");
    }

    #[test]
    fn whoever_may_not_learns_which_group_may() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let place = file.path().display().to_string();
        let text = unreachable_at(vec![
            tried("/no/such", Obstacle::NobodyThere),
            tried(&place, Obstacle::Forbidden),
        ]);
        for part in [&place, "made-up host", "only GET", "--read-only"] {
            assert!(text.contains(part), "lacks {part}: {text}");
        }
        assert!(text.contains("usermod") || text.contains("for root alone"), "{text}");
        assert_eq!(group_of(Path::new("/no/such/file")), None);
    }

    #[test]
    fn an_engine_without_our_containers_gets_a_line_to_copy() {
        let snapshot =
            Snapshot { engine: Reading::good(Vec::new(), Timestamp::now()), ..Snapshot::default() };
        let given = advice(&snapshot, &Verdicts::default()).unwrap();
        assert!(given.heading.contains("No container of a known system"));
        let copied = given.lines.iter().any(
            |line| matches!(line, AdviceLine::Copy(line) if line.contains("--label sandkeeper.managed=true")),
        );
        assert!(copied, "{given:?}");
    }
}
