//! Every limit of a connection, with its reason.

/// What one connection may hold; exceeding a limit is reported or refused, never fatal. None may be zero.
#[derive(Clone, Debug)]
pub struct Limits {
    /// The longest line that is kept. Real answers have exceeded 128 MB, so a longer one is skipped, not fatal.
    pub line_bytes_max: usize,
    /// The deepest nesting that is accepted, 128 at most: a parser behind us may recurse.
    pub depth_max: usize,
    /// Calls on the wire at once. The real worker drops calls beyond some 128 and can drop even its overload answer.
    /// A call that is given up leaves its place: one whose answer was dropped would hold it for ever.
    pub calls_max: usize,
    /// Bytes of calls and notifications that may wait to be sent; also the longest line that we send.
    pub queued_bytes_max: usize,
    /// Requests of the peer that may be open, or answered but not yet sent; the next one is refused with an error.
    pub requests_max: usize,
    /// Events that may wait to be polled before reading stops.
    pub events_max: usize,
    /// Bytes of lines that those events may carry; one line may exceed it, for a line is never split.
    pub event_bytes_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            line_bytes_max: 16 << 20,
            depth_max: 128,
            calls_max: 64,
            queued_bytes_max: 64 << 20,
            requests_max: 1024,
            events_max: 1024,
            event_bytes_max: 16 << 20,
        }
    }
}
