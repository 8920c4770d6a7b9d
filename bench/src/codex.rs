//! What it costs to know what a line means: as an event of a turn, and as a value of the generated types; against
//! codex-codes, which types every line, in the same run.

use std::fs;
use std::hint::black_box;
use std::path::Path;

use ::codex::protocol::Notification;
use anyhow::{Result, ensure};
use serde_json::Value;
use wire::{Connection, Envelope, Event, JsonRpcField, Limits, peek};

use crate::cpu::{Contender, race};
use crate::lines::generate;

const DELTA_LINES: u32 = 200_000;
const RECORDED_ROUNDS: usize = 40;
const EVENTS_OVER_CODEX_CODES: f64 = 4.0;
const TYPED_OVER_CODEX_CODES: f64 = 3.0;

pub(crate) fn run() -> Result<()> {
    let is_delta = |line: &String| line.contains("elta\",\"params\"");
    let deltas: Vec<String> = generate(DELTA_LINES).into_iter().filter(is_delta).collect();
    let all_read = deltas.iter().all(|line| {
        let params = serde_json::from_str::<Value>(line).ok().and_then(|line| wire::Json::of(&line["params"]).ok());
        let method = line.split('"').find(|part| part.starts_with("item/"));
        params.zip(method).is_some_and(|(params, method)| ::codex::v2::delta(method, &params).is_some())
    });
    ensure!(all_read, "a delta line is no event");
    let events = compare("delta line → event", &deltas, |lines| {
        let mut connection = Connection::new(Limits::default(), JsonRpcField::Omitted);
        for line in lines {
            read(&mut connection, line);
        }
    })?;
    let recorded = recorded()?;
    let tag_first: Vec<String> = recorded.iter().map(|line| tag_first(line)).collect();
    let typed = compare("recorded line → typed notification", &tag_first, type_all)?;
    let typed_sorted = compare("the same, with its keys sorted", &recorded, type_all)?;
    ensure!(events >= EVENTS_OVER_CODEX_CODES, "events are below the bar of {EVENTS_OVER_CODEX_CODES}×");
    ensure!(typed.min(typed_sorted) >= TYPED_OVER_CODEX_CODES, "typing is below the bar of {TYPED_OVER_CODEX_CODES}×");
    Ok(())
}

/// The way of a line through the client: the connection's state machine, then the dialect.
fn read(connection: &mut Connection, line: &str) {
    connection.handle_message(line.as_bytes());
    if let Some(Event::Notification(told)) = connection.poll_event()
        && let Some(params) = &told.params
    {
        black_box(::codex::v2::delta(&told.method, params));
    }
}

fn type_all(lines: &[String]) {
    for line in lines {
        black_box(typed(line));
    }
}

fn typed(line: &str) -> Option<Notification> {
    match peek(line.as_bytes(), Limits::default().depth_max) {
        Ok(Envelope::Notification { method, params, .. }) => Notification::parse(&method, params?).ok()?,
        _ => None,
    }
}

/// How much less CPU time ours takes than codex-codes does for the same lines.
fn compare(what: &str, lines: &[String], ours: impl Fn(&[String])) -> Result<f64> {
    let mut contenders = [
        Contender::new("ours", || ours(lines)),
        Contender::new("codex-codes", || {
            for line in lines {
                _ = black_box(codex_codes::ServerMessage::from_json_str(line));
            }
        }),
    ];
    race(&mut contenders);
    let count = u32::try_from(lines.len())?;
    let bytes = lines.iter().map(String::len).sum::<usize>() / lines.len();
    println!("{what}: {count} lines of {bytes} bytes on average, one thread, CPU time");
    let [ours, theirs] = contenders.each_ref().map(|contender| contender.nanos_each(count));
    println!("  ours         {ours:>8.1} ns/line\n  codex-codes  {theirs:>8.1} ns/line\n  {:.1}×", theirs / ours);
    Ok(theirs / ours)
}

/// Every notification that was recorded of the real worker and that both contenders can type, several times over.
fn recorded() -> Result<Vec<String>> {
    let mut lines = Vec::new();
    let mut strange = 0;
    let transcripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("../transcripts");
    for entry in fs::read_dir(transcripts)? {
        let path = entry?.path();
        if path.extension().is_none_or(|extension| extension != "jsonl") {
            continue;
        }
        for line in fs::read_to_string(&path)?.lines() {
            let entry: Value = serde_json::from_str(line)?;
            let message = &entry["message"];
            if entry["dir"] != "received" || message.get("method").is_none() || message.get("id").is_some() {
                continue;
            }
            let line = message.to_string();
            ensure!(typed(&line).is_some(), "a line is not typed: {line}");
            match codex_codes::ServerMessage::from_json_str(&line) {
                Ok(_) => lines.push(line),
                Err(_) => strange += 1,
            }
        }
    }
    println!("{} recorded notifications, and {strange} that codex-codes cannot type", lines.len());
    Ok((0..RECORDED_ROUNDS).flat_map(|_| lines.clone()).collect())
}

/// The same line as a worker writes it: the transcripts sort the keys, serde writes the tag of a union first.
fn tag_first(line: &str) -> String {
    let value: Value = serde_json::from_str(line).expect("it was JSON");
    let mut text = String::new();
    write(&value, &mut text);
    text
}

fn write(value: &Value, text: &mut String) {
    match value {
        Value::Object(fields) => {
            let tag = fields.iter().filter(|(name, _)| *name == "type");
            let others = fields.iter().filter(|(name, _)| *name != "type");
            text.push('{');
            for (index, (name, value)) in tag.chain(others).enumerate() {
                if index > 0 {
                    text.push(',');
                }
                *text += &Value::from(name.as_str()).to_string();
                text.push(':');
                write(value, text);
            }
            text.push('}');
        }
        Value::Array(items) => {
            text.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    text.push(',');
                }
                write(item, text);
            }
            text.push(']');
        }
        simple => *text += &simple.to_string(),
    }
}
