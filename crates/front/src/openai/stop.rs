//! The texts that end an answer, found across the borders of pieces: what could still become one of them is held back.

/// Looks for the texts that end an answer.
#[derive(Debug)]
pub(crate) struct Stops {
    texts: Vec<Box<str>>,
    /// What was said and may be the beginning of one.
    held: String,
}

/// What may be said now.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Passed {
    /// This, and then more.
    On(String),
    /// This, and then nothing more.
    Stopped(String),
}

impl Stops {
    pub(crate) fn new(texts: &[Box<str>]) -> Self {
        Self { texts: texts.to_vec(), held: String::new() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.texts.is_empty()
    }

    pub(crate) fn pass(&mut self, piece: &str) -> Passed {
        self.held.push_str(piece);
        // The one that was complete first, however the pieces came.
        let first = self.texts.iter().filter_map(|text| self.held.find(&**text).map(|at| (at + text.len(), at))).min();
        if let Some((_, at)) = first {
            self.held.truncate(at);
            return Passed::Stopped(std::mem::take(&mut self.held));
        }
        let kept = self.texts.iter().map(|text| overlap(&self.held, text)).max().unwrap_or(0);
        let rest = self.held.split_off(self.held.len() - kept);
        Passed::On(std::mem::replace(&mut self.held, rest))
    }

    /// What was held back, once nothing more is said.
    pub(crate) fn rest(&mut self) -> String {
        std::mem::take(&mut self.held)
    }
}

/// How long the longest end of `said` is that `text` begins with.
fn overlap(said: &str, text: &str) -> usize {
    let ends = text.char_indices().map(|(at, _)| at).skip(1).filter(|&at| at <= said.len());
    ends.filter(|&at| said.ends_with(&text[..at])).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{Passed, Stops};

    /// What is said in all, and whether it was stopped, if it comes in these pieces.
    fn said(texts: &[&str], pieces: &[&str]) -> (String, bool) {
        let texts: Vec<Box<str>> = texts.iter().map(|text| (*text).into()).collect();
        let (mut stops, mut said) = (Stops::new(&texts), String::new());
        for piece in pieces {
            match stops.pass(piece) {
                Passed::On(more) => said += &more,
                Passed::Stopped(last) => return (said + &last, true),
            }
        }
        (said + &stops.rest(), false)
    }

    #[test]
    fn a_text_is_found_across_pieces() {
        assert_eq!(said(&["END"], &["one E", "N", "D two"]), ("one ".into(), true));
        assert_eq!(said(&["END"], &["one E", "N", "d two E"]), ("one ENd two E".into(), false));
        assert_eq!(said(&["aab"], &["aa", "ab"]), ("a".into(), true));
        assert_eq!(said(&["x", "é\n"], &["caf", "é", "\nx"]), ("caf".into(), true));
    }

    proptest! {
        #[test]
        fn pieces_make_no_difference(text in "[ab é]{0,24}", stops in prop::collection::vec("[ab é]{1,3}", 0..3), cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..6)) {
            let mut borders: Vec<_> = text.char_indices().map(|(at, _)| at).chain([text.len()]).collect();
            borders = cuts.iter().map(|cut| *cut.get(&borders)).chain([0, text.len()]).collect();
            borders.sort_unstable();
            let pieces: Vec<_> = borders.windows(2).map(|pair| &text[pair[0]..pair[1]]).collect();
            let stops: Vec<_> = stops.iter().map(String::as_str).collect();
            let first = stops.iter().filter_map(|stop| text.find(stop).map(|at| (at + stop.len(), at))).min();
            let expected = (text[..first.map_or(text.len(), |(_, at)| at)].to_owned(), first.is_some());
            prop_assert_eq!(said(&stops, &pieces), expected);
        }
    }
}
