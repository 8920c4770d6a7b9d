//! Text as a person may read it: whatever is invisible, moves the cursor, reorders its neighbours or looks like nothing
//! is written as its code point, `<U+202E>`, and what is too long is shown by its head, its tail and its length.
//!
//! The categories come from `unicode-general-category`: tables and no code, no dependencies, and what is newer than its
//! tables counts as unassigned and is escaped, which is the safe side.

use unicode_general_category::{GeneralCategory, get_general_category};

/// How much of one text a person is shown: a screen of its head, and its end, where a long command likes to hide things.
pub(crate) const HEAD_CHARS_MAX: usize = 3_000;
pub(crate) const TAIL_CHARS_MAX: usize = 1_000;

/// The text on one line, with everything that could deceive written out.
#[must_use]
pub fn escaped(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for char in text.chars() {
        push(&mut shown, char);
    }
    shown
}

/// Like [`escaped`], and of a long text the head, how much is left out, and the tail.
#[must_use]
pub fn excerpt(text: &str) -> String {
    let chars = text.chars().count();
    if chars <= HEAD_CHARS_MAX + TAIL_CHARS_MAX {
        return escaped(text);
    }
    let at = |count: usize| text.char_indices().nth(count).map_or(text.len(), |(at, _)| at);
    let (head, tail) = (&text[..at(HEAD_CHARS_MAX)], &text[at(chars - TAIL_CHARS_MAX)..]);
    let left_out = chars - HEAD_CHARS_MAX - TAIL_CHARS_MAX;
    format!("{} [… {left_out} of {chars} characters are not shown here …] {}", escaped(head), escaped(tail))
}

/// The lines of a text, each escaped; of many the first and the last, with how many there are.
pub(crate) fn lines(text: &str) -> Vec<String> {
    shortened(text.split('\n'), "lines")
}

/// Words or lines, each as an excerpt; of many the first and the last, with how many there are.
pub(crate) fn shortened<'a>(parts: impl Iterator<Item = &'a str> + Clone, what: &str) -> Vec<String> {
    const HEAD_PARTS_MAX: usize = 300;
    const TAIL_PARTS_MAX: usize = 100;
    let count = parts.clone().count();
    if count <= HEAD_PARTS_MAX + TAIL_PARTS_MAX {
        return parts.map(excerpt).collect();
    }
    let left_out = count - HEAD_PARTS_MAX - TAIL_PARTS_MAX;
    let head = parts.clone().take(HEAD_PARTS_MAX).map(excerpt);
    let note = format!("[… {left_out} of {count} {what} are not shown here …]");
    head.chain([note]).chain(parts.skip(count - TAIL_PARTS_MAX).map(excerpt)).collect()
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
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_deceives_is_written_out() {
        for (text, shown) in [
            ("rm -rf /", "rm -rf /"),
            ("é 日本 😀", "é 日本 😀"),
            ("a\x1b[2Kb\r\n\tc", "a<U+001B>[2Kb<U+000D><newline><tab>c"),
            ("safe\u{202e}gpj.sh", "safe<U+202E>gpj.sh"),
            ("git\u{200b}hub \u{2066}x\u{2069}", "git<U+200B>hub <U+2066>x<U+2069>"),
            ("a\u{a0}b\u{3000}c\u{ad}", "a<U+00A0>b<U+3000>c<U+00AD>"),
            ("a\u{2028}b\u{2029}c\u{85}", "a<U+2028>b<U+2029>c<U+0085>"),
            ("\u{fe0f}\u{e0100}\u{3164}\u{2800}", "<U+FE0F><U+E0100><U+3164><U+2800>"),
            ("\u{e000}\u{378}\u{e0041}\u{feff}", "<U+E000><U+0378><U+E0041><U+FEFF>"),
        ] {
            assert_eq!(escaped(text), shown);
        }
    }

    #[test]
    fn a_long_text_keeps_its_end_and_says_what_is_missing() {
        let shown = excerpt(&format!("{};rm -rf ~", "é".repeat(50_000)));
        assert!(shown.starts_with("ééé") && shown.ends_with("é;rm -rf ~"), "{shown}");
        assert!(shown.contains(" [… 46009 of 50009 characters are not shown here …] "), "{shown}");
        let exact = "x".repeat(HEAD_CHARS_MAX + TAIL_CHARS_MAX);
        assert_eq!(excerpt(&exact), exact);
    }

    #[test]
    fn many_lines_keep_their_end_and_say_what_is_missing() {
        let shown = lines(&"x\n".repeat(1_000));
        assert_eq!(shown.len(), 401);
        assert_eq!(shown[300], "[… 601 of 1001 lines are not shown here …]");
        assert_eq!(lines("a\nb\n"), ["a", "b", ""]);
    }

    proptest! {
        #[test]
        fn nothing_that_is_shown_can_deceive(chars in proptest::collection::vec(any::<char>(), 0..200)) {
            let text: String = chars.into_iter().collect();
            for shown in [escaped(&text), excerpt(&text.repeat(40))].into_iter().chain(lines(&text)) {
                prop_assert!(shown.chars().all(is_plain), "{shown:?}");
            }
        }

        #[test]
        fn plain_text_stays_as_it_is(text in "[ -~]{0,200}") {
            prop_assert_eq!(escaped(&text), text);
        }
    }
}
