//! What holds of every stream, whatever was asked: the laws that the clients of the OpenAI kind depend on.

use std::collections::BTreeMap;

use serde_json::Value;

/// Holds a stream, as it came, against the laws.
pub(super) fn check(asked: &Value, body: &str) {
    let chunks = chunks(body);
    check_heads(&chunks);
    check_usage(asked, &chunks);
    let said = read(&chunks);
    let has_failed = has_failed(&chunks);
    for (index, choice) in &said {
        assert_eq!(choice.finish.is_some(), !has_failed, "choice {index} ends, unless the answer fails: {body}");
        choice.check();
    }
    let asked_for = asked["n"].as_u64().unwrap_or(1);
    assert!(said.keys().copied().eq(0..asked_for), "every choice is there: {body}");
}

/// What was said in one choice.
#[derive(Default)]
pub(super) struct Said {
    pub(super) content: String,
    pub(super) reasoning: String,
    calls: Vec<(Value, String)>,
    function: Option<(Value, String)>,
    finish: Option<String>,
    has_role: bool,
}

/// The chunks of a stream, which ends exactly once: with `[DONE]`, or with a failure.
pub(super) fn chunks(body: &str) -> Vec<Value> {
    let mut events = events(body);
    let is_done = events.pop_if(|last| *last == "[DONE]").is_some();
    let chunks: Vec<Value> = events.iter().map(|data| parsed(data)).collect();
    assert_eq!(is_done, !has_failed(&chunks), "a stream has one end: {body}");
    chunks
}

pub(super) fn has_failed(chunks: &[Value]) -> bool {
    chunks.last().is_some_and(|chunk| chunk.get("error").is_some())
}

/// The data of each event; nothing else is in a stream but comments.
fn events(body: &str) -> Vec<&str> {
    assert!(body.ends_with("\n\n"), "the last event is whole: {body:?}");
    let events = body.split("\n\n").filter(|event| !event.is_empty() && !event.starts_with(": "));
    let data = events.map(|event| {
        let data = event.strip_prefix("data: ").unwrap_or_else(|| panic!("{event:?} is neither comment nor data"));
        assert!(!data.contains('\n'), "an event is one line, and has no id and no name: {event:?}");
        data
    });
    data.collect()
}

fn parsed(data: &str) -> Value {
    serde_json::from_str(data).unwrap_or_else(|error| panic!("{error}: {data}"))
}

/// What the chunks come to, by choice.
pub(super) fn read(chunks: &[Value]) -> BTreeMap<u64, Said> {
    let mut said = BTreeMap::<u64, Said>::new();
    for choice in chunks.iter().flat_map(|chunk| chunk["choices"].as_array()).flatten() {
        let index = choice["index"].as_u64().expect("a choice has an index");
        said.entry(index).or_default().add(choice);
    }
    said
}

impl Said {
    fn add(&mut self, choice: &Value) {
        assert_eq!(self.finish, None, "nothing is said after the end: {choice}");
        let delta = choice["delta"].as_object().expect("a chunk has a delta");
        match &delta.get("role") {
            Some(role) => {
                assert!(!std::mem::replace(&mut self.has_role, true) && *role == "assistant", "the role comes once");
            }
            None => assert!(self.has_role, "the role comes first: {choice}"),
        }
        self.content += text(delta.get("content"));
        self.reasoning += text(delta.get("reasoning_content"));
        assert_eq!(delta.get("reasoning_content"), delta.get("reasoning"), "reasoning has two names");
        delta.get("tool_calls").and_then(Value::as_array).into_iter().flatten().for_each(|call| self.add_call(call));
        if let Some(call) = delta.get("function_call") {
            let function = self.function.get_or_insert_with(|| (call["name"].clone(), String::new()));
            function.1 += text(call.get("arguments"));
        }
        self.finish = choice["finish_reason"].as_str().map(str::to_owned);
    }

    /// Id, type and name come once, and first; the index always.
    fn add_call(&mut self, call: &Value) {
        let index = call["index"].as_u64().expect("a call has an index");
        let begun = self.calls.len() as u64;
        if index == begun {
            let is_named = call["id"].is_string() && call["function"]["name"].is_string();
            assert!(is_named && call["type"] == "function", "a call begins with its name: {call}");
            self.calls.push((call["id"].clone(), String::new()));
        } else {
            assert!(index < begun, "calls are numbered without a gap: {call}");
            let again = [&call["id"], &call["type"], &call["function"]["name"]];
            assert!(again.iter().all(|value| value.is_null()), "a call is named once: {call}");
        }
        self.calls[usize::try_from(index).unwrap()].1 += text(call["function"].get("arguments"));
    }

    /// Arguments are JSON, and the reason of the end is the right one.
    fn check(&self) {
        for (call, arguments) in self.calls.iter().chain(&self.function) {
            assert!(
                serde_json::from_str::<Value>(arguments).is_ok(),
                "{call} has arguments that are no JSON: {arguments}"
            );
        }
        let expected = match (self.calls.is_empty(), &self.function) {
            (false, _) => "tool_calls",
            (true, Some(_)) => "function_call",
            (true, None) => "stop",
        };
        assert!(self.finish.as_deref().is_none_or(|finish| finish == expected), "{:?}, not {expected}", self.finish);
    }
}

/// What every chunk has is the same in all; a failure is the last.
fn check_heads(chunks: &[Value]) {
    let head = |chunk: &Value| ["id", "object", "created", "model"].map(|name| chunk[name].clone());
    for (at, chunk) in chunks.iter().enumerate() {
        if chunk.get("error").is_some() {
            assert_eq!(at + 1, chunks.len(), "nothing follows a failure: {chunk}");
            let names: Vec<_> = chunk["error"].as_object().unwrap().keys().map(String::as_str).collect();
            assert_eq!(names, ["code", "message", "param", "type"]);
            assert!(chunk["error"]["message"].is_string() && chunk["error"]["type"].is_string());
        } else {
            assert_eq!(head(chunk), head(&chunks[0]), "every chunk is of the same answer");
            assert_eq!(chunk["object"], "chat.completion.chunk");
        }
    }
}

/// The usage is told by a last chunk of its own, if it was asked for, and otherwise not at all.
fn check_usage(asked: &Value, chunks: &[Value]) {
    let (errors, chunks): (Vec<_>, Vec<_>) = chunks.iter().partition(|chunk| chunk.get("error").is_some());
    let is_asked = asked["stream_options"]["include_usage"] == true;
    assert!(chunks.iter().all(|chunk| chunk.get("usage").is_some() == is_asked), "usage only for who asks");
    let told: Vec<_> = chunks.iter().filter(|chunk| chunk["choices"].as_array().is_some_and(Vec::is_empty)).collect();
    assert_eq!(told.len(), usize::from(is_asked && errors.is_empty()), "usage is told once");
    assert!(
        told.iter().all(|chunk| chunk["usage"]["total_tokens"].as_u64() > Some(0)),
        "usage is the worker's: {told:?}"
    );
    assert!(chunks.iter().all(|chunk| told.contains(&chunk) || chunk["usage"].is_null()));
}

fn text(value: Option<&Value>) -> &str {
    value.and_then(Value::as_str).unwrap_or_default()
}
