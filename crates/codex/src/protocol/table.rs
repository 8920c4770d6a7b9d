//! What a row of the method table says.

use serde::Serialize;

/// The version of codex whose schema is built in.
pub const NEWEST: &str = include_str!("../../../../schema/VERSION").trim_ascii();

/// One method of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Method {
    /// Its name on the wire.
    pub method: &'static str,
    /// Who says it, and whether it is answered.
    pub kind: Kind,
    /// Whether it must be asked for.
    pub extent: Extent,
    /// The first of the tested versions that has it.
    pub since: &'static str,
    /// The last one that has it.
    pub until: Until,
}

impl Method {
    pub(super) const fn new(
        kind: Kind,
        method: &'static str,
        extent: Extent,
        since: &'static str,
        until: Until,
    ) -> Self {
        Self { method, kind, extent, since, until }
    }
}

/// Who says a method, and whether it is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// We ask, the worker answers.
    Call,
    /// We tell.
    ClientNotification,
    /// The worker tells.
    Notification,
    /// The worker asks, we answer.
    Request,
}

/// Whether a method must be asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Extent {
    /// Everybody may use it.
    Stable,
    /// It needs the capability `experimentalApi`.
    Experimental,
    /// The schema does not have it, although a worker lists it: why.
    Unlisted(&'static str),
}

/// How long a method was there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Until {
    /// It is still there.
    Today,
    /// This is the last of the tested versions that has it.
    Version(&'static str),
}
