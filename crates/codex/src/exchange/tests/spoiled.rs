//! Recordings of the real worker, spoiled here and there and played as streams: each turn still ends exactly once, and what
//! begins also ends.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use super::*;

/// What the worker sent in each recording.
fn recordings() -> Vec<Vec<Value>> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../transcripts");
    let mut paths: Vec<_> = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "jsonl"));
    // The order of a directory is not the same everywhere, and a seed must find the same recording.
    paths.sort();
    let received = |text: String| -> Vec<Value> {
        let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        lines.filter(|line| line["dir"] == "received").map(|mut line| line["message"].take()).collect()
    };
    paths.iter().map(|path| received(fs::read_to_string(path).unwrap())).collect()
}

/// Takes a field away, or changes what it holds, or adds one.
fn spoil(message: &mut Value, random: &mut fastrand::Rng) {
    let mut object = message["params"].as_object_mut();
    while let Some(fields) = object {
        let names: Vec<String> = fields.keys().cloned().collect();
        let Some(name) = random.choice(&names).cloned() else {
            fields.insert("surprise".into(), json!(["new"]));
            return;
        };
        if fields[&name].is_object() && random.bool() {
            object = fields[&name].as_object_mut();
            continue;
        }
        let replacement = [Value::Null, json!("never heard of"), json!(7), json!({"type": "hologram"})];
        match random.u8(..3) {
            0 => drop(fields.remove(&name)),
            1 => fields[&name] = random.choice(replacement).unwrap(),
            _ => drop(fields.insert("surprise".into(), json!({"deeply": ["new"]}))),
        }
        return;
    }
}

#[test]
fn a_spoiled_stream_goes_on_and_its_turns_end_once() {
    let recordings = recordings();
    let scale: u64 = std::env::var("SWITCHBOARD_TEST_SCALE").ok().and_then(|scale| scale.parse().ok()).unwrap_or(1);
    let mut ended = 0;
    for seed in 0..400 * scale {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut play = Play::new();
        let mut turns: BTreeMap<String, TurnKey> = BTreeMap::new();
        for mut message in random.choice(&recordings).unwrap().clone() {
            if message["method"] == "turn/started"
                && let (Some(thread), Some(turn)) =
                    (message["params"]["threadId"].as_str(), message["params"]["turn"]["id"].as_str())
                && let Ok(key) = play.exchange.follow_turn(thread, turn)
            {
                turns.insert(turn.into(), key);
            } else if random.u8(..8) == 0 {
                spoil(&mut message, &mut random);
            }
            play.hear(&[&message.to_string()]);
        }
        assert!(!play.exchange.connection.is_closed(), "seed {seed}");
        play.exchange.end("the recording is over");
        for (turn, key) in turns {
            let read = play.read(key);
            let ends = read.matches(r#"{"type":"turn_ended""#).count();
            assert_eq!(
                (ends, read.lines().nth_back(1).map(|line| line.contains("turn_ended"))),
                (1, Some(true)),
                "seed {seed}, turn {turn}:\n{read}"
            );
            let count = |kind: &str| read.matches(&format!(r#"{{"type":"{kind}""#)).count();
            assert_eq!(count("item_started"), count("item_completed"), "seed {seed}, turn {turn}:\n{read}");
            ended += 1;
        }
    }
    assert!(ended > 100, "only {ended} turns were played");
}
