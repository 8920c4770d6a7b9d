//! `cargo xtask tool-servers`: real tool servers behind a running server, which real MCP clients and the conformance suite try.
//! This command installs them below `target/tool-servers`, in the versions that `tool-servers/` pins, and builds our own; a test of
//! the crate `switchboard` starts everything and plays the scenarios.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use anyhow::{Result, bail};

use crate::workspace::{self, Workspace};
use crate::{install, run};

/// Names to the test where everything was installed.
const PLACE: &str = "SWITCHBOARD_TOOL_SERVERS";

/// The environments of Python's, by their requirements: the servers with the newest SDK, and the SDK that knows the older era alone.
const ENVIRONMENTS: [&str; 2] = ["servers", "legacy"];

/// A build, and every client and scenario.
const TIMEOUT: Duration = Duration::from_secs(30 * 60);

pub(crate) fn run() -> Result<()> {
    check(&installed()?)
}

/// Everything that is tried, installed if it was not; where it lies is returned.
pub(crate) fn installed() -> Result<PathBuf> {
    let place = Workspace::load()?.target_directory.join("tool-servers");
    fs::create_dir_all(&place)?;
    let pinned = workspace::root().join("tool-servers");
    let mut scripts = install::scripts_in(&pinned.join("clients"))?;
    scripts.push(workspace::root().join("examples/tool-servers/typescript/server.ts"));
    thread::scope(|scope| {
        let node = scope.spawn(|| install::for_node(&pinned.join("node"), &place.join("node"), &scripts));
        for name in ENVIRONMENTS {
            let requirements = pinned.join("python/requirements").join(name).with_extension("txt");
            install::for_python(&place.join(format!("python-{name}")), &requirements)?;
        }
        node.join().unwrap_or_else(|_| bail!("the installation panicked"))
    })?;
    Ok(place)
}

/// Fails if anything that is tried fails.
pub(crate) fn check(place: &Path) -> Result<()> {
    run::to_end(
        &mut run::cargo("build --package tools --example template --example fixture --example conformance_client"),
        TIMEOUT,
    )?;
    let mut cargo =
        run::cargo("test --package switchboard --features switchboard/tool-servers --test it tool_servers::");
    run::to_end(cargo.env(PLACE, place).args(["--", "--nocapture"]), TIMEOUT)?;
    Ok(())
}
