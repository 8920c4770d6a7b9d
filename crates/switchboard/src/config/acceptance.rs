//! Which tool servers of a changed configuration file count at once, and which wait for an operator. The rule is short:
//! a server that is gone is stopped; one that is new, or changed in any way, waits.

use std::ffi::OsStr;

use data_encoding::HEXLOWER;
use front::PendingServer;
use ring::digest::{SHA256, digest};
use tools::{Reach, Server};

use super::secret::public_address;

/// A changed file, divided.
#[derive(Debug, PartialEq)]
pub(super) struct ServerChanges {
    /// What may run without an operator's word: what was accepted before and still stands in the file.
    pub(super) at_once: Vec<Server>,
    pub(super) waiting: Vec<PendingServer>,
}

/// Divides what the file configures, now that `accepted` are in effect.
pub(super) fn split_changes(accepted: &[Server], configured: &[Server]) -> ServerChanges {
    let mut division = ServerChanges { at_once: Vec::new(), waiting: Vec::new() };
    for server in configured {
        let before = accepted.iter().find(|accepted| accepted.name == server.name);
        if before != Some(server) {
            division.waiting.push(shown(server, before));
        }
        division.at_once.extend(before.cloned());
    }
    division
}

/// The SHA-256 of a file's content, in hexadecimal digits.
pub(super) fn hash(content: &str) -> String {
    HEXLOWER.encode(digest(&SHA256, content.as_bytes()).as_ref())
}

fn shown(server: &Server, before: Option<&Server>) -> PendingServer {
    let name = server.name.to_string();
    let changed = before.map(|before| differences(before, server)).unwrap_or_default();
    match &server.reach {
        Reach::Process { command, env, cwd, rlimits: _ } => PendingServer {
            command: Some(command.iter().map(|word| text(word)).collect()),
            cwd: Some(text(cwd.as_os_str())),
            variables: env.iter().map(|(name, _)| text(name)).collect(),
            server: name,
            changed,
            ..PendingServer::default()
        },
        Reach::Http { url, headers } => PendingServer {
            url: Some(public_address(url).into_owned()),
            headers: headers.iter().map(|(name, _)| name.clone()).collect(),
            server: name,
            changed,
            ..PendingServer::default()
        },
    }
}

fn text(text: &OsStr) -> String {
    text.to_string_lossy().into_owned()
}

/// What is not the same, by the names of the keys.
fn differences(before: &Server, after: &Server) -> Vec<&'static str> {
    let mut names = match (&before.reach, &after.reach) {
        (
            Reach::Process { command, env, cwd, rlimits },
            Reach::Process { command: other, env: other_env, cwd: other_cwd, rlimits: other_rlimits },
        ) => chosen([
            ("command", command != other),
            ("variables", env != other_env),
            ("cwd", cwd != other_cwd),
            ("limits", rlimits != other_rlimits),
        ]),
        (Reach::Http { url, headers }, Reach::Http { url: other, headers: other_headers }) => {
            chosen([("url", url != other), ("headers", headers != other_headers)])
        }
        (Reach::Process { .. }, Reach::Http { .. }) => vec!["url"],
        (Reach::Http { .. }, Reach::Process { .. }) => vec!["command"],
    };
    names.extend(chosen([
        ("enabled_tools", before.enabled != after.enabled),
        ("confirm", before.confirm != after.confirm),
        ("confirm_tools", before.confirm_tools != after.confirm_tools),
        ("prefix", before.prefix != after.prefix),
        ("restart", before.restart != after.restart),
        ("dialect", before.dialect != after.dialect),
        ("result_bytes_max", before.result_bytes_max != after.result_bytes_max),
        ("timeouts", before.timeouts != after.timeouts),
    ]));
    names
}

fn chosen<const N: usize>(names: [(&'static str, bool); N]) -> Vec<&'static str> {
    names.into_iter().filter(|(_, is_changed)| *is_changed).map(|(name, _)| name).collect()
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::config::tests::resolved;

    fn servers(text: &str) -> Vec<Server> {
        resolved(text).config.tools
    }

    #[test]
    fn what_is_new_or_changed_waits_and_what_is_gone_is_gone() {
        let before = "[tools.a]\ncommand = [\"a\"]\n[tools.b]\nurl = \"https://b\"\n[tools.c]\ncommand = [\"c\"]\n";
        let after = "[tools.a]\ncommand = [\"a\"]\n[tools.b]\nurl = \"https://evil/?canary\"\nconfirm = \"never\"\n\
                     [tools.d]\ncommand = [\"sh\", \"-c\", \"d\"]\nvariables = { A = \"canary\" }\n";
        let ServerChanges { at_once, waiting } = split_changes(&servers(before), &servers(after));
        let kept = servers(before);
        assert_eq!(at_once, kept[..2], "the changed one runs on as it was accepted");
        expect![[r#"
            [
                PendingServer {
                    server: "b",
                    changed: [
                        "url",
                        "confirm",
                    ],
                    command: None,
                    cwd: None,
                    variables: [],
                    url: Some(
                        "https://evil/?…",
                    ),
                    headers: [],
                },
                PendingServer {
                    server: "d",
                    changed: [],
                    command: Some(
                        [
                            "sh",
                            "-c",
                            "d",
                        ],
                    ),
                    cwd: Some(
                        "/home/dev/project",
                    ),
                    variables: [
                        "A",
                    ],
                    url: None,
                    headers: [],
                },
            ]
        "#]]
        .assert_eq(&format!("{waiting:#?}\n"));
    }

    #[test]
    fn every_change_of_a_server_waits() {
        let before = servers("[tools.a]\ncommand = [\"a\"]\n");
        for (change, name) in [
            ("command = [\"a\", \"b\"]", "command"),
            ("command = [\"a\"]\nvariables = { LD_PRELOAD = \"evil.so\" }", "variables"),
            ("command = [\"a\"]\nenv = [\"HOME\"]", "variables"),
            ("command = [\"a\"]\ncwd = \"/\"", "cwd"),
            ("command = [\"a\"]\nopen_files_max = 20", "limits"),
            ("command = [\"a\"]\nconfirm = \"never\"", "confirm"),
            ("command = [\"a\"]\nconfirm_tools = [\"x\"]", "confirm_tools"),
            ("command = [\"a\"]\nenabled_tools = [\"x\"]", "enabled_tools"),
            ("command = [\"a\"]\nprefix = \"\"", "prefix"),
            ("command = [\"a\"]\nrestart = \"never\"", "restart"),
            ("command = [\"a\"]\ndialect = \"localcowork\"", "dialect"),
            ("command = [\"a\"]\nresult_bytes_max = 2048", "result_bytes_max"),
            ("command = [\"a\"]\ncall_timeout = \"1s\"", "timeouts"),
            ("url = \"https://evil\"", "url"),
        ] {
            let ServerChanges { at_once, waiting } =
                split_changes(&before, &servers(&format!("[tools.a]\n{change}\n")));
            assert_eq!(at_once, before, "{change}");
            assert_eq!(waiting.len(), 1, "{change}");
            assert_eq!(waiting[0].changed, [name], "{change}");
        }
    }
}
