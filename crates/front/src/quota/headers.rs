//! What is left of a key's limits, in the headers that OpenAI's clients read.

use std::time::Duration;

use axum::http::{HeaderName, HeaderValue};

use super::{Left, Share};

impl Left {
    pub(crate) fn headers(self) -> impl Iterator<Item = (HeaderName, HeaderValue)> {
        let requests = self.requests.map(|share| share.headers(REQUESTS));
        let tokens = self.tokens.map(|share| share.headers(TOKENS));
        requests.into_iter().chain(tokens).flatten()
    }
}

const REQUESTS: [HeaderName; 3] = [
    HeaderName::from_static("x-ratelimit-limit-requests"),
    HeaderName::from_static("x-ratelimit-remaining-requests"),
    HeaderName::from_static("x-ratelimit-reset-requests"),
];

const TOKENS: [HeaderName; 3] = [
    HeaderName::from_static("x-ratelimit-limit-tokens"),
    HeaderName::from_static("x-ratelimit-remaining-tokens"),
    HeaderName::from_static("x-ratelimit-reset-tokens"),
];

impl Share {
    fn headers(self, [limit, remaining, reset]: [HeaderName; 3]) -> [(HeaderName, HeaderValue); 3] {
        // Digits and letters are a value of a header.
        let until_reset = HeaderValue::from_str(&span(self.reset)).unwrap_or(HeaderValue::from_static("0s"));
        [(limit, self.limit.into()), (remaining, self.remaining.into()), (reset, until_reset)]
    }
}

/// As OpenAI writes it: `120ms`, `6s`, `6m0s`, `13h2m1s`. Rounded up, as whoever comes too early is refused again.
pub(super) fn span(time: Duration) -> String {
    let millis = time.as_nanos().div_ceil(1_000_000);
    if millis < 1000 {
        return if millis == 0 { "0s".into() } else { format!("{millis}ms") };
    }
    let seconds = millis.div_ceil(1000);
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, seconds) => format!("{seconds}s"),
        (0, minutes, seconds) => format!("{minutes}m{seconds}s"),
        (hours, minutes, seconds) => format!("{hours}h{minutes}m{seconds}s"),
    }
}
