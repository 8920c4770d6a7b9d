//! Lists that nest deeper than a parser follows, made readable: what lies too deep is replaced by a mark, so that the one entry
//! it belongs to is put aside and the others are used. Pure; no other answer is changed on its way.

use serde_json::Value;

/// How deep the answer to a list may nest, its envelope included: parsers here and elsewhere stop at 128.
pub(crate) const LISTED_DEPTH_MAX: usize = 120;
/// What stands in the place of what lies deeper.
const MARK: &str = "nested too deeply for Switchboard";
/// By how much the marks may lengthen a text: many short values that lie too deep are no list.
const LENGTHENED_BYTES_MAX: usize = 64 << 10;

/// Whether a request of ours asks for a list, or for what may have one in it.
pub(crate) fn asks_for_list(method: &str) -> bool {
    matches!(method, "initialize" | "tools/list" | "resources/list" | "resources/templates/list" | "prompts/list")
}

/// The text with a mark for whatever lies too deep; `None` if that is too much.
pub(crate) fn pruned(json: &[u8]) -> Option<Vec<u8>> {
    let (mut pruner, mut kept) = (Pruner::default(), Vec::with_capacity(json.len()));
    for byte in json {
        pruner.take(*byte, &mut kept);
        if kept.len() > json.len() + LENGTHENED_BYTES_MAX {
            return None;
        }
    }
    Some(kept)
}

/// Whether something of this was replaced by a mark.
pub(crate) fn is_pruned(value: &Value) -> bool {
    match value {
        Value::String(text) => text == MARK,
        Value::Array(values) => values.iter().any(is_pruned),
        Value::Object(fields) => fields.values().any(is_pruned),
        _ => false,
    }
}

/// Reads JSON text byte by byte. Grammar is left to whoever parses what is kept.
#[derive(Debug, Default)]
struct Pruner {
    depth: usize,
    is_in_string: bool,
    is_escaped: bool,
}

impl Pruner {
    fn take(&mut self, byte: u8, kept: &mut Vec<u8>) {
        let depth_before = self.depth;
        match byte {
            _ if self.is_escaped => self.is_escaped = false,
            b'\\' if self.is_in_string => self.is_escaped = true,
            b'"' => self.is_in_string = !self.is_in_string,
            _ if self.is_in_string => {}
            b'[' | b'{' => {
                self.depth += 1;
                if self.depth == LISTED_DEPTH_MAX + 1 {
                    kept.extend_from_slice(format!("\"{MARK}\"").as_bytes());
                }
            }
            b']' | b'}' => self.depth = self.depth.saturating_sub(1),
            _ => {}
        }
        if depth_before.max(self.depth) <= LISTED_DEPTH_MAX {
            kept.push(byte);
        }
    }
}

/// The same for the JSON in the `data` of server-sent events, whichever way their bytes are cut into chunks.
#[derive(Debug, Default)]
pub(crate) struct EventPruner {
    pruner: Pruner,
    line: EventLine,
}

/// What is known of the line that is being read.
#[derive(Debug, Default, PartialEq, Eq)]
enum EventLine {
    #[default]
    Empty,
    /// So many letters of `data:` have come, and nothing else.
    Field(usize),
    Data,
    Other,
}

impl EventPruner {
    pub(crate) fn prune(&mut self, chunk: &[u8]) -> Vec<u8> {
        let mut kept = Vec::with_capacity(chunk.len());
        for byte in chunk {
            self.take(*byte, &mut kept);
        }
        kept
    }

    fn take(&mut self, byte: u8, kept: &mut Vec<u8>) {
        const DATA: &[u8] = b"data:";
        match (byte, &self.line) {
            (b'\r', _) => return kept.push(byte),
            (b'\n', line) => {
                if *line == EventLine::Empty {
                    self.pruner = Pruner::default();
                }
                self.line = EventLine::Empty;
                return kept.push(byte);
            }
            (_, EventLine::Data) => return self.pruner.take(byte, kept),
            (_, EventLine::Empty) if byte == DATA[0] => self.line = EventLine::Field(1),
            (_, EventLine::Field(count)) if byte == DATA[*count] => {
                let count = count + 1;
                self.line = if count == DATA.len() { EventLine::Data } else { EventLine::Field(count) };
            }
            _ => self.line = EventLine::Other,
        }
        kept.push(byte);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nested(depth: usize) -> String {
        "[".repeat(depth) + &"]".repeat(depth)
    }

    #[test]
    fn only_what_lies_too_deep_is_replaced() {
        let shallow = format!(r#"{{"a":"[[[{{\"]","b":{}}}"#, nested(LISTED_DEPTH_MAX - 1));
        assert_eq!(pruned(shallow.as_bytes()).unwrap(), shallow.as_bytes());
        for depth in [LISTED_DEPTH_MAX, 500, 100_000] {
            let deep = format!(r#"{{"a":{},"b":[1,{{"c":"]"}}]}}"#, nested(depth).replacen("[]", r#"["]\"",{}]"#, 1));
            let read: Value = serde_json::from_slice(&pruned(deep.as_bytes()).unwrap()).unwrap();
            assert!(is_pruned(&read["a"]));
            assert_eq!(read["b"], serde_json::json!([1, { "c": "]" }]));
        }
    }

    #[test]
    fn marks_lengthen_no_text_without_bounds() {
        let brackets = LISTED_DEPTH_MAX;
        let crowd = "[".repeat(brackets) + &"[],".repeat(100_000) + "1" + &"]".repeat(brackets);
        assert_eq!(pruned(crowd.as_bytes()), None);
    }

    #[test]
    fn events_are_pruned_however_they_are_cut() {
        let deep = nested(500);
        let events = format!("id: [[[\ndata: {{\"a\":\ndata: {deep}}}\n\nevent: x\r\ndata:{{\"b\":[]}}\r\n\r\n");
        let whole = EventPruner::default().prune(events.as_bytes());
        let mut pruner = EventPruner::default();
        let cut: Vec<u8> = events.as_bytes().chunks(3).flat_map(|chunk| pruner.prune(chunk)).collect();
        assert_eq!(whole, cut);
        let text = String::from_utf8(whole).unwrap();
        assert!(text.starts_with("id: [[[\ndata: {\"a\":\ndata: [[["), "{text}");
        assert!(text.contains(MARK) && text.ends_with("event: x\r\ndata:{\"b\":[]}\r\n\r\n"), "{text}");
    }
}
