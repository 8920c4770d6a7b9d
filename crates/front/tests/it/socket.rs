//! Responses over a WebSocket where time matters: callers that go, turns that wait, several responses, limits, and the ends of a
//! connection.

use std::num::NonZeroU32;
use std::time::Duration;

use expect_test::expect;
use front::keys::{Grant, KeyLimits, Scope, Scopes};
use front::{ConnectionLimits, RequestLimits, ResponseLimits, Settings};
use serde_json::{Value, json};
use tempfile::TempDir;
use testkit::HANG_TIMEOUT;
use tokio::net::TcpListener;
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::frame::Frame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::{Data, OpCode};

use crate::frames::Frames;
use crate::http::Events;
use crate::support::{House, plan};

const CAPTURE: &str = "capture.jsonl";

fn says(prompt: &str) -> Value {
    json!({"model": "quiet", "input": prompt})
}

fn unstored(prompt: &str) -> Value {
    json!({"model": "quiet", "input": prompt, "store": false})
}

fn after(previous: &Value, mut request: Value) -> Value {
    request["previous_response_id"] = previous["id"].clone();
    request
}

fn with_tool(mut request: Value) -> Value {
    let parameters = json!({"type": "object", "properties": {}});
    request["tools"] = json!([{"type": "function", "name": "look", "parameters": parameters}]);
    request
}

fn text(response: &Value) -> &str {
    response["output"][0]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{response:#}"))
}

/// A house whose worker writes down what it is sent.
async fn listening(settings: Settings) -> House {
    playing("", settings).await
}

/// The same, and its worker plays a script.
async fn playing(script: &str, settings: Settings) -> House {
    let directory = TempDir::new().unwrap();
    let path = |name: &str| directory.path().join(name);
    std::fs::write(path("script.toml"), script).unwrap();
    let mut plan = plan(directory.path());
    let options = [("--capture", CAPTURE), ("--script", "script.toml")];
    plan.groups[0].args = options.iter().flat_map(|(name, file)| [(*name).into(), path(file).into()]).collect();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    House::of(plan, directory, listener, settings, approvals::Settings::default()).await
}

/// The calls of the worker's methods, with the threads they are about, that it was sent until now.
fn calls(directory: &TempDir, methods: &[&str]) -> Vec<(String, Value)> {
    let text = std::fs::read_to_string(directory.path().join(CAPTURE)).unwrap();
    let calls = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let calls = calls.filter(|call| methods.iter().any(|method| call["method"] == *method));
    calls.map(|mut call| (call["method"].as_str().unwrap().to_owned(), call["params"]["threadId"].take())).collect()
}

/// How the next turn ends.
async fn end(feed: &mut Events) -> Value {
    feed.until("turn_ended").await["status"].take()
}

async fn until_text(frames: &mut Frames) {
    frames.until("response.output_text.delta").await;
}

#[tokio::test]
async fn a_caller_that_closes_ends_its_turn() {
    let house = listening(Settings::default()).await;
    let mut feed = house.operator.events("/api/events", "").await;
    let mut frames = house.operator.frames().await;
    frames.create(says("[[slow 100000 5]]")).await;
    until_text(&mut frames).await;
    frames.close().await;
    assert_eq!(end(&mut feed).await, "interrupted");

    let mut frames = house.operator.frames().await;
    frames.create(says("[[slow 100000 5]]")).await;
    until_text(&mut frames).await;
    // Without a word.
    drop(frames);
    assert_eq!(end(&mut feed).await, "interrupted");
    let directory = house.stop().await;
    assert_eq!(calls(&directory, &["turn/interrupt"]).len(), 2);
}

#[tokio::test]
async fn responses_follow_each_other_on_one_connection() {
    let house = House::open().await;
    let mut frames = house.operator.frames().await;
    for word in ["one", "two", "three"] {
        let response = frames.answer(says(&format!("[[say {word}]]"))).await;
        assert_eq!(text(&response), word);
        let id = response["id"].as_str().unwrap();
        let kept = house.operator.get(&format!("/v1/responses/{id}")).await;
        assert_eq!(kept.json(), response, "what is stored can be asked for");
    }
    frames.close().await;
    house.stop().await;
}

#[tokio::test]
async fn a_connection_goes_on_from_what_is_not_stored_on_one_thread() {
    let house = listening(Settings::default()).await;
    let mut frames = house.operator.frames().await;
    let first = frames.answer(unstored("[[say one]]")).await;
    let second = frames.answer(after(&first, unstored("[[say two]]"))).await;
    let third = frames.answer(after(&second, unstored("[[say three]]"))).await;
    assert_eq!(third["previous_response_id"], second["id"]);
    assert_eq!(house.operator.get(&format!("/v1/responses/{}", third["id"].as_str().unwrap())).await.status, 404);
    assert_eq!(frames.refusal(after(&first, unstored("[[say four]]"))).await, "400 previous_response_not_found");
    let fourth = frames.answer(after(&third, unstored("[[say four]]"))).await;
    assert_eq!(text(&fourth), "four", "another one that is not found changes nothing");
    frames.close().await;
    let threads = async {
        while house.operator.get("/api/threads").await.json()["threads"] != json!([]) {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(HANG_TIMEOUT, threads).await.expect("the thread is forgotten with its connection");
    let directory = house.stop().await;
    let turns = calls(&directory, &["turn/start"]);
    assert!(turns.len() == 4 && turns.iter().all(|turn| turn == &turns[0]), "{turns:?}");
}

#[tokio::test]
async fn what_was_asked_for_without_an_answer_is_gone_on_from() {
    let house = listening(Settings::default()).await;
    let mut frames = house.operator.frames().await;
    let mut warm_up = says("The word is cobalt.");
    warm_up["generate"] = json!(false);
    for store in [false, true] {
        warm_up["store"] = json!(store);
        let empty = frames.answer(warm_up.clone()).await;
        assert_eq!(empty["output"], json!([]));
        let mut request = after(&empty, says("[[say warm]]"));
        request["store"] = json!(store);
        assert_eq!(text(&frames.answer(request).await), "warm");
    }
    let stored = frames.answer(warm_up).await;
    let mut other = house.operator.frames().await;
    assert_eq!(text(&other.answer(after(&stored, says("[[say stored]]"))).await), "stored");
    frames.close().await;
    other.close().await;
    let directory = house.stop().await;
    let injected = std::fs::read_to_string(directory.path().join(CAPTURE)).unwrap();
    assert_eq!(injected.matches("The word is cobalt.").count(), 3, "{injected}");
}

#[tokio::test]
async fn nothing_is_left_of_what_is_not_stored_when_the_caller_goes_in_its_middle() {
    let house = House::open().await;
    for is_second in [false, true] {
        let mut frames = house.operator.frames().await;
        let mut request = unstored("[[slow 100000 5]]");
        if is_second {
            request = after(&frames.answer(unstored("[[text]]")).await, request);
        }
        frames.create(request).await;
        until_text(&mut frames).await;
        frames.close().await;
        until_no_threads(&house).await;
    }
    house.stop().await;
}

async fn until_no_threads(house: &House) {
    let forgotten = timeout(HANG_TIMEOUT, async {
        while house.operator.get("/api/threads").await.json()["threads"] != json!([]) {
            tokio::task::yield_now().await;
        }
    });
    forgotten.await.expect("the thread is forgotten");
}

#[tokio::test]
async fn nothing_is_left_of_what_is_not_stored_when_its_calls_are_answered_after_the_caller_has_gone() {
    let house = House::open().await;
    let mut frames = house.operator.frames().await;
    let called = frames.answer(with_tool(unstored("[[tool look {}]]"))).await;
    frames.close().await;
    let output = json!([{"type": "function_call_output", "call_id": called["output"][0]["call_id"], "output": "seen"}]);
    let mut request = with_tool(json!({"model": "quiet", "input": [called["output"][0], output[0]], "store": false}));
    request["input"].as_array_mut().unwrap().insert(0, json!({"role": "user", "content": "[[tool look {}]]"}));
    let answered = house.operator.post("/v1/responses", &request.to_string()).await;
    assert_eq!(text(&answered.json()), "Done after tool.");
    until_no_threads(&house).await;
    house.stop().await;
}

#[tokio::test]
async fn there_is_one_response_at_a_time() {
    let house = House::open().await;
    let mut frames = house.operator.frames().await;
    frames.create(says("[[slow 100000 5]]")).await;
    let running = frames.until("response.created").await["response"]["id"].take();
    until_text(&mut frames).await;
    frames.create(says("[[text]]")).await;
    let refused = frames.until("error").await;
    assert_eq!((&refused["status"], &refused["error"]["code"]), (&json!(409), &json!("response_in_progress")));
    let message = refused["error"]["message"].as_str().unwrap();
    assert!(message.contains(running.as_str().unwrap()), "{message}");
    until_text(&mut frames).await;
    frames.close().await;
    house.stop().await;
}

#[tokio::test]
async fn what_is_refused_is_told_and_the_connection_stays() {
    let house = House::open().await;
    let mut frames = house.operator.frames().await;
    frames.send(Message::Text("{".into())).await;
    assert_eq!(frames.error().await, "400 invalid_json");
    frames.send(Message::Text(r#"{"type":"response.steer"}"#.into())).await;
    assert_eq!(frames.error().await, "400 invalid_value");
    frames.send(Message::Binary(b"{}"[..].into())).await;
    assert_eq!(frames.error().await, "400 invalid_value");
    assert_eq!(frames.refusal(json!({"model": "quiet"})).await, "400 invalid_value");
    assert_eq!(frames.refusal(json!({"model": "none", "input": "x"})).await, "404 model_not_found");
    assert_eq!(
        frames.refusal(json!({"model": "quiet", "input": "x", "background": true})).await,
        "400 unsupported_value"
    );
    frames.send(Message::Text(r#"{"type":"response.processed","response_id":"resp_0"}"#.into())).await;
    let mut request = says("[[text]]");
    request["stream"] = json!(false);
    assert_eq!(text(&frames.answer(request).await), "Hello from mock.");
    frames.close().await;
    house.stop().await;
}

#[tokio::test]
async fn a_turn_that_fails_is_told_as_a_stream_tells_it() {
    let house = House::open().await;
    let mut frames = house.operator.frames().await;
    let first = frames.answer(unstored("[[text]]")).await;
    frames.create(after(&first, unstored("[[quota]]"))).await;
    let failed = frames.rest().await.pop().unwrap();
    assert_eq!(failed["type"], "response.failed");
    assert_eq!(failed["response"]["error"]["code"], "insufficient_quota");
    let forgotten = frames.refusal(after(&first, unstored("[[text]]"))).await;
    assert_eq!(forgotten, "400 previous_response_not_found");
    assert_eq!(text(&frames.answer(unstored("[[text]]")).await), "Hello from mock.");
    frames.close().await;
    house.stop().await;
}

#[tokio::test]
async fn a_call_that_waits_outlives_its_connection() {
    let house = House::open().await;
    let mut feed = house.operator.events("/api/events", "").await;
    let mut frames = house.operator.frames().await;
    let called = frames.answer(with_tool(says("[[tool look {}]]"))).await;
    let call = &called["output"][0];
    assert_eq!(call["type"], "function_call", "{called:#}");
    frames.close().await;
    let output = json!([{"type": "function_call_output", "call_id": call["call_id"], "output": "seen"}]);
    let mut frames = house.operator.frames().await;
    let resumed = after(&called, with_tool(json!({"model": "quiet", "input": output})));
    assert_eq!(text(&frames.answer(resumed).await), "Done after tool.");
    assert_eq!(end(&mut feed).await, "completed", "it is the turn that waited");
    frames.close().await;
    house.stop().await;
}

#[tokio::test]
async fn calls_are_answered_on_the_connection_that_stores_nothing() {
    let house = House::open().await;
    let mut frames = house.operator.frames().await;
    let called = frames.answer(with_tool(unstored("[[tools look 2]]"))).await;
    let calls = called["output"].as_array().unwrap().iter().map(|call| call["call_id"].clone());
    let outputs: Vec<_> =
        calls.map(|call| json!({"type": "function_call_output", "call_id": call, "output": "seen"})).collect();
    assert_eq!(outputs.len(), 2, "{called:#}");
    let request = json!({"model": "quiet", "input": outputs, "store": false});
    let last = frames.answer(after(&called, with_tool(request))).await;
    assert_eq!(text(&last), "Done after tool.");
    frames.close().await;
    house.stop().await;
}

#[tokio::test]
async fn a_message_that_is_too_long_ends_the_connection_with_the_reason() {
    let requests = RequestLimits { body_bytes_max: 10_000, ..RequestLimits::default() };
    let house = House::with(Settings { requests, ..Settings::default() }, approvals::Settings::default()).await;
    let mut frames = house.operator.frames().await;
    frames.create(says(&"x".repeat(1_000_000))).await;
    assert_eq!(frames.error().await, "413 request_entity_too_large");
    assert_eq!(frames.closed().await, Some(1009));
    house.stop().await;
}

#[tokio::test]
async fn what_is_no_text_and_no_protocol_ends_the_connection() {
    let house = House::open().await;
    for (kind, code) in [(Data::Text, 1007), (Data::Continue, 1002)] {
        let mut frames = house.operator.frames().await;
        frames.send(Message::Frame(Frame::message(vec![0xff], OpCode::Data(kind), true))).await;
        assert_eq!(frames.closed().await, Some(code));
    }
    house.stop().await;
}

#[tokio::test]
async fn a_key_that_is_revoked_ends_its_connections() {
    let house = House::open().await;
    let caller = house.caller(&[Scope::Use]).await;
    let (mut idle, mut running) = (caller.frames().await, caller.frames().await);
    running.create(says("[[slow 100000 5]]")).await;
    until_text(&mut running).await;
    house.revoke(&caller).await;
    assert_eq!(idle.error().await, "401 invalid_api_key");
    assert_eq!(idle.closed().await, Some(1008));
    let failed = running.rest().await.pop().unwrap();
    assert_eq!(failed["response"]["error"]["code"], "invalid_api_key");
    assert_eq!(running.error().await, "401 invalid_api_key");
    assert_eq!(running.closed().await, Some(1008));
    assert_eq!(caller.try_frames("/v1/responses", &[]).await.err(), Some(401));
    house.stop().await;
}

#[tokio::test]
async fn a_server_that_stops_closes_what_is_idle_and_lets_what_runs_come_to_its_end() {
    let house = House::open().await;
    let (idle, mut running) = (house.operator.frames().await, house.operator.frames().await);
    running.create(says("[[slow 20 20]]")).await;
    until_text(&mut running).await;
    let (_, idle, running) = tokio::join!(house.stop(), idle.closed(), async {
        let last = running.rest().await.pop().unwrap();
        (last["type"].clone(), running.closed().await)
    });
    assert_eq!(idle, Some(1001));
    assert_eq!(running, (json!("response.completed"), Some(1001)));
}

/// A house whose connections breathe often.
async fn breathing(responses: ResponseLimits) -> House {
    let settings = Settings { heartbeat: Duration::from_millis(20), responses, ..Settings::default() };
    House::with(settings, approvals::Settings::default()).await
}

/// How old or idle a connection may become: long enough to be asked something before, also on a busy machine.
const OPEN_MAX: Duration = Duration::from_secs(5);

#[tokio::test]
async fn a_connection_breathes_and_ends_when_it_is_idle() {
    let house = breathing(ResponseLimits { websocket_idle_timeout: OPEN_MAX, ..ResponseLimits::default() }).await;
    let mut frames = house.operator.frames().await;
    frames.answer(says("[[shell sleep 1]]")).await;
    assert!(frames.pings > 1, "a response that has nothing to tell breathes");
    let before = frames.pings;
    assert_eq!(frames.next().await, Err(Some(1000)));
    assert!(frames.pings > before, "an idle connection breathes");
    drop(frames);
    house.stop().await;
}

#[tokio::test]
async fn a_connection_ends_when_it_is_old_and_nothing_runs_on_it() {
    let house = breathing(ResponseLimits { websocket_age_max: OPEN_MAX, ..ResponseLimits::default() }).await;
    let mut frames = house.operator.frames().await;
    let told = frames.answer(says("[[slow 110 50]]")).await;
    assert_eq!(told["status"], "completed", "what runs may end");
    assert_eq!(frames.error().await, "400 websocket_connection_limit_reached");
    assert_eq!(frames.closed().await, Some(1008));
    house.stop().await;
}

#[tokio::test]
async fn a_caller_that_stops_reading_is_cut_and_its_turn_ends() {
    let connections = ConnectionLimits { write_timeout: Duration::from_millis(300), ..ConnectionLimits::default() };
    // More than the system takes for a connection, then more to come.
    let script = "[[turns]]\nsteps = [\"line 15000000\", \"slow 100000 5\"]";
    let house = playing(script, Settings { connections, ..Settings::default() }).await;
    let mut feed = house.operator.events("/api/events", "").await;
    let mut frames = house.operator.frames().await;
    frames.create(says("Go on and on.")).await;
    assert_eq!(end(&mut feed).await, "interrupted");
    drop(frames);
    house.stop().await;
}

#[tokio::test]
async fn a_connection_keeps_its_place() {
    let connections = ConnectionLimits { connections_max: 2, ..ConnectionLimits::default() };
    let house = House::with(Settings { connections, ..Settings::default() }, approvals::Settings::default()).await;
    // The places of the connections that made sure of the workers may not all be free yet.
    let opened = async {
        loop {
            if let Ok(frames) = house.operator.try_frames("/v1/responses", &[]).await {
                break frames;
            }
        }
    };
    let first = tokio::time::timeout(HANG_TIMEOUT, opened).await.expect("there is a place");
    let second = house.operator.frames().await;
    assert_eq!(house.operator.try_frames("/v1/responses", &[]).await.err(), Some(503));
    first.close().await;
    second.close().await;
    house.stop().await;
}

#[tokio::test]
async fn a_limit_is_told_with_the_time_to_wait() {
    let house = House::open().await;
    let limits = KeyLimits { requests_per_minute: NonZeroU32::new(1), ..KeyLimits::default() };
    let caller = house.caller_with(Grant { limits, ..Grant::of(Scopes::of(&[Scope::Use])) }).await;
    let mut frames = caller.frames().await;
    frames.answer(says("[[text]]")).await;
    frames.create(says("[[text]]")).await;
    let refused = frames.next().await.unwrap();
    assert_eq!((&refused["status"], &refused["error"]["code"]), (&json!(429), &json!("rate_limited")));
    let wait: u32 = refused["headers"]["retry-after"].as_str().unwrap().parse().unwrap();
    assert!((1..=60).contains(&wait), "{wait}");
    frames.close().await;
    house.stop().await;
}

#[tokio::test]
async fn only_who_may_ask_gets_a_connection() {
    let house = House::open().await;
    let nobody = crate::http::Caller { key: "wrong".into(), ..house.operator.clone() };
    assert_eq!(nobody.try_frames("/v1/responses", &[]).await.err(), Some(401));
    let stranger = [("origin", "https://elsewhere.example")];
    assert_eq!(house.operator.try_frames("/v1/responses", &stranger).await.err(), Some(403));
    let old = [("sec-websocket-version", "8")];
    assert_eq!(house.operator.try_frames("/v1/responses", &old).await.err(), Some(426));
    assert_eq!(house.operator.try_frames("/v1/models", &[]).await.err(), Some(200), "there is none elsewhere");
    assert!(house.operator.try_frames("/responses", &[]).await.is_ok());
    let plain = house.operator.get("/v1/responses").await;
    expect![[r#"{"error":{"message":"GET is for WebSockets here; send a POST, or ask for `upgrade: websocket`","type":"invalid_request_error","param":null,"code":"upgrade_required"}}"#]]
        .assert_eq(&plain.body);
    house.stop().await;
}
