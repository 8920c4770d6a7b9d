//! `cargo xtask bench`: runs a benchmark of the `bench` package, which is built only for this.

use std::time::Duration;

use anyhow::Result;

use crate::run;
use crate::workspace::Workspace;

const BUILD_TIMEOUT: Duration = Duration::from_secs(60 * 60);
const BENCH_TIMEOUT: Duration = Duration::from_secs(60 * 60);

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// What to measure: `wire`, `codex`, `demo`, `turns`, `front` or `tools`
    name: String,
    /// Only these parts of it, such as `whole` and `streams` of `front`
    parts: Vec<String>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    // The binary too, which `front` and `tools` measure: built together, so that both have what they share in common.
    run::to_end(&mut run::cargo("build --release --package bench --package switchboard"), BUILD_TIMEOUT)?;
    if arguments.name == "tools" {
        run::to_end(&mut run::cargo("build --release --package tools --example template"), BUILD_TIMEOUT)?;
    }
    let bench = Workspace::load()?.target_directory.join("release/bench");
    Ok(run::to_end(run::program(bench).arg(&arguments.name).args(&arguments.parts), BENCH_TIMEOUT)?)
}
