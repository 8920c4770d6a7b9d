//! What a rule found: the place, what is wrong there, and what to do about it.

use std::fmt;

/// Prints as `path:line: what is wrong; what to do`.
#[derive(Debug, PartialEq)]
pub(super) struct Finding {
    path: String,
    line: usize,
    what: String,
}

impl Finding {
    /// A finding about a line, counted from 1.
    pub(super) fn new(path: &str, line: usize, what: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line, what: what.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.what)
    }
}

/// All findings, one a line.
#[cfg(test)]
pub(super) fn listed(findings: &[Finding]) -> String {
    findings.iter().map(|finding| format!("{finding}\n")).collect()
}
