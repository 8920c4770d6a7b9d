//! The resolved configuration as TOML that can be read again: each value with where it comes from, and no secret.

use std::fmt::Write as _;

use super::Resolved;
use super::reading::{Key, Shown};

/// Where the comments begin, unless a value is longer.
const COMMENT_COLUMN: usize = 40;

impl Resolved {
    /// The configuration as `--print-config` shows it.
    pub(crate) fn print(&self) -> String {
        let mut text = String::from("# What is configured; the comment after each value says where it comes from.\n");
        for section in &self.sections {
            let heading = if section.header.is_empty() { String::new() } else { format!("\n{}\n", section.header) };
            text.push_str(&heading);
            for key in &section.keys {
                let (line, comment) = key.printed();
                // Writing to a text cannot fail.
                _ = writeln!(text, "{line:COMMENT_COLUMN$} # {comment}");
            }
        }
        text
    }
}

impl Key {
    fn printed(&self) -> (String, String) {
        let Self { name, shown, source, .. } = self;
        match shown {
            Shown::Value(value) => (format!("{name} = {value}"), source.to_string()),
            Shown::Hidden(_) => (format!("# {name} is hidden"), source.to_string()),
            Shown::InPart(shown, _) => (format!("# {name} is hidden in part: {shown}"), source.to_string()),
            Shown::Absent => (format!("# {name}"), "not set".into()),
        }
    }
}
