//! `cargo xtask`: the commands of development, one file each.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "the output of a command-line program")]

mod audit;
mod bench;
mod clients;
mod codex;
mod compatibility;
mod difference;
mod faults;
mod fuzz;
mod install;
mod record;
mod run;
mod schema;
mod schemathesis;
mod soak;
mod test;
mod tidy;
mod tool_servers;
mod workspace;

use std::process::ExitCode;

use clap::Parser as _;

/// Development commands of this workspace.
#[derive(clap::Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
enum Command {
    /// Run everything that says whether the tree is right
    Test(test::Arguments),
    /// Check the rules of the repository that no compiler knows
    Tidy,
    /// Get the app-server schema from a real codex and write (or check) `schema/`
    Schema(schema::Arguments),
    /// Check the client against every tested codex and write `docs/compatibility.md`
    Compatibility(compatibility::Arguments),
    /// Try real OpenAI clients against a running server, as `docs/openai-clients.md` says
    Clients(clients::Arguments),
    /// Try real tool servers behind a running server, with real MCP clients and the conformance suite
    ToolServers,
    /// Record the real codex anew into `transcripts/`
    Record(record::Arguments),
    /// Play every fault of `docs/faults.md` against real processes
    Faults,
    /// Look for inputs that break a parser, with cargo-fuzz and a nightly toolchain
    Fuzz(fuzz::Arguments),
    /// Put a server under load for a while, and see that nothing of it grows
    Soak(soak::Arguments),
    /// Hold a running server against its own description, with requests that schemathesis makes of it
    Schemathesis,
    /// Judge our dependencies by `deny.toml`
    Audit,
    /// Run a benchmark
    Bench(bench::Arguments),
}

fn main() -> ExitCode {
    let done = match Command::parse() {
        Command::Test(arguments) => test::run(&arguments),
        Command::Tidy => tidy::run(),
        Command::Schema(arguments) => schema::run(&arguments),
        Command::Compatibility(arguments) => compatibility::run(&arguments),
        Command::Clients(arguments) => clients::run(&arguments),
        Command::ToolServers => tool_servers::run(),
        Command::Record(arguments) => record::run(&arguments),
        Command::Faults => faults::run(),
        Command::Fuzz(arguments) => fuzz::run(&arguments),
        Command::Soak(arguments) => soak::run(&arguments),
        Command::Schemathesis => schemathesis::run(),
        Command::Audit => audit::run(),
        Command::Bench(arguments) => bench::run(&arguments),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
