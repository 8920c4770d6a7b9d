//! The client tools that a thread is started with: their rules, in the real worker's words.

use serde_json::Value;

use crate::lines::Refusal;
use crate::record::Tool;

/// Checks the declarations and takes the names. An entry without a type, the old form, is a function.
pub(super) fn declared(specs: &[Value]) -> Result<Vec<Tool>, Refusal> {
    let mut tools = Vec::new();
    for spec in specs {
        let name = text(spec, "name")?;
        text(spec, "description")?;
        if spec.get("type").and_then(Value::as_str) != Some("namespace") {
            add(&mut tools, None, spec)?;
            continue;
        }
        if RESERVED_NAMESPACES.contains(&name) {
            let problem = "dynamic tool namespace collides with a reserved Responses API namespace";
            return Err(Refusal::invalid(format!("{problem}: {name}")));
        }
        for spec in spec.get("tools").and_then(Value::as_array).into_iter().flatten() {
            add(&mut tools, Some(name), spec)?;
        }
    }
    Ok(tools)
}

const RESERVED_NAMESPACES: &[&str] = &[
    "api_tool",
    "browser",
    "computer",
    "container",
    "file_search",
    "functions",
    "image_gen",
    "multi_tool_use",
    "python",
    "web",
];

fn add(tools: &mut Vec<Tool>, namespace: Option<&str>, spec: &Value) -> Result<(), Refusal> {
    let name = text(spec, "name")?;
    let refuse = |problem: &str| Err(Refusal::invalid(format!("{problem}: {name}")));
    text(spec, "description")?;
    let tool = Tool { namespace: namespace.map(str::to_owned), name: name.to_owned() };
    if name.is_empty() {
        return Err(Refusal::invalid("dynamic tool name must not be empty"));
    }
    if !name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-')) {
        return refuse("dynamic tool name must match ^[a-zA-Z0-9_-]+$ to match Responses API");
    }
    if name == "mcp" || name.starts_with("mcp__") {
        return refuse("dynamic tool name is reserved");
    }
    if namespace.is_none() && spec.get("deferLoading") == Some(&Value::Bool(true)) {
        return refuse("deferred dynamic tool must include a namespace");
    }
    if tools.contains(&tool) {
        return refuse("duplicate dynamic tool name");
    }
    tools.push(tool);
    Ok(())
}

fn text<'a>(spec: &'a Value, key: &str) -> Result<&'a str, Refusal> {
    spec.get(key)
        .and_then(Value::as_str)
        .ok_or_else(|| Refusal::invalid(format!("Invalid request: missing field `{key}`")))
}
