//! Exchange scripts: what a client says to a worker and what it waits for, one step a line.
//!
//! ```text
//! # a comment; a line that begins with a space continues the one before
//! include handshake                        the steps of handshake.part
//! call METHOD [PARAMS] [as NAME]           calls, waits for the answer
//! send METHOD [PARAMS] [as NAME]           calls, does not wait
//! answered NAME | ID                       waits for the answer to a `send`, or to a raw line with that id
//! notify METHOD [PARAMS]
//! wait METHOD [PARAMS] [xN] [as NAME]      N notifications or requests, each taken once, whose params hold PARAMS
//! answer METHOD RESULT                     waits for a request and answers it
//! refuse METHOD ERROR                      waits for a request and answers it with an error
//! reply NAME RESULT                        answers a request that `wait … as NAME` took
//! raw BYTES                                as they are, with \n \r \t \\ \xHH
//! restart | kill                           ends the worker (stdin closed | SIGKILL) and starts it again
//! exit                                     waits for the worker to end by itself
//! ```
//!
//! In PARAMS, RESULT and ERROR a string may hold `$CWD` and `$NAME.path.to.value`, from the result of the call or the
//! params of the message of that name (`$$` is a dollar).

use std::path::Path;
use std::{fs, io};

use serde_json::Value;

/// A parsed exchange script.
#[derive(Debug)]
pub struct Script {
    /// The file's name without its ending.
    pub name: String,
    pub(crate) steps: Vec<Step>,
}

impl Script {
    /// Reads `NAME.script`, and the parts it includes from the same directory.
    pub fn load(path: &Path) -> Result<Self, ScriptError> {
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let directory = path.parent().unwrap_or(Path::new("."));
        let mut steps = Vec::new();
        parse(&read(path)?, &name, &mut steps, &|part| read(&directory.join(format!("{part}.part"))))?;
        Ok(Self { name, steps })
    }
}

/// What is wrong with a script.
#[derive(Debug, thiserror::Error)]
pub enum ScriptError {
    /// A file cannot be read.
    #[error("cannot read {path}: {cause}")]
    Unreadable {
        /// The file.
        path: String,
        /// What the system says.
        cause: io::Error,
    },
    /// A line has no meaning.
    #[error("{script}, line {line}: {reason}")]
    Meaningless {
        /// The script or part.
        script: String,
        /// Counted from one.
        line: usize,
        /// What is wrong.
        reason: String,
    },
}

/// One step and where it stands.
#[derive(Debug)]
pub(crate) struct Step {
    pub line: usize,
    pub source: String,
    pub action: Action,
}

/// Everything a script can do.
#[derive(Debug)]
pub(crate) enum Action {
    Call(Call),
    Send(Call),
    Answered(Answered),
    Notify { method: String, params: Option<Value> },
    Wait { method: String, params: Option<Value>, count: usize, name: Option<String> },
    Answer { method: String, reply: Reply },
    Reply { name: String, reply: Reply },
    Raw(Vec<u8>),
    Restart(Ending),
    Exit,
}

#[derive(Debug)]
pub(crate) struct Call {
    pub method: String,
    pub params: Option<Value>,
    pub name: Option<String>,
}

/// Which answer is waited for.
#[derive(Debug)]
pub(crate) enum Answered {
    Call(String),
    Id(Value),
}

#[derive(Debug)]
pub(crate) enum Reply {
    Result(Value),
    Error(Value),
}

/// How a worker is ended before it is started again.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Ending {
    StdinClosed,
    Killed,
}

fn read(path: &Path) -> Result<String, ScriptError> {
    fs::read_to_string(path).map_err(|cause| ScriptError::Unreadable { path: path.display().to_string(), cause })
}

fn parse(
    text: &str,
    script: &str,
    steps: &mut Vec<Step>,
    part: &dyn Fn(&str) -> Result<String, ScriptError>,
) -> Result<(), ScriptError> {
    for (line, source) in logical_lines(text) {
        if let Some(name) = source.strip_prefix("include ") {
            parse(&part(name.trim())?, name.trim(), steps, part)?;
            continue;
        }
        let action = Words(&source).action().map_err(|reason| ScriptError::Meaningless {
            script: script.to_owned(),
            line,
            reason,
        })?;
        steps.push(Step { line, source, action });
    }
    Ok(())
}

/// The lines without comments and blanks, each joined with those that continue it.
fn logical_lines(text: &str) -> Vec<(usize, String)> {
    let mut lines: Vec<(usize, String)> = Vec::new();
    for (index, line) in text.lines().enumerate() {
        if line.trim().is_empty() || line.starts_with('#') {
            continue;
        }
        match lines.last_mut() {
            Some((_, start)) if line.starts_with(' ') => {
                start.push(' ');
                start.push_str(line.trim());
            }
            _ => lines.push((index + 1, line.trim_end().to_owned())),
        }
    }
    lines
}

/// What is left to read of a line.
struct Words<'a>(&'a str);

impl Words<'_> {
    fn action(mut self) -> Result<Action, String> {
        let verb = self.word("a verb")?;
        let action = match verb.as_str() {
            "call" => Action::Call(self.call()?),
            "send" => Action::Send(self.call()?),
            "answered" => Action::Answered(self.answered()?),
            "notify" => Action::Notify { method: self.word("a method")?, params: self.optional_json()? },
            "wait" => Action::Wait {
                method: self.word("a method")?,
                params: self.optional_json()?,
                count: self.count()?,
                name: self.name()?,
            },
            "answer" => Action::Answer { method: self.word("a method")?, reply: Reply::Result(self.json()?) },
            "refuse" => Action::Answer { method: self.word("a method")?, reply: Reply::Error(self.json()?) },
            "reply" => Action::Reply { name: self.word("a name")?, reply: Reply::Result(self.json()?) },
            "raw" => Action::Raw(unescape(std::mem::take(&mut self.0))?),
            "restart" => Action::Restart(Ending::StdinClosed),
            "kill" => Action::Restart(Ending::Killed),
            "exit" => Action::Exit,
            other => return Err(format!("unknown verb `{other}`")),
        };
        if self.0.is_empty() { Ok(action) } else { Err(format!("nothing may follow here: `{}`", self.0)) }
    }

    fn word(&mut self, what: &str) -> Result<String, String> {
        let (word, rest) = self.0.split_once(' ').unwrap_or((self.0, ""));
        self.0 = rest.trim_start();
        if word.is_empty() { Err(format!("{what} is missing")) } else { Ok(word.to_owned()) }
    }

    fn call(&mut self) -> Result<Call, String> {
        Ok(Call { method: self.word("a method")?, params: self.optional_json()?, name: self.name()? })
    }

    fn answered(&mut self) -> Result<Answered, String> {
        let word = self.word("a name or an id")?;
        Ok(serde_json::from_str(&word).map_or(Answered::Call(word), Answered::Id))
    }

    fn json(&mut self) -> Result<Value, String> {
        let mut values = serde_json::Deserializer::from_str(self.0).into_iter::<Value>();
        let value = values.next().ok_or("JSON is missing")?.map_err(|error| format!("not JSON: {error}"))?;
        self.0 = self.0[values.byte_offset()..].trim_start();
        Ok(value)
    }

    fn optional_json(&mut self) -> Result<Option<Value>, String> {
        if self.0.starts_with(['{', '[']) { self.json().map(Some) } else { Ok(None) }
    }

    fn count(&mut self) -> Result<usize, String> {
        let digits = self.0.strip_prefix('x').filter(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
        if digits.is_none() {
            return Ok(1);
        }
        self.word("a count")?[1..].parse().map_err(|error| format!("not a count: {error}"))
    }

    fn name(&mut self) -> Result<Option<String>, String> {
        match self.0.strip_prefix("as ") {
            None => Ok(None),
            Some(rest) => {
                self.0 = rest;
                self.word("a name").map(Some)
            }
        }
    }
}

fn unescape(text: &str) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('\\') {
        bytes.extend_from_slice(before.as_bytes());
        let mut escape = after.chars();
        match escape.next() {
            Some('n') => bytes.push(b'\n'),
            Some('r') => bytes.push(b'\r'),
            Some('t') => bytes.push(b'\t'),
            Some('\\') => bytes.push(b'\\'),
            Some('x') => {
                let digits = escape.as_str().get(..2).ok_or("\\x wants two digits")?;
                bytes.push(u8::from_str_radix(digits, 16).map_err(|error| format!("\\x{digits}: {error}"))?);
                escape.nth(1);
            }
            other => return Err(format!("unknown escape {other:?}")),
        }
        rest = escape.as_str();
    }
    bytes.extend_from_slice(rest.as_bytes());
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::{ScriptError, parse};

    fn check(text: &str, expected: &Expect) {
        let mut steps = Vec::new();
        let part = |name: &str| match name {
            "handshake" => Ok("notify initialized\n".to_owned()),
            _ => Err(ScriptError::Unreadable { path: name.to_owned(), cause: std::io::ErrorKind::NotFound.into() }),
        };
        let outcome = parse(text, "case", &mut steps, &part);
        let mut shown: String = steps.iter().map(|step| format!("{}: {:?}\n", step.line, step.action)).collect();
        if let Err(error) = outcome {
            shown.push_str(&error.to_string());
        }
        expected.assert_eq(&shown);
    }

    #[test]
    fn every_kind_of_line_is_read() {
        check(
            r#"# a comment
include handshake
call thread/start {"cwd":
  "$CWD"} as thread
wait item/agentMessage/delta {"itemId":"x"} x3 as delta
answered "abc"
answered steer
raw \xff\n
"#,
            &expect![[r#"
                1: Notify { method: "initialized", params: None }
                3: Call(Call { method: "thread/start", params: Some(Object {"cwd": String("$CWD")}), name: Some("thread") })
                5: Wait { method: "item/agentMessage/delta", params: Some(Object {"itemId": String("x")}), count: 3, name: Some("delta") }
                6: Answered(Id(String("abc")))
                7: Answered(Call("steer"))
                8: Raw([255, 10])
            "#]],
        );
    }

    #[test]
    fn a_mistake_names_its_line() {
        check("\nshout hello\n", &expect!["case, line 2: unknown verb `shout`"]);
        check("call x {\"a\":}\n", &expect!["case, line 1: not JSON: expected value at line 1 column 6"]);
        check("exit now\n", &expect!["case, line 1: nothing may follow here: `now`"]);
    }
}
