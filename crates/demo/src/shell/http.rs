//! The HTTP in front of the WebSocket: health, the refusal of browsers, the upgrade.

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::Role;

/// The head of a request may have so many bytes.
const HEAD_BYTES_MAX: usize = 16 * 1024;

/// Answers one request; a WebSocket if it asked for one and may have it.
pub(super) async fn accept<S>(mut stream: S) -> io::Result<Option<WebSocketStream<S>>>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let (head, rest) = read_head(&mut stream).await?;
    let request = Request::parse(&head);
    let (status, reason) = match request.verdict() {
        Verdict::Upgrade { key } => {
            let accept = derive_accept_key(key.as_bytes());
            let answer = format!(
                "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket\r\nsec-websocket-accept: {accept}\r\n\r\n"
            );
            stream.write_all(answer.as_bytes()).await?;
            return Ok(Some(WebSocketStream::from_partially_read(stream, rest, Role::Server, None).await));
        }
        Verdict::Answer(status, reason) => (status, reason),
    };
    let answer = format!("HTTP/1.1 {status} {reason}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
    stream.write_all(answer.as_bytes()).await?;
    stream.shutdown().await?;
    Ok(None)
}

/// The head of a request, and what was read beyond it.
async fn read_head(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<(String, Vec<u8>)> {
    const END: &[u8] = b"\r\n\r\n";
    let mut bytes = Vec::new();
    loop {
        if let Some(end) = bytes.windows(END.len()).position(|window| window == END) {
            let rest = bytes.split_off(end + END.len());
            return Ok((String::from_utf8_lossy(&bytes).into_owned(), rest));
        }
        if bytes.len() > HEAD_BYTES_MAX || stream.read_buf(&mut bytes).await? == 0 {
            return Err(io::ErrorKind::InvalidData.into());
        }
    }
}

struct Request<'a> {
    path: &'a str,
    headers: Vec<(String, &'a str)>,
}

#[derive(Debug, PartialEq, Eq)]
enum Verdict<'a> {
    Upgrade { key: &'a str },
    Answer(u16, &'static str),
}

impl<'a> Request<'a> {
    fn parse(head: &'a str) -> Self {
        let mut lines = head.split("\r\n");
        let path = lines.next().and_then(|line| line.split(' ').nth(1)).unwrap_or_default();
        let headers = lines.filter_map(|line| line.split_once(':'));
        Self { path, headers: headers.map(|(name, value)| (name.to_ascii_lowercase(), value.trim())).collect() }
    }

    fn header(&self, name: &str) -> Option<&'a str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| *value)
    }

    fn verdict(&self) -> Verdict<'a> {
        let is_upgrade = self.header("upgrade").is_some_and(|value| value.eq_ignore_ascii_case("websocket"));
        match self.header("sec-websocket-key") {
            _ if self.header("origin").is_some() => Verdict::Answer(403, "Forbidden"),
            Some(key) if is_upgrade => Verdict::Upgrade { key },
            _ if matches!(self.path, "/readyz" | "/healthz") => Verdict::Answer(200, "OK"),
            _ => Verdict::Answer(400, "Bad Request"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Request, Verdict};

    #[test]
    fn browsers_are_refused_and_health_is_told() {
        fn verdict(head: &str) -> Verdict<'_> {
            Request::parse(head).verdict()
        }
        let upgrade = "GET / HTTP/1.1\r\nUpgrade: WebSocket\r\nSec-WebSocket-Key: k\r\n";
        assert_eq!(verdict(upgrade), Verdict::Upgrade { key: "k" });
        assert_eq!(verdict(&format!("{upgrade}Origin: http://a\r\n")), Verdict::Answer(403, "Forbidden"));
        assert_eq!(verdict("GET /readyz HTTP/1.1\r\n"), Verdict::Answer(200, "OK"));
        assert_eq!(verdict("GET / HTTP/1.1\r\n"), Verdict::Answer(400, "Bad Request"));
    }
}
