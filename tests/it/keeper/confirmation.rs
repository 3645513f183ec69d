//! What is typed on a terminal before something is changed: a preview first, never just Enter, and a phrase with the number
//! for many or for force.

use crate::support::native::{Host, native_row};
use crate::support::rows::Row;
use crate::support::scripted::Behaviour;
use crate::support::stores::NativeStore;
use rstest::rstest;

/// A host with so many orphans, each of which the engine removes when asked.
fn host(count: usize) -> (Host, NativeStore) {
    let rows: Vec<Row> =
        (0..count).map(|number| native_row(&format!("box-{number}"), "atlas").state("exited")).collect();
    let host = Host::with(&rows);
    for row in &rows {
        let gone = Behaviour::error(404, "No such container");
        let answers = Behaviour::Sequence(vec![Behaviour::json(&row.inspect()), gone]);
        host.engine.on("GET", &format!("/containers/{}/json", row.id), answers);
    }
    host.engine.on("DELETE", "/containers/*", Behaviour::empty(204));
    let store = NativeStore::create(host.home.native_store());
    (host, store)
}

#[rstest]
#[case::yes("yes\n", 2)]
#[case::yes_with_spaces("  yes \n", 2)]
#[case::enter_alone("\n", 0)]
#[case::y("y\n", 0)]
#[case::no("no\n", 0)]
#[case::capitals("YES\n", 0)]
#[case::the_end_of_the_input("", 0)]
fn a_few_are_removed_only_after_a_typed_yes(#[case] typed: &str, #[case] removed: usize) {
    let (host, _store) = host(2);
    let finished = host.sandkeeper(["reconcile"]).typing(typed).run().expect_exit(0);
    assert!(finished.stdout.contains("2 to change") && finished.stdout.contains("box-1"), "{finished}");
    assert_eq!(host.engine.count("DELETE", "/*"), removed, "{finished}");
    if removed == 0 {
        finished.expect_stdout("Nothing was done");
    }
}

#[rstest]
#[case::yes("yes\n", 0)]
#[case::the_wrong_number("change 11\n", 0)]
#[case::the_phrase("change 12\n", 12)]
fn for_many_the_number_must_be_typed(#[case] typed: &str, #[case] removed: usize) {
    let (host, _store) = host(12);
    let arguments = ["reconcile", "--override-brake", "12"];
    let finished = host.sandkeeper(arguments).typing(typed).run().expect_exit(0);
    finished.expect_stdout("change 12");
    assert_eq!(host.engine.count("DELETE", "/*"), removed);
}

#[rstest]
#[case::yes("yes\n", 0)]
#[case::the_phrase("force 1\n", 1)]
fn force_has_a_phrase_of_its_own(#[case] typed: &str, #[case] removed: usize) {
    let (host, _store) = host(2);
    let finished = host.sandkeeper(["rm", "--force", "box-1"]).typing(typed).run().expect_exit(0);
    finished.expect_stdout("remove by force").expect_stdout("force 1");
    assert_eq!(host.engine.count("DELETE", "/*"), removed);
}
