//! How the era of a tool server is found out, pure: `server/discover` first, and whatever is no answer to it, or none in time,
//! means `initialize`. A late answer is kept, not fatal: if the server then refuses `initialize`, it counts after all.
//!
//! Each wait begins with its own phase. As long as the server has not said its first byte it may still be importing, and
//! has all of `first_byte` for that.

use std::time::Instant;

use rmcp::model::ErrorData;
use serde_json::{Value, json};

use crate::evidence::Phase;
use crate::settings::Timeouts;

/// The version that is spoken without a handshake.
pub(crate) const MODERN: &str = "2026-07-28";
/// The newest that has one.
pub(crate) const NEWEST_LEGACY: &str = "2025-11-25";
/// All that have one.
pub(crate) const LEGACY: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", NEWEST_LEGACY];

/// Error codes that only a modern server has: behind them no older one is to be looked for.
const MODERN_ERRORS: [i32; 3] = [-32020, -32021, -32022];

/// How a server is spoken to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Era {
    /// With `initialize`, once.
    Legacy,
    /// Without: every request says what it needs to.
    Modern,
}

/// What both sides agreed on.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Agreement {
    pub(crate) era: Era,
    pub(crate) version: String,
    pub(crate) capabilities: Value,
    /// What the server calls itself, and its version.
    pub(crate) server: Option<(String, String)>,
    pub(crate) instructions: Option<String>,
    /// Tools that came with the handshake, which only a dialect does.
    pub(crate) tools: Option<Value>,
}

/// What to do next.
#[derive(Debug, PartialEq)]
pub(crate) enum Step {
    /// Send this request.
    Ask { method: &'static str, params: Value },
    /// Wait for an answer until then.
    WaitUntil(Instant),
    /// Tell a legacy server so with `notifications/initialized`, and begin.
    Agreed(Box<Agreement>),
    /// There is nothing to agree on.
    Failed(Failure),
}

/// Why there is no agreement.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub(crate) enum Failure {
    #[error("it knows neither `server/discover` ({discover}) nor `initialize` ({initialize}): it has no handshake")]
    Refused { discover: String, initialize: String },
    #[error("its answer to `{method}` cannot be used: `{path}` is missing or wrong")]
    Unusable { method: &'static str, path: &'static str },
    #[error("it speaks {theirs}, and we {MODERN} and {}", LEGACY.join(", "))]
    NoCommonVersion { theirs: String },
    #[error("it is alive and did not answer `{method}` in time")]
    Silent { method: &'static str, phase: Phase },
    #[error("it cannot be reached: {0}")]
    Unreachable(String),
}

/// What a server is asked first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Opening {
    /// Whether it is modern.
    #[default]
    Discover,
    /// Not even that: it ended when it was asked.
    Initialize,
}

/// The machine.
pub(crate) struct Handshake {
    opening: Opening,
    timeouts: Timeouts,
    spawned_at: Instant,
    has_spoken: bool,
    has_asked_again: bool,
    state: State,
    /// What became of `server/discover`, once that is known.
    discovered: Option<Result<Value, ErrorData>>,
}

enum State {
    Begun,
    Discovering { asked_at: Instant },
    Initializing { asked_at: Instant },
    Over,
}

impl Handshake {
    pub(crate) fn new(opening: Opening, timeouts: Timeouts, now: Instant) -> Self {
        Self {
            opening,
            timeouts,
            spawned_at: now,
            has_spoken: false,
            has_asked_again: false,
            state: State::Begun,
            discovered: None,
        }
    }

    /// What the server is being asked.
    pub(crate) fn phase(&self) -> Phase {
        match self.state {
            State::Begun => Phase::Spawn,
            State::Discovering { .. } => Phase::Discover,
            State::Initializing { .. } | State::Over => Phase::Initialize,
        }
    }

    /// The server has said its first byte.
    pub(crate) fn handle_first_byte(&mut self, now: Instant) {
        self.has_spoken = true;
        if let State::Initializing { asked_at } = &mut self.state {
            *asked_at = now;
        }
    }

    /// What follows from the time alone.
    pub(crate) fn poll(&mut self, now: Instant) -> Step {
        match self.state {
            State::Begun if self.opening == Opening::Initialize => self.initialize(now),
            State::Begun => {
                self.state = State::Discovering { asked_at: now };
                Step::Ask { method: "server/discover", params: json!({ "_meta": meta() }) }
            }
            State::Discovering { asked_at } if now < asked_at + self.timeouts.discover => {
                Step::WaitUntil(asked_at + self.timeouts.discover)
            }
            State::Discovering { .. } => self.initialize(now),
            State::Initializing { asked_at } => {
                let until = asked_at + self.timeouts.initialize;
                let until = if self.has_spoken { until } else { until.max(self.spawned_at + self.timeouts.first_byte) };
                if now < until {
                    return Step::WaitUntil(until);
                }
                self.state = State::Over;
                match self.discovered.take() {
                    Some(Ok(result)) => agreed_by_discovery(&result),
                    _ => Step::Failed(Failure::Silent { method: "initialize", phase: Phase::Initialize }),
                }
            }
            State::Over => Step::Failed(Failure::Silent { method: "initialize", phase: Phase::Initialize }),
        }
    }

    /// The server has answered `server/discover`, in time or not.
    pub(crate) fn handle_discovered(&mut self, outcome: Result<Value, ErrorData>, now: Instant) -> Step {
        let is_in_time = matches!(self.state, State::Discovering { .. });
        match &outcome {
            Ok(result) if is_in_time && is_discovery(result) => {
                self.state = State::Over;
                agreed_by_discovery(result)
            }
            Err(error) if is_in_time && MODERN_ERRORS.contains(&error.code.0) => self.renegotiate(error, now),
            _ => {
                self.discovered = Some(outcome).filter(|outcome| outcome.as_ref().map_or(true, is_discovery));
                if is_in_time { self.initialize(now) } else { self.poll(now) }
            }
        }
    }

    /// The server has answered `initialize`.
    pub(crate) fn handle_initialized(&mut self, outcome: Result<Value, ErrorData>) -> Step {
        self.state = State::Over;
        match (outcome, self.discovered.take()) {
            (Ok(result), _) => agreed_by_initialize(&result),
            (Err(_), Some(Ok(discovered))) => agreed_by_discovery(&discovered),
            (Err(error), _) if MODERN_ERRORS.contains(&error.code.0) => {
                Step::Failed(Failure::NoCommonVersion { theirs: supported(&error) })
            }
            (Err(error), discovered) => {
                let words = |error: &ErrorData| format!("{} {}", error.code.0, error.message);
                let discover = discovered.and_then(Result::err).map_or("no answer".into(), |error| words(&error));
                Step::Failed(Failure::Refused { discover, initialize: words(&error) })
            }
        }
    }

    /// A modern server that takes another version than the one it was asked in says which: ours once more, or one of old.
    fn renegotiate(&mut self, error: &ErrorData, now: Instant) -> Step {
        let versions = supported_versions(error);
        if versions.contains(&MODERN) && !std::mem::replace(&mut self.has_asked_again, true) {
            self.state = State::Begun;
            return self.poll(now);
        }
        if versions.iter().any(|version| LEGACY.contains(version)) {
            return self.initialize(now);
        }
        self.state = State::Over;
        Step::Failed(Failure::NoCommonVersion { theirs: supported(error) })
    }

    fn initialize(&mut self, now: Instant) -> Step {
        self.state = State::Initializing { asked_at: now };
        let params = json!({
            "protocolVersion": NEWEST_LEGACY,
            "capabilities": { "elicitation": { "form": {}, "url": {} }, "sampling": {}, "roots": {} },
            "clientInfo": client_info(),
        });
        Step::Ask { method: "initialize", params }
    }
}

/// What every request to a modern server carries; who can be asked what is added by whoever asks for a caller.
pub(crate) fn meta() -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": MODERN,
        "io.modelcontextprotocol/clientInfo": client_info(),
        "io.modelcontextprotocol/clientCapabilities": {},
    })
}

fn client_info() -> Value {
    json!({ "name": "switchboard", "version": env!("CARGO_PKG_VERSION") })
}

/// Whether this is what only a modern server answers; some servers answer anything with something.
fn is_discovery(result: &Value) -> bool {
    result["supportedVersions"].is_array()
}

fn agreed_by_discovery(result: &Value) -> Step {
    let versions: Vec<&str> =
        result["supportedVersions"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    if !versions.contains(&MODERN) {
        return Step::Failed(Failure::NoCommonVersion { theirs: versions.join(", ") });
    }
    Step::Agreed(Box::new(Agreement {
        era: Era::Modern,
        version: MODERN.into(),
        capabilities: result["capabilities"].clone(),
        server: named(&result["_meta"]["io.modelcontextprotocol/serverInfo"]),
        instructions: text(&result["instructions"]),
        tools: None,
    }))
}

fn agreed_by_initialize(result: &Value) -> Step {
    let Some(version) = result["protocolVersion"].as_str() else {
        return Step::Failed(Failure::Unusable { method: "initialize", path: "$.result.protocolVersion" });
    };
    if !LEGACY.contains(&version) {
        return Step::Failed(Failure::NoCommonVersion { theirs: version.into() });
    }
    if !result["capabilities"].is_object() {
        return Step::Failed(Failure::Unusable { method: "initialize", path: "$.result.capabilities" });
    }
    Step::Agreed(Box::new(Agreement {
        era: Era::Legacy,
        version: version.into(),
        capabilities: result["capabilities"].clone(),
        server: named(&result["serverInfo"]),
        instructions: text(&result["instructions"]),
        tools: result.get("tools").cloned(),
    }))
}

fn named(server: &Value) -> Option<(String, String)> {
    Some((text(&server["name"])?, text(&server["version"]).unwrap_or_default()))
}

fn text(value: &Value) -> Option<String> {
    value.as_str().map(str::to_owned)
}

fn supported_versions(error: &ErrorData) -> Vec<&str> {
    let supported = error.data.as_ref().map(|data| &data["supported"]);
    supported.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect()
}

fn supported(error: &ErrorData) -> String {
    let versions = supported_versions(error);
    if versions.is_empty() { error.message.to_string() } else { versions.join(", ") }
}

#[cfg(test)]
mod tests;
