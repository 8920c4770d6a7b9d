//! Text of a worker, made safe for a terminal.

/// The text with everything spelled out that a terminal would act on, or that a reader would not see: control, format,
/// private and unassigned characters, and line breaks that are none of ours.
pub(crate) fn escaped(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut shown = String::new();
    for letter in text.chars() {
        // A letter before it, because a combining mark is spelled out only where it has nothing to combine with.
        shown.clear();
        shown.extend(['x', letter]);
        match letter {
            '\n' | '\t' | '"' | '\'' | '\\' | '\u{a0}' | '\u{202f}' | '\u{3000}' => plain.push(letter),
            _ => plain.extend(shown.escape_debug().skip(1)),
        }
    }
    plain
}

/// The same on one line.
pub(crate) fn escaped_line(text: &str) -> String {
    escaped(text).replace('\n', "\\n").replace('\t', " ")
}

#[cfg(test)]
mod tests {
    use super::escaped;

    #[test]
    fn what_a_terminal_would_act_on_is_spelled_out() {
        for plain in ["a\tb\nc", "\"'\\", "é 漢 🙂", "e\u{301}", "12\u{a0}%"] {
            assert_eq!(escaped(plain), plain);
        }
        assert_eq!(escaped("\u{1b}[2J\r\u{7}"), "\\u{1b}[2J\\r\\u{7}");
        for hidden in [
            '\u{61c}',
            '\u{180e}',
            '\u{200b}',
            '\u{202e}',
            '\u{2028}',
            '\u{9b}',
            '\u{fff9}',
            '\u{e0041}',
            '\u{e000}',
            '\u{378}',
        ] {
            assert_eq!(escaped(&hidden.to_string()), hidden.escape_unicode().to_string());
        }
    }
}
