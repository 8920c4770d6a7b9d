//! What the real worker said, spoiled at random: no surprise ends a stream, and nothing is lost from it but what was
//! taken away.

use std::fs;
use std::path::Path;

use codex::event::{ConnectionEvent, Told, TurnEvent};
use codex::v2;
use proptest::prelude::*;
use proptest::test_runner::Config;
use serde_json::{Value, json};
use wire::Json;

/// One way to spoil a message.
#[derive(Clone, Debug)]
enum Mutation {
    AddField(usize),
    DropField(usize, usize),
    ReplaceValue(usize, usize, Value),
    NewItemType,
}

fn mutation() -> impl Strategy<Value = Mutation> {
    let value = prop_oneof![
        Just(Value::Null),
        Just(json!("never heard of")),
        Just(json!(-7)),
        Just(json!([])),
        Just(json!({"type": "hologram"})),
    ];
    prop_oneof![
        any::<usize>().prop_map(Mutation::AddField),
        any::<(usize, usize)>().prop_map(|(place, field)| Mutation::DropField(place, field)),
        (any::<(usize, usize)>(), value)
            .prop_map(|((place, field), value)| Mutation::ReplaceValue(place, field, value)),
        Just(Mutation::NewItemType),
    ]
}

/// Every notification of every recording.
fn notifications() -> Vec<(String, Value)> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../transcripts");
    let paths = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let texts = paths.filter(|path| path.extension().is_some_and(|end| end == "jsonl")).map(fs::read_to_string);
    let mut found = Vec::new();
    for text in texts {
        for line in text.unwrap().lines() {
            let mut message = serde_json::from_str::<Value>(line).unwrap()["message"].take();
            if let (Some(method), None) = (message["method"].as_str().map(str::to_owned), message.get("id")) {
                found.push((method, message["params"].take()));
            }
        }
    }
    assert!(found.len() > 1000, "only {} notifications were recorded", found.len());
    found
}

/// Where the objects within a value are.
fn objects(value: &Value, at: &str, found: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            found.push(at.into());
            for (name, value) in fields {
                objects(value, &format!("{at}/{}", name.replace('~', "~0").replace('/', "~1")), found);
            }
        }
        Value::Array(values) => {
            for (index, value) in values.iter().enumerate() {
                objects(value, &format!("{at}/{index}"), found);
            }
        }
        _ => {}
    }
}

fn object(params: &mut Value, place: usize) -> &mut serde_json::Map<String, Value> {
    let mut places = Vec::new();
    objects(params, "", &mut places);
    params.pointer_mut(&places[place % places.len()]).unwrap().as_object_mut().unwrap()
}

fn spoil(params: &mut Value, mutation: &Mutation) {
    match mutation {
        Mutation::AddField(place) => {
            object(params, *place).insert("surprise".into(), json!({"deeply": ["new"]}));
        }
        Mutation::DropField(place, field) => {
            let object = object(params, *place);
            if let Some(name) = object.keys().nth(field % object.len().max(1)).cloned() {
                object.remove(&name);
            }
        }
        Mutation::ReplaceValue(place, field, value) => {
            let object = object(params, *place);
            let field = field % object.len().max(1);
            if let Some(old) = object.values_mut().nth(field) {
                *old = value.clone();
            }
        }
        Mutation::NewItemType => {
            object(params, 0).insert("item".into(), json!({"type": "hologram", "id": "h", "depth": 3}));
        }
    }
}

#[test]
fn no_surprise_ends_a_stream() {
    let notifications = notifications();
    let strategy = (0..notifications.len(), prop::collection::vec(mutation(), 1..4));
    let scale: u32 = std::env::var("SWITCHBOARD_TEST_SCALE").ok().and_then(|scale| scale.parse().ok()).unwrap_or(1);
    let config = Config { failure_persistence: None, ..Config::with_cases(2000 * scale) };
    proptest!(config, |((index, mutations) in strategy)| {
        let (method, mut params) = notifications[index].clone();
        if params.is_object() {
            mutations.iter().for_each(|mutation| spoil(&mut params, mutation));
        }
        let whole = Json::of(&params).unwrap();
        match v2::notification(&method, &whole) {
            // What has no event of its own keeps every byte.
            Some(Told::Turn(placed)) => if let TurnEvent::Raw { method: told, params } = placed.event {
                prop_assert_eq!((&*told, params.get()), (method.as_str(), whole.get()));
            },
            Some(Told::Connection(ConnectionEvent::Raw { method: told, params })) => {
                prop_assert_eq!((&*told, params.get()), (method.as_str(), whole.get()));
            }
            Some(Told::Connection(_)) => {}
            None => prop_assert!(false, "{} was swallowed", method),
        }
        // As long as the turn is named, its end is its end.
        if method == "turn/completed" && params["threadId"].is_string() && params["turn"]["id"].is_string() {
            let told = v2::notification(&method, &whole);
            prop_assert!(
                matches!(&told, Some(Told::Turn(placed)) if matches!(placed.event, TurnEvent::TurnEnded { .. })),
                "{:?}", told
            );
        }
    });
}
