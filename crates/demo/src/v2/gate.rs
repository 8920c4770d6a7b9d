//! What may be called: the methods of the schema, and what of them needs the experimental API.

use std::sync::LazyLock;

use serde::Deserialize;
use serde_json::Value;

use crate::lines::Refusal;

/// Refuses a method that no worker of this version has, with the list of those it has.
pub(super) fn known(method: &str) -> Result<(), Refusal> {
    if find(method).is_some() {
        return Ok(());
    }
    let list = METHODS.iter().map(|known| format!("`{}`", known.method)).collect::<Vec<_>>().join(", ");
    Err(Refusal::invalid(format!("Invalid request: unknown variant `{method}`, expected one of {list}")))
}

/// Refuses an experimental method, or an experimental field of another, to a client that did not ask for them.
pub(super) fn stable(method: &str, params: &Value) -> Result<(), Refusal> {
    let refuse = |what: &str| Err(Refusal::invalid(format!("{what} requires experimentalApi capability")));
    let Some(known) = find(method) else {
        return Ok(());
    };
    if known.experimental {
        return refuse(method);
    }
    let is_given = |field: &&String| params.get(field.as_str()).is_some_and(|value| !value.is_null());
    match known.experimental_fields.iter().find(is_given) {
        Some(field) => refuse(&format!("{method}.{field}")),
        None => Ok(()),
    }
}

fn find(method: &str) -> Option<&'static Method> {
    METHODS.iter().find(|known| known.method == method)
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Method {
    method: String,
    experimental: bool,
    experimental_fields: Vec<String>,
}

static METHODS: LazyLock<Vec<Method>> = LazyLock::new(|| {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Table {
        client_requests: Vec<Method>,
    }
    let table: Table = serde_json::from_str(include_str!("../../../../schema/methods.json"))
        .expect("schema/methods.json lists methods");
    let mut methods = table.client_requests;
    let place = methods.iter().position(|known| known.method == "account/read").map_or(methods.len(), |at| at + 1);
    methods.splice(place..place, UNLISTED.map(Method::unlisted));
    methods
});

/// Methods that the binary knows and its schema leaves out.
const UNLISTED: [&str; 3] = ["getConversationSummary", "gitDiffToRemote", "getAuthStatus"];

impl Method {
    fn unlisted(name: &str) -> Self {
        Self { method: name.to_owned(), experimental: false, experimental_fields: Vec::new() }
    }
}
