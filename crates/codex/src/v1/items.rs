//! The running turn: its items, made whole from messages that name them or do not, and told once although most versions
//! tell them twice.
//!
//! 0.45 knows no items: messages and reasoning get ids that are made up here. 0.50 tells them as items when they are over.
//! From 0.53 on they are items from the beginning, and each message of the item kind comes just before its twin of old,
//! which is then dropped by its name.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::json;
use wire::Json;

use super::conversation::Message;
use super::event_kind::EventKind;
use super::fields::Fields;
use super::output::{Undecoded, base64};
use super::plain;
use crate::event::{Item, TurnError, TurnEvent, TurnStatus, to_snake_case};
use crate::text::Text;

/// Which of two twin messages the worker's version sends, as far as it has shown.
#[derive(Debug, Default)]
pub(crate) struct Habits {
    item_kinds: BTreeSet<Box<str>>,
    item_streams: BTreeSet<Stream>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Stream {
    Message,
    Summary,
    Reasoning,
}

/// A turn that has begun and not ended.
#[derive(Debug)]
pub(crate) struct RunningTurn {
    pub(crate) id: Box<str>,
    open: BTreeMap<Box<str>, OpenItem>,
    /// What waits for a decision: the item and the request.
    asked: Vec<(Box<str>, Box<str>)>,
    message: Option<Box<str>>,
    thinking: Option<Thinking>,
    made_up: u32,
    failure: Option<TurnError>,
    has_output: bool,
}

#[derive(Debug)]
struct OpenItem {
    kind: Box<str>,
    is_made_up: bool,
    stdout: Undecoded,
    stderr: Undecoded,
}

#[derive(Debug)]
struct Thinking {
    item: Box<str>,
    parts: u32,
    summary: Vec<Box<str>>,
    content: Vec<Box<str>>,
}

const MESSAGE: &str = "agent_message";
const REASONING: &str = "reasoning";
const COMMAND: &str = "command_execution";
const FILE_CHANGE: &str = "file_change";
const TOOL_CALL: &str = "mcp_tool_call";
const WEB_SEARCH: &str = "web_search";
const USER_MESSAGE: &str = "user_message";

/// All that the versions up to 0.60 say of a compaction: a message of the agent that was never streamed.
const COMPACTED: &str = "Compact task completed";

/// How 0.45 names the turns in which it compacts on its own, in the middle of another.
const COMPACTION_TURN: &str = "auto-compact-";

impl RunningTurn {
    pub(crate) fn new(id: Box<str>) -> Self {
        Self {
            id,
            open: BTreeMap::new(),
            asked: Vec::new(),
            message: None,
            thinking: None,
            made_up: 0,
            failure: None,
            has_output: false,
        }
    }

    /// Whether a message that names this turn belongs to it.
    pub(crate) fn covers(&self, turn: &str) -> bool {
        *self.id == *turn || turn.starts_with(COMPACTION_TURN)
    }

    /// Whether the model has said or done anything.
    pub(crate) fn has_output(&self) -> bool {
        self.has_output
    }

    /// Remembers a request that waits for a decision about an item.
    pub(crate) fn asked(&mut self, item: Option<&str>, request: &str) {
        self.asked.push((item.unwrap_or_default().into(), request.into()));
    }

    /// Adds what a message tells to `events`; as it came, if it is not understood.
    pub(crate) fn take(&mut self, message: &Message<'_>, habits: &mut Habits, events: &mut Vec<TurnEvent>) {
        if !is_thinking(message.kind) {
            self.conclude_thinking(events);
        }
        let fields = message.fields;
        let is_understood = match message.kind {
            EventKind::ItemStarted | EventKind::ItemCompleted => self.item(message, habits, events),
            EventKind::UserMessage => self.user_message(message, habits, events),
            EventKind::AgentMessageContentDelta | EventKind::AgentMessageDelta => self.text(message, habits, events),
            EventKind::AgentMessage => self.agent_message(message, habits, events),
            kind if is_thinking(kind) => self.think(message, habits, events),
            EventKind::ExecCommandBegin | EventKind::ExecApprovalRequest => self.work(COMMAND, message, events),
            EventKind::PatchApplyBegin | EventKind::ApplyPatchApprovalRequest => {
                self.work(FILE_CHANGE, message, events)
            }
            EventKind::ExecCommandOutputDelta => self.output(message, events),
            EventKind::ExecCommandEnd => self.done(COMMAND, plain::command_status(fields), message, events),
            EventKind::PatchApplyEnd => self.done(FILE_CHANGE, plain::patch_status(fields), message, events),
            EventKind::McpToolCallBegin => self.work(TOOL_CALL, message, events),
            EventKind::McpToolCallEnd => self.done(TOOL_CALL, plain::tool_status(fields), message, events),
            EventKind::WebSearchBegin | EventKind::WebSearchEnd => self.web_search(message, habits, events),
            EventKind::ViewImageToolCall => {
                fields.id("call_id").map(|item| self.close(&item, "image_view", None, &message.raw, events))
            }
            EventKind::Error | EventKind::StreamError => self.error(message, events),
            _ => plain::event(message).map(|event| events.push(event)),
        };
        if is_understood.is_none() {
            events.push(message.as_it_came());
        }
    }

    /// The last events of the turn. It has failed if it says that it is complete after an error.
    pub(crate) fn end(mut self, status: TurnStatus) -> Vec<TurnEvent> {
        let mut events = Vec::new();
        self.conclude_thinking(&mut events);
        let requests = self.asked.into_iter().map(|(_, request)| request);
        events.extend(requests.map(|request| TurnEvent::ApprovalResolved { request }));
        let error = self.failure.filter(|_| status == TurnStatus::Completed);
        let status = if error.is_some() { TurnStatus::Failed } else { status };
        events.push(TurnEvent::TurnEnded { status, error });
        events
    }

    /// An item that is told as one: `{"AgentMessage": {"id": …}}`, or by its type.
    fn item(&mut self, message: &Message<'_>, habits: &mut Habits, events: &mut Vec<TurnEvent>) -> Option<()> {
        let item: Fields<'_> = message.fields.get("item")?;
        let (kind, id) = match item.text("type") {
            Some(kind) => (kind, item.id("id")?),
            None => item.variant().and_then(|(kind, fields)| Some((kind.into(), fields.id("id")?)))?,
        };
        let kind: Box<str> = to_snake_case(&kind).trim_start_matches('_').into();
        habits.item_kinds.insert(kind.clone());
        let made_up = self.made_up(&kind);
        if message.kind == EventKind::ItemCompleted {
            self.close(made_up.as_deref().unwrap_or(&id), &kind, None, &message.raw, events);
            self.let_go(&kind);
        } else if made_up.is_none() {
            self.open(&id, &kind, None, &message.raw, events);
            match &*kind {
                MESSAGE => self.message = Some(id),
                REASONING => self.thinking = Some(Thinking::new(id)),
                _ => {}
            }
        }
        Some(())
    }

    fn user_message(&mut self, message: &Message<'_>, habits: &Habits, events: &mut Vec<TurnEvent>) -> Option<()> {
        let is_of_the_person = message.fields.text("kind").is_none_or(|kind| &*kind == "plain");
        if !is_of_the_person {
            return None;
        }
        if !habits.item_kinds.contains(USER_MESSAGE) {
            let item = self.make_up(USER_MESSAGE, &message.raw, events);
            self.close(&item, USER_MESSAGE, None, &message.raw, events);
        }
        Some(())
    }

    fn text(&mut self, message: &Message<'_>, habits: &mut Habits, events: &mut Vec<TurnEvent>) -> Option<()> {
        let text = message.fields.text("delta")?;
        if message.kind == EventKind::AgentMessageContentDelta {
            let item = message.fields.id("item_id")?;
            habits.item_streams.insert(Stream::Message);
            self.open(&item, MESSAGE, None, &message.raw, events);
            self.message = Some(item);
        } else if habits.item_streams.contains(&Stream::Message) {
            return Some(());
        }
        let item = self.message_item(message, events);
        events.push(TurnEvent::Text { item, text: text.into_string().into() });
        Some(())
    }

    fn agent_message(&mut self, message: &Message<'_>, habits: &Habits, events: &mut Vec<TurnEvent>) -> Option<()> {
        let text = message.fields.text("message")?;
        if self.message.is_none() && &*text == COMPACTED {
            events.push(TurnEvent::Compacted);
        } else if !habits.item_kinds.contains(MESSAGE) {
            let item = self.message_item(message, events);
            self.close(&item, MESSAGE, None, &message.raw, events);
            self.message = None;
        }
        Some(())
    }

    /// The message that is being written.
    fn message_item(&mut self, message: &Message<'_>, events: &mut Vec<TurnEvent>) -> Box<str> {
        let item = self.message.take().unwrap_or_else(|| self.make_up(MESSAGE, &message.raw, events));
        self.message.insert(item).clone()
    }

    fn think(&mut self, message: &Message<'_>, habits: &mut Habits, events: &mut Vec<TurnEvent>) -> Option<()> {
        let fields = message.fields;
        let (stream, is_twin) = match message.kind {
            EventKind::ReasoningContentDelta => (Some(Stream::Summary), false),
            EventKind::AgentReasoningDelta => (Some(Stream::Summary), true),
            EventKind::ReasoningRawContentDelta => (Some(Stream::Reasoning), false),
            EventKind::AgentReasoningRawContentDelta => (Some(Stream::Reasoning), true),
            EventKind::AgentReasoning | EventKind::AgentReasoningRawContent
                if habits.item_kinds.contains(REASONING) =>
            {
                return Some(());
            }
            _ => (None, false),
        };
        if let Some(stream) = stream {
            if is_twin && habits.item_streams.contains(&stream) {
                return Some(());
            }
            let text = fields.text("delta")?;
            if !is_twin {
                habits.item_streams.insert(stream);
            }
            let thinking = self.thinking_item(message, events);
            events.push(thinking.more(stream, text, fields));
            return Some(());
        }
        match message.kind {
            EventKind::AgentReasoningSectionBreak => {
                let thinking = self.thinking_item(message, events);
                events.push(thinking.next_part(fields));
            }
            EventKind::AgentReasoning => {
                let text = fields.text("text")?;
                self.thinking_item(message, events).summary.push(text);
            }
            EventKind::AgentReasoningRawContent => {
                let text = fields.text("text")?;
                self.thinking_item(message, events).content.push(text);
            }
            // The raw text has one part.
            _ => {}
        }
        Some(())
    }

    /// The reasoning that goes on.
    fn thinking_item(&mut self, message: &Message<'_>, events: &mut Vec<TurnEvent>) -> &mut Thinking {
        let named = message.fields.id("item_id");
        let current = self.thinking.take();
        let goes_on = |thinking: &Thinking| named.as_ref().is_none_or(|item| *item == thinking.item);
        let thinking = current.filter(goes_on).unwrap_or_else(|| match named {
            Some(item) => {
                self.open(&item, REASONING, None, &message.raw, events);
                Thinking::new(item)
            }
            None => Thinking::new(self.make_up(REASONING, &message.raw, events)),
        });
        self.thinking.insert(thinking)
    }

    /// 0.45 tells the parts of the reasoning one by one when it is over, and not which is the last.
    fn conclude_thinking(&mut self, events: &mut Vec<TurnEvent>) {
        let is_told = |thinking: &mut Thinking| !(thinking.summary.is_empty() && thinking.content.is_empty());
        let Some(Thinking { item, summary, content, .. }) = self.thinking.take_if(is_told) else {
            return;
        };
        if let Ok(raw) = Json::of(&json!({"type": REASONING, "summary": summary, "content": content})) {
            self.close(&item, REASONING, None, &raw, events);
        }
    }

    /// A piece of work begins, or waits for a decision before it does.
    fn work(&mut self, kind: &str, message: &Message<'_>, events: &mut Vec<TurnEvent>) -> Option<()> {
        let item = message.fields.id("call_id")?;
        self.resolve(&item, events);
        self.open(&item, kind, Some("in_progress"), &message.raw, events);
        Some(())
    }

    fn done(&mut self, kind: &str, status: &str, message: &Message<'_>, events: &mut Vec<TurnEvent>) -> Option<()> {
        let item = message.fields.id("call_id")?;
        let status = message.fields.text("status").map_or_else(|| status.into(), |status| to_snake_case(&status));
        self.resolve(&item, events);
        self.close(&item, kind, Some(&status), &message.raw, events);
        Some(())
    }

    fn output(&mut self, message: &Message<'_>, events: &mut Vec<TurnEvent>) -> Option<()> {
        let item = message.fields.id("call_id")?;
        let chunk = base64(&message.fields.text("chunk")?)?;
        self.resolve(&item, events);
        self.open(&item, COMMAND, Some("in_progress"), &message.raw, events);
        let open = self.open.get_mut(&item)?;
        let is_error_output = message.fields.text("stream").is_some_and(|stream| &*stream == "stderr");
        let undecoded = if is_error_output { &mut open.stderr } else { &mut open.stdout };
        let text = undecoded.take(&chunk);
        events.extend(open.output(&item, text));
        Some(())
    }

    fn web_search(&mut self, message: &Message<'_>, habits: &Habits, events: &mut Vec<TurnEvent>) -> Option<()> {
        let item = message.fields.id("call_id")?;
        if message.kind == EventKind::WebSearchBegin {
            self.open(&item, WEB_SEARCH, None, &message.raw, events);
        } else if self.open.contains_key(&item) || !habits.item_kinds.contains(WEB_SEARCH) {
            self.close(&item, WEB_SEARCH, None, &message.raw, events);
        }
        Some(())
    }

    fn error(&mut self, message: &Message<'_>, events: &mut Vec<TurnEvent>) -> Option<()> {
        let error = plain::turn_error(message.fields)?;
        let will_retry = message.kind == EventKind::StreamError;
        if will_retry {
            // The model begins again: what it was writing is left as it is.
            (self.message, self.thinking) = (None, None);
        } else {
            self.failure = Some(error.clone());
        }
        events.push(TurnEvent::Error { error, will_retry });
        Some(())
    }

    fn open(&mut self, id: &str, kind: &str, status: Option<&str>, raw: &Json, events: &mut Vec<TurnEvent>) {
        self.has_output |= kind != USER_MESSAGE;
        if !self.open.contains_key(id) {
            self.open.insert(id.into(), OpenItem::new(kind));
            events.push(TurnEvent::ItemStarted { item: item(id, kind, status, raw) });
        }
    }

    fn close(&mut self, id: &str, kind: &str, status: Option<&str>, raw: &Json, events: &mut Vec<TurnEvent>) {
        self.open(id, kind, status.map(|_| "in_progress"), raw, events);
        if let Some(mut open) = self.open.remove(id) {
            let rest = [open.stdout.end(), open.stderr.end()];
            events.extend(rest.into_iter().filter_map(|text| open.output(id, text)));
        }
        events.push(TurnEvent::ItemCompleted { item: item(id, kind, status, raw) });
    }

    /// Opens an item that the worker gave no id.
    fn make_up(&mut self, kind: &str, raw: &Json, events: &mut Vec<TurnEvent>) -> Box<str> {
        self.made_up += 1;
        let id: Box<str> = format!("{kind}-{}-{}", self.id, self.made_up).into();
        self.open(&id, kind, None, raw, events);
        if let Some(open) = self.open.get_mut(&id) {
            open.is_made_up = true;
        }
        id
    }

    /// The open item of that kind whose id was made up before the worker gave it one.
    fn made_up(&self, kind: &str) -> Option<Box<str>> {
        let current = match kind {
            MESSAGE => self.message.as_ref(),
            REASONING => self.thinking.as_ref().map(|thinking| &thinking.item),
            _ => None,
        };
        current.filter(|id| self.open.get(*id).is_some_and(|open| open.is_made_up)).cloned()
    }

    fn let_go(&mut self, kind: &str) {
        match kind {
            MESSAGE => self.message = None,
            REASONING => self.thinking = None,
            _ => {}
        }
    }

    /// The dialect does not say that a request was answered, but only then does its item go on.
    fn resolve(&mut self, item: &str, events: &mut Vec<TurnEvent>) {
        let answered = self.asked.extract_if(.., |(asked, _)| **asked == *item);
        events.extend(answered.map(|(_, request)| TurnEvent::ApprovalResolved { request }));
    }
}

impl OpenItem {
    fn new(kind: &str) -> Self {
        Self { kind: kind.into(), is_made_up: false, stdout: Undecoded::default(), stderr: Undecoded::default() }
    }

    /// The output of a patch is told as that of a command.
    fn output(&self, id: &str, text: String) -> Option<TurnEvent> {
        let (item, text) = (id.into(), Text::from(Some(text).filter(|text| !text.is_empty())?));
        Some(match &*self.kind {
            FILE_CHANGE => TurnEvent::FileChangeOutput { item, text },
            _ => TurnEvent::CommandOutput { item, text },
        })
    }
}

impl Thinking {
    fn new(item: Box<str>) -> Self {
        Self { item, parts: 0, summary: Vec::new(), content: Vec::new() }
    }

    fn next_part(&mut self, fields: &Fields<'_>) -> TurnEvent {
        let index = fields.get("summary_index").unwrap_or(self.parts);
        self.parts = index.saturating_add(1);
        TurnEvent::ReasoningPart { item: self.item.clone(), index }
    }

    fn more(&self, stream: Stream, text: Box<str>, fields: &Fields<'_>) -> TurnEvent {
        let item = self.item.clone();
        if stream == Stream::Reasoning {
            return TurnEvent::Reasoning {
                item,
                index: fields.get("content_index").unwrap_or_default(),
                text: text.into_string().into(),
            };
        }
        let index = fields.get("summary_index").unwrap_or(self.parts.saturating_sub(1));
        TurnEvent::ReasoningSummary { item, index, text: text.into_string().into() }
    }
}

fn is_thinking(kind: EventKind) -> bool {
    matches!(
        kind,
        EventKind::AgentReasoningSectionBreak
            | EventKind::ReasoningContentDelta
            | EventKind::AgentReasoningDelta
            | EventKind::AgentReasoning
            | EventKind::ReasoningRawContentDelta
            | EventKind::AgentReasoningRawContentDelta
            | EventKind::AgentReasoningRawContent
            | EventKind::AgentReasoningRawContentSectionBreak
    )
}

fn item(id: &str, kind: &str, status: Option<&str>, raw: &Json) -> Item {
    Item { id: id.into(), kind: kind.into(), status: status.map(Box::from), raw: raw.clone() }
}
