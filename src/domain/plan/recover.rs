//! What is brought back, and what is not: containers that are gone, that ended under a live session, or that were put aside.

use std::collections::HashSet;

use jiff::Timestamp;

use super::{Action, Intent, Item, Reason, Shown, binds_of};
use crate::domain::container::{Container, ContainerId};
use crate::domain::recovery::Tries;
use crate::domain::verdict::{Gone, Lost, Status, Verdict, Verdicts, WayBack};

/// Whether an intent brings something back instead of taking it away.
pub(super) fn is_recovery(intent: &Intent) -> bool {
    matches!(intent, Intent::Recreate(_) | Intent::Undo(_) | Intent::Heal(_))
}

/// What would be done about a container that is here.
pub(super) fn here(
    verdict: &Verdict,
    container: &Container,
    lost: &[Lost],
    intent: &Intent,
    now: Timestamp,
) -> (Action, Reason) {
    let missed = lost.iter().find(|lost| lost.id.as_ref() == Some(&container.id));
    match intent {
        Intent::Heal(_) => {
            let way_back = |lost: &&Lost| matches!(lost.way_back, WayBack::Start | WayBack::Restore);
            let Some(missed) = missed.filter(way_back).filter(|lost| lost.heals) else {
                return (Action::Keep, Reason::NotLost);
            };
            if let Some(reason) = not_yet(&missed.tries, now) {
                return (Action::Keep, reason);
            }
            let action = if verdict.quarantine.is_some() { Action::Restore } else { Action::Start };
            return (action, Reason::Missed(verdict.claims.live.max(1)));
        }
        Intent::Undo(_) if verdict.quarantine.is_none() => return (Action::Keep, Reason::NothingToUndo),
        _ => {}
    }
    if verdict.quarantine.is_some() {
        return (Action::Restore, Reason::Asked);
    }
    if container.state.holds_processes() {
        return (Action::Keep, Reason::NotLost);
    }
    (Action::Start, Reason::Asked)
}

/// Items for the remembered containers that an intent speaks of.
pub(super) fn gone(verdicts: &Verdicts, intent: &Intent, now: Timestamp) -> Vec<Item> {
    let (Intent::Recreate(targets) | Intent::Undo(targets) | Intent::Heal(targets)) = intent else {
        return Vec::new();
    };
    let asked = |gone: &&Gone| targets.ids.contains(&gone.remembered.container.id);
    verdicts.gone.iter().filter(asked).map(|gone| item(gone, intent, now)).collect()
}

fn item(gone: &Gone, intent: &Intent, now: Timestamp) -> Item {
    let remembered = &gone.remembered;
    let (action, reason) = decide(gone, intent, now);
    Item {
        id: Some(remembered.container.id.clone()),
        name: remembered.container.name.clone(),
        system: Some(remembered.system.clone()),
        workspace: remembered.workspace.clone(),
        status: Status::Lost,
        state: None,
        started_at: None,
        binds: binds_of(&remembered.container),
        shown: Shown::default(),
        action,
        reason,
    }
}

fn decide(gone: &Gone, intent: &Intent, now: Timestamp) -> (Action, Reason) {
    let remembered = &gone.remembered;
    let keep = |reason| (Action::Keep, reason);
    if !remembered.persistent {
        return keep(Reason::NotPersistent);
    }
    if !remembered.has_spec {
        return keep(Reason::NotRecorded);
    }
    match intent {
        Intent::Undo(_) if remembered.removed.is_none() => keep(Reason::NothingToUndo),
        Intent::Undo(_) => (Action::Recreate, Reason::Undone),
        // What somebody removed on purpose stays away until somebody asks for it.
        Intent::Heal(_) if gone.live == 0 || !gone.heals || remembered.removed.is_some() => {
            keep(Reason::NotLost)
        }
        Intent::Heal(_) => match not_yet(&remembered.tries, now) {
            Some(reason) => keep(reason),
            None => (Action::Recreate, Reason::Missed(gone.live)),
        },
        _ if gone.live > 0 => (Action::Recreate, Reason::Missed(gone.live)),
        _ => (Action::Recreate, Reason::Asked),
    }
}

/// Why it is not tried again now.
pub(super) fn not_yet(tries: &Tries, now: Timestamp) -> Option<Reason> {
    if tries.given_up() {
        return Some(Reason::GivenUp { tries: tries.failed, reason: tries.reason.clone() });
    }
    tries.pause(now).map(Reason::TriedJustNow)
}

/// The lost containers that may be brought back without anybody asking, whether or not it is time to.
pub fn to_heal(verdicts: &Verdicts) -> HashSet<ContainerId> {
    let possible =
        |lost: &&Lost| matches!(lost.way_back, WayBack::Start | WayBack::Restore | WayBack::Recreate);
    let lost = verdicts.lost.iter().filter(|lost| lost.heals).filter(possible);
    lost.filter_map(|lost| lost.id.clone()).collect()
}

/// What the keeper removed or put aside last, all of one plan, as far as it can be taken back.
pub fn last_removed(verdicts: &Verdicts) -> HashSet<ContainerId> {
    /// What one plan puts aside, one after the other.
    const APART: jiff::SignedDuration = jiff::SignedDuration::from_secs(60);
    let removed = verdicts.gone.iter().filter(|gone| gone.remembered.has_spec);
    let removed = removed.filter_map(|gone| {
        let (at, _) = gone.remembered.removed.as_ref()?;
        Some((*at, gone.remembered.container.id.clone(), true))
    });
    let aside = verdicts.containers.iter().filter_map(|verdict| {
        Some((verdict.quarantine.as_ref()?.since, verdict.subject.id()?.clone(), false))
    });
    let all: Vec<(Timestamp, ContainerId, bool)> = removed.chain(aside).collect();
    let Some((last, _, gone)) = all.iter().max_by_key(|(at, ..)| *at).cloned() else { return HashSet::new() };
    // All that one plan removed bears the same time.
    let same = |at: Timestamp| if gone { at == last } else { last.duration_since(at) < APART };
    all.into_iter().filter(|(at, _, removed)| *removed == gone && same(*at)).map(|(_, id, _)| id).collect()
}
