//! `switchboard schema`, against scripts that play a codex, and against the real one.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;

fn schema(arguments: &[&str]) -> Output {
    #[expect(clippy::disallowed_methods, reason = "the test plays the user's shell")]
    let mut command = Command::new(env!("CARGO_BIN_EXE_switchboard"));
    command.arg("schema").args(arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> &str {
    str::from_utf8(bytes).unwrap()
}

/// A script that prints the built-in schema, edited.
fn codex_with(edit: &str, place: &TempDir) -> PathBuf {
    let built_in = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../schema/app-server.json");
    let program = place.path().join("codex");
    let script = format!(
        "#!/bin/sh\ncase $1 in --version) echo codex-cli 9.9.9;;\n*) sed '{edit}' '{}' > \
         \"$4/codex_app_server_protocol.schemas.json\";; esac\n",
        built_in.display()
    );
    fs::write(&program, script).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    program
}

#[test]
fn the_table_lists_every_method_for_people_and_for_programs() {
    let output = schema(&["methods"]);
    assert!(output.status.success());
    let table = text(&output.stdout);
    assert!(table.lines().any(|line| line.split_whitespace().eq(["turn/start", "call", "0.58.0"])), "{table}");
    assert!(table.lines().any(|line| line.starts_with("sendUserTurn") && line.ends_with("until 0.107.0")), "{table}");
    assert!(table.contains("\n179 calls, 85 notifications, 11 requests, 1 client notification"), "{table}");

    let json: Value = serde_json::from_slice(&schema(&["methods", "--json"]).stdout).unwrap();
    let methods = json["methods"].as_array().unwrap();
    let steer = methods.iter().find(|row| row["method"] == "turn/steer").unwrap();
    assert_eq!(steer["experimental"], false);
    assert_eq!(steer["kind"], "call");
    assert_eq!(steer["until"], Value::Null);
}

#[test]
fn a_binary_that_speaks_otherwise_is_told_from_the_built_in_protocol() {
    let place = TempDir::new().unwrap();
    let same = codex_with("", &place);
    let output = schema(&["diff", "--codex", same.to_str().unwrap()]);
    assert!(text(&output.stdout).ends_with("\nno difference\n"), "{output:?}");

    let other = codex_with("s|turn/started|turn/begun|; s|\"expectedTurnId\"|\"turnWanted\"|", &place);
    let output = schema(&["diff", "--codex", other.to_str().unwrap()]);
    let report = text(&output.stdout);
    assert!(report.starts_with("codex 9.9.9 against the built-in protocol of "), "{report}");
    assert!(report.contains("  + turn/begun\n"), "{report}");
    assert!(report.contains("  - turn/started    (Switchboard depends on it)\n"), "{report}");
    assert!(report.contains("  - TurnSteerParams.expectedTurnId    (Switchboard depends on it)\n"), "{report}");

    let output = schema(&["diff", "--json", "--codex", other.to_str().unwrap()]);
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["codex"], "9.9.9");
    assert_eq!(json["difference"]["methods"]["added"], serde_json::json!(["turn/begun"]));
    let needed = serde_json::json!(["TurnSteerParams.expectedTurnId", "turn/started"]);
    assert_eq!(json["difference"]["needed"], needed);
}

#[test]
fn a_binary_that_cannot_be_compared_is_an_error_in_one_line() {
    for program in ["/bin/true", "/no/such/codex"] {
        let output = schema(&["diff", "--codex", program]);
        assert_eq!(output.status.code(), Some(1));
        assert!(output.stdout.is_empty());
        let error = text(&output.stderr);
        assert!(error.starts_with("switchboard: `") && error.lines().count() == 1, "{error}");
    }
}

#[cfg(feature = "real-codex")]
#[test]
fn the_real_codex_speaks_the_built_in_protocol() {
    let binary = testkit::codex::binary().unwrap();
    let output = schema(&["diff", "--codex", binary.to_str().unwrap()]);
    assert!(text(&output.stdout).ends_with("\nno difference\n"), "{output:?}");
}
