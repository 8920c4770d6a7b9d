//! The calls of the dialect, with what goes with them and what comes back.
//!
//! A conversation is begun or resumed, then listened to, then a turn is sent as either [`SendUserTurn`] or
//! [`SendUserMessage`], never both. Without a listener nothing moves: no event, no request, no answer to an interrupt.

use serde::ser::SerializeMap;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::Value;
use serde_json::value::RawValue;
use wire::Json;

use super::input::InputItem;
use super::policy::{ApprovalPolicy, Effort, SandboxMode, SandboxPolicy, Summary};
use crate::protocol::Call;

macro_rules! calls {
    ($($(#[$about:meta])* $name:ident = $method:literal, $params:ty => $answer:ty;)*) => {$(
        $(#[$about])*
        #[derive(Clone, Copy, Debug)]
        pub enum $name {}

        impl Call for $name {
            const METHOD: &'static str = $method;
            const EXPERIMENTAL: bool = false;
            const EXPERIMENTAL_FIELDS: &'static [&'static str] = &[];
            type Params = $params;
            type Answer = $answer;
        }
    )*};
}

calls! {
    /// Begins a conversation.
    NewConversation = "newConversation", NewConversationParams => NewConversationAnswer;
    /// Loads a conversation that was stored.
    ResumeConversation = "resumeConversation", ResumeConversationParams => ResumeConversationAnswer;
    /// Stored conversations, the newest first.
    ListConversations = "listConversations", ListConversationsParams => ListConversationsAnswer;
    /// What is stored of one conversation; from 0.53 on.
    GetConversationSummary = "getConversationSummary", ConversationParams => GetConversationSummaryAnswer;
    /// Puts a stored conversation away.
    ArchiveConversation = "archiveConversation", ArchiveConversationParams => Nothing;
    /// Lets the events of a conversation come. Two listeners share them: each event comes once.
    AddConversationListener = "addConversationListener", ConversationParams => AddConversationListenerAnswer;
    /// Ends what [`AddConversationListener`] began.
    RemoveConversationListener = "removeConversationListener", RemoveConversationListenerParams => Nothing;
    /// Begins a turn with settings of its own. The answer does not name it: its id comes with its first event.
    SendUserTurn = "sendUserTurn", SendUserTurnParams => Nothing;
    /// Begins a turn with the settings of the conversation.
    SendUserMessage = "sendUserMessage", SendUserMessageParams => Nothing;
    /// Stops the running turn. Answered when it has ended; if none runs, when the next one is stopped.
    InterruptConversation = "interruptConversation", ConversationParams => InterruptConversationAnswer;
    /// Which worker this is.
    GetUserAgent = "getUserAgent", () => GetUserAgentAnswer;
}

/// An answer that says no more than that it is one.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
pub struct Nothing {}

/// How a conversation begins; what is left out comes from the worker's configuration.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NewConversationParams {
    /// The model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<Box<str>>,
    /// Who offers the model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model_provider: Option<Box<str>>,
    /// The profile of the configuration.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub profile: Option<Box<str>>,
    /// Where commands run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<Box<str>>,
    /// When to ask.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approval_policy: Option<ApprovalPolicy>,
    /// What commands can reach.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<SandboxMode>,
    /// Further settings, by the keys of the configuration.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub config: Option<serde_json::Map<String, Value>>,
    /// What the model is told first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base_instructions: Option<Box<str>>,
    /// What it is told beside that; 0.45 passes over it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub developer_instructions: Option<Box<str>>,
    /// Whether the model can make plans; 0.45 needs to be asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub include_plan_tool: Option<bool>,
    /// Whether the model can apply patches; workers decide by the model if this is left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub include_apply_patch_tool: Option<bool>,
}

/// A conversation that began.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NewConversationAnswer {
    /// Its id.
    pub conversation_id: Box<str>,
    /// The model that was chosen.
    pub model: Box<str>,
    /// How hard it thinks.
    pub reasoning_effort: Option<Box<str>>,
    /// The file that it is stored in; 0.45 resumes by it alone.
    pub rollout_path: Option<Box<str>>,
}

/// Which conversation to load. 0.45 knows the path alone; where both are given, the path counts.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ResumeConversationParams {
    /// The file that it is stored in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<Box<str>>,
    /// Its id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conversation_id: Option<Box<str>>,
    /// What it holds, as items of the model's own kind, if it was never stored; from 0.53 on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub history: Option<Vec<Json>>,
    /// Settings that shall differ.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub overrides: Option<NewConversationParams>,
}

/// A conversation that was loaded.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ResumeConversationAnswer {
    /// Its id.
    pub conversation_id: Box<str>,
    /// The model that was chosen.
    pub model: Box<str>,
    /// All that was said before, as the messages of `codex/event/*`; it can be long.
    pub initial_messages: Option<Box<RawValue>>,
    /// The file that it is stored in; from 0.53 on.
    pub rollout_path: Option<Box<str>>,
}

/// Which page of the stored conversations.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ListConversationsParams {
    /// How many at most.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub page_size: Option<u32>,
    /// Where the page before ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cursor: Option<Box<str>>,
}

/// One page of stored conversations.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ListConversationsAnswer {
    /// The conversations.
    pub items: Vec<ConversationSummary>,
    /// Where the page ended. 0.45 says so even of the last one: an empty page is the end.
    pub next_cursor: Option<Box<str>>,
}

/// What is stored of a conversation.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ConversationSummary {
    /// Its id.
    pub conversation_id: Box<str>,
    /// The file that it is stored in.
    pub path: Box<str>,
    /// What was said first.
    pub preview: Box<str>,
    /// When it began, as RFC 3339.
    pub timestamp: Option<Box<str>>,
    /// Who offers its model; from 0.53 on.
    pub model_provider: Option<Box<str>>,
    /// Where its commands run; from 0.58 on.
    pub cwd: Option<Box<str>>,
    /// The worker's version; from 0.58 on.
    pub cli_version: Option<Box<str>>,
}

/// What is stored of one conversation.
#[derive(Clone, Debug, Deserialize)]
pub struct GetConversationSummaryAnswer {
    /// It.
    pub summary: ConversationSummary,
}

/// Which conversation to put away.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ArchiveConversationParams {
    /// Its id.
    pub conversation_id: Box<str>,
    /// The file that it is stored in.
    pub rollout_path: Box<str>,
}

/// Which conversation is meant.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ConversationParams {
    /// Its id.
    pub conversation_id: Box<str>,
}

/// A listener that was added.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AddConversationListenerAnswer {
    /// What removes it.
    pub subscription_id: Box<str>,
}

/// Which listener to remove.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RemoveConversationListenerParams {
    /// What [`AddConversationListener`] answered.
    pub subscription_id: Box<str>,
}

/// A turn with settings of its own, which then are those of the conversation. Workers demand all but the effort.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SendUserTurnParams {
    /// The conversation.
    pub conversation_id: Box<str>,
    /// What is said.
    pub items: Vec<InputItem>,
    /// Where commands run.
    pub cwd: Box<str>,
    /// When to ask.
    pub approval_policy: ApprovalPolicy,
    /// What commands can reach.
    pub sandbox_policy: SandboxPolicy,
    /// The model.
    pub model: Box<str>,
    /// How hard it thinks.
    pub effort: Option<Effort>,
    /// How it sums up its reasoning.
    pub summary: Summary,
    /// Tools, for workers that take them; codex passes over them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tools: Option<Value>,
}

/// A turn with the settings of the conversation. What else can be said here is for workers that take it; codex passes
/// over it. Each is written in both spellings.
#[derive(Clone, Debug, Default)]
pub struct SendUserMessageParams {
    /// The conversation.
    pub conversation_id: Box<str>,
    /// What is said.
    pub items: Vec<InputItem>,
    /// Whether the worker shall say what was used.
    pub include_usage: Option<bool>,
    /// How freely the model chooses.
    pub temperature: Option<f64>,
    /// From how many of the likeliest words.
    pub top_p: Option<f64>,
    /// How much it writes at most.
    pub max_output_tokens: Option<u64>,
    /// The JSON Schema that the answer shall keep.
    pub final_output_json_schema: Option<Value>,
}

impl Serialize for SendUserMessageParams {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut params = serializer.serialize_map(None)?;
        params.serialize_entry("conversationId", &self.conversation_id)?;
        params.serialize_entry("items", &self.items)?;
        in_both(&mut params, ["includeUsage", "include_usage"], self.include_usage.as_ref())?;
        in_both(&mut params, ["temperature"], self.temperature.as_ref())?;
        in_both(&mut params, ["topP", "top_p"], self.top_p.as_ref())?;
        in_both(&mut params, ["maxOutputTokens", "max_output_tokens"], self.max_output_tokens.as_ref())?;
        let schema = self.final_output_json_schema.as_ref();
        in_both(&mut params, ["finalOutputJsonSchema", "final_output_json_schema"], schema)?;
        params.end()
    }
}

/// Writes a field under each of its names, if it is set.
fn in_both<M: SerializeMap, T: Serialize, const N: usize>(
    params: &mut M,
    names: [&str; N],
    value: Option<&T>,
) -> Result<(), M::Error> {
    let Some(value) = value else {
        return Ok(());
    };
    names.iter().try_for_each(|name| params.serialize_entry(name, value))
}

/// A turn was stopped.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InterruptConversationAnswer {
    /// `interrupted`, or another reason for which it ended.
    pub abort_reason: Box<str>,
}

/// Which worker this is.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GetUserAgentAnswer {
    /// Its name and version.
    pub user_agent: Box<str>,
}
