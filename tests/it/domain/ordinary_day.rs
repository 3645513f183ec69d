//! An ordinary day, in simulated time: what should go goes, and nothing else does. Doubt must not make the tool useless.

use std::collections::BTreeSet;
use std::sync::Arc;

use sandkeeper::domain::container::Row;
use sandkeeper::domain::plan::{Action, Reconcile};
use sandkeeper::domain::session::Moment;
use sandkeeper::domain::{Intent, SystemName};

use crate::facts::profiles::native;
use crate::facts::*;

/// One sandbox and what happens in it, in minutes since the day began.
struct Story {
    name: String,
    system: usize,
    made: u64,
    /// Its session is active until then, then it ends; `None` if it never ends.
    ends: Option<u64>,
    persistent: bool,
}

const SYSTEMS: usize = 3;
/// The one whose rows are deleted when a session ends.
const DELETES: usize = 1;
const QUARTER: u64 = 15;
const DAY: u64 = 24 * 60;
/// The machine sleeps in the night, for six hours.
const SLEEP: std::ops::Range<u64> = 120..480;

fn stories() -> Vec<Story> {
    (0..30)
        .map(|number: u64| Story {
            name: format!("box{number}"),
            system: usize::try_from(number).unwrap() % SYSTEMS,
            made: if number < 10 { 0 } else { (number * 37) % 700 },
            ends: (!number.is_multiple_of(5)).then_some(600 + (number * 53) % 600),
            persistent: number.is_multiple_of(2),
        })
        .collect()
}

#[test]
fn what_should_go_goes_and_nothing_else_does() {
    let stories = stories();
    let intent = Intent::Reconcile(Reconcile { include_running_orphans: false, ..Reconcile::default() });
    let mut facts = Facts::new();
    for system in 0..SYSTEMS {
        let mut profile = native();
        profile.name = SystemName::new(&format!("system{system}"));
        profile.recognition.labels = [("system".to_owned(), system.to_string())].into();
        profile.ends_by_deleting = system == DELETES;
        facts = facts.system(profile).unknown_store();
    }
    let mut gone: BTreeSet<String> = BTreeSet::new();
    let mut early = Vec::new();
    for minute in (0..DAY).step_by(usize::try_from(QUARTER).unwrap()).filter(|minute| !SLEEP.contains(minute))
    {
        let now = NOW + std::time::Duration::from_secs(minute * 60);
        let at = |minute: u64| NOW + std::time::Duration::from_secs(minute * 60);
        facts.now = now;
        facts.snapshot.engine.at = Some(now);
        if minute >= SLEEP.end {
            facts.snapshot.awake.slept = vec![sandkeeper::domain::awake::Sleep {
                until: at(SLEEP.end),
                length: std::time::Duration::from_secs((SLEEP.end - SLEEP.start) * 60),
            }];
        }
        let here: Vec<&Story> =
            stories.iter().filter(|story| story.made <= minute && !gone.contains(&story.name)).collect();
        let rows = here.iter().map(|story| {
            let ended = story.ends.is_some_and(|ends| minute >= ends);
            let sandbox = bare(&story.name)
                .label("system", &story.system.to_string())
                .label("sandkeeper.persistent", &story.persistent.to_string())
                .label("sandkeeper.lifetime", "1h")
                .created_at(at(story.made))
                // Whoever ends a session in the system that deletes its rows stops the sandbox, too.
                .state(if ended && story.system == DELETES { "exited" } else { "running" });
            Row::Container(Arc::new(sandbox.container))
        });
        facts.snapshot.engine.value = Arc::new(rows.collect());
        for (place, system) in facts.snapshot.systems.iter_mut().enumerate() {
            let of_system = stories.iter().filter(|story| story.system == place && story.made <= minute);
            let rows = of_system.filter_map(|story| {
                let ended = story.ends.filter(|ends| minute >= *ends);
                if ended.is_some() && place == DELETES {
                    return None;
                }
                let row = session(&format!("s-{}", story.name)).uses(&story.name);
                let row = row.started(Moment::At(at(story.made)));
                Some(Arc::new(match ended {
                    Some(ends) => row.active(Moment::At(at(ends))).ended(Moment::At(at(ends))).0,
                    // Between its turns a session is quiet for up to half an hour.
                    None => row.active(Moment::At(at(minute.saturating_sub(minute % 30)))).0,
                }))
            });
            // A gateway that restarts, a VACUUM and a file that is replaced with every write change nothing that is said.
            let store = &mut system.stores[0];
            store.sessions.value = Arc::new(rows.collect());
            store.sessions.at = Some(now);
        }
        facts = facts.remembered();
        for item in facts.plan(&intent).into_items() {
            if item.action == Action::Keep {
                continue;
            }
            let story = stories.iter().find(|story| story.name == item.name).unwrap();
            if story.ends.is_none_or(|ends| minute < ends) {
                early.push(format!("{} at minute {minute}: {}", item.name, item.reason));
            }
            gone.insert(item.name);
        }
    }
    assert_eq!(early, Vec::<String>::new(), "went while their sessions were open");
    let left: Vec<&str> = stories
        .iter()
        .filter(|story| !gone.contains(&story.name))
        // A persistent one may be quiet for its lifetime after its session ended.
        .filter(|story| story.ends.is_some_and(|ends| ends + 60 + QUARTER * 2 < DAY))
        .map(|story| story.name.as_str())
        .collect();
    assert_eq!(left, Vec::<&str>::new(), "their sessions ended long ago");
    assert!(gone.len() >= 20, "{gone:?}");
}
