//! What the doctor looks at in tool servers: a running server is asked for what it has seen of them; without one each is
//! checked here, side by side.

use std::time::Duration;

use serde::Deserialize;
use tokio::time::timeout;
use tools::{Health, Report, Severity};

use super::finding::Finding;
use crate::config::Config;
use crate::server::Server;
use crate::tools::examine as check_all;

/// How long all of them together may take; a check goes on asking where an ordinary start would give up.
const TOOLS_TIMEOUT: Duration = Duration::from_secs(120);

pub(super) async fn examine(config: &Config) -> Vec<Finding> {
    if let Ok(server) = Server::running(&config.state_dir) {
        return match server.get::<Told>("/api/tools").await {
            Ok(told) => told.servers.iter().flat_map(seen).collect(),
            Err(error) => vec![Finding::warning("tools", error.to_string(), "look at the log of the server")],
        };
    }
    if config.tools.is_empty() {
        return Vec::new();
    }
    match timeout(TOOLS_TIMEOUT, check_all(config.tools.clone(), config.limits.tools.clone())).await {
        Ok(reports) => reports.iter().flat_map(checked).collect(),
        Err(_) => {
            let what = format!("not all were checked within {} s", TOOLS_TIMEOUT.as_secs());
            vec![Finding::warning("tools", what, "`switchboard tools check NAME` checks one")]
        }
    }
}

/// What the running server tells.
#[derive(Deserialize)]
struct Told {
    servers: Vec<ToldServer>,
}

#[derive(Deserialize)]
struct ToldServer {
    name: String,
    state: String,
    reason: Option<String>,
    protocol: Option<String>,
    tools: Vec<String>,
    findings: Vec<ToldFinding>,
}

#[derive(Deserialize)]
struct ToldFinding {
    code: String,
    severity: String,
    what: String,
    fix: String,
}

fn seen(server: &ToldServer) -> Vec<Finding> {
    let check = name_of(&server.name);
    let speaks = server.protocol.as_deref().map(|protocol| format!(" ({protocol})")).unwrap_or_default();
    let state = match &server.reason {
        Some(reason) => format!("{}: {reason}", server.state),
        None => format!("{}{speaks}, {}", server.state, counted(server.tools.len())),
    };
    let name = &server.name;
    let advice = format!(
        "`switchboard tools check {name}` says what is wrong with it, and `switchboard tools restart {name}` starts it again"
    );
    let is_well = ["ready", "degraded", "starting"].contains(&server.state.as_str());
    let first =
        if is_well { Finding::ok(check.clone(), state) } else { Finding::warning(check.clone(), state, advice) };
    let rest = server.findings.iter().map(|ToldFinding { code, severity, what, fix }| {
        told(&check, severity == "note", format!("{code} {severity}: {what}"), fix)
    });
    [first].into_iter().chain(rest).collect()
}

fn checked(report: &Report) -> Vec<Finding> {
    let check = name_of(&report.server);
    let speaks = report.speaks.as_ref().map(|speaks| format!(" ({speaks})")).unwrap_or_default();
    let what = match report.verdict {
        Health::Ready => format!("ready{speaks}, {}", counted(report.tools)),
        Health::Usable => format!("usable{speaks}, {}, {} of them usable", counted(report.tools), report.tools_usable),
        Health::Unusable => "cannot be used".to_owned(),
    };
    let first = match report.verdict {
        Health::Unusable => {
            let advice = format!("see below; `switchboard tools check {}` shows all of it", report.server);
            Finding::warning(check.clone(), what, advice)
        }
        _ => Finding::ok(check.clone(), what),
    };
    let rest = report.findings.iter().map(|finding| {
        let what = format!("{} {}: {}", finding.code, finding.severity, finding.what);
        told(&check, finding.severity == Severity::Note, what, &finding.fix)
    });
    [first].into_iter().chain(rest).collect()
}

/// No fault of a tool server is more than a warning: without it a server still does the rest of its work.
fn told(check: &str, is_note: bool, what: String, fix: &str) -> Finding {
    if is_note {
        Finding { advice: Some(fix.to_owned()), ..Finding::ok(check.to_owned(), what) }
    } else {
        Finding::warning(check.to_owned(), what, fix)
    }
}

fn name_of(server: &str) -> String {
    format!("tools.{server}")
}

fn counted(tools: usize) -> String {
    if tools == 1 { "1 tool".into() } else { format!("{tools} tools") }
}
