//! The objects of the public Responses API, as its documentation describes them.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use jsonschema::Validator;
use serde_json::{Value, json};

/// Those that are sent as they are.
const ROOTS: &[&str] = &[
    "Response",
    "StreamEvent",
    "WebSocketServerEvent",
    "InputItemList",
    "Deleted",
    "Compaction",
    "Conversation",
    "ConversationDeleted",
];

/// By their names.
static SCHEMAS: LazyLock<BTreeMap<&'static str, Validator>> = LazyLock::new(|| {
    let schema: Value = serde_json::from_str(include_str!("../../schemas/responses.json")).unwrap();
    let validator = |name: &&'static str| {
        let root = json!({"$ref": format!("#/$defs/{name}"), "$defs": schema["$defs"]});
        (*name, jsonschema::validator_for(&root).unwrap())
    };
    ROOTS.iter().map(validator).collect()
});

/// Holds an object against its schema.
pub(crate) fn check_object(name: &str, object: &Value) {
    let errors: Vec<_> =
        SCHEMAS[name].iter_errors(object).map(|error| format!("{}: {error}", error.instance_path())).collect();
    assert!(errors.is_empty(), "no {name}: {errors:#?}\n{object:#}");
}
