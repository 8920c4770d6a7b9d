//! The method table: every method of the protocol in upstream's order, with the name of its params' definition
//! and what of it is experimental, that is, present only when the binary is asked for its experimental part.

use anyhow::{Context as _, Result};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::history::Kind;

/// All methods, by who sends them and whether they are answered.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct MethodTable {
    client_requests: Vec<Method>,
    client_notifications: Vec<Method>,
    server_notifications: Vec<Method>,
    server_requests: Vec<Method>,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Method {
    pub(crate) method: String,
    /// Where the params are defined, below `#/definitions/`.
    pub(crate) params: Option<String>,
    pub(crate) experimental: bool,
    /// Of a client's request: the fields of its params that need the experimental API although the method does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) experimental_fields: Option<Vec<String>>,
}

impl Method {
    /// The name of the params' definition.
    pub(crate) fn params_name(&self) -> Option<&str> {
        self.params.as_deref()?.rsplit('/').next()
    }
}

impl MethodTable {
    /// The methods of one bundle, none of them marked as experimental.
    pub(crate) fn of(bundle: &Value) -> Result<Self> {
        Ok(Self {
            client_requests: methods_in(bundle, "ClientRequest")?,
            client_notifications: methods_in(bundle, "ClientNotification")?,
            server_notifications: methods_in(bundle, "ServerNotification")?,
            server_requests: methods_in(bundle, "ServerRequest")?,
        })
    }

    /// The methods of the whole bundle, marked where its stable part lacks them.
    pub(super) fn compared(whole: &Value, stable: &Value) -> Result<Self> {
        let mut table = Self::of(whole)?;
        let stable_table = Self::of(stable)?;
        mark(&mut table.client_requests, &stable_table.client_requests);
        mark(&mut table.client_notifications, &stable_table.client_notifications);
        mark(&mut table.server_notifications, &stable_table.server_notifications);
        mark(&mut table.server_requests, &stable_table.server_requests);
        for request in &mut table.client_requests {
            request.experimental_fields = Some(match &request.params {
                Some(params) if !request.experimental => fields_added(params, whole, stable),
                _ => Vec::new(),
            });
        }
        Ok(table)
    }

    /// The four groups under their names in `methods.json`.
    pub(crate) fn groups(&self) -> [(&'static str, &[Method]); 4] {
        [
            ("clientRequests", &self.client_requests),
            ("clientNotifications", &self.client_notifications),
            ("serverNotifications", &self.server_notifications),
            ("serverRequests", &self.server_requests),
        ]
    }

    /// The four groups by the kind of their methods.
    pub(crate) fn by_kind(&self) -> [(Kind, &[Method]); 4] {
        [
            (Kind::Call, &self.client_requests),
            (Kind::ClientNotification, &self.client_notifications),
            (Kind::Notification, &self.server_notifications),
            (Kind::Request, &self.server_requests),
        ]
    }

    /// Whether there is such a method.
    pub(crate) fn has(&self, kind: Kind, method: &str) -> bool {
        self.by_kind().iter().any(|(group, methods)| *group == kind && methods.iter().any(|row| row.method == method))
    }

    /// The first request, with its field, whose experimental field the bundle does not have.
    pub(crate) fn unknown_field(&self, bundle: &Value) -> Option<(&str, &str)> {
        self.client_requests.iter().find_map(|request| {
            let known = request.params.as_ref().map_or_else(Vec::new, |params| fields_of(bundle, params));
            let fields = request.experimental_fields.iter().flatten();
            fields
                .map(String::as_str)
                .find(|field| !known.contains(field))
                .map(|field| (request.method.as_str(), field))
        })
    }

    /// The table as JSON, one method a line.
    pub(super) fn to_text(&self) -> String {
        let groups = self.groups().map(|(name, methods)| {
            let line = |method| format!("\n  {}", serde_json::to_string(method).expect("a method is JSON"));
            let lines: Vec<String> = methods.iter().map(line).collect();
            format!(" \"{name}\": [{}\n ]", lines.join(","))
        });
        format!("{{\n{}\n}}\n", groups.join(",\n"))
    }
}

fn mark(methods: &mut [Method], stable: &[Method]) {
    for method in methods {
        method.experimental = !stable.iter().any(|other| other.method == method.method);
    }
}

fn methods_in(bundle: &Value, union: &str) -> Result<Vec<Method>> {
    let variants = bundle.pointer(&format!("/definitions/{union}/oneOf")).and_then(Value::as_array);
    let variants = variants.with_context(|| format!("the bundle has no union {union}"))?;
    variants
        .iter()
        .map(|variant| method_in(variant).with_context(|| format!("a variant of {union} has no method")))
        .collect()
}

fn method_in(variant: &Value) -> Option<Method> {
    let method = variant.pointer("/properties/method/enum/0")?.as_str()?.to_owned();
    let params = variant.pointer("/properties/params").and_then(definition_named_by);
    Some(Method { method, params, experimental: false, experimental_fields: None })
}

/// Params are a reference, or (where they may be left out) a choice of a reference and null, or null alone.
fn definition_named_by(params: &Value) -> Option<String> {
    if let Some(reference) = params.get("$ref") {
        return Some(reference.as_str()?.strip_prefix("#/definitions/")?.to_owned());
    }
    params.get("anyOf")?.as_array()?.iter().find_map(definition_named_by)
}

fn fields_added(definition: &str, whole: &Value, stable: &Value) -> Vec<String> {
    let stable_fields = fields_of(stable, definition);
    let added = fields_of(whole, definition).into_iter().filter(|field| !stable_fields.contains(field));
    let mut added: Vec<String> = added.map(str::to_owned).collect();
    added.sort_unstable();
    added
}

fn fields_of<'a>(bundle: &'a Value, definition: &str) -> Vec<&'a str> {
    let properties = bundle.pointer(&format!("/definitions/{definition}/properties")).and_then(Value::as_object);
    properties.into_iter().flat_map(|properties| properties.keys().map(String::as_str)).collect()
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
        let start = request("thread/start", &json!({ "$ref": "#/definitions/v2/StartParams" }));
        let spy =
            request("spy/start", &json!({ "anyOf": [{ "$ref": "#/definitions/v2/SpyParams" }, { "type": "null" }] }));
        let logout = request("account/logout", &json!({ "type": "null" }));
        let whole = bundle(&json!([start, spy, logout]), &json!({ "cwd": {}, "tools": {}, "mode": {} }));
        let stable = bundle(&json!([start, logout]), &json!({ "cwd": {} }));
        let table = MethodTable::compared(&whole, &stable).unwrap();
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
