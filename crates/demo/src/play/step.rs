//! The vocabulary of markers and scripts: one step in words, such as `slow 20 50` or `shell touch a`.

use std::num::ParseIntError;
use std::time::Duration;

use crate::answers::AnswerFault;
use crate::outputs::{Ending, Grandchild};

/// One step of a turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Step {
    /// `text`: "Hello from mock." in four deltas. `say WORDS`: those words, one delta each.
    Say(Vec<String>),
    /// `remark WORDS`: those words as commentary, then the final answer.
    Remark(Vec<String>),
    /// `deltas N` or `flood N`: N deltas at full speed.
    Deltas { count: u64 },
    /// `slow N MS`: N deltas with a pause after each.
    Slow { count: u64, pause: Duration },
    /// `see`: how many images came with the prompt.
    See,
    /// `reason`: reasoning with two summary parts and raw text, then a message.
    Reason,
    /// `shell CMD`, `shellesc CMD`: a command, made up; the second asks for more rights than the sandbox gives.
    Shell { command: String, escalated: bool },
    /// `patch PATH TEXT`: a patch that adds a file, made up.
    Patch { path: String, text: String },
    /// `plan`: a plan of three steps.
    Plan,
    /// `propose`: a message that proposes a plan, which is an item of its own in plan mode.
    Propose,
    /// `tool NAME JSON`: a call of a client's tool; NAME may be `namespace.name`.
    Tool { name: String, arguments: String },
    /// `tools NAME N`: N calls in one response.
    Tools { name: String, count: u64 },
    /// `json OBJ`: a message whose text is OBJ.
    Json(String),
    /// `http CODE`: the provider refuses every time. `httponce CODE`: the first time only.
    Http { code: u16, once: bool },
    /// `ctx`: the context window is full.
    ContextOverflow,
    /// `quota`: the account's quota is used up.
    Quota,
    /// `drop`: the provider cuts the stream.
    Drop,
    /// `hang`: the provider never answers.
    Hang,
    /// `offline N MS`: N reports that the provider is tried again, with a pause after each, then the failure.
    Offline { reports: u64, pause: Duration },
    /// No marker: a helpful answer.
    Friendly,
    /// What no real worker should do.
    Fault(Fault),
}

/// What no real worker should do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// `partial MS`: half a line, a pause, the rest. `partial exit`: half a line, then the end.
    HalfLine { rest: Rest },
    /// `garbage`: a line that is no JSON.
    Garbage,
    /// `utf8`: a line that is no UTF-8.
    InvalidUtf8,
    /// `line BYTES`: one delta line of that size.
    LongLine { bytes: u64 },
    /// `deep N`: a line nested so deeply.
    DeepJson { depth: usize },
    /// `crash K exit CODE`, `crash K abort`, `crash K kill`: the end after the K-th delta.
    Crash { after: u64, ending: Ending },
    /// `stderr BYTES`: noise on standard error.
    Noise { bytes: u64 },
    /// `orphan group`, `orphan own`: a process that is left behind.
    Leave(Grandchild),
    /// `sigterm`: SIGTERM is ignored from now on.
    IgnoreTerminate,
    /// `answers swapped`, `answers twice`, `answers unknown`, `answers right`: how calls are answered from now on.
    Answers(AnswerFault),
    /// `overload K`: every K-th call from now on is refused with -32001; 0 ends it.
    Overload { every: u64 },
}

/// What follows half a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rest {
    After(Duration),
    Never,
}

/// A step that is none.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum StepError {
    #[error("unknown step `{0}`; steps are {names}", names = NAMES.join(", "))]
    Unknown(String),
    #[error("step `{step}`: {wanted}")]
    Argument { step: String, wanted: &'static str },
    #[error("step `{step}`: {error}")]
    Number { step: String, error: ParseIntError },
}

const NAMES: &[&str] = &[
    "text", "say", "remark", "deltas", "flood", "slow", "see", "reason", "shell", "shellesc", "patch", "plan",
    "propose", "tool", "tools", "json", "http", "httponce", "ctx", "quota", "drop", "hang", "offline", "friendly",
    "partial", "garbage", "utf8", "line", "deep", "crash", "stderr", "orphan", "sigterm", "answers", "overload",
];

impl Step {
    /// What is said once a tool has given its result.
    pub(crate) fn after_tool() -> Self {
        Self::Say(["Done ", "after ", "tool."].map(str::to_owned).to_vec())
    }

    /// Reads a step in words.
    pub(crate) fn parse(words: &str) -> Result<Self, StepError> {
        let words = words.trim();
        let (name, argument) = words.split_once(char::is_whitespace).unwrap_or((words, ""));
        let reader = Reader { step: words, argument: argument.trim() };
        Ok(match name {
            "text" => Self::Say(["Hello ", "from ", "mock", "."].map(str::to_owned).to_vec()),
            "say" => Self::Say(reader.argument.split_inclusive(' ').map(str::to_owned).collect()),
            "remark" => Self::Remark(reader.argument.split_inclusive(' ').map(str::to_owned).collect()),
            "deltas" | "flood" => Self::Deltas { count: reader.number(0, 100)? },
            "slow" => Self::Slow { count: reader.number(0, 20)?, pause: reader.milliseconds(1, 200)? },
            "see" => Self::See,
            "reason" => Self::Reason,
            "shell" => Self::Shell { command: reader.argument.to_owned(), escalated: false },
            "shellesc" => Self::Shell { command: reader.argument.to_owned(), escalated: true },
            "patch" => {
                let (path, text) = reader.split("hello");
                Self::Patch { path, text }
            }
            "plan" => Self::Plan,
            "propose" => Self::Propose,
            "tool" => {
                let (name, arguments) = reader.split("{}");
                Self::Tool { name, arguments }
            }
            "tools" => Self::Tools { name: reader.split("").0, count: reader.number(1, 2)? },
            "json" => Self::Json(reader.argument.to_owned()),
            "http" => Self::Http { code: reader.number(0, 500)?, once: false },
            "httponce" => Self::Http { code: reader.number(0, 500)?, once: true },
            "ctx" => Self::ContextOverflow,
            "quota" => Self::Quota,
            "drop" => Self::Drop,
            "hang" => Self::Hang,
            "offline" => Self::Offline { reports: reader.number(0, 5)?, pause: reader.milliseconds(1, 200)? },
            "friendly" => Self::Friendly,
            _ => Self::Fault(Fault::parse(name, &reader)?),
        })
    }
}

impl Fault {
    fn parse(name: &str, reader: &Reader<'_>) -> Result<Self, StepError> {
        Ok(match name {
            "partial" if reader.argument == "exit" => Self::HalfLine { rest: Rest::Never },
            "partial" => Self::HalfLine { rest: Rest::After(reader.milliseconds(0, 200)?) },
            "garbage" => Self::Garbage,
            "utf8" => Self::InvalidUtf8,
            "line" => Self::LongLine { bytes: reader.number(0, 1_000_000)? },
            "deep" => Self::DeepJson { depth: reader.number(0, 1000)? },
            "crash" => Self::Crash { after: reader.number(0, 0)?, ending: reader.ending()? },
            "stderr" => Self::Noise { bytes: reader.number(0, 1_000_000)? },
            "orphan" => Self::Leave(match reader.argument {
                "" | "group" => Grandchild::InGroup,
                "own" => Grandchild::Apart,
                _ => return Err(reader.wanted("`group` or `own`")),
            }),
            "sigterm" => Self::IgnoreTerminate,
            "answers" => {
                Self::Answers(AnswerFault::parse(reader.argument).ok_or_else(|| reader.wanted(AnswerFault::NAMES))?)
            }
            "overload" => Self::Overload { every: reader.number(0, 2)? },
            _ => return Err(StepError::Unknown(name.to_owned())),
        })
    }
}

/// The argument of a step, read piece by piece.
struct Reader<'a> {
    step: &'a str,
    argument: &'a str,
}

impl Reader<'_> {
    fn number<N: std::str::FromStr<Err = ParseIntError>>(&self, at: usize, default: N) -> Result<N, StepError> {
        let Some(word) = self.argument.split_whitespace().nth(at) else {
            return Ok(default);
        };
        word.parse().map_err(|error| StepError::Number { step: self.step.to_owned(), error })
    }

    fn milliseconds(&self, at: usize, default: u64) -> Result<Duration, StepError> {
        self.number(at, default).map(Duration::from_millis)
    }

    /// The first word and what follows it.
    fn split(&self, default: &str) -> (String, String) {
        let (first, rest) = self.argument.split_once(' ').unwrap_or((self.argument, default));
        (first.to_owned(), rest.trim().to_owned())
    }

    fn ending(&self) -> Result<Ending, StepError> {
        match self.argument.split_whitespace().nth(1) {
            None | Some("exit") => Ok(Ending::Exit(self.number(2, 1)?)),
            Some("abort") => Ok(Ending::Abort),
            Some("kill") => Ok(Ending::Kill),
            Some(_) => Err(self.wanted("`exit CODE`, `abort` or `kill`")),
        }
    }

    fn wanted(&self, wanted: &'static str) -> StepError {
        StepError::Argument { step: self.step.to_owned(), wanted }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Fault, Step};
    use crate::outputs::Ending;

    #[test]
    fn arguments_have_defaults() {
        assert_eq!(Step::parse("slow 3"), Ok(Step::Slow { count: 3, pause: Duration::from_millis(200) }));
        assert_eq!(Step::parse("crash 5 exit 3"), Ok(Step::Fault(Fault::Crash { after: 5, ending: Ending::Exit(3) })));
    }

    #[test]
    fn a_wrong_step_is_named() {
        let message = |step| Step::parse(step).unwrap_err().to_string();
        assert!(message("dance").starts_with("unknown step `dance`; steps are text, say"));
        assert_eq!(message("deltas many"), "step `deltas many`: invalid digit found in string");
        assert_eq!(message("orphan far"), "step `orphan far`: `group` or `own`");
    }
}
