//! The table of `docs/compatibility.md` has a row for each tested version, and for no other; what stands in the rows only
//! the real binaries can tell. The history of methods was asked of the same versions.

use serde_json::Value;

use super::finding::Finding;
use super::tree::Tree;

const VERSION: &str = "schema/VERSION";
const TESTED: &str = "schema/TESTED";
const HISTORY: &str = "schema/history.json";
const PAGE: &str = "docs/compatibility.md";

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let text = |path: &str| tree.file(path).map_or("", |file| file.text.as_str());
    let older: Vec<&str> = text(TESTED).lines().collect();
    let tested: Vec<&str> = older.iter().copied().chain(text(VERSION).lines()).collect();
    let rows = text(PAGE).lines().filter_map(|line| line.strip_prefix("| ")?.split(' ').next());
    let shown: Vec<&str> = rows.filter(|first| first.starts_with(|c: char| c.is_ascii_digit())).collect();
    let history: Value = serde_json::from_str(text(HISTORY)).unwrap_or_default();
    let asked: Vec<&str> = history["versions"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    [(PAGE, shown, tested, "compatibility"), (HISTORY, asked, older, "schema --history")]
        .into_iter()
        .filter(|(_, found, wanted, _)| found != wanted)
        .map(|(path, found, wanted, command)| {
            let (found, wanted) = (found.join(" "), wanted.join(" "));
            Finding::new(path, 1, format!("speaks of {found}, tested are {wanted}; run `cargo xtask {command}`"))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::super::{finding::listed, tree::Tree};
    use super::{HISTORY, PAGE, TESTED, VERSION};

    const SCHEMA: [(&str, &str); 3] =
        [(VERSION, "1.3.0\n"), (TESTED, "1.1.0\n1.2.0\n"), (HISTORY, r#"{"versions": ["1.1.0", "1.2.0"]}"#)];

    #[test]
    fn a_row_for_each_tested_version_is_right() {
        let page = "| codex | one |\n|---|---|\n| 1.1.0 | yes |\n| 1.2.0 | no |\n| 1.3.0 | yes |\n";
        let tree = Tree::of(&[SCHEMA.as_slice(), &[(PAGE, page)]].concat());
        expect![""].assert_eq(&listed(&super::check(&tree)));
    }

    #[test]
    fn a_version_that_is_missing_or_too_much_is_found() {
        let page = "| codex | one |\n|---|---|\n| 1.1.0 | yes |\n| 1.2.5 | no |\n";
        let history = r#"{"versions": ["1.2.0"]}"#;
        let tree = Tree::of(&[SCHEMA[0], SCHEMA[1], (HISTORY, history), (PAGE, page)]);
        expect![[r#"
            docs/compatibility.md:1: speaks of 1.1.0 1.2.5, tested are 1.1.0 1.2.0 1.3.0; run `cargo xtask compatibility`
            schema/history.json:1: speaks of 1.2.0, tested are 1.1.0 1.2.0; run `cargo xtask schema --history`
        "#]].assert_eq(&listed(&super::check(&tree)));
    }
}
