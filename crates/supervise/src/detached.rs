//! A process that outlives us: started in a session of its own, found again by whoever comes after us, and stopped only
//! when somebody says so. Dropping it leaves it alone.

use std::fs;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::param::clock_ticks_per_second;
use rustix::process::{Signal, pidfd_send_signal};
use tokio::signal::unix::{self, SignalKind, signal};
use tokio::time::{Instant, timeout, timeout_at};

use crate::environment::Owner;
use crate::exit::{Ending, Exit};
use crate::groups;
use crate::identity::{Environment, Identity};
use crate::ladder::{Climb, Ladder, Rung, Step};
use crate::launch::Started;
use crate::ledger::DetachedEntry;
use crate::limits::Limits;
use crate::log::Log;
use crate::memory::OomKills;
use crate::tail::StderrTail;
use crate::tree::Tree;

/// How often to look whether it still runs: it may be no child of ours, and then nobody tells us. Its socket does, at
/// once, to whoever is connected.
const LOOK_INTERVAL: Duration = Duration::from_millis(200);

/// A process that outlives us.
pub struct Detached {
    name: Box<str>,
    identity: Identity,
    owner: Owner,
    pidfd: OwnedFd,
    /// If we are the one that started it.
    leader: Option<tokio::process::Child>,
    tree: Tree,
    log: Log,
    child_signals: unix::Signal,
    oom_kills: OomKills,
    exit: Option<Exit>,
}

impl Detached {
    pub(crate) fn started(started: Started, pidfd: OwnedFd, owner: Owner, log: &Path, limits: Limits) -> Self {
        let Started { name, leader, identity, mark: _ } = started;
        Self { leader: Some(leader), ..Self::new(name, identity, pidfd, owner, log, limits) }
    }

    /// The process of the entry, if it still runs: the same number, the same start time, the same mark.
    ///
    /// # Panics
    /// Outside a tokio runtime that drives IO and time.
    #[must_use]
    pub fn find(entry: &DetachedEntry, limits: Limits) -> Option<Self> {
        let identity = Identity { pid: entry.pid, start_time: entry.start_time };
        let pidfd = identity.open()?;
        let is_marked = match identity.environment() {
            Environment::Seen(seen) => entry.owner.mark().is_in(&seen),
            // A program may hide its variables; number and start time are proof enough.
            Environment::Forbidden | Environment::Coming => true,
            Environment::Gone => false,
        };
        if !is_marked {
            return None;
        }
        let detached = Self::new(entry.name.clone(), identity, pidfd, entry.owner, &entry.log, limits);
        detached.is_alive().then_some(detached)
    }

    /// Any process, if it still runs; whoever asks for it must know that it is ours to end.
    pub(crate) fn of_process(name: &str, identity: Identity, owner: Owner, log: &Path, limits: Limits) -> Option<Self> {
        let detached = Self::new(name.into(), identity, identity.open()?, owner, log, limits);
        detached.is_alive().then_some(detached)
    }

    fn new(name: Box<str>, identity: Identity, pidfd: OwnedFd, owner: Owner, log: &Path, limits: Limits) -> Self {
        Self {
            name,
            identity,
            owner,
            pidfd,
            leader: None,
            tree: Tree::new(Some(identity), owner.mark()),
            log: Log::watch(log, limits),
            child_signals: signal(SignalKind::child()).expect("SIGCHLD can always be watched"),
            oom_kills: OomKills::read(),
            exit: None,
        }
    }

    /// What to record in the [`Ledger`](crate::Ledger), so that it can be found again.
    #[must_use]
    pub fn entry(&self, name: &str, socket: PathBuf, fingerprint: &str) -> DetachedEntry {
        DetachedEntry {
            name: name.into(),
            owner: self.owner,
            pid: self.identity.pid,
            start_time: self.identity.start_time,
            socket,
            fingerprint: fingerprint.into(),
            log: self.log.path().into(),
            token_hash: None,
        }
    }

    /// Its process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.identity.pid
    }

    /// Whether it runs.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        let mut watched = [PollFd::new(&self.pidfd, PollFlags::IN)];
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        self.exit.is_none() && !matches!(poll(&mut watched, Some(&at_once)), Ok(1..))
    }

    /// The end of its log.
    #[must_use]
    pub fn log_tail(&self) -> StderrTail {
        self.log.tail()
    }

    /// Waits until it ends by itself, and kills what is left of all that it started.
    ///
    /// Only who started it learns how it ended. Cancel-safe, and may be called again after the end.
    pub async fn ended(&mut self) -> Exit {
        while self.is_alive() {
            self.changed().await;
        }
        self.reap()
    }

    /// Climbs the ladder, from SIGTERM upwards, until it has ended, and kills what is left of all that it started.
    pub async fn stop(mut self, ladder: Ladder) -> Exit {
        let mut climb = Climb::without_stdin(ladder);
        while self.is_alive() {
            match climb.next(Instant::now().into_std()) {
                Step::Take(rung) => self.take(rung),
                Step::WaitUntil(until) => {
                    timeout_at(until.into(), self.changed()).await.ok();
                }
                Step::GiveUp => return self.report(Ending::StillRunning),
            }
        }
        Exit { rung: climb.rung(), ..self.reap() }
    }

    fn take(&mut self, rung: Rung) {
        self.tree.survey();
        match rung {
            Rung::CloseStdin => {}
            Rung::Terminate | Rung::TerminateAgain => {
                pidfd_send_signal(&self.pidfd, Signal::TERM).ok();
            }
            Rung::Kill => {
                self.tree.kill();
                pidfd_send_signal(&self.pidfd, Signal::KILL).ok();
            }
        }
    }

    async fn changed(&mut self) {
        timeout(LOOK_INTERVAL, self.child_signals.recv()).await.ok();
    }

    fn reap(&mut self) -> Exit {
        if let Some(exit) = &self.exit {
            return exit.clone();
        }
        self.tree.kill();
        let ending = match self.leader.as_mut().map(tokio::process::Child::try_wait) {
            Some(Ok(Some(status))) => status.into(),
            _ => Ending::Unknown,
        };
        groups::forget(self.identity);
        let exit = self.report(ending);
        self.exit.insert(exit).clone()
    }

    fn report(&self, ending: Ending) -> Exit {
        Exit {
            program: self.name.clone(),
            pid: self.identity.pid,
            ending,
            rung: None,
            lifetime: age(self.identity),
            was_short_of_memory: self.oom_kills.have_grown(),
            left_behind: 0,
            stderr: self.log.tail(),
        }
    }
}

/// How long ago it was started, be it by another Switchboard.
fn age(identity: Identity) -> Duration {
    let uptime = fs::read_to_string("/proc/uptime").ok();
    let seconds = uptime.and_then(|uptime| uptime.split_once(' ')?.0.parse().ok()).unwrap_or_default();
    let ticks_per_second = clock_ticks_per_second().max(1);
    let start = Duration::from_millis(identity.start_time.saturating_mul(1000) / ticks_per_second);
    Duration::try_from_secs_f64(seconds).unwrap_or_default().saturating_sub(start)
}
