//! What the real worker said, typed and written again.

use codex::protocol::calls::{Initialize, ModelList, ThreadResume, ThreadStart, TurnStart};
use codex::protocol::{Call, Notification, ThreadItem, TurnStartParams, UserInput, UserInputText, WorkerRequest};
use serde::Serialize;
use serde_json::{Value, json};
use wire::Json;

use super::{is_notification, is_request, of_repository, recorded};

/// What is in the original and not in what was written, but for what means the same as nothing.
fn lost(original: &Value, written: Option<&Value>, path: &str, losses: &mut Vec<String>) {
    match (original, written) {
        (Value::Object(fields), Some(Value::Object(kept))) => {
            for (name, value) in fields {
                lost(value, kept.get(name), &format!("{path}.{name}"), losses);
            }
            for name in kept.keys().filter(|name| !fields.contains_key(*name)) {
                losses.push(format!("{path}.{name} was made up"));
            }
        }
        (Value::Array(items), Some(Value::Array(kept))) if items.len() == kept.len() => {
            for (index, (item, kept)) in items.iter().zip(kept).enumerate() {
                lost(item, Some(kept), &format!("{path}[{index}]"), losses);
            }
        }
        (original, Some(written)) if original == written => {}
        (original, None) if means_nothing(original) => {}
        _ => losses.push(format!("{path} was {original} and is {written:?}")),
    }
}

fn means_nothing(value: &Value) -> bool {
    *value == json!(null) || *value == json!(false) || *value == json!(0) || *value == json!([])
}

pub(super) fn losses_of(original: &Value, written: &impl Serialize) -> Vec<String> {
    let mut losses = Vec::new();
    lost(original, Some(&serde_json::to_value(written).unwrap()), "", &mut losses);
    losses
}

fn params_of(message: &Value) -> Json {
    Json::of(&message["params"]).unwrap()
}

#[test]
fn every_recorded_notification_is_typed_and_written_again_without_loss() {
    let notifications = recorded(is_notification);
    assert!(notifications.len() > 500, "only {} were recorded", notifications.len());
    for message in &notifications {
        let method = message["method"].as_str().unwrap();
        let typed = Notification::read(method, Some(&params_of(message)));
        let is_typed = !matches!(typed, Notification::Unparsed { .. } | Notification::Other { .. });
        assert!(is_typed, "{typed:?}");
        let mut said = message.clone();
        said.as_object_mut().unwrap().remove("emittedAtMs");
        assert_eq!(losses_of(&said, &typed), Vec::<String>::new(), "{message}");
    }
}

#[test]
fn every_recorded_request_is_typed_and_written_again_without_loss() {
    let requests = recorded(is_request);
    assert!(requests.len() > 20, "only {} were recorded", requests.len());
    for message in &requests {
        let typed = WorkerRequest::read(message["method"].as_str().unwrap(), Some(&params_of(message)));
        let is_typed = !matches!(typed, WorkerRequest::Unparsed { .. } | WorkerRequest::Other { .. });
        assert!(is_typed, "{typed:?}");
        let mut said = message.clone();
        said.as_object_mut().unwrap().remove("id");
        assert_eq!(losses_of(&said, &typed), Vec::<String>::new(), "{message}");
    }
}

/// Answers of one call in all recordings, typed and written again; and its parameters likewise.
fn check_call<C: Call>() -> usize
where
    C::Answer: Serialize,
{
    let mut checked = 0;
    for entry in std::fs::read_dir(of_repository("transcripts")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "jsonl") {
            continue;
        }
        let mut asked = None;
        for line in std::fs::read_to_string(&path).unwrap().lines() {
            let entry: Value = serde_json::from_str(line).unwrap();
            let message = &entry["message"];
            if entry["dir"] == "sent" && message["method"] == C::METHOD {
                asked = Some(message["id"].clone());
            } else if asked.as_ref() == Some(&message["id"])
                && entry["dir"] == "received"
                && asked.take().is_some()
                && let Some(result) = message.get("result")
            {
                let answer: C::Answer = serde_json::from_str(&result.to_string()).unwrap();
                assert_eq!(losses_of(result, &answer), Vec::<String>::new(), "{}: {result}", path.display());
                checked += 1;
            }
        }
    }
    checked
}

#[test]
fn recorded_answers_are_typed_and_written_again_without_loss() {
    assert!(check_call::<Initialize>() > 50);
    assert!(check_call::<ThreadStart>() > 50);
    assert!(check_call::<TurnStart>() > 50);
    assert!(check_call::<ThreadResume>() > 5);
    assert!(check_call::<ModelList>() > 0);
}

#[test]
fn params_are_written_with_what_was_said_and_nothing_else() {
    let input = vec![UserInput::Text(UserInputText::new("hello"))];
    let params = TurnStartParams { model: Some("m".into()), ..TurnStartParams::new(input, "t") };
    let expected = json!({"threadId": "t", "input": [{"type": "text", "text": "hello"}], "model": "m"});
    assert_eq!(serde_json::to_value(params).unwrap(), expected);
}

#[test]
fn a_tag_is_found_wherever_it_stands() {
    let first: ThreadItem = serde_json::from_str(r#"{"type":"plan","id":"i","text":"x","new":[1]}"#).unwrap();
    let last: ThreadItem = serde_json::from_str(r#"{"id":"i","text":"x","new":[1],"type":"plan"}"#).unwrap();
    assert_eq!(first, last);
    assert_eq!(first.id(), Some("i"));
    let unknown = r#"{"type":"hologram","id":"i","beams":[1, 2.50]}"#;
    let ThreadItem::Other(raw) = serde_json::from_str(unknown).unwrap() else { panic!("typed") };
    assert_eq!(raw.parse::<Value>().unwrap(), serde_json::from_str::<Value>(unknown).unwrap());
    assert_eq!(serde_json::to_value(ThreadItem::Other(raw)).unwrap(), serde_json::from_str::<Value>(unknown).unwrap());
}
