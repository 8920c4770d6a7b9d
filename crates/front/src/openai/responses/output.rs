//! What a turn tells, as items of a response and as the events that announce them: an item is added, its parts grow, and it is done.
//! Text is put between as the JSON that it already is, both in its pieces and as a whole.

use codex::{Item, Text};
use serde_json::{Value, json};

use super::super::message::ToolCall;
use super::super::reading::{Phase, Piece, Thought};
use super::object::{Head, Name, Outcome, Status};
use super::work_items;
use crate::error::Error;

/// The output of one response.
pub(crate) struct Output {
    name: Name,
    /// Those that are done.
    items: Vec<String>,
    open: Option<Open>,
    events: Events,
    /// Whether what was told can be untold: nobody has heard it.
    is_unheard: bool,
}

/// The item that grows.
struct Open {
    id: String,
    kind: Kind,
    /// The texts of its parts, as JSON without quotes. Only a thought has both.
    summary: Vec<String>,
    content: Vec<String>,
    /// Which of them the last part of grows.
    growing: Growing,
    /// What every piece of that part begins with.
    delta_head: String,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Message(Phase),
    /// What the model thinks.
    Thought,
    /// What the agent does.
    Work,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Growing {
    Text,
    Summary,
    Reasoning,
}

impl Output {
    pub(crate) fn new(name: &Name) -> Self {
        Self { name: name.clone(), items: Vec::new(), open: None, events: Events::default(), is_unheard: false }
    }

    /// One of which nobody hears before its end.
    pub(crate) fn unheard(name: &Name) -> Self {
        Self { is_unheard: true, ..Self::new(name) }
    }

    /// The bytes of the events since the last time.
    pub(crate) fn take_events(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.events.out)
    }

    pub(crate) fn has_events(&self) -> bool {
        !self.events.out.is_empty()
    }

    /// Those items that are done.
    pub(crate) fn items(&self) -> &[String] {
        &self.items
    }

    /// Those and the one that grows.
    pub(crate) fn items_so_far(&self) -> Vec<String> {
        let open = self.open.as_ref().map(|open| open.item("in_progress"));
        self.items.iter().cloned().chain(open).collect()
    }

    /// Tells how far the response is; the last of these is its end.
    pub(crate) fn tell(&mut self, event: &str, head: &Head, outcome: &Outcome<'_>) {
        self.tell_object(event, &head.to_json(outcome));
    }

    /// The same, with the object as it is.
    pub(crate) fn tell_object(&mut self, event: &str, object: &str) {
        self.events.write(event, &format!(r#""response":{object}"#));
    }

    /// Tells why the response fails, before its end: clients raise this, and some of them nothing else.
    pub(crate) fn tell_error(&mut self, error: &Error) {
        self.events.error(error);
    }

    pub(crate) fn add(&mut self, piece: &Piece<'_>) {
        match piece {
            Piece::Message(phase) => self.begin("msg", Kind::Message(*phase), Growing::Text),
            Piece::Content(text) => {
                if !matches!(self.open, Some(Open { kind: Kind::Message(_), .. })) {
                    self.begin("msg", Kind::Message(Phase::Unsaid), Growing::Text);
                }
                self.grow(text);
            }
            Piece::Thought(thought) => self.think(*thought),
            Piece::Reasoning(text) => {
                if !matches!(self.open, Some(Open { kind: Kind::Thought | Kind::Work, .. })) {
                    self.begin("rs", Kind::Work, Growing::Summary);
                }
                self.grow(text);
            }
            Piece::Work(item) => self.work(item),
            Piece::Call(call) => self.call(call),
            Piece::TakenBack => {
                if self.is_unheard
                    && let Some(part) = self.open.as_mut().and_then(Open::part_that_grows)
                {
                    part.clear();
                }
            }
        }
    }

    /// Ends what is open: nothing more comes.
    pub(crate) fn end(&mut self, status: Status) {
        self.close(if status == Status::Completed { "completed" } else { "incomplete" });
    }

    /// A summary behind another is the next part of the same thought, and so is the thought itself behind its summaries; anything
    /// else is another item.
    fn think(&mut self, thought: Thought) {
        let before = self.open.as_ref().filter(|open| open.kind == Kind::Thought).map(|open| open.growing);
        let (kind, growing) = match thought {
            Thought::Work => (Kind::Work, Growing::Summary),
            Thought::Summary => (Kind::Thought, Growing::Summary),
            Thought::Itself => (Kind::Thought, Growing::Reasoning),
        };
        if before == Some(Growing::Summary) && kind == Kind::Thought {
            self.end_part();
            self.begin_part(growing);
        } else {
            self.begin("rs", kind, growing);
        }
    }

    fn begin(&mut self, prefix: &str, kind: Kind, growing: Growing) {
        self.close("completed");
        let id = self.name.item(prefix, self.items.len());
        let (summary, content) = (Vec::new(), Vec::new());
        let open = Open { id, kind, summary, content, growing, delta_head: String::new() };
        let item = open.item("in_progress");
        self.events.item("response.output_item.added", self.items.len(), &item);
        self.open = Some(open);
        self.begin_part(growing);
    }

    fn begin_part(&mut self, growing: Growing) {
        let Some(open) = &mut self.open else { return };
        open.growing = growing;
        open.parts_that_grow().push(String::new());
        let (place, words) = (open.place(self.items.len()), growing.words());
        self.events.write(words.part_added, &format!(r#"{place},"part":{}"#, growing.part("")));
        open.delta_head = Events::head(words.delta, &format!(r#"{place}{},"delta":""#, words.logprobs));
    }

    fn grow(&mut self, text: &Text) {
        let Some(open) = &mut self.open else { return };
        if let Some(part) = open.part_that_grows() {
            part.push_str(text.as_json());
        }
        self.events.write_delta(&open.delta_head, text.as_json());
    }

    fn end_part(&mut self) {
        let Some(open) = &mut self.open else { return };
        let (place, growing) = (open.place(self.items.len()), open.growing);
        let (words, text) = (growing.words(), open.part_that_grows().map_or("", |text| text));
        self.events.write(words.text_done, &format!(r#"{place}{},"text":"{text}""#, words.logprobs));
        self.events.write(words.part_done, &format!(r#"{place},"part":{}"#, growing.part(text)));
    }

    fn close(&mut self, status: &str) {
        self.end_part();
        if let Some(open) = self.open.take() {
            let item = open.item(status);
            self.events.item("response.output_item.done", self.items.len(), &item);
            self.items.push(item);
        }
    }

    fn work(&mut self, item: &Item) {
        self.close("completed");
        for item in work_items::of(item, &self.name, self.items.len()) {
            let item = item.to_string();
            self.events.item("response.output_item.added", self.items.len(), &item);
            self.events.item("response.output_item.done", self.items.len(), &item);
            self.items.push(item);
        }
    }

    /// A call is told whole: it is known only then.
    fn call(&mut self, call: &ToolCall) {
        self.close("completed");
        let index = self.items.len();
        let id = self.name.item("fc", index);
        let ToolCall { id: call_id, name, arguments } = call;
        let item = |status: &str, arguments: &str| {
            let fields = json!({
                "id": id, "type": "function_call", "status": status, "arguments": arguments, "call_id": call_id,
                "name": name,
            });
            fields.to_string()
        };
        self.events.item("response.output_item.added", index, &item("in_progress", ""));
        let (place, arguments_json) =
            (format!(r#""item_id":"{id}","output_index":{index}"#), Value::from(&**arguments));
        let delta = format!(r#"{place},"delta":{arguments_json}"#);
        self.events.write("response.function_call_arguments.delta", &delta);
        let whole = format!(r#"{place},"arguments":{arguments_json},"name":{}"#, Value::from(&**name));
        self.events.write("response.function_call_arguments.done", &whole);
        let item = item("completed", arguments);
        self.events.item("response.output_item.done", index, &item);
        self.items.push(item);
    }
}

impl Open {
    fn parts_that_grow(&mut self) -> &mut Vec<String> {
        if self.growing == Growing::Summary { &mut self.summary } else { &mut self.content }
    }

    fn part_that_grows(&mut self) -> Option<&mut String> {
        self.parts_that_grow().last_mut()
    }

    /// Where its growing part is.
    fn place(&mut self, index: usize) -> String {
        let (part, name) = (self.parts_that_grow().len() - 1, self.growing.words().index);
        format!(r#""item_id":"{}","output_index":{index},"{name}":{part}"#, self.id)
    }

    fn item(&self, status: &str) -> String {
        let id = &self.id;
        let parts = |growing: Growing, parts: &[String]| {
            parts.iter().map(|text| growing.part(text)).collect::<Vec<_>>().join(",")
        };
        if let Kind::Message(phase) = self.kind {
            let content = parts(Growing::Text, &self.content);
            let phase = match phase {
                Phase::Unsaid => "",
                Phase::Commentary => r#","phase":"commentary""#,
                Phase::Final => r#","phase":"final_answer""#,
            };
            return format!(
                r#"{{"id":"{id}","type":"message","status":"{status}","content":[{content}],"role":"assistant"{phase}}}"#
            );
        }
        let content = match self.content.as_slice() {
            [] => String::new(),
            content => format!(r#","content":[{}]"#, parts(Growing::Reasoning, content)),
        };
        let summary = parts(Growing::Summary, &self.summary);
        format!(r#"{{"id":"{id}","type":"reasoning","summary":[{summary}]{content}}}"#)
    }
}

/// What the events of a part are called.
struct Words {
    part_added: &'static str,
    delta: &'static str,
    text_done: &'static str,
    part_done: &'static str,
    index: &'static str,
    logprobs: &'static str,
}

impl Growing {
    fn part(self, text: &str) -> String {
        match self {
            Self::Text => format!(r#"{{"type":"output_text","annotations":[],"logprobs":[],"text":"{text}"}}"#),
            Self::Summary => format!(r#"{{"type":"summary_text","text":"{text}"}}"#),
            Self::Reasoning => format!(r#"{{"type":"reasoning_text","text":"{text}"}}"#),
        }
    }

    fn words(self) -> &'static Words {
        match self {
            Self::Text => &Words {
                part_added: "response.content_part.added",
                delta: "response.output_text.delta",
                text_done: "response.output_text.done",
                part_done: "response.content_part.done",
                index: "content_index",
                logprobs: r#","logprobs":[]"#,
            },
            Self::Summary => &Words {
                part_added: "response.reasoning_summary_part.added",
                delta: "response.reasoning_summary_text.delta",
                text_done: "response.reasoning_summary_text.done",
                part_done: "response.reasoning_summary_part.done",
                index: "summary_index",
                logprobs: "",
            },
            Self::Reasoning => &Words {
                part_added: "response.content_part.added",
                delta: "response.reasoning_text.delta",
                text_done: "response.reasoning_text.done",
                part_done: "response.content_part.done",
                index: "content_index",
                logprobs: "",
            },
        }
    }
}

/// An error as the event of that number, for one who is told no more.
pub(crate) fn error_event(error: &Error, number: u64) -> Vec<u8> {
    let mut events = Events { out: Vec::new(), count: number };
    events.error(error);
    events.out
}

/// Writes events, each with its number.
#[derive(Default)]
struct Events {
    out: Vec<u8>,
    count: u64,
}

impl Events {
    fn head(event: &str, fields: &str) -> String {
        format!("event: {event}\ndata: {{\"type\":\"{event}\",{fields}")
    }

    fn write(&mut self, event: &str, fields: &str) {
        self.extend(&[&Self::head(event, fields)]);
        self.end_event();
    }

    fn error(&mut self, error: &Error) {
        let body = error.body();
        self.write("error", &body[1..body.len() - 1]);
    }

    fn item(&mut self, event: &str, index: usize, item: &str) {
        self.write(event, &format!(r#""output_index":{index},"item":{item}"#));
    }

    fn write_delta(&mut self, head: &str, text: &str) {
        self.extend(&[head, text, "\""]);
        self.end_event();
    }

    fn end_event(&mut self) {
        let number = self.count.to_string();
        self.count += 1;
        self.extend(&[",\"sequence_number\":", &number, "}\n\n"]);
    }

    fn extend(&mut self, parts: &[&str]) {
        parts.iter().for_each(|part| self.out.extend_from_slice(part.as_bytes()));
    }
}
