//! How a process ends, by itself and by each rung of the ladder, and that nothing of it is left.

use std::time::Duration;

use rustix::process::Signal;
use supervise::{Child, EndReason, Ending, Exit, Ladder, Rung};
use tokio::time::timeout;

use crate::support::{LONG, SHORT, ladder, line, run, runs, scale, sh, spawn, until};

/// A script that says when it is ready to be stopped.
async fn ready(script: &str) -> Child {
    let mut child = sh(script);
    assert_eq!(line(&mut child.stdout).await, "ready");
    child
}

/// The report, without what differs from run to run.
fn report(exit: &Exit) -> String {
    let lifetime = format!("{:.1?}", exit.lifetime);
    exit.to_string().replace(&format!("pid {}", exit.pid), "pid PID").replace(&lifetime, "TIME")
}

#[test]
fn an_exit_code_and_the_last_words_are_reported() {
    run(async {
        let exit = sh("echo no such model >&2; exit 3").process.wait().await;
        assert_eq!(exit.ending, Ending::Code(3));
        assert_eq!(report(&exit), "sh (pid PID) exited with code 3 after TIME; last stderr: no such model");
    });
}

#[test]
fn a_signal_is_reported() {
    run(async {
        let exit = sh("ulimit -c 0; kill -SEGV $$").process.wait().await;
        assert_eq!(report(&exit), "sh (pid PID) was killed by SIGSEGV after TIME; nothing on stderr");
    });
}

#[test]
fn a_process_that_was_refused_memory_is_told_from_one_that_crashed() {
    run(async {
        let exit = sh("ulimit -c 0; echo memory allocation of 64 bytes failed >&2; kill -ABRT $$").process.wait().await;
        assert_eq!(exit.reason(), EndReason::OutOfMemory);
        let exit = sh("ulimit -c 0; kill -ABRT $$").process.wait().await;
        assert_eq!(exit.reason(), EndReason::Signal(Signal::ABORT.as_raw()));
    });
}

#[test]
fn waiting_can_be_cancelled_and_repeated() {
    run(async {
        let mut child = spawn("cat", &[]);
        assert!(timeout(SHORT, child.process.wait()).await.is_err());
        child.stdin.close();
        let exit = child.process.wait().await;
        assert_eq!(exit.ending, Ending::Code(0));
        assert_eq!(child.process.wait().await.to_string(), exit.to_string());
        assert_eq!(child.stop(Ladder::default()).await.to_string(), exit.to_string());
    });
}

#[test]
fn what_ends_when_stdin_is_closed_ends_at_the_first_rung() {
    run(async {
        let exit = spawn("cat", &[]).stop(ladder(LONG, LONG, LONG)).await;
        assert_eq!((exit.ending, exit.rung), (Ending::Code(0), Some(Rung::CloseStdin)));
    });
}

#[test]
fn what_does_not_watch_its_stdin_ends_at_the_first_sigterm() {
    run(async {
        let exit = spawn("sleep", &["1000"]).stop(ladder(SHORT, LONG, LONG)).await;
        assert_eq!((exit.ending, exit.rung), (killed_by(Signal::TERM), Some(Rung::Terminate)));
    });
}

#[test]
fn what_needs_two_sigterms_ends_at_the_second() {
    run(async {
        let child = ready("trap 'trap \"exit 7\" TERM' TERM; echo ready; while :; do sleep 1000 & wait; done").await;
        let exit = child.stop(ladder(SHORT, Duration::from_secs(2), LONG)).await;
        assert_eq!((exit.ending, exit.rung), (Ending::Code(7), Some(Rung::TerminateAgain)));
    });
}

#[test]
fn what_ignores_sigterm_is_killed_at_the_last_rung() {
    run(async {
        let child = ready("trap '' TERM; echo ready; while :; do sleep 1000; done").await;
        let exit = child.stop(ladder(SHORT, SHORT, SHORT)).await;
        assert_eq!((exit.ending, exit.rung), (killed_by(Signal::KILL), Some(Rung::Kill)));
    });
}

fn killed_by(signal: Signal) -> Ending {
    Ending::Signal { number: signal.as_raw(), core_dumped: false }
}

#[test]
fn what_is_blocked_on_a_full_stdout_can_still_end_by_itself() {
    run(async {
        let child = ready("echo ready; head -c 1048576 /dev/zero; cat; exit 4").await;
        let exit = child.stop(ladder(LONG, LONG, LONG)).await;
        assert_eq!((exit.ending, exit.rung), (Ending::Code(4), Some(Rung::CloseStdin)));
    });
}

#[test]
fn a_stop_that_meets_an_exit_reports_that_exit() {
    run(async {
        for _ in 0..20 * scale() {
            let exit = sh("exit 5").stop(ladder(LONG, LONG, LONG)).await;
            assert_eq!(exit.ending, Ending::Code(5));
            assert!(matches!(exit.rung, None | Some(Rung::CloseStdin)), "{exit}");
        }
    });
}

/// Leaves a process in the group that ignores SIGTERM and holds all pipes, and prints its id.
const LEFTOVER: &str = "(trap '' TERM; sleep 1000) & echo $!;";

#[test]
fn what_is_left_of_the_group_is_gone_after_a_stop() {
    run(async {
        let mut child = sh(&format!("{LEFTOVER} exec cat"));
        let leftover = line(&mut child.stdout).await;
        assert!(runs(&leftover));
        let exit = child.stop(ladder(LONG, LONG, LONG)).await;
        assert_eq!(exit.rung, Some(Rung::CloseStdin));
        until("the leftover is gone", || !runs(&leftover)).await;
    });
}

#[test]
fn what_is_left_of_the_group_is_gone_after_an_exit() {
    run(async {
        let mut child = sh(&format!("{LEFTOVER} exit 6"));
        let leftover = line(&mut child.stdout).await;
        assert_eq!(child.process.wait().await.ending, Ending::Code(6));
        until("the leftover is gone", || !runs(&leftover)).await;
    });
}

#[test]
fn the_whole_group_is_gone_after_a_drop() {
    run(async {
        let mut child = sh(&format!("{LEFTOVER} wait"));
        let (leader, leftover) = (child.process.pid().to_string(), line(&mut child.stdout).await);
        assert!(runs(&leader) && runs(&leftover));
        drop(child);
        until("both are gone", || !runs(&leader) && !runs(&leftover)).await;
    });
}

#[test]
fn the_whole_group_is_gone_when_a_stop_is_abandoned() {
    run(async {
        let mut child = sh(&format!("{LEFTOVER} wait"));
        let (leader, leftover) = (child.process.pid().to_string(), line(&mut child.stdout).await);
        assert!(timeout(SHORT, child.stop(ladder(LONG, LONG, LONG))).await.is_err());
        until("both are gone", || !runs(&leader) && !runs(&leftover)).await;
    });
}
