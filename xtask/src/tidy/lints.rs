//! A crate's own clippy.toml replaces the root's, so it must repeat each forbidden method that the crate could call:
//! those of the standard library, and those of the crates that it depends on.

use toml::{Table, Value};

use super::finding::Finding;
use super::tree::{File, Tree};
use crate::workspace::Package;

const ROOT: &str = "clippy.toml";

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let Some(root) = tree.file(ROOT) else {
        return vec![Finding::new(ROOT, 1, "is missing; the forbidden methods stand there")];
    };
    let Some(forbidden) = forbidden_by(root) else {
        return vec![Finding::new(ROOT, 1, "has no list `disallowed-methods`; add it")];
    };
    tree.packages.iter().flat_map(|package| check_package(tree, package, &forbidden)).collect()
}

fn check_package(tree: &Tree, package: &Package, forbidden: &[String]) -> Vec<Finding> {
    let own = package.manifest_path.with_file_name(ROOT);
    let Some(file) = tree.file(&own.to_string_lossy()) else {
        return Vec::new();
    };
    let repeated = forbidden_by(file).unwrap_or_default();
    forbidden
        .iter()
        .filter(|method| can_call(package, method) && !repeated.contains(method))
        .map(|method| {
            Finding::new(
                &file.path,
                1,
                format!("allows `{method}`, which the root forbids; repeat the root's entry here"),
            )
        })
        .collect()
}

fn can_call(package: &Package, method: &str) -> bool {
    let owner = method.split("::").next().unwrap_or_default();
    ["std", "core", "alloc"].contains(&owner)
        || package.dependencies.iter().any(|dependency| dependency.name.replace('-', "_") == owner)
}

/// The list may hold plain paths or tables with a reason.
fn forbidden_by(file: &File) -> Option<Vec<String>> {
    let configuration = file.text.parse::<Table>().ok()?;
    let entries = configuration.get("disallowed-methods")?.as_array()?;
    let paths = entries.iter().filter_map(|entry| entry.as_str().or_else(|| entry.get("path").and_then(Value::as_str)));
    Some(paths.map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::super::{finding::listed, tree::Tree};

    const ROOT: &str = r#"disallowed-methods = [{ path = "std::thread::sleep", reason = "r" }, "tokio::spawn"]"#;

    #[test]
    fn an_entry_that_applies_and_is_not_repeated_is_found() {
        let own = r#"disallowed-methods = ["std::time::Instant::now"]"#;
        let tree =
            Tree::of(&[("clippy.toml", ROOT), ("crates/wire/clippy.toml", own), ("crates/codex/clippy.toml", own)])
                .with_package("wire", &["serde"])
                .with_package("codex", &["dev:tokio"])
                .with_package("demo", &[]);
        expect![[r#"
            crates/wire/clippy.toml:1: allows `std::thread::sleep`, which the root forbids; repeat the root's entry here
            crates/codex/clippy.toml:1: allows `std::thread::sleep`, which the root forbids; repeat the root's entry here
            crates/codex/clippy.toml:1: allows `tokio::spawn`, which the root forbids; repeat the root's entry here
        "#]].assert_eq(&listed(&super::check(&tree)));
    }

    #[test]
    fn a_list_that_repeats_the_root_and_adds_to_it_is_right() {
        let own = r#"disallowed-methods = ["std::thread::sleep", { path = "std::time::Instant::now" }]"#;
        let tree =
            Tree::of(&[("clippy.toml", ROOT), ("crates/wire/clippy.toml", own)]).with_package("wire", &["serde"]);
        expect![""].assert_eq(&listed(&super::check(&tree)));
    }

    #[test]
    fn the_root_list_cannot_vanish() {
        expect![[r#"
            clippy.toml:1: is missing; the forbidden methods stand there
        "#]]
        .assert_eq(&listed(&super::check(&Tree::of(&[]))));
        expect![[r#"
            clippy.toml:1: has no list `disallowed-methods`; add it
        "#]]
        .assert_eq(&listed(&super::check(&Tree::of(&[("clippy.toml", "")]))));
    }
}
