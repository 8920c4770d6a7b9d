//! The cases over HTTP: whole answers and streams.

use serde_json::{Value, json};

use super::{IMAGE, MODEL, asks, check_complete, compacted, has_item, message, weather};
use crate::frames::ENDS;
use crate::schemas::check_object;
use crate::support::House;

const RESPONSES: &str = "/v1/responses";

/// The answer as a whole.
async fn answer(request: Value) -> Value {
    let house = House::open().await;
    let answer = house.operator.post(RESPONSES, &request.to_string()).await;
    assert_eq!(answer.status, 200, "{}", answer.body);
    house.stop().await;
    answer.json()
}

/// The events of the answer as a stream, each as described, and the response at its end.
async fn stream(mut request: Value) -> (Vec<Value>, Value) {
    request["stream"] = json!(true);
    let house = House::open().await;
    let mut events = house.operator.stream(RESPONSES, "", &request.to_string()).await.rest().await;
    assert_eq!(events.pop(), Some(json!("[DONE]")));
    events.iter().for_each(|event| check_object("StreamEvent", event));
    let last = events.last().unwrap();
    assert!(ENDS.iter().any(|end| last["type"] == *end), "{last:#}");
    let response = last["response"].clone();
    house.stop().await;
    (events, response)
}

#[tokio::test]
async fn basic_response() {
    check_complete(
        &answer(asks(json!([message("user", "Say hello in exactly 3 words. [[say Hello to you.]]")]))).await,
    );
}

#[tokio::test]
async fn assistant_phase() {
    let said = |phase: &str, text: &str| {
        let mut said = message("assistant", text);
        said["phase"] = json!(phase);
        said
    };
    let input = json!([
        said("commentary", "I should answer with the saved number."),
        said("final_answer", "The number is four."),
        message("user", "Repeat only the number. [[say Four.]]"),
    ]);
    check_complete(&answer(asks(input)).await);
}

#[tokio::test]
async fn response_output_phase_schema() {
    let request = asks(json!([message("user", "[[remark I look first.]]")]));
    for response in [answer(request.clone()).await, stream(request).await.1] {
        check_complete(&response);
        let phases: Vec<_> = response["output"].as_array().unwrap().iter().map(|item| &item["phase"]).collect();
        assert_eq!(phases, ["commentary", "final_answer"]);
    }
}

#[tokio::test]
async fn streaming_response() {
    let (events, response) = stream(asks(json!([message("user", "Count from 1 to 5. [[say 1, 2, 3, 4, 5.]]")]))).await;
    check_complete(&response);
    assert!(events.iter().any(|event| event["type"] == "response.output_text.delta"));
}

#[tokio::test]
async fn system_prompt() {
    let pirate = message("system", "You are a pirate. Always respond in pirate speak.");
    check_complete(&answer(asks(json!([pirate, message("user", "Say hello. [[say Ahoy!]]")]))).await);
}

const WEATHER: &str =
    "What's the weather like in San Francisco? [[tool get_weather {\"location\": \"San Francisco\"}]]";

#[tokio::test]
async fn tool_calling() {
    let response = answer(weather(asks(json!([message("user", WEATHER)])))).await;
    check_complete(&response);
    assert!(has_item(&response, "function_call"), "{response:#}");
}

#[tokio::test]
async fn tool_calling_streaming() {
    let (events, response) = stream(weather(asks(json!([message("user", WEATHER)])))).await;
    check_complete(&response);
    assert!(has_item(&response, "function_call"), "{response:#}");
    for (kind, of_call) in [
        ("response.output_item.added", true),
        ("response.function_call_arguments.delta", false),
        ("response.function_call_arguments.done", false),
        ("response.output_item.done", true),
    ] {
        let is_told = |event: &Value| event["type"] == kind && (!of_call || event["item"]["type"] == "function_call");
        assert!(events.iter().any(is_told), "{kind}: {events:#?}");
    }
}

#[tokio::test]
async fn image_input() {
    let content = json!([
        {"type": "input_text", "text": "What do you see in this image? Answer in one sentence. [[see]]"},
        {"type": "input_image", "image_url": IMAGE},
    ]);
    let response = answer(asks(json!([{"type": "message", "role": "user", "content": content}]))).await;
    check_complete(&response);
    assert_eq!(response["output"][0]["content"][0]["text"], "Images seen: 1.");
}

#[tokio::test]
async fn multi_turn() {
    let input = json!([
        message("user", "My name is Alice."),
        message("assistant", "Hello Alice! Nice to meet you. How can I help you today?"),
        message("user", "What is my name? [[say Alice.]]"),
    ]);
    check_complete(&answer(asks(input)).await);
}

#[tokio::test]
async fn output_schema() {
    let mut request = asks(json!([message("user", "Describe a city.")]));
    let properties = json!({"name": {"type": "string"}, "inhabitants": {"type": "integer"}});
    let schema = json!({
        "type": "object", "properties": properties, "required": ["name", "inhabitants"], "additionalProperties": false,
    });
    request["text"] = json!({"format": {"type": "json_schema", "name": "city", "schema": schema, "strict": true}});
    let response = answer(request).await;
    check_complete(&response);
    assert_eq!(response["text"]["format"]["schema"], schema);
    let said = serde_json::from_str(response["output"][0]["content"][0]["text"].as_str().unwrap()).unwrap();
    assert!(jsonschema::is_valid(&schema, &said), "{said:#}");
}

#[tokio::test]
async fn compact_response() {
    let house = House::open().await;
    let request = json!({
        "model": MODEL,
        "prompt_cache_key": "openresponses-compact-test",
        "input": [
            message("user", "We decided to launch on Tuesday, after the final review."),
            message("assistant", "Understood: the launch is on Tuesday, after the final review."),
        ],
    });
    let compaction = compacted(&house, &request).await;
    assert_ne!(compaction["output"], json!([]));
    house.stop().await;
}

#[tokio::test]
async fn compact_missing_model() {
    let house = House::open().await;
    let refused = house.operator.post("/v1/responses/compact", r#"{"input":"We launch on Tuesday."}"#).await;
    assert_eq!(refused.refusal(), "400 model_required");
    house.stop().await;
}
