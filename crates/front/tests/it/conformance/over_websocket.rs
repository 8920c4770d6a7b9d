//! The cases over a WebSocket: the same events as frames, and what a connection remembers.

use serde_json::{Value, json};

use super::{IMAGE, MODEL, asks, check_complete, compacted, has_item, message, weather};
use crate::frames::Frames;
use crate::schemas::check_object;
use crate::support::House;

const NOT_FOUND: &str = "400 previous_response_not_found";

fn unstored(input: impl Into<Value>) -> Value {
    let mut request = asks(input);
    request["store"] = json!(false);
    request
}

fn after(previous: &Value, mut request: Value) -> Value {
    request["previous_response_id"] = previous["id"].clone();
    request
}

/// A response that is as the suite wants it.
async fn complete(frames: &mut Frames, request: Value) -> Value {
    let response = frames.answer(request).await;
    check_complete(&response);
    response
}

/// The response to one request on a connection of its own.
async fn alone(request: Value) -> Value {
    let house = House::open().await;
    let mut frames = house.operator.frames().await;
    let response = complete(&mut frames, request).await;
    frames.close().await;
    house.stop().await;
    response
}

#[tokio::test]
async fn websocket_response() {
    alone(asks(json!([message("user", "Count from 1 to 3. [[say 1, 2, 3.]]")]))).await;
}

#[tokio::test]
async fn websocket_sequential_responses() {
    let house = House::open().await;
    let mut frames = house.operator.frames().await;
    let first = complete(&mut frames, unstored("Reply with exactly: first [[say first]]")).await;
    let second = complete(&mut frames, unstored("Reply with exactly: second [[say second]]")).await;
    assert_ne!(first["id"], second["id"]);
    frames.close().await;
    house.stop().await;
}

#[tokio::test]
async fn websocket_continuation() {
    let house = House::open().await;
    let mut frames = house.operator.frames().await;
    let first = complete(&mut frames, unstored("Remember the code word: cobalt. Reply with OK. [[say OK]]")).await;
    let question = unstored("What is the code word? Reply with only the code word. [[say cobalt]]");
    let second = complete(&mut frames, after(&first, question)).await;
    assert_eq!(second["previous_response_id"], first["id"]);
    frames.close().await;
    house.stop().await;
}

#[tokio::test]
async fn websocket_generate_false() {
    let house = House::open().await;
    let mut frames = house.operator.frames().await;
    let mut warm_up = unstored("Prepare to answer with exactly: warmed");
    warm_up["generate"] = json!(false);
    let warmed = frames.answer(warm_up).await;
    check_object("Response", &warmed);
    assert_eq!(warmed["output"], json!([]));
    complete(&mut frames, after(&warmed, unstored("Answer now. [[say warmed]]"))).await;
    frames.close().await;
    house.stop().await;
}

#[tokio::test]
async fn websocket_reconnect_store_false_recovery() {
    let house = House::open().await;
    let mut frames = house.operator.frames().await;
    let first = complete(&mut frames, unstored("Remember the code word: cobalt. Reply with OK. [[say OK]]")).await;
    frames.close().await;
    let mut frames = house.operator.frames().await;
    assert_eq!(frames.refusal(after(&first, unstored("What is the code word?"))).await, NOT_FOUND);
    complete(&mut frames, unstored("The code word is cobalt. Reply with only the code word. [[say cobalt]]")).await;
    frames.close().await;
    house.stop().await;
}

#[tokio::test]
async fn websocket_previous_response_not_found() {
    let house = House::open().await;
    let mut frames = house.operator.frames().await;
    let missing = json!({"id": "resp_openresponses_missing_1767225600000"});
    assert_eq!(frames.refusal(after(&missing, unstored("Hello."))).await, NOT_FOUND);
    frames.close().await;
    house.stop().await;
}

#[tokio::test]
async fn websocket_failed_continuation_evicts_cache() {
    let house = House::open().await;
    let mut frames = house.operator.frames().await;
    let first = complete(&mut frames, unstored("Reply with exactly: first [[say first]]")).await;
    let output = json!({"type": "function_call_output", "call_id": "call_openresponses_missing", "output": "none"});
    assert_eq!(frames.refusal(after(&first, unstored(json!([output])))).await, "400 invalid_value");
    assert_eq!(frames.refusal(after(&first, unstored("Go on."))).await, NOT_FOUND);
    frames.close().await;
    house.stop().await;
}

#[tokio::test]
async fn websocket_compact_new_chain() {
    let house = House::open().await;
    let part = |role: &str, kind: &str, text: &str| json!({"type": "message", "role": role, "content": [{"type": kind, "text": text}]});
    let compaction = compacted(
        &house,
        &asks(json!([
            part("user", "input_text", "We decided to launch on Tuesday."),
            part("assistant", "output_text", "Understood: the launch is on Tuesday."),
        ])),
    )
    .await;
    let mut input = compaction["output"].as_array().unwrap().clone();
    input.push(message("user", "Continue from here. Reply with exactly: compacted [[say compacted]]"));
    let mut frames = house.operator.frames().await;
    let mut request = unstored(input);
    request["tools"] = json!([]);
    complete(&mut frames, request).await;
    frames.close().await;
    house.stop().await;
}

#[tokio::test]
async fn the_other_cases_over_a_websocket() {
    let pirate = message("system", "You are a pirate. Always respond in pirate speak.");
    alone(asks(json!([pirate, message("user", "Say hello. [[say Ahoy!]]")]))).await;
    let image = json!([{"type": "input_text", "text": "[[see]]"}, {"type": "input_image", "image_url": IMAGE}]);
    alone(asks(json!([{"type": "message", "role": "user", "content": image}]))).await;
    let called = alone(weather(asks(json!("[[tool get_weather {\"location\": \"San Francisco\"}]]")))).await;
    assert!(has_item(&called, "function_call"), "{called:#}");
    let phases = alone(asks(json!("[[remark I look first.]]"))).await;
    assert_eq!(phases["output"][0]["phase"], "commentary", "{phases:#}");
    let format = json!({"type": "json_schema", "name": "any", "schema": {"type": "object", "properties": {}}});
    let formed = alone(json!({"model": MODEL, "input": "Describe a city.", "text": {"format": format}})).await;
    assert_eq!(formed["text"]["format"]["name"], "any");
}
