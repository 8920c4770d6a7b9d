//! What holds for any turn, whatever it says and in whichever pieces: the stream is well-formed, tells exactly what was said, ends
//! once, and leaves the same history as the whole answer, repeated by its caller, would.

use codex::{Text, TurnEvent, TurnStatus, Usage};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::answer::{Answer, Said};
use super::chunks::{ChunkWriter, DONE, Heading, write_error};
use super::history::History;
use super::message::Message;
use super::reading::{End, Reading};
use super::request::Request;

fn request(stop: &[String]) -> Request {
    let body = json!({
        "model": "codex", "messages": [{"role": "user", "content": "hi"}], "stop": stop,
        "tools": [{"type": "function", "function": {"name": "look"}}],
    });
    Request::read(&body).unwrap()
}

fn heading() -> Heading {
    Heading { id: "chatcmpl-1".into(), created: 1, model: "m\"".into(), tells_usage: true, tells_functions: false }
}

/// What a turn tells, as a stream and as one object, and the history that it leaves.
struct Told {
    stream: String,
    whole: Value,
    history: Option<String>,
}

fn told(events: &[TurnEvent], stop: &[String]) -> Told {
    let request = request(stop);
    let mut said = History::new(&["key"]);
    request.messages.iter().for_each(|message| said.add(message));
    let heading = heading();
    let (mut reading, mut writer) = (Reading::new(&request, true, &said), ChunkWriter::new(&heading, 0));
    let (mut out, mut choice) = (Vec::new(), Said::default());
    writer.write_role(&mut out);
    let mut ended = None;
    for event in events {
        ended = reading.handle_event(event, |piece| {
            writer.write_piece(&piece, &mut out);
            choice.add(&piece);
        });
        if ended.is_some() {
            break;
        }
    }
    match &ended {
        Some(End::Failed(error)) => write_error(error, &mut out),
        Some(end) => {
            writer.write_finish(heading.finish_reason(end), &mut out);
            heading.write_usage(&reading.usage().unwrap_or_default(), &mut out);
            out.extend_from_slice(DONE);
        }
        None => {}
    }
    let reason = ended.as_ref().map_or("stop", |end| heading.finish_reason(end));
    let choices = [(choice, reason)];
    let whole = serde_json::to_value(Answer::new(&heading, &choices, &codex::Usage::default())).unwrap();
    Told { stream: String::from_utf8(out).unwrap(), whole, history: reading.history() }
}

/// The chunks of a stream, held to be well-formed.
fn chunks(stream: &str) -> Vec<Value> {
    let mut chunks = Vec::new();
    for event in stream.strip_suffix("\n\n").unwrap().split("\n\n") {
        let data = event.strip_prefix("data: ").unwrap_or_else(|| panic!("{event:?} is no data"));
        assert!(!data.contains(['\n', '\r']), "{data:?}");
        if data != "[DONE]" {
            let chunk: Value = serde_json::from_str(data).unwrap_or_else(|error| panic!("{error}: {data}"));
            assert!(chunk["error"].is_object() || chunk["id"] == "chatcmpl-1" && chunk["model"] == "m\"", "{chunk}");
            chunks.push(chunk);
        }
    }
    chunks
}

fn joined(chunks: &[Value], field: &str) -> String {
    chunks.iter().filter_map(|chunk| chunk["choices"][0]["delta"][field].as_str()).collect()
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof!["[ab]{0,4}", "\\PC{0,8}", "[\"\\\\\n\r\t\u{0}\u{2028}😀é]{0,6}"]
}

fn event() -> impl Strategy<Value = TurnEvent> {
    let item = || "[xy]".prop_map(String::into_boxed_str);
    prop_oneof![
        6 => (item(), text()).prop_map(|(item, text)| TurnEvent::Text { item, text: Text::of(&text) }),
        2 => (item(), text()).prop_map(|(item, text)| TurnEvent::Reasoning { item, index: 0, text: Text::of(&text) }),
        1 => item().prop_map(|item| TurnEvent::ReasoningPart { item, index: 1 }),
        1 => Just(TurnEvent::TokenUsage { last: Usage { input_tokens: 1, ..Usage::default() }, total: Usage::default(), context_window: None }),
        1 => text().prop_map(|text| TurnEvent::Warning { message: text.into() }),
        1 => Just(TurnEvent::Compacted),
    ]
}

fn end() -> impl Strategy<Value = TurnEvent> {
    let status = prop_oneof![
        5 => Just(TurnStatus::Completed),
        1 => Just(TurnStatus::Failed),
        1 => Just(TurnStatus::Interrupted),
        1 => Just(TurnStatus::Lost),
    ];
    status.prop_map(|status| TurnEvent::TurnEnded { status, error: None })
}

/// All that the messages say, with an empty line wherever another begins.
fn said(events: &[TurnEvent]) -> String {
    let (mut said, mut speaker) = (String::new(), None);
    for event in events {
        if let TurnEvent::Text { item, text } = event {
            if speaker.is_some_and(|speaker| speaker != item) {
                said += "\n\n";
            }
            speaker = Some(item);
            said += &text.to_str();
        }
    }
    said
}

/// The same events with every text cut in two.
fn cut(events: &[TurnEvent]) -> Vec<TurnEvent> {
    let pieces = events.iter().flat_map(|event| match event {
        TurnEvent::Text { item, text } => {
            let text = text.to_str();
            let middle = text.char_indices().nth(text.chars().count() / 2).map_or(0, |(at, _)| at);
            let (head, tail) = text.split_at(middle);
            [head, tail].map(|text| TurnEvent::Text { item: item.clone(), text: Text::of(text) }).to_vec()
        }
        other => vec![other.clone()],
    });
    pieces.collect()
}

proptest! {
    #[test]
    fn a_stream_tells_what_the_whole_answer_tells_and_ends_once(
        mut events in prop::collection::vec(event(), 0..20), last in end(), stop in prop::collection::vec("[ab]{1,2}", 0..3),
    ) {
        events.push(last);
        let Told { stream, whole, history } = told(&events, &stop);
        let chunks = chunks(&stream);
        let ends = chunks.iter().filter(|chunk| chunk["error"].is_object() || chunk["choices"][0]["finish_reason"].is_string());
        prop_assert_eq!(ends.count(), 1, "{}", stream);
        prop_assert_eq!(stream.ends_with("data: [DONE]\n\n"), !stream.contains(r#"data: {"error""#));
        let message = &whole["choices"][0]["message"];
        if stop.is_empty() {
            prop_assert_eq!(message["content"].as_str().unwrap(), said(&events));
        }
        prop_assert_eq!(&joined(&chunks, "content"), message["content"].as_str().unwrap());
        prop_assert_eq!(joined(&chunks, "reasoning_content"), message["reasoning_content"].as_str().unwrap_or_default());
        prop_assert_eq!(joined(&chunks, "reasoning"), joined(&chunks, "reasoning_content"));
        if let Some(history) = history {
            let mut repeated = History::new(&["key"]);
            request(&stop).messages.iter().for_each(|message| repeated.add(message));
            let text = message["content"].as_str().unwrap().to_owned();
            repeated.add(&Message::Assistant { text, calls: Vec::new() });
            prop_assert_eq!(repeated.to_hash(), history, "a caller that repeats the answer finds its thread");
        }
    }

    #[test]
    fn pieces_make_no_difference_to_the_answer(
        mut events in prop::collection::vec(event(), 0..20), stop in prop::collection::vec("[ab]{1,3}", 0..3),
    ) {
        events.push(TurnEvent::TurnEnded { status: TurnStatus::Completed, error: None });
        let (one, other) = (told(&events, &stop), told(&cut(&events), &stop));
        prop_assert_eq!(one.whole, other.whole);
        prop_assert_eq!(one.history, other.history);
    }
}

#[test]
fn what_is_held_back_comes_before_the_next_message() {
    let text = |item: &str, text: &str| TurnEvent::Text { item: item.into(), text: Text::of(text) };
    let end = TurnEvent::TurnEnded { status: TurnStatus::Completed, error: None };
    let told = told(&[text("x", "one a"), text("y", "two"), end], &["ab".into()]);
    assert_eq!(told.whole["choices"][0]["message"]["content"], "one a\n\ntwo");
}
