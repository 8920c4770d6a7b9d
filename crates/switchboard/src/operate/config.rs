//! `switchboard config`: what the configuration file says that is not in effect, and accepting it. An acceptance names the
//! content that was printed before it, so that the server refuses a file that changed in between.

use std::io::{self, IsTerminal as _, Write as _};
use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::{EXIT_CODES, ServerFlags};
use crate::server::Server;
use supervise::escaped;

#[derive(Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct Config {
    #[command(subcommand)]
    action: Option<Action>,
    #[command(flatten)]
    flags: ServerFlags,
}

#[derive(Subcommand)]
enum Action {
    /// Show what the file says that is not in effect (the default)
    Show,
    /// Let the running server start the tool servers that are new or changed in its file
    Accept(Accept),
}

#[derive(Args)]
struct Accept {
    /// Accept without a question
    #[arg(long)]
    yes: bool,
    /// Accept only the content that was shown with this hash
    #[arg(long, value_name = "HASH")]
    hash: Option<String>,
}

/// Runs the command.
pub(crate) async fn run(config: &Config) -> Result<ExitCode> {
    match &config.action {
        None | Some(Action::Show) => config.flags.ask(async |server| server.get("/api/config").await, to_text).await,
        Some(Action::Accept(accept)) => config.flags.ask(async |server| accept.send(&server).await, accepted).await,
    }
}

impl Accept {
    async fn send(&self, server: &Server) -> Result<Value> {
        let view: Value = server.get("/api/config").await?;
        let Some(hash) = view["hash"].as_str() else {
            bail!("nothing waits for acceptance{}", if_problems(&view));
        };
        if self.hash.as_deref().is_some_and(|shown| shown != hash) {
            bail!("the configuration file has changed: its hash is {hash} now");
        }
        // stdout is for the answer alone, which may be JSON.
        eprint!("{}", to_text(&view));
        if !self.yes && !confirmed()? {
            bail!("not accepted");
        }
        Ok(server.post("/api/config/accept", &json!({ "hash": hash })).await?)
    }
}

/// Asks on the terminal.
fn confirmed() -> Result<bool> {
    if !io::stdin().is_terminal() {
        bail!("stdin is not a terminal: add --yes to accept without a question");
    }
    eprint!("Accept? [y/N] ");
    io::stderr().flush()?;
    let mut answer = String::new();
    io::stdin().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

fn if_problems(view: &Value) -> &'static str {
    match strings(&view["problems"]).is_empty() {
        true => "",
        false => ": the file cannot be used as it is now, `switchboard config` says why",
    }
}

fn accepted(answer: &Value) -> String {
    format!("accepted: {}\n", strings(&answer["accepted"]).join(", "))
}

/// Everything that is not in effect; nothing of it can act on a terminal.
fn to_text(view: &Value) -> String {
    let file = view["file"].as_str().map_or("the server follows no file".into(), escaped);
    let mut lines = Vec::new();
    for problem in strings(&view["problems"]) {
        lines.push(format!("cannot be used: {problem}"));
    }
    for server in view["pending"].as_array().into_iter().flatten() {
        lines.extend(server_lines(server));
    }
    let after_restart = strings(&view["after_restart"]);
    if !after_restart.is_empty() {
        lines.push(format!("counts after a restart: {}", after_restart.join(", ")));
    }
    if let Some(hash) = view["hash"].as_str() {
        lines.push(format!("`switchboard config accept` accepts it; its hash is {hash}"));
    }
    if lines.is_empty() && view["file"].is_string() {
        lines.push("everything in it is in effect".into());
    }
    let lines: String = lines.into_iter().map(|line| format!("  {line}\n")).collect();
    format!("{file}\n{lines}")
}

fn server_lines(server: &Value) -> Vec<String> {
    let name = server["server"].as_str().map(escaped).unwrap_or_default();
    let changed = strings(&server["changed"]);
    let kind = if changed.is_empty() { "new".into() } else { format!("changed: {}", changed.join(", ")) };
    let mut lines = vec![format!("waits: [tools.{name}] ({kind})")];
    let words: Vec<&str> = server["command"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    if !words.is_empty() {
        lines.push(format!("    runs {}", command_line(&words)));
    }
    for (field, label) in [("cwd", "in"), ("url", "sends to")] {
        lines.extend(server[field].as_str().map(|text| format!("    {label} {}", escaped(text))));
    }
    for (field, label) in [("variables", "with the variables"), ("headers", "with the headers")] {
        let names = strings(&server[field]);
        if !names.is_empty() {
            lines.push(format!("    {label} {} (values are not shown)", names.join(", ")));
        }
    }
    lines
}

/// As a shell would take it, so that the words can be told apart.
fn command_line(words: &[&str]) -> String {
    let quoted = words.iter().map(|word| shlex::try_quote(word).unwrap_or_else(|_| (*word).into()));
    escaped(&quoted.collect::<Vec<_>>().join(" "))
}

fn strings(list: &Value) -> Vec<String> {
    list.as_array().into_iter().flatten().filter_map(Value::as_str).map(escaped).collect()
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use serde_json::json;

    use super::to_text;

    #[test]
    fn what_would_start_is_printed_word_by_word_and_escaped() {
        let view = json!({
            "file": "/etc/switchboard.toml",
            "hash": "a1b2",
            "pending": [
                { "server": "evil", "changed": [], "command": ["sh", "-c", "id > x\u{1b}[2J\nls"], "cwd": "/",
                  "variables": ["LD_PRELOAD"], "url": null, "headers": [] },
                { "server": "web", "changed": ["url", "headers"], "command": null, "cwd": null,
                  "variables": [], "url": "https://example.com", "headers": ["Authorization"] },
            ],
            "after_restart": ["listen"],
            "problems": [],
        });
        expect![[r#"
            /etc/switchboard.toml
              waits: [tools.evil] (new)
                  runs sh -c 'id > x<U+001B>[2J<newline>ls'
                  in /
                  with the variables LD_PRELOAD (values are not shown)
              waits: [tools.web] (changed: url, headers)
                  sends to https://example.com
                  with the headers Authorization (values are not shown)
              counts after a restart: listen
              `switchboard config accept` accepts it; its hash is a1b2
        "#]]
        .assert_eq(&to_text(&view));
        let nothing = json!({ "file": null, "hash": null, "pending": [], "after_restart": [], "problems": [] });
        expect![[r#"
            the server follows no file
        "#]]
        .assert_eq(&to_text(&nothing));
    }
}
