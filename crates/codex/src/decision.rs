//! What may be decided about a request, and how each dialect says it.

use std::future::{IntoFuture, Ready, ready};

use serde::Deserialize;
use serde_json::{Value, json};
use wire::{Json, PeerError};

use crate::exchange::Asked;
use crate::requests::{self, RequestKind};

/// A decision about a command, a file change, a wider sandbox or a tool server's question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// This once.
    Allow,
    /// This, and the same again until the thread is unloaded.
    AllowForSession,
    /// This command, and from now on all that begin with these words, of which there must be some.
    AllowWithAmendment(Vec<String>),
    /// Not this; the turn goes on without it.
    Deny {
        /// Why; it reaches the worker where the protocol has a place for it.
        reason: String,
    },
    /// Not this, and stop the turn.
    Cancel,
    /// Whoever holds the request's id answers it later, before its deadline.
    Later,
}

impl Decision {
    /// Not this, for that reason.
    #[must_use]
    pub fn deny(reason: &str) -> Self {
        Self::Deny { reason: reason.into() }
    }
}

/// A decision that is made already is a future that waits for nothing: so a callback may be a plain function.
impl IntoFuture for Decision {
    type Output = Self;
    type IntoFuture = Ready<Self>;

    fn into_future(self) -> Self::IntoFuture {
        ready(self)
    }
}

/// Why a decision cannot be the answer to a request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Undecidable {
    /// The worker does not offer this.
    #[error("the worker does not offer this decision for {method}: allow it once, or deny it")]
    NotOffered {
        /// The request.
        method: Box<str>,
    },
    /// The request wants more than a decision.
    #[error("{method} wants an answer of its own: a decision can only deny it")]
    NotADecision {
        /// The request.
        method: Box<str>,
    },
}

/// What becomes of a request: an answer, or nothing yet.
pub(crate) enum Ruling {
    Answer(Result<Json, PeerError>),
    Later,
}

impl Decision {
    /// The words of the request's own dialect for this decision.
    pub(crate) fn rule(&self, asked: &Asked) -> Result<Ruling, Undecidable> {
        let not_offered = || Undecidable::NotOffered { method: asked.method.clone() };
        let not_a_decision = || Undecidable::NotADecision { method: asked.method.clone() };
        let answer = match (self, asked.kind) {
            (Self::Later, _) => return Ok(Ruling::Later),
            (Self::Deny { reason }, _) => return Ok(Ruling::Answer(requests::declined(&asked.method, reason))),
            (_, RequestKind::Command | RequestKind::FileChange) => {
                json!({"decision": self.word(asked).ok_or_else(not_offered)?})
            }
            (Self::Allow, RequestKind::Permissions) => granted(asked, "turn"),
            (Self::AllowForSession, RequestKind::Permissions) => granted(asked, "session"),
            (Self::Allow, RequestKind::Elicitation) if wants_content(asked) => return Err(not_a_decision()),
            (Self::Allow, RequestKind::Elicitation) => json!({"action": "accept", "content": {}}),
            (Self::Cancel, RequestKind::Elicitation) => json!({"action": "cancel"}),
            (_, RequestKind::Permissions | RequestKind::Elicitation) => return Err(not_offered()),
            _ => return Err(not_a_decision()),
        };
        Ok(Ruling::Answer(Ok(requests::written(&answer))))
    }

    /// The decision in the words of the dialect; `None` if the worker does not offer it.
    fn word(&self, asked: &Asked) -> Option<Value> {
        let is_v2 = asked.method.starts_with("item/");
        let word = match (self, is_v2) {
            (Self::Allow, true) => json!("accept"),
            (Self::Allow, false) => json!("approved"),
            (Self::AllowForSession, true) => json!("acceptForSession"),
            (Self::AllowForSession, false) => json!("approved_for_session"),
            (Self::Cancel, true) => json!("cancel"),
            (Self::Cancel, false) => json!("abort"),
            (Self::AllowWithAmendment(words), true) if asked.kind == RequestKind::Command && !words.is_empty() => {
                json!({"acceptWithExecpolicyAmendment": {"execpolicy_amendment": words}})
            }
            _ => return None,
        };
        self.is_offered(asked, &word).then_some(word)
    }

    /// The real worker takes "for session" and "cancel" although it does not always list them.
    fn is_offered(&self, asked: &Asked, word: &Value) -> bool {
        #[derive(Default, Deserialize)]
        #[serde(default, rename_all = "camelCase")]
        struct Offer {
            available_decisions: Option<Vec<Value>>,
        }
        if matches!(self, Self::AllowForSession | Self::Cancel) {
            return true;
        }
        let offer: Offer = asked.params.parse().unwrap_or_default();
        let same_kind = |offered: &Value| match (offered.as_object(), word.as_object()) {
            (Some(offered), Some(word)) => offered.keys().eq(word.keys()),
            _ => offered == word,
        };
        offer.available_decisions.is_none_or(|offered| offered.iter().any(same_kind))
    }
}

/// Whether a tool server wants a form to be filled in.
fn wants_content(asked: &Asked) -> bool {
    let params: Value = asked.params.parse().unwrap_or_default();
    params["requestedSchema"]["properties"].as_object().is_some_and(|properties| !properties.is_empty())
}

/// All that was asked for, for so long.
fn granted(asked: &Asked, scope: &str) -> Value {
    let params: Value = asked.params.parse().unwrap_or_default();
    json!({"permissions": params["permissions"], "scope": scope})
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    fn said(method: &str, params: &Value, decision: &Decision) -> String {
        let mut connection = wire::Connection::new(wire::Limits::default(), wire::JsonRpcField::Omitted);
        let line = json!({"id": 7, "method": method, "params": params}).to_string() + "\n";
        assert_eq!(connection.handle_input(line.as_bytes()), line.len());
        let Some(wire::Event::Request(request)) = connection.poll_event() else {
            panic!("no request");
        };
        let asked = Asked::new(request, None, crate::exchange::Patience::default(), Instant::now());
        match decision.rule(&asked) {
            Ok(Ruling::Answer(Ok(json))) => json.get().into(),
            Ok(Ruling::Answer(Err(error))) => error.message.into(),
            Ok(Ruling::Later) => "later".into(),
            Err(error) => error.to_string(),
        }
    }

    const COMMAND: &str = "item/commandExecution/requestApproval";

    #[test]
    fn each_dialect_has_its_words() {
        let nothing = json!({});
        for (method, decision, expected) in [
            (COMMAND, Decision::Allow, r#"{"decision":"accept"}"#),
            (COMMAND, Decision::AllowForSession, r#"{"decision":"acceptForSession"}"#),
            (COMMAND, Decision::deny("no"), r#"{"decision":"decline"}"#),
            (COMMAND, Decision::Cancel, r#"{"decision":"cancel"}"#),
            ("execCommandApproval", Decision::Allow, r#"{"decision":"approved"}"#),
            ("applyPatchApproval", Decision::AllowForSession, r#"{"decision":"approved_for_session"}"#),
            ("applyPatchApproval", Decision::deny("no"), r#"{"decision":"denied"}"#),
            ("execCommandApproval", Decision::Cancel, r#"{"decision":"abort"}"#),
            ("mcpServer/elicitation/request", Decision::Cancel, r#"{"action":"cancel"}"#),
            ("item/tool/call", Decision::Later, "later"),
        ] {
            assert_eq!(said(method, &nothing, &decision), expected, "{method} {decision:?}");
        }
    }

    #[test]
    fn an_amendment_must_be_on_offer() {
        let amendment = Decision::AllowWithAmendment(vec!["touch".into()]);
        let offered = json!({"availableDecisions": ["accept", {"acceptWithExecpolicyAmendment": {}}, "cancel"]});
        let expected = r#"{"decision":{"acceptWithExecpolicyAmendment":{"execpolicy_amendment":["touch"]}}}"#;
        assert_eq!(said(COMMAND, &offered, &amendment), expected);
        let refusal = said(COMMAND, &json!({"availableDecisions": ["accept"]}), &amendment);
        assert!(refusal.starts_with("the worker does not offer this decision"), "{refusal}");
        let of_everything = Decision::AllowWithAmendment(Vec::new());
        assert!(said(COMMAND, &offered, &of_everything).starts_with("the worker does not offer"));
        assert!(said("execCommandApproval", &json!({}), &amendment).starts_with("the worker does not offer"));
    }

    #[test]
    fn a_wider_sandbox_is_granted_as_it_was_asked_for() {
        let params = json!({"permissions": {"network": {"enabled": true}}});
        assert_eq!(
            said("item/permissions/requestApproval", &params, &Decision::AllowForSession),
            r#"{"permissions":{"network":{"enabled":true}},"scope":"session"}"#
        );
    }

    #[test]
    fn what_is_no_decision_cannot_be_decided() {
        let form = json!({"requestedSchema": {"type": "object", "properties": {"name": {"type": "string"}}}});
        let refusal = said("mcpServer/elicitation/request", &form, &Decision::Allow);
        assert!(refusal.contains("wants an answer of its own"), "{refusal}");
        let refusal = said("item/tool/call", &json!({}), &Decision::Allow);
        assert_eq!(refusal, "item/tool/call wants an answer of its own: a decision can only deny it");
    }
}
