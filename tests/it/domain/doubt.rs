//! What cannot be read must not make something else look free: an installation hidden by a failing image, a container
//! under another name, a database that belongs to somebody else, a store in which nearly everything is missing.

use std::collections::HashMap;
use std::sync::Arc;

use crate::facts::profiles::storeless;
use crate::facts::{Facts, bare, parachute, sandbox, session};
use rstest::rstest;
use rusqlite::Connection;
use sandkeeper::domain::plan::{Action, Intent, Reconcile};
use sandkeeper::domain::snapshot::ImageFact;
use sandkeeper::domain::verdict::Brake;
use sandkeeper::domain::{Profile, Session, Status, SystemName};
use sandkeeper::environment::Environment;
use sandkeeper::profiles::Library;
use sandkeeper::sessions::{Limits, NamedStore, StoreSet};

#[test]
fn an_image_that_cannot_be_asked_does_not_hide_another_installation() {
    let failed = ImageFact::Failed("the engine answered 500".to_owned());
    let facts = Facts::native()
        .container(sandbox("a").instance("ours").state("exited"))
        .container(sandbox("b").instance("theirs").image(failed));
    facts.finds("a", Status::Unknown).because("several instances");
    facts.finds("b", Status::Unknown);
}

#[test]
fn a_newer_container_in_doubt_leaves_the_current_config_undecided() {
    let gone = ImageFact::Gone;
    let facts = Facts::parachute()
        .container(parachute("parachute-ws-old", "aaaa").created_ago("3d"))
        .container(parachute("parachute-ws-mid", "bbbb").created_ago("2d"))
        .container(parachute("parachute-ws-new", "cccc").created_ago("1d").image(gone));
    facts.finds("parachute-ws-old", Status::Orphaned).outdated(false);
    facts.finds("parachute-ws-mid", Status::Orphaned).outdated(false);
}

#[test]
fn a_live_session_whose_container_goes_by_another_name_keeps_bulk_from_its_workspace() {
    let facts = Facts::native()
        .container(sandbox("renamed").workspace("atlas").hash("old").created_ago("2d"))
        .container(sandbox("other").workspace("borealis").hash("old").created_ago("2d"))
        .container(sandbox("newest").workspace("borealis").hash("new").created_ago("1d"))
        .session(session("s1").workspace("atlas").uses("box").live());
    facts.finds("renamed", Status::Stale);
    assert_eq!(facts.verdicts().lost.len(), 1, "what it asks for is missing");
    let bulk = Intent::Reconcile(Reconcile { include_running_orphans: true, ..Reconcile::default() });
    let kept = facts.planned(&bulk, "renamed");
    assert_eq!(kept.action, Action::Keep);
    assert!(kept.reason.to_string().contains("session s1"), "{}", kept.reason);
    assert_eq!(facts.planned(&bulk, "other").action, Action::StopAndRemove);
}

#[test]
fn two_stores_that_claim_a_container_are_named_whoever_else_does() {
    let mut facts = Facts::native();
    let mut profile = Profile::clone(&facts.last_system().profile);
    let mut other = profile.stores[0].clone();
    other.serves = vec![regex_lite::Regex::new("^elsewhere-.*$").unwrap()];
    profile.stores.push(other);
    facts.last_system().profile = Arc::new(profile);
    let claim = || session("s1").workspace("atlas").uses("box");
    let mut facts = facts
        .container(sandbox("box").workspace("atlas"))
        .session(claim())
        .store("/second.db")
        .session(claim())
        .store("/of-other-containers.db")
        .session(claim());
    facts.last_store().rule = 1;
    facts
        .finds("box", Status::Unknown)
        .because("claimed by sessions of several stores")
        .because("/second.db");
}

#[test]
fn a_session_in_its_own_container_protects_no_other_of_its_workspace() {
    let facts = Facts::native()
        .container(sandbox("used").workspace("atlas"))
        .container(sandbox("spare").workspace("atlas"))
        .session(session("s1").workspace("atlas").uses("used").live());
    facts.finds("used", Status::Active);
    facts.finds("spare", Status::Orphaned);
}

#[test]
fn the_brake_counts_outdated_containers_whatever_else_the_database_knows() {
    let outdated = |facts: Facts| {
        (0..8).fold(facts, |facts, n| {
            facts.container(sandbox(&format!("box-{n}")).hash("old").created_ago("9d"))
        })
    };
    let foreign = outdated(Facts::native().container(sandbox("newest").hash("new").created_ago("1d")))
        .session(session("s1").workspace("elsewhere").uses("elsewhere").ended_ago("1h"));
    assert_eq!(foreign.verdicts().brakes.len(), 1);
    let known = outdated(Facts::native().container(sandbox("newest").hash("new").created_ago("1d")))
        .session(session("s1").uses("newest").live());
    assert_eq!(
        known.verdicts().brakes.len(),
        1,
        "one session of ours does not make the newest config the right one"
    );
}

/// Reads a Parachute database with these rows of (id, workspace, trust level) through the profile that ships.
fn parachute_sessions(rows: &[(&str, Option<&str>, Option<&str>)]) -> HashMap<String, Session> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("sessions.db");
    let database = Connection::open(&path).unwrap();
    let columns = "id, title, created_at, last_accessed, archived INTEGER, workspace_id, trust_level";
    database.execute(&format!("CREATE TABLE sessions ({columns})"), []).unwrap();
    for (id, workspace, trust) in rows {
        let time = "2026-02-22T10:00:00.000000+00:00";
        database
            .execute("INSERT INTO sessions VALUES (?1, '', ?2, ?2, 0, ?3, ?4)", (id, time, workspace, trust))
            .unwrap();
    }
    let library = Library::load(None);
    let profile = &library.find("parachute").unwrap().profile;
    let named = vec![NamedStore { path, others: Vec::new() }];
    let facts = StoreSet::new(profile, named, None, &Environment::default(), Limits::default()).read();
    assert_eq!(facts[0].sessions.fault, None);
    facts[0].sessions.value.iter().map(|session| (session.id.clone(), (**session).clone())).collect()
}

#[test]
fn parachute_sessions_of_an_unknown_trust_level_claim_the_default_container() {
    let sessions = parachute_sessions(&[
        ("known", None, Some("sandboxed")),
        ("unset", None, None),
        ("future", None, Some("Sandboxed")),
        ("blank", Some(""), Some("sandboxed")),
        ("outside", None, Some("direct")),
        ("placed", Some("atlas"), Some("sandboxed")),
    ]);
    let workspace = |id: &str| sessions[id].workspace.as_deref();
    for id in ["known", "unset", "future", "blank"] {
        assert_eq!(workspace(id), Some("default"), "{id}");
    }
    assert_eq!(workspace("outside"), None);
    assert_eq!(workspace("placed"), Some("atlas"));
    assert_eq!(sessions["blank"].container.as_deref(), Some("parachute-default"));
    assert_eq!(sessions["placed"].container.as_deref(), Some("parachute-ws-atlas"));
}

// The brake.

#[rstest]
#[case::more_than_five_and_more_than_half(6, 5, true)]
#[case::five_are_never_a_mass(5, 0, false)]
#[case::half_is_not_more_than_half(6, 6, false)]
fn the_brake_acts_when_most_of_a_system_has_no_session(
    #[case] orphans: usize,
    #[case] claimed: usize,
    #[case] acts: bool,
) {
    let facts = fleet(orphans, claimed);
    let brake = Brake { system: SystemName::new("native"), leaving: orphans, total: orphans + claimed };
    assert_eq!(facts.verdicts().brakes, if acts { vec![brake] } else { Vec::new() });
}

#[test]
fn the_brake_does_not_act_for_a_system_without_a_store() {
    let mut facts = Facts::new().system(storeless());
    for number in 0..20 {
        facts = facts.container(bare(&format!("scan{number}")).label("kojuto.scan", "true").state("exited"));
    }
    assert_eq!(facts.verdicts().count(Status::Orphaned), 20);
    assert_eq!(facts.verdicts().brakes, []);
}

#[test]
fn containers_outdated_by_an_upgrade_count_for_the_brake() {
    let mut facts = Facts::native().container(sandbox("new").hash("h2").created_ago("1h"));
    for number in 0..8 {
        facts = facts.container(sandbox(&format!("old{number}")).hash("h1").created_ago("3d"));
    }
    let brakes = facts.verdicts().brakes;
    assert_eq!(brakes.iter().map(|brake| brake.leaving).collect::<Vec<_>>(), [9]);
    let used = facts.session(session("s1").uses("new"));
    assert_eq!(used.verdicts().count(Status::Stale), 8);
    let brakes = used.verdicts().brakes;
    assert_eq!(
        brakes.iter().map(|brake| brake.leaving).collect::<Vec<_>>(),
        [8],
        "who has upgraded says so by naming the number"
    );
}

/// So many native containers without a session, and so many with one.
fn fleet(orphans: usize, claimed: usize) -> Facts {
    let mut facts = Facts::native();
    for number in 0..orphans {
        facts = facts.container(sandbox(&format!("orphan{number}")).state("exited"));
    }
    for number in 0..claimed {
        let name = format!("used{number}");
        facts = facts.container(sandbox(&name)).session(session(&name).uses(&name).live());
    }
    facts
}
