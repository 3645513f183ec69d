//! `stop`, `rm`, `drain` and `undrain` on real engines: containers the operator names, and what still stands in the way.

use crate::support::engine::RealEngine;
use crate::support::kept::KeptHost;
use crate::support::on_both_engines;

on_both_engines![
    a_container_is_named_by_name_id_beginning_of_its_id_or_workspace,
    a_target_that_could_be_several_is_refused_and_the_candidates_are_listed,
    an_unknown_target_is_refused_and_the_others_are_left_alone,
    stop_stops_and_does_not_remove,
    stop_leaves_a_container_with_a_live_session_running_unless_the_sessions_are_counted,
    rm_stops_gracefully_and_removes_but_never_over_a_live_session,
    force_removes_what_ignores_a_stop_but_never_over_a_live_session,
    force_over_live_sessions_needs_their_exact_number,
    force_does_not_count_a_running_command_as_a_session,
    drain_marks_and_undrain_takes_the_mark_away,
    a_mark_does_not_outlive_the_run_it_was_set_on,
    the_mark_of_a_container_that_is_gone_is_cleaned_up,
];

fn a_container_is_named_by_name_id_beginning_of_its_id_or_workspace(engine: &RealEngine) {
    let host = KeptHost::on(engine);
    let by_name = host.current("one").exited();
    let by_id = host.current("two").exited();
    let by_beginning = host.current("three").exited();
    let in_workspace = [host.current("four"), host.current("five")]
        .map(|sandbox| sandbox.label("sandkeeper.workspace", "shared").exited());
    let bystander = host.current("six").exited();
    let targets = [host.scene.name("one"), by_id.clone(), by_beginning[..12].to_owned(), "shared".to_owned()];

    let finished = host.acting("rm", &targets.each_ref().map(String::as_str)).run().expect_exit(0);
    assert_eq!(finished.json()["summary"]["removed"], 5, "{finished}");
    for id in [&by_name, &by_id, &by_beginning].into_iter().chain(&in_workspace) {
        assert!(!host.exists(id), "{finished}");
    }
    assert!(host.exists(&bystander));
}

fn a_target_that_could_be_several_is_refused_and_the_candidates_are_listed(engine: &RealEngine) {
    let host = KeptHost::on(engine);
    // Its name is the workspace of two others.
    let name = host.scene.name("atlas");
    let named = host.current("atlas").exited();
    let others =
        ["one", "two"].map(|other| host.current(other).label("sandkeeper.workspace", &name).exited());
    let refused = host.acting("rm", &[&name]).run().expect_exit(2);
    for candidate in [host.scene.name("one"), host.scene.name("two"), named[..12].to_owned()] {
        assert!(refused.stderr.contains(&candidate), "{candidate} is not listed: {refused}");
    }
    assert!(host.exists(&named) && others.iter().all(|id| host.exists(id)));
}

fn an_unknown_target_is_refused_and_the_others_are_left_alone(engine: &RealEngine) {
    let host = KeptHost::on(engine);
    let known = host.current("known").exited();
    let foreign = host.scene.container(host.scene.name("foreign")).exited();
    for unknown in ["nothing-of-that-name", &host.scene.name("foreign"), &foreign] {
        let refused = host.acting("rm", &[&host.scene.name("known"), unknown]).run().expect_exit(1);
        assert!(refused.stderr.contains(unknown), "{refused}");
    }
    assert!(host.exists(&known) && host.exists(&foreign));
}

fn stop_stops_and_does_not_remove(engine: &RealEngine) {
    let host = KeptHost::on(engine);
    let id = host.current("atlas").running();
    let name = host.scene.name("atlas");
    let finished = host.acting("stop", &[&name]).run().expect_exit(0);
    host.expect_result(&finished, "atlas", "stopped", "asked for");
    engine.wait_for_state(&id, "exited");
    let again = host.acting("stop", &[&name]).run().expect_exit(3);
    host.expect_result(&again, "atlas", "kept", "nothing to stop");
}

fn stop_leaves_a_container_with_a_live_session_running_unless_the_sessions_are_counted(engine: &RealEngine) {
    let host = KeptHost::on(engine);
    let id = host.current("atlas").running();
    host.store.session("s1", "atlas").status("active").insert();
    let name = host.scene.name("atlas");
    let refused = host.acting("stop", &[&name]).run().expect_exit(3);
    host.expect_result(&refused, "atlas", "kept", "1 live session in it");
    host.acting("stop", &[&name, "--even-if-live", "2"]).run().expect_exit(3);
    assert_eq!(engine.state(&id).as_deref(), Some("running"));
    let finished = host.acting("stop", &[&name, "--even-if-live", "1"]).run().expect_exit(0);
    host.expect_result(&finished, "atlas", "stopped", "although it ends 1 live session");
    engine.wait_for_state(&id, "exited");
}

fn rm_stops_gracefully_and_removes_but_never_over_a_live_session(engine: &RealEngine) {
    let host = KeptHost::on(engine);
    let free = host.current("free").running();
    let used = host.current("used").running();
    host.store.session("s1", "used").status("active").insert();
    let run = host.started_at(&used);
    let targets = [host.scene.name("free"), host.scene.name("used")];
    let finished = host.acting("rm", &targets.each_ref().map(String::as_str)).run().expect_exit(3);
    host.expect_result(&finished, "free", "removed", "asked for");
    host.expect_result(&finished, "used", "kept", "session s1 is live");
    assert!(!host.exists(&free));
    assert_eq!(host.started_at(&used), run);
    host.acting("rm", &[&targets[1], "--even-if-live", "1"]).run().expect_exit(2).expect_stderr("--force");
    assert_eq!(engine.state(&used).as_deref(), Some("running"));
}

fn force_removes_what_ignores_a_stop_but_never_over_a_live_session(engine: &RealEngine) {
    let host = KeptHost::on(engine);
    let deaf = "trap '' TERM; exec sleep 1000";
    let free = host.current("free").script(deaf).running();
    let used = host.current("used").script(deaf).running();
    host.store.session("s1", "used").status("active").insert();
    let targets = [host.scene.name("free"), host.scene.name("used")];
    let finished = host.acting("rm", &["--force", &targets[0], &targets[1]]).run().expect_exit(3);
    host.expect_result(&finished, "free", "removed", "asked for");
    host.expect_result(&finished, "used", "kept", "1 live session");
    assert!(!host.exists(&free));
    assert_eq!(engine.state(&used).as_deref(), Some("running"));
}

fn force_over_live_sessions_needs_their_exact_number(engine: &RealEngine) {
    let host = KeptHost::on(engine);
    let id = host.current("atlas").running();
    for session in ["s1", "s2"] {
        host.store.session(session, "atlas").status("active").insert();
    }
    let name = host.scene.name("atlas");
    for wrong in ["0", "1", "3"] {
        let refused = host.acting("rm", &["--force", "--even-if-live", wrong, &name]).run().expect_exit(3);
        host.expect_result(&refused, "atlas", "kept", "2 live sessions");
    }
    assert_eq!(engine.state(&id).as_deref(), Some("running"));
    let finished = host.acting("rm", &["--force", "--even-if-live", "2", &name]).run().expect_exit(0);
    host.expect_result(&finished, "atlas", "removed", "although it ends 2 live sessions");
    assert!(!host.exists(&id));
}

fn force_does_not_count_a_running_command_as_a_session(engine: &RealEngine) {
    let host = KeptHost::on(engine);
    let id = host.current("atlas").running();
    let command = host.scene.exec(&id);
    let name = host.scene.name("atlas");
    for count in [&[][..], &["--even-if-live", "0"], &["--even-if-live", "1"]] {
        let finished = host.acting("rm", &[&["--force", &name], count].concat()).run().expect_exit(3);
        host.expect_result(&finished, "atlas", "kept", "command");
    }
    assert_eq!(engine.state(&id).as_deref(), Some("running"));
    command.end();
}

fn drain_marks_and_undrain_takes_the_mark_away(engine: &RealEngine) {
    let host = KeptHost::on(engine);
    let id = host.current("atlas").running();
    host.store.session("s1", "atlas").status("active").insert();
    let name = host.scene.name("atlas");
    let marked = host.acting("drain", &[&name]).run().expect_exit(0);
    host.expect_result(&marked, "atlas", "drained", "");
    host.sandkeeper(["may-start", "atlas"]).run().expect_exit(5);
    let status = host.sandkeeper(["status", "--json"]).run().json();
    assert_eq!(status["containers"][0]["status"], "draining", "{status:#}");

    host.sandkeeper(["undrain", &name]).run().expect_exit(0).expect_stdout("no longer draining");
    host.sandkeeper(["undrain", &name]).run().expect_exit(0).expect_stdout("was not draining");
    let log = host.sandkeeper(["log"]).run().expect_exit(0);
    assert_eq!(log.stdout.matches("no longer draining").count(), 1, "{log}");
    host.sandkeeper(["may-start", "atlas"]).run().expect_exit(0);
    host.store.end("s1");
    host.reconcile(&[]).expect_exit(0);
    assert_eq!(engine.state(&id).as_deref(), Some("running"), "it was evicted without a mark");
}

fn a_mark_does_not_outlive_the_run_it_was_set_on(engine: &RealEngine) {
    let host = KeptHost::on(engine);
    let id = host.current("atlas").running();
    host.store.session("s1", "atlas").insert();
    host.acting("drain", &[&host.scene.name("atlas")]).run().expect_exit(0);
    host.sandkeeper(["may-start", "atlas"]).run().expect_exit(5);
    engine.cli(&["restart", "--time=0", &id]);
    engine.wait_for_state(&id, "running");
    host.sandkeeper(["may-start", "atlas"]).run().expect_exit(0);
    let finished = host.reconcile(&[]).expect_exit(0);
    host.expect_result(&finished, "atlas", "kept", "");
    assert_eq!(engine.state(&id).as_deref(), Some("running"));
}

fn the_mark_of_a_container_that_is_gone_is_cleaned_up(engine: &RealEngine) {
    let host = KeptHost::on(engine);
    let gone = host.current("gone").running();
    let stays = host.current("stays").running();
    for name in ["gone", "stays"] {
        host.store.session(&format!("in {name}"), name).status("active").insert();
        host.acting("drain", &[&host.scene.name(name)]).run().expect_exit(0);
    }
    engine.cli(&["rm", "--force", &gone]);
    host.sandkeeper(["may-start", "gone"]).run().expect_exit(0);
    host.reconcile(&[]);
    let state = rusqlite::Connection::open(host.home.state().join("sandkeeper/state.db")).unwrap();
    let mut marks = state.prepare("SELECT container FROM marks").unwrap();
    let marks: Vec<String> = marks.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
    assert_eq!(marks, [stays]);
}
