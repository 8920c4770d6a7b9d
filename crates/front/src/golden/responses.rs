//! The list of all cases of the Responses API, each a test of its own.

use std::collections::BTreeSet;
use std::fs;

use super::{check, directory};

macro_rules! cases {
    ($($name:ident)*) => {
        const NAMES: &[&str] = &[$(stringify!($name)),*];

        $(#[tokio::test]
        async fn $name() {
            check(concat!("responses/", stringify!($name))).await;
        })*
    };
}

cases! {
    a_call_that_waits_in_vain_is_told_anew
    a_call_without_its_output_is_refused
    a_caller_that_goes_ends_the_response
    a_context_that_is_too_long_is_told
    a_conversation_cannot_be_had_in_every_way
    a_conversation_goes_on_by_its_name
    a_conversation_is_made_short
    a_decision_is_waited_for_in_the_stream
    a_plain_model_has_no_agent_around_it
    a_previous_response_must_be_there_and_over
    a_provider_that_fails_fails_the_response
    a_provider_that_recovers_is_not_noticed
    a_question_is_answered
    a_question_is_answered_as_a_stream
    a_request_that_is_sent_again_is_answered_once
    a_response_goes_on_on_its_thread
    a_response_in_the_background_is_cancelled
    a_response_in_the_background_is_polled_and_followed
    a_response_in_the_background_is_streamed_at_once
    a_response_that_is_deleted_stays_part_of_what_follows
    a_response_that_went_on_is_forked
    a_schema_is_the_form_of_the_answer
    a_silent_profile_tells_no_work
    a_thought_has_its_summaries_and_itself
    a_tool_may_have_the_name_of_the_workers_own
    a_worker_that_dies_fails_the_response
    an_empty_text_is_said_and_an_empty_list_is_nothing
    an_image_is_seen
    another_key_finds_nothing
    bad_values_are_named_by_their_path
    calls_are_answered_by_items_that_are_repeated
    calls_are_answered_by_the_id_of_their_response
    calls_are_answered_one_behind_the_other
    effort_summary_and_tier_reach_the_worker
    input_items_come_in_pages
    instructions_and_developer_messages_reach_the_worker
    items_of_every_kind_reach_the_worker
    items_that_are_only_named_are_found
    metadata_has_its_limits
    null_means_absent
    only_the_background_can_be_followed_or_cancelled
    other_instructions_are_told_anew
    routes_without_a_prefix_are_the_same
    several_calls_are_items_in_their_order
    text_survives_every_character
    the_background_needs_the_store
    the_choice_among_tools_is_followed_as_far_as_can_be
    thoughts_and_work_are_reasoning_items
    tools_that_cannot_be_served_are_refused
    what_cannot_be_done_is_named_as_ignored
    what_is_not_stored_is_not_found
    work_is_items_for_who_asks
}

#[test]
fn every_golden_file_is_a_case() {
    let files = fs::read_dir(directory().join("responses")).unwrap().map(|entry| entry.unwrap().path());
    let files: BTreeSet<_> = files.map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned()).collect();
    let named: BTreeSet<_> = NAMES.iter().map(|name| (*name).to_owned()).collect();
    assert_eq!(files, named);
}
