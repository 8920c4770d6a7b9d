//! The dialect of old: conversations, listeners and `codex/event/*`, as the last versions that knew nothing else spoke it.

mod kept;
mod speech;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

pub(crate) use speech::{DeltaFrame, ask, decision, say, say_in};

use crate::items::{ImageReference, UserInput};
use crate::lines::Refusal;
use crate::record::{Settings, ThreadRecord};
use crate::shapes::{ApprovalPolicy, SandboxMode};
use crate::stage::{Call, Client};
use crate::thread::{Kept, Thread};
use crate::turn::{self, Input};
use crate::v2;
use crate::worker::Worker;

/// A line that workers of old are said to have sent unasked.
pub(crate) const READY_LINE: &[u8] = b"{\"event\":\"ready\"}\n";

/// The version whose shapes these are. It has no other dialect.
const VERSION: &str = "0.53.0";

/// Answers a call. An unknown method and wrong parameters get the same two words.
pub(crate) fn call(worker: &mut Worker, call: &Call, method: &str, params: Option<Value>) -> Result<(), Refusal> {
    let is_initialized =
        worker.stage.connections.get(&call.connection).is_some_and(|connection| connection.client.is_some());
    match method {
        "initialize" if is_initialized => Err(Refusal::invalid("Already initialized")),
        "initialize" => initialize(worker, call, &parse(params)?),
        "newConversation"
        | "addConversationListener"
        | "removeConversationListener"
        | "sendUserMessage"
        | "sendUserTurn"
        | "interruptConversation"
        | "resumeConversation"
        | "listConversations"
        | "archiveConversation"
            if !is_initialized =>
        {
            Err(Refusal::invalid("Not initialized"))
        }
        "newConversation" => {
            new_conversation(worker, call, parse(params)?);
            Ok(())
        }
        "addConversationListener" => add_listener(worker, call, &parse(params)?),
        "removeConversationListener" => remove_listener(worker, call, &parse(params)?),
        "sendUserMessage" => send_user_message(worker, call, parse(params)?),
        "sendUserTurn" => send_user_turn(worker, call, parse(params)?),
        "interruptConversation" => interrupt(worker, call, &parse(params)?),
        "resumeConversation" => kept::resume(worker, call, parse(params)?),
        "listConversations" => {
            kept::list(worker, call, &parse(params)?);
            Ok(())
        }
        "archiveConversation" => kept::archive(worker, call, &parse(params)?),
        _ => Err(Refusal::invalid("Invalid request")),
    }
}

fn parse<P: DeserializeOwned>(params: Option<Value>) -> Result<P, Refusal> {
    P::deserialize(params.unwrap_or_default()).map_err(|_| Refusal::invalid("Invalid request"))
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct InitializeParams {
    client_info: ClientInfo,
}

#[derive(Debug, Deserialize)]
struct ClientInfo {
    name: String,
    version: String,
}

fn initialize(worker: &mut Worker, call: &Call, params: &InitializeParams) -> Result<(), Refusal> {
    let stage = &mut worker.stage;
    let connection = stage.connections.entry(call.connection).or_default();
    connection.client = Some(Client { experimental: false, opted_out: Default::default() });
    let originator = stage.originator.get_or_insert_with(|| "codex_cli_rs".to_owned());
    let user_agent = v2::user_agent(originator, VERSION, &params.client_info.name, &params.client_info.version);
    stage.answer(call, &json!({"userAgent": user_agent}));
    Ok(())
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct NewConversationParams {
    model: Option<String>,
    cwd: Option<String>,
    approval_policy: Option<ApprovalPolicy>,
    sandbox: Option<SandboxMode>,
}

impl NewConversationParams {
    fn apply(self, settings: &mut Settings) {
        settings.model = self.model.unwrap_or_else(|| settings.model.clone());
        settings.cwd = self.cwd.map_or_else(|| settings.cwd.clone(), |cwd| v2::absolute(&cwd));
        settings.approval_policy = self.approval_policy.unwrap_or_else(|| settings.approval_policy.clone());
        settings.sandbox = self.sandbox.map_or_else(|| settings.sandbox.clone(), SandboxMode::policy);
    }
}

fn new_conversation(worker: &mut Worker, call: &Call, params: NewConversationParams) {
    let mut opened = open(worker, params);
    opened["reasoningEffort"] = Value::Null;
    worker.stage.answer(call, &opened);
}

/// Makes a conversation, and says what there is to say of it.
fn open(worker: &mut Worker, params: NewConversationParams) -> Value {
    let stage = &mut worker.stage;
    let mut settings = v2::default_settings(stage);
    params.apply(&mut settings);
    let record = ThreadRecord {
        id: stage.ids.uuid(),
        forked_from: None,
        created_ms: stage.now.unix_ms,
        originator: stage.originator.clone().unwrap_or_default(),
        tools: Vec::new(),
    };
    let opened = json!({
        "conversationId": record.id,
        "model": settings.model,
        "rolloutPath": stage.home.thread_path(&record),
    });
    worker.threads.insert(record.id.clone(), Thread::new(record, settings, Kept::NotYet));
    opened
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ConversationParams {
    conversation_id: String,
}

fn add_listener(worker: &mut Worker, call: &Call, params: &ConversationParams) -> Result<(), Refusal> {
    let (stage, thread) = conversation(worker, &params.conversation_id)?;
    thread.subscribe(call.connection);
    let subscription = stage.ids.uuid();
    stage.answer(call, &json!({"subscriptionId": subscription}));
    thread.listeners.push((subscription, call.connection));
    Ok(())
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct SubscriptionParams {
    subscription_id: String,
}

/// A connection hears a conversation as long as one of its listeners is left.
fn remove_listener(worker: &mut Worker, call: &Call, params: &SubscriptionParams) -> Result<(), Refusal> {
    let id = &params.subscription_id;
    let removed = worker.threads.values_mut().find_map(|thread| {
        let at = thread.listeners.iter().position(|(subscription, _)| subscription == id)?;
        let (_, owner) = thread.listeners.remove(at);
        Some((thread, owner))
    });
    let Some((thread, owner)) = removed else {
        return Err(Refusal::invalid(format!("subscription not found: {id}")));
    };
    if !thread.listeners.iter().any(|(_, connection)| *connection == owner) {
        thread.unsubscribe(owner, worker.stage.now);
    }
    worker.stage.answer(call, &json!({}));
    Ok(())
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct SendUserMessageParams {
    conversation_id: String,
    items: Vec<InputItem>,
    final_output_json_schema: Option<Value>,
}

fn send_user_message(worker: &mut Worker, call: &Call, params: SendUserMessageParams) -> Result<(), Refusal> {
    let (stage, _) = conversation(worker, &params.conversation_id)?;
    stage.answer(call, &json!({}));
    play(worker, &params.conversation_id, params.items, params.final_output_json_schema)
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct SendUserTurnParams {
    conversation_id: String,
    items: Vec<InputItem>,
    cwd: String,
    approval_policy: ApprovalPolicy,
    sandbox_policy: SandboxPolicy,
    model: String,
    effort: Option<String>,
    summary: String,
    final_output_json_schema: Option<Value>,
}

/// The policy of old names its mode `mode`; what else is said is not looked at.
#[derive(Debug, Deserialize)]
struct SandboxPolicy {
    mode: SandboxMode,
}

fn send_user_turn(worker: &mut Worker, call: &Call, params: SendUserTurnParams) -> Result<(), Refusal> {
    let (stage, thread) = conversation(worker, &params.conversation_id)?;
    thread.settings.cwd = v2::absolute(&params.cwd);
    thread.settings.approval_policy = params.approval_policy;
    thread.settings.sandbox = params.sandbox_policy.mode.policy();
    thread.settings.model = params.model;
    thread.settings.effort = params.effort;
    thread.settings.summary = Some(params.summary);
    stage.answer(call, &json!({}));
    play(worker, &params.conversation_id, params.items, params.final_output_json_schema)
}

fn play(worker: &mut Worker, id: &str, items: Vec<InputItem>, schema: Option<Value>) -> Result<(), Refusal> {
    let (stage, thread) = conversation(worker, id)?;
    let input = Input { content: items.into_iter().map(UserInput::from).collect(), client_id: None };
    if thread.turn.is_some() {
        turn::steer(thread, input, stage);
    } else {
        let turn_id = thread.turns_begun.to_string();
        turn::begin(thread, &turn_id, input, schema, stage);
    }
    Ok(())
}

/// What a person says, in the form of old.
#[derive(Debug, Deserialize)]
#[serde(tag = "type", content = "data", rename_all = "camelCase")]
enum InputItem {
    Text { text: String },
    Image { image_url: String },
    LocalImage { path: String },
}

impl From<InputItem> for UserInput {
    fn from(item: InputItem) -> Self {
        match item {
            InputItem::Text { text } => Self::Text { text, text_elements: Vec::new() },
            InputItem::Image { image_url } => {
                Self::Image { reference: ImageReference::Url { url: image_url }, detail: None }
            }
            InputItem::LocalImage { path } => Self::LocalImage { detail: None, path },
        }
    }
}

/// Answered when the turn is aborted; with no turn running, never, as the workers of old do.
fn interrupt(worker: &mut Worker, call: &Call, params: &ConversationParams) -> Result<(), Refusal> {
    let (stage, thread) = conversation(worker, &params.conversation_id)?;
    if thread.turn.is_some() {
        turn::interrupt(thread, call.clone(), stage);
    }
    Ok(())
}

fn conversation<'a>(
    worker: &'a mut Worker,
    id: &str,
) -> Result<(&'a mut crate::stage::Stage, &'a mut Thread), Refusal> {
    worker.loaded(id).map_err(|_| Refusal::invalid(format!("conversation not found: {id}")))
}
