//! How arguments are held against a schema: compiled with patterns that take linear time, and judged on a thread where that
//! holds nobody up. A judgement cannot be interrupted, so that each server has only a few at once and a call waits for its own
//! only so long; one that is given up keeps its place until it ends by itself.

use std::panic::resume_unwind;
use std::sync::Arc;
use std::time::Duration;

use jsonschema::error::ValidationErrorKind;
use jsonschema::{PatternOptions, ValidationError, Validator};
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, timeout_at};

use crate::unfolding::is_bounded;

/// Why a schema has no validator.
#[derive(Debug)]
pub(crate) enum Uncompiled {
    /// It unfolds without bounds, as far as can be said.
    Unbounded,
    /// It refers to what is not in it; nothing is fetched.
    Unresolved { error: Box<ValidationError<'static>> },
    /// One of its patterns has look-around or back-references: a string can keep those busy for hours.
    Backtracks { pattern: String },
    /// It is no JSON Schema.
    Invalid { error: Box<ValidationError<'static>> },
}

/// The validator of a schema.
pub(crate) fn compile(schema: &Value) -> Result<Validator, Uncompiled> {
    if is_bounded(schema) { compile_unbounded(schema) } else { Err(Uncompiled::Unbounded) }
}

/// The same, for a caller that knows how far the schema unfolds.
pub(crate) fn compile_unbounded(schema: &Value) -> Result<Validator, Uncompiled> {
    let options = jsonschema::options().offline().with_pattern_options(PatternOptions::regex());
    options.build(schema).map_err(|error| match backtracking_pattern(&error) {
        Some(pattern) => Uncompiled::Backtracks { pattern },
        None if matches!(error.kind(), ValidationErrorKind::Referencing(_)) => {
            Uncompiled::Unresolved { error: Box::new(error) }
        }
        None => Uncompiled::Invalid { error: Box::new(error) },
    })
}

/// The pattern that was refused and that an engine which backtracks takes.
fn backtracking_pattern(error: &ValidationError<'_>) -> Option<String> {
    if !matches!(error.kind(), ValidationErrorKind::Format { format } if *format == "regex") {
        return None;
    }
    let instance = error.instance();
    let pattern = instance.as_str().or_else(|| instance.get("pattern")?.as_str())?;
    jsonschema::options().build(&json!({ "pattern": pattern })).is_ok().then(|| pattern.to_owned())
}

/// The judgements of one server's arguments.
#[derive(Debug)]
pub(crate) struct Judgements {
    places: Arc<Semaphore>,
    timeout: Duration,
}

/// Why there is no judgement.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Unjudged {
    #[error("as many arguments for its server are being checked as may be at once: try again")]
    Busy,
    #[error("checking its arguments against its schema took longer than {0:?}: send less, or ask for a simpler schema")]
    TooSlow(Duration),
}

impl Judgements {
    pub(crate) fn new(at_once_max: usize, timeout: Duration) -> Self {
        Self { places: Arc::new(Semaphore::new(at_once_max)), timeout }
    }

    /// What `judge` says, which runs on a thread of its own.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        judge: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Unjudged> {
        let until = Instant::now() + self.timeout;
        let place = timeout_at(until, Arc::clone(&self.places).acquire_owned()).await;
        let Ok(Ok(place)) = place else { return Err(Unjudged::Busy) };
        let mut judging = spawn_blocking(move || {
            let judged = judge();
            drop(place);
            judged
        });
        match timeout_at(until, &mut judging).await {
            Ok(Ok(judged)) => Ok(judged),
            Ok(Err(error)) => match error.try_into_panic() {
                Ok(panic) => resume_unwind(panic),
                // The runtime ends, and everything with it.
                Err(_) => Err(Unjudged::Busy),
            },
            Err(_) => {
                // If no thread has taken it yet, none will.
                judging.abort();
                Err(Unjudged::TooSlow(self.timeout))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn a_pattern_that_backtracks_is_refused_and_one_that_is_none_is_invalid() {
        let with =
            |pattern: &str| json!({ "type": "object", "properties": { "a": { "items": { "pattern": pattern } } } });
        for pattern in [r"^(?:(?:(a|a)*\1b)|(?:a*))$", "^(?!x)", "(?<=a)b"] {
            let refused = compile(&with(pattern));
            assert!(
                matches!(&refused, Err(Uncompiled::Backtracks { pattern: named }) if named == pattern),
                "{pattern}: {refused:?}"
            );
        }
        let schema = json!({ "type": "object", "patternProperties": { "^(?!x)": { "type": "string" } } });
        assert!(matches!(compile(&schema), Err(Uncompiled::Backtracks { .. })));
        assert!(matches!(compile(&with("(")), Err(Uncompiled::Invalid { .. })));
        for pattern in [r"^\d{4}-\d{2}$", r"^\/a\/[^\s]+$", r"^(a|a)*$", r"^[\w.-]+@[\w-]+\.\p{L}+$"] {
            assert!(compile(&with(pattern)).is_ok(), "{pattern}");
        }
    }

    #[tokio::test]
    async fn a_judgement_that_never_ends_delays_no_call_for_longer_than_the_timeout() {
        let judgements = Judgements::new(2, Duration::from_millis(20));
        let mut hanging = Vec::new();
        for _ in 0..2 {
            let (release, released) = mpsc::channel::<()>();
            let judged = judgements.run(move || released.recv().is_ok()).await;
            assert_eq!(judged, Err(Unjudged::TooSlow(Duration::from_millis(20))));
            hanging.push(release);
        }
        // Those two still run: a third would be one thread more.
        assert_eq!(judgements.run(|| true).await, Err(Unjudged::Busy));
        drop(hanging);
        while judgements.places.available_permits() < 2 {
            tokio::task::yield_now().await;
        }
        let judgements = Judgements { timeout: Duration::from_secs(180), ..judgements };
        assert_eq!(judgements.run(|| true).await, Ok(true));
    }
}
