//! Transcripts: every line of an exchange, both ways, kept as one JSON object a line.
//!
//! `{"dir":"sent","message":{…}}`, `{"dir":"received","message":{…}}`, and `{"dir":"exit","message":"exit status: 0"}`
//! where the worker ended (what follows belongs to a new process). A line that is not JSON is kept as a string.

use std::fmt::Write as _;

use serde_json::{Value, json};

/// An exchange with a worker.
#[derive(Debug, Default, Clone)]
pub struct Transcript {
    /// The lines in the order in which the client saw and sent them.
    pub entries: Vec<Entry>,
}

/// One line of an exchange.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// Who spoke.
    pub direction: Direction,
    /// The parsed line, or a string if it was not JSON.
    pub message: Value,
}

/// Who spoke.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// The client.
    Sent,
    /// The worker.
    Received,
    /// Nobody: the worker ended.
    Exit,
}

impl Direction {
    fn name(self) -> &'static str {
        match self {
            Self::Sent => "sent",
            Self::Received => "received",
            Self::Exit => "exit",
        }
    }
}

impl Transcript {
    pub(crate) fn record(&mut self, direction: Direction, line: &[u8]) {
        let message =
            serde_json::from_slice(line).unwrap_or_else(|_| Value::String(String::from_utf8_lossy(line).into_owned()));
        self.entries.push(Entry { direction, message });
    }

    /// The kept form.
    pub fn to_text(&self) -> String {
        let mut text = String::new();
        for entry in &self.entries {
            let line = json!({"dir": entry.direction.name(), "message": entry.message});
            let _ = writeln!(text, "{line}");
        }
        text
    }

    /// Reads the kept form.
    pub fn parse(text: &str) -> Result<Self, TranscriptError> {
        let entries = text.lines().enumerate().map(|(index, line)| {
            parse_entry(line).ok_or_else(|| TranscriptError { line: index + 1, text: line.to_owned() })
        });
        Ok(Self { entries: entries.collect::<Result<_, _>>()? })
    }
}

/// A line that is no entry of a transcript.
#[derive(Debug, thiserror::Error)]
#[error("transcript line {line} is not an entry: {text}")]
pub struct TranscriptError {
    line: usize,
    text: String,
}

fn parse_entry(line: &str) -> Option<Entry> {
    let mut entry: Value = serde_json::from_str(line).ok()?;
    let direction = [Direction::Sent, Direction::Received, Direction::Exit]
        .into_iter()
        .find(|direction| entry["dir"] == direction.name())?;
    Some(Entry { direction, message: entry.get_mut("message")?.take() })
}
