//! Recordings of the real workers of old as turn events.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::fs;
use std::path::Path;

use codex::event::{Placed, Told, TurnEvent};
use codex::v1::Reader;
use expect_test::{Expect, expect};
use proptest::prelude::{ProptestConfig, any, prop_assert, proptest};
use serde_json::{Value, json};
use wire::Json;

/// All recordings, by name.
pub(crate) fn recordings() -> BTreeMap<String, String> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/v1");
    let entries = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let name = |path: &Path| path.file_stem().unwrap().to_str().unwrap().to_owned();
    entries.map(|path| (name(&path), fs::read_to_string(&path).unwrap())).collect()
}

/// The messages of a recording with the direction in which they went.
pub(crate) fn messages(recording: &str) -> Vec<(String, Value)> {
    let lines = recording.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    lines.map(|mut line| (line["dir"].as_str().unwrap().to_owned(), line["msg"].take())).collect()
}

/// What the worker sent.
fn received(recording: &str) -> Vec<Value> {
    let all = messages(recording).into_iter();
    all.filter(|(direction, _)| direction == "received").map(|(_, message)| message).collect()
}

/// What a message tells.
fn read(reader: &mut Reader, message: &Value) -> Vec<Told> {
    let mut told = Vec::new();
    let Some(method) = message["method"].as_str() else {
        return told;
    };
    let params = Json::of(&message["params"]).unwrap();
    match message.get("id") {
        Some(id) => told.extend(reader.request(&id.to_string(), method, &params).map(Told::Turn)),
        None => reader.notification(method, &params, &mut told),
    }
    told
}

fn of_turns(told: Vec<Told>) -> impl Iterator<Item = Placed> {
    told.into_iter().filter_map(|told| match told {
        Told::Turn(placed) => Some(placed),
        Told::Connection(_) => None,
    })
}

/// One event in one line, without what the worker sent as it is.
fn line(told: &Told) -> String {
    let (place, mut event) = match told {
        Told::Turn(placed) => (placed.turn.as_deref().unwrap_or("?"), serde_json::to_value(&placed.event).unwrap()),
        Told::Connection(event) => ("-", serde_json::to_value(event).unwrap()),
    };
    let object = event.as_object_mut().unwrap();
    let kind = object.remove("type").unwrap();
    object.remove("params");
    if let Some(item) = object.get_mut("item").and_then(Value::as_object_mut) {
        item.remove("raw");
    }
    if let Some(last) = object.get("last").cloned() {
        let total = &object["total"];
        let usage = json!({"last": last["total_tokens"], "total": total["total_tokens"], "window": object["context_window"]});
        return format!("{place} token_usage {usage}");
    }
    format!("{place} {} {event}", kind.as_str().unwrap())
}

/// The events of a recording, each on one line; those of the connection but the account's limits.
fn check(name: &str, expected: &Expect) {
    let mut reader = Reader::default();
    let mut seen = String::new();
    for message in received(&recordings()[name]) {
        for told in read(&mut reader, &message) {
            let line = line(&told);
            if !line.starts_with("- rate_limits") {
                writeln!(seen, "{line}").unwrap();
            }
        }
    }
    expected.assert_eq(&seen);
}

#[test]
fn a_turn_of_0_45_gets_its_message_as_an_item() {
    check("0.45.0-turn", &expect![[""]]);
}

#[test]
fn reasoning_of_0_45_is_one_item() {
    check("0.45.0-reasoning", &expect![[""]]);
}

#[test]
fn output_that_cuts_a_character_in_two() {
    check("0.45.0-command", &expect![[""]]);
}

#[test]
fn decisions_about_commands() {
    check("0.45.0-decisions", &expect![[""]]);
}

#[test]
fn decisions_about_patches() {
    check("0.45.0-patch", &expect![[""]]);
}

#[test]
fn a_turn_that_is_interrupted_at_once_is_begun_and_ended() {
    check("0.45.0-interrupt", &expect![[""]]);
}

#[test]
fn errors_of_0_45() {
    check("0.45.0-errors", &expect![[""]]);
}

#[test]
fn tools_of_0_45() {
    check("0.45.0-tools", &expect![[""]]);
}

#[test]
fn a_compaction_of_0_45_belongs_to_the_turn_it_happens_in() {
    check("0.45.0-compaction", &expect![[""]]);
}

#[test]
fn usage_from_before_a_resume_is_not_told_again() {
    check("0.45.0-resume", &expect![[""]]);
}

#[test]
fn items_of_0_50_that_are_told_when_they_are_over() {
    check("0.50.0-turns", &expect![[""]]);
}

#[test]
fn reasoning_of_0_53_is_told_once() {
    check("0.53.0-reasoning", &expect![[""]]);
}

#[test]
fn a_plan() {
    check("0.53.0-plan", &expect![[""]]);
}

#[test]
fn tools_of_0_53() {
    check("0.53.0-tools", &expect![[""]]);
}

#[test]
fn a_command_that_is_tried_again_outside_of_the_sandbox() {
    check("0.53.0-on-failure", &expect![[""]]);
}

#[test]
fn a_turn_of_0_58_is_told_once_although_it_comes_three_times() {
    check("0.58.0-turn", &expect![[""]]);
}

#[test]
fn the_output_of_a_patch_is_not_that_of_a_command() {
    check("0.58.0-patch", &expect![[""]]);
}

#[test]
fn an_interrupt_resolves_what_was_asked() {
    check("0.58.0-interrupt", &expect![[""]]);
}

#[test]
fn errors_of_0_58_and_a_message_after_the_end() {
    check("0.58.0-errors", &expect![[""]]);
}

#[test]
fn a_compaction_of_0_58() {
    check("0.58.0-compaction", &expect![[""]]);
}

#[test]
fn turns_of_0_60() {
    check("0.60.1-turns", &expect![[""]]);
}

/// What must hold for every turn of a stream, whatever is in it.
#[derive(Default)]
struct Laws {
    begun: BTreeSet<(Box<str>, Box<str>)>,
    ended: BTreeSet<(Box<str>, Box<str>)>,
    open: BTreeSet<(Box<str>, Box<str>)>,
    asked: BTreeSet<Box<str>>,
}

impl Laws {
    fn take(&mut self, placed: Placed) {
        let turn = (placed.thread.clone(), placed.turn.clone().unwrap_or_default());
        match placed.event {
            TurnEvent::TurnStarted { .. } => {
                assert!(self.begun.insert(turn.clone()), "{turn:?} begins twice");
            }
            TurnEvent::TurnEnded { .. } => {
                assert!(self.begun.contains(&turn), "{turn:?} ends and has not begun");
                assert!(self.ended.insert(turn.clone()), "{turn:?} ends twice");
                assert!(self.asked.is_empty(), "{:?} is not resolved", self.asked);
                self.open.clear();
            }
            TurnEvent::ItemStarted { item } => {
                assert!(self.open.insert((turn.1, item.id.clone())), "{} starts twice", item.id);
            }
            TurnEvent::ItemCompleted { item } => {
                assert!(self.open.remove(&(turn.1, item.id.clone())), "{} completes and has not started", item.id);
            }
            TurnEvent::Text { item, .. }
            | TurnEvent::Reasoning { item, .. }
            | TurnEvent::ReasoningSummary { item, .. }
            | TurnEvent::ReasoningPart { item, .. }
            | TurnEvent::CommandOutput { item, .. }
            | TurnEvent::FileChangeOutput { item, .. } => {
                assert!(self.open.contains(&(turn.1, item.clone())), "{item} is not open");
            }
            TurnEvent::ApprovalWanted { request, .. } => {
                self.asked.insert(request);
            }
            TurnEvent::ApprovalResolved { request } => {
                assert!(self.asked.remove(&request), "{request} was not asked");
            }
            _ => {}
        }
    }
}

#[test]
fn every_recorded_turn_ends_once_and_its_items_are_told_in_order() {
    let mut ended = 0;
    for recording in recordings().values() {
        let (mut reader, mut laws) = (Reader::default(), Laws::default());
        for message in received(recording) {
            of_turns(read(&mut reader, &message)).for_each(|placed| laws.take(placed));
        }
        // Some recordings begin in the middle of a turn or end there.
        ended += laws.ended.len();
    }
    assert!(ended > 40, "only {ended} turns ended in all recordings");
}

#[test]
fn the_text_of_a_message_is_whole() {
    let mut messages = 0;
    for (name, recording) in recordings() {
        let mut reader = Reader::default();
        let mut texts: BTreeMap<Box<str>, String> = BTreeMap::new();
        for placed in received(&recording).iter().flat_map(|message| of_turns(read(&mut reader, message))) {
            match placed.event {
                TurnEvent::Text { item, text } => texts.entry(item).or_default().push_str(&text),
                TurnEvent::ItemCompleted { item } if &*item.kind == "agent_message" => {
                    let raw: Value = item.raw.parse().unwrap();
                    let whole = raw["message"].as_str().or(raw["item"]["AgentMessage"]["content"][0]["Text"]["text"].as_str());
                    assert_eq!(whole, texts.get(&item.id).map(String::as_str), "{name}");
                    messages += 1;
                }
                _ => {}
            }
        }
    }
    assert!(messages > 25, "only {messages} messages in all recordings");
}

#[test]
fn every_spelling_is_understood() {
    let events = |spell: &dyn Fn(&str) -> String| {
        let mut reader = Reader::default();
        let mut seen = String::new();
        for mut message in received(&recordings()["0.45.0-turn"]) {
            if let Some(method) = message["method"].as_str() {
                message["method"] = spell(method).into();
            }
            read(&mut reader, &message).iter().for_each(|told| writeln!(seen, "{}", line(told)).unwrap());
        }
        seen
    };
    let camel = |name: &str| {
        let words = name.split('_').map(|word| word[..1].to_uppercase() + &word[1..]).collect::<String>();
        words[..1].to_lowercase() + &words[1..]
    };
    let bare = |method: &str| method.trim_start_matches("codex/event/").to_owned();
    let usual = events(&|method| method.into());
    assert_eq!(events(&|method| bare(method)), usual);
    assert_eq!(events(&|method| camel(&bare(method))), usual);
    assert_eq!(events(&|method| format!("codex/event/{}", camel(&bare(method)))), usual);
}

#[test]
fn fields_may_be_spelled_either_way_and_the_message_may_have_no_envelope() {
    let mut reader = Reader::default();
    let mut seen = String::new();
    let lines = [
        ("taskStarted", json!({"conversationId": "c"})),
        ("agentMessageContentDelta", json!({"conversationId": "c", "itemId": "m", "delta": "a"})),
        ("agentMessageDelta", json!({"conversationId": "c", "delta": "a"})),
        ("execCommandBegin", json!({"conversation_id": "c", "callId": "x", "command": ["ls"]})),
        ("execCommandOutputDelta", json!({"conversationId": "c", "callId": "x", "chunk": "aGkK"})),
        ("execCommandEnd", json!({"conversationId": "c", "callId": "x", "exitCode": 0})),
        ("hologramDelta", json!({"conversationId": "c"})),
        ("codex/event/hologram_delta", json!({"conversationId": "c", "msg": {"type": "hologram_delta"}})),
        ("taskComplete", json!({"conversationId": "c", "lastAgentMessage": "a"})),
        ("taskComplete", json!({"conversationId": "c", "lastAgentMessage": "a"})),
    ];
    for (method, params) in lines {
        let told = read(&mut reader, &json!({"method": method, "params": params}));
        told.iter().for_each(|told| writeln!(seen, "{}", line(told)).unwrap());
    }
    expect![[""]].assert_eq(&seen);
}

#[test]
fn what_belongs_to_no_turn_is_told_of_the_connection() {
    let mut seen = String::new();
    let lines = [
        ("sessionConfigured", json!({"sessionId": "c", "model": "m"})),
        ("codex/event/session_configured", json!({"id": "", "msg": {"session_id": "c"}, "conversationId": "c"})),
        ("codex/event/mcp_startup_complete", json!({"id": "", "msg": {"ready": []}, "conversationId": "c"})),
        ("account/rateLimits/updated", json!({"primary": null})),
        ("authStatusChange", json!({"authMethod": null})),
        ("loginChatGptComplete", json!({"loginId": "l", "success": false, "error": "no"})),
        ("codex/event/warning", json!({"id": "", "msg": {"message": "careful"}, "conversationId": "c"})),
        ("item/started", json!({"item": {"type": "agentMessage", "id": "m", "text": ""}})),
        ("turn/completed", json!({"turn": {"id": "0", "items": [], "status": "completed"}})),
        ("weather/changed", json!({"rain": true})),
        ("codex/event/error", json!([])),
    ];
    for (method, params) in lines {
        let told = read(&mut Reader::default(), &json!({"method": method, "params": params}));
        told.iter().for_each(|told| writeln!(seen, "{}", line(told)).unwrap());
    }
    expect![[""]].assert_eq(&seen);
}

#[test]
fn a_resumed_conversation_numbers_its_turns_anew() {
    let turn = |name: &str| json!({"method": name, "params": {"id": "0", "msg": {}, "conversationId": "c"}});
    let mut reader = Reader::default();
    let ends = |reader: &mut Reader| {
        let told = [turn("task_started"), turn("task_complete")].map(|message| read(reader, &message).len());
        told.iter().sum::<usize>()
    };
    assert_eq!(ends(&mut reader), 2);
    assert_eq!(read(&mut reader, &turn("turn_aborted")).len(), 0);
    reader.forget("c");
    assert_eq!(read(&mut reader, &turn("turn_aborted")).len(), 2);
}

/// One change of a message, by numbers that any generator can give.
fn spoil(value: &mut Value, at: usize, how: u8) {
    let mut spots = Vec::new();
    fields_of(value, &mut Vec::new(), &mut spots);
    if spots.is_empty() {
        return;
    }
    let mut path = spots.swap_remove(at % spots.len());
    let name = path.pop().unwrap();
    let parent = path.iter().fold(value, |value, step| &mut value[step.as_str()]);
    let object = parent.as_object_mut().unwrap();
    match how % 6 {
        0 => drop(object.remove(&name)),
        1 => drop(object.insert(name, Value::Null)),
        2 => drop(object.insert(name, json!(7))),
        3 => drop(object.insert(name, json!({"surprise": []}))),
        4 => drop(object.insert(name, json!("surprise"))),
        _ => drop(object.insert("surprise".into(), json!([{}]))),
    }
}

fn fields_of(value: &Value, path: &mut Vec<String>, spots: &mut Vec<Vec<String>>) {
    for (name, inner) in value.as_object().into_iter().flatten() {
        path.push(name.clone());
        spots.push(path.clone());
        fields_of(inner, path, spots);
        path.pop();
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Fields that are dropped, added and changed panic nowhere and break no law, and a turn whose end is left whole ends.
    #[test]
    fn no_stream_fails_for_a_surprise(which in any::<usize>(), spoils in proptest::collection::vec(any::<(usize, usize, u8)>(), 1..12)) {
        let recordings = recordings();
        let recording = recordings.values().nth(which % recordings.len()).unwrap();
        let mut messages = received(recording);
        let is_framing = |message: &Value| {
            let method = message["method"].as_str().unwrap_or_default();
            ["task_started", "task_complete", "turn_aborted"].iter().any(|name| method.ends_with(name))
        };
        for (index, at, how) in spoils {
            let index = index % messages.len();
            if !is_framing(&messages[index]) && messages[index].get("params").is_some() {
                spoil(&mut messages[index]["params"], at, how);
            }
        }
        let ends = |messages: &[Value]| messages.iter().filter(|message| {
            let method = message["method"].as_str().unwrap_or_default();
            method.ends_with("task_complete") || method.ends_with("turn_aborted")
        }).count();
        let (mut reader, mut laws) = (Reader::default(), Laws::default());
        for message in &messages {
            of_turns(read(&mut reader, message)).for_each(|placed| laws.take(placed));
        }
        prop_assert!(laws.ended.len() >= ends(&messages), "{} of {}", laws.ended.len(), ends(&messages));
    }
}
