//! What a worker wants done to its process: log lines, noise, processes left behind, a deaf ear for SIGTERM.

use std::io::{self, Write as _};
use std::process::{Command, Stdio};
use std::thread;

use crate::outputs::{Grandchild, Output};

/// How long a process that is left behind lives if nobody ends it.
const ORPHAN_SECONDS: &str = "600";

pub(crate) fn act(output: Output) {
    match output {
        Output::Log(line) => {
            let _ = writeln!(io::stderr(), "{line}");
        }
        Output::Noise { bytes } => noise(bytes),
        Output::Leave(grandchild) => leave(grandchild),
        Output::IgnoreTerminate => ignore_terminate(),
        Output::Bytes { .. } | Output::LongLine { .. } | Output::End(_) => {}
    }
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
#[expect(
    clippy::disallowed_methods,
    reason = "plays the fault of a worker that leaves processes behind"
)]
fn leave(grandchild: Grandchild) {
    let mut command = match grandchild {
        Grandchild::InGroup => Command::new("sleep"),
        Grandchild::OwnSession => {
            let mut command = Command::new("setsid");
            command.arg("sleep");
            command
        }
    };
    command
        .arg(ORPHAN_SECONDS)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    match command.spawn() {
        Ok(child) => {
            let _ = writeln!(io::stderr(), "left behind {}", child.id());
        }
        Err(error) => {
            let _ = writeln!(io::stderr(), "ERROR cannot leave a process behind: {error}");
        }
    }
}

/// A handler that does nothing, for as long as the process lives.
fn ignore_terminate() {
    let (ready, is_ready) = std::sync::mpsc::sync_channel(1);
    thread::spawn(move || {
        let Ok(runtime) = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .build()
        else {
            return;
        };
        runtime.block_on(async {
            use tokio::signal::unix::{SignalKind, signal};
            let Ok(mut terminate) = signal(SignalKind::terminate()) else {
                return;
            };
            let _ = ready.send(());
            while terminate.recv().await.is_some() {}
        });
    });
    let _ = is_ready.recv();
}
