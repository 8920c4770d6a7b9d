//! The process itself: its end is awaited without reaping it, because the zombie holds the number of its group until
//! the rest of the group, and all else that it started, has been killed.

use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use tokio::time::Instant;

use crate::exit::{Ending, Exit};
use crate::groups;
use crate::identity::Identity;
use crate::launch::Started;
use crate::limits::Limits;
use crate::memory::OomKills;
use crate::stderr::Stderr;
use crate::tail::StderrTail;
use crate::tree::Tree;
use crate::watch::ExitWatch;

/// A process that leads its own group. Dropped before it has ended, it is killed with all that it started.
pub struct Process {
    name: Box<str>,
    leader: tokio::process::Child,
    identity: Identity,
    watch: ExitWatch,
    tree: Tree,
    stderr: Stderr,
    stderr_drain_timeout: Duration,
    started: Instant,
    oom_kills: OomKills,
    /// Once it has been reaped its number may be another process's.
    reaped: Option<Reaped>,
}

#[derive(Clone, Copy)]
struct Reaped {
    ending: Ending,
    at: Instant,
    was_short_of_memory: bool,
    left_behind: usize,
}

impl Process {
    pub(crate) fn new(started: Started, limits: Limits) -> Self {
        let Started { name, mut leader, identity, mark } = started;
        let pid = Pid::from_raw(identity.pid.cast_signed()).expect("no process has the number 0");
        let stderr = leader.stderr.take().expect("the launch pipes stderr");
        Self {
            name,
            leader,
            identity,
            watch: ExitWatch::new(pid),
            tree: Tree::new(Some(identity), mark),
            stderr: Stderr::new(stderr, limits.stderr_bytes_max),
            stderr_drain_timeout: limits.stderr_drain_timeout,
            started: Instant::now(),
            oom_kills: OomKills::read(),
            reaped: None,
        }
    }

    /// Its process id, which is also that of its group.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.watch.pid().as_raw_pid().cast_unsigned()
    }

    /// The processor time that it has used up to now, all its threads together.
    #[must_use]
    pub fn processor_time(&self) -> Option<Duration> {
        let line = std::fs::read_to_string(format!("/proc/{}/stat", self.pid())).ok()?;
        // The name before may hold spaces and brackets; the times are the 12th and 13th word behind it.
        let (_, words) = line.rsplit_once(')')?;
        let ticks: u64 = words.split_whitespace().skip(11).take(2).filter_map(|word| word.parse::<u64>().ok()).sum();
        Some(Duration::from_millis(ticks * 1000 / rustix::param::clock_ticks_per_second()))
    }

    /// The end of what it has written to stderr up to now.
    #[must_use]
    pub fn stderr(&self) -> StderrTail {
        self.stderr.tail()
    }

    /// Waits until it ends by itself, and kills what is left of all that it started.
    ///
    /// Its stdout may still hold what it said last. Cancel-safe, and may be called again after the end.
    pub async fn wait(&mut self) -> Exit {
        let ending = match self.reaped {
            Some(reaped) => reaped.ending,
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

    /// Looks who descends from it, while it can still be told.
    pub(crate) fn survey(&mut self) {
        if self.reaped.is_none() {
            self.tree.survey();
        }
    }

    /// Kills all of it that runs; how many that were.
    pub(crate) fn kill(&mut self) -> usize {
        if self.reaped.is_some() {
            return 0;
        }
        let killed = self.tree.kill();
        // The tree is blind when no descriptor is left to look with; the group needs none.
        if let Some(group) = self.group() {
            kill_process_group(group, Signal::KILL).ok();
            // The leader may have moved itself to another group.
            kill_process(group, Signal::KILL).ok();
        }
        killed
    }

    /// The group, as long as nobody else can have its number.
    fn group(&self) -> Option<Pid> {
        (self.reaped.is_none() && self.watch.holds_pid()).then_some(self.watch.pid())
    }

    pub(crate) fn exit(&self, ending: Ending) -> Exit {
        let until = self.reaped.map_or_else(Instant::now, |reaped| reaped.at);
        Exit {
            program: self.name.clone(),
            pid: self.pid(),
            ending,
            rung: None,
            lifetime: until - self.started,
            was_short_of_memory: self.reaped.is_some_and(|reaped| reaped.was_short_of_memory),
            left_behind: self.reaped.map_or(0, |reaped| reaped.left_behind),
            stderr: self.stderr.tail(),
        }
    }

    fn reap(&mut self) -> Ending {
        let left_behind = self.kill();
        groups::forget(self.identity);
        let ending = match self.leader.try_wait() {
            Ok(Some(status)) => status.into(),
            Ok(None) | Err(_) => Ending::Unknown,
        };
        let was_short_of_memory = self.oom_kills.have_grown();
        self.reaped = Some(Reaped { ending, at: Instant::now(), was_short_of_memory, left_behind });
        ending
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if self.reaped.is_none() {
            self.kill();
            groups::forget(self.identity);
        }
    }
}
