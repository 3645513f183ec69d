//! What is remembered of a container between two looks, and what never is.

use std::fs;
use std::path::Path;

use crate::support::rows::id_of;
use jiff::{SignedDuration, Timestamp};
use sandkeeper::domain::{ContainerId, Status};
use sandkeeper::state::{ItemRecord, PlanRecord, Seen, State, Step};

const HOST: &str = "unix:///run/engine.sock";

fn id(name: &str) -> ContainerId {
    ContainerId::parse(&id_of(name)).unwrap()
}

fn seen(name: &str, status: Option<Status>) -> Seen {
    Seen { id: id(name), name: name.to_owned(), status, reason: format!("{name} is {status:?}") }
}

fn moment(hours: i64) -> Timestamp {
    "2024-05-06T07:08:09.123456Z".parse::<Timestamp>().unwrap() + SignedDuration::from_hours(hours)
}

fn history(state: &State, name: &str) -> Vec<(Timestamp, Option<Status>)> {
    state.history_of(HOST, &id(name)).unwrap().into_iter().map(|change| (change.at, change.status)).collect()
}

fn open() -> (tempfile::TempDir, State) {
    let folder = tempfile::tempdir().unwrap();
    let state = State::open(&folder.path().join("sandkeeper")).unwrap();
    (folder, state)
}

#[test]
fn only_what_changed_is_written_down() {
    let (folder, mut state) = open();
    for (hour, status) in
        [Status::Active, Status::Active, Status::Idle, Status::Active].into_iter().enumerate()
    {
        let seen = [seen("atlas", Some(status)), seen("borealis", Some(Status::Idle))];
        state.record_changes(HOST, moment(i64::try_from(hour).unwrap()), &seen).unwrap();
    }
    let expected = [(0, Status::Active), (2, Status::Idle), (3, Status::Active)]
        .map(|(hour, status)| (moment(hour), Some(status)));
    assert_eq!(history(&state, "atlas"), expected);
    assert_eq!(history(&state, "borealis"), [(moment(0), Some(Status::Idle))]);
    let reason = &state.history_of(HOST, &id("borealis")).unwrap()[0].reason;
    assert_eq!(reason, "borealis is Some(Idle)");
    assert_eq!(state.history_of("tcp://elsewhere:1", &id("atlas")).unwrap(), []);
    drop(state);
    let reader = State::open_to_read(&folder.path().join("sandkeeper")).unwrap().unwrap();
    assert_eq!(history(&reader, "atlas"), expected);
}

#[test]
fn what_has_gone_is_no_longer_among_the_last_statuses() {
    let (_folder, mut state) = open();
    let both = [seen("atlas", Some(Status::Active)), seen("borealis", Some(Status::Stale))];
    state.record_changes(HOST, moment(0), &both).unwrap();
    state.record_changes(HOST, moment(1), &[seen("borealis", None), seen("never-seen", None)]).unwrap();
    assert_eq!(state.last_statuses(HOST).unwrap(), [(id("atlas"), Status::Active)]);
    assert_eq!(history(&state, "borealis"), [(moment(0), Some(Status::Stale)), (moment(1), None)]);
    assert_eq!(history(&state, "never-seen"), []);
}

#[test]
fn the_last_look_is_remembered_by_host() {
    let (_folder, mut state) = open();
    assert_eq!(state.last_look(HOST).unwrap(), None);
    state.set_last_look(HOST, moment(1)).unwrap();
    state.set_last_look(HOST, moment(2)).unwrap();
    assert_eq!(state.last_look(HOST).unwrap(), Some(moment(2)));
    assert_eq!(state.last_look("tcp://elsewhere:1").unwrap(), None);
}

#[test]
fn the_past_is_bounded() {
    let (_folder, mut state) = open();
    state.record_changes(HOST, moment(0), &[seen("steady", Some(Status::Active))]).unwrap();
    state.record_changes(HOST, moment(0), &[seen("gone", Some(Status::Active))]).unwrap();
    state.record_changes(HOST, moment(1), &[seen("gone", None)]).unwrap();
    for turn in 0..230 {
        let status = if turn % 2 == 0 { Status::Active } else { Status::Idle };
        state.record_changes(HOST, moment(2), &[seen("restless", Some(status))]).unwrap();
    }
    assert_eq!(history(&state, "restless").len(), 200);
    // A month later.
    state.record_changes(HOST, moment(31 * 24), &[seen("steady", Some(Status::Active))]).unwrap();
    assert_eq!(
        history(&state, "steady"),
        [(moment(0), Some(Status::Active))],
        "what it is now is still known"
    );
    assert_eq!(history(&state, "gone"), []);
    assert_eq!(history(&state, "restless").len(), 1);
    // A year later.
    state.record_changes(HOST, moment(366 * 24), &[]).unwrap();
    assert_eq!(state.last_statuses(HOST).unwrap(), []);
}

#[test]
fn what_was_done_to_a_container_is_in_the_journal() {
    let (_folder, mut state) = open();
    let plan = PlanRecord { host: HOST.to_owned(), who: "ada".to_owned(), intent: "reconcile".to_owned() };
    let item = |name: &str| ItemRecord {
        container: id_of(name),
        name: name.to_owned(),
        system: None,
        workspace: None,
        status: "stale".to_owned(),
        action: "remove".to_owned(),
        reason: "quiet".to_owned(),
        started_at: None,
    };
    let numbers = state.begin(&plan, &[item("atlas"), item("borealis"), item("cygnus")]).unwrap();
    let steps = [
        (numbers[0], Step::Removing, String::new()),
        (numbers[0], Step::Outcome, "removed: quiet".to_owned()),
        (numbers[1], Step::Stopping, String::new()),
    ];
    state.write_steps(&steps).unwrap();
    let outcome = |name: &str| {
        let actions = state.actions_on(HOST, &id(name)).unwrap();
        assert_eq!(actions.len(), 1);
        assert_eq!((actions[0].who.as_str(), actions[0].action.as_str()), ("ada", "remove"));
        actions[0].outcome.clone()
    };
    assert_eq!(outcome("atlas"), "removed: quiet");
    assert_eq!(outcome("borealis"), "stopping, and no more is known");
    assert_eq!(outcome("cygnus"), "nothing more is known");
    assert_eq!(state.actions_on("tcp://elsewhere:1", &id("atlas")).unwrap(), []);
}

/// Takes the state back to what the first version wrote.
fn make_old(folder: &Path) {
    let database = rusqlite::Connection::open(folder.join("state.db")).unwrap();
    database.execute_batch("DROP TABLE changes; DROP TABLE looks; DROP TABLE specs; DROP TABLE quarantines; DROP TABLE comebacks; DROP TABLE stores; DROP TABLE claims; DROP TABLE clock; DROP TABLE sleeps; PRAGMA user_version = 1;").unwrap();
}

#[test]
fn the_state_of_an_older_version_is_read_as_it_is_and_brought_up_to_date_by_a_writer() {
    let (folder, state) = open();
    let folder = folder.path().join("sandkeeper");
    drop(state);
    make_old(&folder);
    let before = fs::read(folder.join("state.db")).unwrap();
    let reader = State::open_to_read(&folder).unwrap().unwrap();
    assert_eq!(history(&reader, "atlas"), []);
    assert_eq!(reader.last_look(HOST).unwrap(), None);
    assert_eq!(reader.last_statuses(HOST).unwrap(), []);
    assert_eq!(fs::read(folder.join("state.db")).unwrap(), before);
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 1, "nothing is left beside it");
    let mut writer = State::open(&folder).unwrap();
    writer.record_changes(HOST, moment(0), &[seen("atlas", Some(Status::Lost))]).unwrap();
    assert_eq!(history(&writer, "atlas").len(), 1);
    assert_eq!(history(&reader, "atlas").len(), 1, "who has it open sees it");
}

#[test]
fn two_dashboards_write_one_change_once() {
    let (folder, mut one) = open();
    let mut other = State::open(&folder.path().join("sandkeeper")).unwrap();
    for state in [&mut one, &mut other] {
        state.record_changes(HOST, moment(0), &[seen("atlas", Some(Status::Active))]).unwrap();
    }
    assert_eq!(history(&one, "atlas").len(), 1);
}
