//! The status table: which facts make a container active, idle, stale, orphaned or draining.
//! What makes a container `unknown` is in `unknown.rs`, what makes a session lost in `lost.rs`.

use crate::facts::profiles::{hash_rule, native, parachute_like, storeless};
use crate::facts::{Facts, NOW, ago, ahead, bare, id_of, parachute, sandbox, session, span};
use rstest::rstest;
use sandkeeper::domain::profile::{ExpectedHash, Lifetime, Link, Persistence};
use sandkeeper::domain::session::Moment;
use sandkeeper::domain::snapshot::TagFact;
use sandkeeper::domain::{Profile, Status, SystemName};

// Active.

#[rstest]
#[case::its_name("box".to_owned())]
#[case::its_full_id(id_of("box").to_string())]
#[case::its_short_id(id_of("box").short().to_owned())]
fn a_live_session_that_names_the_container_makes_it_active(#[case] named: String) {
    let facts = Facts::native().container(sandbox("box")).session(session("s1").uses(&named).live());
    facts.finds("box", Status::Active).because("session s1 is live, last activity 1h ago").outdated(false);
}

#[test]
fn a_live_session_of_the_same_workspace_makes_it_active() {
    let facts = Facts::native().container(sandbox("box").workspace("atlas"));
    facts.session(session("s1").workspace("atlas").live()).finds("box", Status::Active);
}

#[test]
fn a_live_session_that_the_containers_label_names_makes_it_active() {
    let facts = Facts::native().container(sandbox("box").label("sandkeeper.session", "s1"));
    facts.session(session("s1").live()).finds("box", Status::Active);
}

#[test]
fn a_session_that_names_one_container_does_not_claim_the_rest_of_its_workspace() {
    let facts = Facts::native()
        .container(sandbox("one").workspace("atlas"))
        .container(sandbox("two").workspace("atlas"))
        .session(session("s1").workspace("atlas").uses("one").live());
    facts.finds("one", Status::Active);
    facts.finds("two", Status::Orphaned);
}

#[test]
fn a_session_that_the_store_calls_live_is_live_however_long_it_has_been_silent() {
    let facts = Facts::native().container(sandbox("box").created_ago("90d"));
    let facts = facts.session(quiet_for("40d").uses("box").live());
    facts.finds("box", Status::Active).because("last activity 40d ago");
}

#[test]
fn a_session_that_the_store_calls_live_is_live_even_if_it_has_an_end() {
    let facts = Facts::native().container(sandbox("box").persistent(false));
    facts.session(session("s1").uses("box").ended_ago("1h").live()).finds("box", Status::Active);
}

#[test]
fn activity_within_the_window_counts_as_life_where_the_store_has_no_word_for_it() {
    let box_active = |text: &str| {
        let facts = Facts::parachute().container(parachute("parachute-ws-atlas", "h1").created_ago("20d"));
        facts.session(session("s1").workspace("atlas").declared(None).active_ago(text))
    };
    box_active("10m").finds("parachute-ws-atlas", Status::Active).because("was active 10m ago");
    box_active("601s").finds("parachute-ws-atlas", Status::Idle);
}

#[test]
fn a_session_that_began_just_now_is_live_even_if_its_last_activity_is_older() {
    let facts = Facts::parachute().container(parachute("parachute-ws-atlas", "h1"));
    let resumed = session("s1").workspace("atlas").declared(None);
    let facts = facts.session(resumed.started(Moment::At(ago("1m"))).active_ago("3d"));
    facts.finds("parachute-ws-atlas", Status::Active);
}

#[test]
fn a_command_running_in_it_makes_it_active_without_any_session() {
    let facts = Facts::native().container(sandbox("box").execs(2));
    facts.finds("box", Status::Active).because("2 commands running in it");
}

#[test]
fn an_active_container_with_an_old_config_is_active_and_outdated() {
    let facts = Facts::native()
        .container(sandbox("old").hash("h1").created_ago("3d"))
        .container(sandbox("new").hash("h2").created_ago("1d"))
        .session(session("s1").uses("old").live());
    facts.finds("old", Status::Active).outdated(true).because("config h1 is not h2 (the newest container's)");
}

#[test]
fn only_the_first_live_sessions_are_named_and_the_rest_counted() {
    let mut facts = Facts::native().container(sandbox("box"));
    for number in 0..80 {
        facts = facts.session(session(&format!("s{number:02}")).uses("box").live());
    }
    let finding = facts.finds("box", Status::Active).because("77 more live sessions");
    assert_eq!((finding.0.claims.total, finding.0.claims.live, finding.0.claims.listed.len()), (80, 80, 50));
}

#[test]
fn a_session_that_claims_a_container_through_two_links_counts_once() {
    let facts = Facts::native()
        .container(sandbox("box").workspace("atlas").label("sandkeeper.session", "s1"))
        .session(session("s1").workspace("atlas"))
        .session(session("s2").workspace("atlas").live());
    let claims = facts.finds("box", Status::Active).0.claims;
    assert_eq!((claims.total, claims.live), (2, 1));
    let ids: Vec<&str> = claims.listed.iter().map(|claim| claim.session.id.as_str()).collect();
    assert_eq!(ids, ["s2", "s1"], "live ones come first");
}

// Idle.

#[test]
fn quiet_sessions_within_the_lifetime_leave_it_idle() {
    let facts = Facts::native().container(sandbox("box").created_ago("3d"));
    let facts = facts.session(session("s1").uses("box").active_ago("23h"));
    facts
        .finds("box", Status::Idle)
        .because("quiet for 1h, within its lifetime of 1d")
        .because("none is live");
}

#[test]
fn a_container_started_again_lately_is_not_yet_quiet() {
    let restarted = sandbox("box").created_ago("9d").started(Some(ago("1h")));
    let facts = Facts::native().container(restarted).session(quiet_for("8d").uses("box"));
    facts.finds("box", Status::Idle);
}

#[test]
fn a_persistent_container_survives_the_end_of_its_sessions() {
    let facts = Facts::native().container(sandbox("box").persistent(true));
    facts.session(session("s1").uses("box").ended_ago("1h")).finds("box", Status::Idle).because("all ended");
}

#[test]
fn a_non_persistent_container_stays_while_one_session_has_not_ended() {
    let facts = Facts::native().container(sandbox("box").persistent(false));
    let facts = facts.session(session("s1").uses("box").ended_ago("1h")).session(session("s2").uses("box"));
    facts.finds("box", Status::Idle).because("1 ended");
}

// Stale.

#[test]
fn a_config_hash_other_than_the_newest_containers_is_stale() {
    let facts = Facts::native()
        .container(sandbox("old").hash("h1").created_ago("3d"))
        .container(sandbox("new").hash("h2").created_ago("1d"))
        .session(session("s1").uses("old").ended_ago("5m"))
        .session(session("s2").uses("new"));
    facts.finds("old", Status::Stale).because("config h1 is not h2 (the newest container's)").outdated(true);
    facts.finds("new", Status::Idle).outdated(false);
}

#[test]
fn an_outdated_container_without_any_session_is_stale_not_orphaned() {
    let facts = Facts::parachute()
        .container(parachute("parachute-ws-old", "6820ef2d765a").created_ago("9d"))
        .container(parachute("parachute-ws-new", "5de99fd81fbd").created_ago("1d"));
    facts.finds("parachute-ws-old", Status::Stale).because("6820ef2d765a is not 5de99fd81fbd");
    facts.finds("parachute-ws-new", Status::Orphaned);
}

#[test]
fn a_config_hash_written_in_the_profile_decides() {
    let expected = ExpectedHash::Literal("h1".to_owned());
    let profile = Profile { config_hash: Some(hash_rule("sandkeeper.config-hash", expected)), ..native() };
    let facts = Facts::new()
        .system(profile)
        .container(sandbox("old").hash("h1").created_ago("3d"))
        .container(sandbox("new").hash("h2").created_ago("1d"));
    facts.finds("old", Status::Orphaned);
    facts.finds("new", Status::Stale).because("config h2 is not h1 (the profile's)");
}

#[test]
fn the_operators_config_hash_wins_over_the_newest_and_over_the_profile() {
    let facts = Facts::parachute()
        .container(parachute("parachute-ws-old", "h1").created_ago("3d"))
        .container(parachute("parachute-ws-new", "h2").created_ago("1d"));
    let of_all = facts.clone().policy(|policy| policy.expected_hash = Some("h1".to_owned()));
    of_all.finds("parachute-ws-old", Status::Orphaned).outdated(false);
    of_all.finds("parachute-ws-new", Status::Stale).because("config h2 is not h1 (the expected one)");

    let of_system = of_all.policy(|policy| {
        policy.expected_hash_of.insert(SystemName::new("parachute"), "h2".to_owned());
    });
    of_system.finds("parachute-ws-old", Status::Stale);
    of_system.finds("parachute-ws-new", Status::Orphaned);
}

#[test]
fn newest_containers_that_disagree_make_nothing_outdated() {
    let facts = Facts::native()
        .container(sandbox("old").hash("h1").created_ago("3d"))
        .container(sandbox("one").hash("h2").created_ago("1d"))
        .container(sandbox("two").hash("h3").created_ago("1d"))
        .session(session("s1").uses("old"));
    let undecided = "the current config cannot be told";
    facts.finds("old", Status::Idle).outdated(false).because(undecided);
    facts.finds("one", Status::Orphaned).outdated(false).because(undecided);
}

#[test]
fn a_container_dated_in_the_future_does_not_set_the_current_config() {
    let facts = Facts::native()
        .container(sandbox("skewed").hash("h1").created_at(ahead("2h")))
        .container(sandbox("current").hash("h2").created_ago("1h"));
    facts.finds("current", Status::Orphaned).outdated(false).because("the current config cannot be told");
}

#[test]
fn a_container_dated_in_the_future_casts_no_doubt_where_all_agree() {
    let facts = Facts::native()
        .container(sandbox("skewed").hash("h1").created_at(ahead("2h")))
        .container(sandbox("other").hash("h1"));
    assert_eq!(facts.finds("other", Status::Orphaned).sentences().len(), 1);
}

#[test]
fn an_empty_config_hash_is_no_hash() {
    let facts = Facts::native()
        .container(sandbox("good").hash("h1").created_ago("3d"))
        .container(sandbox("blank").hash("").created_ago("1d"));
    facts.finds("good", Status::Orphaned).outdated(false);
    facts.finds("blank", Status::Orphaned).outdated(false);
}

#[test]
fn a_container_that_is_not_surely_ours_does_not_set_the_current_config() {
    let forged =
        sandbox("forged").hash("h2").created_ago("1h").image_labels(&[("sandkeeper.managed", "true")]);
    let facts = Facts::native().container(sandbox("ours").hash("h1").created_ago("3d")).container(forged);
    facts.finds("ours", Status::Orphaned).outdated(false);
}

#[test]
fn a_tag_that_names_another_image_now_makes_it_stale() {
    let facts = Facts::native().container(sandbox("box").image_moved()).session(session("s1").uses("box"));
    facts.finds("box", Status::Stale).because("box-image:latest now names image 0ther").outdated(true);
}

#[rstest]
#[case::nothing_any_more(TagFact::Gone)]
#[case::could_not_be_asked(TagFact::Failed("500".to_owned()))]
#[case::the_same_image_written_without_its_scheme(TagFact::Names(id_of("box").as_str().to_owned()))]
fn a_tag_that_does_not_name_another_image_makes_nothing_stale(#[case] tag: TagFact) {
    let facts = Facts::native().container(sandbox("box").tag(tag)).session(session("s1").uses("box"));
    facts.finds("box", Status::Idle).outdated(false);
}

#[test]
fn image_drift_counts_only_where_the_profile_says_so() {
    let facts = Facts::new().system(Profile { image_drift: false, ..native() });
    facts
        .container(sandbox("box").image_moved())
        .session(session("s1").uses("box"))
        .finds("box", Status::Idle);
}

#[test]
fn quiet_for_longer_than_the_default_lifetime_is_stale() {
    let facts = Facts::native().container(sandbox("box").created_ago("30d"));
    let facts = facts.session(quiet_for("25h").uses("box"));
    facts.finds("box", Status::Stale).because("quiet for 1d, longer than its lifetime of 1d").outdated(false);
}

#[test]
fn the_profiles_lifetime_wins_over_the_default() {
    let lifetime = Lifetime { default: Some(span("2h")), ..Lifetime::default() };
    let facts = Facts::new().system(Profile { lifetime, ..native() });
    let facts = facts.container(sandbox("box").created_ago("30d")).session(quiet_for("3h").uses("box"));
    facts.finds("box", Status::Stale).because("longer than its lifetime of 2h");
}

#[test]
fn the_containers_own_lifetime_wins_over_the_profiles() {
    let lifetime = Lifetime { default: Some(span("2h")), ..native().lifetime };
    let labelled = |text| sandbox("box").created_ago("30d").label("sandkeeper.lifetime", text);
    let facts = Facts::new().system(Profile { lifetime, ..native() }).session(quiet_for("3h").uses("box"));
    facts.clone().container(labelled("15m")).finds("box", Status::Stale).because("its lifetime of 15m");
    facts.container(labelled("7d")).finds("box", Status::Idle).because("its lifetime of 7d");
}

#[test]
fn a_non_persistent_container_is_stale_once_all_its_sessions_have_ended() {
    let facts = Facts::native()
        .container(sandbox("box").persistent(false))
        .session(session("s1").uses("box").ended_ago("30m"))
        .session(session("s2").uses("box").ended_ago("5m"));
    facts.finds("box", Status::Stale).because("not persistent, and all 2 of its sessions have ended, 5m ago");
}

#[test]
fn a_bind_mount_can_make_a_container_persistent() {
    let persistence = Persistence { label: None, bind_on: Some("/root".to_owned()), default: false };
    let facts = Facts::new()
        .system(Profile { persistence, ..native() })
        .container(sandbox("kept").bind("/srv/home", "/root"))
        .container(sandbox("thrown-away").bind("/srv/home", "/home"))
        .session(session("s1").uses("kept").ended_ago("5m"))
        .session(session("s2").uses("thrown-away").ended_ago("5m"));
    facts.finds("kept", Status::Idle);
    facts.finds("thrown-away", Status::Stale);
}

#[test]
fn a_link_for_persistent_containers_claims_no_others() {
    let mut profile = native();
    let only = |link: Link, persistent| Link { only_persistent: Some(persistent), unless: None, ..link };
    profile.links = vec![only(profile.links[2].clone(), true)];
    let facts = Facts::new()
        .system(profile)
        .container(sandbox("kept").workspace("atlas"))
        .container(sandbox("thrown-away").workspace("atlas").persistent(false))
        .session(session("s1").workspace("atlas").live());
    facts.finds("kept", Status::Active);
    facts.finds("thrown-away", Status::Orphaned);
}

// Orphaned.

#[rstest]
fn a_container_that_no_session_claims_is_orphaned_in_every_state(
    #[values("created", "running", "paused", "restarting", "exited", "dead")] state: &str,
) {
    let facts =
        Facts::native().container(sandbox("box").state(state)).session(session("s1").uses("other").live());
    facts.finds("box", Status::Orphaned).because(&format!("no session claims it; {state}, made 2h ago"));
}

#[test]
fn a_container_within_the_creation_grace_is_idle_not_orphaned() {
    let facts = Facts::native().container(sandbox("box").created_ago("59s"));
    facts.finds("box", Status::Idle).because("made 59s ago, within the grace of 1m");
    let older = Facts::native().container(sandbox("box").created_ago("60s"));
    older.finds("box", Status::Orphaned);
    older.policy(|policy| policy.min_age = span("5m")).finds("box", Status::Idle);
}

#[test]
fn an_old_container_started_within_the_grace_is_idle_not_orphaned() {
    let facts = Facts::native().container(sandbox("box").started(Some(ago("59s"))));
    facts.finds("box", Status::Idle).because("started 59s ago, within the grace of 1m");
    Facts::native().container(sandbox("box").started(Some(ago("60s")))).finds("box", Status::Orphaned);
    let by_itself = sandbox("box").started(Some(ago("5s"))).restarts_by_itself();
    Facts::native().container(by_itself).finds("box", Status::Orphaned);
}

#[test]
fn containers_of_a_system_without_a_store_are_orphaned_unless_a_command_runs() {
    let facts = Facts::new()
        .system(storeless())
        .container(bare("left").label("kojuto.scan", "true").state("exited"))
        .container(bare("busy").label("kojuto.scan", "true").execs(1));
    facts.finds("left", Status::Orphaned).because("nothing claims it");
    facts.finds("busy", Status::Active);
}

#[test]
fn foreign_containers_get_no_verdict() {
    let facts = Facts::native()
        .system(parachute_like())
        .container(bare("postgres"))
        .container(bare("other").label("sandkeeper.managed", "false"))
        .container(parachute("someones-app", "h1"));
    assert_eq!(facts.verdicts().containers, []);
}

// Draining.

#[test]
fn a_marked_container_drains_while_a_session_is_live_and_after() {
    let facts = Facts::native().container(sandbox("box")).drain("box");
    let marked = "marked for eviction 5m ago by olga";
    let busy = facts.clone().session(session("s1").uses("box").live());
    let finding = busy.finds("box", Status::Draining).because(marked).because("session s1 is live");
    assert!(finding.0.is_in_use());
    let left = facts.session(session("s1").uses("box"));
    assert!(!left.finds("box", Status::Draining).because(marked).0.is_in_use());
}

#[test]
fn a_mark_from_an_older_run_does_not_count() {
    let facts = Facts::native().container(sandbox("box")).session(session("s1").uses("box"));
    facts.drain_of_run("box", Some(ago("3d"))).finds("box", Status::Idle);
}

#[test]
fn a_mark_set_before_the_first_start_does_not_count_once_it_runs() {
    let facts = Facts::native().session(session("s1").uses("box"));
    let created = facts.clone().container(sandbox("box").state("created")).drain("box");
    created.finds("box", Status::Draining);
    facts.container(sandbox("box")).drain_of_run("box", None).finds("box", Status::Idle);
}

#[test]
fn a_mark_counts_on_a_stopped_container_whose_run_nobody_asked_for() {
    let facts = Facts::native().container(sandbox("box").state("exited").not_inspected());
    facts.drain_of_run("box", Some(ago("2h"))).finds("box", Status::Draining);
}

// Times in the future.

#[test]
fn times_in_the_future_never_let_a_container_go() {
    let future = || Moment::At(ahead("3d"));
    let quiet = session("s1").uses("box");
    for row in [
        quiet.clone().started(future()),
        quiet.clone().active(future()),
        quiet.clone().active_ago("30d").ended(future()),
    ] {
        let facts = Facts::native().container(sandbox("box").created_ago("30d").persistent(false));
        facts.session(row).finds("box", Status::Idle);
    }
    let unclaimed = Facts::native().container(sandbox("box").created_at(ahead("3d")));
    unclaimed.finds("box", Status::Idle).because("made 0s ago, within the grace");
    let claimed = unclaimed.session(quiet_for("30d").uses("box"));
    claimed.finds("box", Status::Idle);
}

#[test]
fn activity_in_the_future_counts_as_life_where_activity_is_the_only_sign() {
    let facts = Facts::parachute().container(parachute("parachute-ws-atlas", "h1").created_ago("20d"));
    let facts =
        facts.session(session("s1").workspace("atlas").declared(None).active(Moment::At(ahead("1d"))));
    facts.finds("parachute-ws-atlas", Status::Active).because("in the future by this clock");
}

// The brake.

#[test]
fn every_verdict_is_judged_at_the_moment_it_is_told() {
    let facts = Facts::native().container(sandbox("box"));
    assert_eq!(facts.now, NOW);
    assert_eq!(facts.verdict("box").quiet_since, Some(ago("2h")));
}

/// A session without a newer trace than this.
fn quiet_for(text: &str) -> crate::facts::SessionRow {
    session("quiet").started(Moment::At(ago(text))).active_ago(text)
}
