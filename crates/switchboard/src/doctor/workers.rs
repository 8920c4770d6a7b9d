//! What the doctor looks at in a group of workers: a real one is started, greeted, asked who is logged in, and stopped.

use std::path::Path;
use std::time::Duration;

use codex::abilities::{Ability, Dialect};
use codex::protocol::GetAccountParams;
use codex::protocol::calls::AccountRead;
use codex::{CallError, Client, Json, Options, StartError};
use rustix::fs::{Access, access};
use serde_json::Value;
use supervise::{HolderEvidence, SocketHolder, SpawnError};
use tokio::time::timeout;
use workers::Transport;

use super::finding::Finding;
use crate::config::{Config, Group};
use crate::worker::Worker;

/// How long one worker may take for everything that it is asked.
const WORKER_TIMEOUT: Duration = Duration::from_secs(45);

pub(super) async fn examine(group: &Group, config: &Config) -> Vec<Finding> {
    let mut findings = timeout(WORKER_TIMEOUT, greet(group, config)).await.unwrap_or_else(|_| {
        let what = format!("has not answered within {} s", WORKER_TIMEOUT.as_secs());
        vec![Finding::problem(group.check("worker"), what, "start it by hand and see what it does")]
    });
    if let Transport::Unix = group.transport {
        findings.extend(examine_sockets(group, &config.state_dir));
    }
    findings
}

/// Processes that hold the sockets of the group's workers, but for the recorded workers themselves.
fn examine_sockets(group: &Group, state_dir: &Path) -> Vec<Finding> {
    let recorded = supervise::Ledger::look(state_dir).unwrap_or_default();
    let names = (0..group.count).map(|number| format!("{}-{number}", group.name));
    let holders = |name: String| {
        let entry = recorded.iter().find(|entry| *entry.name == *name);
        let socket = entry.map_or_else(|| state_dir.join(format!("{name}.sock")), |entry| entry.socket.clone());
        let is_recorded = move |holder: &SocketHolder| entry.is_some_and(|entry| entry.pid == holder.pid());
        let unknown = SocketHolder::find(&socket)
            .into_iter()
            .filter(move |holder| holder.evidence == HolderEvidence::Listens && !is_recorded(holder));
        unknown.map(move |holder| held(group, &name, &holder))
    };
    names.flat_map(holders).collect()
}

fn held(group: &Group, worker: &str, holder: &SocketHolder) -> Finding {
    let pid = holder.pid();
    let program = holder.executable().map(|file| format!(" ({})", file.display())).unwrap_or_default();
    let what = format!("PID {pid}{program} holds the socket of worker {worker} and is not the recorded worker");
    let advice = format!("`switchboard serve` ends it if a Switchboard has started it; else end it with `kill {pid}`");
    Finding::warning(group.check("socket"), what, advice)
}

impl Group {
    /// What a finding about the group is called.
    fn check(&self, what: &str) -> String {
        format!("{}: {what}", self.name)
    }
}

fn examine_home(check: String, home: &Path) -> Finding {
    let shown = home.display();
    if !home.is_dir() {
        let advice = "log in once with this CODEX_HOME (`codex login`), or correct codex_home";
        return Finding::problem(check, format!("{shown} is not there"), advice);
    }
    match access(home, Access::READ_OK | Access::WRITE_OK | Access::EXEC_OK) {
        Ok(()) => Finding::ok(check, format!("{shown} can be written")),
        Err(error) => Finding::problem(check, format!("{shown} cannot be written: {error}"), "allow it to this user"),
    }
}

async fn greet(group: &Group, config: &Config) -> Vec<Finding> {
    let options = Options::new(env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION"));
    let client = match &group.transport {
        Transport::Ws(endpoint) => Client::connect(endpoint, options).await,
        Transport::Stdio | Transport::Unix => match group.launch(&config.state_dir) {
            Ok(launch) => Client::start(&launch, options).await,
            Err(error) => {
                let what = format!("{error:#}");
                return vec![Finding::problem(group.check("binary"), what, "correct `command` or `env`")];
            }
        },
    };
    // A program that is not there has no use for a home.
    let is_missing = matches!(client, Err(StartError::Spawn(_)));
    let codex_home = group.codex_home.as_deref().filter(|_| group.command != Worker::Demo && !is_missing);
    let mut findings: Vec<Finding> =
        codex_home.map(|home| examine_home(group.check("home"), home)).into_iter().collect();
    match client {
        Ok(client) => {
            findings.push(greeting(group.check("worker"), &client));
            findings.extend(unconfined(group.check("confinement"), &client));
            if group.command != Worker::Demo {
                findings.push(login(group.check("login"), &client, group).await);
            }
            client.stop().await;
        }
        Err(error) => findings.push(not_started(group, &error)),
    }
    findings
}

fn not_started(group: &Group, error: &StartError) -> Finding {
    let what = error.to_string();
    match error {
        // A server would start the demo worker in its place.
        StartError::Spawn(SpawnError::NotOnPath { .. }) => {
            let what = format!("{what}; until then the demo worker answers");
            Finding::warning(group.check("binary"), what, "npm install -g @openai/codex")
        }
        StartError::Spawn(_) => Finding::problem(group.check("binary"), what, "correct `command`"),
        StartError::Connect(_) => {
            Finding::problem(group.check("transport"), what, "start the worker, or correct `transport`")
        }
        _ => {
            let advice = "run `codex app-server` by hand and see what it says";
            Finding::problem(group.check("handshake"), what, advice)
        }
    }
}

/// Binary, version and dialect: a worker that greets has all three.
fn greeting(check: String, client: &Client) -> Finding {
    let (greeting, abilities) = (client.greeting(), client.abilities());
    let version = greeting.version.as_deref().unwrap_or("of unknown version");
    let what = format!("codex {version} speaks {}", abilities.dialect);
    match &greeting.fallback {
        None => Finding::ok(check, what),
        Some(cause) => {
            let what = format!("{what}; it rejected the v2 parameters ({})", cause.message);
            Finding::warning(check, what, "a newer codex does more: npm install -g @openai/codex")
        }
    }
}

/// What is to be said of a worker that cannot keep its agents from reading Switchboard's own files.
fn unconfined(check: String, client: &Client) -> Option<Finding> {
    let can_confine = client.abilities().has(Ability::PermissionProfiles);
    if can_confine && client.abilities().always_offers_view_image() {
        let what = "it lets plain models look at images of the machine: it serves plain profiles to operators, and with `allow_unconfined = true`";
        return Some(Finding::warning(check, what, "update Codex to 0.150 or newer: npm install -g @openai/codex"));
    }
    let what = if can_confine {
        return None;
    } else if client.abilities().always_loads_project_config() {
        "it cannot confine agents, and runs commands that a workspace names: it serves read-only profiles, for operators"
    } else {
        "it cannot confine agents: it serves operators, and profiles with `allow_unconfined = true`"
    };
    Some(Finding::warning(check, what, "update Codex to 0.145 or newer: npm install -g @openai/codex"))
}

async fn login(check: String, client: &Client, group: &Group) -> Finding {
    let home = group.codex_home.as_deref().map(|home| format!("CODEX_HOME={} ", home.display()));
    let advice = format!("run `{}codex login`", home.unwrap_or_default());
    match who_is_logged_in(client).await {
        Ok(Login::As(how)) => Finding::ok(check, format!("logged in ({how})")),
        Ok(Login::NotNeeded) => Finding::ok(check, "the model provider of its configuration needs no login"),
        Ok(Login::Nobody) => Finding::warning(check, "nobody is logged in: turns will fail", advice),
        Err(error) => Finding::warning(check, format!("unknown: {error}"), advice),
    }
}

enum Login {
    As(String),
    NotNeeded,
    Nobody,
}

async fn who_is_logged_in(client: &Client) -> Result<Login, CallError> {
    match client.abilities().dialect {
        Dialect::V2 => {
            let told = client.call::<AccountRead>(GetAccountParams::default()).await?;
            Ok(match told.account {
                Some(account) => Login::As(name_of(&serde_json::to_value(&account).unwrap_or_default()["type"])),
                None if told.requires_openai_auth => Login::Nobody,
                None => Login::NotNeeded,
            })
        }
        Dialect::V1 => {
            let params = Json::of(&serde_json::json!({"includeToken": false, "refreshToken": false})).ok();
            let told: Value = client.raw("getAuthStatus", params).await?.parse().unwrap_or_default();
            Ok(if told["authMethod"].is_null() { Login::Nobody } else { Login::As(name_of(&told["authMethod"])) })
        }
    }
}

/// The worker's own word for an account, and nothing else of it.
fn name_of(kind: &Value) -> String {
    kind.as_str().unwrap_or("somehow").into()
}
