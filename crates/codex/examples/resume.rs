//! A thread that goes on after its worker was restarted:
//! `cargo run -p codex --example resume -- "remember 7" "what was it?" [worker command …]`.
#![expect(clippy::print_stdout, reason = "an example shows what it gets")]

use codex::{CallError, Client, Options, ThreadOptions, Trap};

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let first = arguments.next().unwrap_or_else(|| "Remember the number 7.".into());
    let second = arguments.next().unwrap_or_else(|| "Which number was it?".into());
    let mut command: Vec<String> = arguments.collect();
    if command.is_empty() {
        command = vec!["codex".into(), "app-server".into()];
    }

    let client = Client::spawn(&command, Options::new("resume", "1.0")).await?;
    let thread = client.start_thread(ThreadOptions::default()).await?;
    println!("{}", thread.start_turn(first).await?.finish().await.text);
    let id = thread.id().to_owned();
    println!("[{}]", client.stop().await);

    let client = Client::spawn(&command, Options::new("resume", "1.0")).await?;
    match client.resume_thread(&id, ThreadOptions::default()).await {
        Ok(thread) => println!("{}", thread.start_turn(second).await?.finish().await.text),
        Err(error) => println!("{}", advice(&error)),
    }
    client.stop().await;
    Ok(())
}

/// The two ways in which a resume usually fails.
fn advice(error: &CallError) -> String {
    match error.trap() {
        Some(Trap::NeverRan) => {
            "this CODEX_HOME has no such thread: it never had a turn, or the home is another one".into()
        }
        Some(Trap::HeldElsewhere) => "another worker has the thread: stop it first".into(),
        _ => error.to_string(),
    }
}
