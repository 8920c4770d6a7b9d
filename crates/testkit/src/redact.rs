//! Makes a transcript the same on every machine and in every run, and still valid against the schema.
//!
//! Ids become numbered placeholders of their own form, in the order in which they first appear; times become 0; paths,
//! the codex version, the system, the host, process ids and ports become fixed words.

use std::collections::HashMap;

use serde_json::Value;

use crate::transcript::Transcript;
use crate::workplace::Workplace;

/// Replaces everything in `transcript` that another run would say otherwise.
pub fn redact(mut transcript: Transcript, workplace: &Workplace) -> Transcript {
    let mut redaction = Redaction {
        home: workplace.home().to_string_lossy().into_owned(),
        version: version(&transcript),
        ids: HashMap::new(),
        counts: HashMap::new(),
    };
    for entry in &mut transcript.entries {
        redaction.value(&mut entry.message);
    }
    transcript
}

const HOME: &str = "/home/dev";
const UUID: &str = "hhhhhhhh-hhhh-hhhh-hhhh-hhhhhhhhhhhh";
const UUID_PLACEHOLDER: &str = "00000000-0000-7000-8000-";
/// What the model provider calls its own things; codex makes item ids of them.
const PROVIDER_IDS: [&str; 7] = ["call_", "ctc_", "fc_", "lsh_", "msg_", "resp_", "rs_"];

/// Times and the like: a template (`d` stands for a digit) and what is written instead.
const TIMES: [(&str, &str); 4] = [
    ("dddd-dd-ddTdd-dd-dd", "2000-01-01T00-00-00"),
    ("dddd-dd-ddTdd:dd:dd.dddZ", "2000-01-01T00:00:00.000Z"),
    ("dddd-dd-ddTdd:dd:ddZ", "2000-01-01T00:00:00Z"),
    ("dddd/dd/dd", "2000/01/01"),
];

/// How a command is shown depends on the user's shell; the first stands for all.
const LOGIN_SHELLS: [&str; 5] =
    ["/bin/bash -lc ", "/usr/bin/bash -lc ", "/bin/zsh -lc ", "/usr/bin/zsh -lc ", "/bin/sh -lc "];

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
    ids: HashMap<String, usize>,
    /// By form: how many ids have been numbered.
    counts: HashMap<&'static str, usize>,
}

impl Redaction {
    fn value(&mut self, value: &mut Value) {
        match value {
            Value::String(text) => *text = self.text(text),
            Value::Array(items) => items.iter_mut().for_each(|item| self.value(item)),
            Value::Object(fields) => fields.iter_mut().for_each(|(key, value)| self.field(key, value)),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    fn field(&mut self, key: &str, value: &mut Value) {
        match value {
            Value::Number(_) if is_time(key) => *value = Value::from(0),
            Value::String(text) => match key {
                "userAgent" => *text = self.text(&plain_agent(text)),
                "serverName" => "host".clone_into(text),
                "processId" => "1".clone_into(text),
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
        let mut out = String::with_capacity(text.len());
        let mut rest = text.as_str();
        while let Some(first) = rest.chars().next() {
            let at_word_start = !out.ends_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
            let found = if at_word_start { self.placeholder(rest) } else { None };
            let taken = match &found {
                Some((taken, placeholder)) => {
                    out.push_str(placeholder);
                    *taken
                }
                None => {
                    out.push(first);
                    first.len_utf8()
                }
            };
            rest = &rest[taken..];
        }
        out
    }

    /// What stands at the start of `text` and must not stay: its length and what to write instead.
    fn placeholder(&mut self, text: &str) -> Option<(usize, String)> {
        if matches(UUID, text) {
            let number = self.numbered(&text[..UUID.len()], UUID);
            return Some((UUID.len(), format!("{UUID_PLACEHOLDER}{number:012}")));
        }
        if let Some((template, fixed)) = TIMES.iter().find(|(template, _)| matches(template, text)) {
            return Some((template.len(), (*fixed).to_owned()));
        }
        if let Some(shell) = LOGIN_SHELLS.into_iter().find(|shell| text.starts_with(shell)) {
            return Some((shell.len(), LOGIN_SHELLS[0].to_owned()));
        }
        if let Some(port) = text.strip_prefix("127.0.0.1:") {
            let digits = port.len() - port.trim_start_matches(|c: char| c.is_ascii_digit()).len();
            return Some((text.len() - port.len() + digits, "127.0.0.1:PORT".to_owned()));
        }
        let prefix = PROVIDER_IDS.into_iter().find(|prefix| text.starts_with(prefix))?;
        let end = text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(text.len());
        let number = self.numbered(&text[..end], prefix);
        Some((end, format!("{prefix}{number}")))
    }

    fn numbered(&mut self, id: &str, form: &'static str) -> usize {
        if let Some(&number) = self.ids.get(id) {
            return number;
        }
        let count = self.counts.entry(form).or_default();
        *count += 1;
        self.ids.insert(id.to_owned(), *count);
        *count
    }
}

fn is_time(key: &str) -> bool {
    key.ends_with("At") || key.ends_with("Ms")
}

/// `probe/1.2.3 (Debian 12; x86_64) xterm (probe; 0.1)` without the system and the terminal.
fn plain_agent(agent: &str) -> String {
    let parts = agent.split_once(" (").zip(agent.rsplit_once(" ("));
    parts.map_or_else(|| agent.to_owned(), |((name, _), (_, client))| format!("{name} (SYSTEM) TERMINAL ({client}"))
}

/// Whether `text` begins as the template says: `h` is a lower-case hexadecimal digit, `d` a digit.
fn matches(template: &str, text: &str) -> bool {
    text.len() >= template.len()
        && template.bytes().zip(text.bytes()).all(|(wanted, byte)| match wanted {
            b'h' => matches!(byte, b'0'..=b'9' | b'a'..=b'f'),
            b'd' => byte.is_ascii_digit(),
            literal => byte == literal,
        })
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
