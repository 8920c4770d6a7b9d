//! Turns on a worker that outlives this program, however it ends:
//! `cargo run -p workers --example detached -- STATE_DIRECTORY PROMPT… -- [worker command …]`
//!
//! Started again on the same state directory, it finds the worker and what it waits for; any pool does that has a group of
//! the same name. Without a command the worker is `codex app-server`.
#![expect(clippy::print_stdout, reason = "an example shows what it gets")]

use std::error::Error;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use approvals::{Approvals, Settings};
use codex::{ApprovalPolicy, Sandbox, ThreadOptions, Tool, TurnEvent};
use serde_json::json;
use store::Store;
use supervise::{Ledger, Rlimits};
use tokio::task::JoinSet;
use workers::{
    Afterwards, Caller, Group, Limits, Order, Plan, Pool, Reach, Refused, ThreadChoice, Transport, TurnPermit,
};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let state_dir = PathBuf::from(arguments.next().ok_or("name a state directory")?);
    let prompts: Vec<String> = arguments.by_ref().take_while(|argument| argument != "--").collect();
    let pool = open(&state_dir, arguments.map(Into::into).collect()).await?;
    let mut turns = JoinSet::new();
    for prompt in prompts {
        turns.spawn(play(pool.clone(), prompt));
    }
    while let Some(played) = turns.join_next().await {
        played??;
    }
    pool.stop().await;
    Ok(())
}

async fn open(state_dir: &Path, command: Vec<OsString>) -> Result<Pool, Box<dyn Error>> {
    let store = Store::open(state_dir.join("store.db"), store::Limits::default())?;
    let approvals = Approvals::open(store.clone(), Settings::default(), Arc::new(|_| {})).await?;
    let (ledger, leftovers) = Ledger::open(state_dir)?;
    leftovers.reap().await?;
    Ok(Pool::start(plan(state_dir, command)?, store, approvals, ledger, Arc::new(|_| {})))
}

fn plan(state_dir: &Path, command: Vec<OsString>) -> Result<Plan, Box<dyn Error>> {
    let mut command = command.into_iter();
    let program = command.next();
    let args = if program.is_some() { command.collect() } else { vec!["app-server".into()] };
    let group = Group {
        name: "main".into(),
        program: program.unwrap_or_else(|| "codex".into()),
        args,
        transport: Transport::Unix,
        count: 1,
        codex_home: std::env::var_os("CODEX_HOME").map(Into::into),
        env: Vec::new(),
        cwd: std::env::current_dir()?,
        turns_max: 64,
        threads_loaded_max: 64,
        user: None,
        rlimits: Rlimits::default(),
        tools: None,
    };
    Ok(Plan {
        groups: vec![group],
        profiles: Vec::new(),
        limits: Limits::default(),
        state_dir: state_dir.into(),
        private: Vec::new(),
        client_version: env!("CARGO_PKG_VERSION").into(),
    })
}

/// Plays one prompt in a thread of its own, and says what it waits for.
async fn play(pool: Pool, prompt: String) -> Result<(), Refused> {
    let mut turn = pool.start_turn(order(prompt)).await?;
    while let Some(event) = turn.next().await {
        match event {
            TurnEvent::ApprovalWanted { request, .. } => println!("approval {request}"),
            TurnEvent::ToolWanted { call, .. } => println!("call {call}"),
            TurnEvent::TurnEnded { status, .. } => println!("ended {status:?}"),
            _ => {}
        }
    }
    Ok(())
}

fn order(prompt: String) -> Order {
    let ask = Tool {
        namespace: None,
        name: "ask".into(),
        description: "asks whoever runs this".into(),
        input_schema: json!({"type": "object"}),
    };
    let options = ThreadOptions {
        sandbox: Sandbox::WorkspaceWrite,
        approval_policy: ApprovalPolicy::Untrusted,
        tools: vec![ask],
        ..ThreadOptions::default()
    };
    Order {
        caller: Caller { key: "k".into(), reach: Reach::Own },
        group: None,
        profile: None,
        thread: ThreadChoice::New(options),
        after: None,
        history: Vec::new(),
        turn: prompt.into(),
        afterwards: Afterwards::Stays,
        queue_timeout: None,
        decision_timeout: None,
        permit: TurnPermit::default(),
        memory: None,
    }
}
