//! Conversations over HTTP where time matters: callers that go, turns that wait, answers that are joined, workers that die. What
//! is said and sent is held in the golden files.

use std::time::Duration;

use front::Settings;
use front::keys::Scope;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::TcpListener;
use workers::Limits;

use crate::http::{Caller, Events};
use crate::support::{House, plan};
use crate::{kill, until_turns};

const CHAT: &str = "/v1/chat/completions";

fn says(prompt: &str) -> Value {
    json!({"model": "quiet", "messages": [{"role": "user", "content": prompt}]})
}

fn streamed(prompt: &str) -> String {
    let mut body = says(prompt);
    body["stream"] = json!(true);
    body.to_string()
}

fn tool() -> Value {
    json!([{"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {}}}}])
}

fn content(chunks: &[Value]) -> String {
    let pieces = chunks.iter().filter_map(|chunk| chunk["choices"][0]["delta"]["content"].as_str());
    pieces.collect()
}

async fn until_content(events: &mut Events) {
    while events.next().await.unwrap()["choices"][0]["delta"]["content"].as_str().is_none_or(str::is_empty) {}
}

/// The statuses of all turns that have ended, as the feed tells them.
async fn ends(feed: &mut Events, count: usize) -> Vec<String> {
    let mut ends = Vec::new();
    while ends.len() < count {
        ends.push(feed.until("turn_ended").await["status"].as_str().unwrap().to_owned());
    }
    ends
}

#[tokio::test]
async fn a_turn_that_outlasts_the_end_of_the_server_is_told_that_it_is_draining() {
    let house = House::open().await;
    let mut feed = house.operator.events("/api/events", "").await;
    let mut stream = house.operator.stream(CHAT, "", &streamed("[[slow 100000 5]]")).await;
    until_content(&mut stream).await;
    feed.until("turn_started").await;
    let question = says("[[slow 100000 5]]").to_string();
    let whole = house.operator.post(CHAT, &question);
    let stopping = async {
        feed.until("turn_started").await;
        house.pool.drain(Duration::ZERO).await;
        house.pool.stop().await;
    };
    let (whole, ()) = tokio::join!(whole, stopping);
    assert_eq!(whole.refusal(), "503 draining");
    let error = stream.rest().await.pop().unwrap();
    assert_eq!(error["error"]["code"], "draining", "{error}");
    assert!(error["error"]["message"].as_str().unwrap().contains("shutting down"), "{error}");
    house.stop().await;
}

#[tokio::test]
async fn a_caller_that_goes_takes_its_turn_along() {
    let house = House::open().await;
    let mut feed = house.operator.events("/api/events", "").await;
    let mut stream = house.operator.stream(CHAT, "", &streamed("[[slow 100000 5]]")).await;
    until_content(&mut stream).await;
    drop(stream);
    assert_eq!(ends(&mut feed, 1).await, ["interrupted"]);
    until_turns(&house, 0).await;

    let body = says("[[slow 100000 5]]").to_string();
    tokio::select! {
        answer = house.operator.post(CHAT, &body) => panic!("nobody answers while the turn runs: {}", answer.body),
        _ = feed.until("turn_started") => {}
    }
    assert_eq!(ends(&mut feed, 1).await, ["interrupted"]);
    until_turns(&house, 0).await;
    house.stop().await;
}

#[tokio::test]
async fn streams_breathe_while_their_turn_waits_for_a_place_and_for_a_decision() {
    let settings = Settings { heartbeat: Duration::from_millis(50), ..Settings::default() };
    let house = House::with(settings, approvals::Settings::default()).await;
    let mut busy = Vec::new();
    for _ in 0..8 {
        let mut stream = house.operator.stream(CHAT, "", &streamed("[[slow 100000 20]]")).await;
        until_content(&mut stream).await;
        busy.push(stream);
    }
    let mut waiting = house.operator.stream(CHAT, "", &streamed("[[text]]")).await;
    let role = waiting.next().await.unwrap();
    assert_eq!(role["choices"][0]["delta"]["role"], "assistant");
    while waiting.line().await.unwrap() != ": ping" {}
    drop(busy);
    assert_eq!(content(&waiting.rest().await), "Hello from mock.");

    let mut body = says("[[shell touch x]]");
    body["model"] = json!("asking");
    body["stream"] = json!(true);
    let mut asking = house.operator.stream(CHAT, "", &body.to_string()).await;
    let id = loop {
        let chunk = asking.next().await.unwrap();
        let line = chunk["choices"][0]["delta"]["reasoning_content"].as_str().unwrap_or_default().to_owned();
        if let Some((_, rest)) = line.split_once("switchboard approvals allow ") {
            break rest.split(' ').next().unwrap().to_owned();
        }
    };
    while asking.line().await.unwrap() != ": ping" {}
    let shown = house.operator.get(&format!("/api/approvals/{id}")).await.json();
    let verdict = json!({"verdict": "allow", "shown_hash": shown["shown_hash"]});
    let decided = house.operator.post(&format!("/api/approvals/{id}/decide"), &verdict.to_string()).await;
    assert_eq!(decided.status, 200, "{}", decided.body);
    assert_eq!(content(&asking.rest().await), "Done after tool.");
    house.stop().await;
}

#[tokio::test]
async fn results_go_to_the_very_turn_that_waits_and_elsewhere_if_it_is_gone() {
    let house = House::open().await;
    for is_lost in [false, true] {
        let mut body = says("[[tool look {}]]");
        body["tools"] = tool();
        let first = house.operator.post(CHAT, &body.to_string()).await.json();
        assert_eq!(first["choices"][0]["finish_reason"], "tool_calls");
        assert!(first["usage"]["total_tokens"].as_u64().unwrap() > 0, "{first}");
        let parked = house.pool.turns().pop().unwrap();
        assert!(parked.is_parked);
        if is_lost {
            house.pool.restart_worker("main-0").unwrap();
            until_turns(&house, 0).await;
        }
        let message = first["choices"][0]["message"].clone();
        let call = message["tool_calls"][0]["id"].clone();
        body["messages"].as_array_mut().unwrap().push(message);
        let result = json!({"role": "tool", "tool_call_id": call, "content": "found"});
        body["messages"].as_array_mut().unwrap().push(result);
        let mut feed = house.operator.events("/api/events", "").await;
        let second = house.operator.post(CHAT, &body.to_string()).await.json();
        assert_eq!(second["choices"][0]["finish_reason"], "stop", "{second}");
        let mut ended = feed.until("turn_ended").await;
        while ended["status"] != "completed" {
            ended = feed.until("turn_ended").await;
        }
        assert_eq!(ended["turn"] == json!(parked.turn), !is_lost, "{ended}");
    }
    house.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn results_for_a_turn_that_dies_just_then_are_told_elsewhere() {
    let house = House::open().await;
    // A third death would be one too many for its worker.
    for _ in 0..2 {
        let mut body = says("[[tool look {}]]");
        body["tools"] = tool();
        let first = house.operator.post(CHAT, &body.to_string()).await.json();
        let message = first["choices"][0]["message"].clone();
        let result = json!({"role": "tool", "tool_call_id": message["tool_calls"][0]["id"], "content": "found"});
        body["messages"].as_array_mut().unwrap().extend([message, result]);
        kill(house.pool.workers()[0].pid.unwrap());
        let second = house.operator.post(CHAT, &body.to_string()).await;
        assert_eq!(second.status, 200, "{}", second.body);
        assert_eq!(second.json()["choices"][0]["message"]["content"], "Done after tool.", "{}", second.body);
    }
    house.stop().await;
}

#[tokio::test]
async fn the_same_request_joins_the_answer_that_is_given_and_has_it_again() {
    let house = House::open().await;
    let again = "idempotency-key: one\r\n";
    let body = streamed("[[slow 30 5]]");
    let mut feed = house.operator.events("/api/events", "").await;
    let mut first = house.operator.stream(CHAT, again, &body).await;
    until_content(&mut first).await;
    let joined = house.operator.stream(CHAT, again, &body).await.rest().await;
    let rest = first.rest().await;
    let later = house.operator.stream(CHAT, again, &body).await.rest().await;
    assert_eq!(joined, later);
    assert!(joined.ends_with(&rest) && content(&joined).ends_with("s29 "), "{}", content(&joined));
    let other = raw(&house.operator, again, &streamed("[[text]]")).await;
    assert!(other.starts_with("HTTP/1.1 422") && other.contains("idempotency_key_reused"), "{other}");
    assert_eq!(ends(&mut feed, 1).await, ["completed"]);
    let stranger = house.caller(&[Scope::Use]).await;
    let theirs = stranger.stream(CHAT, again, &body).await.rest().await;
    assert_ne!(theirs[0]["id"], joined[0]["id"], "a name is the caller's own");
    house.stop().await;
}

#[tokio::test]
async fn a_caller_that_comes_back_finds_its_turn_still_running() {
    let house = House::open().await;
    let again = "idempotency-key: two\r\n";
    let body = streamed("[[slow 60 5]]");
    let mut feed = house.operator.events("/api/events", "").await;
    let mut first = house.operator.stream(CHAT, again, &body).await;
    until_content(&mut first).await;
    drop(first);
    let back = house.operator.stream(CHAT, again, &body).await.rest().await;
    assert!(content(&back).ends_with("s59 "), "{}", content(&back));
    assert_eq!(ends(&mut feed, 1).await, ["completed"]);
    house.stop().await;
}

#[tokio::test]
async fn a_revoked_key_ends_its_stream_at_once() {
    let house = House::open().await;
    let caller = house.caller(&[Scope::Use]).await;
    let mut stream = caller.stream(CHAT, "", &streamed("[[hang]]")).await;
    stream.next().await.unwrap();
    house.revoke(&caller).await;
    let rest = stream.rest().await;
    assert_eq!(rest.last().unwrap()["error"]["code"], "invalid_api_key", "{rest:?}");
    until_turns(&house, 0).await;
    house.stop().await;
}

#[tokio::test]
async fn a_turn_that_waits_for_a_person_goes_with_the_key_of_whoever_waits_for_the_whole() {
    let house = House::open().await;
    let caller = house.caller(&[Scope::Use]).await;
    let mut feed = house.operator.events("/api/events", "").await;
    let mut body = says("[[shell touch x]]");
    body["model"] = json!("asking");
    let body = body.to_string();
    let revoke = async {
        feed.until("approval_wanted").await;
        house.keys.revoke(&house.store, caller.id()).await.unwrap().expect("it can be revoked");
    };
    let (answer, ()) = tokio::join!(caller.post(CHAT, &body), revoke);
    assert_eq!(answer.refusal(), "401 invalid_api_key");
    until_turns(&house, 0).await;
    house.stop().await;
}

#[tokio::test]
async fn a_dead_worker_is_an_error_that_must_not_be_repeated() {
    let house = House::open().await;
    let mut stream = house.operator.stream(CHAT, "", &streamed("[[crash 3 kill]]")).await;
    let chunks = stream.rest().await;
    assert_eq!(chunks.last().unwrap()["error"]["code"], "worker_exited", "{chunks:?}");
    assert!(!chunks.iter().any(|chunk| chunk["choices"][0]["finish_reason"].is_string()), "one end, not two");
    let whole = house.operator.post(CHAT, &says("[[crash 3 kill]]").to_string()).await;
    assert_eq!(whole.refusal(), "503 worker_exited");
    assert!(whole.headers.contains("x-should-retry: false"), "{}", whole.headers);
    let after = house.operator.post(CHAT, &says("[[text]]").to_string()).await;
    assert_eq!(after.json()["choices"][0]["message"]["content"], "Hello from mock.");
    house.stop().await;
}

#[tokio::test]
async fn a_conversation_stays_on_its_thread_and_a_second_way_on_is_a_fork() {
    let house = House::open().await;
    let threads = async || house.operator.get("/api/threads").await.json()["threads"].as_array().unwrap().len();
    let mut body = says("[[say one]]");
    let first = house.operator.post(CHAT, &body.to_string()).await.json();
    body["messages"].as_array_mut().unwrap().push(first["choices"][0]["message"].clone());
    body["messages"].as_array_mut().unwrap().push(json!({"role": "user", "content": "[[slow 100000 5]]"}));
    body["stream"] = json!(true);
    let mut on = house.operator.stream(CHAT, "", &body.to_string()).await;
    until_content(&mut on).await;
    house.store.flush().await.unwrap();
    assert_eq!(threads().await, 1, "it goes on where it is");
    let mut beside = house.operator.stream(CHAT, "", &body.to_string()).await;
    until_content(&mut beside).await;
    house.store.flush().await.unwrap();
    assert_eq!(threads().await, 2, "somebody goes on there already");
    let metrics = house.operator.get("/metrics").await.body;
    for how in ["begun", "continued", "forked"] {
        assert!(metrics.contains(&format!(r#"conversations_total{{how="{how}"}} 1"#)), "{how} in {metrics}");
    }
    drop((on, beside));
    house.stop().await;
}

#[tokio::test]
async fn a_stream_of_which_one_choice_has_no_place_is_refused_with_its_status() {
    let directory = TempDir::new().unwrap();
    let mut plan = plan(directory.path());
    plan.groups[0].turns_max = 1;
    plan.limits = Limits { queue_max: 0, ..Limits::default() };
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let house = House::of(plan, directory, listener, Settings::default(), approvals::Settings::default()).await;
    let mut body = says("[[slow 100000 5]]");
    (body["stream"], body["n"]) = (json!(true), json!(2));
    let refused = house.operator.post(CHAT, &body.to_string()).await;
    assert_eq!(refused.refusal(), "429 worker_busy");
    until_turns(&house, 0).await;
    house.stop().await;
}

/// The whole response to a stream's request that is refused.
async fn raw(caller: &Caller, headers: &str, body: &str) -> String {
    let Caller { key, address } = caller;
    let head = format!("POST {CHAT} HTTP/1.1\r\nhost: localhost\r\nx-api-key: {key}\r\nconnection: close\r\n{headers}");
    let length = body.len();
    let text = format!("{head}content-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}");
    crate::http::exchange(*address, &text).await
}
