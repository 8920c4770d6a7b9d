//! Sees a child's end without reaping it.
//!
//! Every SIGCHLD is a reason to look, and looking leaves the zombie in place. (A pidfd would wake only whom it concerns,
//! but tokio 1.54 has deprecated every way of waiting for one that is not unsafe code.)

use std::time::Duration;

use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::timeout;

/// How often to look unasked, because whoever started us may have left SIGCHLD blocked.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// Watches one child of ours.
pub(crate) struct ExitWatch {
    pid: Pid,
    child_signals: Signal,
}

impl ExitWatch {
    pub(crate) fn new(pid: Pid) -> Self {
        Self { pid, child_signals: signal(SignalKind::child()).expect("SIGCHLD can always be watched") }
    }

    pub(crate) fn pid(&self) -> Pid {
        self.pid
    }

    /// Waits for the end. Cancel-safe; returns at once after the end.
    pub(crate) async fn exited(&mut self) {
        while !self.has_exited() {
            timeout(LOOK_INTERVAL, self.child_signals.recv()).await.ok();
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
