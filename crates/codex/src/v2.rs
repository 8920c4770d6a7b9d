//! The v2 dialect: a worker's notification or request to the event of a turn.
//!
//! What is not understood, because the method is newer than we are or its shape has changed, becomes
//! [`TurnEvent::Raw`]: a stream never fails for a surprise. A field that no event needs cannot harm one, whatever it
//! holds; and a turn that is said to be over is over, however little else is said.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use wire::Json;

use crate::event::{ConnectionEvent, Item, Placed, Told, TurnError, TurnEvent, TurnStatus, Usage, to_snake_case};
use crate::requests::RequestKind;
use crate::text::Text;

/// What v1's notifications begin with. Versions that speak both dialects say everything twice.
const V1_PREFIX: &str = "codex/event/";

/// What a notification tells; `None` for the v1 duplicates that some versions send besides.
#[must_use]
pub fn notification(method: &str, params: &Json) -> Option<Told> {
    if method.starts_with(V1_PREFIX) {
        return None;
    }
    if let Some(delta) = delta(method, params) {
        return Some(Told::Turn(delta.into()));
    }
    let raw = || ConnectionEvent::Raw { method: method.into(), params: params.clone() };
    let Ok(fields) = params.parse::<Fields<'_>>() else {
        return Some(Told::Connection(raw()));
    };
    let thread = fields.text("threadId");
    let turn = fields.text("turnId").or_else(|| fields.turn()?.text("id"));
    let event = turn_event(method, &fields).or_else(|| item_event(method, &fields));
    Some(match (thread, event) {
        (Some(thread), Some(event)) => Told::Turn(Placed { thread, turn, event }),
        (Some(thread), None) if turn.is_some() => {
            let event = TurnEvent::Raw { method: method.into(), params: params.clone() };
            Told::Turn(Placed { thread, turn, event })
        }
        _ => Told::Connection(connection_event(method, &fields, params).unwrap_or_else(raw)),
    })
}

/// A piece of a streamed text, and the turn that it belongs to.
#[derive(Debug)]
pub struct Delta<'a> {
    /// The thread.
    pub thread: Cow<'a, str>,
    /// The turn.
    pub turn: Cow<'a, str>,
    /// The piece.
    pub event: TurnEvent,
}

impl From<Delta<'_>> for Placed {
    fn from(delta: Delta<'_>) -> Self {
        Self { thread: delta.thread.into(), turn: Some(delta.turn.into()), event: delta.event }
    }
}

/// Pieces of text are nearly all that a worker says, so they are read in one pass, and what is only looked at is borrowed.
/// What does not fit goes the long way.
#[must_use]
pub fn delta<'a>(method: &str, params: &'a Json) -> Option<Delta<'a>> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Params<'a> {
        #[serde(borrow)]
        thread_id: Cow<'a, str>,
        #[serde(borrow)]
        turn_id: Cow<'a, str>,
        item_id: Box<str>,
        #[serde(borrow)]
        delta: &'a RawValue,
        content_index: Option<u32>,
        summary_index: Option<u32>,
    }
    if !(method.starts_with("item/") && (method.ends_with("/delta") || method.ends_with("Delta"))) {
        return None;
    }
    let Params { thread_id: thread, turn_id: turn, item_id: item, delta, content_index, summary_index } =
        params.parse().ok()?;
    let text = Text::from_raw(delta)?;
    let event = match method {
        "item/agentMessage/delta" => TurnEvent::Text { item, text },
        "item/commandExecution/outputDelta" => TurnEvent::CommandOutput { item, text },
        "item/fileChange/outputDelta" => TurnEvent::FileChangeOutput { item, text },
        "item/reasoning/textDelta" => TurnEvent::Reasoning { item, index: content_index?, text },
        "item/reasoning/summaryTextDelta" => TurnEvent::ReasoningSummary { item, index: summary_index?, text },
        _ => return None,
    };
    Some(Delta { thread, turn, event })
}

/// The event of a request that belongs to a turn.
#[must_use]
pub fn request(id: &str, method: &str, params: &Json) -> Option<Placed> {
    let fields: Fields<'_> = params.parse().ok()?;
    let (thread, turn) = (fields.text("threadId")?, fields.text("turnId"));
    let request = Box::from(id);
    let event = match RequestKind::of(method) {
        RequestKind::ToolCall => TurnEvent::ToolWanted {
            request,
            call: fields.text("callId")?,
            namespace: fields.text("namespace"),
            tool: fields.text("tool")?,
            arguments: fields.json("arguments")?,
        },
        kind => TurnEvent::ApprovalWanted { request, kind, item: fields.text("itemId"), params: params.clone() },
    };
    Some(Placed { thread, turn, event })
}

/// What is told of a turn as a whole.
fn turn_event(method: &str, fields: &Fields<'_>) -> Option<TurnEvent> {
    let event = match method {
        "turn/started" => TurnEvent::TurnStarted { thread: fields.text("threadId")?, turn: fields.turn()?.text("id")? },
        "turn/completed" => ended(&fields.turn()?),
        "turn/plan/updated" => TurnEvent::Plan { explanation: fields.text("explanation"), steps: fields.get("plan")? },
        "turn/diff/updated" => TurnEvent::Diff { diff: fields.text("diff")? },
        "thread/compacted" => TurnEvent::Compacted,
        "thread/tokenUsage/updated" => {
            let usage: Fields<'_> = fields.get("tokenUsage")?;
            TurnEvent::TokenUsage {
                last: usage.get::<Usage>("last")?,
                total: usage.get("total")?,
                context_window: usage.get("modelContextWindow"),
            }
        }
        "rawResponseItem/completed" => chosen(&fields.get("item")?)?,
        "rawResponse/completed" => TurnEvent::ModelAnswered { usage: fields.get("usage") },
        "warning" => TurnEvent::Warning { message: fields.text("message")? },
        "error" => {
            TurnEvent::Error { error: TurnError::recorded(&fields.get("error")?), will_retry: fields.get("willRetry")? }
        }
        "serverRequest/resolved" => TurnEvent::ApprovalResolved { request: fields.json("requestId")?.get().into() },
        _ => return None,
    };
    Some(event)
}

/// What is told of one item.
fn item_event(method: &str, fields: &Fields<'_>) -> Option<TurnEvent> {
    let item = || fields.text("itemId");
    let event = match method {
        "item/started" => TurnEvent::ItemStarted { item: whole_item(fields)? },
        "item/completed" => TurnEvent::ItemCompleted { item: whole_item(fields)? },
        "item/reasoning/summaryPartAdded" => {
            TurnEvent::ReasoningPart { item: item()?, index: fields.get("summaryIndex")? }
        }
        "item/commandExecution/terminalInteraction" => TurnEvent::TerminalInteraction {
            item: item()?,
            process: fields.text("processId")?,
            input: fields.text("stdin")?,
        },
        "item/mcpToolCall/progress" => TurnEvent::ToolProgress { item: item()?, message: fields.text("message")? },
        _ => return None,
    };
    Some(event)
}

/// What is told of the connection, of the account, or of a thread outside of its turns.
fn connection_event(method: &str, fields: &Fields<'_>, params: &Json) -> Option<ConnectionEvent> {
    let params = || params.clone();
    let event = match method {
        "thread/started" => {
            let thread: Fields<'_> = fields.get("thread")?;
            ConnectionEvent::ThreadStarted { thread: thread.text("id")?, params: params() }
        }
        "thread/status/changed" => {
            let status: Fields<'_> = fields.get("status")?;
            ConnectionEvent::ThreadStatus {
                thread: fields.text("threadId")?,
                status: to_snake_case(&status.text("type")?),
                flags: words(&status.get::<Vec<Box<str>>>("activeFlags").unwrap_or_default()),
            }
        }
        "account/updated" => ConnectionEvent::AccountUpdated { params: params() },
        "account/login/completed" => {
            ConnectionEvent::LoginCompleted { success: fields.get("success")?, error: fields.text("error") }
        }
        "account/rateLimits/updated" => ConnectionEvent::RateLimits { params: params() },
        "mcpServer/oauthLogin/completed" => ConnectionEvent::ToolServerLogin {
            name: fields.text("name")?,
            success: fields.get("success")?,
            error: fields.text("error"),
        },
        "warning" => ConnectionEvent::Warning { message: fields.text("message")? },
        "configWarning" | "deprecationNotice" => {
            let details = fields.text("details").map(|details| format!(": {details}")).unwrap_or_default();
            ConnectionEvent::Warning { message: format!("{}{details}", fields.text("summary")?).into() }
        }
        _ => return None,
    };
    Some(event)
}

/// Of the items of the model's own kind only the calls of tools tell something that no other event does.
fn chosen(item: &Fields<'_>) -> Option<TurnEvent> {
    let is_call = item.text("type")?.as_ref() == "function_call";
    is_call.then_some(())?;
    Some(TurnEvent::ToolChosen {
        call: item.text("call_id")?,
        tool: item.text("name")?,
        arguments: item.text("arguments")?,
    })
}

fn words(names: &[Box<str>]) -> Vec<Box<str>> {
    names.iter().map(|name| to_snake_case(name)).collect()
}

fn ended(turn: &Fields<'_>) -> TurnEvent {
    let status = match turn.text("status").as_deref() {
        Some("completed") => TurnStatus::Completed,
        Some("interrupted") => TurnStatus::Interrupted,
        // `failed`, and any way to end that is newer than we are.
        _ => TurnStatus::Failed,
    };
    let error = turn.get::<Value>("error").filter(|error| !error.is_null());
    TurnEvent::TurnEnded { status, error: error.as_ref().map(TurnError::recorded) }
}

impl TurnError {
    /// As a worker tells it, and has it on record. The class of an error is a word, or an object whose one key is the word and whose
    /// value may hold a status.
    #[must_use]
    pub fn recorded(error: &Value) -> Self {
        let class = &error["codexErrorInfo"];
        let (kind, detail) = match class {
            Value::String(kind) => (Some(kind), None),
            Value::Object(object) => object.iter().next().unzip(),
            _ => (None, None),
        };
        let status = detail.and_then(|detail| detail["httpStatusCode"].as_u64());
        Self {
            message: error["message"].as_str().map_or_else(|| error.to_string().into(), Box::from),
            kind: kind.map(|kind| to_snake_case(kind)),
            http_status: status.and_then(|status| status.try_into().ok()),
            details: error["additionalDetails"].as_str().map(Box::from),
        }
    }
}

fn whole_item(fields: &Fields<'_>) -> Option<Item> {
    let item: Fields<'_> = fields.get("item")?;
    Some(Item {
        id: item.text("id")?,
        kind: to_snake_case(&item.text("type")?),
        status: item.text("status").as_deref().map(to_snake_case),
        raw: fields.json("item")?,
    })
}

/// An object whose fields are typed one by one: a field that nobody asks for cannot be wrong.
#[derive(Deserialize)]
struct Fields<'a>(#[serde(borrow)] BTreeMap<Cow<'a, str>, &'a RawValue>);

impl<'a> Fields<'a> {
    fn get<T: Deserialize<'a>>(&self, name: &str) -> Option<T> {
        serde_json::from_str(self.0.get(name)?.get()).ok()
    }

    fn text(&self, name: &str) -> Option<Box<str>> {
        self.get(name)
    }

    fn json(&self, name: &str) -> Option<Json> {
        Json::new(self.0.get(name)?.get()).ok()
    }

    fn turn(&self) -> Option<Self> {
        self.get("turn")
    }
}
