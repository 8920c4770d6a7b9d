//! Workers that say more than anybody can hear.

use testkit::faults::{Fault, Rounds};

use super::server::{CONFIG, Server};
use crate::command::State;
use crate::scale;

/// What the server may need, beyond its rest, for all that it keeps of a worker, a turn and its readers.
const MEMORY_BYTES_MAX: u64 = 46 << 20;
/// The longest line of a worker: the allocator keeps what a thread has freed for a while, so each thread may have one.
const LINE_BYTES_MAX: u64 = 16 << 20;

/// Notifications of one message. A message is told once more when it is complete: as one line that must not be too long.
const DELTAS: usize = 100_000;
/// Messages for each unit of scale.
const MESSAGES: usize = 10;

#[test]
fn a_flood_beside_a_quiet_worker_costs_neither_memory_nor_its_turns() {
    let mut fault = Fault::play("flood beside a quiet worker", Rounds::Once);
    let state = State::new();
    let messages = MESSAGES * usize::try_from(scale()).unwrap();
    let steps = vec![format!("\"flood {DELTAS}\""); messages].join(", ");
    let worker = state.worker("", &format!("[[turns]]\nmatch = \"flood\"\nsteps = [{steps}]\n"));
    let config = CONFIG.replacen("command = \"demo\"", &format!("command = \"{worker}\""), 1);
    let server = Server::start(&state, &config);
    let at_rest = server.memory_at_rest();
    let flood = server.turn("main", "flood");
    // Connected, and never read.
    let unread = server.events(&flood);
    let mut caller = 1;
    while server.status_of(&flood) == "running" {
        fault.slowest("quiet turn", server.check_caller("quiet", caller));
        caller += 1;
    }
    assert_eq!(server.status_of(&flood), "completed");
    let heard = server.hear(&flood);
    assert_eq!(heard.ends, 1);
    assert!(heard.left_out, "what is no longer there is not passed over in silence");
    let last = format!("t{}", DELTAS - 1);
    assert!(heard.text.trim_end().ends_with(&last), "the last words are there");
    drop(unread);
    fault.count("notifications", (DELTAS * messages).try_into().unwrap());
    fault.count("quiet turns", u64::try_from(caller).unwrap());
    check_memory(&mut fault, &server, at_rest);
    server.stop();
    fault.held();
}

#[test]
fn a_line_of_a_hundred_megabytes_is_passed_over() {
    const LINE_BYTES: u64 = 100_000_000;
    let mut fault = Fault::play("line of 100 MB", Rounds::OncePerUnits(4));
    let state = State::new();
    let server = Server::start(&state, CONFIG);
    let at_rest = server.memory_at_rest();
    for round in 0..fault.rounds {
        let started = std::time::Instant::now();
        let turn = server.turn("main", &format!("[[line {LINE_BYTES}]]"));
        let heard = server.hear(&turn);
        fault.slowest("turn", started.elapsed());
        assert_eq!((heard.ends, &*heard.status), (1, "completed"));
        assert!(heard.text.ends_with("after the fault."), "the turn goes on");
        server.check_caller("main", usize::try_from(round).unwrap());
    }
    check_memory(&mut fault, &server, at_rest);
    server.stop();
    fault.held();
}

#[test]
fn noise_on_stderr_is_drained() {
    const NOISE_BYTES: u64 = 100_000_000;
    let mut fault = Fault::play("noise on stderr", Rounds::OncePerUnits(4));
    let state = State::new();
    let server = Server::start(&state, CONFIG);
    let at_rest = server.memory_at_rest();
    for _ in 0..fault.rounds {
        let noise = server.turn("main", &format!("[[stderr {NOISE_BYTES}]]"));
        let beside = server.check_caller("quiet", 1);
        fault.slowest("quiet turn", beside);
        let heard = server.hear(&noise);
        assert_eq!((heard.ends, &*heard.status), (1, "completed"));
    }
    check_memory(&mut fault, &server, at_rest);
    server.stop();
    fault.held();
}

fn check_memory(fault: &mut Fault, server: &Server<'_>, at_rest: u64) {
    let peak = server.memory_peak();
    fault.peak("memory", peak);
    let threads = std::thread::available_parallelism().unwrap().get() as u64;
    let more_max = MEMORY_BYTES_MAX + threads * LINE_BYTES_MAX;
    // The kernel's count is not exact to the page.
    let more = peak.saturating_sub(at_rest);
    fault.peak("memory above rest", more);
    assert!(more < more_max, "the server has had {} MiB, at rest {} MiB", peak >> 20, at_rest >> 20);
}
