//! `switchboard approvals`: what waits for a decision, and deciding it. Escalations come first, the oldest request before
//! the newer ones, and a list says how much it leaves out. What is allowed or answered is exactly what was shown: the
//! decision carries the hash of the whole text, and what a list shortens is allowed only with that hash.

mod input;
mod pages;

use std::process::ExitCode;

use anyhow::{Result, bail};
use approvals::Escalation;
use clap::{Args, Subcommand};
use serde_json::{Map, Value, json};
use supervise::escaped;

use super::{EXIT_CODES, ServerFlags, cell, rows, segment};
use crate::object;
use crate::print::{Form, table};
use crate::server::{Server, ServerError};

/// How much of one approval a list shows.
const LISTED_CHARS_MAX: usize = 1_000;

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
        /// Also what is decided, expired or orphaned, the newest first
        #[arg(long)]
        all: bool,
        /// How many to show
        #[arg(long, value_name = "N", default_value_t = pages::ROWS_MAX)]
        limit: u32,
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
        /// Allow it only if it is what was shown with this `shown_hash`; needed if the list shortens it
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
    match approvals.action.as_ref().unwrap_or(&Action::List { all: false, limit: pages::ROWS_MAX }) {
        Action::List { all, limit } => {
            let which = if *all { pages::ApprovalSelection::All } else { pages::ApprovalSelection::Pending };
            let form = Form::of(flags.json);
            let keep = |approval| if form == Form::Text { summary(&approval) } else { approval };
            flags.ask(async |server| pages::read(&server, which, *limit, keep).await, list).await
        }
        Action::Show { id } => flags.ask(async |server| get(&server, id).await, show).await,
        Action::Allow { id, for_session, shown_hash } => {
            let verdict = json!({ "verdict": if *for_session { "allow_for_session" } else { "allow" } });
            flags.ask(async |server| allow(&server, id, shown_hash.as_deref(), verdict).await, decided).await
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

/// Allows what was shown with that hash, or what is shown now if the list shows all of it.
async fn allow(server: &Server, id: &str, hash: Option<&str>, verdict: Value) -> Result<Value> {
    let approval = get(server, id).await?;
    if hash.is_none() && is_shortened_in_lists(&approval) {
        let id = cell(&approval["id"]);
        bail!(
            "it is too long for the list, which shortens it: read all of it with `switchboard approvals show {id}`, then \
             allow it with --shown-hash and the shown_hash that stands there"
        );
    }
    Ok(decide_shown(server, approval, hash, verdict).await?)
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
    let mut listed = rows(answer, "approvals", ["id", "escalation", "kind", "state", "thread", "created_at", "what"]);
    // What asks openly to lift a restriction is read first; within each part the order stays.
    listed.sort_by_key(|row| matches!(row[1].as_str(), "–" | "possible"));
    let mut text = table(["ID", "ESCALATION", "KIND", "STATE", "THREAD", "ASKED", "WHAT"], &listed);
    let (shown, total) = (approvals.len() as u64, answer["total"].as_u64().unwrap_or_default());
    if total > shown {
        text.push_str(&format!("showing {shown} of {total}; `--limit {total}` shows all\n"));
    }
    text
}

/// An approval as a list needs it, so that long ones are not all held at once.
fn summary(approval: &Value) -> Value {
    let subject = subject(approval);
    let what = match subject.char_indices().nth(LISTED_CHARS_MAX) {
        Some((at, _)) => subject[..at].to_owned(),
        None => subject,
    };
    let escalation: Vec<String> = approval["escalation"].as_array().into_iter().flatten().map(cell).collect();
    let mut summary = json!({ "what": what });
    for field in ["id", "kind", "state", "thread", "created_at"] {
        summary[field] = approval[field].clone();
    }
    if is_shortened_in_lists(approval) {
        let id = cell(&approval["id"]);
        summary["what"] = format!("{what} [… shortened: `switchboard approvals show {id}` shows all of it]").into();
    }
    if !escalation.is_empty() {
        summary["escalation"] = escalation.join(",").into();
    }
    summary
}

/// Whether a list leaves out some of what is to be decided.
fn is_shortened_in_lists(approval: &Value) -> bool {
    approval["is_long"] == true || subject(approval).chars().nth(LISTED_CHARS_MAX).is_some()
}

/// What is asked, in a line.
fn subject(approval: &Value) -> String {
    let named = words(&approval["command"]).or_else(|| files(&approval["changes"])).or_else(|| asked(approval));
    named.unwrap_or_else(|| cell(&approval["reason"]))
}

/// The tool that is to be called with its arguments, or what a tool server or an agent asks.
fn asked(approval: &Value) -> Option<String> {
    let params = &approval["params"];
    Some(match approval["kind"].as_str()? {
        "tool_confirmation" => {
            let arguments = escaped(&params["arguments"].to_string());
            format!("{} of {}: {arguments}", cell(&params["tool"]), cell(&params["server"]))
        }
        "elicitation" => params["message"].as_str().map(escaped)?,
        "user_input" => {
            let questions = params["questions"].as_array()?.iter().map(|question| cell(&question["question"]));
            questions.collect::<Vec<_>>().join(" / ")
        }
        _ => return None,
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
    let state = format!("{:12} {}\n", "state", cell(&approval["state"]));
    let mut text = [escalation(approval), state, what(approval)].concat();
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

/// The first line of whatever shows an approval that lifts a restriction.
fn escalation(approval: &Value) -> String {
    let signs: Vec<&str> = approval["escalation"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let meanings: Vec<&str> = signs.iter().map(|sign| meaning(sign)).collect();
    match &signs[..] {
        [] => String::new(),
        ["possible"] => format!("POSSIBLE ESCALATION: {}\n", meanings.join(", ")),
        _ => format!("ESCALATION: {}\n", meanings.join(", ")),
    }
}

fn meaning(sign: &str) -> &'static str {
    let named = Escalation::ALL.into_iter().find(|escalation| escalation.name() == sign);
    named.map_or("lifts a restriction that this version does not know", Escalation::meaning)
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
            text.push_str(&format!("    {}\n", escaped(line)));
        }
    }
    text
}

fn decided(answer: &Value) -> String {
    let verdict = cell(&answer["decision"]["verdict"]).replace('_', " ");
    let approval = &answer["approval"];
    format!("{}{}decided      {verdict}\n", escalation(approval), what(approval))
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use serde_json::{Value, json};

    use super::{decided, is_shortened_in_lists, list, show, summary};

    fn listed(approvals: &[Value]) -> String {
        let summaries: Vec<Value> = approvals.iter().map(summary).collect();
        list(&json!({ "approvals": summaries, "total": approvals.len() }))
    }

    fn approval(kind: &str) -> Value {
        json!({"id": "a", "kind": kind, "state": "pending", "thread": "t", "created_at": "now", "escalation": []})
    }

    #[test]
    fn what_is_to_be_decided_is_told_in_a_line() {
        let mut command = approval("command");
        command["command"] = json!(["/bin/bash", "-lc", "touch 'a b'"]);
        command["escalation"] = json!(["possible"]);
        let mut change = approval("file_change");
        change["changes"] = json!([
            r#"[{"diff":"x","kind":{"type":"add"},"path":"/p/new.txt"},{"kind":{"type":"delete"},"path":"/p/old"}]"#
        ]);
        let mut long = approval("file_change");
        (long["changes"], long["reason"]) = (json!(["[… much is not shown here …]"]), json!("it must be"));
        long["is_long"] = true.into();
        expect![[r#"
            ID  ESCALATION  KIND         STATE    THREAD  ASKED  WHAT
            a   possible    command      pending  t       now    /bin/bash -lc "touch 'a b'"
            a   –           file_change  pending  t       now    add /p/new.txt, delete /p/old
            a   –           file_change  pending  t       now    it must be [… shortened: `switchboard approvals show a` shows all of it]
        "#]]
        .assert_eq(&listed(&[command, change, long]));
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
            asks         Who<newline>are you<U+202E>?
            offers       answer, deny, cancel
                {
                  "requestedSchema": …
                }
        "#]]
        .assert_eq(&show(&approval));
        let questions = json!([{ "id": "q1", "question": "Sure?" }, { "id": "q2", "question": "Which?" }]);
        let asked =
            json!({ "id": "b", "kind": "user_input", "state": "pending", "params": { "questions": questions } });
        assert!(listed(&[approval.clone(), asked]).ends_with(" Sure? / Which?\n"));
    }

    mod adversary {
        use super::*;
        use crate::operate::adversary::{assert_harmless, poisoned};

        #[test]
        fn nothing_that_an_approval_says_reaches_a_terminal_raw() {
            let base = json!({
                "id": "a", "kind": "command", "state": "pending", "worker": "w", "thread": "t", "turn": "u", "key": "k",
                "cwd": "/", "reason": "r", "deadline_at": "d", "shown_hash": "h", "created_at": "c", "offers": ["allow"],
                "escalation": ["outside_sandbox"], "command": ["touch", "x y"], "changes": ["c"], "details": ["{", "}"],
                "params": {"message": "m", "tool": "t", "server": "s", "arguments": {"a": "b"},
                           "questions": [{"question": "q"}]},
                "history": [{"at": "1", "step": "asked", "by": "w", "detail": "d"}],
            });
            for kind in ["command", "file_change", "elicitation", "user_input", "tool_confirmation", "other"] {
                let mut approval = base.clone();
                approval["command"] = if kind == "command" { json!(["touch", "x y"]) } else { Value::Null };
                approval["changes"] = json!([r#"[{"kind":"add","path":"p"}]"#]);
                let mut approval = poisoned(&approval);
                approval["kind"] = kind.into();
                assert_harmless(&show(&approval));
                assert_harmless(&listed(&[approval.clone()]));
                let decision = poisoned(&json!({ "verdict": "allow" }));
                assert_harmless(&decided(&json!({ "approval": approval, "decision": decision })));
            }
        }

        #[test]
        fn an_escalation_is_read_first() {
            let escalated = |id: &str, signs: Value| {
                let mut approval = approval("command");
                (approval["id"], approval["escalation"], approval["command"]) = (id.into(), signs, json!(["ls"]));
                approval
            };
            let old = escalated("old", json!(["possible"]));
            let new = escalated("new", json!(["outside_sandbox", "network"]));
            expect![[r#"
                ID   ESCALATION               KIND     STATE    THREAD  ASKED  WHAT
                new  outside_sandbox,network  command  pending  t       now    ls
                old  possible                 command  pending  t       now    ls
            "#]]
            .assert_eq(&listed(&[old.clone(), new.clone()]));
            let first_line = |approval: &Value| show(approval).lines().next().unwrap().to_owned();
            assert_eq!(first_line(&new), "ESCALATION: runs outside the sandbox, asks for network access");
            assert_eq!(first_line(&old), "POSSIBLE ESCALATION: may run outside the sandbox, the worker does not say");
            assert!(first_line(&approval("file_change")).starts_with("state "));
        }

        #[test]
        fn a_list_says_how_much_it_hides() {
            let shown = list(&json!({ "approvals": [summary(&approval("command"))], "total": 130 }));
            assert!(shown.ends_with("showing 1 of 130; `--limit 130` shows all\n"), "{shown}");
            assert!(!listed(&[approval("command")]).contains("showing"));
        }

        #[test]
        fn a_long_text_is_cut_in_the_list_with_a_mark_and_whole_where_it_is_shown() {
            let mut long = approval("elicitation");
            long["params"] = json!({ "message": format!("{}middle{}", "é".repeat(2_000), "é".repeat(2_000)) });
            let line = listed(&[long.clone()]);
            assert!(is_shortened_in_lists(&long));
            assert!(!line.contains("middle"));
            assert!(line.ends_with("é [… shortened: `switchboard approvals show a` shows all of it]\n"), "{line}");
            assert!(show(&long).contains("éémiddleéé"));
            assert!(!is_shortened_in_lists(&approval("command")));
        }
    }
}
