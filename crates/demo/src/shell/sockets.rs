//! WebSockets, over TCP or a unix socket, one message a text frame. The worker and all its connections share one thread.

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _};
use std::os::unix::net::UnixStream as BlockingUnixStream;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use futures_util::{SinkExt as _, StreamExt as _};
use rustix::io::Errno;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::frame::coding::{Data, OpCode};
use tokio_tungstenite::tungstenite::protocol::frame::{Frame, Utf8Bytes};
use tokio_tungstenite::tungstenite::{Bytes, Error as WebSocketError, Message};

use super::process::{self, Deafness};
use super::{CHUNK_BYTES, Capture, http};
use crate::clock::Now;
use crate::options::Listen;
use crate::outputs::{ConnectionId, Ending, Output};
use crate::worker::Worker;

/// Messages that are read ahead, of all connections.
const INBOX_MESSAGES: usize = 128;
/// Outputs that wait for one connection: at more than these it is closed, as the real worker does.
const OUTBOX_OUTPUTS: usize = 32_768;
const OUTBOX_BYTES_MAX: usize = 32 * 1024 * 1024;
/// What waits for one connection before floods to it are held.
const OUTBOX_BYTES_HIGH: usize = 1024 * 1024;
/// Clients at one time.
const CONNECTIONS_MAX: usize = 256;
/// A client has so long to ask for its WebSocket.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// How long the last messages may take to be written when the worker ends, and how often that is looked at.
const FLUSH_TIMEOUT: Duration = Duration::from_millis(500);
const FLUSH_LOOK: Duration = Duration::from_millis(1);
/// How long to wait when the system can open nothing more.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Serves until it is told to end.
pub(crate) fn run(worker: Worker, capture: Capture, listen: &Listen) -> io::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let listener = Listener::bind(listen).await?;
        // Before the address is told: whoever knows it may end the worker.
        let terminate = signal(SignalKind::terminate())?;
        process::say(&format!("listening on {}", listener.address()?));
        let (arrivals, inbox) = mpsc::channel(INBOX_MESSAGES);
        let shell = Shell {
            worker,
            capture,
            inbox,
            outboxes: BTreeMap::new(),
            deafness: Deafness::default(),
            terminate,
            terminations: 0,
        };
        tokio::select! {
            code = shell.run() => Ok(code),
            error = accept_all(&listener, arrivals) => Err(error),
        }
    })
}

/// What reaches the loop.
enum Arrival {
    Opened(ConnectionId, Outbox),
    /// All that waited for it has been written.
    Room(ConnectionId),
    Line(ConnectionId, Utf8Bytes),
    Closed(ConnectionId),
}

struct Shell {
    worker: Worker,
    capture: Capture,
    inbox: mpsc::Receiver<Arrival>,
    outboxes: BTreeMap<ConnectionId, Outbox>,
    deafness: Deafness,
    terminate: Signal,
    terminations: u32,
}

impl Shell {
    async fn run(mut self) -> ExitCode {
        loop {
            if let Some(ending) = self.drain() {
                self.flush().await;
                return process::end(ending);
            }
            // As the real worker: the first SIGTERM waits for running turns, the second for nothing.
            if self.terminations > 1 || self.terminations == 1 && !self.worker.is_busy() {
                self.worker.handle_shutdown(Now::read());
                self.flush().await;
                return ExitCode::SUCCESS;
            }
            let due = self.worker.poll_timeout();
            tokio::select! {
                biased;
                _ = self.terminate.recv() => self.terminations += u32::from(!self.deafness.is_on()),
                Some(arrival) = self.inbox.recv() => self.take(arrival),
                () = sleep_until(due) => self.worker.handle_timeout(Now::read()),
            }
        }
    }

    fn take(&mut self, arrival: Arrival) {
        match arrival {
            Arrival::Opened(connection, outbox) => {
                self.outboxes.insert(connection, outbox);
                self.worker.handle_opened(connection);
            }
            // What was read of a connection before it learned that it is closed.
            Arrival::Line(connection, _) if !self.outboxes.contains_key(&connection) => {}
            Arrival::Line(connection, line) => {
                self.capture.line(line.as_bytes());
                self.worker.handle_line(connection, line.as_bytes(), Now::read());
            }
            Arrival::Room(connection) => self.worker.handle_room(connection),
            Arrival::Closed(connection) => self.close(connection),
        }
    }

    /// Forgets a connection, which closes it if it is still open.
    fn close(&mut self, connection: ConnectionId) {
        self.outboxes.remove(&connection);
        self.worker.handle_closed(connection);
    }

    /// Lets the clients hear what was said before the end.
    async fn flush(&self) {
        let is_written = |outbox: &Outbox| outbox.waiting.bytes.load(Ordering::Relaxed) == 0;
        let written = async {
            while !self.outboxes.values().all(is_written) {
                tokio::time::sleep(FLUSH_LOOK).await;
            }
        };
        let _ = tokio::time::timeout(FLUSH_TIMEOUT, written).await;
    }

    /// Does all the worker wants done; how to end if that was it.
    fn drain(&mut self) -> Option<Ending> {
        while let Some(output) = self.worker.poll_output(Instant::now()) {
            match output {
                Output::Bytes { connection, .. } | Output::LongLine { connection, .. } => {
                    self.send(connection, output);
                }
                Output::End(ending) => return Some(ending),
                other => process::act(&other, &self.deafness),
            }
        }
        None
    }

    /// Never waits, so that no client stops another: one that is behind is told to the worker, one too far behind is
    /// closed.
    fn send(&mut self, connection: ConnectionId, output: Output) {
        let Some(outbox) = self.outboxes.get(&connection) else { return };
        let bytes = size(&output);
        let waiting = outbox.waiting.bytes.fetch_add(bytes, Ordering::Relaxed);
        let is_behind = waiting + bytes > OUTBOX_BYTES_HIGH;
        // Before it is sent, so that the writer that empties the outbox sees it.
        outbox.waiting.is_full.fetch_or(is_behind, Ordering::Relaxed);
        if waiting > OUTBOX_BYTES_MAX || outbox.sender.try_send(output).is_err() {
            self.close(connection);
        } else if is_behind {
            self.worker.handle_full(connection);
        }
    }
}

/// The way to one connection, which ends with it.
struct Outbox {
    sender: mpsc::Sender<Output>,
    waiting: Arc<Waiting>,
    /// Never sent on: that it is dropped closes the connection, whatever its writer is stuck in.
    _open: oneshot::Sender<()>,
}

/// What an outbox holds, known to both its ends.
#[derive(Default)]
struct Waiting {
    bytes: AtomicUsize,
    is_full: AtomicBool,
}

fn size(output: &Output) -> usize {
    match output {
        Output::Bytes { bytes, .. } => bytes.len(),
        Output::LongLine { head, tail, .. } => head.len() + tail.len(),
        _ => 0,
    }
}

async fn sleep_until(due: Option<Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due.into()).await,
        None => std::future::pending().await,
    }
}

/// A bound address; a unix socket is removed with it.
enum Listener {
    Tcp(TcpListener),
    Unix { listener: UnixListener, path: PathBuf, inode: u64 },
}

impl Listener {
    async fn bind(listen: &Listen) -> io::Result<Self> {
        match listen {
            Listen::Ws(address) if !address.ip().is_loopback() => Err(io::Error::other(
                "refusing a non-loopback address: the demo worker has no authentication; use 127.0.0.1",
            )),
            Listen::Ws(address) => Ok(Self::Tcp(bind_tcp(*address).await?)),
            Listen::Unix(path) => {
                let (listener, inode) = bind_unix(path)?;
                Ok(Self::Unix { listener, path: path.clone(), inode })
            }
            Listen::Stdio => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    fn address(&self) -> io::Result<String> {
        match self {
            Self::Tcp(listener) => Ok(format!("ws://{}", listener.local_addr()?)),
            Self::Unix { path, .. } => Ok(format!("unix://{}", path.display())),
        }
    }
}

async fn bind_tcp(address: SocketAddr) -> io::Result<TcpListener> {
    TcpListener::bind(address).await
}

/// A socket that only its owner may use: it comes into being in a private directory and moves to its place with its
/// mode. A socket that nobody answers is replaced, anything else is left alone.
fn bind_unix(path: &Path) -> io::Result<(UnixListener, u64)> {
    if path.symlink_metadata().is_ok_and(|found| !found.file_type().is_socket()) {
        return Err(io::Error::other(format!("{} is there and is not a socket: choose another path", path.display())));
    }
    if BlockingUnixStream::connect(path).is_ok() {
        return Err(io::Error::other("app-server control socket is already in use"));
    }
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let private = tempfile::Builder::new().prefix(".").tempdir_in(parent)?;
    let unnamed = private.path().join("s");
    let listener = UnixListener::bind(&unnamed)?;
    fs::set_permissions(&unnamed, Permissions::from_mode(0o600))?;
    fs::rename(&unnamed, path)?;
    Ok((listener, path.symlink_metadata()?.ino()))
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Self::Unix { path, inode, .. } = self
            && path.symlink_metadata().is_ok_and(|found| found.ino() == *inode)
        {
            let _ = fs::remove_file(path);
        }
    }
}

/// Accepts connections until that fails for good.
async fn accept_all(listener: &Listener, arrivals: mpsc::Sender<Arrival>) -> io::Error {
    let mut connections = JoinSet::new();
    let mut numbers = (0..).map(ConnectionId);
    loop {
        let accepted = match listener {
            Listener::Tcp(listener) => listener.accept().await.map(|(stream, _)| Stream::Tcp(stream)),
            Listener::Unix { listener, .. } => listener.accept().await.map(|(stream, _)| Stream::Unix(stream)),
        };
        while connections.try_join_next().is_some() {}
        match (accepted, numbers.next()) {
            // One more than may be is closed at once.
            (Ok(_), _) if connections.len() >= CONNECTIONS_MAX => {}
            (Ok(Stream::Tcp(stream)), Some(connection)) => {
                let _ = stream.set_nodelay(true);
                connections.spawn(serve(stream, connection, arrivals.clone()));
            }
            (Ok(Stream::Unix(stream)), Some(connection)) => {
                connections.spawn(serve(stream, connection, arrivals.clone()));
            }
            (Err(error), Some(_)) if is_passing(&error) => tokio::time::sleep(ACCEPT_PAUSE).await,
            (Err(error), _) => return error,
            (Ok(_), None) => return io::ErrorKind::Other.into(),
        }
    }
}

enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

/// Too many open files, or a client that gave up: the next one may fare better.
fn is_passing(error: &io::Error) -> bool {
    let code = error.raw_os_error().map(Errno::from_raw_os_error);
    matches!(code, Some(Errno::MFILE | Errno::NFILE | Errno::CONNABORTED))
}

async fn serve<S>(stream: S, connection: ConnectionId, arrivals: mpsc::Sender<Arrival>)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let Ok(Ok(Some(socket))) = tokio::time::timeout(HANDSHAKE_TIMEOUT, http::accept(stream)).await else { return };
    let (sender, outputs) = mpsc::channel(OUTBOX_OUTPUTS);
    let waiting = Arc::new(Waiting::default());
    let (open, closed) = oneshot::channel();
    let outbox = Outbox { sender, waiting: Arc::clone(&waiting), _open: open };
    if arrivals.send(Arrival::Opened(connection, outbox)).await.is_ok() {
        tokio::select! {
            () = converse(socket, connection, &arrivals, outputs, &waiting) => {}
            _ = closed => {}
        }
        let _ = arrivals.send(Arrival::Closed(connection)).await;
    }
}

/// Moves messages both ways until one side ends.
async fn converse<S>(
    socket: WebSocketStream<S>,
    connection: ConnectionId,
    arrivals: &mpsc::Sender<Arrival>,
    mut outputs: mpsc::Receiver<Output>,
    waiting: &Waiting,
) where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let (mut sink, mut stream) = socket.split();
    let reading = async {
        while let Some(Ok(message)) = stream.next().await {
            if let Message::Text(line) = message
                && arrivals.send(Arrival::Line(connection, line)).await.is_err()
            {
                return;
            }
        }
    };
    let writing = async {
        let mut unfinished = Vec::new();
        while let Some(output) = outputs.recv().await {
            let bytes = size(&output);
            for frame in frames(output, &mut unfinished) {
                sink.feed(frame).await?;
            }
            sink.flush().await?;
            let is_empty = waiting.bytes.fetch_sub(bytes, Ordering::Relaxed) == bytes;
            if is_empty && waiting.is_full.swap(false, Ordering::Relaxed) {
                let _ = arrivals.send(Arrival::Room(connection)).await;
            }
        }
        Ok::<(), WebSocketError>(())
    };
    tokio::pin!(reading);
    tokio::select! {
        () = &mut reading => {}
        // Who does not listen any more may still have said something.
        written = writing => if written.is_err() { reading.await },
    }
}

/// The frames of an output: one a line; a long line in pieces that are never all there.
fn frames(output: Output, unfinished: &mut Vec<u8>) -> Box<dyn Iterator<Item = Message> + Send> {
    match output {
        Output::LongLine { head, filler_bytes, mut tail, .. } => {
            tail.pop();
            Box::new(long_line(head, filler_bytes, tail))
        }
        Output::Bytes { bytes, .. } => {
            unfinished.extend_from_slice(&bytes);
            let whole = unfinished.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1);
            let rest = unfinished.split_off(whole);
            let lines = std::mem::replace(unfinished, rest);
            let frames: Vec<Message> = lines.split_inclusive(|byte| *byte == b'\n').map(frame).collect();
            Box::new(frames.into_iter())
        }
        _ => Box::new(std::iter::empty()),
    }
}

fn frame(line: &[u8]) -> Message {
    let line = Bytes::copy_from_slice(line.strip_suffix(b"\n").unwrap_or(line));
    match Utf8Bytes::try_from(line.clone()) {
        Ok(text) => Message::Text(text),
        // A fault: what is no UTF-8 goes out as text all the same.
        Err(_) => Message::Frame(Frame::message(line, OpCode::Data(Data::Text), true)),
    }
}

fn long_line(head: Vec<u8>, filler_bytes: u64, tail: Vec<u8>) -> impl Iterator<Item = Message> + Send {
    let piece = |bytes: Vec<u8>, kind, is_last| Message::Frame(Frame::message(bytes, OpCode::Data(kind), is_last));
    let mut left = filler_bytes;
    let filler = std::iter::from_fn(move || {
        let length = usize::try_from(left).unwrap_or(usize::MAX).min(CHUNK_BYTES);
        left -= u64::try_from(length).unwrap_or(left);
        (length > 0).then(|| vec![b'x'; length])
    });
    std::iter::once(piece(head, Data::Text, false))
        .chain(filler.map(move |bytes| piece(bytes, Data::Continue, false)))
        .chain(std::iter::once(piece(tail, Data::Continue, true)))
}
