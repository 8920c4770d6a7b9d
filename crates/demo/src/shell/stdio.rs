//! Standard input and output. A client that stops reading stops the worker, as it does the real one: nothing grows.

use std::io::{self, BufRead as _, Write};
use std::process::ExitCode;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TryRecvError, sync_channel};
use std::thread;
use std::time::Instant;

use super::{Capture, end};
use crate::clock::Now;
use crate::outputs::{ConnectionId, Output};
use crate::worker::Worker;

/// Lines that are read ahead.
const INBOX_LINES: usize = 128;
/// Output that is gathered before it is written.
const BUFFER_BYTES: usize = 64 * 1024;
const CLIENT: ConnectionId = ConnectionId(0);

pub(crate) fn run(mut worker: Worker, mut capture: Capture) -> ExitCode {
    let (lines, inbox) = sync_channel(INBOX_LINES);
    thread::spawn(move || read_lines(&lines));
    let mut stdout = Gathered {
        sink: io::stdout().lock(),
        buffer: Vec::with_capacity(BUFFER_BYTES),
    };
    worker.handle_opened(CLIENT);
    loop {
        match drain(&mut worker, &mut stdout) {
            Ok(None) => {}
            Ok(Some(code)) => return code,
            // The client does not listen any more.
            Err(_) => return ExitCode::SUCCESS,
        }
        match wait(&inbox, worker.poll_timeout()) {
            Wake::Line(line) => {
                capture.line(&line);
                worker.handle_line(CLIENT, &line, Now::read());
            }
            Wake::Timeout => worker.handle_timeout(Now::read()),
            Wake::Closed => return ExitCode::SUCCESS,
        }
    }
}

fn read_lines(lines: &SyncSender<Vec<u8>>) {
    let mut stdin = io::stdin().lock();
    loop {
        let mut line = Vec::new();
        match stdin.read_until(b'\n', &mut line) {
            Ok(1..) if lines.send(line).is_ok() => {}
            _ => return,
        }
    }
}

enum Wake {
    Line(Vec<u8>),
    Timeout,
    Closed,
}

fn wait(inbox: &Receiver<Vec<u8>>, until: Option<Instant>) -> Wake {
    let Some(until) = until else {
        return inbox.recv().map_or(Wake::Closed, Wake::Line);
    };
    let left = until.saturating_duration_since(Instant::now());
    if left.is_zero() {
        return match inbox.try_recv() {
            Ok(line) => Wake::Line(line),
            Err(TryRecvError::Empty) => Wake::Timeout,
            Err(TryRecvError::Disconnected) => Wake::Closed,
        };
    }
    match inbox.recv_timeout(left) {
        Ok(line) => Wake::Line(line),
        Err(RecvTimeoutError::Timeout) => Wake::Timeout,
        Err(RecvTimeoutError::Disconnected) => Wake::Closed,
    }
}

/// Does all the worker wants done; an exit code if that was to end.
fn drain(worker: &mut Worker, stdout: &mut Gathered<impl Write>) -> io::Result<Option<ExitCode>> {
    while let Some(output) = worker.poll_output(Instant::now()) {
        match output {
            Output::Bytes { bytes, .. } => stdout.write(&bytes)?,
            Output::LongLine {
                head,
                filler_bytes,
                tail,
                ..
            } => {
                stdout.write(&head)?;
                stdout.fill(filler_bytes)?;
                stdout.write(&tail)?;
            }
            Output::End(ending) => {
                stdout.flush()?;
                return Ok(Some(end(ending)));
            }
            other => super::process::act(other),
        }
    }
    stdout.flush()?;
    Ok(None)
}

/// Gathers what is ready and writes it at once.
struct Gathered<W> {
    sink: W,
    buffer: Vec<u8>,
}

impl<W: Write> Gathered<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.buffer.len() + bytes.len() > BUFFER_BYTES {
            self.flush()?;
        }
        if bytes.len() >= BUFFER_BYTES {
            return self.sink.write_all(bytes);
        }
        self.buffer.extend_from_slice(bytes);
        Ok(())
    }

    fn fill(&mut self, count: u64) -> io::Result<()> {
        self.flush()?;
        let chunk = [b'x'; BUFFER_BYTES];
        let mut left = count;
        while left > 0 {
            let now = usize::try_from(left)
                .unwrap_or(usize::MAX)
                .min(BUFFER_BYTES);
            self.sink.write_all(&chunk[..now])?;
            left -= now as u64;
        }
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.sink.write_all(&self.buffer)?;
        self.buffer.clear();
        self.sink.flush()
    }
}
