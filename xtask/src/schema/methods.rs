//! The method table: every method of the protocol in upstream's order, with the name of its params' definition
//! and what of it is experimental, that is, present only when the binary is asked for its experimental part.

use std::collections::BTreeSet;

use anyhow::{Context as _, Result};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// All methods, by who sends them and whether they are answered.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct MethodTable {
    pub(crate) client_requests: Vec<ClientRequest>,
    pub(crate) client_notifications: Vec<Method>,
    pub(crate) server_notifications: Vec<Method>,
    pub(crate) server_requests: Vec<Method>,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Method {
    pub(crate) method: String,
    /// Where the params are defined, below `#/definitions/`.
    pub(crate) params: Option<String>,
    pub(crate) experimental: bool,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ClientRequest {
    #[serde(flatten)]
    pub(crate) method: Method,
    /// Fields of the params that need the experimental API although the method does not.
    pub(crate) experimental_fields: Vec<String>,
}

impl MethodTable {
    /// The methods of one bundle, none of them marked as experimental.
    pub(crate) fn of(bundle: &Value) -> Result<Self> {
        let unmarked = |method| ClientRequest {
            method,
            experimental_fields: Vec::new(),
        };
        Ok(Self {
            client_requests: methods_in(bundle, "ClientRequest")?
                .into_iter()
                .map(unmarked)
                .collect(),
            client_notifications: methods_in(bundle, "ClientNotification")?,
            server_notifications: methods_in(bundle, "ServerNotification")?,
            server_requests: methods_in(bundle, "ServerRequest")?,
        })
    }

    /// The same methods with all marks that follow from comparing the whole bundle with its stable part.
    pub(super) fn marked_against(
        mut self,
        stable: &Self,
        whole_bundle: &Value,
        stable_bundle: &Value,
    ) -> Self {
        let stable_requests: BTreeSet<&str> = stable
            .client_requests
            .iter()
            .map(|request| request.method.method.as_str())
            .collect();
        for request in &mut self.client_requests {
            request.method.experimental = !stable_requests.contains(request.method.method.as_str());
            if let (false, Some(params)) = (request.method.experimental, &request.method.params) {
                let stable_fields = fields_of(stable_bundle, params);
                request.experimental_fields = fields_of(whole_bundle, params);
                request
                    .experimental_fields
                    .retain(|field| !stable_fields.contains(field));
            }
        }
        mark(&mut self.client_notifications, &stable.client_notifications);
        mark(&mut self.server_notifications, &stable.server_notifications);
        mark(&mut self.server_requests, &stable.server_requests);
        self
    }

    /// The table as JSON, one method a line.
    pub(super) fn to_text(&self) -> String {
        let groups = [
            ("clientRequests", lines_of(&self.client_requests)),
            ("clientNotifications", lines_of(&self.client_notifications)),
            ("serverNotifications", lines_of(&self.server_notifications)),
            ("serverRequests", lines_of(&self.server_requests)),
        ];
        let groups = groups.map(|(name, lines)| format!(" \"{name}\": [{}\n ]", lines.join(",")));
        format!("{{\n{}\n}}\n", groups.join(",\n"))
    }
}

fn lines_of<T: Serialize>(methods: &[T]) -> Vec<String> {
    methods
        .iter()
        .filter_map(|method| Some(format!("\n  {}", serde_json::to_string(method).ok()?)))
        .collect()
}

fn mark(methods: &mut [Method], stable: &[Method]) {
    for method in methods {
        method.experimental = !stable.iter().any(|other| other.method == method.method);
    }
}

fn methods_in(bundle: &Value, union: &str) -> Result<Vec<Method>> {
    let variants = bundle
        .pointer(&format!("/definitions/{union}/oneOf"))
        .and_then(Value::as_array);
    let variants = variants.with_context(|| format!("the bundle has no union {union}"))?;
    variants
        .iter()
        .map(|variant| {
            method_in(variant).with_context(|| format!("a variant of {union} has no method"))
        })
        .collect()
}

fn method_in(variant: &Value) -> Option<Method> {
    let method = variant
        .pointer("/properties/method/enum/0")?
        .as_str()?
        .to_owned();
    let params = variant
        .pointer("/properties/params")
        .and_then(definition_named_by);
    Some(Method {
        method,
        params,
        experimental: false,
    })
}

/// Params are a reference, or (where they may be left out) a choice of a reference and null, or null alone.
fn definition_named_by(params: &Value) -> Option<String> {
    if let Some(reference) = params.get("$ref") {
        return Some(
            reference
                .as_str()?
                .strip_prefix("#/definitions/")?
                .to_owned(),
        );
    }
    params
        .get("anyOf")?
        .as_array()?
        .iter()
        .find_map(definition_named_by)
}

fn fields_of(bundle: &Value, definition: &str) -> Vec<String> {
    let properties = bundle.pointer(&format!("/definitions/{definition}/properties"));
    let mut fields: Vec<String> = properties
        .and_then(Value::as_object)
        .into_iter()
        .flat_map(|map| map.keys().cloned())
        .collect();
    fields.sort_unstable();
    fields
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use serde_json::{Value, json};

    use super::MethodTable;

    fn bundle(requests: &Value, start_fields: &Value) -> Value {
        let initialized = json!({ "properties": { "method": { "enum": ["initialized"] } } });
        let definitions = json!({
            "ClientRequest": { "oneOf": requests },
            "ClientNotification": { "oneOf": [initialized] },
            "ServerNotification": { "oneOf": [] },
            "ServerRequest": { "oneOf": [] },
            "v2": { "StartParams": { "properties": start_fields }, "SpyParams": { "properties": { "on": {} } } },
        });
        json!({ "definitions": definitions })
    }

    fn request(method: &str, params: &Value) -> Value {
        json!({ "properties": { "method": { "enum": [method] }, "params": params } })
    }

    #[test]
    fn the_table_keeps_the_order_and_marks_what_only_the_experimental_bundle_has() {
        let start = request(
            "thread/start",
            &json!({ "$ref": "#/definitions/v2/StartParams" }),
        );
        let spy = request(
            "spy/start",
            &json!({ "anyOf": [{ "$ref": "#/definitions/v2/SpyParams" }, { "type": "null" }] }),
        );
        let logout = request("account/logout", &json!({ "type": "null" }));
        let whole = bundle(
            &json!([start, spy, logout]),
            &json!({ "cwd": {}, "tools": {}, "mode": {} }),
        );
        let stable = bundle(&json!([start, logout]), &json!({ "cwd": {} }));
        let table = MethodTable::of(&whole).unwrap().marked_against(
            &MethodTable::of(&stable).unwrap(),
            &whole,
            &stable,
        );
        expect![[r#"
            {
             "clientRequests": [
              {"method":"thread/start","params":"v2/StartParams","experimental":false,"experimentalFields":["mode","tools"]},
              {"method":"spy/start","params":"v2/SpyParams","experimental":true,"experimentalFields":[]},
              {"method":"account/logout","params":null,"experimental":false,"experimentalFields":[]}
             ],
             "clientNotifications": [
              {"method":"initialized","params":null,"experimental":false}
             ],
             "serverNotifications": [
             ],
             "serverRequests": [
             ]
            }
        "#]]
        .assert_eq(&table.to_text());
        let read_again: MethodTable = serde_json::from_str(&table.to_text()).unwrap();
        assert_eq!(read_again, table);
    }

    #[test]
    fn a_bundle_without_a_union_is_refused_by_its_name() {
        let error = MethodTable::of(&json!({ "definitions": {} })).unwrap_err();
        assert_eq!(error.to_string(), "the bundle has no union ClientRequest");
    }
}
