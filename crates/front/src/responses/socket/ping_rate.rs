//! How many pings and pongs a connection may send: they are read between two messages, and a flood of them would keep the thread
//! that reads them from all other callers.

use std::time::Duration;

use tokio::time::Instant;

/// How many come in one window at most. Clients that keep a connection alive send one every few seconds, and answer one.
const CONTROL_FRAMES_MAX: u32 = 100;
const WINDOW: Duration = Duration::from_secs(10);

/// Counts the pings and pongs of one connection.
pub(super) struct PingRate {
    window_began: Instant,
    control_frames: u32,
    /// Of our own pings, each of which is answered by a pong.
    unanswered: u32,
}

/// A connection sends more pings and pongs than any client needs.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct PingFlood;

impl PingRate {
    pub(super) fn new(now: Instant) -> Self {
        Self { window_began: now, control_frames: 0, unanswered: 0 }
    }

    /// We send a ping.
    pub(super) fn begin_ping(&mut self) {
        self.unanswered = self.unanswered.saturating_add(1);
    }

    /// A pong came. One that answers no ping counts as a ping does.
    pub(super) fn count_pong(&mut self, now: Instant) -> Result<(), PingFlood> {
        match self.unanswered.checked_sub(1) {
            None => self.count(now),
            Some(unanswered) => {
                self.unanswered = unanswered;
                Ok(())
            }
        }
    }

    /// A ping came.
    pub(super) fn count(&mut self, now: Instant) -> Result<(), PingFlood> {
        if now.duration_since(self.window_began) >= WINDOW {
            (self.window_began, self.control_frames) = (now, 0);
        }
        self.control_frames += 1;
        if self.control_frames > CONTROL_FRAMES_MAX { Err(PingFlood) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_noticed_and_a_steady_client_is_not() {
        let start = Instant::now();
        let mut rate = PingRate::new(start);
        for second in 0..1000 {
            assert_eq!(rate.count(start + Duration::from_secs(second)), Ok(()));
        }
        let later = start + Duration::from_secs(2000);
        let counted: Vec<_> = (0..=CONTROL_FRAMES_MAX).map(|_| rate.count(later)).collect();
        assert_eq!(counted.iter().position(Result::is_err), Some(CONTROL_FRAMES_MAX as usize));
    }

    #[test]
    fn a_pong_counts_unless_it_answers_a_ping() {
        let start = Instant::now();
        let mut rate = PingRate::new(start);
        for _ in 0..10 * CONTROL_FRAMES_MAX {
            rate.begin_ping();
            assert_eq!(rate.count_pong(start), Ok(()));
        }
        let counted: Vec<_> = (0..=CONTROL_FRAMES_MAX).map(|_| rate.count_pong(start)).collect();
        assert_eq!(counted.iter().position(Result::is_err), Some(CONTROL_FRAMES_MAX as usize));
    }
}
