//! How calls are answered: rightly, or with one of the faults that a script or a marker asks for.

use serde::Deserialize;

/// What is wrong with the answers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum AnswerFault {
    /// Nothing.
    #[default]
    Right,
    /// Each answer waits for the next one and comes after it.
    Swapped,
    /// Each answer comes twice.
    Twice,
    /// Before each answer comes one to a call that nobody made.
    Unknown,
}

impl AnswerFault {
    pub(crate) const NAMES: &str = "`right`, `swapped`, `twice` or `unknown`";

    pub(crate) fn parse(name: &str) -> Option<Self> {
        match name {
            "right" => Some(Self::Right),
            "swapped" => Some(Self::Swapped),
            "twice" => Some(Self::Twice),
            "unknown" => Some(Self::Unknown),
            _ => None,
        }
    }
}
