//! Writes what passes into the file, on a thread of its own: one line of JSON for each line that was said. When the disk
//! fails or falls far behind, the recording ends and says so; what passes does not wait for it.

use std::cell::Cell;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use codex::secrets;
use serde::Serialize;
use serde_json::value::RawValue;
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;
use wire::{Frame, Framer};

/// How many reads may wait for the disk; each has at most some ten thousand bytes.
const WAITING_READS_MAX: usize = 256;
/// How long a full queue may hold up what passes, once, before the recording is given up.
const DISK_TIMEOUT: Duration = Duration::from_secs(5);
/// How long the rest may take once nothing passes any more that it could hold up.
const FINISH_TIMEOUT: Duration = Duration::from_secs(60);
/// The longest line that is recorded whole; of a longer one its beginning is.
const LINE_BYTES_MAX: usize = 64 << 20;

/// Which way a line went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    ToWorker,
    ToClient,
}

/// What becomes of secrets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Secrets {
    Hidden,
    Kept,
}

pub(super) struct Recorder {
    reads: mpsc::Sender<Read>,
    done: oneshot::Receiver<()>,
    is_over: Cell<bool>,
}

/// Bytes as they were read, at a time.
struct Read {
    at: Instant,
    way: Way,
    bytes: Vec<u8>,
}

impl Recorder {
    pub(super) fn start(file: File, path: &Path, secrets: Secrets) -> Self {
        let (reads, waiting) = mpsc::channel(WAITING_READS_MAX);
        let (tell_done, done) = oneshot::channel();
        let path = path.to_owned();
        // Not joined: a thread that is stuck in a write ends with the process.
        thread::spawn(move || {
            write_all(waiting, Tape::new(BufWriter::new(file), secrets, Instant::now()), &path);
            tell_done.send(())
        });
        Self { reads, done, is_over: Cell::new(false) }
    }

    /// Records what is about to be passed on. When the recording is over, does nothing.
    pub(super) async fn note(&self, way: Way, bytes: &[u8]) {
        if self.is_over.get() {
            return;
        }
        let read = Read { at: Instant::now(), way, bytes: bytes.into() };
        match timeout(DISK_TIMEOUT, self.reads.send(read)).await {
            Ok(Ok(())) => {}
            Ok(Err(_)) => self.is_over.set(true),
            Err(_) => {
                self.is_over.set(true);
                eprintln!("switchboard: the recording ends here, the disk took nothing for {DISK_TIMEOUT:?}");
            }
        }
    }

    /// Waits a moment until all is written.
    pub(super) async fn finish(self) {
        drop(self.reads);
        if timeout(FINISH_TIMEOUT, self.done).await.is_err() {
            eprintln!("switchboard: the disk does not take the end of the recording; it is not whole");
        }
    }
}

/// Ends with the last read, or at the first one that cannot be written.
fn write_all(mut waiting: mpsc::Receiver<Read>, mut tape: Tape<BufWriter<File>>, path: &Path) {
    while let Some(read) = waiting.blocking_recv() {
        let written = tape.take(&read).and_then(|()| if waiting.is_empty() { tape.out.flush() } else { Ok(()) });
        if let Err(error) = written {
            eprintln!("switchboard: the recording ends here, {} cannot be written: {error}", path.display());
            return;
        }
    }
    if let Err(error) = tape.finish() {
        eprintln!("switchboard: the end of the recording is lost, {} cannot be written: {error}", path.display());
    }
}

/// From bytes to the lines of a recording.
struct Tape<W> {
    out: W,
    secrets: Secrets,
    start: Instant,
    to_worker: Framer,
    to_client: Framer,
}

/// One line of a recording.
#[derive(Serialize)]
struct Entry<'a> {
    t: f64,
    dir: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    msg: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    raw: Option<&'a str>,
    /// How long the line was, where it is not whole.
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes: Option<u64>,
}

impl<W: Write> Tape<W> {
    fn new(out: W, secrets: Secrets, start: Instant) -> Self {
        let framer = || Framer::new(LINE_BYTES_MAX);
        Self { out, secrets, start, to_worker: framer(), to_client: framer() }
    }

    fn take(&mut self, read: &Read) -> io::Result<()> {
        let seconds = read.at.duration_since(self.start).as_secs_f64();
        let framer = match read.way {
            Way::ToWorker => &mut self.to_worker,
            Way::ToClient => &mut self.to_client,
        };
        let mut rest = &*read.bytes;
        while let Some(frame) = framer.next(&mut rest) {
            write_frame(&mut self.out, &frame, read.way, self.secrets, seconds)?;
        }
        Ok(())
    }

    /// What was begun and never ended counts too.
    fn finish(&mut self) -> io::Result<()> {
        let seconds = self.start.elapsed().as_secs_f64();
        for (framer, way) in [(&mut self.to_worker, Way::ToWorker), (&mut self.to_client, Way::ToClient)] {
            if let Some(frame) = framer.finish() {
                write_frame(&mut self.out, &frame, way, self.secrets, seconds)?;
            }
        }
        self.out.flush()
    }
}

fn write_frame(out: &mut impl Write, frame: &Frame<'_>, way: Way, secrets: Secrets, seconds: f64) -> io::Result<()> {
    let (line, bytes) = match *frame {
        Frame::Line(line) => (line, None),
        Frame::TooLong { head, bytes, .. } => (head, Some(bytes)),
        Frame::Overflowing { .. } => return Ok(()),
    };
    let said = String::from_utf8_lossy(line);
    let said = match secrets {
        Secrets::Hidden => secrets::hide(&said),
        Secrets::Kept => said.into_owned(),
    };
    let msg: Option<&RawValue> = if bytes.is_none() { serde_json::from_str(&said).ok() } else { None };
    let entry = Entry {
        t: (seconds * 1e4).round() / 1e4,
        dir: match way {
            Way::ToWorker => "c2s",
            Way::ToClient => "s2c",
        },
        raw: msg.is_none().then_some(&said),
        msg,
        bytes,
    };
    serde_json::to_writer(&mut *out, &entry)?;
    out.write_all(b"\n")
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    fn taped(secrets: Secrets, reads: &[(u64, Way, &[u8])]) -> String {
        let start = Instant::now();
        let mut tape = Tape::new(Vec::new(), secrets, start);
        for (ms, way, bytes) in reads {
            let read = Read { at: start + Duration::from_millis(*ms), way: *way, bytes: bytes.to_vec() };
            tape.take(&read).unwrap();
        }
        String::from_utf8(tape.out).unwrap()
    }

    #[test]
    fn each_line_is_kept_with_its_time_and_way_and_secrets_are_hidden() {
        let reads: [(u64, Way, &[u8]); 4] = [
            (1, Way::ToWorker, b"{ \"id\":1 , \"token\":\"abc\"}\n{\"id\""),
            (20, Way::ToClient, b"{\"id\":1}\nnot JSON, sk-12345678\n\xff\n"),
            (300, Way::ToWorker, b":2}\n\n"),
            (300, Way::ToClient, b"never ended"),
        ];
        let hidden = taped(Secrets::Hidden, &reads);
        expect![[r#"
            {"t":0.001,"dir":"c2s","msg":{ "id":1 , "token":"[hidden]"}}
            {"t":0.02,"dir":"s2c","msg":{"id":1}}
            {"t":0.02,"dir":"s2c","raw":"not JSON, [hidden]"}
            {"t":0.02,"dir":"s2c","raw":"�"}
            {"t":0.3,"dir":"c2s","msg":{"id":2}}
        "#]]
        .assert_eq(&hidden);
        assert!(taped(Secrets::Kept, &reads).contains("abc"));
    }
}
