//! `cargo xtask bench`: runs a benchmark of the `bench` package, which is built only for this.

use std::time::Duration;

use anyhow::Result;

use crate::run;

const BENCH_TIMEOUT: Duration = Duration::from_secs(60 * 60);

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// What to measure: `wire`, `codex`, `demo` or `turns`
    name: String,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let mut cargo = run::cargo("run --release --package bench --");
    Ok(run::to_end(cargo.arg(&arguments.name), BENCH_TIMEOUT)?)
}
