//! `switchboard workers`: how the workers are, and starting one anew.

use std::process::ExitCode;

use anyhow::Result;
use approvals::Stamp;
use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::{EXIT_CODES, ServerFlags, cell, rows, segment};
use crate::print::table;

#[derive(Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct Workers {
    #[command(subcommand)]
    action: Option<Action>,
    #[command(flatten)]
    flags: ServerFlags,
}

#[derive(Subcommand)]
enum Action {
    /// List the workers (what it does without a word)
    List,
    /// Start a worker anew, also one that has failed; turns that it runs are lost
    Restart {
        /// Its name, such as main-0
        name: String,
    },
}

/// Runs the command.
pub(crate) async fn run(workers: &Workers) -> Result<ExitCode> {
    match &workers.action {
        None | Some(Action::List) => workers.flags.ask(async |server| server.get("/api/workers").await, list).await,
        Some(Action::Restart { name }) => {
            let path = format!("/api/workers/{}/restart", segment(name));
            let restarting = |_: &Value| format!("{} is restarting\n", cell(&Value::from(name.as_str())));
            workers.flags.ask(async |server| server.post(&path, &json!({})).await, restarting).await
        }
    }
}

pub(super) fn list(answer: &Value) -> String {
    let heading = ["NAME", "STATE", "PID", "WORKER", "DIALECT", "TURNS", "THREADS", "RESTARTS"];
    let fields = ["name", "state", "pid", "user_agent", "dialect", "turns", "threads_loaded", "restarts"];
    let mut text = table(heading, &rows(answer, "workers", fields));
    for [name, reason] in rows(answer, "workers", ["name", "reason"]).into_iter().filter(|[_, reason]| reason != "–")
    {
        text.push_str(&format!("{name}: {reason}\n"));
    }
    let waiting = answer["workers"].as_array().into_iter().flatten();
    for (worker, at) in waiting.filter_map(|worker| Some((worker, worker["retry_at"].as_i64()?))) {
        text.push_str(&format!("{}: next attempt at {}\n", cell(&worker["name"]), Stamp(at)));
    }
    text
}
