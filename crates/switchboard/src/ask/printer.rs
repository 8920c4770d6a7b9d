//! Writes to stdout and stderr from a thread of its own: a reader that does not read stalls this thread and nobody else.

use std::io::{self, Write};
use std::thread;

use tokio::sync::{mpsc, oneshot};

/// How many pieces may wait to be written; few, because each may be as long as a line of the worker.
const PIECES_MAX: usize = 16;
/// How many of them one event may need.
const PIECES_PER_EVENT: usize = 4;

/// The way to the streams of this process.
pub(crate) struct Printer {
    pieces: mpsc::Sender<Piece>,
    done: oneshot::Receiver<io::Result<()>>,
}

/// Something to write, and where.
pub(crate) enum Piece {
    Out(String),
    /// What cannot be written here is dropped: it only accompanies the answer.
    Err(String),
}

/// Nothing more can be written, or not without waiting; [`Printer::finish`] says why.
#[derive(Debug, thiserror::Error)]
#[error("the answer cannot be written any more")]
pub(crate) struct Stopped;

impl Printer {
    pub(crate) fn start() -> Self {
        let (pieces, to_write) = mpsc::channel(PIECES_MAX);
        let (tell_done, done) = oneshot::channel();
        // Not joined: a thread that is stuck in a write ends with the process.
        thread::spawn(move || tell_done.send(write(to_write)));
        Self { pieces, done }
    }

    /// Whether another event can be shown without waiting.
    pub(crate) fn has_room(&self) -> bool {
        self.pieces.capacity() >= PIECES_PER_EVENT || self.pieces.is_closed()
    }

    /// Waits for room, or for the end of all writing.
    pub(crate) async fn room(&self) {
        _ = self.pieces.reserve_many(PIECES_PER_EVENT).await;
    }

    pub(crate) fn print(&self, piece: Piece) -> Result<(), Stopped> {
        self.pieces.try_send(piece).map_err(|_| Stopped)
    }

    /// Waits until everything is written.
    pub(crate) async fn finish(self) -> io::Result<()> {
        drop(self.pieces);
        self.done.await.unwrap_or(Ok(()))
    }
}

fn write(mut pieces: mpsc::Receiver<Piece>) -> io::Result<()> {
    while let Some(piece) = pieces.blocking_recv() {
        match piece {
            Piece::Out(text) => {
                let mut stdout = io::stdout().lock();
                stdout.write_all(text.as_bytes())?;
                stdout.flush()?;
            }
            Piece::Err(text) => _ = io::stderr().write_all(text.as_bytes()),
        }
    }
    Ok(())
}
