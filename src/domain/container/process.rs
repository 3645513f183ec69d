//! What runs in a container, as the engine lists it.

use std::time::Duration;

/// One process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    /// Its number, as the list counts.
    pub pid: u32,
    /// Its parent, if that is in the list. A command that the engine runs in a container has a parent outside.
    pub parent: Option<u32>,
    /// Who leads its session, or its group where the engine tells no sessions. Whoever does may have ended.
    pub leader: Option<u32>,
    /// How long after the first process it began, if that can be told.
    pub began: Option<Duration>,
    /// Its command line.
    pub command: String,
}

impl Process {
    /// Its name, for people: the arguments may be secret.
    pub fn program(&self) -> &str {
        let name = program_of(&self.command);
        if name.is_empty() { "something" } else { name }
    }
}

/// The name of the program in a command line: without its path, without the dash of a login shell and the colon of a title.
pub fn program_of(command: &str) -> &str {
    let first = command.split_whitespace().next().unwrap_or_default();
    let name = first.rsplit('/').next().unwrap_or_default();
    name.trim_start_matches('-').trim_end_matches(':')
}

/// All that runs in a container. What has ended and waits to be noticed is left out, and so are its health checks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessList {
    /// The one that the container lives and ends with.
    pub first: Process,
    /// All others.
    pub others: Vec<Process>,
}

/// The processes of a container.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub enum Processes {
    /// Nobody asked.
    #[default]
    NotAsked,
    /// The engine listed them.
    Listed(ProcessList),
    /// The engine did not say.
    Failed(String),
}

/// The command with which the engine itself looks, from time to time, whether a container is well.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HealthCheck {
    /// Its words, with one blank between.
    words: String,
}

/// What may stand before a command in a list of processes: whoever reads the script, and how.
const INTERPRETERS: [&str; 12] =
    ["sh", "bash", "ash", "dash", "zsh", "ksh", "busybox", "env", "python", "python3", "perl", "node"];

impl HealthCheck {
    /// Reads `Healthcheck.Test` of a container's configuration; `None` where there is no check.
    pub fn of(test: &[String]) -> Option<Self> {
        let (kind, words) = test.split_first()?;
        let words = one_blank(&words.join(" "));
        (matches!(kind.as_str(), "CMD" | "CMD-SHELL") && !words.is_empty()).then_some(Self { words })
    }

    /// Whether a command line is the check: the command itself, a shell that runs it, or whoever reads the script.
    pub fn is(&self, command: &str) -> bool {
        let command = one_blank(command);
        let Some(before) = command.strip_suffix(&self.words) else { return false };
        let is_option = |word: &str| word.starts_with('-') || word == "pipefail";
        let reads = |word: &str| is_option(word) || INTERPRETERS.contains(&program_of(word));
        before.is_empty() || before.ends_with(' ') && before.split_whitespace().all(reads)
    }
}

fn one_blank(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn words(words: &[&str]) -> Vec<String> {
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    #[rstest]
    #[case(&["CMD-SHELL", "curl -f http://localhost/ || exit 1"], "/bin/sh -c curl -f http://localhost/ || exit 1", true)]
    #[case(&["CMD-SHELL", "pg_isready -U app"], "/bin/bash -o pipefail -c pg_isready -U app", true)]
    #[case(&["CMD-SHELL", "pg_isready  -U app"], "pg_isready -U app", true)]
    #[case(&["CMD", "curl", "-f", "http://localhost/"], "curl -f http://localhost/", true)]
    #[case(&["CMD", "/healthy.sh"], "/bin/sh /healthy.sh", true)]
    #[case(&["CMD", "/healthy.sh"], "rm -rf / /healthy.sh", false)]
    #[case(&["CMD", "true"], "sh -c make; true", false)]
    #[case(&["CMD", "true"], "construe", false)]
    #[case(&["CMD", "curl", "-f", "http://localhost/"], "curl -f http://elsewhere/", false)]
    fn a_health_check_is_told_by_its_command(#[case] test: &[&str], #[case] command: &str, #[case] is: bool) {
        let check = HealthCheck::of(&words(test)).unwrap();
        assert_eq!(check.is(command), is);
    }

    #[test]
    fn without_a_check_nothing_is_one() {
        for test in [&[] as &[&str], &["NONE"], &["CMD"], &["CMD-SHELL", " "], &["curl", "-f"]] {
            assert_eq!(HealthCheck::of(&words(test)), None, "{test:?}");
        }
    }

    #[rstest]
    #[case("/usr/bin/python3 serve.py --token abc", "python3")]
    #[case("-bash", "bash")]
    #[case("nginx: worker process", "nginx")]
    #[case("", "")]
    fn a_program_has_a_name_without_its_arguments(#[case] command: &str, #[case] name: &str) {
        assert_eq!(program_of(command), name);
    }
}
