//! The demo worker says what the real worker said, but for the reviewed differences.

use std::fmt::Write as _;

use testkit::differences::{Differences, Needed};
use testkit::transcript::Transcript;

use crate::plays::{self, Play};

#[test]
fn the_demo_worker_says_what_the_real_worker_said() {
    let differences = differences();
    let report = report(&differences, plays::demo(), plays::kept);
    assert!(report.is_empty(), "{report}");
}

#[test]
fn every_script_has_a_transcript_and_every_transcript_a_script() {
    assert_eq!(plays::names("script"), plays::names("jsonl"));
}

/// The reviewed file.
pub(crate) fn differences() -> Differences {
    Differences::load(&plays::path("differences", "toml")).expect("the reviewed differences can be read")
}

/// What of the `plays` differs from the `expected` transcripts without being listed, and what is listed in vain.
pub(crate) fn report(
    differences: &Differences,
    plays: &[Play],
    expected: impl Fn(&str) -> Result<Transcript, String>,
) -> String {
    let (mut report, mut needed) = (String::new(), Needed::default());
    for Play { script, outcome } in plays {
        match expected(script).and_then(|expected| Ok((expected, outcome.clone()?))) {
            Err(reason) => list(&mut report, script, &[reason]),
            Ok((expected, actual)) => {
                let judgement = differences.judge(script, &expected, &actual);
                needed.extend(judgement.needed);
                list(&mut report, script, &judgement.unexplained);
            }
        }
    }
    list(&mut report, "not needed in differences.toml", &differences.stale(&needed));
    report
}

/// Adds the mismatches of a script to a report.
pub(crate) fn list(report: &mut String, script: &str, mismatches: &[impl std::fmt::Display]) {
    if mismatches.is_empty() {
        return;
    }
    writeln!(report, "== {script}").expect("a string takes it");
    for mismatch in mismatches {
        writeln!(report, "   {mismatch}").expect("a string takes it");
    }
}
