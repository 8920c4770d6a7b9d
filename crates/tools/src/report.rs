//! What a check of one tool server came to, for people as text and for programs as JSON.

use std::fmt;

use approvals::escaped;
use serde::Serialize;

use crate::diagnosis::{Spoken, diagnose, schema_fault, spoken};
use crate::evidence::Evidence;
use crate::finding::{Code, Finding, Severity};

/// Lines of stderr that are shown of a server that cannot be used.
const STDERR_LINES_MAX: usize = 12;

/// What a check of one tool server came to.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// Which server.
    pub server: String,
    /// Whether it can be used.
    pub verdict: Health,
    /// What it speaks, if its handshake came to something.
    pub speaks: Option<Spoken>,
    /// How many tools it listed.
    pub tools: usize,
    /// How many of them can be offered.
    pub tools_usable: usize,
    /// What is wrong with it, by code and then by place.
    pub findings: Vec<Finding>,
    /// The end of what it wrote to stderr.
    pub stderr: String,
}

/// Whether a tool server can be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Health {
    /// It can, and nothing is lost.
    Ready,
    /// It can, but something is lost, or may be.
    Usable,
    /// It cannot.
    Unusable,
}

impl Report {
    /// What the evidence of one life of this server comes to.
    #[must_use]
    pub fn of(server: &str, evidence: &Evidence) -> Self {
        let findings = diagnose(evidence);
        let speaks = spoken(evidence);
        let is_usable = |listed: &&_| schema_fault(listed, evidence.dialect).is_none();
        let tools_usable = evidence.tools.iter().filter(is_usable).count();
        let has_lost_its_tools = tools_usable == 0 && findings.iter().any(|finding| finding.code == Code::D7);
        let verdict = if speaks.is_none() || has_lost_its_tools || findings.iter().any(is_fatal) {
            Health::Unusable
        } else if findings.iter().any(|finding| finding.severity > Severity::Note) {
            Health::Usable
        } else {
            Health::Ready
        };
        let stderr = evidence.stderr.clone();
        Self { server: server.to_owned(), verdict, speaks, tools: evidence.tools.len(), tools_usable, findings, stderr }
    }

    /// What a program that made this check exits with: 0 if nothing is wrong, 1 if the server can be used all the same,
    /// 2 if it cannot.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match self.verdict {
            Health::Ready => 0,
            Health::Usable => 1,
            Health::Unusable => 2,
        }
    }

    fn counted(&self) -> String {
        let notes = self.findings.iter().filter(|finding| finding.severity == Severity::Note).count();
        let faults = match self.findings.len() - notes {
            0 if notes == 0 => "no fault found".to_owned(),
            0 => "no fault".to_owned(),
            count => many(count, "fault"),
        };
        if notes == 0 { faults } else { format!("{faults}, {}", many(notes, "note")) }
    }
}

/// Errors of single tools leave the others usable.
fn is_fatal(finding: &Finding) -> bool {
    finding.severity == Severity::Error && !matches!(finding.code, Code::D7 | Code::D16)
}

fn many(count: usize, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verdict = match self.verdict {
            Health::Ready => "ready",
            Health::Usable => "usable",
            Health::Unusable => "unusable",
        };
        write!(f, "{}: {verdict}", escaped(&self.server))?;
        if let Some(speaks) = &self.speaks {
            write!(f, " ({})", escaped(&speaks.to_string()))?;
        }
        write!(f, ", {}", many(self.tools, "tool"))?;
        if self.tools_usable < self.tools {
            write!(f, " ({} usable)", self.tools_usable)?;
        }
        writeln!(f, ", {}", self.counted())?;
        for finding in &self.findings {
            write!(f, "\n{finding}")?;
        }
        let is_wanted = self.verdict == Health::Unusable && !self.stderr.trim().is_empty();
        if is_wanted {
            writeln!(f, "\nits stderr ended with:")?;
            let lines: Vec<&str> = self.stderr.lines().collect();
            for line in &lines[lines.len().saturating_sub(STDERR_LINES_MAX)..] {
                writeln!(f, "  | {}", escaped(line))?;
            }
        }
        Ok(())
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} {}: {}", self.code, self.severity, escaped(&self.what))?;
        if let Some(frame) = &self.frame {
            writeln!(f, "  frame: {}", escaped(frame))?;
        }
        if let Some(path) = &self.path {
            writeln!(f, "  at:    {}", escaped(path))?;
        }
        writeln!(f, "  fix:   {}", escaped(&self.fix))
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Error => "error",
        })
    }
}

impl fmt::Display for Spoken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Legacy { version } => write!(f, "legacy, {version}"),
            Self::Modern { version } => write!(f, "modern, {version}"),
            Self::LocalCowork => f.write_str("the dialect of LocalCowork"),
        }
    }
}
