//! What was said on the connection to a tool server: each frame with its time and what became of it.

use std::collections::VecDeque;
use std::time::Duration;

use serde::Serialize;

/// One frame, either way.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Frame {
    /// When, from the start of the server.
    pub at: Duration,
    /// Who said it.
    pub from: Speaker,
    /// What was said, without its line ending; only its beginning if it was long.
    pub text: String,
    /// How long it was.
    pub bytes: usize,
    /// What became of it.
    pub verdict: Verdict,
}

/// Who said a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Speaker {
    /// Switchboard.
    Us,
    /// The tool server.
    Server,
}

/// What became of a frame.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "verdict", rename_all = "snake_case")]
pub enum Verdict {
    /// We said it.
    Sent,
    /// A request or notification of the server, taken as such.
    Taken,
    /// The answer to a request of ours, with its method.
    Answer {
        /// The method of our request.
        method: Box<str>,
        /// Whether it was an error.
        is_error: bool,
    },
    /// The answer to a request that we had stopped waiting for.
    Late {
        /// The method of our request.
        method: Box<str>,
    },
    /// An answer with an id that no request of ours had.
    UnknownId,
    /// An answer without an id.
    NoId,
    /// JSON, but neither request, notification nor answer.
    NotRpc {
        /// What is wrong with it.
        why: Box<str>,
    },
    /// No JSON.
    NotJson,
    /// A line above the limit; it was skipped.
    TooLong,
}

/// The last frames of a connection, and its first ones for ever: what goes wrong mostly goes wrong at the beginning.
#[derive(Debug)]
pub struct Ring {
    opening: Vec<Frame>,
    latest: VecDeque<Frame>,
    latest_bytes: usize,
    /// How many frames were left out between the two.
    left_out: u64,
    limits: RingLimits,
}

/// How much of a connection is kept.
#[derive(Clone, Copy, Debug)]
pub struct RingLimits {
    /// First frames that are kept for as long as the connection is.
    pub opening_max: usize,
    /// Bytes of frames that are kept besides, the latest.
    pub latest_bytes_max: usize,
    /// How much of one frame is kept.
    pub frame_bytes_max: usize,
}

impl Default for RingLimits {
    fn default() -> Self {
        Self { opening_max: 32, latest_bytes_max: 256 << 10, frame_bytes_max: 64 << 10 }
    }
}

impl Ring {
    /// An empty one.
    #[must_use]
    pub fn new(limits: RingLimits) -> Self {
        Self { opening: Vec::new(), latest: VecDeque::new(), latest_bytes: 0, left_out: 0, limits }
    }

    /// Keeps a frame, and lets go of as many as there is no more room for.
    pub fn push(&mut self, at: Duration, from: Speaker, line: &[u8], verdict: Verdict) {
        let kept = &line[..line.len().min(self.limits.frame_bytes_max)];
        let frame = Frame { at, from, text: String::from_utf8_lossy(kept).into_owned(), bytes: line.len(), verdict };
        if self.opening.len() < self.limits.opening_max {
            self.opening.push(frame);
            return;
        }
        self.latest_bytes += size(&frame);
        self.latest.push_back(frame);
        while self.latest_bytes > self.limits.latest_bytes_max {
            let Some(oldest) = self.latest.pop_front() else { break };
            self.latest_bytes -= size(&oldest);
            self.left_out += 1;
        }
    }

    /// What is kept, the oldest first.
    pub fn frames(&self) -> impl Iterator<Item = &Frame> {
        self.opening.iter().chain(&self.latest)
    }

    /// How many frames between the first and the latest were let go of.
    #[must_use]
    pub fn left_out(&self) -> u64 {
        self.left_out
    }
}

/// What a frame takes: of very short ones there would be too many if only their text counted.
fn size(frame: &Frame) -> usize {
    frame.text.len() + size_of::<Frame>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_frames_count_for_more_than_their_text() {
        let limits = RingLimits { opening_max: 1, latest_bytes_max: 10_000, frame_bytes_max: 100 };
        let mut ring = Ring::new(limits);
        for _ in 0..10_000 {
            ring.push(Duration::ZERO, Speaker::Server, b"y", Verdict::NotJson);
        }
        let kept = ring.frames().count();
        assert!((2..200).contains(&kept), "{kept}");
        assert_eq!(ring.left_out() + kept as u64, 10_000);
    }
}
