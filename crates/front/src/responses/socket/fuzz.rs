//! What holds for any bytes that a caller sends over a WebSocket. The target `websocket_frames` of `fuzz/` calls this.

use std::io::{self, Read, Write};

use tokio_tungstenite::tungstenite::protocol::{Role, WebSocket};
use tokio_tungstenite::tungstenite::{Error as Broken, Message};

use super::frames::Wanted;
use super::websocket_config;
use crate::body::parse;

/// Small, so that a short input can be above it.
const MESSAGE_BYTES_MAX: usize = 300;

/// Any pieces of the same bytes give the same messages; none is longer than the limit, and what no request can be made of is refused.
/// The first byte is the size of the pieces.
///
/// # Panics
/// If that does not hold.
pub fn websocket_frames(input: &[u8]) {
    let Some((&size, bytes)) = input.split_first() else { return };
    let whole = messages(bytes, bytes.len());
    assert_eq!(messages(bytes, size.into()), whole, "read in pieces of {size} bytes");
    assert_eq!(messages(bytes, 1), whole, "read byte by byte");
}

/// What is read until the connection ends, and why it does.
fn messages(bytes: &[u8], piece_bytes_max: usize) -> Vec<String> {
    let pipe = Pipe { bytes, piece_bytes_max: piece_bytes_max.max(1) };
    let mut socket = WebSocket::from_raw_socket(pipe, Role::Server, Some(websocket_config(MESSAGE_BYTES_MAX)));
    let mut messages = Vec::new();
    loop {
        match socket.read() {
            Ok(message) => {
                assert!(message.len() <= MESSAGE_BYTES_MAX, "a message of {} bytes", message.len());
                messages.push(shown(&message));
            }
            Err(broken) => {
                messages.push(end(&broken));
                return messages;
            }
        }
    }
}

fn shown(message: &Message) -> String {
    match message {
        Message::Text(text) => match parse(text.as_bytes()).and_then(Wanted::read) {
            Ok(wanted) => format!("{wanted:?}"),
            Err(error) => error.frame(),
        },
        other => format!("{other:?}"),
    }
}

/// A connection that ends in the middle ends in other words where its last piece is another.
fn end(broken: &Broken) -> String {
    match broken {
        Broken::Io(_) => "ended".into(),
        other => other.to_string(),
    }
}

/// The caller's bytes; what is answered is not looked at.
struct Pipe<'a> {
    bytes: &'a [u8],
    piece_bytes_max: usize,
}

impl Read for Pipe<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.bytes.len().min(self.piece_bytes_max).min(buffer.len());
        let (piece, rest) = self.bytes.split_at(count);
        buffer[..count].copy_from_slice(piece);
        self.bytes = rest;
        Ok(count)
    }
}

impl Write for Pipe<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn the_corpus_of_websocket_frames_is_read() {
    testkit::corpus::replay("websocket_frames", websocket_frames);
}
