//! Laws of the v1 dialect, on what the real workers said and on what they might: whatever comes, a turn begins once, ends
//! once, and tells its items in order.

use std::collections::{BTreeMap, BTreeSet};

use codex::event::{Placed, TurnEvent};
use codex::v1::Reader;
use proptest::prelude::{ProptestConfig, any, prop_assert, proptest};
use serde_json::{Value, json};

use crate::v1::{of_turns, read, received, recordings};

/// A thread and a turn of it.
type TurnName = (Box<str>, Box<str>);

/// What must hold for every turn of a stream, whatever is in it.
#[derive(Default)]
struct Laws {
    begun: BTreeSet<TurnName>,
    ended: BTreeSet<TurnName>,
    open: BTreeSet<(TurnName, Box<str>)>,
    asked: BTreeSet<(TurnName, Box<str>)>,
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
                assert!(!self.asked.iter().any(|(asked, _)| *asked == turn), "{:?} is not resolved", self.asked);
                self.open.retain(|(open, _)| *open != turn);
            }
            TurnEvent::ItemStarted { item } => {
                assert!(self.open.insert((turn, item.id.clone())), "{} starts twice", item.id);
            }
            TurnEvent::ItemCompleted { item } => {
                assert!(self.open.remove(&(turn, item.id.clone())), "{} completes and has not started", item.id);
            }
            TurnEvent::Text { item, .. }
            | TurnEvent::Reasoning { item, .. }
            | TurnEvent::ReasoningSummary { item, .. }
            | TurnEvent::ReasoningPart { item, .. }
            | TurnEvent::CommandOutput { item, .. }
            | TurnEvent::FileChangeOutput { item, .. } => {
                assert!(self.open.contains(&(turn, item.clone())), "{item} is not open");
            }
            TurnEvent::ApprovalWanted { request, .. } => {
                self.asked.insert((turn, request));
            }
            TurnEvent::ApprovalResolved { request } => {
                assert!(self.asked.remove(&(turn, request.clone())), "{request} was not asked");
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
        let mut texts: BTreeMap<(Box<str>, Box<str>), String> = BTreeMap::new();
        for placed in received(&recording).iter().flat_map(|message| of_turns(read(&mut reader, message))) {
            match placed.event {
                TurnEvent::Text { item, text } => {
                    texts.entry((placed.thread, item)).or_default().push_str(&text.to_str());
                }
                TurnEvent::ItemCompleted { item } if &*item.kind == "agent_message" => {
                    let raw: Value = item.raw.parse().unwrap();
                    let content = &raw["item"]["AgentMessage"]["content"][0]["Text"]["text"];
                    let shapes = [&raw["message"], content, &raw["item"]["content"][0]["text"]];
                    let whole = shapes.iter().find_map(|shape| shape.as_str());
                    assert_eq!(whole, texts.get(&(placed.thread, item.id)).map(String::as_str), "{name}");
                    messages += 1;
                }
                _ => {}
            }
        }
    }
    assert!(messages > 25, "only {messages} messages in all recordings");
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
