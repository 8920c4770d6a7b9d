//! What holds for any bytes that a tool server sends as an event stream. The target `server_events` of `fuzz/` calls this.

use std::convert::Infallible;

use futures_util::{FutureExt as _, StreamExt as _, stream};
use rmcp::model::ServerJsonRpcMessage;
use serde::de::IgnoredAny;
use sse_stream::{Sse, SseStream};
use tokio_util::bytes::Bytes;

use super::bounded::each_event_bounded;
use super::http::broken_off;

/// Small, so that a short input can be above it.
const EVENT_BYTES_MAX: usize = 300;

/// Any pieces of the same bytes give the same events up to the first error, such as an event that is too long: what stands before it
/// in the same piece may be lost with it, but nothing is changed or comes twice. A message among them can be kept as a line. The first
/// byte is the size of the pieces.
///
/// # Panics
/// If that does not hold.
pub fn server_events(input: &[u8]) {
    let Some((&size, bytes)) = input.split_first() else { return };
    let (all, end) = events(bytes, 1, usize::MAX);
    for size in [bytes.len(), size.into()] {
        let (read, read_end) = events(bytes, size, usize::MAX);
        assert_eq!(read_end, end, "read in pieces of {size} bytes");
        assert!(all.starts_with(&read), "read in pieces of {size} bytes: {read:?}, and byte by byte: {all:?}");
        assert!(
            end == End::Failed || read == all,
            "read in pieces of {size} bytes: {read:?}, and byte by byte: {all:?}"
        );
        let (bounded, _) = events(bytes, size, EVENT_BYTES_MAX);
        assert!(all.starts_with(&bounded), "a limit changed an event");
        assert!(bounded.iter().all(|event| bytes_of(event) <= EVENT_BYTES_MAX), "an event is above the limit");
    }
    all.iter().filter_map(|event| event.data.as_deref()).for_each(check_message);
}

/// How a stream ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Whole,
    Failed,
}

/// The events before the first error, if there is one.
fn events(bytes: &[u8], piece_bytes: usize, event_bytes_max: usize) -> (Vec<Sse>, End) {
    let pieces = bytes.chunks(piece_bytes.max(1)).map(|piece| Ok::<_, Infallible>(Bytes::copy_from_slice(piece)));
    let mut read = SseStream::from_bytes_stream(each_event_bounded(stream::iter(pieces), event_bytes_max));
    let mut events = Vec::new();
    loop {
        match read.next().now_or_never().expect("what is read is there already") {
            None => return (events, End::Whole),
            Some(Err(_)) => return (events, End::Failed),
            Some(Ok(event)) => events.push(event),
        }
    }
}

fn bytes_of(event: &Sse) -> usize {
    [&event.event, &event.data, &event.id].into_iter().flatten().map(String::len).sum()
}

/// What is read of a server is passed on as one line.
fn check_message(data: &str) {
    let Ok(message) = serde_json::from_str::<ServerJsonRpcMessage>(data) else { return };
    broken_off(&message);
    let line = serde_json::to_string(&message).expect("a message that was read can be written");
    assert!(!line.contains('\n'), "{line}");
    // It may be no envelope, such as an error without an id; then it is reported.
    wire::peek(line.as_bytes(), wire::Limits::default().depth_max).ok();
    assert!(serde_json::from_str::<IgnoredAny>(&line).is_ok(), "{line}");
}

#[test]
fn the_corpus_of_server_events_is_read() {
    testkit::corpus::replay("server_events", server_events);
}
