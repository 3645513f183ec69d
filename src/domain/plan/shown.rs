//! What whoever says yes to a plan is shown of a container: who lives in it, and what its end takes along. It is frozen with the
//! item, so that a yes holds for exactly that and for nobody who comes later.

use std::borrow::Cow;
use std::collections::BTreeSet;

use jiff::Timestamp;

use super::{Intent, Targets};
use crate::domain::evidence::{Evidence, plural};
use crate::domain::verdict::{Claim, Claims, Verdict};

/// What is shown of one container.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shown {
    /// The sessions that are live in it: by id, and by when they began, for ids are used again.
    pub sessions: BTreeSet<(String, Option<Timestamp>)>,
    /// What runs in it without being one of them.
    pub commands: Commands,
    /// Whether something runs in it at all.
    pub runs: bool,
    /// Whether the engine removes it as soon as it stops.
    pub goes_with_its_stop: bool,
    /// Memory-backed mounts, whose content goes with a stop.
    pub tmpfs: Vec<String>,
}

/// Commands that run in a container.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Commands {
    /// How many.
    pub count: usize,
    /// Their programs, as far as they are known; their arguments may be secret.
    pub programs: BTreeSet<String>,
}

impl Commands {
    /// What runs in a container besides what it was made for.
    pub(super) fn of(verdict: &Verdict) -> Self {
        let inspection = verdict.subject.container().and_then(|container| container.inspection());
        let programs = inspection.into_iter().flat_map(|inspection| inspection.commands.iter().cloned());
        let mut commands = Self { count: verdict.running_execs(), programs: programs.collect() };
        for reason in &verdict.life {
            if let Evidence::AtWork { count, program } = reason {
                commands.count += count;
                commands.programs.insert(program.clone());
            }
        }
        commands
    }
}

impl std::fmt::Display for Commands {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.count, plural(self.count, "command"))?;
        if !self.programs.is_empty() {
            let programs: Vec<&str> = self.programs.iter().map(String::as_str).collect();
            write!(f, " ({})", programs.join(", "))?;
        }
        Ok(())
    }
}

impl Shown {
    pub(super) fn of(verdict: &Verdict) -> Self {
        let container = verdict.subject.container();
        let inspection = container.and_then(|container| container.inspection());
        Self {
            sessions: live_in(&verdict.claims),
            commands: Commands::of(verdict),
            runs: container.is_some_and(|container| container.state.holds_processes()),
            goes_with_its_stop: inspection.is_some_and(|inspection| inspection.auto_remove),
            tmpfs: inspection.map(|inspection| inspection.tmpfs.clone()).unwrap_or_default(),
        }
    }

    /// The intent as it holds for the container as it is now: whoever counted live sessions has said yes to those he was
    /// shown. Some of them may have ended; one who was not among them keeps the container, and the error says who.
    pub fn allows<'a>(&self, now: Option<&Verdict>, intent: &'a Intent) -> Result<Cow<'a, Intent>, String> {
        let (Intent::Stop(targets) | Intent::ForceRemove(targets)) = intent else {
            return Ok(Cow::Borrowed(intent));
        };
        let (Some(_), Some(verdict)) = (targets.even_if_live, now) else { return Ok(Cow::Borrowed(intent)) };
        let live = live_in(&verdict.claims);
        if let Some((newcomer, _)) = live.difference(&self.sessions).next() {
            return Err(format!("session {newcomer} is live in it by now, and was not among those counted"));
        }
        if live.len() < verdict.claims.live {
            return Err("more sessions are live in it than can be told apart".to_owned());
        }
        let counted = Targets { even_if_live: Some(live.len()), ..targets.clone() };
        Ok(Cow::Owned(match intent {
            Intent::Stop(_) => Intent::Stop(counted),
            _ => Intent::ForceRemove(counted),
        }))
    }

    /// What a stop takes along, whatever becomes of the container.
    pub fn lost_by_a_stop(&self) -> Vec<String> {
        let mut lost = Vec::new();
        if self.runs {
            lost.push(match self.commands.count {
                0 => "what runs in it ends".to_owned(),
                _ => format!("what runs in it ends, {} among it", self.commands),
            });
        }
        if !self.tmpfs.is_empty() {
            lost.push(format!("memory-backed {} is emptied", self.tmpfs.join(", ")));
        }
        lost
    }
}

/// The live sessions, as far as they are named.
fn live_in(claims: &Claims) -> BTreeSet<(String, Option<Timestamp>)> {
    let live = claims.listed.iter().filter(|claim| Claim::is_live(claim)).map(|claim| &claim.session);
    live.map(|session| (session.id.clone(), session.started_at.known())).collect()
}
