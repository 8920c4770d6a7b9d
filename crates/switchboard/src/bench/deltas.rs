//! How many pieces of text stand in the bytes of a stream, and whether it has ended. Only lines are looked at, not JSON: a
//! load that parses would measure itself. A server that is behind may put several pieces into one chunk, so blanks are counted:
//! a chunk has as many pieces as its text has blanks, and one at least.

/// Reads one stream, in whatever pieces it comes.
#[derive(Default)]
pub(super) struct Deltas {
    unfinished: Vec<u8>,
    is_done: bool,
}

/// Longer than any event of a server that is worth measuring.
const LINE_BYTES_MAX: usize = 1 << 20;

/// An event that can be no delta of text.
#[derive(Debug, thiserror::Error)]
pub(super) enum Broken {
    #[error("the stream tells an error: {0}")]
    Told(String),
    #[error("a line of the stream is longer than {LINE_BYTES_MAX} bytes")]
    Long,
}

impl Deltas {
    /// How many pieces of text end in this part of the stream.
    pub(super) fn count(&mut self, piece: &[u8]) -> Result<usize, Broken> {
        let mut deltas = 0;
        let mut rest = piece;
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            let (line, after) = rest.split_at(end + 1);
            rest = after;
            if self.unfinished.is_empty() {
                deltas += self.take(line)?;
            } else {
                let mut whole = std::mem::take(&mut self.unfinished);
                whole.extend_from_slice(line);
                deltas += self.take(&whole)?;
                whole.clear();
                self.unfinished = whole;
            }
        }
        self.unfinished.extend_from_slice(rest);
        if self.unfinished.len() > LINE_BYTES_MAX { Err(Broken::Long) } else { Ok(deltas) }
    }

    /// Whether the last event was there.
    pub(super) fn is_done(&self) -> bool {
        self.is_done
    }

    fn take(&mut self, line: &[u8]) -> Result<usize, Broken> {
        let Some(event) = line.strip_prefix(b"data:") else { return Ok(0) };
        let event = event.trim_ascii();
        if event == b"[DONE]" {
            self.is_done = true;
            return Ok(0);
        }
        if event.starts_with(br#"{"error""#) || event.starts_with(br#"{"type":"error""#) {
            return Err(Broken::Told(String::from_utf8_lossy(event).into_owned()));
        }
        Ok(text_of(event).map_or(0, |text| text.iter().filter(|byte| **byte == b' ').count().max(1)))
    }
}

/// What stands behind `"content":`, or in a delta of a response behind `"delta":`, still escaped, if it is a text and not empty; blanks
/// after the colon are allowed.
fn text_of(event: &[u8]) -> Option<&[u8]> {
    const RESPONSE: &[u8] = br#"{"type":"response."#;
    const RESPONSE_TEXT: &[u8] = br#"{"type":"response.output_text.delta""#;
    let name: &[u8] = match event {
        event if event.starts_with(RESPONSE_TEXT) => br#""delta":"#,
        event if event.starts_with(RESPONSE) => return None,
        _ => br#""content":"#,
    };
    let found = event.windows(name.len()).position(|window| window == name)?;
    let text = event[found + name.len()..].trim_ascii_start().strip_prefix(b"\"")?;
    let mut is_escaped = false;
    let end = text.iter().position(|byte| {
        let is_end = *byte == b'"' && !is_escaped;
        is_escaped = *byte == b'\\' && !is_escaped;
        is_end
    });
    end.filter(|end| *end > 0).map(|end| &text[..end])
}

#[cfg(test)]
mod tests {
    use super::Deltas;

    #[test]
    fn any_cut_gives_the_same_count() {
        let text = concat!(
            "data: {\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\n\n",
            ": ping\n\n",
            "data: {\"choices\":[{\"delta\":{\"content\":\"one\"}}]}\r\n\r\n",
            "data: {\"choices\": [{\"delta\": {\"content\": \"\\\"two three \"}}], \"x\": \"a b c\"}\n\n",
            "data: {\"choices\":[{\"delta\":{\"content\":null}}]}\n\n",
            "data: [DONE]\n\n",
        );
        for size in 1..=text.len() {
            let mut deltas = Deltas::default();
            let counts = text.as_bytes().chunks(size).map(|piece| deltas.count(piece).unwrap());
            assert_eq!(counts.sum::<usize>(), 3, "in pieces of {size}");
            assert!(deltas.is_done());
        }
    }

    #[test]
    fn of_a_response_only_its_text_counts() {
        let text = concat!(
            "event: response.output_item.added\ndata: {\"type\":\"response.output_item.added\",\"item\":{\"content\":[]}}\n\n",
            "event: response.reasoning_summary_text.delta\ndata: {\"type\":\"response.reasoning_summary_text.delta\",\"delta\":\"no\"}\n\n",
            "event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"delta\":\"one two \"}\n\n",
            "event: response.output_text.done\ndata: {\"type\":\"response.output_text.done\",\"text\":\"one two \"}\n\n",
            "data: [DONE]\n\n",
        );
        let mut deltas = Deltas::default();
        assert_eq!(deltas.count(text.as_bytes()).unwrap(), 2);
        assert!(deltas.is_done());
    }

    #[test]
    fn a_stream_that_fails_says_so() {
        let told = Deltas::default().count(b"data: {\"error\":{\"message\":\"gone\"}}\n\n").unwrap_err();
        assert_eq!(told.to_string(), r#"the stream tells an error: {"error":{"message":"gone"}}"#);
    }
}
