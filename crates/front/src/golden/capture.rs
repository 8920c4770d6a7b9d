//! A view of what the worker was sent, thread by thread: what turns of different threads are told at the same time has no
//! order. A thread's own lines stand in theirs. Answers to the worker do not say of which thread they are; they come last.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use serde_json::{Map, Value};

/// What opens a thread; the worker names it in its answer.
const OPENS: &[&str] = &["thread/start", "thread/fork", "newConversation", "resumeConversation"];

/// What is shown besides.
const SHOWN: [&str; 6] =
    ["thread/inject_items", "thread/resume", "turn/start", "turn/steer", "turn/interrupt", "sendUserTurn"];

/// The view.
pub(super) fn view(capture: &str) -> String {
    let lines = capture.lines().map(|line| serde_json::from_str(line).expect("a worker is sent JSON"));
    let (calls, rest): (Vec<Value>, Vec<Value>) = lines.partition(|line: &Value| line.get("method").is_some());
    // A worker's ids sort by age, as the calls that made them stand in the file.
    let named: BTreeSet<&str> = calls.iter().filter_map(|line| thread_in(&line["params"])).collect();
    let mut threads = vec![String::new(); calls.iter().filter(|line| opens(line)).count()];
    let mut opened = 0;
    for line in calls.iter().filter(|line| opens(line) || is_shown(line)) {
        let thread = match thread_in(&line["params"]).filter(|_| !opens(line)) {
            Some(id) => named.iter().position(|named| *named == id).expect("every thread is named"),
            None => {
                opened += 1;
                opened - 1
            }
        };
        write(line, &format!("thread {}: ", thread + 1), &mut threads[thread]);
    }
    let mut view = threads.concat();
    rest.iter().filter(|answer| !is_late(answer)).for_each(|answer| write(answer, "", &mut view));
    if view.is_empty() { "none".into() } else { view.trim_end().into() }
}

fn opens(line: &Value) -> bool {
    line["method"].as_str().is_some_and(|method| OPENS.contains(&method))
}

fn is_shown(line: &Value) -> bool {
    line["method"].as_str().is_some_and(|method| SHOWN.contains(&method))
}

/// What is answered to a turn that is over is heard by nobody, and may come after the end of the case.
fn is_late(answer: &Value) -> bool {
    answer["result"]["contentItems"][0]["text"] == "the turn is over"
}

fn thread_in(params: &Value) -> Option<&str> {
    params["threadId"].as_str().or_else(|| params["conversationId"].as_str())
}

fn write(line: &Value, whose: &str, out: &mut String) {
    let (what, said) = match line["method"].as_str() {
        Some(method) => (method, &line["params"]),
        None => ("answer", line.get("result").unwrap_or(&line["error"])),
    };
    let fields = said.as_object().into_iter().flatten();
    let is_told = |name: &str| !matches!(name, "threadId" | "conversationId" | "items" | "cwd");
    let fields = fields.filter(|(name, value)| is_told(name) && !value.is_null());
    let mut told: Map<_, _> = fields.map(|(name, value)| (name.clone(), value.clone())).collect();
    shorten(&mut told);
    told.get_mut("overrides").and_then(Value::as_object_mut).map(shorten);
    let told = if told.is_empty() { String::new() } else { format!(" {}", Value::from(told)) };
    let _ = writeln!(out, "{whose}{what}{told}");
    for item in said["items"].as_array().into_iter().flatten() {
        let _ = writeln!(out, "    {item}");
    }
}

/// Says in a word what a thread is confined to: the paths are those of the machine. The whole of it is tested in `workers`.
fn shorten(told: &mut Map<String, Value>) {
    let Some(config) = told.get_mut("config").and_then(Value::as_object_mut) else { return };
    // The same in every thread.
    config.remove("features.unbounded_connection_retries");
    let permissions = ["default_permissions", "permissions", "projects"].map(|name| config.remove(name)).into_iter();
    let confined = permissions.flatten().find_map(|value| {
        let files = value.get("switchboard")?["filesystem"].as_object()?;
        let writes = files.iter().any(|(path, access)| path.starts_with('/') && access == "write");
        Some(
            if writes {
                "write"
            } else if files.is_empty() {
                "nothing"
            } else {
                "read"
            }
            .to_owned(),
        )
    });
    if config.is_empty() {
        told.remove("config");
    }
    told.extend(confined.map(|access| ("confined".to_owned(), access.into())));
}
