//! `switchboard approvals`: what waits for a decision, and deciding it. Whoever allows something sees first what it is,
//! and what is allowed or answered is exactly that: the decision carries the hash of what was shown.

mod input;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, Subcommand};
use serde_json::{Map, Value, json};

use super::{EXIT_CODES, ServerFlags, cell, rows, segment};
use crate::escape::{escaped, escaped_line};
use crate::object;
use crate::print::table;
use crate::server::{Server, ServerError};

/// How much of a question stands in one line; the details have the whole.
const ASKED_CHARS_MAX: usize = 1_000;

#[derive(Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct Approvals {
    #[command(subcommand)]
    action: Option<Action>,
    #[command(flatten)]
    flags: ServerFlags,
}

#[derive(Subcommand)]
enum Action {
    /// List what waits for a decision (what it does without a word)
    List {
        /// Also what is decided, expired or orphaned
        #[arg(long)]
        all: bool,
    },
    /// Show everything about one approval, with its history
    Show {
        /// Its id
        id: String,
    },
    /// Allow it, and print what was allowed
    Allow {
        /// Its id
        id: String,
        /// Allow the same again until its thread is unloaded
        #[arg(long)]
        for_session: bool,
        /// Allow it only if it is what was shown with this `shown_hash`
        #[arg(long, value_name = "HASH")]
        shown_hash: Option<String>,
    },
    /// Deny it; its turn goes on without it
    Deny {
        /// Its id
        id: String,
        /// Why; the agent is told
        #[arg(long, value_name = "TEXT", default_value = "")]
        reason: String,
    },
    /// Answer what asks for input: a form of a tool server, or questions of an agent
    #[command(after_help = ANSWER_HELP)]
    Answer {
        /// Its id
        id: String,
        /// What is filled in, a JSON object; "-" reads it from stdin
        #[arg(value_name = "JSON")]
        answer: String,
        /// Answer it only if it is what was shown with this `shown_hash`
        #[arg(long, value_name = "HASH")]
        shown_hash: Option<String>,
    },
}

const ANSWER_HELP: &str = "\
Examples:
  switchboard approvals show ID                                  what is asked, and by which names
  switchboard approvals answer ID '{\"name\":\"Ada\"}'               the field `name` of a tool server's form
  switchboard approvals answer ID '{\"q1\":\"yes\",\"q2\":[\"a\",\"b\"]}'  the questions `q1` and `q2` of an agent
  switchboard approvals answer ID - <answer.json

Kinds `elicitation` and `user_input` ask for input; `deny` declines to give it. Everything else is allowed or denied.";

/// Runs the command.
pub(crate) async fn run(approvals: &Approvals) -> Result<ExitCode> {
    let flags = &approvals.flags;
    match approvals.action.as_ref().unwrap_or(&Action::List { all: false }) {
        Action::List { all } => {
            let path = if *all { "/api/approvals" } else { "/api/approvals?state=pending" };
            flags.ask(async |server| server.get(path).await, list).await
        }
        Action::Show { id } => flags.ask(async |server| get(&server, id).await, show).await,
        Action::Allow { id, for_session, shown_hash } => {
            let verdict = json!({ "verdict": if *for_session { "allow_for_session" } else { "allow" } });
            flags.ask(async |server| decide(&server, id, shown_hash.as_deref(), verdict).await, decided).await
        }
        Action::Deny { id, reason } => {
            let verdict = json!({ "verdict": "deny", "reason": reason });
            flags.ask(async |server| decide(&server, id, None, verdict).await, decided).await
        }
        Action::Answer { id, answer, shown_hash } => {
            let given = object::read(answer, "the answer")?;
            flags.ask(async |server| answered(&server, id, shown_hash.as_deref(), &given).await, decided).await
        }
    }
}

async fn get(server: &Server, id: &str) -> Result<Value, ServerError> {
    server.get(&format!("/api/approvals/{}", segment(id))).await
}

/// Decides what is shown now, or what was shown with that hash.
async fn decide(server: &Server, id: &str, hash: Option<&str>, verdict: Value) -> Result<Value, ServerError> {
    let approval = get(server, id).await?;
    decide_shown(server, approval, hash, verdict).await
}

async fn answered(server: &Server, id: &str, hash: Option<&str>, given: &Map<String, Value>) -> Result<Value> {
    let approval = get(server, id).await?;
    let verdict = json!({ "verdict": "answer", "content": input::content(&approval, given)? });
    Ok(decide_shown(server, approval, hash, verdict).await?)
}

async fn decide_shown(
    server: &Server,
    approval: Value,
    hash: Option<&str>,
    mut verdict: Value,
) -> Result<Value, ServerError> {
    verdict["shown_hash"] = hash.map_or_else(|| approval["shown_hash"].clone(), Value::from);
    let id = segment(approval["id"].as_str().unwrap_or_default());
    let decision: Value = server.post(&format!("/api/approvals/{id}/decide"), &verdict).await?;
    Ok(json!({ "approval": approval, "decision": decision }))
}

fn list(answer: &Value) -> String {
    let approvals = answer["approvals"].as_array().map(Vec::as_slice).unwrap_or_default();
    if approvals.is_empty() {
        return "nothing waits for a decision\n".into();
    }
    let fields = ["id", "kind", "state", "thread", "created_at"];
    let what = approvals.iter().map(subject);
    let listed = rows(answer, "approvals", fields).into_iter().zip(what);
    let listed: Vec<[String; 6]> =
        listed.map(|([id, kind, state, thread, at], what)| [id, kind, state, thread, at, what]).collect();
    table(["ID", "KIND", "STATE", "THREAD", "ASKED", "WHAT"], &listed)
}

/// What is asked, in a line.
fn subject(approval: &Value) -> String {
    let named = words(&approval["command"]).or_else(|| files(&approval["changes"])).or_else(|| asked(approval));
    named.unwrap_or_else(|| cell(&approval["reason"]))
}

/// The tool that is to be called with its arguments, or what a tool server or an agent asks.
fn asked(approval: &Value) -> Option<String> {
    let params = &approval["params"];
    let asked = match approval["kind"].as_str()? {
        "tool_confirmation" => {
            let arguments = escaped(&params["arguments"].to_string());
            format!("{} of {}: {arguments}", cell(&params["tool"]), cell(&params["server"]))
        }
        "elicitation" => params["message"].as_str().map(escaped_line)?,
        "user_input" => {
            let questions = params["questions"].as_array()?.iter().map(|question| cell(&question["question"]));
            questions.collect::<Vec<_>>().join(" / ")
        }
        _ => return None,
    };
    Some(match asked.char_indices().nth(ASKED_CHARS_MAX) {
        Some((at, _)) => format!("{}…", &asked[..at]),
        None => asked,
    })
}

/// The words of a command, each as a shell would take it: where one ends and the next begins is part of what is decided.
fn words(command: &Value) -> Option<String> {
    let words = command.as_array()?.iter().map(|word| {
        let word = cell(word);
        shlex::try_quote(&word).map(Into::into).unwrap_or(word)
    });
    Some(words.collect::<Vec<String>>().join(" "))
}

/// What is to be done to which files.
fn files(changes: &Value) -> Option<String> {
    let lines: String = changes.as_array()?.iter().filter_map(Value::as_str).collect();
    let changes: Vec<Value> = serde_json::from_str(&lines).ok()?;
    let each = changes.iter().map(|change| {
        let kind = change["kind"]["type"].as_str().or(change["kind"].as_str()).unwrap_or("change");
        format!("{} {}", escaped(kind), cell(&change["path"]))
    });
    Some(each.collect::<Vec<_>>().join(", ")).filter(|files| !files.is_empty())
}

fn show(approval: &Value) -> String {
    let mut text = format!("{:12} {}\n{}", "state", cell(&approval["state"]), what(approval));
    let steps = approval["history"].as_array().map(Vec::as_slice).unwrap_or_default();
    for step in steps {
        text.push_str(&format!(
            "{}  {}  {}  {}\n",
            cell(&step["at"]),
            cell(&step["step"]),
            cell(&step["by"]),
            cell(&step["detail"])
        ));
    }
    text
}

/// All that a decision is about, as it was shown; the server has escaped what comes from the model, and so do we.
fn what(approval: &Value) -> String {
    let mut text = String::new();
    for field in ["id", "kind", "worker", "thread", "turn", "key", "cwd", "reason", "deadline_at", "shown_hash"] {
        text.push_str(&format!("{field:12} {}\n", cell(&approval[field])));
    }
    if let Some(words) = words(&approval["command"]) {
        text.push_str(&format!("{:12} {words}\n", "command"));
    }
    if let Some(asked) = asked(approval) {
        text.push_str(&format!("{:12} {asked}\n", "asks"));
    }
    let offers: Vec<String> = approval["offers"].as_array().into_iter().flatten().map(cell).collect();
    text.push_str(&format!("{:12} {}\n", "offers", offers.join(", ")));
    for part in ["changes", "details"] {
        let lines = approval[part].as_array().map(Vec::as_slice).unwrap_or_default();
        for line in lines.iter().filter_map(Value::as_str) {
            text.push_str(&format!("    {}\n", escaped(line).replace('\n', "\\n")));
        }
    }
    text
}

fn decided(answer: &Value) -> String {
    let verdict = cell(&answer["decision"]["verdict"]).replace('_', " ");
    format!("{}decided      {verdict}\n", what(&answer["approval"]))
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use serde_json::json;

    use super::{list, show};

    #[test]
    fn what_is_to_be_decided_is_told_in_a_line() {
        let approval =
            |kind: &str| json!({"id": "a", "kind": kind, "state": "pending", "thread": "t", "created_at": "now"});
        let mut command = approval("command");
        command["command"] = json!(["/bin/bash", "-lc", "touch 'a b'"]);
        let mut change = approval("file_change");
        change["changes"] = json!([
            r#"[{"diff":"x","kind":{"type":"add"},"path":"/p/new.txt"},{"kind":{"type":"delete"},"path":"/p/old"}]"#
        ]);
        let mut long = approval("file_change");
        (long["changes"], long["reason"]) = (json!(["[… much is not shown here …]"]), json!("it must be"));
        expect![[r#"
            ID  KIND         STATE    THREAD  ASKED  WHAT
            a   command      pending  t       now    /bin/bash -lc "touch 'a b'"
            a   file_change  pending  t       now    add /p/new.txt, delete /p/old
            a   file_change  pending  t       now    it must be
        "#]]
        .assert_eq(&list(&json!({ "approvals": [command, change, long] })));
    }

    #[test]
    fn who_is_asked_for_input_is_shown_the_question_and_the_form() {
        let schema = json!({ "type": "object", "properties": { "name": { "type": "string" } } });
        let params = json!({ "message": "Who\nare you\u{202e}?", "requestedSchema": schema });
        let approval = json!({
            "id": "a", "kind": "elicitation", "state": "pending", "worker": "files", "thread": "", "turn": "t",
            "offers": ["answer", "deny", "cancel"], "details": ["{", "  \"requestedSchema\": …", "}"], "params": params,
        });
        expect![[r#"
            state        pending
            id           a
            kind         elicitation
            worker       files
            thread       
            turn         t
            key          –
            cwd          –
            reason       –
            deadline_at  –
            shown_hash   –
            asks         Who\nare you\u{202e}?
            offers       answer, deny, cancel
                {
                  "requestedSchema": …
                }
        "#]]
        .assert_eq(&show(&approval));
        let questions = json!([{ "id": "q1", "question": "Sure?" }, { "id": "q2", "question": "Which?" }]);
        let asked =
            json!({ "id": "b", "kind": "user_input", "state": "pending", "params": { "questions": questions } });
        assert!(list(&json!({ "approvals": [&approval, asked] })).ends_with(" Sure? / Which?\n"));
        let mut long = approval.clone();
        long["params"]["message"] = "é".repeat(5_000).into();
        assert!(list(&json!({ "approvals": [long] })).ends_with(&format!(" {}…\n", "é".repeat(1_000))));
    }
}
