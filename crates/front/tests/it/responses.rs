//! Responses whose callers go: what is made in the background is refused, stopped and found again, and what waits for a caller's
//! functions goes on or is let go.

use std::path::Path;

use front::Settings;
use front::keys::Scope;
use serde_json::{Value, json};
use tempfile::TempDir;
use testkit::HANG_TIMEOUT;
use tokio::net::TcpListener;
use tokio::time::timeout;
use workers::{Limits, Plan, Transport};

use crate::http::Caller;
use crate::support::{House, plan};
use crate::{kill, until_turns};

const SLOW: &str = "[[slow 100000 5]]";

fn background(prompt: &str) -> Value {
    json!({"model": "quiet", "input": prompt, "background": true})
}

fn with_tool(mut request: Value) -> Value {
    let parameters = json!({"type": "object", "properties": {}});
    request["tools"] = json!([{"type": "function", "name": "look", "parameters": parameters}]);
    request
}

async fn house_of(plan: Plan, directory: TempDir) -> House {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    House::of(plan, directory, listener, Settings::default(), approvals::Settings::default()).await
}

pub(crate) async fn create(caller: &Caller, request: &Value) -> Value {
    let answer = caller.post("/v1/responses", &request.to_string()).await;
    assert_eq!(answer.status, 200, "{}", answer.body);
    answer.json()
}

pub(crate) async fn retrieve(caller: &Caller, response: &Value) -> Value {
    caller.get(&path_of(response)).await.json()
}

pub(crate) fn path_of(response: &Value) -> String {
    format!("/v1/responses/{}", response["id"].as_str().unwrap())
}

/// Waits until a response is as wanted.
pub(crate) async fn until(caller: &Caller, response: &Value, status: &str) -> Value {
    let come = timeout(HANG_TIMEOUT, async {
        loop {
            let now = retrieve(caller, response).await;
            if now["status"] == *status {
                return now;
            }
        }
    });
    come.await.unwrap_or_else(|_| panic!("the response should be {status}"))
}

/// The outputs of all calls of a response, each of which says what comes next.
fn outputs(response: &Value, next: &str) -> Vec<Value> {
    let calls = response["output"].as_array().unwrap().iter().filter(|item| item["type"] == "function_call");
    calls.map(|call| json!({"type": "function_call_output", "call_id": call["call_id"], "output": next})).collect()
}

#[tokio::test]
async fn a_response_in_the_background_that_has_no_place_is_refused_and_not_kept() {
    let directory = TempDir::new().unwrap();
    let mut plan = plan(directory.path());
    plan.groups[0].turns_max = 1;
    plan.limits = Limits { queue_max: 0, ..Limits::default() };
    let house = house_of(plan, directory).await;
    let running = create(&house.operator, &background(SLOW)).await;
    until(&house.operator, &running, "in_progress").await;
    let refused = house.operator.post("/v1/responses", &background("[[text]]").to_string()).await;
    assert_eq!(refused.refusal(), "429 worker_busy");
    assert!(refused.headers.contains("retry-after: "), "{}", refused.headers);
    house.store.flush().await.unwrap();
    for (status, count) in [("queued", 0), ("failed", 0), ("in_progress", 1)] {
        let rows = house.store.read(move |reader| reader.responses_in(status)).await.unwrap();
        assert_eq!(rows.len(), count, "{status}: {rows:?}");
    }
    house.operator.post(&format!("{}/cancel", path_of(&running)), "").await;
    until_turns(&house, 0).await;
    let next = create(&house.operator, &background("[[text]]")).await;
    until(&house.operator, &next, "completed").await;
    house.stop().await;
}

#[tokio::test]
async fn whoever_reaches_the_turn_of_a_response_in_the_background_can_interrupt_it() {
    let house = House::open().await;
    let caller = house.caller(&[Scope::Use]).await;
    let running = create(&caller, &background(SLOW)).await;
    until(&caller, &running, "in_progress").await;
    let turn = caller.get("/api/turns").await.json()["turns"][0]["turn"].as_str().unwrap().to_owned();
    let path = format!("/api/turns/{turn}/interrupt");
    let other = house.caller(&[Scope::Use]).await;
    assert_eq!(other.post(&path, "").await.refusal(), "404 turn_not_found");
    let passed = house.operator.post(&path, "").await;
    assert_eq!((passed.status, &passed.json()["turn"]), (200, &json!(turn)));
    let ended = until(&caller, &running, "cancelled").await;
    assert_eq!(ended["error"], Value::Null);
    until_turns(&house, 0).await;
    house.stop().await;
}

#[tokio::test]
async fn a_turn_that_waits_for_outputs_goes_with_the_response_that_wants_them() {
    let house = House::open().await;
    let request = with_tool(json!({"model": "quiet", "input": "[[tool look {}]]"}));
    let first = create(&house.operator, &request).await;
    let mut request = with_tool(json!({"model": "quiet", "input": outputs(&first, "[[tool look {}]]")}));
    request["previous_response_id"] = first["id"].clone();
    let second = create(&house.operator, &request).await;
    assert_eq!(second["output"][0]["type"], "function_call", "{second:#}");
    assert_eq!(house.operator.delete(&path_of(&first)).await.status, 200);
    assert_eq!(house.pool.load().parked, 1, "the other response waits for it");
    assert_eq!(house.operator.delete(&path_of(&second)).await.status, 200);
    until_turns(&house, 0).await;
    house.stop().await;
}

#[tokio::test]
async fn a_conversation_goes_on_behind_a_response_that_was_deleted_while_it_was_streamed() {
    let house = House::open().await;
    let conversation = house.operator.post("/v1/conversations", "{}").await.json()["id"].take();
    let asks = |model: &str, input: &str| json!({"model": model, "input": input, "conversation": conversation});
    let mut request = asks("asking", "[[shell touch x]]");
    request["stream"] = true.into();
    let mut feed = house.operator.events("/api/events", "").await;
    let mut streamed = house.operator.stream("/v1/responses", "", &request.to_string()).await;
    let response = streamed.until("response.created").await["response"].take();
    feed.until("approval_wanted").await;
    assert_eq!(house.operator.delete(&path_of(&response)).await.status, 200);
    let approval = house.operator.get("/api/approvals?state=pending").await.json()["approvals"][0].take();
    let verdict = json!({"verdict": "allow", "shown_hash": approval["shown_hash"]}).to_string();
    house.operator.post(&format!("/api/approvals/{}/decide", approval["id"].as_str().unwrap()), &verdict).await;
    streamed.until("response.completed").await;
    streamed.rest().await;
    assert_eq!(house.operator.get(&path_of(&response)).await.refusal(), "404 response_not_found");
    let next = create(&house.operator, &asks("quiet", "[[text]]")).await;
    assert_eq!(next["status"], "completed", "{next:#}");
    house.stop().await;
}

#[tokio::test]
async fn whoever_follows_a_response_that_is_cancelled_hears_its_end() {
    let house = House::open().await;
    let running = create(&house.operator, &background("[[hang]]")).await;
    until(&house.operator, &running, "in_progress").await;
    let path = path_of(&running);
    house.operator.post(&format!("{path}/cancel"), "").await;
    let events = house.operator.get(&format!("{path}?stream=true")).await.body;
    assert!(events.contains("event: response.incomplete") && events.contains("data: [DONE]"), "{events}");
    house.stop().await;
}

#[tokio::test]
async fn a_turn_that_waits_for_outputs_goes_with_its_response_of_the_background() {
    let house = House::open().await;
    let called = create(&house.operator, &with_tool(background("[[tool look {}]]"))).await;
    until(&house.operator, &called, "completed").await;
    assert_eq!(house.pool.load().parked, 1);
    assert_eq!(house.operator.delete(&path_of(&called)).await.status, 200);
    until_turns(&house, 0).await;
    house.stop().await;
}

/// A worker that plays a script.
fn playing(directory: &Path, script: &str) -> Plan {
    let path = directory.join("script.toml");
    std::fs::write(&path, script).unwrap();
    let mut plan = plan(directory);
    plan.groups[0].args = vec!["--script".into(), path.into()];
    plan
}

/// A worker that outlives the house, and reaches a function of the caller's only after a while.
fn lasting(directory: &Path) -> Plan {
    let script = "[[turns]]\nmatch = \"look\"\nsteps = [\"slow 25 120\", \"tool look {}\"]\n";
    let mut plan = playing(directory, script);
    plan.groups[0].transport = Transport::Unix;
    plan
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_turn_that_reaches_a_function_after_a_restart_goes_on_with_its_outputs() {
    let directory = TempDir::new().unwrap();
    let house = house_of(lasting(directory.path()), directory).await;
    let begun = create(&house.operator, &with_tool(background("look"))).await;
    until(&house.operator, &begun, "in_progress").await;
    house.pool.stop().await;
    let directory = house.stop().await;
    let house = house_of(lasting(directory.path()), directory).await;
    let called = until(&house.operator, &begun, "completed").await;
    let kinds: Vec<_> = called["output"].as_array().unwrap().iter().map(|item| &item["type"]).collect();
    assert_eq!(kinds, ["message", "function_call"], "{called:#}");
    let call = &called["output"][1];
    assert_eq!((&call["name"], &call["arguments"]), (&json!("look"), &json!("{}")));
    let mut request = with_tool(json!({"model": "quiet", "input": outputs(&called, "[[say seen]]")}));
    request["previous_response_id"] = begun["id"].clone();
    let last = create(&house.operator, &request).await;
    assert_eq!(last["output"][0]["content"][0]["text"], "seen", "{last:#}");
    let metrics = house.operator.get("/metrics").await.body;
    let resumed = metrics.lines().find(|line| line.contains("resumed")).unwrap_or_default();
    assert!(resumed.ends_with(" 1"), "the very same turn went on: {resumed}");
    let worker = house.pool.workers()[0].pid.unwrap();
    house.stop().await;
    kill(worker);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_goes_on_after_a_restart_ends_with_its_key() {
    let directory = TempDir::new().unwrap();
    let house = house_of(lasting(directory.path()), directory).await;
    let caller = house.caller(&[Scope::Use]).await;
    let begun = create(&caller, &background(SLOW)).await;
    until(&caller, &begun, "in_progress").await;
    house.pool.stop().await;
    let directory = house.stop().await;
    let house = house_of(lasting(directory.path()), directory).await;
    let caller = Caller { address: house.operator.address, ..caller };
    assert_eq!(retrieve(&caller, &begun).await["status"], "in_progress");
    until_turns(&house, 1).await;
    house.revoke(&caller).await;
    until_turns(&house, 0).await;
    let (id, key) = (begun["id"].as_str().unwrap().to_owned(), caller.id().to_owned());
    let kept = timeout(HANG_TIMEOUT, async {
        loop {
            let (id, key) = (id.clone(), key.clone());
            let row = house.store.read(move |reader| reader.response(&id, &key)).await.unwrap().unwrap();
            if row.status != "in_progress" {
                return row.status;
            }
        }
    });
    assert_eq!(kept.await.as_deref(), Ok("cancelled"));
    let worker = house.pool.workers()[0].pid.unwrap();
    house.stop().await;
    kill(worker);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_had_a_caller_before_a_restart_can_be_ended_after_it() {
    let directory = TempDir::new().unwrap();
    let house = house_of(lasting(directory.path()), directory).await;
    let request = json!({"model": "quiet", "input": SLOW, "stream": true});
    let mut responding = house.operator.stream("/v1/responses", "", &request.to_string()).await;
    let begun = responding.until("response.created").await["response"].take();
    let request = json!({"model": "quiet", "messages": [{"role": "user", "content": SLOW}], "stream": true});
    let chatting = house.operator.stream("/v1/chat/completions", "", &request.to_string()).await;
    until_turns(&house, 2).await;
    responding.until("response.output_text.delta").await;
    house.store.flush().await.unwrap();
    house.pool.stop().await;
    drop((responding, chatting));
    let directory = house.stop().await;
    let house = house_of(lasting(directory.path()), directory).await;
    assert_eq!(retrieve(&house.operator, &begun).await["status"], "in_progress", "its turn still runs");
    until_turns(&house, 2).await;
    let cancelled = house.operator.post(&format!("{}/cancel", path_of(&begun)), "").await;
    assert_eq!(cancelled.json()["status"], "cancelled", "{}", cancelled.body);
    until_turns(&house, 1).await;
    let turn = house.operator.get("/api/turns").await.json()["turns"][0]["turn"].as_str().unwrap().to_owned();
    assert_eq!(house.operator.post(&format!("/api/turns/{turn}/interrupt"), "").await.status, 200);
    until_turns(&house, 0).await;
    let worker = house.pool.workers()[0].pid.unwrap();
    house.stop().await;
    kill(worker);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_follows_a_response_that_outlives_the_server_is_told_that_it_stops() {
    let directory = TempDir::new().unwrap();
    let house = house_of(lasting(directory.path()), directory).await;
    let begun = create(&house.operator, &background(SLOW)).await;
    let mut following = house.operator.events(&format!("{}?stream=true", path_of(&begun)), "").await;
    following.until("response.output_text.delta").await;
    house.pool.stop().await;
    let mut rest = following.rest().await;
    let last = rest.pop().unwrap();
    assert_eq!((&last["type"], &last["error"]["code"]), (&json!("error"), &json!("draining")), "{last}");
    assert!(last["sequence_number"].is_u64(), "{last}");
    assert!(rest.iter().all(|event| event["type"] == "response.output_text.delta"), "its end is not told: {rest:?}");
    let directory = house.stop().await;
    let house = house_of(lasting(directory.path()), directory).await;
    assert_eq!(retrieve(&house.operator, &begun).await["status"], "in_progress");
    assert_eq!(house.operator.delete(&path_of(&begun)).await.status, 200);
    until_turns(&house, 0).await;
    let worker = house.pool.workers()[0].pid.unwrap();
    house.stop().await;
    kill(worker);
}
