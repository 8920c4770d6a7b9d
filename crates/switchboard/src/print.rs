//! What a command prints, all at once.

use std::fmt;
use std::io::{self, Write as _};

use serde_json::Value;
use supervise::escaped_lines;

/// Who reads it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// A program.
    Json,
    /// A person.
    Text,
}

impl Form {
    /// As the flag `--json` says.
    pub(crate) fn of(json: bool) -> Self {
        if json { Self::Json } else { Self::Text }
    }
}

/// Prints it; a reader that has seen enough is no reason to complain.
pub(crate) fn print(text: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        printed => printed,
    }
}

/// Says on stderr what went wrong. The text may come from a server, a worker or a file.
pub(crate) fn complain(error: &dyn fmt::Display) {
    eprintln!("switchboard: {}", escaped_lines(&format!("{error:#}")));
}

/// JSON that any terminal may show: whatever is not ASCII is written as `\\u`, which means the same to a program.
pub(crate) fn escaped_json(value: &Value) -> String {
    let mut text = String::new();
    for char in value.to_string().chars() {
        // Outside of strings JSON is printable ASCII, and inside of them serde_json has escaped the controls below a space.
        if char == ' ' || char.is_ascii_graphic() {
            text.push(char);
        } else {
            let mut units = [0; 2];
            text.extend(char.encode_utf16(&mut units).iter().map(|unit| format!("\\u{unit:04x}")));
        }
    }
    text
}

/// Rows below a heading, each column as wide as it must be.
pub(crate) fn table<const COLUMNS: usize>(heading: [&str; COLUMNS], rows: &[[String; COLUMNS]]) -> String {
    let widths: [usize; COLUMNS] = std::array::from_fn(|column| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.chain([heading[column].len()]).max().unwrap_or(0)
    });
    let mut text = String::new();
    for row in std::iter::once(&heading.map(str::to_owned)).chain(rows) {
        let cells: Vec<String> = row.iter().zip(widths).map(|(cell, width)| format!("{cell:width$}")).collect();
        text.push_str(cells.join("  ").trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::table;

    #[test]
    fn columns_are_as_wide_as_they_must_be() {
        let rows = [["main-0", "ready"], ["a", "–"]].map(|row| row.map(str::to_owned));
        expect![[r#"
            NAME    STATE
            main-0  ready
            a       –
        "#]]
        .assert_eq(&table(["NAME", "STATE"], &rows));
    }
}
