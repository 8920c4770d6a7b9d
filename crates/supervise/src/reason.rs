//! Why something that should run does not, as far as it decides what happens next.

use std::fmt;

use rustix::process::Signal;

use crate::exit::{Ending, Exit, SignalName};

/// Why a worker or a tool server is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EndReason {
    /// It exited with code 0 although nobody had asked it to.
    Clean,
    /// It exited with this code.
    Code(i32),
    /// This signal killed it.
    Signal(i32),
    /// It, or the machine, had no memory left.
    OutOfMemory,
    /// There is no such program, or it cannot run here.
    CouldNotStart,
    /// The system had no room for another process, or not yet.
    StartRefused,
    /// It started, and then did not introduce itself.
    HandshakeFailed,
    /// It speaks, but nothing that we can talk to.
    ProtocolMismatch,
    /// The link to it broke, and how it fares cannot be told.
    LinkLost,
}

impl EndReason {
    /// Its name in metrics and records.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Clean => "clean",
            Self::Code(_) => "code",
            Self::Signal(_) => "signal",
            Self::OutOfMemory => "out_of_memory",
            Self::CouldNotStart => "could_not_start",
            Self::StartRefused => "start_refused",
            Self::HandshakeFailed => "handshake_failed",
            Self::ProtocolMismatch => "protocol_mismatch",
            Self::LinkLost => "link_lost",
        }
    }
}

impl fmt::Display for EndReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Clean => "it exited with code 0",
            Self::Code(code) => return write!(f, "it exited with code {code}"),
            Self::Signal(number) => return write!(f, "it was killed by {}", SignalName(*number)),
            Self::OutOfMemory => "it ran out of memory",
            Self::CouldNotStart => "it could not be started",
            Self::StartRefused => "the system refused to start it for now",
            Self::HandshakeFailed => "it did not complete the handshake",
            Self::ProtocolMismatch => "it speaks no protocol that we know",
            Self::LinkLost => "the link to it was lost",
        })
    }
}

impl Exit {
    /// Why it ended, so far as its end tells.
    #[must_use]
    pub fn reason(&self) -> EndReason {
        match self.ending {
            Ending::Code(0) => EndReason::Clean,
            Ending::Signal { number, .. } if self.is_out_of_memory(number) => EndReason::OutOfMemory,
            Ending::Code(code) => EndReason::Code(code),
            Ending::Signal { number, .. } => EndReason::Signal(number),
            Ending::Unknown | Ending::StillRunning => EndReason::LinkLost,
        }
    }

    /// The kernel kills with SIGKILL and counts it; a program that is refused memory says so and aborts.
    fn is_out_of_memory(&self, signal: i32) -> bool {
        let is = |named: Signal| signal == named.as_raw();
        let was_killed = is(Signal::KILL) && self.rung.is_none() && self.was_short_of_memory;
        was_killed || (is(Signal::ABORT) && self.stderr.text.lines().any(speaks_of_memory))
    }
}

/// The last words of Rust, Go, C++ and Node when an allocation fails.
fn speaks_of_memory(line: &str) -> bool {
    let of_rust = line.split_once("memory allocation of ").is_some_and(|(_, rest)| rest.contains(" bytes failed"));
    of_rust || ["out of memory", "std::bad_alloc"].iter().any(|words| line.contains(words))
}

#[cfg(test)]
mod tests {
    use std::fmt::Write;
    use std::time::Duration;

    use expect_test::expect;

    use super::*;
    use crate::ladder::Rung;
    use crate::tail::StderrTail;

    fn exit(ending: Ending, was_short_of_memory: bool, stderr: &str) -> Exit {
        Exit {
            program: "codex".into(),
            pid: 123,
            ending,
            rung: None,
            lifetime: Duration::from_secs(1),
            was_short_of_memory,
            left_behind: 0,
            stderr: StderrTail { text: stderr.into(), ..StderrTail::default() },
        }
    }

    #[test]
    fn an_end_is_classified_by_its_status_its_last_words_and_the_kernel_s_counter() {
        let killed = Ending::Signal { number: 9, core_dumped: false };
        let aborted = Ending::Signal { number: 6, core_dumped: true };
        let exits = [
            exit(Ending::Code(0), false, ""),
            exit(Ending::Code(3), true, "memory allocation of 8 bytes failed\n"),
            exit(killed, false, ""),
            exit(killed, true, ""),
            Exit { rung: Some(Rung::Kill), ..exit(killed, true, "") },
            exit(aborted, false, "thread 'main' panicked\n"),
            exit(aborted, false, "started\nmemory allocation of 8589934592 bytes failed\n"),
            exit(aborted, false, "FATAL ERROR: Reached heap limit - JavaScript heap out of memory\n"),
            exit(Ending::Unknown, true, ""),
            exit(Ending::StillRunning, false, ""),
        ];
        let mut reasons = String::new();
        for exit in exits {
            let reason = exit.reason();
            writeln!(reasons, "{exit}\n  {}: {reason}", reason.name()).unwrap();
        }
        expect![[r#"
            codex (pid 123) exited with code 0 after 1.0s; nothing on stderr
              clean: it exited with code 0
            codex (pid 123) exited with code 3 after 1.0s; last stderr: memory allocation of 8 bytes failed
              code: it exited with code 3
            codex (pid 123) was killed by SIGKILL after 1.0s; nothing on stderr
              signal: it was killed by SIGKILL
            codex (pid 123) was killed by SIGKILL after 1.0s, out of memory; nothing on stderr
              out_of_memory: it ran out of memory
            codex (pid 123) was killed by SIGKILL after 1.0s, stopped by SIGKILL; nothing on stderr
              signal: it was killed by SIGKILL
            codex (pid 123) was killed by SIGABRT (core dumped) after 1.0s; last stderr: thread 'main' panicked
              signal: it was killed by SIGABRT
            codex (pid 123) was killed by SIGABRT (core dumped) after 1.0s, out of memory; last stderr: started | memory allocation of 8589934592 bytes failed
              out_of_memory: it ran out of memory
            codex (pid 123) was killed by SIGABRT (core dumped) after 1.0s, out of memory; last stderr: FATAL ERROR: Reached heap limit - JavaScript heap out of memory
              out_of_memory: it ran out of memory
            codex (pid 123) ended in an unknown way after 1.0s; nothing on stderr
              link_lost: the link to it was lost
            codex (pid 123) still runs in spite of SIGKILL after 1.0s; nothing on stderr
              link_lost: the link to it was lost
        "#]].assert_eq(&reasons);
    }
}
