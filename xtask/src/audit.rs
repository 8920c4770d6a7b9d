//! `cargo xtask audit`: what we depend on, by the rules of deny.toml.
//! Licences, bans, duplicate versions and sources are judged from the lock file alone; advisories need a database
//! from the network and are skipped, with the reason, where it cannot be had.

use std::time::Duration;

use anyhow::Result;

use crate::{install, run};

const CARGO_DENY: &str = "0.20.2";

const FETCH_TIMEOUT: Duration = Duration::from_secs(3 * 60);
const CHECK_TIMEOUT: Duration = Duration::from_secs(5 * 60);

pub(crate) fn run() -> Result<()> {
    let tool = install::for_cargo("cargo-deny", CARGO_DENY)?;
    let deny = |arguments: &str| {
        let mut command = run::program(&tool);
        command.arg("--workspace").args(arguments.split_whitespace());
        command
    };
    run::to_end(&mut deny("check licenses bans sources"), CHECK_TIMEOUT)?;
    match run::stdout_of(&mut deny("fetch db"), FETCH_TIMEOUT) {
        Ok(_) => Ok(run::to_end(&mut deny("--offline check advisories"), CHECK_TIMEOUT)?),
        Err(failure) => {
            println!("advisories skipped, their database cannot be fetched: {}", failure.last_words());
            Ok(())
        }
    }
}
