//! What asks this program to end.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// Ctrl-C, the end of the terminal, and the signal of whoever wants this program to end.
pub(crate) struct Signals {
    interrupt: Signal,
    terminate: Signal,
    /// Unless whoever started us wants it ignored, as `nohup` does.
    hang_up: Option<Signal>,
}

impl Signals {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hang_up: if is_ignored(SignalKind::hangup()) { None } else { Some(signal(SignalKind::hangup())?) },
        })
    }

    pub(crate) async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
            () = hung_up(&mut self.hang_up) => {}
        }
    }
}

async fn hung_up(signal: &mut Option<Signal>) {
    match signal {
        Some(signal) => _ = signal.recv().await,
        None => std::future::pending().await,
    }
}

/// Whether we were started with a signal ignored.
fn is_ignored(kind: SignalKind) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    ignored >> (kind.as_raw_value() - 1) & 1 == 1
}
