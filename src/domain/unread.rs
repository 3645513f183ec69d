//! What is known of a container and what is not. "It could not be read" must never look like "nothing is there", so whoever
//! shows a verdict asks here, and nowhere else.

use jiff::Timestamp;

use super::verdict::{Claims, Verdict};

/// What could not be read of a container.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unread {
    /// Who claims it: a store could not be read, is doubted, or it is not known whose container it is.
    pub sessions: bool,
    /// Whether its configuration is the current one.
    pub config: bool,
    /// What runs in it.
    pub processes: bool,
}

impl Unread {
    /// Nothing is known.
    pub const EVERYTHING: Self = Self { sessions: true, config: true, processes: true };
}

/// What stands for something that could not be read.
const NOT_KNOWN: &str = "?";

impl Verdict {
    /// Whether something that could have named a session could not be read.
    pub fn sessions_unread(&self) -> bool {
        self.unread.sessions
    }

    /// Who claims it, as far as that proves anything: a live session is one whatever else could not be read.
    pub fn known_sessions(&self) -> Option<&Claims> {
        (!self.unread.sessions || self.claims.live > 0).then_some(&*self.claims)
    }

    /// Who claims it, in a word or two.
    pub fn sessions_word(&self) -> String {
        let Some(claims) = self.known_sessions() else { return NOT_KNOWN.to_owned() };
        match (claims.live, claims.total) {
            (0, 0) => "none".to_owned(),
            (0, total) if claims.ended == total => format!("{total} ended"),
            (0, total) => format!("{total} quiet"),
            (live, _) if self.unread.sessions => format!("{live}+ live"),
            (live, _) => format!("{live} live"),
        }
    }

    /// Whether its configuration is an old one, if that can be told.
    pub fn known_outdated(&self) -> Option<bool> {
        (self.outdated || !self.unread.config).then_some(self.outdated)
    }

    /// Whether its configuration is an old one, in a word.
    pub fn config_word(&self) -> &'static str {
        match self.known_outdated() {
            _ if self.subject.container().is_none() => "",
            Some(true) => "old",
            Some(false) => "current",
            None => NOT_KNOWN,
        }
    }

    /// How many commands run in it through exec, if that can be told.
    pub fn known_execs(&self) -> Option<usize> {
        (self.running_execs() > 0 || !self.unread.processes).then_some(self.running_execs())
    }

    /// Since when there has been no sign of use, if everyone could have given one.
    pub fn known_quiet_since(&self) -> Option<Timestamp> {
        self.quiet_since.filter(|_| self.known_sessions().is_some())
    }

    /// The age of the last sign of use, or what stands for it where that cannot be told.
    pub fn quiet_word(&self, age: impl FnOnce(Option<Timestamp>) -> String) -> String {
        if self.known_sessions().is_none() { NOT_KNOWN.to_owned() } else { age(self.quiet_since) }
    }
}
