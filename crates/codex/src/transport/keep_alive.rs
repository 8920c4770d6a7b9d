//! When to ask a silent peer whether it is still there, and when to stop waiting for it; pure.
//!
//! A machine that vanishes says nothing, and TCP alone would wait for it for a quarter of an hour when something is sent,
//! and for ever when nothing is. A unix socket needs none of this: the kernel tells when the other process is gone.

use std::time::{Duration, Instant};

pub(super) struct KeepAlive {
    ping_interval: Duration,
    pong_timeout: Duration,
    heard_bytes: u64,
    /// When the count of heard bytes was last seen to have grown.
    heard_at: Instant,
    is_asked: bool,
}

/// What to do when it is time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Due {
    Nothing,
    Ping,
    GiveUp,
}

impl KeepAlive {
    pub(super) fn new(ping_interval: Duration, pong_timeout: Duration, now: Instant) -> Self {
        Self { ping_interval, pong_timeout, heard_bytes: 0, heard_at: now, is_asked: false }
    }

    /// When to look again.
    pub(super) fn wake(&self) -> Instant {
        let patience = if self.is_asked { self.ping_interval + self.pong_timeout } else { self.ping_interval };
        self.heard_at + patience
    }

    /// Anything at all is a sign of life, be it a part of a long message.
    pub(super) fn handle_wake(&mut self, heard_bytes: u64, now: Instant) -> Due {
        if heard_bytes != self.heard_bytes {
            self.heard_bytes = heard_bytes;
            self.start_over(now);
        }
        if now < self.wake() {
            return Due::Nothing;
        }
        if self.is_asked {
            return Due::GiveUp;
        }
        self.is_asked = true;
        Due::Ping
    }

    /// While nobody reads, silence says nothing.
    pub(super) fn start_over(&mut self, now: Instant) {
        self.heard_at = now;
        self.is_asked = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Looks at the peer at these seconds, having heard so many bytes.
    fn check(looks: &[(u64, u64, Due)]) {
        let start = Instant::now();
        let mut keep_alive = KeepAlive::new(Duration::from_secs(15), Duration::from_secs(10), start);
        for &(second, heard_bytes, due) in looks {
            let now = start + Duration::from_secs(second);
            assert_eq!(keep_alive.handle_wake(heard_bytes, now), due, "second {second}");
            assert!(due == Due::GiveUp || keep_alive.wake() > now, "second {second}");
        }
    }

    #[test]
    fn a_silent_peer_is_asked_once_and_given_up() {
        check(&[
            (14, 0, Due::Nothing),
            (15, 0, Due::Ping),
            (16, 0, Due::Nothing),
            (24, 0, Due::Nothing),
            (25, 0, Due::GiveUp),
        ]);
    }

    #[test]
    fn a_peer_that_answers_is_asked_again_later() {
        check(&[(15, 0, Due::Ping), (25, 6, Due::Nothing), (40, 6, Due::Ping), (50, 12, Due::Nothing)]);
    }

    #[test]
    fn a_peer_that_speaks_is_never_asked() {
        check(&[(15, 100, Due::Nothing), (30, 200, Due::Nothing), (45, 300, Due::Nothing)]);
    }
}
