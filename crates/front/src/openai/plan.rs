//! What a worker is to do for a chat request: the thread that is made for it, the history that is put into it, the turn, and how
//! the conversation can go on where a thread stands at its end already.

use codex::{Input, Json, ThreadOptions, TurnOptions};
use serde_json::json;
use workers::{Afterwards, ToolResult};

use super::history::History;
use super::message::{Message, Part};
use super::models::Chosen;
use super::reading::Manner;
use super::request::{Form, Request};

/// What takes the place of `json_object`: a worker's output schema is strict, and no strict schema means "any object".
const ANSWER_WITH_AN_OBJECT: &str = "Answer with one JSON object and nothing else.";

/// What is to be done.
#[derive(Clone)]
pub(crate) struct TurnPlan {
    /// A new thread.
    pub thread: ThreadOptions,
    /// What a new thread holds before the turn.
    pub history: Vec<Json>,
    /// The turn.
    pub turn: TurnOptions,
    /// How to go on without a new thread.
    pub going_on: Option<GoingOn>,
    /// All that is said, for the answer to be added.
    pub said: History,
    /// What a thread must be made with for its next turn to be this one.
    pub made_of: String,
}

/// How a conversation goes on that a thread holds already.
#[derive(Clone, Debug)]
pub(crate) struct GoingOn {
    /// Where it stands.
    pub from: Whence,
    /// What is new before the turn's input.
    pub history: Vec<Json>,
    /// What the caller's tools gave: then the turn still runs, and waits for them.
    pub results: Vec<(Box<str>, ToolResult)>,
}

/// Where a conversation stands that is to go on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Whence {
    /// On the thread that holds a history of this hash.
    History(String),
    /// Right after this turn.
    Turn { thread: Box<str>, turn: Box<str> },
}

/// Right after which turn a conversation is to go on.
#[derive(Clone, Debug)]
pub(crate) struct After {
    pub thread: Box<str>,
    pub turn: Box<str>,
    /// What the thread was made with.
    pub made_of: Box<str>,
    /// How many of the request's messages, behind its own instructions, the thread holds already; it may hold more before them.
    pub told: usize,
    /// The hash of all that it holds, if that is known.
    pub history: Option<Box<str>>,
}

impl TurnPlan {
    pub(crate) fn new(request: &Request, chosen: &Chosen<'_>, key: &str) -> Self {
        let messages = &request.messages;
        let leading = match request.manner {
            Manner::Joined => messages.iter().take_while(|message| matches!(message, Message::Instruction(_))).count(),
            // Those of the conversation are part of it.
            Manner::Apart => usize::from(request.has_instructions),
        };
        let thread = thread(request, chosen, &messages[..leading]);
        let turn = turn(request, chosen);
        let made_of = made_of(&thread, &turn, request, chosen);
        let mut said = History::new(&[key, &chosen.profile.name, &made_of]);
        let answered = messages.iter().rposition(|message| matches!(message, Message::Assistant { .. }));
        let mut from = None;
        for (index, message) in messages.iter().enumerate() {
            said.add(message);
            if answered == Some(index) {
                from = Some(said.to_hash());
            }
        }
        let going_on = from
            .zip(answered)
            .and_then(|(from, answered)| GoingOn::new(Whence::History(from), &messages[answered + 1..], request));
        let made_of = json!([chosen.profile.name, thread.developer_instructions, made_of]).to_string();
        Self { history: items(&messages[leading..], request), thread, turn, going_on, said, made_of }
    }

    /// The same right after a turn, if its thread is made alike; else everything is told anew.
    pub(crate) fn after(self, request: &Request, after: After) -> Self {
        if *self.made_of != *after.made_of {
            return Self { going_on: None, ..self };
        }
        let fresh = &request.conversation()[after.told.min(request.conversation().len())..];
        let mut said = match after.history.as_deref().map(History::resume) {
            Some(Some(said)) => said,
            _ => return Self { going_on: GoingOn::new(after.whence(), fresh, request), ..self },
        };
        fresh.iter().for_each(|message| said.add(message));
        Self { going_on: GoingOn::new(after.whence(), fresh, request), said, ..self }
    }
}

impl After {
    fn whence(self) -> Whence {
        Whence::Turn { thread: self.thread, turn: self.turn }
    }
}

/// What a new thread is told where all this was said, in the place of the first messages of the request, which are `told` already.
pub(crate) fn retold(request: &Request, mut said: Vec<Message>, told: usize) -> Vec<Json> {
    said.extend_from_slice(&request.conversation()[told..]);
    items(&said, request)
}

impl GoingOn {
    fn new(from: Whence, fresh: &[Message], request: &Request) -> Option<Self> {
        let results = fresh.iter().map_while(result).collect::<Vec<_>>();
        // What a running turn can be told besides is what its user says.
        let rest = &fresh[results.len()..];
        let can_be_told = results.is_empty() || rest.iter().all(|message| matches!(message, Message::User(_)));
        can_be_told.then(|| Self { from, history: items(rest, request), results })
    }
}

/// What the thread holds before the turn: everything but the input.
fn items(messages: &[Message], request: &Request) -> Vec<Json> {
    let before = match messages {
        [before @ .., Message::User(_)] => before,
        all => all,
    };
    let mut items = Vec::new();
    before.iter().for_each(|message| message.write_items(&request.tools.names, &mut items));
    if request.form == Form::Json {
        Message::Instruction(ANSWER_WITH_AN_OBJECT.into()).write_items(&request.tools.names, &mut items);
    }
    items
}

fn thread(request: &Request, chosen: &Chosen<'_>, instructions: &[Message]) -> ThreadOptions {
    let own = chosen.profile.thread_options();
    let texts = instructions.iter().filter_map(|message| match message {
        Message::Instruction(text) => Some(text.as_str()),
        _ => None,
    });
    let told = texts.collect::<Vec<_>>().join("\n\n");
    let mut config = own.config;
    config.extend(request.verbosity.as_deref().map(|word| ("model_verbosity".to_owned(), json!(word))));
    ThreadOptions {
        model: chosen.model.map(str::to_owned).or(own.model),
        developer_instructions: Some(told).filter(|told| !told.is_empty()).or(own.developer_instructions),
        tools: request.tools.offered.clone(),
        raw_events: !request.tools.offered.is_empty(),
        // One that waits for a caller's tool must be found again after a restart.
        ephemeral: request.afterwards == Afterwards::Goes && request.tools.offered.is_empty(),
        config,
        ..own
    }
}

fn turn(request: &Request, chosen: &Chosen<'_>) -> TurnOptions {
    let input = match request.messages.last() {
        Some(Message::User(parts)) => parts.iter().map(Part::to_input).collect(),
        _ => Vec::new(),
    };
    let effort = request.effort.as_deref().or(chosen.effort).or(chosen.profile.effort.as_deref());
    TurnOptions {
        input,
        effort: effort.map(str::to_owned),
        summary: request.summary.as_deref().map(str::to_owned),
        service_tier: request.service_tier.as_deref().map(str::to_owned),
        output_schema: match &request.form {
            Form::Schema(schema) => Some(schema.clone()),
            Form::Text | Form::Json => None,
        },
        ..TurnOptions::default()
    }
}

fn result(message: &Message) -> Option<(Box<str>, ToolResult)> {
    let Message::Result { call, content } = message else { return None };
    let content = content.iter().map(Part::to_result).collect();
    Some((call.clone(), ToolResult { content, success: true }))
}

/// What cannot be changed once the thread is there, and what a thread keeps from one turn to the next.
fn made_of(thread: &ThreadOptions, turn: &TurnOptions, request: &Request, chosen: &Chosen<'_>) -> String {
    let tools = thread.tools.iter().map(|tool| json!([tool.name, tool.description, tool.input_schema]));
    let is_json = request.form == Form::Json;
    let kept = [&turn.effort, &turn.summary, &turn.service_tier];
    json!([
        chosen.model,
        thread.config,
        tools.collect::<Vec<_>>(),
        kept,
        is_json,
        request.afterwards == Afterwards::Stays
    ])
    .to_string()
}

/// What a running turn is told besides the results that it waits for.
pub(crate) fn said_besides(request: &[Message]) -> Vec<Input> {
    let from = request.iter().rposition(|message| matches!(message, Message::Result { .. })).map_or(0, |at| at + 1);
    let parts = request[from..].iter().filter_map(|message| match message {
        Message::User(parts) => Some(parts),
        _ => None,
    });
    parts.flatten().map(Part::to_input).collect()
}
