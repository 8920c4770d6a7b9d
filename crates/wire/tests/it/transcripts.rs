//! Every recording of the real worker replays through a connection without a report. Recordings are redacted and
//! written anew, so it is the messages that are replayed, not the bytes; and answers get the ids of our own calls.

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::Value;
use wire::{CallId, Connection, Event, Json, JsonRpcField, Limits, RequestId};

#[test]
fn recordings_of_the_real_worker_replay_without_a_report() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../transcripts");
    let mut replayed = 0;
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "jsonl") {
            let text = fs::read_to_string(&path).unwrap();
            let mut replay = Replay::default();
            for line in text.lines() {
                replay.step(&serde_json::from_str(line).unwrap(), &path);
            }
            replayed += replay.settled;
        }
    }
    assert!(replayed > 100, "only {replayed} calls were answered in all recordings");
}

struct Replay {
    connection: Connection,
    /// The calls under way, by the id that they had in the recording.
    calls: HashMap<String, CallId>,
    requests: HashMap<String, RequestId>,
    settled: usize,
}

impl Default for Replay {
    fn default() -> Self {
        Self {
            connection: Connection::new(Limits::default(), JsonRpcField::Omitted),
            calls: HashMap::new(),
            requests: HashMap::new(),
            settled: 0,
        }
    }
}

impl Replay {
    fn step(&mut self, recorded: &Value, path: &Path) {
        let message = &recorded["message"];
        match recorded["dir"].as_str().unwrap() {
            "sent" => self.send(message),
            "received" => self.receive(message.clone(), path),
            "exit" => {
                self.connection.handle_eof();
                self.check_events(path);
                let settled = self.settled;
                *self = Self { settled, ..Self::default() };
            }
            other => panic!("{}: no direction {other:?}", path.display()),
        }
    }

    fn send(&mut self, message: &Value) {
        let id = message["id"].to_string();
        if let Some(method) = message["method"].as_str() {
            if message["id"].is_null() {
                self.connection.notify(method, None).unwrap();
            } else {
                #[expect(clippy::disallowed_methods, reason = "the deadline plays no part here")]
                let deadline = Instant::now() + Duration::from_secs(60);
                let params = Json::of(&message["params"]).unwrap();
                let call = self.connection.call(method, Some(&params), deadline).unwrap();
                self.calls.insert(id, call);
            }
        } else if let Some(request) = self.requests.remove(&id) {
            let result = Json::of(&message["result"]).unwrap();
            self.connection.answer(&request, Ok(&result)).unwrap();
        }
        while self.connection.poll_transmit().is_some() {}
    }

    fn receive(&mut self, mut message: Value, path: &Path) {
        if message.get("method").is_none() {
            let call = self.calls[&message["id"].to_string()];
            message["id"] = call.to_string().parse::<u64>().unwrap().into();
        }
        let line = message.to_string() + "\n";
        assert_eq!(self.connection.handle_input(line.as_bytes()), line.len());
        self.check_events(path);
    }

    fn check_events(&mut self, path: &Path) {
        while let Some(event) = self.connection.poll_event() {
            match event {
                Event::Reported(report) => panic!("{}: {report}", path.display()),
                Event::Settled { .. } => self.settled += 1,
                Event::Request(request) => {
                    self.requests.insert(request.id.to_string(), request.id);
                }
                Event::Notification(_) | Event::Closed { .. } => {}
            }
        }
    }
}
