//! A request as it is brought here.

use std::time::Duration;

use crate::error::Refused;
use crate::limits::Limits;
use crate::offers::Offers;
use crate::shown::{Origin, Shown};
use crate::who::Kind;

/// A request that wants a decision.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// What it asks.
    pub kind: Kind,
    /// Where it comes from.
    pub origin: Origin,
    /// Its method.
    pub method: String,
    /// Its parameters, as the JSON text that came.
    pub params: String,
    /// The words of the command, if it is one and they are known for certain.
    pub command: Option<Vec<String>>,
    /// The directory it is about.
    pub cwd: Option<String>,
    /// The file changes it is about, where the parameters do not hold them.
    pub changes: Option<String>,
    /// The id of the key that started the turn.
    pub key: Option<String>,
    /// What it may be answered with; worked out from its kind and parameters if `None`.
    pub offers: Option<Offers>,
    /// How long the decision may take; the configured time if `None`.
    pub timeout: Option<Duration>,
}

impl Wanted {
    pub(crate) fn into_shown(self, limits: &Limits) -> Result<Shown, Refused> {
        let words = self.command.iter().flatten().map(String::len).sum::<usize>();
        let bytes = self.params.len() + words + self.changes.as_ref().map_or(0, String::len);
        if bytes > limits.shown_bytes_max {
            return Err(Refused::TooLarge { bytes, bytes_max: limits.shown_bytes_max });
        }
        let params = serde_json::from_str(&self.params).map_err(|error| Refused::Unreadable(error.to_string()))?;
        let offers = self.offers.unwrap_or_else(|| Offers::of(self.kind, &params));
        let Self { kind, origin, method, command, cwd, changes, key, .. } = self;
        Ok(Shown { kind, origin, method, params, command, cwd, changes, offers, key })
    }
}
