//! Readers of a stream who leave, and readers who do not keep up.

use std::io::{BufReader, Read};
use std::net::{Shutdown, TcpStream};
use std::thread::park_timeout;
use std::time::{Duration, Instant};

use testkit::HANG_TIMEOUT;
use testkit::faults::{Fault, Rounds};

use super::server::{CONFIG, Events, Server};
use super::until;
use crate::command::State;

#[test]
fn a_turn_ends_as_it_would_have_when_its_reader_is_gone() {
    let mut fault = Fault::play("reader gone", Rounds::PerUnit(3));
    let state = State::new();
    let server = Server::start(&state, CONFIG);
    server.check_caller("main", 0);
    let connections = server.open_connections();
    for round in 0..fault.rounds {
        let turn = server.turn("main", "[[slow 100 2]]");
        let mut events = Events(BufReader::new(server.events(&turn)));
        for _ in 0..fault.random.usize(0..40) {
            events.next();
        }
        let stream = events.0.into_inner();
        if round % 2 == 0 {
            leave_politely(stream);
        } else {
            leave_at_once(stream);
        }
        let beside = server.check_caller("main", 1);
        fault.slowest("neighbour's turn", beside);
        let heard = server.hear(&turn);
        assert_eq!((heard.ends, &*heard.status), (1, "completed"));
        assert!(heard.text.starts_with("s0 ") && heard.text.trim_end().ends_with("s99"), "{}", heard.text);
    }
    let took = until("nothing is held for those who left", || server.open_connections() <= connections);
    fault.slowest("connections gone", took);
    server.stop();
    fault.held();
}

/// Says that it listens no more (FIN) and waits for the other side.
fn leave_politely(mut stream: TcpStream) {
    stream.shutdown(Shutdown::Write).unwrap();
    stream.set_read_timeout(Some(HANG_TIMEOUT)).unwrap();
    std::io::copy(&mut stream, &mut std::io::sink()).unwrap();
}

/// With something unread, the end of a connection is a reset (RST).
fn leave_at_once(stream: TcpStream) {
    stream.peek(&mut [0]).unwrap();
    drop(stream);
}

#[test]
fn a_reader_who_is_slow_costs_no_memory_and_nobody_elses_time() {
    /// Beyond its rest.
    const MEMORY_BYTES_MAX: u64 = 46 << 20;
    const READERS: usize = 20;
    let mut fault = Fault::play("slow reader", Rounds::OncePerUnits(4));
    let state = State::new();
    let config = format!("{CONFIG}\n[limits]\nwrite_timeout = \"2s\"\n");
    let server = Server::start(&state, &config);
    server.check_caller("main", 0);
    let (at_rest, connections) = (server.memory_at_rest(), server.open_connections());
    for _ in 0..fault.rounds {
        let turn = server.turn("main", "[[flood 300000]]");
        let mut readers: Vec<TcpStream> = (0..READERS).map(|_| server.events(&turn)).collect();
        let started = Instant::now();
        while started.elapsed() < Duration::from_secs(1) {
            // Half of them take a little now and then, the others nothing.
            for reader in readers.iter_mut().step_by(2) {
                reader.read_exact(&mut [0; 64]).unwrap();
            }
            let beside = server.check_caller("main", 1);
            fault.slowest("neighbour's turn", beside);
            park_timeout(Duration::from_millis(20));
        }
        let heard = server.hear(&turn);
        assert_eq!(heard.ends, 1);
        // Nobody reads any more: all of them are cut.
        let cut = until("those who take nothing are cut", || server.open_connections() <= connections);
        fault.slowest("cut", cut);
        drop(readers);
    }
    let peak = server.memory_peak();
    fault.peak("memory", peak);
    let more = peak.saturating_sub(at_rest);
    fault.peak("memory above rest", more);
    assert!(more < MEMORY_BYTES_MAX, "the server has had {} MiB, at rest {} MiB", peak >> 20, at_rest >> 20);
    server.stop();
    fault.held();
}
