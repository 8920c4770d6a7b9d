//! `cargo xtask soak`: the server under mixed load for a while, its workers killed again and again, and what it has measured against
//! limits. A test of the crate `switchboard` does it; this command builds it, optimised, and says how long.

use std::time::Duration;

use anyhow::Result;

use crate::run;

/// Name to the test how long it lasts, and who takes part.
const MINUTES: &str = "SWITCHBOARD_SOAK_MINUTES";
const ONLY: &str = "SWITCHBOARD_SOAK_ONLY";

const BUILD_TIMEOUT: Duration = Duration::from_secs(60 * 60);
/// For whatever still runs when the load is over.
const END_GRACE: Duration = Duration::from_secs(10 * 60);

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// How long the load lasts
    #[arg(long, value_name = "N", default_value_t = 20)]
    minutes: u32,
    /// Let only the callers take part whose names hold this, to find out whose doing it is that something grows
    #[arg(long, value_name = "PART", default_value = "")]
    only: String,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let cargo = |more: &str| {
        let test = "test --profile optimised --package switchboard --features switchboard/soak --test it";
        run::cargo(&format!("{test} {more}"))
    };
    run::to_end(&mut run::cargo("build --profile optimised --package tools --example gallery"), BUILD_TIMEOUT)?;
    run::to_end(&mut cargo("--no-run"), BUILD_TIMEOUT)?;
    let limit = Duration::from_secs(u64::from(arguments.minutes) * 60) + END_GRACE;
    let mut soak = cargo("soak:: -- --nocapture");
    Ok(run::to_end(soak.env(MINUTES, arguments.minutes.to_string()).env(ONLY, &arguments.only), limit)?)
}
