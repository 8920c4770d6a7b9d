//! Every line a worker says in the exchanges of `transcripts/` is valid against upstream's schema; the messages of the
//! unit tests are held against it where they are said. The first dialect, v1, has no schema here: nothing
//! but the expectations of its own tests holds it.

use serde_json::{Value, json};
use testkit::schema::faults;
use testkit::transcript::Direction;

use crate::comparison::list;
use crate::plays::{self, Play};

#[test]
fn every_line_of_the_demo_worker_is_valid() {
    let mut report = String::new();
    for Play { script, outcome } in plays::demo() {
        match outcome {
            Err(reason) => list(&mut report, script, &[reason]),
            Ok(transcript) => list(&mut report, script, &faults(transcript)),
        }
    }
    assert!(report.is_empty(), "{report}");
}

#[test]
fn every_line_of_the_real_worker_is_valid() {
    let mut report = String::new();
    for script in plays::names("jsonl") {
        match plays::kept(&script) {
            Err(reason) => list(&mut report, &script, &[reason]),
            Ok(transcript) => list(&mut report, &script, &faults(&transcript)),
        }
    }
    assert!(report.is_empty(), "{report}");
}

#[test]
fn a_line_with_one_wrong_value_is_found() {
    let kept = plays::kept("turn-plain").expect("it is kept");
    assert_eq!(faults(&kept), Vec::<String>::new());
    for (pointer, wrong) in [
        ("/method", json!("turn/vanished")),
        ("/params/turn/status", json!("asleep")),
        ("/params/turn/id", json!(7)),
        ("/result/turn/items", json!({})),
        ("/result/platformOs", Value::Null),
    ] {
        let mut changed = kept.clone();
        let mut places = changed.entries.iter_mut().filter(|entry| entry.direction == Direction::Received);
        let place = places.find_map(|entry| entry.message.pointer_mut(pointer)).expect("the line is there");
        *place = wrong;
        assert_eq!(faults(&changed).len(), 1, "{pointer}: {:?}", faults(&changed));
    }
}
