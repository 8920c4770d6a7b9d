//! The handshake, pure: `initialize` as v2, once more as v1 if its parameters are rejected, then `initialized`.

use serde::Deserialize;
use serde_json::{Value, json};
use wire::{Json, Outcome, PeerError};

/// The first notification, due as soon as `initialize` is answered and before anything else.
pub const INITIALIZED: &str = "initialized";

/// What we ask for in `initialize`.
#[derive(Clone, Debug)]
pub struct Initialize {
    /// Our name; upstream wants a valid HTTP header value.
    pub client_name: Box<str>,
    /// Our version.
    pub client_version: Box<str>,
    /// The `capabilities` object; `{}` when nothing is wanted.
    pub capabilities: Value,
}

/// A handshake under way.
#[derive(Debug)]
pub struct Handshake {
    initialize: Initialize,
    /// Why the first attempt was rejected, once it was.
    fallback: Option<PeerError>,
}

/// What to do after an answer.
#[derive(Debug)]
pub enum Next {
    /// Send `initialize` again, with these parameters.
    Retry(Value),
    /// Send `initialized`; the worker is ready.
    Ready(Greeting),
    /// There is no connection to be had.
    Failed(Outcome),
}

/// What a worker says of itself.
#[derive(Debug, Default)]
pub struct Greeting {
    /// Its version, as far as its user agent tells one.
    pub version: Option<Box<str>>,
    /// The user agent, whole.
    pub user_agent: Box<str>,
    /// Where it keeps its login, configuration and threads, as far as it tells.
    pub codex_home: Option<Box<str>>,
    /// Why the v2 parameters were not accepted, if they were not.
    pub fallback: Option<PeerError>,
}

impl Handshake {
    /// The handshake, and the parameters of the first `initialize`.
    #[must_use]
    pub fn start(initialize: Initialize) -> (Self, Value) {
        let mut params = initialize.client_alone();
        params["protocolVersion"] = json!("v2");
        params["protocol_version"] = json!("v2");
        params["capabilities"] = initialize.capabilities.clone();
        let fallback = None;
        (Self { initialize, fallback }, params)
    }

    /// What follows from the outcome of the last `initialize`.
    #[must_use]
    pub fn handle(&mut self, outcome: Outcome) -> Next {
        match outcome {
            Outcome::Answered(result) => {
                Next::Ready(Greeting::read(&result, &self.initialize.client_name, self.fallback.take()))
            }
            Outcome::Failed(error) if self.fallback.is_none() && is_about_params(&error) => {
                self.fallback = Some(error);
                Next::Retry(self.initialize.client_alone())
            }
            other => Next::Failed(other),
        }
    }
}

impl Initialize {
    /// `clientInfo` and the mirror that some older workers want; other keys are absent, never null.
    fn client_alone(&self) -> Value {
        let client = json!({"name": self.client_name, "version": self.client_version});
        json!({"clientInfo": client, "client_info": client})
    }
}

impl Greeting {
    fn read(result: &Json, client_name: &str, fallback: Option<PeerError>) -> Self {
        #[derive(Default, Deserialize)]
        #[serde(default, rename_all = "camelCase")]
        struct Known {
            user_agent: Box<str>,
            codex_home: Option<Box<str>>,
        }
        let Known { user_agent, codex_home } = result.parse().unwrap_or_default();
        // `NAME/1.2.3 (…)`: the name is ours, which may have a slash of its own, or that of an older codex.
        let behind_ours = user_agent.strip_prefix(client_name).and_then(|rest| rest.strip_prefix('/'));
        let version = behind_ours
            .or_else(|| user_agent.split_once('/').map(|(_, rest)| rest))
            .and_then(|rest| rest.split([' ', '(']).next())
            .filter(|version| version.starts_with(|first: char| first.is_ascii_digit()))
            .map(Box::from);
        Self { version, user_agent, codex_home, fallback }
    }
}

/// Whether a rejection is about the shape of the parameters, under whatever code.
fn is_about_params(error: &PeerError) -> bool {
    const SIGNS: [&str; 4] = ["invalid params", "unknown field", "missing field", "schema"];
    let message = error.message.to_lowercase();
    error.code == -32602 || SIGNS.iter().any(|sign| message.contains(sign))
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;

    fn start() -> (Handshake, Value) {
        Handshake::start(Initialize {
            client_name: "switchboard".into(),
            client_version: "1.2.3".into(),
            capabilities: json!({}),
        })
    }

    fn failed(code: i64, message: &str) -> Outcome {
        Outcome::Failed(PeerError { code, message: message.into(), data: None })
    }

    fn answered(result: &str) -> Outcome {
        Outcome::Answered(Json::new(result).expect("JSON"))
    }

    #[test]
    fn the_first_attempt_asks_for_v2_with_both_mirrors() {
        expect![[r#"{"capabilities":{},"clientInfo":{"name":"switchboard","version":"1.2.3"},"client_info":{"name":"switchboard","version":"1.2.3"},"protocolVersion":"v2","protocol_version":"v2"}"#]]
            .assert_eq(&start().1.to_string());
    }

    #[test]
    fn rejected_parameters_are_retried_once_with_the_client_alone() {
        for (code, message) in
            [(-32602, "no"), (-32600, "Invalid request: unknown field `protocolVersion`"), (1, "Schema violation")]
        {
            let (mut handshake, _) = start();
            let Next::Retry(params) = handshake.handle(failed(code, message)) else {
                panic!("{message} was not retried");
            };
            assert_eq!(params.as_object().map(serde_json::Map::len), Some(2), "{params}");
            assert!(matches!(handshake.handle(failed(code, message)), Next::Failed(_)));
        }
    }

    #[test]
    fn the_cause_of_a_fallback_is_kept() {
        let (mut handshake, _) = start();
        _ = handshake.handle(failed(-32602, "no v2 here"));
        let Next::Ready(greeting) = handshake.handle(answered("{}")) else {
            panic!("not ready");
        };
        assert_eq!(&*greeting.fallback.expect("a cause").message, "no v2 here");
    }

    #[test]
    fn another_failure_is_final() {
        let (mut handshake, _) = start();
        assert!(matches!(handshake.handle(failed(-32600, "Already initialized")), Next::Failed(_)));
    }

    #[test]
    fn the_version_is_read_from_the_user_agent() {
        let version = |agent: &str| {
            let result = json!({"userAgent": agent}).to_string();
            Greeting::read(&Json::new(&result).expect("JSON"), "a/me", None).version
        };
        assert_eq!(version("me/1.23.4 (Debian 12; x86_64) x (me; 1)").as_deref(), Some("1.23.4"));
        assert_eq!(version("codex_cli_rs/1.77.0-alpha.2 (…)").as_deref(), Some("1.77.0-alpha.2"));
        assert_eq!(version("a/me/1.23.4 (…)").as_deref(), Some("1.23.4"));
        assert_eq!(version("nobody").as_deref(), None);
        assert_eq!(version("a/b").as_deref(), None);
    }
}
