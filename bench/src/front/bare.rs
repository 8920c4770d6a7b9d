//! The server that ours is measured against: the same HTTP, and nothing else. Whole answers are JSON in, JSON out. A stream is a
//! turn of a demo worker whose every delta line becomes the same prepared bytes: of a line only its thread is looked at, at the
//! place where it always stands.

use std::collections::HashMap;
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context as _, Result};
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::serve::ListenerExt as _;
use axum::{Json, Router};
use futures_util::stream::poll_fn;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::process::{ChildStdout, Command};
use tokio::sync::mpsc;

use super::prepared;

/// How much is read at once.
const READ_BYTES: usize = 64 << 10;
/// More deltas than a burst has.
const DELTAS_MAX: usize = 1 << 16;
/// More calls than are made at once.
const CALLS_MAX: usize = 1 << 15;

const DELTA: &[u8] = br#"{"method":"item/agentMessage/delta","params":{"threadId":""#;
const COMPLETED: &[u8] = br#"{"method":"turn/completed","params":{"threadId":""#;
const BETWEEN_IDS: &[u8] = br#"","turnId":""#;
const ID_BYTES: usize = 36;

type Id = [u8; ID_BYTES];

pub(crate) fn run() -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        #[expect(clippy::disallowed_methods, reason = "the benchmark measures whole processes")]
        let mut worker = Command::new(std::env::current_exe()?)
            .args(["demo-worker", "--writes", "lines"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let (calls, mut lines) = mpsc::channel::<Vec<u8>>(CALLS_MAX);
        let pipe = Arc::new(Pipe { calls, streams: Mutex::default(), delta: prepared::delta(), end: prepared::end() });
        pipe.call(
            &json!({"id": 0, "method": "initialize", "params": {"clientInfo": {"name": "bench", "version": "0"}}}),
        );
        let (mut stdin, stdout) =
            (worker.stdin.take().context("no stdin")?, worker.stdout.take().context("no stdout")?);
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        println!("{}", json!({"url": format!("http://{}", listener.local_addr()?), "key": "k"}));
        let listener = listener.tap_io(|stream| _ = stream.set_nodelay(true));
        let router = Router::new().route("/v1/chat/completions", post(complete)).with_state(Arc::clone(&pipe));
        let writing = async {
            while let Some(line) = lines.recv().await {
                stdin.write_all(&line).await?;
            }
            anyhow::Ok(())
        };
        tokio::try_join!(
            async { Ok(axum::serve(listener, router).await?) },
            writing,
            // A task of its own, as it would be in any server.
            async { run_reader(pipe, stdout).await },
        )?;
        Ok(())
    })
}

async fn run_reader(pipe: Arc<Pipe>, stdout: ChildStdout) -> Result<()> {
    let mut reading = tokio::task::JoinSet::new();
    reading.spawn(async move { pipe.read(stdout).await });
    reading.join_next().await.context("nothing reads")??
}

async fn complete(State(pipe): State<Arc<Pipe>>, Json(body): Json<Value>) -> Response {
    if body["stream"] != true {
        return Json(prepared::answer()).into_response();
    }
    let mut deltas = pipe.start(body["messages"][0]["content"].as_str().unwrap_or_default());
    let bytes = poll_fn(move |context| deltas.poll_recv(context).map(|bytes| bytes.map(Ok::<_, std::io::Error>)));
    ([(header::CONTENT_TYPE, "text/event-stream; charset=utf-8")], Body::from_stream(bytes)).into_response()
}

/// The worker's pipe, and who reads which of its threads.
struct Pipe {
    calls: mpsc::Sender<Vec<u8>>,
    streams: Mutex<Streams>,
    delta: Bytes,
    end: Bytes,
}

#[derive(Default)]
struct Streams {
    last_call: u64,
    starting: HashMap<u64, (String, mpsc::Sender<Bytes>)>,
    by_thread: HashMap<Id, mpsc::Sender<Bytes>>,
}

impl Pipe {
    fn call(&self, call: &Value) {
        // A worker that is so far behind is noticed by whoever waits for its answer.
        _ = self.calls.try_send(format!("{call}\n").into_bytes());
    }

    fn start(&self, prompt: &str) -> mpsc::Receiver<Bytes> {
        let (sender, receiver) = mpsc::channel(DELTAS_MAX);
        let mut streams = self.streams.lock().unwrap_or_else(PoisonError::into_inner);
        streams.last_call += 1;
        let call = streams.last_call;
        streams.starting.insert(call, (prompt.to_owned(), sender));
        drop(streams);
        self.call(&json!({"id": call, "method": "thread/start", "params": {"cwd": "/"}}));
        receiver
    }

    async fn read(&self, mut stdout: ChildStdout) -> Result<()> {
        let mut buffer = Vec::with_capacity(READ_BYTES);
        while stdout.read_buf(&mut buffer).await? > 0 {
            let mut streams = self.streams.lock().unwrap_or_else(PoisonError::into_inner);
            let mut taken = 0;
            for end in memchr::memchr_iter(b'\n', &buffer) {
                self.take(&buffer[taken..end], &mut streams);
                taken = end + 1;
            }
            drop(streams);
            buffer.drain(..taken);
            buffer.reserve(READ_BYTES);
        }
        Ok(())
    }

    fn take(&self, line: &[u8], streams: &mut Streams) {
        if let Some(rest) = line.strip_prefix(DELTA) {
            let Some(thread) = rest.first_chunk::<ID_BYTES>() else { return };
            let Some(sender) = streams.by_thread.get(thread) else { return };
            if sender.try_send(self.delta.clone()).is_err() {
                streams.by_thread.remove(thread);
                self.interrupt(thread, &rest[ID_BYTES..]);
            }
        } else if let Some(thread) = line.strip_prefix(COMPLETED).and_then(<[u8]>::first_chunk::<ID_BYTES>) {
            if let Some(sender) = streams.by_thread.remove(thread) {
                _ = sender.try_send(self.end.clone());
            }
        } else if let Some(answer) = line.strip_prefix(br#"{"id":"#) {
            self.take_answer(answer, streams);
        }
    }

    /// The caller has gone.
    fn interrupt(&self, thread: &Id, rest: &[u8]) {
        let turn = rest.strip_prefix(BETWEEN_IDS).and_then(<[u8]>::first_chunk::<ID_BYTES>);
        let [thread, turn] =
            [Some(thread), turn].map(|id| String::from_utf8_lossy(id.map_or(&[], |id| id)).into_owned());
        self.call(&json!({"id": 0, "method": "turn/interrupt", "params": {"threadId": thread, "turnId": turn}}));
    }

    /// A thread is there: its turn begins.
    fn take_answer(&self, answer: &[u8], streams: &mut Streams) {
        let digits = answer.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let call = std::str::from_utf8(&answer[..digits]).ok().and_then(|digits| digits.parse::<u64>().ok());
        let thread = answer[digits..].strip_prefix(br#","result":{"thread":{"id":""#);
        let thread = thread.and_then(<[u8]>::first_chunk::<ID_BYTES>);
        if let Some((call, thread)) = call.zip(thread)
            && let Some((prompt, sender)) = streams.starting.remove(&call)
        {
            streams.by_thread.insert(*thread, sender);
            let thread = String::from_utf8_lossy(thread);
            let input = json!([{"type": "text", "text": prompt}]);
            self.call(&json!({"id": 0, "method": "turn/start", "params": {"threadId": thread, "input": input}}));
        }
    }
}
