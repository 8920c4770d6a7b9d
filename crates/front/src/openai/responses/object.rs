//! The object that answers a request of the Responses API. What was asked is the same in all its forms and is written once; what came
//! of it stands behind that.

use codex::Usage;
use serde::Serialize;
use serde_json::{Value, json};

use crate::error::Error;

/// The name of a response. Its items are named after it, so that each leads back to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Name(Box<str>);

const PREFIX: &str = "resp_";
/// How many digits of an item's name are its place.
const PLACE_DIGITS: usize = 4;

impl Name {
    pub(crate) fn new() -> Self {
        Self(uuid::Uuid::now_v7().simple().to_string().into())
    }

    /// The response of that id, if it can be one of ours.
    pub(crate) fn of(id: &str) -> Option<Self> {
        let digits = id.strip_prefix(PREFIX)?;
        (digits.len() == 32 && digits.bytes().all(|byte| byte.is_ascii_hexdigit())).then(|| Self(digits.into()))
    }

    /// When it was given, in milliseconds of Unix time: the name begins with that.
    pub(crate) fn given_at_ms(&self) -> u64 {
        u64::from_str_radix(&self.0[..12], 16).unwrap_or(0)
    }

    pub(crate) fn id(&self) -> String {
        format!("{PREFIX}{}", self.0)
    }

    /// The name of an item of its output.
    pub(crate) fn item(&self, prefix: &str, place: usize) -> String {
        format!("{prefix}_{}{place:0PLACE_DIGITS$x}", self.0)
    }

    /// The name of an item of its input.
    pub(crate) fn input_item(&self, prefix: &str, place: usize) -> String {
        format!("{prefix}_{}i{place:0PLACE_DIGITS$x}", self.0)
    }

    /// Of which response an item of its output is, and where it stands there.
    pub(crate) fn of_item(id: &str) -> Option<(Self, usize)> {
        let (_, rest) = id.split_once('_')?;
        let (digits, place) = rest.split_at_checked(32)?;
        let name = Self::of(&format!("{PREFIX}{digits}"))?;
        Some((name, usize::from_str_radix(place, 16).ok()?))
    }
}

/// What every form of one response has in common.
#[derive(Clone, Debug)]
pub(crate) struct Head {
    pub name: Name,
    /// In seconds of Unix time.
    pub created_at: u64,
    /// What was asked, as fields of JSON.
    asked: Box<str>,
}

/// How far a response is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    Queued,
    InProgress,
    Completed,
    Failed,
    Incomplete,
    Cancelled,
}

impl Status {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::InProgress => "in_progress",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Incomplete => "incomplete",
            Self::Cancelled => "cancelled",
        }
    }

    /// The one of that word, if there is one.
    pub(crate) fn of(word: &str) -> Option<Self> {
        let all = [Self::Queued, Self::InProgress, Self::Completed, Self::Failed, Self::Incomplete, Self::Cancelled];
        all.into_iter().find(|status| status.word() == word)
    }

    pub(crate) fn is_over(self) -> bool {
        !matches!(self, Self::Queued | Self::InProgress)
    }
}

/// What came of a response so far.
#[derive(Debug)]
pub(crate) struct Outcome<'a> {
    pub status: Status,
    /// Items of JSON.
    pub output: &'a [String],
    pub usage: Option<&'a Usage>,
    pub error: Option<&'a Error>,
    /// Why it is incomplete.
    pub reason: Option<&'static str>,
}

impl Outcome<'_> {
    /// Nothing yet.
    pub(crate) fn begun(status: Status) -> Self {
        Self { status, output: &[], usage: None, error: None, reason: None }
    }
}

impl Head {
    /// The length of what was asked.
    pub(crate) fn asked_bytes(&self) -> usize {
        self.asked.len()
    }

    pub(crate) fn new(name: Name, created_at: u64, asked: &Value) -> Self {
        let asked = asked.to_string();
        Self { name, created_at, asked: asked[1..asked.len() - 1].into() }
    }

    /// The same of a response that is not stored, although that was asked for.
    pub(crate) fn unstored(&self) -> Self {
        let mut asked: Value = serde_json::from_str(&format!("{{{}}}", self.asked)).unwrap_or_default();
        asked["store"] = false.into();
        Self::new(self.name.clone(), self.created_at, &asked)
    }

    /// The whole object.
    pub(crate) fn write(&self, outcome: &Outcome<'_>, out: &mut String) {
        let Outcome { status, output, usage, error, reason } = outcome;
        let completed_at = (*status == Status::Completed).then(crate::unix_seconds);
        let rest = Rest {
            status: status.word(),
            completed_at,
            error: error.map(|error| json!({"code": error.code_name(), "message": error.message()})),
            incomplete_details: reason.map(|reason| json!({"reason": reason})),
            usage: usage.map(told),
        };
        let (id, rest) = (self.name.id(), json_of(&rest));
        let Self { created_at, asked, .. } = self;
        *out += &format!(r#"{{"id":"{id}","object":"response","created_at":{created_at},{asked},"output":["#);
        for (index, item) in output.iter().enumerate() {
            if index > 0 {
                out.push(',');
            }
            out.push_str(item);
        }
        out.push_str("],");
        out.push_str(&rest[1..]);
    }

    pub(crate) fn to_json(&self, outcome: &Outcome<'_>) -> String {
        let mut out = String::new();
        self.write(outcome, &mut out);
        out
    }
}

#[derive(Serialize)]
struct Rest {
    status: &'static str,
    completed_at: Option<u64>,
    error: Option<Value>,
    incomplete_details: Option<Value>,
    usage: Option<Value>,
}

/// Usage in the words of this API.
pub(crate) fn told(usage: &Usage) -> Value {
    json!({
        "input_tokens": usage.input_tokens,
        "input_tokens_details": {"cached_tokens": usage.cached_input_tokens, "cache_write_tokens": 0},
        "output_tokens": usage.output_tokens,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning_output_tokens},
        "total_tokens": usage.input_tokens + usage.output_tokens,
    })
}

fn json_of(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("texts and numbers can be written")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{Head, Name, Outcome, Status};

    #[test]
    fn a_response_that_is_not_stored_says_so_and_is_the_same_otherwise() {
        let asked = json!({"metadata": {"store": "\"store\":true"}, "model": "m", "store": true});
        let head = Head::new(Name::new(), 7, &asked);
        let object = |head: &Head| -> Value {
            serde_json::from_str(&head.to_json(&Outcome::begun(Status::InProgress))).unwrap()
        };
        let mut expected = object(&head);
        assert_eq!(expected["store"], true);
        expected["store"] = json!(false);
        assert_eq!(object(&head.unstored()), expected);
    }

    #[test]
    fn an_item_leads_back_to_its_response() {
        let name = Name::new();
        assert_eq!(Name::of(&name.id()), Some(name.clone()));
        for place in [0, 1, 255, 70_000] {
            assert_eq!(Name::of_item(&name.item("msg", place)), Some((name.clone(), place)));
        }
        for other in ["", "msg_", "msg_1", "resp_zz", &name.input_item("msg", 0)] {
            assert_eq!(Name::of_item(other), None, "{other}");
        }
        for other in ["resp_", "msg_0", "resp_0123", &name.id()[5..]] {
            assert_eq!(Name::of(other), None, "{other}");
        }
    }
}
