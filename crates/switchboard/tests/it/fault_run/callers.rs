//! Callers that send more than anybody can hold, each within its own limits.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use testkit::faults::{Fault, Rounds};

use super::server::{CONFIG, Server};
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
        let mut socket = open_websocket(&server);
        let sent = (0..PINGS_MAX / 1000).take_while(|_| socket.write_all(&pings).is_ok()).count();
        assert!(sent < PINGS_MAX / 1000, "the connection is closed");
        fault.count("pings", sent as u64 * 1000);
    }
    check_memory(&mut fault, &server, at_rest);
    server.check_caller("quiet", 1);
    server.stop();
    fault.held();
}

/// Sends the last byte of a body, and reads the answer to it.
fn end_body(mut caller: TcpStream) -> String {
    caller.write_all(b" ").unwrap();
    let mut answer = String::new();
    caller.read_to_string(&mut answer).unwrap();
    answer
}

fn open_websocket(server: &Server<'_>) -> TcpStream {
    let mut socket = server.begin_upgrade("/v1/responses").unwrap();
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
