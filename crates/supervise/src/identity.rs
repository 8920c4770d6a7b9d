//! Who a process is: its number alone may be another's tomorrow, number and start time together never are.
//! A signal goes through a pidfd, and only once the process behind it has shown that it is the one that is meant.

use std::collections::BTreeSet;
use std::fs::{self, DirEntry};
use std::io;
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde::{Deserialize, Serialize};

/// One process, for as long as the machine runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(crate) struct Identity {
    pub(crate) pid: u32,
    /// In clock ticks since the machine started.
    pub(crate) start_time: u64,
}

impl Identity {
    /// The process that has this number now, be it a zombie.
    pub(crate) fn of(pid: u32) -> Option<Self> {
        Some(Stat::read(pid).ok()?.identity)
    }

    /// A handle that stays this process's whoever gets its number later; none if it is gone.
    pub(crate) fn open(self) -> Option<OwnedFd> {
        let pidfd = pidfd_open(pid(self.pid)?, PidfdFlags::empty()).ok()?;
        // Looked at after the handle was made: had the number changed hands before, the start time would differ.
        (Self::of(self.pid)? == self).then_some(pidfd)
    }

    /// Sends the signal to this process and to no other; whether it arrived.
    pub(crate) fn signal(self, signal: Signal) -> bool {
        self.open().is_some_and(|pidfd| pidfd_send_signal(pidfd, signal).is_ok())
    }

    /// The variables that it was started with, each closed by a zero byte.
    pub(crate) fn environment(self) -> Environment {
        match fs::read(format!("/proc/{}/environ", self.pid)) {
            Ok(variables) if !variables.is_empty() => Environment::Seen(variables),
            Err(error) if is_forbidden(&error) => Environment::Forbidden,
            Ok(_) | Err(_) => match Stat::read(self.pid) {
                Ok(stat) if stat.identity != self || stat.is_zombie => Environment::Gone,
                Ok(stat) if stat.is_bare => Environment::Seen(Vec::new()),
                Ok(_) => Environment::Coming,
                Err(_) => Environment::Gone,
            },
        }
    }
}

fn pid(raw: u32) -> Option<Pid> {
    Pid::from_raw(raw.cast_signed())
}

fn is_forbidden(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::ACCESS | Errno::PERM))
}

/// What can be seen of a process's environment.
pub(crate) enum Environment {
    Seen(Vec<u8>),
    /// It was in the middle of an exec, and had none for that moment.
    Coming,
    /// It is another user's, or has hidden itself.
    Forbidden,
    Gone,
}

/// What the system tells of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stat {
    pub(crate) identity: Identity,
    pub(crate) parent: u32,
    pub(crate) group: u32,
    pub(crate) session: u32,
    /// Ended, and not yet reaped.
    pub(crate) is_zombie: bool,
    /// It has no variables, and is not about to have any.
    pub(crate) is_bare: bool,
}

impl Stat {
    pub(crate) fn read(pid: u32) -> io::Result<Self> {
        let line = fs::read(format!("/proc/{pid}/stat"))?;
        Self::parse(&String::from_utf8_lossy(&line)).ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    /// Reads a line of `/proc/PID/stat`, whose second field is a name that may hold anything, brackets and spaces too.
    fn parse(line: &str) -> Option<Self> {
        let (pid, rest) = line.split_once(" (")?;
        let fields: Vec<&str> = rest.rsplit_once(") ")?.1.split_ascii_whitespace().collect();
        let number = |index: usize| fields.get(index)?.parse::<u64>().ok();
        let process = |index: usize| u32::try_from(number(index)?).ok();
        // A first thread that has ended shows as a zombie while the other threads run on.
        let is_zombie = matches!(fields.first(), Some(&("Z" | "X"))) && number(17)? <= 1;
        // In the middle of an exec a process has memory, but no code yet: that is noted last, after the place of its variables.
        let (memory_bytes, code_begin, begin, end) = (number(20)?, number(23)?, number(47)?, number(48)?);
        Some(Self {
            identity: Identity { pid: pid.parse().ok()?, start_time: number(19)? },
            parent: process(1)?,
            group: process(2)?,
            session: process(3)?,
            is_zombie,
            is_bare: is_zombie || memory_bytes == 0 || (code_begin > 0 && begin == end),
        })
    }
}

/// The number of every process that runs or waits to be reaped.
pub(crate) fn all_pids() -> io::Result<BTreeSet<u32>> {
    let pid = |entry: io::Result<DirEntry>| entry.ok()?.file_name().to_str()?.parse().ok();
    Ok(fs::read_dir("/proc")?.filter_map(pid).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const REST: &str = "4194304 9 0 0 0 1 2 0 0 20 0 1 0 812345 5000 300 18446744073709551615 1 2 3 0 0 0 0 0 0 0 0 0 17 1 0 0 \
                        0 0 0 4 5 6 7 8 9 10 0";

    #[test]
    fn a_name_with_brackets_and_spaces_confuses_nothing() {
        let stat = Stat::parse(&format!("42 (a) R 1 (b) ) S 7 42 40 0 -1 {REST}")).unwrap();
        let identity = Identity { pid: 42, start_time: 812_345 };
        assert_eq!(stat, Stat { identity, parent: 7, group: 42, session: 40, is_zombie: false, is_bare: false });
    }

    #[test]
    fn a_zombie_with_living_threads_still_runs() {
        let alone = format!("42 (x) Z 7 42 40 0 -1 {REST}");
        let with_threads = alone.replace(" 20 0 1 0 812345", " 20 0 3 0 812345");
        assert!(Stat::parse(&alone).unwrap().is_zombie);
        assert!(!Stat::parse(&with_threads).unwrap().is_zombie);
    }

    #[test]
    fn who_is_in_an_exec_is_about_to_have_variables() {
        let is_bare = |rest: &str| Stat::parse(&format!("42 (x) R 7 42 40 0 -1 {rest}")).unwrap().is_bare;
        let without_variables = REST.replace(" 9 10 0", " 9 9 0");
        assert!(!is_bare(REST));
        assert!(is_bare(&without_variables));
        let in_exec = without_variables.replace(" 1 2 3 0 0", " 0 0 0 0 0");
        assert!(!is_bare(&in_exec));
        let of_the_kernel = in_exec.replace(" 5000 300 ", " 0 0 ");
        assert!(is_bare(&of_the_kernel));
    }

    #[test]
    fn what_is_torn_is_nobody() {
        assert_eq!(Stat::parse(""), None);
        assert_eq!(Stat::parse("42 (x"), None);
        assert_eq!(Stat::parse("42 (x) S 7 42"), None);
    }

    #[test]
    fn a_process_with_our_number_and_another_start_time_is_not_us() {
        let us = Identity::of(std::process::id()).unwrap();
        assert!(all_pids().unwrap().contains(&us.pid));
        assert!(us.open().is_some());
        assert!(Identity { start_time: us.start_time + 1, ..us }.open().is_none());
    }
}
