//! Which verdicts a request offers: what the worker lists, denying and cancelling always, and as a separate, higher
//! scope the grants that outlive the request.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::verdict::{Powers, Verdict};
use crate::who::Kind;

/// What a request may be answered with, besides denying and cancelling, which are always on offer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Offers {
    /// It may be allowed once.
    pub allow: bool,
    /// It may be allowed for the session.
    pub for_session: bool,
    /// The policy amendments that are proposed, word by word; no other may be made.
    pub amendments: Vec<Vec<String>>,
    /// It may be answered with content.
    pub answer: bool,
}

impl Offers {
    /// What a request of this kind with these parameters offers.
    #[must_use]
    pub fn of(kind: Kind, params: &Value) -> Self {
        let listed = params.get("availableDecisions").and_then(Value::as_array);
        let is_listed = |word: &str| listed.is_some_and(|listed| listed.iter().any(|one| one == word));
        match kind {
            Kind::Command | Kind::FileChange => Self {
                // Older versions send no list with a command, and no version sends one with a file change.
                allow: listed.is_none() || is_listed("accept"),
                for_session: is_listed("acceptForSession") || (kind == Kind::FileChange && listed.is_none()),
                amendments: listed.into_iter().flatten().filter_map(amendment).collect(),
                answer: false,
            },
            Kind::Permissions | Kind::ToolConfirmation => Self { allow: true, for_session: true, ..Self::default() },
            Kind::Elicitation => Self { allow: !wants_content(params), answer: true, ..Self::default() },
            Kind::UserInput | Kind::AuthTokens | Kind::Attestation => Self { answer: true, ..Self::default() },
        }
    }

    /// Whether the verdict is on offer, and within the powers of who gives it.
    pub(crate) fn admit(&self, verdict: &Verdict, powers: Powers) -> Result<(), NotAdmitted> {
        let is_offered = match verdict {
            Verdict::Deny { .. } | Verdict::Cancel => true,
            Verdict::Allow => self.allow,
            Verdict::Answer(_) => self.answer,
            Verdict::AllowForSession => self.for_session,
            Verdict::AllowWithAmendment(words) => self.amendments.contains(words),
        };
        if !is_offered {
            Err(NotAdmitted::NotOffered)
        } else if verdict.lasts() && !powers.for_session {
            Err(NotAdmitted::NeedsSessionScope)
        } else {
            Ok(())
        }
    }

    /// The names of all that is on offer.
    #[must_use]
    pub fn names(&self) -> Vec<&'static str> {
        let may = [
            ("allow", self.allow),
            ("allow_for_session", self.for_session),
            ("allow_with_amendment", !self.amendments.is_empty()),
            ("answer", self.answer),
            ("deny", true),
            ("cancel", true),
        ];
        may.into_iter().filter_map(|(name, offered)| offered.then_some(name)).collect()
    }
}

/// Why a verdict cannot be given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotAdmitted {
    NotOffered,
    NeedsSessionScope,
    NeedsOperator,
}

fn amendment(listed: &Value) -> Option<Vec<String>> {
    let words = listed.get("acceptWithExecpolicyAmendment")?.get("execpolicy_amendment")?.as_array()?;
    let words: Option<Vec<String>> = words.iter().map(|word| word.as_str().map(str::to_owned)).collect();
    words.filter(|words| !words.is_empty())
}

/// Whether a tool server wants a form to be filled in.
fn wants_content(params: &Value) -> bool {
    params["requestedSchema"]["properties"].as_object().is_some_and(|properties| !properties.is_empty())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const ALL_POWERS: Powers = Powers::ALL;

    fn amended(words: &[&str]) -> Verdict {
        Verdict::AllowWithAmendment(words.iter().map(|word| (*word).into()).collect())
    }

    #[test]
    fn a_command_offers_what_its_worker_lists_and_always_to_deny_and_to_cancel() {
        let listed = json!({"availableDecisions":
            ["accept", {"acceptWithExecpolicyAmendment": {"execpolicy_amendment": ["touch", "x"]}}, "cancel"]});
        let offers = Offers::of(Kind::Command, &listed);
        assert_eq!(offers.names(), ["allow", "allow_with_amendment", "deny", "cancel"]);
        assert_eq!(offers.admit(&Verdict::AllowForSession, ALL_POWERS), Err(NotAdmitted::NotOffered));
        let for_session = json!({"availableDecisions": ["accept", "acceptForSession", "decline"]});
        let offers_session = Offers::of(Kind::Command, &for_session);
        assert_eq!(offers_session.names(), ["allow", "allow_for_session", "deny", "cancel"]);
        assert_eq!(offers.admit(&amended(&["touch", "x"]), ALL_POWERS), Ok(()));
        assert_eq!(offers.admit(&amended(&["touch"]), ALL_POWERS), Err(NotAdmitted::NotOffered));
        let only_cancel = Offers::of(Kind::Command, &json!({"availableDecisions": ["cancel"]}));
        assert_eq!(only_cancel.admit(&Verdict::Allow, ALL_POWERS), Err(NotAdmitted::NotOffered));
        assert_eq!(only_cancel.admit(&Verdict::deny("no"), Powers::default()), Ok(()));
        assert_eq!(Offers::of(Kind::Command, &json!({})).names(), ["allow", "deny", "cancel"]);
        let file_change = Offers::of(Kind::FileChange, &json!({}));
        assert_eq!(file_change.names(), ["allow", "allow_for_session", "deny", "cancel"]);
    }

    #[test]
    fn what_outlives_the_request_needs_a_higher_scope() {
        let offers = Offers { amendments: vec![vec!["ls".into()]], ..Offers::of(Kind::FileChange, &json!({})) };
        for verdict in [Verdict::AllowForSession, amended(&["ls"])] {
            assert_eq!(offers.admit(&verdict, Powers::default()), Err(NotAdmitted::NeedsSessionScope));
            assert_eq!(offers.admit(&verdict, ALL_POWERS), Ok(()));
        }
        assert_eq!(offers.admit(&Verdict::Allow, Powers::default()), Ok(()));
    }

    #[test]
    fn a_question_wants_an_answer_and_no_yes() {
        assert_eq!(Offers::of(Kind::UserInput, &json!({})).names(), ["answer", "deny", "cancel"]);
        let form = json!({"requestedSchema": {"properties": {"name": {"type": "string"}}}});
        assert_eq!(Offers::of(Kind::Elicitation, &form).names(), ["answer", "deny", "cancel"]);
        assert_eq!(Offers::of(Kind::Elicitation, &json!({})).names(), ["allow", "answer", "deny", "cancel"]);
    }
}
