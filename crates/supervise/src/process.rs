//! The process itself: its end is awaited without reaping it, because the zombie holds the number of its group until
//! the rest of the group has been killed.

use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use tokio::time::Instant;

use crate::exit::{Ending, Exit};
use crate::limits::Limits;
use crate::stderr::Stderr;
use crate::tail::StderrTail;
use crate::watch::ExitWatch;

/// A process that leads its own group. Dropped before it has ended, it is killed with the group.
pub struct Process {
    name: Box<str>,
    leader: tokio::process::Child,
    watch: ExitWatch,
    stderr: Stderr,
    stderr_drain_timeout: Duration,
    started: Instant,
    /// How and when it ended, once it has been reaped: from then on its number may be another process's.
    reaped: Option<(Ending, Instant)>,
}

impl Process {
    pub(crate) fn new(name: &str, mut leader: tokio::process::Child, limits: Limits) -> Self {
        let pid = leader.id().and_then(|id| Pid::from_raw(id.cast_signed())).expect("it was not yet waited for");
        let stderr = leader.stderr.take().expect("the launch pipes stderr");
        Self {
            name: name.into(),
            leader,
            watch: ExitWatch::new(pid),
            stderr: Stderr::new(stderr, limits.stderr_bytes_max),
            stderr_drain_timeout: limits.stderr_drain_timeout,
            started: Instant::now(),
            reaped: None,
        }
    }

    /// Its process id, which is also that of its group.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.watch.pid().as_raw_pid().cast_unsigned()
    }

    /// The end of what it has written to stderr up to now.
    #[must_use]
    pub fn stderr(&self) -> StderrTail {
        self.stderr.tail()
    }

    /// Waits until it ends by itself, and kills what is left of its group.
    ///
    /// Its stdout may still hold what it said last. Cancel-safe, and may be called again after the end.
    pub async fn wait(&mut self) -> Exit {
        let ending = match self.reaped {
            Some((ending, _)) => ending,
            None => {
                self.watch.exited().await;
                self.reap()
            }
        };
        self.stderr.drained(self.stderr_drain_timeout).await;
        self.exit(ending)
    }

    pub(crate) fn has_exited(&self) -> bool {
        self.reaped.is_some() || self.watch.has_exited()
    }

    pub(crate) async fn exited(&mut self) {
        if self.reaped.is_none() {
            self.watch.exited().await;
        }
    }

    pub(crate) fn terminate(&self) {
        if let Some(group) = self.group() {
            kill_process_group(group, Signal::TERM).ok();
        }
    }

    pub(crate) fn kill(&self) {
        if let Some(group) = self.group() {
            kill_process_group(group, Signal::KILL).ok();
            // The leader may have moved itself to another group.
            kill_process(group, Signal::KILL).ok();
        }
    }

    /// The group, as long as nobody else can have its number.
    fn group(&self) -> Option<Pid> {
        (self.reaped.is_none() && self.watch.holds_pid()).then_some(self.watch.pid())
    }

    pub(crate) fn exit(&self, ending: Ending) -> Exit {
        let until = self.reaped.map_or_else(Instant::now, |(_, at)| at);
        Exit {
            program: self.name.clone(),
            pid: self.pid(),
            ending,
            rung: None,
            lifetime: until - self.started,
            stderr: self.stderr.tail(),
        }
    }

    fn reap(&mut self) -> Ending {
        self.kill();
        let ending = match self.leader.try_wait() {
            Ok(Some(status)) => status.into(),
            Ok(None) | Err(_) => Ending::Unknown,
        };
        self.reaped = Some((ending, Instant::now()));
        ending
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}
