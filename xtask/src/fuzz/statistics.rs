//! What libFuzzer says of a run, as one line.

use std::fmt;
use std::path::PathBuf;

/// What came of a run.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Statistics {
    executions: u64,
    /// At the beginning, with the corpus that was there, and at the end.
    reached: (Reached, Reached),
    /// Inputs that broke something.
    pub(super) findings: Vec<PathBuf>,
}

/// How much code the corpus reaches, and how many inputs it has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Reached {
    edges: u64,
    inputs: u64,
}

impl Statistics {
    pub(super) fn of(log: &str, findings: Vec<PathBuf>) -> Self {
        let executions = log.lines().find_map(|line| line.strip_prefix("stat::number_of_executed_units:"));
        let mut reached = log.lines().filter_map(Reached::of);
        let first = log.lines().find(|line| line.contains("INITED")).and_then(Reached::of);
        let last = reached.next_back().or(first).unwrap_or_default();
        // A crash ends a run before it says its numbers.
        let at_last = log.lines().rev().find_map(number_of_line).unwrap_or_default();
        let executions = executions.and_then(|number| number.trim().parse().ok()).unwrap_or(at_last);
        Self { executions, reached: (first.unwrap_or_default(), last), findings }
    }
}

impl Reached {
    /// Of a line such as `#6 INITED cov: 350 ft: 351 corp: 5/30b exec/s: 0 rss: 30Mb`.
    fn of(line: &str) -> Option<Self> {
        number_of_line(line)?;
        let behind = |name: &str| line.split_whitespace().skip_while(|word| *word != name).nth(1);
        let inputs = behind("corp:")?.split('/').next()?;
        Some(Self { edges: behind("cov:")?.parse().ok()?, inputs: inputs.parse().ok()? })
    }
}

fn number_of_line(line: &str) -> Option<u64> {
    line.strip_prefix('#')?.split_whitespace().next()?.parse().ok()
}

impl fmt::Display for Statistics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { executions, reached: (first, last), findings } = self;
        write!(
            f,
            "{executions} executions, {} → {} edges, {} → {} inputs, {} findings",
            first.edges,
            last.edges,
            first.inputs,
            last.inputs,
            findings.len()
        )?;
        findings.iter().try_for_each(|finding| write!(f, "\n  {}", finding.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::Statistics;

    const LOG: &str = "INFO: Running with entropic power schedule (0xFF, 100).\n\
        #27\tINITED cov: 2110 ft: 5309 corp: 26/10Kb exec/s: 0 rss: 48Mb\n\
        #512\tNEW    cov: 2114 ft: 5320 corp: 27/10Kb lim: 4096 exec/s: 512 rss: 50Mb L: 9/4000 MS: 1 EraseBytes-\n";

    #[test]
    fn a_run_is_told_by_its_first_and_its_last_line() {
        let log = format!(
            "{LOG}#9000\tDONE   cov: 2115 ft: 5321 corp: 28/10Kb lim: 4096 exec/s: 1000 rss: 51Mb\n\
             stat::number_of_executed_units: 9001\n"
        );
        let told = "9001 executions, 2110 → 2115 edges, 26 → 28 inputs, 0 findings";
        assert_eq!(Statistics::of(&log, Vec::new()).to_string(), told);
    }

    #[test]
    fn a_run_that_a_crash_ended_is_told_as_far_as_it_went() {
        let log = format!("{LOG}thread '<unnamed>' panicked at crates/wire/src/framer.rs:1:1:\n");
        let told = "512 executions, 2110 → 2114 edges, 26 → 27 inputs, 0 findings";
        assert_eq!(Statistics::of(&log, Vec::new()).to_string(), told);
        assert_eq!(Statistics::of("", Vec::new()), Statistics::default());
    }
}
