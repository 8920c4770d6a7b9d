//! What a pool asks of a client, with the demo worker as a real process.

use std::time::Duration;

use codex::event::{ConnectionEvent, TurnStatus};
use codex::{CallError, Client, Direction, Json, Ladder, Options, ThreadOptions, TurnEvent};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use testkit::HANG_TIMEOUT;
use tokio::time::timeout;

use crate::support::Place;

async fn client(place: &Place) -> Client {
    place.start(Options::new("tests", "1.0")).await
}

/// A thread that the worker unloads as soon as nobody listens.
fn fleeting() -> ThreadOptions {
    ThreadOptions { config: [("thread_unload_delay_secs".into(), json!(0))].into(), ..ThreadOptions::default() }
}

#[tokio::test]
async fn the_last_frames_of_both_ways_can_be_read_with_secrets_hidden() {
    let place = Place::new();
    let mut options = Options::new("tests", "1.0");
    options.frames_bytes_max = 1 << 20;
    let client = place.start(options).await;
    let thread = client.start_thread(ThreadOptions::default()).await.unwrap();
    let turn = thread.start_turn("[[say the key is sk-1234567890abcdef]]").await.unwrap();
    assert_eq!(turn.finish().await.status, TurnStatus::Completed);
    let frames = client.frames();
    let seqs: Vec<u64> = frames.iter().map(|frame| frame.seq).collect();
    assert_eq!(seqs, (1..=frames.len() as u64).collect::<Vec<_>>());
    assert_eq!(frames[0].direction, Direction::Sent);
    assert!(frames[0].text.contains("\"initialize\""), "{}", frames[0].text);
    let sent = frames.iter().filter(|frame| frame.direction == Direction::Sent).count();
    assert_eq!(sent, place.captured().len(), "all that the worker was sent");
    let prompt = frames.iter().find(|frame| frame.text.contains("\"turn/start\"")).unwrap();
    assert!(prompt.text.contains("the key is [hidden]"), "{}", prompt.text);
    assert!(frames.iter().any(|frame| frame.text.contains("turn/completed")));
    assert!(frames.iter().all(|frame| !frame.text.contains("sk-1234567890abcdef")));
}

#[tokio::test]
async fn without_a_limit_no_frame_is_kept() {
    let place = Place::new();
    let client = client(&place).await;
    client.start_thread(ThreadOptions::default()).await.unwrap();
    assert!(client.frames().is_empty());
}

#[tokio::test]
async fn the_frames_of_a_flood_stay_within_their_bound_and_their_last_is_the_newest() {
    let place = Place::new();
    let mut options = Options::new("tests", "1.0");
    options.frames_bytes_max = 64 << 10;
    let client = place.start(options).await;
    let thread = client.start_thread(ThreadOptions::default()).await.unwrap();
    let turn = thread.start_turn("[[deltas 20000]]").await.unwrap();
    assert_eq!(turn.finish().await.status, TurnStatus::Completed);
    let frames = client.frames();
    assert!(frames.iter().map(|frame| frame.text.len()).sum::<usize>() <= 64 << 10);
    assert!(frames[0].seq > 19_000, "{}", frames[0].seq);
    assert!(frames.iter().any(|frame| frame.text.contains("turn/completed")));
}

#[tokio::test]
async fn an_unloaded_thread_is_gone_from_memory_and_goes_on_after_a_resume() {
    let place = Place::new();
    let client = client(&place).await;
    let mut events = client.events();
    let thread = client.start_thread(fleeting()).await.unwrap();
    assert_eq!(thread.start_turn("[[text]]").await.unwrap().finish().await.status, TurnStatus::Completed);
    assert_eq!(client.loaded_threads().await.unwrap(), [Box::from(thread.id())]);
    thread.unload().await.unwrap();
    let is_gone = |event: &ConnectionEvent| matches!(event, ConnectionEvent::ThreadStatus { thread: of, status, .. } if **of == *thread.id() && &**status == "not_loaded");
    timeout(HANG_TIMEOUT, async { while !is_gone(&events.next().await.unwrap()) {} }).await.unwrap();
    assert!(client.loaded_threads().await.unwrap().is_empty());
    let refused = thread.start_turn("[[text]]").await.err().unwrap();
    assert_eq!(refused.trap(), Some(codex::Trap::NotLoaded), "{refused}");
    let thread = client.resume_thread(thread.id(), fleeting()).await.unwrap();
    assert_eq!(thread.start_turn("[[text]]").await.unwrap().finish().await.status, TurnStatus::Completed);
}

#[tokio::test]
async fn a_thread_with_a_turn_is_not_unloaded_and_a_dropped_turn_is_waited_for() {
    let place = Place::new();
    let client = client(&place).await;
    let thread = client.start_thread(ThreadOptions::default()).await.unwrap();
    let mut turn = thread.start_turn("[[slow 10000 5]]").await.unwrap();
    while !matches!(turn.next().await, Some(TurnEvent::Text { .. })) {}
    let refused = thread.unload().await.unwrap_err();
    assert!(matches!(refused, CallError::Busy(_)), "{refused}");
    drop(turn);
    timeout(HANG_TIMEOUT, thread.unload()).await.unwrap().unwrap();
    assert_eq!(client.loaded_threads().await.unwrap().len(), 1, "the worker takes its time");
}

#[tokio::test]
async fn injected_history_is_kept_and_what_is_no_item_is_refused() {
    let place = Place::new();
    let client = client(&place).await;
    let thread = client.start_thread(ThreadOptions::default()).await.unwrap();
    let earlier = json!({"type": "message", "role": "user", "content": [{"type": "input_text", "text": "earlier"}]});
    thread.inject(vec![Json::from(&earlier)]).await.unwrap();
    let refused = thread.inject(vec![Json::from(&json!({}))]).await.unwrap_err();
    assert!(refused.to_string().contains("is not a valid response item"), "{refused}");
    assert!(place.captured().iter().any(|line| line.contains("earlier")));
}

#[tokio::test]
async fn a_ping_is_answered_in_either_dialect_and_by_an_overloaded_worker_too() {
    for place in [Place::new(), Place::new().of_old(), Place::new().with_script("[calls]\noverloaded_every = 1\n")] {
        let client = client(&place).await;
        assert!(client.ping(HANG_TIMEOUT).await.unwrap() < HANG_TIMEOUT);
        assert!(client.pid().is_some());
    }
}

#[tokio::test]
async fn a_stopped_worker_answers_no_ping_until_it_is_continued() {
    let place = Place::new();
    let client = client(&place).await;
    let worker = Pid::from_raw(client.pid().unwrap().cast_signed()).unwrap();
    kill_process(worker, Signal::STOP).unwrap();
    let silence = client.ping(Duration::from_millis(100)).await.unwrap_err();
    assert!(matches!(silence, CallError::Unanswered { .. }), "{silence}");
    kill_process(worker, Signal::CONT).unwrap();
    client.ping(HANG_TIMEOUT).await.unwrap();
}

#[tokio::test]
async fn a_worker_of_old_says_what_it_cannot_do() {
    let place = Place::new().of_old();
    let client = client(&place).await;
    let thread = client.start_thread(ThreadOptions::default()).await.unwrap();
    assert!(matches!(thread.unload().await, Err(CallError::Unable(_))));
    assert!(matches!(thread.inject(Vec::new()).await, Err(CallError::Unable(_))));
    assert!(matches!(client.loaded_threads().await, Err(CallError::Unable(_))));
}

#[tokio::test]
async fn a_worker_that_ignores_the_end_of_its_stdin_is_killed() {
    let place = Place::new();
    let client = client(&place).await;
    let worker = Pid::from_raw(client.pid().unwrap().cast_signed()).unwrap();
    kill_process(worker, Signal::STOP).unwrap();
    let short = Duration::from_millis(20);
    let ladder = Ladder { stdin_wait: short, terminate_wait: short, terminate_again_wait: short, ..Ladder::default() };
    let end = timeout(HANG_TIMEOUT, client.stop_with(ladder)).await.unwrap();
    assert!(end.to_string().contains("SIGKILL"), "{end}");
}
