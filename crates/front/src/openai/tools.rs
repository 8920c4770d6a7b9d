//! The caller's tools: `tools` and `tool_choice`, and the older `functions` and `function_call`, to what a worker is told.

use std::collections::HashSet;

use codex::Tool;
use serde_json::{Value, json};
use workers::Profile;

use super::read::{Bad, Fields, each, wrong};

/// The longest name that every model API takes.
const NAME_CHARS_MAX: usize = 64;

/// How many tools one request may bring; model APIs take some hundred.
const TOOLS_MAX: usize = 1024;

/// What the caller's tools of such a name are called at the worker: this and their name.
const RENAMED: &str = "caller_";

/// Tools of the worker's own, which would be called in the place of the caller's of the same name: those of an agent, and those
/// that a plain model has too, or of which (the two for commands) it is offered nobody else's either.
const AGENTS_OWN: &[&str] = &[
    "apply_patch",
    "create_goal",
    "get_goal",
    "local_shell",
    "shell",
    "update_goal",
    "update_plan",
    "web_search",
    "write_stdin",
];
const EVERY_WORKERS_OWN: &[&str] = &["exec_command", "request_user_input", "shell_command", "view_image"];

/// The tools of a request, and how far the caller's choice among them can be followed.
#[derive(Debug, Default)]
pub(crate) struct Tools {
    /// Those that the model is offered.
    pub offered: Vec<Tool>,
    /// Whether the model should have been made to call one, which no worker can do.
    pub is_demanded: bool,
    /// Whether strict arguments were asked for, which the worker does not pass on.
    pub is_strict: bool,
    /// Whether they came as `functions`, and the answer is to be in that form.
    pub are_functions: bool,
    pub names: Names,
}

/// The names of the caller's tools that are others at the worker.
#[derive(Clone, Debug, Default)]
pub(crate) struct Names(Vec<(Box<str>, Box<str>)>);

impl Names {
    /// What the worker calls the caller's tool.
    pub(crate) fn at_the_worker<'a>(&'a self, name: &'a str) -> &'a str {
        self.0.iter().find(|(_, callers)| **callers == *name).map_or(name, |(workers, _)| workers)
    }

    /// What the caller calls the tool of the worker's call.
    pub(crate) fn at_the_caller<'a>(&'a self, name: &'a str) -> &'a str {
        self.0.iter().find(|(workers, _)| **workers == *name).map_or(name, |(_, callers)| callers)
    }
}

/// What the caller calls the tool of the worker's call, of those that it has declared.
pub(crate) fn declared_name(called: &str, is_declared: impl Fn(&str) -> bool) -> &str {
    let renamed = called.strip_prefix(RENAMED).map(|name| name.trim_end_matches('_'));
    renamed.filter(|name| !is_declared(called) && is_declared(name)).unwrap_or(called)
}

impl Tools {
    pub(crate) fn read(body: Fields<'_>) -> Result<Self, Bad> {
        let mut tools = match (body.list("tools")?, body.list("functions")?) {
            (Some(list), _) => Self::of(each(list, tool).map_err(|bad| bad.at("tools"))?, "tools")?,
            (None, Some(list)) => {
                let functions = each(list, |value| function(Fields::of(value)?)).map_err(|bad| bad.at("functions"))?;
                Self { are_functions: true, ..Self::of(functions, "functions")? }
            }
            (None, None) => Self::default(),
        };
        let name = if tools.are_functions { "function_call" } else { "tool_choice" };
        if let Some(choice) = body.read(name, ToolChoice::read)? {
            tools.choose(choice).map_err(|bad| bad.at(name))?;
        }
        Ok(tools)
    }

    /// Gives those another name at the worker that have the name of a tool of its own.
    pub(crate) fn rename(&mut self, profile: &Profile) {
        let own = if profile.is_plain { &[] } else { AGENTS_OWN };
        let is_own = |name: &str| EVERY_WORKERS_OWN.contains(&name) || own.contains(&name);
        for at in 0..self.offered.len() {
            let name = self.offered[at].name.clone();
            if is_own(&name) {
                let mut other = format!("{RENAMED}{name}");
                while self.offered.iter().any(|tool| tool.name == other) {
                    other.push('_');
                }
                self.names.0.push((other.as_str().into(), name.into()));
                self.offered[at].name = other;
            }
        }
    }

    fn of(declared: Vec<Declared>, name: &str) -> Result<Self, Bad> {
        if declared.len() > TOOLS_MAX {
            return Err(Bad::value(format!("must hold {TOOLS_MAX} at most, not {}", declared.len())).at(name));
        }
        let mut names = HashSet::new();
        for (index, (tool, _)) in declared.iter().enumerate() {
            if !names.insert(tool.name.as_str()) {
                return Err(Bad::value(format!("has the name {:?} a second time", tool.name)).nth(index).at(name));
            }
        }
        let is_strict = declared.iter().any(|(_, is_strict)| *is_strict);
        let offered = declared.into_iter().map(|(tool, _)| tool).collect();
        Ok(Self { offered, is_strict, ..Self::default() })
    }

    fn choose(&mut self, choice: ToolChoice) -> Result<(), Bad> {
        match choice {
            ToolChoice::Auto => {}
            ToolChoice::None => self.offered.clear(),
            ToolChoice::Required => self.is_demanded = true,
            ToolChoice::Among { names, is_demanded } => {
                let is_known = |name: &&String| self.offered.iter().any(|tool| tool.name == **name);
                if let Some(unknown) = names.iter().find(|name| !is_known(name)) {
                    return Err(Bad::value(format!("names {unknown:?}, which is none of the tools")));
                }
                self.offered.retain(|tool| names.contains(&tool.name));
                self.is_demanded = is_demanded;
            }
        }
        Ok(())
    }
}

/// A tool, and whether its arguments must follow the schema to the letter.
type Declared = (Tool, bool);

fn tool(value: &Value) -> Result<Declared, Bad> {
    let fields = Fields::of(value)?;
    match fields.text("type")?.unwrap_or("function") {
        "function" => match fields.object("function")? {
            Some(nested) => function(nested).map_err(|bad| bad.at("function")),
            None if fields.get("name").is_none() => Err(Bad::value("is missing").at("function")),
            // The flat form of the Responses API.
            None => function(fields),
        },
        other => Err(Bad::unsupported(format!("must be \"function\"; a worker offers no {other:?} tools")).at("type")),
    }
}

fn function(fields: Fields<'_>) -> Result<Declared, Bad> {
    let name = fields.need_text("name")?;
    check_name(name).map_err(|bad| bad.at("name"))?;
    let anything = || json!({"type": "object", "properties": {}});
    let schema = fields.read("parameters", |value| match value {
        Value::Object(_) => Ok(value.clone()),
        other => Err(wrong(other, "a JSON Schema (an object)")),
    })?;
    let tool = Tool {
        namespace: None,
        name: name.into(),
        description: fields.text("description")?.unwrap_or_default().into(),
        input_schema: schema.unwrap_or_else(anything),
    };
    Ok((tool, fields.flag("strict")?.unwrap_or(false)))
}

fn check_name(name: &str) -> Result<(), Bad> {
    let is_plain = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-');
    if name.is_empty() || name.len() > NAME_CHARS_MAX || !is_plain {
        return Err(Bad::value(format!("must be 1 to {NAME_CHARS_MAX} letters, digits, `_` or `-`")));
    }
    if name.starts_with("mcp__") {
        return Err(Bad::value("must not begin with `mcp__`, which is the worker's own"));
    }
    Ok(())
}

/// Which tools the model may or must call.
enum ToolChoice {
    Auto,
    None,
    Required,
    Among { names: Vec<String>, is_demanded: bool },
}

impl ToolChoice {
    fn read(value: &Value) -> Result<Self, Bad> {
        if let Value::String(word) = value {
            return Self::named(word);
        }
        let fields = Fields::of(value)?;
        if fields.text("type")? == Some("allowed_tools") {
            // One API has the list in an object of that name, the other at the top.
            let allowed = fields.object("allowed_tools")?.unwrap_or(fields);
            return Self::allowed(allowed).map_err(|bad| bad.at("allowed_tools"));
        }
        let function = fields.object("function")?.unwrap_or(fields);
        Ok(Self::Among { names: vec![function.need_text("name")?.into()], is_demanded: true })
    }

    fn named(word: &str) -> Result<Self, Bad> {
        match word {
            "auto" => Ok(Self::Auto),
            "none" => Ok(Self::None),
            "required" | "any" => Ok(Self::Required),
            other => {
                Err(Bad::value(format!("must be auto, none, required, or an object that names one, not {other:?}")))
            }
        }
    }

    fn allowed(fields: Fields<'_>) -> Result<Self, Bad> {
        let is_demanded = match fields.text("mode")?.unwrap_or("auto") {
            "auto" => false,
            "required" => true,
            other => return Err(Bad::value(format!("must be auto or required, not {other:?}")).at("mode")),
        };
        let name = |value| {
            let fields = Fields::of(value)?;
            Ok(fields.object("function")?.unwrap_or(fields).need_text("name")?.to_owned())
        };
        let names = each(fields.list("tools")?.unwrap_or_default(), name).map_err(|bad| bad.at("tools"))?;
        Ok(Self::Among { names, is_demanded })
    }
}
