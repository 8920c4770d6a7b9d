//! What a binary tells of its methods: its JSON Schema where it can print one, else the TypeScript that the oldest
//! print; and besides, the list with which it answers an unknown method, which names a few that its schema leaves out.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result};

use super::Kind;
use crate::run;
use crate::schema::MethodTable;
use crate::schema::bundle::{self, Extent};

const TOLD_TIMEOUT: Duration = Duration::from_secs(60);

const NO_METHOD: &str = "{\"id\":1,\"method\":\"switchboard/none\"}\n";

/// The unions of the TypeScript.
const UNIONS: [(Kind, &str); 4] = [
    (Kind::Call, "ClientRequest.ts"),
    (Kind::ClientNotification, "ClientNotification.ts"),
    (Kind::Notification, "ServerNotification.ts"),
    (Kind::Request, "ServerRequest.ts"),
];

pub(super) fn methods_of(binary: &Path) -> Result<Vec<(Kind, String)>> {
    let bundle = bundle::ask(binary, Extent::Experimental).or_else(|_| bundle::ask(binary, Extent::Stable));
    let mut methods = match bundle {
        Ok(bundle) => of_table(&MethodTable::of(&bundle)?),
        Err(_) => of_typescript(binary)?,
    };
    let listed = own_list(binary)?;
    let known: BTreeSet<String> = methods.iter().map(|(_, method)| method.clone()).collect();
    let more = listed.into_iter().filter(|method| !known.contains(method));
    methods.extend(more.map(|method| (Kind::Call, method)));
    Ok(methods)
}

/// The calls that a binary lists when it is asked for one that it does not have; the oldest list none.
pub(in crate::schema) fn own_list(binary: &Path) -> Result<Vec<String>> {
    Ok(methods_named_in(&answer_to_no_method(binary)?))
}

fn of_table(table: &MethodTable) -> Vec<(Kind, String)> {
    let groups = table.by_kind().into_iter();
    groups.flat_map(|(kind, methods)| methods.iter().map(move |row| (kind, row.method.clone()))).collect()
}

fn of_typescript(binary: &Path) -> Result<Vec<(Kind, String)>> {
    let (home, place) = (tempfile::tempdir()?, tempfile::tempdir()?);
    let mut codex = run::program(binary);
    codex.env("CODEX_HOME", home.path()).args(["generate-ts", "--out"]).arg(place.path());
    run::stdout_of(&mut codex, TOLD_TIMEOUT)?;
    let mut methods = Vec::new();
    for (kind, file) in UNIONS {
        let text = fs::read_to_string(place.path().join(file)).with_context(|| format!("no {file}"))?;
        methods.extend(methods_quoted_in(&text).into_iter().map(|method| (kind, method)));
    }
    Ok(methods)
}

/// The binary stops at the end of its input without answering, so the input stays open for as long as an answer takes.
fn answer_to_no_method(binary: &Path) -> Result<String> {
    let home = tempfile::tempdir()?;
    let mut shell = run::program("sh");
    shell.env("CODEX_HOME", home.path()).arg("-c");
    shell.arg("{ printf '%s' \"$2\"; sleep 5; } | \"$1\" app-server").args(["sh".as_ref(), binary.as_os_str()]);
    Ok(run::stdout_of(shell.arg(NO_METHOD), TOLD_TIMEOUT)?)
}

/// `… "method": "initialize", …`
fn methods_quoted_in(typescript: &str) -> Vec<String> {
    let after = typescript.split("\"method\": \"").skip(1);
    after.filter_map(|text| text.split('"').next()).map(str::to_owned).collect()
}

/// ``… expected one of `initialize`, `thread/start` …``
fn methods_named_in(answer: &str) -> Vec<String> {
    let Some((_, list)) = answer.split_once("expected one of") else {
        return Vec::new();
    };
    list.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::{methods_named_in, methods_quoted_in};

    #[test]
    fn methods_are_found_in_typescript() {
        let text =
            r#"export type A = { "method": "initialize", id: B, } | { "method": "newConversation", params: C };"#;
        assert_eq!(methods_quoted_in(text), ["initialize", "newConversation"]);
    }

    #[test]
    fn methods_are_found_in_the_answer_to_an_unknown_one() {
        let text =
            r#"{"error":{"message":"Invalid request: unknown variant `x`, expected one of `initialize`, `a/b`"}}"#;
        assert_eq!(methods_named_in(text), ["initialize", "a/b"]);
        assert!(methods_named_in(r#"{"error":{"code":-32600,"message":"Invalid request"}}"#).is_empty());
    }
}
