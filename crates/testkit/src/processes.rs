//! What `/proc` says of processes: who is alive, with which variable, with how much memory.

use std::fs;
use std::time::Duration;

use tokio::time::{sleep, timeout};

/// How often to look whether something has come to be.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);

/// The most memory that a process has had so far.
///
/// # Panics
/// If there is no such process.
#[must_use]
pub fn memory_peak(pid: u32) -> u64 {
    in_status(pid, "VmHWM:") << 10
}

/// The memory that a process has now.
///
/// # Panics
/// If there is no such process.
#[must_use]
pub fn memory(pid: u32) -> u64 {
    in_status(pid, "VmRSS:") << 10
}

/// How many threads a process has.
///
/// # Panics
/// If there is no such process.
#[must_use]
pub fn threads(pid: u32) -> u64 {
    in_status(pid, "Threads:")
}

/// How many descriptors a process has open.
///
/// # Panics
/// If there is no such process, or if it belongs to somebody else.
#[must_use]
pub fn descriptors(pid: u32) -> u64 {
    fs::read_dir(format!("/proc/{pid}/fd")).expect("the process is there").count() as u64
}

/// The processes that a process has started and not waited for.
#[must_use]
pub fn children(pid: u32) -> Vec<u32> {
    let parent = |child: u32| fields(child).and_then(|fields| fields.split(' ').nth(1)?.parse().ok());
    all().filter(|child| parent(*child) == Some(pid)).collect()
}

/// Whether a process has ended and was not waited for.
#[must_use]
pub fn is_zombie(pid: u32) -> bool {
    state_of(pid) == Some('Z')
}

/// Whether a process runs; one that has ended and was not waited for does not.
#[must_use]
pub fn is_running(pid: u32) -> bool {
    state_of(pid).is_some_and(|state| !matches!(state, 'Z' | 'X'))
}

/// Whether a process is stopped.
#[must_use]
pub fn is_stopped(pid: u32) -> bool {
    state_of(pid) == Some('T')
}

/// All running processes of which a piece of the command line or of the environment (`NAME=VALUE`) is exactly this.
#[must_use]
pub fn with(words: &str) -> Vec<u32> {
    let has = |pid: u32, file: &str| {
        let text = fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
        text.split(|byte| *byte == 0).any(|piece| piece == words.as_bytes())
    };
    all().filter(|pid| is_running(*pid) && (has(*pid, "cmdline") || has(*pid, "environ"))).collect()
}

/// Waits until none of them runs; those that still do when the time is over.
pub async fn until_gone(pids: &[u32], limit: Duration) -> Vec<u32> {
    let gone = timeout(limit, async {
        while pids.iter().any(|pid| is_running(*pid)) {
            sleep(LOOK_INTERVAL).await;
        }
    });
    gone.await.ok();
    pids.iter().copied().filter(|pid| is_running(*pid)).collect()
}

fn all() -> impl Iterator<Item = u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// A number, of kB or without a unit.
fn in_status(pid: u32, name: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("the process is there");
    let number = status.lines().find_map(|line| line.strip_prefix(name)).expect("the kernel tells it of every process");
    number.trim().trim_end_matches(" kB").parse().expect("a number")
}

fn state_of(pid: u32) -> Option<char> {
    fields(pid)?.chars().next()
}

/// The fields of its `stat` from its state on.
fn fields(pid: u32) -> Option<String> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name before them is in parentheses and may contain anything.
    Some(stat.rsplit_once(") ")?.1.to_owned())
}
