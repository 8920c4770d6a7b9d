//! What is put before whoever decides, and the hash that binds their decision to it: had anything been other than what
//! they saw, the hash would be another one.

use ring::digest::{Context, SHA256};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::escalation::Escalation;
use crate::offers::{NotAdmitted, Offers};
use crate::verdict::{Powers, Verdict};
use crate::who::Kind;

/// Where a request comes from.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Origin {
    /// The group of workers.
    pub group: String,
    /// The worker.
    pub worker: String,
    /// Its thread.
    pub thread: String,
    /// The turn.
    pub turn: String,
    /// The item that waits, if it is one.
    pub item: Option<String>,
    /// The id of the worker's request, as the JSON that it is.
    pub request: String,
}

/// A request as it is shown.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Shown {
    pub(crate) kind: Kind,
    pub(crate) origin: Origin,
    pub(crate) method: String,
    pub(crate) params: Value,
    pub(crate) command: Option<Vec<String>>,
    pub(crate) cwd: Option<String>,
    pub(crate) changes: Option<String>,
    pub(crate) offers: Offers,
    pub(crate) key: Option<String>,
}

/// What of the parameters differs between two requests that want the same.
const OF_ONE_REQUEST: [&str; 6] = ["approvalId", "callId", "call_id", "itemId", "startedAtMs", "turnId"];

impl Shown {
    /// Which restrictions it asks to lift.
    pub(crate) fn escalation(&self) -> Vec<Escalation> {
        Escalation::of(self.kind, &self.params)
    }

    /// Whether the verdict is on offer, and within the powers of who gives it. What lifts a restriction or applies to every
    /// key that uses the worker is for operators.
    pub(crate) fn admit(&self, verdict: &Verdict, powers: Powers) -> Result<(), NotAdmitted> {
        self.offers.admit(verdict, powers)?;
        let lifts = verdict.allows() && !self.escalation().is_empty();
        let amends = matches!(verdict, Verdict::AllowWithAmendment(_));
        if (lifts || amends) && !powers.operator { Err(NotAdmitted::NeedsOperator) } else { Ok(()) }
    }

    /// The hash of everything that is shown; a decision brings it back.
    pub(crate) fn hash(&self) -> String {
        let mut hasher = Hasher::new("shown");
        self.identify(&mut hasher);
        hasher.maybe(self.origin.item.as_deref());
        self.describe(&mut hasher, &self.params);
        hasher.finish()
    }

    /// Finds the same request again when a worker repeats it; what only we know of it is left out.
    pub(crate) fn identity(&self) -> String {
        let mut hasher = Hasher::new("identity");
        self.identify(&mut hasher);
        hasher.text(&canonical(&self.params));
        hasher.finish()
    }

    /// The same for all requests of one thread that want the same: a grant for the session covers them.
    pub(crate) fn likeness(&self) -> String {
        let mut hasher = Hasher::new("likeness");
        hasher.text(&self.origin.group);
        hasher.text(&self.origin.worker);
        hasher.text(&self.origin.thread);
        hasher.text(&self.method);
        let mut params = self.params.clone();
        if let Some(fields) = params.as_object_mut() {
            fields.retain(|name, _| !OF_ONE_REQUEST.contains(&name.as_str()));
        }
        self.describe(&mut hasher, &params);
        hasher.finish()
    }

    fn identify(&self, hasher: &mut Hasher) {
        hasher.text(&self.method);
        hasher.text(&self.origin.group);
        hasher.text(&self.origin.worker);
        hasher.text(&self.origin.thread);
        hasher.text(&self.origin.turn);
        hasher.text(&self.origin.request);
    }

    fn describe(&self, hasher: &mut Hasher, params: &Value) {
        hasher.text(self.kind.name());
        hasher.list(self.command.as_deref());
        hasher.maybe(self.cwd.as_deref());
        hasher.maybe(self.changes.as_deref());
        hasher.text(&canonical(params));
    }
}

/// JSON text with sorted keys: the order in which they came makes no difference.
fn canonical(value: &Value) -> String {
    match value {
        Value::Object(fields) => {
            let mut fields: Vec<_> = fields.iter().collect();
            fields.sort_unstable_by_key(|(name, _)| *name);
            let fields: Vec<_> = fields
                .into_iter()
                .map(|(name, value)| format!("{}:{}", Value::from(&**name), canonical(value)))
                .collect();
            format!("{{{}}}", fields.join(","))
        }
        Value::Array(values) => format!("[{}]", values.iter().map(canonical).collect::<Vec<_>>().join(",")),
        _ => value.to_string(),
    }
}

/// SHA-256 over fields that cannot run into each other: each is preceded by its length.
struct Hasher(Context);

impl Hasher {
    fn new(purpose: &str) -> Self {
        let mut hasher = Self(Context::new(&SHA256));
        hasher.text("switchboard approval 1");
        hasher.text(purpose);
        hasher
    }

    fn text(&mut self, text: &str) {
        self.count(text.len());
        self.0.update(text.as_bytes());
    }

    fn maybe(&mut self, text: Option<&str>) {
        self.count(usize::from(text.is_some()));
        self.text(text.unwrap_or_default());
    }

    fn list(&mut self, words: Option<&[String]>) {
        self.count(usize::from(words.is_some()));
        let words = words.unwrap_or_default();
        self.count(words.len());
        words.iter().for_each(|word| self.text(word));
    }

    fn count(&mut self, count: usize) {
        self.0.update(&(count as u64).to_be_bytes());
    }

    fn finish(self) -> String {
        hex(self.0.finish().as_ref())
    }
}

/// Bytes as lowercase hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
pub(crate) mod tests {
    use std::collections::HashSet;

    use serde_json::json;

    use super::*;

    pub(crate) fn command(words: &[&str]) -> Shown {
        Shown {
            kind: Kind::Command,
            origin: Origin {
                group: "main".into(),
                worker: "main-0".into(),
                thread: "th".into(),
                turn: "tu".into(),
                item: Some("it".into()),
                request: "0".into(),
            },
            method: "item/commandExecution/requestApproval".into(),
            params: json!({"itemId": "it", "startedAtMs": 1, "reason": "why"}),
            command: Some(words.iter().map(|word| (*word).into()).collect()),
            cwd: Some("/srv".into()),
            changes: None,
            offers: Offers::of(Kind::Command, &json!({})),
            key: None,
        }
    }

    #[test]
    fn anything_else_that_is_shown_makes_another_hash() {
        let shown = command(&["touch", "x y"]);
        let with = |change: &dyn Fn(&mut Shown)| {
            let mut other = shown.clone();
            change(&mut other);
            other.hash()
        };
        let hashes = [
            shown.hash(),
            with(&|other| other.command = Some(vec!["touch".into(), "x".into(), "y".into()])),
            with(&|other| other.command = Some(vec!["touchx y".into()])),
            with(&|other| other.command = None),
            with(&|other| other.cwd = None),
            with(&|other| other.cwd = Some(String::new())),
            with(&|other| other.changes = Some("+x".into())),
            with(&|other| other.method = "execCommandApproval".into()),
            with(&|other| other.params = json!({"reason": "other"})),
            with(&|other| other.origin.thread = "other".into()),
            with(&|other| other.origin.turn = "other".into()),
            with(&|other| other.origin.item = None),
            with(&|other| other.origin.request = "\"0\"".into()),
        ];
        assert_eq!(hashes.iter().collect::<HashSet<_>>().len(), hashes.len());
        assert!(hashes.iter().all(|hash| hash.len() == 64));
    }

    #[test]
    fn the_order_of_keys_makes_no_difference() {
        let parsed = |text: &str| Shown { params: serde_json::from_str(text).unwrap(), ..command(&["ls"]) };
        assert_eq!(parsed(r#"{"a":1,"b":{"c":2,"d":3}}"#).hash(), parsed(r#"{"b": {"d":3,"c":2}, "a":1}"#).hash());
    }

    #[test]
    fn a_repeated_request_is_the_same_and_an_equal_one_is_alike() {
        let shown = command(&["ls"]);
        let repeated = Shown { changes: Some("lost".into()), ..shown.clone() };
        assert_eq!(shown.identity(), repeated.identity());
        let mut equal = Shown { params: json!({"itemId": "2", "startedAtMs": 9, "reason": "why"}), ..shown.clone() };
        equal.origin.request = "7".into();
        equal.origin.turn = "next".into();
        assert_ne!(shown.identity(), equal.identity());
        assert_eq!(shown.likeness(), equal.likeness());
        equal.origin.thread = "other".into();
        assert_ne!(shown.likeness(), equal.likeness());
        assert_ne!(shown.likeness(), command(&["ls", "-l"]).likeness());
    }
}
