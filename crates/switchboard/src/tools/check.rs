//! `switchboard tools check`: runs tool servers through their whole lives, here, and tells every fault of each.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use clap::{Args, ValueEnum};
use supervise::{Owner, Rlimits};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tools::{Limits, Reach, Report, Server};

use super::{INTERRUPTED, patience, unknown};
use crate::config::{load, parse_duration, public_address, refused_url};
use crate::operate::ServerFlags;
use crate::print::{Form, print};
use crate::signals::Signals;
use crate::worker::{located, variables_of_ours};

/// Run a tool server through handshake, lists and stop, and say what is wrong with it and how to mend it
#[derive(Args)]
#[command(after_help = "\
Examples:
  switchboard tools check                              every configured server
  switchboard tools check files                        the one of [tools.files]
  switchboard tools check -- npx -y @modelcontextprotocol/server-memory
  switchboard tools check --env API_KEY --cwd src -- python3 -m server
  switchboard tools check --url https://example.com/mcp --header 'Authorization: Bearer …'

No running server is needed. A program may be started a second time, to see whether it keeps to the handshake. One behind `--`
sees only the few variables that every child of ours does, and those of --env. Each finding has a code: docs/tools.md lists them.

Exit codes: 0 nothing is wrong; 1 it can be used, but something is lost; 2 it cannot be used, or could not be checked. Of
several servers the worst counts.")]
pub(super) struct Check {
    /// A server of the configuration; without it, and without CMD or --url, all of them
    #[arg(conflicts_with_all = ["command", "url"])]
    name: Option<String>,
    /// The address of a server that speaks Streamable HTTP
    #[arg(long, conflicts_with = "command")]
    url: Option<String>,
    /// Send this with every request, as 'NAME: VALUE'; may be repeated
    #[arg(long = "header", value_name = "NAME: VALUE", value_parser = header, requires = "url")]
    headers: Vec<(String, String)>,
    /// Where CMD starts, if not here
    #[arg(long, value_name = "DIR", requires = "command")]
    cwd: Option<PathBuf>,
    /// Let CMD see this variable, with this value, or with ours if none is given; may be repeated
    #[arg(long, value_name = "NAME[=VALUE]", requires = "command")]
    env: Vec<String>,
    /// Take it for a server that speaks so in the place of MCP
    #[arg(long, conflicts_with = "name")]
    dialect: Option<Dialect>,
    /// How long each phase may take (start, first byte, handshake, each list), such as 30s
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    timeout: Option<Duration>,
    /// The program and its arguments; no shell sees them
    #[arg(last = true, value_name = "CMD")]
    command: Vec<OsString>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Dialect {
    Mcp,
    #[value(name = "localcowork")]
    LocalCowork,
}

/// Runs the command.
pub(super) async fn run(check: &Check, flags: &ServerFlags) -> Result<ExitCode> {
    ensure!(flags.server.is_none(), "a check is made here, by no server: leave --server out");
    let (servers, limits) = check.servers(flags.config.as_deref())?;
    let mut signals = Signals::new()?;
    let _adoption = supervise::adopt_orphans().context("cannot become the parent of orphans")?;
    let names: Vec<&str> = servers.iter().map(|server| &*server.name).collect();
    let what = format!("checking {}", super::few(&names));
    let reports = tokio::select! {
        reports = patience::wait(&what, examine(servers, limits)) => reports,
        () = signals.next() => return Ok(ExitCode::from(INTERRUPTED)),
    };
    let texts: Vec<String> = match Form::of(flags.json) {
        Form::Json => reports.iter().map(|report| Ok(serde_json::to_string(report)? + "\n")).collect::<Result<_>>()?,
        Form::Text => reports.iter().map(Report::to_string).collect(),
    };
    print(&texts.join(if flags.json { "" } else { "\n" }))?;
    Ok(ExitCode::from(reports.iter().map(Report::exit_code).max().unwrap_or_default()))
}

/// Checks servers side by side; their reports come in the order of the servers.
pub(crate) async fn examine(servers: Vec<Server>, limits: Limits) -> Vec<Report> {
    let (owner, places) = (Owner::generate(), Arc::new(Semaphore::new(limits.starts_max)));
    let mut checks = JoinSet::new();
    for (number, server) in servers.into_iter().enumerate() {
        let (limits, places) = (limits.clone(), Arc::clone(&places));
        checks.spawn(async move {
            let _place = places.acquire().await;
            (number, tools::check(&server, owner, &limits).await)
        });
    }
    let mut reports = checks.join_all().await;
    reports.sort_by_key(|(number, _)| *number);
    reports.into_iter().map(|(_, report)| report).collect()
}

impl Check {
    /// What is to be checked.
    fn servers(&self, config: Option<&Path>) -> Result<(Vec<Server>, Limits)> {
        let (mut servers, limits) = match (&self.url, self.command.as_slice()) {
            (Some(url), _) => (vec![self.at(url)?], Limits::default()),
            (None, []) => self.configured(config)?,
            (None, command) => (vec![self.started_by(command)?], Limits::default()),
        };
        for server in &mut servers {
            if let Some(Dialect::LocalCowork) = self.dialect {
                server.dialect = tools::Dialect::LocalCowork;
            }
            if let Some(timeout) = self.timeout {
                let phases = &mut server.timeouts;
                (phases.spawn, phases.first_byte, phases.initialize, phases.list) =
                    (timeout, timeout, timeout, timeout);
                // A silence here only means that the other handshake is tried.
                phases.discover = phases.discover.min(timeout);
            }
        }
        Ok((servers, limits))
    }

    fn configured(&self, config: Option<&Path>) -> Result<(Vec<Server>, Limits)> {
        let resolved = load(config, Vec::new())?;
        let (all, limits) = (resolved.config.tools, resolved.config.limits.tools);
        let Some(name) = &self.name else {
            if all.is_empty() {
                bail!(
                    "no tool server is configured: add [tools.NAME] to the configuration, or name a program behind `--`"
                );
            }
            return Ok((all, limits));
        };
        match all.iter().find(|server| *server.name == **name) {
            Some(server) => Ok((vec![server.clone()], limits)),
            None => bail!(unknown("tool server", name, all.iter().map(|server| &*server.name))),
        }
    }

    fn started_by(&self, command: &[OsString]) -> Result<Server> {
        let (program, args) = command.split_first().context("name the program behind `--`")?;
        let program = located(Path::new(program))?;
        let name = program.file_name().unwrap_or(program.as_os_str()).to_string_lossy().into_owned();
        let here = env::current_dir().context("the current directory cannot be used")?;
        let cwd = self.cwd.as_ref().map_or(here.clone(), |cwd| here.join(cwd));
        ensure!(cwd.is_dir(), "{} is no directory: choose another with --cwd", cwd.display());
        let command = std::iter::once(program.into_os_string()).chain(args.iter().cloned()).collect();
        let env = self.env.iter().map(|given| variable(given)).collect::<Result<_>>()?;
        Ok(Server::new(&name, Reach::Process { command, env, cwd, rlimits: Rlimits::default() }))
    }

    fn at(&self, url: &str) -> Result<Server> {
        if let Some(why) = refused_url(url) {
            bail!("--url {why}");
        }
        Ok(Server::new(&public_address(url), Reach::Http { url: url.into(), headers: self.headers.clone() }))
    }
}

/// `NAME=VALUE`, or `NAME` for a variable of ours.
fn variable(given: &str) -> Result<(OsString, OsString)> {
    match given.split_once('=') {
        Some((name, value)) => {
            ensure!(!name.is_empty(), "--env {given}: it has no name");
            Ok((name.into(), value.into()))
        }
        None => {
            let found = variables_of_ours(&[given.to_owned()]).with_context(|| format!("--env {given}"))?;
            found.into_iter().next().context("there is no such variable")
        }
    }
}

fn header(given: &str) -> Result<(String, String), &'static str> {
    let (name, value) = given.split_once(':').ok_or("write it as 'NAME: VALUE'")?;
    Ok((name.trim().into(), value.trim().into()))
}
