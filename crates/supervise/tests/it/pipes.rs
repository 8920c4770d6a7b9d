//! What passes through the pipes of a process, and what happens when it does not pass.

use std::io::ErrorKind;
use std::time::Duration;

use supervise::{Child, Limits, SendError, StdinEnd};
use tokio::time::timeout;

use crate::support::{SHORT, everything, launch, line, run, sh, spawn, until};

/// A child for which no more than this may wait.
fn spawn_with_queue(queued_bytes_max: usize, program: &str) -> Child {
    let limits = Limits { queued_bytes_max, ..Limits::default() };
    launch(program, &[]).spawn(limits).unwrap()
}

#[test]
fn lines_go_in_and_come_back() {
    run(async {
        let mut child = spawn("cat", &[]);
        child.stdin.send(b"one\n").await.unwrap();
        assert_eq!(line(&mut child.stdout).await, "one");
        child.stdin.try_send(b"two\n").unwrap();
        assert_eq!(line(&mut child.stdout).await, "two");
    });
}

#[test]
fn closing_writes_what_waits_first() {
    run(async {
        let mut child = spawn("cat", &[]);
        let long = "x".repeat(1 << 20);
        child.stdin.try_send(long.as_bytes()).unwrap();
        child.stdin.close();
        assert_eq!(child.stdin.try_send(b"late\n"), Err(SendError::Ended(StdinEnd::Closed)));
        assert!(everything(&mut child.stdout).await == long);
        assert_eq!(child.stdin.ended().await, StdinEnd::Closed);
        assert_eq!(child.stdin.ready().await, Err(StdinEnd::Closed));
    });
}

#[test]
fn a_full_queue_refuses_and_takes_again_what_the_process_has_made_room_for() {
    run(async {
        let mut child = spawn_with_queue(1 << 20, "cat");
        let mut sent = String::new();
        let block = "0123456789abcde\n".repeat(4096);
        // Nobody reads what `cat` writes, so it soon stops reading.
        loop {
            match child.stdin.try_send(block.as_bytes()) {
                Ok(()) => sent.push_str(&block),
                Err(SendError::Full) => break,
                Err(SendError::Ended(end)) => panic!("{end}"),
            }
        }
        assert!(sent.len() >= 1 << 20 && sent.len() < 2 << 20, "{} bytes were taken", sent.len());
        let Child { stdin, stdout, .. } = &mut child;
        let write = async {
            stdin.send(b"the last line\n").await.unwrap();
            stdin.close();
        };
        let ((), received) = tokio::join!(write, everything(stdout));
        assert!(received == sent + "the last line\n");
    });
}

#[test]
fn a_process_that_never_reads_ends_as_full_and_then_stalled() {
    run(async {
        let limits =
            Limits { queued_bytes_max: 100_000, write_timeout: Duration::from_millis(200), ..Limits::default() };
        let child = launch("sleep", &["1000"]).spawn(limits).unwrap();
        let mut sent_bytes = 0;
        let refused = loop {
            match child.stdin.try_send(&[b'x'; 1000]) {
                Ok(()) => sent_bytes += 1000,
                Err(refused) => break refused,
            }
        };
        assert_eq!(refused, SendError::Full);
        assert!((100_000..200_000).contains(&sent_bytes), "{sent_bytes} bytes were taken");

        let end = child.stdin.ended().await;
        let StdinEnd::Stalled { waiting_bytes, .. } = end else { panic!("{end}") };
        assert!(waiting_bytes < sent_bytes, "the pipe itself holds some");
        assert_eq!(child.stdin.try_send(b"late\n"), Err(SendError::Ended(end)));
        assert_eq!(child.stdin.send(b"late\n").await, Err(end));
    });
}

#[test]
fn a_line_longer_than_the_queue_passes() {
    run(async {
        let mut child = spawn_with_queue(1, "cat");
        let long = "x".repeat(3 << 20);
        child.stdin.send(long.as_bytes()).await.unwrap();
        child.stdin.close();
        assert!(everything(&mut child.stdout).await == long);
    });
}

#[test]
fn a_dropped_send_has_queued_nothing() {
    run(async {
        let mut child = spawn_with_queue(1, "cat");
        // More than `cat` and both pipes can hold.
        let long = "x".repeat(1 << 20);
        child.stdin.try_send(long.as_bytes()).unwrap();
        assert!(timeout(SHORT, child.stdin.send(b"abandoned")).await.is_err());
        child.stdin.close();
        assert!(everything(&mut child.stdout).await == long);
    });
}

#[test]
fn a_process_that_closes_its_stdin_breaks_it() {
    run(async {
        let mut child = sh("exec <&-; echo closed; exec sleep 1000");
        assert_eq!(line(&mut child.stdout).await, "closed");
        child.stdin.try_send(b"anyone?\n").unwrap();
        assert_eq!(child.stdin.ended().await, StdinEnd::Broken(ErrorKind::BrokenPipe));
    });
}

#[test]
fn a_flood_on_stderr_stalls_nothing_and_its_end_is_kept() {
    run(async {
        let mut child = sh("head -c 1048576 /dev/zero | tr '\\0' 'x' >&2; echo; echo the cause >&2; echo done");
        assert_eq!(line(&mut child.stdout).await, "");
        assert_eq!(line(&mut child.stdout).await, "done");
        let tail = child.process.wait().await.stderr;
        assert_eq!(tail.total_bytes, 1_048_576 + "the cause\n".len() as u64);
        assert_eq!(tail.text.len(), 64 << 10);
        assert!(tail.text.ends_with("xxthe cause\n"));
        assert!(tail.starts_mid_line);
    });
}

#[test]
fn stderr_can_be_seen_while_the_process_runs() {
    run(async {
        let child = sh("printf 'caf\\351 \\377\\n' >&2; exec sleep 1000");
        until("stderr has come", || child.process.stderr().total_bytes == 7).await;
        assert_eq!(child.process.stderr().to_string(), "last stderr: caf\u{fffd} \u{fffd}");
    });
}
