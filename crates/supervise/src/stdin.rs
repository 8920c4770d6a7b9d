//! Stdin, written by a task of its own, so that a process that does not read blocks nobody: the queue is bounded, and a
//! write without progress is given up.

use std::io::ErrorKind;
use std::mem::take;
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::process::ChildStdin;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::limits::Limits;

/// The way to a process's stdin. Dropped without [`close`](Self::close), it closes the pipe and forgets what waits.
pub struct Stdin {
    queue: watch::Sender<Queue>,
    /// Aborted on drop.
    _writer: JoinSet<()>,
}

impl Stdin {
    pub(crate) fn new(pipe: ChildStdin, limits: Limits) -> Self {
        let queue = watch::Sender::new(Queue::new(limits.queued_bytes_max));
        let mut writer = JoinSet::new();
        writer.spawn(write(pipe, queue.clone(), limits.write_timeout));
        Self { queue, _writer: writer }
    }

    /// Queues the bytes, all or none; they are written as they are, so a line brings its newline.
    pub fn try_send(&self, line: &[u8]) -> Result<(), SendError> {
        let mut sent = Ok(());
        self.queue.send_if_modified(|queue| {
            sent = queue.push(line);
            sent.is_ok()
        });
        sent
    }

    /// Waits until [`try_send`](Self::try_send) would take a line. Cancel-safe.
    pub async fn ready(&self) -> Result<(), StdinEnd> {
        self.wait_for(|queue| match queue.accepts() {
            Ok(()) => Some(Ok(())),
            Err(SendError::Full) => None,
            Err(SendError::Ended(end)) => Some(Err(end)),
        })
        .await
    }

    /// Waits for room and queues the bytes. Cancel-safe: a dropped future has queued nothing.
    pub async fn send(&self, line: &[u8]) -> Result<(), StdinEnd> {
        loop {
            match self.try_send(line) {
                Ok(()) => return Ok(()),
                Err(SendError::Full) => self.ready().await?,
                Err(SendError::Ended(end)) => return Err(end),
            }
        }
    }

    /// Takes no more lines, and closes the pipe once those that wait are written; [`ended`](Self::ended) tells when.
    pub fn close(&self) {
        self.queue.send_modify(|queue| queue.closing = true);
    }

    /// Waits until the pipe is closed, and says why. Cancel-safe.
    pub async fn ended(&self) -> StdinEnd {
        self.wait_for(|queue| queue.end).await
    }

    async fn wait_for<T>(&self, answer: impl Fn(&Queue) -> Option<T>) -> T {
        let mut changes = self.queue.subscribe();
        let queue = changes.wait_for(|queue| answer(queue).is_some()).await.expect("this handle keeps the queue open");
        answer(&queue).expect("it has just been given")
    }
}

/// Why a line was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// As much waits as may.
    #[error("the queue to stdin is full: wait until it is ready")]
    Full,
    /// Stdin is closed, or about to be.
    #[error(transparent)]
    Ended(#[from] StdinEnd),
}

/// Why a stdin was closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StdinEnd {
    /// We closed it.
    #[error("stdin is closed")]
    Closed,
    /// The process read nothing for the whole write timeout.
    #[error("the process left {waiting_bytes} bytes on its stdin unread for {write_timeout:?}: it hangs, stop it")]
    Stalled {
        /// What it has not taken.
        waiting_bytes: usize,
        /// How long it was given.
        write_timeout: Duration,
    },
    /// The process closed its end, or is gone.
    #[error("the process closed its stdin ({0}): see how it ended")]
    Broken(ErrorKind),
}

/// What waits to be written.
struct Queue {
    lines: Vec<u8>,
    /// The lines, and what the writer has taken but not yet written.
    waiting_bytes: usize,
    waiting_bytes_max: usize,
    closing: bool,
    end: Option<StdinEnd>,
}

impl Queue {
    fn new(waiting_bytes_max: usize) -> Self {
        Self { lines: Vec::new(), waiting_bytes: 0, waiting_bytes_max, closing: false, end: None }
    }

    fn accepts(&self) -> Result<(), SendError> {
        match self.end {
            Some(end) => Err(SendError::Ended(end)),
            None if self.closing => Err(SendError::Ended(StdinEnd::Closed)),
            None if self.waiting_bytes >= self.waiting_bytes_max => Err(SendError::Full),
            None => Ok(()),
        }
    }

    fn push(&mut self, line: &[u8]) -> Result<(), SendError> {
        self.accepts()?;
        self.lines.extend_from_slice(line);
        self.waiting_bytes += line.len();
        Ok(())
    }
}

async fn write(mut pipe: ChildStdin, queue: watch::Sender<Queue>, write_timeout: Duration) {
    let mut work = queue.subscribe();
    let end = loop {
        work.wait_for(|queue| queue.closing || !queue.lines.is_empty()).await.expect("this task keeps the queue open");
        let mut batch = Vec::new();
        queue.send_modify(|queue| batch = take(&mut queue.lines));
        if batch.is_empty() {
            break StdinEnd::Closed;
        }
        if let Err(end) = write_batch(&mut pipe, &batch, &queue, write_timeout).await {
            break end;
        }
    };
    drop(pipe);
    queue.send_modify(|queue| queue.end = Some(end));
}

/// Writes everything that waited at once; the deadline starts anew whenever the process has read something.
async fn write_batch(
    pipe: &mut ChildStdin,
    mut batch: &[u8],
    queue: &watch::Sender<Queue>,
    write_timeout: Duration,
) -> Result<(), StdinEnd> {
    while !batch.is_empty() {
        let Ok(written) = timeout(write_timeout, pipe.write(batch)).await else {
            return Err(StdinEnd::Stalled { waiting_bytes: queue.borrow().waiting_bytes, write_timeout });
        };
        let written = written.map_err(|error| StdinEnd::Broken(error.kind()))?;
        batch = &batch[written..];
        queue.send_modify(|queue| queue.waiting_bytes -= written);
    }
    Ok(())
}
