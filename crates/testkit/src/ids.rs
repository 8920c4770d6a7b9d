//! Finds the ids in a text: UUIDs, hashes of files in a diff, and what the model provider calls its own things, of which
//! codex makes item ids.

/// A stretch of text.
#[derive(Debug, PartialEq, Eq, Clone, Copy)]
pub(crate) enum Piece<'a> {
    Plain(&'a str),
    Id { form: &'static str, id: &'a str },
}

/// The form of a UUID: `h` stands for a hexadecimal digit.
pub(crate) const UUID: &str = "hhhhhhhh-hhhh-hhhh-hhhh-hhhhhhhhhhhh";

/// The form of a hash.
pub(crate) const HASH: &str = "hhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhh";

const PROVIDER_PREFIXES: [&str; 8] = ["call_", "ctc_", "fc_", "fco_", "lsh_", "msg_", "resp_", "rs_"];

/// `text` cut into ids and what stands between them.
pub(crate) fn pieces(text: &str) -> Vec<Piece<'_>> {
    let (mut pieces, mut plain_from, mut at) = (Vec::new(), 0, 0);
    while let Some(next) = text[at..].chars().next() {
        let Some((length, form)) = id_at(text, at) else {
            at += next.len_utf8();
            continue;
        };
        if plain_from < at {
            pieces.push(Piece::Plain(&text[plain_from..at]));
        }
        pieces.push(Piece::Id { form, id: &text[at..at + length] });
        at += length;
        plain_from = at;
    }
    if plain_from < text.len() {
        pieces.push(Piece::Plain(&text[plain_from..]));
    }
    pieces
}

/// The length and form of the id that begins at `at`.
fn id_at(text: &str, at: usize) -> Option<(usize, &'static str)> {
    if text[..at].ends_with(in_word) {
        return None;
    }
    let text = &text[at..];
    if let Some(form) = [UUID, HASH].into_iter().find(|form| matches(form, text)) {
        return Some((form.len(), form));
    }
    let prefix = PROVIDER_PREFIXES.into_iter().find(|prefix| text.starts_with(prefix))?;
    if matches(UUID, &text[prefix.len()..]) {
        return Some((prefix.len() + UUID.len(), prefix));
    }
    let length = text.find(|c| !in_word(c)).unwrap_or(text.len());
    // A name such as `call_id` is none.
    text[..length].contains(|c: char| c.is_ascii_digit()).then_some((length, prefix))
}

fn in_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// Whether `text` begins as the template says: `h` is a lower-case hexadecimal digit, `d` a digit.
pub(crate) fn matches(template: &str, text: &str) -> bool {
    text.len() >= template.len()
        && template.bytes().zip(text.bytes()).all(|(wanted, byte)| match wanted {
            b'h' => matches!(byte, b'0'..=b'9' | b'a'..=b'f'),
            b'd' => byte.is_ascii_digit(),
            literal => byte == literal,
        })
}

#[cfg(test)]
mod tests {
    use super::{Piece, UUID, pieces};

    #[test]
    fn ids_are_found_inside_a_text() {
        let uuid = "01a1e074-a853-78f0-acd9-d0fad9dd7fce";
        let text = format!("rollout-{uuid}.jsonl of msg_resp_1: a function_call_output, call_id fco_{uuid}");
        let last = format!("fco_{uuid}");
        assert_eq!(
            pieces(&text),
            [
                Piece::Plain("rollout-"),
                Piece::Id { form: UUID, id: uuid },
                Piece::Plain(".jsonl of "),
                Piece::Id { form: "msg_", id: "msg_resp_1" },
                Piece::Plain(": a function_call_output, call_id "),
                Piece::Id { form: "fco_", id: &last },
            ]
        );
    }
}
