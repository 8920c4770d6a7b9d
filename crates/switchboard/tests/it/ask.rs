//! `switchboard ask` against the demo worker.

use std::os::unix::fs::PermissionsExt as _;

use rustix::process::Signal;
use serde_json::Value;

use crate::command::State;
use crate::scale;

#[test]
fn hello_is_answered_by_the_demo_worker() {
    let state = State::new();
    let ended = state.ask(&["hello"]).end();
    assert_eq!(ended.code(), Some(0), "{}", ended.stderr);
    assert!(ended.stdout.contains("demo worker"), "{}", ended.stdout);
    assert!(ended.stdout.contains("“hello”"), "{}", ended.stdout);
    assert!(ended.stdout.ends_with('\n'));
    assert_eq!(ended.stderr, "");
}

#[test]
fn json_prints_one_event_per_line_and_the_end_last() {
    let state = State::new();
    let ended = state.ask(&["--json", "[[reason]]"]).end();
    assert_eq!(ended.code(), Some(0), "{}", ended.stderr);
    let names = ended.event_names();
    let expected = [
        "turn_started",
        "item_started",
        "item_completed",
        "item_started",
        "reasoning_part",
        "reasoning_summary",
        "reasoning_part",
        "reasoning_summary",
        "reasoning",
        "item_completed",
        "item_started",
        "text",
        "item_completed",
        "token_usage",
        "turn_ended",
    ];
    let names: Vec<&str> = names.iter().map(String::as_str).filter(|name| *name != "warning").collect();
    assert_eq!(names, expected);
    assert_eq!(ended.end()["status"], "completed");
}

#[test]
fn every_delta_of_a_flood_arrives_in_order() {
    let state = State::new();
    let deltas = 20_000 * scale();
    let ended = state.ask(&[&format!("[[deltas {deltas}]]")]).end();
    assert_eq!(ended.code(), Some(0), "{}", ended.stderr);
    let expected: Vec<String> = (0..deltas).map(|n| format!("t{n}")).collect();
    let words: Vec<&str> = ended.stdout.split_whitespace().collect();
    assert!(words == expected, "{} words", words.len());
}

#[test]
fn a_thread_goes_on_in_another_run() {
    let state = State::new();
    let first = state.ask(&["--json", "[[text]]"]).end();
    let started = first.events().into_iter().find(|event| event["type"] == "turn_started");
    let thread = started.unwrap()["thread"].clone();
    let second = state.ask(&["--json", "--thread", thread.as_str().unwrap(), "[[text]]"]).end();
    assert_eq!(second.code(), Some(0), "{}", second.stderr);
    let starts: Vec<Value> = second.events().into_iter().filter(|event| event["type"] == "turn_started").collect();
    assert_eq!(starts.len(), 1);
    assert_eq!(starts[0]["thread"], thread);
    let usage = second.events().into_iter().filter(|event| event["type"] == "token_usage").count();
    assert_eq!(usage, 1, "the usage of the first turn is not the second's");
}

#[test]
fn an_unknown_thread_is_refused_with_the_workers_words() {
    let state = State::new();
    let id = "01a1e074-0000-7000-8000-000000000000";
    let ended = state.ask(&["--thread", id, "hello"]).end();
    assert_eq!(ended.code(), Some(1));
    assert!(ended.stderr.contains("no rollout found for thread id"), "{}", ended.stderr);
}

#[test]
fn ctrl_c_interrupts_the_turn_and_leaves_nothing() {
    for signal in [Signal::INT, Signal::TERM] {
        let state = State::new();
        let mut run = state.ask(&["--json", "[[slow 1000 20]]"]);
        run.wait_for(r#""type":"text""#);
        run.signal(signal);
        let ended = run.end();
        assert_eq!(ended.code(), Some(130), "{}", ended.stderr);
        assert_eq!(ended.event_names().last().map(String::as_str), Some("turn_ended"));
        assert_eq!(ended.end()["status"], "interrupted");
    }
}

#[test]
fn ctrl_c_while_the_answer_hangs_interrupts_too() {
    let state = State::new();
    let mut run = state.ask(&["--json", "[[hang]]"]);
    run.wait_for(r#""type":"item_completed""#);
    run.signal(Signal::INT);
    let ended = run.end();
    assert_eq!(ended.code(), Some(130), "{}", ended.stderr);
    assert_eq!(ended.end()["status"], "interrupted");
}

#[test]
fn a_reader_that_goes_away_ends_the_run() {
    let state = State::new();
    let mut run = state.ask(&["[[slow 1000 5]]"]);
    run.wait_for("s1 ");
    assert!(!run.hang_up().success());
}

#[test]
fn a_reader_that_does_not_read_cannot_keep_a_signal_away() {
    // Whoever runs the tests so that they outlive a terminal has it ignored, and so do those whom they start.
    let hang_up = Some(Signal::HUP).filter(|_| !ignores_hang_up());
    for signal in [Signal::INT].into_iter().chain(hang_up) {
        let state = State::new();
        let heard = state.path().join("heard");
        let worker = state.capturing_worker(&heard, "");
        let mut run = state.ask(&["--worker", &worker, "[[deltas 10000000]]"]);
        run.wait_for("t1 ");
        run.signal(signal);
        run.wait_for_exit();
        assert_eq!(run.end().code(), Some(130));
        assert!(std::fs::read_to_string(heard).unwrap().contains("turn/interrupt"));
    }
}

fn ignores_hang_up() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap().trim();
    u64::from_str_radix(ignored, 16).unwrap() & 1 == 1
}

#[test]
fn a_terminal_is_sent_nothing_that_it_would_obey() {
    let state = State::new();
    let sent = state.ask_on_terminal(&["[[say plain \u{1b}[2Jcleared \u{202e}turned]]"]);
    assert_eq!(sent, "plain <U+001B>[2Jcleared <U+202E>turned\r\n");
}

#[test]
fn a_full_disk_under_stdout_is_told() {
    let state = State::new();
    let ended = state.ask_into(std::fs::File::create("/dev/full").unwrap(), &["[[text]]"]);
    assert_eq!(ended.code(), Some(1));
    assert!(ended.stderr.contains("No space left"), "{}", ended.stderr);
}

#[test]
fn a_prompt_can_come_from_stdin() {
    let state = State::new();
    let ended = state.ask_from("[[say from stdin]]\n", &["-"]);
    assert_eq!((ended.code(), ended.stdout.trim()), (Some(0), "from stdin"), "{}", ended.stderr);
}

#[test]
fn an_empty_prompt_is_a_mistake() {
    let state = State::new();
    for ended in [state.ask_from(" \n", &["-"]), state.ask_from("", &[""])] {
        assert_eq!(ended.code(), Some(1));
        assert_eq!(ended.stderr, "switchboard: the prompt is empty: say what to ask\n");
    }
}

#[test]
fn a_command_is_named_when_it_is_shown_and_when_it_is_declined() {
    let state = State::new();
    let ended = state.ask(&["[[shellesc touch x]]"]).end();
    assert!(ended.stderr.contains("touch x") && ended.stderr.contains("declined "), "{}", ended.stderr);
}

#[test]
fn what_nobody_can_decide_is_declined() {
    let state = State::new();
    let ended = state.ask(&["[[patch made.txt hello]]"]).end();
    assert_eq!(ended.code(), Some(0), "{}", ended.stderr);
    assert!(ended.stderr.contains("declined item/fileChange/requestApproval"), "{}", ended.stderr);
    assert_eq!(ended.stdout, "Done after tool.\n");
}

#[test]
fn a_failed_turn_says_why() {
    let state = State::new();
    let ended = state.ask(&["[[ctx]]"]).end();
    assert_eq!(ended.code(), Some(1));
    assert!(ended.stderr.contains("context_window_exceeded"), "{}", ended.stderr);
}

#[test]
fn a_crashed_worker_loses_the_turn_and_its_last_words_are_shown() {
    let state = State::new();
    let ended = state.ask(&["--json", "[[crash 2]]"]).end();
    assert_eq!(ended.code(), Some(1));
    ended.event_names();
    assert_eq!(ended.end()["status"], "lost");
    let message = ended.end()["error"]["message"].to_string();
    assert!(message.contains("switchboard (pid"), "{message}");
}

#[test]
fn faulty_lines_are_noted_and_the_turn_goes_on() {
    for (marker, note) in
        [("[[garbage]]", "not JSON"), ("[[utf8]]", "invalid UTF-8"), ("[[deep 10000]]", "nesting too deep")]
    {
        let state = State::new();
        let ended = state.ask(&[marker]).end();
        assert_eq!(ended.code(), Some(0), "{marker}: {}", ended.stderr);
        assert!(ended.stderr.contains(note), "{marker}: {}", ended.stderr);
        assert!(ended.stdout.ends_with("after the fault.\n"), "{marker}: {}", ended.stdout);
    }
}

#[test]
fn a_turn_survives_what_a_worker_does_beside_it_and_nothing_is_left() {
    for marker in ["[[partial 20]]", "[[stderr 2000000]]", "[[orphan group]]"] {
        let state = State::new();
        let ended = state.ask(&[marker]).end();
        assert_eq!(ended.code(), Some(0), "{marker}: {}", ended.stderr);
        assert!(ended.stdout.starts_with("Before the fault; "), "{marker}: {}", ended.stdout);
        assert!(ended.stdout.ends_with("after the fault.\n"), "{marker}: {}", ended.stdout);
    }
}

#[test]
fn wrong_answers_are_noted_and_the_right_ones_count() {
    for (answers, note) in [("twice", "second answer to call"), ("unknown", "answer to an unknown call")] {
        let state = State::new();
        let worker = state.worker("", &format!("[calls]\nanswers = \"{answers}\"\n"));
        let ended = state.ask(&["--worker", &worker, "[[text]]"]).end();
        assert_eq!(ended.code(), Some(0), "{answers}: {}", ended.stderr);
        assert_eq!(ended.stdout, "Hello from mock.\n", "{answers}");
        assert!(ended.stderr.contains(note), "{answers}: {}", ended.stderr);
    }
}

#[test]
fn a_worker_of_the_old_dialect_is_spoken_to_in_it() {
    let state = State::new();
    let worker = state.worker("", "");
    let text = std::fs::read_to_string(&worker).unwrap().replace("--script", "--dialect v1 --script");
    std::fs::write(&worker, text).unwrap();
    let ended = state.ask(&["--worker", &worker, "[[text]]"]).end();
    assert_eq!(ended.code(), Some(0), "{}", ended.stderr);
    assert_eq!(ended.stdout, "Hello from mock.\n");
}

#[test]
fn a_line_of_a_hundred_megabytes_is_skipped() {
    let state = State::new();
    let ended = state.ask(&["[[line 100000000]]"]).end();
    assert_eq!(ended.code(), Some(0), "{}", ended.stderr);
    assert!(ended.stderr.contains("too long (a line of 99999999 bytes"), "{}", ended.stderr);
    assert!(ended.stdout.ends_with("after the fault.\n"));
}

#[test]
fn a_worker_that_cannot_be_started_is_named_with_what_to_do() {
    let state = State::new();
    let ended = state.ask(&["--json", "--worker", "/no/such/codex", "hello"]).end();
    assert_eq!(ended.code(), Some(1));
    assert_eq!(ended.event_names(), ["turn_ended"]);
    assert_eq!(ended.end()["status"], "lost");
    let ended = state.ask(&["--worker", "/no/such/codex", "hello"]).end();
    assert!(ended.stderr.contains("`/no/such/codex` does not exist: install it"), "{}", ended.stderr);
}

#[test]
fn a_program_that_is_no_worker_fails_the_handshake_with_its_last_words() {
    let state = State::new();
    let ended = state.ask(&["--worker", "/bin/cat", "hello"]).end();
    assert_eq!(ended.code(), Some(1));
    assert!(ended.stderr.contains("the handshake failed"), "{}", ended.stderr);
    assert!(ended.stderr.contains("cat: "), "{}", ended.stderr);
}

#[test]
fn a_directory_that_does_not_exist_is_refused_before_anything_starts() {
    let state = State::new();
    let ended = state.ask(&["--cd", "/no/such/place", "hello"]).end();
    assert_eq!(ended.code(), Some(1));
    assert!(ended.stderr.contains("cannot work in /no/such/place"), "{}", ended.stderr);
}

#[test]
fn a_second_ctrl_c_stops_a_worker_that_does_not_end_the_turn() {
    let state = State::new();
    let worker = state.worker("", "[calls]\nunanswered = [\"turn/interrupt\"]\n");
    let mut run = state.ask(&["--json", "--worker", &worker, "[[hang]]"]);
    run.wait_for(r#""type":"item_completed""#);
    run.signal(Signal::INT);
    run.signal(Signal::TERM);
    let ended = run.end();
    assert_eq!(ended.code(), Some(130), "{}", ended.stderr);
    assert_eq!(ended.end()["status"], "lost");
    let message = ended.end()["error"]["message"].to_string();
    assert!(message.contains("interrupted twice"), "{message}");
}

#[test]
fn a_worker_that_does_not_end_the_turn_is_stopped_after_the_grace() {
    let state = State::new();
    let worker = state.worker("", "[calls]\nunanswered = [\"turn/interrupt\"]\n");
    let mut run = state.ask(&["--json", "--worker", &worker, "[[hang]]"]);
    run.wait_for(r#""type":"item_completed""#);
    run.signal(Signal::INT);
    let ended = run.end();
    assert_eq!(ended.code(), Some(130), "{}", ended.stderr);
    assert_eq!(ended.end()["status"], "lost");
    let message = ended.end()["error"]["message"].to_string();
    assert!(message.contains("did not end the turn in time"), "{message}");
}

#[test]
fn ctrl_c_before_there_is_a_turn_ends_as_interrupted() {
    for unanswered in ["thread/start", "turn/start"] {
        let state = State::new();
        // The worker keeps what it hears, so the test can tell when the call has arrived.
        let heard = state.path().join("heard");
        let worker = state.capturing_worker(&heard, &format!("[calls]\nunanswered = [\"{unanswered}\"]\n"));
        let mut run = state.ask(&["--json", "--worker", &worker, "hello"]);
        while !std::fs::read_to_string(&heard).is_ok_and(|heard| heard.contains(unanswered)) {
            assert!(run.is_running());
            std::thread::yield_now();
        }
        run.signal(Signal::INT);
        let ended = run.end();
        assert_eq!(ended.code(), Some(130), "{}", ended.stderr);
        assert_eq!(ended.end()["status"], "interrupted");
    }
}

#[test]
fn a_worker_that_dies_before_the_turn_is_reported_with_its_end() {
    let state = State::new();
    let worker = state.worker("", "[calls]\nexit_on = [\"thread/start\"]\n");
    let ended = state.ask(&["--worker", &worker, "hello"]).end();
    assert_eq!(ended.code(), Some(1));
    assert!(ended.stderr.contains("thread/start got no answer"), "{}", ended.stderr);
    assert!(ended.stderr.contains("exited with code 1"), "{}", ended.stderr);
    assert!(!ended.stderr.contains("stopped by"), "{}", ended.stderr);
}

#[test]
fn a_dead_worker_is_noticed_though_something_else_holds_its_stdout() {
    for holder in ["sleep 600 &", "env -i setsid sleep 5 &"] {
        let state = State::new();
        let worker = state.worker(holder, "");
        let ended = state.ask(&["--json", "--worker", &worker, "[[crash 2]]"]).end();
        assert_eq!(ended.code(), Some(1), "{holder}");
        assert_eq!(ended.end()["status"], "lost", "{holder}");
    }
}

#[test]
fn a_worker_that_rejects_v2_is_tried_again_and_the_cause_is_noted() {
    let state = State::new();
    let worker = state.worker("", "[handshake]\nreject_v2 = true\nreject_initialized = true\n");
    let ended = state.ask(&["--worker", &worker, "[[text]]"]).end();
    assert_eq!(ended.code(), Some(0), "{}", ended.stderr);
    assert!(ended.stderr.contains("rejected the v2 parameters"), "{}", ended.stderr);
    assert_eq!(ended.stdout, "Hello from mock.\n");
}

#[test]
fn a_worker_sees_the_variables_that_are_named_and_no_others() {
    let state = State::new();
    let seen = state.path().join("seen");
    let worker = state.worker(&format!("env > '{}'", seen.display()), "");
    let variables = [("TEST_PASSED_ON", "yes"), ("TEST_KEPT_BACK", "secret")];
    let ended = state.ask_with(&["--worker", &worker, "--env", "TEST_PASSED_ON", "[[text]]"], &variables).end();
    assert_eq!(ended.code(), Some(0), "{}", ended.stderr);
    let seen = std::fs::read_to_string(seen).unwrap();
    assert!(seen.contains("TEST_PASSED_ON=yes"), "{seen}");
    assert!(!seen.contains("TEST_KEPT_BACK"), "{seen}");
    let ended = state.ask(&["--env", "TEST_NOT_SET", "hello"]).end();
    assert!(ended.stderr.contains("--env TEST_NOT_SET: there is no such variable"), "{}", ended.stderr);
}

#[test]
fn the_model_reaches_the_worker() {
    let state = State::new();
    let heard = state.path().join("heard");
    let worker = state.capturing_worker(&heard, "");
    let ended = state.ask(&["--worker", &worker, "--model", "gpt-x", "[[text]]"]).end();
    assert_eq!(ended.code(), Some(0), "{}", ended.stderr);
    let heard = std::fs::read_to_string(heard).unwrap();
    let start = heard.lines().find(|line| line.contains("thread/start")).unwrap();
    let start: Value = serde_json::from_str(start).unwrap();
    assert_eq!(start["params"]["model"], "gpt-x");
    let files = &start["params"]["config"]["permissions"]["switchboard"]["filesystem"];
    assert_eq!(files[":root"], "read");
    let state_dir = state.path().canonicalize().unwrap();
    assert_eq!(files[state_dir.to_str().unwrap()], "deny", "{files}");
    assert_eq!(start["params"]["approvalPolicy"], "on-request");
}

#[test]
fn messages_stand_on_lines_of_their_own_and_notes_stay_off_stdout() {
    let state = State::new();
    let worker = state.worker("", "[[turns]]\nsteps = [\"say one\", \"garbage\", \"say two\"]\n");
    let ended = state.ask(&["--worker", &worker, "hello"]).end();
    assert_eq!(ended.code(), Some(0), "{}", ended.stderr);
    let first = ended.stdout.lines().next();
    assert_eq!(first, Some("one"), "{}", ended.stdout);
}

#[test]
fn the_state_directory_that_it_makes_is_its_owners_alone() {
    let state = State::new();
    let directory = state.path().join("new");
    let ended = state.ask_with(&["hello"], &[("SWITCHBOARD_STATE_DIR", directory.to_str().unwrap())]).end();
    assert_eq!(ended.code(), Some(0), "{}", ended.stderr);
    assert_eq!(std::fs::metadata(directory).unwrap().permissions().mode() & 0o777, 0o700);
}
