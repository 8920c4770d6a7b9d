//! The accept loop with raw sockets.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::routing::get;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::{ConnectionLimits, ListenerLimits, Pause, is_exhaustion, serve};
use crate::metrics::Metrics;

/// Far beyond anything that a test waits for.
const LONG: Duration = Duration::from_secs(60);

struct Server {
    address: SocketAddr,
    metrics: Arc<Metrics>,
    stop: oneshot::Sender<()>,
    serving: JoinHandle<()>,
}

impl Server {
    async fn start(limits: ConnectionLimits) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let metrics = Arc::new(Metrics::new());
        let routes = Router::new()
            .route("/", get(|| async { "hello" }))
            .route("/endless", get(|| async { Body::from_stream(endless()) }))
            .route("/failures", get(failures))
            .with_state(Arc::clone(&metrics));
        let (stop, stopped) = oneshot::channel();
        let stopped = async {
            let _ = stopped.await;
        };
        #[expect(clippy::disallowed_methods, reason = "`serving` keeps its handle")]
        let serving = tokio::spawn(serve(listener, routes, limits, Arc::clone(&metrics), stopped));
        Self { address, metrics, stop, serving }
    }

    fn connect(&self) -> Connection {
        Connection::open(self.address)
    }

    async fn stopped(self) {
        let _ = self.stop.send(());
        tokio::time::timeout(LONG, self.serving).await.unwrap().unwrap();
    }
}

async fn failures(State(metrics): State<Arc<Metrics>>) -> String {
    metrics.accept_failures.get().to_string()
}

fn endless() -> impl futures_util::Stream<Item = Result<Vec<u8>, io::Error>> {
    futures_util::stream::repeat_with(|| Ok(vec![b'x'; 16 * 1024]))
}

struct Connection(BufReader<TcpStream>);

impl Connection {
    fn open(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(LONG)).unwrap();
        Self(BufReader::new(stream))
    }

    fn send(&mut self, text: &str) {
        self.0.get_mut().write_all(text.as_bytes()).unwrap();
    }

    /// Status line and body of a response that has a length.
    fn get(&mut self, path: &str) -> io::Result<String> {
        write!(self.0.get_mut(), "GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n")?;
        self.response()
    }

    fn response(&mut self) -> io::Result<String> {
        let (mut status, mut length) = (String::new(), 0);
        self.0.read_line(&mut status)?;
        if status.is_empty() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        loop {
            let mut line = String::new();
            self.0.read_line(&mut line)?;
            if let Some(value) = line.strip_prefix("content-length: ") {
                length = value.trim().parse().unwrap();
            }
            if line.trim().is_empty() {
                break;
            }
        }
        let mut body = vec![0; length];
        self.0.read_exact(&mut body)?;
        Ok(format!("{} {}", status.trim(), String::from_utf8(body).unwrap()))
    }

    /// What still comes until the other side closes.
    fn rest(&mut self) -> usize {
        let mut rest = Vec::new();
        let _ = self.0.read_to_end(&mut rest);
        rest.len()
    }
}

/// Runs what blocks beside the server.
async fn beside<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    tokio::time::timeout(LONG, tokio::task::spawn_blocking(work)).await.unwrap().unwrap()
}

async fn until(what: &str, is_so: impl Fn() -> bool) {
    let deadline = Instant::now() + LONG;
    while !is_so() {
        assert!(Instant::now() < deadline, "{what}");
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_half_sent_header_is_closed_and_so_is_an_idle_connection() {
    let limits = ConnectionLimits { header_timeout: Duration::from_millis(100), ..ConnectionLimits::default() };
    let server = Server::start(limits).await;
    let (mut half, mut silent, mut idle) = (server.connect(), server.connect(), server.connect());
    beside(move || {
        half.send("GET / HTTP/1.1\r\nhost: local");
        assert_eq!(idle.get("/").unwrap(), "HTTP/1.1 200 OK hello");
        half.rest();
        silent.rest();
        idle.rest();
    })
    .await;
    until("all are closed", || !server.metrics.to_text().contains("http_connections 1")).await;
    server.stopped().await;
}

#[tokio::test]
async fn beyond_the_cap_a_connection_is_told_so_and_closed() {
    let limits = ConnectionLimits { connections_max: 2, ..ConnectionLimits::default() };
    let server = Server::start(limits).await;
    let (mut one, mut two) = (server.connect(), server.connect());
    let address = server.address;
    beside(move || {
        assert_eq!(one.get("/").unwrap(), "HTTP/1.1 200 OK hello");
        assert_eq!(two.get("/").unwrap(), "HTTP/1.1 200 OK hello");
        let mut third = Connection::open(address);
        let told = third.response().unwrap();
        assert!(told.starts_with("HTTP/1.1 503") && told.contains("too_many_connections"), "{told}");
        assert_eq!(third.rest(), 0);
        assert_eq!(one.get("/").unwrap(), "HTTP/1.1 200 OK hello", "those inside do not notice");
        drop(two);
        let deadline = Instant::now() + LONG;
        while !Connection::open(address).get("/").is_ok_and(|told| told.contains("200 OK")) {
            assert!(Instant::now() < deadline, "a place that is left is taken");
        }
    })
    .await;
    assert!(server.metrics.connections_refused.get() >= 1);
    server.stopped().await;
}

#[tokio::test]
async fn many_that_are_turned_away_at_once_are_closed_without_a_word() {
    let limits = ConnectionLimits {
        connections_max: 1,
        turned_away_max: 1,
        turned_away_timeout: LONG,
        ..ConnectionLimits::default()
    };
    let server = Server::start(limits).await;
    let (mut one, address) = (server.connect(), server.address);
    beside(move || {
        assert_eq!(one.get("/").unwrap(), "HTTP/1.1 200 OK hello");
        let mut strangers: Vec<_> = (0..8).map(|_| Connection::open(address)).collect();
        let told: Vec<_> = strangers.iter_mut().map(|stranger| stranger.response().is_ok()).collect();
        assert_eq!(told.iter().filter(|is_told| **is_told).count(), 1);
        assert_eq!(one.get("/").unwrap(), "HTTP/1.1 200 OK hello");
    })
    .await;
    server.stopped().await;
}

#[tokio::test]
async fn a_stop_closes_idle_connections_at_once_and_takes_no_new_ones() {
    let server = Server::start(ConnectionLimits { grace: LONG, ..ConnectionLimits::default() }).await;
    let mut idle = server.connect();
    let mut idle = beside(move || {
        assert_eq!(idle.get("/").unwrap(), "HTTP/1.1 200 OK hello");
        idle
    })
    .await;
    let address = server.address;
    server.stopped().await;
    assert_eq!(beside(move || idle.rest()).await, 0);
    assert!(TcpStream::connect(address).is_err(), "nobody listens any more");
}

#[tokio::test]
async fn a_response_that_outlasts_the_grace_is_cut() {
    let grace = Duration::from_millis(300);
    let server = Server::start(ConnectionLimits { grace, ..ConnectionLimits::default() }).await;
    let mut reader = server.connect();
    reader.send("GET /endless HTTP/1.1\r\nhost: localhost\r\n\r\n");
    let reading = tokio::task::spawn_blocking(move || {
        let read = io::copy(&mut reader.0, &mut io::sink());
        read.unwrap_or_default()
    });
    until("it is served", || server.metrics.to_text().contains("http_connections 1")).await;
    let stopped_at = Instant::now();
    server.stopped().await;
    assert!(stopped_at.elapsed() >= grace, "it had its grace");
    reading.await.unwrap();
}

#[tokio::test]
async fn a_reader_that_takes_nothing_is_cut() {
    let limits = ConnectionLimits { write_timeout: Duration::from_millis(100), ..ConnectionLimits::default() };
    let server = Server::start(limits).await;
    let mut sleeper = server.connect();
    sleeper.send("GET /endless HTTP/1.1\r\nhost: localhost\r\n\r\n");
    until("it is served", || server.metrics.to_text().contains("http_connections 1")).await;
    until("it is cut", || server.metrics.to_text().contains("http_connections 0")).await;
    drop(sleeper);
    server.stopped().await;
}

/// As a child it is the server, with few descriptors; as a parent it takes them all.
#[tokio::test]
async fn running_out_of_descriptors_is_waited_out_without_spinning() {
    const CHILD: &str = "FRONT_TEST_FEW_DESCRIPTORS";
    if std::env::var_os(CHILD).is_some() {
        return serve_with_few_descriptors().await;
    }
    #[expect(clippy::disallowed_methods, reason = "the limit holds for a process, so the test is one of its own")]
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "accept::tests::running_out_of_descriptors_is_waited_out_without_spinning", "--nocapture"])
        .env(CHILD, "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    // Kept to the end: the child would fail to say that it is done.
    let _output = beside(move || {
        let address = address_in(&mut output);
        let mut early = Connection::open(address);
        assert_eq!(early.get("/").unwrap(), "HTTP/1.1 200 OK hello");
        let taking: Vec<_> = (0..64).map(|_| Connection::open(address)).collect();
        let failures = |early: &mut Connection| -> u64 {
            early.get("/failures").unwrap().rsplit(' ').next().unwrap().parse().unwrap()
        };
        let (began, deadline) = (Instant::now(), Instant::now() + LONG);
        while failures(&mut early) < 3 {
            assert!(Instant::now() < deadline, "the descriptors run out");
        }
        drop(taking);
        let mut late = Connection::open(address);
        assert_eq!(late.get("/").unwrap(), "HTTP/1.1 200 OK hello");
        let (seconds, failures) = (began.elapsed().as_secs(), failures(&mut early));
        assert!(failures < 20 + 50 * seconds, "{failures} failures in {seconds} s is a spin");
        output
    })
    .await;
    drop(child.stdin.take());
    assert!(beside(move || child.wait()).await.unwrap().success());
}

async fn serve_with_few_descriptors() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let limit = rustix::process::Rlimit { current: Some(40), ..getrlimit(Resource::Nofile) };
    setrlimit(Resource::Nofile, limit).unwrap();
    let server = Server::start(ConnectionLimits::default()).await;
    println!("\nserving at {}", server.address);
    let _ = tokio::task::spawn_blocking(|| io::stdin().read_to_end(&mut Vec::new())).await;
    server.stopped().await;
}

fn address_in(output: &mut impl BufRead) -> SocketAddr {
    let lines = output.lines().map(Result::unwrap);
    let mut addresses = lines.filter_map(|line| line.strip_prefix("serving at ")?.parse().ok());
    addresses.next().expect("the child says where it serves")
}

#[test]
fn half_of_the_descriptors_are_left_to_workers() {
    for (descriptors_max, expected) in
        [(64, [20, 4, 8]), (1024, [320, 64, 128]), (1_000_000, [16_384, 256, 1024]), (0, [1, 1, 1])]
    {
        let ListenerLimits { callers, control, workers } = ConnectionLimits::default().divide(descriptors_max);
        assert_eq!([callers, control, workers].map(|limits| limits.connections_max), expected);
    }
}

#[tokio::test]
async fn pauses_double_up_to_their_limit_and_begin_anew_after_a_success() {
    let limits = ConnectionLimits { pause_max: Duration::from_millis(50), ..ConnectionLimits::default() };
    let exhausted = io::Error::from_raw_os_error(rustix::io::Errno::MFILE.raw_os_error());
    let mut pause = Pause::new(&limits);
    let mut nexts = Vec::new();
    for _ in 0..3 {
        pause.begin_for(&exhausted);
        nexts.push(pause.next.as_millis());
    }
    assert!(pause.is_on());
    assert_eq!(nexts, [40, 50, 50]);
    pause.end();
    pause.reset();
    pause.begin_for(&io::ErrorKind::ConnectionAborted.into());
    assert!(!pause.is_on() && !is_exhaustion(&io::ErrorKind::ConnectionAborted.into()));
    assert_eq!(pause.next, limits.pause_min);
}
