//! Sees a child's end without reaping it.
//!
//! Every SIGCHLD is a reason to look, and looking leaves the zombie in place. (A pidfd would wake only whom it concerns,
//! but tokio 1.54 has deprecated every way of waiting for one that is not unsafe code.)

use std::time::Duration;

use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::{Interval, MissedTickBehavior, interval};

/// How often to look unasked, because whoever started us may have left SIGCHLD blocked.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// Watches one child of ours.
pub(crate) struct ExitWatch {
    pid: Pid,
    child_signals: Signal,
    /// Kept, so that whoever waits beside something busy does not look every time. Its first tick is at once.
    looks: Interval,
    was_seen_ended: bool,
}

impl ExitWatch {
    pub(crate) fn new(pid: Pid) -> Self {
        let mut looks = interval(LOOK_INTERVAL);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let child_signals = signal(SignalKind::child()).expect("SIGCHLD can always be watched");
        Self { pid, child_signals, looks, was_seen_ended: false }
    }

    pub(crate) fn pid(&self) -> Pid {
        self.pid
    }

    /// Waits for the end. Cancel-safe; returns at once after the end.
    pub(crate) async fn exited(&mut self) {
        while !self.was_seen_ended {
            tokio::select! {
                biased;
                _ = self.child_signals.recv() => {}
                _ = self.looks.tick() => {}
            }
            self.was_seen_ended = self.has_exited();
        }
    }

    pub(crate) fn has_exited(&self) -> bool {
        self.state() != State::Running
    }

    /// Whether the child, running or not yet reaped, keeps its number from being given to another process.
    pub(crate) fn holds_pid(&self) -> bool {
        self.state() != State::Gone
    }

    fn state(&self) -> State {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        match waitid(WaitId::Pid(self.pid), options) {
            Ok(None) => State::Running,
            Ok(Some(_)) => State::Zombie,
            Err(_) => State::Gone,
        }
    }
}

#[derive(PartialEq)]
enum State {
    Running,
    /// Ended, and not yet reaped.
    Zombie,
    /// No child of ours any more.
    Gone,
}
