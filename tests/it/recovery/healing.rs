//! Healing brings back what died under a live session, and gives up what does not last.

use sandkeeper::domain::ContainerId;
use sandkeeper::engine::sim::{Fault, FaultRule, Signal};
use serde_json::json;

use super::ground::{dashboard_with_a_loss, lasting, recreate, remove_behind_our_back, result, see};
use crate::support::simulated::SimHost;
use crate::support::terminal::Key;

#[test]
fn healing_brings_back_once_and_gives_up_after_three_failures() {
    let host = SimHost::new();
    host.home.write(".config/sandkeeper/config.toml", "[recovery]\nheal = [\"native\"]\n");
    let id = lasting(&host, "atlas");
    see(&host);
    remove_behind_our_back(&host, &id);
    host.sandkeeper(&["--read-only", "heal", "--once"]).run().expect_exit(1).expect_stderr("read-only");
    assert_eq!(host.names(), [""; 0]);
    let finished = host.sandkeeper(&["heal", "--once", "--json"]).run().expect_exit(0);
    assert_eq!(result(&finished.json()).0, "recreated", "{finished}");
    let again = host.sandkeeper(&["heal", "--once", "--json"]).run().expect_exit(0).json();
    assert_eq!(again["outcomes"], json!([]), "once is enough");

    let made = host.engine.look(|world, _| ContainerId::parse(&world.find("atlas").unwrap().id).unwrap());
    remove_behind_our_back(&host, &made);
    host.engine.fault(FaultRule::on(
        "POST",
        "/containers/create",
        Fault::Status(500, "no space left".to_owned()),
    ));
    let given_up = host.sandkeeper(&["heal", "--once", "--json"]).run().expect_exit(3);
    let (_, reason) = result(&given_up.json());
    assert!(reason.contains("given up after 3 failures") && reason.contains("no space left"), "{given_up}");
    let creates = || host.engine.mutations().iter().filter(|r| r.contains("/containers/create")).count();
    assert_eq!(creates(), 3, "one that worked and did not last, and two that failed");
    let last = host.sandkeeper(&["heal", "--once", "--json"]).run().expect_exit(3);
    assert_eq!(creates(), 3, "{last}");
    // The operator may try again.
    host.engine.recover();
    assert_eq!(result(&recreate(&host, "atlas").expect_exit(0).json()).0, "recreated");
}

#[test]
fn a_running_dashboard_shows_a_loss_brings_it_back_by_key_and_heals_only_if_allowed() {
    let host = SimHost::new();
    let terminal = dashboard_with_a_loss(&host);
    terminal.type_keys("jC").wait_for("Recreate: 1 to change").type_keys("y");
    terminal.wait_for("recreate is over: 1 recreated").press(Key::Enter).wait_gone("[ Close ]");
    terminal.wait_gone("1 lost").wait_for("1 active");
    // Remove it by key, and take that back.
    host.store.set_status("atlas-session", "idle");
    terminal.wait_gone("1 active").type_keys("jX");
    terminal.wait_for("within the grace").press(Key::Esc).wait_gone("[ Cancel ]");
    terminal.quit();

    host.store.set_status("atlas-session", "active");
    host.home.write(".config/sandkeeper/config.toml", "[recovery]\nheal = [\"native\"]\n");
    let terminal = host.dashboard(&[]);
    terminal.wait_for("1 active");
    let made = host.engine.look(|world, _| ContainerId::parse(&world.find("atlas").unwrap().id).unwrap());
    remove_behind_our_back(&host, &made);
    terminal.wait_for("recreated atlas");
    assert_eq!(host.names(), ["atlas"]);
    terminal.quit();
}

#[test]
fn what_somebody_removed_on_purpose_is_not_healed() {
    let host = SimHost::new();
    host.home.write(".config/sandkeeper/config.toml", "[recovery]\nheal = [\"native\"]\n");
    let id = host.sandbox("atlas", "atlas").sleeping().placed();
    host.store.session("s1", "atlas").container("atlas").status("active").insert();
    see(&host);
    let finished =
        host.sandkeeper(&["rm", "--force", "--even-if-live", "1", "--yes", "--json", "atlas"]).run();
    assert_eq!(result(&finished.json()).0, "removed", "{finished}");
    let healed = host.sandkeeper(&["heal", "--once", "--json"]).run().expect_exit(0).json();
    assert_eq!((&healed["outcomes"], host.names().len()), (&json!([]), 0), "{healed:#}");
    assert_eq!(host.state(&id), None);
    // Whoever wants it back says so.
    assert_eq!(result(&recreate(&host, "atlas").expect_exit(0).json()).0, "recreated");
}

#[test]
fn healing_gives_up_what_starts_and_does_not_last() {
    let host = SimHost::new();
    host.home.write(".config/sandkeeper/config.toml", "[recovery]\nheal = [\"native\"]\n");
    let mut id = lasting(&host, "atlas");
    see(&host);
    for round in 1..=3 {
        remove_behind_our_back(&host, &id);
        let healed = host.sandkeeper(&["heal", "--once", "--json"]).run();
        assert_eq!(result(&healed.json()).0, "recreated", "round {round}: {healed}");
        id = host.engine.look(|world, _| ContainerId::parse(&world.find("atlas").unwrap().id).unwrap());
    }
    remove_behind_our_back(&host, &id);
    let healed = host.sandkeeper(&["heal", "--once", "--json"]).run().expect_exit(3);
    let (ending, reason) = result(&healed.json());
    assert_eq!(ending, "kept", "{healed}");
    assert!(reason.contains("given up") && reason.contains("did not last"), "{reason}");
    assert_eq!(host.names(), [""; 0]);
}

#[test]
fn healing_tells_a_kill_from_a_stop_by_what_the_engine_remembers() {
    let host = SimHost::new();
    host.home.write(".config/sandkeeper/config.toml", "[recovery]\nheal = [\"native\"]\n");
    let (killed, stopped) = (lasting(&host, "killed"), lasting(&host, "stopped"));
    see(&host);
    host.engine.act(|world, now| world.signal(now, killed.as_str(), Signal::KILL)).unwrap();
    // It does not listen, and is killed after its grace: an ordinary stop all the same.
    host.sandkeeper(&["stop", "--yes", "--json", "--grace", "1s", "--even-if-live", "1", "stopped"])
        .run()
        .expect_exit(0);
    let healed = host.sandkeeper(&["heal", "--once", "--json"]).run().expect_exit(0);
    assert_eq!(result(&healed.json()).0, "started", "{healed}");
    assert_eq!(host.state(&killed).as_deref(), Some("running"));
    assert_eq!(host.state(&stopped).as_deref(), Some("exited"), "somebody wanted it so");
}
