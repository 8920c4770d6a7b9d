//! Ids of both directions. They are two spaces that collide: the peer's `7` is not our `7`.

use std::fmt;
use std::sync::Arc;

/// The id of a call of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallId(pub(crate) u64);

impl fmt::Display for CallId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Ids are kept while their request is open; a peer could otherwise make us keep a megabyte for each.
const ID_BYTES_MAX: usize = 1024;

/// An id as it stands on the wire: the JSON text of an integer or a string, compared and echoed to the letter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RawId<'a>(&'a str);

impl<'a> RawId<'a> {
    /// Accepts the JSON text of an integer or a string of up to 1 KiB; not null, not a fraction.
    #[must_use]
    pub fn new(json: &'a str) -> Option<Self> {
        if json.len() > ID_BYTES_MAX {
            return None;
        }
        let digits = json.strip_prefix('-').unwrap_or(json);
        let is_integer = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        (is_integer || json.starts_with('"')).then_some(Self(json))
    }

    /// The JSON text.
    #[must_use]
    pub fn as_str(self) -> &'a str {
        self.0
    }

    /// The call of ours that this id names; a string `"7"` is not the call 7.
    #[must_use]
    pub fn to_call(self) -> Option<CallId> {
        self.0.parse().ok().map(CallId)
    }
}

impl fmt::Display for RawId<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

/// One request of the peer. The peer may use an id again once it is answered, so the id alone does not name a request.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RequestId {
    pub(crate) serial: u64,
    pub(crate) raw: Arc<str>,
}

impl RequestId {
    /// The id as the peer wrote it.
    #[must_use]
    pub fn as_raw(&self) -> &str {
        &self.raw
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.raw)
    }
}
