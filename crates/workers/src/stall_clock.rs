//! Decides when a turn has made no progress for too long, pure. A report that the worker tries the model provider again is
//! no progress: a worker whose provider cannot be reached may send such reports for ever.

use std::time::Duration;

use codex::{TurnError, TurnEvent};
use tokio::time::Instant;

use crate::limits::Limits;
use crate::provider::UNREACHABLE;

/// How long a turn has made no progress, and what it has reported meanwhile.
#[derive(Debug)]
pub(crate) struct StallClock {
    progressed_at: Instant,
    retrying: Option<Retrying>,
}

/// The worker tries the model provider again and again.
#[derive(Debug)]
struct Retrying {
    /// Since when the provider has not even answered with a status.
    unreached_since: Option<Instant>,
    /// The last report.
    error: TurnError,
}

impl StallClock {
    pub(crate) fn new(now: Instant) -> Self {
        Self { progressed_at: now, retrying: None }
    }

    /// Takes in an event; returns the error that the turn is to end with, if this is one report of an unreachable provider too
    /// many. Only a report ends it: a model that is silent after a retry may be thinking.
    pub(crate) fn handle_event(&mut self, event: &TurnEvent, limits: &Limits, now: Instant) -> Option<TurnError> {
        match event {
            TurnEvent::Error { error, will_retry: true } => {
                let earlier = self.retrying.take().and_then(|retrying| retrying.unreached_since);
                // A status says that the provider was reached: how often it is asked again is the worker's configuration.
                let unreached_since = error.http_status.is_none().then(|| earlier.unwrap_or(now));
                self.retrying = Some(Retrying { unreached_since, error: error.clone() });
                let waited = now - unreached_since?;
                (waited >= limits.provider_retry_timeout).then(|| unreachable(error, waited))
            }
            // Beside retries these say nothing of the model.
            TurnEvent::Warning { .. } | TurnEvent::Raw { .. } if self.retrying.is_some() => None,
            _ => {
                *self = Self::new(now);
                None
            }
        }
    }

    /// When the turn has stalled, unless it makes progress before.
    pub(crate) fn due(&self, limits: &Limits) -> Instant {
        self.progressed_at + limits.stall_timeout
    }

    /// What a turn that has stalled ends with.
    pub(crate) fn stalled(&self, limits: &Limits) -> TurnError {
        match &self.retrying {
            Some(Retrying { unreached_since: Some(_), error }) => unreachable(error, limits.stall_timeout),
            Some(Retrying { unreached_since: None, error }) => {
                TurnError { message: said_by(error).into(), details: None, ..error.clone() }
            }
            None => TurnError {
                message: format!("the worker said nothing for {:?}: the turn was ended", limits.stall_timeout).into(),
                kind: Some("stalled".into()),
                http_status: None,
                details: None,
            },
        }
    }
}

fn unreachable(error: &TurnError, waited: Duration) -> TurnError {
    let (waited, said) = (waited.as_secs(), said_by(error));
    TurnError {
        message: format!("the model provider could not be reached for {waited} s: {said}").into(),
        kind: Some(UNREACHABLE.into()),
        http_status: None,
        details: None,
    }
}

/// What went wrong; the message of a report only counts the attempts.
fn said_by(error: &TurnError) -> &str {
    error.details.as_deref().unwrap_or(&error.message)
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use expect_test::{Expect, expect};

    use super::*;

    /// Plays lines such as `30 retry`, by the second, and tells what becomes of the turn.
    fn check(events: &str, expect: &Expect) {
        let limits = Limits {
            stall_timeout: Duration::from_secs(600),
            provider_retry_timeout: Duration::from_secs(60),
            ..Limits::default()
        };
        let start = Instant::now();
        let (mut clock, mut told) = (StallClock::new(start), String::new());
        for line in events.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let (at, name) = line.split_once(' ').unwrap();
            let now = start + Duration::from_secs(at.parse().unwrap());
            if clock.due(&limits) <= now {
                let error = clock.stalled(&limits);
                writeln!(told, "{at} stalled ({:?}): {}", error.kind, error.message).unwrap();
                break;
            }
            if let Some(error) = clock.handle_event(&event(name), &limits, now) {
                writeln!(told, "{line} ends it ({:?}): {}", error.kind, error.message).unwrap();
                break;
            }
            writeln!(told, "{line}, due {} s", (clock.due(&limits) - start).as_secs()).unwrap();
        }
        expect.assert_eq(&told);
    }

    fn event(name: &str) -> TurnEvent {
        let retry = |http_status, details: &str| TurnEvent::Error {
            error: TurnError {
                message: "Reconnecting... 1/5".into(),
                kind: Some("response_stream_disconnected".into()),
                http_status,
                details: Some(details.into()),
            },
            will_retry: true,
        };
        match name {
            "retry" => retry(None, "error sending request"),
            "429" => retry(Some(429), "Too Many Requests"),
            "warning" => TurnEvent::Warning { message: "careful".into() },
            "progress" => TurnEvent::Compacted,
            _ => unreachable!("{name}"),
        }
    }

    #[test]
    fn reports_of_an_unreachable_provider_end_the_turn() {
        check(
            "
            10 retry
            40 warning
            69 retry
            70 retry
            ",
            &expect![[r#"
                10 retry, due 600 s
                40 warning, due 600 s
                69 retry, due 600 s
                70 retry ends it (Some("provider_unreachable")): the model provider could not be reached for 60 s: error sending request
            "#]],
        );
    }

    #[test]
    fn a_model_that_thinks_after_a_retry_is_left_to_it() {
        check(
            "
            10 retry
            200 progress
            210 retry
            269 retry
            271 retry
            ",
            &expect![[r#"
                10 retry, due 600 s
                200 progress, due 800 s
                210 retry, due 800 s
                269 retry, due 800 s
                271 retry ends it (Some("provider_unreachable")): the model provider could not be reached for 61 s: error sending request
            "#]],
        );
    }

    #[test]
    fn a_provider_that_answers_is_tried_until_the_turn_stalls() {
        check(
            "
            10 retry
            50 429
            100 retry
            150 429
            599 429
            600 429
            ",
            &expect![[r#"
                10 retry, due 600 s
                50 429, due 600 s
                100 retry, due 600 s
                150 429, due 600 s
                599 429, due 600 s
                600 stalled (Some("response_stream_disconnected")): Too Many Requests
            "#]],
        );
    }

    #[test]
    fn silence_stalls_a_turn() {
        check(
            "
            100 progress
            700 progress
            ",
            &expect![[r#"
                100 progress, due 700 s
                700 stalled (Some("stalled")): the worker said nothing for 600s: the turn was ended
            "#]],
        );
    }
}
