//! The demo worker as a program of its own.

use std::process::ExitCode;

use clap::Parser;

/// Speak the app-server protocol as a codex worker does, without a model.
#[derive(Parser)]
#[command(name = "demo-worker", version)]
struct CommandLine {
    #[command(flatten)]
    options: demo::Options,
}

fn main() -> ExitCode {
    match demo::run(&CommandLine::parse().options) {
        Ok(code) => code,
        Err(error) => {
            #[expect(clippy::print_stderr, reason = "a program tells its user why it ends")]
            {
                eprintln!("demo-worker: {error}");
            }
            ExitCode::FAILURE
        }
    }
}
