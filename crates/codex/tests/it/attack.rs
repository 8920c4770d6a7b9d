//! The client against workers and callers that mean it badly: real processes, floods, deaths at the wrong moment, and
//! runtimes that go away.

use std::future::pending;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};
use std::{fs, thread};

use codex::event::{ConnectionEvent, TurnStatus};
use codex::requests::RequestKind;
use codex::{
    ApprovalPolicy, Asked, CallError, Callbacks, Client, Decision, Endpoint, Options, Patience, PermissionProfile,
    ThreadOptions, Turn, TurnEvent,
};
use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::json;
use supervise::Owner;
use tempfile::TempDir;
use testkit::HANG_TIMEOUT;
use tokio::net::UnixListener;
use tokio::runtime::Runtime;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_tungstenite::accept_async;
use tokio_tungstenite::tungstenite::Message;
use wire::Json;

use crate::support::{Place, item_status};

fn options() -> Options {
    Options::new("tests", "1.0")
}

fn asking() -> ThreadOptions {
    ThreadOptions { approval_policy: ApprovalPolicy::Untrusted, ..ThreadOptions::default() }
}

/// Commands are decided so.
fn deciding<F, D>(callback: F) -> Options
where
    F: Fn(Asked) -> D + Send + Sync + 'static,
    D: IntoFuture<Output = Decision>,
    D::IntoFuture: Send + 'static,
{
    let mut options = options();
    options.callbacks = Callbacks::new().on_approval(RequestKind::Command, callback);
    options
}

/// Every end that a turn tells, to the last.
async fn ends(mut turn: Turn) -> Vec<TurnStatus> {
    let mut ends = Vec::new();
    while let Some(event) = timeout(HANG_TIMEOUT, turn.next()).await.expect("the turn ends") {
        if let TurnEvent::TurnEnded { status, .. } = event {
            ends.push(status);
        }
    }
    ends
}

/// A worker that says hello and then goes on with a script of its own.
async fn scripted(script: &str) -> Client {
    let hello = r#"
        read initialize; echo '{"id":1,"result":{"userAgent":"worker/9.9.9"}}'
        read initialized; read probe; echo '{"id":2,"error":{"code":-32600,"message":"no"}}'
    "#;
    let command = ["/bin/sh", "-c", &format!("{hello}\n{script}")];
    Client::spawn(command, options()).await.unwrap()
}

/// Waits until no process bears the mark; zombies bear none.
fn assert_all_gone(owner: Owner) {
    let mark = format!("{}={owner}", supervise::OWNER_VARIABLE);
    let is_marked = |environment: &[u8]| String::from_utf8_lossy(environment).contains(&mark);
    let deadline = Instant::now() + HANG_TIMEOUT;
    while Instant::now() < deadline {
        let processes = fs::read_dir("/proc").unwrap().filter_map(Result::ok);
        let mut environments = processes.filter_map(|entry| fs::read(entry.path().join("environ")).ok());
        if !environments.any(|environment| is_marked(&environment)) {
            return;
        }
        thread::yield_now();
    }
    panic!("something of the worker is left");
}

/// The permission profile is the wall; a worker that dropped it must not get a turn.
#[tokio::test]
async fn adversary_worker_that_drops_the_permission_profile_gets_no_thread() {
    for (answer, active) in [
        (r#""activePermissionProfile":null"#, None),
        (r#""activePermissionProfile":{"id":":read-only","extends":null}"#, Some(":read-only")),
        (r#""model":"m""#, None),
    ] {
        let script = format!(
            r#"read start; echo '{{"id":3,"result":{{"thread":{{"id":"t"}},{answer}}}}}'
               read unload; echo '{{"id":4,"result":{{}}}}'; read nothing"#
        );
        let client = scripted(&script).await;
        let confined = ThreadOptions { permissions: Some(PermissionProfile::default()), ..ThreadOptions::default() };
        let refused = client.start_thread(confined).await.err().unwrap();
        assert!(
            matches!(&refused, CallError::NotConfined { active: found, .. } if found.as_deref() == active),
            "{answer}: {refused}"
        );
        assert!(!refused.work_may_have_run());
    }
}

/// No version, no trust: 0.120 accepts a profile and still runs escalated commands outside of it.
#[tokio::test]
async fn adversary_worker_without_a_version_is_not_relied_on() {
    let hello = r#"read initialize; echo '{"id":1,"result":{"userAgent":"worker"}}'
        read initialized; read probe; echo '{"id":2,"error":{"code":-32600,"message":"no"}}'; read nothing"#;
    let client = Client::spawn(["/bin/sh", "-c", hello], options()).await.unwrap();
    let confined = ThreadOptions { permissions: Some(PermissionProfile::default()), ..ThreadOptions::default() };
    assert!(matches!(client.start_thread(confined).await.err(), Some(CallError::Unable(_))));
}

#[tokio::test]
async fn whoever_waits_for_ever_may_do_so() {
    let place = Place::new();
    let mut options = deciding(|_| Decision::Allow);
    options.callbacks =
        options.callbacks.with_patience(Patience { decision_timeout: Duration::MAX, tool_call_timeout: Duration::MAX });
    (options.call_timeout, options.handshake_timeout) = (Duration::MAX, Duration::MAX);
    let client = place.start(options).await.with_timeout(Duration::MAX);
    let thread = client.start_thread(asking()).await.unwrap();
    assert_eq!(item_status(&thread, "[[shell touch x]]", "command_execution").await, "completed");
}

#[test]
fn a_runtime_that_is_shut_down_leaves_nobody_waiting_and_no_process_behind() {
    let place = Place::new();
    let launch = place.launch();
    let runtime = Runtime::new().unwrap();
    let (client, turn) = runtime.block_on(async {
        let client = Client::start(&launch, options()).await.unwrap();
        let thread = client.start_thread(ThreadOptions::default()).await.unwrap();
        (client, thread.start_turn("[[hang]]").await.unwrap())
    });
    let waiting = client.clone();
    let waiter = thread::spawn(move || {
        let elsewhere = Runtime::new().unwrap();
        elsewhere.block_on(async { timeout(HANG_TIMEOUT, waiting.ended()).await.map(|end| end.to_string()) })
    });
    drop(runtime);
    assert_eq!(waiter.join().unwrap().unwrap(), "the runtime of this connection was shut down");
    let elsewhere = Runtime::new().unwrap();
    assert_eq!(elsewhere.block_on(ends(turn)), [TurnStatus::Lost]);
    let refusal = elsewhere.block_on(client.raw("thread/list", None)).unwrap_err();
    assert!(matches!(refusal, CallError::Refused(wire::Refused::Closed)), "{refusal}");
    assert_all_gone(launch.owner);
}

#[test]
fn a_client_that_is_dropped_on_a_thread_without_a_runtime_takes_its_worker_along() {
    let place = Place::new();
    let launch = place.launch();
    let runtime = Runtime::new().unwrap();
    let client = runtime.block_on(Client::start(&launch, options())).unwrap();
    thread::spawn(move || drop(client)).join().unwrap();
    runtime.block_on(tokio::task::yield_now());
    assert_all_gone(launch.owner);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_ends_every_turn_exactly_once() {
    let place = Place::new();
    let client = place.start(options()).await;
    let mut turns = Vec::new();
    for _ in 0..20 {
        let thread = client.start_thread(ThreadOptions::default()).await.unwrap();
        turns.push(thread.start_turn("[[slow 10000 5]]").await.unwrap());
    }
    let (stopped, ()) = tokio::join!(client.clone().stop(), async { turns[0].interrupt() });
    assert!(matches!(&*stopped, codex::End::Child(_)), "{stopped}");
    for turn in turns {
        assert_eq!(ends(turn).await.len(), 1);
    }
    let late = client.thread("t").follow("u").unwrap();
    assert_eq!(ends(late).await, [TurnStatus::Lost]);
}

#[tokio::test]
async fn a_callback_may_call_the_client_and_even_stop_it() {
    let place = Place::new();
    let launch = place.launch();
    let known: Arc<OnceLock<Client>> = Arc::default();
    let inside = Arc::clone(&known);
    let options = deciding(move |asked: Asked| {
        let client = inside.get().unwrap().clone();
        async move {
            client.list_threads(None).await.unwrap();
            if asked.params.get().contains("harmless") {
                return Decision::Allow;
            }
            client.stop().await;
            Decision::Allow
        }
    });
    let client = Client::start(&launch, options).await.unwrap();
    assert!(known.set(client.clone()).is_ok());
    let thread = client.start_thread(asking()).await.unwrap();
    assert_eq!(item_status(&thread, "[[shell touch harmless]]", "command_execution").await, "completed");
    let turn = thread.start_turn("[[shell touch x]]").await.unwrap();
    assert_eq!(ends(turn).await, [TurnStatus::Lost]);
    timeout(HANG_TIMEOUT, client.ended()).await.unwrap();
    assert_all_gone(launch.owner);
}

/// Tells when it is dropped.
struct Dropped(mpsc::Sender<&'static str>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.try_send("dropped").unwrap();
    }
}

#[tokio::test]
async fn a_callback_is_dropped_when_its_turn_is_over() {
    let place = Place::new();
    let (tell, mut told) = mpsc::channel(2);
    let options = deciding(move |_| {
        let dropped = Dropped(tell.clone());
        async move {
            dropped.0.send("asked").await.unwrap();
            pending().await
        }
    });
    let client = place.start(options).await;
    let thread = client.start_thread(asking()).await.unwrap();
    let turn = thread.start_turn("[[shell touch x]]").await.unwrap();
    assert_eq!(timeout(HANG_TIMEOUT, told.recv()).await.unwrap(), Some("asked"));
    turn.interrupt();
    assert_eq!(ends(turn).await, [TurnStatus::Interrupted]);
    assert_eq!(timeout(HANG_TIMEOUT, told.recv()).await.unwrap(), Some("dropped"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flood_that_nobody_reads_holds_no_other_thread_up_and_ends_with_the_reason() {
    let place = Place::new();
    let mut options = deciding(|_| Decision::Allow);
    options.limits.turn_bytes_max = 64 << 10;
    let client = place.start(options).await;
    let flooded = client.start_thread(ThreadOptions::default()).await.unwrap();
    let other = client.start_thread(asking()).await.unwrap();
    let mut turn = flooded.start_turn("[[flood 200000]]").await.unwrap();
    assert_eq!(item_status(&other, "[[shell touch x]]", "command_execution").await, "completed");
    // Not before the worker has said all that it will: a reader that keeps up misses nothing.
    let mut events = client.events();
    let is_idle_again = async {
        let mut was_active = false;
        while let Some(event) = events.next().await {
            match event {
                ConnectionEvent::ThreadStatus { thread, status, .. } if *thread == *flooded.id() => {
                    if was_active && &*status == "idle" {
                        return;
                    }
                    was_active |= &*status == "active";
                }
                _ => {}
            }
        }
    };
    timeout(HANG_TIMEOUT, is_idle_again).await.unwrap();
    let (mut cuts, mut end) = (0, None);
    while let Some(event) = timeout(HANG_TIMEOUT, turn.next()).await.unwrap() {
        match event {
            TurnEvent::Cut { .. } => cuts += 1,
            TurnEvent::TurnEnded { error, .. } => end = error.and_then(|error| error.kind),
            _ => {}
        }
    }
    assert_eq!((cuts > 0, end.as_deref()), (true, Some("slow_consumer")));
}

#[tokio::test]
async fn a_thousand_calls_at_once_are_all_answered() {
    let place = Place::new();
    let client = place.start(options()).await;
    let mut calls = JoinSet::new();
    for _ in 0..1000 {
        let client = client.clone();
        calls.spawn(async move { client.list_threads(None).await.is_ok() });
    }
    assert!(calls.join_all().await.into_iter().all(|is_answered| is_answered));
}

#[tokio::test]
async fn requests_without_end_are_answered_without_end() {
    // As many at once as may be open, so that none is refused.
    let flood = r#"
        read call
        i=0
        while [ $i -lt 10000 ]; do
            n=0
            while [ $n -lt 1000 ]; do
                echo "{\"id\":$((i + n)),\"method\":\"item/commandExecution/requestApproval\",\"params\":{}}"
                n=$((n + 1))
            done
            while [ $n -gt 0 ] && read answer; do n=$((n - 1)); done
            i=$((i + 1000))
        done
        echo "{\"id\":3,\"result\":{\"answers\":$i}}"
        read rest
    "#;
    let client = scripted(flood).await;
    let result = client.raw("count", None).await.unwrap();
    assert_eq!(result.get(), r#"{"answers":10000}"#);
}

#[tokio::test]
async fn a_turn_that_the_worker_does_not_name_is_an_error_and_no_hang() {
    let client = scripted("read start; echo '{\"id\":3,\"result\":{}}'; read rest").await;
    let thread = client.thread("t");
    let error = timeout(HANG_TIMEOUT, thread.start_turn("hello")).await.unwrap().err().unwrap();
    assert!(error.to_string().contains("names no turn"), "{error}");
}

#[tokio::test]
async fn a_compaction_is_a_turn_that_its_first_event_names() {
    let compaction = r#"
        read start; echo '{"id":3,"result":{}}'
        echo '{"method":"turn/started","params":{"threadId":"t","turn":{"id":"u"}}}'
        echo '{"method":"turn/completed","params":{"threadId":"t","turn":{"id":"u","status":"completed"}}}'
        read rest
    "#;
    let client = scripted(compaction).await;
    let turn = client.thread("t").compact().await.unwrap();
    assert_eq!(turn.id(), "u");
    assert_eq!(ends(turn).await, [TurnStatus::Completed]);
}

#[tokio::test]
async fn parameters_of_several_lines_are_one_line() {
    let client =
        scripted("read call; read second; echo '{\"id\":3,\"result\":1}'; echo '{\"id\":4,\"result\":2}'; read rest")
            .await;
    let pretty = Json::new(&serde_json::to_string_pretty(&json!({"a": 1})).unwrap()).unwrap();
    let (first, second) = tokio::join!(client.raw("one\ntwo", Some(pretty)), client.raw("three", None));
    assert_eq!((first.unwrap().get(), second.unwrap().get()), ("1", "2"));
}

/// A worker behind a socket, which hangs up when it has started a turn.
async fn start_and_hang_up(listener: UnixListener) {
    let mut socket = accept_async(listener.accept().await.unwrap().0).await.unwrap();
    let answers = [
        json!({"id": 1, "result": {"userAgent": "worker/9.9.9"}}),
        json!({"id": 2, "error": {"code": -32600, "message": "no"}}),
        json!({"id": 3, "result": {"turn": {"id": "u"}}}),
    ];
    for answer in answers {
        while !socket.next().await.unwrap().unwrap().to_text().unwrap().contains(&format!("\"id\":{}", answer["id"])) {}
        socket.send(Message::text(answer.to_string())).await.unwrap();
    }
}

#[tokio::test]
async fn a_socket_that_is_cut_in_mid_turn_loses_the_turn_once() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("worker.sock");
    let worker = start_and_hang_up(UnixListener::bind(&path).unwrap());
    let caller = async {
        let client = Client::connect(&Endpoint::unix(&path), options()).await.unwrap();
        let turn = client.thread("t").start_turn("hello").await.unwrap();
        (client, turn)
    };
    let ((), (client, turn)) = tokio::join!(worker, caller);
    assert_eq!(ends(turn).await, [TurnStatus::Lost]);
    let end = timeout(HANG_TIMEOUT, client.ended()).await.unwrap();
    assert!(matches!(&*end, codex::End::Socket(_)), "{end}");
}
