//! `switchboard tools list`: how the tool servers of a running server are, what is wrong with one, and starting one anew.

use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use serde_json::{Value, json};
use supervise::escaped_lines;

use super::unknown;
use crate::operate::{EXIT_CODES, ServerFlags, cell, rows, segment};
use crate::print::table;
use crate::server::ServerError;

/// List the tool servers of a running server (what it does without a word), or show one
#[derive(Args, Default)]
#[command(after_help = EXIT_CODES)]
pub(super) struct List {
    /// One of them, with its tools, those that cannot be offered, and what is wrong with it
    name: Option<String>,
}

/// Runs the command.
pub(super) async fn run(list: &List, flags: &ServerFlags) -> Result<ExitCode> {
    let Some(name) = &list.name else {
        return flags.ask(async |server| server.get("/api/tools").await, all).await;
    };
    let find = async |server: crate::server::Server| {
        let answer: Value = server.get("/api/tools").await?;
        let servers = servers(&answer);
        let found = servers.iter().find(|server| server["name"] == name.as_str()).cloned();
        found.ok_or_else(|| {
            let names = servers.iter().filter_map(|server| server["name"].as_str());
            let message = unknown("tool server", name, names);
            ServerError::Refused { status: 404, code: "tool_server_not_found".into(), message }
        })
    };
    flags.ask(find, one).await
}

/// Starts one anew.
pub(super) async fn restart(name: &str, flags: &ServerFlags) -> Result<ExitCode> {
    let path = format!("/api/tools/{}/restart", segment(name));
    let restarting =
        |_: &Value| format!("{} is started anew: `switchboard tools` shows what comes of it\n", cell(&name.into()));
    flags.ask(async |server| server.post(&path, &json!({})).await, restarting).await
}

fn servers(answer: &Value) -> &[Value] {
    answer["servers"].as_array().map(Vec::as_slice).unwrap_or_default()
}

fn all(answer: &Value) -> String {
    if servers(answer).is_empty() {
        return "no tool server is configured: add [tools.NAME] to the configuration\n".into();
    }
    let fields = rows(answer, "servers", ["name", "state", "protocol", "era", "restarts"]).into_iter();
    let listed: Vec<_> = fields
        .zip(servers(answer))
        .map(|([name, state, protocol, era, restarts], server)| {
            [name, state, protocol, era, count(&server["tools"]).to_string(), restarts]
        })
        .collect();
    let mut text = table(["SERVER", "STATE", "PROTOCOL", "ERA", "TOOLS", "RESTARTS"], &listed);
    for server in servers(answer) {
        text.push_str(&remark(server).map(|remark| format!("{remark}\n")).unwrap_or_default());
    }
    text
}

/// What is to be said of a server besides its row.
fn remark(server: &Value) -> Option<String> {
    let name = cell(&server["name"]);
    let findings = match count(&server["findings"]) {
        0 => None,
        1 => Some(format!("1 finding: `switchboard tools list {name}` shows it")),
        many => Some(format!("{many} findings: `switchboard tools list {name}` shows them")),
    };
    let reason = match server["state"].as_str() {
        Some("starting") => &server["last_end"],
        _ => &server["reason"],
    };
    let said: Vec<String> = reason.as_str().map(set_off).into_iter().chain(findings).collect();
    (!said.is_empty()).then(|| format!("{name}: {}", said.join("; ")))
}

/// Text of a server; lines after the first are set off, so that none of them can pass for a row of ours.
fn set_off(text: &str) -> String {
    escaped_lines(text).replace('\n', "\n    ")
}

fn count(list: &Value) -> usize {
    list.as_array().map_or(0, Vec::len)
}

fn one(server: &Value) -> String {
    let said = |value: &Value| (!value.is_null()).then(|| cell(value));
    let implementation = &server["implementation"];
    let itself = said(&implementation["name"]).map(|name| format!("{name} {}", cell(&implementation["version"])));
    let speaks = said(&server["protocol"]).map(|version| format!("{version} ({})", cell(&server["era"])));
    let from_memory = if server["is_from_memory"] == true { ", as they were when it last ran" } else { "" };
    let lines = [
        ("server", said(&server["name"])),
        ("state", said(&server["state"])),
        ("reason", server["reason"].as_str().map(set_off)),
        ("last ended", server["last_end"].as_str().filter(|_| server["reason"].is_null()).map(set_off)),
        ("speaks", speaks),
        ("calls itself", itself),
        ("pid", said(&server["pid"])),
        ("restarts", said(&server["restarts"])),
        ("ready after", said(&server["ready_after_ms"]).map(|after| format!("{after} ms"))),
        ("resources", said(&server["resources"])),
        ("prompts", said(&server["prompts"])),
        ("tools", Some(format!("{}{from_memory}", count(&server["tools"])))),
    ];
    let mut text: String =
        lines.iter().filter_map(|(name, said)| Some(format!("{name:13} {}\n", said.as_ref()?))).collect();
    for tool in server["tools"].as_array().into_iter().flatten() {
        text.push_str(&format!("  {}\n", cell(tool)));
    }
    for [name, path, why] in rows(server, "quarantined", ["name", "path", "why"]) {
        text.push_str(&format!("not offered   {name} ({path}): {why}\n"));
    }
    for finding in server["findings"].as_array().into_iter().flatten() {
        text.push_str(&format!("\n{}", told(finding)));
    }
    text
}

/// A finding as a check prints it.
fn told(finding: &Value) -> String {
    let [code, severity, what] = ["code", "severity", "what"].map(|field| cell(&finding[field]));
    let mut text = format!("{code} {severity}: {what}\n");
    for (label, field) in [("frame:", "frame"), ("at:", "path"), ("fix:", "fix")] {
        if !finding[field].is_null() {
            text.push_str(&format!("  {label:6} {}\n", cell(&finding[field])));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use serde_json::json;

    use super::{all, one};
    use crate::operate::adversary::{assert_harmless, poisoned};

    fn answer() -> serde_json::Value {
        json!({ "servers": [
            {
                "name": "files", "state": "degraded", "reason": null, "last_end": "killed by SIGKILL", "era": "legacy", "protocol": "2025-11-25",
                "implementation": { "name": "files", "version": "1.2" }, "pid": 7, "restarts": 0,
                "ready_after_ms": 320, "tools": ["files__read", "files__write"], "resources": 1, "prompts": 0,
                "is_from_memory": false,
                "quarantined": [{ "name": "odd", "path": "$.tools[2].inputSchema", "why": "it has no schema" }],
                "findings": [{
                    "code": "D7", "severity": "error", "what": "the tool `odd` has no `inputSchema`",
                    "frame": "{\"name\":\"odd\"}", "path": "$.result.tools[2]", "fix": "add it",
                }],
            },
            {
                "name": "time", "state": "failed", "reason": "exited with code 3\nTraceback\u{1b}", "last_end": "exited with code 3", "era": null,
                "protocol": null, "implementation": null, "pid": null, "restarts": 4, "ready_after_ms": null,
                "tools": [], "resources": 0, "prompts": 0, "is_from_memory": true, "quarantined": [], "findings": [],
            },
        ] })
    }

    #[test]
    fn every_server_has_a_row_and_what_is_wrong_stands_below() {
        expect![[r#"
            SERVER  STATE     PROTOCOL    ERA     TOOLS  RESTARTS
            files   degraded  2025-11-25  legacy  2      0
            time    failed    –           –       0      4
            files: 1 finding: `switchboard tools list files` shows it
            time: exited with code 3
                Traceback<U+001B>
        "#]]
        .assert_eq(&all(&answer()));
        assert!(all(&json!({ "servers": [] })).starts_with("no tool server is configured"));
    }

    #[test]
    fn adversary_server_writes_nothing_that_a_terminal_obeys() {
        let poisoned = poisoned(&answer());
        assert_harmless(&all(&poisoned));
        for server in poisoned["servers"].as_array().unwrap() {
            assert_harmless(&one(server));
        }
    }

    #[test]
    fn one_server_is_shown_with_its_tools_and_every_finding() {
        expect![[r#"
            server        files
            state         degraded
            last ended    killed by SIGKILL
            speaks        2025-11-25 (legacy)
            calls itself  files 1.2
            pid           7
            restarts      0
            ready after   320 ms
            resources     1
            prompts       0
            tools         2
              files__read
              files__write
            not offered   odd ($.tools[2].inputSchema): it has no schema

            D7 error: the tool `odd` has no `inputSchema`
              frame: {"name":"odd"}
              at:    $.result.tools[2]
              fix:   add it
        "#]]
        .assert_eq(&one(&answer()["servers"][0]));
    }
}
