//! The client against real binaries of many versions: every check becomes a cell, which says why where it is not passed.
//!
//! `cargo xtask compatibility` names the binaries and makes a table of the cells. Without it, the one binary that the
//! tests have must pass every check.

mod checks;
pub(crate) mod lab;

use std::fs;
use std::path::PathBuf;

use serde::Serialize;
use testkit::codex;

use lab::Lab;

/// Names binaries, one a line: the version, a space, the path.
const BINARIES: &str = "SWITCHBOARD_CODEX_VERSIONS";
/// Names the file for the cells.
const CELLS: &str = "SWITCHBOARD_CODEX_CELLS";

const NEWEST: &str = include_str!("../../../../schema/VERSION");

/// Versions that are checked at the same time: they mostly wait.
const AT_ONCE: usize = 3;

/// What came of all checks of one version, in the order of the table.
#[derive(Serialize)]
struct Row {
    version: String,
    cells: Vec<(&'static str, Cell)>,
}

/// What came of one check.
#[derive(Debug, Serialize)]
#[serde(rename_all = "snake_case")]
enum Cell {
    /// It holds; the text adds what the check found out, if anything.
    Passed(String),
    /// The version cannot do it, and the client says so instead of trying.
    Absent(String),
    /// It does not hold.
    Failed(String),
}

#[test]
fn every_version_passes_what_it_can() {
    let labs: Vec<Lab> = binaries().into_iter().map(|(version, binary)| Lab::new(version, binary)).collect();
    let rows: Vec<Row> = labs.chunks(AT_ONCE).flat_map(examined).collect();
    match std::env::var_os(CELLS) {
        Some(file) => fs::write(file, serde_json::to_vec_pretty(&rows).unwrap()).unwrap(),
        None => {
            for Row { version, cells } in &rows {
                for (check, cell) in cells {
                    assert!(matches!(cell, Cell::Passed(_)), "codex {version}, {check}: {cell:?}");
                }
            }
        }
    }
}

#[test]
fn the_examples_run_with_the_newest() {
    let (version, binary) = binaries().pop().unwrap();
    let lab = Lab::new(version, binary);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let stage = lab.stage();
        stage.one_turn_streams().await;
        stage.approvals_are_typed_by_a_person().await;
        stage.a_tool_is_called().await;
        stage.a_thread_goes_on_and_is_listed().await;
    });
}

fn examined(labs: &[Lab]) -> Vec<Row> {
    std::thread::scope(|scope| {
        let rows: Vec<_> = labs.iter().map(|lab| scope.spawn(|| checks::row(lab))).collect();
        rows.into_iter().map(|row| row.join().unwrap()).collect()
    })
}

/// Versions and their binaries.
fn binaries() -> Vec<(String, PathBuf)> {
    match std::env::var(BINARIES) {
        Ok(lines) => {
            let pairs = lines.lines().map(|line| line.split_once(' ').unwrap());
            pairs.map(|(version, path)| (version.into(), path.into())).collect()
        }
        Err(_) => {
            vec![(NEWEST.trim().into(), codex::binary().unwrap())]
        }
    }
}
