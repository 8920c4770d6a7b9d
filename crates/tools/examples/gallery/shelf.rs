//! The resources and the prompts of the good servers, and how their arguments can go on.

use serde_json::{Value, json};

use super::good::{Failure, INVALID_PARAMS, Request, State};

/// Whom one can greet or thank.
const NAMES: [&str; 3] = ["ada", "alan", "grace"];
/// Numbers that one can read.
const NUMBERS: [&str; 3] = ["1", "10", "2"];

pub(crate) fn resources(state: &State) -> Value {
    let mut resources = vec![
        json!({"uri": "gallery://greeting", "name": "greeting", "description": "A greeting", "mimeType": "text/plain"}),
        json!({"uri": "gallery://counter", "name": "counter", "description": "What `touch` counts", "mimeType": "text/plain"}),
    ];
    if state.has_farewell {
        resources.push(json!({"uri": "gallery://farewell", "name": "farewell", "mimeType": "text/plain"}));
    }
    json!({ "resources": resources })
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
        "farewell" if request.server.state().has_farewell => "goodbye".to_owned(),
        "counter" => request.server.state().counter.to_string(),
        path => match path.strip_prefix("number/") {
            Some(number) => number.to_owned(),
            None => return Err(Failure::new(INVALID_PARAMS, format!("Resource not found: {uri}"))),
        },
    };
    Ok(json!({"contents": [{"uri": uri, "mimeType": "text/plain", "text": text}]}))
}

pub(crate) fn prompts(state: &State) -> Value {
    let argument = json!({"name": "name", "description": "Whom to greet", "required": true});
    let mut prompts = vec![json!({"name": "greet", "description": "Greets somebody", "arguments": [argument]})];
    if state.has_thanks {
        prompts.push(json!({"name": "thank", "description": "Thanks somebody"}));
    }
    json!({ "prompts": prompts })
}

/// How the argument of the prompt or of the template can go on.
pub(crate) fn complete(params: &Value) -> Result<Value, Failure> {
    let all = match (params["ref"]["name"].as_str(), params["ref"]["uri"].as_str()) {
        (Some("greet"), _) => NAMES,
        (_, Some("gallery://number/{n}")) => NUMBERS,
        _ => return Err(Failure::new(INVALID_PARAMS, format!("Nothing to complete: {}", params["ref"]))),
    };
    let begun = params["argument"]["value"].as_str().unwrap_or_default();
    let values: Vec<&str> = all.into_iter().filter(|word| word.starts_with(begun)).collect();
    Ok(json!({"completion": {"values": values, "total": values.len(), "hasMore": false}}))
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
