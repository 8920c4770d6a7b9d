//! A conversation made short: what its user said stays, the rest becomes a summary by the model. Callers carry the summary as it is, and
//! give it back in the place of what was said.

use data_encoding::BASE64URL_NOPAD;
use serde_json::{Value, json};

use super::super::message::{Message, Part};
use super::object::Name;

/// What the model is asked for.
const WANTED: &str = "Summarize the conversation so far for whoever goes on with it without having read it: what was asked, what was \
    decided and found out, what is done and what is still to be done, with every name, number and quotation that will be needed. \
    Answer with the summary alone.";

/// What the summary is introduced with.
const LEAD: &str = "What was said before, in short:\n\n";

/// What a summary that we wrote begins with.
const MARK: &str = "sb1.";

/// What the model is asked at the end of the conversation.
pub(crate) fn question() -> Message {
    Message::User(vec![Part::Text(WANTED.into())])
}

/// The items that take the place of the conversation.
pub(crate) fn items(name: &Name, said: &[Value], summary: &str) -> Vec<Value> {
    let mut items: Vec<_> = said.iter().filter(|item| item["role"] == "user").cloned().collect();
    let sealed = format!("{MARK}{}", BASE64URL_NOPAD.encode(summary.as_bytes()));
    items.push(json!({"type": "compaction", "id": name.item("cmp", items.len()), "encrypted_content": sealed}));
    items
}

/// What a summary tells the model; `None` if it is none of ours.
pub(crate) fn open(sealed: &str) -> Option<Message> {
    let summary = BASE64URL_NOPAD.decode(sealed.strip_prefix(MARK)?.as_bytes()).ok()?;
    Some(Message::Instruction(format!("{LEAD}{}", String::from_utf8(summary).ok()?)))
}
