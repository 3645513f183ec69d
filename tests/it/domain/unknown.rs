//! Whenever the evidence is missing or contradicts itself the verdict is `unknown`, with the reason. Unavailable
//! is never read as absent.

use crate::facts::profiles::{native, parachute_like, storeless};
use crate::facts::{Facts, NOW, Sandbox, ago, ahead, bare, id_of, parachute, sandbox, session};
use rstest::rstest;
use sandkeeper::domain::container::UnreadableRow;
use sandkeeper::domain::profile::Recognition;
use sandkeeper::domain::session::Moment;
use sandkeeper::domain::snapshot::{ImageFact, Unusable};
use sandkeeper::domain::{Profile, Status, SystemName};

// The session store.

#[test]
fn a_store_that_cannot_be_read_makes_its_containers_unknown() {
    let facts = Facts::native()
        .container(sandbox("unclaimed").state("exited"))
        .container(sandbox("claimed").persistent(false))
        .container(sandbox("outdated").image_moved())
        .session(session("s1").uses("claimed").ended_ago("3d"))
        .store_fault("file is not a database");
    for name in ["unclaimed", "claimed", "outdated"] {
        facts.finds(name, Status::Unknown).because("/data/native.db").because("file is not a database");
    }
    assert_eq!(facts.verdicts().brakes, []);
}

#[test]
fn a_store_that_was_never_read_makes_its_containers_unknown() {
    Facts::native()
        .container(sandbox("box"))
        .store_never_read()
        .finds("box", Status::Unknown)
        .because("not read yet");
}

#[test]
fn a_system_whose_store_was_not_found_is_unknown() {
    let facts = Facts::native().without_stores().container(sandbox("box").state("exited"));
    facts.finds("box", Status::Unknown).because("/data/native.db").because("no session store was found");
}

#[test]
fn one_unreadable_store_of_several_is_enough_for_doubt() {
    let facts = Facts::native()
        .container(sandbox("used"))
        .container(sandbox("unclaimed"))
        .session(session("s1").uses("used").live())
        .store("/data/second.db")
        .store_fault("database is locked");
    facts.finds("used", Status::Active);
    facts.finds("unclaimed", Status::Unknown).because("/data/second.db").because("database is locked");
}

#[test]
fn one_systems_store_casts_no_doubt_on_another_system() {
    let facts = Facts::native()
        .store_fault("database is locked")
        .system(storeless())
        .container(sandbox("ours"))
        .container(bare("scan").label("kojuto.scan", "true"));
    facts.finds("ours", Status::Unknown);
    facts.finds("scan", Status::Orphaned);
}

#[test]
fn sessions_that_were_read_long_ago_prove_nothing() {
    let facts = Facts::native().container(sandbox("box"));
    facts.clone().store_read_at(ago("30s")).finds("box", Status::Orphaned);
    facts
        .clone()
        .store_read_at(ago("31s"))
        .finds("box", Status::Unknown)
        .because("/data/native.db are 31s away");
    facts.store_read_at(ahead("1h")).finds("box", Status::Unknown).because("1h away from now");
}

#[test]
fn a_marked_container_is_unknown_while_the_store_cannot_be_read() {
    let facts = Facts::native().container(sandbox("box")).drain("box");
    facts.store_fault("database is locked").finds("box", Status::Unknown);
}

#[test]
fn a_running_command_is_a_sign_of_life_even_if_the_store_cannot_be_read() {
    let facts = Facts::native().container(sandbox("box").execs(1));
    facts.store_fault("database is locked").finds("box", Status::Active);
}

// The engine.

#[test]
fn an_engine_that_failed_makes_everything_unknown_even_what_was_active() {
    let facts = Facts::native().container(sandbox("box")).session(session("s1").uses("box").live());
    facts.clone().engine_fault("timed out").finds("box", Status::Unknown).because("timed out");
    facts.engine_read_at(ago("2m")).finds("box", Status::Unknown).because("the engine are 2m away");
}

#[rstest]
fn a_state_nobody_knows_is_unknown(#[values("stopped", "stopping", "unknown", "", "Running")] state: &str) {
    let facts = Facts::native().container(sandbox("box").state(state)).container(sandbox("neighbour"));
    facts.finds("box", Status::Unknown);
    facts.finds("neighbour", Status::Orphaned);
}

#[test]
fn a_container_being_removed_is_unknown() {
    Facts::native()
        .container(sandbox("box").state("removing"))
        .finds("box", Status::Unknown)
        .because("removing it");
}

#[test]
fn a_container_that_could_not_be_inspected_is_unknown_unless_a_session_is_live() {
    let facts = Facts::native().container(sandbox("box").inspect_failed("500"));
    facts.finds("box", Status::Unknown).because("it could not be inspected: 500");
    facts.session(session("s1").uses("box").live()).finds("box", Status::Active);
}

#[rstest]
#[case::running("running", Status::Unknown)]
#[case::paused("paused", Status::Unknown)]
#[case::restarting("restarting", Status::Unknown)]
#[case::exited("exited", Status::Orphaned)]
fn where_processes_live_only_an_inspect_shows_that_no_command_runs(
    #[case] state: &str,
    #[case] status: Status,
) {
    Facts::native().container(sandbox("box").state(state).not_inspected()).finds("box", status);
}

#[test]
fn a_row_that_cannot_be_read_costs_itself_and_not_its_neighbours() {
    let labels = Some(sandbox("bad").container.labels);
    let facts = Facts::native()
        .container(sandbox("neighbour"))
        .unreadable_row(UnreadableRow { labels, ..unreadable("bad") })
        .unreadable_row(unreadable("unlabelled"));
    facts.finds("bad", Status::Unknown).because("created at noon");
    facts.finds("neighbour", Status::Orphaned);
    assert_eq!(facts.verdict("bad").system, Some(SystemName::new("native")));
    assert_eq!(facts.finds("unlabelled", Status::Unknown).0.system, None, "it may be anybody's");
}

#[test]
fn a_foreign_row_that_cannot_be_read_is_not_shown() {
    let labels = Some(bare("theirs").container.labels);
    let facts = Facts::native().unreadable_row(UnreadableRow { labels, ..unreadable("theirs") });
    assert_eq!(facts.verdicts().containers, []);
}

#[rstest]
#[case::native(Facts::native().container(sandbox("box").nameless()))]
#[case::parachute(Facts::parachute().container(parachute("parachute-ws-atlas", "h1").nameless()))]
fn a_container_without_a_name_is_unknown_for_a_session_may_name_it(#[case] facts: Facts) {
    facts.finds("", Status::Unknown).because("it has no name");
}

// Whose it is.

#[test]
fn a_container_that_two_profiles_recognise_is_disputed() {
    let facts = Facts::native().system(storeless());
    let facts = facts.container(sandbox("box").label("kojuto.scan", "true").execs(1));
    let verdict =
        facts.finds("box", Status::Unknown).because("claimed by several profiles: native, kojuto").0;
    assert_eq!(verdict.system, None);
}

#[test]
fn several_instances_without_a_name_for_ours_are_all_unknown() {
    let facts = Facts::native()
        .container(sandbox("one").instance("blue"))
        .container(sandbox("two").instance("green"))
        .container(sandbox("three"));
    for name in ["one", "two", "three"] {
        facts.finds(name, Status::Unknown).because("several instances share this engine (blue, green)");
    }
}

#[test]
fn with_ours_named_every_other_instance_is_unknown() {
    let facts = Facts::native()
        .policy(|policy| policy.instance = Some("blue".to_owned()))
        .container(sandbox("ours").instance("blue"))
        .container(sandbox("theirs").instance("green").execs(1))
        .container(sandbox("nobodys"));
    facts.finds("ours", Status::Orphaned);
    facts.finds("theirs", Status::Unknown).because("belongs to instance green; ours is blue");
    facts.finds("nobodys", Status::Unknown).because("names no instance");
}

#[test]
fn an_instance_that_comes_from_the_image_proves_nothing() {
    let facts = Facts::native()
        .policy(|policy| policy.instance = Some("blue".to_owned()))
        .container(sandbox("box").instance("blue").image_labels(&[("sandkeeper.instance", "blue")]));
    facts.finds("box", Status::Unknown).because("sandkeeper.instance").because("comes from its image");
}

#[test]
fn labels_that_come_from_the_image_alone_prove_nothing() {
    let inherited = sandbox("box").image_labels(&[("sandkeeper.managed", "true"), ("maintainer", "olga")]);
    let facts = Facts::native().container(inherited).session(session("s1").uses("box").live());
    facts
        .finds("box", Status::Unknown)
        .because("its ownership label sandkeeper.managed=true comes from its image");
}

#[test]
fn an_image_with_other_labels_casts_no_doubt() {
    let facts = Facts::native().container(sandbox("box").image_labels(&[("sandkeeper.managed", "false")]));
    facts.finds("box", Status::Orphaned);
}

#[rstest]
#[case::it_is_gone(sandbox("box").image(ImageFact::Gone), "the engine no longer has it")]
#[case::it_could_not_be_asked(sandbox("box").image(ImageFact::Failed("500".to_owned())), "500")]
#[case::it_was_not_asked(sandbox("box").image_unasked(), "it was not looked up")]
fn an_image_that_cannot_be_asked_for_its_labels_leaves_the_owner_unknown(
    #[case] sandbox: Sandbox,
    #[case] why: &str,
) {
    Facts::native().container(sandbox).finds("box", Status::Unknown).because(why);
}

#[test]
fn a_profile_that_asks_for_no_label_at_all_shows_no_owner() {
    let recognition = Recognition { labels: std::collections::BTreeMap::new(), ..native().recognition };
    let facts = Facts::new().system(Profile { recognition, ..native() });
    facts.container(bare("box")).finds("box", Status::Unknown).because("no label");
}

#[test]
fn a_broken_profile_still_recognises_its_containers_and_judges_none() {
    let facts = Facts::native().broken("profiles/native.toml:3: unknown key `lable`");
    let facts = facts.container(sandbox("box").execs(1));
    facts.finds("box", Status::Unknown).because("unknown key `lable`");
}

#[test]
fn a_form_whose_sessions_the_profile_cannot_read_is_unknown_unless_a_command_runs() {
    let facts = Facts::parachute()
        .container(parachute("parachute-env-quiet", "h1"))
        .container(parachute("parachute-env-busy", "h1").execs(1));
    facts.finds("parachute-env-quiet", Status::Unknown).because("its sessions are behind HTTP");
    facts.finds("parachute-env-busy", Status::Active);
}

// What the sessions say.

#[test]
fn a_session_without_a_word_on_its_life_leaves_the_container_unknown() {
    let facts = Facts::native().container(sandbox("box").persistent(false));
    let facts = facts.session(session("s1").uses("box").declared(None));
    facts.finds("box", Status::Unknown).because("whether session s1 is live cannot be told");
}

#[test]
fn one_unclear_session_among_clear_ones_is_enough() {
    let facts = Facts::native()
        .container(sandbox("box").persistent(false).image_moved())
        .session(session("s1").uses("box").ended_ago("1h"))
        .session(session("s2").uses("box").declared(None))
        .session(session("s3").uses("box").ended_ago("1h"));
    facts.finds("box", Status::Unknown).because("session s2");
}

#[rstest]
#[case::unreadable(Moment::Unreadable("1772366400000 is no time in seconds".to_owned()), "is no time in seconds")]
#[case::absent(Moment::Absent, "no time of activity")]
fn activity_that_cannot_be_told_leaves_liveness_unclear_where_it_rests_on_activity(
    #[case] activity: Moment,
    #[case] why: &str,
) {
    let row = session("s1").workspace("atlas").declared(None).started(Moment::Absent).active(activity);
    let facts = Facts::parachute().container(parachute("parachute-ws-atlas", "h1")).session(row);
    facts.finds("parachute-ws-atlas", Status::Unknown).because(why);
}

#[rstest]
#[case::the_activity(session("s1").activity_unreadable("soon"))]
#[case::the_start_where_there_is_no_activity(session("s1").started(Moment::Unreadable("soon".to_owned())))]
fn a_quiet_session_whose_last_trace_cannot_be_read_does_not_age(#[case] row: crate::facts::SessionRow) {
    let facts = Facts::native().container(sandbox("box").created_ago("30d")).session(row.uses("box"));
    facts.finds("box", Status::Unknown).because("when session s1 was last active cannot be told: soon");
}

#[test]
fn activity_that_cannot_be_read_may_be_newer_than_the_end() {
    let facts = Facts::native().container(sandbox("box").created_ago("30d"));
    let facts = facts.session(session("s1").uses("box").activity_unreadable("soon").ended_ago("20d"));
    facts.finds("box", Status::Unknown).because("when session s1 was last active cannot be told: soon");
}

#[test]
fn a_quiet_session_without_any_time_does_not_age() {
    let facts = Facts::native().container(sandbox("box").created_ago("30d"));
    let facts = facts.session(session("s1").uses("box").started(Moment::Absent));
    facts.finds("box", Status::Unknown).because("when session s1 was last active cannot be told");
}

#[rstest]
#[case::where_the_store_declares_life(Facts::native(), sandbox("box"), session("s1").uses("box"))]
#[case::where_activity_shows_it(
    Facts::parachute(),
    parachute("parachute-ws-atlas", "h1"),
    session("s1").workspace("atlas").declared(None).active_ago("1h")
)]
fn an_end_that_cannot_be_read_is_not_an_end(
    #[case] facts: Facts,
    #[case] sandbox: Sandbox,
    #[case] row: crate::facts::SessionRow,
) {
    let name = sandbox.container.name.clone();
    let facts = facts.container(sandbox.persistent(false));
    facts
        .session(row.ended(Moment::Unreadable("never".to_owned())))
        .finds(&name, Status::Unknown)
        .because("never");
}

#[test]
fn a_session_with_an_unreadable_end_is_live_if_it_was_active_just_now() {
    let facts = Facts::parachute().container(parachute("parachute-ws-atlas", "h1"));
    let row = session("s1").workspace("atlas").declared(None).active_ago("1m");
    facts
        .session(row.ended(Moment::Unreadable("never".to_owned())))
        .finds("parachute-ws-atlas", Status::Active);
}

// Rules and clocks.

#[test]
fn a_lifetime_that_cannot_be_read_is_unknown() {
    let facts = Facts::native().container(sandbox("box").label("sandkeeper.lifetime", "a while"));
    let facts = facts.session(session("s1").uses("box"));
    facts
        .finds("box", Status::Unknown)
        .because("label sandkeeper.lifetime: `a while` is not a length of time");
}

#[rstest]
fn a_persistence_that_cannot_be_read_is_unknown(#[values("True", "1", "yes", "")] word: &str) {
    let facts = Facts::native().container(sandbox("box").label("sandkeeper.persistent", word));
    let facts = facts.session(session("s1").uses("box").ended_ago("1h"));
    facts.finds("box", Status::Unknown).because("label sandkeeper.persistent");
    facts.session(session("s2").uses("box").live()).finds("box", Status::Active);
}

#[test]
fn while_the_clock_has_just_jumped_silence_proves_nothing() {
    let facts = Facts::native()
        .clock_step("1d")
        .container(sandbox("unclaimed"))
        .container(sandbox("outdated").image_moved())
        .container(sandbox("used"))
        .session(session("s1").uses("used").live());
    facts.finds("unclaimed", Status::Unknown).because("the clock jumped by 1d");
    facts.finds("outdated", Status::Unknown);
    facts.finds("used", Status::Active);
}

#[test]
fn facts_are_old_in_both_directions_of_time() {
    let reading = Facts::native().snapshot.engine;
    let max_age = crate::facts::span("30s");
    assert_eq!(reading.unusable(NOW, max_age), None);
    assert_eq!(reading.unusable(ahead("31s"), max_age), Some(Unusable::Old(crate::facts::span("31s"))));
    assert_eq!(reading.unusable(ago("31s"), max_age), Some(Unusable::Old(crate::facts::span("31s"))));
}

#[test]
fn profiles_with_the_same_labels_dispute_even_their_nameless_containers() {
    let facts = Facts::parachute().system(Profile { name: SystemName::new("fork"), ..parachute_like() });
    let facts = facts.container(parachute("parachute-ws-atlas", "h1").nameless());
    facts.finds("", Status::Unknown).because("claimed by several profiles: parachute, fork");
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
