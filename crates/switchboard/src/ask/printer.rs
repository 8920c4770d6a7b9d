//! Writes to stdout and stderr from a thread of its own: a reader that does not read stalls this thread and nobody else.
//! What waits is put together, so a slow reader gets fewer, larger writes.

use std::io::{self, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use tokio::sync::{Notify, oneshot};

/// How many bytes may wait to be written before the turn has to wait.
const WAITING_BYTES_MAX: usize = 1 << 20;

/// The way to the streams of this process.
pub(crate) struct Printer {
    shared: Arc<Shared>,
    done: oneshot::Receiver<io::Result<()>>,
}

/// Something to write, and where.
pub(crate) enum Piece {
    Out(String),
    /// What cannot be written here is dropped: it only accompanies the answer.
    Err(String),
}

/// Nothing more can be written; [`Printer::finish`] says why.
#[derive(Debug, thiserror::Error)]
#[error("the answer cannot be written any more")]
pub(crate) struct Stopped;

#[derive(Default)]
struct Shared {
    queue: Mutex<Queue>,
    filled: Condvar,
    emptied: Notify,
}

#[derive(Default)]
struct Queue {
    pieces: Vec<Piece>,
    /// Of the pieces here and of those that are being written.
    bytes: usize,
    is_closed: bool,
    has_failed: bool,
}

impl Printer {
    pub(crate) fn start() -> Self {
        let shared = Arc::new(Shared::default());
        let (tell_done, done) = oneshot::channel();
        let writer = Arc::clone(&shared);
        // Not joined: a thread that is stuck in a write ends with the process.
        thread::spawn(move || tell_done.send(writer.write_all()));
        Self { shared, done }
    }

    /// Whether another event can be shown without waiting; also when nothing can be shown at all.
    pub(crate) fn has_room(&self) -> bool {
        let queue = self.shared.lock();
        queue.bytes < WAITING_BYTES_MAX || queue.has_failed
    }

    /// Waits until there is room.
    pub(crate) async fn room(&self) {
        while !self.has_room() {
            self.shared.emptied.notified().await;
        }
    }

    pub(crate) fn print(&self, piece: Piece) -> Result<(), Stopped> {
        let mut queue = self.shared.lock();
        if queue.has_failed {
            return Err(Stopped);
        }
        queue.push(piece);
        self.shared.filled.notify_one();
        Ok(())
    }

    /// Waits until everything is written.
    pub(crate) async fn finish(self) -> io::Result<()> {
        self.shared.lock().is_closed = true;
        self.shared.filled.notify_one();
        self.done.await.unwrap_or(Ok(()))
    }
}

impl Queue {
    fn push(&mut self, piece: Piece) {
        self.bytes += piece.text().len();
        match (self.pieces.last_mut(), piece) {
            (Some(Piece::Out(waiting)), Piece::Out(text)) => waiting.push_str(&text),
            (_, piece) => self.pieces.push(piece),
        }
    }
}

impl Piece {
    fn text(&self) -> &str {
        match self {
            Self::Out(text) | Self::Err(text) => text,
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write_all(&self) -> io::Result<()> {
        loop {
            let mut queue = self.lock();
            while queue.pieces.is_empty() && !queue.is_closed {
                queue = self.filled.wait(queue).unwrap_or_else(PoisonError::into_inner);
            }
            let pieces = std::mem::take(&mut queue.pieces);
            drop(queue);
            if pieces.is_empty() {
                return Ok(());
            }
            let written = pieces.iter().try_for_each(write);
            let mut queue = self.lock();
            queue.bytes -= pieces.iter().map(|piece| piece.text().len()).sum::<usize>();
            queue.has_failed = written.is_err();
            drop(queue);
            self.emptied.notify_one();
            written?;
        }
    }
}

fn write(piece: &Piece) -> io::Result<()> {
    match piece {
        Piece::Out(text) => {
            let mut stdout = io::stdout().lock();
            stdout.write_all(text.as_bytes())?;
            stdout.flush()
        }
        Piece::Err(text) => {
            _ = io::stderr().write_all(text.as_bytes());
            Ok(())
        }
    }
}
