//! `cargo xtask faults`: plays every fault of `docs/faults.md` and prints what came of each.
//! The tests leave their rows in a directory; a fault without a row, or with one that says anything but that its oracle
//! held, fails the run.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};

mod table;

use crate::{run, workspace};

/// The list of faults.
const LIST: &str = "docs/faults.md";
/// Where tests leave their rows.
const ROWS: &str = "SWITCHBOARD_FAULTS_DIR";
/// A build, and four minutes of faults on two slow cores.
const TIMEOUT: Duration = Duration::from_secs(20 * 60);
/// Tests multiply their rounds by this variable.
const SCALE: &str = "SWITCHBOARD_TEST_SCALE";
const FAULTS_SCALE: u32 = 10;

pub(crate) fn run() -> Result<()> {
    let listed = fs::read_to_string(workspace::root().join(LIST)).with_context(|| format!("{LIST} cannot be read"))?;
    let rows = tempfile::tempdir().context("no place for the rows")?;
    let mut cargo = run::cargo("test --no-fail-fast --profile optimised -p workers -p switchboard --test it");
    if std::env::var_os(SCALE).is_none() {
        cargo.env(SCALE, FAULTS_SCALE.to_string());
    }
    // Most of them wait most of the time.
    cargo.args(["--", "fault_run::", "--test-threads=4"]);
    let played = run::to_end(cargo.env(ROWS, rows.path()), TIMEOUT);
    let table = table::Table::of(&listed, &rows_in(rows.path())?)?;
    println!("\n{}", table.text);
    played?;
    match table.complaint {
        None => Ok(()),
        Some(complaint) => bail!(complaint),
    }
}

fn rows_in(directory: &Path) -> Result<String> {
    let mut rows = String::new();
    for entry in fs::read_dir(directory).context("the rows cannot be read")? {
        rows += &fs::read_to_string(entry?.path())?;
    }
    Ok(rows)
}
