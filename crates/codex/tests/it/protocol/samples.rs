//! Values made from the schema, for every method and every variant: the types take them, know them, and write them again.

use std::fmt::Debug;
use std::sync::LazyLock;

use codex::protocol::{Call, EachCall, Notification, WorkerRequest, calls};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use wire::Json;

use super::json_of_repository;
use super::recorded::losses_of;

/// More than the largest union has variants, so that each is met.
const ROUNDS: usize = 24;
/// Types that contain themselves end here.
const DEPTH_MAX: usize = 12;

static SCHEMA: LazyLock<Value> = LazyLock::new(|| json_of_repository("schema/app-server.json"));

const VARIANTS: [&str; 3] = ["oneOf", "anyOf", "allOf"];

/// Makes values of a schema: in the nth round, the nth variant of every union.
struct Maker {
    round: usize,
}

impl Maker {
    fn definition(&self, path: &str, depth: usize) -> Value {
        let schema = SCHEMA.pointer(&format!("/definitions/{path}")).unwrap();
        self.value(schema, depth)
    }

    fn value(&self, schema: &Value, depth: usize) -> Value {
        if let Some(reference) = schema.get("$ref").and_then(Value::as_str) {
            return self.definition(reference.strip_prefix("#/definitions/").unwrap(), depth + 1);
        }
        let mut made = self.simple(schema, depth);
        for keyword in VARIANTS {
            let Some(variants) = schema.get(keyword).and_then(Value::as_array) else {
                continue;
            };
            // Upstream's own open ends are nothing that anybody sends.
            let open = json!({"type": ["string", "object"]});
            let variants: Vec<&Value> = variants.iter().filter(|variant| **variant != open).collect();
            let chosen = self.value(variants[self.round % variants.len()], depth);
            made = match (made, chosen) {
                (Value::Object(mut base), Value::Object(more)) => {
                    base.extend(more);
                    Value::Object(base)
                }
                (_, chosen) => chosen,
            };
        }
        made
    }

    fn simple(&self, schema: &Value, depth: usize) -> Value {
        if let Some(words) = schema.get("enum").and_then(Value::as_array) {
            return words[self.round % words.len()].clone();
        }
        let kind = match schema.get("type") {
            Some(Value::Array(kinds)) => kinds[0].as_str().unwrap(),
            Some(kind) => kind.as_str().unwrap(),
            None if VARIANTS.iter().any(|keyword| schema.get(keyword).is_some()) => return Value::Null,
            None => return json!({"any": ["thing"]}),
        };
        match kind {
            "string" => json!("text"),
            "integer" => json!(7),
            "number" => json!(2.5),
            "boolean" => json!(true),
            "null" => Value::Null,
            "array" => match depth < DEPTH_MAX {
                true => json!([self.value(&schema["items"], depth + 1)]),
                false => json!([]),
            },
            _ => self.object(schema, depth),
        }
    }

    fn object(&self, schema: &Value, depth: usize) -> Value {
        let required = schema.get("required").and_then(Value::as_array);
        let is_required = |name: &str| required.is_some_and(|names| names.iter().any(|other| other == name));
        let mut object = Map::new();
        for (name, schema) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
            if depth < DEPTH_MAX || is_required(name) {
                object.insert(name.clone(), self.value(schema, depth + 1));
            }
        }
        if let Some(values) = schema.get("additionalProperties").filter(|values| values.is_object())
            && depth < DEPTH_MAX
        {
            object.insert("key".to_owned(), self.value(values, depth + 1));
        }
        Value::Object(object)
    }
}

/// Values of a definition, one a round.
fn samples(definition: &str) -> Vec<Value> {
    let mut made: Vec<Value> = Vec::new();
    for round in 0..ROUNDS {
        let sample = Maker { round }.definition(definition, 0);
        if !made.contains(&sample) {
            made.push(sample);
        }
    }
    made
}

/// What is wrong with a type, on samples of its definition.
fn faults<T: Serialize + DeserializeOwned + Debug>(definition: &str) -> Vec<String> {
    let mut faults = Vec::new();
    for sample in samples(definition) {
        match serde_json::from_str::<T>(&sample.to_string()) {
            Err(error) => faults.push(format!("{definition}: {error}: {sample}")),
            Ok(value) => faults.extend(faults_of(&sample, &value)),
        }
    }
    faults
}

fn faults_of<T: Serialize + Debug>(sample: &Value, value: &T) -> Vec<String> {
    let mut faults = losses_of(sample, value);
    let shown = format!("{value:?}");
    for unknown in ["Other(", "Other {", "Unparsed {"] {
        let mut places = shown.match_indices(unknown).map(|(at, _)| at);
        let is_name = |at: &usize| !shown[..*at].ends_with(|c: char| c.is_alphanumeric());
        faults.extend(places.find(is_name).map(|at| format!("something is not known: {}", &shown[at..])));
    }
    faults
}

/// Finds the definition of a type by its name in Rust, which is upstream's.
fn definition_of<T>() -> Option<String> {
    let name = std::any::type_name::<T>().trim_start_matches("core::option::Option<").trim_end_matches('>');
    let name = name.rsplit("::").next()?;
    let places = [format!("v2/{name}"), name.to_owned()];
    places.into_iter().find(|place| SCHEMA.pointer(&format!("/definitions/{place}")).is_some())
}

#[derive(Default)]
struct Checked {
    calls: usize,
    faults: Vec<String>,
}

impl EachCall for Checked {
    fn visit<C: Call>(&mut self)
    where
        C::Params: DeserializeOwned + Debug,
        C::Answer: Serialize + Debug,
    {
        self.calls += 1;
        if let Some(definition) = definition_of::<C::Params>() {
            self.faults.extend(faults::<C::Params>(&definition));
        }
        let answer = definition_of::<C::Answer>().unwrap();
        self.faults.extend(faults::<C::Answer>(&answer));
    }
}

#[test]
fn the_types_of_every_call_take_what_the_schema_allows() {
    let mut checked = Checked::default();
    calls::each(&mut checked);
    assert_eq!(checked.calls, calls::ALL.len());
    assert!(checked.faults.is_empty(), "{}", checked.faults.join("\n"));
}

#[test]
fn every_notification_and_request_takes_what_the_schema_allows() {
    let table = json_of_repository("schema/methods.json");
    let mut faults = Vec::new();
    for group in ["serverNotifications", "serverRequests"] {
        for row in table[group].as_array().unwrap() {
            let (method, params) = (row["method"].as_str().unwrap(), row["params"].as_str().unwrap());
            for sample in samples(params) {
                let json = Json::of(&sample).unwrap();
                let message = json!({"method": method, "params": sample});
                faults.extend(match group {
                    "serverNotifications" => faults_of(&message, &Notification::read(method, Some(&json))),
                    _ => faults_of(&message, &WorkerRequest::read(method, Some(&json))),
                });
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}
