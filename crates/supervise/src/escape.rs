//! The one place that makes text safe for people. Text of a model, an agent, a tool server or a caller passes through here
//! before it reaches a terminal or a log: whatever is invisible, moves the cursor, reorders its neighbours or looks like
//! nothing is written as its code point, `<U+202E>`.
//!
//! The categories come from `unicode-general-category`: tables and no code, no dependencies, and what is newer than its
//! tables counts as unassigned and is escaped, which is the safe side.

use unicode_general_category::{GeneralCategory, get_general_category};

/// The text on one line, with everything that could deceive written out.
#[must_use]
pub fn escaped(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for char in text.chars() {
        push(&mut shown, char);
    }
    shown
}

/// Like [`escaped`], for prose of several lines: line breaks and tabs stay, and so do the spaces of French and Japanese
/// text, which have a width and hide nothing.
#[must_use]
pub fn escaped_lines(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for char in text.chars() {
        match char {
            '\n' | '\t' | '\u{a0}' | '\u{202f}' | '\u{3000}' => shown.push(char),
            _ => push(&mut shown, char),
        }
    }
    shown
}

fn push(shown: &mut String, char: char) {
    match char {
        '\n' => shown.push_str("<newline>"),
        '\t' => shown.push_str("<tab>"),
        _ if is_plain(char) => shown.push(char),
        _ => shown.push_str(&format!("<U+{:04X}>", u32::from(char))),
    }
}

/// Whether a person sees the character, as itself and where it stands.
fn is_plain(char: char) -> bool {
    use GeneralCategory as Category;
    if char.is_ascii() {
        return char == ' ' || char.is_ascii_graphic();
    }
    let hidden = matches!(
        get_general_category(char),
        Category::Control
            | Category::Format
            | Category::LineSeparator
            | Category::ParagraphSeparator
            | Category::PrivateUse
            | Category::SpaceSeparator
            | Category::Surrogate
            | Category::Unassigned
    );
    !hidden && !is_blank(char)
}

/// Characters that show nothing although their category says letter, mark or symbol: fillers and variation selectors.
fn is_blank(char: char) -> bool {
    matches!(char,
        '\u{034F}' | '\u{115F}' | '\u{1160}' | '\u{17B4}' | '\u{17B5}' | '\u{180B}'..='\u{180F}' | '\u{2800}'
        | '\u{3164}' | '\u{FE00}'..='\u{FE0F}' | '\u{FFA0}' | '\u{FFFC}' | '\u{16FE4}' | '\u{1D159}'
        | '\u{E0100}'..='\u{E01EF}')
}

#[cfg(test)]
mod adversary {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_deceives_is_written_out() {
        for (text, shown) in [
            ("rm -rf /", "rm -rf /"),
            ("é 日本 😀 e\u{301}", "é 日本 😀 e\u{301}"),
            ("a\x1b[2Kb\r\n\tc", "a<U+001B>[2Kb<U+000D><newline><tab>c"),
            ("safe\u{202e}gpj.sh", "safe<U+202E>gpj.sh"),
            ("git\u{200b}hub \u{2066}x\u{2069}", "git<U+200B>hub <U+2066>x<U+2069>"),
            ("a\u{a0}b\u{3000}c\u{ad}", "a<U+00A0>b<U+3000>c<U+00AD>"),
            ("a\u{2028}b\u{2029}c\u{85}", "a<U+2028>b<U+2029>c<U+0085>"),
            ("\u{fe0f}\u{e0100}\u{3164}\u{2800}\u{115f}", "<U+FE0F><U+E0100><U+3164><U+2800><U+115F>"),
            ("\u{e000}\u{378}\u{e0041}\u{feff}", "<U+E000><U+0378><U+E0041><U+FEFF>"),
        ] {
            assert_eq!(escaped(text), shown);
        }
    }

    #[test]
    fn prose_keeps_its_lines_and_its_spaces() {
        assert_eq!(escaped_lines("12\u{a0}%\n\tb\u{3000}c"), "12\u{a0}%\n\tb\u{3000}c");
        assert_eq!(escaped_lines("a\r\u{3164}\u{fe0f}\x1b[2J"), "a<U+000D><U+3164><U+FE0F><U+001B>[2J");
    }

    proptest! {
        #[test]
        fn nothing_that_is_shown_can_deceive(chars in proptest::collection::vec(any::<char>(), 0..200)) {
            let text: String = chars.into_iter().collect();
            prop_assert!(escaped(&text).chars().all(is_plain));
            let is_kept = |char| is_plain(char) || "\n\t\u{a0}\u{202f}\u{3000}".contains(char);
            prop_assert!(escaped_lines(&text).chars().all(is_kept));
        }

        #[test]
        fn plain_text_stays_as_it_is(text in "[ -~]{0,200}") {
            prop_assert_eq!(escaped(&text), text.clone());
            prop_assert_eq!(escaped_lines(&text), text);
        }
    }
}
