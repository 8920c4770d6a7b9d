//! The resources and the prompt of the good servers.

use serde_json::{Value, json};

use super::good::{Failure, INVALID_PARAMS, Request};

pub(crate) fn resources() -> Value {
    json!({"resources": [
        {"uri": "gallery://greeting", "name": "greeting", "description": "A greeting", "mimeType": "text/plain"},
        {"uri": "gallery://counter", "name": "counter", "description": "What `touch` counts", "mimeType": "text/plain"},
    ]})
}

pub(crate) fn templates() -> Value {
    json!({"resourceTemplates": [
        {"uriTemplate": "gallery://number/{n}", "name": "number", "description": "A number", "mimeType": "text/plain"},
    ]})
}

pub(crate) fn read(request: &Request) -> Result<Value, Failure> {
    let uri = request.params["uri"].as_str().unwrap_or_default();
    let text = match uri.strip_prefix("gallery://").unwrap_or_default() {
        "greeting" => "hello".to_owned(),
        "counter" => request.server.state().counter.to_string(),
        path => match path.strip_prefix("number/") {
            Some(number) => number.to_owned(),
            None => return Err(Failure::new(INVALID_PARAMS, format!("Resource not found: {uri}"))),
        },
    };
    Ok(json!({"contents": [{"uri": uri, "mimeType": "text/plain", "text": text}]}))
}

pub(crate) fn prompts() -> Value {
    let argument = json!({"name": "name", "description": "Whom to greet", "required": true});
    json!({"prompts": [{"name": "greet", "description": "Greets somebody", "arguments": [argument]}]})
}

pub(crate) fn prompt(params: &Value) -> Result<Value, Failure> {
    let name = params["arguments"]["name"].as_str();
    match (params["name"].as_str(), name) {
        (Some("greet"), Some(name)) => {
            let content = json!({"type": "text", "text": format!("Please greet {name}.")});
            Ok(json!({"description": "Greets somebody", "messages": [{"role": "user", "content": content}]}))
        }
        (Some("greet"), None) => Err(Failure::new(INVALID_PARAMS, "Missing argument: name")),
        (other, _) => Err(Failure::new(INVALID_PARAMS, format!("Unknown prompt: {}", other.unwrap_or_default()))),
    }
}
