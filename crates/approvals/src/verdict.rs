//! What can be decided, by whom, and how each is written as JSON.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::stamp::Stamp;

/// What is decided about a request. As JSON an object whose `verdict` names it: `{"verdict":"deny","reason":"…"}`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(from = "Spoken", into = "Spoken")]
pub enum Verdict {
    /// This once.
    Allow,
    /// This, and the same again until the thread is unloaded.
    AllowForSession,
    /// This command, and from now on all that begin with these words.
    AllowWithAmendment(Vec<String>),
    /// The answer itself, for requests that want more than a yes.
    Answer(Value),
    /// Not this; the turn goes on without it.
    Deny {
        /// Why; it is told to the worker, or to the thread in its next turn.
        reason: String,
    },
    /// Not this, and stop the turn.
    Cancel,
}

impl Verdict {
    /// Not this, for that reason.
    #[must_use]
    pub fn deny(reason: impl Into<String>) -> Self {
        Self::Deny { reason: reason.into() }
    }

    /// Whether anything can happen because of it.
    #[must_use]
    pub fn allows(&self) -> bool {
        !matches!(self, Self::Deny { .. } | Self::Cancel)
    }

    /// Whether it also covers later requests that want the same.
    #[must_use]
    pub fn lasts(&self) -> bool {
        matches!(self, Self::AllowForSession | Self::AllowWithAmendment(_))
    }

    /// The same, with the content of an answer left out.
    #[must_use]
    pub(crate) fn without_content(&self) -> Self {
        match self {
            Self::Answer(_) => Self::Answer(Value::Null),
            other => other.clone(),
        }
    }

    /// The name that JSON and links use.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::AllowForSession => "allow_for_session",
            Self::AllowWithAmendment(_) => "allow_with_amendment",
            Self::Answer(_) => "answer",
            Self::Deny { .. } => "deny",
            Self::Cancel => "cancel",
        }
    }

    /// Why it was denied.
    #[must_use]
    pub fn reason(&self) -> Option<&str> {
        match self {
            Self::Deny { reason } if !reason.is_empty() => Some(reason),
            _ => None,
        }
    }
}

/// A verdict as JSON has it.
#[derive(Serialize, Deserialize)]
#[serde(tag = "verdict", rename_all = "snake_case")]
enum Spoken {
    Allow,
    AllowForSession,
    AllowWithAmendment {
        words: Vec<String>,
    },
    Answer {
        content: Value,
    },
    Deny {
        #[serde(default)]
        reason: String,
    },
    Cancel,
}

impl From<Spoken> for Verdict {
    fn from(spoken: Spoken) -> Self {
        match spoken {
            Spoken::Allow => Self::Allow,
            Spoken::AllowForSession => Self::AllowForSession,
            Spoken::AllowWithAmendment { words } => Self::AllowWithAmendment(words),
            Spoken::Answer { content } => Self::Answer(content),
            Spoken::Deny { reason } => Self::Deny { reason },
            Spoken::Cancel => Self::Cancel,
        }
    }
}

impl From<Verdict> for Spoken {
    fn from(verdict: Verdict) -> Self {
        match verdict {
            Verdict::Allow => Self::Allow,
            Verdict::AllowForSession => Self::AllowForSession,
            Verdict::AllowWithAmendment(words) => Self::AllowWithAmendment { words },
            Verdict::Answer(content) => Self::Answer { content },
            Verdict::Deny { reason } => Self::Deny { reason },
            Verdict::Cancel => Self::Cancel,
        }
    }
}

/// A verdict with who gave it and when.
#[derive(Clone, Debug, PartialEq)]
pub struct Decided {
    /// What was decided.
    pub verdict: Verdict,
    /// Who decided it.
    pub by: By,
    /// When.
    pub at: Stamp,
}

/// Who decided. As JSON an object whose `by` names it: `{"by":"person","name":"ada"}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "by", rename_all = "snake_case")]
pub enum By {
    /// A rule of the configuration.
    Rule {
        /// Its place in the list; the first is 1.
        number: usize,
    },
    /// A hook.
    Hook {
        /// The name it is configured under.
        name: String,
    },
    /// A person.
    Person {
        /// Who.
        name: String,
    },
    /// Nobody did in time.
    Deadline,
    /// A grant for the session that was given to an equal request.
    Grant {
        /// The approval that it was given to.
        approval: String,
    },
    /// The request was taken back.
    Withdrawn {
        /// Why.
        why: Withdrawal,
    },
    /// No hook answered, and nobody else may.
    Nobody,
}

impl fmt::Display for By {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rule { number } => write!(f, "rule {number}"),
            Self::Hook { name } => write!(f, "hook {name}"),
            Self::Person { name } => write!(f, "person {name}"),
            Self::Deadline => f.write_str("deadline"),
            Self::Grant { approval } => write!(f, "grant of {approval}"),
            Self::Withdrawn { why } => write!(f, "withdrawn: {why}"),
            Self::Nobody => f.write_str("nobody"),
        }
    }
}

/// Why a request needs no decision any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Withdrawal {
    /// Somebody else answered the worker.
    ResolvedElsewhere,
    /// Its turn is over.
    TurnOver,
    /// The worker that asked is gone; nothing was executed.
    WorkerGone,
}

impl fmt::Display for Withdrawal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ResolvedElsewhere => "resolved elsewhere",
            Self::TurnOver => "its turn is over",
            Self::WorkerGone => "its worker is gone",
        })
    }
}

/// Who wants to decide, and what they may.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Person {
    /// The name for the audit.
    pub name: String,
    /// The API key that they use, if any.
    pub key: Option<String>,
    /// What they may do beyond allowing and denying what others asked.
    pub powers: Powers,
}

impl Person {
    /// One who may decide everything.
    #[must_use]
    pub fn operator(name: impl Into<String>) -> Self {
        Self { name: name.into(), key: None, powers: Powers::ALL }
    }
}

/// The higher scopes of a decision.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Powers {
    /// May allow for the whole session, or amend the worker's policy.
    pub for_session: bool,
    /// May allow what a turn asks that the same key started.
    pub own_turns: bool,
    /// May allow what lifts a worker's restrictions: an escalation, or an amendment of its policy, which applies to every
    /// key that uses the worker.
    pub operator: bool,
}

impl Powers {
    /// May decide everything.
    pub const ALL: Self = Self { for_session: true, own_turns: true, operator: true };
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_verdict_is_an_object_that_names_it_and_comes_back_the_same() {
        for (verdict, text) in [
            (Verdict::Allow, r#"{"verdict":"allow"}"#),
            (Verdict::AllowForSession, r#"{"verdict":"allow_for_session"}"#),
            (
                Verdict::AllowWithAmendment(vec!["touch".into(), "x".into()]),
                r#"{"verdict":"allow_with_amendment","words":["touch","x"]}"#,
            ),
            (Verdict::Answer(json!({"answers": {}})), r#"{"verdict":"answer","content":{"answers":{}}}"#),
            (Verdict::deny("no"), r#"{"verdict":"deny","reason":"no"}"#),
            (Verdict::Cancel, r#"{"verdict":"cancel"}"#),
        ] {
            assert_eq!(serde_json::to_string(&verdict).unwrap(), text);
            assert_eq!(serde_json::from_str::<Verdict>(text).unwrap(), verdict);
            assert!(text.contains(verdict.name()));
        }
        assert!(serde_json::from_str::<Verdict>(r#"{"verdict":"perhaps"}"#).is_err());
    }

    #[test]
    fn who_decided_comes_back_the_same() {
        for by in [
            By::Rule { number: 3 },
            By::Person { name: "ada".into() },
            By::Withdrawn { why: Withdrawal::WorkerGone },
            By::Deadline,
        ] {
            let text = serde_json::to_string(&by).unwrap();
            assert_eq!(serde_json::from_str::<By>(&text).unwrap(), by, "{text}");
        }
    }
}
