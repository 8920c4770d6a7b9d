//! Every case of the Open Responses compliance suite, under its name there, with the demo worker in the place of a model: it is told
//! what to say, and each object and each event is held against the schema of the public API.

mod over_http;
mod over_websocket;

use serde_json::{Value, json};

use crate::schemas::check_object;
use crate::support::House;

/// The model of all cases.
const MODEL: &str = "quiet";

/// The red heart of the suite is as good as any image.
const IMAGE: &str = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg==";

/// A message whose content is a text.
fn message(role: &str, content: &str) -> Value {
    json!({"type": "message", "role": role, "content": content})
}

/// A request with this input.
fn asks(input: impl Into<Value>) -> Value {
    json!({"model": MODEL, "input": input.into()})
}

fn weather(mut request: Value) -> Value {
    let location = json!({"type": "string", "description": "The city and state, e.g. San Francisco, CA"});
    request["tools"] = json!([{
        "type": "function",
        "name": "get_weather",
        "description": "Get the current weather for a location",
        "parameters": {"type": "object", "properties": {"location": location}, "required": ["location"]},
    }]);
    request
}

/// What the suite asks of every response.
fn check_complete(response: &Value) {
    check_object("Response", response);
    assert_ne!(response["output"], json!([]), "{response:#}");
    assert_eq!(response["status"], "completed", "{response:#}");
}

fn has_item(response: &Value, kind: &str) -> bool {
    response["output"].as_array().unwrap().iter().any(|item| item["type"] == kind)
}

/// `POST /v1/responses/compact`.
async fn compacted(house: &House, request: &Value) -> Value {
    let answer = house.operator.post("/v1/responses/compact", &request.to_string()).await;
    assert_eq!(answer.status, 200, "{}", answer.body);
    let compaction = answer.json();
    check_object("Compaction", &compaction);
    assert_eq!(compaction["object"], "response.compaction");
    assert!(has_item(&compaction, "compaction"), "{compaction:#}");
    compaction
}
