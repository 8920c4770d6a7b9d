//! How many pings a connection may send: each is answered, so that a flood of them costs more than it looks.

use std::time::Duration;

use tokio::time::Instant;

/// How many come in one window at most. Clients that keep a connection alive send one every few seconds.
const PINGS_MAX: u32 = 100;
const WINDOW: Duration = Duration::from_secs(10);

/// Counts the pings of one connection.
pub(super) struct PingRate {
    window_began: Instant,
    pings: u32,
}

/// A connection sends more pings than any client needs.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct PingFlood;

impl PingRate {
    pub(super) fn new(now: Instant) -> Self {
        Self { window_began: now, pings: 0 }
    }

    pub(super) fn count(&mut self, now: Instant) -> Result<(), PingFlood> {
        if now.duration_since(self.window_began) >= WINDOW {
            *self = Self::new(now);
        }
        self.pings += 1;
        if self.pings > PINGS_MAX { Err(PingFlood) } else { Ok(()) }
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
        let counted: Vec<_> = (0..=PINGS_MAX).map(|_| rate.count(later)).collect();
        assert_eq!(counted.iter().position(Result::is_err), Some(PINGS_MAX as usize));
    }
}
