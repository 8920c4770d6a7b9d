//! The table of which crate may use which: an edge that it lacks is a finding.
//! Tests may use `testkit` besides, and those of `codex` the demo worker as their peer; nothing else may. `demo` shares
//! no code with the client side even in its tests, because common code would hide common mistakes.

use super::finding::Finding;
use super::tree::Tree;
use crate::workspace::{Dependency, Package};

/// What findings call the table below.
const TABLE: &str = concat!("the \"may use\" table of ", file!());

/// Each crate and what it may use.
const MAY_USE: &str = "
wire:        -
supervise:   -
store:       -
demo:        -
codex:       wire supervise
approvals:   store supervise
workers:     codex supervise store approvals
tools:       wire supervise store approvals
front:       wire supervise store codex approvals workers tools
switchboard: wire supervise store codex approvals workers tools front demo
testkit:     -
bench:       wire supervise store codex approvals workers tools front demo switchboard testkit
xtask:       -
";

/// What tests may use besides their crate's own row: all of them, and one crate's alone.
const FOR_TESTS: &[&str] = &["testkit"];
const FOR_TESTS_OF: &[(&str, &str)] = &[("codex", "demo")];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    tree.packages.iter().flat_map(|package| check_package(tree, package)).collect()
}

fn check_package(tree: &Tree, package: &Package) -> Vec<Finding> {
    let manifest = package.manifest_path.to_string_lossy();
    let Some(row) = row_of(&package.name) else {
        return vec![Finding::new(&manifest, 1, format!("`{}` has no row in {TABLE}; add one", package.name))];
    };
    let edges = package.dependencies.iter().filter(|edge| is_member(tree, &edge.name));
    edges
        .filter(|edge| !may_use(&package.name, &row, edge))
        .map(|edge| {
            let tests = if is_for_tests(edge) { " in its tests" } else { "" };
            let (user, used) = (&package.name, &edge.name);
            let what = format!("`{user}` may not use `{used}`{tests} by {TABLE}; remove the dependency");
            Finding::new(&manifest, line_of(tree, &manifest, edge), what)
        })
        .collect()
}

fn row_of(package: &str) -> Option<Vec<&'static str>> {
    let rows = MAY_USE.lines().filter_map(|line| line.split_once(':'));
    rows.filter(|(name, _)| *name == package)
        .map(|(_, uses)| uses.split_whitespace().filter(|name| *name != "-").collect())
        .next()
}

fn may_use(user: &str, row: &[&str], edge: &Dependency) -> bool {
    let name = edge.name.as_str();
    let in_tests = || FOR_TESTS.contains(&name) || FOR_TESTS_OF.contains(&(user, name));
    row.contains(&name) || (is_for_tests(edge) && in_tests())
}

fn is_member(tree: &Tree, name: &str) -> bool {
    tree.packages.iter().any(|package| package.name == name)
}

fn is_for_tests(edge: &Dependency) -> bool {
    edge.kind.as_deref() == Some("dev")
}

fn line_of(tree: &Tree, manifest: &str, edge: &Dependency) -> usize {
    tree.file(manifest).map_or(1, |file| {
        file.line_where(|line| {
            line.strip_prefix(edge.name.as_str()).is_some_and(|rest| rest.starts_with(['.', ' ', '=']))
        })
    })
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::super::{finding::listed, tree::Tree};

    #[test]
    fn an_edge_that_the_table_lacks_is_found_where_it_is_written() {
        let manifest =
            "[package]\nname = \"wire\"\n\n[dependencies]\nserde.workspace = true\nsupervise.workspace = true\n";
        let tree = Tree::of(&[("crates/wire/Cargo.toml", manifest)])
            .with_package("wire", &["serde", "supervise"])
            .with_package("supervise", &[])
            .with_package("codex", &["wire", "supervise"]);
        expect![[r#"
            crates/wire/Cargo.toml:6: `wire` may not use `supervise` by the "may use" table of xtask/src/tidy/may_use.rs; remove the dependency
        "#]]
        .assert_eq(&listed(&super::check(&tree)));
    }

    #[test]
    fn testkit_is_for_tests_only_and_demo_for_those_of_the_client() {
        let tree = Tree::of(&[])
            .with_package("testkit", &[])
            .with_package("wire", &["dev:testkit"])
            .with_package("codex", &["testkit", "dev:demo"])
            .with_package("supervise", &["dev:demo"])
            .with_package("demo", &["dev:testkit", "dev:wire"])
            .with_package("bench", &["testkit", "wire", "demo"]);
        expect![[r#"
            crates/codex/Cargo.toml:1: `codex` may not use `testkit` by the "may use" table of xtask/src/tidy/may_use.rs; remove the dependency
            crates/supervise/Cargo.toml:1: `supervise` may not use `demo` in its tests by the "may use" table of xtask/src/tidy/may_use.rs; remove the dependency
            crates/demo/Cargo.toml:1: `demo` may not use `wire` in its tests by the "may use" table of xtask/src/tidy/may_use.rs; remove the dependency
        "#]]
        .assert_eq(&listed(&super::check(&tree)));
    }

    #[test]
    fn a_build_script_is_bound_like_the_crate_and_a_new_crate_needs_a_row() {
        let tree = Tree::of(&[])
            .with_package("supervise", &[])
            .with_package("store", &["build:supervise"])
            .with_package("shiny", &[]);
        expect![[r#"
            crates/store/Cargo.toml:1: `store` may not use `supervise` by the "may use" table of xtask/src/tidy/may_use.rs; remove the dependency
            crates/shiny/Cargo.toml:1: `shiny` has no row in the "may use" table of xtask/src/tidy/may_use.rs; add one
        "#]]
        .assert_eq(&listed(&super::check(&tree)));
    }

    #[test]
    fn the_table_names_only_crates_that_have_a_row() {
        let rows = super::MAY_USE.lines().filter_map(|line| line.split_once(':'));
        let used: Vec<&str> = rows.flat_map(|(name, _)| super::row_of(name).unwrap()).collect();
        let strangers: Vec<_> = used.iter().filter(|name| super::row_of(name).is_none()).collect();
        assert!(used.contains(&"wire") && strangers.is_empty(), "{strangers:?}");
    }
}
