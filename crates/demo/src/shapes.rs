//! Turns, usage, errors, settings and status, with every key the real worker writes, nulls included.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::items::Item;

/// A turn as it is shown and kept.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TurnShape {
    pub(crate) id: String,
    pub(crate) root_turn_id: String,
    pub(crate) items: Vec<Item>,
    pub(crate) items_view: ItemsView,
    pub(crate) status: TurnStatus,
    pub(crate) error: Option<TurnError>,
    pub(crate) started_at: Option<u64>,
    pub(crate) completed_at: Option<u64>,
    pub(crate) duration_ms: Option<u64>,
}

impl TurnShape {
    pub(crate) fn new(id: &str) -> Self {
        Self {
            id: id.to_owned(),
            root_turn_id: id.to_owned(),
            items: Vec::new(),
            items_view: ItemsView::NotLoaded,
            status: TurnStatus::InProgress,
            error: None,
            started_at: None,
            completed_at: None,
            duration_ms: None,
        }
    }
}

/// How many of a turn's items are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum ItemsView {
    NotLoaded,
    Summary,
    Full,
}

/// How far a turn has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum TurnStatus {
    InProgress,
    Completed,
    Interrupted,
    Failed,
}

/// Why a turn failed, or is being tried again.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TurnError {
    pub(crate) message: String,
    pub(crate) codex_error_info: Value,
    pub(crate) additional_details: Option<String>,
    pub(crate) misalignment: (),
}

/// What a thread is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub(crate) enum Status {
    NotLoaded,
    Idle,
    SystemError,
    Active { active_flags: &'static [&'static str] },
}

impl Status {
    pub(crate) const ACTIVE: Self = Self::Active { active_flags: &[] };
    pub(crate) const WAITING: Self = Self::Active { active_flags: &["waitingOnApproval"] };
}

/// Tokens, counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Tokens {
    pub(crate) total_tokens: u64,
    pub(crate) input_tokens: u64,
    pub(crate) cached_input_tokens: u64,
    pub(crate) cache_write_input_tokens: u64,
    pub(crate) output_tokens: u64,
    pub(crate) reasoning_output_tokens: u64,
}

impl Tokens {
    pub(crate) const NONE: Self = Self {
        total_tokens: 0,
        input_tokens: 0,
        cached_input_tokens: 0,
        cache_write_input_tokens: 0,
        output_tokens: 0,
        reasoning_output_tokens: 0,
    };

    pub(crate) const fn of(input: u64, output: u64, reasoning: u64) -> Self {
        Self {
            total_tokens: input + output,
            input_tokens: input,
            cached_input_tokens: 40,
            cache_write_input_tokens: 0,
            output_tokens: output,
            reasoning_output_tokens: reasoning,
        }
    }

    pub(crate) fn add(&mut self, other: Self) {
        self.total_tokens += other.total_tokens;
        self.input_tokens += other.input_tokens;
        self.cached_input_tokens += other.cached_input_tokens;
        self.cache_write_input_tokens += other.cache_write_input_tokens;
        self.output_tokens += other.output_tokens;
        self.reasoning_output_tokens += other.reasoning_output_tokens;
    }
}

/// The usage of a thread.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Usage {
    pub(crate) total: Tokens,
    pub(crate) last: Tokens,
    pub(crate) model_context_window: u64,
}

impl Default for Usage {
    fn default() -> Self {
        Self { total: Tokens::default(), last: Tokens::default(), model_context_window: CONTEXT_WINDOW_TOKENS }
    }
}

/// The window that every model of the demo worker has.
pub(crate) const CONTEXT_WINDOW_TOKENS: u64 = 258_400;

/// When the worker asks before it acts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum ApprovalPolicy {
    Untrusted,
    OnRequest,
    Granular(Value),
    Never,
}

/// What commands and patches may touch, as `thread/start` says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum SandboxMode {
    ReadOnly,
    WorkspaceWrite,
    DangerFullAccess,
}

impl SandboxMode {
    /// The same as turns and answers say it.
    pub(crate) fn policy(self) -> Value {
        match self {
            Self::ReadOnly => json!({"type": "readOnly", "networkAccess": false}),
            Self::WorkspaceWrite => json!({
                "type": "workspaceWrite", "writableRoots": [], "networkAccess": false,
                "excludeTmpdirEnvVar": false, "excludeSlashTmp": false,
            }),
            Self::DangerFullAccess => json!({"type": "dangerFullAccess"}),
        }
    }
}
