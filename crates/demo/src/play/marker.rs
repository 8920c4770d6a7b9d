//! Finds the marker in a prompt: `[[name argument]]`, where the argument may itself hold brackets.

/// The inside of the last marker of `text`: the one that counts.
pub(crate) fn last_marker(text: &str) -> Option<&str> {
    let (mut last, mut rest) = (None, text);
    while let Some(open) = rest.find("[[") {
        let inside = &rest[open + 2..];
        let Some(close) = closing(inside) else { break };
        if inside.starts_with(|first: char| first.is_ascii_alphanumeric()) {
            last = Some(inside[..close].trim());
        }
        rest = &inside[close + 2..];
    }
    last
}

/// The first `]]` that no third bracket follows, so that `[[json [1,[2]]]]` ends where it should.
fn closing(inside: &str) -> Option<usize> {
    inside.match_indices(']').map(|(at, _)| at).find(|at| {
        let rest = &inside[at + 1..];
        rest.starts_with(']') && !rest.starts_with("]]")
    })
}

#[cfg(test)]
mod tests {
    use super::last_marker;

    #[test]
    fn last_marker_counts() {
        assert_eq!(last_marker("say [[text]] or [[deltas 3]] please"), Some("deltas 3"));
    }

    #[test]
    fn argument_may_hold_brackets() {
        assert_eq!(last_marker("[[json [1,[2]]]] thanks"), Some("json [1,[2]]"));
        assert_eq!(last_marker("[[json [1]]]"), Some("json [1]"));
    }

    #[test]
    fn text_without_a_marker_has_none() {
        assert_eq!(last_marker("a [[ ]] b [c] [[open"), None);
    }
}
