//! The codex version stands in `schema/VERSION` and nowhere else: other files read that one or leave the number out.
//! The lock file and the change log may name it, since neither is read by anything, and the table of tested versions,
//! which is generated.

use super::finding::Finding;
use super::tree::Tree;

const HOME: &str = "schema/VERSION";
const MAY_NAME_IT: [&str; 4] = [HOME, "Cargo.lock", "CHANGELOG.md", "docs/compatibility.md"];

const WHAT: &str = "repeats the codex version; read schema/VERSION instead, or leave the number out";

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let Some(version) = tree.file(HOME).map(|file| file.text.trim()).filter(|version| !version.is_empty()) else {
        return Vec::new();
    };
    let files = tree.files.iter();
    files
        .filter(|file| !MAY_NAME_IT.contains(&file.path.as_str()))
        .flat_map(|file| {
            let lines = file.numbered_lines().filter(|(_, line)| names(line, version));
            lines.map(|(number, _)| Finding::new(&file.path, number, WHAT))
        })
        .collect()
}

/// Whether the version stands in the line by itself, and not as a part of a longer number.
fn names(line: &str, version: &str) -> bool {
    line.match_indices(version).any(|(start, _)| {
        let (before, after) = (&line[..start], &line[start + version.len()..]);
        let goes_back = before.ends_with(|c: char| c.is_ascii_digit())
            || before.strip_suffix('.').is_some_and(|rest| rest.ends_with(|c: char| c.is_ascii_digit()));
        let goes_on = after.starts_with(|c: char| c.is_ascii_digit())
            || after.strip_prefix('.').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
        !goes_back && !goes_on
    })
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::super::{finding::listed, tree::Tree};

    #[test]
    fn every_other_place_that_names_the_version_is_found() {
        let text =
            "codex 1.22.0 and later.\nv1.22.0\nuserAgent: demo/1.22.0 (x)\nas of 1.22.0.\ncodex@1.22.0-linux-x64\n";
        let tree = Tree::of(&[("schema/VERSION", "1.22.0\n"), ("README.md", text)]);
        expect![[r#"
            README.md:1: repeats the codex version; read schema/VERSION instead, or leave the number out
            README.md:2: repeats the codex version; read schema/VERSION instead, or leave the number out
            README.md:3: repeats the codex version; read schema/VERSION instead, or leave the number out
            README.md:4: repeats the codex version; read schema/VERSION instead, or leave the number out
            README.md:5: repeats the codex version; read schema/VERSION instead, or leave the number out
        "#]]
        .assert_eq(&listed(&super::check(&tree)));
    }

    #[test]
    fn longer_numbers_and_the_places_that_may_name_it_are_left_alone() {
        let text = "11.22.0 and 1.22.01 and 1.1.22.0 and 1.22.0.1 and 1.22\n";
        let tree = Tree::of(&[
            ("schema/VERSION", "1.22.0\n"),
            ("Cargo.lock", "version = \"1.22.0\"\n"),
            ("CHANGELOG.md", "speaks to codex 1.22.0\n"),
            ("README.md", text),
        ]);
        expect![""].assert_eq(&listed(&super::check(&tree)));
    }
}
