//! The list of all cases, each a test of its own, and what holds of them together.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use serde_json::Value;

use super::case::{Case, Part};
use super::{check, directory, laws};
use crate::openai::parameters::TABLE;

macro_rules! cases {
    ($($name:ident)*) => {
        const NAMES: &[&str] = &[$(stringify!($name)),*];

        $(#[tokio::test]
        async fn $name() {
            check(stringify!($name)).await;
        })*
    };
}

cases! {
    a_body_of_the_responses_api_is_understood
    a_body_that_is_no_json_is_refused
    a_caller_that_goes_ends_its_turn
    a_caller_that_goes_leaves_what_is_parked
    a_command_is_a_line_of_reasoning
    a_context_that_is_too_long_is_400
    a_conversation_goes_on_on_its_thread
    a_conversation_goes_on_with_instructions_of_its_own
    a_conversation_reaches_the_model_as_it_is
    a_conversation_that_ends_with_the_assistant_goes_on
    a_decision_is_waited_for_in_the_stream
    a_declined_command_is_told
    a_declined_edit_is_told
    a_failure_that_ran_is_not_run_again
    a_history_that_is_being_gone_on_with_is_forked
    a_history_that_was_gone_on_with_is_told_anew
    a_key_may_be_bound_to_profiles
    a_key_may_run_so_many_turns_at_once
    a_key_may_use_so_many_tokens_a_day
    a_loose_schema_is_named_as_ignored
    a_missing_and_a_wrong_key_are_refused_alike
    a_missing_model_is_named
    a_model_of_the_worker_is_used
    a_plain_model_has_no_agent_around_it
    a_plan_is_lines_of_reasoning
    a_provider_that_fails_is_502
    a_provider_that_hangs_up_is_502
    a_provider_that_is_busy_is_429_with_a_time_to_come_back
    a_provider_that_is_overloaded_is_503
    a_provider_that_recovers_is_not_noticed
    a_provider_that_refuses_our_login_is_502
    a_provider_that_rejects_the_request_is_told_by_its_own_code
    a_question_is_answered
    a_question_is_answered_as_a_stream
    a_quota_that_is_used_up_is_429
    a_remote_image_is_a_clear_refusal
    a_request_that_is_sent_again_is_answered_once
    a_result_may_hold_an_image
    a_route_is_named_if_it_is_none
    a_schema_reaches_the_worker
    a_silent_profile_tells_nothing_of_its_work
    a_stop_text_that_does_not_come_changes_nothing
    a_stream_that_is_asked_for_again_is_joined
    a_tool_is_called_and_its_result_ends_the_turn
    a_tool_is_called_in_a_stream
    a_tool_may_have_the_name_of_the_workers_own
    a_worker_of_the_older_dialect_answers_too
    a_worker_that_dies_is_503
    after_an_early_error_the_next_request_is_answered
    an_edit_is_a_line_of_reasoning
    an_edited_history_is_a_new_thread
    an_effort_is_a_suffix_of_the_model
    an_effort_may_be_any_word
    an_empty_answer_is_empty
    an_image_is_part_of_the_input
    an_image_must_be_one
    an_image_said_earlier_is_part_of_the_history
    an_unknown_model_is_not_found
    another_effort_is_another_thread
    any_object_of_json_is_an_instruction
    arguments_that_were_written_anew_still_match
    audio_and_other_modalities_are_refused
    bad_calls_and_results_are_named_by_their_path
    bad_choices_of_tools_are_named
    bad_formats_of_the_answer_are_named
    bad_messages_are_named_by_their_path
    bad_responses_items_are_named_by_their_path
    bad_tools_are_named_by_their_path
    bad_values_of_plain_parameters_are_named
    content_comes_in_many_shapes
    functions_are_called_in_their_older_form
    functions_are_called_in_their_older_form_in_a_stream
    headers_of_the_openai_clients_are_borne
    ignored_numbers_must_be_numbers
    instructions_alone_start_a_turn
    instructions_in_front_become_the_threads
    instructions_in_the_middle_stay_there
    keys_come_in_any_of_three_headers
    messages_win_over_input
    models_are_listed
    names_of_speakers_are_named_as_ignored
    nothing_of_one_key_reaches_another
    null_means_absent
    one_model_is_told
    parallel_calls_come_together
    parallel_calls_come_together_in_a_stream
    reasoning_has_both_of_its_names
    responses_items_keep_roles_calls_and_results
    results_of_a_turn_that_is_gone_are_injected
    results_with_another_history_are_injected
    routes_work_without_their_prefix
    several_messages_of_one_turn_are_paragraphs
    several_threads_at_one_place_are_none
    stop_texts_end_the_answer_across_pieces
    stream_options_without_a_stream_change_nothing
    strict_tools_are_named_as_ignored
    text_beside_a_call_is_kept
    text_is_appended_and_never_guessed_at
    text_survives_every_character
    the_choice_among_tools_is_followed_as_far_as_can_be
    the_first_of_several_stop_texts_counts
    the_older_choice_of_functions_is_followed
    thoughts_and_work_are_told_in_their_order
    three_choices_are_three_turns
    three_choices_are_three_turns_in_a_stream
    three_requests_are_one_turn
    three_streams_are_one_turn
    tools_are_offered_to_the_model
    tools_instructions_and_schema_all_reach_the_worker
    two_calls_in_the_older_form_come_one_by_one
    unknown_fields_are_passed_over
    usage_comes_in_a_last_chunk_for_who_asks
    usage_is_not_told_unasked
    verbosity_and_service_tier_reach_the_worker
    web_pages_are_refused
    what_cannot_be_done_is_named_as_ignored
    what_happens_anyway_is_not_ignored
    what_is_of_the_responses_api_alone_is_refused
    what_the_user_says_beside_a_result_is_heard
    while_draining_new_turns_are_sent_away
}

#[test]
fn every_golden_file_is_a_case() {
    let files = fs::read_dir(directory()).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_file());
    let files: BTreeSet<_> = files.map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned()).collect();
    let named: BTreeSet<_> = NAMES.iter().map(|name| (*name).to_owned()).collect();
    assert_eq!(files, named);
}

#[test]
fn every_parameter_stands_in_a_case() {
    let asked: Vec<_> = all().iter().flat_map(exchanges).map(|(asked, _)| asked).collect();
    for parameter in TABLE {
        let name = parameter.name.rsplit('.').next().unwrap_or_default();
        assert!(asked.iter().any(|body| holds(body, name)), "no case sends `{}`", parameter.name);
    }
}

/// Whether a field of this name holds something, at any depth.
fn holds(value: &Value, name: &str) -> bool {
    match value {
        Value::Object(fields) => {
            fields.iter().any(|(field, value)| (field == name && !value.is_null()) || holds(value, name))
        }
        Value::Array(values) => values.iter().any(|value| holds(value, name)),
        _ => false,
    }
}

/// Of the proxy that this one takes the place of.
#[test]
fn every_known_defect_is_named_by_a_case() {
    const DEFECTS: usize = 12;
    let abouts: String = all().iter().map(|case| format!("{}\n", case.about)).collect();
    let missing: Vec<_> = (1..=DEFECTS).filter(|defect| !abouts.contains(&format!("(defect {defect})"))).collect();
    assert!(missing.is_empty(), "no case names {missing:?}");
}

#[test]
fn a_stream_says_what_the_whole_answer_says() {
    let mut said: BTreeMap<String, [Option<Spoken>; 2]> = BTreeMap::new();
    for (mut asked, answer) in all().iter().flat_map(exchanges) {
        let fields = asked.as_object_mut().expect("a request is an object");
        fields.remove("stream_options");
        let is_stream = fields.remove("stream") == Some(Value::Bool(true));
        let Some(body) = answer.strip_prefix("200 OK\n").and_then(|answer| Some(answer.split_once("\n\n")?.1)) else {
            continue;
        };
        let spoken = if is_stream { in_stream(body) } else { in_whole(body) };
        said.entry(asked.to_string()).or_default()[usize::from(is_stream)] = spoken;
    }
    let pairs: Vec<_> =
        said.iter().filter_map(|(asked, [whole, stream])| Some((asked, whole.as_ref()?, stream.as_ref()?))).collect();
    assert!(pairs.len() >= 15, "{} were asked both ways", pairs.len());
    for (asked, whole, stream) in pairs {
        assert_eq!(whole, stream, "{asked}");
    }
}

/// Content and reasoning of each choice.
type Spoken = Vec<(String, String)>;

/// `None` if it broke off.
fn in_stream(body: &str) -> Option<Spoken> {
    let chunks = laws::chunks(&format!("{body}\n\n"));
    let said = laws::read(&chunks).into_values().map(|said| (said.content, said.reasoning));
    (!laws::has_failed(&chunks)).then(|| said.collect())
}

fn in_whole(body: &str) -> Option<Spoken> {
    let answer: Value = serde_json::from_str(body).ok()?;
    let text = |message: &Value, name: &str| message[name].as_str().unwrap_or_default().to_owned();
    let choices = answer["choices"].as_array()?.iter().map(|choice| &choice["message"]);
    Some(choices.map(|message| (text(message, "content"), text(message, "reasoning_content"))).collect())
}

fn all() -> Vec<Case> {
    let read = |name: &&str| fs::read_to_string(directory().join(format!("{name}.txt"))).unwrap();
    NAMES.iter().map(|name| Case::read(&read(name))).collect()
}

/// The conversations of a case, each with its answer as it is shown.
fn exchanges(case: &Case) -> Vec<(Value, String)> {
    let mut exchanges = Vec::new();
    let mut asked = None;
    for section in &case.sections {
        match section.part() {
            Some(Part::Request(request, _)) => {
                asked = request.chat().and_then(|body| serde_json::from_str(body).ok()).filter(Value::is_object);
            }
            None if section.heading == "answer" => {
                exchanges.extend(asked.take().map(|asked| (asked, section.text.clone())))
            }
            _ => {}
        }
    }
    exchanges
}
