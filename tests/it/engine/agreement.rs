//! The simulated engine and a real one are asked the same and must answer the same: states, status codes, the order of
//! events. Every expectation stands once; each case runs on both.

mod arena;
mod execs;
mod lifecycle;
mod lists;
mod refusals;
mod streams;

/// Makes two tests out of every case: one on the simulated engine, one on the real one.
macro_rules! agree {
    ($($group:ident: $($case:ident),* $(,)?;)*) => {
        mod simulated {
            $($(#[test]
            fn $case() {
                super::$group::$case(&super::arena::Arena::simulated());
            })*)*
        }
        mod docker {
            $($(#[test]
            #[ignore = "needs a Docker engine: run tests/run"]
            fn $case() {
                super::$group::$case(&super::arena::Arena::docker());
            })*)*
        }
    };
}

agree! {
    lifecycle:
        a_container_is_made_and_not_started,
        a_start_runs_it_and_a_second_one_changes_nothing,
        a_stop_lets_what_listens_end_by_itself,
        a_stop_ends_what_does_not_listen_after_its_grace,
        a_stop_without_grace_ends_it_at_once,
        a_stop_uses_the_signal_the_container_asks_for,
        a_stop_of_what_does_not_run_changes_nothing,
        a_stop_wakes_what_is_paused,
        two_stops_at_once_both_succeed,
        a_kill_ends_it_without_asking,
        a_signal_nobody_listens_to_changes_nothing,
        a_signal_somebody_listens_to_ends_it,
        a_signal_wakes_what_is_paused,
        a_pause_freezes_it_until_it_is_woken,
        what_ends_by_itself_keeps_its_code,
        what_has_ended_can_be_started_again,
        a_restart_policy_starts_it_again,
        a_restart_policy_for_failures_gives_up,
        a_restart_policy_for_failures_lets_success_be,
        a_killed_container_is_not_started_again,
        one_that_removes_itself_is_gone_after_its_end,
        a_removal_takes_what_does_not_run,
        a_removal_by_force_takes_what_runs,
        a_rename_frees_the_old_name,
        whoever_waits_hears_the_exit_code,
        an_inspection_shows_what_was_asked_for;
    refusals:
        what_cannot_be_made_is_refused,
        a_name_belongs_to_one_container,
        without_a_name_the_engine_invents_one,
        what_is_not_there_is_not_found,
        what_does_not_run_takes_no_signal_and_no_pause,
        an_unknown_signal_is_refused,
        what_is_paused_is_not_started_paused_or_removed,
        what_runs_is_not_removed,
        a_command_the_image_lacks_fails_the_start,
        a_container_is_found_by_id_name_and_beginning,
        a_beginning_that_fits_several_is_refused,
        a_name_goes_before_the_beginning_of_an_id,
        the_id_of_one_that_is_gone_may_be_anothers_name,
        only_versions_the_engine_speaks_are_answered,
        an_unknown_page_is_not_found,
        a_ping_names_the_api;
    lists:
        a_list_shows_what_runs_or_everything,
        a_row_says_what_it_is,
        the_newest_come_first_and_a_limit_keeps_them,
        labels_must_all_fit,
        names_are_patterns_and_ids_beginnings,
        states_and_exit_codes_choose,
        age_and_image_choose,
        a_filter_nobody_knows_is_refused,
        an_image_is_found_by_tag_and_id;
    execs:
        a_command_is_known_from_its_making_to_its_end,
        a_command_says_how_it_ended,
        a_command_needs_a_container_that_runs,
        a_command_must_be_one,
        a_stop_ends_the_commands_as_well;
    streams:
        a_log_is_framed_by_its_outputs,
        a_log_can_be_cut_to_its_end,
        a_log_tells_when,
        a_log_that_nobody_wrote_is_empty,
        a_followed_log_goes_on_until_the_end,
        a_log_outlives_a_restart,
        statistics_of_what_runs,
        statistics_of_what_does_not_run_are_empty,
        the_processes_of_what_runs,
        processes_tell_whose_they_are,
        what_touched_nothing_has_no_changes,
        events_are_told_as_they_happen,
        an_event_says_to_whom_it_happened,
        events_can_be_chosen,
        events_of_a_time_that_is_over;
}
