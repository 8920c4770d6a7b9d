//! The names of the dialect's notifications, in every spelling: `codex/event/task_complete`, `codex/event/taskComplete`,
//! `task_complete`, `taskComplete`.

use crate::event::to_snake_case;

/// What a notification tells of a conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// The conversation is loaded.
    SessionConfigured,
    /// A turn runs.
    TaskStarted,
    /// A turn came to its end, or failed after an [`EventKind::Error`].
    TaskComplete,
    /// A turn was stopped.
    TurnAborted,
    /// What a person said, or what the worker added to it.
    UserMessage,
    /// An item begins, or is told whole.
    ItemStarted,
    /// An item is over.
    ItemCompleted,
    /// More of a message that is an item.
    AgentMessageContentDelta,
    /// More of a message.
    AgentMessageDelta,
    /// A whole message.
    AgentMessage,
    /// Another part of the reasoning's summary begins.
    AgentReasoningSectionBreak,
    /// More of the summary of reasoning that is an item.
    ReasoningContentDelta,
    /// More of the reasoning's summary.
    AgentReasoningDelta,
    /// A whole part of the reasoning's summary.
    AgentReasoning,
    /// More of the raw text of reasoning that is an item.
    ReasoningRawContentDelta,
    /// More of the reasoning's raw text.
    AgentReasoningRawContentDelta,
    /// A whole part of the reasoning's raw text.
    AgentReasoningRawContent,
    /// Between two parts of the raw text.
    AgentReasoningRawContentSectionBreak,
    /// A command is about to run.
    ExecCommandBegin,
    /// More output of a command, or of a patch.
    ExecCommandOutputDelta,
    /// A command is over.
    ExecCommandEnd,
    /// The agent typed into a running command.
    TerminalInteraction,
    /// A command waits for a decision; the request says the same.
    ExecApprovalRequest,
    /// A patch waits for a decision; the request says the same.
    ApplyPatchApprovalRequest,
    /// A patch is being applied.
    PatchApplyBegin,
    /// A patch was applied, or not.
    PatchApplyEnd,
    /// A tool server is called.
    McpToolCallBegin,
    /// A tool server has answered.
    McpToolCallEnd,
    /// A web search begins.
    WebSearchBegin,
    /// A web search is over.
    WebSearchEnd,
    /// The agent looked at an image.
    ViewImageToolCall,
    /// The agent's plan.
    PlanUpdate,
    /// All file changes of the turn.
    TurnDiff,
    /// What was used, and the account's limits.
    TokenCount,
    /// The model's stream broke and is tried again.
    StreamError,
    /// The turn cannot go on.
    Error,
    /// Something is not as it should be.
    Warning,
    /// Something that the worker does by the way.
    BackgroundEvent,
    /// Something will go away.
    DeprecationNotice,
    /// The conversation's history was made shorter.
    ContextCompacted,
    /// A tool server is being started, or all are.
    McpStartup,
    /// An event that has no name here.
    Other,
}

const PREFIX: &str = "codex/event/";

impl EventKind {
    /// What a notification with this method tells; `None` if it is not of this kind.
    #[must_use]
    pub fn of(method: &str) -> Option<Self> {
        let (name, has_prefix) = match method.strip_prefix(PREFIX) {
            Some(name) => (name, true),
            None => (method, false),
        };
        Self::named(&to_snake_case(name)).or_else(|| has_prefix.then_some(Self::Other))
    }

    fn named(name: &str) -> Option<Self> {
        let kind = match name {
            "session_configured" => Self::SessionConfigured,
            "task_started" | "turn_started" => Self::TaskStarted,
            "task_complete" | "turn_complete" => Self::TaskComplete,
            "turn_aborted" => Self::TurnAborted,
            "user_message" => Self::UserMessage,
            "item_started" => Self::ItemStarted,
            "item_completed" => Self::ItemCompleted,
            "agent_message_content_delta" => Self::AgentMessageContentDelta,
            "agent_message_delta" => Self::AgentMessageDelta,
            "agent_message" => Self::AgentMessage,
            "agent_reasoning_section_break" => Self::AgentReasoningSectionBreak,
            "reasoning_content_delta" => Self::ReasoningContentDelta,
            "agent_reasoning_delta" => Self::AgentReasoningDelta,
            "agent_reasoning" => Self::AgentReasoning,
            "reasoning_raw_content_delta" => Self::ReasoningRawContentDelta,
            "agent_reasoning_raw_content_delta" => Self::AgentReasoningRawContentDelta,
            "agent_reasoning_raw_content" => Self::AgentReasoningRawContent,
            "agent_reasoning_raw_content_section_break" => Self::AgentReasoningRawContentSectionBreak,
            "exec_command_begin" => Self::ExecCommandBegin,
            "exec_command_output_delta" => Self::ExecCommandOutputDelta,
            "exec_command_end" => Self::ExecCommandEnd,
            "terminal_interaction" => Self::TerminalInteraction,
            "exec_approval_request" => Self::ExecApprovalRequest,
            "apply_patch_approval_request" => Self::ApplyPatchApprovalRequest,
            "patch_apply_begin" => Self::PatchApplyBegin,
            "patch_apply_end" => Self::PatchApplyEnd,
            "mcp_tool_call_begin" => Self::McpToolCallBegin,
            "mcp_tool_call_end" => Self::McpToolCallEnd,
            "web_search_begin" => Self::WebSearchBegin,
            "web_search_end" => Self::WebSearchEnd,
            "view_image_tool_call" => Self::ViewImageToolCall,
            "plan_update" => Self::PlanUpdate,
            "turn_diff" => Self::TurnDiff,
            "token_count" => Self::TokenCount,
            "stream_error" => Self::StreamError,
            "error" => Self::Error,
            "warning" => Self::Warning,
            "background_event" => Self::BackgroundEvent,
            "deprecation_notice" => Self::DeprecationNotice,
            "context_compacted" => Self::ContextCompacted,
            "mcp_startup_update" | "mcp_startup_complete" => Self::McpStartup,
            _ => return None,
        };
        Some(kind)
    }
}
