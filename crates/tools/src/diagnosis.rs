//! What is wrong with a tool server, told from the evidence that one life of it has left: every fault in one pass,
//! always in the same order, each with the frame that shows it, where in that frame, and how to mend it.
//!
//! Whatever a server of the official SDKs does, of either era, is no fault.

mod fields;
mod handshake;
mod life;
mod names;
mod near;
mod place;
mod reading;
mod schemas;
mod talk;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::hash::Hash;

use crate::evidence::Evidence;
use crate::finding::{Code, Finding, Severity};
use crate::settings::Dialect;

pub use handshake::Spoken;
use reading::Reading;
pub(crate) use schemas::schema_fault;

/// Findings of one code that are told one by one; of more, only how many there are.
const PER_CODE_MAX: usize = 8;

/// Every fault that the evidence shows, by code and then by place.
#[must_use]
pub fn diagnose(evidence: &Evidence) -> Vec<Finding> {
    let reading = Reading::of(evidence);
    let mut findings = talk::look(&reading);
    findings.extend(handshake::look(&reading));
    findings.extend(schemas::look(&reading));
    findings.extend(fields::look(evidence));
    findings.extend(names::look(evidence));
    findings.extend(life::look(&reading));
    keep_causes_only(&mut findings);
    if evidence.dialect == Dialect::LocalCowork {
        findings.retain(|finding| !matches!(finding.code, Code::D4 | Code::D5));
    }
    findings.sort_by_key(|finding| finding.code);
    bounded(&findings)
}

/// What the server speaks, if its handshake came to something.
pub(crate) fn spoken(evidence: &Evidence) -> Option<Spoken> {
    handshake::spoken(&Reading::of(evidence))
}

/// What belongs to the same key, in the order in which the keys first came.
fn grouped<K: Clone + Eq + Hash, V>(pairs: impl Iterator<Item = (K, V)>) -> Vec<(K, Vec<V>)> {
    let mut groups: Vec<(K, Vec<V>)> = Vec::new();
    let mut places: HashMap<K, usize> = HashMap::new();
    for (key, value) in pairs {
        let place = *places.entry(key.clone()).or_insert(groups.len());
        match groups.get_mut(place) {
            Some((_, values)) => values.push(value),
            None => groups.push((key, vec![value])),
        }
    }
    groups
}

/// A server whose answers have ids of another type is not silent: its answers are not recognised.
fn keep_causes_only(findings: &mut Vec<Finding>) {
    let is_misheard = findings.iter().any(|finding| finding.code == Code::D2 && finding.severity == Severity::Error);
    findings.retain(|finding| !(is_misheard && finding.code == Code::D11));
}

fn bounded(findings: &[Finding]) -> Vec<Finding> {
    let mut bounded = Vec::with_capacity(findings.len());
    for group in findings.chunk_by(|one, next| one.code == next.code) {
        let (told, untold) = group.split_at(group.len().min(PER_CODE_MAX));
        bounded.extend_from_slice(told);
        if let Some(worst) = untold.iter().map(|finding| finding.severity).max() {
            bounded.push(Finding {
                code: group[0].code,
                severity: worst,
                what: format!("there are {} more findings of this kind", untold.len()),
                frame: None,
                path: None,
                fix: "mend those above, check again, and see which are left".to_owned(),
            });
        }
    }
    bounded
}
