//! What a thread or a turn is asked to be, in words of our own, and how each dialect is told.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::abilities::{Abilities, Ability, Dialect, Unable};
use crate::dialect::Line;
use crate::exchange::{Beginning, Naming};

/// Where and how a thread works. The safe choices are said explicitly, whatever the worker's own configuration says.
#[derive(Clone, Debug, Default)]
pub struct ThreadOptions {
    /// Its directory; the worker's own if absent.
    pub cwd: Option<String>,
    /// Its model; the worker's own choice if absent.
    pub model: Option<String>,
    /// What its commands may touch.
    pub sandbox: Sandbox,
    /// When its commands need a decision.
    pub approval_policy: ApprovalPolicy,
    /// Replaces the worker's own instructions.
    pub base_instructions: Option<String>,
    /// Adds to them.
    pub developer_instructions: Option<String>,
    /// Whether nothing of it is kept: it cannot be resumed.
    pub ephemeral: bool,
    /// Tools of the caller; they are experimental, and declared once and for all.
    pub tools: Vec<Tool>,
    /// More of the worker's own settings, by their dotted names.
    pub config: BTreeMap<String, Value>,
}

/// What commands may touch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sandbox {
    /// They may read.
    #[default]
    ReadOnly,
    /// They may write below the thread's directory.
    WorkspaceWrite,
    /// Everything that the worker may.
    FullAccess,
}

/// When a command needs a decision.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ApprovalPolicy {
    /// Whenever it is not known to be harmless.
    Untrusted,
    /// When the agent asks for more than the sandbox allows.
    #[default]
    OnRequest,
    /// Never: what the sandbox forbids fails.
    Never,
}

/// A tool of the caller's that the agent may call.
#[derive(Clone, Debug)]
pub struct Tool {
    /// Its namespace; only newer workers have them.
    pub namespace: Option<String>,
    /// Its name.
    pub name: String,
    /// What it is for, to the model.
    pub description: String,
    /// The JSON Schema of its arguments.
    pub input_schema: Value,
}

/// What a turn is given.
#[derive(Clone, Debug, Default)]
pub struct TurnOptions {
    /// What the user says. An empty one goes on with what the thread holds.
    pub input: Vec<Input>,
    /// Another model from here on.
    pub model: Option<String>,
    /// How hard the model thinks: `minimal`, `low`, `medium`, `high`, …
    pub effort: Option<String>,
    /// How reasoning is summarised: `auto`, `concise`, `detailed`, `none`.
    pub summary: Option<String>,
    /// The JSON Schema that the answer must follow.
    pub output_schema: Option<Value>,
}

/// One part of what the user says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// Text.
    Text(String),
    /// An image as a data URL; the worker fetches no others.
    Image {
        /// The URL.
        url: String,
    },
    /// An image in a file that the worker can read.
    LocalImage {
        /// Its path.
        path: String,
    },
}

/// Whether a thread is resumed with all of its turns, which can be megabytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turns {
    /// They are listed page by page.
    LeftOut,
    /// The worker knows no other way.
    Whole,
}

impl From<&str> for TurnOptions {
    fn from(text: &str) -> Self {
        Self { input: vec![Input::Text(text.into())], ..Self::default() }
    }
}

impl From<String> for TurnOptions {
    fn from(text: String) -> Self {
        Self { input: vec![Input::Text(text)], ..Self::default() }
    }
}

impl ThreadOptions {
    /// A thread in that directory.
    #[must_use]
    pub fn in_directory(cwd: &str) -> Self {
        Self { cwd: Some(cwd.into()), ..Self::default() }
    }

    pub(super) fn start(&self, abilities: &Abilities) -> Result<Line, Unable> {
        let mut params = self.settings();
        if !self.tools.is_empty() {
            abilities.need(Ability::DynamicTools)?;
            if self.tools.iter().any(|tool| tool.namespace.is_some()) {
                abilities.need(Ability::ToolNamespaces)?;
            }
            params["dynamicTools"] = declared(&self.tools);
        }
        if self.ephemeral {
            params["ephemeral"] = json!(true);
        }
        let method = match abilities.dialect {
            Dialect::V1 => "newConversation",
            Dialect::V2 => "thread/start",
        };
        Ok(Line::new(method, &params))
    }

    pub(super) fn resume(&self, thread: &str, turns: Turns) -> Line {
        let mut params = self.settings();
        params["threadId"] = json!(thread);
        if turns == Turns::LeftOut {
            params["excludeTurns"] = json!(true);
        }
        Line::new("thread/resume", &params)
    }

    /// Of a conversation, the settings are given with each turn.
    pub(super) fn resume_conversation(thread: &str, path: Option<&str>) -> Line {
        Line::new(
            "resumeConversation",
            &match path {
                Some(path) => json!({"path": path}),
                None => json!({"conversationId": thread}),
            },
        )
    }

    fn settings(&self) -> Value {
        let mut params = json!({"sandbox": self.sandbox.word(), "approvalPolicy": self.approval_policy.word()});
        let optional = [
            ("cwd", &self.cwd),
            ("model", &self.model),
            ("baseInstructions", &self.base_instructions),
            ("developerInstructions", &self.developer_instructions),
        ];
        for (name, value) in optional {
            if let Some(value) = value {
                params[name] = json!(value);
            }
        }
        if !self.config.is_empty() {
            params["config"] = json!(self.config);
        }
        params
    }
}

impl TurnOptions {
    /// How this turn is begun. A conversation's turn repeats all that its thread is, since it cannot be left out there;
    /// `model` is what the worker has said of the thread.
    pub(super) fn beginning(
        &self,
        thread: &str,
        options: &ThreadOptions,
        model: Option<&str>,
        abilities: &Abilities,
    ) -> Result<Beginning, Unable> {
        match abilities.dialect {
            Dialect::V2 => Ok(self.turn(thread)),
            Dialect::V1 => self.user_turn(thread, options, model, abilities),
        }
    }

    fn turn(&self, thread: &str) -> Beginning {
        let input: Vec<Value> = self.input.iter().map(Input::v2).collect();
        let mut params = json!({"threadId": thread, "input": input});
        for (name, value) in [("model", &self.model), ("effort", &self.effort), ("summary", &self.summary)] {
            if let Some(value) = value {
                params[name] = json!(value);
            }
        }
        if let Some(schema) = &self.output_schema {
            params["outputSchema"] = schema.clone();
        }
        Beginning { naming: Naming::Answer, listen: None, start: Line::new("turn/start", &params) }
    }

    fn user_turn(
        &self,
        thread: &str,
        options: &ThreadOptions,
        model: Option<&str>,
        abilities: &Abilities,
    ) -> Result<Beginning, Unable> {
        if self.output_schema.is_some() {
            return Err(Unable { what: "output schemas".into(), version: abilities.version });
        }
        let items: Vec<Value> = self.input.iter().map(Input::v1).collect();
        let sandbox = options.sandbox.word();
        let params = json!({
            "conversationId": thread,
            "items": items,
            "cwd": options.cwd.as_deref().unwrap_or("."),
            "approvalPolicy": options.approval_policy.word(),
            // Named `mode` up to 0.58, and `type` from 0.60 on.
            "sandboxPolicy": {"mode": sandbox, "type": sandbox},
            "model": self.model.as_deref().or(options.model.as_deref()).or(model).unwrap_or_default(),
            "effort": self.effort,
            "summary": self.summary.as_deref().unwrap_or("auto"),
        });
        let listen = Line::new("addConversationListener", &json!({"conversationId": thread}));
        Ok(Beginning { naming: Naming::FirstEvent, listen: Some(listen), start: Line::new("sendUserTurn", &params) })
    }
}

impl Sandbox {
    fn word(self) -> &'static str {
        match self {
            Self::ReadOnly => "read-only",
            Self::WorkspaceWrite => "workspace-write",
            Self::FullAccess => "danger-full-access",
        }
    }
}

impl ApprovalPolicy {
    fn word(self) -> &'static str {
        match self {
            Self::Untrusted => "untrusted",
            Self::OnRequest => "on-request",
            Self::Never => "never",
        }
    }
}

impl Input {
    pub(super) fn v2(&self) -> Value {
        match self {
            Self::Text(text) => json!({"type": "text", "text": text}),
            Self::Image { url } => json!({"type": "image", "url": url}),
            Self::LocalImage { path } => json!({"type": "localImage", "path": path}),
        }
    }

    fn v1(&self) -> Value {
        match self {
            Self::Text(text) => json!({"type": "text", "data": {"text": text}}),
            Self::Image { url } => json!({"type": "image", "data": {"image_url": url}}),
            Self::LocalImage { path } => json!({"type": "localImage", "data": {"path": path}}),
        }
    }
}

/// Tools as every worker takes them that takes any; those of one namespace belong together.
fn declared(tools: &[Tool]) -> Value {
    let mut declared = Vec::new();
    let mut namespaces: BTreeMap<&str, Vec<Value>> = BTreeMap::new();
    for tool in tools {
        let function = json!({"name": tool.name, "description": tool.description, "inputSchema": tool.input_schema});
        match &tool.namespace {
            None => declared.push(function),
            Some(namespace) => {
                let mut function = function;
                function["type"] = json!("function");
                namespaces.entry(namespace).or_default().push(function);
            }
        }
    }
    declared.extend(
        namespaces
            .into_iter()
            .map(|(name, tools)| json!({"type": "namespace", "name": name, "description": "", "tools": tools})),
    );
    json!(declared)
}
