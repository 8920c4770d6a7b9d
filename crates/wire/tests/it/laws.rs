//! Laws that hold for any input: how bytes are cut into reads changes nothing, and everything ends exactly once.

use std::collections::HashSet;
use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::{Just, ProptestConfig, Strategy, any, prop_assert, prop_assert_eq, prop_oneof, proptest};
use wire::{CallId, Connection, Event, Json, JsonRpcField, RequestId};

use crate::framing::{outcome_of, small_limits, zero};
use crate::{scale, show};

/// Lines of every kind, good and bad, and bytes that are nothing at all.
fn peer_bytes() -> impl Strategy<Value = Vec<u8>> {
    let line = prop_oneof![
        (0..6_i64).prop_map(|id| format!(r#"{{"id":{id},"result":{{}}}}"#).into_bytes()),
        (0..6_i64).prop_map(|id| format!(r#"{{"error":{{"code":1,"message":"m"}},"id":{id}}}"#).into_bytes()),
        (0..4_i64).prop_map(|id| format!(r#"{{"method":"ask","id":{id}}}"#).into_bytes()),
        (0..90_usize).prop_map(|n| format!(r#"{{"method":"tell","params":"{}"}}"#, "x".repeat(n)).into_bytes()),
        (0..6_i64, 40..90_usize)
            .prop_map(|(id, n)| format!(r#"{{"id":{id},"result":"{}"}}"#, "x".repeat(n)).into_bytes()),
        (0..9_usize).prop_map(|n| format!(r#"{{"id":1,"result":{}{}}}"#, "[".repeat(n), "]".repeat(n)).into_bytes()),
        vec(any::<u8>(), 0..20),
        Just(b"  \r".to_vec()),
        Just(b"[{}]".to_vec()),
    ];
    vec(line, 0..12).prop_map(|lines| lines.join(&b'\n'))
}

#[derive(Clone, Debug)]
enum Step {
    Call,
    Cancel(usize),
    Read(Vec<u8>),
    Answer(usize),
    Transmit(usize),
    Tick(u64),
    Eof,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => Just(Step::Call),
        1 => (0..8_usize).prop_map(Step::Cancel),
        4 => peer_bytes().prop_map(|mut bytes| { bytes.push(b'\n'); Step::Read(bytes) }),
        2 => (0..8_usize).prop_map(Step::Answer),
        4 => (0..4_usize).prop_map(Step::Transmit),
        2 => (0..40_u64).prop_map(Step::Tick),
        1 => Just(Step::Eof),
    ];
    vec(step, 0..40)
}

fn config() -> ProptestConfig {
    ProptestConfig::with_cases(256 * scale())
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn any_chunking_of_the_same_bytes_gives_the_same_events(
        bytes in peer_bytes(),
        pieces in vec(1..30_usize, 1..8),
    ) {
        let whole = outcome_of(&bytes, &[bytes.len().max(1)]);
        prop_assert_eq!(&outcome_of(&bytes, &pieces), &whole);
        prop_assert_eq!(&outcome_of(&bytes, &[1]), &whole);
    }

    #[test]
    fn a_call_settles_exactly_once_and_a_request_is_answered_at_most_once(steps in steps()) {
        let limits = small_limits();
        let mut connection = Connection::new(limits.clone(), JsonRpcField::Omitted);
        let start = zero();
        let mut now = start;
        let mut calls: Vec<CallId> = Vec::new();
        let mut settled: HashSet<CallId> = HashSet::new();
        let mut requests: Vec<RequestId> = Vec::new();
        let mut answered: HashSet<RequestId> = HashSet::new();
        let mut unread: Vec<u8> = Vec::new();
        let mut is_closed = false;
        for step in steps.into_iter().chain([Step::Eof]) {
            match step {
                Step::Call => {
                    if let Ok(call) = connection.call("m", None, now + Duration::from_secs(20)) {
                        prop_assert!(!is_closed);
                        calls.push(call);
                    }
                }
                Step::Cancel(at) => {
                    if let Some(call) = calls.get(at) {
                        connection.cancel(*call);
                    }
                }
                Step::Read(bytes) => unread.extend(bytes),
                Step::Answer(at) => {
                    if let Some(request) = requests.get(at) {
                        let result = &Json::of(&()).unwrap();
                        let was_new = !answered.contains(request) && !is_closed;
                        prop_assert_eq!(connection.answer(request, Ok(result)).is_ok(), was_new);
                        answered.insert(request.clone());
                    }
                }
                Step::Transmit(count) => {
                    for _ in 0..count {
                        connection.poll_transmit();
                    }
                }
                Step::Tick(seconds) => {
                    now += Duration::from_secs(seconds);
                    connection.handle_timeout(now);
                    prop_assert!(connection.poll_timeout().is_none_or(|(at, _)| at > now));
                }
                Step::Eof => connection.handle_eof(),
            }
            let taken = connection.handle_input(&unread);
            unread.drain(..taken);
            let mut events = 0;
            while let Some(event) = connection.poll_event() {
                events += 1;
                prop_assert!(!is_closed, "an event after Closed: {}", show::event(&event));
                match event {
                    Event::Settled { call, .. } => {
                        prop_assert!(calls.contains(&call));
                        prop_assert!(settled.insert(call), "call {} settled twice", call);
                    }
                    Event::Request(request) => requests.push(request.id),
                    Event::Closed { unanswered } => {
                        is_closed = true;
                        for id in &unanswered {
                            prop_assert!(requests.contains(id) && !answered.contains(id));
                        }
                        let open = requests.iter().filter(|id| !answered.contains(*id)).count();
                        prop_assert_eq!(unanswered.len(), open);
                    }
                    Event::Notification(_) | Event::Reported(_) => {}
                }
            }
            // One read adds at most the bound and the two events of its last line; each call may settle beside it.
            prop_assert!(events <= limits.events_max + 2 + calls.len() + 1);
        }
        prop_assert!(is_closed);
        prop_assert_eq!(settled.len(), calls.len());
    }
}
