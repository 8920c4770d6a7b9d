//! The output of a turn as its worker has it on record, for a response that nobody here has read to its end.

use codex::{Text, TurnError, TurnStatus};
use serde_json::{Value, json};

use super::super::failure::{failure, incomplete_reason};
use super::super::message::ToolCall;
use super::super::reading::{Phase, Piece, Thought};
use super::super::tools::declared_name;
use super::object::{Name, Status};
use super::output::Output;
use crate::unix_seconds;

/// Why there is no end of a turn that its worker knows no failure of.
const RESTARTED: &str = "the server was restarted before the response came to its end; what it had begun may have run";

/// What became of a response.
pub(crate) enum Fate {
    /// Its turn is over.
    Over,
    /// Its turn waits for these calls, as they are on record.
    CallsWanted(Vec<ToolCall>),
    /// Somebody gave it up; its turn may have come to its end all the same.
    Cancelled,
}

/// Gives a response that was in progress its end: as the turn has it, or with the reason for which there is none. What comes before the
/// outputs that it was asked with was told by the response before it.
pub(crate) fn settle(
    name: &Name,
    response: &mut Value,
    answered: &[&str],
    turn: Option<&Value>,
    fate: &Fate,
) -> Status {
    let error = turn.map(|turn| &turn["error"]).filter(|error| !error.is_null());
    let failure = error.map(|error| failure(TurnStatus::Failed, Some(&TurnError::recorded(error))));
    let reason = failure.as_ref().and_then(incomplete_reason);
    let status = match (fate, turn.map(|turn| turn["status"].as_str().unwrap_or_default())) {
        (Fate::CallsWanted(_), _) | (_, Some("completed")) => Status::Completed,
        (Fate::Cancelled, _) => Status::Cancelled,
        (Fate::Over, _) if reason.is_some() => Status::Incomplete,
        (Fate::Over, _) => Status::Failed,
    };
    let mut output = Output::unheard(name);
    let items = turn.and_then(|turn| turn["items"].as_array()).map_or(&[][..], Vec::as_slice);
    let is_answered = |item: &Value| item["id"].as_str().is_some_and(|id| answered.contains(&id));
    let told = items.iter().rposition(is_answered).map_or(0, |at| at + 1);
    items[told..].iter().for_each(|item| add(&mut output, item));
    if let Fate::CallsWanted(calls) = fate {
        for call in calls {
            let is_declared = |name: &str| declares(response, name);
            let name = declared_name(&call.name, is_declared).into();
            output.add(&Piece::Call(&ToolCall { name, ..call.clone() }));
        }
    }
    output.end(status);
    let items: Vec<Value> = output.items().iter().filter_map(|item| serde_json::from_str(item).ok()).collect();
    response["output"] = items.into();
    response["status"] = status.word().into();
    if status == Status::Completed {
        response["completed_at"] = turn.map_or(Value::Null, |turn| turn["completedAt"].clone());
        if response["completed_at"].is_null() {
            response["completed_at"] = unix_seconds().into();
        }
    } else if status == Status::Incomplete {
        response["incomplete_details"] = json!({"reason": reason});
    } else if status == Status::Failed {
        response["error"] = match failure {
            Some(error) => json!({"code": error.code_name(), "message": error.message()}),
            None => json!({"code": "server_restarted", "message": RESTARTED}),
        };
    }
    status
}

fn declares(response: &Value, name: &str) -> bool {
    response["tools"].as_array().is_some_and(|tools| tools.iter().any(|tool| tool["name"] == *name))
}

fn add(output: &mut Output, item: &Value) {
    let texts = |list: &Value| -> Vec<String> {
        list.as_array().into_iter().flatten().filter_map(|text| text.as_str().map(str::to_owned)).collect()
    };
    match item["type"].as_str() {
        Some("agentMessage") => {
            let phase = match item["phase"].as_str() {
                Some("commentary") => Phase::Commentary,
                Some("final_answer") => Phase::Final,
                _ => Phase::Unsaid,
            };
            output.add(&Piece::Message(phase));
            output.add(&Piece::Content(&Text::of(item["text"].as_str().unwrap_or_default())));
        }
        Some("reasoning") => {
            for (thought, list) in [(Thought::Summary, &item["summary"]), (Thought::Itself, &item["content"])] {
                for text in texts(list) {
                    output.add(&Piece::Thought(thought));
                    output.add(&Piece::Reasoning(&Text::of(&text)));
                }
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The texts and calls of a response that is settled, and how it ended.
    fn settled(answered: &[&str], turn: Option<&Value>, fate: &Fate) -> String {
        let mut response = json!({"tools": [{"name": "shell"}, {"name": "caller_look"}], "error": null});
        let status = settle(&Name::new(), &mut response, answered, turn, fate);
        let items = response["output"].as_array().unwrap().iter().map(|item| match item["type"].as_str() {
            Some("function_call") => format!("{}({})", item["name"], item["call_id"]),
            _ => item["content"][0]["text"].to_string(),
        });
        format!("{} {}", status.word(), items.collect::<Vec<_>>().join(" ")).replace('"', "")
    }

    fn turn(status: &str) -> Value {
        json!({"status": status, "items": [
            {"type": "agentMessage", "id": "a", "text": "before"},
            {"type": "dynamicToolCall", "id": "call_1", "tool": "look", "status": "completed"},
            {"type": "agentMessage", "id": "b", "text": "behind"},
        ]})
    }

    #[test]
    fn a_response_that_brought_outputs_is_told_what_came_of_them_alone() {
        let turn = turn("completed");
        assert_eq!(settled(&["call_1"], Some(&turn), &Fate::Over), "completed behind");
        assert_eq!(settled(&[], Some(&turn), &Fate::Over), "completed before behind");
    }

    #[test]
    fn calls_that_are_waited_for_complete_a_response_under_the_callers_own_names() {
        let call = |id: &str, name: &str| ToolCall { id: id.into(), name: name.into(), arguments: "{}".into() };
        let calls = vec![call("x", "caller_shell"), call("y", "caller_look"), call("z", "other")];
        let told = settled(&["call_1"], Some(&turn("inProgress")), &Fate::CallsWanted(calls));
        assert_eq!(told, "completed behind shell(x) caller_look(y) other(z)");
    }

    #[test]
    fn a_turn_that_failed_by_itself_says_why() {
        let fails = |error: Value| {
            let mut response = json!({"tools": [], "error": null, "incomplete_details": null});
            let turn = json!({"status": "failed", "items": [], "error": error});
            let status = settle(&Name::new(), &mut response, &[], Some(&turn), &Fate::Over);
            format!("{} {} {}", status.word(), response["error"]["code"], response["incomplete_details"]["reason"])
        };
        let long = json!({"message": "too long", "codexErrorInfo": "contextWindowExceeded"});
        assert_eq!(fails(long), "failed \"context_length_exceeded\" null");
        let cut =
            json!({"message": "Incomplete response returned, reason: max_output_tokens", "codexErrorInfo": "other"});
        assert_eq!(fails(cut), "incomplete null \"max_output_tokens\"");
        assert_eq!(fails(Value::Null), "failed \"server_restarted\" null");
    }

    #[test]
    fn what_has_no_end_has_failed_unless_somebody_gave_it_up() {
        assert_eq!(settled(&[], None, &Fate::Over), "failed ");
        assert_eq!(settled(&[], Some(&turn("interrupted")), &Fate::Over), "failed before behind");
        assert_eq!(settled(&[], Some(&turn("interrupted")), &Fate::Cancelled), "cancelled before behind");
        assert_eq!(settled(&[], Some(&turn("completed")), &Fate::Cancelled), "completed before behind");
    }
}
