//! How deep a JSON text nests, without parsing it.

/// Whether `text` opens more than `depth_max` brackets inside each other.
///
/// Most texts hold fewer brackets than the limit altogether: counting them is enough, and the walk is left out.
pub(crate) fn is_deeper_than(text: &[u8], depth_max: usize) -> bool {
    // `[` and `{` differ in one bit.
    let opened = text.iter().filter(|&&byte| byte & 0xdf == b'[').count();
    opened > depth_max && deepest(text) > depth_max
}

fn deepest(text: &[u8]) -> usize {
    let (mut depth, mut deepest) = (0_usize, 0);
    let mut is_string = false;
    let mut bytes = text.iter();
    while let Some(byte) = bytes.next() {
        match byte {
            b'\\' if is_string => _ = bytes.next(),
            b'"' => is_string = !is_string,
            b'[' | b'{' if !is_string => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b']' | b'}' if !is_string => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nesting_counts_and_neighbours_do_not() {
        assert!(!is_deeper_than(&b"[]".repeat(1000), 1));
        assert!(is_deeper_than(b"[[]]", 1));
        assert!(!is_deeper_than(br#"[{"a":[]}]"#, 3));
        assert!(is_deeper_than(br#"[{"a":[{}]}]"#, 3));
        assert!(is_deeper_than(&b"[".repeat(1_000_000), 128));
    }

    #[test]
    fn brackets_inside_strings_do_not_count() {
        assert!(!is_deeper_than(br#"["[[[[\"[[[[","\\"]"#, 1));
        assert!(is_deeper_than(br#"["\\",[{}]]"#, 2));
    }
}
