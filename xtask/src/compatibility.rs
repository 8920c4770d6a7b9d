//! `cargo xtask compatibility`: what the client and chats can do with each tested version of codex, as
//! `docs/compatibility.md`. The checks are tests of the crates `codex` and `front`; this command installs the binaries, names
//! them to the tests, and makes a page of what they found. `--check` compares instead of writing.

use std::path::PathBuf;
use std::time::Duration;
use std::{fs, thread};

use anyhow::{Context as _, Result, bail};

use crate::codex::{self, Codex};
use crate::difference;
use crate::run;
use crate::workspace::{self, Workspace};

mod cells;
mod chat;
mod client;

use cells::Row;

/// Names the binaries to the tests, one a line: the version, a space, the path.
const BINARIES: &str = "SWITCHBOARD_CODEX_VERSIONS";
/// Names the file into which a test writes its cells.
const CELLS: &str = "SWITCHBOARD_CODEX_CELLS";

const HEAD: &str = "\
# Compatibility

<!-- Written by `cargo xtask compatibility`; `cargo xtask test` checks that it is still true. -->

Every cell was found with the real binary of that version from npm, in a home of its own, with a stand-in for the model.
";

const PAGE: &str = "docs/compatibility.md";
const CHECKS_TIMEOUT: Duration = Duration::from_secs(20 * 60);

/// Downloads that share the line.
const INSTALLS_AT_ONCE: usize = 3;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Write nothing; fail if the page is not what the checks find
    #[arg(long)]
    check: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let binaries = binaries()?;
    if arguments.check { check(&binaries) } else { write(&binaries) }
}

/// A binary of each tested version, oldest first.
pub(crate) fn binaries() -> Result<Vec<Codex>> {
    let versions = codex::tested_versions()?;
    let mut binaries = Vec::new();
    for group in versions.chunks(INSTALLS_AT_ONCE) {
        let installed: Vec<Result<Codex>> = thread::scope(|scope| {
            let installing: Vec<_> = group.iter().map(|version| scope.spawn(|| Codex::published(version))).collect();
            let ended = installing.into_iter().map(thread::ScopedJoinHandle::join);
            ended.map(|codex| codex.unwrap_or_else(|_| bail!("the installation panicked"))).collect()
        });
        for (codex, version) in installed.into_iter().zip(group) {
            binaries.push(codex.with_context(|| format!("no codex {version}"))?);
        }
    }
    Ok(binaries)
}

/// Fails with the first differences between the page and what the checks find.
pub(crate) fn check(binaries: &[Codex]) -> Result<()> {
    let committed = fs::read_to_string(path()).unwrap_or_default();
    if let Some(difference) = difference::between(&committed, &page(binaries)?) {
        bail!("{PAGE} is not what the checks find; `cargo xtask compatibility` rewrites it\n{difference}");
    }
    println!("{PAGE} is what the checks find");
    Ok(())
}

fn write(binaries: &[Codex]) -> Result<()> {
    fs::write(path(), page(binaries)?).with_context(|| format!("cannot write {PAGE}"))?;
    println!("{PAGE} written: look at `git diff {PAGE}`");
    Ok(())
}

fn path() -> PathBuf {
    workspace::root().join(PAGE)
}

fn page(binaries: &[Codex]) -> Result<String> {
    let client = client::part(&found_by("codex", binaries)?)?;
    let chat = chat::part(&found_by("front", binaries)?)?;
    Ok([HEAD, &client, &chat].concat())
}

/// What the checks of a crate find.
fn found_by(package: &str, binaries: &[Codex]) -> Result<Vec<Row>> {
    let file = Workspace::load()?.target_directory.join(format!("codex/{package}-cells.json"));
    fs::remove_file(&file).ok();
    let named: Vec<_> = binaries.iter().map(|codex| format!("{} {}", codex.version, codex.binary.display())).collect();
    let mut cargo = run::cargo("test --test it");
    cargo.args(["--package", package, "--features", &format!("{package}/real-codex"), "compatibility"]);
    cargo.env(BINARIES, named.join("\n")).env(CELLS, &file);
    run::to_end(&mut cargo, CHECKS_TIMEOUT)?;
    let cells = fs::read(&file).with_context(|| format!("the checks have left no {}", file.display()))?;
    serde_json::from_slice(&cells).context("the checks' cells cannot be read")
}
