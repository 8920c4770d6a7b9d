//! The ways to the same tool server: directly over its pipes, through a bare bridge, and through Switchboard.

use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use rmcp::service::{Peer, RoleClient};
use tokio::process::{Child, Command};

use super::bridge::Bridge;
use super::callers::{Client, Era, call_for, over_http, over_pipes};
use super::switchboard::{KEY, Switchboard};
use crate::program::{Running, beside, program};
use crate::{cpu, process};

const ROUND: Duration = Duration::from_secs(1);
const WARM_UP: Duration = Duration::from_millis(100);

/// The tool server, and the one client of it.
pub(super) struct Direct {
    client: Client,
    child: Child,
}

impl Direct {
    pub(super) async fn start() -> Result<Self> {
        let mut command = Command::from(program(&beside("examples/template")?));
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true).spawn()?;
        let pipes = (child.stdout.take().context("no stdout")?, child.stdin.take().context("no stdin")?);
        Ok(Self { client: over_pipes(pipes.0, pipes.1).await?, child })
    }

    pub(super) fn peer(&self) -> &Peer<RoleClient> {
        self.client.peer()
    }

    pub(super) fn pid(&self) -> Result<u32> {
        self.child.id().context("the tool server has ended")
    }
}

/// A way to the tool server.
pub(super) struct Way<'a> {
    pub(super) name: &'static str,
    reach: Reach<'a>,
    tool: &'static str,
    /// What stands between callers and tool server.
    between: Option<&'a Running>,
    tool_server: u32,
}

enum Reach<'a> {
    /// All callers share the one client.
    Shared(&'a Peer<RoleClient>),
    /// Each has its own.
    Http { url: String, key: &'a str, era: Era },
}

/// What one round came to; CPU times are microseconds for each call.
#[derive(Clone, Copy)]
pub(super) struct Round {
    pub(super) calls_per_second: f64,
    pub(super) between: f64,
    pub(super) server: f64,
    pub(super) callers: f64,
}

impl Round {
    /// Of all processes together.
    pub(super) fn cpu(&self) -> f64 {
        self.between + self.server + self.callers
    }
}

impl<'a> Way<'a> {
    pub(super) fn direct(direct: &'a Direct) -> Result<Self> {
        let reach = Reach::Shared(direct.peer());
        Ok(Self { name: "direct", reach, tool: "longest_word", between: None, tool_server: direct.pid()? })
    }

    pub(super) fn bridge(bridge: &'a Bridge, era: Era) -> Self {
        Self {
            name: match era {
                Era::Legacy => "bridge, legacy",
                Era::Modern => "bridge, modern",
            },
            reach: Reach::Http { url: format!("{}/mcp", bridge.url), key: KEY, era },
            tool: "longest_word",
            between: Some(&bridge.running),
            tool_server: bridge.tool_server,
        }
    }

    pub(super) fn switchboard(switchboard: &'a Switchboard, era: Era) -> Result<Self> {
        Ok(Self {
            name: match era {
                Era::Legacy => "switchboard, legacy",
                Era::Modern => "switchboard, modern",
            },
            reach: Reach::Http { url: format!("{}/mcp", switchboard.url), key: KEY, era },
            tool: "rust__longest_word",
            between: Some(&switchboard.running),
            tool_server: switchboard.tool_server()?,
        })
    }

    /// So many callers, connected and warm before anything counts.
    pub(super) async fn round(&self, callers: usize) -> Result<Round> {
        let clients = self.clients(callers).await.with_context(|| format!("{}: cannot connect", self.name))?;
        let peers: Vec<_> = match &self.reach {
            Reach::Shared(peer) => vec![(*peer).clone(); callers],
            Reach::Http { .. } => clients.iter().map(|client| client.peer().clone()).collect(),
        };
        call_for(WARM_UP, &peers, self.tool).await?;
        let (start, before) = (Instant::now(), self.cpu_seconds()?);
        let calls = call_for(ROUND, &peers, self.tool).await.with_context(|| self.name)?;
        let (wall, after) = (start.elapsed(), self.cpu_seconds()?);
        for client in clients {
            client.cancel().await?;
        }
        let calls = f64::from(calls);
        let [between, server, callers] = std::array::from_fn(|at| (after[at] - before[at]) / calls * 1e6);
        Ok(Round { calls_per_second: calls / wall.as_secs_f64(), between, server, callers })
    }

    async fn clients(&self, callers: usize) -> Result<Vec<Client>> {
        let mut clients = Vec::new();
        if let Reach::Http { url, key, era } = &self.reach {
            for _ in 0..callers {
                clients.push(over_http(url, key, *era).await?);
            }
        }
        Ok(clients)
    }

    /// Of what stands between, of the tool server, and of this process, which is the callers.
    fn cpu_seconds(&self) -> Result<[f64; 3]> {
        let between = self.between.map_or(Ok(0.0), Running::cpu_seconds)?;
        Ok([between, process::cpu_seconds(self.tool_server)?, cpu::of_process().as_secs_f64()])
    }
}
