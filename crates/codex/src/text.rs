//! A piece of text as the worker wrote it: the inside of a JSON string. It goes into other JSON as it is, and is decoded only
//! for whoever asks. Every piece is whole by itself, so that pieces can be put together in either form.

use std::borrow::Cow;
use std::fmt;

use serde::{Serialize, Serializer};
use serde_json::value::RawValue;

/// A piece of text, kept as JSON. Two of them are equal if they say the same, however it is escaped.
#[derive(Clone, Default)]
pub struct Text {
    /// Escaped, without the quotes.
    json: String,
}

impl Text {
    /// The same text as JSON.
    #[must_use]
    pub fn of(text: &str) -> Self {
        if is_plain(text) {
            return Self { json: text.into() };
        }
        let quoted = serde_json::to_string(text).expect("a text can be written as JSON");
        Self { json: unquoted(&quoted).into() }
    }

    /// The text of a JSON string with its quotes; `None` if it is none, or if it holds half a character: an escape of a
    /// surrogate without the other.
    #[must_use]
    pub fn from_json(quoted: &str) -> Option<Self> {
        Self::from_raw(serde_json::from_str(quoted).ok()?)
    }

    /// The same of what is known to be JSON.
    pub(crate) fn from_raw(value: &RawValue) -> Option<Self> {
        let quoted = value.get();
        let is_string = quoted.starts_with('"');
        (is_string && is_whole(quoted)).then(|| Self { json: unquoted(quoted).into() })
    }

    /// Escaped, without the quotes: to be put between those of another JSON string.
    #[must_use]
    pub fn as_json(&self) -> &str {
        &self.json
    }

    /// What it says; borrowed if nothing in it is escaped.
    #[must_use]
    pub fn to_str(&self) -> Cow<'_, str> {
        if !has_escapes(&self.json) {
            return Cow::Borrowed(&self.json);
        }
        let quoted = format!("\"{}\"", self.json);
        Cow::Owned(serde_json::from_str(&quoted).expect("only whole JSON strings are kept"))
    }

    /// Appends more of it.
    pub fn push(&mut self, more: &Self) {
        self.json.push_str(&more.json);
    }

    /// Whether there is nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.json.is_empty()
    }

    /// How many bytes it is as JSON.
    #[must_use]
    pub fn len(&self) -> usize {
        self.json.len()
    }
}

impl From<&str> for Text {
    fn from(text: &str) -> Self {
        Self::of(text)
    }
}

impl From<String> for Text {
    fn from(text: String) -> Self {
        if is_plain(&text) { Self { json: text } } else { Self::of(&text) }
    }
}

impl PartialEq for Text {
    fn eq(&self, other: &Self) -> bool {
        self.json == other.json || self.to_str() == other.to_str()
    }
}

impl Eq for Text {}

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_str())
    }
}

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.to_str(), f)
    }
}

impl Serialize for Text {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.to_str())
    }
}

/// Whether it is the same inside a JSON string.
fn is_plain(text: &str) -> bool {
    text.bytes().all(|byte| byte >= b' ' && byte != b'"' && byte != b'\\')
}

/// Whether a JSON string has no half of a character in it. Workers escape little by number, so that is not worth a
/// scanner of its own.
fn is_whole(quoted: &str) -> bool {
    !has_escapes(quoted) || !quoted.contains("\\u") || serde_json::from_str::<Cow<'_, str>>(quoted).is_ok()
}

fn has_escapes(json: &str) -> bool {
    memchr::memchr(b'\\', json.as_bytes()).is_some()
}

fn unquoted(quoted: &str) -> &str {
    &quoted[1..quoted.len() - 1]
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A JSON string in which any character may be escaped by number, surrogates in pairs.
    fn escaped(text: &str, by_number: &[bool]) -> String {
        let mut json = String::from("\"");
        for (letter, by_number) in text.chars().zip(by_number.iter().chain(std::iter::repeat(&false))) {
            if *by_number {
                let mut units = [0; 2];
                letter.encode_utf16(&mut units).iter().for_each(|unit| json += &format!("\\u{unit:04x}"));
            } else {
                json += unquoted(&serde_json::to_string(&letter).unwrap());
            }
        }
        json + "\""
    }

    #[test]
    fn what_needs_no_escape_is_borrowed() {
        let text = Text::from_json(r#""déjà vu 🙂""#).unwrap();
        assert!(matches!(text.to_str(), Cow::Borrowed("déjà vu 🙂")));
        assert_eq!(text.as_json(), "déjà vu 🙂");
    }

    #[test]
    fn escapes_are_kept_as_they_were_written() {
        let text = Text::from_json(r#""a\/b\u0041\n\ud83d\ude42\\u""#).unwrap();
        assert_eq!(text.as_json(), r"a\/b\u0041\n\ud83d\ude42\\u");
        assert_eq!(text.to_str(), "a/bA\n🙂\\u");
        assert_eq!(text, Text::of("a/bA\n🙂\\u"));
        assert_eq!(serde_json::to_string(&text).unwrap(), r#""a/bA\n🙂\\u""#);
        assert_eq!(format!("{text}|{text:?}"), "a/bA\n🙂\\u|\"a/bA\\n🙂\\\\u\"");
    }

    #[test]
    fn half_a_character_is_no_text() {
        for json in [r#""\ud83d""#, r#""a\ude42b""#, r#""\ude42\ud83d""#, r#""\ud83d\n""#, r#""\ud83d\\ude42""#] {
            assert!(Text::from_json(json).is_none(), "{json}");
        }
        assert_eq!(Text::from_json(r#""\\ud83d""#).unwrap().to_str(), "\\ud83d");
    }

    #[test]
    fn what_is_no_json_string_is_no_text() {
        for json in ["", "\"", "x", "12", "null", "\"a\" \"b\"", "\"a\nb\"", r#""\x""#, "[\"a\"]"] {
            assert!(Text::from_json(json).is_none(), "{json}");
        }
    }

    proptest! {
        #[test]
        fn spliced_and_decoded_text_are_the_same(
            pieces in prop::collection::vec(any::<(String, Vec<bool>)>(), 0..6),
        ) {
            let (mut merged, mut whole) = (Text::default(), String::new());
            for (piece, by_number) in &pieces {
                merged.push(&Text::from_json(&escaped(piece, by_number)).unwrap());
                whole += piece;
            }
            prop_assert_eq!(&merged.to_str(), &whole);
            let spliced = format!("{{\"content\":\"{}\"}}", merged.as_json());
            let read: serde_json::Value = serde_json::from_str(&spliced).unwrap();
            prop_assert_eq!(read["content"].as_str(), Some(&*whole));
            prop_assert_eq!(&Text::of(&whole), &merged);
            prop_assert_eq!(Text::from(whole), merged);
        }

        #[test]
        fn nothing_that_is_taken_is_broken(json in r#""([a-z🙂]|\\\\|\\n|\\u00e9|\\ud83d|\\ude42|\\)*""#) {
            match (Text::from_json(&json), serde_json::from_str::<String>(&json)) {
                (Some(text), Ok(whole)) => prop_assert_eq!(text.to_str(), whole),
                (text, read) => prop_assert!(text.is_none() && read.is_err(), "{json}"),
            }
        }
    }
}
