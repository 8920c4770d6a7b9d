//! What one tool server offers, read tolerantly: what cannot be used is put aside with its place and the reason, and the rest
//! is offered. Pure.

use std::sync::Arc;

use rmcp::model::{Prompt, Resource, ResourceTemplate, Tool};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::nesting::{LISTED_DEPTH_MAX, is_pruned};
use crate::settings::{Confirm, Server};
use crate::validation::{Judge, Uncompiled};

/// The lists of a server as it sent them: what is kept over a restart.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Lists {
    pub(crate) tools: Vec<Value>,
    pub(crate) resources: Vec<Value>,
    pub(crate) templates: Vec<Value>,
    pub(crate) prompts: Vec<Value>,
}

impl Lists {
    /// The list that this field of an answer holds.
    pub(crate) fn named(&mut self, field: &str) -> &mut Vec<Value> {
        match field {
            "tools" => &mut self.tools,
            "resources" => &mut self.resources,
            "resourceTemplates" => &mut self.templates,
            _ => &mut self.prompts,
        }
    }
}

/// The lists of a server as they can be used.
#[derive(Debug, Default)]
pub(crate) struct Catalog {
    pub(crate) tools: Vec<OwnTool>,
    pub(crate) resources: Vec<Resource>,
    pub(crate) templates: Vec<ResourceTemplate>,
    pub(crate) prompts: Vec<Prompt>,
    pub(crate) quarantined: Vec<Quarantined>,
}

/// A tool of a server, by the name that the server has for it.
#[derive(Clone, Debug)]
pub(crate) struct OwnTool {
    pub(crate) tool: Tool,
    /// Whether it waits for a decision before it is called.
    pub(crate) needs_confirmation: bool,
    /// Judges its arguments; `None` if its schema refers to what is elsewhere, which is never fetched, has no bounds, or has
    /// patterns that backtrack.
    pub(crate) judge: Option<Arc<Judge>>,
}

/// Something of a list that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Quarantined {
    /// Its name, as far as it has one.
    pub name: String,
    /// Where it is wrong, such as `$.tools[1].inputSchema`.
    pub path: String,
    /// What is wrong there.
    pub why: String,
}

impl Catalog {
    /// Reads the lists of a server.
    pub(crate) fn read(lists: &Lists, server: &Server) -> Self {
        let mut quarantined = Vec::new();
        let mut tools = Vec::new();
        for (index, listed) in lists.tools.iter().enumerate() {
            let name = listed["name"].as_str().unwrap_or_default();
            if !server.enabled.is_empty() && !server.enabled.iter().any(|enabled| enabled == name) {
                continue;
            }
            match read_tool(listed, server) {
                Ok(tool) => tools.push(tool),
                Err((place, why)) => {
                    let path = format!("$.tools[{index}]{place}");
                    quarantined.push(Quarantined { name: name.into(), path, why });
                }
            }
        }
        Self {
            tools,
            resources: read("resources", &lists.resources, &mut quarantined),
            templates: read("resourceTemplates", &lists.templates, &mut quarantined),
            prompts: read("prompts", &lists.prompts, &mut quarantined),
            quarantined,
        }
    }
}

fn read<T: DeserializeOwned>(list: &str, items: &[Value], quarantined: &mut Vec<Quarantined>) -> Vec<T> {
    let mut read = Vec::with_capacity(items.len());
    for (index, item) in items.iter().enumerate() {
        let usable = match is_pruned(item) {
            true => Err(too_deep()),
            false => T::deserialize(item).map_err(|error| error.to_string()),
        };
        match usable {
            Ok(item) => read.push(item),
            Err(why) => quarantined.push(Quarantined {
                name: item["name"].as_str().unwrap_or_default().into(),
                path: format!("$.{list}[{index}]"),
                why,
            }),
        }
    }
    read
}

fn too_deep() -> String {
    format!("it nests deeper than {LISTED_DEPTH_MAX} levels")
}

/// The tool, or where and why it cannot be used.
fn read_tool(listed: &Value, server: &Server) -> Result<OwnTool, (&'static str, String)> {
    let name = listed["name"].as_str().filter(|name| !name.is_empty());
    let name = name.ok_or((".name", "it has no name".into()))?;
    let schema = &listed["inputSchema"];
    if is_pruned(schema) {
        return Err((".inputSchema", too_deep()));
    }
    if is_pruned(listed) {
        return Err(("", too_deep()));
    }
    if schema.is_null() {
        return Err((".inputSchema", "it has no schema of its arguments".into()));
    }
    if !schema.is_object() {
        return Err((".inputSchema", "its schema is no object".into()));
    }
    if schema["type"] != "object" {
        return Err((".inputSchema.type", "its arguments must be an \"object\"".into()));
    }
    let judge = match Judge::of(schema) {
        Ok(judge) => Some(Arc::new(judge)),
        Err(Uncompiled::Unbounded | Uncompiled::Unresolved { .. } | Uncompiled::Backtracks { .. }) => None,
        Err(Uncompiled::Invalid { error }) => {
            return Err((".inputSchema", format!("it is no JSON Schema: {error}")));
        }
    };
    let needs_confirmation = match server.confirm {
        Confirm::Always => true,
        Confirm::Never => false,
        Confirm::Marked => is_marked(listed),
    } || server.confirm_tools.iter().any(|confirmed| confirmed == name);
    // What only some servers have and nobody needs, such as odd icons, is no reason to lose the tool.
    let tool = Tool::deserialize(listed).or_else(|error| {
        let mut bare = serde_json::json!({ "name": name, "inputSchema": schema });
        for field in ["title", "description"] {
            if listed[field].is_string() {
                bare[field] = listed[field].clone();
            }
        }
        Tool::deserialize(bare).map_err(|_| ("", error.to_string()))
    })?;
    Ok(OwnTool { tool, needs_confirmation, judge })
}

/// Whether the server itself says that somebody should be asked: by MCP's hint, or by a flag of LocalCowork's, which stands at
/// the top or under `metadata`.
fn is_marked(listed: &Value) -> bool {
    const FLAGS: [&str; 2] = ["confirmationRequired", "confirmation_required"];
    let is_flagged = |value: &Value| FLAGS.iter().any(|flag| value[flag] == true);
    listed["annotations"]["destructiveHint"] == true || is_flagged(listed) || is_flagged(&listed["metadata"])
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::settings::Reach;

    fn server() -> Server {
        Server::new("x", Reach::Http { url: "http://127.0.0.1/".into(), headers: Vec::new() })
    }

    fn catalog(tools: &Value, server: &Server) -> Catalog {
        let lists = Lists { tools: tools.as_array().unwrap().clone(), ..Lists::default() };
        Catalog::read(&lists, server)
    }

    #[test]
    fn a_bad_tool_is_put_aside_and_the_others_are_offered() {
        let catalog = catalog(
            &json!([
                { "name": "good", "inputSchema": { "type": "object" } },
                { "name": "bare" },
                { "name": "text", "inputSchema": "object" },
                { "name": "list", "inputSchema": { "type": "array" } },
                { "name": "broken", "inputSchema": { "type": "object", "properties": { "a": { "type": "strange" } } } },
                { "inputSchema": { "type": "object" } },
                { "name": "odd", "description": "d", "icons": "none", "inputSchema": { "type": "object" } },
            ]),
            &server(),
        );
        let names: Vec<_> = catalog.tools.iter().map(|tool| &*tool.tool.name).collect();
        assert_eq!(names, ["good", "odd"]);
        let paths: Vec<_> = catalog.quarantined.iter().map(|one| one.path.as_str()).collect();
        assert_eq!(
            paths,
            [
                "$.tools[1].inputSchema",
                "$.tools[2].inputSchema",
                "$.tools[3].inputSchema.type",
                "$.tools[4].inputSchema",
                "$.tools[5].name"
            ]
        );
    }

    #[test]
    fn a_schema_that_refers_elsewhere_is_not_fetched_and_judges_nothing() {
        let schema = json!({ "type": "object", "properties": { "a": { "$ref": "https://example.com/a.json" } } });
        let catalog = catalog(&json!([{ "name": "far", "inputSchema": schema }]), &server());
        assert!(catalog.tools[0].judge.is_none());
    }

    #[test]
    fn confirmation_is_wanted_by_mark_by_flag_or_by_rule() {
        let tools = json!([
            { "name": "a", "inputSchema": { "type": "object" }, "annotations": { "destructiveHint": true } },
            { "name": "b", "inputSchema": { "type": "object" }, "confirmationRequired": true },
            { "name": "c", "inputSchema": { "type": "object" }, "metadata": { "confirmation_required": true } },
            { "name": "d", "inputSchema": { "type": "object" } },
        ]);
        let wanted = |server: &Server| -> Vec<bool> {
            catalog(&tools, server).tools.iter().map(|tool| tool.needs_confirmation).collect()
        };
        assert_eq!(wanted(&server()), [true, true, true, false]);
        assert_eq!(wanted(&Server { confirm: Confirm::Always, ..server() }), [true; 4]);
        let never = Server { confirm: Confirm::Never, confirm_tools: vec!["d".into()], ..server() };
        assert_eq!(wanted(&never), [false, false, false, true]);
    }

    #[test]
    fn only_enabled_tools_are_offered() {
        let tools = json!([{ "name": "a", "inputSchema": { "type": "object" } }, { "name": "b", "inputSchema": { "type": "object" } }]);
        let catalog = catalog(&tools, &Server { enabled: vec!["b".into()], ..server() });
        assert_eq!(catalog.tools.len(), 1);
        assert_eq!(catalog.tools[0].tool.name, "b");
    }
}
