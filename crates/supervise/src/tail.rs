//! The end of a process's stderr, and how a person is shown it: one line, nothing in it that a terminal would obey.

use std::fmt::{self, Write};

use crate::escape::escaped;

/// The end of what a process wrote to stderr. Its `Display` is one line, for reports.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StderrTail {
    /// The text; bytes that are no UTF-8 are replaced.
    pub text: String,
    /// How much it wrote in all.
    pub total_bytes: u64,
    /// Whether the first line of the text has lost its beginning.
    pub starts_mid_line: bool,
}

/// How much of a tail a report shows: its last lines, where the cause stands.
const SHOWN_CHARS_MAX: usize = 1_000;

impl fmt::Display for StderrTail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.text.trim_end();
        if text.is_empty() {
            return f.write_str("nothing on stderr");
        }
        let cut = text.char_indices().rev().nth(SHOWN_CHARS_MAX - 1).map_or(0, |(at, _)| at);
        f.write_str("last stderr: ")?;
        if cut > 0 || self.starts_mid_line {
            f.write_char('…')?;
        }
        for (number, line) in text[cut..].lines().enumerate() {
            f.write_str(if number > 0 { " | " } else { "" })?;
            write_line(line, f)?;
        }
        Ok(())
    }
}

/// Leaves out what only sets colours (`ESC [ … m`): the real worker colours its log even without a terminal.
fn write_line(mut line: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    while let Some((before, after)) = line.split_once("\x1b[") {
        f.write_str(&escaped(before))?;
        match after.trim_start_matches(|char: char| char.is_ascii_digit() || char == ';').strip_prefix('m') {
            Some(rest) => line = rest,
            None => {
                f.write_str(&escaped("\x1b["))?;
                line = after;
            }
        }
    }
    f.write_str(&escaped(line))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, shown: &str) {
        let tail = StderrTail { text: text.into(), ..StderrTail::default() };
        assert_eq!(tail.to_string(), shown);
    }

    #[test]
    fn lines_are_joined_and_a_blank_end_is_left_out() {
        check("one\r\n  two\n\n", "last stderr: one |   two");
        check("\n", "nothing on stderr");
    }

    #[test]
    fn colours_are_left_out() {
        check("\x1b[1;31mred\x1b[0m, \x1b[mplain", "last stderr: red, plain");
    }

    #[test]
    fn what_would_deceive_a_terminal_is_shown() {
        check("\x1b[2J\x1b]0;t\x07", "last stderr: <U+001B>[2J<U+001B>]0;t<U+0007>");
        check("a\u{202e}\u{200b}\té\u{3164}", "last stderr: a<U+202E><U+200B><tab>é<U+3164>");
        check(r#""q" \'"#, r#"last stderr: "q" \'"#);
    }

    #[test]
    fn of_much_the_last_thousand_characters_are_shown() {
        check(&"é".repeat(5_000), &format!("last stderr: …{}", "é".repeat(1_000)));
    }

    #[test]
    fn a_lost_beginning_is_marked() {
        let tail = StderrTail { text: "e\ntwo\n".into(), total_bytes: 8, starts_mid_line: true };
        assert_eq!(tail.to_string(), "last stderr: …e | two");
    }
}
