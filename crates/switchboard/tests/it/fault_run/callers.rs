//! Callers that send more than anybody can hold, each within its own limits.

use std::io::{self, Read as _, Write as _};
use std::net::TcpStream;
use std::thread;
use std::time::Instant;

use serde_json::json;
use testkit::HANG_TIMEOUT;
use testkit::faults::{Fault, Rounds};

use super::server::{CONFIG, KEY, Server};
use crate::command::State;

/// What the budget of the test allows.
const BUDGET_BYTES: u64 = 64 << 20;
/// What the server may need beyond its rest and the budget: buffers of connections, and what the allocator keeps.
const MARGIN_BYTES: u64 = 64 << 20;

#[test]
fn many_large_bodies_stay_within_the_memory_budget() {
    const CALLERS: usize = 32;
    const BODY_BYTES: usize = 15 << 20;
    let mut fault = Fault::play("many large bodies", Rounds::OncePerUnits(4));
    let state = State::new();
    // None of the bodies ends before the last has begun, however slow the machine is.
    let limits = "[limits]\nmemory_bytes_max = \"64MiB\"\nbody_timeout = \"10m\"\n";
    let server = Server::start(&state, &format!("{CONFIG}\n{limits}"));
    let at_rest = server.memory_at_rest();
    let part = vec![b' '; BODY_BYTES];
    for _ in 0..fault.rounds {
        let mut open = Vec::new();
        for _ in 0..CALLERS {
            let mut caller = server.begin_request("POST", "/v1/chat/completions", BODY_BYTES + 1).unwrap();
            caller.write_all(&part).unwrap();
            open.push(caller);
        }
        let refused = open.into_iter().filter_map(|caller| end_body(caller).strip_prefix("HTTP/1.0 503").map(drop));
        // Half of the budget is one key's, which is two of them.
        let refused = refused.count();
        assert!(refused >= CALLERS - 2, "only {refused} are refused");
        fault.count("refused", refused as u64);
    }
    fault.count("bodies", CALLERS as u64 * u64::from(fault.rounds));
    check_memory(&mut fault, &server, at_rest);
    server.check_caller("quiet", 1);
    server.stop();
    fault.held();
}

#[test]
fn a_websocket_that_floods_pings_and_reads_nothing_is_closed() {
    const PINGS_MAX: usize = 10_000_000;
    let mut fault = Fault::play("ping flood", Rounds::OncePerUnits(4));
    let state = State::new();
    let server = Server::start(&state, CONFIG);
    let at_rest = server.memory_at_rest();
    // A masked ping of 125 bytes, a thousand times.
    let pings = [&[0x89, 0x80 | 125, 0, 0, 0, 0][..], &[b'x'; 125]].concat().repeat(1000);
    for _ in 0..fault.rounds {
        let mut socket = open_websocket(&server, KEY);
        let sent = (0..PINGS_MAX / 1000).take_while(|_| socket.write_all(&pings).is_ok()).count();
        assert!(sent < PINGS_MAX / 1000, "the connection is closed");
        fault.count("pings", sent as u64 * 1000);
    }
    check_memory(&mut fault, &server, at_rest);
    server.check_caller("quiet", 1);
    server.stop();
    fault.held();
}

#[test]
fn large_requests_of_several_keys_stay_within_the_memory_budget() {
    const KEYS: usize = 3;
    const CALLERS_PER_KEY: usize = 8;
    let mut fault = Fault::play("large requests of several keys", Rounds::Once);
    let state = State::new();
    // What the server holds is what counts here, and not what its allocator keeps for a while after many threads have freed it.
    let config = format!("{CONFIG}\n[limits]\nmemory_bytes_max = \"64MiB\"\n");
    let server = Server::start_after("export MIMALLOC_PURGE_DELAY=0", &state, &config);
    let at_rest = server.memory_at_rest();
    let keys: Vec<_> = (0..KEYS).map(|_| server.create_key()).collect();
    let outcomes = thread::scope(|scope| {
        let callers: Vec<_> = (0..KEYS * CALLERS_PER_KEY)
            .map(|caller| {
                let (key, server) = (&keys[caller % KEYS], &server);
                scope.spawn(move || LargeRequest::ALL[caller / KEYS % LargeRequest::ALL.len()].send(server, key))
            })
            .collect();
        callers.into_iter().map(|caller| caller.join().unwrap()).collect::<Vec<_>>()
    });
    let answered = outcomes.iter().filter(|outcome| **outcome == Outcome::Answered).count();
    assert!(answered > 0, "the budget has room for some");
    fault.count("answered", answered as u64);
    fault.count("refused", (outcomes.len() - answered) as u64);
    check_memory(&mut fault, &server, at_rest);
    // A connection that its caller has closed may hold its memory for a moment.
    let deadline = Instant::now() + HANG_TIMEOUT;
    for request in &LargeRequest::ALL[..3] {
        while request.send(&server, &keys[0]) != Outcome::Answered {
            assert!(Instant::now() < deadline, "{request:?} has room where it is alone");
        }
    }
    server.stop();
    fault.held();
}

/// Requests that are short for what they take once they are parsed, or that are remembered.
#[derive(Clone, Copy, Debug)]
enum LargeRequest {
    ChatOfManyMessages,
    ResponseOfManyItems,
    WebSocketThatRemembers,
    BodyOfManyValues,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Answered,
    Refused,
}

impl LargeRequest {
    const ALL: [Self; 4] =
        [Self::ChatOfManyMessages, Self::ResponseOfManyItems, Self::WebSocketThatRemembers, Self::BodyOfManyValues];

    /// Nothing but an answer, a refusal for its memory or one for its size comes of it.
    fn send(self, server: &Server<'_>, key: &str) -> Outcome {
        const COUNT: usize = 5000;
        let status = match self {
            Self::ChatOfManyMessages => {
                let message = r#"{"role":"user","content":"[[text]]"},"#;
                let messages = message.repeat(COUNT);
                let body = format!(r#"{{"model":"codex","messages":[{}]}}"#, messages.trim_end_matches(','));
                server.post_as(key, "/v1/chat/completions", &body).unwrap()
            }
            Self::ResponseOfManyItems => {
                let items = r#"{"role":"user","content":"[[text]]"},"#.repeat(COUNT);
                let body = format!(r#"{{"model":"codex","input":[{}]}}"#, items.trim_end_matches(','));
                server.post_as(key, "/v1/responses", &body).unwrap()
            }
            Self::WebSocketThatRemembers => {
                let long = json!({"role": "user", "content": "x".repeat(1 << 19)});
                let input = json!([long, long, long, long, {"role": "user", "content": "[[text]]"}]);
                let request = json!({"type": "response.create", "model": "codex", "store": false, "input": input});
                return send_over_websocket(open_websocket(server, key), &request.to_string());
            }
            Self::BodyOfManyValues => {
                let body = format!("[{}1]", "1,".repeat(7 << 20));
                assert!([413, 503].contains(&server.post_as(key, "/v1/responses", &body).unwrap()));
                return Outcome::Refused;
            }
        };
        assert!([200, 503].contains(&status), "{status}");
        if status == 200 { Outcome::Answered } else { Outcome::Refused }
    }
}

/// Sends one message, and reads what comes of it to its end.
fn send_over_websocket(mut socket: TcpStream, message: &str) -> Outcome {
    // A masked text of more than 64 KiB; the mask is zero.
    let mut frame = vec![0x81, 0x80 | 127];
    frame.extend_from_slice(&(message.len() as u64).to_be_bytes());
    frame.extend_from_slice(&[0; 4]);
    frame.extend_from_slice(message.as_bytes());
    // A server that has no room for it closes the connection before it has everything.
    _ = socket.write_all(&frame);
    loop {
        let (opcode, text) = read_frame(&mut socket).unwrap();
        if opcode == CLOSE {
            assert!(text.contains("memory"), "{text}");
            return Outcome::Refused;
        }
        if text.starts_with(r#"{"type":"response.completed""#) {
            return Outcome::Answered;
        }
        let is_failure =
            [r#"{"type":"error""#, r#"{"type":"response.failed""#].iter().any(|start| text.starts_with(start));
        if is_failure {
            assert!(text.contains("memory_exhausted"), "{text}");
            return Outcome::Refused;
        }
    }
}

/// The opcode of a frame that ends the connection.
const CLOSE: u8 = 8;

/// The opcode of the next frame, and its payload as text.
fn read_frame(socket: &mut TcpStream) -> io::Result<(u8, String)> {
    let mut head = [0; 2];
    socket.read_exact(&mut head)?;
    let mut length = [0; 8];
    let extended = match head[1] {
        126 => &mut length[6..],
        127 => &mut length[..],
        short => {
            length[7] = short;
            &mut []
        }
    };
    socket.read_exact(extended)?;
    let mut payload = vec![0; usize::try_from(u64::from_be_bytes(length)).unwrap()];
    socket.read_exact(&mut payload)?;
    Ok((head[0] & 0xf, String::from_utf8_lossy(&payload).into_owned()))
}

/// Sends the last byte of a body, and reads the answer to it.
fn end_body(mut caller: TcpStream) -> String {
    caller.write_all(b" ").unwrap();
    let mut answer = String::new();
    caller.read_to_string(&mut answer).unwrap();
    answer
}

fn open_websocket(server: &Server<'_>, key: &str) -> TcpStream {
    let mut socket = server.begin_upgrade(key, "/v1/responses").unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        socket.read_exact(&mut byte).unwrap();
        head.push(byte[0]);
    }
    assert!(head.starts_with(b"HTTP/1.1 101"), "{}", String::from_utf8_lossy(&head));
    socket
}

fn check_memory(fault: &mut Fault, server: &Server<'_>, at_rest: u64) {
    let peak = server.memory_peak();
    fault.peak("memory", peak);
    let more = peak.saturating_sub(at_rest);
    fault.peak("memory above rest", more);
    assert!(more < BUDGET_BYTES + MARGIN_BYTES, "the server has had {} MiB, at rest {} MiB", peak >> 20, at_rest >> 20);
}
