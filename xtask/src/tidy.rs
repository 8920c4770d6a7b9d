//! `cargo xtask tidy`: the rules of the repository that no compiler knows.
//! Each rule is one file: a pure function from the tree's text to findings. The whole runs as a test too.

use anyhow::{Result, bail};

mod finding;
mod tree;

mod architecture;
mod compatibility;
mod generated;
mod length;
mod lints;
mod machine_paths;
mod manifests;
mod may_use;
mod templates;
mod unfinished;
mod version;

use finding::Finding;
use tree::Tree;

const RULES: [fn(&Tree) -> Vec<Finding>; 11] = [
    may_use::check,
    manifests::check,
    lints::check,
    length::check,
    templates::check,
    unfinished::check,
    generated::check,
    compatibility::check,
    version::check,
    machine_paths::check,
    architecture::check,
];

pub(crate) fn run() -> Result<()> {
    let tree = Tree::load()?;
    let findings = check(&tree);
    for finding in &findings {
        println!("{finding}");
    }
    if !findings.is_empty() {
        bail!("the tree is not tidy: {} findings", findings.len());
    }
    println!("the tree is tidy: {} rules over {} files", RULES.len(), tree.files.len());
    Ok(())
}

fn check(tree: &Tree) -> Vec<Finding> {
    RULES.iter().flat_map(|rule| rule(tree)).collect()
}

#[cfg(test)]
mod tests {
    use super::{check, finding, tree::Tree};

    #[test]
    fn this_tree_is_tidy() {
        let tree = Tree::load().unwrap();
        assert!(tree.file("xtask/src/tidy.rs").is_some(), "the tree was not read");
        let findings = check(&tree);
        assert!(findings.is_empty(), "\n{}", finding::listed(&findings));
    }
}
