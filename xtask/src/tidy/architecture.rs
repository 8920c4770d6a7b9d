//! The map shows the whole territory: every member of the workspace stands in ARCHITECTURE.md, in backticks.

use super::finding::Finding;
use super::tree::Tree;

const MAP: &str = "ARCHITECTURE.md";

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let Some(map) = tree.file(MAP) else {
        return vec![Finding::new(MAP, 1, "is missing; write the map of the crates")];
    };
    let unnamed = tree.packages.iter().filter(|package| !names(&map.text, &package.name));
    unnamed
        .map(|package| {
            Finding::new(MAP, 1, format!("does not name the crate `{}`; say what it promises", package.name))
        })
        .collect()
}

/// `` `wire` `` and `` `crates/wire` `` both name the crate.
fn names(map: &str, package: &str) -> bool {
    let mut code_spans = map.split('`').skip(1).step_by(2);
    code_spans.any(|span| span.split('/').any(|segment| segment == package))
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::super::{finding::listed, tree::Tree};

    #[test]
    fn a_crate_that_the_map_lacks_is_found() {
        let map = "| `wire` | pure |\n`crates/codex/` speaks; `demo-worker` is a command, and store is only a word\n";
        let tree = Tree::of(&[("ARCHITECTURE.md", map)])
            .with_package("wire", &[])
            .with_package("codex", &[])
            .with_package("demo", &[])
            .with_package("store", &[]);
        expect![[r#"
            ARCHITECTURE.md:1: does not name the crate `demo`; say what it promises
            ARCHITECTURE.md:1: does not name the crate `store`; say what it promises
        "#]]
        .assert_eq(&listed(&super::check(&tree)));
    }

    #[test]
    fn the_map_itself_cannot_be_missing() {
        expect![[r#"
            ARCHITECTURE.md:1: is missing; write the map of the crates
        "#]]
        .assert_eq(&listed(&super::check(&Tree::of(&[]))));
    }
}
