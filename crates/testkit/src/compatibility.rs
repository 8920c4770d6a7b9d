//! Checks with real binaries of many versions: each becomes a cell, which says why where it is not passed.
//!
//! `cargo xtask compatibility` names the binaries and makes a page of the cells. Without it, the one binary that the tests
//! have must pass every check.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::{fs, thread};

use serde::Serialize;

use crate::{HANG_TIMEOUT, codex};

/// Names binaries, one a line: the version, a space, the path.
const BINARIES: &str = "SWITCHBOARD_CODEX_VERSIONS";
/// Names the file for the cells.
const CELLS: &str = "SWITCHBOARD_CODEX_CELLS";

const NEWEST: &str = include_str!("../../../schema/VERSION");

/// Versions that are checked at the same time: they mostly wait.
const AT_ONCE: usize = 3;

/// The checks of one version, by name, in the order of the page.
pub type Cells = Vec<(&'static str, Cell)>;

/// What came of one check.
#[derive(Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Cell {
    /// It holds; the text adds what the check found out, if anything.
    Passed(String),
    /// The version cannot do it, and that is said instead of tried.
    Absent(String),
    /// It does not hold.
    Failed(String),
}

/// Why a check is not passed.
#[derive(Debug)]
pub enum Obstacle {
    /// The version cannot do it, in the words of who refused.
    Absent(String),
    /// It does not hold.
    Failed(String),
}

#[derive(Serialize)]
struct Row {
    version: String,
    cells: Cells,
}

/// Checks every version, and tells what came of it.
///
/// # Panics
/// If nobody makes a page of it and a check is not passed.
pub fn examine(check: impl Fn(&str, &Path) -> Cells + Sync) {
    let binaries = binaries();
    let next = AtomicUsize::new(0);
    let examine_some = || {
        let mut rows = Vec::new();
        while let Some((version, binary)) = binaries.get(next.fetch_add(1, Ordering::Relaxed)) {
            rows.push(Row { version: version.clone(), cells: check(version, binary) });
        }
        rows
    };
    let mut rows = thread::scope(|scope| {
        let examining: Vec<_> = (0..AT_ONCE).map(|_| scope.spawn(examine_some)).collect();
        let rows =
            examining.into_iter().map(|some| some.join().expect("a check that fails says so and does not panic"));
        rows.flatten().collect::<Vec<Row>>()
    });
    rows.sort_by_key(|row| binaries.iter().position(|(version, _)| *version == row.version));
    tell(&rows);
}

/// Makes a check a cell, within the time that it may take.
pub async fn cell(check: impl Future<Output = Result<String, Obstacle>>) -> Cell {
    match tokio::time::timeout(HANG_TIMEOUT, check).await {
        Ok(Ok(found)) => Cell::Passed(found),
        Ok(Err(Obstacle::Absent(why))) => Cell::Absent(why),
        Ok(Err(Obstacle::Failed(why))) => Cell::Failed(why),
        Err(_) => Cell::Failed(format!("not over after {HANG_TIMEOUT:?}")),
    }
}

/// Fails a check unless something holds.
pub fn ensure(holds: bool, otherwise: impl FnOnce() -> String) -> Result<(), Obstacle> {
    if holds { Ok(()) } else { Err(Obstacle::Failed(otherwise())) }
}

/// A check that has nothing to add.
pub fn passed() -> Result<String, Obstacle> {
    Ok(String::new())
}

/// Versions and their binaries, oldest first.
#[must_use]
pub fn binaries() -> Vec<(String, PathBuf)> {
    match std::env::var(BINARIES) {
        Ok(lines) => {
            let pairs = lines.lines().map(|line| line.split_once(' ').expect("a version and a path"));
            pairs.map(|(version, path)| (version.into(), path.into())).collect()
        }
        Err(_) => vec![(NEWEST.trim().into(), codex::binary().expect("a codex to check"))],
    }
}

fn tell(rows: &[Row]) {
    if let Some(file) = std::env::var_os(CELLS) {
        let cells = serde_json::to_vec_pretty(rows).expect("cells are written as JSON");
        return fs::write(file, cells).expect("the cells can be written");
    }
    for Row { version, cells } in rows {
        for (check, cell) in cells {
            assert!(matches!(cell, Cell::Passed(_)), "codex {version}, {check}: {cell:?}");
        }
    }
}
