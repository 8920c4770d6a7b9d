//! A view of the pure plan: what a worker is to do, as far as it is not simply the profile's.

use std::fmt::Write as _;

use codex::{Input, ThreadOptions, TurnOptions};
use serde_json::{Map, Value, json};
use workers::Profile;

use crate::keys::Caller;
use crate::openai::models::{Chosen, choose};
use crate::openai::plan::{TurnPlan, Whence};
use crate::openai::request::Request;
use crate::openai::responses::request::{Links, ResponseRequest};

/// What a body of the chat API asks for.
pub(super) fn of_chat(body: &str) -> Option<Request> {
    Request::read(&serde_json::from_str(body).ok()?).ok()
}

/// What a body of the Responses API asks for, if it goes on from nothing.
pub(super) fn of_responses(body: &str) -> Option<Request> {
    let body = serde_json::from_str(body).ok()?;
    let request = ResponseRequest::read(&body, &|_| None).ok()?;
    let is_first = Links::read(&body).ok()? == Links::default();
    is_first.then(|| request.told_after(Vec::new()).ok()).flatten().map(|(request, _)| request)
}

/// The view; `None` if no plan is made of it for this caller.
pub(super) fn view(mut request: Request, caller: &Caller, profiles: &[Profile], models: &[Box<str>]) -> Option<String> {
    let model = request.model.clone();
    let chosen = choose(&model, profiles, models)?;
    if !caller.may_use_profile(&chosen.profile.name) {
        return None;
    }
    request.tools.rename(chosen.profile);
    let plan = TurnPlan::new(&request, &chosen, &caller.key);
    let mut view = format!("profile: {}\n", chosen.profile.name);
    let mut line = |name: &str, value: &dyn std::fmt::Display| {
        let _ = writeln!(view, "{name}: {value}");
    };
    line("delivery", &format!("{:?}", request.delivery));
    if request.choices > 1 {
        line("choices", &request.choices);
    }
    if !request.stop.is_empty() {
        line("stop", &json!(request.stop));
    }
    if !request.ignored.is_empty() {
        line("ignored", &request.ignored.join(", "));
    }
    line("thread", &thread(&plan.thread, &chosen));
    plan.history.iter().for_each(|item| line("history", &item.get()));
    line("turn", &turn(&plan.turn));
    if let Some(going_on) = &plan.going_on {
        let from = match &going_on.from {
            Whence::History(history) => history.clone(),
            Whence::Turn { thread, turn } => format!("{thread} after {turn}"),
        };
        line("goes on from", &from);
        going_on.history.iter().for_each(|item| line("goes on with", &item.get()));
        for (call, result) in &going_on.results {
            line("goes on with", &format!("{call} {}", Value::from(result.content.clone())));
        }
    }
    Some(view.trim_end().into())
}

/// What is not the profile's own.
fn thread(options: &ThreadOptions, chosen: &Chosen<'_>) -> Value {
    let own = chosen.profile.thread_options();
    let tools = options
        .tools
        .iter()
        .map(|tool| json!({"name": tool.name, "description": tool.description, "inputSchema": tool.input_schema}));
    let config = options.config.iter().filter(|(name, value)| own.config.get(*name) != Some(value));
    let config = config.map(|(name, value)| (name.clone(), value.clone())).collect::<Map<_, _>>();
    some_of([
        ("model", json!(other(&options.model, &own.model))),
        ("baseInstructions", json!(other(&options.base_instructions, &own.base_instructions))),
        ("developerInstructions", json!(other(&options.developer_instructions, &own.developer_instructions))),
        ("tools", tools.collect()),
        ("rawEvents", json!(options.raw_events.then_some(true))),
        ("ephemeral", json!(options.ephemeral.then_some(true))),
        ("config", config.into()),
    ])
}

fn other<'a>(asked: &'a Option<String>, own: &Option<String>) -> Option<&'a String> {
    asked.as_ref().filter(|_| asked != own)
}

fn turn(options: &TurnOptions) -> Value {
    let input = options.input.iter().map(|input| match input {
        Input::Text(text) => json!(text),
        Input::Image { url } => json!({"image": url}),
        Input::LocalImage { path } => json!({"localImage": path}),
    });
    some_of([
        ("input", input.collect()),
        ("model", json!(options.model)),
        ("effort", json!(options.effort)),
        ("summary", json!(options.summary)),
        ("serviceTier", json!(options.service_tier)),
        ("outputSchema", json!(options.output_schema)),
    ])
}

/// The fields that hold something.
fn some_of<'a>(fields: impl IntoIterator<Item = (&'a str, Value)>) -> Value {
    let is_empty = |value: &Value| match value {
        Value::Null => true,
        Value::Array(list) => list.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        _ => false,
    };
    let held = fields.into_iter().filter(|(_, value)| !is_empty(value));
    held.map(|(name, value)| (name.to_owned(), value)).collect::<Map<_, _>>().into()
}
