//! The hash of a conversation, by which a later request that repeats it finds the thread that stands at its end. Everything
//! that a thread is made with is part of it: the key, the profile, instructions and tools.

use data_encoding::HEXLOWER;
use ring::digest::{Context, SHA256, SHA256_OUTPUT_LEN};
use serde_json::Value;

use super::message::{Message, Part, ToolCall};

/// A conversation so far: the hash of each message and of all before it, so that whoever has the last hash can go on without the
/// messages.
#[derive(Clone)]
pub(crate) struct History {
    /// Up to the last whole message.
    hash: [u8; SHA256_OUTPUT_LEN],
    /// Of what is being added.
    digest: Context,
    /// Of the answer that is being added.
    answer_bytes: usize,
}

impl History {
    /// Nothing is said yet; `made_of` is what the thread is made with.
    pub(crate) fn new(made_of: &[&str]) -> Self {
        let mut history = Self::after([0; SHA256_OUTPUT_LEN]);
        history.mark(b'S');
        made_of.iter().for_each(|part| history.text(part));
        history.seal();
        history
    }

    /// What was said up to this hash.
    pub(crate) fn resume(hash: &str) -> Option<Self> {
        Some(Self::after(HEXLOWER.decode(hash.as_bytes()).ok()?.try_into().ok()?))
    }

    fn after(hash: [u8; SHA256_OUTPUT_LEN]) -> Self {
        let mut digest = Context::new(&SHA256);
        digest.update(&hash);
        Self { hash, digest, answer_bytes: 0 }
    }

    /// A message is whole.
    fn seal(&mut self) {
        let mut hash = [0; SHA256_OUTPUT_LEN];
        hash.copy_from_slice(self.digest.clone().finish().as_ref());
        *self = Self::after(hash);
    }

    pub(crate) fn add(&mut self, message: &Message) {
        match message {
            Message::Instruction(text) => {
                self.mark(b'I');
                self.text(text);
                self.seal();
            }
            Message::User(parts) => {
                self.mark(b'U');
                self.parts(parts);
                self.seal();
            }
            Message::Assistant { text, calls } => {
                self.begin_answer();
                self.add_to_answer(text);
                self.end_answer(calls);
            }
            Message::Result { call, content } => {
                self.mark(b'R');
                self.text(call);
                self.parts(content);
                self.seal();
            }
        }
    }

    /// The model answers: [`Self::add_to_answer`] and then [`Self::end_answer`] follow.
    pub(crate) fn begin_answer(&mut self) {
        self.mark(b'A');
        self.answer_bytes = 0;
    }

    /// More of the answer's text; the pieces make no difference.
    pub(crate) fn add_to_answer(&mut self, text: &str) {
        self.digest.update(text.as_bytes());
        self.answer_bytes += text.len();
    }

    /// All of the text is there, and these are the calls.
    pub(crate) fn end_answer(&mut self, calls: &[ToolCall]) {
        self.digest.update(&self.answer_bytes.to_be_bytes());
        for call in calls {
            self.text(&call.id);
            self.text(&call.name);
            // Callers write arguments anew when they repeat them.
            match serde_json::from_str::<Value>(&call.arguments) {
                Ok(value) => self.text(&value.to_string()),
                Err(_) => self.text(&call.arguments),
            }
        }
        self.seal();
    }

    /// Of all whole messages.
    pub(crate) fn to_hash(&self) -> String {
        HEXLOWER.encode(&self.hash)
    }

    /// Neighbouring texts are one, as for the model.
    fn parts(&mut self, parts: &[Part]) {
        let mut text = String::new();
        for part in parts {
            match part {
                Part::Text(more) => text.push_str(more),
                Part::Image(url) => {
                    self.text(&std::mem::take(&mut text));
                    self.mark(b'P');
                    self.text(url);
                }
            }
        }
        self.text(&text);
    }

    fn mark(&mut self, mark: u8) {
        self.digest.update(&[mark]);
    }

    /// With its length, so that no two conversations are written alike.
    fn text(&mut self, text: &str) {
        self.digest.update(&text.len().to_be_bytes());
        self.digest.update(text.as_bytes());
    }
}
