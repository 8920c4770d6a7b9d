//! What holds for any text of a configuration file. The target `config_file` of `fuzz/` calls this.

use super::problem::Source;
use super::reading::Shown;
use super::{File, Resolved, Typed, resolve};

const HOME: &str = "/home/dev";

/// A text becomes a configuration, which is the same when it is printed and read again, or problems that each say where they stand.
///
/// # Panics
/// If that does not hold.
pub(crate) fn config_file(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let resolved = match resolve(&typed(text)) {
        Ok(resolved) => resolved,
        Err(problems) => {
            assert!(!problems.0.is_empty());
            let lines = text.lines().count();
            for problem in &problems.0 {
                assert!(!problem.what.is_empty());
                if let Source::File { line, .. } = &problem.source {
                    assert!((1..=lines + 1).contains(line), "there is no line {line}: {problems}");
                }
            }
            return;
        }
    };
    let is_whole = |shown: &Shown| matches!(shown, Shown::Value(_) | Shown::Absent);
    // What is not printed cannot be read again.
    if resolved.sections.iter().flat_map(|section| &section.keys).all(|key| is_whole(&key.shown)) {
        let printed = resolved.print();
        let again = resolve(&typed(&printed)).unwrap_or_else(|problems| panic!("{problems}\n{printed}"));
        assert_eq!(values(&again), values(&resolved));
    }
}

fn typed(text: &str) -> Typed {
    Typed {
        file: Some(File { path: "switchboard.toml".into(), text: text.into() }),
        variables: [("HOME".to_owned(), HOME.to_owned())].into(),
        flags: Vec::new(),
        cwd: HOME.into(),
    }
}

/// The configuration without where it comes from.
fn values(resolved: &Resolved) -> Vec<String> {
    let section = |section: &super::Section| {
        let values = section.keys.iter().map(|key| match &key.shown {
            Shown::Value(value) => format!("{} {} = {value}", section.header, key.name),
            _ => format!("{} {}", section.header, key.name),
        });
        values.collect::<Vec<_>>()
    };
    resolved.sections.iter().flat_map(section).collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_corpus_of_configuration_files_is_read() {
        testkit::corpus::replay("config_file", super::config_file);
    }
}
