//! Nothing is left undone in silence: no test that is skipped by its source, no code that only promises to come.

use super::finding::Finding;
use super::tree::Tree;

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let files = tree.files_except(file!()).filter(|file| file.path.ends_with(".rs"));
    files
        .flat_map(|file| {
            file.numbered_lines()
                .filter_map(|(number, line)| Some(Finding::new(&file.path, number, complaint_about(line)?)))
        })
        .collect()
}

fn complaint_about(line: &str) -> Option<&'static str> {
    let line = line.trim_start();
    if let Some(comment) = line.strip_prefix("//") {
        let is_skipped = comment.trim_start_matches(['/', '!', ' ']).starts_with("```ignore");
        return is_skipped.then_some("an example that is not compiled; make it compile, or mark it as `text`");
    }
    if line.contains("#[ignore") || (line.contains("cfg_attr") && line.contains(", ignore")) {
        return Some("an ignored test; make it run, or remove it");
    }
    if line.contains("todo!(") || line.contains("unimplemented!(") {
        return Some("unfinished code; finish it, or return an error that says so");
    }
    None
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::super::{finding::listed, tree::Tree};

    #[test]
    fn ignored_tests_skipped_examples_and_unfinished_code_are_found() {
        let text = "#[test]\n#[ignore]\nfn a() { todo!() }\n    #[ignore = \"slow\"]\n#[cfg_attr(windows, ignore)]\n\
            fn b() -> u8 { unimplemented!(\"later\") }\n/// ```ignore\n//! ```ignore\n";
        let tree = Tree::of(&[("crates/wire/src/lib.rs", text)]);
        expect![[r#"
            crates/wire/src/lib.rs:2: an ignored test; make it run, or remove it
            crates/wire/src/lib.rs:3: unfinished code; finish it, or return an error that says so
            crates/wire/src/lib.rs:4: an ignored test; make it run, or remove it
            crates/wire/src/lib.rs:5: an ignored test; make it run, or remove it
            crates/wire/src/lib.rs:6: unfinished code; finish it, or return an error that says so
            crates/wire/src/lib.rs:7: an example that is not compiled; make it compile, or mark it as `text`
            crates/wire/src/lib.rs:8: an example that is not compiled; make it compile, or mark it as `text`
        "#]]
        .assert_eq(&listed(&super::check(&tree)));
    }

    #[test]
    fn talk_about_these_is_allowed() {
        let text = "//! No test is marked `#[ignore]`.\n// todo!() is no answer\nlet ignored = 1;\n/// ```text\n";
        let tree = Tree::of(&[("crates/wire/src/lib.rs", text), ("STYLE.md", "#[ignore]\ntodo!()\n")]);
        expect![""].assert_eq(&listed(&super::check(&tree)));
    }
}
