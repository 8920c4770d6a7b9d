//! Standard input and output. A client that stops reading stops the worker, as it does the real one: nothing grows.

use std::io::{self, BufRead as _, Write};
use std::process::ExitCode;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TryRecvError, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use tokio::signal::unix::{SignalKind, signal};

use super::process::{self, Deafness};
use super::{CHUNK_BYTES, Capture};
use crate::clock::Now;
use crate::options::Writes;
use crate::outputs::{ConnectionId, Output};
use crate::worker::Worker;

/// Lines that are read ahead.
const INBOX_LINES: usize = 128;
/// How long a SIGTERM waits for a loop that is stuck in a write.
const TERMINATE_GRACE: Duration = Duration::from_millis(200);
const CLIENT: ConnectionId = ConnectionId(0);

/// What wakes the loop.
enum Wake {
    Line(Vec<u8>),
    Timeout,
    End,
}

pub(crate) fn run(mut worker: Worker, mut capture: Capture, writes: Writes) -> ExitCode {
    let (arrivals, inbox) = sync_channel(INBOX_LINES);
    let deafness = Deafness::default();
    watch_terminate(arrivals.clone(), deafness.clone());
    thread::spawn(move || read_lines(&arrivals));
    let mut stdout = Gathered { sink: io::stdout().lock(), buffer: Vec::with_capacity(CHUNK_BYTES), writes };
    worker.handle_opened(CLIENT);
    loop {
        match drain(&mut worker, &mut stdout, &deafness) {
            Ok(None) => {}
            Ok(Some(code)) => return code,
            // The client does not listen any more.
            Err(_) => return shut_down(&mut worker),
        }
        match wait(&inbox, worker.poll_timeout()) {
            Wake::Line(line) => {
                capture.line(&line);
                worker.handle_line(CLIENT, &line, Now::read());
            }
            Wake::Timeout => worker.handle_timeout(Now::read()),
            Wake::End => return shut_down(&mut worker),
        }
    }
}

/// The real worker ends without a word and with success, even in mid turn.
fn shut_down(worker: &mut Worker) -> ExitCode {
    worker.handle_shutdown(Now::read());
    ExitCode::SUCCESS
}

fn read_lines(arrivals: &SyncSender<Wake>) {
    let mut stdin = io::stdin().lock();
    loop {
        let mut line = Vec::new();
        let arrival = match stdin.read_until(b'\n', &mut line) {
            Ok(1..) => Wake::Line(line),
            Ok(0) | Err(_) => Wake::End,
        };
        let is_end = matches!(arrival, Wake::End);
        if arrivals.send(arrival).is_err() || is_end {
            return;
        }
    }
}

/// SIGTERM ends the loop, or, if that is stuck in a write, the process.
fn watch_terminate(arrivals: SyncSender<Wake>, deafness: Deafness) {
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else {
        return;
    };
    let Ok(mut terminate) = runtime.block_on(async { signal(SignalKind::terminate()) }) else {
        return;
    };
    thread::spawn(move || {
        runtime.block_on(async {
            while terminate.recv().await.is_some() {
                if !deafness.is_on() {
                    let _ = arrivals.try_send(Wake::End);
                    tokio::time::sleep(TERMINATE_GRACE).await;
                    std::process::exit(0);
                }
            }
        });
    });
}

fn wait(inbox: &Receiver<Wake>, until: Option<Instant>) -> Wake {
    let Some(until) = until else {
        return inbox.recv().unwrap_or(Wake::End);
    };
    let left = until.saturating_duration_since(Instant::now());
    if left.is_zero() {
        return match inbox.try_recv() {
            Ok(wake) => wake,
            Err(TryRecvError::Empty) => Wake::Timeout,
            Err(TryRecvError::Disconnected) => Wake::End,
        };
    }
    match inbox.recv_timeout(left) {
        Ok(wake) => wake,
        Err(RecvTimeoutError::Timeout) => Wake::Timeout,
        Err(RecvTimeoutError::Disconnected) => Wake::End,
    }
}

/// Does all the worker wants done; an exit code if that was to end.
fn drain(worker: &mut Worker, stdout: &mut Gathered<impl Write>, deafness: &Deafness) -> io::Result<Option<ExitCode>> {
    while let Some(output) = worker.poll_output(Instant::now()) {
        match output {
            Output::Bytes { bytes, .. } => stdout.write(&bytes)?,
            Output::LongLine { head, filler_bytes, tail, .. } => {
                stdout.write(&head)?;
                stdout.fill(filler_bytes)?;
                stdout.write(&tail)?;
            }
            Output::End(ending) => {
                stdout.flush()?;
                return Ok(Some(process::end(ending)));
            }
            other => {
                stdout.flush()?;
                process::act(&other, deafness);
            }
        }
    }
    stdout.flush()?;
    Ok(None)
}

/// Gathers what is ready and writes it at once, or line by line.
struct Gathered<W> {
    sink: W,
    buffer: Vec<u8>,
    writes: Writes,
}

impl<W: Write> Gathered<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.buffer.len() + bytes.len() > CHUNK_BYTES {
            self.flush()?;
        }
        if bytes.len() >= CHUNK_BYTES {
            return self.write_now(bytes);
        }
        self.buffer.extend_from_slice(bytes);
        Ok(())
    }

    fn fill(&mut self, count: u64) -> io::Result<()> {
        self.flush()?;
        io::copy(&mut io::Read::take(io::repeat(b'x'), count), &mut self.sink)?;
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        if !self.buffer.is_empty() {
            let gathered = std::mem::take(&mut self.buffer);
            self.write_now(&gathered)?;
            self.buffer = gathered;
            self.buffer.clear();
        }
        self.sink.flush()
    }

    fn write_now(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self.writes {
            Writes::Gathered => self.sink.write_all(bytes),
            Writes::Lines => bytes.split_inclusive(|byte| *byte == b'\n').try_for_each(|line| {
                self.sink.write_all(line)?;
                self.sink.flush()
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{self, Write};
    use std::time::Duration;

    use expect_test::expect;
    use serde_json::{Value, json};

    use super::{CLIENT, Deafness, Gathered, drain};
    use crate::clock::Now;
    use crate::home::Home;
    use crate::options::{Dialect, Writes};
    use crate::script::Script;
    use crate::worker::Worker;

    /// Every write on its own.
    #[derive(Default)]
    struct Written(Vec<Vec<u8>>);

    impl Write for Written {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.push(bytes.to_vec());
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// The methods of the messages in one write; an answer has none.
    fn methods(write: &[u8]) -> String {
        let messages = serde_json::Deserializer::from_slice(write).into_iter::<Value>();
        let methods = messages.map(|message| message.unwrap()["method"].as_str().unwrap_or("answer").to_owned());
        methods.collect::<Vec<_>>().join(", ")
    }

    #[test]
    fn paced_delta_is_a_write_of_its_own() {
        let mut now = Now::read();
        let mut worker = Worker::new(Dialect::V2, Home::open(None).unwrap(), Script::default(), now);
        let mut stdout = Gathered { sink: Written::default(), buffer: Vec::new(), writes: Writes::Gathered };
        let mut written = |worker: &mut Worker| {
            drain(worker, &mut stdout, &Deafness::default()).unwrap();
            std::mem::take(&mut stdout.sink.0)
        };
        worker.handle_opened(CLIENT);
        let initialize =
            json!({"id": 1, "method": "initialize", "params": {"clientInfo": {"name": "test", "version": "0"}}});
        worker.handle_line(CLIENT, initialize.to_string().as_bytes(), now);
        worker.handle_line(CLIENT, br#"{"id":2,"method":"thread/start","params":{}}"#, now);
        written(&mut worker);
        let thread = worker.threads.keys().next().unwrap();
        let params = json!({"threadId": thread, "input": [{"type": "text", "text": "[[slow 3 50]]"}]});
        let turn = json!({"id": 3, "method": "turn/start", "params": params});
        worker.handle_line(CLIENT, turn.to_string().as_bytes(), now);
        let mut writes = written(&mut worker);
        while worker.is_busy() {
            now = Now { instant: now.instant + Duration::from_millis(50), unix_ms: now.unix_ms + 50 };
            worker.handle_timeout(now);
            writes.extend(written(&mut worker));
        }
        expect![[r#"
            answer, thread/status/changed, turn/started, item/started, item/completed, item/started, item/agentMessage/delta
            item/agentMessage/delta
            item/agentMessage/delta
            item/completed, thread/tokenUsage/updated, account/rateLimits/updated, thread/status/changed, turn/completed
        "#]]
        .assert_eq(&writes.iter().fold(String::new(), |all, write| all + &methods(write) + "\n"));
    }

    #[test]
    fn each_line_is_a_write_of_its_own_where_that_is_asked_for() {
        let mut gathered = Gathered { sink: Written::default(), buffer: Vec::new(), writes: Writes::Lines };
        gathered.write(b"one\ntwo\n").unwrap();
        gathered.write(b"three\n").unwrap();
        gathered.flush().unwrap();
        assert_eq!(gathered.sink.0, [&b"one\n"[..], b"two\n", b"three\n"]);
    }

    #[test]
    fn what_is_gathered_keeps_its_order() {
        let mut gathered = Gathered { sink: Vec::new(), buffer: Vec::new(), writes: Writes::Gathered };
        gathered.write(b"head ").unwrap();
        gathered.fill(100_000).unwrap();
        gathered.write(b" tail").unwrap();
        gathered.write(&vec![b'y'; 70_000]).unwrap();
        gathered.flush().unwrap();
        let expected = format!("head {} tail{}", "x".repeat(100_000), "y".repeat(70_000));
        assert!(gathered.sink == expected.as_bytes());
    }
}
