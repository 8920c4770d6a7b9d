//! What a thread or a turn is asked to be, in words of our own; [`v1`] and [`v2`] say it in the worker's.

pub(super) mod v1;
pub(super) mod v2;

use std::collections::BTreeMap;

use serde_json::{Value, json};
use wire::Json;

use super::permissions::PermissionProfile;
use crate::abilities::{Abilities, Ability, Unable};

/// Where and how a thread works. The safe choices are said explicitly, whatever the worker's own configuration says.
#[derive(Clone, Debug, Default)]
pub struct ThreadOptions {
    /// Its directory, absolute; the worker's own if absent. The worker does not check that it is there.
    pub cwd: Option<String>,
    /// Its model; the worker's own choice if absent.
    pub model: Option<String>,
    /// What its commands may touch, unless `permissions` says it.
    pub sandbox: Sandbox,
    /// What its commands may read and write, in place of `sandbox`. A worker that cannot enforce it is not asked, and a
    /// thread that it does not hold for is refused.
    pub permissions: Option<PermissionProfile>,
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
    /// Whether what the model itself says is told too, tools as it chooses them and the end of each of its answers. That is
    /// experimental: it is left out where it cannot be asked for.
    pub raw_events: bool,
    /// Whether it is a plain model, without the tools of an agent. The settings for that are the caller's to name; a worker
    /// that would pass over them is not asked.
    pub is_plain: bool,
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
    /// What the user says. With nothing the agent goes on with what the thread holds; older workers cannot.
    pub input: Vec<Input>,
    /// Another model from here on.
    pub model: Option<String>,
    /// How hard the model thinks: `minimal`, `low`, `medium`, `high`, …
    pub effort: Option<String>,
    /// How reasoning is summarised: `auto`, `concise`, `detailed`, `none`.
    pub summary: Option<String>,
    /// How fast the provider serves this turn: `priority`, `flex`, …; older workers pass over it.
    pub service_tier: Option<String>,
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

impl From<Input> for TurnOptions {
    fn from(input: Input) -> Self {
        Self { input: vec![input], ..Self::default() }
    }
}

impl ThreadOptions {
    /// A thread in that directory.
    #[must_use]
    pub fn in_directory(cwd: &str) -> Self {
        Self { cwd: Some(cwd.into()), ..Self::default() }
    }
}

/// What a worker must be able to do for a turn, whatever its dialect: it would pass over what it does not know.
fn need_for(turn: &TurnOptions, abilities: &Abilities) -> Result<(), Unable> {
    if turn.input.is_empty() {
        abilities.need(Ability::EmptyTurns)?;
    }
    if turn.output_schema.is_some() {
        abilities.need(Ability::OutputSchemas)?;
    }
    if turn.service_tier.is_some() {
        abilities.need(Ability::ServiceTiers)?;
    }
    Ok(())
}

/// The instructions as the first item of the history: a worker that is given a history adds them behind it, or not at all.
pub(super) fn with_instructions(mut history: Vec<Json>, mut options: ThreadOptions) -> (Vec<Json>, ThreadOptions) {
    if let Some(text) = options.developer_instructions.take() {
        let content = json!([{"type": "input_text", "text": text}]);
        let item = json!({"type": "message", "role": "developer", "content": content});
        history.insert(0, Json::from(&item));
    }
    (history, options)
}
