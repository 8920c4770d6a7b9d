//! Recorded lines, changed at random: fields added and dropped, words and types changed, items of unknown types. A stream
//! takes all of them; what is only newer than we are is even typed.

use codex::protocol::{Notification, WorkerRequest};
use proptest::prelude::*;
use proptest::sample::Index;
use serde_json::{Value, json};
use wire::Json;

use super::{is_notification, is_request, recorded};

const LINES_EACH: u32 = 2000;

/// What a newer worker may do.
#[derive(Clone, Debug)]
enum Growth {
    AddField(Value),
    OtherWord,
}

/// What nobody should do.
#[derive(Clone, Debug)]
enum Damage {
    Drop,
    Replace(Value),
    Wrap,
}

fn growth() -> impl Strategy<Value = Growth> {
    prop_oneof![any_value().prop_map(Growth::AddField), Just(Growth::OtherWord)]
}

fn damage() -> impl Strategy<Value = Damage> {
    prop_oneof![Just(Damage::Drop), any_value().prop_map(Damage::Replace), Just(Damage::Wrap)]
}

fn any_value() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(json!(null)),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        any::<String>().prop_map(Value::from),
        Just(json!([{"type": "hologram"}, 1])),
        Just(json!({"type": "hologram", "id": {"deep": [[[]]]}})),
    ]
}

/// The places in a value, itself first.
fn places(value: &Value, here: &str, found: &mut Vec<String>) {
    found.push(here.to_owned());
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                places(value, &format!("{here}/{}", name.replace('~', "~0").replace('/', "~1")), found);
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                places(item, &format!("{here}/{index}"), found);
            }
        }
        _ => {}
    }
}

fn place_in<'a>(value: &'a mut Value, at: &Index, is_wanted: fn(&Value) -> bool) -> Option<&'a mut Value> {
    let mut found = Vec::new();
    places(value, "", &mut found);
    found.retain(|place| value.pointer(place).is_some_and(is_wanted));
    if found.is_empty() {
        return None;
    }
    let place: &String = at.get(&found);
    value.pointer_mut(place)
}

fn grow(params: &mut Value, at: &Index, growth: &Growth) {
    match growth {
        Growth::AddField(value) => {
            if let Some(Value::Object(fields)) = place_in(params, at, Value::is_object) {
                fields.insert("aFieldOfTomorrow".to_owned(), value.clone());
            }
        }
        Growth::OtherWord => {
            if let Some(word) = place_in(params, at, Value::is_string) {
                *word = "wordOfTomorrow".into();
            }
        }
    }
}

fn spoil(params: &mut Value, at: &Index, damage: &Damage) {
    match damage {
        Damage::Drop => {
            if let Some(Value::Object(fields)) = place_in(params, at, Value::is_object)
                && !fields.is_empty()
            {
                let name = at.get(&fields.keys().cloned().collect::<Vec<_>>()).clone();
                fields.remove(&name);
            }
        }
        Damage::Replace(value) => {
            if let Some(place) = place_in(params, at, |_| true) {
                *place = value.clone();
            }
        }
        Damage::Wrap => {
            if let Some(place) = place_in(params, at, |_| true) {
                *place = json!([place.take()]);
            }
        }
    }
}

/// Reads the line as both enums of the protocol, as fits; the parameters if they are of another shape than we know.
fn unparsed(message: &Value, params: &Value) -> Result<Option<String>, TestCaseError> {
    let method = message["method"].as_str().unwrap();
    let params = Json::of(params).unwrap();
    let (kept, reason) = if is_notification(message) {
        let read = Notification::read(method, Some(&params));
        prop_assert_eq!(read.method(), method);
        match read {
            Notification::Unparsed { params, reason, .. } => (params, reason),
            Notification::Other { .. } => return Err(TestCaseError::fail("the method is known")),
            _ => return Ok(None),
        }
    } else {
        let read = WorkerRequest::read(method, Some(&params));
        prop_assert_eq!(read.method(), method);
        match read {
            WorkerRequest::Unparsed { params, reason, .. } => (params, reason),
            WorkerRequest::Other { .. } => return Err(TestCaseError::fail("the method is known")),
            _ => return Ok(None),
        }
    };
    prop_assert_eq!(kept, Some(params), "the raw parameters are kept");
    prop_assert!(!reason.is_empty());
    Ok(Some(reason.into()))
}

fn lines() -> Vec<Value> {
    let mut lines = recorded(is_notification);
    lines.extend(recorded(is_request));
    lines
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(LINES_EACH))]

    #[test]
    fn what_is_newer_than_we_are_is_still_typed(
        line in any::<Index>(), changes in prop::collection::vec((any::<Index>(), growth()), 1..6),
    ) {
        let lines = LINES.get_or_init(lines);
        let message = line.get(lines);
        let mut params = message["params"].clone();
        for (at, growth) in &changes {
            grow(&mut params, at, growth);
        }
        prop_assert_eq!(unparsed(message, &params)?, None, "{}", params);
    }

    #[test]
    fn no_line_fails_a_stream(
        line in any::<Index>(), changes in prop::collection::vec((any::<Index>(), damage()), 1..6),
    ) {
        let lines = LINES.get_or_init(lines);
        let message = line.get(lines);
        let mut params = message["params"].clone();
        for (at, damage) in &changes {
            spoil(&mut params, at, damage);
        }
        unparsed(message, &params)?;
    }
}

static LINES: std::sync::OnceLock<Vec<Value>> = std::sync::OnceLock::new();

#[test]
fn a_method_of_tomorrow_is_kept_as_it_came() {
    let params = Json::new(r#"{"x": [1,  2]}"#).unwrap();
    let read = Notification::read("weather/changed", Some(&params));
    assert_eq!(read, Notification::Other { method: "weather/changed".into(), params: Some(params) });
    let read = WorkerRequest::read("weather/ask", None);
    assert_eq!(read, WorkerRequest::Other { method: "weather/ask".into(), params: None });
}
