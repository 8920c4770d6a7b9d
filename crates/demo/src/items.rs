//! The items of a turn, with every key the real worker writes, nulls included. They are sent, and kept in thread files.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// One item and when it happened.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Item {
    #[serde(flatten)]
    pub(crate) body: Body,
    pub(crate) started_at_ms: u64,
    pub(crate) completed_at_ms: Option<u64>,
}

impl Item {
    pub(crate) fn started(body: Body, unix_ms: u64) -> Self {
        Self { body, started_at_ms: unix_ms, completed_at_ms: None }
    }

    pub(crate) fn id(&self) -> &str {
        match &self.body {
            Body::UserMessage { id, .. }
            | Body::AgentMessage { id, .. }
            | Body::Plan { id, .. }
            | Body::Reasoning { id, .. }
            | Body::CommandExecution(Command { id, .. })
            | Body::FileChange { id, .. }
            | Body::DynamicToolCall(ToolCall { id, .. })
            | Body::ContextCompaction { id } => id,
        }
    }
}

/// What an item is.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub(crate) enum Body {
    UserMessage { id: String, client_id: Option<String>, content: Vec<UserInput> },
    AgentMessage { id: String, text: String, phase: Option<Phase>, memory_citation: (), delivery: (), questions: () },
    Plan { id: String, text: String },
    Reasoning { id: String, summary: Vec<String>, content: Vec<String> },
    CommandExecution(Command),
    FileChange { id: String, changes: Vec<FileChange>, status: ItemStatus },
    DynamicToolCall(ToolCall),
    ContextCompaction { id: String },
}

impl Body {
    pub(crate) fn message(id: String, text: String) -> Self {
        Self::AgentMessage { id, text, phase: None, memory_citation: (), delivery: (), questions: () }
    }

    /// A message that is said to be beside the point, or the point.
    pub(crate) fn message_in(phase: Phase, id: String) -> Self {
        let (text, phase) = (String::new(), Some(phase));
        Self::AgentMessage { id, text, phase, memory_citation: (), delivery: (), questions: () }
    }
}

/// What a message is in its turn, where the model says so.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Phase {
    Commentary,
    FinalAnswer,
}

/// How far a command, a patch or a tool call has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum ItemStatus {
    InProgress,
    Completed,
    Failed,
    Declined,
}

/// A command that the worker says it runs.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Command {
    pub(crate) id: String,
    pub(crate) plugin_id: (),
    pub(crate) script_path: (),
    pub(crate) command: String,
    pub(crate) cwd: String,
    pub(crate) process_id: Option<String>,
    pub(crate) source: CommandSource,
    pub(crate) status: ItemStatus,
    pub(crate) command_actions: [CommandAction; 1],
    pub(crate) aggregated_output: Option<String>,
    pub(crate) exit_code: Option<i32>,
    pub(crate) duration_ms: Option<u64>,
}

impl Command {
    /// The command as the model asked for it.
    pub(crate) fn asked(&self) -> &str {
        let [CommandAction::Unknown { command }] = &self.command_actions;
        command
    }
}

/// Who started a command: the agent as long as nobody has allowed it, then the shell that runs it.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum CommandSource {
    Agent,
    UnifiedExecStartup,
}

/// What a command does, as far as it was understood; the demo worker understands none.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "camelCase")]
pub(crate) enum CommandAction {
    Unknown { command: String },
}

/// One file of a patch.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct FileChange {
    pub(crate) path: String,
    pub(crate) kind: ChangeKind,
    pub(crate) diff: String,
}

/// What happens to the file.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "camelCase")]
pub(crate) enum ChangeKind {
    Add,
}

/// A call of a client's tool.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ToolCall {
    pub(crate) id: String,
    pub(crate) namespace: Option<String>,
    pub(crate) tool: String,
    pub(crate) arguments: Value,
    pub(crate) status: ItemStatus,
    pub(crate) content_items: Option<Vec<Value>>,
    pub(crate) success: Option<bool>,
    pub(crate) duration_ms: Option<u64>,
}

/// One piece of what a person says.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub(crate) enum UserInput {
    Text {
        text: String,
        #[serde(default, rename = "text_elements")]
        text_elements: Vec<Value>,
    },
    Image {
        #[serde(flatten)]
        reference: ImageReference,
        #[serde(default)]
        detail: Option<String>,
    },
    LocalImage {
        #[serde(default)]
        detail: Option<String>,
        path: String,
    },
    Audio {
        url: String,
    },
    LocalAudio {
        path: String,
    },
    Skill {
        name: String,
        path: String,
    },
    Mention {
        name: String,
        path: String,
    },
}

/// Where an image is. The name shows in the error for one that is nowhere.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(untagged)]
pub(crate) enum ImageReference {
    Url {
        url: String,
    },
    File {
        #[serde(rename = "fileId")]
        file_id: String,
    },
}

impl UserInput {
    pub(crate) fn is_image(&self) -> bool {
        matches!(self, Self::Image { .. } | Self::LocalImage { .. })
    }
}

/// The text of an input, its pieces joined.
pub(crate) fn text_of(input: &[UserInput]) -> String {
    input
        .iter()
        .filter_map(|piece| match piece {
            UserInput::Text { text, .. } => Some(text.as_str()),
            _ => None,
        })
        .collect()
}
