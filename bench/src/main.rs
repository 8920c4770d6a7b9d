//! Benchmarks. Contenders run in turns in one process, CPU time counts, and what is judged are ratios.

#![expect(clippy::print_stdout, reason = "a benchmark prints its result")]

mod cpu;
mod lines;
mod wire;

use clap::Parser;

/// Measures one part of Switchboard against others in the same run.
#[derive(Parser)]
enum Bench {
    /// The peek at an envelope: against codex-codes, `serde_json::Value`, and the newline split alone.
    Wire,
}

fn main() -> anyhow::Result<()> {
    match Bench::parse() {
        Bench::Wire => wire::run(),
    }
}
