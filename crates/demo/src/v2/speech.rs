//! Puts what happens in a thread into v2 notifications and requests.

use serde::Serialize;
use serde_json::{Value, json};

use crate::approval::Decision;
use crate::clock::Now;
use crate::incoming::Outcome;
use crate::items::{Body, CommandAction, Item};
use crate::lines;
use crate::made_up::first_command;
use crate::speech::{Event, Happening, Stream};
use crate::stage::{Need, Stage};
use crate::thread::Thread;
use crate::v2::raw;
use crate::v2::shapes::ReadStateShape;

pub(crate) fn say(thread: &Thread, event: Event<'_>, stage: &mut Stage) {
    let thread_id = thread.id();
    let who = &thread.subscribers;
    match event {
        // Everyone hears the status of every thread, subscribed or not: so the real worker does.
        Event::Status(status) => {
            stage.tell_all("thread/status/changed", &StatusChanged { thread_id, status });
        }
        Event::Warning(message) => stage.tell(who, "warning", &Warning { thread_id, message }),
        Event::Resolved { request } => {
            let params = Resolved { thread_id, request_id: request };
            stage.tell(who, "serverRequest/resolved", &params);
        }
        Event::RateLimits => stage.tell(who, "account/rateLimits/updated", &rate_limits()),
        Event::Unread => {
            let read_state = ReadStateShape::of(&thread.read_state, thread_id);
            let params = ReadStateChanged { thread_id, read_state };
            stage.tell_those(who, Need::ExperimentalApi, "thread/readState/changed", &params);
        }
        Event::TurnStarted(turn) => stage.tell(who, "turn/started", &OfTurn { thread_id, turn }),
        Event::TurnEnded(turn) => stage.tell(who, "turn/completed", &OfTurn { thread_id, turn }),
    }
}

pub(crate) fn say_in(thread: &Thread, turn_id: &str, what: Happening<'_>, stage: &mut Stage) {
    let thread_id = thread.id();
    let who = &thread.subscribers;
    match what {
        Happening::ItemStarted(item) => {
            let started_at_ms = item.started_at_ms;
            let params = ItemStarted { item, thread_id, turn_id, started_at_ms };
            stage.tell(who, "item/started", &params);
        }
        Happening::ItemCompleted(item) => {
            let completed_at_ms = item.completed_at_ms;
            let params = ItemCompleted { item, thread_id, turn_id, completed_at_ms };
            stage.tell(who, "item/completed", &params);
        }
        // A started item says as much.
        Happening::Running(..) => {}
        Happening::SummaryPart { item, index } => {
            let params = SummaryPart { thread_id, turn_id, item_id: item, summary_index: index };
            stage.tell(who, "item/reasoning/summaryPartAdded", &params);
        }
        Happening::Delta { item, of, text } => {
            let (method, summary_index, content_index) = match of {
                Stream::Message => (DeltaFrame::METHOD, None, None),
                Stream::Plan => ("item/plan/delta", None, None),
                Stream::Summary { index } => ("item/reasoning/summaryTextDelta", Some(index), None),
                Stream::Reasoning => ("item/reasoning/textDelta", None, Some(0)),
                Stream::CommandOutput => ("item/commandExecution/outputDelta", None, None),
            };
            let delta = Delta::new(thread_id, turn_id, item, text);
            stage.tell(who, method, &Delta { summary_index, content_index, ..delta });
        }
        Happening::Usage => {
            let params = UsageUpdated { thread_id, turn_id, token_usage: &thread.usage };
            stage.tell(who, "thread/tokenUsage/updated", &params);
        }
        Happening::Plan(plan) => {
            let params = PlanUpdated { thread_id, turn_id, explanation: "Three steps.", plan };
            stage.tell(who, "turn/plan/updated", &params);
        }
        Happening::Diff(diff) => {
            stage.tell(who, "turn/diff/updated", &DiffUpdated { thread_id, turn_id, diff });
        }
        Happening::Model(said) => raw::say(thread, turn_id, &said, stage),
        Happening::Retry(error) | Happening::Failed(error) => {
            let will_retry = matches!(what, Happening::Retry(_));
            stage.tell(who, "error", &ErrorParams { error, will_retry, thread_id, turn_id });
        }
    }
}

/// The request about an item.
pub(crate) fn ask(thread: &Thread, turn: &str, request: u64, item: &Item, reason: Option<&str>) -> Vec<u8> {
    let (thread_id, turn_id) = (thread.id(), turn);
    match &item.body {
        Body::CommandExecution(command) => {
            let amendment = first_command(command.asked());
            let params = CommandApproval {
                kind: "command",
                thread_id,
                turn_id,
                item_id: &command.id,
                started_at_ms: item.started_at_ms,
                environment_id: "local",
                reason,
                command: &command.command,
                cwd: &command.cwd,
                command_actions: &command.command_actions,
                available_decisions: [
                    json!("accept"),
                    json!({"acceptWithExecpolicyAmendment": {"execpolicy_amendment": amendment}}),
                    json!("cancel"),
                ],
                proposed_execpolicy_amendment: amendment,
            };
            lines::request(request, "item/commandExecution/requestApproval", &params)
        }
        Body::DynamicToolCall(call) => {
            let params = ToolCallParams {
                thread_id,
                turn_id,
                call_id: &call.id,
                namespace: call.namespace.as_deref(),
                tool: &call.tool,
                arguments: &call.arguments,
            };
            lines::request(request, "item/tool/call", &params)
        }
        _ => {
            let params = PatchApproval {
                thread_id,
                turn_id,
                item_id: item.id(),
                started_at_ms: item.started_at_ms,
                reason: (),
                grant_root: (),
            };
            lines::request(request, "item/fileChange/requestApproval", &params)
        }
    }
}

/// What an answer to an approval request decides.
pub(crate) fn decision(outcome: &Outcome) -> Decision {
    let Outcome::Result(result) = outcome else {
        return Decision::Invalid;
    };
    let amendment = "/acceptWithExecpolicyAmendment/execpolicy_amendment";
    match &result["decision"] {
        Value::String(decision) => match decision.as_str() {
            "accept" => Decision::Accept,
            "acceptForSession" => Decision::AcceptForSession,
            "decline" => Decision::Decline,
            "cancel" => Decision::Cancel,
            _ => Decision::Invalid,
        },
        decision => match decision.pointer(amendment).and_then(Value::as_array) {
            Some(words) => Decision::AcceptPrefix(words.iter().filter_map(Value::as_str).map(str::to_owned).collect()),
            None => Decision::Invalid,
        },
    }
}

/// A message delta whose frame is formatted once for many.
pub(crate) struct DeltaFrame {
    head: Vec<u8>,
    tail: Vec<u8>,
}

impl DeltaFrame {
    pub(crate) const METHOD: &str = "item/agentMessage/delta";

    pub(crate) fn new(thread_id: &str, turn_id: &str, item_id: &str, now: Now) -> Self {
        const HOLE: &str = "\"delta\":\"\"";
        let line = lines::notification(Self::METHOD, &Delta::new(thread_id, turn_id, item_id, ""), now);
        let text = std::str::from_utf8(&line).expect("messages are UTF-8");
        let cut = text.rfind(HOLE).expect("the delta is last and empty") + HOLE.len() - 1;
        Self { head: line[..cut].to_vec(), tail: line[cut..].to_vec() }
    }

    /// Splices in text that needs no escaping.
    pub(crate) fn write_plain(&self, delta: &str, lines: &mut Vec<u8>) {
        lines.extend_from_slice(&self.head);
        lines.extend_from_slice(delta.as_bytes());
        lines.extend_from_slice(&self.tail);
    }

    pub(crate) fn write(&self, delta: &str, lines: &mut Vec<u8>) {
        let quoted = Value::from(delta).to_string();
        self.write_plain(&quoted[1..quoted.len() - 1], lines);
    }

    /// What stands before and after the text.
    pub(crate) fn halves(self) -> (Vec<u8>, Vec<u8>) {
        (self.head, self.tail)
    }
}

fn rate_limits() -> Value {
    json!({"rateLimits": {
        "limitId": "codex", "limitName": null, "normalModelSlug": null, "primary": null, "secondary": null,
        "credits": null, "individualLimit": null, "spendControlReached": null, "planType": null,
        "rateLimitReachedType": null,
    }})
}

macro_rules! params {
    ($($(#[$meta:meta])* struct $name:ident { $($(#[$field_meta:meta])* $field:ident: $type:ty,)* })*) => {
        $($(#[$meta])*
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct $name<'a> { $($(#[$field_meta])* $field: $type,)* })*
    };
}

params! {
    struct StatusChanged { thread_id: &'a str, status: crate::shapes::Status, }
    struct Warning { thread_id: &'a str, message: &'a str, }
    struct Resolved { thread_id: &'a str, request_id: u64, }
    struct OfTurn { thread_id: &'a str, turn: &'a crate::shapes::TurnShape, }
    struct ItemStarted { item: &'a Item, thread_id: &'a str, turn_id: &'a str, started_at_ms: u64, }
    struct ItemCompleted { item: &'a Item, thread_id: &'a str, turn_id: &'a str, completed_at_ms: Option<u64>, }
    struct SummaryPart { thread_id: &'a str, turn_id: &'a str, item_id: &'a str, summary_index: usize, }
    struct UsageUpdated { thread_id: &'a str, turn_id: &'a str, token_usage: &'a crate::shapes::Usage, }
    struct PlanUpdated { thread_id: &'a str, turn_id: &'a str, explanation: &'a str, plan: &'a [crate::play::PlanStep], }
    struct DiffUpdated { thread_id: &'a str, turn_id: &'a str, diff: &'a str, }
    struct ErrorParams { error: &'a crate::shapes::TurnError, will_retry: bool, thread_id: &'a str, turn_id: &'a str, }
    struct ReadStateChanged { thread_id: &'a str, read_state: ReadStateShape<'a>, }
    struct ToolCallParams {
        thread_id: &'a str, turn_id: &'a str, call_id: &'a str, namespace: Option<&'a str>, tool: &'a str,
        arguments: &'a Value,
    }
    struct PatchApproval {
        thread_id: &'a str, turn_id: &'a str, item_id: &'a str, started_at_ms: u64, reason: (), grant_root: (),
    }
    struct CommandApproval {
        kind: &'a str, thread_id: &'a str, turn_id: &'a str, item_id: &'a str, started_at_ms: u64,
        environment_id: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        reason: Option<&'a str>,
        command: &'a str, cwd: &'a str, command_actions: &'a [CommandAction],
        proposed_execpolicy_amendment: Vec<String>, available_decisions: [Value; 3],
    }
    struct Delta {
        thread_id: &'a str, turn_id: &'a str, item_id: &'a str, delta: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        summary_index: Option<usize>,
        #[serde(skip_serializing_if = "Option::is_none")]
        content_index: Option<usize>,
    }
}

impl<'a> Delta<'a> {
    fn new(thread_id: &'a str, turn_id: &'a str, item_id: &'a str, delta: &'a str) -> Self {
        Self { thread_id, turn_id, item_id, delta, summary_index: None, content_index: None }
    }
}
