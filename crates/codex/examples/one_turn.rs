//! One turn, streamed: `cargo run -p codex --example one_turn -- "your prompt" [worker command …]`.
//!
//! Any worker will do; without a command it is `codex app-server`.
#![expect(clippy::print_stdout, reason = "an example shows what it gets")]

use std::io::Write;

use codex::{Client, Options, ThreadOptions, TurnEvent};

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let prompt = arguments.next().unwrap_or_else(|| "Say hello.".into());
    let mut command: Vec<String> = arguments.collect();
    if command.is_empty() {
        command = vec!["codex".into(), "app-server".into()];
    }

    let client = Client::spawn(command, Options::new("one_turn", "1.0")).await?;
    let thread = client.start_thread(ThreadOptions::default()).await?;
    let mut turn = thread.start_turn(prompt).await?;
    while let Some(event) = turn.next().await {
        match event {
            TurnEvent::Text { text, .. } => {
                print!("{text}");
                std::io::stdout().flush()?;
            }
            TurnEvent::TokenUsage { total, .. } => println!("\n[{} tokens]", total.total_tokens),
            TurnEvent::TurnEnded { status, error } => println!("[{status:?} {error:?}]"),
            _ => {}
        }
    }
    client.stop().await;
    Ok(())
}
