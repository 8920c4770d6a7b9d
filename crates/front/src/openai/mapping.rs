//! `docs/mapping.md`, made of the tables that the code uses, and of what the code does with one event of each kind.

use std::fmt::Write as _;

use codex::{Item, RequestKind, TurnError, TurnEvent, TurnStatus, Usage};
use expect_test::expect_file;
use serde_json::{Value, json};

use super::failure::{Comes, KINDS, PROVIDER_CODES, STATUSES};
use super::history::History;
use super::parameters::{Fate, Parameter, TABLE};
use super::reading::{End, Piece, Reading};
use super::request::Request;
use crate::error::Code;

const INTRODUCTION: &str = "\
# From the OpenAI API to a worker, and back

What becomes of each parameter of `/v1/chat/completions`, of each event of a turn, and of each failure. This page is made by the
tests from the tables that the code uses; `UPDATE_EXPECT=1 cargo test -p front mapping` makes it anew.

`null` means the same as a parameter that is not there, and what is in no table is passed over. What is *ignored* is named in the
response's `x-switchboard-ignored`.
";

const HISTORY: &str = "
## How a conversation reaches the model

| message | becomes |
|---|---|
| `system`, `developer` in front | the thread's developer instructions, put together with an empty line between; `codex-plain` has no others |
| `system`, `developer` later | a developer message in the history |
| `user` at the end | the input of the turn: text and images |
| `user` elsewhere | a user message in the history |
| `assistant` | an assistant message, and a function call for each of `tool_calls` |
| `tool`, `function` | the output of that call |

If a thread of the same key stands exactly where the conversation was last answered, it goes on: its prompt cache and what the
agent remembers are kept. If somebody else is just going on with it, it is forked there. In all other cases, an edited history
among them, and where several threads stand at the same place, a new thread is told everything. Profile, effort, model, instructions, tools and verbosity are part of what must be the same.

A call of the caller's tool ends the answer with `tool_calls`, and the turn waits for at most `tool_call_timeout`. The request that
brings the results sets the very same turn going again; if it does not wait any more, a new thread is told everything, and
goes on from the results. Calls of one message of the model belong to one answer where the worker tells how many there are;
otherwise those that come within 300 ms of each other do, and a later one is the next answer's.
";

const STREAMS: &str = "
## Streams

The role comes at once, also while the turn waits for its place; then pieces as the worker sends them, `: ping` every 10 s while there is nothing
to say, one chunk with `finish_reason`, the usage if it was asked for, `[DONE]`. There are no `id` lines. A failure after the first byte is an
object with `error`, and then the end, without `[DONE]`. Messages of one turn are put apart by an empty line; remarks on the way (`phase: commentary`)
are reasoning. `reasoning_content` and `reasoning` say the same. If the caller goes, its turn is interrupted, unless it waits for a
tool or a decision. Every answer has `usage`, the worker's own count. An answer that a `stop` text ends is interrupted, and what the worker does
not report of it within a second is estimated, one token for four bytes. Where tools are wanted on a thread that was resumed, the worker reports only later:
`usage` is then zero, and the next answer has the tokens of both.

If the provider breaks off in the middle of a message and the worker asks it again, a whole answer has the message once; a stream has told
its beginning already, and tells it anew after an empty line.

## Once and only once

A request with the header `Idempotency-Key` (1 to 255 characters, of one key's own) is answered once: whoever sends the same request under the
same name again joins the answer that is being given, or has the last 1,024 answers (64 MiB) again, until the server restarts. The turn
goes on for a minute when its callers have gone, and for as long as a person has to decide something. Without the header, whoever asks
the same question again while its turn waits for a decision reads on from there. What fails after a turn has begun carries
`x-should-retry: false`, so that clients do not repeat it by themselves. What was refused before a turn had begun is not given again,
also where its stream was open already: the next request under the same name is a new one. An answer of more than 8 MiB breaks off,
as it could not be given again: ask for such a one without the header. 256 such requests are answered at a time, 64 of them for one key; one
more is refused with 429 and `retry-after`.
";

#[test]
fn the_page_is_as_the_code_is() {
    let mut page = String::from(INTRODUCTION);
    page += "\n## Parameters\n\n";
    page += &parameters(TABLE);
    page += HISTORY;
    page += "\n## Events\n\n| event | becomes |\n|---|---|\n";
    for (event, note) in samples() {
        let kind = json!(event)["type"].as_str().unwrap_or_default().to_owned();
        writeln!(page, "| `{kind}` | {}{note} |", becomes(&event)).unwrap();
    }
    page += STREAMS;
    page += "\n## Failures\n\nThe worker's class of the error, or ours:\n\n| class | status | `type` | `code` |\n|---|---|---|---|\n";
    for (kind, comes) in KINDS {
        let cells = match comes {
            Comes::To(code) => cells(*code),
            Comes::ByStatus => {
                "by the provider's own code if the message holds one, or else its status, below | | ".into()
            }
            Comes::ByProviderCode => "by the provider's own code, below, if the message holds its answer | | ".into(),
        };
        writeln!(page, "| `{kind}` | {cells} |").unwrap();
    }
    page += "\nThe model provider's status:\n\n| status | becomes | `type` | `code` |\n|---|---|---|---|\n";
    for (status, code) in STATUSES {
        writeln!(page, "| {status} | {} |", cells(*code)).unwrap();
    }
    writeln!(page, "| any other | {} |", cells(Code::ProviderFailed)).unwrap();
    page += "\nThe model provider's own code:\n\n| code | becomes | `type` | `code` |\n|---|---|---|---|\n";
    for (name, code) in PROVIDER_CODES {
        writeln!(page, "| `{name}` | {} |", cells(*code)).unwrap();
    }
    writeln!(page, "| any other | {} |", cells(Code::ProviderRejected)).unwrap();
    expect_file!["../../../../docs/mapping.md"].assert_eq(&page);
}

#[test]
fn the_readme_has_every_parameter() {
    let readme = include_str!("../../../../README.md");
    let table = parameters(TABLE);
    assert!(readme.contains(&table), "README.md lacks this table of all parameters:\n{table}");
}

/// The rows of a table of parameters, as they are shown.
pub(super) fn parameters(rows: &[Parameter]) -> String {
    let mut table = String::from("| parameter | done by | how |\n|---|---|---|\n");
    for row in rows {
        let fate = match row.fate {
            Fate::Worker => "worker",
            Fate::Ours => "Switchboard",
            Fate::Ignored => "ignored",
            Fate::Refused => "refused",
        };
        writeln!(table, "| `{}` | {fate} | {} |", row.name, row.note).unwrap();
    }
    table
}

fn cells(code: Code) -> String {
    let (status, kind, name) = code.row();
    format!("{} | `{kind}` | `{name}`", status.as_u16())
}

/// What the code makes of an event.
fn becomes(event: &TurnEvent) -> String {
    let body = json!({
        "model": "codex", "messages": [{"role": "user", "content": "hi"}],
        "tools": [{"type": "function", "function": {"name": "look"}}],
    });
    let request = Request::read(&body).unwrap();
    let mut reading = Reading::new(&request, true, &History::new(&[]));
    let mut made = Vec::new();
    let end = reading.handle_event(event, |piece| {
        made.push(match piece {
            Piece::Content(_) => "`content`",
            Piece::Reasoning(_) => "`reasoning_content`",
            Piece::Call(_) => "`tool_calls`",
            Piece::Message(_) | Piece::Thought(_) | Piece::Work(_) | Piece::TakenBack => return,
        });
    });
    made.extend(end.map(|end| match end {
        End::Said => "`finish_reason: stop`",
        End::ToolsWanted => "`finish_reason: tool_calls`",
        End::Failed(_) => "an `error`",
    }));
    made.extend(reading.usage().map(|_| "`usage`"));
    if made.is_empty() { "nothing".into() } else { made.join(", ") }
}

/// One event of each kind, and what is to be said of it.
fn samples() -> Vec<(TurnEvent, &'static str)> {
    let item = |raw: Value| -> Item {
        let (id, kind) = (raw["id"].as_str().unwrap().into(), raw["kind"].as_str().unwrap().into());
        Item { id, kind, status: Some("completed".into()), raw: codex::Json::of(&raw).unwrap() }
    };
    let command = || item(json!({"id": "i", "kind": "command_execution", "command": "ls"}));
    let edit = item(json!({"id": "i", "kind": "file_change", "changes": [{"path": "a"}]}));
    let raw = || codex::Json::new("{}").unwrap();
    let all = vec![
        TurnEvent::TurnStarted { thread: "t".into(), turn: "u".into() },
        TurnEvent::Text { item: "i".into(), text: "a".into() },
        TurnEvent::Reasoning { item: "i".into(), index: 0, text: "a".into() },
        TurnEvent::ReasoningSummary { item: "i".into(), index: 0, text: "a".into() },
        TurnEvent::ReasoningPart { item: "i".into(), index: 1 },
        TurnEvent::Plan { explanation: None, steps: Vec::new() },
        TurnEvent::Diff { diff: "d".into() },
        TurnEvent::ItemStarted { item: command() },
        TurnEvent::ItemCompleted { item: edit },
        TurnEvent::CommandOutput { item: "i".into(), text: "a".into() },
        TurnEvent::TerminalInteraction { item: "i".into(), process: "p".into(), input: "a".into() },
        TurnEvent::FileChangeOutput { item: "i".into(), text: "a".into() },
        TurnEvent::ToolProgress { item: "i".into(), message: "m".into() },
        TurnEvent::Compacted,
        TurnEvent::TokenUsage { last: Usage::default(), total: Usage::default(), context_window: None },
        TurnEvent::Warning { message: "m".into() },
        TurnEvent::Error { error: error(), will_retry: true },
        TurnEvent::ApprovalWanted { request: "r".into(), kind: RequestKind::Command, item: None, params: raw() },
        TurnEvent::ToolChosen { call: "c".into(), tool: "look".into(), arguments: "{}".into() },
        TurnEvent::ModelAnswered { usage: Some(Usage::default()) },
        TurnEvent::ToolWanted {
            request: "r".into(),
            call: "c".into(),
            namespace: None,
            tool: "look".into(),
            arguments: raw(),
        },
        TurnEvent::ApprovalResolved { request: "r".into() },
        TurnEvent::Cut { events: 1, bytes: 1 },
        TurnEvent::TurnEnded { status: TurnStatus::Completed, error: None },
        TurnEvent::Raw { method: "m".into(), params: raw() },
    ];
    let noted = all.into_iter().map(|event| {
        let note = note(&event);
        (event, note)
    });
    noted.collect()
}

/// Every kind of event has its row: a new one does not compile without.
fn note(event: &TurnEvent) -> &'static str {
    match event {
        TurnEvent::TurnStarted { .. } => ": the role was told before",
        TurnEvent::Text { .. } => ", as the worker wrote it",
        TurnEvent::Reasoning { .. } | TurnEvent::ReasoningSummary { .. } => "",
        TurnEvent::ReasoningPart { .. } => ": an empty line, from the second part on",
        TurnEvent::Plan { .. } => ": its steps, unless the profile has `show_work = false`",
        TurnEvent::Diff { .. } => ": the edits were told one by one",
        TurnEvent::ItemStarted { .. } => {
            ": a command or a tool server's tool, unless the profile has `show_work = false`"
        }
        TurnEvent::ItemCompleted { .. } => {
            ": an edit, a search, a failure, unless the profile has `show_work = false`; a message that was told in no pieces is `content`"
        }
        TurnEvent::CommandOutput { .. } | TurnEvent::FileChangeOutput { .. } => ": it can be of any length",
        TurnEvent::TerminalInteraction { .. } => ": part of a command",
        TurnEvent::ToolProgress { .. } | TurnEvent::Compacted => ", unless the profile has `show_work = false`",
        TurnEvent::TokenUsage { .. } => "",
        TurnEvent::Warning { .. } => ": it is about the worker, and in the log",
        TurnEvent::Error { .. } => ": that the worker tries again; a last error comes with the turn's end",
        TurnEvent::ApprovalWanted { .. } => ": where to decide it; the stream stays open",
        TurnEvent::ToolChosen { .. } => ": it tells which calls belong together",
        TurnEvent::ModelAnswered { .. } => ", in time where tools are wanted; all calls of the message are known then",
        TurnEvent::ToolWanted { .. } => ", and `finish_reason: tool_calls` after the last of the message",
        TurnEvent::ApprovalResolved { .. } => "",
        TurnEvent::Cut { .. } => ": the turn is interrupted, and ends with `slow_consumer`",
        TurnEvent::TurnEnded { .. } => " if it completed, else an `error`, see below",
        TurnEvent::Raw { .. } => ": nobody knows what it means",
    }
}

fn error() -> TurnError {
    TurnError { message: "m".into(), kind: None, http_status: None, details: None }
}
