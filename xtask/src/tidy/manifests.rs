//! Versions and lints stand in the root manifest alone: a member inherits every dependency and the lints.

use toml::{Table, Value};

use super::finding::Finding;
use super::tree::{File, Tree};

const DEPENDENCY_TABLES: [&str; 3] = ["dependencies", "dev-dependencies", "build-dependencies"];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let members = tree.packages.iter().filter_map(|package| tree.file(&package.manifest_path.to_string_lossy()));
    members.flat_map(check_manifest).collect()
}

fn check_manifest(file: &File) -> Vec<Finding> {
    let Ok(manifest) = file.text.parse::<Table>() else {
        return vec![Finding::new(&file.path, 1, "is not TOML; correct it")];
    };
    let mut findings = Vec::new();
    if !is_inherited(manifest.get("lints")) {
        findings.push(Finding::new(
            &file.path,
            1,
            "does not take part in the lints; add `[lints]` with `workspace = true`",
        ));
    }
    for (name, _) in dependencies_of(&manifest).filter(|(_, dependency)| !is_inherited(Some(dependency))) {
        let line = file.line_where(|line| line.starts_with(name.as_str()));
        let what = format!(
            "dependency `{name}` has its own version; put it under [workspace.dependencies] and write `{name}.workspace = true`"
        );
        findings.push(Finding::new(&file.path, line, what));
    }
    findings
}

fn dependencies_of(manifest: &Table) -> impl Iterator<Item = (&String, &Value)> {
    let for_targets = manifest
        .get("target")
        .and_then(Value::as_table)
        .into_iter()
        .flat_map(Table::values)
        .filter_map(Value::as_table);
    std::iter::once(manifest)
        .chain(for_targets)
        .flat_map(|table| DEPENDENCY_TABLES.iter().filter_map(|name| table.get(*name)?.as_table()))
        .flatten()
}

fn is_inherited(value: Option<&Value>) -> bool {
    value.and_then(|value| value.get("workspace")).and_then(Value::as_bool) == Some(true)
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::super::{finding::listed, tree::Tree};

    #[test]
    fn own_versions_and_missing_lints_are_found() {
        let inherits = "[lints]\nworkspace = true\n[dependencies]\nserde.workspace = true\n\
            tokio = { workspace = true, features = [\"rt\"] }\n";
        let departs = "[dependencies]\nserde = \"1\"\n[dev-dependencies]\nproptest = { version = \"1\" }\n\
            [target.'cfg(unix)'.dependencies]\nlibc = \"0.2\"\n";
        let tree = Tree::of(&[
            ("crates/wire/Cargo.toml", inherits),
            ("crates/store/Cargo.toml", departs),
            ("other/Cargo.toml", departs),
        ])
        .with_package("wire", &[])
        .with_package("store", &[]);
        expect![[r#"
            crates/store/Cargo.toml:1: does not take part in the lints; add `[lints]` with `workspace = true`
            crates/store/Cargo.toml:2: dependency `serde` has its own version; put it under [workspace.dependencies] and write `serde.workspace = true`
            crates/store/Cargo.toml:4: dependency `proptest` has its own version; put it under [workspace.dependencies] and write `proptest.workspace = true`
            crates/store/Cargo.toml:6: dependency `libc` has its own version; put it under [workspace.dependencies] and write `libc.workspace = true`
        "#]].assert_eq(&listed(&super::check(&tree)));
    }
}
