//! Passes messages between one caller on a pipe and the endpoint of a running server, so that many callers share one set of
//! tool servers. It ends when the caller's end is closed.

mod passage;

use std::collections::VecDeque;
use std::fmt;
use std::future::pending;
use std::io;
use std::time::{Duration, Instant};

use rmcp::model::ClientJsonRpcMessage;
use rmcp::service::RoleClient;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use rmcp::transport::{StreamableHttpClientTransport, Transport};
use serde_json::Value;
use supervise::SocketPath;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::task::JoinSet;
use tokio::time::timeout;
use wire::{Frame, Framer};

use crate::deadline::reached;
use crate::far::{Bounded, client, in_turn, words};
use passage::{Act, Passage, unreadable};

/// What is read at once.
const READ_BYTES: usize = 64 << 10;
/// The longest line of a caller, and the longest answer: both can be whole files.
const LINE_BYTES_MAX: usize = 16 << 20;
/// Messages that may be on their way at once; more are not read until there is room.
const SENDING_MAX: usize = 128;
/// How long the server may take to be reached: it is on this machine.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// How long answers are waited for when the caller has closed its end: it may still read.
const LAST_ANSWERS_TIMEOUT: Duration = Duration::from_secs(5);
/// How long what could not be sent may take to say why.
const LAST_WORDS_TIMEOUT: Duration = Duration::from_millis(100);
/// How long the server may take to hear that its caller is gone.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// Where the endpoint of a running server is.
#[derive(Clone, PartialEq, Eq)]
pub enum Remote {
    /// At an address, for a caller with a key.
    Url {
        /// The address.
        url: String,
        /// The key.
        token: String,
    },
    /// Behind the control socket of a server of the same user.
    Control {
        /// The socket.
        socket: SocketPath,
        /// Which run of the server it belongs to: the next one has the same path.
        run: u64,
    },
}

/// The address of the endpoint behind a control socket, whose server takes any host.
const CONTROL_URL: &str = "http://switchboard/mcp";

/// Passes everything on until the caller closes its end. `find` says before each message where the endpoint is, because a
/// server may have been restarted; if it knows none, the request is answered with what it says.
///
/// # Errors
/// The caller's end cannot be read or written.
pub async fn proxy(
    find: impl FnMut() -> Result<Remote, String>,
    mut reader: impl AsyncRead + Unpin,
    writer: impl AsyncWrite + Unpin,
) -> io::Result<()> {
    let mut proxy = Proxy::new(find, writer);
    let (mut framer, mut bytes) = (Framer::new(LINE_BYTES_MAX), Vec::with_capacity(READ_BYTES));
    let mut until: Option<Instant> = None;
    while until.is_none() || proxy.passage.is_awaited() {
        tokio::select! {
            biased;
            // First what answers: a caller that floods must not keep others' answers back.
            happened = proxy.link.happened() => proxy.handle(happened).await?,
            count = reader.read_buf(&mut bytes), if until.is_none() && proxy.link.has_room() => {
                let is_over = count? == 0;
                let mut input = &bytes[..];
                while let Some(frame) = framer.next(&mut input) {
                    proxy.take(&frame).await?;
                }
                bytes.clear();
                if is_over {
                    if let Some(frame) = framer.finish() {
                        proxy.take(&frame).await?;
                    }
                    until = Some(Instant::now() + LAST_ANSWERS_TIMEOUT);
                }
            }
            () = reached(until) => break,
        }
    }
    proxy.link.close().await;
    Ok(())
}

struct Proxy<F, W> {
    passage: Passage,
    link: Link,
    find: F,
    writer: W,
}

impl<F: FnMut() -> Result<Remote, String>, W: AsyncWrite + Unpin> Proxy<F, W> {
    fn new(find: F, writer: W) -> Self {
        Self { passage: Passage::default(), link: Link::default(), find, writer }
    }

    /// One line of the caller.
    async fn take(&mut self, frame: &Frame<'_>) -> io::Result<()> {
        let message = match frame {
            Frame::Line(line) if line.trim_ascii().is_empty() => return Ok(()),
            Frame::Line(line) => serde_json::from_slice(line).map_err(|error| format!("this is no JSON: {error}")),
            Frame::TooLong { .. } => Err(format!("this line is longer than {LINE_BYTES_MAX} bytes")),
            Frame::Overflowing { .. } => return Ok(()),
        };
        let acts = match message {
            Ok(message) => {
                let mut acts = self.look();
                acts.extend(self.passage.handle_caller(message));
                acts
            }
            Err(why) => vec![Act::Tell(unreadable(&why))],
        };
        self.act(acts).await
    }

    /// Gives up a link to a server that is not there any more.
    fn look(&mut self) -> Vec<Act> {
        if self.link.remote.is_none() {
            return Vec::new();
        }
        match (self.find)() {
            Ok(remote) if self.link.remote.as_ref() == Some(&remote) => Vec::new(),
            Ok(_) => self.passage.handle_broken("the server was started anew meanwhile"),
            Err(why) => self.passage.handle_broken(&why),
        }
    }

    async fn handle(&mut self, happened: Happened) -> io::Result<()> {
        let acts = match happened {
            Happened::Arrived(message) => self.passage.handle_server(message),
            Happened::Sent => return Ok(()),
            Happened::Undelivered { id, why } => {
                self.passage.handle_undelivered(id.as_ref(), &format!("the server did not take it: {why}"))
            }
            Happened::Ended => {
                let why = self.link.last_words().await.unwrap_or_else(|| "it has closed the connection".into());
                self.link.drop();
                self.passage.handle_broken(&format!("the server cannot be reached: {why}"))
            }
        };
        self.act(acts).await
    }

    async fn act(&mut self, acts: Vec<Act>) -> io::Result<()> {
        let mut acts = VecDeque::from(acts);
        while let Some(act) = acts.pop_front() {
            match act {
                Act::Open => match (self.find)().and_then(|remote| self.link.open(remote)) {
                    Ok(()) => {}
                    Err(why) => {
                        self.link.drop();
                        acts = self.passage.handle_broken(&why).into();
                    }
                },
                Act::Send(message) => {
                    if let Err((id, why)) = self.link.send(message) {
                        acts.extend(self.passage.handle_unsent(id.as_ref(), &why));
                    }
                }
                Act::Tell(message) => self.tell(&message).await?,
            }
        }
        Ok(())
    }

    async fn tell(&mut self, message: &Value) -> io::Result<()> {
        let mut line = serde_json::to_vec(message).unwrap_or_default();
        line.push(b'\n');
        self.writer.write_all(&line).await?;
        self.writer.flush().await
    }
}

/// The link to the server.
#[derive(Default)]
struct Link {
    remote: Option<Remote>,
    transport: Option<StreamableHttpClientTransport<Bounded>>,
    sending: JoinSet<Result<(), (Option<Value>, String)>>,
}

enum Happened {
    Arrived(Value),
    Sent,
    Undelivered { id: Option<Value>, why: String },
    Ended,
}

impl Link {
    fn has_room(&self) -> bool {
        self.sending.len() < SENDING_MAX
    }

    fn open(&mut self, remote: Remote) -> Result<(), String> {
        let client = client(CONNECT_TIMEOUT).no_proxy();
        let (client, mut config) = match &remote {
            Remote::Url { url, token } => {
                (client, StreamableHttpClientTransportConfig::with_uri(&**url).auth_header(token))
            }
            Remote::Control { socket, .. } => {
                (client.unix_socket(socket.short()), StreamableHttpClientTransportConfig::with_uri(CONTROL_URL))
            }
        };
        let client = Bounded::new(client.build().map_err(|error| words(&error))?, LINE_BYTES_MAX);
        config.max_concurrent_requests = SENDING_MAX;
        self.sending.abort_all();
        self.transport = Some(StreamableHttpClientTransport::with_client(client, config));
        self.remote = Some(remote);
        Ok(())
    }

    fn drop(&mut self) {
        (self.transport, self.remote) = (None, None);
    }

    /// Sends a message, or says which request could not be sent and why. Never waits.
    fn send(&mut self, message: Value) -> Result<(), (Option<Value>, String)> {
        let id = message.get("method").and_then(|_| message.get("id")).cloned();
        let Some(transport) = &mut self.transport else { return Err((id, "no server is connected".into())) };
        let message: ClientJsonRpcMessage =
            serde_json::from_value(message).map_err(|error| (id.clone(), format!("this is no message: {error}")))?;
        let sent = in_turn(transport.send(message));
        self.sending.spawn(async move { sent.await.map_err(|error| (id, words(&error))) });
        Ok(())
    }

    /// Waits until something happens. Cancel-safe.
    async fn happened(&mut self) -> Happened {
        let Self { transport, sending, .. } = self;
        let arrived = async {
            match transport {
                Some(transport) => Transport::<RoleClient>::receive(transport).await,
                None => pending().await,
            }
        };
        tokio::select! {
            biased;
            message = arrived => match message.map(serde_json::to_value) {
                Some(Ok(message)) => Happened::Arrived(message),
                Some(Err(_)) => Happened::Sent,
                None => Happened::Ended,
            },
            Some(sent) = sending.join_next(), if !sending.is_empty() => match sent {
                Ok(Err((id, why))) => Happened::Undelivered { id, why },
                _ => Happened::Sent,
            },
        }
    }

    /// Why a transport has ended: what could not be sent says so.
    async fn last_words(&mut self) -> Option<String> {
        let mut words = None;
        while let Ok(Some(sent)) = timeout(LAST_WORDS_TIMEOUT, self.sending.join_next()).await {
            words = words.or(sent.ok().and_then(Result::err).map(|(_, why)| why));
        }
        words
    }

    async fn close(mut self) {
        if let Some(mut transport) = self.transport.take() {
            timeout(CLOSE_TIMEOUT, Transport::<RoleClient>::close(&mut transport)).await.ok();
        }
    }
}

/// Without the token.
impl fmt::Debug for Remote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Url { url, .. } => f.debug_struct("Url").field("url", url).finish_non_exhaustive(),
            Self::Control { socket, run } => {
                f.debug_struct("Control").field("socket", socket).field("run", run).finish()
            }
        }
    }
}
