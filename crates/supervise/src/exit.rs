//! How a process ended, in a form that explains itself: its `Display` is the failure report.

use std::fmt;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::Duration;

use rustix::process::Signal;

use crate::ladder::Rung;
use crate::reason::EndReason;
use crate::tail::StderrTail;

/// The end of one process.
#[derive(Clone, Debug)]
pub struct Exit {
    /// The file name of the program.
    pub program: Box<str>,
    /// The process id that it had.
    pub pid: u32,
    /// What the system said of it.
    pub ending: Ending,
    /// What ended it; none if it ended by itself, or not at all.
    pub rung: Option<Rung>,
    /// From its start to its end.
    pub lifetime: Duration,
    /// Whether the kernel, while it lived, killed a process of our memory cgroup (or, where that is not told, of the
    /// machine) for lack of memory.
    pub was_short_of_memory: bool,
    /// How many processes that it had started outlived it; they were killed.
    pub left_behind: usize,
    /// The end of what it wrote to stderr.
    pub stderr: StderrTail,
}

/// What the system said of an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// It exited with this code.
    Code(i32),
    /// A signal killed it.
    Signal {
        /// The number of the signal.
        number: i32,
        /// Whether it left a core dump.
        core_dumped: bool,
    },
    /// It is gone, but something else in this process took its status away.
    Unknown,
    /// It outlived the whole ladder: it is stuck inside the kernel, or not ours to kill.
    StillRunning,
}

impl From<ExitStatus> for Ending {
    fn from(status: ExitStatus) -> Self {
        match (status.code(), status.signal()) {
            (Some(code), _) => Self::Code(code),
            (None, Some(number)) => Self::Signal { number, core_dumped: status.core_dumped() },
            (None, None) => Self::Unknown,
        }
    }
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { program, pid, ending, rung, lifetime, was_short_of_memory: _, left_behind: _, stderr } = self;
        write!(f, "{program} (pid {pid}) {ending} after {lifetime:.1?}")?;
        if self.reason() == EndReason::OutOfMemory {
            f.write_str(", out of memory")?;
        }
        if let Some(rung) = rung {
            write!(f, ", stopped by {rung}")?;
        }
        write!(f, "; {stderr}")
    }
}

impl fmt::Display for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Code(code) => write!(f, "exited with code {code}"),
            Self::Signal { number, core_dumped } => {
                write!(f, "was killed by {}", SignalName(number))?;
                f.write_str(if core_dumped { " (core dumped)" } else { "" })
            }
            Self::Unknown => f.write_str("ended in an unknown way"),
            Self::StillRunning => f.write_str("still runs in spite of SIGKILL"),
        }
    }
}

impl fmt::Display for Rung {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::CloseStdin => "closing its stdin",
            Self::Terminate => "SIGTERM",
            Self::TerminateAgain => "a second SIGTERM",
            Self::Kill => "SIGKILL",
        })
    }
}

/// The signals that end programs in practice by name, the others by number.
pub(crate) struct SignalName(pub(crate) i32);

impl fmt::Display for SignalName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match Signal::from_named_raw(self.0) {
            Some(Signal::ABORT) => "SIGABRT",
            Some(Signal::BUS) => "SIGBUS",
            Some(Signal::FPE) => "SIGFPE",
            Some(Signal::HUP) => "SIGHUP",
            Some(Signal::ILL) => "SIGILL",
            Some(Signal::INT) => "SIGINT",
            Some(Signal::KILL) => "SIGKILL",
            Some(Signal::PIPE) => "SIGPIPE",
            Some(Signal::QUIT) => "SIGQUIT",
            Some(Signal::SEGV) => "SIGSEGV",
            Some(Signal::SYS) => "SIGSYS",
            Some(Signal::TERM) => "SIGTERM",
            Some(Signal::TRAP) => "SIGTRAP",
            Some(Signal::XCPU) => "SIGXCPU",
            _ => return write!(f, "signal {}", self.0),
        })
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    fn report(ending: Ending, rung: Option<Rung>, stderr: &str) -> String {
        let exit = Exit {
            program: "codex".into(),
            pid: 123,
            ending,
            rung,
            lifetime: Duration::from_millis(3210),
            was_short_of_memory: false,
            left_behind: 0,
            stderr: StderrTail { text: stderr.into(), total_bytes: stderr.len() as u64, starts_mid_line: false },
        };
        format!("{exit}\n")
    }

    #[test]
    fn a_report_says_how_it_ended_why_and_its_last_words() {
        let signal = |number, core_dumped| Ending::Signal { number, core_dumped };
        let reports = [
            report(Ending::Code(1), None, "ERROR config: no such model\n"),
            report(signal(11, true), None, "thread 'main' panicked:\nindex out of bounds\n"),
            report(signal(34, false), None, ""),
            report(Ending::Code(0), Some(Rung::CloseStdin), ""),
            report(signal(15, false), Some(Rung::Terminate), ""),
            report(Ending::Code(0), Some(Rung::TerminateAgain), ""),
            report(signal(9, false), Some(Rung::Kill), ""),
            report(Ending::StillRunning, None, ""),
            report(Ending::Unknown, None, ""),
        ];
        expect![[r#"
            codex (pid 123) exited with code 1 after 3.2s; last stderr: ERROR config: no such model
            codex (pid 123) was killed by SIGSEGV (core dumped) after 3.2s; last stderr: thread 'main' panicked: | index out of bounds
            codex (pid 123) was killed by signal 34 after 3.2s; nothing on stderr
            codex (pid 123) exited with code 0 after 3.2s, stopped by closing its stdin; nothing on stderr
            codex (pid 123) was killed by SIGTERM after 3.2s, stopped by SIGTERM; nothing on stderr
            codex (pid 123) exited with code 0 after 3.2s, stopped by a second SIGTERM; nothing on stderr
            codex (pid 123) was killed by SIGKILL after 3.2s, stopped by SIGKILL; nothing on stderr
            codex (pid 123) still runs in spite of SIGKILL after 3.2s; nothing on stderr
            codex (pid 123) ended in an unknown way after 3.2s; nothing on stderr
        "#]].assert_eq(&reports.concat());
    }
}
