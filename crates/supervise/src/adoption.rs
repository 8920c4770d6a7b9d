//! Orphans become ours: what a child leaves behind when it dies is handed to us by the kernel instead of to init, so that
//! it can be found without its mark, ended, and reaped.

use std::io;
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{Pid, Signal};
use rustix::process::{WaitId, WaitIdOptions, getpid, set_child_subreaper, waitid};
use tokio::signal::unix::{self, SignalKind, signal};
use tokio::task::{JoinSet, spawn_blocking};
use tokio::time::{sleep, timeout};

use crate::environment::Mark;
use crate::groups;
use crate::identity::{Environment, Stat};
use crate::leaders::{self, Census};

/// How often to look unasked: SIGCHLD may be blocked, and an orphan whose child has ended may not end by itself.
const LOOK_INTERVAL: Duration = Duration::from_secs(2);

/// The least time from one look to the next, however many children end.
const LOOK_PAUSE: Duration = Duration::from_millis(50);

/// Keeps this process the parent of its orphaned descendants, until it is dropped.
pub struct Adoption {
    /// Aborted on drop.
    _reaper: JoinSet<()>,
}

/// Makes this process the one that orphans of its children fall to.
///
/// It holds for the whole process, so only a binary may ask for it, and only one that starts every process through this
/// crate: any other child that appears from now on is taken for an orphan. An orphan lives as long as the child whose
/// mark it carries; one that has wiped its environment dies with the next child that ends.
///
/// # Errors
/// `AlreadyExists` if it is so already.
///
/// # Panics
/// Outside a tokio runtime that drives IO and time.
pub fn adopt_orphans() -> io::Result<Adoption> {
    // First what may fail or panic: nothing is to be undone then.
    let child_signals = signal(SignalKind::child())?;
    if !leaders::start_adopting() {
        return Err(io::ErrorKind::AlreadyExists.into());
    }
    set_child_subreaper(Some(getpid())).inspect_err(|_| leaders::stop_adopting())?;
    let mut reaper = JoinSet::new();
    reaper.spawn(tend(child_signals));
    Ok(Adoption { _reaper: reaper })
}

impl Drop for Adoption {
    fn drop(&mut self) {
        set_child_subreaper(None).ok();
        leaders::stop_adopting();
    }
}

async fn tend(mut child_signals: unix::Signal) {
    loop {
        // Off the runtime: it looks at every process of the machine.
        spawn_blocking(look).await.ok();
        sleep(LOOK_PAUSE).await;
        timeout(LOOK_INTERVAL, child_signals.recv()).await.ok();
    }
}

/// Reaps what has ended of the adopted, and ends what should have.
///
/// No status is taken from anyone who waits for it: a process that we started is never among the adopted, because it is
/// registered before a census can see it, and remains so until its handle has reaped it. An adopted zombie is ours alone
/// to reap, so it keeps its number between the census and the wait.
fn look() {
    if has_no_children() {
        return;
    }
    let census = Census::take();
    let untraceable = census.adopted.iter().filter(|orphan| !orphan.is_zombie && is_untraceable(orphan, &census));
    groups::record_orphans(&untraceable.map(|orphan| orphan.identity).collect());
    for orphan in &census.adopted {
        if orphan.is_zombie {
            reap(orphan);
        } else if has_outlived_its_child(orphan, &census) {
            orphan.identity.signal(Signal::KILL);
        }
    }
}

fn has_no_children() -> bool {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    matches!(waitid(WaitId::All, options), Err(Errno::CHILD))
}

fn reap(zombie: &Stat) {
    if let Some(pid) = Pid::from_raw(zombie.identity.pid.cast_signed()) {
        waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOHANG).ok();
    }
}

/// Whether the next Switchboard could not tell by its marks where it comes from: they are gone, hidden, or none of ours.
fn is_untraceable(orphan: &Stat, census: &Census) -> bool {
    match orphan.identity.environment() {
        Environment::Seen(seen) => !Mark::of_child(&seen).is_some_and(|mark| census.is_living(mark)),
        Environment::Forbidden | Environment::Coming => true,
        Environment::Gone => false,
    }
}

fn has_outlived_its_child(orphan: &Stat, census: &Census) -> bool {
    let Environment::Seen(seen) = orphan.identity.environment() else { return false };
    Mark::of_child(&seen).is_some_and(|mark| !census.is_living(mark))
}
