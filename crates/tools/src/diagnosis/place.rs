//! Where a fault shows: the part of a frame that a person should see, and the JSON path to it.

use std::time::Duration;

use crate::evidence::Listed;
use crate::finding::{Code, Finding, Severity};

use super::reading::Said;

/// How much of a frame a finding shows.
const SHOWN_CHARS_MAX: usize = 400;
/// How far a frame is searched for what a finding is about: there can be a thousand findings in a frame of megabytes.
const SEARCHED_BYTES_MAX: usize = 256 << 10;
/// How much of a value stands in a sentence.
const QUOTED_CHARS_MAX: usize = 80;

/// A frame, and where in it.
#[derive(Clone, Default)]
pub(super) struct Place {
    frame: Option<String>,
    path: Option<String>,
}

impl Place {
    /// Nowhere on the wire.
    pub(super) fn nowhere() -> Self {
        Self::default()
    }

    /// A frame as a whole.
    pub(super) fn whole(said: &Said<'_>) -> Self {
        Self { frame: Some(beginning(&said.frame.text)), path: None }
    }

    /// The value at this path of a frame, which its last key leads to.
    pub(super) fn inside(said: &Said<'_>, path: &str) -> Self {
        let key = path.rsplit(['.', '[']).next().unwrap_or_default().trim_matches([']', '"']);
        Self { frame: Some(around(&said.frame.text, &format!("\"{key}\""))), path: Some(path.to_owned()) }
    }

    /// The value at this path of a frame that lists tools, shown from the tool on.
    pub(super) fn of_tool(listed: &Listed, path: String) -> Self {
        let word = listed.tool.get("name").map(|name| {
            let compact = format!("\"name\":{name}");
            let searched = &listed.frame[..listed.frame.floor_char_boundary(SEARCHED_BYTES_MAX)];
            if searched.contains(&compact) { compact } else { name.to_string() }
        });
        let frame = word.map_or_else(|| beginning(&listed.frame), |word| around(&listed.frame, &word));
        Self { frame: Some(frame), path: Some(path) }
    }

    /// A fault that shows here.
    pub(super) fn shows(self, code: Code, severity: Severity, what: String, fix: impl Into<String>) -> Finding {
        Finding { code, severity, what, frame: self.frame, path: self.path, fix: fix.into() }
    }
}

/// The path of one key of what is at `path`.
pub(super) fn key(path: &str, key: &str) -> String {
    let is_plain = !key.is_empty() && key.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '$');
    if is_plain { format!("{path}.{key}") } else { format!("{path}[{}]", serde_json::Value::from(key)) }
}

/// The path of what a JSON pointer names in what is at `path`.
pub(super) fn pointed(path: &str, pointer: &str) -> String {
    let names = pointer.split('/').skip(1).map(|name| name.replace("~1", "/").replace("~0", "~"));
    names.fold(path.to_owned(), |path, name| match name.parse::<usize>() {
        Ok(index) => format!("{path}[{index}]"),
        Err(_) => key(&path, &name),
    })
}

/// A duration as people say it.
pub(super) fn said(duration: Duration) -> String {
    if duration < Duration::from_secs(1) {
        format!("{} ms", duration.as_millis())
    } else {
        format!("{:.1} s", duration.as_secs_f64())
    }
}

/// A value as JSON, of which a sentence can hold only so much.
pub(super) fn quoted(value: &serde_json::Value) -> String {
    cut(&value.to_string(), QUOTED_CHARS_MAX)
}

fn beginning(text: &str) -> String {
    cut(text, SHOWN_CHARS_MAX)
}

fn cut(text: &str, chars_max: usize) -> String {
    match text.char_indices().nth(chars_max) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// Of a long text the object that has this word, from its brace on.
fn around(text: &str, word: &str) -> String {
    let searched = &text[..text.floor_char_boundary(SEARCHED_BYTES_MAX)];
    let Some(at) = searched.find(word).filter(|_| text.chars().nth(SHOWN_CHARS_MAX).is_some()) else {
        return beginning(text);
    };
    match opening_brace(&text[..at]) {
        Some(start) if start > 0 => format!("…{}", beginning(&text[start..])),
        _ => beginning(text),
    }
}

/// Where the innermost object begins that is still open at the end of this text. Braces in strings may mislead it, which
/// costs no more than another excerpt.
fn opening_brace(text: &str) -> Option<usize> {
    let mut closed = 0_usize;
    for (at, byte) in text.bytes().enumerate().rev() {
        match byte {
            b'}' => closed += 1,
            b'{' if closed == 0 => return Some(at),
            b'{' => closed -= 1,
            _ => {}
        }
    }
    None
}
