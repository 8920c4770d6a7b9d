//! The switchboard binary: the table of its commands.

#![expect(clippy::print_stderr, reason = "a command line tells its user what went wrong")]

mod ask;
mod bench;
mod config;
mod doctor;
mod logs;
mod object;
mod operate;
mod print;
mod record;
mod replay;
mod schema;
mod serve;
mod server;
mod signals;
mod tools;
mod worker;

use std::future::Future;
use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;

/// A turn is many small pieces, made by one thread and freed by another: with the system's allocator they take an eighth of the
/// server's time.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Where everything that must survive is kept, in the state directory.
const STORE_FILE: &str = "switchboard.db";
/// How long threads of the runtime may take to end what they are at when the command is over.
const THREADS_GRACE: std::time::Duration = std::time::Duration::from_secs(1);

/// Connects callers to coding agents.
#[derive(Parser)]
#[command(version, arg_required_else_help = true)]
enum Command {
    /// Serve turns, approvals and workers over HTTP
    Serve(serve::Serve),
    /// Run one turn here and stream its answer
    Ask(ask::Ask),
    /// List the workers of a running server, or restart one
    Workers(operate::workers::Workers),
    /// List the threads of a running server, or show one
    Threads(operate::threads::Threads),
    /// List what waits for a decision, and decide it
    Approvals(operate::approvals::Approvals),
    /// List the keys of a running server, make one or revoke one
    Keys(operate::keys::Keys),
    /// Show how many tokens the keys of a running server have used
    Usage(operate::usage::Usage),
    /// Show what the configuration file says that is not in effect, and accept it
    Config(operate::config::Config),
    /// List the MCP tool servers, check them, call their tools, or offer them to an MCP client
    Tools(tools::Tools),
    /// Look for what is wrong here, and say what to do
    Doctor(doctor::Doctor),
    /// Put the same load on this or any other server of the OpenAI API, and say how it bears it
    Bench(bench::Bench),
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
        Command::Serve(serve) => wait_for_many(serve::run(&serve)),
        Command::Ask(ask) => ask::run(&ask),
        Command::Workers(workers) => wait_for(operate::workers::run(&workers)),
        Command::Threads(threads) => wait_for(operate::threads::run(&threads)),
        Command::Approvals(approvals) => wait_for(operate::approvals::run(&approvals)),
        Command::Keys(keys) => wait_for(operate::keys::run(&keys)),
        Command::Usage(usage) => wait_for(operate::usage::run(&usage)),
        Command::Config(config) => wait_for(operate::config::run(&config)),
        Command::Tools(tools) => tools::run(&tools),
        Command::Doctor(doctor) => wait_for(doctor::run(&doctor)),
        Command::Bench(bench) => wait_for_many(bench::run(&bench)),
        Command::Schema(schema) => schema::run(&schema),
        Command::Record(record) => record::run(&record),
        Command::Replay(replay) => replay::run(&replay),
        Command::DemoWorker(options) => demo::run(&options).unwrap_or_else(|error| {
            eprintln!("demo-worker: {error}");
            ExitCode::FAILURE
        }),
    }
}

/// Runs a command that waits for others more than it works.
fn wait_for(command: impl Future<Output = Result<ExitCode>>) -> ExitCode {
    finish(tokio::runtime::Builder::new_current_thread(), command)
}

/// Runs a command that serves many at once.
fn wait_for_many(command: impl Future<Output = Result<ExitCode>>) -> ExitCode {
    finish(tokio::runtime::Builder::new_multi_thread(), command)
}

fn finish(mut runtime: tokio::runtime::Builder, command: impl Future<Output = Result<ExitCode>>) -> ExitCode {
    let runtime = runtime.enable_all().build();
    let done = runtime.map_err(Into::into).and_then(|runtime| {
        let done = runtime.block_on(command);
        // What a thread is still at that cannot be interrupted ends with the process.
        runtime.shutdown_timeout(THREADS_GRACE);
        done
    });
    done.unwrap_or_else(|error| {
        crate::print::complain(&error);
        ExitCode::FAILURE
    })
}
