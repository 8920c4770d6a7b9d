//! The fault run: each test that plays a fault does it under a name of `docs/faults.md`, in rounds that are scaled, with a
//! seed that is printed, and leaves one row of what came of it. A fault whose test ends in any other way than by saying
//! that its oracle held has failed.
#![expect(clippy::print_stdout, reason = "the harness shows what a test has printed if it fails")]

use std::fmt::Display;
use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::json;

/// The list of faults, and what must hold in each.
const LIST: &str = include_str!("../../../docs/faults.md");

/// Where rows are left, if anywhere.
const DIRECTORY: &str = "SWITCHBOARD_FAULTS_DIR";
/// The seed of a run to be played again.
const SEED: &str = "SWITCHBOARD_FAULTS_SEED";

/// A fault being played.
pub struct Fault {
    name: &'static str,
    /// How often it is played.
    pub rounds: u32,
    /// What is random in it.
    pub random: fastrand::Rng,
    seed: u64,
    measured: Vec<(&'static str, Measure)>,
    verdict: Verdict,
}

/// How often a fault is played.
#[derive(Clone, Copy, Debug)]
pub enum Rounds {
    /// So often for each unit of [`crate::scale`].
    PerUnit(u32),
    /// Once for so many units, and once at least.
    OncePerUnits(u32),
    /// Once, whatever the scale.
    Once,
}

enum Verdict {
    Failed,
    Held,
    Skipped(String),
}

#[derive(Clone, Copy, PartialEq, PartialOrd)]
enum Measure {
    Time(Duration),
    Bytes(u64),
    Count(u64),
}

impl Fault {
    /// Plays a fault of the list.
    ///
    /// # Panics
    /// If `docs/faults.md` does not list it.
    #[must_use]
    pub fn play(name: &'static str, rounds: Rounds) -> Self {
        let is_listed = LIST.lines().any(|line| line.starts_with(&format!("| {name} |")));
        assert!(is_listed, "docs/faults.md does not list the fault {name:?}: give it a line");
        let seed = std::env::var(SEED).map_or_else(|_| fastrand::u64(..), |seed| seed.parse().expect("a whole number"));
        println!("{name}: {SEED}={seed}");
        let rounds = match rounds {
            Rounds::PerUnit(rounds) => rounds.saturating_mul(crate::scale()),
            Rounds::OncePerUnits(units) => crate::scale().div_ceil(units),
            Rounds::Once => 1,
        };
        let random = fastrand::Rng::with_seed(seed);
        Self { name, rounds, random, seed, measured: Vec::new(), verdict: Verdict::Failed }
    }

    /// Keeps the longest time of its name.
    pub fn slowest(&mut self, what: &'static str, time: Duration) {
        self.most(what, Measure::Time(time));
    }

    /// Keeps the largest size of its name.
    pub fn peak(&mut self, what: &'static str, bytes: u64) {
        self.most(what, Measure::Bytes(bytes));
    }

    /// Adds to the count of its name.
    pub fn count(&mut self, what: &'static str, more: u64) {
        match self.measured.iter_mut().find(|(name, _)| *name == what) {
            Some((_, Measure::Count(count))) => *count += more,
            _ => self.measured.push((what, Measure::Count(more))),
        }
    }

    /// The oracle held in every round.
    pub fn held(mut self) {
        self.verdict = Verdict::Held;
    }

    /// It cannot be played here.
    pub fn skip(mut self, why: impl Display) {
        self.verdict = Verdict::Skipped(why.to_string());
    }

    fn most(&mut self, what: &'static str, measure: Measure) {
        match self.measured.iter_mut().find(|(name, _)| *name == what) {
            Some((_, most)) if *most < measure => *most = measure,
            Some(_) => {}
            None => self.measured.push((what, measure)),
        }
    }

    fn row(&self) -> String {
        let (verdict, why) = match &self.verdict {
            Verdict::Failed => ("FAILED", None),
            Verdict::Held => ("held", None),
            Verdict::Skipped(why) => ("skipped", Some(why)),
        };
        let measured: Vec<String> = self.measured.iter().map(|(what, measure)| format!("{what} {measure}")).collect();
        let row = json!({
            "fault": self.name,
            "rounds": self.rounds,
            "seed": self.seed,
            "verdict": verdict,
            "why": why,
            "measured": measured.join(", "),
        });
        format!("{row}\n")
    }
}

impl Drop for Fault {
    fn drop(&mut self) {
        let row = self.row();
        print!("{row}");
        let Some(directory) = std::env::var_os(DIRECTORY).map(PathBuf::from) else { return };
        let file = directory.join(format!("{}.jsonl", std::process::id()));
        let written = fs::create_dir_all(&directory)
            .and_then(|()| OpenOptions::new().create(true).append(true).open(&file))
            .and_then(|mut file| file.write_all(row.as_bytes()));
        if let Err(error) = written {
            println!("the row of {:?} is lost: {}: {error}", self.name, file.display());
        }
    }
}

impl Display for Measure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Time(time) if time.as_millis() < 10_000 => write!(f, "{} ms", time.as_millis()),
            Self::Time(time) => write!(f, "{} s", time.as_secs()),
            Self::Bytes(bytes) => write!(f, "{} MiB", bytes >> 20),
            Self::Count(count) => write!(f, "{count}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use expect_test::expect;

    use super::{Fault, Verdict};

    #[test]
    fn a_row_keeps_the_worst_of_all_rounds() {
        let mut fault = Fault {
            name: "an example",
            rounds: 2,
            random: fastrand::Rng::with_seed(7),
            seed: 7,
            measured: Vec::new(),
            verdict: Verdict::Held,
        };
        for milliseconds in [20, 30, 10] {
            fault.slowest("end", Duration::from_millis(milliseconds));
            fault.count("turns", 2);
        }
        fault.peak("memory", 5 << 20);
        expect![[r#"
            {"fault":"an example","measured":"end 30 ms, turns 6, memory 5 MiB","rounds":2,"seed":7,"verdict":"held","why":null}
        "#]]
        .assert_eq(&fault.row());
    }
}
