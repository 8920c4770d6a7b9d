//! `switchboard tools serve`: every tool for one MCP client, over stdin and stdout. Where a server runs, its tool servers are
//! shared; else they are started for this client alone, and stopped with it.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::Args;
use tokio::io::{stdin, stdout};
use tools::Remote;

use super::own::{Own, caller};
use crate::config::{Config, load};
use crate::logs;
use crate::operate::ServerFlags;
use crate::server::Server;
use crate::signals::Signals;

/// How long a client waits for its first answer while servers start: less than any client is patient. What is not ready by
/// then is told as a change of the list.
const START_PATIENCE: Duration = Duration::from_secs(5);

/// Offer every tool to one MCP client over stdin and stdout
#[derive(Args)]
#[command(after_help = "\
Examples:
  switchboard tools serve                   as the command of an MCP server in any client's configuration:
                                            {\"command\": \"switchboard\", \"args\": [\"tools\", \"serve\"]}
  switchboard tools serve --own             with tool servers of its own, also where a server runs

Where a server runs, everything is passed on to it, so that any number of clients share one set of tool servers. Without one
the configured tool servers are started here; then no call is recorded, and a tool that needs a confirmation is refused. It
ends when its stdin is closed, and leaves no process. Logs go to stderr.

Exit codes: 0 the client has ended it; 1 it could not start.")]
pub(super) struct Serve {
    /// Start tool servers of its own, whether or not a server runs
    #[arg(long)]
    own: bool,
}

/// Runs the command.
pub(super) fn run(serve: &Serve, flags: &ServerFlags) -> ExitCode {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let served = runtime.map_err(Into::into).and_then(|runtime| {
        let served = runtime.block_on(until_stopped(serve, flags));
        // A read of stdin that nobody waits for any more must not be waited for here.
        runtime.shutdown_background();
        served
    });
    match served {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            crate::print::complain(&error);
            ExitCode::FAILURE
        }
    }
}

async fn until_stopped(serve: &Serve, flags: &ServerFlags) -> Result<()> {
    ensure!(!(serve.own && flags.server.is_some()), "--own starts tool servers here: leave --server out");
    let resolved = load(flags.config.as_deref(), Vec::new())?;
    logs::start(&resolved.config.log);
    resolved.warnings.iter().for_each(|warning| tracing::warn!("{warning}"));
    let config = resolved.config;
    let mut signals = Signals::new()?;
    let find = || Server::find(flags.server.as_deref(), &config);
    let is_remote = !serve.own && (flags.server.is_some() || find().is_ok());
    if is_remote {
        tracing::info!(server = %find()?, "passing everything on");
        let find = || find().map(|server| server.mcp()).map_err(|error| error.to_string());
        return pass(find, &mut signals).await;
    }
    serve_own(config, &mut signals).await
}

async fn pass(find: impl FnMut() -> Result<Remote, String>, signals: &mut Signals) -> Result<()> {
    tokio::select! {
        passed = tools::proxy(find, stdin(), stdout()) => passed.context("the client cannot be heard"),
        () = signals.next() => Ok(()),
    }
}

async fn serve_own(config: Config, signals: &mut Signals) -> Result<()> {
    if config.tools.is_empty() {
        tracing::warn!("no tool server is configured: add [tools.NAME] to the configuration");
    }
    let own = Own::start(config.tools, config.limits.tools)?;
    let serving = async {
        own.host.settled(START_PATIENCE).await;
        if let Err(error) = tools::serve_pipe(&own.host, caller(), stdin(), stdout()).await {
            // A client that says nothing has no need of an answer either.
            tracing::info!(%error, "the client has said nothing");
        }
    };
    tokio::select! {
        () = serving => {}
        () = signals.next() => {}
    }
    own.host.stop().await;
    Ok(())
}
