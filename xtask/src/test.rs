//! `cargo xtask test`: the one command that says whether the tree is right.
//! Every step runs, whatever became of the others, and the end lists what failed and what was skipped and why.
//! With `CI=true` a skip is a failure.

use std::env;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

mod steps;

use steps::{STEPS, Step};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Run these steps alone
    #[arg(long, value_name = "STEP", value_parser = steps::names())]
    only: Vec<String>,
    /// Name the steps and run none
    #[arg(long)]
    list: bool,
}

/// How a step ended.
#[derive(Debug)]
enum Outcome {
    Passed,
    Failed(String),
    Skipped(String),
}

/// A step that has ended.
struct Ended {
    step: &'static str,
    outcome: Outcome,
    took: Duration,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    if arguments.list {
        for step in &STEPS {
            println!("{:<12} {}", step.name, step.promise);
        }
        return Ok(());
    }
    let is_chosen = |step: &&Step| {
        arguments.only.is_empty() || arguments.only.iter().any(|name| name == step.name)
    };
    let chosen: Vec<&Step> = STEPS.iter().filter(is_chosen).collect();
    let started = Instant::now();
    let ended: Vec<Ended> = chosen
        .iter()
        .enumerate()
        .map(|(index, step)| play(step, index + 1, chosen.len()))
        .collect();
    let strictness = if env::var("CI").is_ok_and(|value| value == "true") {
        Strictness::SkipsFail
    } else {
        Strictness::SkipsPass
    };
    let verdict = Verdict::of(&ended, strictness);
    println!("\n{} in {} s", verdict.summary, started.elapsed().as_secs());
    match verdict.complaint {
        None => Ok(()),
        Some(complaint) => bail!(complaint),
    }
}

fn play(step: &Step, number: usize, of: usize) -> Ended {
    println!("\n[{number}/{of}] {}: {}", step.name, step.promise);
    let started = Instant::now();
    let outcome = (step.run)();
    let took = started.elapsed();
    println!(
        "[{number}/{of}] {} {}, {} s",
        step.name,
        outcome.word(),
        took.as_secs()
    );
    Ended {
        step: step.name,
        outcome,
        took,
    }
}

impl Outcome {
    fn word(&self) -> &'static str {
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

#[derive(Clone, Copy, PartialEq)]
enum Strictness {
    SkipsPass,
    SkipsFail,
}

/// What the steps say together.
struct Verdict {
    summary: String,
    complaint: Option<String>,
}

impl Verdict {
    fn of(ended: &[Ended], strictness: Strictness) -> Self {
        let mut summary = String::new();
        for Ended {
            step,
            outcome,
            took,
        } in ended
        {
            summary += &format!("{:>7} {step} ({} s)\n", outcome.word(), took.as_secs());
            for line in outcome.reason().into_iter().flat_map(str::lines) {
                summary += &format!("          {line}\n");
            }
        }
        let named = |wanted: fn(&Outcome) -> bool| -> Vec<&str> {
            ended
                .iter()
                .filter(|ended| wanted(&ended.outcome))
                .map(|ended| ended.step)
                .collect()
        };
        let failed = named(|outcome| matches!(outcome, Outcome::Failed(_)));
        let skipped = named(|outcome| matches!(outcome, Outcome::Skipped(_)));
        let passed = ended.len() - failed.len() - skipped.len();
        summary += &format!(
            "{passed} passed, {} failed, {} skipped",
            failed.len(),
            skipped.len()
        );
        let complaint = match (
            failed.is_empty(),
            skipped.is_empty() || strictness == Strictness::SkipsPass,
        ) {
            (true, true) => None,
            (false, _) => Some(format!("failed: {}", failed.join(", "))),
            (true, false) => Some(format!(
                "skipped, which fails with CI=true: {}",
                skipped.join(", ")
            )),
        };
        Self { summary, complaint }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use expect_test::{Expect, expect};

    use super::{Ended, Outcome, Strictness, Verdict};

    fn ended(step: &'static str, outcome: Outcome) -> Ended {
        Ended {
            step,
            outcome,
            took: Duration::from_secs(3),
        }
    }

    fn check(ended: &[Ended], strictness: Strictness, expected: &Expect) {
        let verdict = Verdict::of(ended, strictness);
        expected.assert_eq(&format!("{}\n→ {:?}\n", verdict.summary, verdict.complaint));
    }

    fn skip() -> Ended {
        ended(
            "real-codex",
            Outcome::Skipped("npm was not found: install Node 16 or newer".to_owned()),
        )
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
            ended(
                "format",
                Outcome::Failed("cargo ended with exit status: 1".to_owned()),
            ),
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
