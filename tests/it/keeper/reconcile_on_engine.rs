//! `reconcile` on real engines: what goes, what stays, and what happens to it on the way.

use crate::support::engine::{Kind, RealEngine};
use crate::support::kept::KeptHost;
use crate::support::{on_both_engines, wait_until};

on_both_engines![
    a_stale_container_with_a_live_session_is_kept_untouched_and_goes_once_the_session_has_ended,
    a_drained_container_keeps_new_sessions_out_and_goes_with_its_last_session,
    a_stale_container_is_stopped_gracefully_and_its_volumes_stay,
    orphans_go_unless_processes_live_in_them,
    running_orphans_go_when_asked_for_except_where_a_command_runs,
    a_paused_orphan_goes_when_asked_for,
    an_orphan_that_restarts_over_and_over_goes_only_when_asked_for,
    what_is_not_persistent_goes_with_its_session_and_what_is_stays,
    what_is_too_new_is_kept,
    a_dry_run_changes_nothing,
    without_a_terminal_and_without_yes_nothing_is_done,
    read_only_refuses_to_act,
    labels_inherited_from_an_image_do_not_make_a_container_ours,
    two_installations_never_touch_each_other,
    a_container_named_as_the_id_of_a_removed_one_survives,
    only_the_workspace_that_was_named_is_reconciled,
    waiting_lasts_until_the_last_session_of_what_drains_has_ended,
    a_container_that_removes_itself_when_it_stops_is_taken_only_by_name,
];

fn a_stale_container_with_a_live_session_is_kept_untouched_and_goes_once_the_session_has_ended(
    engine: &RealEngine,
) {
    let host = KeptHost::on(engine);
    let id = host.outdated("atlas").running();
    host.store.session("s1", "atlas").status("active").insert();
    let run = host.started_at(&id);

    let first = host.reconcile(&[]).expect_exit(0);
    host.expect_result(&first, "atlas", "kept", "session s1 is live");
    assert_eq!(host.started_at(&id), run, "it was started anew");
    assert_eq!(engine.state(&id).as_deref(), Some("running"));

    host.store.end("s1");
    let second = host.reconcile(&[]).expect_exit(0);
    host.expect_result(&second, "atlas", "removed", "config 0ld is not c0ffee");
    assert!(!host.exists(&id));
}

fn a_drained_container_keeps_new_sessions_out_and_goes_with_its_last_session(engine: &RealEngine) {
    let host = KeptHost::on(engine);
    let id = host.outdated("atlas").running();
    let fresh = host.current("borealis").running();
    for workspace in ["atlas", "borealis"] {
        host.store.session(&format!("in {workspace}"), workspace).status("active").insert();
    }
    host.sandkeeper(["may-start", "atlas"]).run().expect_exit(0).expect_stdout("may start");

    let marked = host.reconcile(&["--drain"]).expect_exit(0);
    host.expect_result(&marked, "atlas", "drained", "when its sessions have ended");
    host.expect_result(&marked, "borealis", "kept", "is live");
    host.sandkeeper(["may-start", "atlas"]).run().expect_exit(5).expect_stdout("draining");
    let answer = host.sandkeeper(["may-start", "atlas", "--json"]).run().expect_exit(5).json();
    assert_eq!((&answer["may_start"], &answer["draining"][0]), (&false.into(), &id.as_str().into()));
    host.sandkeeper(["may-start", "borealis"]).run().expect_exit(0);

    let waiting = host.reconcile(&[]).expect_exit(0);
    host.expect_result(&waiting, "atlas", "kept", "goes when its sessions have ended");
    assert_eq!(engine.state(&id).as_deref(), Some("running"));

    host.store.end("in atlas");
    let gone = host.reconcile(&[]).expect_exit(0);
    host.expect_result(&gone, "atlas", "removed", "");
    assert!(!host.exists(&id) && host.exists(&fresh));
    host.sandkeeper(["may-start", "atlas"]).run().expect_exit(0);
}

fn a_stale_container_is_stopped_gracefully_and_its_volumes_stay(engine: &RealEngine) {
    let host = KeptHost::on(engine);
    let folder = host.shared_folder("out");
    let volume = host.scene.name("named");
    let id = host
        .outdated("atlas")
        .mount(folder.to_str().unwrap(), "/out")
        .mount(&volume, "/named")
        .option("--volume=/anonymous")
        .script(
            "trap 'echo yes >/out/terminated; exit 0' TERM; touch /out/ready; while :; do sleep 0.05; done",
        )
        .running();
    wait_until("the trap is set", || folder.join("ready").exists());
    let mounts = engine.inspect(&id)["Mounts"].clone();
    let is_volume = |mount: &&serde_json::Value| mount["Type"] == "volume";
    let volumes: Vec<String> = mounts
        .as_array()
        .unwrap()
        .iter()
        .filter(is_volume)
        .map(|mount| mount["Name"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(volumes.len(), 2, "a named and an anonymous one: {mounts}");

    let finished = host.acting("reconcile", &["--grace", "10s"]);
    let finished = finished.run().expect_exit(0);
    host.expect_result(&finished, "atlas", "removed", "config");
    assert!(!host.exists(&id));
    assert!(folder.join("terminated").exists(), "it was killed, not asked to end");
    let left = engine.cli(&["volume", "ls", "--quiet"]);
    for volume in &volumes {
        assert!(left.lines().any(|each| each == volume), "{volume} is gone; left are: {left}");
        engine.cli(&["volume", "rm", volume]);
    }
}

fn orphans_go_unless_processes_live_in_them(engine: &RealEngine) {
    let host = KeptHost::on(engine);
    let made = host.current("made").created();
    let ended = host.current("ended").exited();
    let runs = host.current("runs").running();
    let paused = host.current("paused").paused();

    let finished = host.reconcile(&[]).expect_exit(0);
    host.expect_result(&finished, "made", "removed", "no session");
    host.expect_result(&finished, "ended", "removed", "no session");
    host.expect_result(&finished, "runs", "kept", "it is running; --include-running-orphans");
    host.expect_result(&finished, "paused", "kept", "it is paused; --include-running-orphans");
    assert!(!host.exists(&made) && !host.exists(&ended));
    assert_eq!(engine.state(&runs).as_deref(), Some("running"));
    assert_eq!(engine.state(&paused).as_deref(), Some("paused"));
}

fn running_orphans_go_when_asked_for_except_where_a_command_runs(engine: &RealEngine) {
    let host = KeptHost::on(engine);
    let runs = host.current("runs").running();
    let used = host.current("used").running();
    let command = host.scene.exec(&used);

    let finished = host.reconcile(&["--include-running-orphans"]).expect_exit(0);
    host.expect_result(&finished, "runs", "removed", "");
    host.expect_result(&finished, "used", "kept", "command");
    assert!(!host.exists(&runs));
    assert_eq!(engine.state(&used).as_deref(), Some("running"));

    command.end();
    let finished = host.reconcile(&["--include-running-orphans"]).expect_exit(0);
    host.expect_result(&finished, "used", "removed", "");
}

fn a_paused_orphan_goes_when_asked_for(engine: &RealEngine) {
    let host = KeptHost::on(engine);
    let id = host.current("paused").paused();
    let finished = host.reconcile(&["--include-running-orphans"]).expect_exit(0);
    host.expect_result(&finished, "paused", "removed", "");
    assert!(!host.exists(&id));
}

fn an_orphan_that_restarts_over_and_over_goes_only_when_asked_for(engine: &RealEngine) {
    let host = KeptHost::on(engine);
    // Docker waits longer and longer between two runs. Podman starts it again at once, shows it as running or exited,
    // whichever it happens to be, and a container that was started again since the plan is rightly left alone: there
    // each run lasts long enough to be met in it.
    let script = if engine.kind == Kind::Docker { "exit 1" } else { "sleep 5; exit 1" };
    let crash = host.current("crash").option("--restart=always").script(script).created();
    engine.start(&crash);
    if engine.kind == Kind::Docker {
        engine.wait_for_state(&crash, "restarting");
    }
    let finished = host.reconcile(&[]);
    if engine.kind == Kind::Docker {
        host.expect_result(&finished.expect_exit(0), "crash", "kept", "--include-running-orphans");
        assert!(host.exists(&crash));
    }
    wait_until("it is removed", || {
        host.reconcile(&["--include-running-orphans"]);
        !host.exists(&crash)
    });
}

fn what_is_not_persistent_goes_with_its_session_and_what_is_stays(engine: &RealEngine) {
    let host = KeptHost::on(engine);
    let passing = host.current("passing").label("sandkeeper.persistent", "false").running();
    let lasting = host.current("lasting").label("sandkeeper.persistent", "true").running();
    let outlived = host.current("outlived").label("sandkeeper.lifetime", "15m").running();
    for workspace in ["passing", "lasting", "outlived"] {
        host.store.session(&format!("in {workspace}"), workspace).insert();
    }
    let idle = host.reconcile(&[]).expect_exit(0);
    for workspace in ["passing", "lasting", "outlived"] {
        host.expect_result(&idle, workspace, "kept", "");
        host.store.end(&format!("in {workspace}"));
    }
    let over = host.reconcile(&[]).expect_exit(0);
    host.expect_result(&over, "passing", "removed", "ended");
    host.expect_result(&over, "lasting", "kept", "");
    host.expect_result(&over, "outlived", "kept", "");
    assert!(!host.exists(&passing) && host.exists(&lasting) && host.exists(&outlived));
}

fn what_is_too_new_is_kept(engine: &RealEngine) {
    let host = KeptHost::on(engine);
    let orphan = host.current("orphan").exited();
    let stale = host.outdated("stale").running();
    let finished = host.acting("reconcile", &["--min-age", "1h"]).run().expect_exit(0);
    host.expect_result(&finished, "orphan", "kept", "1h");
    host.expect_result(&finished, "stale", "kept", "1h");
    assert!(host.exists(&orphan) && host.exists(&stale));
}

fn a_dry_run_changes_nothing(engine: &RealEngine) {
    let host = KeptHost::on(engine);
    let orphan = host.current("orphan").exited();
    let stale = host.outdated("stale").running();
    let used = host.outdated("used").running();
    host.store.session("s1", "used").status("active").insert();
    let run = host.started_at(&stale);

    let arguments = ["reconcile", "--dry-run", "--json", "--drain", "--include-running-orphans"];
    let finished = host.sandkeeper(arguments).run().expect_exit(0);
    let report = finished.json();
    assert_eq!(report["dry_run"], true, "{finished}");
    for (name, action) in [("orphan", "remove"), ("stale", "stop_and_remove"), ("used", "drain")] {
        let outcome = host.outcome(&report, name);
        assert_eq!(
            (&outcome["action"], &outcome["result"]),
            (&action.into(), &"planned".into()),
            "{finished}"
        );
    }
    assert!(host.exists(&orphan) && host.exists(&stale) && host.exists(&used));
    assert_eq!(host.started_at(&stale), run);
    assert!(!host.home.state().join("sandkeeper").exists(), "a dry run leaves no state");
    host.sandkeeper(["may-start", "used"]).run().expect_exit(0);
}

fn without_a_terminal_and_without_yes_nothing_is_done(engine: &RealEngine) {
    let host = KeptHost::on(engine);
    let orphan = host.current("orphan").exited();
    let name = host.scene.name("orphan");
    for command in [vec!["reconcile"], vec!["rm", &name], vec!["stop", &name], vec!["drain", &name]] {
        host.sandkeeper(command).run().expect_exit(2).expect_stderr("--yes");
    }
    assert!(host.exists(&orphan));
    assert!(!host.home.state().join("sandkeeper").exists(), "and nothing was written");
}

fn read_only_refuses_to_act(engine: &RealEngine) {
    let host = KeptHost::on(engine);
    let orphan = host.current("orphan").exited();
    let name = host.scene.name("orphan");
    let commands = [
        vec!["reconcile"],
        vec!["rm", &name],
        vec!["stop", &name],
        vec!["drain", &name],
        vec!["undrain", &name],
    ];
    for command in commands {
        let refused = host.sandkeeper(command).args(["--yes", "--read-only"]).run();
        refused.expect_exit(1).expect_stderr("read-only");
    }
    let preview = host.sandkeeper(["reconcile", "--dry-run", "--json", "--read-only"]).run().expect_exit(0);
    host.expect_result(&preview, "orphan", "planned", "");
    assert!(host.exists(&orphan));
    assert!(!host.home.state().join("sandkeeper").exists(), "and nothing was written");
}

fn labels_inherited_from_an_image_do_not_make_a_container_ours(engine: &RealEngine) {
    let host = KeptHost::on(engine);
    let image = host.scene.name("forged") + ":latest";
    host.scene.image(&image, &[("sandkeeper.managed", "true"), ("sandkeeper.workspace", "atlas")]);
    let forged = host.scene.container(host.scene.name("forged")).image(&image).exited();
    let finished = host.reconcile(&[]);
    host.expect_result(&finished, "forged", "kept", "image");
    let name = host.scene.name("forged");
    let finished = host.acting("rm", &[&name]).run();
    assert_ne!(finished.status, Some(0), "{finished}");
    assert!(host.exists(&forged));
}

fn two_installations_never_touch_each_other(engine: &RealEngine) {
    let host = KeptHost::on(engine);
    let ours = host.current("ours").label("sandkeeper.instance", "blue").exited();
    let theirs = host.current("theirs").label("sandkeeper.instance", "green").exited();

    let disputed = host.reconcile(&[]);
    host.expect_result(&disputed, "ours", "kept", "");
    host.expect_result(&disputed, "theirs", "kept", "");

    let settled = host.reconcile(&["--instance", "blue"]).expect_exit(0);
    host.expect_result(&settled, "ours", "removed", "");
    host.expect_result(&settled, "theirs", "kept", "green");
    let name = host.scene.name("theirs");
    host.acting("rm", &["--force", &name, "--instance", "blue"]).run().expect_exit(3);
    assert!(!host.exists(&ours) && host.exists(&theirs));
}

fn a_container_named_as_the_id_of_a_removed_one_survives(engine: &RealEngine) {
    let host = KeptHost::on(engine);
    let removed = host.current("first").exited();
    host.reconcile(&[]).expect_exit(0);
    assert!(!host.exists(&removed));
    let impostor = host.scene.container(removed.clone()).exited();
    // One that is ours, so that somebody who only asks the engine for the id would find one to remove.
    let ours = host.scene.container("x".to_owned() + &removed[..20]);
    let ours = ours.label("sandkeeper.managed", "true").label("sandkeeper.workspace", "atlas").running();
    host.reconcile(&[]).expect_exit(0);
    host.acting("rm", &[&removed]).run().expect_exit(1).expect_stderr("is no container, id or workspace");
    assert!(host.exists(&impostor) && host.exists(&ours));
}

fn only_the_workspace_that_was_named_is_reconciled(engine: &RealEngine) {
    let host = KeptHost::on(engine);
    let here = host.current("here").exited();
    let there = host.current("there").exited();
    let finished = host.reconcile(&["--workspace", "here"]).expect_exit(0);
    assert_eq!(finished.json()["outcomes"].as_array().unwrap().len(), 1, "{finished}");
    assert!(!host.exists(&here) && host.exists(&there));
}

fn waiting_lasts_until_the_last_session_of_what_drains_has_ended(engine: &RealEngine) {
    let host = KeptHost::on(engine);
    let id = host.outdated("atlas").running();
    host.store.session("s1", "atlas").status("active").insert();
    let waiting = host.acting("reconcile", &["--drain", "--wait", "--interval", "200ms"]).spawn();
    wait_until("it drains", || host.sandkeeper(["may-start", "atlas"]).run().status == Some(5));
    assert_eq!(engine.state(&id).as_deref(), Some("running"));
    host.store.end("s1");
    let finished = waiting.wait().expect_exit(0);
    host.expect_result(&finished, "atlas", "removed", "");
    assert!(!host.exists(&id));
}

fn a_container_that_removes_itself_when_it_stops_is_taken_only_by_name(engine: &RealEngine) {
    let host = KeptHost::on(engine);
    let id = host.outdated("fleeting").option("--rm").running();
    let finished = host.reconcile(&[]).expect_exit(0);
    host.expect_result(&finished, "fleeting", "kept", "--rm");
    assert!(host.exists(&id));
    let finished = host.acting("rm", &[&id]).run().expect_exit(0);
    let result = host.result(&finished.json(), "fleeting");
    assert!(["removed", "already_gone"].contains(&result.as_str()), "{finished}");
    assert!(!host.exists(&id));
}
