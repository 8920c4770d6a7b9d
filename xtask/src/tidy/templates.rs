//! The templates of tool servers are short enough to be read before they are copied.

use super::finding::Finding;
use super::tree::Tree;

const LINES_MAX: usize = 60;

const TEMPLATES: [&str; 3] = [
    "examples/tool-servers/rust/main.rs",
    "examples/tool-servers/python/server.py",
    "examples/tool-servers/typescript/server.ts",
];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let findings = TEMPLATES.iter().filter_map(|path| {
        let Some(file) = tree.file(path) else {
            return Some(Finding::new(file!(), 1, format!("{path} is not there; correct the list")));
        };
        let lines = file.text.lines().count();
        let what = format!("{lines} lines, over {LINES_MAX}; a template is read as a whole");
        (lines > LINES_MAX).then(|| Finding::new(path, lines, what))
    });
    findings.collect()
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::super::{finding::listed, tree::Tree};

    #[test]
    fn a_template_that_is_too_long_or_gone_is_found() {
        let (right, long) = ("x\n".repeat(60), "x\n".repeat(61));
        let tree = Tree::of(&[
            ("examples/tool-servers/rust/main.rs", &right),
            ("examples/tool-servers/python/server.py", &long),
            ("examples/tool-servers/README.md", &long),
        ]);
        expect![[r#"
            examples/tool-servers/python/server.py:61: 61 lines, over 60; a template is read as a whole
            xtask/src/tidy/templates.rs:1: examples/tool-servers/typescript/server.ts is not there; correct the list
        "#]]
        .assert_eq(&listed(&super::check(&tree)));
    }
}
