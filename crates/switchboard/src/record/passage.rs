//! The passage itself: bytes from our stdin to the worker's, from the worker's stdout to ours, unchanged, in order and
//! never faster than the other side takes them. Each is recorded before it is passed on, so that no answer is recorded
//! before its call.

use std::convert::Infallible;
use std::future::pending;
use std::time::Duration;

use anyhow::{Context, Result};
use supervise::{Child, Exit, Ladder, Stdin};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, stdin, stdout};
use tokio::process::ChildStdout;
use tokio::time::{sleep, timeout};

use super::recorder::{Recorder, Way};
use crate::signals::Signals;

/// How much is read at once.
const READ_BYTES: usize = 64 << 10;
/// How long the last words of a worker may take to arrive after it has ended: something that it started may hold its
/// stdout open.
const LAST_WORDS_TIMEOUT: Duration = Duration::from_millis(500);
/// How long a worker that has closed its stdout may take to end by itself.
const EXIT_TIMEOUT: Duration = Duration::from_secs(2);

/// Passes everything on until the worker ends, its client stops reading, or we are told to end.
pub(super) async fn pass(mut child: Child, recorder: &Recorder) -> Result<Exit> {
    let mut signals = Signals::new().context("cannot listen for signals")?;
    let Child { stdin, stdout, process } = &mut child;
    let ended = async {
        process.wait().await;
        sleep(LAST_WORDS_TIMEOUT).await;
    };
    let is_wanted = tokio::select! {
        biased;
        () = signals.next() => false,
        is_wanted = to_client(stdout, recorder) => is_wanted,
        () = ended => true,
        never = to_worker(stdin, recorder) => match never {},
    };
    if is_wanted {
        timeout(EXIT_TIMEOUT, child.process.wait()).await.ok();
    }
    Ok(child.stop(Ladder::default()).await)
}

/// The end of our stdin becomes the end of the worker's.
async fn to_worker(worker: &Stdin, recorder: &Recorder) -> Infallible {
    let (mut client, mut bytes) = (stdin(), Vec::with_capacity(READ_BYTES));
    while let Ok(1..) = client.read_buf(&mut bytes).await {
        recorder.note(Way::ToWorker, &bytes).await;
        if worker.send(&bytes).await.is_err() {
            break;
        }
        bytes.clear();
    }
    worker.close();
    pending().await
}

/// Says at the end whether the client still wants to hear: then it was the worker that ended.
async fn to_client(worker: &mut ChildStdout, recorder: &Recorder) -> bool {
    let (mut client, mut bytes) = (stdout(), Vec::with_capacity(READ_BYTES));
    while let Ok(1..) = worker.read_buf(&mut bytes).await {
        recorder.note(Way::ToClient, &bytes).await;
        if client.write_all(&bytes).await.is_err() || client.flush().await.is_err() {
            return false;
        }
        bytes.clear();
    }
    true
}
