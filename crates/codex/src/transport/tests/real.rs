//! The real codex, listening: the same turn over each kind of socket, and its refusals in its own words.

use std::ffi::OsString;
use std::time::Duration;

use serde_json::json;
use supervise::{Child, Ladder, Launch, Limits, Owner, Rlimits};
use testkit::codex;
use testkit::model::StandIn;
use testkit::workplace::Workplace;
use wire::Outcome;

use super::{Talk, run};
use crate::endpoint::Endpoint;

/// A worker that listens, with all that it needs to live.
struct Listening<'a> {
    child: Child,
    workplace: &'a Workplace,
}

/// Lets `test` have a place for a worker, and a model.
fn with_model(test: impl AsyncFnOnce(&Workplace, &StandIn)) {
    let (workplace, model) = (Workplace::new().unwrap(), StandIn::start().unwrap());
    run(test(&workplace, &model));
}

impl<'a> Listening<'a> {
    fn start(workplace: &'a Workplace, model: &StandIn, listen: &[&str]) -> Self {
        let start = codex::launch(codex::binary().unwrap(), workplace, model).unwrap();
        let launch = Launch {
            program: start.argv[0].clone(),
            args: start.argv[1..].iter().cloned().chain(listen.iter().map(OsString::from)).collect(),
            cwd: start.cwd,
            env: start.environment,
            owner: Owner::generate(),
            rlimits: Rlimits::default(),
        };
        Self { child: launch.spawn(Limits::default()).unwrap(), workplace }
    }

    /// Where its stderr says that it listens.
    async fn address(&self) -> String {
        loop {
            let told = self.child.process.stderr().text;
            if let Some((_, told)) = told.split_once("listening on: ")
                && let Some((address, _)) = told.split_once('\n')
            {
                return address.trim().into();
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    async fn plays_a_turn(&self, mut talk: Talk) {
        talk.initialize().await;
        talk.turn(&self.workplace.project(), "[[text]]").await;
        assert_eq!(talk.text().await, ("Hello from mock.".into(), vec![]));
        assert_eq!(talk.stop().await.to_string(), "the connection was closed");
    }
}

/// The socket is there a moment after the worker.
async fn connected(endpoint: &Endpoint) -> Talk {
    loop {
        match Talk::connect(endpoint).await {
            Ok(talk) => return talk,
            Err(_) => tokio::time::sleep(Duration::from_millis(5)).await,
        }
    }
}

#[test]
fn a_turn_over_its_unix_socket_and_the_worker_stays() {
    with_model(async |workplace, model| {
        let endpoint = Endpoint::unix(workplace.home().join("worker.sock"));
        let worker = Listening::start(workplace, model, &["--listen", &endpoint.to_string()]);
        worker.plays_a_turn(connected(&endpoint).await).await;
        worker.plays_a_turn(Talk::connect(&endpoint).await.unwrap()).await;
        let talk = Talk::connect(&endpoint).await.unwrap();
        worker.child.stop(Ladder::default()).await;
        let end = talk.end().await;
        assert!(end.contains("the connection broke") || end.contains("the worker closed"), "{end}");
    });
}

#[test]
fn its_token_is_needed_over_tcp() {
    with_model(async |workplace, model| {
        let file = workplace.home().join("token");
        std::fs::write(&file, "0123456789abcdef").unwrap();
        let token = ["--ws-auth", "capability-token", "--ws-token-file", file.to_str().unwrap()];
        let worker =
            Listening::start(workplace, model, &[&["--listen", "ws://127.0.0.1:0"], token.as_slice()].concat());
        let endpoint: Endpoint = worker.address().await.parse().unwrap();
        let missing = Talk::connect(&endpoint).await.err().unwrap();
        assert_eq!(missing.to_string(), format!("{endpoint} refused with 401: missing websocket bearer token"));
        let wrong = Talk::connect(&endpoint.clone().with_token("wrong").unwrap()).await.err().unwrap();
        assert_eq!(wrong.to_string(), format!("{endpoint} refused with 401: invalid websocket bearer token"));
        let endpoint = endpoint.with_token("0123456789abcdef").unwrap();
        worker.plays_a_turn(Talk::connect(&endpoint).await.unwrap()).await;
        worker.child.stop(Ladder::default()).await;
    });
}

#[test]
fn a_call_of_more_than_one_frame_reaches_it() {
    with_model(async |workplace, model| {
        let worker = Listening::start(workplace, model, &["--listen", "ws://127.0.0.1:0"]);
        let endpoint = worker.address().await.parse().unwrap();
        let mut talk = Talk::connect(&endpoint).await.unwrap();
        talk.initialize().await;
        let thread = talk.call("thread/start", &json!({"cwd": worker.workplace.project()})).await;
        let input = json!([{"type": "text", "text": "x".repeat(20 << 20)}]);
        let sent = talk.send("turn/start", &json!({"threadId": thread["thread"]["id"], "input": input}));
        let Outcome::Failed(error) = talk.settled(sent).await else { panic!("so long a text is refused") };
        assert!(error.message.contains("exceeds"), "{}", error.message);
        talk.stop().await;
        worker.child.stop(Ladder::default()).await;
    });
}
