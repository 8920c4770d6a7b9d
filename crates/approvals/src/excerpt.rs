//! Long text as lists and messages show it: escaped, by its head, its tail and its length. Whoever decides can read the
//! whole text in the view of the one approval.

use supervise::escaped;

/// How much of one text a person is shown: a screen of its head, and its end, where a long command likes to hide things.
pub(crate) const HEAD_CHARS_MAX: usize = 3_000;
pub(crate) const TAIL_CHARS_MAX: usize = 1_000;

/// How many words or lines.
const HEAD_PARTS_MAX: usize = 300;
const TAIL_PARTS_MAX: usize = 100;

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

/// Whether an excerpt leaves out some of the text.
pub(crate) fn is_long(text: &str) -> bool {
    text.chars().nth(HEAD_CHARS_MAX + TAIL_CHARS_MAX).is_some()
}

/// Whether [`shortened`] leaves out some of the parts.
pub(crate) fn are_many<'a>(mut parts: impl Iterator<Item = &'a str>) -> bool {
    parts.nth(HEAD_PARTS_MAX + TAIL_PARTS_MAX).is_some()
}

/// Words or lines, each as an excerpt; of many the first and the last, with how many there are.
pub(crate) fn shortened<'a>(parts: impl Iterator<Item = &'a str> + Clone, what: &str) -> Vec<String> {
    let count = parts.clone().count();
    if count <= HEAD_PARTS_MAX + TAIL_PARTS_MAX {
        return parts.map(excerpt).collect();
    }
    let left_out = count - HEAD_PARTS_MAX - TAIL_PARTS_MAX;
    let head = parts.clone().take(HEAD_PARTS_MAX).map(excerpt);
    let note = format!("[… {left_out} of {count} {what} are not shown here …]");
    head.chain([note]).chain(parts.skip(count - TAIL_PARTS_MAX).map(excerpt)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let shown = shortened("x\n".repeat(1_000).split('\n'), "lines");
        assert_eq!(shown.len(), 401);
        assert_eq!(shown[300], "[… 601 of 1001 lines are not shown here …]");
        assert_eq!(shortened("a\nb\n".split('\n'), "lines"), ["a", "b", ""]);
    }
}
