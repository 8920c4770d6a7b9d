//! What was made from something else still agrees with it, as far as that shows without a codex binary:
//! `schema/` is in its canonical form, its method table is what its bundle implies, and the generated Rust is what the
//! generator makes of both.

use serde_json::Value;

use super::finding::Finding;
use super::tree::Tree;
use crate::schema::{self, History, Method, MethodTable, pretty, trimmed};

const VERSION: &str = "schema/VERSION";
const BUNDLE: &str = "schema/app-server.json";
const METHODS: &str = "schema/methods.json";
const HISTORY: &str = "schema/history.json";
const TESTED: &str = "schema/TESTED";

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let findings = check_schema(tree);
    if !findings.is_empty() {
        return findings;
    }
    let history = check_history(tree).err().map(|(path, what)| finding(path, &what, " --history"));
    history.into_iter().chain(check_rust(tree)).collect()
}

fn check_schema(tree: &Tree) -> Vec<Finding> {
    let made = [check_version(tree), check_bundle(tree), check_methods(tree)].into_iter().filter_map(Result::err);
    made.map(|(path, what)| finding(path, &what, "")).collect()
}

fn finding(path: &str, what: &str, flag: &str) -> Finding {
    Finding::new(path, 1, format!("{what}; run `cargo xtask schema{flag}`"))
}

/// The generated Rust, in both directions: every file as the generator writes it, and none besides.
fn check_rust(tree: &Tree) -> Vec<Finding> {
    let text_of = |path: &str| {
        let file = tree.file(path).ok_or_else(|| anyhow::anyhow!("{path} is missing"))?;
        Ok(file.text.clone())
    };
    let fresh = match schema::generated(text_of) {
        Ok(fresh) => fresh,
        Err(error) => return vec![finding(BUNDLE, &format!("makes no Rust: {error:#}"), "")],
    };
    let is_fresh = |path: &str, text: &str| fresh.iter().any(|file| file.path == path && file.text == text);
    let committed = tree.files.iter().filter(|file| file.path.starts_with(schema::PLACE));
    let stale = committed.filter(|file| !is_fresh(&file.path, &file.text)).map(|file| file.path.as_str());
    let missing = fresh.iter().filter(|file| tree.file(&file.path).is_none()).map(|file| file.path.as_str());
    stale.chain(missing).map(|path| finding(path, "is not what the schema makes of it", " --generate")).collect()
}

/// A file and what is wrong with it.
type Complaint = (&'static str, String);

fn check_version(tree: &Tree) -> Result<(), Complaint> {
    let version = text_of(tree, VERSION)?;
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let release = version.strip_suffix('\n').unwrap_or(version).split('-').next().unwrap_or_default();
    let is_version = release.split('.').count() == 3 && release.split('.').all(is_number);
    if is_version && version.lines().count() == 1 && version.ends_with('\n') {
        return Ok(());
    }
    Err((VERSION, format!("{version:?} is not one version and a newline")))
}

fn check_bundle(tree: &Tree) -> Result<(), Complaint> {
    let text = text_of(tree, BUNDLE)?;
    if pretty(&trimmed(bundle_in(tree)?)) == text {
        return Ok(());
    }
    Err((BUNDLE, "is not in the form that the command writes".to_owned()))
}

fn check_methods(tree: &Tree) -> Result<(), Complaint> {
    let table = text_of(tree, METHODS)?;
    let Ok(bundle) = bundle_in(tree) else {
        return Ok(()); // The bundle's own check has said so.
    };
    let implied = MethodTable::of(&bundle).map_err(|error| (BUNDLE, error.to_string()))?;
    let table: MethodTable = serde_json::from_str(table).map_err(|error| (METHODS, error.to_string()))?;
    if let Some(difference) = first_difference(&implied, &table) {
        return Err((METHODS, difference));
    }
    match table.unknown_field(&bundle) {
        None => Ok(()),
        Some((method, field)) => Err((METHODS, format!("{method} has no field `{field}` in the bundle"))),
    }
}

fn check_history(tree: &Tree) -> Result<(), Complaint> {
    let tested: Vec<&str> = text_of(tree, TESTED)?.split_whitespace().collect();
    let history = History::read(text_of(tree, HISTORY)?).map_err(|error| (HISTORY, error.to_string()))?;
    if history.versions() == tested {
        return Ok(());
    }
    Err((HISTORY, format!("is of the versions {:?}, not of {tested:?} as {TESTED} says", history.versions())))
}

fn first_difference(implied: &MethodTable, table: &MethodTable) -> Option<String> {
    implied.groups().iter().zip(table.groups()).find_map(|((group, expected), (_, found))| {
        let rows = 0..expected.len().max(found.len());
        let (row, expected, found) = rows
            .map(|row| (row, shown(expected.get(row)), shown(found.get(row))))
            .find(|(_, expected, found)| expected != found)?;
        Some(format!("{group}, entry {}: has {found}, the bundle implies {expected}", row + 1))
    })
}

fn shown(row: Option<&Method>) -> String {
    let Some(row) = row else {
        return "nothing".to_owned();
    };
    format!("{} with {}", row.method, row.params.as_deref().unwrap_or("no params"))
}

fn bundle_in(tree: &Tree) -> Result<Value, Complaint> {
    serde_json::from_str(text_of(tree, BUNDLE)?).map_err(|error| (BUNDLE, format!("is not JSON: {error}")))
}

fn text_of<'a>(tree: &'a Tree, path: &'static str) -> Result<&'a str, Complaint> {
    tree.file(path).map(|file| file.text.as_str()).ok_or_else(|| (path, "is missing".to_owned()))
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use serde_json::json;

    use super::super::{finding::listed, tree::Tree};
    use super::{BUNDLE, HISTORY, METHODS, TESTED, VERSION};
    use crate::schema::pretty;

    const TABLE: &str = r#"{
        "clientRequests": [{"method":"go","params":"Go","experimental":false,"experimentalFields":["far"]}],
        "clientNotifications": [], "serverNotifications": [], "serverRequests": []
    }"#;

    fn bundle() -> String {
        let go = json!({ "properties": { "method": { "enum": ["go"] }, "params": { "$ref": "#/definitions/Go" } } });
        pretty(&json!({ "definitions": {
            "ClientNotification": { "oneOf": [] },
            "ClientRequest": { "oneOf": [go] },
            "Go": { "properties": { "far": { "type": "boolean" } }, "type": "object" },
            "ServerNotification": { "oneOf": [] },
            "ServerRequest": { "oneOf": [] },
        } }))
    }

    fn check(version: &str, bundle: &str, methods: &str, expected: &Expect) {
        let tree = Tree::of(&[(VERSION, version), (BUNDLE, bundle), (METHODS, methods)]);
        expected.assert_eq(&listed(&super::check_schema(&tree)));
    }

    #[test]
    fn files_that_agree_are_right() {
        check("1.22.333\n", &bundle(), TABLE, &expect![""]);
        check("1.2.3-alpha.4\n", &bundle(), TABLE, &expect![""]);
    }

    #[test]
    fn a_version_that_is_none_is_found() {
        check(
            "1.2.3",
            &bundle(),
            TABLE,
            &expect![[r#"
            schema/VERSION:1: "1.2.3" is not one version and a newline; run `cargo xtask schema`
        "#]],
        );
        check(
            "v1.2.3\n",
            &bundle(),
            TABLE,
            &expect![[r#"
            schema/VERSION:1: "v1.2.3\n" is not one version and a newline; run `cargo xtask schema`
        "#]],
        );
        check(
            "1.2.3\n1.2.4\n",
            &bundle(),
            TABLE,
            &expect![[r#"
            schema/VERSION:1: "1.2.3\n1.2.4\n" is not one version and a newline; run `cargo xtask schema`
        "#]],
        );
        check(
            "1.2\n",
            &bundle(),
            TABLE,
            &expect![[r#"
            schema/VERSION:1: "1.2\n" is not one version and a newline; run `cargo xtask schema`
        "#]],
        );
    }

    #[test]
    fn a_bundle_changed_by_hand_is_found() {
        check(
            "1.2.3\n",
            &bundle().replace("boolean", "boolean\", \"title\": \"Far"),
            TABLE,
            &expect![[r#"
                schema/app-server.json:1: is not in the form that the command writes; run `cargo xtask schema`
            "#]],
        );
        check(
            "1.2.3\n",
            &bundle().replace('\n', "\r\n"),
            TABLE,
            &expect![[r#"
                schema/app-server.json:1: is not in the form that the command writes; run `cargo xtask schema`
            "#]],
        );
        check(
            "1.2.3\n",
            "{",
            TABLE,
            &expect![[r#"
                schema/app-server.json:1: is not JSON: EOF while parsing an object at line 1 column 1; run `cargo xtask schema`
            "#]],
        );
    }

    #[test]
    fn a_table_that_the_bundle_does_not_imply_is_found() {
        check(
            "1.2.3\n",
            &bundle(),
            &TABLE.replace("\"go\"", "\"come\""),
            &expect![[r#"
                schema/methods.json:1: clientRequests, entry 1: has come with Go, the bundle implies go with Go; run `cargo xtask schema`
            "#]],
        );
        check(
            "1.2.3\n",
            &bundle(),
            &TABLE.replace("\"Go\"", "null"),
            &expect![[r#"
                schema/methods.json:1: clientRequests, entry 1: has go with no params, the bundle implies go with Go; run `cargo xtask schema`
            "#]],
        );
        check(
            "1.2.3\n",
            &bundle(),
            &TABLE.replace("far", "near"),
            &expect![[r#"
                schema/methods.json:1: go has no field `near` in the bundle; run `cargo xtask schema`
            "#]],
        );
        let doubled = TABLE.replace(
            "\"serverRequests\": []",
            r#""serverRequests": [{"method":"ask","params":null,"experimental":true}]"#,
        );
        check(
            "1.2.3\n",
            &bundle(),
            &doubled,
            &expect![[r#"
            schema/methods.json:1: serverRequests, entry 1: has ask with no params, the bundle implies nothing; run `cargo xtask schema`
        "#]],
        );
    }

    #[test]
    fn generated_rust_that_is_stale_missing_or_left_over_is_found() {
        let bundle = bundle()
            .replace("Go", "GoParams")
            .replace("\"ServerNotification\"", "\"GoResponse\": { \"type\": \"object\" }, \"ServerNotification\"");
        let methods = TABLE.replace("\"Go\"", "\"GoParams\"");
        let history = r#"{"versions":[],"methods":[]}"#;
        let schema = [(BUNDLE, bundle.as_str()), (METHODS, &methods), (HISTORY, history)];
        let text_of = |path: &str| Ok(Tree::of(&schema).file(path).unwrap().text.clone());
        let fresh = crate::schema::generated(text_of).unwrap();
        let files = || schema.into_iter().chain(fresh.iter().map(|file| (file.path.as_str(), file.text.as_str())));
        let check = |files: Vec<(&str, &str)>| listed(&super::check_rust(&Tree::of(&files)));
        expect![""].assert_eq(&check(files().collect()));

        let stale = files().map(|(path, text)| (path, if path.ends_with("calls.rs") { "// edited" } else { text }));
        let stale = stale.filter(|(path, _)| !path.ends_with("turn.rs"));
        let left_over = [("crates/codex/src/protocol/generated/old.rs", "")];
        expect![[r#"
            crates/codex/src/protocol/generated/calls.rs:1: is not what the schema makes of it; run `cargo xtask schema --generate`
            crates/codex/src/protocol/generated/old.rs:1: is not what the schema makes of it; run `cargo xtask schema --generate`
            crates/codex/src/protocol/generated/turn.rs:1: is not what the schema makes of it; run `cargo xtask schema --generate`
        "#]]
        .assert_eq(&check(stale.chain(left_over).collect()));
    }

    #[test]
    fn a_history_of_other_versions_is_found() {
        let history = r#"{"versions":["1.0.0"],"methods":[]}"#;
        let check = |tested| super::check_history(&Tree::of(&[(HISTORY, history), (TESTED, tested)]));
        assert_eq!(check("1.0.0\n"), Ok(()));
        let complaint = r#"is of the versions ["1.0.0"], not of ["1.0.0", "1.1.0"] as schema/TESTED says"#;
        assert_eq!(check("1.0.0\n1.1.0\n"), Err((HISTORY, complaint.to_owned())));
    }

    #[test]
    fn missing_files_are_found() {
        expect![[r#"
            schema/VERSION:1: is missing; run `cargo xtask schema`
            schema/app-server.json:1: is missing; run `cargo xtask schema`
            schema/methods.json:1: is missing; run `cargo xtask schema`
        "#]]
        .assert_eq(&listed(&super::check(&Tree::of(&[]))));
    }
}
