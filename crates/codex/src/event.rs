//! What a turn reports, in our own closed vocabulary. `docs/events.md` fixes its JSON form.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use wire::Json;

use crate::requests::RequestKind;
use crate::text::Text;

/// One thing that happened in a turn.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum TurnEvent {
    /// The turn runs.
    TurnStarted {
        /// Its thread.
        thread: Box<str>,
        /// Its id.
        turn: Box<str>,
    },
    /// More of the agent's answer.
    Text {
        /// The message it belongs to.
        item: Box<str>,
        /// What to append.
        text: Text,
    },
    /// More of the model's raw reasoning.
    Reasoning {
        /// The reasoning item.
        item: Box<str>,
        /// Which part of it.
        index: u32,
        /// What to append.
        text: Text,
    },
    /// More of the reasoning's summary.
    ReasoningSummary {
        /// The reasoning item.
        item: Box<str>,
        /// Which part of it.
        index: u32,
        /// What to append.
        text: Text,
    },
    /// Another part of the summary begins.
    ReasoningPart {
        /// The reasoning item.
        item: Box<str>,
        /// Which part.
        index: u32,
    },
    /// The agent's plan, whole each time.
    Plan {
        /// Why it changed.
        explanation: Option<Box<str>>,
        /// Its steps.
        steps: Vec<PlanStep>,
    },
    /// All file changes of the turn so far, as one unified diff.
    Diff {
        /// The diff.
        diff: Box<str>,
    },
    /// A piece of work begins.
    ItemStarted {
        /// The item.
        item: Item,
    },
    /// A piece of work is over.
    ItemCompleted {
        /// The item.
        item: Item,
    },
    /// More output of a command.
    CommandOutput {
        /// The command's item.
        item: Box<str>,
        /// What to append.
        text: Text,
    },
    /// The agent typed into a running command.
    TerminalInteraction {
        /// The command's item.
        item: Box<str>,
        /// The process within the worker.
        process: Box<str>,
        /// What was typed.
        input: Box<str>,
    },
    /// More output of a file change.
    FileChangeOutput {
        /// The change's item.
        item: Box<str>,
        /// What to append.
        text: Text,
    },
    /// A tool server reports progress.
    ToolProgress {
        /// The tool call's item.
        item: Box<str>,
        /// What it says.
        message: Box<str>,
    },
    /// The thread's history was made shorter.
    Compacted,
    /// What the turn has used.
    TokenUsage {
        /// By the last answer of the model.
        last: Usage,
        /// By the whole thread.
        total: Usage,
        /// How much fits.
        context_window: Option<u64>,
    },
    /// Something is not as it should be; the turn goes on.
    Warning {
        /// What.
        message: Box<str>,
    },
    /// Something failed.
    Error {
        /// What.
        error: TurnError,
        /// Whether the worker tries again by itself.
        will_retry: bool,
    },
    /// The worker waits for a decision.
    ApprovalWanted {
        /// The request, as the worker numbers it.
        request: Box<str>,
        /// What is to be decided.
        kind: RequestKind,
        /// The item that waits, if it is one.
        item: Option<Box<str>>,
        /// The request as it came.
        params: Json,
    },
    /// The model wants a tool to be called, as it said it itself. Only threads with
    /// [`raw_events`](crate::ThreadOptions::raw_events) tell this, before [`ModelAnswered`](Self::ModelAnswered).
    ToolChosen {
        /// The model's id for the call.
        call: Box<str>,
        /// The tool.
        tool: Box<str>,
        /// Its arguments, in the model's own words, which may not be JSON.
        arguments: Box<str>,
    },
    /// The model's answer is complete: its tools are all chosen, and the worker has them done. Only threads with
    /// [`raw_events`](crate::ThreadOptions::raw_events) tell this.
    ModelAnswered {
        /// What the answer has used, where the provider says so.
        usage: Option<Usage>,
    },
    /// The worker waits for the result of one of the caller's tools.
    ToolWanted {
        /// The request, as the worker numbers it.
        request: Box<str>,
        /// The model's id for the call.
        call: Box<str>,
        /// The tool's namespace.
        namespace: Option<Box<str>>,
        /// The tool.
        tool: Box<str>,
        /// Its arguments.
        arguments: Json,
    },
    /// The worker waits no more for that request.
    ApprovalResolved {
        /// The request, as the worker numbers it.
        request: Box<str>,
    },
    /// The reader was so slow that events had to be left out here. The turn is interrupted for it.
    Cut {
        /// How many.
        events: u64,
        /// What they weighed.
        bytes: u64,
    },
    /// The turn is over. This comes once, and nothing comes after it.
    TurnEnded {
        /// How.
        status: TurnStatus,
        /// Why, if it failed.
        error: Option<TurnError>,
    },
    /// Something of this turn that has no event of its own, as it came.
    Raw {
        /// The worker's method.
        method: Box<str>,
        /// Its parameters.
        params: Json,
    },
}

/// One thing that happened on a connection and belongs to no turn.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ConnectionEvent {
    /// A thread was started or loaded, by whomever.
    ThreadStarted {
        /// The thread.
        thread: Box<str>,
        /// What was told of it.
        params: Json,
    },
    /// A thread is idle, active, waiting, in error.
    ThreadStatus {
        /// The thread.
        thread: Box<str>,
        /// `idle`, `active`, `not_loaded`, `system_error`, or a word that is newer than we are.
        status: Box<str>,
        /// What an active thread waits for: `waiting_on_approval`, `waiting_on_user_input`, …
        flags: Vec<Box<str>>,
    },
    /// The account changed.
    AccountUpdated {
        /// What was told of it.
        params: Json,
    },
    /// A login ended.
    LoginCompleted {
        /// Whether somebody is logged in now.
        success: bool,
        /// Why not.
        error: Option<Box<str>>,
    },
    /// How much of the account's allowance is used.
    RateLimits {
        /// What was told of it.
        params: Json,
    },
    /// The login to a tool server ended.
    ToolServerLogin {
        /// The tool server.
        name: Box<str>,
        /// Whether it succeeded.
        success: bool,
        /// Why not.
        error: Option<Box<str>>,
    },
    /// Something is not as it should be.
    Warning {
        /// What.
        message: Box<str>,
    },
    /// Something of a turn that nobody here has started or follows: one of another client, or an earlier one whose usage
    /// is told again.
    Turn {
        /// The thread.
        thread: Box<str>,
        /// The turn, where the worker names it.
        turn: Option<Box<str>>,
        /// What happened.
        event: TurnEvent,
    },
    /// A line of the worker that could not be used.
    PassedOver {
        /// What was wrong with it, and how it begins.
        report: Box<str>,
    },
    /// The reader was so slow that events had to be left out here.
    Cut {
        /// How many.
        events: u64,
        /// What they weighed.
        bytes: u64,
    },
    /// Something that has no event of its own, as it came.
    Raw {
        /// The worker's method.
        method: Box<str>,
        /// Its parameters.
        params: Json,
    },
}

/// What a notification tells, and of what.
#[derive(Clone, Debug)]
pub enum Told {
    /// Of a turn, or of the thread that it runs in.
    Turn(Placed),
    /// Of the connection.
    Connection(ConnectionEvent),
}

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

impl TurnEvent {
    /// The end of a turn whose worker is gone.
    #[must_use]
    pub fn lost(reason: &str) -> Self {
        Self::TurnEnded {
            status: TurnStatus::Lost,
            error: Some(TurnError { message: reason.into(), kind: None, http_status: None, details: None }),
        }
    }
}

/// One step of a plan.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct PlanStep {
    /// What is to be done.
    pub step: Box<str>,
    /// `pending`, `in_progress`, `completed`, or a word that is newer than we are.
    #[serde(deserialize_with = "snake_case")]
    pub status: Box<str>,
}

/// One piece of work of a turn: a message, a command, a file change, a tool call, …
#[derive(Clone, Debug, Serialize)]
pub struct Item {
    /// Its id.
    pub id: Box<str>,
    /// What it is, as the worker names it in snake case: `agent_message`, `command_execution`, …
    pub kind: Box<str>,
    /// How it stands, for the kinds that say: `in_progress`, `completed`, `failed`, `declined`, …
    pub status: Option<Box<str>>,
    /// All of it, as it came.
    pub raw: Json,
}

impl Item {
    /// The command that it runs, in either dialect; its words are put together where the worker tells them apart.
    #[must_use]
    pub fn command(&self) -> Option<String> {
        command_in(&self.raw)
    }

    /// What a message says, whichever shape its version has for it.
    #[must_use]
    pub fn text(&self) -> Option<String> {
        let raw: Value = self.raw.parse().ok()?;
        let whole = [&raw["text"], &raw["message"]].into_iter().find_map(Value::as_str);
        whole.map(str::to_owned).or_else(|| {
            let item = &raw["item"];
            let parts = item["AgentMessage"]["content"].as_array().or_else(|| item["content"].as_array())?;
            let texts = parts.iter().filter_map(|part| part["Text"]["text"].as_str().or_else(|| part["text"].as_str()));
            Some(texts.collect())
        })
    }
}

/// Tokens.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all(deserialize = "camelCase"), default)]
pub struct Usage {
    /// All of them.
    pub total_tokens: u64,
    /// Read by the model.
    pub input_tokens: u64,
    /// Of these, from the cache.
    pub cached_input_tokens: u64,
    /// Of these, written into the cache.
    pub cache_write_input_tokens: u64,
    /// Written by the model.
    pub output_tokens: u64,
    /// Of these, reasoning.
    pub reasoning_output_tokens: u64,
}

impl Usage {
    /// This and more.
    pub fn add(&mut self, more: &Self) {
        self.total_tokens += more.total_tokens;
        self.input_tokens += more.input_tokens;
        self.cached_input_tokens += more.cached_input_tokens;
        self.cache_write_input_tokens += more.cache_write_input_tokens;
        self.output_tokens += more.output_tokens;
        self.reasoning_output_tokens += more.reasoning_output_tokens;
    }
}

/// Why something failed.
#[derive(Clone, Debug, Serialize)]
pub struct TurnError {
    /// The worker's words.
    pub message: Box<str>,
    /// The worker's class of error in snake case: `context_window_exceeded`, `usage_limit_exceeded`, …
    pub kind: Option<Box<str>>,
    /// The status of the model provider, where one was given.
    pub http_status: Option<u16>,
    /// More words.
    pub details: Option<Box<str>>,
}

/// How a turn ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum TurnStatus {
    /// It came to its end.
    Completed,
    /// It was stopped.
    Interrupted,
    /// It could not go on.
    Failed,
    /// The worker or the link to it ended first.
    Lost,
}

/// The `command` of an item or a request: a text, or its words.
pub(crate) fn command_in(params: &Json) -> Option<String> {
    let params: Value = params.parse().ok()?;
    match &params["command"] {
        Value::String(command) => Some(command.clone()),
        Value::Array(words) => Some(words.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" ")),
        _ => None,
    }
}

/// camelCase, as upstream writes names, to snake_case, as we do.
pub(crate) fn to_snake_case(name: &str) -> Box<str> {
    let mut snake = String::with_capacity(name.len() + 4);
    for letter in name.chars() {
        if letter.is_ascii_uppercase() {
            snake.push('_');
        }
        snake.push(letter.to_ascii_lowercase());
    }
    snake.into()
}

fn snake_case<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Box<str>, D::Error> {
    Box::<str>::deserialize(deserializer).map(|name| to_snake_case(&name))
}
