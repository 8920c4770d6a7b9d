//! The tools of the good servers, from the friendly to those that put a host to the test.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::time::Duration;
use std::{env, process};

use serde_json::{Value, json};

use super::good::{Failure, INVALID_PARAMS, Input, Request};
use super::lines::{pause, say, told};

/// How often a call that waits looks whether it is still wanted.
const TICK: Duration = Duration::from_millis(10);

/// All tools, and one more once `change` was called.
pub(crate) fn tools(has_extra: bool) -> Vec<Value> {
    let text = || json!({"text": {"type": "string", "description": "What to say"}});
    let bytes = || json!({"bytes": {"type": "integer", "minimum": 0, "description": "How much"}});
    let numbers = json!({"a": {"type": "number"}, "b": {"type": "number"}});
    let mut add = tool("add", "Adds two numbers", &numbers);
    add["outputSchema"] = json!({"type": "object", "properties": {"sum": {"type": "number"}}, "required": ["sum"]});
    let mut delete = tool("delete", "Says that it deletes a file", &json!({"path": {"type": "string"}}));
    delete["annotations"] = json!({"readOnlyHint": false, "destructiveHint": true});
    let mut tools = vec![
        tool("echo", "Says what it is told", &text()),
        add,
        tool("fail", "Fails as a tool does", &json!({})),
        tool("sleep", "Waits, and reports its progress", &json!({"ms": {"type": "integer", "minimum": 0}})),
        tool("exit", "Ends the server in the middle of the call", &json!({"code": {"type": "integer"}})),
        tool("hang", "Never answers", &json!({})),
        tool("flood", "Sends so many bytes of log messages before it answers", &bytes()),
        tool("big", "Answers with so many bytes", &bytes()),
        delete,
        tool("ask", "Asks the user for a name", &json!({})),
        tool("sample", "Asks the host's model for a word", &json!({})),
        tool("roots", "Asks the host for its roots", &json!({})),
        tool("log", "Sends a log message", &text()),
        tool("touch", "Counts the resource `gallery://counter` up", &json!({})),
        tool("change", "Adds the tool `extra`", &json!({})),
        tool("environment", "Says its variables, each with its value", &json!({})),
    ];
    if has_extra {
        tools.push(tool("extra", "Was not there before", &json!({})));
    }
    tools
}

/// The tools of those whose shelf is open.
pub(crate) fn shelf_tools() -> [Value; 2] {
    [
        tool("add_prompt", "Adds the prompt `thank`", &json!({})),
        tool("add_resource", "Adds the resource `gallery://farewell`", &json!({})),
    ]
}

fn tool(name: &str, description: &str, properties: &Value) -> Value {
    let names: Vec<&String> = properties.as_object().map(|properties| properties.keys().collect()).unwrap_or_default();
    json!({
        "name": name,
        "description": description,
        "inputSchema": {
            "type": "object",
            "properties": properties,
            "required": names,
            "additionalProperties": false,
        },
    })
}

/// Calls a tool. What a tool cannot do is a result that says so, not a failed request.
pub(crate) fn call(request: &Request) -> Result<Value, Failure> {
    let name = request.params["name"].as_str().unwrap_or_default();
    let arguments = &request.params["arguments"];
    let Some(tool) = request.server.tools().into_iter().find(|tool| tool["name"] == name) else {
        return Err(Failure::new(INVALID_PARAMS, format!("Unknown tool: {name}")));
    };
    let required = tool["inputSchema"]["required"].as_array().cloned().unwrap_or_default();
    if let Some(missing) = required.iter().filter_map(Value::as_str).find(|name| arguments.get(name).is_none()) {
        return Ok(refused(&format!("missing argument: {missing}")));
    }
    match name {
        "echo" | "log" => Ok(say_text(request, name, arguments["text"].as_str().unwrap_or_default())),
        "add" => Ok(add(&arguments["a"], &arguments["b"])),
        "fail" => Ok(refused("it failed, as it should")),
        "sleep" => Ok(sleep(request, arguments["ms"].as_u64().unwrap_or_default())),
        "exit" => process::exit(arguments["code"].as_i64().and_then(|code| i32::try_from(code).ok()).unwrap_or(1)),
        "hang" => Ok(hang(request)),
        "flood" => Ok(flood(arguments["bytes"].as_u64().unwrap_or_default())),
        "big" => Ok(text(&"x".repeat(size(&arguments["bytes"])))),
        "delete" => Ok(text(&format!("deleted {}", arguments["path"].as_str().unwrap_or_default()))),
        "ask" => ask(request),
        "sample" => sample(request),
        "roots" => roots(request),
        "touch" => Ok(touch(request)),
        "change" => Ok(change(request)),
        "add_prompt" => Ok(add_prompt(request)),
        "add_resource" => Ok(add_resource(request)),
        "environment" => Ok(environment()),
        _ => Ok(text("here I am")),
    }
}

fn text(text: &str) -> Value {
    json!({"content": [{"type": "text", "text": text}], "isError": false})
}

fn refused(why: &str) -> Value {
    json!({"content": [{"type": "text", "text": why}], "isError": true})
}

fn size(bytes: &Value) -> usize {
    bytes.as_u64().and_then(|bytes| usize::try_from(bytes).ok()).unwrap_or_default()
}

fn say_text(request: &Request, name: &str, said: &str) -> Value {
    if name == "echo" {
        return text(said);
    }
    if request.wants_logs() {
        say(&told("notifications/message", &json!({"level": "info", "logger": "gallery", "data": said})));
    }
    text("logged")
}

fn add(a: &Value, b: &Value) -> Value {
    let whole = a.as_i64().zip(b.as_i64()).and_then(|(a, b)| a.checked_add(b)).map(Value::from);
    let sum = whole.unwrap_or_else(|| json!(a.as_f64().unwrap_or_default() + b.as_f64().unwrap_or_default()));
    let mut result = text(&sum.to_string());
    result["structuredContent"] = json!({"sum": sum});
    result
}

fn sleep(request: &Request, millis: u64) -> Value {
    const STEPS: u64 = 10;
    for step in 1..=STEPS {
        pause(Duration::from_millis(millis / STEPS));
        if request.is_cancelled() {
            break;
        }
        request.progress(step, STEPS);
    }
    text(&format!("slept {millis} ms"))
}

fn hang(request: &Request) -> Value {
    while !request.is_cancelled() {
        pause(TICK);
    }
    text("nobody hears this")
}

fn flood(bytes: u64) -> Value {
    const LINE_BYTES: u64 = 1024;
    let data = "flood ".repeat(160);
    for _ in 0..bytes.div_ceil(LINE_BYTES) {
        say(&told("notifications/message", &json!({"level": "debug", "logger": "gallery", "data": data})));
    }
    text("that was all")
}

fn ask(request: &Request) -> Result<Value, Failure> {
    let schema = json!({"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]});
    let params = json!({"mode": "form", "message": "What is your name?", "requestedSchema": schema});
    Ok(match request.input("elicitation", "elicitation/create", &params)? {
        Input::Wanted(result) => result,
        Input::Given(given) => match given["action"].as_str() {
            Some("accept") => text(&format!("hello {}", given["content"]["name"].as_str().unwrap_or_default())),
            Some(action) => text(&format!("the user chose to {action}")),
            None => refused(&format!("no answer: {given}")),
        },
    })
}

fn sample(request: &Request) -> Result<Value, Failure> {
    let message = json!({"role": "user", "content": {"type": "text", "text": "Say a word."}});
    let params = json!({"messages": [message], "maxTokens": 20});
    Ok(match request.input("sampling", "sampling/createMessage", &params)? {
        Input::Wanted(result) => result,
        Input::Given(given) => match given["content"]["text"].as_str() {
            Some(word) => text(&format!("the model said {word}")),
            None => refused(&format!("no answer: {given}")),
        },
    })
}

fn roots(request: &Request) -> Result<Value, Failure> {
    Ok(match request.input("roots", "roots/list", &json!({}))? {
        Input::Wanted(result) => result,
        Input::Given(given) => match given["roots"].as_array() {
            Some(roots) => {
                let uris: Vec<&str> = roots.iter().filter_map(|root| root["uri"].as_str()).collect();
                text(&format!("the roots are {}", uris.join(", ")))
            }
            None => refused(&format!("no answer: {given}")),
        },
    })
}

fn touch(request: &Request) -> Value {
    let counter = {
        let mut state = request.server.state();
        state.counter += 1;
        state.counter
    };
    request.server.tell_updated("gallery://counter");
    text(&format!("the counter is {counter}"))
}

fn change(request: &Request) -> Value {
    request.server.state().has_extra = true;
    request.server.tell_changed("tools");
    text("there is a new tool")
}

fn add_prompt(request: &Request) -> Value {
    request.server.state().has_thanks = true;
    request.server.tell_changed("prompts");
    text("there is a new prompt")
}

fn add_resource(request: &Request) -> Value {
    request.server.state().has_farewell = true;
    request.server.tell_changed("resources");
    text("there is a new resource")
}

fn environment() -> Value {
    let variables: BTreeMap<_, _> = env::vars_os().map(|(name, value)| (lossy(&name), lossy(&value))).collect();
    text(&json!(variables).to_string())
}

fn lossy(word: &OsStr) -> String {
    word.to_string_lossy().into_owned()
}
