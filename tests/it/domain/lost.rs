//! A session is lost when it needs a container that is gone, and only if that is certain.

use crate::facts::profiles::native;
use crate::facts::{Facts, ago, bare, id_of, sandbox, session};
use rstest::rstest;
use sandkeeper::domain::Status;
use sandkeeper::domain::container::UnreadableRow;
use sandkeeper::domain::plan::{Action, Intent, Reconcile};
use sandkeeper::domain::profile::LostRule;
use sandkeeper::domain::session::Moment;

#[test]
fn an_open_session_whose_container_is_gone_is_lost() {
    let facts = Facts::native()
        .session(session("s1").uses("gone").workspace("atlas").title("Refactor").live())
        .session(session("s2").uses("gone").workspace("atlas").active_ago("3h"))
        .session(session("s3").uses("gone").ended_ago("3h"));
    let lost = facts.verdicts().lost;
    let sessions: Vec<&str> = lost.iter().map(|lost| lost.session.as_str()).collect();
    assert_eq!(sessions, ["s1", "s2"], "a session that has ended needs nothing");
    assert_eq!((lost[0].container.as_str(), lost[0].workspace.as_deref()), ("gone", Some("atlas")));
    assert_eq!(lost[0].evidence[0].to_string(), "it needs container gone, which is not there");
    assert_eq!(lost[1].evidence[1].to_string(), "it has not ended; last activity 1h ago");
    assert_eq!(facts.verdicts().count(Status::Lost), 2);
}

#[test]
fn a_quiet_session_is_lost_only_where_the_profile_counts_open_sessions() {
    let facts = Facts::parachute()
        .session(session("s1").workspace("gone").declared(None).active_ago("1m"))
        .session(session("s2").workspace("gone").declared(None).active_ago("3h"));
    let lost = facts.verdicts().lost;
    assert_eq!(lost.len(), 1, "{lost:#?}");
    assert_eq!((lost[0].session.as_str(), lost[0].container.as_str()), ("s1", "parachute-ws-gone"));
}

#[test]
fn a_workspace_without_a_container_is_not_a_lost_session() {
    let facts = Facts::native().session(session("s1").workspace("atlas").live());
    assert_eq!(native().links[2].lost, LostRule::Never);
    assert_eq!(facts.verdicts().lost, []);
}

#[test]
fn a_session_found_through_another_link_is_not_lost() {
    let facts = Facts::native()
        .container(sandbox("renamed").label("sandkeeper.session", "s1"))
        .session(session("s1").uses("old-name").live());
    facts.finds("renamed", Status::Active);
    assert_eq!(facts.verdicts().lost, []);
}

#[rstest]
#[case::while_it_is_live(session("s1").live(), Action::Keep)]
#[case::while_nobody_can_tell(session("s1").declared(None), Action::Keep)]
#[case::while_it_is_open(session("s1").active_ago("23h"), Action::Keep)]
#[case::not_when_it_was_forgotten(session("s1").started(Moment::At(ago("30h"))).active_ago("25h"), Action::StopAndRemove)]
#[case::not_when_it_has_ended(session("s1").ended_ago("1h"), Action::StopAndRemove)]
fn a_session_whose_container_is_gone_keeps_bulk_from_the_others_of_its_workspace(
    #[case] row: crate::facts::SessionRow,
    #[case] action: Action,
) {
    let facts = Facts::native().container(sandbox("renamed").workspace("atlas"));
    let facts = facts.session(row.uses("old-name").workspace("atlas"));
    facts.finds("renamed", Status::Orphaned);
    let bulk = Intent::Reconcile(Reconcile { include_running_orphans: true, ..Reconcile::default() });
    assert_eq!(facts.planned(&bulk, "renamed").action, action);
}

#[test]
fn a_session_whose_container_is_there_under_another_owner_is_not_lost() {
    let facts = Facts::native().container(bare("box")).session(session("s1").uses("box").live());
    assert_eq!(facts.verdicts().lost, []);
}

#[rstest]
#[case::the_engine_failed(Facts::native().engine_fault("timed out"))]
#[case::the_list_is_old(Facts::native().engine_read_at(ago("2m")))]
#[case::a_row_has_no_name(Facts::native().unreadable_row(UnreadableRow { name: None, ..unreadable("box") }))]
#[case::a_row_has_no_id(Facts::native().unreadable_row(UnreadableRow { id: None, ..unreadable("other") }))]
#[case::a_container_has_no_name(Facts::native().container(bare("box").nameless()))]
#[case::a_row_of_that_name_cannot_be_read(Facts::native().unreadable_row(unreadable("box")))]
#[case::the_store_failed(Facts::native().store_fault("database is locked"))]
fn a_session_is_not_lost_while_its_container_may_be_there(#[case] facts: Facts) {
    let facts = facts.session(session("s1").uses("box").live());
    assert_eq!(facts.verdicts().lost, []);
}

/// A row of which only the labels and the rest could not be read.
fn unreadable(name: &str) -> UnreadableRow {
    UnreadableRow {
        id: Some(id_of(name)),
        name: Some(name.to_owned()),
        labels: None,
        problem: "created at noon".to_owned(),
    }
}
