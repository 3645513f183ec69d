//! Moving, finding, folding, marking: what the eyes and fingers rely on.

use super::desk::Desk;
use crate::facts::profiles::native;
use crate::facts::{Facts, bare, id_of, sandbox, session};
use sandkeeper::domain::SystemName;

fn fleet() -> Facts {
    Facts::native()
        .container(sandbox("amber").workspace("atlas"))
        .container(sandbox("beryl").workspace("atlas").state("exited"))
        .container(sandbox("coral").workspace("borealis"))
        .container(sandbox("dune").workspace("cygnus").state("exited"))
        .session(session("s1").workspace("atlas").live())
        .session(session("s2").workspace("borealis"))
}

#[test]
fn containers_stand_below_their_workspace_with_its_worst_status() {
    let desk = Desk::on(&fleet());
    let screen = desk.screen();
    let place = |text: &str| screen.lines().position(|line| line.contains(text)).unwrap();
    assert!(place("▾ atlas") < place("amber") && place("amber") < place("beryl"));
    assert!(place("beryl") < place("▾ borealis") && place("▾ cygnus") < place("dune"));
    assert!(screen.lines().nth(place("▾ cygnus")).unwrap().contains("orphaned"));
}

#[test]
fn workspaces_of_one_name_stand_apart_if_they_are_of_two_systems() {
    let mut twin = native();
    twin.name = SystemName::new("twin");
    twin.recognition.labels = [("twin.managed".to_owned(), "true".to_owned())].into_iter().collect();
    let facts = Facts::native()
        .container(sandbox("amber").workspace("default"))
        .container(sandbox("coral").workspace("alone"))
        .system(twin)
        .container(bare("beryl").label("twin.managed", "true").workspace("default"));
    let mut desk = Desk::on(&facts);
    desk.shows("▾ default · native").shows("▾ default · twin").shows("▾ alone").hides("alone ·");
    // Folding the one leaves the other as it is.
    let place = |desk: &Desk, text: &str| desk.screen().lines().position(|line| line.contains(text)).unwrap();
    assert!(place(&desk, "default · native") < place(&desk, "amber"));
    desk.press("G z");
    assert_eq!(desk.screen().contains("amber"), !desk.screen().contains("beryl"), "{}", desk.screen());
}

#[test]
fn the_cursor_follows_its_container_through_sort_filter_and_refresh() {
    let mut desk = Desk::on(&fleet());
    desk.press("G k");
    assert!(desk.cursor_line().contains("cygnus"));
    desk.press("j");
    assert!(desk.cursor_line().contains("dune"), "{}", desk.screen());
    desk.press("o j j enter");
    assert!(desk.cursor_line().contains("dune"), "after a sort\n{}", desk.screen());
    desk.press("/ 'du' enter");
    assert!(desk.cursor_line().contains("dune"), "after a filter\n{}", desk.screen());
    desk.press("esc").sees(&fleet().container(sandbox("aaa").workspace("aaa")));
    assert!(desk.cursor_line().contains("dune"), "after a refresh\n{}", desk.screen());
}

#[test]
fn a_row_that_goes_leaves_the_cursor_where_it_was() {
    let mut desk = Desk::on(&fleet());
    desk.press("j");
    assert!(desk.cursor_line().contains("amber"));
    desk.sees(
        &Facts::native()
            .container(sandbox("beryl").workspace("atlas"))
            .container(sandbox("coral").workspace("borealis")),
    );
    assert!(desk.cursor_line().contains("beryl"), "{}", desk.screen());
}

#[test]
fn a_filter_works_as_it_is_typed_and_esc_brings_back_what_was() {
    let mut desk = Desk::on(&fleet());
    desk.press("/ 'cor'");
    desk.shows("coral").hides("amber").shows("1 of 4");
    desk.press("esc");
    desk.shows("amber");
    desk.press("/ 'status:orph' enter");
    desk.shows("dune").hides("coral").shows("/status:orph");
    desk.press("/ ' ws:nowhere' enter");
    desk.shows("Nothing fits the filter").shows("4 rows are hidden");
    desk.press("a");
    desk.shows("amber").shows("dune");
}

#[test]
fn filters_know_statuses_workspaces_systems_states_labels_and_their_opposites() {
    for (filter, hits) in [
        ("status:active", vec!["amber", "beryl"]),
        ("status:idle,orphaned", vec!["coral", "dune"]),
        ("ws:atlas", vec!["amber", "beryl"]),
        ("!ws:atlas", vec!["coral", "dune"]),
        ("state:exited", vec!["beryl", "dune"]),
        ("ws:atlas state:exited", vec!["beryl"]),
        ("system:native name:dune", vec!["dune"]),
        ("label:sandkeeper.workspace=bor", vec!["coral"]),
        ("abr", vec!["amber"]),
    ] {
        let mut desk = Desk::on(&fleet());
        desk.press(&format!("/ '{filter}' enter f"));
        for name in ["amber", "beryl", "coral", "dune"] {
            let screen = desk.screen();
            let shown = screen.lines().skip(1).take(8).any(|line| line.contains(name));
            assert_eq!(shown, hits.contains(&name), "{filter}: {name}\n{screen}");
        }
    }
}

#[test]
fn marks_survive_filter_sort_and_refresh_and_go_with_their_container() {
    let mut desk = Desk::on(&fleet());
    desk.press("j space");
    assert!(desk.model.list.marks.contains(&id_of("amber")));
    desk.press("/ 'dune' enter").sees(&fleet());
    assert!(desk.model.list.marks.contains(&id_of("amber")));
    desk.shows("1 marked");
    desk.press("a o j enter O");
    assert!(desk.screen().contains("* amber"), "{}", desk.screen());
    desk.sees(&Facts::native().container(sandbox("beryl").workspace("atlas")));
    assert!(desk.model.list.marks.is_empty());
}

#[test]
fn marks_do_not_go_while_the_engine_is_away() {
    let mut desk = Desk::on(&fleet());
    desk.press("j space");
    desk.sees(&fleet().engine_fault("connection refused"));
    assert!(desk.model.list.marks.contains(&id_of("amber")));
}

#[test]
fn star_marks_what_is_visible_and_takes_it_back() {
    let mut desk = Desk::on(&fleet());
    desk.press("/ 'ws:atlas' enter *");
    assert_eq!(desk.model.list.marks.len(), 2);
    desk.press("*");
    assert!(desk.model.list.marks.is_empty());
    desk.press("a *");
    assert_eq!(desk.model.list.marks.len(), 4);
    desk.press("esc");
    assert!(desk.model.list.marks.is_empty(), "esc clears marks once nothing else is to be cleared");
}

#[test]
fn a_folded_workspace_hides_its_containers_and_still_counts_as_them() {
    let mut desk = Desk::on(&fleet());
    desk.press("j z");
    desk.hides("amber").shows("▸ atlas").shows("2 hidden");
    assert!(desk.cursor_line().contains("atlas"));
    assert_eq!(desk.model.list.targets().len(), 2);
    desk.press("z");
    desk.shows("amber");
    desk.press("Z");
    desk.hides("coral").hides("dune");
    desk.press("a");
    desk.shows("coral");
}

#[test]
fn a_flat_list_has_no_workspaces() {
    let mut desk = Desk::on(&fleet());
    desk.press("f");
    desk.hides("▾").shows("amber").shows("CONTAINER");
}

#[test]
fn the_mouse_selects_what_it_points_at_and_turns_tabs() {
    let mut desk = Desk::on(&fleet());
    let screen = desk.screen();
    let row = screen.lines().position(|line| line.contains("coral")).unwrap();
    desk.take(sandkeeper::ui::Message::Click { column: 5, row: u16::try_from(row).unwrap() });
    assert!(desk.cursor_line().contains("coral"));
    let tabs = screen.lines().position(|line| line.contains("[Why]")).unwrap();
    let column = screen.lines().nth(tabs).unwrap().chars().position(|c| c == 'S').unwrap();
    desk.take(sandkeeper::ui::Message::Click {
        column: u16::try_from(column).unwrap(),
        row: u16::try_from(tabs).unwrap(),
    });
    desk.shows("[Sessions]").shows("s2");
    desk.take(sandkeeper::ui::Message::Wheel(-3));
    assert!(!desk.cursor_line().contains("coral"));
}

#[test]
fn the_palette_finds_and_runs_what_a_key_would() {
    let mut desk = Desk::on(&fleet());
    desk.press(": 'flat' enter");
    desk.hides("▾ atlas");
    desk.press(": 'zzzz'");
    desk.shows("No command fits.");
    desk.press("esc");
    desk.hides("No command fits.");
}

#[test]
fn help_lists_every_key_and_read_only_help_none_that_acts() {
    let mut desk = Desk::on(&fleet());
    desk.sized(120, 60).press("?");
    desk.shows("Remove, killing what runs in it").shows("Acting").shows("ctrl-z");
    let mut viewer = Desk::read_only(&fleet());
    viewer.sized(120, 60).press("?");
    viewer.hides("Remove, killing").hides("Acting").shows("ctrl-z");
}

#[test]
fn every_size_can_be_drawn() {
    let mut desk = Desk::on(&fleet());
    for keys in ["", "R", "esc ?", "esc :", "esc o", "esc /", "esc enter tab tab tab"] {
        desk.press(keys);
        for (width, height) in [(1, 1), (2, 2), (5, 3), (20, 4), (7, 40), (80, 24), (300, 90), (0, 0)] {
            desk.sized(width, height);
            desk.buffer();
        }
    }
}
