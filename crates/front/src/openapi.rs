//! The API's own description (OpenAPI 3.1), made of the list of routes and of the schemas beside this file.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use serde_json::{Map, Value, json};

use crate::Desk;
use crate::openai::parameters::TABLE;
use crate::openai::responses::parameters::TABLE as RESPONSES;
use crate::route::{Answer, Route};

const SCHEMAS: &str = include_str!("openapi/schemas.json");

pub(crate) async fn get(State(desk): State<Arc<Desk>>) -> Json<Value> {
    let routes: Vec<Route> = crate::routes().into_iter().filter(|route| route.is_there(&desk)).collect();
    Json(description(&routes))
}

fn description(routes: &[Route]) -> Value {
    let mut paths: BTreeMap<&str, Map<String, Value>> = BTreeMap::new();
    for route in routes {
        let method = route.method.as_str().to_ascii_lowercase();
        paths.entry(route.path).or_default().insert(method, operation(route));
    }
    let mut schemas: Value = serde_json::from_str(SCHEMAS).expect("the schemas beside this file are JSON");
    for (schema, table) in [("ChatRequest", TABLE), ("ResponseRequest", RESPONSES)] {
        for parameter in table {
            schemas[schema]["properties"][parameter.name]["description"] = parameter.note.into();
        }
    }
    json!({
        "openapi": "3.1.0",
        "info": { "title": "Switchboard operator API", "version": env!("CARGO_PKG_VERSION") },
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": { "key": { "type": "http", "scheme": "bearer" } },
        },
    })
}

fn operation(route: &Route) -> Value {
    let error = json!({
        "description": "Refused, or failed; `code` says why",
        "content": { "application/json": { "schema": reference("Error") } },
    });
    let (status, content) = match route.answers {
        Answer::Json(status, schema) => {
            (status.as_u16(), json!({ "application/json": { "schema": reference(schema) } }))
        }
        Answer::JsonOrEvents(schema) => {
            (200, json!({ "application/json": { "schema": reference(schema) }, "text/event-stream": {} }))
        }
        Answer::Events(schema) => (200, json!({ "text/event-stream": { "itemSchema": event(schema) } })),
        Answer::Text(kind) => (200, json!({ kind: { "schema": { "type": "string" } } })),
        Answer::Upgrade => (101, json!({})),
    };
    let mut operation = json!({
        "summary": route.summary,
        "parameters": parameters(route),
        "responses": { status.to_string(): { "description": "Done", "content": content }, "default": error },
    });
    let security: Vec<_> = route.needs.scopes().iter().map(|scope| json!({ "key": [scope.name()] })).collect();
    if !security.is_empty() {
        operation["security"] = security.into();
    }
    if let Some(schema) = route.takes {
        let content = json!({ "application/json": { "schema": reference(schema) } });
        operation["requestBody"] = json!({ "required": true, "content": content });
    }
    operation
}

fn parameters(route: &Route) -> Vec<Value> {
    let in_path = route
        .path
        .split('/')
        .filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'))
        .map(|name| json!({ "name": name, "in": "path", "required": true, "schema": { "type": "string" } }));
    let in_query = route.asks.iter().map(|parameter| {
        json!({
            "name": parameter.name, "in": "query", "description": parameter.summary, "schema": { "type": "string" },
        })
    });
    let in_header = matches!(route.answers, Answer::Events(_)).then(|| {
        json!({
            "name": "Last-Event-ID", "in": "header", "description": "the id of the last event that was read",
            "schema": { "type": "string" },
        })
    });
    in_path.chain(in_query).chain(in_header).collect()
}

/// An event whose data is JSON of this schema.
fn event(schema: &str) -> Value {
    let data = json!({ "type": "string", "contentMediaType": "application/json", "contentSchema": reference(schema) });
    json!({ "type": "object", "properties": { "data": data } })
}

fn reference(schema: &str) -> Value {
    json!({ "$ref": format!("#/components/schemas/{schema}") })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::Value;

    use super::description;

    fn references(value: &Value, found: &mut BTreeSet<String>) {
        match value {
            Value::Object(fields) => {
                found.extend(fields.get("$ref").and_then(Value::as_str).map(str::to_owned));
                fields.values().for_each(|field| references(field, found));
            }
            Value::Array(items) => items.iter().for_each(|item| references(item, found)),
            _ => {}
        }
    }

    #[test]
    fn every_schema_that_is_named_is_there_and_no_other() {
        let description = description(&crate::routes());
        let mut named = BTreeSet::new();
        references(&description, &mut named);
        let schemas = description["components"]["schemas"].as_object().unwrap();
        let there: BTreeSet<_> = schemas.keys().map(|name| format!("#/components/schemas/{name}")).collect();
        assert_eq!(named, there);
    }

    #[test]
    fn every_route_is_described_and_stands_in_the_documentation_and_no_other() {
        let page = include_str!("../../../docs/operator-api.md");
        let (description, routes) = (description(&crate::routes()), crate::routes());
        let described = description["paths"].as_object().unwrap();
        assert_eq!(described.values().map(|path| path.as_object().unwrap().len()).sum::<usize>(), routes.len());
        let listed = routes.iter().map(|route| format!("{} {}", route.method, route.path)).collect::<BTreeSet<_>>();
        assert_eq!(listed.len(), routes.len(), "a route stands twice");
        let cells = page.lines().filter_map(|line| line.strip_prefix("| `")?.split_once('`')).map(|(cell, _)| cell);
        let documented: BTreeSet<_> = cells.filter(|cell| cell.contains(" /")).map(str::to_owned).collect();
        assert_eq!(documented, listed, "docs/operator-api.md against the routes");
    }
}
