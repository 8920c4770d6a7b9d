//! What the two ends of an unusable line still say: whose message it was, and under which id.
//!
//! codex writes the id at the head of an answer and at the tail of an error. The head is walked key by key as far as it
//! goes; at the tail only a member `"id"` right before the last brace counts, for nothing else there is certain.

use crate::id::RawId;
use crate::scan::{ScanFault, Scanner};

/// What is known of a line from its ends.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Edges<'a> {
    /// Its id.
    pub id: Option<RawId<'a>>,
    /// What it was to be.
    pub kind: Option<Kind>,
}

/// Whether a message asks or answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A request or a notification.
    Asks,
    /// An answer.
    Answers,
}

impl<'a> Edges<'a> {
    /// What the first and the last bytes of a line say; both may be the whole line.
    #[must_use]
    pub fn of(head: &'a [u8], tail: &'a [u8]) -> Self {
        let mut edges = Self::default();
        // The walk ends at the first byte that it cannot follow; what was learned before stands.
        _ = edges.walk(head);
        edges.id = edges.id.or_else(|| id_at_tail(tail));
        edges
    }

    fn walk(&mut self, head: &'a [u8]) -> Result<(), ScanFault> {
        let mut scanner = Scanner::new(head, usize::MAX);
        scanner.byte(b'{', "'{'")?;
        loop {
            let key = &head[scanner.key()?];
            match key {
                br#""method""# | br#""params""# => self.kind = Some(Kind::Asks),
                br#""result""# | br#""error""# => self.kind = Some(Kind::Answers),
                _ => {}
            }
            let value = &head[scanner.value()?];
            // A number that ends where the head ends may be only the beginning of one.
            scanner.byte(b',', "','")?;
            if key == br#""id""# {
                self.id = std::str::from_utf8(value).ok().and_then(RawId::new);
            }
        }
    }
}

fn id_at_tail(tail: &[u8]) -> Option<RawId<'_>> {
    let inner = tail.trim_ascii_end().strip_suffix(b"}")?.trim_ascii_end();
    let colon = inner.iter().rposition(|&byte| byte == b':')?;
    let id = RawId::new(std::str::from_utf8(inner[colon + 1..].trim_ascii_start()).ok()?)?;
    let is_plain_string = id.as_str().matches('"').count() == 2 && !id.as_str().contains('\\');
    let is_scalar = !id.as_str().starts_with('"') || is_plain_string && id.as_str().ends_with('"');
    let before = inner[..colon].trim_ascii_end().strip_suffix(br#""id""#)?;
    let is_key = matches!(before.trim_ascii_end().last(), Some(b',' | b'{'));
    (is_scalar && is_key).then_some(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(head: &str, tail: &str, id: Option<&str>, kind: Option<Kind>) {
        let edges = Edges::of(head.as_bytes(), tail.as_bytes());
        assert_eq!(edges.id.map(RawId::as_str), id, "{head} … {tail}");
        assert_eq!(edges.kind, kind, "{head} … {tail}");
    }

    #[test]
    fn id_is_found_at_the_head() {
        let answers = Some(Kind::Answers);
        check(r#"{"id":7,"result":{"text":"xxx"#, "xxx", Some("7"), answers);
        check(r#" { "id" : "a,\"}" , "result":["#, "", Some(r#""a,\"}""#), answers);
        check(r#"{"jsonrpc":"2.0","x":{"id":[1,"}"]},"id":-3,"error":{"#, "", Some("-3"), answers);
        check(r#"{"method":"m","id":0,"params":{"#, "", Some("0"), Some(Kind::Asks));
    }

    #[test]
    fn id_is_found_at_the_tail() {
        let answers = Some(Kind::Answers);
        check(r#"{"error":{"message":"xxx"#, r#"xxx"},"id":12}"#, Some("12"), answers);
        check(r#"{"result":{"#, r#""}, "id" : "abc" } "#, Some(r#""abc""#), answers);
        check(r#"{"params":{"#, r#"},"id":3}"#, Some("3"), Some(Kind::Asks));
    }

    #[test]
    fn what_only_looks_like_an_id_is_not_one() {
        check(r#"{"result":{"id":5,"te"#, r#"xt":"x"}}"#, None, Some(Kind::Answers));
        check(r#"{"result":"x"#, r#"x,\"id\":5}"}"#, None, Some(Kind::Answers));
        check(r#"{"result":"x"#, r#"x\"id":5}"#, None, Some(Kind::Answers));
        check(r#"{"id":nu"#, "", None, None);
        check(r#"{"id":1.5,"result":["#, "", None, Some(Kind::Answers));
        check("[[[[[[", "]]]]", None, None);
        check("", "", None, None);
    }
}
