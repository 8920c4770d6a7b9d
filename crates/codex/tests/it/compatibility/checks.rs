//! The checks, in the order of the table's columns. Each has a worker of its own, so that none can spoil the next.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use ::codex::event::{TurnEvent, TurnStatus};
use ::codex::requests::RequestKind;
use ::codex::{
    ApprovalPolicy, CallError, Callbacks, Client, Decision, Finished, Input, Sandbox, Thread, ThreadOptions, Tool, Turn,
};
use serde_json::json;
use testkit::compatibility::{Cells, Obstacle, cell, ensure, passed};
use wire::Json;

use super::lab::Lab;

/// How often a worker is asked whether it has written a thread down.
const LOOK: Duration = Duration::from_millis(10);

/// What the stand-in model says of a `[[slow 8 20]]`, and the tokens it counts for any text.
const SLOW_TEXT: &str = "s0 s1 s2 s3 s4 s5 s6 s7 ";
const TOKENS: (u64, u64) = (100, 10);

pub(super) fn cells(lab: &Lab) -> Cells {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
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
    })
}

/// A call that a version cannot do is refused before it is made.
fn refused(error: CallError) -> Obstacle {
    match error {
        CallError::Unable(unable) => Obstacle::Absent(unable.to_string()),
        other => Obstacle::Failed(other.to_string()),
    }
}

async fn client(lab: &Lab) -> Result<Client, Obstacle> {
    client_with(lab, Callbacks::new()).await
}

async fn client_with(lab: &Lab, callbacks: Callbacks) -> Result<Client, Obstacle> {
    lab.client_with(callbacks).await.map_err(|error| Obstacle::Failed(error.to_string()))
}

async fn started(client: &Client, options: ThreadOptions) -> Result<Thread, Obstacle> {
    client.start_thread(options).await.map_err(refused)
}

async fn said(thread: &Thread, prompt: &str) -> Result<Turn, Obstacle> {
    thread.start_turn(prompt).await.map_err(refused)
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
    let client = client(lab).await?;
    let told = client.greeting().version.as_deref().unwrap_or("none");
    ensure(told == lab.version, || format!("the worker says that its version is {told}"))?;
    let dialect = client.abilities().dialect.to_string();
    client.stop().await;
    Ok(dialect)
}

async fn streamed_turn(lab: &Lab) -> Result<String, Obstacle> {
    let client = client(lab).await?;
    let mut turn = said(&started(&client, lab.thread()).await?, "[[slow 8 20]]").await?;
    let (mut text, mut pieces, mut ends) = (String::new(), 0, Vec::new());
    while let Some(event) = turn.next().await {
        match event {
            TurnEvent::Text { text: more, .. } => {
                text += &more.to_str();
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
    let client = client(lab).await?;
    let thread = started(&client, lab.thread()).await?;
    for turns in 1..=2 {
        let used = said(&thread, "[[text]]").await?.finish().await.usage;
        let counted = used.map(|used| (used.input_tokens, used.output_tokens));
        let expected = (TOKENS.0 * turns, TOKENS.1 * turns);
        ensure(counted == Some(expected), || format!("turn {turns} counted {counted:?} instead of {expected:?}"))?;
    }
    client.stop().await;
    passed()
}

async fn interrupt(lab: &Lab) -> Result<String, Obstacle> {
    let client = client(lab).await?;
    let thread = started(&client, lab.thread()).await?;
    let mut speaks = said(&thread, "[[slow 500 20]]").await?;
    speaking(&mut speaks).await?;
    ensure_interrupted(speaks).await?;
    let has_just_begun = said(&thread, "[[slow 500 20]]").await?;
    ensure_interrupted(has_just_begun).await?;
    drop(said(&thread, "[[slow 500 20]]").await?);
    let next = said(&thread, "[[text]]").await?.finish().await;
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
    let first = client(lab).await?;
    let thread = started(&first, lab.thread()).await?;
    ensure_completed(&said(&thread, "[[recall]]").await?.finish().await, "You said 0 things before.")?;
    let id = thread.id().to_owned();
    until_written(&first, &id).await?;
    first.stop().await;
    let second = client(lab).await?;
    let thread = second.resume_thread(&id, lab.thread()).await.map_err(refused)?;
    let recalled = said(&thread, "[[recall]]").await?.finish().await;
    second.stop().await;
    ensure_completed(&recalled, "You said 1 things before.")?;
    passed()
}

/// A turn is over before it is written: 0.45 forgets what it has not written when it is stopped.
async fn until_written(client: &Client, thread: &str) -> Result<(), Obstacle> {
    while !client.list_threads(None).await.map_err(refused)?.threads.iter().any(|listed| *listed.id == *thread) {
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
        let client = client_with(lab, callbacks).await?;
        let options =
            ThreadOptions { approval_policy: ApprovalPolicy::Untrusted, sandbox: Sandbox::FullAccess, ..lab.thread() };
        let thread = started(&client, options).await?;
        let finished = ran(&thread, &format!("touch {name}")).await?;
        client.stop().await;
        ensure(asked.load(Ordering::Relaxed) == 1, || format!("asked {asked:?} times before the {name} command"))?;
        ensure_completed(&finished, "Done after tool.")?;
        ensure(lab.file(name).exists() == runs, || format!("the {name} command ran: {}", !runs))?;
    }
    passed()
}

async fn ran(thread: &Thread, command: &str) -> Result<Finished, Obstacle> {
    Ok(said(thread, &format!("[[shell {command}]]")).await?.finish().await)
}

async fn client_tools(lab: &Lab) -> Result<String, Obstacle> {
    let client = client(lab).await?;
    let tool = Tool {
        namespace: None,
        name: "ask_operator".into(),
        description: "Asks the operator.".into(),
        input_schema: json!({"type": "object", "properties": {"question": {"type": "string"}}}),
    };
    let thread = started(&client, ThreadOptions { tools: vec![tool], ..lab.thread() }).await?;
    let mut requests = client.requests().ok_or(Obstacle::Failed("somebody else has the requests".into()))?;
    let turn = said(&thread, r#"[[tool ask_operator {"question":"which port?"}]]"#).await?;
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
    let client = client(lab).await?;
    let mut turn = said(&started(&client, lab.thread()).await?, "[[slow 200 20]]").await?;
    speaking(&mut turn).await?;
    turn.steer(&[Input::Text("[[text]]".into())]).await.map_err(refused)?;
    let finished = turn.finish().await;
    client.stop().await;
    ensure_completed(&finished, "Hello from mock.")?;
    passed()
}
