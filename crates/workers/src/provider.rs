//! Whether the model provider of a group can be reached, pure: what the ends of its turns say about it.

use codex::{TurnError, TurnStatus};

/// Our own class of error: the worker has reported for too long that it cannot reach the provider.
pub(crate) const UNREACHABLE: &str = "provider_unreachable";

/// The classes of errors that mean, without a status, that no answer of the provider came.
const CONNECTION_KINDS: [&str; 5] = [
    UNREACHABLE,
    "http_connection_failed",
    "response_stream_connection_failed",
    "response_stream_disconnected",
    "response_too_many_failed_attempts",
];

/// What the last turns of a group say about its model provider.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum ProviderState {
    /// It answers, or no turn has tried it yet.
    #[default]
    Reachable,
    /// The last turn that tried it failed to connect.
    Unreachable,
}

impl ProviderState {
    /// What the end of a turn says, if anything: a turn that was stopped or lost may never have tried.
    pub(crate) fn after_turn(status: TurnStatus, error: Option<&TurnError>) -> Option<Self> {
        match (status, error) {
            (TurnStatus::Completed, _) => Some(Self::Reachable),
            (TurnStatus::Failed, Some(error)) => {
                let is_of_connection = error.kind.as_deref().is_some_and(|kind| CONNECTION_KINDS.contains(&kind));
                match (is_of_connection, error.http_status) {
                    (true, None) => Some(Self::Unreachable),
                    (_, Some(_)) => Some(Self::Reachable),
                    (false, None) => None,
                }
            }
            (TurnStatus::Failed, None) | (TurnStatus::Interrupted | TurnStatus::Lost, _) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_failed_connection_says_that_the_provider_is_unreachable() {
        use ProviderState::{Reachable, Unreachable};
        let error = |kind: &str, http_status| TurnError {
            message: "m".into(),
            kind: Some(kind.into()),
            http_status,
            details: None,
        };
        for (status, error, expected) in [
            (TurnStatus::Completed, None, Some(Reachable)),
            (TurnStatus::Failed, Some(error("http_connection_failed", None)), Some(Unreachable)),
            (TurnStatus::Failed, Some(error(UNREACHABLE, None)), Some(Unreachable)),
            (TurnStatus::Failed, Some(error("http_connection_failed", Some(401))), Some(Reachable)),
            (TurnStatus::Failed, Some(error("stalled", None)), None),
            (TurnStatus::Failed, None, None),
            (TurnStatus::Interrupted, None, None),
            (TurnStatus::Lost, Some(error("worker_lost", None)), None),
        ] {
            assert_eq!(ProviderState::after_turn(status, error.as_ref()), expected, "{status:?} {error:?}");
        }
    }
}
