//! Why a request was not taken, and why a decision was not.

use store::{ReadError, WriteError};

use crate::link::TokenError;
use crate::verdict::{By, Verdict};

/// Why a request does not wait here: whoever brought it declines it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// It could not be recorded, so nobody may see it.
    #[error("the approval could not be recorded, so it is declined: {0}")]
    Store(#[from] WriteError),
    /// As many wait as may.
    #[error("{0} approvals wait already: decide some of them")]
    TooMany(usize),
    /// As many of its key wait as may.
    #[error("{0} approvals of this key wait already, the most of one key: decide some of them")]
    TooManyOfKey(usize),
    /// It is larger than anyone could read.
    #[error("the request has {bytes} bytes, and {bytes_max} may be shown")]
    TooLarge {
        /// Its size.
        bytes: usize,
        /// The limit.
        bytes_max: usize,
    },
    /// Its parameters cannot be shown.
    #[error("the request's parameters are no JSON that can be shown: {0}")]
    Unreadable(String),
    /// Only a hook may answer it, and there is none.
    #[error("no hook is configured to answer `{kind}`, and nobody else may")]
    Nobody {
        /// The kind.
        kind: &'static str,
    },
    /// The approvals have ended.
    #[error("approvals are closed")]
    Closed,
}

/// Why a decision was not taken.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum DecideError {
    /// There is no such approval.
    #[error("there is no approval of that id")]
    NotFound,
    /// Somebody else was first.
    #[error("it is decided already: {} by {by}", verdict.name())]
    AlreadyDecided {
        /// Who.
        by: By,
        /// What they decided.
        verdict: Verdict,
    },
    /// What would be decided is not what was shown.
    #[error("this is not what was shown: look at it again, and decide with its `shown_hash`")]
    ShownChanged,
    /// The request does not offer this verdict.
    #[error("the request does not offer `{0}`: choose one of its `offers`")]
    NotOffered(&'static str),
    /// Not for this person to decide.
    #[error("this decision needs the scope `{0}`")]
    NotAllowed(&'static str),
    /// Only an operator may allow what lifts a restriction of a worker.
    #[error(
        "this request escalates, or the verdict amends a policy: that lifts restrictions of a worker that other keys use \
         too, so allowing it needs the scope `operate`; anyone who may decide it can deny it"
    )]
    LiftsRestrictions,
    /// The verdict is larger than it may be.
    #[error("the verdict has {bytes} bytes, and {bytes_max} may be given")]
    TooLarge {
        /// Its size.
        bytes: usize,
        /// The limit.
        bytes_max: usize,
    },
    /// It could not be made durable, and does not stand; it may be made again.
    #[error("the decision could not be recorded and does not stand: {0}")]
    Store(#[from] WriteError),
    /// The store could not be asked.
    #[error("{0}")]
    Read(String),
    /// The approvals have ended.
    #[error("approvals are closed")]
    Closed,
}

impl From<ReadError> for DecideError {
    fn from(error: ReadError) -> Self {
        Self::Read(error.to_string())
    }
}

/// Why a decision link decided nothing.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum LinkError {
    /// The link itself is not good.
    #[error(transparent)]
    Token(#[from] TokenError),
    /// The decision was not taken.
    #[error(transparent)]
    Decide(#[from] DecideError),
}
