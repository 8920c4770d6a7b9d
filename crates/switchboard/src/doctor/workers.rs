//! What the doctor looks at in a group of workers: a real one is started, greeted, asked who is logged in, and stopped.

use std::path::Path;
use std::time::Duration;

use codex::abilities::Dialect;
use codex::protocol::GetAccountParams;
use codex::protocol::calls::AccountRead;
use codex::{CallError, Client, Json, Options, StartError};
use rustix::fs::{Access, access};
use serde_json::Value;
use tokio::time::timeout;
use workers::Transport;

use super::finding::Finding;
use crate::config::{Config, Group};
use crate::worker::Worker;

/// How long one worker may take for everything that it is asked.
const WORKER_TIMEOUT: Duration = Duration::from_secs(45);

pub(super) async fn examine(group: &Group, config: &Config) -> Vec<Finding> {
    let check = |what: &str| format!("{}: {what}", group.name);
    let mut findings = Vec::new();
    if let (Worker::Codex(_), Some(home)) = (&group.command, group.codex_home.as_deref()) {
        findings.push(examine_home(check("home"), home));
    }
    let examined = timeout(WORKER_TIMEOUT, greet(group, config)).await;
    findings.extend(examined.unwrap_or_else(|_| {
        let what = format!("has not answered within {} s", WORKER_TIMEOUT.as_secs());
        vec![Finding::problem(check("worker"), what, "start it by hand and see what it does")]
    }));
    findings
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
    let check = |what: &str| format!("{}: {what}", group.name);
    let options = Options::new(env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION"));
    let client = match &group.transport {
        Transport::Ws(endpoint) => Client::connect(endpoint, options).await,
        Transport::Stdio | Transport::Unix => match group.launch(&config.state_dir) {
            Ok(launch) => Client::start(&launch, options).await,
            Err(error) => {
                return vec![Finding::problem(check("binary"), format!("{error:#}"), "correct command or env")];
            }
        },
    };
    match client {
        Ok(client) => {
            let mut findings = vec![greeting(check("worker"), &client)];
            if let Worker::Codex(_) = group.command {
                findings.push(login(check("login"), &client, group).await);
            }
            client.stop().await;
            findings
        }
        Err(error) => vec![not_started(group, &error)],
    }
}

fn not_started(group: &Group, error: &StartError) -> Finding {
    let check = |what: &str| format!("{}: {what}", group.name);
    match error {
        // A server would start the demo worker in its place.
        StartError::Spawn(supervise::SpawnError::NotOnPath { .. }) => Finding::warning(
            check("binary"),
            format!("{error}; until then the demo worker answers"),
            "npm install -g @openai/codex",
        ),
        StartError::Spawn(_) => Finding::problem(check("binary"), error.to_string(), "correct command"),
        StartError::Connect(_) => {
            Finding::problem(check("transport"), error.to_string(), "start the worker, or correct transport")
        }
        _ => Finding::problem(
            check("handshake"),
            error.to_string(),
            "run `codex app-server` by hand and see what it says",
        ),
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
