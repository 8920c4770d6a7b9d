//! `cargo xtask schemathesis`: a running server against its own description, with requests that schemathesis makes of it.
//! This command installs it below `target/schemathesis`, in the version that `clients/` pins; a test of the crate `switchboard` starts the
//! server and runs it.

use std::time::Duration;

use anyhow::{Context as _, Result};

use crate::workspace::{self, Workspace};
use crate::{install, run};

/// Names the program to the test.
const PROGRAM: &str = "SWITCHBOARD_SCHEMATHESIS";
const REQUIREMENTS: &str = "clients/python/requirements/schemathesis.txt";

/// A build, and some thousands of requests.
const TIMEOUT: Duration = Duration::from_secs(60 * 60);

pub(crate) fn run() -> Result<()> {
    let place = Workspace::load()?.target_directory.join("schemathesis");
    let python = install::for_python(&place, &workspace::root().join(REQUIREMENTS))?;
    let program = python.parent().context("Python lies in a directory")?.join("schemathesis");
    let mut cargo =
        run::cargo("test --package switchboard --features switchboard/schemathesis --test it schemathesis::");
    Ok(run::to_end(cargo.env(PROGRAM, program).args(["--", "--nocapture"]), TIMEOUT)?)
}
