//! Approvals from a terminal: `cargo run -p codex --example approvals -- "run the tests" [worker command …]`.
//!
//! Requests come as a stream and wait for their decision, several at once if need be; the turn goes on meanwhile.
#![expect(clippy::print_stdout, reason = "an example shows what it gets")]

use anyhow::Context as _;
use codex::{ApprovalPolicy, Client, Decision, Options, ThreadOptions, TurnEvent};
use tokio::io::{AsyncBufReadExt, BufReader, Lines, Stdin};

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let prompt = arguments.next().unwrap_or_else(|| "List the files here.".into());
    let mut command: Vec<String> = arguments.collect();
    if command.is_empty() {
        command = vec!["codex".into(), "app-server".into()];
    }

    let client = Client::spawn(command, Options::new("approvals", "1.0")).await?;
    let mut requests = client.requests().context("somebody else decides")?;
    let careful = ThreadOptions { approval_policy: ApprovalPolicy::Untrusted, ..ThreadOptions::default() };
    let mut turn = client.start_thread(careful).await?.start_turn(prompt).await?;
    let mut person = BufReader::new(tokio::io::stdin()).lines();
    loop {
        tokio::select! {
            Some(request) = requests.next() => {
                let asked = &request.asked;
                println!("{} {}", asked.method, asked.command().unwrap_or_else(|| asked.params.get().into()));
                request.decide(&ask(&mut person).await?)?;
            }
            event = turn.next() => match event {
                Some(TurnEvent::Text { text, .. }) => print!("{text}"),
                Some(TurnEvent::ItemCompleted { item }) => println!("[{} {:?}]", item.kind, item.status),
                Some(_) => {}
                None => break,
            },
        }
    }
    client.stop().await;
    Ok(())
}

/// What the person types; the end of the input denies.
async fn ask(person: &mut Lines<BufReader<Stdin>>) -> std::io::Result<Decision> {
    println!("allow? [y]es, [s]ession, [c]ancel, anything else is the reason of a no");
    Ok(match person.next_line().await?.as_deref() {
        Some("y") => Decision::Allow,
        Some("s") => Decision::AllowForSession,
        Some("c") => Decision::Cancel,
        Some(reason) => Decision::deny(reason),
        None => Decision::deny("nobody is there"),
    })
}
