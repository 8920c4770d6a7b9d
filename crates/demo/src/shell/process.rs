//! What a worker wants done to its process: log lines, noise, processes left behind, a deaf ear for SIGTERM, its end.

use std::io::{self, Write as _};
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::outputs::{Ending, Grandchild, Output};

/// How long a process that is left behind lives if nobody ends it.
const ORPHAN_SECONDS: &str = "600";

/// Whether SIGTERM is ignored.
#[derive(Clone, Default)]
pub(super) struct Deafness(Arc<AtomicBool>);

impl Deafness {
    pub(super) fn is_on(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Does what concerns the process and no connection.
pub(super) fn act(output: &Output, deafness: &Deafness) {
    match output {
        Output::Log(line) => say(line),
        Output::Noise { bytes } => noise(*bytes),
        Output::Leave(grandchild) => leave(*grandchild),
        Output::IgnoreTerminate => deafness.0.store(true, Ordering::Relaxed),
        Output::Bytes { .. } | Output::LongLine { .. } | Output::End(_) => {}
    }
}

/// Ends the process as wanted; an exit code is left to the caller.
pub(super) fn end(ending: Ending) -> ExitCode {
    match ending {
        Ending::Exit(code) => ExitCode::from(code),
        Ending::Abort => std::process::abort(),
        Ending::Kill => {
            let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
            ExitCode::FAILURE
        }
    }
}

/// One line on standard error, which may be gone.
pub(super) fn say(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}

/// Lines of noise, so that whoever drains standard error has work.
fn noise(bytes: u64) {
    const LINE: &[u8; 64] = b"noise noise noise noise noise noise noise noise noise noise noi\n";
    let mut stderr = io::stderr().lock();
    for _ in 0..bytes.div_ceil(64) {
        if stderr.write_all(LINE).is_err() {
            return;
        }
    }
}

/// The process keeps none of the worker's streams, so that only its group or its ancestry betrays it.
#[expect(clippy::disallowed_methods, reason = "plays the fault of a worker that leaves processes behind")]
fn leave(grandchild: Grandchild) {
    let (program, arguments): (_, &[&str]) = match grandchild {
        Grandchild::InGroup => ("sleep", &[ORPHAN_SECONDS]),
        Grandchild::Apart => ("setsid", &["sleep", ORPHAN_SECONDS]),
    };
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    match command.spawn() {
        Ok(child) => say(&format!("left behind {}", child.id())),
        Err(error) => say(&format!("ERROR cannot leave a process behind: {error}")),
    }
}
