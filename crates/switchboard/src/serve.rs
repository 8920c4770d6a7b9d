//! `switchboard serve`: the one place that joins the parts. Everything is made in the order in which it depends on the
//! rest, and ends in the opposite one.

mod access;
mod journal;
mod parts;
mod sweeping;

pub(crate) use journal::log_tools;

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use approvals::Approvals;
use clap::Args;
use front::keys::Keys;
use front::{ConfigRequest, ControlSocket, Feed, Front, Listeners, NewKey, Tls};
use serde_json::json;
use store::Store;
use supervise::{Adoption, ControlPeerPolicy, Ledger, Leftovers};
use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot};
use workers::{Pool, WorkerTokens};

use crate::config::{self, Config, Flag, Resolved, Watch};
use crate::print::{Form, print};
use crate::server::{Announced, Announcement, ControlSocketGuard, announce, bind_control, remove_left_behind};
use crate::signals::Signals;
use crate::{STORE_FILE, logs};

/// The exit code of a server that was not allowed to end by itself.
const STOPPED_AT_ONCE: u8 = 130;

/// Where to serve, and with which workers.
#[derive(Args)]
#[command(after_help = "\
SIGTERM or Ctrl-C ends it: new turns are refused, running ones have `drain_grace` to end. A second one ends it at once.

Exit codes: 0 ended as it was asked to; 1 could not start; 130 was ended at once.")]
pub(crate) struct Serve {
    /// The configuration file; else SWITCHBOARD_CONFIG, ~/.config/switchboard/switchboard.toml
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Where callers connect, such as 127.0.0.1:4180; port 0 lets the system choose
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<String>,
    /// The worker of the first group: "demo" (built in), "codex" (found on PATH), or the path of a codex binary
    #[arg(long, value_name = "WORKER")]
    worker: Option<String>,
    /// Where approvals, keys, threads and usage are kept
    #[arg(long, value_name = "DIR")]
    state_dir: Option<String>,
    /// What to log: error, warn, info, debug, trace, or levels such as info,workers=debug
    #[arg(long, value_name = "LEVEL")]
    log: Option<String>,
    /// Print the configuration with where each value comes from, and do nothing else
    #[arg(long)]
    print_config: bool,
    /// Print where it serves, and a new key, as one line of JSON
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub(crate) async fn run(serve: &Serve) -> Result<ExitCode> {
    let mut resolved = config::load(serve.config.as_deref(), serve.flags())?;
    if serve.print_config {
        print(&resolved.print())?;
        return Ok(ExitCode::SUCCESS);
    }
    resolved.may_serve()?;
    let boundaries = resolved.boundaries();
    resolved.warnings.extend(boundaries.check()?.into_iter().chain(boundaries.warnings_of_files()));
    logs::start(&resolved.config.log);
    resolved.warnings.iter().for_each(|warning| tracing::warn!(%warning, "configuration warning"));
    resolved.config.clear_text().iter().for_each(|warning| tracing::warn!(%warning, "listening in clear text"));
    let mut signals = Signals::new()?;
    let watch = Watch::new(serve.config.as_deref(), serve.flags(), &resolved);
    let running = tokio::select! {
        running = Running::start(resolved, watch) => running?,
        () = signals.next() => return Ok(ExitCode::from(STOPPED_AT_ONCE)),
    };
    print(&running.welcome(Form::of(serve.json)))?;
    running.until_stopped(&mut signals).await
}

impl Serve {
    fn flags(&self) -> Vec<Flag> {
        let flags = [
            ("--listen", "listen", &self.listen),
            ("--worker", "workers.first.command", &self.worker),
            ("--state-dir", "state_dir", &self.state_dir),
            ("--log", "log.level", &self.log),
        ];
        let given = |(name, key, value): (_, _, &Option<String>)| Some(Flag { name, key, value: value.clone()? });
        flags.into_iter().filter_map(given).collect()
    }
}

/// Everything that runs.
struct Running {
    config: Config,
    /// Where callers reach it.
    url: String,
    listeners: Listeners,
    front: Front,
    /// Tells when other tool servers are configured.
    watch: Watch,
    /// What operators ask of it.
    config_requests: mpsc::Receiver<ConfigRequest>,
    /// The key that the first start has made.
    first_key: Option<NewKey>,
    /// The groups in whose place the demo worker runs.
    replaced: Vec<parts::Replaced>,
    /// What ends with the server. The ledger is last: its lock keeps the next server from what the others remove.
    _rest: (Announced, ControlSocketGuard, Adoption, Ledger),
}

impl Running {
    async fn start(resolved: Resolved, watch: Watch) -> Result<Self> {
        let private = resolved.boundaries().private_paths();
        let mut config = resolved.config;
        let tls = config.tls.clone().map(Tls::load).transpose()?;
        let adoption = supervise::adopt_orphans().context("cannot become the parent of orphans")?;
        let (ledger, leftovers) = Ledger::open(&config.state_dir)?;
        let control_peers = ControlPeerPolicy::new(ledger.clone())?;
        // After the policy's look at our own environment, and before anything is started that could look at it too.
        supervise::forbid_inspection().context("cannot close this process to others")?;
        let unusable = || format!("cannot write into {}", config.state_dir.display());
        remove_left_behind(&config.state_dir).with_context(unusable)?;
        reap(leftovers).await?;
        let listener = listen(config.listen).await?;
        let address = listener.local_addr()?;
        let store = Store::open(config.state_dir.join(STORE_FILE), config.limits.store)?;
        let feed = Feed::new(Feed::LIMITS);
        let settings = parts::approvals(&config, &ledger, address)?;
        let approvals = Approvals::open(store.clone(), settings, journal::of_approvals(&feed)).await?;
        let (keys, first_key) = Keys::open(&store, config.key.as_ref().map(config::Secret::reveal)).await?;
        keys.add_local()?;
        let tokens = WorkerTokens::default();
        let keys = Arc::new(keys.with_workers(tokens.clone()));
        let tools = tools::Host::start(tools::Plan {
            servers: config.tools.clone(),
            limits: config.limits.tools.clone(),
            owner: ledger.owner(),
            store: Some(store.clone()),
            approvals: Some(approvals.clone()),
            notify: journal::of_tools(&feed),
        });
        let replaced = parts::replace_missing(&mut config.groups);
        let workers = access::listen(&config).await?;
        let tools_address = workers.as_ref().map_or(Ok(address), TcpListener::local_addr)?;
        let plan = parts::plan(&config, access::to_tools(&config, tools_address, &tokens), private)?;
        let pool = Pool::start(plan, store.clone(), approvals.clone(), ledger.clone(), journal::of_workers(&feed));
        let (sender, config_requests) = front::config_requests();
        let settings = front::Settings { config_requests: Some(sender), ..parts::front(&config) };
        let front = Front { pool, tools, approvals, store, feed, keys, settings };
        let (control, bound) = bind_control(&config.state_dir).with_context(unusable)?;
        let control = ControlSocket::new(control, control_peers)?;
        let url = config.url_at(address);
        let announcement = Announcement { url: url.clone(), pid: std::process::id(), started_ms: unix_ms() };
        let announced = announce(&config.state_dir, &announcement).with_context(unusable)?;
        let listeners = Listeners { tcp: listener, tls, workers, control: Some(control) };
        tracing::info!(url, state_dir = %config.state_dir.display(), "serving");
        let rest = (announced, bound, adoption, ledger);
        Ok(Self { config, url, listeners, front, watch, config_requests, first_key, replaced, _rest: rest })
    }

    /// What whoever starts it is told: where it serves, and the key that is shown once.
    fn welcome(&self, form: Form) -> String {
        let url = &self.url;
        let key = self.first_key.as_ref().map(|key| key.secret.reveal());
        if let Form::Json = form {
            let replaced: Vec<&str> = self.replaced.iter().map(|replaced| replaced.group.as_str()).collect();
            return format!("{}\n", json!({ "url": url, "key": key, "demo_groups": replaced }));
        }
        let replaced = self.replaced.iter().map(|replaced| format!("{replaced}\n"));
        let key = key
            .map(|key| format!("key {key}\n    (shown this once; callers send it as `Authorization: Bearer KEY`)\n"));
        replaced.chain(key).chain([format!("serving {url}\n")]).collect()
    }

    /// Serves until a signal comes, then lets turns end; a second signal ends everything at once.
    async fn until_stopped(self, signals: &mut Signals) -> Result<ExitCode> {
        let Self { config, listeners, front, mut watch, mut config_requests, _rest, .. } = self;
        let (pool, tools, store) = (front.pool.clone(), front.tools.clone(), front.store.clone());
        let (tell_front, told) = oneshot::channel::<()>();
        let serving = front::serve(listeners, front, async { _ = told.await });
        tokio::pin!(serving);
        let idle = config.limits.pool.thread_idle_max;
        tokio::select! {
            () = &mut serving => {}
            () = signals.next() => {}
            never = follow(&mut watch, &mut config_requests, &tools) => match never {},
            never = sweeping::sweep(&store, config.retention, &pool, idle) => match never {},
        }
        // Operators who wait for an answer hear that there is none.
        drop(config_requests);
        let grace = config.drain_grace;
        tracing::info!(grace = config::show_duration(grace), "draining: no new turns; once more stops at once");
        let ending = async {
            pool.drain(grace).await;
            // Before the front, so that every reader is told how its turn ended.
            pool.stop().await;
            // If nobody listens, the front has ended already.
            _ = tell_front.send(());
        };
        let ending = async {
            tokio::join!(serving, ending);
            // If the front has ended by itself; before the store that keeps what they were called for.
            tools.stop().await;
            store.close().await
        };
        tokio::select! {
            biased;
            () = signals.next() => {
                tracing::warn!("stopped at once");
                Ok(ExitCode::from(STOPPED_AT_ONCE))
            }
            closed = ending => {
                closed.context("not everything could be written")?;
                tracing::info!("stopped");
                Ok(ExitCode::SUCCESS)
            }
        }
    }
}

/// Makes the tool servers those of the configuration file, as far as operators have accepted them; for ever.
async fn follow(watch: &mut Watch, requests: &mut mpsc::Receiver<ConfigRequest>, tools: &tools::Host) -> Infallible {
    loop {
        let servers = tokio::select! {
            servers = watch.changed() => Some(servers),
            Some(request) = requests.recv() => watch.answer(request).await,
        };
        if let Some(servers) = servers {
            tracing::info!(servers = servers.len(), "tool servers changed");
            tools.apply(servers);
        }
    }
}

async fn reap(leftovers: Leftovers) -> Result<()> {
    let reaped = leftovers.reap().await?;
    if reaped.killed > 0 {
        tracing::warn!(processes = reaped.killed, "ended what an earlier run had left running");
    }
    if !reaped.all_gone {
        tracing::warn!("some of what an earlier run left does not end; the next start looks again");
    }
    Ok(())
}

fn unix_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

async fn listen(address: SocketAddr) -> Result<TcpListener> {
    TcpListener::bind(address).await.map_err(|error| match error.kind() {
        io::ErrorKind::AddrInUse => {
            anyhow::anyhow!("another program listens at {address}: stop it, or choose another address with --listen")
        }
        _ => anyhow::Error::new(error)
            .context(format!("cannot listen at {address}: choose another address with --listen")),
    })
}
