//! Names for what is another in every run: ids, hashes, the directory. They are given in the order in which things first
//! appear, and stand for them in later requests too.

use std::collections::HashMap;

/// What an id begins with, what it goes on with, and what it is called.
const FORMS: [(&str, Rest, &str); 16] = [
    ("chatcmpl-", Rest::Hex(32), "answer"),
    ("resp_", Rest::Hex(32), "response"),
    ("conv_", Rest::Hex(32), "conversation"),
    ("msg_", Rest::Item, "message"),
    ("rs_", Rest::Item, "thought"),
    ("fc_", Rest::Item, "function call"),
    ("fco_", Rest::Item, "result"),
    ("cmp_", Rest::Item, "summary"),
    ("sh_", Rest::Item, "command"),
    ("sho_", Rest::Item, "output"),
    ("apc_", Rest::Item, "edit"),
    ("mcp_", Rest::Item, "tool call"),
    ("req_", Rest::Hex(32), "request"),
    ("call_resp_", Rest::Word, "call"),
    ("", Rest::Uuid, "id"),
    ("", Rest::Hex(64), "history"),
];

enum Rest {
    Hex(usize),
    /// The digits of a response and a place in it.
    Item,
    Uuid,
    Word,
}

#[derive(Default)]
pub(super) struct Names {
    by_id: HashMap<String, String>,
    counts: HashMap<&'static str, usize>,
}

impl Names {
    /// Names something by hand.
    pub(super) fn add(&mut self, id: &str, name: &str) {
        self.by_id.insert(id.into(), format!("<{name}>"));
    }

    /// The text with names, and without times.
    pub(super) fn written(&mut self, text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(next) = rest.chars().next() {
            let length = match self.begins_with(rest, out.ends_with(is_word)) {
                Some((length, name)) => {
                    out.push_str(&name);
                    length
                }
                None => {
                    out.push(next);
                    next.len_utf8()
                }
            };
            rest = &rest[length..];
        }
        without_times(&out)
    }

    /// The text with what the names in it stand for.
    pub(super) fn meant(&self, text: &str) -> String {
        self.by_id.iter().fold(text.into(), |text, (id, name)| text.replace(name, id))
    }

    fn begins_with(&mut self, text: &str, is_in_word: bool) -> Option<(usize, String)> {
        let known = self.by_id.iter().find(|(id, _)| text.starts_with(&**id) && id.starts_with('/'));
        if let Some((id, name)) = known {
            return Some((id.len(), name.clone()));
        }
        if is_in_word {
            return None;
        }
        let (length, kind) = FORMS.iter().find_map(|(prefix, rest, kind)| {
            let length = prefix.len() + rest.length(text.strip_prefix(prefix)?)?;
            (!text[length..].starts_with(is_word)).then_some((length, *kind))
        })?;
        Some((length, self.name(kind, &text[..length])))
    }

    fn name(&mut self, kind: &'static str, id: &str) -> String {
        let name = self.by_id.entry(id.into()).or_insert_with(|| {
            let count = self.counts.entry(kind).or_default();
            *count += 1;
            format!("<{kind} {count}>")
        });
        name.clone()
    }
}

impl Rest {
    fn length(&self, text: &str) -> Option<usize> {
        let is_hex = |text: &str| text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        match self {
            Self::Hex(length) => text.get(..*length).filter(|text| is_hex(text)).map(|_| *length),
            Self::Item => {
                text.get(..32).filter(|text| is_hex(text))?;
                let place = text[32..].trim_start_matches('i');
                let digits = place.find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(place.len());
                (digits >= 4).then(|| text.len() - place.len() + digits)
            }
            Self::Uuid => {
                let mut groups = text.get(..36)?.split('-');
                let is_uuid = [8, 4, 4, 4, 12]
                    .iter()
                    .all(|length| groups.next().is_some_and(|group| group.len() == *length && is_hex(group)));
                is_uuid.then_some(36)
            }
            Self::Word => Some(text.find(|c| !is_word(c)).unwrap_or(text.len())).filter(|length| *length > 0),
        }
    }
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// The only times that an answer tells.
fn without_times(text: &str) -> String {
    ["\"created\":", "\"created_at\":", "\"completed_at\":"].iter().fold(text.to_owned(), |text, name| {
        let mut pieces = text.split(name);
        let mut out = pieces.next().unwrap_or_default().to_owned();
        for piece in pieces {
            let rest = piece.trim_start_matches(|c: char| c.is_ascii_digit());
            out += name;
            out += if rest.len() < piece.len() { "0" } else { "" };
            out += rest;
        }
        out
    })
}
