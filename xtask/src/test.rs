//! `cargo xtask test`: the one command that says whether the tree is right.
//! Every step runs, whatever became of the others, and the end lists what failed and what was skipped and why.
//! With `CI=true` a skip is a failure.

use std::env;
use std::time::Instant;

use anyhow::{Result, bail};

mod steps;
mod verdict;

use steps::{STEPS, Step};
use verdict::{Ended, Outcome, Strictness, Verdict};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Run these steps alone
    #[arg(long, value_name = "STEP", value_parser = steps::names())]
    only: Vec<String>,
    /// Name the steps and run none
    #[arg(long)]
    list: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    if arguments.list {
        for step in &STEPS {
            println!("{:<12} {}", step.name, step.promise);
        }
        return Ok(());
    }
    let is_chosen = |step: &&Step| arguments.only.is_empty() || arguments.only.iter().any(|name| name == step.name);
    let chosen: Vec<&Step> = STEPS.iter().filter(is_chosen).collect();
    let started = Instant::now();
    let ended: Vec<Ended> =
        chosen.iter().enumerate().map(|(index, step)| play(step, index + 1, chosen.len())).collect();
    let strictness =
        if env::var("CI").is_ok_and(|value| value == "true") { Strictness::SkipsFail } else { Strictness::SkipsPass };
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
    let outcome = (step.run)().unwrap_or_else(|error| Outcome::Failed(format!("{error:#}")));
    let took = started.elapsed();
    println!("[{number}/{of}] {} {}, {} s", step.name, outcome.word(), took.as_secs());
    Ended { step: step.name, outcome, took }
}
