//! `switchboard tools call`: one call of one tool, through the running server or with tool servers of its own.

mod remote;

use std::io::{self, IsTerminal};
use std::process::ExitCode;

use anyhow::{Result, anyhow, bail, ensure};
use clap::Args;
use serde_json::{Map, Value};
use supervise::escaped_lines;
use tools::{ServerState, ServerView};

use super::own::{Own, caller, start_timeout};
use super::{INTERRUPTED, NOT_DONE, patience, unknown};
use crate::config::{Config, load};
use crate::object;
use crate::operate::ServerFlags;
use crate::print::{escaped_json, print};
use crate::server::Server;
use crate::signals::Signals;

/// Call a tool and print what it says: text as text, the rest as JSON
#[derive(Args)]
#[command(after_help = "\
Examples:
  switchboard tools call time__now
  switchboard tools call files__read_file '{\"path\":\"README.md\"}'
  jq -n '{text: \"hello\"}' | switchboard tools call demo__echo - --json

The running server is asked, which keeps a record of it and lets somebody confirm it where that is wanted. Without one the
tool's own server is started from the configuration, called, and stopped; what needs a confirmation is then refused.

Exit codes: 0 it succeeded; 1 it failed and says why; 2 it could not be called.")]
pub(super) struct Call {
    /// The name that it is offered under, such as files__read_file
    name: String,
    /// Its arguments, a JSON object; `-` reads them from stdin
    #[arg(value_name = "JSON", default_value = "{}")]
    arguments: String,
}

/// Runs the command.
pub(super) async fn run(call: &Call, flags: &ServerFlags) -> Result<ExitCode> {
    let arguments = object::read(&call.arguments, "the arguments")?;
    let config = load(flags.config.as_deref(), Vec::new())?.config;
    let mut signals = Signals::new()?;
    let server = match &flags.server {
        Some(_) => Some(Server::find(flags.server.as_deref(), &config)?),
        None => Server::running(&config.state_dir).ok(),
    };
    let calling = async {
        match &server {
            Some(server) => {
                let what =
                    format!("{} is called; if it waits for a decision, `switchboard approvals` shows it", call.name);
                patience::wait(&what, remote::call(server, &call.name, arguments)).await
            }
            None => call_here(&call.name, arguments, config).await,
        }
    };
    let result = tokio::select! {
        result = calling => result?,
        () = signals.next() => return Ok(ExitCode::from(INTERRUPTED)),
    };
    print(&if flags.json { escaped_json(&result) + "\n" } else { to_text(&result, io::stdout().is_terminal()) })?;
    Ok(match (&result["resultType"], &result["isError"]) {
        (Value::String(kind), _) if kind == "input_required" => ExitCode::from(NOT_DONE),
        (_, Value::Bool(true)) => ExitCode::FAILURE,
        _ => ExitCode::SUCCESS,
    })
}

async fn call_here(name: &str, arguments: Map<String, Value>, config: Config) -> Result<Value> {
    let servers = candidates(name, config.tools);
    ensure!(
        !servers.is_empty(),
        "no server runs here, and no tool server is configured: add [tools.NAME] to the configuration"
    );
    let patient = start_timeout(&servers);
    let own = Own::start(servers, config.limits.tools)?;
    patience::wait("starting tool servers", own.host.settled(patient)).await;
    let called = match find(name, &own.host.servers()) {
        Ok(()) => {
            let caller = caller();
            let calling = own.host.call(&caller, name, Value::Object(arguments));
            let called = patience::wait(&format!("{name} is called"), calling).await;
            called.map_err(|error| anyhow!("{}", escaped_lines(&error.message)))
        }
        Err(error) => Err(error),
    };
    own.host.stop().await;
    called
}

/// The servers that may have this tool: those whose prefix it begins with, or all if that says nothing.
fn candidates(name: &str, servers: Vec<tools::Server>) -> Vec<tools::Server> {
    let is_of = |server: &tools::Server| name.strip_prefix(&*server.prefix).is_some_and(|rest| rest.starts_with("__"));
    let is_told = servers.iter().any(is_of);
    servers.into_iter().filter(|server| !is_told || is_of(server)).collect()
}

/// Whether a tool is there; if not, why it is not.
fn find(name: &str, views: &[ServerView]) -> Result<()> {
    if views.iter().any(|view| view.tools.iter().any(|tool| tool == name)) {
        return Ok(());
    }
    let down = views.iter().find(|view| !view.state.is_usable() && view.state != ServerState::Stopped);
    if let Some(view) = down {
        let reason = view.reason.as_deref().map(escaped_lines).unwrap_or_else(|| "it does not answer".into());
        bail!(
            "the tool server {} is {}: {reason}; `switchboard tools check {}` says what is wrong",
            view.name,
            view.state.name(),
            view.name
        );
    }
    bail!(unknown("tool", name, views.iter().flat_map(|view| &view.tools).map(String::as_str)))
}

/// Text as text, and whatever else there is as JSON, each on its line.
fn to_text(result: &Value, is_terminal: bool) -> String {
    let json_text = |value: &Value| if is_terminal { escaped_json(value) } else { value.to_string() };
    let mut text = String::new();
    let mut has_text = false;
    for part in result["content"].as_array().into_iter().flatten() {
        match part["text"].as_str().filter(|_| part["type"] == "text") {
            Some(said) => {
                has_text = true;
                text.push_str(&if is_terminal { escaped_lines(said) } else { said.to_owned() });
            }
            None => text.push_str(&json_text(part)),
        }
        if !text.ends_with('\n') {
            text.push('\n');
        }
    }
    // Servers say the same in words for those that do not read it.
    if !has_text && !result["structuredContent"].is_null() {
        text.push_str(&(json_text(&result["structuredContent"]) + "\n"));
    }
    if result["content"].is_null() && text.is_empty() {
        text = json_text(result) + "\n";
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{candidates, to_text};
    use crate::operate::adversary::{assert_harmless, poisoned};

    #[test]
    fn text_is_printed_as_text_and_the_rest_as_json() {
        let result = json!({ "content": [
            { "type": "text", "text": "a\u{1b}" },
            { "type": "image", "data": "AA==", "mimeType": "image/png" },
        ], "structuredContent": { "a": 1 } });
        let image = r#"{"data":"AA==","mimeType":"image/png","type":"image"}"#;
        assert_eq!(to_text(&result, false), format!("a\u{1b}\n{image}\n"));
        assert_eq!(to_text(&result, true), format!("a<U+001B>\n{image}\n"));
        assert_eq!(to_text(&json!({ "content": [], "structuredContent": { "a": 1 } }), false), "{\"a\":1}\n");
        assert_eq!(to_text(&json!({ "content": [] }), false), "");
        assert_eq!(to_text(&json!({ "inputRequests": {} }), false), "{\"inputRequests\":{}}\n");
    }

    #[test]
    fn adversary_result_of_a_tool_does_nothing_to_a_terminal() {
        let image = json!({ "type": "image", "data": "AA==", "mimeType": "m" });
        for result in [
            json!({ "content": [{ "type": "text", "text": "a" }, image] }),
            json!({ "content": [], "structuredContent": { "a": "b" } }),
            json!({ "inputRequests": { "a": "b" } }),
        ] {
            assert_harmless(&to_text(&poisoned(&result), true));
        }
    }

    #[test]
    fn only_the_server_of_a_tool_is_started_where_its_name_tells_which() {
        let server = |name: &str, prefix: &str| {
            let reach = tools::Reach::Http { url: "http://127.0.0.1/".into(), headers: Vec::new() };
            tools::Server { prefix: prefix.into(), ..tools::Server::new(name, reach) }
        };
        let names = |tool: &str| -> Vec<String> {
            let servers = vec![server("a", "a"), server("b", "bee"), server("c", "")];
            candidates(tool, servers).into_iter().map(|server| server.name.into()).collect()
        };
        assert_eq!(names("a__x"), ["a"]);
        assert_eq!(names("bee__x"), ["b"]);
        assert_eq!(names("x"), ["a", "b", "c"]);
    }
}
