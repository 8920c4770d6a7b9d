//! The checks, in the order of the table's columns. Each has a worker of its own, so that none can spoil the next.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use ::codex::event::{TurnEvent, TurnStatus};
use ::codex::requests::RequestKind;
use ::codex::{
    ApprovalPolicy, CallError, Callbacks, Client, Decision, Finished, Input, Sandbox, StartError, Thread,
    ThreadOptions, Tool, Turn,
};
use serde_json::json;
use tokio::time::timeout;
use wire::Json;

use super::lab::Lab;
use super::{Cell, Row};

/// A check of a healthy worker takes a second or two.
const CHECK_TIMEOUT: Duration = Duration::from_secs(30);

/// How often a worker is asked whether it has written a thread down.
const LOOK: Duration = Duration::from_millis(10);

/// What the stand-in model says of a `[[slow 8 20]]`, and the tokens it counts for any text.
const SLOW_TEXT: &str = "s0 s1 s2 s3 s4 s5 s6 s7 ";
const TOKENS: (u64, u64) = (100, 10);

pub(super) fn row(lab: &Lab) -> Row {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let cells = runtime.block_on(async {
        vec![
            ("handshake", cell(handshake(lab)).await),
            ("streamed turn", cell(streamed_turn(lab)).await),
            ("usage", cell(usage(lab)).await),
            ("interrupt", cell(interrupt(lab)).await),
            ("resume", cell(resume(lab)).await),
            ("command approval", cell(command_approval(lab)).await),
            ("client tools", cell(client_tools(lab)).await),
            ("steer", cell(steer(lab)).await),
        ]
    });
    Row { version: lab.version.clone(), cells }
}

/// Why a check is not passed.
enum Obstacle {
    Absent(String),
    Failed(String),
}

impl From<CallError> for Obstacle {
    fn from(error: CallError) -> Self {
        match error {
            CallError::Unable(unable) => Self::Absent(unable.to_string()),
            other => Self::Failed(other.to_string()),
        }
    }
}

impl From<StartError> for Obstacle {
    fn from(error: StartError) -> Self {
        Self::Failed(error.to_string())
    }
}

async fn cell(check: impl Future<Output = Result<String, Obstacle>>) -> Cell {
    match timeout(CHECK_TIMEOUT, check).await {
        Ok(Ok(found)) => Cell::Passed(found),
        Ok(Err(Obstacle::Absent(why))) => Cell::Absent(why),
        Ok(Err(Obstacle::Failed(why))) => Cell::Failed(why),
        Err(_) => Cell::Failed(format!("not over after {CHECK_TIMEOUT:?}")),
    }
}

fn passed() -> Result<String, Obstacle> {
    Ok(String::new())
}

fn ensure(holds: bool, otherwise: impl FnOnce() -> String) -> Result<(), Obstacle> {
    if holds { Ok(()) } else { Err(Obstacle::Failed(otherwise())) }
}

fn ensure_completed(finished: &Finished, text: &str) -> Result<(), Obstacle> {
    let is_right = finished.status == TurnStatus::Completed && finished.text == text;
    ensure(is_right, || format!("the turn ended {:?} with {:?}", finished.status, finished.text))
}

/// Reads until the agent has begun to speak.
async fn speaking(turn: &mut Turn) -> Result<(), Obstacle> {
    while let Some(event) = turn.next().await {
        match event {
            TurnEvent::Text { .. } => return Ok(()),
            TurnEvent::TurnEnded { status, error } => {
                return Err(Obstacle::Failed(format!("the turn ended {status:?} before it spoke: {error:?}")));
            }
            _ => {}
        }
    }
    Err(Obstacle::Failed("the turn's events stopped before its end".into()))
}

async fn handshake(lab: &Lab) -> Result<String, Obstacle> {
    let client = lab.client().await?;
    let told = client.greeting().version.as_deref().unwrap_or("none");
    ensure(told == lab.version, || format!("the worker says that its version is {told}"))?;
    let dialect = client.abilities().dialect.to_string();
    client.stop().await;
    Ok(dialect)
}

async fn streamed_turn(lab: &Lab) -> Result<String, Obstacle> {
    let client = lab.client().await?;
    let mut turn = client.start_thread(lab.thread()).await?.start_turn("[[slow 8 20]]").await?;
    let (mut text, mut pieces, mut ends) = (String::new(), 0, Vec::new());
    while let Some(event) = turn.next().await {
        match event {
            TurnEvent::Text { text: more, .. } => {
                text += &more;
                pieces += 1;
            }
            TurnEvent::TurnEnded { status, .. } => ends.push(status),
            _ => {}
        }
    }
    client.stop().await;
    ensure(text == SLOW_TEXT, || format!("the text was {text:?}"))?;
    ensure(pieces > 1, || "the text came in one piece".into())?;
    ensure(ends == [TurnStatus::Completed], || format!("the turn ended {ends:?}"))?;
    passed()
}

async fn usage(lab: &Lab) -> Result<String, Obstacle> {
    let client = lab.client().await?;
    let thread = client.start_thread(lab.thread()).await?;
    for turns in 1..=2 {
        let used = thread.start_turn("[[text]]").await?.finish().await.usage;
        let counted = used.map(|used| (used.input_tokens, used.output_tokens));
        let expected = (TOKENS.0 * turns, TOKENS.1 * turns);
        ensure(counted == Some(expected), || format!("turn {turns} counted {counted:?} instead of {expected:?}"))?;
    }
    client.stop().await;
    passed()
}

async fn interrupt(lab: &Lab) -> Result<String, Obstacle> {
    let client = lab.client().await?;
    let thread = client.start_thread(lab.thread()).await?;
    let mut speaks = thread.start_turn("[[slow 500 20]]").await?;
    speaking(&mut speaks).await?;
    ensure_interrupted(speaks).await?;
    let has_just_begun = thread.start_turn("[[slow 500 20]]").await?;
    ensure_interrupted(has_just_begun).await?;
    drop(thread.start_turn("[[slow 500 20]]").await?);
    let next = thread.start_turn("[[text]]").await?.finish().await;
    client.stop().await;
    ensure_completed(&next, "Hello from mock.")?;
    passed()
}

async fn ensure_interrupted(turn: Turn) -> Result<(), Obstacle> {
    turn.interrupt();
    let status = turn.finish().await.status;
    ensure(status == TurnStatus::Interrupted, || format!("the turn ended {status:?}"))
}

/// In a second process, which must know what was said in the first.
async fn resume(lab: &Lab) -> Result<String, Obstacle> {
    let first = lab.client().await?;
    let thread = first.start_thread(lab.thread()).await?;
    ensure_completed(&thread.start_turn("[[recall]]").await?.finish().await, "You said 0 things before.")?;
    let id = thread.id().to_owned();
    until_written(&first, &id).await?;
    first.stop().await;
    let second = lab.client().await?;
    let thread = second.resume_thread(&id, lab.thread()).await?;
    let recalled = thread.start_turn("[[recall]]").await?.finish().await;
    second.stop().await;
    ensure_completed(&recalled, "You said 1 things before.")?;
    passed()
}

/// A turn is over before it is written: 0.45 forgets what it has not written when it is stopped.
async fn until_written(client: &Client, thread: &str) -> Result<(), Obstacle> {
    while !client.list_threads(None).await?.threads.iter().any(|listed| *listed.id == *thread) {
        tokio::time::sleep(LOOK).await;
    }
    Ok(())
}

async fn command_approval(lab: &Lab) -> Result<String, Obstacle> {
    for (decision, name, runs) in
        [(Decision::Allow, "allowed", true), (Decision::deny("not in this check"), "denied", false)]
    {
        let asked = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&asked);
        let callbacks = Callbacks::new().on_approval(RequestKind::Command, move |_| {
            count.fetch_add(1, Ordering::Relaxed);
            decision.clone()
        });
        let client = lab.client_with(callbacks).await?;
        let options =
            ThreadOptions { approval_policy: ApprovalPolicy::Untrusted, sandbox: Sandbox::FullAccess, ..lab.thread() };
        let thread = client.start_thread(options).await?;
        let finished = ran(&thread, &format!("touch {name}")).await?;
        client.stop().await;
        ensure(asked.load(Ordering::Relaxed) == 1, || format!("asked {asked:?} times before the {name} command"))?;
        ensure_completed(&finished, "Done after tool.")?;
        ensure(lab.file(name).exists() == runs, || format!("the {name} command ran: {}", !runs))?;
    }
    passed()
}

async fn ran(thread: &Thread, command: &str) -> Result<Finished, Obstacle> {
    Ok(thread.start_turn(format!("[[shell {command}]]")).await?.finish().await)
}

async fn client_tools(lab: &Lab) -> Result<String, Obstacle> {
    let client = lab.client().await?;
    let tool = Tool {
        namespace: None,
        name: "ask_operator".into(),
        description: "Asks the operator.".into(),
        input_schema: json!({"type": "object", "properties": {"question": {"type": "string"}}}),
    };
    let thread = client.start_thread(ThreadOptions { tools: vec![tool], ..lab.thread() }).await?;
    let mut requests = client.requests().ok_or(Obstacle::Failed("somebody else has the requests".into()))?;
    let turn = thread.start_turn(r#"[[tool ask_operator {"question":"which port?"}]]"#).await?;
    let answering = async {
        let pending = requests.next().await.ok_or(Obstacle::Failed("no request came".into()))?;
        let wanted: serde_json::Value = pending.asked.params.parse().unwrap_or_default();
        ensure(wanted["arguments"] == json!({"question": "which port?"}), || format!("asked {wanted}"))?;
        let answer = json!({"contentItems": [{"type": "inputText", "text": "port 8080"}], "success": true});
        let answered = pending.answer_raw(Ok(&Json::of(&answer).unwrap()));
        answered.map_err(|error| Obstacle::Failed(error.to_string()))
    };
    let (answered, finished) = tokio::join!(answering, turn.finish());
    answered?;
    client.stop().await;
    ensure_completed(&finished, "Done after tool.")?;
    passed()
}

async fn steer(lab: &Lab) -> Result<String, Obstacle> {
    let client = lab.client().await?;
    let mut turn = client.start_thread(lab.thread()).await?.start_turn("[[slow 200 20]]").await?;
    speaking(&mut turn).await?;
    turn.steer(&[Input::Text("[[text]]".into())]).await?;
    let finished = turn.finish().await;
    client.stop().await;
    ensure_completed(&finished, "Hello from mock.")?;
    passed()
}
