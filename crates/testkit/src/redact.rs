//! Makes a transcript the same on every machine and in every run, and still valid against the schema.
//!
//! Ids become numbered placeholders of their own form, in the order in which they first appear; times become 0; paths,
//! the codex version, the system, the host, process ids, ports and cursors (which mean nothing to a client) become fixed
//! words.

use std::collections::HashMap;

use serde_json::{Map, Value};

use crate::ids::{HASH, Piece, UUID, matches, pieces};
use crate::transcript::Transcript;
use crate::workplace::Workplace;

/// Replaces everything in `transcript` that another run would say otherwise.
pub fn redact(mut transcript: Transcript, workplace: &Workplace) -> Transcript {
    let mut redaction = Redaction {
        home: workplace.home().to_string_lossy().into_owned(),
        version: version(&transcript),
        numbers: HashMap::new(),
        counts: HashMap::new(),
    };
    for entry in &mut transcript.entries {
        redaction.value(&mut entry.message);
    }
    transcript
}

const HOME: &str = "/home/dev";

/// Times in texts: a template (`d` stands for a digit) and what is written instead.
const TIMES: [(&str, &str); 4] = [
    ("dddd-dd-ddTdd-dd-dd", "2000-01-01T00-00-00"),
    ("dddd-dd-ddTdd:dd:dd.dddZ", "2000-01-01T00:00:00.000Z"),
    ("dddd-dd-ddTdd:dd:ddZ", "2000-01-01T00:00:00Z"),
    ("/dddd/dd/dd/", "/2000/01/01/"),
];

/// How a command is shown depends on the user's shell; the first stands for all.
const LOGIN_SHELLS: [&str; 5] =
    ["/bin/bash -lc ", "/usr/bin/bash -lc ", "/bin/zsh -lc ", "/usr/bin/zsh -lc ", "/bin/sh -lc "];

const LOOPBACK: &str = "127.0.0.1:";

/// The worker's version, which it tells in the answer to `initialize`: `NAME/VERSION (…) …`.
fn version(transcript: &Transcript) -> Option<String> {
    transcript.entries.iter().find_map(|entry| {
        let agent = entry.message["result"]["userAgent"].as_str()?;
        Some(agent.split_once('/')?.1.split_once(' ')?.0.to_owned())
    })
}

struct Redaction {
    home: String,
    version: Option<String>,
    /// By id: its number.
    numbers: HashMap<String, usize>,
    /// By form: how many ids have been numbered.
    counts: HashMap<&'static str, usize>,
}

impl Redaction {
    fn value(&mut self, value: &mut Value) {
        match value {
            Value::String(text) => *text = self.text(text),
            Value::Array(items) => items.iter_mut().for_each(|item| self.value(item)),
            Value::Object(fields) => *fields = self.fields(std::mem::take(fields)),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    /// Keys are redacted too: some answers are maps by thread id.
    fn fields(&mut self, fields: Map<String, Value>) -> Map<String, Value> {
        let redacted = fields.into_iter().map(|(key, mut value)| {
            self.field(&key, &mut value);
            (self.text(&key), value)
        });
        redacted.collect()
    }

    fn field(&mut self, key: &str, value: &mut Value) {
        match value {
            Value::Number(_) if is_time(key) => *value = Value::from(0),
            Value::String(text) => match key {
                "userAgent" => *text = self.text(&plain_agent(text)),
                "serverName" => "host".clone_into(text),
                "processId" => "1".clone_into(text),
                cursor if cursor.ends_with("Cursor") => "CURSOR".clone_into(text),
                _ => *text = self.text(text),
            },
            other => self.value(other),
        }
    }

    fn text(&mut self, text: &str) -> String {
        let mut text = text.replace(&self.home, HOME);
        if let Some(version) = &self.version {
            text = text.replace(version, "VERSION");
        }
        let text = without_ids(&text, |form, id| self.placeholder(form, id));
        fixed(&text)
    }

    /// A UUID stays one, so that the line stays valid; a hash is the same in every run.
    fn placeholder(&mut self, form: &'static str, id: &str) -> String {
        match form {
            HASH => id.to_owned(),
            UUID => format!("00000000-0000-7000-8000-{:012}", self.number(form, id)),
            prefix => format!("{prefix}{}", self.number(form, id)),
        }
    }

    fn number(&mut self, form: &'static str, id: &str) -> usize {
        *self.numbers.entry(id.to_owned()).or_insert_with(|| {
            let count = self.counts.entry(form).or_default();
            *count += 1;
            *count
        })
    }
}

fn without_ids(text: &str, mut placeholder: impl FnMut(&'static str, &str) -> String) -> String {
    let written = pieces(text).into_iter().map(|piece| match piece {
        Piece::Plain(plain) => plain.to_owned(),
        Piece::Id { form, id } => placeholder(form, id),
    });
    written.collect()
}

/// `text` with fixed words for times, ports and the shell.
fn fixed(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(next) = rest.chars().next() {
        let length = if let Some((length, word)) = fixed_at(rest) {
            out.push_str(word);
            length
        } else {
            out.push(next);
            next.len_utf8()
        };
        rest = &rest[length..];
    }
    out
}

/// How much of the start of `text` must not stay, and what to write instead.
fn fixed_at(text: &str) -> Option<(usize, &'static str)> {
    if let Some((template, word)) = TIMES.into_iter().find(|(template, _)| matches(template, text)) {
        return Some((template.len(), word));
    }
    if let Some(shell) = LOGIN_SHELLS.into_iter().find(|shell| text.starts_with(shell)) {
        return Some((shell.len(), LOGIN_SHELLS[0]));
    }
    let port = text.strip_prefix(LOOPBACK)?;
    let digits = port.find(|c: char| !c.is_ascii_digit()).unwrap_or(port.len());
    Some((LOOPBACK.len() + digits, "127.0.0.1:PORT"))
}

fn is_time(key: &str) -> bool {
    key.ends_with("At") || key.ends_with("Ms") || key.ends_with("_time")
}

/// `probe/1.2.3 (Debian 12; x86_64) xterm (probe; 0.1)` without the system and the terminal.
fn plain_agent(agent: &str) -> String {
    let parts = agent.split_once(" (").zip(agent.rsplit_once(" ("));
    parts.map_or_else(|| agent.to_owned(), |((name, _), (_, client))| format!("{name} (SYSTEM) TERMINAL ({client}"))
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::redact;
    use crate::transcript::Transcript;
    use crate::workplace::Workplace;

    #[test]
    fn nothing_of_the_run_remains() {
        let workplace = Workplace::new().unwrap();
        let text = r#"{"dir":"received","message":{"id":1,"result":{"userAgent":"probe/1.2.3 (Debian 12; x86_64) xterm (probe; 0.0.1)","codexHome":"HOME/.codex"}}}
{"dir":"received","message":{"method":"turn/started","params":{"threadId":"01a1e074-a853-78f0-acd9-d0fad9dd7fce","startedAt":17,"cliVersion":"1.2.3","path":"HOME/.codex/sessions/2026/11/15/rollout-2026-11-15T18-25-04-01a1e074-a853-78f0-acd9-d0fad9dd7fce.jsonl","durationMs":null}}}
{"dir":"received","message":{"method":"x","params":{"id":"msg_resp_9","call":"call_resp_9_1","url":"http://127.0.0.1:1234/v1","kept":"function_call_output","processId":"4711"}}}
"#;
        let transcript = Transcript::parse(&text.replace("HOME", &workplace.home().to_string_lossy())).unwrap();
        expect![[r#"
            {"dir":"received","message":{"id":1,"result":{"codexHome":"/home/dev/.codex","userAgent":"probe/VERSION (SYSTEM) TERMINAL (probe; 0.0.1)"}}}
            {"dir":"received","message":{"method":"turn/started","params":{"cliVersion":"VERSION","durationMs":null,"path":"/home/dev/.codex/sessions/2000/01/01/rollout-2000-01-01T00-00-00-00000000-0000-7000-8000-000000000001.jsonl","startedAt":0,"threadId":"00000000-0000-7000-8000-000000000001"}}}
            {"dir":"received","message":{"method":"x","params":{"call":"call_1","id":"msg_1","kept":"function_call_output","processId":"1","url":"http://127.0.0.1:PORT/v1"}}}
        "#]]
        .assert_eq(&redact(transcript, &workplace).to_text());
    }
}
