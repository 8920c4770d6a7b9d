//! Server-sent events, as far as our own server writes them: `event`, `id` and `data` lines, comments, an empty line.

use super::ServerError;
use super::request::Answer;

/// The longest event; an item of a turn holds a command's whole output.
const EVENT_BYTES_MAX: usize = 64 << 20;

/// A stream of events.
pub(crate) struct Events {
    answer: Answer,
    lines: Lines,
}

impl Events {
    pub(super) fn new(answer: Answer) -> Self {
        Self { answer, lines: Lines::default() }
    }

    /// The data of the next event; none when the server has ended the stream. Cancel-safe.
    pub(crate) async fn next(&mut self) -> Result<Option<String>, ServerError> {
        loop {
            if let Some(event) = self.lines.take_event()? {
                return Ok(Some(event));
            }
            match self.answer.next().await? {
                Some(part) => self.lines.push(&part)?,
                None => return Ok(None),
            }
        }
    }
}

/// Bytes in, the data of events out.
#[derive(Default)]
struct Lines {
    bytes: Vec<u8>,
    /// How many of the bytes were looked at in vain.
    searched: usize,
    data: Option<String>,
}

impl Lines {
    fn push(&mut self, part: &[u8]) -> Result<(), ServerError> {
        self.bytes.extend_from_slice(part);
        let held = self.bytes.len() + self.data.as_ref().map_or(0, String::len);
        if held > EVENT_BYTES_MAX {
            return Err(ServerError::Unexpected(format!("an event is longer than {EVENT_BYTES_MAX} bytes")));
        }
        Ok(())
    }

    fn take_event(&mut self) -> Result<Option<String>, ServerError> {
        while let Some(length) = self.bytes[self.searched..].iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.bytes.drain(..=self.searched + length).collect();
            self.searched = 0;
            let line = String::from_utf8(line).map_err(|error| ServerError::Unexpected(error.to_string()))?;
            match line.trim_end_matches(['\n', '\r']) {
                "" => {
                    if let Some(data) = self.data.take() {
                        return Ok(Some(data));
                    }
                }
                line => self.take_line(line),
            }
        }
        self.searched = self.bytes.len();
        Ok(None)
    }

    fn take_line(&mut self, line: &str) {
        let Some(data) = line.strip_prefix("data:") else { return };
        let data = data.strip_prefix(' ').unwrap_or(data);
        match &mut self.data {
            Some(before) => {
                before.push('\n');
                before.push_str(data);
            }
            None => self.data = Some(data.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Lines;

    #[test]
    fn any_cut_gives_the_same_events() {
        let text = ": hello\n\nid: 1\nevent: text\ndata: {\"a\":1}\n\ndata: two\r\ndata:lines\r\n\r\n: beat\n\ndata: é\n\ndata: unfinished";
        for size in 1..text.len() {
            let mut lines = Lines::default();
            let mut events = Vec::new();
            for part in text.as_bytes().chunks(size) {
                lines.push(part).unwrap();
                while let Some(event) = lines.take_event().unwrap() {
                    events.push(event);
                }
            }
            assert_eq!(events, ["{\"a\":1}", "two\nlines", "é"], "in pieces of {size}");
        }
    }
}
