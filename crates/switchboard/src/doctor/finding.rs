//! What the doctor finds.

use std::borrow::Cow;

use serde::Serialize;
use supervise::escaped_lines;

/// One thing that was looked at.
#[derive(Debug, Serialize)]
pub(super) struct Finding {
    pub(super) check: Cow<'static, str>,
    pub(super) state: State,
    pub(super) what: String,
    /// What to do about it.
    pub(super) advice: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum State {
    Ok,
    /// A server would start, but not do all of its work.
    Warning,
    /// A server would not start, or do nothing.
    Problem,
}

impl Finding {
    pub(super) fn ok(check: impl Into<Cow<'static, str>>, what: impl Into<String>) -> Self {
        Self { check: check.into(), state: State::Ok, what: what.into(), advice: None }
    }

    pub(super) fn warning(
        check: impl Into<Cow<'static, str>>,
        what: impl Into<String>,
        advice: impl Into<String>,
    ) -> Self {
        Self { check: check.into(), state: State::Warning, what: what.into(), advice: Some(advice.into()) }
    }

    pub(super) fn problem(
        check: impl Into<Cow<'static, str>>,
        what: impl Into<String>,
        advice: impl Into<String>,
    ) -> Self {
        Self { check: check.into(), state: State::Problem, what: what.into(), advice: Some(advice.into()) }
    }
}

/// The findings as a person reads them.
pub(super) fn to_text(findings: &[Finding]) -> String {
    let width = findings.iter().map(|finding| finding.check.chars().count()).max().unwrap_or(0);
    let mut text = String::new();
    for Finding { check, state, what, advice } in findings {
        let state = match state {
            State::Ok => "ok",
            State::Warning => "warning",
            State::Problem => "problem",
        };
        let indent = " ".repeat("problem".len() + width + 4);
        let told = |told: &str| escaped_lines(told).replace('\n', &format!("\n{indent}"));
        text.push_str(&format!("{state:7}  {check:width$}  {}\n", told(what)));
        if let Some(advice) = advice {
            text.push_str(&format!("{indent}→ {}\n", told(advice)));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::{Finding, to_text};

    #[test]
    fn advice_stands_below_what_it_is_about_and_nothing_moves_the_cursor() {
        let findings = [
            Finding::ok("port", "free"),
            Finding::warning("main: login", "nobody\nis logged in\u{1b}[2J", "run `codex login`"),
        ];
        expect![[r#"
            ok       port         free
            warning  main: login  nobody
                                  is logged in<U+001B>[2J
                                  → run `codex login`
        "#]]
        .assert_eq(&to_text(&findings));
    }
}
