//! What the steps say together: a line for each, the reasons of those that failed or were skipped, and the counts.

use std::time::Duration;

/// How a step ended.
#[derive(Debug)]
pub(super) enum Outcome {
    Passed,
    Failed(String),
    Skipped(String),
}

/// A step that has ended.
pub(super) struct Ended {
    pub(super) step: &'static str,
    pub(super) outcome: Outcome,
    pub(super) took: Duration,
}

/// Whether a skipped step is as good as a passed one.
#[derive(Clone, Copy)]
pub(super) enum Strictness {
    SkipsPass,
    SkipsFail,
}

pub(super) struct Verdict {
    pub(super) summary: String,
    /// Why the whole has failed, if it has.
    pub(super) complaint: Option<String>,
}

impl Verdict {
    pub(super) fn of(all: &[Ended], strictness: Strictness) -> Self {
        let failed = names(all, |outcome| matches!(outcome, Outcome::Failed(_)));
        let skipped = names(all, |outcome| matches!(outcome, Outcome::Skipped(_)));
        let passed = all.len() - failed.len() - skipped.len();
        let steps: String = all.iter().map(Ended::report).collect();
        let counts = format!("{passed} passed, {} failed, {} skipped", failed.len(), skipped.len());
        let complaint = match strictness {
            _ if !failed.is_empty() => Some(format!("failed: {}", failed.join(", "))),
            Strictness::SkipsFail if !skipped.is_empty() => {
                Some(format!("skipped, which fails with CI=true: {}", skipped.join(", ")))
            }
            Strictness::SkipsFail | Strictness::SkipsPass => None,
        };
        Self { summary: steps + &counts, complaint }
    }
}

fn names(all: &[Ended], wanted: fn(&Outcome) -> bool) -> Vec<&'static str> {
    let wanted = all.iter().filter(|ended| wanted(&ended.outcome));
    wanted.map(|ended| ended.step).collect()
}

impl Ended {
    fn report(&self) -> String {
        let mut report = format!("{:>7} {} ({} s)\n", self.outcome.word(), self.step, self.took.as_secs());
        for line in self.outcome.reason().into_iter().flat_map(str::lines) {
            report += &format!("          {line}\n");
        }
        report
    }
}

impl Outcome {
    pub(super) fn word(&self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Failed(_) => "FAILED",
            Self::Skipped(_) => "skipped",
        }
    }

    fn reason(&self) -> Option<&str> {
        match self {
            Self::Passed => None,
            Self::Failed(reason) | Self::Skipped(reason) => Some(reason),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use expect_test::{Expect, expect};

    use super::{Ended, Outcome, Strictness, Verdict};

    fn ended(step: &'static str, outcome: Outcome) -> Ended {
        Ended { step, outcome, took: Duration::from_secs(3) }
    }

    fn check(ended: &[Ended], strictness: Strictness, expected: &Expect) {
        let verdict = Verdict::of(ended, strictness);
        expected.assert_eq(&format!("{}\n→ {:?}\n", verdict.summary, verdict.complaint));
    }

    fn skip() -> Ended {
        ended("real-codex", Outcome::Skipped("npm was not found: install Node 16 or newer".to_owned()))
    }

    #[test]
    fn a_skip_is_named_with_its_reason_and_fails_only_in_ci() {
        check(
            &[ended("format", Outcome::Passed), skip()],
            Strictness::SkipsPass,
            &expect![[r#"
                 passed format (3 s)
                skipped real-codex (3 s)
                          npm was not found: install Node 16 or newer
                1 passed, 0 failed, 1 skipped
                → None
            "#]],
        );
        check(
            &[ended("format", Outcome::Passed), skip()],
            Strictness::SkipsFail,
            &expect![[r#"
                 passed format (3 s)
                skipped real-codex (3 s)
                          npm was not found: install Node 16 or newer
                1 passed, 0 failed, 1 skipped
                → Some("skipped, which fails with CI=true: real-codex")
            "#]],
        );
    }

    #[test]
    fn a_failure_is_named_and_fails_everywhere() {
        let steps = [
            ended("format", Outcome::Failed("cargo ended with exit status: 1".to_owned())),
            ended("tidy", Outcome::Passed),
        ];
        check(
            &steps,
            Strictness::SkipsPass,
            &expect![[r#"
             FAILED format (3 s)
                      cargo ended with exit status: 1
             passed tidy (3 s)
            1 passed, 1 failed, 0 skipped
            → Some("failed: format")
        "#]],
        );
        check(
            &[steps.into_iter().next().unwrap(), skip()],
            Strictness::SkipsFail,
            &expect![[r#"
                 FAILED format (3 s)
                          cargo ended with exit status: 1
                skipped real-codex (3 s)
                          npm was not found: install Node 16 or newer
                0 passed, 1 failed, 1 skipped
                → Some("failed: format")
            "#]],
        );
    }

    #[test]
    fn all_passed_is_no_complaint() {
        check(
            &[ended("format", Outcome::Passed)],
            Strictness::SkipsFail,
            &expect![[r#"
                 passed format (3 s)
                1 passed, 0 failed, 0 skipped
                → None
            "#]],
        );
    }
}
