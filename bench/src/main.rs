//! Benchmarks. Contenders run in turns in one process, CPU time counts, and what is judged are ratios.

#![expect(clippy::print_stdout, reason = "a benchmark prints its result")]

mod codex;
mod cpu;
mod demo;
mod front;
mod lines;
mod process;
mod program;
mod rounds;
mod tools;
mod turns;
mod wire;

use clap::Parser;

use rounds::Parts;

/// As the binary has it, so that nobody is ahead by it.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Measures one part of Switchboard against others in the same run.
#[derive(Parser)]
enum Bench {
    /// The peek at an envelope: against codex-codes, `serde_json::Value`, and the newline split alone.
    Wire,
    /// The meaning of a line, as an event and as a typed value: against codex-codes.
    Codex,
    /// The demo worker: delta lines for each second of CPU time, and memory with idle threads.
    Demo,
    /// Turns of the pool: CPU time, added latency and memory against the bare client, and the time to be ready.
    Turns,
    /// The whole server under load: CPU time and memory against a bare server, first tokens against the bare client, and a peer.
    Front(Parts<front::Part>),
    /// Tool servers behind `/mcp`: calls against the same server reached directly and by a bare bridge, starts, and memory.
    Tools(Parts<tools::Part>),
    /// The demo worker itself, as the process that is measured.
    #[command(hide = true)]
    DemoWorker(::demo::Options),
    /// The bare server, as the process that is measured.
    #[command(hide = true)]
    BareServer,
    /// The bare bridge to a tool server, likewise.
    #[command(hide = true)]
    BareBridge,
    /// The scripted provider behind a peer.
    #[command(hide = true)]
    Upstream,
}

fn main() -> anyhow::Result<()> {
    match Bench::parse() {
        Bench::Wire => wire::run(),
        Bench::Codex => codex::run(),
        Bench::Demo => demo::run(),
        Bench::Turns => turns::run(),
        Bench::Front(parts) => front::run(&parts),
        Bench::Tools(parts) => tools::run(&parts),
        Bench::BareBridge => tools::bridge::run(),
        Bench::BareServer => front::bare::run(),
        Bench::Upstream => front::upstream::run(),
        Bench::DemoWorker(options) => Ok(::demo::run(&options).map(drop)?),
    }
}
