//! The steps that the audit tells of.

use std::fmt::Display;

use serde::Serialize;
use store::AuditEntry;

use crate::excerpt::excerpt;
use crate::stamp::Stamp;
use crate::verdict::Decided;

/// One step in the life of an approval.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Step {
    /// When.
    pub at: Stamp,
    /// What happened.
    pub step: String,
    /// Who or what did it.
    pub by: String,
    /// What else is to be known, escaped.
    pub detail: String,
}

impl From<AuditEntry> for Step {
    fn from(entry: AuditEntry) -> Self {
        let AuditEntry { at, step, by, detail, .. } = entry;
        Self { at: Stamp(at), step, by: excerpt(&by), detail: excerpt(&detail) }
    }
}

pub(crate) fn entry(approval: &str, step: &str, by: &dyn Display, detail: &dyn Display) -> AuditEntry {
    AuditEntry {
        approval: approval.into(),
        at: Stamp::now().0,
        step: step.into(),
        by: by.to_string(),
        detail: detail.to_string(),
    }
}

/// How much of a link's hash the audit shows: enough to tell links apart.
const LINK_HASH_SHOWN: usize = 16;

/// The entry of a decision; the link that made it, if one did, is used up with it.
pub(crate) fn decision(approval: &str, decided: &Decided, link: Option<&str>) -> AuditEntry {
    let mut detail = decided.verdict.name().to_owned();
    if let Some(reason) = decided.verdict.reason() {
        detail.push_str(": ");
        detail.push_str(reason);
    }
    let by = match link {
        Some(link) => format!("{} {}", decided.by, link_mark(link)),
        None => decided.by.to_string(),
    };
    AuditEntry { at: decided.at.0, ..entry(approval, "decided", &by, &detail) }
}

/// Whether a decision's entry was made by this link.
pub(crate) fn is_by_link(entry: &AuditEntry, link: &str) -> bool {
    entry.step == "decided" && entry.by.ends_with(&link_mark(link))
}

fn link_mark(link: &str) -> String {
    format!("(link {})", &link[..LINK_HASH_SHOWN.min(link.len())])
}
