//! One pass over JSON text: checks its grammar and its depth, copies nothing, allocates nothing, does not recurse.
//!
//! `serde_json` could skip values too, but allocates for nested ones and knows no depth limit there. A property test
//! holds the two to the same verdict on every text.

use std::ops::Range;

/// The deepest nesting that a scanner can follow: one bit for each open bracket.
const DEPTH_BITS: usize = 128;

/// A position in JSON text.
#[derive(Clone, Debug)]
pub(crate) struct Scanner<'a> {
    text: &'a [u8],
    at: usize,
    depth_max: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ScanFault {
    Expected(&'static str, usize),
    TooDeep,
}

type Scanned<T> = Result<T, ScanFault>;

impl<'a> Scanner<'a> {
    pub(crate) fn new(text: &'a [u8], depth_max: usize) -> Self {
        Self { text, at: 0, depth_max: depth_max.min(DEPTH_BITS) }
    }

    /// Passes over one value of any kind, and returns where it stands.
    pub(crate) fn value(&mut self) -> Scanned<Range<usize>> {
        self.skip_blanks();
        let start = self.at;
        let mut open = Brackets::default();
        loop {
            match self.peek() {
                Some(b'{') => {
                    self.at += 1;
                    open.push(Bracket::Brace, self.depth_max)?;
                    if !self.eats(b'}') {
                        self.key()?;
                        continue;
                    }
                    open.pop();
                }
                Some(b'[') => {
                    self.at += 1;
                    open.push(Bracket::Square, self.depth_max)?;
                    if !self.eats(b']') {
                        continue;
                    }
                    open.pop();
                }
                Some(_) => self.scalar()?,
                None => return Err(self.expected("a value")),
            }
            loop {
                match open.last() {
                    None => return Ok(start..self.at),
                    Some(Bracket::Brace) if self.eats(b',') => {
                        self.key()?;
                        break;
                    }
                    Some(Bracket::Brace) => self.byte(b'}', "',' or '}'")?,
                    Some(Bracket::Square) if self.eats(b',') => {
                        self.skip_blanks();
                        break;
                    }
                    Some(Bracket::Square) => self.byte(b']', "',' or ']'")?,
                }
                open.pop();
            }
        }
    }

    /// Passes over a key and its colon, up to its value, and returns where the key with its quotes stands.
    pub(crate) fn key(&mut self) -> Scanned<Range<usize>> {
        self.skip_blanks();
        let start = self.at;
        self.string()?;
        let key = start..self.at;
        self.byte(b':', "':'")?;
        self.skip_blanks();
        Ok(key)
    }

    /// Passes over one byte, and blanks before it.
    pub(crate) fn byte(&mut self, byte: u8, name: &'static str) -> Scanned<()> {
        if self.eats(byte) { Ok(()) } else { Err(self.expected(name)) }
    }

    /// Whether that byte comes next after blanks; if so, it is passed over, and else only the blanks are.
    pub(crate) fn eats(&mut self, byte: u8) -> bool {
        self.skip_blanks();
        let is_next = self.peek() == Some(byte);
        self.at += usize::from(is_next);
        is_next
    }

    /// Nothing but blanks may be left.
    pub(crate) fn end(&mut self) -> Scanned<()> {
        self.skip_blanks();
        match self.peek() {
            None => Ok(()),
            Some(_) => Err(self.expected("the end of the line")),
        }
    }

    fn scalar(&mut self) -> Scanned<()> {
        match self.peek() {
            Some(b'"') => self.string(),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(b't') => self.literal(b"true"),
            Some(b'f') => self.literal(b"false"),
            Some(b'n') => self.literal(b"null"),
            _ => Err(self.expected("a value")),
        }
    }

    fn string(&mut self) -> Scanned<()> {
        if self.peek() != Some(b'"') {
            return Err(self.expected("a string"));
        }
        self.at += 1;
        loop {
            let rest = &self.text[self.at..];
            self.at += plain_bytes(rest);
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(());
                }
                Some(b'\\') => self.escape()?,
                _ => return Err(self.expected("the end of a string")),
            }
        }
    }

    fn escape(&mut self) -> Scanned<()> {
        let length = match self.text.get(self.at + 1) {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => 2,
            Some(b'u') => {
                let digits = self.text.get(self.at + 2..self.at + 6).unwrap_or_default();
                if digits.len() < 4 || !digits.iter().all(u8::is_ascii_hexdigit) {
                    return Err(self.expected("four hexadecimal digits"));
                }
                6
            }
            _ => return Err(self.expected("an escape")),
        };
        self.at += length;
        Ok(())
    }

    fn number(&mut self) -> Scanned<()> {
        self.at += usize::from(self.peek() == Some(b'-'));
        if self.peek() == Some(b'0') {
            self.at += 1;
        } else {
            self.digits()?;
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.digits()?;
        }
        if let Some(b'e' | b'E') = self.peek() {
            self.at += 1;
            self.at += usize::from(matches!(self.peek(), Some(b'+' | b'-')));
            self.digits()?;
        }
        Ok(())
    }

    fn digits(&mut self) -> Scanned<()> {
        let rest = &self.text[self.at..];
        let count = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        self.at += count;
        if count == 0 { Err(self.expected("a digit")) } else { Ok(()) }
    }

    fn literal(&mut self, literal: &'static [u8]) -> Scanned<()> {
        if !self.text[self.at..].starts_with(literal) {
            return Err(self.expected("a value"));
        }
        self.at += literal.len();
        Ok(())
    }

    fn skip_blanks(&mut self) {
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = self.peek() {
            self.at += 1;
        }
    }

    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn expected(&self, what: &'static str) -> ScanFault {
        ScanFault::Expected(what, self.at)
    }
}

/// How many bytes of a string come before a quote, a backslash or a control character; eight at a time, since strings
/// are most of a line.
fn plain_bytes(rest: &[u8]) -> usize {
    const ONES: u64 = u64::from_ne_bytes([1; 8]);
    const HIGHS: u64 = ONES << 7;
    let (words, tail) = rest.as_chunks();
    let mut plain = 0;
    for word in words {
        let word = u64::from_le_bytes(*word);
        // A byte is zero exactly where its highest bit is set here, up to the first such byte.
        let zeros = |word: u64| word.wrapping_sub(ONES) & !word & HIGHS;
        let quotes = zeros(word ^ (ONES * u64::from(b'"')));
        let backslashes = zeros(word ^ (ONES * u64::from(b'\\')));
        let controls = word.wrapping_sub(ONES * u64::from(b' ')) & !word & HIGHS;
        let special = quotes | backslashes | controls;
        if special != 0 {
            return plain + special.trailing_zeros() as usize / 8;
        }
        plain += 8;
    }
    let is_special = |byte: &u8| matches!(byte, b'"' | b'\\' | ..b' ');
    plain + tail.iter().position(is_special).unwrap_or(tail.len())
}

#[derive(Clone, Copy)]
enum Bracket {
    Brace,
    Square,
}

/// The brackets that are open, the innermost in the lowest bit.
#[derive(Default)]
struct Brackets {
    are_braces: u128,
    depth: usize,
}

impl Brackets {
    fn push(&mut self, bracket: Bracket, depth_max: usize) -> Scanned<()> {
        if self.depth == depth_max {
            return Err(ScanFault::TooDeep);
        }
        self.depth += 1;
        self.are_braces = self.are_braces << 1 | u128::from(matches!(bracket, Bracket::Brace));
        Ok(())
    }

    fn pop(&mut self) {
        self.depth -= 1;
        self.are_braces >>= 1;
    }

    fn last(&self) -> Option<Bracket> {
        match (self.depth, self.are_braces & 1) {
            (0, _) => None,
            (_, 1) => Some(Bracket::Brace),
            _ => Some(Bracket::Square),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::{Strategy, prop_oneof, proptest};
    use serde_json::value::RawValue;

    fn scan(text: &str, depth_max: usize) -> Scanned<&str> {
        let mut scanner = Scanner::new(text.as_bytes(), depth_max);
        let value = scanner.value()?;
        scanner.end()?;
        Ok(&text[value])
    }

    fn check(text: &str) {
        let theirs: Result<&RawValue, _> = serde_json::from_str(text);
        match (scan(text, 128), &theirs) {
            (Ok(ours), Ok(theirs)) => assert_eq!(ours, theirs.get(), "{text}"),
            (ours, theirs) => {
                assert_eq!(ours.is_ok(), theirs.is_ok(), "{text}: {ours:?}, {theirs:?}");
            }
        }
    }

    #[test]
    fn the_verdict_is_that_of_serde_json() {
        let texts = [
            "",
            " ",
            "null",
            "nul",
            "nulll",
            "true",
            "false",
            "-",
            "-1",
            "01",
            "1.",
            "1.5e",
            "1e+9",
            "-0.0E-0",
            "+1",
            "[]",
            "[ ]",
            "[1,]",
            "[,1]",
            "[1 2]",
            "[1,2",
            "{}",
            "{ }",
            r#"{"a"}"#,
            r#"{"a":}"#,
            r#"{"a":1,}"#,
            r#"{"a":1"#,
            r#"{a:1}"#,
            r#"{"a":1]"#,
            r#"[1}"#,
            r#"{"a" : [ 1 , {"b":[]} ] , "c":"d"} "#,
            r#""\ud800""#,
            r#""\u12g4""#,
            r#""\u12"#,
            r#""\x""#,
            r#""\"#,
            "\"\t\"",
            "\"a\u{7f}é\"",
            "\"",
            "[[[[]]]]",
            "]",
            "}",
            ",",
            "1 1",
            "\u{feff}1",
            "[\"\\\\\"]",
            "{\"a\":{\"b\":{}},\"c\":[[],[{}]]}",
        ];
        texts.into_iter().for_each(check);
    }

    #[test]
    fn depth_counts_open_brackets_only() {
        assert!(scan("[[],[],[[]]]", 3).is_ok());
        assert_eq!(scan("[[],[],[[]]]", 2), Err(ScanFault::TooDeep));
        assert!(scan(r#"["[[[[", "{{{"]"#, 1).is_ok());
        let nested = |depth| "[".repeat(depth) + &"]".repeat(depth);
        assert!(scan(&nested(128), usize::MAX).is_ok());
        assert_eq!(scan(&nested(129), usize::MAX), Err(ScanFault::TooDeep));
        assert_eq!(scan(&"[".repeat(1_000_000), 128), Err(ScanFault::TooDeep));
    }

    #[test]
    fn a_special_byte_is_found_wherever_it_stands() {
        for special in 0..=u8::MAX {
            for at in 0..24 {
                let mut text = [b'x'; 24];
                text[at] = special;
                let is_special = matches!(special, b'"' | b'\\' | ..b' ');
                assert_eq!(plain_bytes(&text), if is_special { at } else { 24 }, "{special} at {at}");
            }
        }
    }

    proptest! {
        #[test]
        fn any_text_gets_the_verdict_of_serde_json(text in json_like()) {
            check(&text);
        }
    }

    /// Texts made of tokens, so that a good part of them is nearly JSON.
    fn json_like() -> impl Strategy<Value = String> {
        let tokens = vec![
            "{",
            "}",
            "[",
            "]",
            ":",
            ",",
            "\"a\"",
            "\"\\n\"",
            "\"\\u00e9\"",
            "\"\\",
            "1",
            "-2.5e3",
            "0",
            ".",
            "e",
            "true",
            "null",
            " ",
            "\n",
            "\"",
            "é",
            "[]",
            "{}",
            "{\"a\":",
            "[1,",
        ];
        let soup = proptest::collection::vec(proptest::sample::select(tokens), 0..14);
        prop_oneof![soup.prop_map(|tokens| tokens.concat()), proptest::string::string_regex("\\PC{0,12}").unwrap()]
    }
}
