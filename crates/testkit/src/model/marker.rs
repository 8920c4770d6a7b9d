//! Finds the marker in a prompt: `[[name argument]]`, where the argument may itself hold brackets.

/// A `[[name argument]]` of a prompt.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Marker<'a> {
    pub name: &'a str,
    pub argument: &'a str,
}

impl<'a> Marker<'a> {
    /// The last marker of `text`: the one that counts.
    pub(super) fn last(text: &'a str) -> Option<Self> {
        let (mut last, mut rest) = (None, text);
        while let Some(open) = rest.find("[[") {
            let inside = &rest[open + 2..];
            let Some(close) = closing(inside) else { break };
            last = Self::parse(&inside[..close]).or(last);
            rest = &inside[close + 2..];
        }
        last
    }

    fn parse(inside: &'a str) -> Option<Self> {
        let end = inside.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(inside.len());
        let (name, argument) = inside.split_at(end);
        (!name.is_empty()).then(|| Self { name, argument: argument.trim() })
    }
}

/// The first `]]` that no third bracket follows, so that `[[json {"a":[[1]]}]]` ends where it should.
fn closing(inside: &str) -> Option<usize> {
    inside.match_indices(']').map(|(at, _)| at).find(|&at| {
        let rest = &inside[at + 1..];
        rest.starts_with(']') && !rest.starts_with("]]")
    })
}

#[cfg(test)]
mod tests {
    use super::Marker;

    fn last(text: &str) -> Option<(&str, &str)> {
        Marker::last(text).map(|marker| (marker.name, marker.argument))
    }

    #[test]
    fn last_marker_counts() {
        assert_eq!(last("say [[text]] or [[deltas 3]] please"), Some(("deltas", "3")));
    }

    #[test]
    fn argument_may_hold_brackets() {
        assert_eq!(last("[[json [1,[2]]]]"), Some(("json", "[1,[2]]")));
    }

    #[test]
    fn text_without_a_marker_has_none() {
        assert_eq!(last("a [[ ]] b [c] [[open"), None);
    }
}
