//! `sandkeeper profiles try`: what a profile makes of this host, step by step: which containers it recognises and which it
//! just misses, where its sessions are and what was read there, and who claims whom.

use std::path::Path;
use std::sync::Arc;

use jiff::Timestamp;

use super::output::{complain, in_lines, write};
use super::{House, Outcome, Trouble};
use crate::domain::container::Row;
use crate::domain::evidence::plural;
use crate::domain::profile::{Match, Profile, fill_from_session};
use crate::domain::session::{Liveness, Moment};
use crate::domain::snapshot::{StoreFacts, SystemFacts};
use crate::domain::span::{Span, elapsed};
use crate::domain::{Clock, Container, Policy, Session, Snapshot, classify};
use crate::profiles::{Entry, Library, Origin, parse};
use crate::text::clean;

/// How many of each kind are shown.
const SHOWN: usize = 10;

/// A profile by its name, or a file that may become one.
pub(super) fn entry(name: &str, library: &Library) -> Result<Entry, String> {
    if !Path::new(name).is_file() {
        return library.find(name).cloned().map_err(|error| error.to_string());
    }
    let source = std::fs::read_to_string(name).map_err(|error| format!("{name}: cannot be read: {error}"))?;
    let profile = parse(name, &source).map_err(|error| error.to_string())?;
    let origin = Origin::File(name.into());
    Ok(Entry { profile: Arc::new(profile), source: source.into(), origin, broken: None })
}

pub(super) async fn run(name: &str, mut house: House) -> Result<Outcome, Trouble> {
    let entry = match entry(name, &house.library) {
        Ok(entry) => entry,
        Err(error) => {
            complain(&format!("error: {error}"));
            return Ok(Outcome::Usage);
        }
    };
    // Only this one, whatever else is configured.
    let system = entry.profile.name.clone();
    house.library = Library { entries: vec![entry], problems: Vec::new() };
    house.settings.profiles = vec![system.to_string()];
    house
        .settings
        .stores
        .retain(|store| store.system.as_deref().is_none_or(|named| named == system.as_str()));
    house.settings.policy.expected_hash_of.retain(|named, _| *named == system);
    let snapshot = house.observer()?.observe().await;
    let Some(facts) = snapshot.systems.first() else { return Ok(Outcome::Failed) };
    let told =
        Trial { snapshot: &snapshot, system: facts, policy: &house.settings.policy, now: Timestamp::now() };
    let lines: Vec<String> = told.lines().iter().map(|line| clean(line).into_owned()).collect();
    write(&in_lines(&lines));
    let good =
        snapshot.engine.fault.is_none() && facts.stores.iter().all(|store| store.sessions.fault.is_none());
    Ok(if good { Outcome::Done } else { Outcome::Unavailable })
}

struct Trial<'a> {
    snapshot: &'a Snapshot,
    system: &'a SystemFacts,
    policy: &'a Policy,
    now: Timestamp,
}

impl Trial<'_> {
    fn lines(&self) -> Vec<String> {
        let mut lines =
            vec![format!("profile {}: {}", self.system.profile.name, self.system.profile.description)];
        lines.extend(self.containers());
        if self.system.profile.stores.is_empty() {
            lines.push("sessions: this system keeps none".to_owned());
        }
        for store in &self.system.stores {
            lines.extend(self.store(store));
        }
        lines.extend(self.verdicts());
        lines
    }

    fn containers(&self) -> Vec<String> {
        let profile = &self.system.profile;
        if let Some(fault) = &self.snapshot.engine.fault {
            return vec![format!("containers: the engine did not answer: {fault}")];
        }
        let rows = &self.snapshot.engine.value;
        let all: Vec<&Container> = rows
            .iter()
            .filter_map(|row| match row {
                Row::Container(container) => Some(container.as_ref()),
                Row::Unreadable(_) => None,
            })
            .collect();
        let labelled: Vec<&&Container> =
            all.iter().filter(|each| profile.matches_labels(&each.labels)).collect();
        let ours: Vec<&&&Container> =
            labelled.iter().filter(|each| matches!(profile.recognise(each), Match::Ours(_))).collect();
        let mut lines = vec![format!(
            "containers: {} on the engine, {} with the labels, {} recognised",
            all.len(),
            labelled.len(),
            ours.len()
        )];
        lines.extend(ours.iter().take(SHOWN).map(|each| recognised(profile, each)));
        lines.extend(more(ours.len()));
        let missed: Vec<_> =
            labelled.iter().filter(|each| matches!(profile.recognise(each), Match::Foreign)).collect();
        lines.extend(
            missed
                .iter()
                .take(SHOWN)
                .map(|each| format!("  not {}: it has the labels, but its name fits no pattern", each.name)),
        );
        lines.extend(more(missed.len()));
        lines
    }

    fn store(&self, store: &StoreFacts) -> Vec<String> {
        if let Some(fault) = &store.sessions.fault {
            return vec![format!("sessions in {}: {fault}", store.path)];
        }
        let sessions = &store.sessions.value;
        let variant = store.variant.as_deref().unwrap_or("none");
        let count = sessions.len();
        let mut lines = vec![format!(
            "sessions in {}: {count} {}, read as `{variant}`",
            store.path,
            plural(count, "row")
        )];
        if !store.captures.is_empty() {
            let captures = store.captures.iter().map(|(key, value)| format!("{{store.{key}}} is {value}"));
            lines.push(format!("  {}", captures.collect::<Vec<_>>().join(", ")));
        }
        lines.extend(store.lifetime.map(|lifetime| format!("  lifetime of containers: {}", Span(lifetime))));
        lines.extend(sessions.iter().take(SHOWN).map(|session| self.session(store, session)));
        lines.extend(more(count));
        lines
    }

    fn session(&self, store: &StoreFacts, session: &Session) -> String {
        let profile = &self.system.profile;
        let rule = profile.live_rule(store.lifetime, self.policy.default_lifetime);
        let liveness = match session.liveness(rule, Clock::wall(self.now)) {
            Liveness::Live { .. } => "live".to_owned(),
            Liveness::Ended => "ended".to_owned(),
            Liveness::Quiet => "quiet".to_owned(),
            Liveness::Unclear(why) => format!("unclear ({why})"),
        };
        let active = match &session.last_activity_at {
            Moment::At(at) => elapsed(*at, self.now).map(|ago| format!(", active {} ago", Span(ago))),
            Moment::Unreadable(why) => Some(format!(", activity unreadable: {why}")),
            Moment::Absent => None,
        };
        let keys = profile.links.iter().filter_map(|link| {
            let key = fill_from_session(&link.session, session, &store.captures)?;
            Some(format!("{} = {key}", link.session))
        });
        let keys: Vec<String> = keys.collect();
        let keys = if keys.is_empty() { "names no container".to_owned() } else { keys.join(", ") };
        format!("  {}: {liveness}{}; {keys}", session.id, active.unwrap_or_default())
    }

    fn verdicts(&self) -> Vec<String> {
        let verdicts = classify(self.snapshot, self.policy, self.now);
        let mut lines = vec!["verdicts:".to_owned()];
        lines.extend(verdicts.containers.iter().take(SHOWN).map(|verdict| {
            let reasons: Vec<String> = verdict.evidence.iter().map(ToString::to_string).collect();
            format!("  {}: {}: {}", verdict.subject.name(), verdict.status, reasons.join("; "))
        }));
        lines.extend(more(verdicts.containers.len()));
        lines.extend(
            verdicts
                .lost
                .iter()
                .take(SHOWN)
                .map(|lost| format!("  {} is missing for session {}", lost.container, lost.session)),
        );
        if lines.len() == 1 {
            lines.push("  none: there is nothing of this system here".to_owned());
        }
        lines
    }
}

/// A container and everything the profile reads off it.
fn recognised(profile: &Profile, container: &Container) -> String {
    let Match::Ours(recognised) = profile.recognise(container) else { return String::new() };
    let mut facts = Vec::new();
    facts.extend(profile.workspace_of(&recognised).map(|workspace| format!("workspace {workspace}")));
    facts.push(match profile.persistence_of(container) {
        Ok(true) => "persistent".to_owned(),
        Ok(false) => "not persistent".to_owned(),
        Err(why) => why,
    });
    let links = profile.links.iter().flat_map(|link| &link.container);
    let mut keys: Vec<String> =
        links.filter_map(|template| Some(format!("{template} = {}", recognised.fill(template)?))).collect();
    keys.sort();
    keys.dedup();
    facts.extend(keys);
    facts.extend(recognised.undecidable.map(|why| format!("not judged: {why}")));
    format!("  {} ({}): {}", container.name, container.state, facts.join(", "))
}

fn more(count: usize) -> Option<String> {
    count.checked_sub(SHOWN).filter(|more| *more > 0).map(|more| format!("  and {more} more"))
}
