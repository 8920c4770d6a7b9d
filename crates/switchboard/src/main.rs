//! The switchboard binary: the table of its commands.

#![expect(clippy::print_stderr, reason = "a command line tells its user what went wrong")]

mod ask;
mod record;
mod replay;
mod schema;
mod worker;

use std::process::ExitCode;

use clap::Parser;

/// Connects callers to coding agents.
#[derive(Parser)]
#[command(version, arg_required_else_help = true)]
enum Command {
    /// Run one turn here and stream its answer
    Ask(ask::Ask),
    /// Show the app-server protocol that is built in, or how a codex binary's differs
    #[command(subcommand)]
    Schema(schema::Schema),
    /// Pass everything on between a client on stdin and stdout and the worker that CMD starts, and keep what was said
    Record(record::Record),
    /// Be a worker that answers as a recorded one did
    Replay(replay::Replay),
    /// Be a deterministic worker that speaks the app-server protocol, for demonstration and tests
    DemoWorker(demo::Options),
}

fn main() -> ExitCode {
    match Command::parse() {
        Command::Ask(ask) => ask::run(&ask),
        Command::Schema(schema) => schema::run(&schema),
        Command::Record(record) => record::run(&record),
        Command::Replay(replay) => replay::run(&replay),
        Command::DemoWorker(options) => demo::run(&options).unwrap_or_else(|error| {
            eprintln!("demo-worker: {error}");
            ExitCode::FAILURE
        }),
    }
}
