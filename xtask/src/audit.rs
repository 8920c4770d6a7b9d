//! `cargo xtask audit`: what we depend on, by the rules of deny.toml.
//! Licences, bans, duplicate versions and sources are judged from the lock file alone; advisories need a database
//! from the network and are skipped, with the reason, where it cannot be had.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;

use crate::run;
use crate::workspace::Workspace;

const CARGO_DENY: &str = "0.20.2";

/// It is built from source, which takes minutes on a small machine.
const INSTALL_TIMEOUT: Duration = Duration::from_secs(60 * 60);
const FETCH_TIMEOUT: Duration = Duration::from_secs(3 * 60);
const CHECK_TIMEOUT: Duration = Duration::from_secs(5 * 60);

pub(crate) fn run() -> Result<()> {
    let tool = installed()?;
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

/// The pinned cargo-deny below target/, installed on first use.
fn installed() -> Result<PathBuf> {
    let place = Workspace::load()?.target_directory.join("tools");
    let tool = place.join("bin/cargo-deny");
    let version = run::stdout_of(run::program(&tool).arg("--version"), CHECK_TIMEOUT).unwrap_or_default();
    if version.split_whitespace().last() != Some(CARGO_DENY) {
        println!("installing cargo-deny {CARGO_DENY} into {}", place.display());
        let mut cargo = run::cargo("install --locked --force --root");
        cargo.arg(place).arg(format!("cargo-deny@{CARGO_DENY}"));
        run::to_end(&mut cargo, INSTALL_TIMEOUT)?;
    }
    Ok(tool)
}
