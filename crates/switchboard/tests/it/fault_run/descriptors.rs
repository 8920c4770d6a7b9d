//! A server that may have few files open, and callers who open many connections.

use std::io::BufReader;
use std::net::TcpStream;

use testkit::faults::{Fault, Rounds};

use super::server::{Events, Heard, Server, text};
use super::until;
use crate::command::State;

const CONNECTIONS: usize = 200;

#[test]
fn a_flood_of_connections_takes_no_descriptor_that_a_worker_needs() {
    let mut fault = Fault::play("64 descriptors", Rounds::OncePerUnits(4));
    for _ in 0..fault.rounds {
        let state = State::new();
        // It crashes while the flood is on.
        let worker = state.worker("", "[[turns]]\nmatch = \"go\"\nsteps = [\"slow 100 10\", \"crash 0 kill\"]\n");
        let config = format!("[[workers]]\nname = \"main\"\ncommand = \"{worker}\"\n");
        let server = Server::start_after("ulimit -n 64", &state, &config);
        let turn = server.turn("main", "go");
        let mut events = Events(BufReader::new(server.events(&turn)));
        assert_eq!(text(&events.next().unwrap()["type"]), "turn_started", "it is read before the flood");
        let heard = std::thread::scope(|scope| {
            let reading = scope.spawn(|| Heard::of(events));
            let flood: Vec<TcpStream> =
                (0..CONNECTIONS).filter_map(|_| TcpStream::connect(server.address()).ok()).collect();
            fault.count("connections", flood.len().try_into().unwrap());
            let heard = reading.join().unwrap();
            // It is still on when the worker is to be replaced.
            until("the worker is replaced", || {
                testkit::processes::with(&format!("CODEX_HOME={}", state.path().join("home").display())).len() == 1
            });
            heard
        });
        assert_eq!((heard.ends, &*heard.status), (1, "lost"), "a stream that was there before goes on");
        let recovered = until("it answers again", || {
            server.try_exchange("GET", "/readyz", "").is_ok_and(|answer| answer.status == 200)
        });
        fault.slowest("answers again", recovered);
        let workers = server.get("/api/workers").body;
        // A start that finds no descriptor is tried again.
        assert!(workers["workers"][0]["restarts"].as_u64() >= Some(1), "{workers}");
        assert_eq!(text(&workers["workers"][0]["state"]), "ready");
        server.check_caller("main", 0);
        server.stop();
    }
    fault.held();
}
