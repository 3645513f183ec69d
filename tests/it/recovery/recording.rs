//! How a lasting container was made is recorded by every run that may write, the first that sees it; and where nobody saw it, that
//! is said.

use rstest::rstest;

use super::ground::{lasting, recorded, recreate, remove_behind_our_back, result};
use crate::support::simulated::SimHost;
use crate::support::wait_until;

#[rstest]
#[case::status(&["status"])]
#[case::status_in_json(&["status", "--json"])]
#[case::reconcile(&["reconcile", "--yes"])]
#[case::an_act_on_another(&["drain", "--yes", "other"])]
fn one_look_is_enough_to_make_it_again(#[case] command: &[&str]) {
    let host = SimHost::new();
    host.orphan("other", "other");
    let id = lasting(&host, "atlas");
    host.sandkeeper(command).run().expect_exit(0);
    remove_behind_our_back(&host, &id);
    let finished = recreate(&host, "atlas").expect_exit(0);
    assert_eq!(result(&finished.json()).0, "recreated", "{finished}");
}

#[test]
fn a_watch_records_what_comes() {
    let host = SimHost::new();
    let watch = host.sandkeeper(&["status", "--watch", "--json"]).spawn();
    watch.next_json();
    lasting(&host, "atlas");
    wait_until("it is recorded", || recorded(&host) == 1);
    watch.signal("TERM");
    watch.wait().expect_exit(0);
}

#[test]
fn more_than_one_batch_is_recorded_at_first_sight() {
    let host = SimHost::new();
    for number in 0..120 {
        host.sandbox(&format!("box-{number}"), "atlas").placed();
    }
    host.store.session("s1", "atlas").status("active").insert();
    // Only the time for it is bounded, so a slow machine needs a second look.
    wait_until("all are recorded", || {
        host.sandkeeper(&["status"]).run().expect_exit(0);
        recorded(&host) == 120
    });
}

#[test]
fn what_only_a_read_only_look_saw_is_not_recorded_and_recreate_says_so() {
    let host = SimHost::new();
    host.store.session("s-1", "atlas").container("atlas").status("active").insert();
    let id = host.sandbox("atlas", "atlas").sleeping().placed();
    host.sandkeeper(&["status", "--read-only"]).run().expect_exit(0);
    assert!(!host.state_folder().exists(), "a read-only look wrote something");
    remove_behind_our_back(&host, &id);
    for target in ["atlas", "s-1", "native/atlas"] {
        let refused = recreate(&host, target).expect_exit(1);
        let words = "session s-1 needs atlas, which is gone; sandkeeper has never seen how it was made";
        assert!(refused.stderr.contains(words), "{target}: {refused}");
    }
    recreate(&host, "nothing").expect_exit(1).expect_stderr("is no container");
}
