//! Containers made with `--rm`: their stop is their removal, so it is refused as a stop, and shown, journalled and undone as a
//! removal.

use serde_json::{Value, json};

use crate::support::engine::RealEngine;
use crate::support::kept::KeptHost;
use crate::support::on_both_engines;
use crate::support::simulated::SimHost;
use crate::support::terminal::Key;

on_both_engines![
    a_stop_that_would_remove_is_refused_on_the_engine,
    a_removal_by_its_own_stop_is_journalled_and_undone,
];

fn outcome(report: &Value) -> (String, String) {
    let outcome = &report["outcomes"][0];
    (outcome["result"].as_str().unwrap().to_owned(), outcome["reason"].as_str().unwrap().to_owned())
}

#[test]
fn a_stop_that_would_remove_is_refused_and_names_the_verb() {
    let host = SimHost::new();
    let id = host.sandbox("passing", "atlas").with(true, "AutoRemove", json!(true)).placed();
    host.store.session("s1", "atlas").status("active").insert();
    for arguments in [
        &["stop", "--yes", "--json", "passing"][..],
        &["stop", "--yes", "--json", "--even-if-live", "1", "passing"],
    ] {
        let finished = host.sandkeeper(arguments).run().expect_exit(3);
        let (result, reason) = outcome(&finished.json());
        assert!(result == "kept" && reason.contains("say `rm`"), "{finished}");
    }
    host.store.end("s1");
    let terminal = host.dashboard(&[]);
    terminal.wait_for("passing").type_keys("jS").wait_for("Stop: 0 to change").wait_for("made with --rm");
    terminal.press(Key::Esc).wait_gone("[ Cancel ]").quit();
    assert_eq!(host.engine.mutations(), [""; 0]);
    assert_eq!(host.state(&id).as_deref(), Some("running"));
}

#[test]
fn a_removal_by_its_own_stop_is_told_as_one_and_can_be_undone() {
    let host = SimHost::new();
    let sandbox = host.sandbox("passing", "atlas").sleeping().with(true, "AutoRemove", json!(true));
    let id = sandbox.with(true, "Tmpfs", json!({ "/scratch": "" })).placed();
    let preview = host.sandkeeper(&["rm", "--dry-run", "passing"]).run().expect_exit(0);
    let preview = preview.expect_stdout("its stop removes it at once").expect_stdout("stop, then remove");
    preview.expect_stdout("memory-backed /scratch");
    let finished =
        host.sandkeeper(&["rm", "--yes", "--json", "--grace", "1s", "passing"]).run().expect_exit(0);
    let (result, reason) = outcome(&finished.json());
    assert_eq!(result, "removed", "{finished}");
    assert!(reason.contains("made with --rm") && reason.contains("went with its stop"), "{reason}");
    assert_eq!(host.state(&id), None);
    assert!(host.engine.mutations().iter().all(|request| !request.starts_with("DELETE")));
    let log = host.sandkeeper(&["log", "--json"]).run().expect_exit(0).json();
    let steps: Vec<&str> =
        log[0]["steps"].as_array().unwrap().iter().map(|step| step["step"].as_str().unwrap()).collect();
    assert_eq!(steps.iter().filter(|step| **step == "removing").count(), 1, "{log:#}");
    assert!(log[0]["outcome"].as_str().unwrap().starts_with("removed"), "{log:#}");
    let undone = host.sandkeeper(&["undo", "--yes", "--json"]).run().expect_exit(0);
    assert_eq!(outcome(&undone.json()).0, "recreated", "{undone}");
    assert_eq!(host.names(), ["passing"]);
}

#[test]
fn a_session_that_comes_before_the_stop_keeps_what_a_stop_would_remove() {
    let host = SimHost::new();
    let id = host.sandbox("passing", "atlas").with(true, "AutoRemove", json!(true)).placed();
    host.store.session("s1", "atlas").status("active").insert();
    for arguments in [&["rm"][..], &["rm", "--force"]] {
        let arguments = [arguments, &["--yes", "--json", "passing"]].concat();
        assert_eq!(outcome(&host.sandkeeper(&arguments).run().expect_exit(3).json()).0, "kept");
    }
    assert_eq!(host.state(&id).as_deref(), Some("running"));
}

#[test]
fn the_preview_of_a_stop_says_what_it_loses() {
    let host = SimHost::new();
    host.sandbox("quiet", "atlas").with(true, "Tmpfs", json!({ "/scratch": "" })).placed();
    let preview = host.sandkeeper(&["stop", "--dry-run", "quiet"]).run().expect_exit(0);
    preview.expect_stdout("in quiet: what runs in it ends; memory-backed /scratch is emptied");
    let told = host.sandkeeper(&["stop", "--dry-run", "--json", "quiet"]).run().expect_exit(0).json();
    assert_eq!(told["outcomes"][0]["losses"].as_array().map(Vec::len), Some(2), "{told:#}");
    let terminal = host.dashboard(&[]);
    terminal.wait_for("quiet").type_keys("jS").wait_for("Stop: 1 to change");
    terminal.wait_for("memory-backed /scratch is emptied");
    terminal.press(Key::Esc).wait_gone("[ Cancel ]").quit();
}

fn a_stop_that_would_remove_is_refused_on_the_engine(engine: &RealEngine) {
    let host = KeptHost::on(engine);
    let id = host.current("passing").option("--rm").running();
    let refused = host.acting("stop", &[&host.scene.name("passing")]).run().expect_exit(3);
    host.expect_result(&refused, "passing", "kept", "say `rm`");
    assert_eq!(engine.state(&id).as_deref(), Some("running"));
}

fn a_removal_by_its_own_stop_is_journalled_and_undone(engine: &RealEngine) {
    let host = KeptHost::on(engine);
    let id = host.current("passing").option("--rm").running();
    let name = host.scene.name("passing");
    let finished = host.acting("rm", &[&name]).run().expect_exit(0);
    host.expect_result(&finished, "passing", "removed", "it went with its stop");
    assert!(!host.exists(&id));
    let log = host.sandkeeper(["log"]).run().expect_exit(0);
    log.expect_stdout("removed");
    let undone = host.sandkeeper(["undo", "--yes", "--json"]).run().expect_exit(0);
    host.expect_result(&undone, "passing", "recreated", "what was written inside");
    let again = engine.inspect(&name);
    assert_eq!(again["HostConfig"]["AutoRemove"], json!(true));
    engine.cli(&["rm", "--force", &name]);
}
