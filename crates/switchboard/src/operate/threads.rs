//! `switchboard threads`: the threads that the server knows.

use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, Subcommand};
use serde_json::Value;

use super::{EXIT_CODES, ServerFlags, cell, rows, segment};
use crate::print::table;

#[derive(Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct Threads {
    #[command(subcommand)]
    action: Option<Action>,
    #[command(flatten)]
    flags: ServerFlags,
}

#[derive(Subcommand)]
enum Action {
    /// List threads, the newest first (what it does without a word)
    List {
        /// How many, up to 1000
        #[arg(long, default_value_t = 100)]
        limit: u32,
        /// Those before this one: `next` of the page before
        #[arg(long, value_name = "ID")]
        before: Option<String>,
    },
    /// Show everything that is known of a thread
    Show {
        /// Its id
        id: String,
    },
}

/// Runs the command.
pub(crate) async fn run(threads: &Threads) -> Result<ExitCode> {
    let list_all = Action::List { limit: 100, before: None };
    match threads.action.as_ref().unwrap_or(&list_all) {
        Action::List { limit, before } => {
            let before = before.as_ref().map(|id| format!("&before={}", segment(id))).unwrap_or_default();
            let path = format!("/api/threads?limit={limit}{before}");
            threads.flags.ask(async |server| server.get(&path).await, list).await
        }
        Action::Show { id } => {
            let path = format!("/api/threads/{}", segment(id));
            threads.flags.ask(async |server| server.get(&path).await, show).await
        }
    }
}

pub(super) fn list(answer: &Value) -> String {
    let heading = ["ID", "GROUP", "WORKER", "LAST TURN", "USED", "CWD"];
    let fields = ["id", "group", "worker", "last_turn_state", "used_at", "cwd"];
    let more = answer["next"].as_str().map(|next| format!("more with: threads list --before {}\n", cell(&next.into())));
    table(heading, &rows(answer, "threads", fields)) + &more.unwrap_or_default()
}

pub(super) fn show(answer: &Value) -> String {
    let fields = answer.as_object().into_iter().flatten();
    fields.map(|(name, value)| format!("{:16} {}\n", cell(&name.as_str().into()), cell(value))).collect()
}
