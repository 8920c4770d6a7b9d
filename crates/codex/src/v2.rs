//! The v2 dialect: a worker's notification or request to the event of a turn.
//!
//! What is not understood, because the method is newer than we are or its shape has changed, becomes
//! [`TurnEvent::Raw`]: a stream never fails for a surprise.

use serde::Deserialize;
use serde_json::value::RawValue;
use wire::Json;

use crate::event::{
    Item, PlanStep, RequestKind, TurnError, TurnEvent, TurnStatus, Usage, to_snake_case,
};

/// An event and the turn that it belongs to.
#[derive(Clone, Debug)]
pub struct Placed {
    /// The thread.
    pub thread: Box<str>,
    /// The turn; some warnings name only the thread.
    pub turn: Option<Box<str>>,
    /// What happened.
    pub event: TurnEvent,
}

/// The event of a notification; `None` if it belongs to no thread, or says nothing about a turn.
#[must_use]
pub fn notification(method: &str, params: &Json) -> Option<Placed> {
    let scope: Scope = params.parse().ok()?;
    let thread = scope.thread_id?;
    let turn = scope.turn_id.or(scope.turn.map(|turn| turn.id));
    let known = serde_json::from_str(params.get()).ok();
    let event = match known.and_then(|params| known_event(method, params)) {
        Some(event) => event,
        None if turn.is_some() => TurnEvent::Raw {
            method: method.into(),
            params: params.clone(),
        },
        None => return None,
    };
    Some(Placed {
        thread,
        turn,
        event,
    })
}

/// The event of a request that belongs to a turn.
#[must_use]
pub fn request(id: &str, method: &str, params: &Json) -> Option<Placed> {
    let known = serde_json::from_str::<Params<'_>>(params.get()).ok()?;
    let (thread, turn) = (known.thread_id.clone()?, known.turn_id.clone());
    let request = Box::from(id);
    let event = match RequestKind::of(method) {
        RequestKind::ToolCall => TurnEvent::ToolWanted {
            request,
            call: known.call_id?,
            namespace: known.namespace,
            tool: known.tool?,
            arguments: json(known.arguments?)?,
        },
        kind => TurnEvent::ApprovalWanted {
            request,
            kind,
            item: known.item_id,
            params: params.clone(),
        },
    };
    Some(Placed {
        thread,
        turn,
        event,
    })
}

impl RequestKind {
    /// What a request with this method asks, in either dialect.
    #[must_use]
    pub fn of(method: &str) -> Self {
        match method {
            "item/commandExecution/requestApproval" | "execCommandApproval" => Self::Command,
            "item/fileChange/requestApproval" | "applyPatchApproval" => Self::FileChange,
            "item/permissions/requestApproval" => Self::Permissions,
            "item/tool/requestUserInput" => Self::UserInput,
            "mcpServer/elicitation/request" => Self::Elicitation,
            "item/tool/call" => Self::ToolCall,
            "account/chatgptAuthTokens/refresh" => Self::AuthTokens,
            "attestation/generate" => Self::Attestation,
            "currentTime/read" => Self::CurrentTime,
            _ => Self::Unknown,
        }
    }
}

fn known_event(method: &str, params: Params<'_>) -> Option<TurnEvent> {
    let event = match method {
        "turn/started" => TurnEvent::TurnStarted {
            thread: params.thread_id?,
            turn: params.turn?.id,
        },
        "turn/completed" => {
            let turn = params.turn?;
            TurnEvent::TurnEnded {
                status: turn.ended()?,
                error: turn.error.map(TurnError::from),
            }
        }
        "item/agentMessage/delta" => TurnEvent::Text {
            item: params.item_id?,
            text: params.delta?,
        },
        "item/reasoning/textDelta" => TurnEvent::Reasoning {
            item: params.item_id?,
            index: params.content_index?,
            text: params.delta?,
        },
        "item/reasoning/summaryTextDelta" => TurnEvent::ReasoningSummary {
            item: params.item_id?,
            index: params.summary_index?,
            text: params.delta?,
        },
        "item/reasoning/summaryPartAdded" => TurnEvent::ReasoningPart {
            item: params.item_id?,
            index: params.summary_index?,
        },
        "turn/plan/updated" => TurnEvent::Plan {
            explanation: params.explanation,
            steps: params.plan?,
        },
        "turn/diff/updated" => TurnEvent::Diff { diff: params.diff? },
        "item/started" => TurnEvent::ItemStarted {
            item: item(params.item?)?,
        },
        "item/completed" => TurnEvent::ItemCompleted {
            item: item(params.item?)?,
        },
        "item/commandExecution/outputDelta" => TurnEvent::CommandOutput {
            item: params.item_id?,
            text: params.delta?,
        },
        "item/commandExecution/terminalInteraction" => TurnEvent::TerminalInteraction {
            item: params.item_id?,
            process: params.process_id?,
            input: params.stdin?,
        },
        "item/fileChange/outputDelta" => TurnEvent::FileChangeOutput {
            item: params.item_id?,
            text: params.delta?,
        },
        "item/mcpToolCall/progress" => TurnEvent::ToolProgress {
            item: params.item_id?,
            message: params.message?,
        },
        "thread/compacted" => TurnEvent::Compacted,
        "thread/tokenUsage/updated" => {
            let usage = params.token_usage?;
            TurnEvent::TokenUsage {
                last: usage.last,
                total: usage.total,
                context_window: usage.model_context_window,
            }
        }
        "warning" => TurnEvent::Warning {
            message: params.message?,
        },
        "error" => TurnEvent::Error {
            error: params.error?.into(),
            will_retry: params.will_retry?,
        },
        "serverRequest/resolved" => TurnEvent::ApprovalResolved {
            request: params.request_id?.get().into(),
        },
        _ => return None,
    };
    Some(event)
}

/// Where a message belongs, whatever else it says.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Scope {
    thread_id: Option<Box<str>>,
    turn_id: Option<Box<str>>,
    turn: Option<TurnId>,
}

#[derive(Deserialize)]
struct TurnId {
    id: Box<str>,
}

/// Every parameter that some known notification has. One that is missing or of another type makes the event raw.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Params<'a> {
    thread_id: Option<Box<str>>,
    turn_id: Option<Box<str>>,
    item_id: Option<Box<str>>,
    delta: Option<Box<str>>,
    content_index: Option<u32>,
    summary_index: Option<u32>,
    explanation: Option<Box<str>>,
    plan: Option<Vec<PlanStep>>,
    diff: Option<Box<str>>,
    process_id: Option<Box<str>>,
    stdin: Option<Box<str>>,
    message: Option<Box<str>>,
    token_usage: Option<TokenUsage>,
    error: Option<ErrorParams>,
    will_retry: Option<bool>,
    call_id: Option<Box<str>>,
    namespace: Option<Box<str>>,
    tool: Option<Box<str>>,
    #[serde(borrow)]
    arguments: Option<&'a RawValue>,
    #[serde(borrow)]
    request_id: Option<&'a RawValue>,
    #[serde(borrow)]
    item: Option<&'a RawValue>,
    turn: Option<TurnParams>,
}

#[derive(Deserialize)]
struct TurnParams {
    id: Box<str>,
    status: Option<Box<str>>,
    error: Option<ErrorParams>,
}

impl TurnParams {
    fn ended(&self) -> Option<TurnStatus> {
        match self.status.as_deref()? {
            "completed" => Some(TurnStatus::Completed),
            "interrupted" => Some(TurnStatus::Interrupted),
            "inProgress" => None,
            // `failed`, and any way to end that is newer than we are.
            _ => Some(TurnStatus::Failed),
        }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct TokenUsage {
    last: Usage,
    total: Usage,
    model_context_window: Option<u64>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ErrorParams {
    message: Box<str>,
    codex_error_info: Option<serde_json::Value>,
    additional_details: Option<Box<str>>,
}

impl From<ErrorParams> for TurnError {
    /// The class is a word, or an object whose one key is the word and whose value may hold a status.
    fn from(params: ErrorParams) -> Self {
        let class = params.codex_error_info;
        let (kind, detail) = match &class {
            Some(serde_json::Value::String(kind)) => (Some(kind), None),
            Some(serde_json::Value::Object(object)) => object.iter().next().unzip(),
            _ => (None, None),
        };
        let http_status = detail
            .and_then(|detail| detail.get("httpStatusCode")?.as_u64())
            .and_then(|status| status.try_into().ok());
        Self {
            message: params.message,
            kind: kind.map(|kind| to_snake_case(kind)),
            http_status,
            details: params.additional_details,
        }
    }
}

fn item(raw: &RawValue) -> Option<Item> {
    #[derive(Deserialize)]
    struct Known {
        id: Box<str>,
        r#type: Box<str>,
        status: Option<serde_json::Value>,
    }
    let known: Known = serde_json::from_str(raw.get()).ok()?;
    Some(Item {
        id: known.id,
        kind: to_snake_case(&known.r#type),
        status: known
            .status
            .as_ref()
            .and_then(|status| status.as_str())
            .map(to_snake_case),
        raw: json(raw)?,
    })
}

fn json(raw: &RawValue) -> Option<Json> {
    Json::new(raw.get()).ok()
}
