//! A crowd for the stage: as many more containers as are asked for, in the proportions of a host that nobody cleaned.

use std::time::Duration;

use super::script::{Part, SessionPart, SessionState};
use crate::engine::sim::Dice;

const PLACES: [&str; 24] = [
    "amber", "birch", "cedar", "delta", "ember", "fjord", "grove", "harbor", "inlet", "juniper", "kestrel",
    "lagoon", "meadow", "nimbus", "opal", "prairie", "quarry", "ridge", "summit", "tundra", "umber",
    "valley", "willow", "zephyr",
];
const WORKS: [&str; 12] = [
    "api",
    "app",
    "billing",
    "checkout",
    "dashboard",
    "docs",
    "importer",
    "mailer",
    "pipeline",
    "search",
    "site",
    "worker",
];
const TASKS: [&str; 12] = [
    "Add a test for",
    "Clean up",
    "Document",
    "Explain",
    "Find the leak in",
    "Fix the build of",
    "Migrate",
    "Port",
    "Profile",
    "Refactor",
    "Review",
    "Speed up",
];

/// One of the crowd's workspaces.
fn workspace(dice: &mut Dice) -> String {
    format!("{}-{}", dice.pick(&PLACES).unwrap_or(&"amber"), dice.pick(&WORKS).unwrap_or(&"api"))
}

/// A title for a session in a workspace.
pub(super) fn title(workspace: &str, dice: &mut Dice) -> String {
    format!("{} {workspace}", dice.pick(&TASKS).unwrap_or(&"Review"))
}

/// So many containers. Few of them run: most of what is left behind is quiet.
pub(super) fn parts(count: usize, dice: &mut Dice) -> Vec<Part> {
    (0..count).map(|number| part(number, dice)).collect()
}

fn part(number: usize, dice: &mut Dice) -> Part {
    let place = workspace(dice);
    let mut part = Part::plain("native", &format!("atelier-{place}-{number}"));
    part.workspace = Some(place.clone());
    part.age = Duration::from_mins(90 + u64::try_from(dice.below(30 * 24 * 60)).unwrap_or_default());
    let id = format!("crowd-{number}");
    let quiet = Duration::from_mins(5 + u64::try_from(dice.below(20 * 60)).unwrap_or_default()).min(part.age);
    let title = title(&place, dice);
    let session = |state, quiet| SessionPart {
        id: id.clone(),
        title: title.clone(),
        state,
        age: quiet + Duration::from_mins(20),
        quiet,
    };
    let exited = |part: &mut Part| "exited".clone_into(&mut part.state);
    match dice.below(100) {
        // At work.
        0..3 => part.sessions.push(session(SessionState::Live, Duration::from_secs(20))),
        // Between two turns.
        3..5 => part.sessions.push(session(SessionState::Idle, quiet)),
        // Nobody knows it any more, and it runs.
        5 => {}
        // Put to sleep with its session.
        6..58 => {
            exited(&mut part);
            part.sessions.push(session(SessionState::Idle, quiet));
        }
        // Made by an earlier version.
        58..76 => {
            exited(&mut part);
            part.hash = Some("81b3a06c55fe".to_owned());
            part.sessions.push(session(SessionState::Ended, quiet));
        }
        // Its work is done.
        76..86 => {
            exited(&mut part);
            part.persistent = Some(false);
            part.sessions.push(session(SessionState::Ended, quiet));
        }
        // Left behind.
        86..97 => exited(&mut part),
        _ => "created".clone_into(&mut part.state),
    }
    part
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crowd_is_as_large_as_asked_for_and_mostly_quiet() {
        let crowd = parts(2000, &mut Dice::new(7));
        assert_eq!(crowd.len(), 2000);
        let running = crowd.iter().filter(|part| part.state == "running").count();
        assert!((40..300).contains(&running), "{running} of 2000 run");
        let orphans = crowd.iter().filter(|part| part.sessions.is_empty()).count();
        assert!(orphans * 3 < crowd.len(), "{orphans} orphans would pull the brake");
    }
}
