//! Peers that do one thing wrong, or one thing only.

use std::time::Duration;

use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::json;
use tempfile::TempDir;
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpListener, TcpStream};
use tokio_tungstenite::tungstenite::handshake::server::{ErrorResponse, Request, Response};
use tokio_tungstenite::tungstenite::http::{HeaderValue, StatusCode};
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::tungstenite::protocol::frame::CloseFrame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::{Bytes, Message};
use tokio_tungstenite::{accept_async, accept_async_with_config, accept_hdr_async};
use wire::{Event, Outcome};

use super::{Reading, Ready, SocketLimits, Talk, run};
use crate::endpoint::Endpoint;

/// A peer on a port of its own, and its client.
fn with_peer<T>(peer: impl AsyncFnOnce(TcpStream), talk: impl AsyncFnOnce(Endpoint) -> T) -> T {
    run(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let endpoint = format!("ws://{}", listener.local_addr().unwrap()).parse().unwrap();
        let peer = async { peer(listener.accept().await.unwrap().0).await };
        tokio::join!(peer, talk(endpoint)).1
    })
}

/// Limits under which silence is soon too long.
fn impatient() -> SocketLimits {
    SocketLimits {
        connect_timeout: Duration::from_millis(200),
        ping_interval: Duration::from_millis(30),
        pong_timeout: Duration::from_millis(200),
        close_timeout: Duration::from_millis(100),
        ..SocketLimits::default()
    }
}

/// A peer that lives as long as its client.
async fn until_it_goes(mut stream: TcpStream) {
    tokio::io::copy(&mut stream, &mut tokio::io::sink()).await.ok();
}

async fn guarded(stream: TcpStream) {
    #[expect(clippy::result_large_err, reason = "the callback's own type")]
    let check = |request: &Request, response: Response| {
        let refused = |why: &str| {
            let mut response = ErrorResponse::new(Some(why.to_owned()));
            *response.status_mut() = StatusCode::UNAUTHORIZED;
            Err(response)
        };
        match request.headers().get("authorization").map(HeaderValue::as_bytes) {
            Some(b"Bearer right") => Ok(response),
            // Some say all that they were sent.
            Some(sent) => refused(&format!("{} is not let in", String::from_utf8_lossy(sent))),
            None => refused("nobody is let in"),
        }
    };
    if let Ok(mut socket) = accept_hdr_async(stream, check).await {
        socket.send(Message::text(r#"{"method":"welcome"}"#)).await.unwrap();
        while let Some(Ok(_)) = socket.next().await {}
    }
}

#[test]
fn the_right_token_is_let_in_and_any_other_is_refused_with_the_reason() {
    with_peer(guarded, async |endpoint| {
        let mut talk = Talk::connect(&endpoint.with_token("right").unwrap()).await.unwrap();
        assert!(matches!(talk.next().await, Some(Event::Notification(told)) if &*told.method == "welcome"));
        talk.stop().await;
    });
    for (token, reason) in [(Some("s3cret"), "Bearer … is not let in"), (None, "nobody is let in")] {
        with_peer(guarded, async |endpoint| {
            let address = endpoint.to_string();
            let endpoint = token.map_or(endpoint.clone(), |token| endpoint.with_token(token).unwrap());
            let error = Talk::connect(&endpoint).await.err().unwrap();
            assert_eq!(error.to_string(), format!("{address} refused with 401: {reason}"));
            assert!(!format!("{error:?}").contains("s3cret"));
        });
    }
}

#[test]
fn nobody_there_is_told_with_the_address() {
    run(async {
        let directory = TempDir::new().unwrap();
        let path = directory.path().join("worker.sock");
        let missing = Talk::connect(&Endpoint::unix(&path)).await.err().unwrap().to_string();
        assert!(missing.starts_with(&format!("cannot reach unix://{}: No such file", path.display())), "{missing}");
        std::fs::write(&path, "").unwrap();
        let file = Talk::connect(&Endpoint::unix(&path)).await.err().unwrap().to_string();
        assert!(file.contains("is not a socket: name the one"), "{file}");
        let address = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
        let closed = Talk::connect(&format!("ws://{address}").parse().unwrap()).await.err().unwrap().to_string();
        assert!(closed.starts_with(&format!("cannot reach ws://{address}: Connection refused")), "{closed}");
    });
}

#[test]
fn what_speaks_something_else_is_no_worker() {
    let speaks_lines = async |mut stream: TcpStream| {
        stream.write_all(b"{\"event\":\"ready\"}\n").await.unwrap();
        until_it_goes(stream).await;
    };
    with_peer(speaks_lines, async |endpoint| {
        let error = Talk::connect(&endpoint).await.err().unwrap().to_string();
        assert!(error.contains("does not speak WebSocket"), "{error}");
    });
    let hangs_up = async |stream: TcpStream| drop(stream);
    with_peer(hangs_up, async |endpoint| {
        let error = Talk::connect(&endpoint).await.err().unwrap().to_string();
        assert!(error.contains("does not speak WebSocket"), "{error}");
    });
}

#[test]
fn a_peer_that_never_answers_the_upgrade_is_given_up() {
    with_peer(until_it_goes, async |endpoint| {
        let address = endpoint.to_string();
        let error = Talk::connect_within(&endpoint, impatient()).await.err().unwrap().to_string();
        assert_eq!(error, format!("{address} let 200ms pass without opening a connection"));
    });
}

#[test]
fn a_peer_that_closes_says_why_and_its_last_words_count() {
    let closes = async |stream: TcpStream| {
        let mut socket = accept_async(stream).await.unwrap();
        socket.next().await.unwrap().unwrap();
        socket.send(Message::text(r#"{"method":"last/words"}"#)).await.unwrap();
        let frame = CloseFrame { code: CloseCode::Restart, reason: "an upgrade".into() };
        socket.close(Some(frame)).await.unwrap();
        while let Some(Ok(_)) = socket.next().await {}
    };
    with_peer(closes, async |endpoint| {
        let mut talk = Talk::connect(&endpoint).await.unwrap();
        let sent = talk.send("a", &json!({}));
        assert!(matches!(talk.next().await, Some(Event::Notification(told)) if &*told.method == "last/words"));
        assert!(matches!(talk.settled(sent).await, Outcome::Closed(_)));
        assert_eq!(talk.end().await, "the worker closed the connection (code 1012: an upgrade)");
    });
}

#[test]
fn a_peer_that_says_goodbye_and_stays_is_left() {
    let lingers = async |stream: TcpStream| {
        let mut socket = accept_async(stream).await.unwrap();
        socket.close(None).await.unwrap();
        until_it_goes(socket.into_inner()).await;
    };
    with_peer(lingers, async |endpoint| {
        let talk = Talk::connect(&endpoint).await.unwrap();
        assert_eq!(talk.end().await, "the worker closed the connection (code 1005)");
    });
}

#[test]
fn a_peer_that_vanishes_is_noticed() {
    let vanishes = async |stream: TcpStream| drop(accept_async(stream).await.unwrap());
    with_peer(vanishes, async |endpoint| {
        let end = Talk::connect(&endpoint).await.unwrap().end().await;
        assert!(end.starts_with("the connection broke: "), "{end}");
    });
}

#[test]
fn a_half_open_peer_is_noticed_and_one_that_only_answers_pings_is_kept() {
    let deaf = async |stream: TcpStream| until_it_goes(accept_async(stream).await.unwrap().into_inner()).await;
    with_peer(deaf, async |endpoint| {
        let end = Talk::connect_within(&endpoint, impatient()).await.unwrap().end().await;
        assert_eq!(end, "the worker was silent for 230ms, and a ping got no answer");
    });
    let quiet = async |stream: TcpStream| {
        let mut socket = accept_async(stream).await.unwrap();
        for _ in 0..5 {
            assert!(matches!(socket.next().await, Some(Ok(Message::Ping(_)))));
        }
        socket.send(Message::text(r#"{"method":"still/here"}"#)).await.unwrap();
        while let Some(Ok(_)) = socket.next().await {}
    };
    with_peer(quiet, async |endpoint| {
        let mut talk = Talk::connect_within(&endpoint, impatient()).await.unwrap();
        assert!(matches!(talk.next().await, Some(Event::Notification(told)) if &*told.method == "still/here"));
        talk.stop().await;
    });
}

#[test]
fn a_slow_message_is_a_sign_of_life() {
    let slow = async |stream: TcpStream| {
        let mut stream = accept_async(stream).await.unwrap().into_inner();
        // One text frame of 20 bytes, a byte at a time, for longer than silence may last.
        for byte in b"\x81\x14{\"method\":\"so/slow\"}" {
            tokio::time::sleep(Duration::from_millis(20)).await;
            stream.write_all(&[*byte]).await.unwrap();
        }
        until_it_goes(stream).await;
    };
    with_peer(slow, async |endpoint| {
        let limits = SocketLimits { pong_timeout: Duration::from_millis(100), ..impatient() };
        let mut talk = Talk::connect_within(&endpoint, limits).await.unwrap();
        assert!(matches!(talk.next().await, Some(Event::Notification(told)) if &*told.method == "so/slow"));
        talk.stop().await;
    });
}

#[test]
fn a_long_call_leaves_in_frames_that_the_peer_takes() {
    let strict = async |stream: TcpStream| {
        let config = WebSocketConfig::default().max_frame_size(Some(1 << 20));
        let mut socket = accept_async_with_config(stream, Some(config)).await.unwrap();
        let heard = socket.next().await.unwrap().unwrap().into_text().unwrap();
        let answer = json!({"id": 1, "result": heard.len()}).to_string();
        socket.send(Message::text(answer)).await.unwrap();
        while let Some(Ok(_)) = socket.next().await {}
    };
    with_peer(strict, async |endpoint| {
        let limits = SocketLimits { frame_bytes_max: 1 << 20, ..SocketLimits::default() };
        let mut talk = Talk::connect_within(&endpoint, limits).await.unwrap();
        let heard_bytes = talk.call("a", &json!("x".repeat(20 << 20))).await;
        let frame_bytes = r#"{"id":1,"method":"a","params":""}"#.len() + (20 << 20);
        assert_eq!(heard_bytes, frame_bytes);
        talk.stop().await;
    });
}

#[test]
fn a_message_above_all_limits_ends_the_link_with_the_reason() {
    let endless = async |stream: TcpStream| {
        let mut socket = accept_async(stream).await.unwrap();
        socket.send(Message::text("x".repeat(2 << 20))).await.ok();
        while let Some(Ok(_)) = socket.next().await {}
    };
    with_peer(endless, async |endpoint| {
        let limits = SocketLimits { message_bytes_max: 1 << 20, ..SocketLimits::default() };
        let end = Talk::connect_within(&endpoint, limits).await.unwrap().end().await;
        assert!(end.contains("Message too long"), "{end}");
    });
}

#[test]
fn a_binary_frame_that_is_no_message_is_reported() {
    let odd = async |stream: TcpStream| {
        let mut socket = accept_async(stream).await.unwrap();
        socket.send(Message::Binary(Bytes::from_static(b"\xff\x00"))).await.unwrap();
        socket.send(Message::text(r#"{"method":"go/on"}"#)).await.unwrap();
        while let Some(Ok(_)) = socket.next().await {}
    };
    with_peer(odd, async |endpoint| {
        let mut talk = Talk::connect(&endpoint).await.unwrap();
        let Some(Event::Reported(report)) = talk.next().await else { panic!("a report comes first") };
        assert_eq!(report.to_string(), r"invalid UTF-8 (a line of 2 bytes: \xff\x00)");
        assert!(matches!(talk.next().await, Some(Event::Notification(told)) if &*told.method == "go/on"));
        assert_eq!(talk.connection.counts().malformed, 1);
        talk.stop().await;
    });
}

/// Far more than the buffers between the two hold.
const CALLS: usize = 60;
const CALL_BYTES: usize = 1 << 20;

#[test]
fn a_peer_that_does_not_read_holds_nobody_up_and_gets_everything_later() {
    let (go, going) = tokio::sync::oneshot::channel();
    let late = async |stream: TcpStream| {
        let mut socket = accept_async(stream).await.unwrap();
        going.await.unwrap();
        for id in 1..=CALLS {
            let heard = socket.next().await.unwrap().unwrap().into_text().unwrap();
            assert!(heard.starts_with(&format!(r#"{{"id":{id},"#)), "{}", &heard[..20]);
            socket.send(Message::text(json!({"id": id, "result": heard.len()}).to_string())).await.unwrap();
        }
        while let Some(Ok(_)) = socket.next().await {}
    };
    with_peer(late, async |endpoint| {
        let mut talk = Talk::connect(&endpoint).await.unwrap();
        let text = json!("x".repeat(CALL_BYTES));
        for _ in 0..CALLS {
            talk.send("a", &text);
            talk.transport.transmit(&mut talk.connection, None);
        }
        // There is no room: to wait is all that can be done, and to give up waiting loses nothing.
        let waited = tokio::time::timeout(Duration::from_millis(50), talk.transport.ready(Reading::Wanted));
        assert!(!matches!(waited.await, Ok(Ready::Ended)));
        go.send(()).unwrap();
        let mut settled = 0;
        while settled < CALLS {
            if let Event::Settled { outcome, .. } = talk.next().await.unwrap() {
                assert!(matches!(outcome, Outcome::Answered(_)), "{outcome}");
                settled += 1;
            }
        }
        talk.stop().await;
    });
}

#[test]
fn waiting_that_is_given_up_again_and_again_loses_nothing() {
    const MESSAGES: usize = 2000;
    let talkative = async |stream: TcpStream| {
        let mut socket = accept_async(stream).await.unwrap();
        for n in 0..MESSAGES {
            let message = json!({"method": "n", "params": [n, "x".repeat(n)]});
            socket.send(Message::text(message.to_string())).await.unwrap();
        }
        while let Some(Ok(_)) = socket.next().await {}
    };
    with_peer(talkative, async |endpoint| {
        let mut talk = Talk::connect(&endpoint).await.unwrap();
        let mut heard = Vec::new();
        while heard.len() < MESSAGES {
            tokio::select! {
                biased;
                event = talk.next() => if let Some(Event::Notification(told)) = event {
                    let (n, _): (usize, String) = told.params.unwrap().parse().unwrap();
                    heard.push(n);
                },
                () = tokio::task::yield_now() => {}
            }
        }
        assert!(heard.into_iter().eq(0..MESSAGES));
        talk.stop().await;
    });
}

#[test]
fn a_stop_says_goodbye_and_waits_no_longer_than_it_may() {
    let polite = async |stream: TcpStream| {
        let mut socket = accept_async(stream).await.unwrap();
        let Some(Ok(Message::Close(Some(frame)))) = socket.next().await else { panic!("a goodbye comes") };
        assert_eq!(frame.code, CloseCode::Normal);
        assert!(socket.next().await.is_none());
    };
    with_peer(polite, async |endpoint| {
        assert_eq!(Talk::connect(&endpoint).await.unwrap().stop().await.to_string(), "the connection was closed");
    });
    let rude = async |stream: TcpStream| until_it_goes(accept_async(stream).await.unwrap().into_inner()).await;
    with_peer(rude, async |endpoint| {
        let talk = Talk::connect_within(&endpoint, impatient()).await.unwrap();
        assert_eq!(talk.stop().await.to_string(), "the connection was closed");
    });
}
