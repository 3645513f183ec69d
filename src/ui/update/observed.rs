//! What a new look at the host does: what changed is told, plans under review are made again, and what was marked for
//! eviction goes once nobody lives in it.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use super::begin;
use crate::domain::plan::{Intent, Targets, to_heal};
use crate::domain::span::{Span, elapsed};
use crate::domain::{ContainerId, Status, Verdicts, plan};
use crate::ui::message::{Effect, Observation, Remembered};
use crate::ui::model::{Layer, Model};
use crate::ui::preview::Confirmed;
use crate::ui::work::Work;

/// What could not be evicted is tried again after this long, and after twice as long each time it fails again.
const EVICTION_PAUSE: Duration = Duration::from_secs(30);
const LONGEST_EVICTION_PAUSE: Duration = Duration::from_hours(1);

pub(super) fn observe(model: &mut Model, observation: &Observation, effects: &mut Vec<Effect>) {
    model.now = model.now.max(observation.at);
    let before = model.observation.replace(observation.clone());
    if before.as_ref().is_some_and(|seen| Arc::ptr_eq(&seen.verdicts, &observation.verdicts)) {
        // The same facts, read again: plans under review stay fresh by it, and nothing else changes.
        renew(model, observation);
        return;
    }
    let good = observation.snapshot.engine.fault.is_none() && observation.snapshot.engine.at.is_some();
    if good {
        let changes = Changes::between(before.as_ref().map(|seen| &*seen.verdicts), &observation.verdicts);
        for verdict in &observation.verdicts.containers {
            if let Some(id) = verdict.subject.id() {
                model.note_status(id, verdict.status);
            }
        }
        if before.as_ref().is_some_and(|seen| seen.snapshot.engine.at.is_some()) {
            if let Some(sentence) = changes.sentence(model.work.is_some()) {
                model.toast(sentence, changes.is_alarming());
            }
        } else {
            tell_since_last_look(model, effects);
        }
        if !model.setup.read_only && !changes.remembered.is_empty() {
            effects.push(Effect::Remember(changes.remembered));
        }
        model.list.keep_marks_of(&observation.verdicts);
        let present: HashSet<&ContainerId> =
            observation.verdicts.containers.iter().filter_map(|verdict| verdict.subject.id()).collect();
        model.usages.keep(|id| present.contains(id));
        model.timelines.retain(|id, _| present.contains(id));
    }
    model.arrange();
    renew(model, observation);
    evict(model, observation, effects);
    heal(model, observation, effects);
}

fn renew(model: &mut Model, observation: &Observation) {
    for layer in &mut model.layers {
        if let Layer::Preview(preview) = layer {
            preview.renew(observation, &model.setup.policy, model.now);
        }
    }
}

/// What is different from the look before.
struct Changes {
    became: HashMap<Status, usize>,
    new: usize,
    gone: usize,
    lost: usize,
    remembered: Vec<Remembered>,
}

impl Changes {
    fn between(before: Option<&Verdicts>, after: &Verdicts) -> Self {
        let statuses = |verdicts: &Verdicts| -> HashMap<ContainerId, Status> {
            let pairs = verdicts.containers.iter();
            pairs.filter_map(|verdict| Some((verdict.subject.id()?.clone(), verdict.status))).collect()
        };
        let old = before.map(statuses).unwrap_or_default();
        let mut changes = Self { became: HashMap::new(), new: 0, gone: 0, lost: 0, remembered: Vec::new() };
        let mut seen = HashSet::new();
        for verdict in &after.containers {
            let Some(id) = verdict.subject.id() else { continue };
            seen.insert(id);
            match old.get(id) {
                Some(status) if *status == verdict.status => continue,
                Some(_) => *changes.became.entry(verdict.status).or_default() += 1,
                None => changes.new += 1,
            }
            changes.remembered.push(Remembered {
                id: id.clone(),
                name: verdict.subject.name().to_owned(),
                status: Some(verdict.status),
                reason: verdict.evidence.first().map(ToString::to_string).unwrap_or_default(),
            });
        }
        for verdict in before.map(|verdicts| verdicts.containers.as_slice()).unwrap_or_default() {
            if let Some(id) = verdict.subject.id().filter(|id| !seen.contains(id)) {
                changes.gone += 1;
                changes.remembered.push(Remembered {
                    id: id.clone(),
                    name: verdict.subject.name().to_owned(),
                    status: None,
                    reason: "it is gone".to_owned(),
                });
            }
        }
        let lost_before: HashSet<&str> = before
            .into_iter()
            .flat_map(|verdicts| &verdicts.lost)
            .map(|lost| lost.session.as_str())
            .collect();
        changes.lost = after.lost.iter().filter(|lost| !lost_before.contains(lost.session.as_str())).count();
        changes
    }

    /// `2 became orphaned, 1 lost its container, 3 new, 1 gone`; while we work ourselves, what goes is no news.
    fn sentence(&self, at_work: bool) -> Option<String> {
        let mut parts: Vec<String> = Status::ALL
            .into_iter()
            .filter_map(|status| self.became.get(&status).map(|count| format!("{count} became {status}")))
            .collect();
        if self.lost > 0 {
            let whose =
                if self.lost == 1 { "session lost its container" } else { "sessions lost their containers" };
            parts.push(format!("{} {whose}", self.lost));
        }
        if self.new > 0 {
            parts.push(format!("{} new", self.new));
        }
        if self.gone > 0 && !at_work {
            parts.push(format!("{} gone", self.gone));
        }
        (!parts.is_empty()).then(|| parts.join(", "))
    }

    fn is_alarming(&self) -> bool {
        self.lost > 0 || self.became.contains_key(&Status::Unknown)
    }
}

/// Tells what is different from what the operator saw last time, once both are known. What has gone since is written
/// down as gone, so that it is told once.
pub(super) fn tell_since_last_look(model: &mut Model, effects: &mut Vec<Effect>) {
    let Some(observation) = &model.observation else { return };
    if observation.snapshot.engine.at.is_none() {
        return;
    }
    let Some(look) = model.last_look.take() else { return };
    let Some(at) = look.at else { return };
    let mut old: HashMap<&ContainerId, Status> =
        look.statuses.iter().map(|(id, status)| (id, *status)).collect();
    let mut became: HashMap<Status, usize> = HashMap::new();
    let mut new = 0;
    for verdict in &observation.verdicts.containers {
        let Some(id) = verdict.subject.id() else { continue };
        match old.remove(id) {
            Some(status) if status == verdict.status => {}
            Some(_) => *became.entry(verdict.status).or_default() += 1,
            None => new += 1,
        }
    }
    let gone = old.keys().map(|id| Remembered {
        id: (*id).clone(),
        name: String::new(),
        status: None,
        reason: "it was gone at the next look".to_owned(),
    });
    let remembered: Vec<Remembered> = gone.collect();
    let changes = Changes { became, new, gone: remembered.len(), lost: 0, remembered: Vec::new() };
    if !model.setup.read_only && !remembered.is_empty() {
        effects.push(Effect::Remember(remembered));
    }
    let ago = elapsed(at, model.now).map_or_else(|| "a while".to_owned(), |age| Span(age).to_string());
    if let Some(sentence) = changes.sentence(false) {
        model.toast(format!("since you last looked, {ago} ago: {sentence}"), false);
    }
}

/// Containers that are marked for eviction, and that nobody lives in or claims any more, go by themselves.
fn evict(model: &mut Model, observation: &Observation, effects: &mut Vec<Effect>) {
    if model.ending || model.undraining || model.cannot_act().is_some() {
        return;
    }
    let now = model.now;
    let marked = &observation.snapshot.drains;
    let aside = &observation.snapshot.recalled.quarantined;
    model.evictions.retain(|id, _| marked.contains_key(id) || aside.contains_key(id));
    let free = observation.verdicts.containers.iter().filter(|verdict| {
        let over = verdict.quarantine.as_ref().is_some_and(|aside| aside.until <= now);
        (verdict.status == Status::Draining || over) && !verdict.is_in_use() && verdict.waits_for.is_none()
    });
    let ids: HashSet<ContainerId> = free
        .filter_map(|verdict| verdict.subject.id().cloned())
        .filter(|id| model.evictions.get(id).is_none_or(|(until, _)| *until <= now))
        .collect();
    if ids.is_empty() {
        return;
    }
    let intent = Intent::Evict(Targets { ids, even_if_live: None });
    let plan = plan(&observation.verdicts, &intent, &model.setup.policy, now);
    if let Some(confirmed) = Confirmed::by_mark(plan, Arc::clone(&observation.snapshot)) {
        begin(model, confirmed, effects);
    }
}

/// Lost containers of systems that allow it come back by themselves.
fn heal(model: &mut Model, observation: &Observation, effects: &mut Vec<Effect>) {
    if model.ending || model.undraining || model.cannot_act().is_some() {
        return;
    }
    let ids = to_heal(&observation.verdicts);
    if ids.is_empty() {
        return;
    }
    let intent = Intent::Heal(Targets { ids, even_if_live: None });
    let plan = plan(&observation.verdicts, &intent, &model.setup.policy, model.now);
    if let Some(confirmed) = Confirmed::by_mark(plan, Arc::clone(&observation.snapshot)) {
        begin(model, confirmed, effects);
    }
}

/// Counts from the end of an attempt: what went is forgotten with its mark, what did not is left alone for a while.
pub(super) fn pause_evictions(model: &mut Model, work: &Work) {
    let now = model.now;
    for id in work.tasks.iter().flatten().filter_map(|task| task.id.as_ref()) {
        let tried = model.evictions.get(id).map_or(0, |(_, tried)| *tried);
        let pause = EVICTION_PAUSE.saturating_mul(1 << tried.min(8)).min(LONGEST_EVICTION_PAUSE);
        model.evictions.insert(id.clone(), (now + pause, tried + 1));
    }
}
