//! Why a WebSocket ends, and how that is told: as an error, if there is something to be done about it, and by the code of its closing.

use std::io::ErrorKind;
use std::time::Duration;

use futures_util::{SinkExt as _, StreamExt as _};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::{Error as Broken, Message};

use super::Socket;
use crate::ask::revoked;
use crate::error::{Code, Error};
use crate::memory_budget::memory_exhausted;

/// How long the other side may take to read why, and to close.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// How much is still read meanwhile: enough for what was on its way, and not all that a flood can send in that time.
const LAST_MESSAGES_MAX: usize = 1000;
const LAST_BYTES_MAX: u64 = 64 << 20;

/// Why it ends.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum End {
    /// The caller has gone.
    Left,
    /// The server stops.
    Stopped,
    Revoked,
    /// It has reached this age.
    TooOld(Duration),
    Idle,
    /// A message was longer than so many bytes.
    TooLong(usize),
    /// What came is no text.
    NoText,
    /// What came is no WebSocket's.
    NoProtocol,
    /// It sent too many pings or pongs.
    PingFlood,
    /// A message did not come to its end in time.
    MessageTimeout,
    /// There was no memory for a message.
    MemoryExhausted,
}

impl End {
    /// Why it ends whose reading has failed.
    pub(super) fn of(broken: &Broken, message_bytes_max: usize) -> Self {
        match broken {
            Broken::Capacity(_) => Self::TooLong(message_bytes_max),
            Broken::Utf8(_) => Self::NoText,
            Broken::Io(error) if error.kind() == ErrorKind::OutOfMemory => Self::MemoryExhausted,
            // A caller that is gone without a word is no more than gone.
            Broken::Protocol(protocol) if !is_gone(protocol) => Self::NoProtocol,
            _ => Self::Left,
        }
    }

    /// Tells it and closes. What still comes is read and dropped until the other side closes too: with something unread, the
    /// connection would take back what was told.
    pub(super) async fn tell(self, mut socket: Socket) {
        socket.get_mut().begin_message();
        let telling = async {
            if let Some(error) = self.error() {
                error.log();
                socket.feed(Message::Text(error.frame().into())).await?;
            }
            match self.code() {
                Some((code, reason)) => socket.close(Some(CloseFrame { code, reason: reason.into() })).await?,
                None => socket.flush().await?,
            }
            let mut last = socket.by_ref().take(LAST_MESSAGES_MAX);
            while let Some(Ok(_)) = last.next().await {}
            let stream = socket.get_mut().uncounted();
            stream.shutdown().await?;
            if self.is_of_what_came() {
                tokio::io::copy(&mut stream.take(LAST_BYTES_MAX), &mut tokio::io::sink()).await?;
            }
            Ok::<_, Broken>(())
        };
        if let Ok(Err(error)) = timeout(CLOSE_TIMEOUT, telling).await {
            tracing::debug!(%error, "the end of a WebSocket was not heard");
        }
    }

    /// Whether nothing can be read any more, though something may come.
    fn is_of_what_came(&self) -> bool {
        matches!(
            self,
            Self::TooLong(_)
                | Self::NoText
                | Self::NoProtocol
                | Self::PingFlood
                | Self::MessageTimeout
                | Self::MemoryExhausted
        )
    }

    fn error(&self) -> Option<Error> {
        match self {
            Self::Revoked => Some(revoked()),
            Self::TooOld(age) => {
                let age = match age.as_secs() {
                    seconds @ ..60 => format!("{seconds} seconds"),
                    seconds => format!("{} minutes", seconds / 60),
                };
                let why = format!(
                    "Responses websocket connection limit reached ({age}). Create a new websocket connection to continue."
                );
                Some(Error::new(Code::SocketTooOld, why))
            }
            Self::TooLong(max) => {
                Some(Error::new(Code::BodyTooLarge, format!("the message is longer than {max} bytes; send less")))
            }
            Self::MessageTimeout => {
                Some(Error::new(Code::BodyTimeout, "the message took too long to arrive; send it at once"))
            }
            Self::MemoryExhausted => Some(memory_exhausted()),
            Self::Left | Self::Stopped | Self::Idle | Self::NoText | Self::NoProtocol | Self::PingFlood => None,
        }
    }

    /// The code of the closing with a reason; a caller that has gone needs none.
    fn code(&self) -> Option<(CloseCode, &'static str)> {
        match self {
            Self::Left => None,
            Self::Stopped => Some((CloseCode::Away, "the server stops")),
            Self::Revoked => Some((CloseCode::Policy, "the key was revoked")),
            Self::TooOld(_) => Some((CloseCode::Policy, "the connection is too old")),
            Self::Idle => Some((CloseCode::Normal, "the connection was idle for too long")),
            Self::TooLong(_) => Some((CloseCode::Size, "the message is too long")),
            Self::NoText => Some((CloseCode::Invalid, "text must be UTF-8")),
            Self::NoProtocol => Some((CloseCode::Protocol, "this is not how WebSockets speak")),
            Self::PingFlood => Some((CloseCode::Policy, "too many pings")),
            Self::MessageTimeout => Some((CloseCode::Policy, "the message took too long to arrive")),
            Self::MemoryExhausted => Some((CloseCode::Again, "the server is out of memory for requests")),
        }
    }
}

fn is_gone(error: &tokio_tungstenite::tungstenite::error::ProtocolError) -> bool {
    use tokio_tungstenite::tungstenite::error::ProtocolError;
    matches!(error, ProtocolError::ResetWithoutClosingHandshake)
}
