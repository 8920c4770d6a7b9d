//! The output of a command: base64 chunks that may cut a character in two.

/// What of a stream could not be read as text yet.
#[derive(Debug, Default)]
pub(crate) struct Undecoded {
    bytes: Vec<u8>,
}

impl Undecoded {
    /// The text that a chunk completes. The beginning of a character waits for the rest of it; what can never become a
    /// character is replaced.
    pub(crate) fn take(&mut self, chunk: &[u8]) -> String {
        self.bytes.extend_from_slice(chunk);
        let mut text = String::new();
        let mut rest = self.bytes.as_slice();
        loop {
            match std::str::from_utf8(rest) {
                Ok(all) => {
                    text.push_str(all);
                    rest = &[];
                    break;
                }
                Err(error) => {
                    let (valid, wrong) = rest.split_at(error.valid_up_to());
                    text.push_str(&String::from_utf8_lossy(valid));
                    rest = wrong;
                    let Some(length) = error.error_len() else { break };
                    text.push(char::REPLACEMENT_CHARACTER);
                    rest = &rest[length..];
                }
            }
        }
        self.bytes = rest.to_vec();
        text
    }

    /// What is left when no more will come.
    pub(crate) fn end(&mut self) -> String {
        let rest = std::mem::take(&mut self.bytes);
        String::from_utf8_lossy(&rest).into_owned()
    }
}

/// The bytes that base64 text stands for; `None` if it is none.
pub(crate) fn base64(text: &str) -> Option<Vec<u8>> {
    let digits = text.trim_end_matches('=');
    if text.len() - digits.len() > 2 {
        return None;
    }
    let mut bytes = Vec::with_capacity(digits.len() / 4 * 3 + 2);
    let (mut group, mut bits) = (0u32, 0u32);
    for digit in digits.bytes() {
        group = group << 6 | u32::from(value(digit)?);
        bits += 6;
        if bits >= 8 {
            bits -= 8;
            bytes.extend((group >> bits).to_le_bytes().first());
        }
        group &= (1 << bits) - 1;
    }
    Some(bytes)
}

fn value(digit: u8) -> Option<u8> {
    match digit {
        b'A'..=b'Z' => Some(digit - b'A'),
        b'a'..=b'z' => Some(digit - b'a' + 26),
        b'0'..=b'9' => Some(digit - b'0' + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::{Undecoded, base64};

    #[test]
    fn base64_of_any_length_is_read_and_anything_else_is_refused() {
        let read = ["", "Zg==", "Zm8=", "Zm9v", "Zm9vYg==", "w6k"].map(base64);
        let bytes: [&[u8]; 6] = [b"", b"f", b"fo", b"foo", b"foob", "é".as_bytes()];
        assert_eq!(read, bytes.map(|bytes| Some(bytes.to_vec())));
        assert_eq!(["Zm9v!", "====", "Zm\n"].map(base64), [None, None, None]);
    }

    #[test]
    fn a_character_that_was_cut_in_two_is_told_once_and_whole() {
        let mut undecoded = Undecoded::default();
        let smile = "🙂".as_bytes();
        assert_eq!(undecoded.take(b"a\xc3"), "a");
        assert_eq!(undecoded.take(b"\xa9"), "é");
        assert_eq!(undecoded.take(&smile[..1]), "");
        assert_eq!(undecoded.take(&smile[1..3]), "");
        assert_eq!(undecoded.take(&smile[3..]), "🙂");
        assert_eq!(undecoded.take(b"\xff!\xc3"), "\u{fffd}!");
        assert_eq!(undecoded.end(), "\u{fffd}");
        assert_eq!(undecoded.end(), "");
    }
}
