//! Whole turns with the demo worker behind a WebSocket.

use std::os::unix::fs::MetadataExt as _;

use futures_util::{SinkExt as _, StreamExt as _};
use tempfile::TempDir;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::{WebSocketStream, accept_async};

use super::{Talk, run};
use crate::endpoint::Endpoint;

/// Serves one client until it goes or the worker ends.
pub(super) async fn serve(stream: impl AsyncRead + AsyncWrite + Unpin) {
    const CONNECTION: demo::ConnectionId = demo::ConnectionId(0);
    let mut socket = accept_async(stream).await.unwrap();
    let home = demo::Home::open(None).unwrap();
    let mut worker = demo::Worker::new(demo::Dialect::V2, home, demo::Script::default(), demo::Now::read());
    worker.handle_opened(CONNECTION);
    while !has_ended(&mut worker, &mut socket).await {
        let due = worker.poll_timeout().map(tokio::time::Instant::from_std);
        tokio::select! {
            biased;
            () = tokio::time::sleep_until(due.unwrap_or_else(tokio::time::Instant::now)), if due.is_some() => {
                worker.handle_timeout(demo::Now::read());
            }
            message = socket.next() => match message {
                Some(Ok(message)) => worker.handle_line(CONNECTION, &message.into_data(), demo::Now::read()),
                _ => return,
            }
        }
    }
}

/// Says all that the worker wants said.
async fn has_ended<S>(worker: &mut demo::Worker, socket: &mut WebSocketStream<S>) -> bool
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    while let Some(output) = worker.poll_output(std::time::Instant::now()) {
        let lines = match output {
            demo::Output::Bytes { bytes, .. } => bytes,
            demo::Output::LongLine { head, filler_bytes, tail, .. } => {
                [head, vec![b'x'; filler_bytes.try_into().unwrap()], tail].concat()
            }
            demo::Output::End(_) => return true,
            _ => continue,
        };
        for line in String::from_utf8(lines).unwrap().lines() {
            if socket.send(Message::text(line)).await.is_err() {
                return true;
            }
        }
    }
    false
}

/// Lets `talk` have a demo worker on a unix socket.
fn with_demo<T>(talk: impl AsyncFnOnce(Talk, &TempDir) -> T) -> T {
    run(async {
        let directory = TempDir::new().unwrap();
        let path = directory.path().join("worker.sock");
        let listener = UnixListener::bind(&path).unwrap();
        let endpoint = Endpoint::unix(&path).of_user(directory.path().metadata().unwrap().uid());
        let worker = async { serve(listener.accept().await.unwrap().0).await };
        let talk = async {
            let mut client = Talk::connect(&endpoint).await.unwrap();
            client.initialize().await;
            talk(client, &directory).await
        };
        tokio::join!(worker, talk).1
    })
}

#[test]
fn a_turn_over_a_unix_socket() {
    with_demo(async |mut talk, directory| {
        talk.turn(directory.path(), "[[text]]").await;
        assert_eq!(talk.text().await, ("Hello from mock.".into(), vec![]));
        assert_eq!(talk.stop().await.to_string(), "the connection was closed");
    });
}

#[test]
fn a_unix_socket_of_another_user_is_refused() {
    run(async {
        let directory = TempDir::new().unwrap();
        let path = directory.path().join("worker.sock");
        let _listener = UnixListener::bind(&path).unwrap();
        let us = directory.path().metadata().unwrap().uid();
        let refused = Talk::connect(&Endpoint::unix(&path).of_user(us + 1)).await.err().unwrap().to_string();
        let expected = format!("a process of uid {us} listens there, and not one of uid {}", us + 1);
        assert!(refused.contains(&expected), "{refused}");
    });
}

#[test]
fn a_turn_over_tcp() {
    run(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let directory = TempDir::new().unwrap();
        let worker = async { serve(listener.accept().await.unwrap().0).await };
        let talk = async {
            let endpoint = format!("ws://{address}/any/path").parse().unwrap();
            let mut talk = Talk::connect(&endpoint).await.unwrap();
            talk.initialize().await;
            talk.turn(directory.path(), "[[text]]").await;
            assert_eq!(talk.text().await.0, "Hello from mock.");
            talk.stop().await;
        };
        tokio::join!(worker, talk);
    });
}

#[test]
fn every_delta_of_a_flood_arrives_in_order() {
    with_demo(async |mut talk, directory| {
        talk.turn(directory.path(), "[[deltas 20000]]").await;
        let (text, reports) = talk.text().await;
        let expected: Vec<String> = (0..20_000).map(|n| format!("t{n}")).collect();
        assert!(text.split_whitespace().eq(expected.iter().map(String::as_str)), "{} bytes", text.len());
        assert!(reports.is_empty(), "{reports:?}");
        talk.stop().await;
    });
}

#[test]
fn a_message_above_the_limit_is_reported_and_the_turn_goes_on() {
    with_demo(async |mut talk, directory| {
        talk.turn(directory.path(), "[[line 40000000]]").await;
        let (text, reports) = talk.text().await;
        assert!(text.ends_with("after the fault."), "{text}");
        assert_eq!(reports.len(), 1);
        assert!(reports[0].starts_with("too long (a line of 39999999 bytes"), "{}", reports[0]);
        talk.stop().await;
    });
}

#[test]
fn faulty_messages_are_reported_and_the_turn_goes_on() {
    with_demo(async |mut talk, directory| {
        talk.turn(directory.path(), "[[deep 10000]]").await;
        let (text, reports) = talk.text().await;
        assert!(text.ends_with("after the fault."), "{text}");
        assert!(reports[0].starts_with("nesting too deep"), "{reports:?}");
        talk.stop().await;
    });
}

#[test]
fn a_worker_that_crashes_ends_the_link() {
    with_demo(async |mut talk, directory| {
        talk.turn(directory.path(), "[[crash 2]]").await;
        let end = talk.end().await;
        assert!(end.starts_with("the connection broke: "), "{end}");
    });
}
