//! Processes that workers leave behind, out of the reach of a signal to their group.

use rustix::process::Signal;
use testkit::faults::{Fault, Rounds};
use testkit::processes;

use super::server::{CONFIG, Server};
use super::until;
use crate::command::State;

/// How the worker that left them comes to its end.
#[derive(Clone, Copy, Debug)]
enum End {
    WorkerKilled,
    ServerStopped,
    /// And the next start looks.
    ServerKilled,
}

#[test]
fn nothing_that_a_worker_left_outlives_it_for_long() {
    let mut fault = Fault::play("processes left behind", Rounds::OncePerUnits(3));
    for round in 0..fault.rounds {
        for end in [End::WorkerKilled, End::ServerStopped, End::ServerKilled] {
            play(&mut fault, round, end);
        }
    }
    fault.held();
}

fn play(fault: &mut Fault, round: u32, end: End) {
    let state = State::new();
    // Whoever wiped its environment and left its session is only found as our adopted child, which nobody inherits.
    let wiped = format!("{}.{round}", 70_000 + std::process::id());
    let prologue = match end {
        End::WorkerKilled | End::ServerStopped => format!("env -i setsid sleep {wiped} &"),
        End::ServerKilled => String::new(),
    };
    let worker = state.worker(&prologue, "");
    let config = CONFIG.replacen("command = \"demo\"", &format!("command = \"{worker}\""), 1);
    let server = Server::start(&state, &config);
    for kind in ["own", "group"] {
        let turn = server.turn("main", &format!("[[orphan {kind}]]"));
        assert_eq!(server.hear(&turn).ends, 1);
    }
    let home = format!("CODEX_HOME={}", state.path().join("home").display());
    let left = [processes::with(&home), processes::with(&wiped)].concat();
    let expected = if prologue.is_empty() { 3 } else { 4 };
    assert_eq!(left.len(), expected, "the worker, two sleepers, and one without a name: {left:?}");
    fault.count("processes", left.len().try_into().unwrap());
    let are_gone = || left.iter().all(|pid| !processes::is_running(*pid));
    match end {
        End::WorkerKilled => {
            assert_eq!(server.hear(&server.turn("main", "[[crash 0 kill]]")).status, "lost");
            fault.slowest("gone", until("nothing of it is left", are_gone));
            server.stop();
        }
        End::ServerStopped => {
            server.stop();
            fault.slowest("gone", until("nothing of it is left", are_gone));
        }
        End::ServerKilled => {
            server.served.run.signal(Signal::KILL);
            server.served.run.end_beside_others();
            let again = Server::start(&state, &config);
            fault.slowest("gone", until("nothing of it is left", are_gone));
            again.stop();
        }
    }
}
